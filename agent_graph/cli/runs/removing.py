"""`agent-graph runs cancel`, `delete` and `vacuum`: ending runs, and doing away with them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from agent_graph.cli.journals import DEFAULT_JOURNAL, JournalOption, JsonOption, RunArgument, find_run, with_journal
from agent_graph.cli.machine import info_data, write_json
from agent_graph.cli.terminal import open_terminal
from agent_graph.engine.control import cancel_run
from agent_graph.engine.lease import take
from agent_graph.errors import RunLocked, UnknownRun
from agent_graph.journal import Journal, Lease
from agent_graph.journal.entries import RunInfo
from agent_graph.journal.sqlite import SQLiteJournal

__all__ = ['cancel', 'delete', 'vacuum']


def cancel(run: RunArgument, journal: JournalOption = None, as_json: JsonOption = False) -> None:
    """Cancel a run that has not ended, also one that another process drives: it stops at its next write.

    With --json one object, as in `runs list`.

    Exit codes: 0 cancelled, or it had ended before; 2 no such run, or a journal that cannot be used.
    """
    before, after = with_journal(journal, lambda opened: _cancel(opened, run))
    if as_json:
        write_json(info_data(after, after.status))
    elif before.status == after.status:
        open_terminal().line(f'run {after.run_id} had ended before: {after.status}')
    else:
        open_terminal().line(f'run {after.run_id} is cancelled')


async def _cancel(journal: Journal, given: str) -> tuple[RunInfo, RunInfo]:
    before = await find_run(journal, given)
    await cancel_run(journal, before.run_id)
    return before, await journal.info(before.run_id)


def delete(
    run: Annotated[
        list[str], typer.Argument(metavar='ID...', help='Ids of runs, or beginnings of them.', show_default=False)
    ],
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete runs, with the runs of agents inside their tools; what a fork shares with them stays for the fork.

    A run that another process drives is not deleted: cancel it first. Of several ids either all are found or nothing is
    deleted. `runs vacuum` gives the disk space back. With --json one object: `deleted`, the ids.

    Exit codes: 0 deleted; 2 no such run, or one that is being driven, or a journal that cannot be used.
    """
    deleted = with_journal(journal, lambda opened: _delete(opened, run))
    if as_json:
        write_json({'deleted': deleted})
        return
    for run_id in deleted:
        open_terminal().line(f'deleted {run_id}')


async def _delete(journal: Journal, given: Sequence[str]) -> list[str]:
    found = [await find_run(journal, one) for one in given]
    everything = await journal.runs()
    doomed: dict[str, RunInfo] = {}
    for info in found:
        for one in _with_inner(info, everything):
            doomed[one.run_id] = one
    await _check_idle(journal, list(doomed.values()))
    for run_id in doomed:
        with suppress(UnknownRun):  # a store may take inner runs along with the outer one
            await journal.delete(run_id)
    return list(doomed)


async def _check_idle(journal: Journal, runs: Sequence[RunInfo]) -> None:
    """Refuse while the driver of one of these runs lives; otherwise nobody can take them any more."""
    leases: list[Lease] = []
    try:
        for info in (info for info in runs if info.status == 'running'):
            lease = await take(journal, info.run_id)
            leases.append(lease)
    except RunLocked:
        for lease in leases:
            await journal.release(lease)
        raise


def _with_inner(info: RunInfo, everything: Sequence[RunInfo]) -> list[RunInfo]:
    """A run, and every run that was started inside its tools."""
    found, todo = [info], [info.run_id]
    while todo:
        outer = todo.pop()
        inner = [run for run in everything if run.parent is not None and run.parent.run_id == outer]
        found += inner
        todo += [run.run_id for run in inner]
    return found


def vacuum(journal: JournalOption = None, as_json: JsonOption = False) -> None:
    """Give the disk space of deleted runs back. Writes of other processes wait meanwhile.

    It needs as much free space as the journal uses. With --json one object: `before` and `after`, bytes.

    Exit codes: 0 done; 2 a journal that cannot be used.
    """
    file = journal or DEFAULT_JOURNAL
    before, after = with_journal(journal, lambda opened: _vacuum(opened, file))
    if as_json:
        write_json({'before': before, 'after': after})
        return
    open_terminal().line(f'{file}: {before:,} bytes before, {after:,} after')


async def _vacuum(journal: SQLiteJournal, file: Path) -> tuple[int, int]:
    before = _size(file)
    await journal.vacuum()
    return before, _size(file)


def _size(file: Path) -> int:
    """With what has not been moved from the write-ahead log into the file yet."""
    wal = file.with_name(f'{file.name}-wal')
    return file.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
