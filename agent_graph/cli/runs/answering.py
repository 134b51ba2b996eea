"""`agent-graph runs approve`, `deny` and `answer`: what people say to a run that waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_graph.cli.dialog import read_input
from agent_graph.cli.exits import CommandError
from agent_graph.cli.facts import Place, call_path, counted
from agent_graph.cli.journals import DEFAULT_JOURNAL, JsonOption, RunArgument, with_journal
from agent_graph.cli.machine import pending_data, write_json
from agent_graph.cli.people import Verb, find_call, given_answer
from agent_graph.cli.run import DepsOption, ModelOption
from agent_graph.cli.runs.reading import Stored, read_run, still_waiting
from agent_graph.cli.runs.resuming import OwnJournalOption, TargetOption, go_on, open_target
from agent_graph.cli.terminal import open_terminal
from agent_graph.engine.answers import check_unused
from agent_graph.engine.control import record_answers
from agent_graph.journal import Journal
from agent_graph.pending import Pending
from agent_graph.render.wording import call_text, waiting_text

__all__ = ['answer', 'approve', 'deny']

CallArgument = Annotated[
    str,
    typer.Argument(
        metavar='CALL',
        help='The id of the waiting call, of one inside another: OUTER/INNER; or its token.',
        show_default=False,
    ),
]


def approve(
    run: RunArgument,
    call: CallArgument,
    args: Annotated[
        str | None,
        typer.Option(
            '--args',
            metavar='JSON',
            help="Run it with these arguments instead of the model's; needs --target, whose tool checks them.",
            show_default=False,
        ),
    ] = None,
    target: TargetOption = None,
    model: ModelOption = None,
    deps: DepsOption = None,
    journal: OwnJournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Allow a call that waits for approval, or let one that a crash cut off be run again.

    The answer is recorded, once; `runs resume` goes on. With --target the run goes on at once. With --json one object:
    `run_id`, `tool_call_id`, `path`, `answer` and `pending`, what still waits; with --target as `runs resume --json`.

    Exit codes: 0 recorded, or the run completed; 1 it failed; 2 refused, nothing was recorded; 3 it waits for more.
    """
    if args is not None and target is None:
        raise CommandError(
            'new arguments have to be checked by the tool before they are recorded: pass --target module:variable too'
        )
    _give(_Command('approve', run, call, '', args, target, model, deps, journal, as_json))


def deny(
    run: RunArgument,
    call: CallArgument,
    message: Annotated[
        str, typer.Argument(metavar='[MESSAGE]', help='Why; the model is told.', show_default=False)
    ] = '',
    target: TargetOption = None,
    model: ModelOption = None,
    deps: DepsOption = None,
    journal: OwnJournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Refuse a call that waits; it is not run later in this run either, even if the model asks again.

    The answer is recorded, once; `runs resume` goes on. With --target the run goes on at once. With --json one object:
    `run_id`, `tool_call_id`, `path`, `answer` and `pending`, what still waits; with --target as `runs resume --json`.

    Exit codes: 0 recorded, or the run completed; 1 it failed; 2 refused, nothing was recorded; 3 it waits for more.
    """
    _give(_Command('deny', run, call, message, None, target, model, deps, journal, as_json))


def answer(
    run: RunArgument,
    call: CallArgument,
    value: Annotated[
        str,
        typer.Argument(
            metavar='VALUE', help='The answer: JSON, or a text; "-" reads it from standard input.', show_default=False
        ),
    ],
    target: TargetOption = None,
    model: ModelOption = None,
    deps: DepsOption = None,
    journal: OwnJournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question a tool asked, or hand in the result of a call that somebody else does.

    What is JSON is taken as such, unless the question wants a text; everything else is a text. The answer is checked
    against what was asked, and recorded, once; `runs resume` goes on. With --target the run goes on at once. With --json
    one object: `run_id`, `tool_call_id`, `path`, `answer` and `pending`, what still waits; with --target as `runs resume
    --json`.

    Exit codes: 0 recorded, or the run completed; 1 it failed; 2 refused, nothing was recorded; 3 it waits for more.
    """
    text = read_input('the answer') if value == '-' else value
    _give(_Command('answer', run, call, text, None, target, model, deps, journal, as_json))


@dataclass(frozen=True, slots=True)
class _Command:
    """What was typed."""

    verb: Verb
    run: str
    call: str
    text: str = ''
    args: str | None = None
    target: str | None = None
    model: str | None = None
    deps: str | None = None
    journal: Path | None = None
    as_json: bool = False


def _give(command: _Command) -> None:
    if command.target is not None:
        _go_on(command, command.target)
        return
    run_id, pending, left = with_journal(command.journal, lambda journal: _record(journal, command))
    if command.as_json:
        told = {'run_id': run_id, 'tool_call_id': pending.tool_call_id, 'path': pending.path, 'answer': command.verb}
        write_json({**told, 'pending': pending_data(left)})
        return
    _say(command, run_id, pending, left)


async def _find(journal: Journal, command: _Command) -> tuple[Stored, Pending]:
    stored = await read_run(journal, command.run)
    state = stored.state
    answered = {*state.finished, *state.decided, *state.asked}
    return stored, find_call(await still_waiting(journal, state), command.call, answered)


def _given(command: _Command, stored: Stored, pending: Pending) -> Any:
    """The answer; refused if the same command may have been given before, to something else of that name."""
    given = given_answer(command.verb, pending, text=command.text, args=command.args)
    by_path = pending.path and command.call == call_path(pending)
    check_unused(stored.state, pending, (*pending.path, pending.tool_call_id) if by_path else command.call, given)
    return given


async def _record(journal: Journal, command: _Command) -> tuple[str, Pending, tuple[Pending, ...]]:
    """The run, what was answered, and what still waits."""
    stored, pending = await _find(journal, command)
    given = _given(command, stored, pending)
    await record_answers(stored.state, None, journal, {pending: given})
    run_id = stored.info.run_id
    return run_id, pending, await still_waiting(journal, (await read_run(journal, run_id)).state)


def _say(command: _Command, run_id: str, pending: Pending, left: Sequence[Pending]) -> None:
    out = open_terminal()
    place = Place(str(command.journal or DEFAULT_JOURNAL))
    done = {'approve': 'approved', 'deny': 'denied', 'answer': 'answered'}[command.verb]
    out.line(f'{done}: {call_text(pending.tool_name, pending.args)}', 'green', note=f'  (call {call_path(pending)})')
    if left:
        out.line(f'{counted(len(left), "call")} still waiting:')
        for one in left:
            out.line(
                f'{call_text(one.tool_name, one.args)} {waiting_text(one)}', indent=2, note=f'  (call {call_path(one)})'
            )
    out.line('go on with:')
    out.line(place.command('runs', 'resume', run_id, target=True), indent=2)


def _go_on(command: _Command, target: str) -> None:
    """Answer through the agent itself: its tools check new arguments before anything is recorded."""
    opened = open_target(target, command.journal, model=command.model, deps=command.deps)
    options = opened.options()
    if not opened.place.journal:
        raise CommandError(f'{target!r} keeps its runs where this command cannot look; pass --journal PATH')
    file = Path(opened.place.journal)
    stored, pending = with_journal(file, lambda journal: _find(journal, command))
    given = _given(command, stored, pending)
    raise typer.Exit(go_on(opened, stored.info.run_id, {pending: given}, options, as_json=command.as_json))
