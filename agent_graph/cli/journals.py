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
    'check_new_id',
    'check_there',
    'elsewhere',
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
        found = _others(file)
        hint = f'{_named(found)}: ' if found else ''
        raise CommandError(
            f'there is no journal {str(file)!r}; {hint}pass --journal {found[0] if len(found) == 1 else "PATH"}, or set '
            f'{JOURNAL_VARIABLE}, to say where the runs are'
        )


def check_new_id(given: str | None) -> None:
    """An id for a new run is not empty, as it is where a script has forgotten to set it."""
    if given is not None and not given.strip():
        raise CommandError(f'--as {given!r} is no id; leave it out, or name the run')


def _others(file: Path | str) -> list[str]:
    """Other journals in the folder a journal is looked for in, as they may be passed to --journal."""
    folder = Path(file).parent
    try:
        found = sorted(one for one in folder.glob('*.db') if one.name != Path(file).name and _is_journal(one))
    except OSError:
        return []
    return [str(one) for one in found]


def elsewhere(file: Path | str) -> str:
    """Where runs that are not in this journal may be, as the rest of a sentence; empty if there is no other."""
    found = _others(file)
    return f'; {_named(found)}, see --journal' if found else ''


def _named(found: Sequence[str]) -> str:
    return f'there {"is" if len(found) == 1 else "are"} {_listed(found[:3], len(found))}'


_SQLITE = b'SQLite format 3\x00'
_OURS = 0x61676A6C
"""The application id of a journal, bytes 68 to 71 of its file; until its log is moved there, it stands in that."""


def _is_journal(file: Path) -> bool:
    try:
        if not file.is_file():
            return False
        with file.open('rb') as opened:
            head = opened.read(72)
    except OSError:
        return False
    number = int.from_bytes(head[68:72], 'big')
    return head.startswith(_SQLITE) and (number == _OURS or (not number and Path(f'{file}-wal').exists()))


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
    raise _no_run(journal, given, runs)


def _no_run(journal: Journal, given: str, runs: Sequence[RunInfo]) -> CommandError:
    file = os.path.relpath(journal.path) if isinstance(journal, SQLiteJournal) else ''
    where, more = (f'journal {file!r}', elsewhere(file)) if file else ('this journal', '')
    return CommandError(f'there is no run {given!r} in {where}; {_nearest(given, runs, more)}')


def _nearest(given: str, runs: Sequence[RunInfo], more: str) -> str:
    if not runs:
        return f'it holds no runs{more}'
    whole = [run.run_id for run in runs[:_NEAR]]
    heads: dict[str, str] = {}  # what was typed may be the beginning of an id, with a slip in it
    for run_id in whole:
        heads.setdefault(run_id[: len(given)], run_id)
    near = get_close_matches(given, whole, 3) or [heads[head] for head in get_close_matches(given, heads, 3)]
    if given and near:
        return f'did you mean {" or ".join(repr(run_id) for run_id in near)}?'
    return f'the newest: {_listed(whole[:3], len(runs))}{more}'


def _listed(ids: Sequence[str], total: int) -> str:
    more = f' and {total - len(ids)} more' if total > len(ids) else ''
    return ', '.join(repr(one) for one in ids) + more
