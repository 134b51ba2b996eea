"""Case 14: every name can be sent, stays distinct, and can be mapped back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_graph.errors import ToolDefinitionError
from agent_graph.tools.names import wire_names

RULE = re.compile(r'[a-zA-Z0-9_-]{1,64}')
LONG = 'mcp__a_server_with_a_very_long_name_indeed__projects__items__get_project_item_by_its_number'


def test_fine_names_are_sent_as_they_are() -> None:
    names = ['get_weather', 'a-b', 'A1', 'x' * 64]
    assert wire_names(names) == {name: name for name in names}


def test_the_names_of_the_case_are_distinct_and_fit() -> None:
    names = ['a.b', 'a-b', 'a_b', 'Box[int]', LONG, 'wetter_für_köln', 'a b', '天气', '天']
    wire = wire_names(names)
    assert list(wire) == names
    assert len(set(wire.values())) == len(names)
    assert all(RULE.fullmatch(name) for name in wire.values())
    assert wire['a_b'] == 'a_b'
    assert wire['Box[int]'] == 'Box_int_'
    assert wire['a.b'].startswith('a_b_')
    assert wire[LONG].endswith('_get_project_item_by_its_number')  # the end says what the tool does


def test_the_order_does_not_matter() -> None:
    names = ['a.b', 'a/b', 'a_b', 'x' * 70, 'x' * 71]
    assert wire_names(names) == wire_names(names[::-1])


def test_another_rule_can_be_asked_for() -> None:
    wire = wire_names(['1st.tool', 'ok.name', '-x'], pattern=r'[A-Za-z0-9_.]', start='[A-Za-z_]', limit=10)
    assert wire['ok.name'] == 'ok.name'
    assert all(re.fullmatch(r'[A-Za-z_][A-Za-z0-9_.]{0,9}', name) for name in wire.values())


@pytest.mark.parametrize('name', ['', '  '])
def test_an_empty_name_is_refused(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match='cannot be called'):
        wire_names(['fine', name])


def test_a_repeated_name_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match='2 tools') as caught:
        wire_names(['fine', 'fine'])
    assert caught.value.tool_name == 'fine'


@given(st.sets(st.text(min_size=1).filter(str.strip), max_size=30))
def test_any_names_become_distinct_ones_that_fit(names: set[str]) -> None:
    wire = wire_names(sorted(names))
    assert set(wire) == names
    assert len(set(wire.values())) == len(names)
    assert all(RULE.fullmatch(name) for name in wire.values())
