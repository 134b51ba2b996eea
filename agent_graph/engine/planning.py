"""An agent's declaration -> a `Plan`: tools by name with their schemas, the output prepared, names checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agent_graph.engine.plan import Plan
from agent_graph.errors import ConfigError
from agent_graph.output_plan import plan_output
from agent_graph.tools import Tool

__all__ = ['make_plan']


def make_plan(*, output_type: Any, tools: Sequence[Tool | Callable[..., Any]], **settings: Any) -> Plan:
    """Prepare a declaration; `settings` are the other fields of `Plan`. Raises `ConfigError` naming what cannot be."""
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
