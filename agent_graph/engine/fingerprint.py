"""What an agent was when a run of it was stored, and what has changed since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from agent_graph.messages import JsonValue

if TYPE_CHECKING:
    from agent_graph.engine.plan import Plan

__all__ = ['changes', 'fingerprint', 'shape_digest']


def fingerprint(plan: Plan) -> dict[str, JsonValue]:
    """A digest for each tool (what the model is shown, without the wording), for the output, and for the graph."""
    tools: dict[str, JsonValue] = {
        d.name: _digest(_shape(d.parameters)) for d in plan.definitions if d.kind == 'function'
    }
    outputs = {d.name: _shape(d.parameters) for d in plan.definitions if d.kind == 'output'}
    native = plan.output.native.schema if plan.output.native is not None else None
    return {
        'tools': tools,
        'output': _digest([plan.output.text, plan.output.allow_none, outputs, native]),
        'graph': 'UserPrompt>ModelRequest>HandleResponse',
    }


def changes(stored: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """What differs, each in a few words; empty if the run may go on as it is."""
    if stored is None:
        return []
    found: list[str] = []
    for kind, part in (('tools', 'arguments'), ('nodes', 'fields')):
        before, after = cast('dict[str, str]', stored.get(kind, {})), cast('dict[str, str]', now.get(kind, {}))
        one = kind[:-1]
        found += [f'{one} {n!r} is gone' for n in before if n not in after]
        found += [f'{one} {n!r} is new' for n in after if n not in before]
        both = [n for n in before if n in after and before[n] != after[n]]
        found += [f'the {part} of {one} {n!r} have changed' for n in both]
    found += _other_edges(stored.get('edges', {}), now.get('edges', {}))
    whole = ('output', 'state', 'graph')
    return found + [f'the {part} has changed' for part in whole if stored.get(part) != now.get(part)]


def _other_edges(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> list[str]:
    """Nodes that are still there, and lead elsewhere."""
    return [
        f'node {name!r} led to {", ".join(before[name])}, and leads to {", ".join(after[name])}'
        for name in before
        if name in after and before[name] != after[name]
    ]


def shape_digest(schema: Any) -> str:
    """A digest of a JSON schema that does not depend on its wording."""
    return _digest(_shape(schema))


def _shape(schema: Any) -> Any:
    """A schema without its descriptions and titles: rewording a text does not make another tool."""
    if isinstance(schema, dict):
        items = cast('dict[str, Any]', schema).items()
        return {k: _shape(v) for k, v in items if not (k in ('description', 'title') and isinstance(v, str))}
    return [_shape(v) for v in cast('list[Any]', schema)] if isinstance(schema, list) else schema


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]
