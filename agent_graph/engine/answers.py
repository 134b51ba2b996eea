"""Answers of people, checked before anything runs: who is answered, by what, and whether it fits. Doubt means no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agent_graph.engine.plan import Plan
from agent_graph.engine.results import to_answer
from agent_graph.engine.state import RunState
from agent_graph.errors import AnswerError, ArgumentsError
from agent_graph.journal.entries import Answered, CallFinished
from agent_graph.messages import JsonValue, ToolCallPart
from agent_graph.pending import Answer, Pending, ToolApproved, ToolDenied
from agent_graph.text import clean_text, json_form
from agent_graph.tools import ToolReturn
from agent_graph.tools.fit import Fitter

__all__ = ['AnswerKey', 'Resolved', 'check_unused', 'checked_value', 'entry_for', 'resolve']

AnswerKey = str | tuple[str, ...] | Pending
"""Whom an answer is for: the `Pending` itself, its `token`, a call id, or the path of ids that ends with it."""

_FITTING: dict[str, tuple[type, ...]] = {
    'approval': (ToolApproved, ToolDenied),
    'external': (ToolReturn, ToolDenied),
    'question': (Answer, ToolDenied),
    'crash': (ToolApproved, ToolDenied, ToolReturn),
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """An answer with what it answers, as the entry that records it."""

    pending: Pending
    entry: Answered | CallFinished


def resolve(
    state: RunState, plan: Plan | None, answers: Mapping[Any, Any], after: RunState | None = None
) -> list[Resolved]:
    """All answers as entries, or `AnswerError` if any of them is in doubt.

    `after` is the state that the run will go on with, where that is another one: its calls are what the answers must fit.
    """
    if not isinstance(answers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  it comes from the user
        raise AnswerError(f'answers={answers!r} is no mapping; pass a dict from pending calls to their answers')
    if state.ended is not None and answers:
        raise AnswerError(f'run {state.run_id!r} has ended ({state.ended.status}); it waits for nothing')
    waiting = state.waiting
    resolved: list[Resolved] = []
    for key, given in answers.items():
        pending = _find(state, waiting, key, given)
        if any(r.pending == pending for r in resolved):
            raise AnswerError(f'{key!r} is answered twice; give one answer to each pending call')
        call = next((p for p in (after or state).waiting if p.token == pending.token), pending)
        resolved.append(Resolved(pending, entry_for(call, given, plan if pending.run_id == state.run_id else None)))
    return resolved


def _find(state: RunState, waiting: Sequence[Pending], key: AnswerKey, given: Any) -> Pending:
    found = _named(waiting, key)
    if len(found) == 1:
        check_unused(state, found[0], key, given)
        return found[0]
    ids = ', '.join(repr('/'.join((*p.path, p.tool_call_id))) for p in waiting) or 'nothing'
    if found:
        raise AnswerError(f'{key!r} fits {len(found)} pending calls; name it by its path, one of: {ids}')
    used = state.finished.keys() | state.decided.keys() | state.asked.keys() | {token for _, _, token in state.shown}
    name: object = '/'.join((*key.path, key.tool_call_id)) if isinstance(key, Pending) else key
    if (key.token if isinstance(key, Pending) else key) in used:
        raise AnswerError(f'{name!r} has been answered already; still waiting: {ids}')
    raise AnswerError(f'{name!r} is not a pending call of run {state.run_id!r}; waiting: {ids}')


def _named(waiting: Sequence[Pending], key: AnswerKey) -> list[Pending]:
    if isinstance(key, Pending):
        return [p for p in waiting if p == key]
    if isinstance(key, tuple):
        return [p for p in waiting if (*p.path, p.tool_call_id) == key]
    return [p for p in waiting if p.token == key] or [p for p in waiting if p.tool_call_id == key]


def check_unused(state: RunState, pending: Pending, key: AnswerKey, given: Any) -> None:
    """Refuse a name under which such an answer was waited for before in this run: it may be that one, come twice."""
    if isinstance(key, Pending) or key == pending.token:
        return
    for names, reason, token in state.shown:
        if token != pending.token and key in (names, names[-1]) and type(given) in _FITTING[reason]:
            raise AnswerError(
                f'{key!r} has named something else in this run before, so this may be the answer to that, come a second '
                f'time; answer by the Pending itself, or by its token {pending.token!r}'
            )


def entry_for(pending: Pending, given: Any, plan: Plan | None) -> Answered | CallFinished:
    """The entry that records one answer. `plan` is given where the tool is at hand, to check arguments put in by hand."""
    kinds = _FITTING[pending.reason]
    if type(given) not in kinds:
        names = ' or '.join(f'{k.__name__}(...)' for k in kinds)
        raise AnswerError(
            f'{given!r} is no answer to the {pending.reason} of {pending.tool_name!r} ({pending.tool_call_id!r}); '
            f'pass {names}'
        )
    call_id = pending.tool_call_id
    if isinstance(given, ToolDenied):
        if not isinstance(given.message, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AnswerError(f'{given!r} does not say why; pass ToolDenied("a text for the model")')
        if pending.reason == 'crash':
            return Answered(call_id, 'denied')
        return Answered(call_id, 'denied', pending.args, pending.tool_name, clean_text(given.message))
    if isinstance(given, ToolReturn):
        call = ToolCallPart(pending.tool_name, tool_call_id=call_id)
        try:
            answer = to_answer(call, given)
        except TypeError as error:
            raise AnswerError(str(error)) from error
        if plan is not None and pending.tool_name in plan.tools and plan.tools[pending.tool_name].stop_after:
            return CallFinished(answer.part, output=answer.stored, stop=True)
        return CallFinished(answer.part)
    if isinstance(given, Answer):
        return Answered(call_id, 'answer', value=checked_value(pending, given), question=pending.mark)
    return Answered(call_id, 'approved', args=_checked_args(pending, given.override_args, plan))


def _checked_args(pending: Pending, args: Any, plan: Plan | None) -> JsonValue:
    """Arguments put in by hand, in JSON form and such as the tool takes."""
    if args is None:
        return None
    if not isinstance(args, dict):
        raise AnswerError(f'override_args={args!r} for {pending.tool_call_id!r} is no dict; pass the arguments by name')
    try:
        made: JsonValue = json_form(cast('object', args))
    except ValueError as error:
        raise AnswerError(f'override_args={args!r} for {pending.tool_call_id!r} has no JSON form: {error}') from error
    if plan is not None:
        try:
            plan.tools[pending.tool_name].schema.validate(cast('dict[str, Any]', made))
        except KeyError:
            raise AnswerError(f'the agent has no tool {pending.tool_name!r} any more') from None
        except ArgumentsError as error:
            raise AnswerError(f'override_args for {pending.tool_call_id!r}: {error.message}') from error
    return made


def checked_value(pending: Pending, given: Any) -> JsonValue:
    """The value of an `Answer`, in JSON form and of the type asked for."""
    if not isinstance(given, Answer):
        raise AnswerError(f'{given!r} is no answer to the question {pending.question!r}; pass Answer(value)')
    try:
        value: JsonValue = json_form(given.value)
    except ValueError as error:
        raise AnswerError(f'{given.value!r} has no JSON form: {error}') from error
    if pending.schema is None:
        return value
    fitted, problems = Fitter(pending.schema).fit(value)
    if problems:
        raise AnswerError(f'{value!r} does not answer {pending.question!r}: {"; ".join(str(p) for p in problems)}')
    return fitted
