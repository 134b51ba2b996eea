"""The outermost schema of a tool: arguments are always an object, and some providers want that said plainly."""

from __future__ import annotations

from typing import Any, cast

from agent_graph.errors import ToolDefinitionError
from agent_graph.tools.fit import Fitter
from agent_graph.tools.keywords import children

__all__ = ['ANNOTATIONS', 'closed', 'drop_unused', 'object_root']

ANNOTATIONS = frozenset(
    'title description default examples deprecated readOnly writeOnly contentEncoding contentMediaType '
    'contentSchema'.split()
)
"""Keywords that say something about a value without restricting it."""

_OPENING = frozenset(
    'additionalProperties patternProperties unevaluatedProperties propertyNames $ref allOf anyOf oneOf not if then else '
    'dependentSchemas'.split()
)
"""Keywords that say which further names an object may have, or send on to schemas that may say it."""


def object_root(schema: dict[str, Any], tool_name: str) -> dict[str, Any]:
    """A legal schema with `"type": "object"` and no `$ref` at the top. Raises when no object could satisfy it."""
    if 'object' not in Fitter(schema).admitted(schema):
        raise ToolDefinitionError(
            f'the schema of tool {tool_name!r} does not let an object through, but arguments are one; '
            'put it under a property of an object',
            tool_name=tool_name,
        )
    definitions: dict[str, Any] = schema.get('$defs', {})
    root: dict[str, Any] = {key: held for key, held in schema.items() if key != '$defs'}
    while '$ref' in root:
        name: str = root.pop('$ref')
        target = definitions[name.removeprefix('#/$defs/')]
        target = dict(cast('dict[str, Any]', target)) if isinstance(target, dict) else {}
        root = {**target, **root} if root.keys() <= ANNOTATIONS else {'allOf': [target, *root.pop('allOf', [])], **root}
    root['type'] = 'object'
    return drop_unused({**root, '$defs': definitions})


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema for checking: one that lists `properties` and says nothing about others allows no others."""
    if 'properties' not in schema or schema.keys() & _OPENING:
        return schema
    named = {**dict.fromkeys(schema.get('required', ()), True), **schema['properties']}
    return {**schema, 'properties': named, 'additionalProperties': False}


def drop_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the definitions nothing refers to; the given one stays as it is."""
    definitions: dict[str, Any] = schema.get('$defs', {})
    used: dict[str, Any] = {}
    todo: list[Any] = [{key: held for key, held in schema.items() if key != '$defs'}]
    while todo:
        node = todo.pop()
        if not isinstance(node, dict):
            continue
        held = cast('dict[str, Any]', node)
        name = held['$ref'].removeprefix('#/$defs/') if '$ref' in held else None
        if name is not None and name not in used:
            used[name] = definitions[name]
            todo.append(definitions[name])
        todo.extend(child for _, _, child in children(held))
    out = {key: held for key, held in schema.items() if key != '$defs'}
    if used:
        out['$defs'] = {name: held for name, held in definitions.items() if name in used}
    return out
