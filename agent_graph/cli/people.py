"""What people answer a paused run: read from a command's words, or asked for at the terminal."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeAlias, cast

from agent_graph.cli.dialog import Dialog
from agent_graph.cli.exits import CommandError, one_line
from agent_graph.cli.facts import call_path
from agent_graph.engine.answers import entry_for
from agent_graph.errors import AnswerError
from agent_graph.pending import Answer, Pending, PendingKind, ToolApproved, ToolDenied
from agent_graph.render.wording import call_text, value_text, waiting_text
from agent_graph.tools import ToolReturn

__all__ = ['Answers', 'Verb', 'find_call', 'given_answer', 'json_arguments', 'prompt_for', 'value_of']

Answers: TypeAlias = dict[Pending, ToolApproved | ToolDenied | Answer | ToolReturn]
"""What to hand to `agent.resume(..., answers=...)`."""

Verb: TypeAlias = Literal['approve', 'deny', 'answer']
"""The commands that answer."""

FITTING: dict[PendingKind, tuple[Verb, ...]] = {
    'approval': ('approve', 'deny'),
    'external': ('answer', 'deny'),
    'question': ('answer', 'deny'),
    'crash': ('approve', 'answer', 'deny'),
}
"""By what a call waits for: the commands that can answer it."""

_MENUS: dict[PendingKind, str] = {
    'approval': '[a]pprove, [e]dit the arguments and approve, [d]eny, [l]ater',
    'external': '[a]nswer with its result, [d]eny, [l]ater',
    'question': '[a]nswer, [d]eny, [l]ater',
    'crash': '[r]un it again, [a]nswer with its result, [d]o not: leave it as interrupted, [l]ater',
}


def find_call(waiting: Sequence[Pending], named: str, answered: Collection[str] = ()) -> Pending:
    """The pending call of this id, path (`outer/inner`) or token; raises `CommandError` naming those there are.

    `answered` are the ids of calls that had an answer before.
    """
    found = [p for p in waiting if p.token == named]
    found = found or [p for p in waiting if named in (p.tool_call_id, call_path(p))]
    if len(found) == 1:
        return found[0]
    paths = ', '.join(repr(call_path(p)) for p in waiting)
    if found:
        raise CommandError(f'{named!r} names {len(found)} waiting calls; give the path of one: {paths}')
    if named in answered:
        raise CommandError(f'call {named!r} has been answered already; waiting: {paths or "nothing"}')
    raise CommandError(f'no call {named!r} waits in this run; waiting: {paths or "nothing"}')


def given_answer(
    verb: Verb, pending: Pending, *, text: str = '', args: str | None = None
) -> ToolApproved | ToolDenied | Answer | ToolReturn:
    """What a command answers; raises `CommandError` if that does not fit what the call waits for."""
    fitting = FITTING[pending.reason]
    if verb not in fitting:
        raise CommandError(
            f'{pending.tool_name} (call {call_path(pending)}) {waiting_text(pending)}; use '
            f'{" or ".join(f"runs {v}" for v in fitting)}'
        )
    if verb == 'approve':
        return ToolApproved(None if args is None else json_arguments(args))
    if verb == 'deny':
        return ToolDenied(text) if text else ToolDenied()
    value = value_of(text, pending.schema)
    return Answer(value) if pending.reason == 'question' else ToolReturn(value)


def json_arguments(text: str) -> dict[str, Any]:
    """Arguments of a call; raises `CommandError` if `text` is no JSON object."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f'the arguments {text!r} are not JSON: {error}') from error
    if not isinstance(value, dict):
        raise CommandError(f'the arguments {text!r} are not a JSON object; write them as {{"name": value, ...}}')
    return cast('dict[str, Any]', value)


def value_of(text: str, schema: dict[str, Any] | None) -> Any:
    """An answer as data: the text itself where a text is wanted, else what it is as JSON, or the text if it is none."""
    if schema is not None and schema.get('type') == 'string':
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


async def prompt_for(dialog: Dialog, waiting: Sequence[Pending]) -> Answers:
    """Ask the person at the terminal about each call; those left for later are not in the answers."""
    answers: Answers = {}
    for pending in waiting:
        shown = f'{call_text(pending.tool_name, pending.args, 400)} {waiting_text(pending, 400)}'
        dialog.out.line(shown, 'bold yellow', note=f'  (call {call_path(pending)})')
        if pending.schema is not None and pending.schema.get('type') != 'string':
            dialog.out.line(f'wanted: {value_text(pending.schema, 400)}')
        given = await _decide(dialog, pending)
        if given is None:
            return answers
        if not isinstance(given, _Later):
            answers[pending] = given
    return answers


class _Later:
    """The person does not want to say now."""


async def _decide(dialog: Dialog, pending: Pending) -> ToolApproved | ToolDenied | Answer | ToolReturn | _Later | None:
    """One answer; `None` if nobody is there any more. Whatever is unclear is asked again: doubt means no."""
    while True:
        line = await dialog.ask(f'{_MENUS[pending.reason]}: ')
        if line is None:
            return None
        key = line.casefold()
        if key in ('l', 'later'):
            return _Later()
        if key in ('d', 'deny', 'n', 'no'):
            why = '' if pending.reason == 'crash' else await dialog.ask('why (the model is told; may be empty): ')
            return None if why is None else given_answer('deny', pending, text=why)
        verb, question = _further(pending.reason, key)
        if verb is None:
            dialog.out.line(f'{line!r} is not one of the choices')
            continue
        more = await dialog.ask(question) if question else ''
        if more is None:
            return None
        try:
            given = given_answer(verb, pending, text=more, args=more if verb == 'approve' and question else None)
            entry_for(pending, given, None)  # the engine's own check, all but that of new arguments by the tool
            return given
        except CommandError as error:
            dialog.out.line(error.message)
        except AnswerError as error:
            dialog.out.line(one_line(error))


def _further(reason: PendingKind, key: str) -> tuple[Verb | None, str]:
    """What a choice stands for, and what has to be asked for it."""
    if reason == 'approval':
        if key in ('a', 'approve', 'y', 'yes'):
            return 'approve', ''
        return ('approve', 'arguments as JSON: ') if key in ('e', 'edit') else (None, '')
    if reason == 'crash' and key in ('r', 'run', 'approve'):
        return 'approve', ''
    return ('answer', 'the answer, text or JSON: ') if key in ('a', 'answer') else (None, '')
