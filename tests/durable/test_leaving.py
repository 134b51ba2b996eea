"""Runs cancelled from outside with `on_cancel='leave'`: they stay where they are, as after a crash, and are resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic_graph import BaseNode, End, GraphBuilder, StepContext

from agent_graph import (
    Agent,
    ConfigError,
    GraphContext,
    GraphNode,
    Journal,
    MemoryJournal,
    RunCancelled,
    Tool,
    ToolApproved,
    ToolFailed,
    UsageLimitExceeded,
    UsageLimits,
    cancel_graph,
    resume_graph,
    run_graph,
)
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import KINDS, Store, kinds_of
from tests.engine.kit import call, go


class Work:
    """A tool that finishes at once, and one that hangs in its first attempt."""

    def __init__(self, on_crash: Any = 'retry') -> None:
        self.log: list[str] = []
        self.begun = asyncio.Event()
        self.open = False
        self.on_crash = on_crash

    async def quick(self) -> str:
        self.log.append('quick')
        return 'quick'

    async def slow(self) -> str:
        self.log.append('slow')
        self.begun.set()
        if not self.open:
            try:
                await asyncio.sleep(60)
            finally:
                self.log.append('stopped')
        return 'slow'

    def agent(self, journal: Journal | None, **options: Any) -> Agent[None, str]:
        model = FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('quick', {}, 'q'), call('slow', {}, 's')])
        tools = [self.quick, Tool(self.slow, on_crash=self.on_crash)]
        return Agent(model, tools=tools, journal=journal, **options)


async def _task(agent: Agent[None, str], work: Work) -> None:
    task = asyncio.create_task(agent.run('go', run_id='r', on_cancel='leave'))
    await work.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _wait_for(agent: Agent[None, str], work: Work) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(agent.run('go', run_id='r', on_cancel='leave'), 0.1)


async def _stream(agent: Agent[None, str], work: Work) -> None:
    with suppress(ZeroDivisionError):
        async with agent.run_stream('go', run_id='r', on_cancel='leave') as s:
            async for _ in s:
                if work.begun.is_set():
                    raise ZeroDivisionError
            pytest.fail('the stream came to its end')


async def _left_stream(agent: Agent[None, str], work: Work) -> None:
    async with agent.run_stream('go', run_id='r', on_cancel='leave') as s:
        async for event in s:
            if event.kind == 'function_tool_result':
                break
        await work.begun.wait()
    assert s.run.result is not None and s.run.result.status == 'stopped'


async def _cancelled_reader(agent: Agent[None, str], work: Work) -> None:
    async def read() -> None:
        async for _ in agent.run_stream_events('go', run_id='r', on_cancel='leave'):
            pass

    task = asyncio.create_task(read())
    await work.begun.wait()
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _node_stream(agent: Agent[None, str], work: Work) -> None:
    async with agent.iter('go', run_id='r', on_cancel='leave') as run:
        await run.next()
        node: Any = await run.next()
        with suppress(ZeroDivisionError):
            async with node.stream(run.ctx):
                await work.begun.wait()
                raise ZeroDivisionError
        assert run.result is not None and run.result.status == 'stopped'
        with pytest.raises(RunCancelled, match='resume'):
            await run.next()


async def _resumed(agent: Agent[None, str], work: Work) -> None:
    async with agent.iter('go', run_id='r') as run:
        await run.next()
    task = asyncio.create_task(agent.resume('r', on_cancel='leave'))
    await work.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


WAYS = [_task, _wait_for, _stream, _left_stream, _cancelled_reader, _node_stream, _resumed]


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('way', WAYS)
def test_a_run_cancelled_from_outside_is_left_and_resumed(way: Callable[..., Any], kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, work = Store(kind, tmp_path), Work()
        agent = work.agent(store.journal)
        await way(agent, work)
        assert work.log == ['quick', 'slow', 'stopped'], 'tools are stopped and waited for'
        info = await store.journal.info('r')
        assert info.status == 'running' and info.expires == 0.0, 'nothing is recorded, and the lease is given back'
        kinds = await kinds_of(store.journal, 'r')
        assert kinds.count('call_finished') == 1 and 'ended' not in kinds, 'what had finished is recorded'
        work.open = True
        result = await work.agent(await store.restart()).resume('r')
        assert result.output == 'done' and work.log == ['quick', 'slow', 'stopped', 'slow']
        await store.journal.aclose()

    go(main())


@pytest.mark.parametrize('on_crash', ['ask', 'never'])
def test_calls_in_flight_follow_on_crash(on_crash: str) -> None:
    async def main() -> None:
        work, journal = Work(on_crash), MemoryJournal()
        await _task(work.agent(journal), work)
        result = await work.agent(journal).resume('r')
        if on_crash == 'ask':
            assert [p.reason for p in result.pending] == ['crash']
        else:
            assert result.output == 'done' and is_valid(result.messages)
        assert work.log.count('slow') == 1

    go(main())


def test_without_it_a_cancelled_run_has_ended() -> None:
    async def main() -> None:
        work, journal = Work(), MemoryJournal()
        task = asyncio.create_task(work.agent(journal).run('go', run_id='r'))
        await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await journal.info('r')).status == 'cancelled'

    go(main())


@pytest.mark.parametrize('how', ['agent', 'run', 'stream'])
def test_who_says_cancel_still_cancels(how: str) -> None:
    async def main() -> None:
        work, journal = Work(), MemoryJournal()
        agent = work.agent(journal)
        if how == 'stream':
            async with agent.run_stream('go', run_id='r', on_cancel='leave') as s:
                async for _ in s:
                    if work.begun.is_set():
                        await s.cancel()
        else:
            async with agent.iter('go', run_id='r', on_cancel='leave') as run:
                task = asyncio.create_task(run.to_end())
                await work.begun.wait()
                if how == 'run':
                    await run.cancel()
                    with pytest.raises(RunCancelled):
                        await task
                else:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task
                    await agent.cancel('r')
        assert (await journal.info('r')).status == 'cancelled'

    go(main())


@pytest.mark.parametrize('kind', KINDS)
def test_agents_inside_follow_the_outermost(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, work = Store(kind, tmp_path), Work()
        inner = work.agent(None)

        async def delegate() -> str:
            return (await inner.run('inner')).output

        def outer() -> Agent[None, str]:
            model = FunctionModel(lambda m, i: 'end' if len(m) > 1 else [call('delegate', {}, 'd')])
            return Agent(model, tools=[Tool(delegate, on_crash='retry')], journal=store.journal)

        await _task(outer(), work)
        assert (await store.journal.info('r:d:1')).status == 'running'
        assert (await store.journal.info('r:d:1')).expires == 0.0
        work.open = True
        await store.restart()
        result = await outer().resume('r')
        assert result.output == 'end' and work.log == ['quick', 'slow', 'stopped', 'slow']
        assert (await store.journal.info('r:d:1')).status == 'completed'
        await store.journal.aclose()

    go(main())


def test_what_the_run_itself_stops_inside_is_ended() -> None:
    """A tool's timeout and the run's time limit are no cancellation from outside."""

    async def main() -> None:
        work, journal = Work(), MemoryJournal()
        inner = work.agent(None)

        async def delegate() -> str:
            return (await inner.run('inner')).output

        model = FunctionModel(lambda m, i: 'end' if len(m) > 1 else [call('delegate', {}, 'd')])
        agent = Agent(model, tools=[Tool(delegate, timeout=0.05)], journal=journal)
        assert (await agent.run('go', run_id='r', on_cancel='leave')).output == 'end'
        assert (await journal.info('r:d:1')).status == 'cancelled'

        late = Work().agent(journal)
        with pytest.raises(UsageLimitExceeded):
            await late.run('go', run_id='late', on_cancel='leave', usage_limits=UsageLimits(time_limit=0.05))
        assert (await journal.info('late')).status == 'failed'
        assert (await kinds_of(journal, 'late')).count('call_finished') == 2

    go(main())


def test_a_tool_that_answers_its_cancellation_with_an_error_is_in_flight() -> None:
    async def main() -> None:
        journal, begun = MemoryJournal(), asyncio.Event()
        attempts: list[int] = []

        async def fetch() -> str:
            attempts.append(1)
            if len(attempts) > 1:
                return 'fetched'
            begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise ConnectionError('closed') from None
            return ''

        agent = Agent(
            ScriptedModel([[call('fetch', {}, 'f')], 'done']), tools=[Tool(fetch, on_crash='retry')], journal=journal
        )
        task = asyncio.create_task(agent.run('go', run_id='r', on_cancel='leave'))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await agent.resume('r')).output == 'done' and len(attempts) == 2

    go(main())


def test_a_request_in_flight_is_made_again() -> None:
    async def main() -> None:
        journal, asked = MemoryJournal(), list[int]()

        async def answer(messages: Any, info: Any) -> str:
            asked.append(1)
            if len(asked) == 1:
                await asyncio.sleep(60)
            return 'done'

        agent = Agent(FunctionModel(answer), journal=journal)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.run('go', run_id='r', on_cancel='leave'), 0.05)
        result = await agent.resume('r')
        assert result.output == 'done' and result.usage.requests == 1

    go(main())


def test_ctrl_c_leaves_the_run() -> None:
    """`KeyboardInterrupt` out of a tool, as the loop raises it."""
    journal, attempts = MemoryJournal(), list[int]()

    async def interrupted() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise KeyboardInterrupt
        return 'done'

    model = ScriptedModel([[call('interrupted', {}, 'i')], 'end'])
    agent = Agent(model, tools=[Tool(interrupted, on_crash='retry')], journal=journal)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(agent.run('go', run_id='r', on_cancel='leave'))  # pyright: ignore[reportArgumentType]
    result = asyncio.run(agent.resume('r'))
    assert result.output == 'end' and len(attempts) == 2


def test_an_agent_in_a_thread_is_left_too() -> None:
    async def main() -> None:
        journal, begun = MemoryJournal(), asyncio.Event()
        loop, log = asyncio.get_running_loop(), list[str]()

        async def slow() -> str:
            log.append('slow')
            loop.call_soon_threadsafe(begun.set)
            await asyncio.sleep(0.1)
            return 'slow'

        inner = Agent(ScriptedModel([[call('slow', {}, 's')], 'inner']), tools=[slow])

        def delegate() -> str:
            return inner.run_sync('inner').output

        model = FunctionModel(lambda m, i: 'end' if len(m) > 1 else [call('delegate', {}, 'd')])
        agent = Agent(model, tools=[Tool(delegate, on_crash='retry')], journal=journal)
        task = asyncio.create_task(agent.run('go', run_id='r', on_cancel='leave'))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while (await journal.info('r:d:1')).expires:  # noqa: ASYNC110 (a journal tells nobody of a lease)
            await asyncio.sleep(0.01)
        assert (await journal.info('r:d:1')).status == 'running'
        assert (await agent.resume('r')).output == 'end' and log == ['slow']

    go(main())


def test_the_fork_of_a_run_whose_tool_cancelled_itself() -> None:
    async def main() -> None:
        attempts: list[int] = []

        async def odd() -> str:
            attempts.append(1)
            if len(attempts) == 1:
                raise asyncio.CancelledError
            return 'ok'

        agent = Agent(ScriptedModel([[call('odd', {}, 'o')], 'done']), tools=[odd], journal=MemoryJournal(), name='odd')
        with pytest.raises(ToolFailed):
            await agent.run('go', run_id='r')
        assert (await agent.resume(await agent.fork('r'))).output == 'done' and len(attempts) == 2

    go(main())


def test_an_unknown_value_is_refused() -> None:
    async def main() -> None:
        agent = Agent(ScriptedModel(['x']), journal=MemoryJournal())
        with pytest.raises(ConfigError, match="on_cancel='stay' is unknown"):
            await agent.run('go', on_cancel=cast('Any', 'stay'))
        with pytest.raises(ConfigError, match="on_cancel='stay' is unknown"):
            await agent.resume('go', on_cancel=cast('Any', 'stay'))
        with pytest.raises(ConfigError, match="on_cancel='stay' is unknown"):
            await run_graph(_graph(), Wait(), on_cancel=cast('Any', 'stay'))

    go(main())


# --- graphs ----------------------------------------------------------------------------------------------------------

_inner: list[Agent[None, str]] = []


@dataclass
class Wait(GraphNode[None, None, str]):
    async def run(self, ctx: GraphContext[None, None]) -> End[str]:
        done = await ctx.step('once', lambda: _log.append('step') or 'stepped')
        return End(f'{done} {(await _inner[-1].run("go")).output}')


_log: list[str] = []


def _graph() -> Any:
    builder = GraphBuilder(name='waits', input_type=Wait, output_type=str)
    builder.add(builder.edge_from(builder.start_node).to(Wait), builder.node(Wait))
    return builder.build()


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('on_cancel', ['cancel', 'leave'])
def test_a_graph_is_left_with_the_agents_in_it(kind: str, on_cancel: Any, tmp_path: Path) -> None:
    async def main() -> None:
        store, work = Store(kind, tmp_path), Work()
        _inner[:], _log[:] = [work.agent(None)], []
        task = asyncio.create_task(run_graph(_graph(), Wait(), journal=store.journal, run_id='g', on_cancel=on_cancel))
        await work.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        runs = {r.run_id: r.status for r in await store.journal.runs()}
        assert set(runs.values()) == {'running' if on_cancel == 'leave' else 'cancelled'} and len(runs) == 2
        work.open = True
        await store.restart()
        result = await resume_graph(_graph(), 'g', journal=store.journal, on_cancel=on_cancel)
        if on_cancel == 'leave':
            assert result.output == 'stepped done' and _log == ['step']
            assert work.log == ['quick', 'slow', 'stopped', 'slow']
        else:
            assert result.status == 'cancelled'
        await store.journal.aclose()

    go(main())


def test_a_left_graph_can_be_cancelled() -> None:
    async def main() -> None:
        journal, work = MemoryJournal(), Work()
        _inner[:] = [work.agent(None)]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run_graph(_graph(), Wait(), journal=journal, run_id='g', on_cancel='leave'), 0.1)
        await cancel_graph('g', journal=journal)
        assert {r.status for r in await journal.runs()} == {'cancelled'}

    go(main())


# --- failed, and told ------------------------------------------------------------------------------------------------


def _told(message: Any) -> str:
    return '; '.join(str(part.content) for part in message.parts)


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('gated', [False, True])
def test_the_fork_of_a_failed_run_makes_the_failed_call_again(gated: bool, kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, approved = Store(kind, tmp_path), dict[Any, Any]()
        log: list[str] = []
        broken = True

        async def fine() -> str:
            log.append('fine')
            return 'fine'

        async def late() -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                log.append('late')
            return 'late'

        async def pay(euros: int) -> str:
            await asyncio.sleep(0.02)
            log.append(f'pay {euros}')
            if broken:
                raise ConnectionError('no line')
            return 'paid'

        calls = [call('fine', {}, 'f'), call('pay', {'euros': 1}, 'p'), call('late', {}, 'l')][: 2 if gated else 3]
        model = FunctionModel(lambda m, i: _told(m[-1]) if len(m) > 1 else calls)
        tools = [fine, Tool(pay, requires_approval=gated), late]
        agent = Agent(model, tools=tools, journal=store.journal)
        if gated:
            result = await agent.run('go', run_id='r')
            approved = {result.pending[0]: ToolApproved(override_args={'euros': 7})}
        with pytest.raises(ToolFailed):
            await (agent.resume('r', answers=approved) if gated else agent.run('go', run_id='r'))
        before = [r.entry for r in await store.journal.load('r')]
        failed = await agent.resume('r')
        assert failed.status == 'failed' and 'ConnectionError' in repr(failed) and "run_id='r'" in repr(failed)
        broken, log[:] = False, []
        fork = await agent.fork('r')
        result = await agent.resume(fork)
        assert result.status == 'completed', result.pending
        assert log == ['pay 7' if gated else 'pay 1'], 'only the failed call is made, and it is not asked for again'
        assert result.output == ('fine; paid' if gated else 'fine; paid; late') and is_valid(result.messages)
        assert [r.entry for r in await store.journal.load('r')] == before
        explicit = await agent.resume(await agent.fork('r', at=len(before) - 1))
        assert 'was stopped' in explicit.output and log[1:] == []
        await store.journal.aclose()

    go(main())


def test_a_call_stopped_beside_the_failed_one_follows_its_rule_in_the_fork() -> None:
    async def main() -> None:
        work, broken = Work('retry'), [True]

        async def fail() -> str:
            await work.begun.wait()
            if broken:
                raise ConnectionError
            return 'ok'

        model = FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('slow', {}, 's'), call('fail', {}, 'f')])
        agent = Agent(model, tools=[Tool(work.slow, on_crash='retry'), fail], journal=MemoryJournal())
        with pytest.raises(ToolFailed):
            await agent.run('go', run_id='r')
        work.open = True
        broken.clear()
        result = await agent.resume(await agent.fork('r'))
        assert result.output == 'done' and work.log == ['slow', 'stopped', 'slow']
        assert result.usage.tool_calls == 2

    go(main())


@pytest.mark.parametrize('how', ['iter', 'for', 'stream'])
def test_a_drained_run_says_stopped_everywhere(how: str) -> None:
    async def main() -> None:
        work, journal = Work(), MemoryJournal()
        work.open = True
        agent, result, seen = work.agent(journal), None, list[str]()
        if how == 'stream':
            async with agent.run_stream('go', run_id='r') as s:
                async for event in s:
                    seen.append(getattr(event, 'status', ''))
                    if event.kind == 'function_tool_call':
                        s.run.drain()
                result = await s.result()
                assert s.run.result is not None and s.run.result.status == 'stopped'
            assert seen[-1] == 'stopped'
        else:
            async with agent.iter('go', run_id='r') as run:
                if how == 'for':
                    async for _ in run:
                        run.drain()
                else:
                    await run.next()
                    assert run.result is None
                    run.drain()
                    await run.to_end()
                result = run.result
        assert result is not None and (result.status, result.pending, result.output) == ('stopped', (), None)
        assert (await journal.info('r')).status == 'running'
        assert (await agent.resume('r')).status == 'completed'

    go(main())


def test_results_show_their_run_and_their_error() -> None:
    async def main() -> None:
        result = await Agent(ScriptedModel(['x' * 1000])).run('go', run_id='mine')
        assert "run_id='mine'" in repr(result) and len(repr(result)) < 400
        assert repr(result).startswith('RunResult(') and 'error' not in repr(result)

    go(main())


# --- a graph's start -------------------------------------------------------------------------------------------------


@dataclass
class Count:
    n: int


@dataclass
class Add(BaseNode[Count, None, int]):
    async def run(self, ctx: Any) -> End[int]:
        return End(ctx.state.n)


def _counting() -> Any:
    builder = GraphBuilder(name='counts', state_type=Count, input_type=Add, output_type=int)
    builder.add(builder.edge_from(builder.start_node).to(Add), builder.node(Add))
    return builder.build()


def _of_steps() -> Any:
    builder = GraphBuilder(name='steps', input_type=int, output_type=int)

    @builder.step
    async def double(ctx: StepContext[None, None, int]) -> int:
        return ctx.inputs * 2

    builder.add(builder.edge_from(builder.start_node).to(double), builder.edge_from(double).to(builder.end_node))
    return builder.build()


@pytest.mark.parametrize(
    ('graph', 'start', 'state', 'said'),
    [
        (_counting(), 'Add', Count(1), "'Add' is no node; pass the node to begin with, an instance of one of: Add"),
        (_counting(), Add, Count(1), 'is no node; pass the node to begin with'),
        (_counting(), Wait(), Count(1), 'is not a node of this graph; its nodes are: Add'),
        (_counting(), Add(), None, r'state=None is no Count, .*; pass state=Count\(...\)'),
        (_counting(), Add(), {'n': 1}, r"state=\{'n': 1\} is no Count"),
        (_counting(), Add(), Count(cast('Any', 'x')), 'the state cannot be stored'),
        (_of_steps(), 1, None, r'step functions \(.*double.*\)'),
        ('counts', Add(), Count(1), "graph='counts' is no pydantic_graph.Graph"),
    ],
)
def test_a_graph_says_what_it_wants_to_begin_with(graph: Any, start: Any, state: Any, said: str) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        with pytest.raises(ConfigError, match=said) as caught:
            await run_graph(graph, start, state=state, journal=journal)
        assert 'http' not in str(caught.value) and '\n' not in str(caught.value)
        assert await journal.runs() == []

    go(main())


def test_the_result_of_a_failed_graph_has_its_error() -> None:
    @dataclass
    class Break(BaseNode[None, None, int]):
        async def run(self, ctx: Any) -> End[int]:
            raise ZeroDivisionError('by zero')

    async def main() -> None:
        builder = GraphBuilder(name='breaks', input_type=Break, output_type=int)
        builder.add(builder.edge_from(builder.start_node).to(Break), builder.node(Break))
        graph, journal = builder.build(), MemoryJournal()
        with pytest.raises(ZeroDivisionError):
            await run_graph(graph, Break(), journal=journal, run_id='g')
        result = await resume_graph(graph, 'g', journal=journal)
        assert (result.status, result.error) == ('failed', 'by zero')
        assert "run_id='g'" in repr(result) and 'by zero' in repr(result)

    go(main())
