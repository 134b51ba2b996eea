"""Sample arguments are valid, small, and the same every time."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from agent_graph.errors import ToolDefinitionError
from agent_graph.tools.fit import Fitter
from agent_graph.tools.sample import sample_arguments
from agent_graph.tools.schema import function_schema


def sample(schema: dict[str, Any], **options: Any) -> Any:
    """A value for one required argument, checked."""
    parameters = {'type': 'object', 'properties': {'x': schema}, 'required': ['x']}
    if '$defs' in schema:
        parameters = {**parameters, '$defs': schema['$defs']}
    arguments = sample_arguments(parameters, **options)
    assert Fitter(parameters).accepts(arguments)
    return arguments['x']


@pytest.mark.parametrize(
    ('schema', 'value'),
    [
        ({'type': 'integer'}, 0),
        ({'type': 'number'}, 0),
        ({'type': 'string'}, 'a'),
        ({'type': 'boolean'}, False),
        ({'type': 'null'}, None),
        ({'type': ['null', 'integer']}, 0),
        ({'type': 'array', 'items': {'type': 'integer'}}, []),
        ({'type': 'object'}, {}),
        ({}, 'a'),
        ({'const': {'a': [1]}}, {'a': [1]}),
        ({'enum': ['b', 'a']}, 'b'),
        ({'type': 'string', 'enum': [1, 'a']}, 'a'),
        ({'type': 'integer', 'minimum': 3}, 3),
        ({'type': 'integer', 'exclusiveMinimum': 3}, 4),
        ({'type': 'integer', 'maximum': -2}, -2),
        ({'type': 'integer', 'minimum': 2.5, 'maximum': 3}, 3),
        ({'type': 'integer', 'minimum': 4, 'multipleOf': 5}, 5),
        ({'type': 'number', 'exclusiveMinimum': 0, 'exclusiveMaximum': 1}, 0.5),
        ({'type': 'number', 'multipleOf': 0.25, 'minimum': 0.3}, 0.5),
        ({'type': 'string', 'minLength': 3}, 'aaa'),
        ({'type': 'string', 'maxLength': 0}, ''),
        ({'type': 'array', 'items': {'type': 'integer'}, 'minItems': 2}, [0, 1]),
        ({'type': 'array', 'items': {'enum': ['a', 'b']}, 'minItems': 2, 'uniqueItems': True}, ['a', 'b']),
        ({'type': 'array', 'prefixItems': [{'const': 1}, {'const': 2}], 'items': False, 'minItems': 2}, [1, 2]),
        ({'type': 'array', 'contains': {'const': 7}}, [7]),
        ({'type': 'object', 'properties': {'a': {'const': 1}, 'b': {}}, 'required': ['a']}, {'a': 1}),
        ({'type': 'object', 'properties': {'a': {'const': 1}}, 'minProperties': 1}, {'a': 1}),
        ({'type': 'object', 'additionalProperties': {'const': 2}, 'minProperties': 1}, {'name0': 2}),
        ({'anyOf': [False, {'type': 'integer', 'minimum': 5}]}, 5),
        ({'oneOf': [{'type': 'number'}, {'type': 'integer'}, {'const': 'x'}]}, 'x'),
        ({'allOf': [{'minimum': 2}, {'type': 'integer', 'maximum': 4}]}, 2),
        ({'type': 'integer', 'not': {'enum': [0, 1, 2]}}, 3),
        ({'properties': {'a': {'type': 'integer'}}, 'required': ['a']}, {'a': 0}),
    ],
)
def test_the_smallest_value(schema: dict[str, Any], value: Any) -> None:
    assert sample(schema) == value


@pytest.mark.parametrize(
    ('name', 'rule'),
    [
        ('date', r'\d{4}-\d\d-\d\d'),
        ('date-time', r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ'),
        ('uuid', r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'),
        ('email', r'[^@]+@[^@]+\.com'),
        ('uri', r'https://.+'),
    ],
)
def test_formats(name: str, rule: str) -> None:
    for seed in range(40):
        assert re.fullmatch(rule, sample({'type': 'string', 'format': name}, seed=seed))


@pytest.mark.parametrize(
    'pattern',
    [
        '^(0|[1-9][0-9]*)$',
        '^[A-Z]{2}-[0-9]{3,5}$',
        r'^\d{4}-(0[1-9]|1[0-2])$',
        r'^(?:\+\d{1,3} )?[^a-y]+\w*\s?$',
        '^(a|b)(c)?\\1$',
        'needle',
        '^#([0-9a-fA-F]{6})$',
    ],
)
def test_patterns(pattern: str) -> None:
    for seed in range(12):
        assert re.search(pattern, sample({'type': 'string', 'pattern': pattern}, seed=seed))


def test_a_pattern_and_a_length() -> None:
    assert len(sample({'type': 'string', 'pattern': '^[ab]+$', 'minLength': 50, 'maxLength': 60})) >= 50


@pytest.mark.parametrize(
    'schema',
    [
        {'type': 'string', 'pattern': '^(?=.*[A-Z])(?=.*[0-9])[A-Z]{3}$'},
        {'type': 'integer', 'minimum': 3, 'maximum': 2},
        {'type': 'array', 'items': {'const': 1}, 'minItems': 2, 'uniqueItems': True},
        {'enum': [1], 'not': {'const': 1}},
    ],
)
def test_what_cannot_be_made_up_is_a_typed_error(schema: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError, match='no arguments could be made up') as caught:
        sample(schema, tool_name='hard')
    assert caught.value.tool_name == 'hard'


class Tree(BaseModel):
    value: int
    left: Tree | None
    right: Tree | None
    kids: list[Tree] = Field(min_length=1, default=[])


class Even(BaseModel):
    odd: Odd | None


class Odd(BaseModel):
    even: Even


def test_recursion_ends() -> None:
    def f(tree: Tree, odd: Odd) -> None: ...

    schema = function_schema(f)
    for seed in range(6):
        schema.validate(json.dumps(sample_arguments(schema.parameters, seed=seed)))
    endless = {
        '$ref': '#/$defs/A',
        '$defs': {'A': {'type': 'object', 'properties': {'a': {'$ref': '#/$defs/A'}}, 'required': ['a']}},
    }
    with pytest.raises(ToolDefinitionError):
        sample(endless)


def test_a_seed_gives_the_same_again_and_seeds_differ() -> None:
    def f(n: int, name: str, on: bool, level: Annotated[int, Field(ge=1, le=3)]) -> None: ...

    parameters = function_schema(f).parameters
    made = [sample_arguments(parameters, seed=seed) for seed in range(5)]
    assert made == [sample_arguments(parameters, seed=seed) for seed in range(5)]
    assert len({json.dumps(arguments) for arguments in made}) == 5
    assert made[0] == {'n': 0, 'name': 'a', 'on': False, 'level': 1}
