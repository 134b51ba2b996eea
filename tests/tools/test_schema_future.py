"""Case 13: string annotations, types for type checkers only, local types, types defined later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent_graph.errors import ArgumentsError, ToolDefinitionError
from agent_graph.tools.schema import function_schema, local_names, unresolved_name
from tests.tools import eager_tools, future_tools


def test_strings_give_the_same_schema_as_objects() -> None:
    future, eager = function_schema(future_tools.everything), function_schema(eager_tools.everything)
    assert future.parameters == eager.parameters
    assert (future.name, future.description, future.takes_context) == (eager.name, eager.description, True)
    assert list(future.parameters['properties']) == ['place', 'box', 'path', 'unit', 'limit', 'level']


def test_the_arguments_arrive_as_the_declared_types() -> None:
    schema = function_schema(future_tools.everything)
    text = '{"place": {"name": "Bonn"}, "box": {"width": 2, "inner": {"width": 1}}, "path": "/tmp", "unit": "mi"}'
    args, keywords = schema.bind(schema.validate(text))
    ctx: Any = object()
    _, place, box, path, unit, limit, level = future_tools.everything(ctx, *args, **keywords)
    assert place == future_tools.Place(name='Bonn')
    assert box == future_tools.Box(2, future_tools.Box(1))
    assert (path, unit, limit, level) == (Path('/tmp'), 'mi', None, 1)
    with pytest.raises(ArgumentsError, match=r'(?s)unit.*level'):
        schema.validate('{"place": {"name": "Bonn"}, "box": {"width": 2}, "path": "/", "unit": "m", "level": 9}')


@pytest.mark.parametrize(
    'function',
    [
        future_tools.everything,
        future_tools.by_module,
        future_tools.by_alias,
        future_tools.by_alias_of_unknown_deps,
        future_tools.quoted,
        future_tools.optional,
        future_tools.Service().search,
    ],
)
def test_the_context_is_found_however_it_is_written(function: Callable[..., Any]) -> None:
    schema = function_schema(function)
    assert schema.takes_context
    assert 'ctx' not in schema.parameters['properties']
    assert unresolved_name(function) is None


def test_a_context_in_another_place_is_refused() -> None:
    # the annotation cannot be resolved, so it is the missing name that is reported
    with pytest.raises(ToolDefinitionError, match=r"'ctx' of .*not_first.*'RunContext'"):
        function_schema(future_tools.not_first)


def test_a_name_that_cannot_be_resolved_is_reported_with_function_parameter_and_name() -> None:
    with pytest.raises(
        ToolDefinitionError, match=r"'amount' of tests\.tools\.future_tools\.lost uses 'Money'"
    ) as caught:
        function_schema(future_tools.lost)
    assert (caught.value.tool_name, caught.value.path) == ('lost', 'amount')
    assert unresolved_name(future_tools.lost) == 'Money'


def test_a_type_of_the_class_around_is_found() -> None:
    schema = function_schema(future_tools.Service().search)
    assert schema.validate('{"options": {"depth": 3}}') == {'options': future_tools.Service.Options(depth=3)}


def test_a_model_defined_later_is_waited_for() -> None:
    assert future_tools.NAME_SEEN_EARLY == ['Later']
    assert future_tools.NAME_SEEN_LATE is None
    schema = function_schema(future_tools.uses_later)
    assert schema.validate('{"item": {"value": 1, "parts": [{"value": 2}]}}')['item'].parts[0].value == 2


def test_local_types_are_found_while_their_function_runs() -> None:
    class Inner(BaseModel):
        x: int
        other: Other | None = None

    class Other(BaseModel):
        y: int

    def use(first: Inner, rest: list[Other]) -> Any:
        return first, rest

    schema = function_schema(use)
    arguments = schema.validate('{"first": {"x": 1, "other": {"y": 2}}, "rest": [{"y": "3"}]}')
    assert arguments == {'first': Inner(x=1, other=Other(y=2)), 'rest': [Other(y=3)]}


def test_local_types_can_be_kept_for_later() -> None:
    kept: dict[str, Any] = {}

    def make() -> Callable[..., Any]:
        class Inner(BaseModel):
            x: int

        def use(first: Inner) -> Any:
            return first

        kept.update(local_names(use))
        assert unresolved_name(use) is None
        return use

    use = make()
    assert unresolved_name(use) == 'Inner'
    with pytest.raises(ToolDefinitionError, match="'Inner'"):
        function_schema(use)
    assert function_schema(use, namespace=kept).validate('{"first": {"x": 1}}')['first'].x == 1


def test_a_local_type_defined_after_the_tool_is_waited_for() -> None:
    def use(first: Inner) -> Any:
        return first

    assert unresolved_name(use) == 'Inner'

    class Inner(BaseModel):
        x: int

    assert unresolved_name(use) is None
    assert function_schema(use).validate('{"first": {"x": 1}}') == {'first': Inner(x=1)}


def test_a_type_whose_own_field_is_defined_later_is_waited_for() -> None:
    class Outer(BaseModel):
        inner: Inner

    def use(outer: Outer) -> Any:
        return outer

    assert unresolved_name(use) == 'Inner'
    with pytest.raises(ToolDefinitionError, match=r"'outer'.*'Inner'"):
        function_schema(use)

    class Inner(BaseModel):
        x: int

    assert unresolved_name(use) is None
    assert function_schema(use).validate('{"outer": {"inner": {"x": 1}}}')['outer'].inner.x == 1
