"""Case 27: spans of streams left early, of parallel and of nested runs: each ends once, in its own tree."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from agent_graph import Agent, PartDeltaEvent, RunCancelled, ToolFailed, UsageLimitExceeded, UsageLimits, telemetry
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import WAYS, Log, Way, Wire, call, go, settle

sdk = pytest.importorskip('opentelemetry.sdk.trace')
memory = pytest.importorskip('opentelemetry.sdk.trace.export.in_memory_span_exporter')
export = pytest.importorskip('opentelemetry.sdk.trace.export')


class Traces:
    """What was exported, and how often each span was started and ended."""

    def __init__(self) -> None:
        self.exporter = memory.InMemorySpanExporter()
        self.provider = sdk.TracerProvider()
        self.started: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()
        traces = self

        class Count(sdk.SpanProcessor):  # type: ignore[misc]
            def on_start(self, span: Any, parent_context: Any = None) -> None:
                traces.started[span.context.span_id] += 1

            def on_end(self, span: Any) -> None:
                traces.ended[span.context.span_id] += 1

        self.provider.add_span_processor(Count())
        self.provider.add_span_processor(export.SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[Any]:
        return [s for s in self.spans if s.name == name]

    def check(self) -> None:
        """Every span that was started has ended, once."""
        assert self.started == self.ended, 'a span never ended, or ended twice'
        assert set(self.started.values()) <= {1}

    def parent(self, span: Any) -> Any:
        """The span above, or `None`."""
        return next(
            (s for s in self.spans if span.parent is not None and s.context.span_id == span.parent.span_id), None
        )

    def run_above(self, span: Any) -> Any:
        """The nearest run span above."""
        above = self.parent(span)
        while above is not None and not above.name.startswith('invoke_agent'):
            above = self.parent(above)
        return above


@pytest.fixture
def traces(caplog: pytest.LogCaptureFixture) -> Iterator[Traces]:
    made = Traces()
    telemetry.instrument(made.provider)
    with caplog.at_level(logging.WARNING):
        yield made
    telemetry.uninstrument()
    assert not caplog.records, [r.getMessage() for r in caplog.records]


class Stop(Exception):
    """What a reader raises."""


async def by_break(agent: Agent[Any, Any]) -> None:
    async with agent.run_stream('go') as s:
        async for _ in s.text():
            break


async def by_return(agent: Agent[Any, Any]) -> None:
    async with agent.run_stream_events('go') as events:
        async for event in events:
            if isinstance(event, PartDeltaEvent):
                return


async def by_exception(agent: Agent[Any, Any]) -> None:
    with pytest.raises(Stop):  # noqa: PT012 (the loop is what raises)
        async with agent.run_stream('go') as s:
            async for _ in s.text():
                raise Stop


async def by_cancel(agent: Agent[Any, Any]) -> None:
    async with agent.run_stream('go') as s:
        async for _ in s.text():
            await s.cancel()


async def by_cancelling_the_task(agent: Agent[Any, Any]) -> None:
    task = asyncio.create_task(agent.run('go'))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_garbage_collection(agent: Agent[Any, Any]) -> None:
    async for event in agent.run_stream_events('go'):
        if isinstance(event, PartDeltaEvent):
            break
    gc.collect()
    await settle(50)


async def from_another_task(agent: Agent[Any, Any]) -> None:
    texts = agent.run_stream('go').text()
    async for _ in texts:
        break
    await asyncio.create_task(texts.aclose())  # pyright: ignore
    del texts
    gc.collect()
    await settle(50)


async def node_stream_by_exception(agent: Agent[Any, Any]) -> None:
    with pytest.raises(Stop):  # noqa: PT012 (the loop is what raises)
        async with agent.iter('go') as run:
            node: Any = await run.next()
            async with node.stream(run.ctx) as stream:
                async for _ in stream:
                    raise Stop


async def iter_by_cancel(agent: Agent[Any, Any]) -> None:
    async with agent.iter('go') as run:
        await run.next()
        await run.cancel()


LEAVE: list[Callable[[Agent[Any, Any]], Awaitable[None]]] = [
    by_break,
    by_return,
    by_exception,
    by_cancel,
    by_cancelling_the_task,
    by_garbage_collection,
    from_another_task,
    node_stream_by_exception,
    iter_by_cancel,
]


@pytest.mark.parametrize('leave', LEAVE, ids=[f.__name__ for f in LEAVE])
def test_left_early(leave: Callable[[Agent[Any, Any]], Awaitable[None]], traces: Traces) -> None:
    async def main() -> None:
        from opentelemetry import trace

        tracer = traces.provider.get_tracer('caller')
        with tracer.start_as_current_span('caller') as caller:
            await leave(Agent(Wire(), name='reader'))
            assert trace.get_current_span() is caller, "the caller's current span is another one afterwards"
        traces.check()
        (run,) = traces.named('invoke_agent reader')
        assert run.attributes['agent_graph.status'] == 'cancelled'
        assert traces.parent(run).name == 'caller'
        for chat in traces.named('chat wire'):
            assert traces.parent(chat) is run and not chat.status.is_ok

    go(main())


@pytest.mark.parametrize('how', ['break', 'exception', 'nothing done'])
def test_iter_left_before_its_end(how: str, traces: Traces) -> None:
    """The run stays resumable; its span ends with the block all the same."""

    async def main() -> None:
        agent = Agent(ScriptedModel(['x']), name='stepper')
        try:
            async with agent.iter('go') as run:
                if how != 'nothing done':
                    await run.next()
                if how == 'exception':
                    raise Stop
        except Stop:
            pass
        traces.check()
        assert len(traces.named('invoke_agent stepper')) == 1

    go(main())


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
def test_a_whole_run(way: Way, traces: Traces) -> None:
    async def main() -> None:
        log = Log()
        agent = Agent(
            ScriptedModel([[call('a'), call('b')], 'done']), name='whole', tools=[log.tool('a'), log.tool('b')]
        )
        result = await way(agent, 'go')
        traces.check()
        names = Counter(s.name for s in traces.spans)
        assert names == {'invoke_agent whole': 1, 'chat scripted': 2, 'execute_tool a': 1, 'execute_tool b': 1}
        (run,) = traces.named('invoke_agent whole')
        assert run.parent is None and run.attributes['agent_graph.run_id'] == result.run_id
        assert run.attributes['agent_graph.status'] == 'completed'
        assert all(traces.parent(s) is run for s in traces.spans if s is not run)
        assert {s.attributes['gen_ai.tool.call.id'] for s in traces.spans if s.name.startswith('execute')} == {'a', 'b'}

    go(main())


def test_failures_are_on_the_right_spans(traces: Traces) -> None:
    async def main() -> None:
        async def bad() -> str:
            raise ValueError('broken')

        agent = Agent(ScriptedModel([[call('a'), call('bad')]]), name='failing', tools=[Log().tool('a'), bad])
        with pytest.raises(ToolFailed):
            await agent.run('go')
        traces.check()
        status = {s.name: s.status.is_ok for s in traces.spans}
        assert status == {
            'invoke_agent failing': False,
            'chat scripted': True,
            'execute_tool a': True,
            'execute_tool bad': False,
        }
        (run,) = traces.named('invoke_agent failing')
        assert run.attributes['agent_graph.status'] == 'failed'

    go(main())


def test_a_failing_model_a_deadline_and_a_stopped_tool(traces: Traces) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match='no model'):
            await Agent(ScriptedModel([ValueError('no model')]), name='a').run('go')

        async def slow() -> str:
            await asyncio.sleep(30)
            return 'x'

        agent = Agent(ScriptedModel([[call('slow')]]), name='b', tools=[slow])
        with pytest.raises(UsageLimitExceeded):
            await agent.run('go', usage_limits=UsageLimits(time_limit=0.05))
        async with Agent(ScriptedModel([[call('slow')]]), name='c', tools=[slow]).iter('go') as run:
            task = asyncio.create_task(run.to_end())
            await settle()
            await run.cancel()
            with pytest.raises(RunCancelled):
                await task
        traces.check()
        assert len(traces.named('execute_tool slow')) == 2
        assert {s.name: s.attributes['agent_graph.status'] for s in traces.spans if s.name.startswith('invoke')} == {
            'invoke_agent a': 'failed',
            'invoke_agent b': 'failed',
            'invoke_agent c': 'cancelled',
        }

    go(main())


def test_two_parallel_runs_with_nested_agents_and_parallel_tools(traces: Traces) -> None:  # noqa: C901 (one story)
    async def main() -> None:
        from opentelemetry import trace

        async def ask(messages: Any, info: Any) -> Any:
            await asyncio.sleep(0.001)
            return 'inner' if messages[-1].kind == 'tool' else [call('leaf')]

        async def leaf() -> str:
            await asyncio.sleep(0.001)
            with traces.provider.get_tracer('user').start_as_current_span('user work in leaf'):
                return 'leaf'

        inner = Agent(FunctionModel(ask), name='inner', tools=[leaf])

        def make(name: str) -> Agent[None, str]:
            async def delegate(n: int) -> str:
                return (await inner.run(f'{name} {n}')).output

            def sync(n: int) -> str:
                with traces.provider.get_tracer('user').start_as_current_span(f'user work of {name}'):
                    return 'sync'

            calls = [call('delegate', {'n': 1}, 'd1'), call('delegate', {'n': 2}, 'd2'), call('sync', {'n': 3}, 's')]
            return Agent(ScriptedModel([calls, 'done']), name=name, tools=[delegate, sync])

        before = trace.get_current_span()
        await asyncio.gather(make('one').run('go'), WAYS['run_stream'](make('two'), 'go'))
        assert trace.get_current_span() is before
        traces.check()
        roots = {s.name: s for s in traces.spans if s.parent is None}
        assert set(roots) == {'invoke_agent one', 'invoke_agent two'}
        for name in ('one', 'two'):
            mine = [s for s in traces.spans if s.context.trace_id == roots[f'invoke_agent {name}'].context.trace_id]
            counted = Counter(s.name for s in mine)
            assert counted == {
                f'invoke_agent {name}': 1,
                'chat scripted': 2,
                'execute_tool delegate': 2,
                'execute_tool sync': 1,
                f'user work of {name}': 1,
                'invoke_agent inner': 2,
                'chat function': 4,
                'execute_tool leaf': 2,
                'user work in leaf': 2,
            }
            for span in mine:
                above = traces.parent(span)
                if span.name == 'invoke_agent inner':
                    assert above.name == 'execute_tool delegate'
                elif span.name in ('chat function', 'execute_tool leaf'):
                    assert above.name == 'invoke_agent inner'
                elif span.name == 'user work in leaf':
                    assert above.name == 'execute_tool leaf'
                elif span.name == f'user work of {name}':
                    assert above.name == 'execute_tool sync'

    go(main())


def test_the_same_run_traced_and_not() -> None:
    async def main() -> None:
        def make() -> Agent[None, str]:
            return Agent(ScriptedModel([[call('a'), call('b')], 'done']), tools=[Log().tool('a'), Log().tool('b')])

        plain = await make().run('go')
        traces = Traces()
        telemetry.instrument(traces.provider)
        try:
            traced = await make().run('go')
        finally:
            telemetry.uninstrument()
        assert (plain.output, plain.messages, plain.usage) == (traced.output, traced.messages, traced.usage)
        count = len(traces.spans)
        await make().run('go')
        assert len(traces.spans) == count > 0

    go(main())
