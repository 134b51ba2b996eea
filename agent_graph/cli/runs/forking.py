"""`agent-graph runs fork`: another future for a stored run."""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from agent_graph.cli.exits import CommandError, file_problem
from agent_graph.cli.facts import Place
from agent_graph.cli.journals import (
    DEFAULT_JOURNAL,
    JournalOption,
    JsonOption,
    RunArgument,
    check_new_id,
    find_run,
    with_journal,
)
from agent_graph.cli.machine import info_data, write_json
from agent_graph.cli.runs.standing import Standing, standing
from agent_graph.cli.terminal import open_terminal
from agent_graph.engine.forks import fork_run
from agent_graph.engine.state import RunState
from agent_graph.errors import CodecError
from agent_graph.journal import Journal
from agent_graph.journal.entries import RunInfo
from agent_graph.messages import load_json

__all__ = ['fork', 'read_edit']

NewIdOption = Annotated[
    str | None, typer.Option('--as', metavar='NEWID', help='The id of the new run.', show_default=False)
]


def fork(
    run: RunArgument,
    at: Annotated[
        str | None,
        typer.Option(
            metavar='N',
            help='Share the entries up to N (see `runs steps`), or up to the last entry of the node of this name. '
            'Default: the newest entry before the end.',
            show_default=False,
        ),
    ] = None,
    edit: Annotated[
        Path | None,
        typer.Option(
            metavar='FILE', help='JSON with the messages, the metadata or both as they are to be.', show_default=False
        ),
    ] = None,
    new_id: NewIdOption = None,
    journal: JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new run that shares the past of another up to some entry, by reference; the original is untouched.

    FILE is a list of messages, or an object with `messages` and/or `metadata`: what `runs show ID --at N --json` prints,
    changed in these two. Its other fields are not read. A message list that leaves a tool call unanswered is completed.
    The new run does nothing until `runs resume` goes on with it.

    With --json one object, as in `runs list`.

    Exit codes: 0 made; 2 no such run or entry, a FILE that cannot be read, or a journal that cannot be used.
    """
    check_new_id(new_id)
    change = None if edit is None else read_edit(edit)
    point = int(at) if at is not None and at.isascii() and at.isdecimal() else at
    made, stands = with_journal(journal, lambda opened: _fork(opened, run, point, change, new_id))
    if as_json:
        write_json(info_data(made, stands))
        return
    out = open_terminal()
    source, seq = made.forked_from or ('', 0)
    out.line(f'forked {source} after entry {seq}', 'green')
    out.line(f'run id   {made.run_id}')
    place = Place(str(journal or DEFAULT_JOURNAL))
    out.line(f'go on    {place.command("runs", "resume", made.run_id, target=True)}')


async def _fork(
    journal: Journal, given: str, at: int | str | None, edit: Callable[[RunState], Any] | None, new_id: str | None
) -> tuple[RunInfo, Standing]:
    source = await find_run(journal, given)
    run_id = await fork_run(journal, source.run_id, at=at, edit=edit, replacement=None, new_id=new_id)
    made = await journal.info(run_id)
    return made, await standing(journal, made)


_KNOWN = (
    *(
        'v',
        'run_id',
        'agent',
        'status',
        'state',
        'created',
        'updated',
        'entries',
        'parent',
        'forked_from',
        'at',
        'prompt',
    ),
    *('limits', 'confirm', 'models', 'usage', 'cost', 'seconds', 'output', 'error', 'error_type', 'pending'),
)
"""What `runs show --json` gives besides; anything else in a FILE is a slip."""


def read_edit(file: Path) -> Callable[[RunState], None]:
    """What a FILE of --edit changes; raises `CommandError` if it is not one."""
    try:
        data: object = json.loads(file.read_text(encoding='utf-8'))
    except (OSError, ValueError, RecursionError) as error:
        raise CommandError(f'--edit {str(file)!r} cannot be read: {file_problem(error)}') from error
    fields: object = {'messages': cast('list[Any]', data)} if isinstance(data, list) else data
    if not isinstance(fields, dict):
        raise CommandError(f'--edit {str(file)!r} holds neither a list of messages nor an object with some')
    return _change(str(file), cast('dict[str, Any]', fields))


def _change(file: str, fields: dict[str, Any]) -> Callable[[RunState], None]:
    for name in fields:
        if name not in ('messages', 'metadata', *_KNOWN):
            near = get_close_matches(name, ('messages', 'metadata'), 1)
            hint = f'; did you mean {near[0]!r}?' if near else '; it may have messages and metadata'
            raise CommandError(f'--edit {file!r} has a field {name!r} that is not known{hint}')
    if 'messages' not in fields and 'metadata' not in fields:
        raise CommandError(f'--edit {file!r} changes nothing: it has neither messages nor metadata')
    metadata: Any = fields.get('metadata')
    if metadata is not None and not isinstance(metadata, dict):
        raise CommandError(f'--edit {file!r}: metadata is {metadata!r}, expected an object or null')
    messages = _messages(file, fields) if 'messages' in fields else None

    def edit(state: RunState) -> None:
        if messages is not None:
            state.messages = messages
        if 'metadata' in fields:
            state.metadata = cast('dict[str, Any] | None', metadata)

    return edit


def _messages(file: str, fields: dict[str, Any]) -> list[Any]:
    try:
        return load_json(json.dumps({'v': fields.get('v', 1), 'messages': fields['messages']}))
    except CodecError as error:
        raise CommandError(f'--edit {file!r}: {error}') from error
