"""Functions of every kind become schemas, and are called the way they want to be called."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import math
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict, Unpack

from agent_graph.errors import ArgumentsError, ToolDefinitionError
from agent_graph.tools.context import RunContext
from agent_graph.tools.schema import FunctionSchema, function_schema, schema_from_json


def call(schema: FunctionSchema, args: str | dict[str, Any]) -> Any:
    positional, keywords = schema.bind(schema.validate(args))
    return schema.function(*positional, **keywords)


class Colour(Enum):
    RED = 'red'
    BLUE = 'blue'


class Node(BaseModel):
    """A tree."""

    value: int
    children: list[Node] = Field(default=[], description='Below it.')


def plain(n: int, ratio: float, name: str = 'x', colour: Colour = Colour.RED, tree: Node | None = None) -> Any:
    """Do it.

    Args:
        n: How many.
        tree: A tree {of} things.
    """
    return n, ratio, name, colour, tree


def test_the_schema_of_a_function_in_full() -> None:
    schema = function_schema(plain)
    assert (schema.name, schema.description) == ('plain', 'Do it.')
    assert not schema.takes_context and not schema.is_async and not schema.is_generator
    assert schema.parameters == {
        'type': 'object',
        'properties': {
            'n': {'type': 'integer', 'description': 'How many.'},
            'ratio': {'type': 'number'},
            'name': {'type': 'string', 'default': 'x'},
            'colour': {'$ref': '#/$defs/Colour', 'default': 'red'},
            'tree': {
                'anyOf': [{'$ref': '#/$defs/Node'}, {'type': 'null'}],
                'default': None,
                'description': 'A tree {of} things.',
            },
        },
        'required': ['n', 'ratio'],
        'additionalProperties': False,
        '$defs': {
            'Colour': {'enum': ['red', 'blue'], 'type': 'string'},
            'Node': {
                'type': 'object',
                'description': 'A tree.',
                'properties': {
                    'value': {'type': 'integer'},
                    'children': {
                        'type': 'array',
                        'items': {'$ref': '#/$defs/Node'},
                        'default': [],
                        'description': 'Below it.',
                    },
                },
                'required': ['value'],
            },
        },
    }


def test_values_arrive_as_the_declared_types() -> None:
    text = '{"n": 1, "ratio": 2, "colour": "blue", "tree": {"value": 1, "children": [{"value": 2}]}}'
    assert call(function_schema(plain), text) == (1, 2.0, 'x', Colour.BLUE, Node(value=1, children=[Node(value=2)]))


def test_the_functions_own_default_is_used_and_not_a_copy() -> None:
    marker: list[int] = []

    def keep(into: list[int] = marker) -> list[int]:
        return into

    assert call(function_schema(keep), '{}') is marker


def test_name_and_description_can_be_given_and_are_kept_byte_for_byte() -> None:
    text = '{} {x} {{x}} ${x} %(x)s {{ 7*7 }} {x.__class__}\n  \U0001f469\u200d\U0001f467 \u200f'
    schema = function_schema(plain, name='other.name', description=text)
    assert (schema.name, schema.description) == ('other.name', text)


def test_field_constraints_and_descriptions_count() -> None:
    def f(
        a: Annotated[int, Field(ge=1, le=3, description='own {text}')],
        b: int = Field(5, lt=10),
        c: Annotated[str, Field(alias='C', default='z')] = 'y',
    ) -> Any:
        """F.

        Args:
            a: not this
            c: The c.
        """
        return a, b, c

    schema = function_schema(f)
    assert schema.parameters['properties'] == {
        'a': {'type': 'integer', 'minimum': 1, 'maximum': 3, 'description': 'own {text}'},
        'b': {'type': 'integer', 'exclusiveMaximum': 10, 'default': 5},
        'C': {'type': 'string', 'default': 'y', 'description': 'The c.'},
    }
    assert schema.parameters['required'] == ['a']
    assert call(schema, '{"a": 2}') == (2, 5, 'y')
    assert call(schema, '{"a": 2, "C": "w"}') == (2, 5, 'w')
    with pytest.raises(ArgumentsError, match='a: got 4'):
        schema.validate('{"a": 4}')


def test_a_default_the_type_does_not_allow_is_not_shown() -> None:
    def f(x: int = None, y: float = math.inf, z: object = object()) -> Any:  # type: ignore[assignment] # noqa: RUF013
        return x, y

    assert [list(held) for held in function_schema(f).parameters['properties'].values()] == [['type'], ['type'], []]
    assert call(function_schema(f), '{"x": null}') == (None, math.inf)


def positional_only(a: int, b: int = 2, /, c: int = 3) -> Any:
    return a, b, c


def with_rest(a: int, b: int = 2, *rest: int, c: int = 3, **more: float) -> Any:
    return a, b, rest, c, more


UNTYPED: dict[str, Any] = {}
exec(
    'def untyped(a, b=1): return a, b\ndef with_first(ctx, n: int): return n', UNTYPED
)  # a type checker objects to them


CALLS: list[tuple[Callable[..., Any], dict[str, Any], Any]] = [
    (positional_only, {'a': 1}, (1, 2, 3)),
    (positional_only, {'c': 9, 'a': 1, 'b': 5}, (1, 5, 9)),
    (with_rest, {'a': 1}, (1, 2, (), 3, {})),
    (with_rest, {'a': 1, 'rest': [7, 8], 'x': 1, 'c': 0}, (1, 2, (7, 8), 0, {'x': 1.0})),
    (UNTYPED['untyped'], {'a': [1, {'b': None}], 'b': 'x'}, ([1, {'b': None}], 'x')),
]


@pytest.mark.parametrize(('function', 'args', 'result'), CALLS)
def test_every_kind_of_parameter_is_passed_on(function: Callable[..., Any], args: dict[str, Any], result: Any) -> None:
    assert call(function_schema(function), args) == result
    assert call(function_schema(function), json.dumps(args)) == result


def test_rest_parameters_are_a_list_and_further_names() -> None:
    schema = function_schema(with_rest)
    assert schema.parameters['properties']['rest'] == {'type': 'array', 'items': {'type': 'integer'}}
    assert schema.parameters['additionalProperties'] == {'type': 'number'}
    assert schema.parameters['required'] == ['a']
    with pytest.raises(ArgumentsError, match='x: got "y"'):
        schema.validate('{"a": 1, "x": "y"}')


class Options(TypedDict, total=False):
    depth: int
    name: str


def test_unpacked_keyword_arguments_are_parameters() -> None:
    def f(**options: Unpack[Options]) -> Any:
        return options

    schema = function_schema(f)
    assert set(schema.parameters['properties']) == {'depth', 'name'}
    assert schema.parameters['additionalProperties'] is False
    assert call(schema, '{"depth": 2.0}') == {'depth': 2}


def test_ordinary_parameters_are_bound_without_work() -> None:
    arguments = {'n': 1, 'ratio': 2.0}
    args, keywords = function_schema(plain).bind(arguments)
    assert args == () and keywords is arguments


class Service:
    """A service."""

    def __init__(self, base: int) -> None:
        self.base = base

    def add(self, n: int) -> int:
        """Add."""
        return self.base + n

    async def __call__(self, ctx: RunContext[Any], n: int) -> int:
        return self.base + n

    @classmethod
    def made(cls, n: int) -> int:
        return n

    @staticmethod
    def static(n: int) -> int:
        return n


async def a_coroutine(n: int) -> int:
    return n


async def a_stream(n: int) -> AsyncIterator[int]:
    yield n


@functools.lru_cache
def cached(n: int) -> int:
    """Cached."""
    return n


@functools.wraps(a_coroutine)
async def wrapped(*args: Any, **kwargs: Any) -> int:
    return await a_coroutine(*args, **kwargs)


@pytest.mark.parametrize(
    ('function', 'name', 'is_async', 'is_generator'),
    [
        (Service(1).add, 'add', False, False),
        (Service(1), 'Service', True, False),
        (Service.made, 'made', False, False),
        (Service.static, 'static', False, False),
        (a_coroutine, 'a_coroutine', True, False),
        (a_stream, 'a_stream', False, True),
        (functools.partial(a_coroutine), 'a_coroutine', True, False),
        (functools.partial(Service(1)), 'Service', True, False),
        (functools.partial(functools.partial(a_stream)), 'a_stream', False, True),
        (cached, 'cached', False, False),
        (wrapped, 'a_coroutine', True, False),
    ],
)
def test_every_kind_of_callable(function: Callable[..., Any], name: str, is_async: bool, is_generator: bool) -> None:
    schema = function_schema(function)
    assert (schema.name, schema.is_async, schema.is_generator) == (name, is_async, is_generator)
    assert schema.parameters['properties'] == {'n': {'type': 'integer'}}
    foreign = schema_from_json('x', None, {'type': 'object'}, function)
    assert (foreign.is_async, foreign.is_generator) == (is_async, is_generator)


def test_docstrings_of_callables() -> None:
    assert function_schema(Service(1).add).description == 'Add.'
    assert function_schema(Service(1)).description == 'A service.'
    assert function_schema(cached).description == 'Cached.'
    assert function_schema(functools.partial(cached)).description == 'Cached.'
    assert function_schema(lambda: None, name='x').description == ''


def test_a_context_of_a_callable_object_is_found() -> None:
    ctx: Any = object()
    schema = function_schema(Service(40))
    assert schema.takes_context
    args, keywords = schema.bind(schema.validate('{"n": 2}'))
    assert asyncio.run(schema.function(ctx, *args, **keywords)) == 42


def test_what_a_partial_has_settled_is_not_shown_and_not_overridden() -> None:
    def f(a: int, key: str, b: int = 1) -> Any:
        return a, key, b

    schema = function_schema(functools.partial(f, key='secret'))
    assert set(schema.parameters['properties']) == {'a', 'b'}
    assert 'secret' not in json.dumps(schema.parameters)
    assert call(schema, '{"a": 1, "b": 5}') == (1, 'secret', 5)
    with pytest.raises(ArgumentsError, match='key: unknown name'):
        schema.validate('{"a": 1, "key": "other"}')


def test_the_context_can_be_forced() -> None:
    f = UNTYPED['with_first']
    assert set(function_schema(f, takes_context=True).parameters['properties']) == {'n'}
    assert set(function_schema(f).parameters['properties']) == {'ctx', 'n'}
    with pytest.raises(ToolDefinitionError, match='no positional parameter'):
        function_schema(lambda: None, name='x', takes_context=True)


class Opaque:
    pass


def generator(n: int) -> Iterator[int]:
    yield n


def opaque(n: int, thing: Opaque) -> None: ...


def calls_back(n: int, then: Callable[[], None]) -> None: ...


def late_context(n: int, ctx: RunContext[Any]) -> None: ...


def broken_annotation(n: int, x: 'list[') -> None: ...  # type: ignore[valid-type] # noqa: F722


NOT_TOOLS: list[tuple[Any, str, str]] = [
    (generator, '', 'generator function'),
    (Service, '', 'is a class'),
    (Service.add, 'self', 'is a method'),
    (opaque, 'thing', "parameter 'thing'"),
    (calls_back, 'then', "parameter 'then'"),
    (late_context, 'ctx', 'make it the first parameter'),
    (broken_annotation, 'x', 'cannot be read'),
    (lambda: None, '', 'no name'),
    (3, '', 'not a function'),
]


@pytest.mark.parametrize(('function', 'path', 'text'), NOT_TOOLS)
def test_what_cannot_be_a_tool_is_refused_by_name(function: Any, path: str, text: str) -> None:
    with pytest.raises(ToolDefinitionError, match=text) as caught:
        function_schema(function)
    assert caught.value.path == path


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="''"):
        function_schema(plain, name='')


def test_many_types_survive_json(tmp_path: Path) -> None:
    def f(day: date, where: Path, both: int | str, which: Literal['a', 1], pairs: dict[int, tuple[int, str]]) -> Any:
        return day, where, both, which, pairs

    text = '{"day": "2024-02-29", "where": "/x", "both": 1, "which": "a", "pairs": {"1": [2, "b"]}}'
    assert call(function_schema(f), text) == (date(2024, 2, 29), Path('/x'), 1, 'a', {1: (2, 'b')})


def test_two_models_that_refer_to_each_other() -> None:
    def f(person: Person) -> Any:
        return person

    text = '{"person": {"name": "A", "home": {"street": "S", "people": [{"name": "B", "home": null}]}}}'
    person = call(function_schema(f), text)
    assert person.home.people[0].name == 'B'


class Person(BaseModel):
    name: str
    home: Home | None


class Home(BaseModel):
    street: str
    people: list[Person]


def test_a_valid_call_costs_next_to_nothing() -> None:
    schema = function_schema(plain)
    calls: list[str] = []

    def profile(frame: Any, event: str, arg: Any) -> None:
        if event in ('call', 'c_call'):
            calls.append(event)

    sys.setprofile(profile)
    schema.bind(schema.validate('{"n": 1, "ratio": 2.5}'))
    sys.setprofile(None)
    assert calls.count('call') == 3  # validate, holds_suspect_number, bind
    assert len(calls) <= 8  # and what they call in native code, and the profiler's own end


def test_names_of_a_schema_are_those_of_its_parameters() -> None:
    names = list(inspect.signature(plain).parameters)
    assert list(function_schema(plain).parameters['properties']) == names
