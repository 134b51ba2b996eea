"""The checker against an independent one, and what it does besides checking."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.tools.fit import Fitter
from agent_graph.tools.legal import legal

jsonschema: Any = pytest.importorskip('jsonschema', reason='the independent checker is not installed')

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.sampled_from([0.5, 1.0, 2.5, 3.0, -1.5, 1e20])
    | st.sampled_from(['', 'a', 'ab', 'abc', '12', 'x1', 'é']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(['a', 'b', 'c1']), inner, max_size=3),
    max_leaves=8,
)

LEAVES = st.one_of(
    st.just({}),
    st.booleans(),
    st.sampled_from(['null', 'boolean', 'integer', 'number', 'string', 'array', 'object']).map(lambda t: {'type': t}),
    st.lists(
        st.sampled_from(['null', 'integer', 'number', 'string', 'array']), min_size=1, max_size=3, unique=True
    ).map(lambda types: {'type': types}),
    st.lists(VALUES, min_size=1, max_size=3).map(lambda values: {'enum': values}),
    VALUES.map(lambda value: {'const': value}),
    st.fixed_dictionaries(
        {},
        optional={
            'minimum': st.integers(-2, 3),
            'maximum': st.integers(0, 6),
            'exclusiveMinimum': st.sampled_from([0, 1.5]),
            'exclusiveMaximum': st.sampled_from([3, 4.5]),
            'multipleOf': st.sampled_from([1, 2, 0.5, 3]),
        },
    ),
    st.fixed_dictionaries(
        {},
        optional={
            'minLength': st.integers(0, 2),
            'maxLength': st.integers(1, 3),
            'pattern': st.sampled_from(['^a', '[0-9]', 'b$', '^(a|ab)c?$']),
        },
    ),
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(['a', 'b', 'c1'])
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {},
            optional={
                'properties': st.dictionaries(names, inner, max_size=3),
                'required': st.lists(names, max_size=2, unique=True),
                'additionalProperties': inner,
                'patternProperties': st.dictionaries(st.sampled_from(['^c', 'b']), inner, max_size=1),
                'propertyNames': st.sampled_from([{'pattern': '^[ab]'}, True]),
                'minProperties': st.integers(0, 2),
                'maxProperties': st.integers(0, 3),
                'dependentRequired': st.just({'a': ['b']}),
                'dependentSchemas': st.dictionaries(st.just('a'), inner, max_size=1),
            },
        ),
        st.fixed_dictionaries(
            {},
            optional={
                'items': inner,
                'prefixItems': several,
                'minItems': st.integers(0, 2),
                'maxItems': st.integers(0, 3),
                'uniqueItems': st.booleans(),
                'contains': inner,
                'minContains': st.integers(0, 2),
                'maxContains': st.integers(0, 2),
            },
        ),
        st.fixed_dictionaries(
            {}, optional={'allOf': several, 'anyOf': several, 'oneOf': several, 'not': inner, 'type': st.just('object')}
        ),
        st.fixed_dictionaries({'if': inner}, optional={'then': inner, 'else': inner}),
        st.just({'$ref': '#/$defs/tree'}),
    )


SCHEMAS = st.recursive(LEAVES, _nested, max_leaves=6)
TREE = {'type': 'object', 'properties': {'a': {'$ref': '#/$defs/tree'}, 'b': {'type': 'integer'}}}


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, VALUES)
def test_it_agrees_with_an_independent_checker(schema: Any, value: Any) -> None:
    whole = {'$defs': {'tree': TREE}, 'properties': {'x': schema}}
    right = jsonschema.Draft202012Validator(whole).is_valid({'x': value})
    assert Fitter(whole).accepts({'x': value}) is right


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, VALUES)
def test_mending_never_spoils_what_is_right_and_its_result_is_right(schema: Any, value: Any) -> None:
    whole = {'$defs': {'tree': TREE}, 'properties': {'x': schema}}
    before = json.dumps(value)
    fitted, problems = Fitter(whole).fit({'x': value})
    assert json.dumps(value) == before  # the value that was given is left alone
    if not problems:
        assert jsonschema.Draft202012Validator(whole).is_valid(fitted)


@settings(max_examples=200, deadline=None)
@given(SCHEMAS)
def test_reading_a_legal_schema_keeps_its_meaning(schema: Any) -> None:
    whole = _with_definitions({'definitions': {'tree': TREE}, 'properties': {'x': schema}})
    read = legal(whole)
    jsonschema.Draft202012Validator.check_schema(read)
    assert legal(read) == read  # reading twice changes nothing


def _with_definitions(schema: Any) -> Any:
    return json.loads(json.dumps(schema).replace('#/$defs/tree', '#/definitions/tree'))


def problems_of(schema: dict[str, Any], value: Any) -> list[str]:
    return [str(problem) for problem in Fitter(schema).fit(value)[1]]


def test_the_alternative_that_was_meant_is_explained() -> None:
    schema = {
        'oneOf': [
            {
                'type': 'object',
                'properties': {'kind': {'const': 'a'}, 'n': {'type': 'integer'}},
                'required': ['kind', 'n'],
            },
            {
                'type': 'object',
                'properties': {'kind': {'const': 'b'}, 's': {'type': 'string'}},
                'required': ['kind', 's'],
            },
        ]
    }
    assert problems_of(schema, {'kind': 'a', 'n': 'x'}) == ['n: got "x", expected a whole number']
    assert problems_of(schema, {'kind': 'c'}) == [
        'got {"kind": "c"}, which fits none of the alternatives: expected an object'
    ]
    assert problems_of({'anyOf': [{'type': 'integer'}, {'type': 'null'}]}, 'x') == [
        'got "x", which fits none of the alternatives: expected a whole number or null'
    ]


def test_an_alternative_that_takes_the_value_as_it_is_comes_first() -> None:
    schema = {
        'anyOf': [
            {'type': 'object', 'properties': {'v': {'type': 'integer'}}, 'required': ['v']},
            {'type': 'object', 'properties': {'v': {'type': 'string'}}, 'required': ['v']},
        ]
    }
    assert Fitter(schema).fit({'v': '5'})[0] == {'v': '5'}
    assert Fitter({'anyOf': schema['anyOf'][:1]}).fit({'v': '5'})[0] == {'v': 5}


def test_two_matching_alternatives_of_one_of_are_reported() -> None:
    assert 'exactly one' in problems_of({'oneOf': [{'type': 'integer'}, {'minimum': 0}]}, 3)[0]


def test_decimal_steps_are_exact() -> None:
    assert not problems_of({'multipleOf': 0.1}, 0.3)
    assert problems_of({'multipleOf': 0.1}, 0.35)
    assert problems_of({'multipleOf': 0.1}, math.inf)


def test_a_pattern_python_cannot_read_is_not_checked() -> None:
    assert not problems_of({'pattern': r'\p{Lu}+('}, 'anything')


def test_a_pattern_ends_where_the_text_ends() -> None:
    assert problems_of({'pattern': '^[0-9]+$'}, '5\n')


def test_alternatives_inside_alternatives_come_to_an_end() -> None:
    node: dict[str, Any] = {
        'anyOf': [
            {
                'type': 'object',
                'properties': {'l': {'$ref': '#/$defs/n'}, 'tag': {'type': 'integer', 'minimum': number}},
            }
            for number in range(100, 104)
        ]
    }
    value: Any = {'tag': 1}
    for _ in range(40):
        value = {'l': value}
    assert problems_of({'$ref': '#/$defs/n', '$defs': {'n': node}}, value) == [
        'it is nested too deeply, send a simpler value'
    ]


def test_depth_is_bounded_well_before_pythons_own_limit() -> None:
    node: dict[str, Any] = {'anyOf': [{'type': 'object', 'properties': {'l': {'$ref': '#/$defs/n'}}}]}
    value: Any = {}
    for _ in range(2000):
        value = {'l': value}

    def deeper(levels: int) -> list[str]:
        return deeper(levels - 1) if levels else problems_of({'$ref': '#/$defs/n', '$defs': {'n': node}}, value)

    assert deeper(200) == ['it is nested too deeply, send a simpler value']
