"""`agent-graph runs tail`: the entries of a run as they are written."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer

from agent_graph.cli.entries import entry_text
from agent_graph.cli.exits import Exit
from agent_graph.cli.journals import JournalOption, JsonOption, RunArgument, find_run, with_journal
from agent_graph.cli.machine import record_data, write_json
from agent_graph.cli.outlet import is_closed, watch_reader
from agent_graph.cli.stopping import Stopper
from agent_graph.cli.terminal import Terminal, open_terminal
from agent_graph.journal import Journal
from agent_graph.journal.entries import Record
from agent_graph.journal.sqlite import SQLiteJournal

__all__ = ['tail']

_STYLES = {'entered': 'bold cyan', 'paused': 'bold yellow', 'answered': 'yellow', 'ended': 'bold'}


def tail(
    run: RunArgument,
    after: Annotated[int, typer.Option(min=0, metavar='N', help='Begin behind entry N.')] = 0,
    no_follow: Annotated[
        bool, typer.Option('--no-follow', help='Show what there is, and do not wait for more.')
    ] = False,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the journal entries of a run as they are written, also by another process, until the run ends.

    A run that waits for people has not ended: leave with Ctrl-C, or pass --no-follow. To go on where you left, pass the
    last number you saw as --after: nothing is missed and nothing comes twice. It also ends when nobody reads its output any
    more. With --json one record a line, in the form of `runs export`.

    Exit codes: 0 the run has ended, --no-follow, or the output was closed; 2 no such run, or a journal that cannot be used; 130 left with
    Ctrl-C; 143 ended by SIGTERM.
    """
    raise typer.Exit(with_journal(journal, lambda opened: _tail(opened, run, after, no_follow, as_json)))


async def _tail(journal: SQLiteJournal, given: str, after: int, no_follow: bool, as_json: bool) -> Exit:
    info = await find_run(journal, given)
    out = open_terminal()
    if no_follow:
        for record in await journal.load(info.run_id, after=after):
            _show(out, record, as_json)
        return Exit.COMPLETED
    with Stopper() as stopper, watch_reader(stopper.stop):
        try:
            await _follow(journal, info.run_id, after, out, as_json)
        except asyncio.CancelledError:
            if not stopper.caught():
                raise
    return stopper.exit or Exit.COMPLETED


async def _follow(journal: Journal, run_id: str, after: int, out: Terminal, as_json: bool) -> None:
    async for record in journal.follow(run_id, after=after):
        _show(out, record, as_json)
        if is_closed():
            return


def _show(out: Terminal, record: Record, as_json: bool) -> None:
    if as_json:
        write_json(record_data(record))
        return
    kind = record.entry.kind
    text = f'{record.seq:>4}  {_clock(record.time)}  {kind:13} {entry_text(record.entry)}'
    out.line(text.replace('\n', ' ').rstrip(), _STYLES.get(kind, ''))


def _clock(at: float) -> str:
    try:
        return f'{time.strftime("%H:%M:%S", time.localtime(at))}.{int(at * 1000) % 1000:03}'
    except (ValueError, OverflowError, OSError):
        return f'{at:g}'
