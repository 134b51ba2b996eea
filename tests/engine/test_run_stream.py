"""`run_stream` and `run_stream_events`: what is seen, in which order, with which fields; and what the reader's pace does."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AssistantMessage,
    CustomEvent,
    FinalResultEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    NodeStarted,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    RunCancelled,
    RunContext,
    RunEnded,
    RunEvent,
    RunStarted,
    TextPart,
    ThinkingPart,
    ToolFailed,
)
from agent_graph.engine.channel import CAPACITY
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import Log, Wire, call, go, settle


def _agent() -> Agent[None, str]:
    script = [[ThinkingPart('hm'), TextPart('I look'), call('a'), call('b')], 'done']
    return Agent(ScriptedModel(script, chunk=3), name='reader', tools=[Log().tool('a'), Log().tool('b')])


async def _all(agent: Agent[Any, Any], **options: Any) -> list[RunEvent]:
    return [e async for e in agent.run_stream_events('go', **options)]


def test_the_whole_run_in_order() -> None:
    async def main() -> None:
        kinds = [e.kind for e in await _all(_agent())]
        squeezed = [k for i, k in enumerate(kinds) if k != 'part_delta' and (i == 0 or kinds[i - 1] != k)]
        assert (
            squeezed
            == [
                'run_started',
                'node_started',  # UserPrompt and ModelRequest
                'part_start',  # thinking
                'part_end',
                'part_start',  # text
                'part_end',
                'part_start',  # two calls
                'part_end',
                'node_started',
                'function_tool_call',
                'function_tool_result',
                'node_started',
                'part_start',
                'part_end',
                'node_started',
                'final_result',
                'run_ended',
            ]
            or squeezed[-2:] == ['final_result', 'run_ended']
        )

    go(main())


@pytest.mark.parametrize('with_block', [False, True])
def test_with_and_without_a_block(with_block: bool) -> None:
    async def main() -> None:
        if with_block:
            async with _agent().run_stream_events('go') as events:
                got = [e async for e in events]
        else:
            got = await _all(_agent())
        assert isinstance(got[0], RunStarted) and isinstance(got[-1], RunEnded)
        assert got[-1].status == 'completed' and got[-1].error is None
        assert got[0].agent == 'reader' and not got[0].resumed

    go(main())


def test_common_fields() -> None:
    async def main() -> None:
        events = await _all(_agent(), run_id='r1')
        assert {e.run_id for e in events} == {'r1'} and {e.path for e in events} == {()}
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        times = [e.time for e in events]
        assert times == sorted(times) and times[0] > 1_600_000_000
        nodes = [e.node for e in events if isinstance(e, NodeStarted)]
        assert nodes == ['UserPrompt', 'ModelRequest', 'HandleResponse', 'ModelRequest', 'HandleResponse']
        steps = [e.step for e in events if isinstance(e, NodeStarted)]
        assert steps == [0, 1, 1, 2, 2]
        for event in events:
            if isinstance(event, PartStartEvent | PartDeltaEvent | PartEndEvent):
                assert event.node == 'ModelRequest'
            elif isinstance(event, FunctionToolCallEvent | FunctionToolResultEvent):
                assert event.node == 'HandleResponse'
        with pytest.raises(AttributeError):
            events[0].seq = 5  # pyright: ignore[reportAttributeAccessIssue]

    go(main())


def test_each_tool_call_is_announced_before_its_result_and_parts_are_whole() -> None:
    async def main() -> None:
        events = await _all(_agent())
        for name in ('a', 'b'):
            begin = next(e.seq for e in events if isinstance(e, FunctionToolCallEvent) and e.part.tool_name == name)
            end = next(e.seq for e in events if isinstance(e, FunctionToolResultEvent) and e.part.tool_name == name)
            assert begin < end
        open_parts: set[int] = set()
        for event in events:
            if isinstance(event, PartStartEvent):
                open_parts.add(event.index)
            elif isinstance(event, PartDeltaEvent):
                assert event.index in open_parts
            elif isinstance(event, PartEndEvent):
                open_parts.remove(event.index)
            elif isinstance(event, NodeStarted):
                assert not open_parts

    go(main())


def _nested() -> Agent[None, str]:
    async def inner_leaf(ctx: RunContext[None]) -> str:
        await ctx.emit({'from': 'the leaf'})
        return 'leaf'

    async def ask(messages: Any, info: Any) -> Any:
        return [call('inner_leaf', {}, 'leaf')] if len(messages) == 1 else 'inner text'

    inner = Agent(FunctionModel(ask, chunk=2), name='inner', tools=[inner_leaf])

    async def delegate(n: int) -> str:
        return (await inner.run(f'part {n}')).output

    script = [[call('delegate', {'n': 1}, 'd1'), call('delegate', {'n': 2}, 'd2')], 'outer text']
    return Agent(ScriptedModel(script, chunk=2), name='outer', tools=[delegate])


def test_events_of_nested_agents_come_with_their_path() -> None:
    async def main() -> None:
        events = await _all(_nested(), run_id='outer-run')
        by_path: dict[tuple[str, ...], list[RunEvent]] = {}
        for event in events:
            by_path.setdefault(event.path, []).append(event)
        assert set(by_path) == {(), ('d1',), ('d2',)}
        for path, mine in by_path.items():
            assert len({e.run_id for e in mine}) == 1
            assert [e.seq for e in mine] == list(range(1, len(mine) + 1)), f"numbers of {path} are its own run's"
            assert isinstance(mine[0], RunStarted) and isinstance(mine[-1], RunEnded)
        assert {e.run_id for e in by_path[()]} == {'outer-run'}
        custom = [e for e in events if isinstance(e, CustomEvent)]
        assert {(e.path, e.tool_call_id) for e in custom} == {(('d1',), 'leaf'), (('d2',), 'leaf')}
        finals = [(e.path, e.output) for e in events if isinstance(e, FinalResultEvent)]
        assert finals[-1] == ((), 'outer text') and len(finals) == 3

    go(main())


def test_events_two_levels_down_and_iter_inside_a_tool() -> None:
    async def main() -> None:
        leaf_agent = Agent(ScriptedModel(['leaf'] * 2), name='leaf')

        async def run_leaf() -> str:
            async with leaf_agent.iter('x') as run:
                async for _ in run:
                    pass
                assert run.result is not None
                return run.result.output

        middle = Agent(ScriptedModel([[call('run_leaf', {}, 'l')], 'middle']), name='middle', tools=[run_leaf])

        async def run_middle() -> str:
            return (await middle.run('x')).output

        outer = Agent(ScriptedModel([[call('run_middle', {}, 'm')], 'outer']), name='outer', tools=[run_middle])
        events = await _all(outer)
        assert {e.path for e in events} == {(), ('m',), ('m', 'l')}
        for path in ((), ('m',), ('m', 'l')):
            mine = [e for e in events if e.path == path]
            assert isinstance(mine[0], RunStarted) and isinstance(mine[-1], RunEnded), path

    go(main())


def test_the_text_of_nested_agents_is_not_the_outer_text() -> None:
    async def main() -> None:
        async with _nested().run_stream('go') as s:
            pieces = [t async for t in s.text(delta=True)]
        assert ''.join(pieces) == 'outer text'
        async with _nested().run_stream('go') as s:
            outputs = [o async for o in s.output()]
            result = await s.result()
        assert outputs[-1] == result.output == 'outer text'
        assert all('outer text'.startswith(o) for o in outputs)

    go(main())


@pytest.mark.parametrize('delta', [False, True])
def test_text(delta: bool) -> None:
    async def main() -> None:
        async with Agent(ScriptedModel(['Hello there'], chunk=4)).run_stream('go') as s:
            texts = [t async for t in s.text(delta=delta)]
            assert texts == (['Hell', 'o th', 'ere'] if delta else ['Hell', 'Hello th', 'Hello there'])
            result = await s.result()
            assert result.output == 'Hello there' and (await s.result()) is result
            assert s.messages == result.messages and s.usage == result.usage and s.run.run_id == result.run_id

    go(main())


def test_two_text_parts_of_one_response() -> None:
    async def main() -> None:
        model = ScriptedModel([[TextPart('one '), ThinkingPart('hm'), TextPart('two')]], chunk=2)
        async with Agent(model).run_stream('go') as s:
            assert [t async for t in s.text()][-1] == 'one two' == (await s.result()).output

    go(main())


def test_text_of_a_response_that_begins_with_reasoning_starts_anew() -> None:
    async def main() -> None:
        model = ScriptedModel([[TextPart('first'), call('a')], [ThinkingPart('hm'), TextPart('second')]])
        async with Agent(model, tools=[Log().tool('a')]).run_stream('go') as s:
            assert [t async for t in s.text()][-1] == 'second'

    go(main())


def test_text_of_a_response_whose_first_part_is_a_call_starts_anew() -> None:
    async def main() -> None:
        model = ScriptedModel([[TextPart('first'), call('a')], [call('a', {}, '2'), TextPart('second')], 'third'])
        async with Agent(model, tools=[Log().tool('a')]).run_stream('go') as s:
            texts = [t async for t in s.text()]
        assert 'firstsecond' not in texts and texts[-1] == 'third'

    go(main())


def test_result_without_reading_anything() -> None:
    async def main() -> None:
        async with Agent(Wire(pieces=300)).run_stream('go') as s:
            result = await s.result()
        assert result.output == 'word ' * 300
        result = await Agent(Wire(pieces=300)).run_stream('go').result()
        assert result.output == 'word ' * 300

    go(main())


def test_the_run_waits_for_a_slow_reader() -> None:
    async def main() -> None:
        wire = Wire(pieces=2000)
        async with Agent(wire).run_stream('go') as s:
            await settle(500)
            assert wire.sent <= CAPACITY + 2 < 500, 'nothing is read, and the model goes on'
            events = s.events()
            for n in range(1, 200):
                await anext(events)
                await settle(3)
                assert wire.sent <= n + CAPACITY + 2
            async for _ in events:
                pass
            assert wire.sent == 2000

    go(main())


def test_memory_of_a_long_stream_stays_flat_when_pieces_are_not_kept() -> None:
    async def main() -> None:
        async with Agent(Wire(pieces=3000, piece='x' * 200)).run_stream_events('go') as events:
            tracemalloc.start()
            try:
                peak = 0
                n = 0
                async for _ in events:
                    n += 1
                    if n == 500:
                        gc.collect()
                        tracemalloc.reset_peak()
                    if n % 500 == 0:
                        peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert peak < 6_000_000, 'the text itself is 0.6 MB'

    go(main())


def test_a_failing_run_raises_in_the_loop_after_its_last_event() -> None:
    async def main() -> None:
        async def bad() -> str:
            raise ValueError('broken')

        agent = Agent(ScriptedModel([[TextPart('let me see'), call('bad')]]), tools=[bad])
        seen: list[RunEvent] = []
        with pytest.raises(ToolFailed, match='broken') as caught:  # noqa: PT012 (the loop is what raises)
            async for event in agent.run_stream_events('go'):
                seen.append(event)  # noqa: PERF401 (what came before the error is kept)
        assert isinstance(seen[-1], RunEnded) and seen[-1].status == 'failed' and 'broken' in str(seen[-1].error)
        assert not [e for e in seen if isinstance(e, FinalResultEvent)] and is_valid(caught.value.messages)
        async with agent.run_stream('go', model=ScriptedModel([[call('bad')]])) as s:
            with pytest.raises(ToolFailed):
                await s.result()
            with pytest.raises(ToolFailed):
                await s.result()

    go(main())


def test_a_run_that_failed_before_its_reader_left_makes_no_complaint() -> None:
    """Leaving early means: I do not care any more. So the loop must not report an exception nobody looked at."""

    async def main() -> None:
        async with Agent(ScriptedModel([ValueError('x')])).run_stream('go'):
            await settle(50)

    go(main())


def test_cancelling_the_run_from_the_reader() -> None:
    async def main() -> None:
        wire = Wire()
        async with Agent(wire).run_stream('go') as s:
            with pytest.raises(RunCancelled) as caught:  # noqa: PT012 (the loop is what raises)
                async for event in s.events():
                    if isinstance(event, PartDeltaEvent):
                        await s.run.cancel()
            last = caught.value.messages[-1]
            assert isinstance(last, AssistantMessage) and last.interrupted and wire.open == 0
            with pytest.raises(RunCancelled):
                await s.result()

    go(main())


def test_two_streams_of_one_agent_at_once() -> None:
    async def main() -> None:
        async def ask(messages: Any, info: Any) -> str:
            return f'answer to {messages[-1].content}'

        agent = Agent(FunctionModel(ask, chunk=3))

        async def one(i: int) -> str:
            async with agent.run_stream(f'question {i}') as s:
                return [t async for t in s.text()][-1]

        assert await asyncio.gather(*(one(i) for i in range(50))) == [f'answer to question {i}' for i in range(50)]

    go(main())


def test_two_readers_of_one_stream_share_its_events() -> None:
    async def main() -> None:
        async with Agent(ScriptedModel(['x' * 400], chunk=1)).run_stream('go') as s:
            seen: list[int] = []

            async def read() -> None:
                async for event in s.events():
                    seen.append(event.seq)  # noqa: PERF401 (what came before the error is kept)

            await asyncio.wait_for(asyncio.gather(read(), read()), 5)
            assert sorted(seen) == list(range(1, len(seen) + 1))
            assert (await s.result()).output == 'x' * 400

    go(main())


def test_a_tool_shown_in_the_text() -> None:
    async def main() -> None:
        model = ScriptedModel([[call('a'), call('b')], 'done'])
        agent = Agent(model, tools=[Log().tool('a', 'shown', show_result=True), Log().tool('b', 'hidden')])
        async with agent.run_stream('go') as s:
            text = ''.join([t async for t in s.text(delta=True)])
        assert 'shown' in text and 'hidden' not in text and text.endswith('done')
        events = await _all(Agent(ScriptedModel([[call('a')], 'x']), tools=[Log().tool('a', show_result=True)]))
        assert [e.show for e in events if isinstance(e, FunctionToolResultEvent)] == [True]

    go(main())


def test_the_reader_is_an_ordinary_object_when_misused() -> None:
    async def main() -> None:
        from agent_graph import ConfigError

        s = Agent(ScriptedModel(['x'])).run_stream('go')
        with pytest.raises(ConfigError):
            _ = s.run
        await s.aclose()
        await s.aclose()

    go(main())
