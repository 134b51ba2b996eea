"""An agent's declaration -> a `Plan`: tools by name with their schemas, the output prepared, names checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_graph.engine.plan import Plan
from agent_graph.errors import ConfigError
from agent_graph.output_plan import plan_output
from agent_graph.tools import Tool

if TYPE_CHECKING:
    from agent_graph.capabilities import Capabilities

__all__ = ['fit_plan', 'make_plan']


def _check(settings: dict[str, Any]) -> None:
    """Refuse settings no run could work with, before anything runs."""
    for name in ('retries', 'output_retries'):
        if not isinstance(settings[name], int) or settings[name] < 0:
            raise ConfigError(f'{name}={settings[name]!r} must be a whole number from 0 on')
    if settings['end_strategy'] not in ('early', 'graceful', 'exhaustive'):
        raise ConfigError(
            f"end_strategy={settings['end_strategy']!r} is unknown; use 'early', 'graceful' or 'exhaustive'"
        )
    most, timeout = settings['max_concurrency'], settings['tool_timeout']
    if most is not None and (not isinstance(most, int) or most < 1):
        raise ConfigError(f'max_concurrency={most!r} must be a whole number from 1 on, or None')
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise ConfigError(f'tool_timeout={timeout!r} must be seconds above 0, or None')


def make_plan(*, output_type: Any, tools: Sequence[Tool | Callable[..., Any]], **settings: Any) -> Plan:
    """Prepare a declaration; `settings` are the other fields of `Plan`. Raises `ConfigError` naming what cannot be."""
    _check(settings)
    output = plan_output(output_type)
    by_name: dict[str, Tool] = {}
    for item in tools:
        made = item if isinstance(item, Tool) else Tool(item)
        name = made.name
        if name in by_name or name in output.tools:
            kind = 'an output tool' if name in output.tools else 'another tool'
            raise ConfigError(f'tool {name!r} has the same name as {kind}; pass name= to one of them')
        by_name[name] = made
    return Plan(
        tools=by_name,
        definitions=(*(t.definition for t in by_name.values()), *output.definitions),
        prepared=any(t.prepare is not None for t in by_name.values()),
        gated=any(t.external or t.requires_approval is not False for t in by_name.values()),
        output=output,
        **settings,
    )


def fit_plan(plan: Plan, capabilities: Capabilities) -> Plan:
    """The same plan for a model that cannot be offered tools: its output comes as text then. Raises `ConfigError`."""
    if capabilities.tools:
        return plan
    output = plan_output(plan.output.source, without_tools='native' if capabilities.native_output else 'prompted')
    definitions = tuple(t.definition for t in plan.tools.values())
    return replace(plan, output=output, definitions=(*definitions, *output.definitions))
