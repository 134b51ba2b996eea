"""`agent-graph runs list`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.cells import cell_len

from agent_graph.cli.exits import CommandError
from agent_graph.cli.facts import Place, time_text
from agent_graph.cli.journals import DEFAULT_JOURNAL, JournalOption, JsonOption, elsewhere, with_journal
from agent_graph.cli.machine import info_data, write_json
from agent_graph.cli.runs.standing import STORED, STYLES, Standing, is_open, standing
from agent_graph.cli.terminal import open_terminal, printable
from agent_graph.errors import UnknownRun
from agent_graph.journal import Journal
from agent_graph.journal.entries import RunInfo
from agent_graph.render.wording import short

__all__ = ['list_runs', 'moment']

_UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}


def list_runs(
    status: Annotated[Standing | None, typer.Option(help='Only runs that stand so.', show_default=False)] = None,
    agent: Annotated[
        str | None, typer.Option(metavar='NAME', help='Only runs of this agent.', show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar='TIME',
            help='Only runs begun since then: 30m, 2h, 3d, 1w ago, or a date such as 2026-03-01 or 2026-03-01T09:30.',
            show_default=False,
        ),
    ] = None,
    outermost: Annotated[
        bool, typer.Option('--outermost', help='Leave out runs that were started inside another one.')
    ] = False,
    limit: Annotated[int, typer.Option(min=0, metavar='N', help='At most so many; 0 for all.')] = 50,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, the newest first: id, agent, status, when it began, how many entries, and where it came from.

    `running`: somebody drives it now. `paused`: it waits for people. `answered`: it waits for nobody any more. `stopped`: it
    was left, forked or imported before its end. `died`: its process is gone, or has given no sign of life for longer than
    its lease. `runs resume` goes on with the last three. `completed`, `failed`, `cancelled`: it has ended.

    With --json one object a line: `run_id`, `agent`, `state` (the words above), `status` (its newest entry alone: `running`
    also for what is answered, stopped or died), `created` and `updated` (Unix seconds), `entries`, `parent` (the tool call
    it was started from), `forked_from`.

    Exit codes: 0 listed, also when there are none; 2 wrong arguments, or a journal that cannot be used.
    """
    start = None if since is None else moment(since, time.time())
    most = limit + 1 if limit else None
    wanted = _Wanted(status, agent, start, outermost)
    found = with_journal(journal, lambda opened: _find(opened, wanted, most))
    shown = found[:limit] if limit else found
    if as_json:
        for info, stands in shown:
            write_json(info_data(info, stands))
        return
    _show(shown, journal, everything=wanted == _Wanted())
    if len(found) > len(shown):
        open_terminal().line(f'older runs are not shown; --limit {2 * limit} shows more, --limit 0 all', 'dim')


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which runs are asked for."""

    stands: Standing | None = None
    agent: str | None = None
    since: float | None = None
    outermost: bool = False


async def _find(journal: Journal, wanted: _Wanted, most: int | None) -> list[tuple[RunInfo, Standing]]:
    """The runs that stand as wanted, with how they stand; at most so many."""
    found: list[tuple[RunInfo, Standing]] = []
    for info in await _candidates(journal, wanted, most):
        if len(found) == most:
            break
        if wanted.outermost and info.parent is not None:
            continue
        try:
            stands = await standing(journal, info)
        except UnknownRun:  # deleted meanwhile
            continue
        if wanted.stands in (None, stands):
            found.append((info, stands))
    return found


async def _candidates(journal: Journal, wanted: _Wanted, most: int | None) -> list[RunInfo]:
    """Runs that may be wanted, the newest first. Only what the store can tell by itself may be limited there."""
    if wanted.outermost:
        most = None
    if wanted.stands is None:
        return await journal.runs(agent=wanted.agent, since=wanted.since, limit=most)
    stored = STORED[wanted.stands]
    some = [
        await journal.runs(
            status=status, agent=wanted.agent, since=wanted.since, limit=most if len(stored) == 1 else None
        )
        for status in stored
    ]
    return sorted((info for infos in some for info in infos), key=lambda info: info.created, reverse=True)


def moment(text: str, now: float) -> float:
    """A time as people write it, in Unix seconds: how long ago, or a date in local time. Raises `CommandError`."""
    ago = re.fullmatch(r'(\d{1,9})([smhdw])', text.strip())
    if ago:
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise CommandError(
            f'--since {text!r} is no time; write how long ago (30m, 2h, 3d, 1w) or a date (2026-03-01, 2026-03-01T09:30)'
        ) from error


def _show(runs: Sequence[tuple[RunInfo, Standing]], journal: Path | None, *, everything: bool) -> None:
    out = open_terminal()
    if not runs:
        out.line(f'no runs{elsewhere(journal or DEFAULT_JOURNAL) if everything else ""}')
        return
    rows = [_row(info, stands) for info, stands in runs]
    head = ('run', 'agent', 'status', 'began', 'entries', '')
    widths = [max(cell_len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    out.line(_aligned(head, widths), 'bold')
    for (_, stands), row in zip(runs, rows, strict=True):
        out.line(_aligned(row, widths), STYLES.get(stands, ''))
    words = list(dict.fromkeys(stands for _, stands in runs if is_open(stands)))
    if words:
        place = Place(str(journal or DEFAULT_JOURNAL))
        out.line(f'{", ".join(words)}: to go on, {place.command("runs", "resume", "ID", target=True)}', 'dim')


def _row(info: RunInfo, stands: Standing) -> tuple[str, ...]:
    began = time_text(info.created)
    cells = (info.run_id, short(info.agent or '-', 24), stands, began, str(info.last_seq), _origin(info))
    return tuple(printable(' '.join(cell.split())) for cell in cells)


def _origin(info: RunInfo) -> str:
    if info.forked_from is not None:
        return f'fork of {info.forked_from[0]} at {info.forked_from[1]}'
    return '' if info.parent is None else f'inside {info.parent.run_id}, call {info.parent.tool_call_id}'


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + ' ' * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
    return '  '.join(padded).rstrip()
