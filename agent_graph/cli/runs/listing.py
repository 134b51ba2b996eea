"""`agent-graph runs list`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.cells import cell_len

from agent_graph.cli.exits import CommandError
from agent_graph.cli.facts import time_text
from agent_graph.cli.journals import JournalOption, JsonOption, with_journal
from agent_graph.cli.machine import info_data, write_json
from agent_graph.cli.terminal import open_terminal, printable
from agent_graph.journal.entries import RunInfo, RunStatus
from agent_graph.render.wording import short

__all__ = ['STYLES', 'list_runs', 'moment']

STYLES: dict[RunStatus, str] = {'running': 'cyan', 'paused': 'yellow', 'failed': 'red', 'cancelled': 'dim'}

_UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}


def list_runs(
    status: Annotated[RunStatus | None, typer.Option(help='Only runs that stand so.', show_default=False)] = None,
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
    limit: Annotated[int, typer.Option(min=0, metavar='N', help='At most so many; 0 for all.')] = 50,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, the newest first: id, agent, status, when it began, how many entries, and where it came from.

    `running` is also a run whose process died: `runs resume` goes on with it. With --json one object a line: `run_id`,
    `agent`, `status`, `created` and `updated` (Unix seconds), `entries`, `parent` (the tool call it was started from),
    `forked_from`.

    Exit codes: 0 listed, also when there are none; 2 wrong arguments, or a journal that cannot be used.
    """
    start = None if since is None else moment(since, time.time())
    found = with_journal(
        journal,
        lambda opened: opened.runs(status=status, agent=agent, since=start, limit=limit + 1 if limit else None),
    )
    shown = found[:limit] if limit else found
    if as_json:
        for info in shown:
            write_json(info_data(info))
        return
    _show(shown)
    if len(found) > len(shown):
        open_terminal().line(f'older runs are not shown; --limit {2 * limit} shows more, --limit 0 all', 'dim')


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


def _show(runs: Sequence[RunInfo]) -> None:
    out = open_terminal()
    if not runs:
        out.line('no runs')
        return
    rows = [_row(info) for info in runs]
    head = ('run', 'agent', 'status', 'began', 'entries', '')
    widths = [max(cell_len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    out.line(_aligned(head, widths), 'bold')
    for info, row in zip(runs, rows, strict=True):
        out.line(_aligned(row, widths), STYLES.get(info.status, ''))


def _row(info: RunInfo) -> tuple[str, ...]:
    began = time_text(info.created)
    cells = (info.run_id, short(info.agent or '-', 24), info.status, began, str(info.last_seq), _origin(info))
    return tuple(printable(' '.join(cell.split())) for cell in cells)


def _origin(info: RunInfo) -> str:
    if info.forked_from is not None:
        return f'fork of {info.forked_from[0]} at {info.forked_from[1]}'
    return '' if info.parent is None else f'inside {info.parent.run_id}, call {info.parent.tool_call_id}'


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + ' ' * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
    return '  '.join(padded).rstrip()
