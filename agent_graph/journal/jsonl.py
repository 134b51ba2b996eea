"""A run as text, one record a line: to keep as a test's cassette, to move to another journal, to `diff`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_graph.errors import CodecError
from agent_graph.journal.codec import decode_record, encode_record
from agent_graph.journal.entries import Record
from agent_graph.messages.versioned import shorten

__all__ = ['export_run', 'import_run']


def export_run(records: Iterable[Record]) -> str:
    """Records as JSONL, keys always in the same order; the text of equal records is equal.

    Raises `CodecError` naming the value that JSON cannot hold.
    """
    return ''.join(f'{encode_record(r).decode()}\n' for r in records)


def import_run(text: str) -> list[Record]:
    """The records in a text of `export_run`, exactly; empty lines are passed over.

    Raises `CodecError` naming the line that cannot be read or whose `seq` does not count on from 1.
    """
    records: list[Record] = []
    # Not splitlines(): that also splits at separators that are legal inside JSON strings.
    for number, line in enumerate(text.split('\n'), 1):
        if line.strip():
            records.append(_read(line, number, len(records) + 1))
    return records


def _read(line: str, number: int, expected: int) -> Record:
    try:
        record = decode_record(line)
    except CodecError as error:
        raise CodecError(f'line {number}, {shorten(line)}: {error}') from error
    if record.seq != expected:
        raise CodecError(
            f'line {number} has seq {record.seq!r}, expected {expected}: records are missing or out of order'
        )
    return record
