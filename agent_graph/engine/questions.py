"""What a tool may do only once, or must wait for: `ctx.ask` and `ctx.step`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent_graph.engine.answers import checked_value
from agent_graph.engine.plan import Handles
from agent_graph.errors import ConfigError
from agent_graph.journal.entries import Answered, StepDone
from agent_graph.messages import JsonValue
from agent_graph.pending import PauseSignal, Pending
from agent_graph.text import json_form

__all__ = ['ask', 'do_step']


async def ask(deps: Handles, tool_call_id: str | None, tool_name: str | None, question: str, schema: Any) -> Any:
    """The recorded answer to this question, a new one if somebody answers at once, or a pause."""
    if tool_call_id is None or tool_name is None:
        raise ConfigError('ctx.ask was called outside a tool; only a tool call can wait for an answer')
    adapter: TypeAdapter[Any] = TypeAdapter(schema)
    index = deps.asks.get(tool_call_id, 0)
    deps.asks[tool_call_id] = index + 1
    known = deps.state.asked.get(tool_call_id, [])
    if index < len(known):
        return _as_type(adapter, known[index])
    started = deps.state.started.get(tool_call_id)
    pending = Pending(
        deps.run_id,
        tool_call_id,
        tool_name,
        started.args if started is not None else None,
        'question',
        question,
        adapter.json_schema(),
        attempt=started.attempt if started is not None else 1,
    )
    given = None if deps.on_pending is None else await deps.effects.consult(deps.on_pending, pending)
    if given is None:
        raise PauseSignal((pending,))
    value = checked_value(pending, given)
    await deps.effects.record(Answered(tool_call_id, 'answer', value=value))
    return _as_type(adapter, value)


def _as_type(adapter: TypeAdapter[Any], value: JsonValue) -> Any:
    try:
        return adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        raise ConfigError(f'the recorded answer {value!r} is not of the type asked for now: {error}') from error


async def do_step(deps: Handles, scope: str, name: str, function: Callable[[], Any]) -> Any:
    """The recorded result of this step, or do it and record that."""
    if not scope:
        raise ConfigError('ctx.step was called outside a tool; there is no call it would belong to')
    if (scope, name) in deps.state.steps:
        return deps.state.steps[scope, name]
    value = function()
    if inspect.isawaitable(value):
        value = await value
    try:
        stored: JsonValue = json_form(value)
    except ValueError as error:
        raise TypeError(
            f'step {name!r} returned {value!r}, which has no JSON form: {error}; return JSON data'
        ) from error
    await deps.effects.record(StepDone(scope, name, stored))
    return stored
