"""What is understood of published schemas, row by row, and what is refused where."""

from __future__ import annotations

from typing import Any

import pytest

from agent_graph.errors import ArgumentsError, ToolDefinitionError
from agent_graph.tools.legal import MAX_DEPTH, legal
from agent_graph.tools.schema import schema_from_json

FINE: dict[str, Any] = {
    'type': 'object',
    'properties': {
        'a': {
            'type': 'string',
            'description': 'A {x}.',
            'minLength': 1,
            'default': 'x',
            'x-extension': {'any': ['thing']},
        },
        'b': {'anyOf': [{'$ref': '#/$defs/B'}, {'type': 'null'}]},
    },
    'required': ['a'],
    'additionalProperties': False,
    '$defs': {'B': {'type': 'array', 'prefixItems': [{'const': 1}], 'items': False}},
}


def test_a_legal_schema_is_kept_and_copied() -> None:
    read = legal(FINE)
    assert read == FINE
    assert read is not FINE and read['properties'] is not FINE['properties']
    assert legal(read) == read


@pytest.mark.parametrize(
    ('published', 'read'),
    [
        ({'type': 'dict'}, {'type': 'object'}),
        ({'type': 'HashMap'}, {'type': 'object'}),
        ({'type': 'float'}, {'type': 'number'}),
        ({'type': 'Double'}, {'type': 'number'}),
        ({'type': 'long'}, {'type': 'integer'}),
        ({'type': 'Boolean'}, {'type': 'boolean'}),
        ({'type': 'String'}, {'type': 'string'}),
        ({'type': 'char'}, {'type': 'string'}),
        ({'type': 'tuple', 'items': {'type': 'float'}}, {'type': 'array', 'items': {'type': 'number'}}),
        ({'type': 'ArrayList'}, {'type': 'array'}),
        ({'type': 'None'}, {'type': 'null'}),
        ({'type': 'any', 'description': 'x'}, {'description': 'x'}),
        ({'type': ['str', 'null', 'String']}, {'type': ['string', 'null']}),
        ({'type': 'string', 'nullable': True}, {'type': ['string', 'null']}),
        ({'type': 'string', 'enum': ['a'], 'nullable': True}, {'type': ['string', 'null'], 'enum': ['a', None]}),
        (
            {'allOf': [{'type': 'string'}], 'nullable': True, 'description': 'd'},
            {'anyOf': [{'allOf': [{'type': 'string'}]}, {'type': 'null'}], 'description': 'd'},
        ),
        ({'nullable': True}, {}),
        ({'type': 'string', 'nullable': False}, {'type': 'string'}),
        ({'items': [{'type': 'str'}], 'additionalItems': False}, {'prefixItems': [{'type': 'string'}], 'items': False}),
        ({'dependencies': {'a': ['b'], 'b': {'type': 'dict'}}}, {'dependentRequired': {'a': ['b']}, 'dependentSchemas': {'b': {'type': 'object'}}}),
        ({'minimum': 3, 'exclusiveMinimum': True}, {'exclusiveMinimum': 3}),
        ({'maximum': 3, 'exclusiveMaximum': False}, {'maximum': 3}),
        (
            {'type': 'object', 'properties': {'a': {'type': 'string', 'required': True}, 'b': {'required': False}}},
            {'type': 'object', 'properties': {'a': {'type': 'string'}, 'b': {}}, 'required': ['a']},
        ),
        ({'type': 'string', 'description': None, 'enum': None, 'format': None}, {'type': 'string'}),
        ({'const': None}, {'const': None}),
        ({'type': 'string', 'enum': []}, {'type': 'string'}),
        (
            {'type': 'array', 'items': {'type': 'string'}, 'enum': ['a', 'b']},
            {'type': 'array', 'items': {'type': 'string', 'enum': ['a', 'b']}},
        ),
        ({'type': 'array', 'enum': [['a'], ['b']]}, {'type': 'array', 'enum': [['a'], ['b']]}),
        ({'type': 'integer', 'enum': ['1', '2']}, {'type': 'integer', 'enum': [1, 2]}),
        ({'type': 'integer', 'enum': ['low', 'high']}, {'enum': ['low', 'high']}),
        ({'type': 'integer', 'default': None}, {'type': 'integer'}),
        ({'type': ['integer', 'null'], 'default': None}, {'type': ['integer', 'null'], 'default': None}),
        ({'type': 'string', 'enum': ['a'], 'default': 'b'}, {'type': 'string', 'enum': ['a']}),
        ({'$schema': 'http://json-schema.org/draft-07/schema#', '$id': 'x', '$comment': 'c', 'type': 'object'}, {'type': 'object'}),
        ({'required': ['a', 'b', 'a']}, {'required': ['a', 'b']}),
        ({'type': 'string', 'optional': True}, {'type': 'string', 'optional': True}),
        ({'description': 'half \ud83c'}, {'description': 'half \ufffd'}),
    ],
)  # fmt: skip
def test_what_is_nearly_legal_is_understood(published: dict[str, Any], read: dict[str, Any]) -> None:
    assert legal({'properties': {'x': published}})['properties']['x'] == read


@pytest.mark.parametrize(
    ('ref', 'extra', 'name'),
    [
        ('#/definitions/Node', {'definitions': {'Node': {'type': 'string'}}}, 'Node'),
        ('#/properties/a', {}, 'a'),
        ('#/properties/a/items/0', {}, 'items_0'),
        ('#/components/schemas/C', {'components': {'schemas': {'C': {'type': 'string'}}}}, 'C'),
        ('#/$defs/with%20space~1and%25', {'$defs': {'with space/and%': {'type': 'string'}}}, 'with_space_and_'),
        ('#here', {'$defs': {'A': {'$anchor': 'here', 'type': 'string'}}}, 'A'),
        ('http://x/y#/$defs/A', {'$id': 'http://x/y', '$defs': {'A': {'type': 'string'}}}, 'A'),
    ],
)
def test_references_to_any_place_become_definitions(ref: str, extra: dict[str, Any], name: str) -> None:
    published = {'properties': {'a': {'type': 'string', 'items': [{'type': 'string'}]}, 'b': {'$ref': ref}}, **extra}
    read = legal(published)
    assert read['properties']['b'] == {'$ref': f'#/$defs/{name}'}
    assert read['$defs'][name].get('type') == 'string'
    assert set(read) == {'properties', '$defs'}


def test_a_reference_to_the_whole_is_kept_as_recursion() -> None:
    published = {'type': 'object', 'properties': {'kids': {'type': 'array', 'items': {'$ref': '#'}}}}
    read = legal(published)
    assert read['properties']['kids']['items'] == {'$ref': '#/$defs/root'}
    assert read['$defs']['root']['properties']['kids']['items'] == {'$ref': '#/$defs/root'}


def test_definitions_of_one_name_in_two_places_are_kept_apart() -> None:
    published = {
        'properties': {'a': {'$ref': '#/$defs/N'}, 'b': {'$ref': '#/definitions/N'}},
        '$defs': {'N': {'type': 'string'}},
        'definitions': {'N': {'type': 'integer'}},
    }
    read = legal(published)
    assert read['$defs'] == {'N': {'type': 'string'}, 'N_2': {'type': 'integer'}}
    assert read['properties']['b'] == {'$ref': '#/$defs/N_2'}


def test_unused_definitions_are_left_out_even_broken_ones() -> None:
    assert '$defs' not in legal({'type': 'object', '$defs': {'A': {'$ref': '#/nowhere'}}})


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({'type': 'strng'}, '/properties/x/type', 'no JSON type'),
    ({'type': ''}, '/properties/x/type', 'no JSON type'),
    ({'type': []}, '/properties/x/type', 'empty'),
    ({'type': 3}, '/properties/x/type', 'no JSON type'),
    ({'properties': ['a']}, '/properties/x/properties', 'schemas by name'),
    ({'properties': {'a/b': 'string'}}, '/properties/x/properties/a~1b', 'not a schema'),
    ({'items': 'string'}, '/properties/x/items', 'not a schema'),
    ({'anyOf': {}}, '/properties/x/anyOf', 'list of schemas'),
    ({'anyOf': []}, '/properties/x/anyOf', 'list of schemas'),
    ({'anyOf': [{}, 3]}, '/properties/x/anyOf/1', 'not a schema'),
    ({'required': 'a'}, '/properties/x/required', 'property names'),
    ({'required': [1]}, '/properties/x/required', 'property names'),
    ({'enum': 'a'}, '/properties/x/enum', 'list of values'),
    ({'minimum': '3'}, '/properties/x/minimum', 'number'),
    ({'exclusiveMaximum': 'x'}, '/properties/x/exclusiveMaximum', 'number'),
    ({'minLength': -1}, '/properties/x/minLength', 'whole number'),
    ({'maxItems': 1.5}, '/properties/x/maxItems', 'whole number'),
    ({'multipleOf': 0}, '/properties/x/multipleOf', 'above 0'),
    ({'pattern': 3}, '/properties/x/pattern', 'string'),
    ({'description': ['a']}, '/properties/x/description', 'string'),
    ({'uniqueItems': 'yes'}, '/properties/x/uniqueItems', 'true or false'),
    ({'dependentRequired': {'a': 'b'}}, '/properties/x/dependentRequired', 'property names'),
    ({'dependencies': {'a': 'b'}}, '/properties/x/dependencies/a', 'not a schema'),
    ({'default': float('nan')}, '/properties/x/default', 'JSON'),
    ({'default': {1: 2}}, '/properties/x/default', 'not a string'),
    ({'default': {'a': object()}}, '/properties/x/default/a', 'not JSON data'),
    ({'$ref': '#/$defs/Gone'}, '/properties/x/$ref', 'leads to no schema'),
    ({'$ref': '#gone'}, '/properties/x/$ref', 'anchor'),
    ({'$ref': 'https://example.com/schema.json'}, '/properties/x/$ref', 'outside the schema'),
    ({'$ref': 3}, '/properties/x/$ref', 'not a reference'),
    ({'$dynamicRef': '#a'}, '/properties/x/$dynamicRef', 'dynamic'),
]


@pytest.mark.parametrize(('published', 'path', 'text'), REFUSED)
def test_the_rest_is_refused_with_tool_and_place(published: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(ToolDefinitionError, match=text) as caught:
        legal({'properties': {'x': published}}, tool_name='some.tool')
    assert (caught.value.tool_name, caught.value.path) == ('some.tool', path)
    assert "'some.tool'" in str(caught.value) and path in str(caught.value)


@pytest.mark.parametrize('schema', [{'type': 'string'}, {'enum': [1]}, {'$ref': '#/$defs/A', '$defs': {'A': False}}])
def test_arguments_are_an_object_or_nothing(schema: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError, match='object'):
        schema_from_json('t', None, schema, print)


@pytest.mark.parametrize('schema', ['x', None, [], 3, True])
def test_a_schema_that_is_no_object_is_refused(schema: Any) -> None:
    with pytest.raises(ToolDefinitionError, match='not a schema'):
        legal(schema)


@pytest.mark.parametrize(
    'definitions',
    [
        {'A': {'$ref': '#/$defs/A'}},
        {'A': {'anyOf': [{'$ref': '#/$defs/B'}, {'type': 'string'}]}, 'B': {'allOf': [{'$ref': '#/$defs/A'}]}},
        {'A': {'not': {'$ref': '#/$defs/A'}}},
    ],
)
def test_a_definition_that_means_itself_is_refused(definitions: dict[str, Any]) -> None:
    with pytest.raises(ToolDefinitionError, match='means itself'):
        legal({'properties': {'x': {'$ref': '#/$defs/A'}}, '$defs': definitions})


def test_recursion_through_a_value_is_fine() -> None:
    legal({'properties': {'x': {'$ref': '#/$defs/A'}}, '$defs': {'A': {'items': {'$ref': '#/$defs/A'}}}})


def nested(levels: int, keyword: str = 'items') -> dict[str, Any]:
    schema: dict[str, Any] = {'type': 'string'}
    for _ in range(levels):
        schema = {keyword: [schema]} if keyword == 'anyOf' else {keyword: schema}
    return {'type': 'object', 'properties': {'x': schema}}


@pytest.mark.parametrize('keyword', ['items', 'anyOf', 'not'])
def test_a_very_deep_schema_is_refused_and_a_deep_one_is_read(keyword: str) -> None:
    with pytest.raises(ToolDefinitionError, match='nested deeper') as caught:
        legal(nested(2000, keyword), tool_name='deep')
    assert len(caught.value.path) < 200
    step = 2 if keyword == 'anyOf' else 1
    legal(nested((MAX_DEPTH - 4) // step, keyword))


def test_a_long_chain_of_definitions_is_refused() -> None:
    chain = {f'd{n}': {'$ref': f'#/$defs/d{n + 1}'} for n in range(2000)}
    with pytest.raises(ToolDefinitionError, match='leads through more than'):
        legal({'properties': {'x': {'$ref': '#/$defs/d0'}}, '$defs': {**chain, 'd2000': {}}})


def test_objects_shared_in_memory_without_end_are_refused() -> None:
    shared: dict[str, Any] = {'type': 'string'}
    for _ in range(40):
        shared = {'properties': {'l': shared, 'r': shared}}
    with pytest.raises(ToolDefinitionError, match='too large'):
        legal(shared)
    loop: dict[str, Any] = {}
    loop['items'] = loop
    with pytest.raises(ToolDefinitionError, match='nested deeper'):
        legal(loop)


def test_names_nobody_listed_are_refused_unless_the_schema_opens_itself() -> None:
    listed: dict[str, Any] = {'type': 'object', 'properties': {'a': {}}, 'required': ['a', 'b']}
    schema = schema_from_json('t', None, listed, print)
    assert schema.validate('{"a": 1, "b": 2}') == {'a': 1, 'b': 2}
    assert schema.parameters == listed  # what is sent is what was published
    with pytest.raises(ArgumentsError, match=r'c: unknown name; allowed: b, a|c: unknown name; allowed: a, b'):
        schema.validate('{"a": 1, "b": 2, "c": 3}')
    ways: list[dict[str, Any]] = [
        {'type': 'object'},
        {**listed, 'additionalProperties': True},
        {**listed, 'patternProperties': {}},
    ]
    for opened in ways:
        assert schema_from_json('t', None, opened, print).validate('{"a": 1, "b": 2, "c": 3}')['c'] == 3
