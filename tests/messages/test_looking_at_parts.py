"""What programs look for in an answer: its text, its calls, and the arguments of these."""

from __future__ import annotations

from typing import Any

import pytest

from agent_graph import AssistantMessage, TextPart, ThinkingPart, ToolCallPart
from agent_graph.errors import MessageError


def test_text_and_calls_of_an_answer() -> None:
    first, second = ToolCallPart('look', '{}', 'a'), ToolCallPart('look', {}, 'b')
    answer = AssistantMessage([ThinkingPart('hm'), TextPart('One, '), first, TextPart('two.'), second])
    assert answer.text == 'One, two.'
    assert answer.tool_calls == (first, second)
    assert AssistantMessage([]).text == '' and AssistantMessage([]).tool_calls == ()


@pytest.mark.parametrize('args', ['{"city": "Bern", "days": [1]}', {'city': 'Bern', 'days': [1]}])
def test_arguments_as_an_object(args: Any) -> None:
    assert ToolCallPart('weather', args).args_as_dict() == {'city': 'Bern', 'days': [1]}


def test_no_arguments() -> None:
    assert ToolCallPart('now').args_as_dict() == {} == ToolCallPart('now', ' ').args_as_dict()


@pytest.mark.parametrize('args', ['{"city": ', '[1]', 'null', 'Bern'])
def test_arguments_that_are_no_object(args: str) -> None:
    with pytest.raises(MessageError, match=r"of 'weather' are no"):
        ToolCallPart('weather', args).args_as_dict()
