"""Schemas from elsewhere, read into plain JSON Schema 2020-12: `legal(schema)`.

What comes out is a copy with these properties, on which every other module here relies: each keyword holds what the
standard says it holds; every `$ref` is `#/$defs/NAME` and leads to a definition; definitions nobody refers to are gone;
no definition is its own meaning (`a` is `a`, or `a` is any of `a` and `b`); nothing is nested deeper than `MAX_DEPTH`.

Published schemas are often nearly right. These spellings are understood, everything else is refused with a
`ToolDefinitionError` that names the tool and the place as a JSON pointer:

| published                                                     | read as                                      |
|---------------------------------------------------------------|----------------------------------------------|
| type names of Python, Java, JavaScript in any case: `dict`,   | `object`, `number`, `integer`, `boolean`,    |
| `HashMap`, `float`, `long`, `bool`, `String`, `char`, `tuple`,| `string`, `array`, `null`                    |
| `ArrayList`, `None`, ...                                      |                                              |
| `type: any`                                                   | no `type`                                    |
| `nullable: true` (OpenAPI 3.0)                                | `null` is allowed as well                    |
| `definitions`, a reference to any other place in the schema   | `$defs`                                      |
| `items: [...]`, `additionalItems`, `dependencies` (draft 7)   | `prefixItems`, `items`, `dependent...`       |
| `exclusiveMinimum: true` with `minimum` (draft 4)             | the number                                   |
| `required: true` on a property (draft 3)                      | its name in the parent's `required`          |
| a keyword whose value is null (but `const`, `default`)        | left out                                     |
| `enum: []`, which nothing could satisfy                       | left out                                     |
| `type: array` with an `enum` of single values                 | the `enum` of its `items`                    |
| `type: integer` with an `enum` of strings like `"1"`          | the values they spell                        |
| an `enum` with no value of the declared type                  | the `enum` without the `type`                |
| a `default` its own schema refuses                            | left out                                     |
| `$schema`, `$id`, `$anchor`, `$comment`, `components`         | left out                                     |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from agent_graph.tools.fit import Fitter
from agent_graph.tools.keywords import IN_PLACE, children, pointer, refusal
from agent_graph.tools.reader import Reader

__all__ = ['MAX_DEPTH', 'legal']

MAX_DEPTH = 128
"""The deepest nesting of objects and lists: far more than any provider takes, far less than Python's recursion limit."""

_MAX_CHAIN = 50  # definitions that only lead to the next one; whoever follows them must come to an end

_MAX_SIZE = 500_000  # values in one schema; a schema that shares objects in memory could be endless on the wire


def legal(schema: Mapping[str, Any], *, tool_name: str = '') -> dict[str, Any]:
    """A copy of `schema` as plain JSON Schema 2020-12, see the module. Raises `ToolDefinitionError`."""
    _measure(schema, tool_name)
    reader = Reader(schema, tool_name)
    root = reader.read(schema, '')
    definitions = reader.definitions()
    if definitions:
        root['$defs'] = definitions
    _refuse_loops(root, tool_name)
    _drop_misfit_defaults(root)
    return root


def _measure(schema: Any, tool_name: str) -> None:
    """Only JSON data, not too deep, not too large; without recursion, since nothing is known about it yet."""
    seen = 0
    todo: list[tuple[Any, int, Any]] = [(schema, 1, None)]
    while todo:
        value, depth, trail = todo.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > _MAX_SIZE:
            what = f'is nested deeper than {MAX_DEPTH} levels' if depth > MAX_DEPTH else 'is too large'
            raise refusal(tool_name, _path_of(trail), f'{what}; flatten it, or use $ref to a definition')
        if isinstance(value, Mapping):
            for key, item in cast('Mapping[Any, Any]', value).items():
                if not isinstance(key, str):
                    raise refusal(tool_name, _path_of(trail), f'the key {key!r} is not a string')
                todo.append((item, depth + 1, (trail, key)))
        elif isinstance(value, (list, tuple)):
            items = cast('list[Any]', value)
            todo.extend((item, depth + 1, (trail, index)) for index, item in enumerate(items))
        elif isinstance(value, float) and not math.isfinite(value):
            raise refusal(tool_name, _path_of(trail), f'{value!r} cannot be written as JSON')
        elif value is not None and not isinstance(value, (str, int, float)):
            raise refusal(tool_name, _path_of(trail), f'{value!r} is not JSON data')


def _path_of(trail: Any) -> str:
    tokens: list[str | int] = []
    while trail is not None:
        trail, token = trail
        tokens.append(token)
    tokens.reverse()
    return pointer(*tokens[:12], *(['...'] if len(tokens) > 12 else []))


def _refuse_loops(root: dict[str, Any], tool_name: str) -> None:
    """A definition that means itself without going into a value has no meaning, and checking it would never end."""
    definitions: dict[str, Any] = root.get('$defs', {})
    means = {name: _in_place_refs(schema) for name, schema in definitions.items()}
    done: dict[str, int] = {}  # how long a chain starts here
    for start in means:
        trail: list[str] = []
        todo = [(start, False)]
        while todo:
            name, leaving = todo.pop()
            if leaving:
                done[trail.pop()] = length = 1 + max((done[other] for other in means[name]), default=0)
                if length > _MAX_CHAIN:
                    text = f'the definition leads through more than {_MAX_CHAIN} others; refer to the last one directly'
                    raise refusal(tool_name, pointer('$defs', name), text)
            elif name in trail:
                loop = ' -> '.join([*trail[trail.index(name) :], name])
                raise refusal(
                    tool_name, pointer('$defs', name), f'the definition means itself ({loop}); remove that reference'
                )
            elif name not in done:
                trail.append(name)
                todo.append((name, True))
                todo.extend((other, False) for other in means[name])


def _in_place_refs(schema: Any) -> list[str]:
    refs: list[str] = []
    todo = [schema]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            node = cast('dict[str, Any]', item)
            if '$ref' in node:
                refs.append(node['$ref'].removeprefix('#/$defs/'))
            todo.extend(child for keyword, _, child in children(node) if keyword in IN_PLACE)
    return refs


def _drop_misfit_defaults(root: dict[str, Any]) -> None:
    """A default its schema refuses would only teach the model to send something that is refused."""
    fitter = Fitter(root)
    todo: list[Any] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            schema = cast('dict[str, Any]', node)
            if 'default' in schema and not fitter.accepts(schema['default'], schema):
                del schema['default']
            todo.extend(child for _, _, child in children(schema))
