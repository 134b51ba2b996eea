"""What a run can end with: every kind of output type, by every way to run, and what the model is told about each."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agent_graph import (
    Agent,
    AssistantMessage,
    ConfigError,
    MemoryJournal,
    ModelRetry,
    NativeOutput,
    PromptedOutput,
    RunContext,
    SystemMessage,
    TextOutput,
    TextPart,
    ToolCallPart,
    ToolOutput,
    UnexpectedModelBehavior,
)
from agent_graph.messages import is_valid
from agent_graph.testing import ScriptedModel
from tests.engine.kit import WAYS, Log, Way, answers_of, call, go, outcome_of, requests_of

EACH_WAY = pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)


class City(BaseModel):
    """A city somebody asked about."""

    name: str
    people: int = 0


@dataclass
class Point:
    x: int
    y: list[float] = field(default_factory=list[float])


class Move(TypedDict):
    to: str


class Color(Enum):
    RED = 'red'
    BLUE = 'blue'


async def weigh(ctx: RunContext[None], grams: int) -> str:
    """Weigh something."""
    assert ctx.run_id
    return f'{grams} g'


def double(n: int) -> int:
    return n * 2


def shout(text: str) -> str:
    return text.upper()


KINDS: dict[str, tuple[Any, Any, Any]] = {
    'str': (str, 'hello', 'hello'),
    'model': (City, call('final_result', {'name': 'Oslo', 'people': 3}), City(name='Oslo', people=3)),
    'dataclass': (Point, call('final_result', {'x': 1, 'y': [2, 2.5]}), Point(1, [2.0, 2.5])),
    'typed dict': (Move, call('final_result', {'to': 'north'}), {'to': 'north'}),
    'int': (int, call('final_result', {'response': 5}), 5),
    'bool': (bool, call('final_result', {'response': False}), False),
    'list': (list[int], call('final_result', {'response': [1, 2]}), [1, 2]),
    'empty list': (list[int], call('final_result', {'response': []}), []),
    'dict': (dict[str, int], call('final_result', {'a': 1}), {'a': 1}),
    'literal': (Literal['a', 'b'], call('final_result', {'response': 'b'}), 'b'),
    'enum': (Color, call('final_result', {'response': 'red'}), Color.RED),
    'date': (date, call('final_result', {'response': '2024-05-06'}), date(2024, 5, 6)),
    'annotated': (Annotated[int, Field(ge=3)], call('final_result', {'response': 3}), 3),
    'zero': (int, call('final_result', {'response': 0}), 0),
    'sync function': (double, call('final_result', {'n': 4}), 8),
    'async function with a context': (weigh, call('final_result', {'grams': 5}), '5 g'),
    'tool output': (
        ToolOutput(City, name='tell', description='Tell me'),
        call('tell', {'name': 'Oslo'}),
        City(name='Oslo'),
    ),
    'tool output of a function': (ToolOutput(double, name='twice'), call('twice', {'n': 2}), 4),
    'native': (NativeOutput(City), '{"name": "Oslo", "people": 1}', City(name='Oslo', people=1)),
    'native scalar': (NativeOutput(int), '{"response": 3}', 3),
    'prompted': (PromptedOutput(City), '{"name": "Oslo"}', City(name='Oslo')),
    'prompted in a fence': (PromptedOutput(City), '```json\n{"name": "Oslo"}\n```', City(name='Oslo')),
    'text function': (TextOutput(shout), 'hello', 'HELLO'),
    'text function of the library': (TextOutput(str.upper), 'hello', 'HELLO'),
    'text function that is a type': (TextOutput(int), '5', 5),
    'union, first': (City | Point, call('final_result_City', {'name': 'Oslo'}), City(name='Oslo')),
    'union, second': (City | Point, call('final_result_Point', {'x': 1}), Point(1)),
    'list of kinds': ([City, double, str], call('final_result_double', {'n': 3}), 6),
    'list of kinds, text': ([City, double, str], 'just text', 'just text'),
    'optional': ([City, None], call('final_result', {'name': 'Oslo'}), City(name='Oslo')),
    'optional text': ([str, None], 'text', 'text'),
}


@EACH_WAY
@pytest.mark.parametrize('name', KINDS)
def test_every_kind(name: str, way: Way) -> None:
    async def main() -> None:
        kind, answer, expected = KINDS[name]
        item = answer if isinstance(answer, str) else [answer]
        agent: Agent[None, Any] = Agent(ScriptedModel([item], chunk=3), output_type=kind)
        done = await outcome_of(way, agent)
        assert done.error is None, done.error
        assert done.output == expected and type(done.output) is type(expected)
        again = ScriptedModel(['on'])
        await Agent(again).run('go on', message_history=done.messages)
        assert is_valid(requests_of(again)[0])

    go(main())


@pytest.mark.parametrize('name', KINDS)
def test_a_finished_run_gives_the_same_output_again(name: str) -> None:
    async def main() -> None:
        kind, answer, expected = KINDS[name]
        item = answer if isinstance(answer, str) else [answer]
        model = ScriptedModel([item])
        agent: Agent[None, Any] = Agent(model, output_type=kind, journal=MemoryJournal())
        await agent.run('go', run_id='r')
        again = await agent.resume('r')
        assert again.output == expected and type(again.output) is type(expected)
        assert len(model.requests) == 1 and again.status == 'completed'

    go(main())


def test_what_the_model_is_told() -> None:
    async def main() -> None:
        async def asked(kind: Any, answer: Any) -> Any:
            model = ScriptedModel([answer])
            agent: Agent[None, Any] = Agent(model, output_type=kind, tools=[Log().tool('a')])
            await agent.run('go')
            return model.requests[0]

        info = (await asked(str, 'x')).info
        assert [t.name for t in info.tools] == ['a'] and info.allow_text and info.tool_choice == 'auto'
        info = (await asked(City, [call('final_result', {'name': 'x'})])).info
        (function, output) = info.tools
        assert (function.kind, output.kind, output.name) == ('function', 'output', 'final_result')
        assert output.description == 'A city somebody asked about.' and set(output.parameters['properties']) == {
            'name',
            'people',
        }
        assert not info.allow_text and info.tool_choice == 'required' and info.output_schema is None
        info = (await asked([str, City], 'x')).info
        assert info.allow_text and info.tool_choice == 'auto' and len(info.tools) == 2
        info = (await asked(weigh, [call('final_result', {'grams': 1})])).info
        assert info.tools[1].description == 'Weigh something.' and list(info.tools[1].parameters['properties']) == [
            'grams'
        ]
        info = (await asked(NativeOutput(City, name='city', strict=True), '{"name": "x"}')).info
        assert info.output_schema.name == 'city' and info.output_schema.strict and info.allow_text
        assert [t.name for t in info.tools] == ['a']
        request = await asked(PromptedOutput(City), '{"name": "x"}')
        assert request.info.output_schema is None
        assert isinstance(request.messages[0], SystemMessage) and '"people"' in request.messages[0].content
        info = (await asked([City, Point], [call('final_result_City', {'name': 'x'})])).info
        assert [t.name for t in info.tools] == ['a', 'final_result_City', 'final_result_Point']

    go(main())


BAD: dict[str, tuple[Any, Any, Any, Any]] = {
    'model': (
        City,
        [call('final_result', {'people': 3}, '1')],
        [call('final_result', {'name': 'x'}, '2')],
        City(name='x'),
    ),
    'native': (NativeOutput(City), '{"name": 5}', '{"name": "x"}', City(name='x')),
    'native, no JSON': (NativeOutput(City), 'I think it is Oslo', '{"name": "x"}', City(name='x')),
    'prompted, text around it': (PromptedOutput(City), 'Here it is', '{"name": "x"}', City(name='x')),
    'text where a tool is due': (City, 'It is Oslo', [call('final_result', {'name': 'x'})], City(name='x')),
    'annotated': (
        Annotated[int, Field(ge=3)],
        [call('final_result', {'response': 2}, '1')],
        [call('final_result', {'response': 3}, '2')],
        3,
    ),
}


@EACH_WAY
@pytest.mark.parametrize('name', BAD)
def test_an_invalid_output_is_asked_for_again(name: str, way: Way) -> None:
    async def main() -> None:
        kind, bad, good, expected = BAD[name]
        model = ScriptedModel([bad, good], chunk=3)
        agent: Agent[None, Any] = Agent(model, output_type=kind)
        done = await outcome_of(way, agent)
        assert done.output == expected and len(requests_of(model)) == 2
        model = ScriptedModel([bad] * 10, chunk=3)
        agent = Agent(model, output_type=kind, output_retries=2)
        done = await outcome_of(way, agent)
        assert isinstance(done.error, UnexpectedModelBehavior) and len(requests_of(model)) == 3

    go(main())


def test_the_message_names_what_is_wrong() -> None:
    async def main() -> None:
        model = ScriptedModel(
            [[call('final_result', {'people': 'many'}, '1')], [call('final_result', {'name': 'x'}, '2')]]
        )
        await Agent(model, output_type=City).run('go')
        text = str(answers_of(requests_of(model)[1])[0].content)
        assert 'name' in text and 'people' in text
        model = ScriptedModel(['It is Oslo', [call('final_result', {'name': 'x'})]])
        await Agent(model, output_type=City).run('go')
        assert 'final_result' in str(requests_of(model)[1][-1])

    go(main())


@pytest.mark.parametrize(('retries', 'output_retries', 'asked'), [(1, None, 2), (3, None, 4), (3, 0, 1), (0, 2, 3)])
def test_output_retries_default_to_retries(retries: int, output_retries: int | None, asked: int) -> None:
    async def main() -> None:
        model = ScriptedModel(['no'] * 10)
        agent = Agent(model, output_type=City, retries=retries, output_retries=output_retries)
        done = await outcome_of(WAYS['run'], agent)
        assert isinstance(done.error, UnexpectedModelBehavior) and len(model.requests) == asked

    go(main())


def test_retries_of_one_output_tool() -> None:
    async def main() -> None:
        kinds: Any = [ToolOutput(City, name='city', max_retries=0), ToolOutput(Point, name='point', max_retries=2)]
        for name, asked in (('city', 1), ('point', 3)):
            model = ScriptedModel([[ToolCallPart(name, {}, f'{i}')] for i in range(10)])
            agent: Agent[None, Any] = Agent(model, output_type=kinds, output_retries=1)
            done = await outcome_of(WAYS['run'], agent)
            assert isinstance(done.error, UnexpectedModelBehavior) and len(model.requests) == asked, name

    go(main())


@EACH_WAY
def test_validators_in_order_may_change_refuse_and_see_the_context(way: Way) -> None:
    async def main() -> None:
        seen: list[Any] = []
        model = ScriptedModel(['one', 'two'])
        agent = Agent(model, deps_type=str)

        @agent.output_validator
        async def first(ctx: RunContext[str], value: str) -> str:
            if not ctx.partial:
                seen.append((value, ctx.deps, ctx.retry, ctx.max_retries))
                if value == 'one':
                    raise ModelRetry('say two')
            return value.upper()

        @agent.output_validator
        def second(value: str) -> str:
            return f'<{value}>'

        done = await outcome_of(way, agent, deps='d')
        assert done.output == '<TWO>' and seen == [('one', 'd', 0, 1), ('two', 'd', 1, 1)]
        assert 'say two' in str(requests_of(model)[1][-1])
        last = done.messages[-1]
        assert isinstance(last, AssistantMessage) and last.parts == (TextPart('two'),), (
            'the history holds what was said'
        )

    go(main())


@EACH_WAY
def test_a_validator_that_raises_something_else_fails_the_run(way: Way) -> None:
    async def main() -> None:
        agent = Agent(ScriptedModel(['x']), journal=MemoryJournal())

        @agent.output_validator
        def check(ctx: RunContext[None], value: str) -> str:
            if ctx.partial:
                return value
            raise ZeroDivisionError('in the check')

        with pytest.raises(Exception, match='in the check'):
            await way(agent, 'go', run_id='r')
        assert agent.journal is not None and (await agent.journal.info('r')).status == 'failed'

    go(main())


def test_validators_may_return_another_type_and_falsy_values() -> None:
    async def main() -> None:
        values: list[Any] = [0, '', None, [], False]
        for value in values:
            agent: Agent[None, Any] = Agent(ScriptedModel(['x']))

            @agent.output_validator
            def replaced(given: Any, value: Any = value) -> Any:
                return value

            result = await agent.run('go')
            assert result.output == value and result.status == 'completed'

    go(main())


@EACH_WAY
def test_an_output_function_may_ask_again_and_runs_once_for_each_call(way: Way) -> None:
    async def main() -> None:
        ran: list[int] = []

        async def deliver(ctx: RunContext[None], n: int) -> str:
            ran.append(ctx.retry)
            if n < 2:
                raise ModelRetry('bigger')
            return f'delivered {n}'

        script = [[call('final_result', {'n': 1}, '1')], [call('final_result', {'n': 2}, '2')]]
        agent = Agent(ScriptedModel(script), output_type=deliver)
        done = await outcome_of(way, agent)
        assert done.output == 'delivered 2' and ran == [0, 1]
        assert done.usage.tool_calls == 0, 'an output is no function tool'

    go(main())


def test_an_output_function_that_fails() -> None:
    async def main() -> None:
        async def deliver(n: int) -> str:
            raise OSError('no post office')

        agent = Agent(ScriptedModel([[call('final_result', {'n': 1})]]), output_type=deliver, journal=MemoryJournal())
        with pytest.raises(Exception, match='no post office') as caught:
            await agent.run('go', run_id='r')
        assert agent.journal is not None and (await agent.journal.info('r')).status == 'failed'
        from agent_graph import RunError

        assert isinstance(caught.value, RunError), (
            'user code that fails is told like a tool that fails, with the messages'
        )
        assert is_valid(caught.value.messages) and answers_of(caught.value.messages)[0].outcome == 'failed'

    go(main())


def test_a_text_function_may_ask_again_and_take_the_context() -> None:
    async def main() -> None:
        async def parse(ctx: RunContext[int], text: str) -> int:
            if not text.isdigit():
                raise ModelRetry('digits only')
            return int(text) + ctx.deps

        agent = Agent(ScriptedModel(['five', '5']), output_type=TextOutput(parse), deps_type=int)
        for way in WAYS.values():
            agent.model = ScriptedModel(['five', '5'])
            assert (await outcome_of(way, agent, deps=10)).output == 15

    go(main())


def test_the_output_type_of_one_run() -> None:
    async def main() -> None:
        agent = Agent(
            ScriptedModel([[call('final_result', {'name': 'x'})], 'text', [call('final_result', {'response': 1})]])
        )
        first: Any = (await agent.run('go', output_type=City)).output
        second = (await agent.run('go')).output
        third: Any = (await agent.run('go', output_type=int)).output
        assert (first, second, third) == (City(name='x'), 'text', 1)

    go(main())


@pytest.mark.parametrize(
    'kind',
    [[], [NativeOutput(int), PromptedOutput(int)], [str, TextOutput(shout)], ToolOutput(object()), 5],  # pyright: ignore
    ids=['nothing', 'two texts', 'str and a text function', 'no type', 'a value'],
)
def test_output_types_that_cannot_be(kind: Any) -> None:
    async def main() -> None:
        agent: Agent[None, Any] = Agent(ScriptedModel(['x']), output_type=kind)
        with pytest.raises(ConfigError):
            await agent.run('go')

    go(main())


def test_a_tool_with_the_name_of_an_output_tool() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match='final_result'):
            await Agent(ScriptedModel(['x']), output_type=City, tools=[Log().tool('final_result')]).run('go')

    go(main())
