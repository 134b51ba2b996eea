"""Output validators: asked in order about a value, each may change it, refuse it with `ModelRetry`, or raise."""

from __future__ import annotations

from typing import Any

from agent_graph.engine.plan import RunDeps

__all__ = ['run_validators']


async def run_validators(deps: RunDeps, value: Any, *, partial: bool = False) -> Any:
    """Pass `value` through the agent's output validators; `partial` says that more of it is still to come."""
    validators = deps.plan.validators
    if not validators:
        return value
    from inspect import signature

    ctx = deps.context(retry=deps.state.output_retries, max_retries=deps.plan.output_retries, partial=partial)
    for validator in validators:
        args = (ctx, value) if len(signature(validator).parameters) > 1 else (value,)
        value = await deps.effects.consult(validator, *args)
    return value
