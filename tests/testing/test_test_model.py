"""TestModel: every tool called with arguments that are valid, then an answer that ends the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agent_graph import (
    Agent,
    ConfigError,
    ModelRetry,
    NativeOutput,
    PromptedOutput,
    RunContext,
    ToolCallPart,
    ToolDefinition,
    Usage,
)
from agent_graph.messages import AssistantMessage
from agent_graph.testing import TestModel


class Size(Enum):
    SMALL = 'small'
    LARGE = 'large'


class Order(BaseModel):
    item: str = Field(min_length=3, max_length=12)
    amount: int = Field(ge=1, le=9)
    size: Size
    due: date
    notes: list[str] = Field(max_length=2)
    parent: Order | None = None


def calls_of(messages: Sequence[Any]) -> list[list[str]]:
    return [
        [part.tool_name for part in message.parts if isinstance(part, ToolCallPart)]
        for message in messages
        if isinstance(message, AssistantMessage)
    ]


def run(agent: Agent[Any, Any], model: TestModel, **kwargs: Any) -> Any:
    return asyncio.run(agent.run('go', model=model, **kwargs))


def test_every_tool_is_called_with_valid_arguments_and_then_it_answers() -> None:
    agent = Agent()
    seen: list[Any] = []

    @agent.tool
    def order(what: Order, colour: Literal['red', 'green'], share: Annotated[float, Field(gt=0, lt=1)]) -> str:
        seen.append((what, colour, share))
        return 'ordered'

    @agent.tool
    async def count(numbers: list[int], note: str | None = None) -> int:
        seen.append(numbers)
        return len(numbers)

    result = run(agent, TestModel())
    assert calls_of(result.messages) == [['order', 'count'], []]
    assert len(seen) == 2 and isinstance(seen[0][0] if isinstance(seen[0], tuple) else seen[1][0], Order)
    assert set(json.loads(result.output)) == {'order', 'count'}
    assert json.loads(result.output)['order'] == 'ordered'
    assert result.usage == Usage(requests=2, tool_calls=2)


def test_without_tools_it_just_answers() -> None:
    assert run(Agent(), TestModel()).output == 'success (no tool calls)'
    assert run(Agent(), TestModel(custom_output_text='hello')).output == 'hello'


@pytest.mark.parametrize(
    'output_type', [Order, NativeOutput(Order), PromptedOutput(Order)], ids=['tool', 'native', 'prompted']
)
def test_structured_output_is_valid(output_type: Any) -> None:
    result = run(Agent(output_type=output_type), TestModel())
    assert isinstance(result.output, Order)


def test_custom_output_args_are_the_output() -> None:
    args: dict[str, Any] = {'item': 'pencil', 'amount': 3, 'size': 'small', 'due': '2030-01-02', 'notes': []}
    for output_type in (Order, NativeOutput(Order), PromptedOutput(Order)):
        assert run(Agent(output_type=output_type), TestModel(custom_output_args=args)).output.item == 'pencil'


def test_it_can_call_some_tools_or_none() -> None:
    agent = Agent()
    called: list[str] = []
    agent.tool(name='one')(lambda: called.append('one'))
    agent.tool(name='two')(lambda: called.append('two'))
    run(agent, TestModel(call_tools=['two']))
    assert called == ['two']
    assert run(agent, TestModel(call_tools='none')).output == 'success (no tool calls)'
    assert called == ['two']


def test_a_tool_that_asks_for_a_retry_is_called_again_with_other_arguments() -> None:
    agent = Agent(retries=3)
    seen: list[int] = []

    @agent.tool
    def picky(number: int) -> str:
        seen.append(number)
        if len(set(seen)) < 2:
            raise ModelRetry('another number, please')
        return 'good'

    result = run(agent, TestModel())
    assert json.loads(result.output) == {'picky': 'good'}
    assert len(set(seen)) == 2


def test_the_same_seed_gives_the_same_arguments() -> None:
    def sampled(seed: int) -> Order:
        return run(Agent(output_type=Order), TestModel(seed=seed)).output

    assert sampled(1) == sampled(1)
    assert len({sampled(seed).model_dump_json() for seed in range(8)}) > 1


def test_tools_that_appear_later_are_called_later() -> None:
    def later(ctx: RunContext[None], definition: ToolDefinition) -> ToolDefinition | None:
        return definition if ctx.step_number > 1 else None

    agent = Agent()
    agent.tool(name='first')(lambda: 1)
    agent.tool(name='second', prepare=later)(lambda: 2)
    assert calls_of(run(agent, TestModel()).messages) == [['first'], ['second'], []]


def test_tool_choice_is_honoured() -> None:
    def choice(ctx: RunContext[Any]) -> Any:
        return ['b'] if ctx.step_number == 1 else ['a'] if ctx.step_number == 2 else 'none'

    agent = Agent(model_settings={'tool_choice': choice})
    agent.tool(name='a')(lambda: 1)
    agent.tool(name='b')(lambda: 2)
    assert calls_of(run(agent, TestModel()).messages) == [['b'], ['a'], []]


def test_an_earlier_conversation_does_not_count() -> None:
    agent = Agent()
    agent.tool(name='a')(lambda: 1)
    first = run(agent, TestModel())
    second = run(agent, TestModel(), message_history=first.messages)
    assert calls_of(second.new_messages) == [['a'], []]


def test_override_puts_it_in_place_of_the_agents_model() -> None:
    agent = Agent('nobody:nothing')
    with agent.override(model=TestModel(custom_output_text='fine')):
        assert asyncio.run(agent.run('go')).output == 'fine'


def test_an_answer_the_run_cannot_end_with_is_refused() -> None:
    with pytest.raises(ConfigError, match='pass custom_output_args'):
        run(Agent(output_type=Order), TestModel(custom_output_text='x'))
    with pytest.raises(ConfigError, match='pass custom_output_text'):
        run(Agent(), TestModel(custom_output_args={'a': 1}))
    with pytest.raises(ConfigError, match='ends with one of them'):
        TestModel(custom_output_text='x', custom_output_args={})
    with pytest.raises(ConfigError, match=r"pass 'all', 'none' or a list: \['one'\]"):
        TestModel(call_tools='one')


def test_pytest_does_not_take_it_for_a_test_class() -> None:
    assert TestModel.__test__ is False
