"""Rewriting legal schemas without changing which arguments are right, or only towards allowing more.

A dialect that cannot say something says less: the arguments that come back are always checked against the original
schema, so nothing wrong gets through. `Rewriter` resolves `allOf` and references in place, `inlined` resolves all of
them, `one_object` turns a choice between objects into one object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

from agent_graph.errors import ToolDefinitionError
from agent_graph.tools.fit import Fitter
from agent_graph.tools.keywords import LISTS, MAPS, SINGLES, children, refusal, same, types_of
from agent_graph.tools.legal import legal
from agent_graph.tools.roots import ANNOTATIONS

__all__ = ['Rewriter', 'merge', 'noted']

_UNROLL = 2  # a recursive definition is written out twice on one path, then cut short
_BUDGET = 3_000  # schemas written out for references; providers refuse much smaller ones
_DEPTH = 40  # levels written out for references

_Node = dict[str, Any]


def merge(a: _Node, b: _Node) -> _Node:
    """Both schemas at once, as one; where two keywords cannot be combined the first one stays."""
    out = dict(a)
    for keyword, held in b.items():
        if keyword not in out:
            out[keyword] = held
        elif (combine := _COMBINE.get(keyword)) is not None:
            out[keyword] = combine(out[keyword], held)
    if out.get('additionalProperties') is False and a.get('properties', {}).keys() != b.get('properties', {}).keys():
        del out['additionalProperties']  # it spoke about one side's properties only
    return out


def _both(a: Any, b: Any) -> Any:
    return a if same(a, b) else {'allOf': [a, b]}


def _merge_types(a: Any, b: Any) -> Any:
    first, second = types_of({'type': a}), types_of({'type': b})
    if 'number' in second:
        second = (*second, 'integer')
    if 'number' in first and 'number' not in second and 'integer' in second:
        first = (*first, 'integer')
    found = [name for name in dict.fromkeys(first) if name in second] or list(first)
    return found[0] if len(found) == 1 else found


def _merge_named(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    return {**a, **{name: _both(a[name], held) if name in a else held for name, held in b.items()}}


def _merge_enum(a: list[Any], b: list[Any]) -> list[Any]:
    return [value for value in a if any(same(value, other) for other in b)] or a


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    'type': _merge_types,
    'properties': _merge_named,
    'patternProperties': _merge_named,
    'required': lambda a, b: list(dict.fromkeys([*a, *b])),
    'enum': _merge_enum,
    'items': _both,
    'additionalProperties': lambda a, b: b if a is True else a,
    **dict.fromkeys('minimum exclusiveMinimum minLength minItems minProperties'.split(), max),
    **dict.fromkeys('maximum exclusiveMaximum maxLength maxItems maxProperties'.split(), min),
    'uniqueItems': lambda a, b: a or b,
}


def noted(schema: _Node, *notes: str) -> _Node:
    """The schema with notes after its description, which itself stays as it was written."""
    if not notes:
        return schema
    return {**schema, 'description': '\n\n'.join([*filter(None, [schema.get('description')]), *notes])}


class Rewriter:
    """One schema being rewritten: its definitions, and what was already derived from them."""

    def __init__(self, schema: Mapping[str, Any], tool_name: str) -> None:
        self.tool_name = tool_name
        self.schema = legal(schema, tool_name=tool_name)
        self.definitions: _Node = self.schema.get('$defs', {})
        self.fitter = Fitter(self.schema)
        self._flat: dict[str, tuple[_Node, frozenset[str]]] = {}
        self._objects: dict[str, _Node] = {}
        self._sizes: dict[str, int] = {}
        if 'object' not in self.fitter.admitted(self.schema):
            raise self.error('', 'it does not let an object through, but arguments are one')

    def error(self, path: str, text: str) -> ToolDefinitionError:
        """The error to raise for what this schema has at `path`."""
        return refusal(self.tool_name, path, text)

    @property
    def root(self) -> _Node:
        """The outermost schema, without the definitions."""
        return {key: held for key, held in self.schema.items() if key != '$defs'}

    def flat(self, schema: Any) -> tuple[_Node, frozenset[str]]:
        """The schema without `allOf`, and with `$ref` only beside annotations; and the definitions that took.

        `False` becomes `{'not': {}}`, which is how a schema nothing satisfies is written as an object.
        """
        if isinstance(schema, bool):
            return ({} if schema else {'not': {}}), frozenset()
        node = cast('_Node', schema)
        if 'allOf' not in node:
            if '$ref' not in node or node.keys() - {'$ref'} <= ANNOTATIONS:
                return node, frozenset()
        elif len(node['allOf']) == 1 and node.keys() - {'allOf'} <= ANNOTATIONS:
            only, names = self.flat(node['allOf'][0])
            return {**only, **{key: held for key, held in node.items() if key != 'allOf'}}, names
        out = {key: held for key, held in node.items() if key not in ('allOf', '$ref')}
        names: frozenset[str] = frozenset()
        for part in ([{'$ref': node['$ref']}] if '$ref' in node else []) + node.get('allOf', []):
            resolved, found = self.resolved(part)
            out, names = merge(out, resolved), names | found
        return out, names

    def resolved(self, schema: Any) -> tuple[_Node, frozenset[str]]:
        """Like `flat`, without a `$ref` either."""
        node, names = self.flat(schema)
        if '$ref' not in node:
            return node, names
        name = node['$ref'].removeprefix('#/$defs/')
        if name not in self._flat:
            self._flat[name] = self.resolved(self.definitions[name])
        target, found = self._flat[name]
        return {**target, **{key: held for key, held in node.items() if key != '$ref'}}, names | found | {name}

    def one_object(self, schema: Any) -> _Node:
        """An object with the properties of all alternatives; required is what every alternative requires."""
        name: str | None = None
        if isinstance(schema, dict) and cast('_Node', schema).keys() == {'$ref'}:
            name = cast('_Node', schema)['$ref']
        if name is not None and name in self._objects:
            return self._objects[name]
        node, _ = self.resolved(schema)
        base = {key: held for key, held in node.items() if key not in _CHOICES}
        base['type'] = 'object'
        for keyword in ('anyOf', 'oneOf'):
            variants = [self.one_object(part) for part in node.get(keyword, ()) if self._may_be_object(part)]
            if variants:
                base = merge(base, _union(variants))
        if name is not None:
            self._objects[name] = base
        return base

    def _may_be_object(self, schema: Any) -> bool:
        return 'object' in self.fitter.admitted(schema)

    def distributed(self, node: _Node) -> list[Any] | None:
        """The alternatives of a flat schema, each with what stands beside them merged in; None when it has none."""
        keyword = 'anyOf' if 'anyOf' in node else 'oneOf'
        if keyword not in node:
            return None
        base = {key: held for key, held in node.items() if key not in _CHOICES and key not in ANNOTATIONS}
        if base.keys() <= {'type'}:
            admitted = self.fitter.admitted(base)
            return [part for part in node[keyword] if self.fitter.admitted(part) & admitted] or node[keyword]
        return [merge(base, self.resolved(part)[0]) for part in node[keyword]]

    def inlined(self) -> _Node:
        """The schema with every reference written out, within bounds.

        A definition that contains itself is written out twice on a path, then cut to its bare type; so is everything
        deeper or larger than providers take, the innermost first.
        """
        holder: _Node = {'root': self.root}
        todo: deque[tuple[Any, Any, tuple[str, ...], int]] = deque([(holder, 'root', (), 0)])
        written = 0
        while todo:
            container, key, trail, depth = todo.popleft()
            if isinstance(container[key], bool):
                continue
            node, names = self.flat(container[key])
            if '$ref' in node:
                node, found = self.resolved(node)
                names |= found
            again = [name for name in names if trail.count(name) >= _UNROLL]
            if again or (names and (depth > _DEPTH or written > _BUDGET)):
                node = self._cut(node)
            else:
                written += sum(self._size(name) for name in names)
            trail = (*trail, *sorted(names))
            container[key] = node = dict(node)
            todo.extend((*child, trail, depth + 1) for child in _open(node))
        return holder['root']

    def _size(self, name: str) -> int:
        """How many schemas a definition holds, those behind its references not counted."""
        if name not in self._sizes:
            todo, count = [self.definitions[name]], 0
            while todo:
                node = todo.pop()
                count += 1
                if isinstance(node, dict):
                    todo.extend(child for _, _, child in children(cast('_Node', node)))
            self._sizes[name] = count
        return self._sizes[name]

    def _cut(self, node: _Node) -> _Node:
        """A bare stand-in: the type and the description."""
        types = sorted(self.fitter.admitted(node))
        types.remove('integer') if {'integer', 'number'} <= set(types) else None
        kept = {key: node[key] for key in ('title', 'description') if key in node}
        return {**({'type': types[0] if len(types) == 1 else types} if len(types) < 6 else {}), **kept}


_CHOICES = frozenset({'anyOf', 'oneOf', 'allOf', 'not', 'if', 'then', 'else', 'dependentSchemas'})


def _open(node: _Node) -> list[tuple[Any, Any]]:
    """Copies the containers of a node's schemas, so that they can be replaced; every (container, key)."""
    found: list[tuple[Any, Any]] = []
    for keyword, held in list(node.items()):
        if keyword in SINGLES:
            found.append((node, keyword))
        elif keyword in LISTS:
            node[keyword] = copied = list(cast('list[Any]', held))
            found.extend((copied, index) for index in range(len(copied)))
        elif keyword in MAPS:
            node[keyword] = named = dict(cast('_Node', held))
            found.extend((named, name) for name in named)
    return found


def _union(variants: list[_Node]) -> _Node:
    names = list(dict.fromkeys(name for variant in variants for name in variant.get('properties', {})))
    properties: dict[str, Any] = {}
    for name in names:
        seen: list[Any] = []
        for variant in variants:
            held = variant.get('properties', {}).get(name)
            if held is not None and not any(same(held, other) for other in seen):
                seen.append(held)
        properties[name] = seen[0] if len(seen) == 1 else {'anyOf': seen}
    out: _Node = {'type': 'object', 'properties': properties}
    required = [name for name in names if all(name in variant.get('required', ()) for variant in variants)]
    if required:
        out['required'] = required
    if all(variant.get('additionalProperties') is False for variant in variants):
        out['additionalProperties'] = False
    return out
