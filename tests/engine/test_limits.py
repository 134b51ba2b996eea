"""`UsageLimits`: every bound, raised or answered; usage and cost; nested runs."""

from __future__ import annotations

import asyncio
import time
from decimal import Decimal
from typing import Any

import pytest

from agent_graph import Agent, AssistantMessage, MemoryJournal, TextPart, Usage, UsageLimitExceeded, UsageLimits
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import WAYS, Log, Way, answers_of, call, go, outcome_of, requests_of

EACH_WAY = pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)


def _said(*parts: Any, tokens: int = 10, **more: Any) -> AssistantMessage:
    return AssistantMessage(parts or (TextPart('ok'),), Usage(input_tokens=tokens, output_tokens=tokens), **more)


def _turns(n: int, tokens: int = 10, **more: Any) -> list[Any]:
    """n tool turns and an answer."""
    return [_said(call('a', {}, f'{i}'), tokens=tokens, **more) for i in range(n)] + [
        _said(TextPart('done'), tokens=tokens, **more)
    ]


BOUNDS: dict[str, tuple[UsageLimits, int]] = {
    'requests': (UsageLimits(request_limit=3), 3),
    'one request': (UsageLimits(request_limit=1), 1),
    'no request': (UsageLimits(request_limit=0), 0),
    'tool calls': (UsageLimits(tool_calls_limit=2), 3),
    'input tokens': (UsageLimits(input_tokens_limit=25), 3),
    'output tokens': (UsageLimits(output_tokens_limit=25), 3),
    'total tokens': (UsageLimits(total_tokens_limit=50), 3),
    'exactly reached': (UsageLimits(output_tokens_limit=30), 3),
    'several': (UsageLimits(request_limit=9, tool_calls_limit=9, total_tokens_limit=30), 2),
}


@EACH_WAY
@pytest.mark.parametrize('name', BOUNDS)
def test_each_bound_is_raised(name: str, way: Way) -> None:
    async def main() -> None:
        limits, asked = BOUNDS[name]
        model = ScriptedModel(_turns(9))
        done = await outcome_of(way, Agent(model, tools=[Log().tool('a')]), usage_limits=limits, run_id='r')
        assert isinstance(done.error, UsageLimitExceeded)
        assert getattr(limits, done.error.limit) is not None and done.error.limit in str(done.error)
        assert len(requests_of(model)) == asked == done.usage.requests
        assert done.error.run_id == 'r'

    go(main())


@EACH_WAY
@pytest.mark.parametrize('name', [n for n in BOUNDS if n != 'no request'])
def test_each_bound_is_answered(name: str, way: Way) -> None:
    async def main() -> None:
        from dataclasses import replace

        limits, asked = BOUNDS[name]
        model = FunctionModel(_until_withdrawn)
        log = Log()
        agent = Agent(model, tools=[log.tool('a')])
        done = await outcome_of(way, agent, usage_limits=replace(limits, on_limit='final_answer'))
        assert done.error is None and done.output == 'what I know', done.error
        if limits.request_limit is not None:
            assert done.usage.requests <= limits.request_limit, 'the bound holds all the same'
        if limits.tool_calls_limit is not None:
            assert len(log) <= limits.tool_calls_limit
        assert done.usage.requests <= asked + 1

    go(main())


async def _until_withdrawn(messages: Any, info: Any) -> AssistantMessage:
    if not info.tools:
        return _said(TextPart('what I know'))
    return _said(call('a', {}, f'c{len(messages)}'))


def test_a_final_answer_with_an_output_type_keeps_the_output_tool() -> None:
    async def main() -> None:
        asked: list[list[str]] = []

        async def ask(messages: Any, info: Any) -> Any:
            asked.append([t.name for t in info.tools])
            if 'a' in asked[-1]:
                return _said(call('a', {}, f'c{len(messages)}'))
            return _said(call('final_result', {'response': 7}))

        limits = UsageLimits(request_limit=3, on_limit='final_answer')
        agent: Agent[None, int] = Agent(FunctionModel(ask), tools=[Log().tool('a')], output_type=int)
        done = await outcome_of(WAYS['run'], agent, usage_limits=limits)
        assert done.output == 7 and asked == [['a', 'final_result'], ['a', 'final_result'], ['final_result']]

    go(main())


def test_a_model_that_calls_a_withdrawn_tool_all_the_same() -> None:
    async def main() -> None:
        log = Log()
        model = ScriptedModel(_turns(9))
        limits = UsageLimits(tool_calls_limit=2, on_limit='final_answer')
        done = await outcome_of(WAYS['run'], Agent(model, tools=[log.tool('a')], retries=1), usage_limits=limits)
        assert done.error is not None and len(log) == 2, 'it is bounded, and the tool never runs'
        assert len(model.requests) <= 5

    go(main())


def test_limits_of_the_run_replace_those_of_the_agent() -> None:
    async def main() -> None:
        model = ScriptedModel(_turns(3) * 2)
        agent = Agent(model, tools=[Log().tool('a')], usage_limits=UsageLimits(request_limit=1))
        with pytest.raises(UsageLimitExceeded):
            await agent.run('go')
        agent.model = ScriptedModel(_turns(3))
        assert (await agent.run('go', usage_limits=UsageLimits(request_limit=9))).output == 'done'

    go(main())


def test_the_last_allowed_response_may_be_the_answer() -> None:
    async def main() -> None:
        for limits in (
            UsageLimits(request_limit=3),
            UsageLimits(tool_calls_limit=2),
            UsageLimits(output_tokens_limit=30),
            UsageLimits(total_tokens_limit=60),
        ):
            agent = Agent(ScriptedModel(_turns(2)), tools=[Log().tool('a')], usage_limits=limits)
            result = await agent.run('go')
            assert result.output == 'done' and result.usage.requests == 3

    go(main())


@EACH_WAY
def test_time_limit(way: Way) -> None:
    async def main() -> None:
        async def slow(messages: Any, info: Any) -> str:
            await asyncio.sleep(30)
            return 'late'

        begin = time.monotonic()
        limits = UsageLimits(time_limit=0.05, on_limit='final_answer')
        done = await outcome_of(way, Agent(FunctionModel(slow)), usage_limits=limits)
        assert isinstance(done.error, UsageLimitExceeded) and done.error.limit == 'time_limit'
        assert time.monotonic() - begin < 5

    go(main())


def test_time_limit_of_a_sync_tool_and_between_nodes() -> None:
    async def main() -> None:
        def sleep() -> str:
            time.sleep(0.3)
            return 'x'

        agent = Agent(ScriptedModel([[call('sleep')], 'x']), tools=[sleep], usage_limits=UsageLimits(time_limit=0.05))
        done = await outcome_of(WAYS['run'], agent)
        assert isinstance(done.error, UsageLimitExceeded) and answers_of(done.messages)[0].outcome == 'interrupted'
        async with Agent(ScriptedModel(['x'])).iter('go', usage_limits=UsageLimits(time_limit=0.02)) as run:
            await run.next()
            await asyncio.sleep(0.05)
            with pytest.raises(UsageLimitExceeded):
                await run.next()
            assert is_valid(run.messages)

    go(main())


PRICED: dict[str, Any] = {'provider_name': 'openai', 'model_name': 'gpt-4o-mini'}
"""0.15 USD a million input tokens and 0.60 USD a million output tokens, for years now."""


def test_cost() -> None:
    async def main() -> None:
        model = ScriptedModel(_turns(1, tokens=1_000_000, **PRICED))
        result = await Agent(model, tools=[Log().tool('a')]).run('go')
        assert result.cost == Decimal('1.5') and isinstance(result.cost, Decimal)
        unknown = await Agent(ScriptedModel([_said()])).run('go')
        assert unknown.cost is None, 'never a guess'
        mixed = ScriptedModel([_said(call('a'), tokens=5, **PRICED), _said(tokens=5)])
        assert (await Agent(mixed, tools=[Log().tool('a')]).run('go')).cost is None

    go(main())


def test_cached_tokens_are_cheaper_and_kept_apart() -> None:
    async def main() -> None:
        usage = Usage(input_tokens=1_000_000, cache_read_tokens=1_000_000, output_tokens=10, reasoning_tokens=8)
        response = AssistantMessage([TextPart('x')], usage, **PRICED)
        result = await Agent(ScriptedModel([response])).run('go')
        assert result.cost is not None and result.cost < Decimal('0.1')
        assert (result.usage.cache_read_tokens, result.usage.reasoning_tokens) == (1_000_000, 8)
        assert result.usage.total_tokens == 1_000_010

    go(main())


def test_cost_limit() -> None:
    async def main() -> None:
        model = ScriptedModel(_turns(9, tokens=1_000_000, **PRICED))
        agent = Agent(model, tools=[Log().tool('a')], usage_limits=UsageLimits(cost_limit=1.4))
        done = await outcome_of(WAYS['run'], agent)
        assert isinstance(done.error, UsageLimitExceeded) and done.error.limit == 'cost_limit'
        assert len(model.requests) == 2
        model = ScriptedModel(_turns(9))
        agent = Agent(model, tools=[Log().tool('a')], usage_limits=UsageLimits(cost_limit=1))
        done = await outcome_of(WAYS['run'], agent)
        assert isinstance(done.error, UsageLimitExceeded) and 'price' in str(done.error) and len(model.requests) == 1

    go(main())


def test_usage_is_summed_and_details_too() -> None:
    async def main() -> None:
        first = AssistantMessage([call('a')], Usage(input_tokens=3, output_tokens=4, details={'x': 1, 'y': 2}))
        second = AssistantMessage([TextPart('x')], Usage(input_tokens=5, output_tokens=6, details={'y': 3}))
        result = await Agent(ScriptedModel([first, second]), tools=[Log().tool('a')]).run('go')
        usage = result.usage
        assert (usage.requests, usage.tool_calls, usage.input_tokens, usage.output_tokens) == (2, 1, 8, 10)
        assert usage.total_tokens == 18 and usage.details == {'x': 1, 'y': 5}

    go(main())


def test_usage_of_history_is_not_counted_again() -> None:
    async def main() -> None:
        first = await Agent(ScriptedModel([_said()])).run('go')
        second = await Agent(ScriptedModel([_said()])).run('more', message_history=first.messages)
        assert second.usage.input_tokens == 10 and second.usage.requests == 1

    go(main())


def test_nested_usage_and_cost_are_part_of_the_outer_run() -> None:
    async def main() -> None:
        inner = Agent(
            ScriptedModel([_said(call('a'), tokens=100, **PRICED), _said(tokens=100, **PRICED)]),
            tools=[Log().tool('a')],
        )

        async def delegate() -> str:
            result = await inner.run('x')
            assert result.usage.requests == 2 and result.usage.input_tokens == 200
            return result.output

        journal = MemoryJournal()
        script = [_said(call('delegate'), **PRICED), _said(TextPart('done'), **PRICED)]
        result = await Agent(ScriptedModel(script), tools=[delegate], journal=journal).run('go', run_id='outer')
        assert (result.usage.requests, result.usage.tool_calls) == (4, 2)
        assert (result.usage.input_tokens, result.usage.output_tokens) == (220, 220)
        assert result.cost == Decimal(220) * (Decimal('0.15') + Decimal('0.60')) / 1_000_000
        infos = {i.run_id: i for i in await journal.runs()}
        assert len(infos) == 2, 'a nested run without a journal of its own is kept with the outer one'
        (nested,) = [i for i in infos.values() if i.run_id != 'outer']
        assert (
            nested.parent is not None and nested.parent.run_id == 'outer' and nested.parent.tool_call_id == 'delegate'
        )

    go(main())


def test_a_nested_run_in_an_output_function_counts_too() -> None:
    async def main() -> None:
        inner = Agent(ScriptedModel([_said(tokens=100)]))

        async def deliver(text: str) -> str:
            return (await inner.run(text)).output

        limits = UsageLimits(request_limit=1)
        agent = Agent(ScriptedModel([_said(call('final_result', {'text': 'x'}))] * 2), output_type=deliver)
        result = await agent.run('go')
        assert result.output == 'ok' and result.usage.requests == 2 and result.usage.input_tokens == 110
        with pytest.raises(UsageLimitExceeded):
            await agent.run('go', usage_limits=limits)

    go(main())
