"""Small arguments that are valid for a JSON schema: what `TestModel` calls tools with."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from agent_graph.tools.fit import Fitter
from agent_graph.tools.keywords import same, types_of
from agent_graph.tools.limits import check_number
from agent_graph.tools.patterns import matching_texts
from agent_graph.tools.rewrite import Rewriter
from agent_graph.tools.roots import closed

__all__ = ['sample_arguments']

_MAX_DEPTH = 60
_TRIES = 8
_FILL = 1_000  # the most items or entries a sample is given only because a minimum asks for them

_FORMATS = {
    'date': '2024-01-{day:02}',
    'date-time': '2024-01-{day:02}T00:00:00Z',
    'time': '00:00:{day:02}Z',
    'duration': 'P{day}D',
    'email': 'user{day}@example.com',
    'idn-email': 'user{day}@example.com',
    'uuid': '00000000-0000-4000-8000-0000000000{day:02}',
    'uuid4': '00000000-0000-4000-8000-0000000000{day:02}',
    'uri': 'https://example.com/{day}',
    'url': 'https://example.com/{day}',
    'iri': 'https://example.com/{day}',
    'uri-reference': '/{day}',
    'hostname': 'host{day}.example.com',
    'ipv4': '192.0.2.{day}',
    'ipv6': '2001:db8::{day}',
    'json': '{day}',
    'json-string': '{day}',
    'base64': 'YQ==',
    'byte': 'YQ==',
    'regex': 'a',
    'decimal': '{day}',
}

_Node = dict[str, Any]


class _Impossible(Exception):
    """No value at this place, or none that is shallow enough."""


def sample_arguments(parameters: Mapping[str, Any], *, seed: int = 0, tool_name: str = '') -> dict[str, Any]:
    """The smallest arguments a JSON schema of an object accepts: required ones only, the first of every choice.

    The same for the same schema and `seed`; another seed gives other values where the schema leaves room. Raises
    `ToolDefinitionError` when none could be found, as for a pattern that only a special text matches.
    """
    rewriter = Rewriter(parameters, tool_name)
    checker = Fitter(closed(rewriter.schema))
    for step in range(_TRIES):
        # the seed first; when that is not valid, a keyword such as `not` is in the way, and others may be
        sampler = _Sampler(rewriter, seed + step)
        for depth in range(2, _MAX_DEPTH):
            try:
                value = sampler.value(rewriter.root, depth, 0)
            except _Impossible:
                continue
            if isinstance(value, dict) and checker.accepts(value):
                return cast('dict[str, Any]', json.loads(json.dumps(value)))
            break
    raise rewriter.error('', 'no arguments could be made up that it accepts; pass arguments of your own')


class _Sampler:
    """Makes values of one seed; what was found for a schema at a depth is remembered, so that recursion ends."""

    def __init__(self, rewriter: Rewriter, seed: int) -> None:
        self.rewriter = rewriter
        self.seed = seed
        self._made: dict[tuple[int, int, int], tuple[Any, Any]] = {}

    def value(self, schema: Any, depth: int, turn: int) -> Any:
        """A value; `turn` counts places that must differ from each other."""
        key = (id(schema), depth, turn)
        if key not in self._made:
            try:
                found = self._value(schema, depth, turn)
            except _Impossible as error:
                found = error
            self._made[key] = (schema, found)  # the schema is kept, so that its id stays its own
        found = self._made[key][1]
        if isinstance(found, _Impossible):
            raise found
        return found

    def _value(self, schema: Any, depth: int, turn: int) -> Any:
        if depth <= 0 or schema is False:
            raise _Impossible
        node, _ = self.rewriter.resolved(schema)
        number = self.seed + turn
        values = [node['const']] if 'const' in node else node.get('enum')
        if values is not None:
            return self.picked(node, values, number)
        branches = self.rewriter.distributed(node)
        if branches is not None:
            return self.chosen(node, branches, depth, turn)
        types = [name for name in types_of(node) if name != 'null'] or types_of(node) or self.implied(node)
        return self.typed(node, types[number % len(types)], depth, turn)

    def picked(self, node: _Node, values: list[Any], number: int) -> Any:
        fitting = [value for value in values if self.rewriter.fitter.accepts(value, node)]
        if not fitting:
            raise _Impossible
        return fitting[number % len(fitting)]

    def chosen(self, node: _Node, branches: list[Any], depth: int, turn: int) -> Any:
        start = (self.seed + turn) % len(branches)
        for branch in branches[start:] + branches[:start]:
            try:
                value = self.value(branch, depth - 1, turn)
            except _Impossible:
                continue
            if self.rewriter.fitter.accepts(value, node):
                return value
        raise _Impossible

    def implied(self, node: _Node) -> tuple[str, ...]:
        if node.keys() & {'properties', 'required', 'additionalProperties', 'minProperties'}:
            return ('object',)
        return ('array',) if node.keys() & {'items', 'prefixItems', 'minItems'} else ('string',)

    def typed(self, node: _Node, name: str, depth: int, turn: int) -> Any:
        number = self.seed + turn
        if name == 'object':
            return self.object(node, depth)
        if name == 'array':
            return self.array(node, depth)
        if name == 'string':
            return self.string(node, number)
        if name in ('integer', 'number'):
            return self.number(node, name == 'integer', number)
        return None if name == 'null' else bool(number % 2)

    def object(self, node: _Node, depth: int) -> _Node:
        properties: _Node = node.get('properties', {})
        names = [name for name in node.get('required', ()) if properties.get(name) is not False]
        names += [name for name in properties if name not in names and properties[name] is not False]
        extra = (f'name{index}' for index in range(_FILL))
        rest = node.get('additionalProperties', True)
        out: _Node = {}
        for name in names:
            if name in node.get('required', ()) or len(out) < node.get('minProperties', 0):
                out[name] = self.value(properties.get(name, rest), depth - 1, 0)
        for turn, name in enumerate(extra):
            if len(out) >= node.get('minProperties', 0):
                return out
            out[name] = self.value(rest, depth - 1, turn)
        raise _Impossible

    def array(self, node: _Node, depth: int) -> list[Any]:
        first: list[Any] = node.get('prefixItems', [])
        rest = node.get('items', True)
        size = int(max(node.get('minItems', 0), node.get('minContains', 1) if 'contains' in node else 0))
        if size > _FILL:
            raise _Impossible
        if 'contains' in node and not first:
            rest = {'allOf': [node['contains'], rest]}
        out: list[Any] = []
        turn = 0
        while len(out) < size:
            schema = first[len(out)] if len(out) < len(first) else rest
            value = self.value(schema, depth - 1, turn)
            turn += 1
            if node.get('uniqueItems') and any(same(value, other) for other in out):
                if turn > size + 100:
                    raise _Impossible
                continue
            out.append(value)
        return out

    def number(self, node: _Node, whole: bool, number: int) -> float:
        for value in _numbers(node, whole, number):
            if not any(True for _ in check_number(node, value)):
                return value
        raise _Impossible

    def string(self, node: _Node, number: int) -> str:
        low, high = node.get('minLength', 0), node.get('maxLength', math.inf)
        for text in self.texts(node, number, int(low)):
            if low <= len(text) <= high and self.rewriter.fitter.accepts(text, node):
                return text
        raise _Impossible

    def texts(self, node: _Node, number: int, low: int) -> Iterator[str]:
        """Texts to try, the best first."""
        if 'format' in node and node['format'] in _FORMATS:
            yield _FORMATS[node['format']].format(day=1 + number % 28)
        if 'pattern' in node:
            yield from matching_texts(node['pattern'], low, number)
        letter = chr(ord('a') + number % 26)
        yield letter * max(low, 1)
        yield letter * low


def _numbers(node: _Node, whole: bool, number: int) -> Iterator[float]:
    """Numbers to try: from the lower bound (or 0) upwards, from the upper one downwards, and between them."""
    low = max([node[key] for key in ('minimum', 'exclusiveMinimum') if key in node], default=None)
    high = min([node[key] for key in ('maximum', 'exclusiveMaximum') if key in node], default=None)
    step = node.get('multipleOf', 1)
    if whole and step != int(step):
        step = 1
    if low is None and high is None:
        yield number * step
    if low is not None:
        base = math.ceil(low / step)
        yield from ((base + offset) * step for offset in (number, number % 7, 0, 1))
    if high is not None:
        base = math.floor(high / step)
        yield from ((base - offset) * step for offset in (number, number % 7, 0, 1))
    if low is not None and high is not None and not whole:
        yield (low + high) / 2
    yield 0
