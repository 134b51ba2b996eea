"""Cases 15 and 16: the table of `agent_graph.tools.arguments`, row by row, for functions and for foreign schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from enum import IntEnum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from agent_graph.errors import ArgumentsError
from agent_graph.tools.arguments import check_value
from agent_graph.tools.schema import FunctionSchema, function_schema, schema_from_json


class Inner(BaseModel):
    count: int = 7
    items: list[int] = []
    label: str = 'none'


def f(
    n: int,
    items: list[int],
    opts: dict[str, Any],
    flag: bool = False,
    note: str = 'x',
    ratio: float = 0.5,
    inner: Inner | None = None,
    mixed: int | str = 0,
    maybe: int | None = 3,
) -> None: ...


OF_FUNCTION = function_schema(f)
OF_JSON = schema_from_json('f', None, OF_FUNCTION.parameters, f)
BOTH = pytest.mark.parametrize('schema', [OF_FUNCTION, OF_JSON], ids=['function', 'json'])
REQUIRED: dict[str, Any] = {'n': 1, 'items': [], 'opts': {}}


def check(schema: FunctionSchema, args: str | Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as plain data, whichever of the two schemas they went through."""
    got = schema.validate(args)
    return {name: item.model_dump() if isinstance(item, Inner) else item for name, item in got.items()}


def outcome(schema: FunctionSchema, args: str | Mapping[str, Any]) -> dict[str, Any] | ArgumentsError:
    try:
        return schema.validate(args)
    except ArgumentsError as error:
        return error


def text_with(**changes: str) -> str:
    """The required arguments and these, each as JSON text, which can be what `json` would not write."""
    texts = {**{name: json.dumps(value) for name, value in REQUIRED.items()}, **changes}
    return '{' + ', '.join(f'"{name}": {text}' for name, text in texts.items()) + '}'


UNDERSTOOD: list[tuple[str, str, Any]] = [
    ('n', '3.0', 3),
    ('n', '120000.0', 120000),
    ('n', '1e3', 1000),
    ('n', '9007199254740992.0', 2**53),
    ('n', '-0.0', 0),
    ('n', '"3"', 3),
    ('n', '"3.0"', 3),
    ('n', '9' * 400, int('9' * 400)),
    ('items', '"[1, 2]"', [1, 2]),
    ('items', '"[]"', []),
    ('items', '["1", 2.0, "3.0"]', [1, 2, 3]),
    ('items', '"[\\"1\\", 2.0]"', [1, 2]),
    ('opts', '"{}"', {}),
    ('opts', '"{\\"a\\": \\"[1]\\"}"', {'a': '[1]'}),
    ('opts', '{"a": "1", "b": 1.0, "c": null}', {'a': '1', 'b': 1.0, 'c': None}),
    ('flag', '"true"', True),
    ('note', '"[1]"', '[1]'),
    ('note', '"3"', '3'),
    ('note', '"null"', 'null'),
    ('ratio', '"0.25"', 0.25),
    ('mixed', '"3"', '3'),
    ('mixed', '3.0', 3),
    ('maybe', 'null', None),
    ('inner', '"{\\"count\\": \\"2\\"}"', {'count': 2, 'items': [], 'label': 'none'}),
]


@BOTH
@pytest.mark.parametrize(('name', 'text', 'value'), UNDERSTOOD)
def test_what_is_nearly_right_is_understood(schema: FunctionSchema, name: str, text: str, value: Any) -> None:
    got = check(schema, text_with(**{name: text}))[name]
    if name == 'inner' and schema is OF_JSON:
        got = Inner(**got).model_dump()  # a schema from elsewhere fills in no defaults
    assert got == value
    assert type(got) is type(value)


@BOTH
@pytest.mark.parametrize('name', ['flag', 'note', 'ratio', 'mixed'])
def test_null_for_an_optional_argument_is_its_default(schema: FunctionSchema, name: str) -> None:
    assert name not in check(schema, text_with(**{name: 'null'}))


@BOTH
def test_null_for_an_optional_field_inside_is_its_default(schema: FunctionSchema) -> None:
    inner = check(schema, text_with(inner='{"count": null, "label": null, "items": [1]}'))['inner']
    assert Inner(**inner) == Inner(items=[1])


@BOTH
def test_null_inside_a_dictionary_is_kept(schema: FunctionSchema) -> None:
    def g(counts: dict[str, int]) -> None: ...

    of_function = function_schema(g)
    with pytest.raises(ArgumentsError, match='a'):
        of_function.validate('{"counts": {"a": null}}')
    with pytest.raises(ArgumentsError, match='a'):
        schema_from_json('g', None, of_function.parameters, g).validate('{"counts": {"a": null}}')


REFUSED = [
    ('n', '3.5', 'n: got 3.5.*without a fraction'),
    ('n', '1e400', 'n: got Infinity.*finite'),
    ('n', '9007199254740994.0', 'n: got .*without a point or an exponent'),
    ('n', '1e300', 'n: got .*without a point or an exponent'),
    ('n', 'NaN', 'n: got NaN.*finite'),
    ('n', 'true', 'n: got true'),
    ('n', '"three"', 'n: got "three"'),
    ('n', '"3.5"', 'n: got'),
    ('n', '"true"', 'n: got "true"'),
    ('n', 'null', 'n: got null'),
    ('n', '"null"', 'n: got "null"'),
    ('n', '[1]', r'n: got \[1\]'),
    ('items', '"[1,2"', r'items: got "\[1,2"'),
    ('items', '"{}"', 'items: got'),
    ('items', '[1, 2.5]', r'items\[1\]: got 2.5'),
    ('items', '[1, true]', r'items\[1\]: got true'),
    ('items', '[1, null]', r'items\[1\]: got null'),
    ('items', 'null', 'items: got null'),
    ('opts', '"[]"', 'opts: got'),
    ('opts', '{"a": {"b": [1, Infinity]}}', r'opts.a.b\[1\]: got Infinity'),
    ('flag', '1', 'flag: got 1'),
    ('flag', '"yes"', 'flag: got "yes"'),
    ('note', '5', 'note: got 5'),
    ('note', '["x"]', 'note: got'),
    ('ratio', '1' + '0' * 305 + 'e9', 'ratio: got Infinity'),
    ('ratio', '-1e999', 'ratio: got -Infinity.*finite'),
    ('ratio', '9' * 400, 'ratio: got .*too large'),
    ('ratio', 'true', 'ratio: got true'),
    ('mixed', 'true', 'mixed'),
    ('inner', '{"count": 1.5}', 'inner.count|inner: .*1.5'),
]


@BOTH
@pytest.mark.parametrize(('name', 'text', 'message'), REFUSED)
def test_what_would_be_a_guess_is_sent_back(schema: FunctionSchema, name: str, text: str, message: str) -> None:
    with pytest.raises(ArgumentsError, match=message) as caught:
        schema.validate(text_with(**{name: text}))
    assert not caught.value.incomplete
    assert str(caught.value) == caught.value.message


@BOTH
def test_a_missing_argument_and_an_unknown_one_are_named(schema: FunctionSchema) -> None:
    with pytest.raises(ArgumentsError) as caught:
        schema.validate('{"items": [], "opts": {}, "colour": "red"}')
    assert 'n: missing, it is required: expected a whole number' in caught.value.message
    assert 'colour: unknown name; allowed: n, items, opts, flag, note' in caught.value.message


@BOTH
def test_every_fault_is_reported_at_once(schema: FunctionSchema) -> None:
    with pytest.raises(ArgumentsError) as caught:
        schema.validate('{"n": 1.5, "items": "x", "flag": 2, "extra": 0}')
    assert all(f'- {name}: ' in caught.value.message for name in ('n', 'items', 'opts', 'flag', 'extra'))


@BOTH
@pytest.mark.parametrize('text', ['', ' \n\t'])
def test_no_text_is_no_arguments(schema: FunctionSchema, text: str) -> None:
    with pytest.raises(ArgumentsError, match='n: missing') as caught:
        schema.validate(text)
    assert not caught.value.incomplete

    def g(x: int = 1) -> None: ...

    of_function = function_schema(g)
    assert of_function.validate(text) == {}
    assert schema_from_json('g', None, of_function.parameters, g).validate(text) == {}


@BOTH
@pytest.mark.parametrize('text', ['[1]', '3', 'null', '"hello"', 'true'])
def test_json_that_is_no_object_is_refused(schema: FunctionSchema, text: str) -> None:
    with pytest.raises(ArgumentsError, match='object') as caught:
        schema.validate(text)
    assert not caught.value.incomplete


@BOTH
@pytest.mark.parametrize('text', ['hello', '{"n": 1} {"n": 2}', "{'n': 1}", '{"n": 1,}', '{"n" 1}'])
def test_text_that_is_not_json_is_refused(schema: FunctionSchema, text: str) -> None:
    with pytest.raises(ArgumentsError, match='not JSON') as caught:
        schema.validate(text)
    assert not caught.value.incomplete


@BOTH
def test_an_object_inside_a_string_is_unwrapped(schema: FunctionSchema) -> None:
    assert check(schema, json.dumps(json.dumps(REQUIRED))) == REQUIRED


@BOTH
def test_the_last_of_two_equal_keys_counts(schema: FunctionSchema) -> None:
    assert check(schema, '{"n": 1, "items": [], "opts": {}, "n": 2}')['n'] == 2


@BOTH
def test_an_object_is_checked_like_its_text(schema: FunctionSchema) -> None:
    assert check(schema, {**REQUIRED, 'n': 3.0, 'items': '[1]'}) == {**REQUIRED, 'n': 3, 'items': [1]}
    with pytest.raises(ArgumentsError, match='ratio'):
        schema.validate({**REQUIRED, 'ratio': float('nan')})
    assert check(schema, {**REQUIRED, 'note': '\ud83c\udf78 \ud83c'})['note'] == '\U0001f378 \ufffd'


WHOLE = '{"n": -12.5e3, "items": [1, true, null], "opts": {"a\\u00e9\\\\": "x\\ud83c\\udf78\\n"}, "note": "é {x}"}'


@BOTH
def test_text_cut_anywhere_is_reported_as_incomplete(schema: FunctionSchema) -> None:
    for end in range(1, len(WHOLE)):
        with pytest.raises(ArgumentsError) as caught:
            schema.validate(WHOLE[:end])
        assert caught.value.incomplete, WHOLE[:end]
        assert 'incomplete' in caught.value.message
    with pytest.raises(ArgumentsError) as caught:
        schema.validate(WHOLE)
    assert not caught.value.incomplete


@BOTH
@pytest.mark.parametrize(
    ('text', 'value'),
    [
        (r'"\ud83c\udf78"', '\U0001f378'),
        (r'"\uD83C\uDF78"', '\U0001f378'),
        (r'"a\ud83cb"', 'a\ufffdb'),
        (r'"\udc97"', '\ufffd'),
        (r'"\ud83c\ud83c\udf78"', '\ufffd\U0001f378'),
        (r'"\\ud83c"', '\\ud83c'),
        (r'"\\\ud83c"', '\\\ufffd'),
        (r'"\ud83c\n"', '\ufffd\n'),
        (r'"\ud83c\u0041"', '\ufffdA'),
        ('"\ud83c\udf78 \ud83c"', '\U0001f378 \ufffd'),
        ('"\U0001f469\u200d\U0001f467 \u200f{x}"', '\U0001f469\u200d\U0001f467 \u200f{x}'),
    ],
)
def test_surrogates_are_joined_or_replaced_and_nothing_else_changes(
    schema: FunctionSchema, text: str, value: str
) -> None:
    assert check(schema, text_with(note=text))['note'] == value
    assert check(schema, text_with(opts=f'{{"k": [{text}]}}'))['opts'] == {'k': [value]}


@BOTH
def test_a_cut_after_half_a_pair_is_still_incomplete(schema: FunctionSchema) -> None:
    with pytest.raises(ArgumentsError) as caught:
        schema.validate(r'{"note": "\ud83c')
    assert caught.value.incomplete


@BOTH
def test_deep_nesting_is_refused_without_harm(schema: FunctionSchema) -> None:
    with pytest.raises(ArgumentsError, match='deep'):
        schema.validate(text_with(opts='{"a":' * 5000 + '1' + '}' * 5000))
    deep: Any = 1
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(ArgumentsError):
        schema.validate({**REQUIRED, 'opts': {'a': deep}})


def test_a_recursive_value_may_be_as_deep_as_it_is_likely_to_be() -> None:
    class Tree(BaseModel):
        v: int
        kids: list[Tree] = []

    def g(tree: Tree) -> None: ...

    def nested(levels: int, leaf: str) -> str:
        return '{"tree": ' + '{"v": 1, "kids": [' * levels + leaf + ']}' * levels + '}'

    of_function = function_schema(g)
    of_json = schema_from_json('g', None, of_function.parameters, g)
    for schema in (of_function, of_json):
        schema.validate(nested(45, '{"v": "2"}'))
        with pytest.raises(ArgumentsError):
            schema.validate(nested(45, '{"v": "x"}'))
        with pytest.raises(ArgumentsError, match='deep'):
            schema.validate(nested(95, '{"v": "2"}') if schema is of_json else nested(400, '{"v": "2"}'))


class Level(IntEnum):
    LOW = 1


def test_dates_and_durations_are_read_in_pydantics_other_forms() -> None:
    def g(d: date, dt: datetime, t: time, td: timedelta) -> None: ...

    schema = function_schema(g)
    got = schema.validate('{"d": "2024-01-02T00:00:00", "dt": 0, "t": 60, "td": 90}')
    assert got == {
        'd': date(2024, 1, 2),
        'dt': datetime(1970, 1, 1, tzinfo=UTC),
        't': time(0, 1, tzinfo=UTC),
        'td': timedelta(seconds=90),
    }
    with pytest.raises(ArgumentsError, match='d: got "soon"'):
        schema.validate('{"d": "soon", "dt": 0, "t": 60, "td": 90}')


def test_literals_and_enums_of_numbers_take_strings_that_spell_them() -> None:
    def g(a: Literal[1, 2], b: Level, c: Literal['1', '2']) -> None: ...

    assert function_schema(g).validate('{"a": "2", "b": "1", "c": "1"}') == {'a': 2, 'b': Level.LOW, 'c': '1'}
    with pytest.raises(ArgumentsError, match='a: got 3'):
        function_schema(g).validate('{"a": 3, "b": 1, "c": "1"}')


def test_any_type_can_be_checked_by_the_same_rules() -> None:
    assert check_value(TypeAdapter(list[int]), '[1, "2", 3.0]') == [1, 2, 3]
    assert check_value(TypeAdapter(Inner), {'count': 2.0}) == Inner(count=2)
    with pytest.raises(ArgumentsError, match=r'\[0\]: got 1.5'):
        check_value(TypeAdapter(list[int]), '[1.5]')
    with pytest.raises(ArgumentsError) as caught:
        check_value(TypeAdapter(Inner), '{"count": 1')
    assert caught.value.incomplete


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_json_value_passes_through_an_untyped_parameter_unchanged(value: Any) -> None:
    def g(x: Any) -> None: ...

    got = function_schema(g).validate(json.dumps({'x': value}))['x']
    assert json.dumps(got) == json.dumps(value)
    foreign = schema_from_json('g', None, {'type': 'object', 'properties': {'x': {}}}, g)
    assert json.dumps(foreign.validate({'x': value})['x']) == json.dumps(value)


@given(st.dictionaries(st.sampled_from(['n', 'items', 'opts', 'flag', 'note', 'inner', 'q']), JSON), st.booleans())
def test_whatever_comes_is_valid_or_refused_with_a_text(args: dict[str, Any], as_text: bool) -> None:
    for schema in (OF_FUNCTION, OF_JSON):
        got = outcome(schema, json.dumps(args) if as_text else args)
        if isinstance(got, ArgumentsError):
            assert got.message.startswith('What was sent cannot be used:')
        else:
            assert type(got['n']) is int and type(got['items']) is list and type(got.get('flag', False)) is bool


def test_both_kinds_of_schema_agree_on_what_is_right() -> None:
    for name, text, _ in UNDERSTOOD:
        assert check(OF_FUNCTION, text_with(**{name: text})).keys() == check(OF_JSON, text_with(**{name: text})).keys()
