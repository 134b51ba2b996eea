"""Case 17: an output call beside other calls: the full table of what runs, under every end strategy, in every way."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from agent_graph import Agent, AssistantMessage, ModelRetry, TextPart, ToolCallPart, ToolOutput, ToolReturnPart, Usage
from agent_graph.testing import ScriptedModel
from tests.engine.kit import WAYS, Log, answers_of, call, go, outcome_of, requests_of

Strategy = Literal['early', 'graceful', 'exhaustive']
STRATEGIES: list[Strategy] = ['early', 'graceful', 'exhaustive']


@dataclass
class Result:
    n: int


@dataclass(frozen=True)
class Row:
    """What must happen: how often each function ran, each call's outcome, the winner (0: nobody)."""

    tools: int
    first: int
    second: int
    outcomes: tuple[str, str, str, str]
    winner: int


def expected(strategy: Strategy, first: bool, second: bool) -> Row:
    """The table of the docs, written down once more."""
    if not first and not second:
        return Row(1, 1, 1, ('success', 'retry', 'success', 'retry'), 0)
    if not first:
        tools = 0 if strategy == 'early' else 1
        a = 'skipped' if strategy == 'early' else 'success'
        return Row(tools, 1, 1, (a, 'retry', a, 'success'), 2)
    if strategy == 'early':
        return Row(0, 1, 0, ('skipped', 'success', 'skipped', 'skipped'), 1)
    if strategy == 'graceful':
        return Row(1, 1, 0, ('success', 'success', 'success', 'skipped'), 1)
    return Row(1, 1, 1, ('success', 'success', 'success', 'success' if second else 'retry'), 1)


def _response(first: Any, second: Any, names: tuple[str, str], text: str = '') -> AssistantMessage:
    parts: list[Any] = [TextPart(text)] if text else []
    parts += [
        call('a', {}, 'A'),
        ToolCallPart(names[0], first, 'O1'),
        call('b', {}, 'B'),
        ToolCallPart(names[1], second, 'O2'),
    ]
    return AssistantMessage(parts, Usage(input_tokens=1, output_tokens=1), finish_reason='tool_calls')


def _check(done: Any, row: Row, log: Log, outputs: tuple[int, int]) -> None:
    parts = answers_of(done.messages)[:4]
    assert [p.tool_call_id for p in parts] == ['A', 'O1', 'B', 'O2']
    assert tuple(p.outcome for p in parts) == row.outcomes
    assert (log.count('a'), log.count('b')) == (row.tools, row.tools)
    assert outputs == (row.first, row.second)
    for part in parts:
        if part.outcome == 'skipped':
            assert 'Not executed' in str(part.content)


async def _continues(done: Any) -> None:
    model = ScriptedModel(['I see'])
    assert (await Agent(model).run('next', message_history=done.messages)).output == 'I see'
    assert requests_of(model)[0][:-1] == tuple(done.messages)


@pytest.mark.parametrize(
    ('strategy', 'first', 'second'), list(itertools.product(STRATEGIES, [True, False], [True, False]))
)
def test_output_functions(strategy: Strategy, first: bool, second: bool) -> None:
    """Each output is a function with side effects; an invalid one raises `ModelRetry`."""

    async def main() -> None:
        told: list[Any] = []
        for way in WAYS.values():
            log, ran = Log(), [0, 0]

            def make(i: int, good: bool, ran: list[int] = ran) -> Callable[[int], str]:
                async def output(n: int) -> str:
                    ran[i] += 1
                    if not good and n < 10:
                        raise ModelRetry('not this')
                    return f'output {i + 1}: {n}'

                return output  # pyright: ignore[reportReturnType]

            kinds = [ToolOutput(make(0, first), name='out1'), ToolOutput(make(1, second), name='out2')]
            row = expected(strategy, first, second)
            script = [_response({'n': 1}, {'n': 2}, ('out1', 'out2')), [ToolCallPart('out1', {'n': 10}, 'O3')]]
            model = ScriptedModel(script, chunk=4)
            tools = [log.tool('a'), log.tool('b')]
            agent: Agent[None, Any] = Agent(model, tools=tools, output_type=kinds, end_strategy=strategy)
            done = await outcome_of(way, agent)
            assert done.output == ('output 1: 10' if not row.winner else f'output {row.winner}: {row.winner}')
            _check(done, row, log, (ran[0] - (not row.winner), ran[1]))
            assert len(requests_of(model)) == (1 if row.winner else 2)
            await _continues(done)
            told.append(done.told)
        assert all(t == told[0] for t in told)

    go(main())


@pytest.mark.parametrize(
    ('strategy', 'first', 'second'), list(itertools.product(STRATEGIES, [True, False], [True, False]))
)
def test_one_output_tool_called_twice(strategy: Strategy, first: bool, second: bool) -> None:
    """The output is a type; an invalid one does not fit it."""

    async def main() -> None:
        told: list[Any] = []
        for way in WAYS.values():
            log = Log()
            row = expected(strategy, first, second)
            one: Any = {'n': 1} if first else {'n': 'x'}
            two: Any = {'n': 2} if second else {'m': 2}
            names = ('final_result', 'final_result')
            model = ScriptedModel(
                [_response(one, two, names), [ToolCallPart('final_result', {'n': 10}, 'O3')]], chunk=4
            )
            tools = [log.tool('a'), log.tool('b')]
            agent = Agent(model, tools=tools, output_type=Result, end_strategy=strategy)
            done = await outcome_of(way, agent)
            assert done.output == Result(row.winner or 10)
            _check(done, row, log, (row.first, row.second))
            await _continues(done)
            told.append(done.told)
        assert all(t == told[0] for t in told)

    go(main())


@pytest.mark.parametrize('strategy', STRATEGIES)
def test_text_beside_calls_is_not_the_output(strategy: Strategy) -> None:
    async def main() -> None:
        for way in WAYS.values():
            log = Log()
            response = [TextPart('the answer'), call('a', {}, 'A'), call('b', {}, 'B')]
            model = ScriptedModel([response, 'really'], chunk=4)
            agent = Agent(model, tools=[log.tool('a'), log.tool('b')], end_strategy=strategy)
            done = await outcome_of(way, agent)
            assert done.output == 'really' and sorted(log) == ['a', 'b']

    go(main())


@pytest.mark.parametrize('strategy', STRATEGIES)
def test_text_and_an_output_call_the_call_wins(strategy: Strategy) -> None:
    async def main() -> None:
        for way in WAYS.values():
            log = Log()
            model = ScriptedModel([_response({'n': 1}, {'n': 2}, ('final_result', 'final_result'), 'the answer')])
            kinds: Any = [str, Result]
            agent: Agent[None, Any] = Agent(
                model, tools=[log.tool('a'), log.tool('b')], output_type=kinds, end_strategy=strategy
            )
            done = await outcome_of(way, agent)
            assert done.output == Result(1)
            _check(done, expected(strategy, True, True), log, expected_outputs(strategy))
            await _continues(done)

    def expected_outputs(s: Strategy) -> tuple[int, int]:
        row = expected(s, True, True)
        return row.first, row.second

    go(main())


@pytest.mark.parametrize('strategy', STRATEGIES)
def test_the_first_valid_one_wins_whatever_finishes_first(strategy: Strategy) -> None:
    import asyncio

    async def main() -> None:
        async def slow(n: int) -> str:
            await asyncio.sleep(0.02)
            return 'slow'

        async def fast(n: int) -> str:
            return 'fast'

        kinds = [ToolOutput(slow, name='out1'), ToolOutput(fast, name='out2')]
        model = ScriptedModel([[call('out1', {'n': 1}), call('out2', {'n': 2})]])
        agent: Agent[None, Any] = Agent(model, output_type=kinds, end_strategy=strategy)
        assert (await agent.run('go')).output == 'slow'

    go(main())


@pytest.mark.parametrize('strategy', STRATEGIES)
def test_a_validator_decides_which_output_is_valid(strategy: Strategy) -> None:
    async def main() -> None:
        for way in WAYS.values():
            log = Log()
            model = ScriptedModel([_response({'n': 1}, {'n': 2}, ('final_result', 'final_result'))])
            agent = Agent(model, tools=[log.tool('a'), log.tool('b')], output_type=Result, end_strategy=strategy)

            @agent.output_validator
            def even(value: Result) -> Result:
                if value.n % 2:
                    raise ModelRetry('even numbers only')
                return value

            done = await outcome_of(way, agent)
            assert done.output == Result(2)
            _check(done, expected(strategy, False, True), log, (1, 1))

    go(main())


@pytest.mark.parametrize('strategy', STRATEGIES)
def test_calls_that_cannot_run_beside_a_valid_output(strategy: Strategy) -> None:
    async def main() -> None:
        log = Log()
        calls = [call('made_up', {}, '1'), ToolCallPart('a', '{"cut', '2'), call('final_result', {'n': 1}, '3')]
        agent = Agent(ScriptedModel([calls]), tools=[log.tool('a')], output_type=Result, end_strategy=strategy)
        done = await outcome_of(WAYS['run'], agent)
        assert done.output == Result(1) and log == []
        assert {p.outcome for p in answers_of(done.messages)[:2]} == {'skipped' if strategy == 'early' else 'retry'}
        await _continues(done)

    go(main())


def test_the_events_tell_the_same_story() -> None:
    async def main() -> None:
        for strategy in STRATEGIES:
            log = Log()
            model = ScriptedModel([_response({'n': 'x'}, {'n': 2}, ('final_result', 'final_result'))])
            agent = Agent(model, tools=[log.tool('a'), log.tool('b')], output_type=Result, end_strategy=strategy)
            answered: dict[str, ToolReturnPart] = {}
            async with agent.run_stream('go') as s:
                async for event in s.events():
                    if event.kind in ('output_tool_result', 'function_tool_result'):
                        part: ToolReturnPart = event.part  # pyright: ignore
                        assert part.tool_call_id not in answered
                        answered[part.tool_call_id] = part
                result = await s.result()
            stored = answers_of(result.messages)
            assert {p.tool_call_id: p for p in stored if p.outcome != 'skipped'} == {
                k: p for k, p in answered.items() if p.outcome != 'skipped'
            }
            assert set(answered) == {p.tool_call_id for p in stored}, (
                f'{strategy}: each answer is shown, skipped ones too'
            )

    go(main())
