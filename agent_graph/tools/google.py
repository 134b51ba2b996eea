"""Gemini's schema dialect: a part of OpenAPI 3.0, without references and with `nullable`."""

from __future__ import annotations

from typing import Any

from agent_graph.tools.keywords import json_type, show, types_of
from agent_graph.tools.rewrite import Rewriter, noted

__all__ = ['to_google']

_KEPT = {
    'string': ('minLength', 'maxLength', 'pattern'),
    'integer': ('minimum', 'maximum'),
    'number': ('minimum', 'maximum'),
    'boolean': (),
    'array': ('minItems', 'maxItems'),
    'object': ('minProperties', 'maxProperties'),
    'null': (),
}
_FORMATS = {
    'string': ('date-time', 'enum'),
    'integer': ('int32', 'int64'),
    'number': ('float', 'double'),
}
_SAID = 'format default exclusiveMinimum exclusiveMaximum multipleOf uniqueItems'.split()
"""Keywords it does not know that a reader of the description can still follow."""

_SCALARS = [{'type': 'string'}, {'type': 'number'}, {'type': 'boolean'}]

_Node = dict[str, Any]


def to_google(rewriter: Rewriter) -> _Node:
    """An object at the top, whatever was published; see the table of `agent_graph.tools.dialects`."""
    root = rewriter.one_object(rewriter.inlined())
    work = _Google(rewriter)
    out: _Node = {'type': 'object', 'properties': {}}
    if root.get('properties'):
        out = work.object(root)
    return {**_notes(root), **out}


def _notes(node: _Node) -> _Node:
    return {key: node[key] for key in ('title', 'description') if key in node}


class _Google:
    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter

    def node(self, schema: Any) -> _Node:
        node, _ = self.rewriter.flat(schema)
        branches = self.rewriter.distributed(node)
        if branches is not None:
            return self.choice(node, branches)
        types = self.types(node)
        bare = [name for name in types if name != 'null']
        one = len(bare) == 1 or bool(types and not bare)
        made = self.typed(node, bare[0] if bare else 'null') if one else self.any_of(node, bare)
        if 'null' in types and bare:
            made['nullable'] = True
        return made

    def types(self, node: _Node) -> tuple[str, ...]:
        """The declared types, or those of the values that are allowed."""
        if declared := types_of(node):
            return declared
        values = [node['const']] if 'const' in node else node.get('enum')
        if values is not None:
            return tuple(dict.fromkeys(json_type(value) for value in values))
        if 'properties' in node or 'additionalProperties' in node:
            return ('object',)
        return ('array',) if node.keys() & {'items', 'prefixItems'} else ()

    def choice(self, node: _Node, branches: list[Any]) -> _Node:
        """`anyOf` without null among the alternatives; a single one stands for itself."""
        made: list[_Node] = []
        nullable = False
        for part in branches:
            if part is False:
                continue
            alternative = self.node(part)
            nullable = nullable or alternative.get('type') == 'null' or alternative.pop('nullable', False)
            if alternative.get('type') != 'null' and alternative not in made:
                made.append(alternative)
        if not made:
            return {**_notes(node), 'type': 'null'}
        out = {**made[0], **_notes(node)} if len(made) == 1 else {'anyOf': made, **_notes(node)}
        return {**out, 'nullable': True} if nullable else out

    def any_of(self, node: _Node, types: list[str]) -> _Node:
        """Several types, or any."""
        made = [self.typed({**node, 'type': name}, name) for name in types] if types else _SCALARS
        bare = [{key: held for key, held in part.items() if key not in ('title', 'description')} for part in made]
        note = () if types else ('Any JSON value.',)
        return {'anyOf': bare, **noted(_notes(node), *note)}

    def typed(self, node: _Node, name: str) -> _Node:
        said = [
            f'{key}: {show(node[key])}'
            for key in _SAID
            if node.get(key) is not None and not (key == 'format' and node[key] in _FORMATS.get(name, ()))
        ]
        out: _Node = {**_notes(node), 'type': name, **{key: node[key] for key in _KEPT[name] if key in node}}
        if node.get('format') in _FORMATS.get(name, ()):
            out['format'] = node['format']
        values = [value for value in self.values(node) if value is not None]
        if values and name == 'string' and all(isinstance(value, str) for value in values):
            out['enum'] = values
        elif values:
            said.insert(0, f'allowed: {", ".join(show(value) for value in values)}')
        if name == 'array':
            out.update(self.array(node))
        if name == 'object':
            return noted(self.inner_object(node, out), *([', '.join(said)] if said else []))
        return noted(out, ', '.join(said)) if said else out

    def values(self, node: _Node) -> list[Any]:
        return [node['const']] if 'const' in node else node.get('enum', [])

    def array(self, node: _Node) -> _Node:
        first: list[Any] = node.get('prefixItems', [])
        rest = node.get('items', not first)
        parts = [*first, *([rest] if rest is not False else [])]
        distinct = list({show(part, 10**9): part for part in parts}.values())
        made: _Node = {'items': self.node(distinct[0] if len(distinct) == 1 else {'anyOf': distinct or [True]})}
        if first and rest is False:
            made['maxItems'] = len(first)
        return made

    def inner_object(self, node: _Node, out: _Node) -> _Node:
        """An object with listed properties, or the JSON text of one that has none."""
        if any(held is not False for held in node.get('properties', {}).values()):
            return {**out, **self.object(node)}
        text = noted(_notes(node), 'A JSON object, written as text.')
        return {'type': 'string', **text}

    def object(self, node: _Node) -> _Node:
        properties = {name: self.node(held) for name, held in node['properties'].items() if held is not False}
        required = [name for name in node.get('required', ()) if name in properties]
        return {'type': 'object', 'properties': properties, **({'required': required} if required else {})}
