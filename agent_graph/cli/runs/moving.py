"""`agent-graph runs export` and `import`: a run as a text file, exactly, and back."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agent_graph.cli.exits import CommandError, file_problem
from agent_graph.cli.facts import counted
from agent_graph.cli.journals import JournalOption, JsonOption, RunArgument, check_new_id, with_journal
from agent_graph.cli.machine import info_data, write_json
from agent_graph.cli.runs.reading import Stored, read_run
from agent_graph.cli.runs.standing import Standing, standing
from agent_graph.cli.terminal import open_terminal
from agent_graph.engine.effects import LEASE_SECONDS
from agent_graph.engine.lease import new_owner
from agent_graph.errors import CodecError, RunExists
from agent_graph.journal import Journal
from agent_graph.journal.entries import Record, RunInfo, Started
from agent_graph.journal.jsonl import export_run, import_run

__all__ = ['export', 'import_']

_UNSAFE = re.compile('[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]')
"""What JSON leaves as it is and a terminal may act on."""


def export(
    run: RunArgument,
    file: Annotated[
        Path | None, typer.Argument(metavar='[FILE]', help='Default: standard output.', show_default=False)
    ] = None,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run as JSONL, one journal entry a line: a cassette for tests, or to move it to another journal.

    Name the file ID.jsonl, and `runs import` knows the id again. A file of that name is replaced. Runs of agents inside
    tools are runs of their own: export them as well, if they are needed. With --json and a FILE, one object says what was
    written: `run_id`, `file`, `entries`.

    Exit codes: 0 written; 2 no such run, a FILE that cannot be written, or a journal that cannot be used.
    """
    stored = with_journal(journal, lambda opened: read_run(opened, run))
    text = export_run(stored.records)
    if file is None:
        _print(text)
        return
    try:
        file.write_text(text, encoding='utf-8', newline='\n')
    except OSError as error:
        raise CommandError(f'{str(file)!r} cannot be written: {file_problem(error)}') from error
    _written(stored, file, as_json)


def _print(text: str) -> None:
    """As it is; on a terminal, characters it might act on as the escapes JSON has for them."""
    if sys.stdout.isatty():
        print(_UNSAFE.sub(lambda found: f'\\u{ord(found[0]):04x}', text), end='')
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _written(stored: Stored, file: Path, as_json: bool) -> None:
    if as_json:
        write_json({'run_id': stored.info.run_id, 'file': str(file), 'entries': len(stored.records)})
        return
    open_terminal().line(f'{counted(len(stored.records), "entry")} of run {stored.info.run_id} in {file}')


def import_(
    file: Annotated[
        str, typer.Argument(metavar='FILE', help='A file of `runs export`; "-" for standard input.', show_default=False)
    ],
    new_id: Annotated[
        str | None,
        typer.Option('--as', metavar='NEWID', help='The id of the run. Default: the name of FILE without .jsonl.'),
    ] = None,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put an exported run into a journal, all of it or nothing; the journal is made if there is none.

    With --json one object, as in `runs list`.

    Exit codes: 0 imported; 2 the id is taken, FILE is no export, or the journal cannot be used: nothing was written.
    """
    check_new_id(new_id)
    run_id = new_id or _id_of(file)
    try:
        records = import_run(_text_of(file))
    except CodecError as error:
        raise CommandError(f'{file!r} is no export of a run: {error}') from error
    if not records or not isinstance(records[0].entry, Started):
        raise CommandError(f'{file!r} is no export of a run: it does not begin with the start of one')
    made, stands = with_journal(journal, lambda opened: _import(opened, run_id, records), make=True)
    if as_json:
        write_json(info_data(made, stands))
        return
    open_terminal().line(f'imported as run {made.run_id}: {counted(made.last_seq, "entry")}, {stands}')


def _id_of(file: str) -> str:
    if file == '-':
        raise CommandError('what comes from standard input has no name to take the id from: pass --as NEWID')
    return Path(file).name.removesuffix('.jsonl')


def _text_of(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == '-' else Path(file).read_bytes()
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f'{file!r} cannot be read: {file_problem(error)}') from error


async def _import(journal: Journal, run_id: str, records: Sequence[Record]) -> tuple[RunInfo, Standing]:
    try:
        lease = await journal.create(run_id, records, owner=new_owner(), ttl=LEASE_SECONDS)
    except RunExists as error:
        raise CommandError(
            f'run {run_id!r} is in this journal already; pass --as NEWID to import it under another id'
        ) from error
    await journal.release(lease)
    made = await journal.info(run_id)
    return made, await standing(journal, made)
