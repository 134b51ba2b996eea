"""Output validators: asked in order about a value, each may change it, refuse it with `ModelRetry`, or raise."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from agent_graph.engine.plan import RunDeps

__all__ = ['run_validators', 'takes_context']


async def run_validators(deps: RunDeps, value: Any, *, partial: bool = False) -> Any:
    """Pass `value` through the agent's output validators; `partial` says that more of it is still to come."""
    validators = deps.plan.validators
    if not validators:
        return value
    ctx = deps.context(retry=deps.state.output_retries, max_retries=deps.plan.output_retries, partial=partial)
    for validator in validators:
        args = (ctx, value) if takes_context(validator) else (value,)
        value = await deps.effects.consult(validator, *args)
    return value


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether a function of a value wants the context before it: it then needs two arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not tell
        return False
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(needed) > 1
