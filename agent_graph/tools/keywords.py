"""What JSON Schema's keywords hold: where a schema has schemas inside, what type a JSON value has, how it is shown.

Small vocabulary shared by the modules that read, check, rewrite and sample schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from agent_graph.errors import ToolDefinitionError

__all__ = [
    'IN_PLACE',
    'LISTS',
    'MAPS',
    'SINGLES',
    'TYPES',
    'Schema',
    'children',
    'json_type',
    'place',
    'pointer',
    'refusal',
    'same',
    'show',
    'types_of',
]

Schema: TypeAlias = 'dict[str, Any] | bool'

TYPES = ('null', 'boolean', 'integer', 'number', 'string', 'array', 'object')

SINGLES = frozenset(
    'items additionalProperties not if then else contains propertyNames unevaluatedItems unevaluatedProperties '
    'contentSchema'.split()
)
"""Keywords holding one schema."""
LISTS = frozenset({'allOf', 'anyOf', 'oneOf', 'prefixItems'})
"""Keywords holding a list of schemas."""
MAPS = frozenset({'properties', '$defs', 'patternProperties', 'dependentSchemas'})
"""Keywords holding schemas by name."""
IN_PLACE = frozenset({'allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentSchemas'})
"""Keywords whose schemas look at the same value, not at something inside it."""

_SHOWN_PATH = 200

_PYTHON_TYPES: dict[type, str] = {
    type(None): 'null',
    bool: 'boolean',
    int: 'integer',
    float: 'number',
    str: 'string',
    list: 'array',
    dict: 'object',
}


def json_type(value: Any) -> str:
    """The JSON type of parsed JSON; a float is a `number` even when it is whole."""
    return _PYTHON_TYPES.get(cast('type', value.__class__), 'object')


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """What `type` says, as a tuple; empty when it says nothing."""
    declared = schema.get('type')
    if declared is None:
        return ()
    return (declared,) if isinstance(declared, str) else tuple(cast('list[str]', declared))


def children(schema: Mapping[str, Any]) -> Iterator[tuple[str, str | int | None, Any]]:
    """Every schema directly inside this one, as (keyword, name or index or None, schema)."""
    for keyword, held in schema.items():
        if keyword in SINGLES:
            yield keyword, None, held
        elif keyword in LISTS:
            for index, item in enumerate(cast('list[Any]', held)):
                yield keyword, index, item
        elif keyword in MAPS:
            for name, item in cast('dict[str, Any]', held).items():
                yield keyword, name, item


def pointer(*tokens: str | int | None) -> str:
    """A JSON pointer, `''` for the whole."""
    return ''.join('/' + str(t).replace('~', '~0').replace('/', '~1') for t in tokens if t is not None)


def refusal(tool_name: str, path: str, text: str) -> ToolDefinitionError:
    """The error that says what is wrong at `path` (a JSON pointer) of a tool's schema."""
    path = path if len(path) <= _SHOWN_PATH else f'{path[:_SHOWN_PATH]}...'
    where = f' at {path}' if path else ''
    return ToolDefinitionError(f'the schema of tool {tool_name!r}{where}: {text}', tool_name=tool_name, path=path)


def place(path: Sequence[str | int]) -> str:
    """Where in the arguments: `items[1].name`."""
    out = ''
    for step in path:
        out += f'[{step}]' if isinstance(step, int) else f'.{step}' if out else step
    return out


def show(value: Any, limit: int = 100) -> str:
    """A value as JSON, cut in the middle when it is long."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= limit else f'{text[: limit * 2 // 3]} ... {text[-limit // 4 :]}'


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values: 1 and 1.0 are the same, 1 and true are not."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        a, b = cast('list[Any]', a), cast('list[Any]', b)
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        a, b = cast('dict[str, Any]', a), cast('dict[str, Any]', b)
        return a.keys() == b.keys() and all(same(x, b[key]) for key, x in a.items())
    return bool(a == b)
