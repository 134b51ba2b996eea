"""A stored run as a regression test, in one line: `check_replay(agent, 'tests/cassettes/order.jsonl')`.

A cassette is a run as JSONL (`agent_graph.journal.jsonl.export_run`, or `agent-graph runs export`): one record a line, so
that a change diffs well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from typing_extensions import TypeVar

from agent_graph.agent import Agent
from agent_graph.errors import CodecError, ConfigError, ReplayMismatch
from agent_graph.journal.entries import Ended, Paused, Record
from agent_graph.journal.jsonl import import_run
from agent_graph.runner import RunResult

__all__ = ['CassetteMismatch', 'check_replay', 'replay_cassette']

Deps = TypeVar('Deps', default=None)
Output = TypeVar('Output', default=str)


class CassetteMismatch(ReplayMismatch, AssertionError):
    """The code goes another way than the cassette; the text names file, line, entry and field, and both values."""


def check_replay(
    agent: Agent[Deps, Output], path_or_records: str | Path | Sequence[Record], **options: Any
) -> RunResult[Output]:
    """Fail unless the agent, as it is now, goes the way of a recorded run; to be called in a plain test.

    Nothing happens: answers of the model and results of tools come from the recording. `options` are those of
    `Agent.replay`, such as `deps`. Returns the result, for further asserts; a recorded run that failed or waits for people
    gives a result of that status. Raises `CassetteMismatch` (an `AssertionError`) at the first difference, and
    `ConfigError` for a cassette that is missing, unreadable or stops in the middle.
    """
    __tracebackhide__ = True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise ConfigError('check_replay was called inside a running event loop; use "await replay_cassette(...)" there')
    try:
        return asyncio.run(replay_cassette(agent, path_or_records, **options))
    except CassetteMismatch as error:
        raise error.with_traceback(None) from None  # the frames of the event loop say nothing


async def replay_cassette(
    agent: Agent[Deps, Output], path_or_records: str | Path | Sequence[Record], **options: Any
) -> RunResult[Output]:
    """`check_replay`, for tests that are async."""
    __tracebackhide__ = True
    path = Path(path_or_records) if isinstance(path_or_records, str | Path) else None
    records, lines = _read(path) if path is not None else (_checked(path_or_records), [])
    _check_whole(records, path)
    try:
        return await agent.replay(records, **options)
    except ReplayMismatch as error:
        where = f'{path}:{lines[error.seq - 1]}: ' if path is not None and 0 < error.seq <= len(lines) else ''
        message = f'{where}{error}\nIf the change is meant, record the run anew.'
        raise CassetteMismatch(
            message, seq=error.seq, index=error.index, expected=error.expected, found=error.found
        ) from None


def _read(path: Path) -> tuple[list[Record], list[int]]:
    """The records of a file, and the line of each."""
    try:
        text = path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f'the cassette {str(path)!r} cannot be read: {error}; write one with '
            'path.write_text(export_run(await journal.load(run_id)))'
        ) from error
    try:
        records = import_run(text)
    except CodecError as error:
        raise ConfigError(f'the cassette {str(path)!r} is no exported run: {error}') from error
    return records, [number for number, line in enumerate(text.split('\n'), 1) if line.strip()]


def _checked(records: Any) -> list[Record]:
    if not isinstance(records, Sequence):
        raise ConfigError(f'{records!r} is no cassette; pass a path, or the records of a run')
    given: list[Any] = list(cast('Sequence[Any]', records))
    for index, record in enumerate(given):
        if not isinstance(record, Record):
            raise ConfigError(f'records[{index}] is {record!r}; pass a path, or the records of a run')
    return given


def _check_whole(records: Sequence[Record], path: Path | None) -> None:
    name = f'the cassette {str(path)!r}' if path is not None else 'the recording'
    if not records:
        raise ConfigError(f'{name} is empty; export a run into it')
    last = records[-1]
    if not isinstance(last.entry, Ended | Paused):
        raise ConfigError(
            f'{name} stops at entry {last.seq} ({last.entry.kind}), in the middle of a run; record it whole'
        )
