"""What a tool may do only once, or must wait for: `ctx.ask` and `ctx.step`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from agent_graph.engine.answers import checked_value, entry_for
from agent_graph.engine.effects import is_coroutine_function
from agent_graph.engine.plan import Attempt, Handles, active_call
from agent_graph.errors import AnswerError, ConfigError
from agent_graph.journal.entries import Answered, StepDone
from agent_graph.messages import JsonValue
from agent_graph.pending import PauseSignal, Pending, ToolDenied
from agent_graph.text import clean_text, json_form

__all__ = ['ask', 'do_step', 'given_now']


async def ask(deps: Handles, tool_call_id: str | None, tool_name: str | None, question: str, schema: Any) -> Any:
    """The recorded answer to this question, a new one if somebody answers at once, or a pause."""
    if tool_call_id is None or tool_name is None:
        raise ConfigError('ctx.ask was called outside a tool; only a tool call can wait for an answer')
    if (call := deps.state.started.get(tool_call_id)) is not None and call.output:
        raise ConfigError('ctx.ask was called in an output function; only a tool call can wait for an answer')
    adapter: TypeAdapter[Any] = TypeAdapter(schema)
    attempt = _attempt(deps, tool_call_id)
    # One question at a time: answers to the same question are told apart by their order, the same in every attempt.
    async with attempt.turn:
        pending = _pending(deps, tool_call_id, tool_name, question, adapter)
        known = deps.state.asked.get(tool_call_id, [])
        while (place := _answer_to(pending, known, attempt)) is not None:
            attempt.used.add(place)
            value = known[place].value
            try:
                return _as_type(adapter, value)
            except ValidationError as error:
                # Only the type itself could see this, and the type was not at hand when the answer was given.
                question = f'{question}\nThe answer {value!r} cannot be used: {_problems(error)}'
                pending = replace(pending, question=clean_text(question))
        _check_not_denied(deps, tool_call_id, question)
        given = await given_now(deps, pending)
        if given is None:
            raise await _pause(deps, pending)
        if isinstance(given, ToolDenied):
            await deps.effects.record(entry_for(pending, given, None))
            _check_not_denied(deps, tool_call_id, question)
            raise await _pause(deps, pending)
        value = checked_value(pending, given)
        try:
            typed = _as_type(adapter, value)
        except ValidationError as error:
            raise AnswerError(f'{value!r} does not answer {question!r}: {_problems(error)}') from error
        attempt.used.add(len(known))
        await deps.effects.record(Answered(tool_call_id, 'answer', value=value, question=pending.mark))
        return typed


def _answer_to(pending: Pending, known: Sequence[Answered], attempt: Attempt) -> int | None:
    """The place of the first answer that is not used yet and was given to this very question: doubt means no."""
    for place, answer in enumerate(known):
        if place not in attempt.used and answer.question in (None, pending.mark):
            return place
    return None


async def _pause(deps: Handles, pending: Pending) -> PauseSignal:
    """What to raise, once the agents that run beside this code have ended, or wait too."""
    active = active_call.get()
    if active is None or active.owner is not deps:
        return PauseSignal((pending,))
    waits = active.all_waits((pending,))
    await active.quiet()
    return PauseSignal(waits)


def _check_not_denied(deps: Handles, scope: str, question: str) -> None:
    """A denied tool call is not run again; a node is, and has no model to be told."""
    decided = deps.state.decided.get(scope)
    if decided is not None and decided.decision == 'denied' and scope not in deps.state.started:
        raise AnswerError(f'the question {question!r} was denied: {decided.message}')


def _attempt(deps: Handles, scope: str) -> Attempt:
    attempt = deps.attempts.get(scope)
    if attempt is None:
        attempt = deps.attempts[scope] = Attempt()
    return attempt


def _pending(deps: Handles, tool_call_id: str, tool_name: str, question: str, adapter: TypeAdapter[Any]) -> Pending:
    started = deps.state.started.get(tool_call_id)
    return Pending(
        deps.run_id,
        tool_call_id,
        tool_name,
        started.args if started is not None else None,
        'question',
        clean_text(question),
        adapter.json_schema(),
        attempt=started.attempt if started is not None else 1,
        nth=deps.state.answered.count(tool_call_id),
    )


async def given_now(deps: Handles, pending: Pending) -> Any:
    """What the caller's function answers at once; `None` if there is none, or if it has no answer now.

    A sync one is asked one thing at a time, however many calls wait: it may stand at a terminal.
    """
    function, shown = deps.on_pending, replace(pending, path=deps.events.path)
    if function is None:
        return None
    if is_coroutine_function(function):
        return await deps.effects.inquire(function, shown)
    async with _turn(deps):
        return await deps.effects.inquire(function, shown)


def _turn(deps: Handles) -> asyncio.Lock:
    """One lock for all runs of this loop that ask the same function."""
    while deps.around is not None:
        owner = cast('Handles', deps.around.owner)
        if owner.on_pending is not deps.on_pending or owner.effects.loop is not deps.effects.loop:
            break
        deps = owner
    if deps.turn is None:
        deps.turn = asyncio.Lock()
    return deps.turn


def _as_type(adapter: TypeAdapter[Any], value: JsonValue) -> Any:
    return adapter.validate_json(json.dumps(value))


def _problems(error: ValidationError) -> str:
    return '; '.join(e['msg'] for e in error.errors(include_url=False, include_context=False, include_input=False))


async def do_step(deps: Handles, scope: str, name: str, function: Callable[[], Any]) -> Any:
    """The recorded result of this step, or do it and record that."""
    if not scope:
        raise ConfigError('ctx.step was called outside a tool; there is no call it would belong to')
    if (call := deps.state.started.get(scope)) is not None and call.output:
        raise ConfigError('ctx.step was called in an output function, which runs once as a whole')
    attempt = _attempt(deps, scope)
    if name in attempt.steps:
        raise ConfigError(
            f'ctx.step({name!r}) was done already in this call, and the second one would not be done; name each step '
            'differently'
        )
    if (scope, name) in deps.state.steps:
        attempt.steps.add(name)
        return deps.state.steps[scope, name]
    value = await deps.effects.step(function)
    try:
        stored: JsonValue = json_form(value)
    except ValueError as error:
        raise TypeError(
            f'step {name!r} returned {value!r}, which has no JSON form: {error}; return JSON data'
        ) from error
    attempt.steps.add(name)
    await deps.effects.record(StepDone(scope, name, stored))
    return stored
