"""Case 12 and the table of `agent_graph.tools.dialects`: what each wire gets, and that nothing ever blows up."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from agent_graph.errors import ToolDefinitionError
from agent_graph.tools.dialects import DIALECTS, google, openai, plain, strict
from agent_graph.tools.schema import function_schema, schema_from_json

ALL = pytest.mark.parametrize('name', list(DIALECTS))


class Node(BaseModel):
    """A node of a tree."""

    value: int
    children: list[Node] = []


class Person(BaseModel):
    name: str
    home: Home | None = None


class Home(BaseModel):
    people: list[Person]


def tree(node: Node, also: Node | None = None) -> None:
    """Takes a tree."""


def people(person: Person) -> None: ...


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object in a schema."""
    if isinstance(schema, dict):
        yield schema  # pyright: ignore[reportUnknownVariableType]
        for held in schema.values():  # pyright: ignore[reportUnknownVariableType]
            yield from parts(held)
    elif isinstance(schema, list):
        for held in schema:  # pyright: ignore[reportUnknownVariableType]
            yield from parts(held)


def outcome(name: str, schema: dict[str, Any], tool_name: str = '') -> dict[str, Any] | ToolDefinitionError:
    try:
        return DIALECTS[name](schema, tool_name=tool_name)
    except ToolDefinitionError as error:
        return error


def of(schema: dict[str, Any], required: bool = True) -> dict[str, Any]:
    return {'type': 'object', 'properties': {'x': schema}, **({'required': ['x']} if required else {})}


@ALL
@pytest.mark.parametrize('function', [tree, people])
def test_recursion_ends_in_every_dialect(name: str, function: Any) -> None:
    parameters = function_schema(function).parameters
    before = copy.deepcopy(parameters)
    made = DIALECTS[name](parameters)
    assert parameters == before  # the given schema is left alone
    text = json.dumps(made)
    assert len(text) < 6_000
    assert ('$ref' in text) is (name in ('openai', 'strict'))
    assert DIALECTS[name](parameters) == made


def test_a_recursive_definition_is_written_out_twice_and_then_cut() -> None:
    parameters = function_schema(tree).parameters
    first = plain(parameters)['properties']['node']
    second = first['properties']['children']['items']
    third = second['properties']['children']['items']
    assert first['description'] == second['description'] == 'A node of a tree.'
    assert third == {'type': 'object', 'description': 'A node of a tree.'}
    cut = google(parameters)['properties']['node']['properties']['children']['items']['properties']['children']['items']
    assert cut['type'] == 'string'
    assert cut['description'] == 'A node of a tree.\n\nA JSON object, written as text.'


def test_what_a_cut_dialect_makes_the_model_send_is_understood() -> None:
    schema = function_schema(tree)
    text = '{"node": {"value": 1, "children": [{"value": 2, "children": ["{\\"value\\": 3}"]}]}}'
    assert schema.validate(text)['node'].children[0].children[0] == Node(value=3)


HARD: dict[str, dict[str, Any]] = {
    'a reference into properties': {
        'type': 'object',
        'properties': {'a': {'type': 'string'}, 'b': {'$ref': '#/properties/a'}},
    },
    'definitions': {
        'type': 'object',
        'properties': {'a': {'$ref': '#/definitions/A'}},
        'definitions': {'A': {'type': 'string'}},
    },
    'a reference with siblings': {
        'type': 'object',
        'properties': {'a': {'$ref': '#/$defs/A', 'description': 'mine', 'maxLength': 3}},
        '$defs': {'A': {'type': 'string', 'description': 'theirs', 'minLength': 1}},
    },
    'recursion beside siblings': {
        'type': 'object',
        'properties': {'a': {'$ref': '#/$defs/A'}},
        '$defs': {
            'A': {
                'type': 'object',
                'properties': {'kids': {'type': 'array', 'items': {'$ref': '#/$defs/A', 'description': 'a kid'}}},
            }
        },
    },
    'recursion inside a merged choice': {
        'type': 'object',
        'properties': {'a': {'$ref': '#/$defs/A'}},
        '$defs': {
            'A': {
                'type': 'object',
                'properties': {'n': {'type': 'integer'}},
                'anyOf': [
                    {'type': 'object', 'properties': {'l': {'allOf': [{'$ref': '#/$defs/A'}, {'minProperties': 1}]}}},
                    {'type': 'object', 'properties': {'s': {'type': 'string'}}},
                ],
            }
        },
    },
}


@ALL
@pytest.mark.parametrize('case', list(HARD))
def test_hard_schemas_are_sent_or_refused_by_name(name: str, case: str) -> None:
    schema = schema_from_json('hard.tool', None, HARD[case], print)
    made = outcome(name, schema.parameters, 'hard.tool')
    if isinstance(made, ToolDefinitionError):
        assert name == 'strict' and made.tool_name == 'hard.tool'
        assert made.path.startswith('/')
    else:
        assert len(json.dumps(made)) < 4_000


@ALL
def test_a_dangling_reference_is_refused_by_name(name: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        DIALECTS[name](of({'$ref': '#/$defs/Gone'}), tool_name='bad')
    assert (caught.value.tool_name, caught.value.path) == ('bad', '/properties/x/$ref')


@ALL
def test_a_schema_of_something_else_than_an_object_is_refused(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match='object'):
        DIALECTS[name]({'type': 'array', 'items': {'type': 'integer'}}, tool_name='list')


@ALL
def test_a_very_deep_schema_is_refused(name: str) -> None:
    deep: dict[str, Any] = {'type': 'string'}
    for _ in range(2000):
        deep = {'type': 'array', 'items': deep}
    with pytest.raises(ToolDefinitionError, match='nested deeper'):
        DIALECTS[name](of(deep), tool_name='deep')


@ALL
@pytest.mark.parametrize('wrap', ['items', 'properties', 'anyOf'])
def test_a_deep_schema_is_no_recursion_error(name: str, wrap: str) -> None:
    deep: dict[str, Any] = {'type': 'string'}
    for _ in range(60 if wrap != 'items' else 120):
        if wrap == 'items':
            deep = {'type': 'array', 'items': deep}
        elif wrap == 'anyOf':
            deep = {'anyOf': [deep, {'type': 'null'}]}
        else:
            deep = {'type': 'object', 'properties': {'p': deep}, 'required': ['p'], 'additionalProperties': False}

    def lower(levels: int) -> Any:
        return lower(levels - 1) if levels else outcome(name, of(deep))

    made = lower(100)
    if isinstance(made, ToolDefinitionError):
        assert name == 'strict' and 'too deep' in str(made)
    else:
        json.dumps(made)


@ALL
@pytest.mark.parametrize('keyword', ['properties', 'anyOf', 'allOf', 'items'])
def test_diamonds_do_not_grow(name: str, keyword: str) -> None:
    """Each definition refers to the next one twice: written out, 30 of them are a billion."""
    definitions: dict[str, Any] = {'d30': {'type': 'object', 'properties': {'end': {'type': 'string'}}}}
    for n in range(30):
        ref = {'$ref': f'#/$defs/d{n + 1}'}
        definitions[f'd{n}'] = {
            'properties': {'type': 'object', 'properties': {'l': ref, 'r': ref}, 'required': ['l', 'r']},
            'items': {'type': 'array', 'items': {'type': 'object', 'properties': {'l': ref, 'r': ref}}},
            'anyOf': {'type': 'object', 'anyOf': [ref, {**ref, 'description': 'again'}]},
            'allOf': {'type': 'object', 'allOf': [ref, {**ref, 'description': 'again'}]},
        }[keyword]
    started = time.perf_counter()
    made = DIALECTS[name]({**of({'$ref': '#/$defs/d0'}), '$defs': definitions})
    assert time.perf_counter() - started < 3
    assert len(json.dumps(made)) < 1_000_000


@ALL
def test_a_long_chain_of_definitions_is_sent(name: str) -> None:
    definitions: dict[str, Any] = {
        f'd{n}': {
            'type': 'object',
            'properties': {'next': {'$ref': f'#/$defs/d{n + 1}'}},
            'required': ['next'],
            'additionalProperties': False,
        }
        for n in range(2000)
    }
    definitions['d2000'] = {'type': 'string'}
    json.dumps(DIALECTS[name]({**of({'$ref': '#/$defs/d0'}), '$defs': definitions}))


CHOICE: dict[str, Any] = {
    'type': 'object',
    'description': 'One of two.',
    'oneOf': [
        {'properties': {'kind': {'const': 'a'}, 'n': {'type': 'integer'}}, 'required': ['kind', 'n']},
        {'$ref': '#/$defs/B'},
    ],
    '$defs': {
        'B': {'type': 'object', 'properties': {'kind': {'const': 'b'}, 's': {'type': 'string'}}, 'required': ['kind']}
    },
}


@pytest.mark.parametrize('name', ['openai', 'plain', 'google'])
def test_a_choice_at_the_top_becomes_one_object(name: str) -> None:
    made = DIALECTS[name](CHOICE)
    assert made['type'] == 'object'
    assert made['description'] == 'One of two.'
    assert set(made['properties']) == {'kind', 'n', 's'}
    assert made['required'] == ['kind']
    assert not made.keys() & {'oneOf', 'anyOf', 'allOf', '$ref'}
    assert '"a"' in json.dumps(made['properties']['kind']) and '"b"' in json.dumps(made['properties']['kind'])


def test_strict_refuses_a_choice_at_the_top() -> None:
    with pytest.raises(ToolDefinitionError, match='choice between objects at the top'):
        strict(CHOICE)


def test_no_arguments_are_an_empty_object() -> None:
    for made in (dialect({'type': 'object'}) for dialect in DIALECTS.values()):
        assert made['type'] == 'object' and made['properties'] == {}
    assert strict({'type': 'object'}) == {
        'type': 'object',
        'properties': {},
        'required': [],
        'additionalProperties': False,
    }


def test_openai_keeps_the_schema_and_gives_arrays_items() -> None:
    parameters = function_schema(tree).parameters
    assert openai(parameters) == parameters
    assert openai(of({'type': 'array'}))['properties']['x'] == {'type': 'array', 'items': {}}


class Shape(BaseModel):
    kind: Literal['square']
    size: float = Field(gt=0, description='In {cm}.')


def strictly(
    n: int,
    shape: Shape,
    name: str = 'x',
    ratio: float | None = None,
    pair: tuple[int, str] = (1, 'a'),
    level: Literal[1, 2] = 1,
    node: Node | None = None,
) -> None:
    """F.

    Args:
        name: A {name}.
    """


def test_strict_closes_everything() -> None:
    made = strict(function_schema(strictly).parameters)
    objects = [part for part in parts(made) if part.get('type') == 'object']
    assert len(objects) == 3
    for part in objects:
        assert part['additionalProperties'] is False
        assert part['required'] == list(part['properties'])
    properties = made['properties']
    assert properties['n'] == {'type': 'integer'}
    assert properties['shape'] == {'$ref': '#/$defs/Shape'}
    assert properties['name'] == {'type': ['string', 'null'], 'description': 'A {name}.\n\ndefault: "x"'}
    assert properties['ratio'] == {'anyOf': [{'type': 'number'}, {'type': 'null'}]}
    assert properties['pair']['items'] == {'anyOf': [{'type': 'integer'}, {'type': 'string'}]}
    assert (properties['pair']['minItems'], properties['pair']['maxItems']) == (2, 2)
    assert properties['level']['enum'] == [1, 2, None]
    assert properties['node'] == {'anyOf': [{'$ref': '#/$defs/Node'}, {'type': 'null'}]}
    shape = made['$defs']['Shape']['properties']
    assert shape['kind'] == {'type': 'string', 'const': 'square'}
    assert shape['size'] == {'type': 'number', 'exclusiveMinimum': 0, 'description': 'In {cm}.'}


def test_null_sent_because_of_strict_mode_is_the_default() -> None:
    schema = function_schema(strictly)
    text = '{"n": 1, "shape": {"kind": "square", "size": 1}, "name": null, "ratio": null, "pair": null, "level": null, "node": null}'
    assert schema.validate(text) == {'n': 1, 'shape': Shape(kind='square', size=1), 'ratio': None, 'node': None}


@pytest.mark.parametrize(
    ('schema', 'path', 'text'),
    [
        ({}, '/properties/x', 'needs a type'),
        ({'type': 'object'}, '/properties/x', 'not listed'),
        ({'type': 'object', 'additionalProperties': {'type': 'string'}}, '/properties/x', 'not listed'),
        ({'type': 'array'}, '/properties/x/items', 'needs a type'),
        ({'type': 'object', 'properties': {'a': {}}, 'required': ['a']}, '/properties/x/properties/a', 'needs a type'),
        ({'type': 'object', 'properties': {}, 'required': ['a']}, '/properties/x', "'a' is required"),
    ],
)
def test_strict_refuses_what_it_cannot_close(schema: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(ToolDefinitionError, match=text) as caught:
        strict(of(schema), tool_name='open')
    assert (caught.value.tool_name, caught.value.path) == ('open', path)


def test_strict_refuses_open_objects_inside_definitions() -> None:
    with pytest.raises(ToolDefinitionError, match='not listed') as caught:
        strict({**of({'$ref': '#/$defs/A'}), '$defs': {'A': {'type': 'object'}}})
    assert caught.value.path == '/$defs/A'


@pytest.mark.parametrize(
    ('schema', 'made'),
    [
        ({'type': ['string', 'null'], 'maxLength': 3}, {'type': 'string', 'maxLength': 3, 'nullable': True}),
        ({'anyOf': [{'type': 'integer'}, {'type': 'null'}], 'description': 'd'}, {'type': 'integer', 'nullable': True, 'description': 'd'}),
        ({'type': ['string', 'integer']}, {'anyOf': [{'type': 'string'}, {'type': 'integer'}]}),
        ({'oneOf': [{'type': 'string'}, {'type': 'integer'}]}, {'anyOf': [{'type': 'string'}, {'type': 'integer'}]}),
        ({'const': 'a'}, {'type': 'string', 'enum': ['a']}),
        ({'enum': ['a', 'b', None]}, {'type': 'string', 'enum': ['a', 'b'], 'nullable': True}),
        ({'type': 'integer', 'enum': [1, 2], 'description': 'D.'}, {'type': 'integer', 'description': 'D.\n\nallowed: 1, 2'}),
        ({'type': 'string', 'format': 'date-time'}, {'type': 'string', 'format': 'date-time'}),
        ({'type': 'string', 'format': 'uuid', 'default': 'x'}, {'type': 'string', 'description': 'format: "uuid", default: "x"'}),
        ({'type': 'integer', 'minimum': 1, 'exclusiveMaximum': 5, 'format': 'int32'}, {'type': 'integer', 'minimum': 1, 'format': 'int32', 'description': 'exclusiveMaximum: 5'}),
        ({'type': 'object', 'additionalProperties': {'type': 'string'}, 'description': 'D.'}, {'type': 'string', 'description': 'D.\n\nA JSON object, written as text.'}),
        ({'type': 'array', 'items': {'type': 'string'}, 'minItems': 1}, {'type': 'array', 'items': {'type': 'string'}, 'minItems': 1}),
        ({'type': 'array', 'prefixItems': [{'type': 'string'}, {'type': 'integer'}], 'items': False}, {'type': 'array', 'items': {'anyOf': [{'type': 'string'}, {'type': 'integer'}]}, 'maxItems': 2}),
        ({'allOf': [{'type': 'string', 'minLength': 1}, {'minLength': 3}]}, {'type': 'string', 'minLength': 3}),
        ({'type': 'null'}, {'type': 'null'}),
        ({}, {'anyOf': [{'type': 'string'}, {'type': 'number'}, {'type': 'boolean'}], 'description': 'Any JSON value.'}),
        ({'type': 'object', 'properties': {'a': {'type': 'string', 'x-y': 1, 'title': 'T'}}, 'required': ['a', 'b'], 'additionalProperties': False}, {'type': 'object', 'properties': {'a': {'type': 'string', 'title': 'T'}}, 'required': ['a']}),
    ],
)  # fmt: skip
def test_google_row_by_row(schema: dict[str, Any], made: dict[str, Any]) -> None:
    assert google(of(schema))['properties']['x'] == made


def test_a_merged_schema_allows_what_both_sides_allow() -> None:
    both = {
        'allOf': [
            {'type': 'object', 'properties': {'a': {'type': ['string', 'null']}}, 'required': ['a']},
            {'$ref': '#/$defs/B'},
        ]
    }
    definitions = {
        'B': {'type': 'object', 'properties': {'a': {'type': 'string'}, 'b': {'type': 'integer'}}, 'required': ['b']}
    }
    made = strict({**of(both), '$defs': definitions})['properties']['x']
    assert made == {
        'type': 'object',
        'properties': {'a': {'type': 'string'}, 'b': {'type': 'integer'}},
        'required': ['a', 'b'],
        'additionalProperties': False,
    }


TEXT = '{} {x} {{x}} ${x} %(x)s {{ 7*7 }} {x.__class__}\n\t "quoted" \\ \U0001f469\u200d\U0001f467 \u200f'


@ALL
def test_published_text_is_sent_byte_for_byte(name: str) -> None:
    schema = of({'type': 'string', 'description': TEXT, 'enum': [TEXT]})
    schema['properties'][TEXT] = {'type': 'integer', 'description': TEXT, 'minimum': 1}
    schema['required'] = ['x', TEXT]
    made = DIALECTS[name]({**schema, 'description': TEXT})
    assert made['description'] == TEXT
    assert made['properties']['x'] == {'type': 'string', 'description': TEXT, 'enum': [TEXT]}
    assert made['properties'][TEXT]['description'] == TEXT
