"""The journal a command works on, and finding a run in it by its id or by the beginning of one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from agent_graph.agent import Agent
from agent_graph.cli.exits import CommandError, one_line
from agent_graph.errors import AgentGraphError, UnknownRun
from agent_graph.journal import Journal
from agent_graph.journal.entries import RunInfo
from agent_graph.journal.sqlite import SQLiteJournal

__all__ = [
    'DEFAULT_JOURNAL',
    'JOURNAL_VARIABLE',
    'JournalOption',
    'JsonOption',
    'RunArgument',
    'check_there',
    'find_run',
    'journal_for',
    'with_journal',
]

DEFAULT_JOURNAL = Path('agent_graph.db')
"""Where runs go, and are looked for, when neither the command nor the agent says where."""

JOURNAL_VARIABLE = 'AGENT_GRAPH_JOURNAL'

JournalOption = Annotated[
    Path | None,
    typer.Option(
        '--journal',
        metavar='PATH',
        envvar=JOURNAL_VARIABLE,
        help='The SQLite file with the runs. Default: ./agent_graph.db.',
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option('--json', help='For programs: JSON, one object a line.')]
RunArgument = Annotated[
    str, typer.Argument(metavar='ID', help='The id of a run, or the beginning of one.', show_default=False)
]

T = TypeVar('T')

_NEAR = 1000
"""A mistyped id is compared with so many ids, the newest."""


def journal_for(agent: Agent[Any, Any], path: Path | None) -> tuple[Journal, str]:
    """The journal an agent's run is recorded in, and the path of its file (empty if it is no SQLite file)."""
    if path is None and agent.journal is not None:
        own = agent.journal
        return own, os.path.relpath(own.path) if isinstance(own, SQLiteJournal) else ''
    path = path or DEFAULT_JOURNAL
    return SQLiteJournal(path), str(path)


def with_journal(path: Path | None, work: Callable[[SQLiteJournal], Awaitable[T]], *, make: bool = False) -> T:
    """What `work` returns for the journal at `path`; what a user can mend is raised as a `CommandError`.

    A file that is not there is an error, unless it is to be made.
    """
    file = path or DEFAULT_JOURNAL
    if not make:
        check_there(file)

    async def run() -> T:
        async with SQLiteJournal(file) as journal:
            return await work(journal)

    try:
        return asyncio.run(run())
    except AgentGraphError as error:
        raise CommandError(one_line(error)) from error


def check_there(file: Path | str) -> None:
    """Looking at a journal must not make one."""
    if not Path(file).exists():
        raise CommandError(
            f'there is no journal {str(file)!r}; pass --journal PATH, or set {JOURNAL_VARIABLE}, to say where the runs are'
        )


async def find_run(journal: Journal, given: str) -> RunInfo:
    """The run of this id, or the only one whose id begins so; raises `CommandError` naming the nearest ids."""
    try:
        return await journal.info(given)
    except UnknownRun:
        pass
    runs = await journal.runs()
    found = [run for run in runs if given and run.run_id.startswith(given)]
    inside = {run.run_id for run in found if run.parent is not None and run.parent.run_id.startswith(given)}
    outermost = [run for run in found if run.run_id not in inside]
    if len(outermost) == 1:
        return outermost[0]
    if outermost:
        some = [run.run_id for run in outermost[:3]]
        raise CommandError(
            f'{given!r} begins {len(outermost)} run ids: {_listed(some, len(outermost))}; give more of it'
        )
    raise CommandError(f'there is no run {given!r} in this journal; {_nearest(given, runs)}')


def _nearest(given: str, runs: Sequence[RunInfo]) -> str:
    if not runs:
        return 'it holds no runs'
    whole = [run.run_id for run in runs[:_NEAR]]
    heads: dict[str, str] = {}  # what was typed may be the beginning of an id, with a slip in it
    for run_id in whole:
        heads.setdefault(run_id[: len(given)], run_id)
    near = get_close_matches(given, whole, 3) or [heads[head] for head in get_close_matches(given, heads, 3)]
    if given and near:
        return f'did you mean {" or ".join(repr(run_id) for run_id in near)}?'
    return f'the newest: {_listed(whole[:3], len(runs))}'


def _listed(ids: Sequence[str], total: int) -> str:
    more = f' and {total - len(ids)} more' if total > len(ids) else ''
    return ', '.join(repr(run_id) for run_id in ids) + more
