"""Checks JSON values against a JSON Schema, and mends what is nearly right on the way: `Fitter`.

Written here rather than taken from a library because mending and checking cannot be done one after the other: which
alternative of an `anyOf` a value was meant for is only known by trying to mend it for each. The rules of mending are
those of `agent_graph.tools.arguments`. Without mending (`accepts`) it is a plain checker of JSON Schema 2020-12, with
three known differences: `format` and `content...` are annotations, `unevaluatedItems` and `unevaluatedProperties` are
not checked, and a `pattern` Python cannot read is not checked.

The schema must be one that `legal` or pydantic made: every `$ref` is `#/$defs/NAME` and none is in a loop.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic_core import from_json

from agent_graph.tools.keywords import TYPES, json_type, place, same, show, types_of
from agent_graph.tools.limits import check_array, check_number, check_object_size, check_string

__all__ = ['Fitter', 'Problem']

EXACT = 2**53
"""From here on a float no longer holds every whole number, so turning one into an integer could change it."""

_MAX_DEPTH = 150  # schemas inside schemas; deeper values are refused before Python's own limit is near
_MAX_STEPS = 100_000  # schemas tried; alternatives inside alternatives can multiply without end

_ALL = frozenset(TYPES)
_WORDS = {
    'null': 'null',
    'boolean': 'true or false',
    'integer': 'a whole number',
    'number': 'a number',
    'string': 'a string',
    'array': 'a list',
    'object': 'an object',
}

_Path: TypeAlias = 'tuple[str | int, ...]'


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at `path`. `kind` is the keyword that says so, `size` for a number out of range, `depth` when
    the value was too much to look through.
    """

    path: _Path
    text: str
    kind: str

    def __str__(self) -> str:
        return f'{place(self.path)}: {self.text}' if self.path else self.text


class Fitter:
    """Checks values against one schema; safe to share, it keeps only what it derived from the schema."""

    __slots__ = ('_admitted', '_patterns', 'definitions', 'schema')

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self.definitions: dict[str, Any] = schema.get('$defs', {})
        self._admitted: dict[int, tuple[Any, frozenset[str]]] = {}  # the schema is kept, so that its id stays its own
        self._patterns: dict[str, re.Pattern[str] | None] = {}

    def fit(self, value: Any) -> tuple[Any, list[Problem]]:
        """The value, mended where it was nearly right (a copy then), and what is still wrong with it."""
        problems: list[Problem] = []
        walk = _Walk(self, mending=True)
        fitted = walk.node(self.schema, value, (), problems)
        if walk.gave_up:
            return value, [Problem((), 'it is nested too deeply, send a simpler value', 'depth')]
        return fitted, problems

    def accepts(self, value: Any, schema: Any = None) -> bool:
        """Whether the value is valid as it stands; `schema` is a part of this fitter's schema, or all of it."""
        problems: list[Problem] = []
        walk = _Walk(self, mending=False)
        walk.node(self.schema if schema is None else schema, value, (), problems)
        return not problems and not walk.gave_up

    def target(self, ref: str) -> Any:
        """The definition a `$ref` leads to."""
        return self.definitions[ref.removeprefix('#/$defs/').replace('~1', '/').replace('~0', '~')]

    def expected(self, schema: Any) -> str:
        """What a schema wants, in a few words."""
        while isinstance(schema, dict) and '$ref' in schema:
            schema = self.target(cast('dict[str, Any]', schema)['$ref'])
        node = cast('dict[str, Any]', schema if isinstance(schema, dict) else {})
        if 'const' in node:
            return show(node['const'])
        if 'enum' in node:
            return f'one of {", ".join(show(value, 40) for value in node["enum"][:20])}'
        types = types_of(node) or tuple(name for name in TYPES if name in self.admitted(node))
        types = tuple(name for name in types if name != 'integer' or 'number' not in types)
        return ' or '.join(_WORDS[name] for name in types) if len(types) < len(TYPES) - 1 else 'a value'

    def admitted(self, schema: Any) -> frozenset[str]:
        """The JSON types a schema lets through; `number` stands beside `integer` only where fractions are allowed."""
        if schema is True:
            return _ALL
        if schema is False:
            return frozenset()
        known = self._admitted.get(id(schema))
        if known is None:
            known = self._admitted[id(schema)] = (schema, self._admit(schema))
        return known[1]

    def _admit(self, schema: dict[str, Any]) -> frozenset[str]:
        declared = frozenset(types_of(schema)) or _ALL
        if 'number' in declared:
            declared |= {'integer'}
        for values in ([schema['const']] if 'const' in schema else None, schema.get('enum')):
            if values is not None:
                kinds = {json_type(value) for value in values}
                declared &= kinds | {'integer'} if 'number' in kinds else kinds
        if '$ref' in schema:
            declared &= self.admitted(self.target(schema['$ref']))
        for branch in schema.get('allOf', ()):
            declared &= self.admitted(branch)
        for keyword in ('anyOf', 'oneOf'):
            if keyword in schema:
                declared &= frozenset().union(*map(self.admitted, schema[keyword]))
        return declared

    def pattern(self, text: str) -> re.Pattern[str] | None:
        """The compiled pattern, or None when Python cannot read it."""
        if text not in self._patterns:
            try:
                # in ECMA-262 `$` is only the very end, and the classes are those of ASCII
                ended = text[:-1] + r'\Z' if text.endswith('$') and not text.endswith(r'\$') else text
                self._patterns[text] = re.compile(ended, re.ASCII)
            except (re.error, OverflowError, RecursionError):
                self._patterns[text] = None
        return self._patterns[text]


class _Walk:
    """One walk of a value along a schema."""

    __slots__ = ('depth', 'fitter', 'gave_up', 'mending', 'steps')

    def __init__(self, fitter: Fitter, *, mending: bool) -> None:
        self.fitter = fitter
        self.mending = mending
        self.steps = 0
        self.depth = 0
        self.gave_up = False  # then nothing that was found out counts

    def node(self, schema: Any, value: Any, path: _Path, problems: list[Problem]) -> Any:
        """`value` as this schema wants it; what is wrong is added to `problems`."""
        if schema is True:
            return value
        if schema is False:
            problems.append(Problem(path, f'got {show(value)}, but nothing is allowed here', 'false'))
            return value
        self.steps += 1
        if self.depth > _MAX_DEPTH or self.steps > _MAX_STEPS:
            self.gave_up = True
            return value
        self.depth += 1
        value = self.inside(schema, self.mend(schema, value) if self.mending else value, path, problems)
        self.depth -= 1
        return value

    def inside(self, schema: dict[str, Any], value: Any, path: _Path, problems: list[Problem]) -> Any:
        wrong = self.mismatch(schema, value)
        if wrong is not None:
            problems.append(Problem(path, wrong[1], wrong[0]))
            return value
        by_kind = _BY_KIND.get(cast('type', value.__class__))
        if by_kind is not None:
            value = by_kind(self, schema, value, path, problems)
        return self.composed(schema, value, path, problems)

    def mend(self, schema: dict[str, Any], value: Any) -> Any:
        """A string of JSON where no string is wanted is what it spells; a whole float for an integer is one."""
        if value.__class__ is str and value.lstrip()[:1] not in ('', '"', 'n'):
            admitted = self.fitter.admitted(schema)
            if 'string' not in admitted:
                value = _unwrapped(value, admitted)
        if value.__class__ is float and value.is_integer() and abs(value) <= EXACT:
            admitted = self.fitter.admitted(schema)
            if 'integer' in admitted and 'number' not in admitted:
                return int(value)
        return value

    def mismatch(self, schema: dict[str, Any], value: Any) -> tuple[str, str] | None:
        """Why the value itself is wrong, whatever is inside it: (keyword, text)."""
        types = types_of(schema)
        if types and not self.is_of(value, types):
            return 'type', self.wrong_type(value, schema, types)
        if 'const' in schema and not same(value, schema['const']):
            return 'const', f'got {show(value)}, expected {self.fitter.expected(schema)}'
        if 'enum' in schema and not any(same(value, member) for member in schema['enum']):
            return 'enum', f'got {show(value)}, expected {self.fitter.expected(schema)}'
        return None

    def wrong_type(self, value: Any, schema: dict[str, Any], types: tuple[str, ...]) -> str:
        text = f'got {show(value)}, expected {self.fitter.expected(schema)}'
        if json_type(value) == 'number' and 'integer' in types:
            if not math.isfinite(value) or not value.is_integer():
                return f'{text}; send it without a fraction'
            return f'{text}; send it as digits only, without a point or an exponent'
        return text

    def is_of(self, value: Any, types: tuple[str, ...]) -> bool:
        kind = json_type(value)
        if kind in types:
            return True
        if kind == 'integer':
            return 'number' in types
        if kind == 'number' and 'integer' in types:  # 3.0 is an integer to JSON Schema; too large ones are not exact
            return math.isfinite(value) and value.is_integer() and (not self.mending or abs(value) <= EXACT)
        return False

    def number(self, schema: dict[str, Any], value: Any, path: _Path, problems: list[Problem]) -> Any:
        types = types_of(schema)
        if 'number' in types and 'integer' not in types and value.__class__ is int and abs(value) > _MAX_FLOAT:
            problems.append(Problem(path, f'got {show(value)}, which is too large for a number', 'size'))
        problems.extend(Problem(path, text, keyword) for keyword, text in check_number(schema, value))
        return value

    def string(self, schema: dict[str, Any], value: str, path: _Path, problems: list[Problem]) -> Any:
        problems.extend(Problem(path, text, keyword) for keyword, text in check_string(schema, value))
        if 'pattern' in schema:
            pattern = self.fitter.pattern(schema['pattern'])
            if pattern is not None and not pattern.search(value):
                text = f'got {show(value)}, expected a string matching {schema["pattern"]}'
                problems.append(Problem(path, text, 'pattern'))
        return value

    def array(self, schema: dict[str, Any], value: list[Any], path: _Path, problems: list[Problem]) -> Any:
        problems.extend(Problem(path, text, keyword) for keyword, text in check_array(schema, value))
        first = schema.get('prefixItems', ())
        rest = schema.get('items', True)
        out = value
        for index, item in enumerate(value):
            fitted = self.node(first[index] if index < len(first) else rest, item, (*path, index), problems)
            if fitted is not item:
                out = out if out is not value else list(value)
                out[index] = fitted
        self.contains(schema, out, path, problems)
        return out

    def contains(self, schema: dict[str, Any], value: list[Any], path: _Path, problems: list[Problem]) -> None:
        if 'contains' not in schema:
            return
        found = sum(self.valid(schema['contains'], item, path) for item in value)
        if not schema.get('minContains', 1) <= found <= schema.get('maxContains', len(value)):
            text = f'{found} of the items are {self.fitter.expected(schema["contains"])}, which is too few or too many'
            problems.append(Problem(path, text, 'contains'))

    def object(self, schema: dict[str, Any], value: dict[str, Any], path: _Path, problems: list[Problem]) -> Any:
        value = self.without_nulls(schema, value)
        out = value
        for name in value:
            for part in self.parts(schema, name):
                if part is False:
                    problems.append(Problem((*path, name), _unknown(schema), 'additionalProperties'))
                    continue
                fitted = self.node(part, out[name], (*path, name), problems)
                if fitted is not out[name]:
                    out = out if out is not value else dict(value)
                    out[name] = fitted
            if 'propertyNames' in schema and not self.valid(schema['propertyNames'], name, path):
                problems.append(Problem((*path, name), 'this name is not allowed here', 'propertyNames'))
        for name in schema.get('required', ()):
            if name not in out:
                wanted = self.fitter.expected(schema.get('properties', {}).get(name))
                problems.append(Problem((*path, name), f'missing, it is required: expected {wanted}', 'required'))
        problems.extend(Problem(path, text, keyword) for keyword, text in check_object_size(schema, out))
        return out

    def without_nulls(self, schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        """An optional property that is null, but may not be, was not given."""
        if not self.mending or None not in value.values():
            return value
        properties, required = schema.get('properties', {}), schema.get('required', ())
        return {
            name: item
            for name, item in value.items()
            if item is not None
            or name not in properties
            or name in required
            or 'null' in self.fitter.admitted(properties[name])
        }

    def parts(self, schema: dict[str, Any], name: str) -> list[Any]:
        """The schemas that speak about the property `name`."""
        found: list[Any] = []
        if name in (properties := schema.get('properties', {})):
            found.append(properties[name])
        for text, part in schema.get('patternProperties', {}).items():
            pattern = self.fitter.pattern(text)
            if pattern is not None and pattern.search(name):
                found.append(part)
        return found or [schema.get('additionalProperties', True)]

    def composed(self, schema: dict[str, Any], value: Any, path: _Path, problems: list[Problem]) -> Any:
        """The keywords that look at the same value through other schemas."""
        if '$ref' in schema:
            value = self.node(self.fitter.target(schema['$ref']), value, path, problems)
        for branch in schema.get('allOf', ()):
            value = self.node(branch, value, path, problems)
        for keyword in ('anyOf', 'oneOf'):
            if keyword in schema:
                value = self.choose(keyword, schema[keyword], value, path, problems)
        if 'not' in schema and self.valid(schema['not'], value, path):
            problems.append(Problem(path, f'got {show(value)}, which is not allowed here', 'not'))
        if 'if' in schema:
            then = 'then' if self.valid(schema['if'], value, path) else 'else'
            value = self.node(schema.get(then, True), value, path, problems)
        if value.__class__ is dict:
            for name, branch in schema.get('dependentSchemas', {}).items():
                value = self.node(branch, value, path, problems) if name in value else value
        return value

    def choose(self, keyword: str, branches: list[Any], value: Any, path: _Path, problems: list[Problem]) -> Any:
        """The alternative that takes the value as it is, else the first that takes it mended."""
        tried: list[tuple[Any, list[Problem]]] = []
        for branch in branches:
            found: list[Problem] = []
            tried.append((self.node(branch, value, path, found), found))
            if keyword == 'anyOf' and not found and tried[-1][0] is value:
                return value
        fitting = [fitted for fitted, found in tried if not found]
        exact = [fitted for fitted in fitting if fitted is value]
        if keyword == 'oneOf' and len(exact or fitting) > 1:
            text = f'got {show(value)}, which fits {len(exact or fitting)} of the alternatives; it must fit exactly one'
            problems.append(Problem(path, text, 'oneOf'))
        if fitting:
            return exact[0] if exact else fitting[0]
        problems.extend(self.closest(tried, value, path, branches))
        return value

    def closest(
        self, tried: list[tuple[Any, list[Problem]]], value: Any, path: _Path, branches: list[Any]
    ) -> list[Problem]:
        """The problems with the alternative the value was most likely meant for, or one problem for all of them."""
        meant = [
            found
            for _, found in tried
            if not any(p.path == path and p.kind in ('type', 'enum', 'const', 'false', 'pattern') for p in found)
            and not any(len(p.path) == len(path) + 1 and p.kind in ('enum', 'const') for p in found)
        ]
        if len(meant) == 1:
            return meant[0]
        wanted = ' or '.join(dict.fromkeys(self.fitter.expected(branch) for branch in branches[:8]))
        inner = min((found for _, found in tried), key=len) if meant else []
        note = f' ({"; ".join(map(str, inner[:3]))[:300]})' if inner else ''
        return [
            Problem(path, f'got {show(value)}, which fits none of the alternatives: expected {wanted}{note}', 'anyOf')
        ]

    def valid(self, schema: Any, value: Any, path: _Path) -> bool:
        """Whether the value is valid for `schema` as it stands."""
        problems: list[Problem] = []
        mending, self.mending = self.mending, False
        self.node(schema, value, path, problems)
        self.mending = mending
        return not problems


_BY_KIND: dict[type, Callable[[_Walk, dict[str, Any], Any, _Path, list[Problem]], Any]] = {
    int: _Walk.number,
    float: _Walk.number,
    str: _Walk.string,
    list: _Walk.array,
    dict: _Walk.object,
}

_MAX_FLOAT = int(1.7976931348623157e308)


def _unwrapped(text: str, admitted: frozenset[str]) -> Any:
    """The JSON value `text` spells, if it is of an admitted type; else the text."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    kind = json_type(value)
    fits = kind in admitted or (kind == 'number' and 'integer' in admitted and value.is_integer())
    return value if fits else text


def _unknown(schema: dict[str, Any]) -> str:
    names = [*schema.get('properties', {})]
    return f'unknown name; allowed: {", ".join(names)}' if names else 'unknown name; none is allowed here'
