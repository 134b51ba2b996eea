"""The bounds JSON Schema puts on single values: numbers, strings, arrays, objects. Each check yields (keyword, text)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from agent_graph.tools.keywords import same, show

__all__ = ['check_array', 'check_number', 'check_object_size', 'check_string']


def check_number(schema: Mapping[str, Any], value: float) -> Iterator[tuple[str, str]]:
    """`minimum`, `maximum`, the exclusive ones and `multipleOf`."""
    got = f'got {show(value)}'
    if 'minimum' in schema and value < schema['minimum']:
        yield 'minimum', f'{got}, expected at least {schema["minimum"]}'
    if 'maximum' in schema and value > schema['maximum']:
        yield 'maximum', f'{got}, expected at most {schema["maximum"]}'
    if 'exclusiveMinimum' in schema and value <= schema['exclusiveMinimum']:
        yield 'exclusiveMinimum', f'{got}, expected more than {schema["exclusiveMinimum"]}'
    if 'exclusiveMaximum' in schema and value >= schema['exclusiveMaximum']:
        yield 'exclusiveMaximum', f'{got}, expected less than {schema["exclusiveMaximum"]}'
    if 'multipleOf' in schema and not _is_multiple(value, schema['multipleOf']):
        yield 'multipleOf', f'{got}, expected a multiple of {schema["multipleOf"]}'


def _is_multiple(value: float, step: float) -> bool:
    """Exact in decimal, as a person reads both numbers: 0.3 is a multiple of 0.1."""
    return math.isfinite(value) and (Fraction(repr(value)) / Fraction(repr(step))).denominator == 1


def check_string(schema: Mapping[str, Any], value: str) -> Iterator[tuple[str, str]]:
    """`minLength` and `maxLength`, in characters."""
    if 'minLength' in schema and len(value) < schema['minLength']:
        yield 'minLength', f'got {show(value)}, expected at least {schema["minLength"]} characters'
    if 'maxLength' in schema and len(value) > schema['maxLength']:
        yield 'maxLength', f'got {len(value)} characters ({show(value)}), expected at most {schema["maxLength"]}'


def check_array(schema: Mapping[str, Any], value: list[Any]) -> Iterator[tuple[str, str]]:
    """`minItems`, `maxItems` and `uniqueItems`."""
    if 'minItems' in schema and len(value) < schema['minItems']:
        yield 'minItems', f'got {len(value)} items, expected at least {schema["minItems"]}'
    if 'maxItems' in schema and len(value) > schema['maxItems']:
        yield 'maxItems', f'got {len(value)} items, expected at most {schema["maxItems"]}'
    if schema.get('uniqueItems') and (twice := _repeated(value)) is not None:
        yield 'uniqueItems', f'got {show(value[twice])} more than once, expected different items'


def _repeated(value: list[Any]) -> int | None:
    """The index of an item that occurred before."""
    seen: set[tuple[type, Any]] = set()
    others: list[Any] = []
    for index, item in enumerate(value):
        if isinstance(item, (str, int, float)):
            key = (bool if isinstance(item, bool) else str if isinstance(item, str) else float, item)
            if key in seen:
                return index
            seen.add(key)
        elif any(same(item, other) for other in others):
            return index
        else:
            others.append(item)
    return None


def check_object_size(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """`minProperties`, `maxProperties` and `dependentRequired`."""
    if 'minProperties' in schema and len(value) < schema['minProperties']:
        yield 'minProperties', f'got {len(value)} entries, expected at least {schema["minProperties"]}'
    if 'maxProperties' in schema and len(value) > schema['maxProperties']:
        yield 'maxProperties', f'got {len(value)} entries, expected at most {schema["maxProperties"]}'
    for name, others in schema.get('dependentRequired', {}).items():
        missing = [other for other in others if other not in value] if name in value else []
        if missing:
            yield 'dependentRequired', f'{", ".join(missing)} must be given together with {name}'
