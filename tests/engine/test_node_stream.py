"""`async with node.stream(run.ctx)` on both kinds of node: finished, left, cancelled, failed."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AgentGraphError,
    AssistantMessage,
    CustomEvent,
    End,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    HandleResponse,
    MemoryJournal,
    ModelRequest,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    RunCancelled,
    RunContext,
    TextPart,
    ToolFailed,
    ToolMessage,
    UsageLimitExceeded,
    UsageLimits,
)
from agent_graph.messages import is_valid
from agent_graph.testing import ScriptedModel
from tests.engine.kit import Log, Wire, answers_of, call, go, requests_of, settle


class Stop(Exception):
    """What a reader raises."""


async def _at_request(run: Any) -> ModelRequest:
    node = await run.next()
    assert isinstance(node, ModelRequest)
    return node


async def _at_response(run: Any) -> HandleResponse:
    node = await run.next(await _at_request(run))
    assert isinstance(node, HandleResponse)
    return node


def test_part_events_and_the_response() -> None:
    async def main() -> None:
        model = ScriptedModel([[TextPart('Hello there'), call('a', {'x': 1})]], chunk=4)
        async with Agent(model, tools=[Log().tool('a')]).iter('go') as run:
            node = await _at_request(run)
            async with node.stream(run.ctx) as stream:
                events = [e async for e in stream]
                whole = stream.response
            assert not whole.interrupted and stream.response == whole
            starts = [e for e in events if isinstance(e, PartStartEvent)]
            ends = [e for e in events if isinstance(e, PartEndEvent)]
            assert [e.index for e in starts] == [0, 1] == [e.index for e in ends]
            assert [e.part for e in ends] == list(whole.parts)
            deltas = [e.delta for e in events if isinstance(e, PartDeltaEvent) and e.index == 0]
            first = starts[0].part
            assert isinstance(first, TextPart)
            assert first.content + ''.join(d.content_delta for d in deltas) == 'Hello there'  # pyright: ignore
            following = await run.next(node)
            assert isinstance(following, HandleResponse) and following.response == whole
        assert len(model.requests) == 1, 'the node was run once'

    go(main())


@pytest.mark.parametrize('delta', [False, True])
def test_text(delta: bool) -> None:
    async def main() -> None:
        async with Agent(ScriptedModel(['Hello there'], chunk=4)).iter('go') as run:
            node = await _at_request(run)
            async with node.stream(run.ctx) as stream:
                texts = [t async for t in stream.text(delta=delta)]
            assert texts == (['Hell', 'o th', 'ere'] if delta else ['Hell', 'Hello th', 'Hello there'])

    go(main())


def test_tool_events() -> None:
    async def main() -> None:
        model = ScriptedModel([[call('slow'), call('fast'), call('made_up')], 'done'])

        async def slow(ctx: RunContext[None]) -> str:
            await ctx.emit('half-way')
            await asyncio.sleep(0.02)
            return 'slow'

        async def fast() -> str:
            return 'fast'

        async with Agent(model, tools=[slow, fast]).iter('go') as run:
            node = await _at_response(run)
            async with node.stream(run.ctx) as stream:
                events = [e async for e in stream]
            started = [e.tool_call_id for e in events if isinstance(e, FunctionToolCallEvent)]
            ended = [e.tool_call_id for e in events if isinstance(e, FunctionToolResultEvent)]
            assert set(started) == {'slow', 'fast', 'made_up'}
            assert ended.index('fast') < ended.index('slow'), 'results come as the calls finish'
            custom = [e for e in events if isinstance(e, CustomEvent)]
            assert [(e.value, e.tool_name, e.tool_call_id) for e in custom] == [('half-way', 'slow', 'slow')]
            following = await run.next(node)
            assert isinstance(following, ModelRequest) and isinstance(following.message, ToolMessage)
            assert [p.tool_call_id for p in following.message.parts] == ['slow', 'fast', 'made_up'], (
                'stored in call order'
            )
            assert {e.node for e in events} == {'HandleResponse'}

    go(main())


@pytest.mark.parametrize('read', [0, 1, 'all'])
@pytest.mark.parametrize('pieces', [1, 63, 64, 65, 300])
def test_leaving_normally_finishes_the_node(read: Any, pieces: int) -> None:
    async def main() -> None:
        wire = Wire(pieces=pieces)
        async with Agent(wire).iter('go') as run:
            node = await _at_request(run)
            async with node.stream(run.ctx) as stream:
                seen = 0
                async for _ in stream:
                    seen += 1
                    if seen == read:
                        break
                if read == 0:
                    await settle()
            assert wire.open == 0 and wire.sent == pieces
            async for _ in run:
                pass
            assert run.result is not None and run.result.output == 'word ' * pieces
        assert wire.asked == 1

    go(main())


def test_a_block_without_reading_finishes_the_tools_once() -> None:
    async def main() -> None:
        log = Log()
        agent = Agent(ScriptedModel([[call('a'), call('b')], 'done']), tools=[log.tool('a'), log.tool('b')])
        async with agent.iter('go') as run:
            node = await _at_response(run)
            async with node.stream(run.ctx):
                pass
            assert sorted(log) == ['a', 'b']
            await run.next(node)
            await run.to_end()
        assert sorted(log) == ['a', 'b']

    go(main())


@pytest.mark.parametrize('how', ['exception', 'cancel', 'cancelled from outside'])
def test_leaving_a_request_otherwise_closes_the_response_at_once(how: str) -> None:
    async def main() -> None:
        wire, journal = Wire(pause=0.001), MemoryJournal()
        agent = Agent(wire, journal=journal)
        async with agent.iter('go', run_id='r') as run:
            node = await _at_request(run)

            async def read() -> AssistantMessage:
                async with node.stream(run.ctx) as stream:
                    seen = 0
                    async for _ in stream:
                        seen += 1
                        if seen == 5:
                            if how == 'exception':
                                raise Stop
                            if how == 'cancel':
                                await stream.cancel()
                                return stream.response
                            await asyncio.sleep(30)
                raise AssertionError

            task = asyncio.create_task(read())
            if how == 'cancelled from outside':
                while wire.sent < 5:  # noqa: ASYNC110 (nothing tells when)
                    await asyncio.sleep(0.001)
                task.cancel()
            if how == 'cancel':
                assert (await task).interrupted
            else:
                with pytest.raises(Stop if how == 'exception' else asyncio.CancelledError):
                    await task
            assert wire.open == 0 and wire.sent < 100
            last = run.messages[-1]
            assert isinstance(last, AssistantMessage) and last.interrupted and is_valid(run.messages)
            assert (await journal.info('r')).status == 'cancelled'
            with pytest.raises(RunCancelled):
                await run.next(node)
            with pytest.raises(AgentGraphError):
                async with node.stream(run.ctx):
                    pass
            assert [n async for n in run] == []
        wire.pieces = 2
        assert (await agent.run('again', message_history=run.messages)).output == 'word word '

    go(main())


@pytest.mark.parametrize('how', ['exception', 'cancel'])
def test_leaving_a_response_otherwise_stops_the_tools_at_once(how: str) -> None:
    async def main() -> None:
        cleaned: list[str] = []
        log = Log()

        async def slow() -> str:
            try:
                await asyncio.sleep(30)
            finally:
                cleaned.append('slow')
            return 'never'

        agent = Agent(ScriptedModel([[call('quick'), call('slow')]]), tools=[log.tool('quick'), slow])
        async with agent.iter('go') as run:
            node = await _at_response(run)
            try:
                async with node.stream(run.ctx) as stream:
                    async for event in stream:
                        if isinstance(event, FunctionToolResultEvent):
                            if how == 'exception':
                                raise Stop
                            await stream.cancel()
            except Stop:
                pass
            assert cleaned == ['slow']
            assert [p.outcome for p in answers_of(run.messages)] == ['success', 'interrupted']
            assert is_valid(run.messages)
            assert run.result is not None and run.result.status == 'cancelled'

    go(main())


def test_run_cancel_while_a_response_streams_stops_it() -> None:
    async def main() -> None:
        wire = Wire(pause=0.001)
        async with Agent(wire).iter('go') as run:
            node = await _at_request(run)
            try:
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        await run.cancel()
            except RunCancelled:
                pass
            assert wire.open == 0 and wire.sent < 100, 'the connection went on after the run had been cancelled'
            assert run.result is not None and run.result.status == 'cancelled' and is_valid(run.messages)

    go(main())


def test_run_cancel_while_tools_stream_stops_them() -> None:
    async def main() -> None:
        ended: list[str] = []

        async def slow() -> str:
            await asyncio.sleep(0.1)
            ended.append('slow')
            return 'slow'

        journal = MemoryJournal()
        agent = Agent(ScriptedModel([[call('slow')], 'x']), tools=[slow], journal=journal)
        async with agent.iter('go', run_id='r') as run:
            node = await _at_response(run)
            try:
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        await run.cancel()
            except RunCancelled:
                pass
            await asyncio.sleep(0.15)
            assert ended == [], 'the tool went on after the run had been cancelled'
            records = await journal.load('r')
            assert records[-1].entry.kind == 'ended', 'nothing may follow the end of a run'
            assert is_valid(run.messages)

    go(main())


def test_a_failing_tool_fails_the_block_and_the_run() -> None:
    async def main() -> None:
        async def bad() -> str:
            raise ValueError('broken')

        journal = MemoryJournal()
        async with Agent(ScriptedModel([[call('bad')]]), tools=[bad], journal=journal).iter('go', run_id='r') as run:
            node = await _at_response(run)
            with pytest.raises(ToolFailed, match='broken') as caught:  # noqa: PT012 (the loop is what raises)
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        pass
            assert caught.value.run_id == 'r' and is_valid(caught.value.messages) and caught.value.usage is not None
            assert run.result is not None and run.result.status == 'failed'
        assert (await journal.info('r')).status == 'failed'

    go(main())


def test_a_failing_model_fails_the_block_also_when_nobody_reads() -> None:
    async def main() -> None:
        async with Agent(ScriptedModel([ValueError('no answer')])).iter('go') as run:
            node = await _at_request(run)
            with pytest.raises(ValueError, match='no answer'):
                async with node.stream(run.ctx):
                    await settle()
            assert run.result is not None and run.result.status == 'failed'

    go(main())


def test_the_time_limit_holds_while_a_node_is_streamed() -> None:
    async def main() -> None:
        wire = Wire(pieces=100, pause=0.05)
        agent = Agent(wire, usage_limits=UsageLimits(time_limit=0.15))
        begin = time.monotonic()
        async with agent.iter('go') as run:
            node = await _at_request(run)
            with pytest.raises(UsageLimitExceeded) as caught:  # noqa: PT012 (the loop is what raises)
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        pass
            assert caught.value.limit == 'time_limit' and time.monotonic() - begin < 2
            assert wire.open == 0 and is_valid(run.messages)

    go(main())


def test_next_on_the_same_node_inside_the_block_does_not_ask_twice() -> None:
    async def main() -> None:
        wire = Wire(pieces=10, pause=0.001)
        async with Agent(wire).iter('go') as run:
            node = await _at_request(run)
            try:
                async with node.stream(run.ctx):
                    await asyncio.sleep(0.002)
                    await run.next(node)
            except AgentGraphError:
                pass
            assert wire.asked == 1

    go(main())


def test_a_node_cannot_be_streamed_twice() -> None:
    async def main() -> None:
        model = ScriptedModel(['x', 'y'])
        async with Agent(model).iter('go') as run:
            node = await _at_request(run)
            async with node.stream(run.ctx):
                pass
            with pytest.raises(AgentGraphError):
                async with node.stream(run.ctx):
                    pass
            assert len(requests_of(model)) == 1
            await run.next(node)
            end = await run.next()
            assert isinstance(end, End)

    go(main())


def test_only_streamed_nodes_build_events() -> None:
    """Stepping without reading builds no event objects."""

    async def main() -> None:
        built: list[str] = []
        original = PartDeltaEvent.__init__

        class Watch:
            """Counts through the class itself: frozen dataclasses have no other seam."""

            def __enter__(self) -> None:
                def init(self: Any, *args: Any, **kwargs: Any) -> None:
                    built.append('delta')
                    original(self, *args, **kwargs)

                PartDeltaEvent.__init__ = init

            def __exit__(self, *_: object) -> None:
                PartDeltaEvent.__init__ = original

        with Watch():
            await Agent(Wire(pieces=50)).run('go')
            assert built == []
            async with Agent(Wire(pieces=50)).iter('go') as run:
                await run.to_end()
            assert built == []
            async with Agent(Wire(pieces=50)).run_stream('go') as s:
                await s.result()
            assert len(built) == 49

    go(main())
