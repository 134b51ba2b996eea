"""Case 26: limits under parallel calls and nested agents: never overshot, everything counted once."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent_graph import Agent, AssistantMessage, Message, TextPart, ToolFailed, Usage, UsageLimitExceeded, UsageLimits
from agent_graph.messages import is_valid
from agent_graph.model import RequestInfo
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import WAYS, Log, Way, answers_of, call, go, outcome_of

EACH_WAY = pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)


class Asked:
    """Counts what really reached a model, and what is running at a time."""

    def __init__(self, answer: Callable[[list[Message], RequestInfo], Any], pause: float = 0.001) -> None:
        self.count = 0
        self.answer = answer
        self.pause = pause
        self.lock = threading.Lock()

    @property
    def model(self) -> FunctionModel:
        async def ask(messages: Any, info: RequestInfo) -> Any:
            with self.lock:
                self.count += 1
            await asyncio.sleep(self.pause)
            return self.answer(messages, info)

        return FunctionModel(ask)


def _tokens(n: int, *parts: Any) -> AssistantMessage:
    return AssistantMessage(parts or (TextPart('ok'),), Usage(input_tokens=n, output_tokens=n))


@EACH_WAY
@pytest.mark.parametrize('limit', [0, 3, 4])
def test_tool_call_limit_below_the_calls_of_one_response(limit: int, way: Way) -> None:
    async def main() -> None:
        log = Log()
        agent = Agent(ScriptedModel([[call('a', {}, f'{i}') for i in range(5)]]), tools=[log.tool('a')])
        done = await outcome_of(way, agent, usage_limits=UsageLimits(tool_calls_limit=limit))
        assert isinstance(done.error, UsageLimitExceeded) and done.error.limit == 'tool_calls_limit'
        assert len(log) <= limit and done.usage.tool_calls == len(log)
        assert len(answers_of(done.messages)) == 5

    go(main())


@EACH_WAY
def test_calls_that_fit_exactly(way: Way) -> None:
    async def main() -> None:
        log = Log()
        script = [[call('a', {}, f'{i}') for i in range(3)], [call('a', {}, f'x{i}') for i in range(2)], 'end']
        agent = Agent(ScriptedModel(script), tools=[log.tool('a')])
        done = await outcome_of(way, agent, usage_limits=UsageLimits(tool_calls_limit=5))
        assert done.output == 'end' and len(log) == 5 == done.usage.tool_calls

    go(main())


@EACH_WAY
def test_over_the_limit_and_told_to_answer(way: Way) -> None:
    async def main() -> None:
        log = Log()
        model = ScriptedModel([[call('a', {}, f'{i}') for i in range(5)], 'what I know'])
        limits = UsageLimits(tool_calls_limit=3, on_limit='final_answer')
        done = await outcome_of(way, Agent(model, tools=[log.tool('a')]), usage_limits=limits)
        assert done.output == 'what I know' and len(log) == 3 == done.usage.tool_calls
        assert [p.outcome for p in answers_of(done.messages)] == ['success'] * 3 + ['skipped'] * 2
        assert model.requests[1].info.tools == (), 'the tools are withdrawn'

    go(main())


def test_calls_that_never_start_are_not_counted() -> None:
    async def main() -> None:
        log = Log()
        calls = [call('a', {}, '1'), call('made_up', {}, '2'), call('a', {}, '3'), call('a', '{"cut', '4')]
        agent = Agent(ScriptedModel([calls, 'end']), tools=[log.tool('a')])
        done = await outcome_of(WAYS['run'], agent, usage_limits=UsageLimits(tool_calls_limit=2))
        assert done.output == 'end' and len(log) == 2 == done.usage.tool_calls

    go(main())


def _fan_out(inner: Agent[Any, Any], n: int, **options: Any) -> Agent[None, str]:
    async def delegate(n: int) -> str:
        return (await inner.run(f'part {n}')).output

    script = [[call('delegate', {'n': i}, f'd{i}') for i in range(n)], 'all done']
    return Agent(ScriptedModel(script), tools=[delegate], **options)


@EACH_WAY
def test_request_limit_and_eight_parallel_nested_agents(way: Way) -> None:
    async def main() -> None:
        asked = Asked(lambda m, i: 'inner')
        outer = _fan_out(Agent(asked.model), 8)
        done = await outcome_of(way, outer, usage_limits=UsageLimits(request_limit=5))
        assert isinstance(done.error, UsageLimitExceeded) and done.error.limit == 'request_limit'
        assert asked.count <= 4, 'one of the five was the outer request'
        assert done.usage.requests == asked.count + 1, 'every request made is counted once'
        assert len(answers_of(done.messages)) == 8

    go(main())


def test_request_limit_of_three_levels() -> None:
    async def main() -> None:
        asked = Asked(lambda m, i: 'leaf')
        middle_asked = Asked(
            lambda m, i: [call('leaf', {'n': k}, f'l{k}') for k in range(4)] if len(m) == 1 else 'middle'
        )
        leaf = Agent(asked.model)

        async def run_leaf(n: int) -> str:
            return (await leaf.run('x')).output

        from agent_graph import Tool

        middle = Agent(middle_asked.model, tools=[Tool(run_leaf, name='leaf')])
        outer = _fan_out(middle, 3)
        done = await outcome_of(WAYS['run'], outer, usage_limits=UsageLimits(request_limit=7))
        assert isinstance(done.error, UsageLimitExceeded)
        total = 1 + asked.count + middle_asked.count
        assert total <= 7 and done.usage.requests == total

    go(main())


def test_a_nested_agents_own_smaller_limit_is_kept_too() -> None:
    async def main() -> None:
        asked = Asked(lambda m, i: [call('a', {}, f'c{len(m)}')])
        inner = Agent(asked.model, tools=[Log().tool('a')], usage_limits=UsageLimits(request_limit=2))
        outer = _fan_out(inner, 1)
        done = await outcome_of(WAYS['run'], outer, usage_limits=UsageLimits(request_limit=50))
        assert isinstance(done.error, ToolFailed) and isinstance(done.error.__cause__, UsageLimitExceeded)
        assert asked.count == 2 and done.usage.requests == 3 and done.usage.tool_calls == 1 + 2

    go(main())


@pytest.mark.parametrize('name', ['input_tokens_limit', 'output_tokens_limit', 'total_tokens_limit'])
def test_a_token_budget_shared_by_parent_and_children(name: str) -> None:
    async def main() -> None:
        asked = Asked(lambda m, i: _tokens(10))
        inner = Agent(asked.model)

        async def delegate(n: int) -> str:
            return (await inner.run('x')).output

        script = [_tokens(10, call('delegate', {'n': i}, f'd{i}')) for i in range(20)]
        bound = 45 if name != 'total_tokens_limit' else 90
        agent = Agent(ScriptedModel(script), tools=[delegate], usage_limits=replace(UsageLimits(), **{name: bound}))
        done = await outcome_of(WAYS['run'], agent)
        assert isinstance(done.error, UsageLimitExceeded) and done.error.limit == name
        assert done.usage.requests == 5, 'the response that went past the bound is the last'
        assert (done.usage.input_tokens, done.usage.output_tokens) == (50, 50)

    go(main())


def test_no_request_starts_once_a_token_bound_is_reached() -> None:
    async def main() -> None:
        asked = Asked(lambda m, i: _tokens(10))
        inner = Agent(asked.model)

        async def one_after_the_other(n: int) -> str:
            for _ in range(10):
                await inner.run('x')
            return 'x'

        model = ScriptedModel([_tokens(10, call('one_after_the_other', {'n': 1}))])
        agent = Agent(model, tools=[one_after_the_other], usage_limits=UsageLimits(output_tokens_limit=40))
        done = await outcome_of(WAYS['run'], agent)
        assert isinstance(done.error, UsageLimitExceeded) and asked.count == 3
        assert done.usage.output_tokens == 40

    go(main())


@EACH_WAY
def test_a_nested_agent_that_fails_half_way_is_counted(way: Way) -> None:
    async def main() -> None:
        log = Log()

        async def bad() -> str:
            raise RuntimeError('half-way')

        inner_model = ScriptedModel([_tokens(7, call('a'), call('a', {}, 'a2')), _tokens(5, call('bad'))])
        inner = Agent(inner_model, tools=[log.tool('a'), bad])

        async def delegate() -> str:
            return (await inner.run('x')).output

        outer = Agent(ScriptedModel([_tokens(3, call('delegate'))]), tools=[delegate])
        done = await outcome_of(way, outer)
        assert isinstance(done.error, ToolFailed)
        assert done.usage.requests == 3 and done.usage.tool_calls == 1 + 3
        assert done.usage.input_tokens == 3 + 7 + 5

    go(main())


def test_a_failed_child_that_the_tool_forgives_is_counted_once() -> None:
    async def main() -> None:
        inner = Agent(ScriptedModel([_tokens(7, call('bad'))] * 2), tools=[_bad])

        async def delegate(n: int) -> str:
            try:
                return (await inner.run('x')).output
            except ToolFailed:
                return 'it failed'

        outer = Agent(
            ScriptedModel([_tokens(3, call('delegate', {'n': 1}, '1'), call('delegate', {'n': 2}, '2')), _tokens(1)]),
            tools=[delegate],
        )
        done = await outcome_of(WAYS['run'], outer)
        assert done.output == 'ok' and done.usage.requests == 4 and done.usage.tool_calls == 4
        assert done.usage.input_tokens == 3 + 14 + 1

    go(main())


async def _bad() -> str:
    raise RuntimeError('half-way')


_bad.__name__ = 'bad'


def test_children_stopped_with_their_sibling_are_counted() -> None:
    async def main() -> None:
        asked = Asked(lambda m, i: _tokens(10, call('wait')) if len(m) == 1 else _tokens(10))

        async def wait() -> str:
            await asyncio.sleep(30)
            return 'never'

        inner = Agent(asked.model, tools=[wait])

        async def delegate(n: int) -> str:
            return (await inner.run('x')).output

        async def late() -> str:
            while asked.count < 4:  # noqa: ASYNC110 (nothing tells when)
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.02)
            raise RuntimeError('late')

        calls = [call('delegate', {'n': i}, f'd{i}') for i in range(4)]
        outer = Agent(ScriptedModel([_tokens(1, *calls, call('late'))]), tools=[delegate, late])
        done = await outcome_of(WAYS['run'], outer)
        assert isinstance(done.error, ToolFailed)
        assert asked.count == 4 and done.usage.requests == 5 and done.usage.input_tokens == 41
        assert done.usage.tool_calls == 5 + 4

    go(main())


def test_nested_runs_in_worker_threads_do_not_overshoot() -> None:
    """Sync tools run agents in loops of their own: reserving must hold between threads too."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            asked = Asked(lambda m, i: 'inner', pause=0)
            inner = Agent(asked.model)
            gate = threading.Barrier(20)

            def delegate(n: int, inner: Any = inner, gate: threading.Barrier = gate) -> str:
                gate.wait(5)
                return inner.run_sync('x').output

            from agent_graph import Tool

            schema = {'type': 'object', 'properties': {'n': {'type': 'integer'}}}
            tool = Tool.from_schema('delegate', None, schema, delegate)
            calls = [call('delegate', {'n': i}, f'd{i}') for i in range(20)]
            agent = Agent(ScriptedModel([calls, 'end']), tools=[tool], usage_limits=UsageLimits(request_limit=8))
            with pytest.raises(UsageLimitExceeded) as caught:
                agent.run_sync('go')
            time.sleep(0.05)
            assert asked.count <= 7 and is_valid(caught.value.messages)
    finally:
        sys.setswitchinterval(interval)


def test_time_limit_covers_nested_agents() -> None:
    async def main() -> None:
        asked = Asked(lambda m, i: 'inner', pause=30)
        begin = time.monotonic()
        done = await outcome_of(WAYS['run'], _fan_out(Agent(asked.model), 3), usage_limits=UsageLimits(time_limit=0.1))
        assert isinstance(done.error, UsageLimitExceeded) and done.error.limit == 'time_limit'
        assert time.monotonic() - begin < 5 and done.usage.requests == 4

    go(main())


def test_a_limit_of_the_outer_run_inside_a_nested_one_with_final_answer() -> None:
    async def main() -> None:
        asked = Asked(lambda m, i: 'inner')
        model = ScriptedModel([[call('delegate', {'n': i}, f'd{i}') for i in range(6)], 'what I know'])
        inner = Agent(asked.model)

        async def delegate(n: int) -> str:
            return (await inner.run('x')).output

        limits = UsageLimits(request_limit=4, on_limit='final_answer')
        done = await outcome_of(WAYS['run'], Agent(model, tools=[delegate]), usage_limits=limits)
        total = asked.count + len(model.requests)
        assert total <= 4 and done.usage.requests == total
        if done.error is not None:
            pytest.fail(f'no final answer was given: {done.error}')
        assert done.output == 'what I know'

    go(main())
