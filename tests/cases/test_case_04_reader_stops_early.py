"""Case 4: the reader of a stream stops early, in every way a reader can."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent_graph import Agent, AssistantMessage, MemoryJournal, Message, PartDeltaEvent, RunCancelled
from agent_graph.engine.state import fold
from agent_graph.messages import is_valid
from agent_graph.testing import ScriptedModel
from tests.engine.kit import Wire, go, settle

ROOT = Path(__file__).parents[2]


class Stop(Exception):
    """What a reader raises in its loop."""


def _is_partial(messages: list[Message]) -> bool:
    """The last message is the response as far as it had come, marked as interrupted."""
    last = messages[-1]
    return isinstance(last, AssistantMessage) and last.interrupted and last.parts[0].kind == 'text'


async def _works_afterwards(agent: Agent[Any, Any], wire: Wire) -> None:
    wire.pieces, before = 3, wire.asked
    result = await agent.run('again')
    assert result.output == 'word word word ' and wire.asked == before + 1
    assert wire.open == 0


async def _text(agent: Agent[Any, Any]) -> AsyncGenerator[str, None]:
    async with agent.run_stream('go', run_id='r') as s:
        async for text in s.text():
            yield text


async def _nested(agent: Agent[Any, Any]) -> AsyncGenerator[str, None]:
    inner = _text(agent)
    try:
        async for text in inner:
            yield text
    finally:
        await inner.aclose()


async def leave_by_break(agent: Agent[Any, Any]) -> None:
    async with agent.run_stream('go', run_id='r') as s:
        seen = 0
        async for _ in s.text(delta=True):
            seen += 1
            if seen == 2:
                break


async def leave_by_return(agent: Agent[Any, Any]) -> None:
    async with agent.run_stream('go', run_id='r') as s:
        async for _ in s.text():
            return


async def leave_by_exception(agent: Agent[Any, Any]) -> None:
    with pytest.raises(Stop):  # noqa: PT012 (the loop is what raises)
        async with agent.run_stream('go', run_id='r') as s:
            async for _ in s.text():
                raise Stop


async def leave_by_cancel(agent: Agent[Any, Any]) -> None:
    async with agent.run_stream('go', run_id='r') as s:
        async for _ in s.text():
            await s.cancel()
            await s.cancel()


async def leave_events_with_a_block(agent: Agent[Any, Any]) -> None:
    async with agent.run_stream_events('go', run_id='r') as events:
        async for event in events:
            if isinstance(event, PartDeltaEvent):
                break


async def leave_two_nested_generators(agent: Agent[Any, Any]) -> None:
    async with aclosing(_nested(agent)) as texts:
        async for _ in texts:
            break


async def leave_while_the_output_streams(agent: Agent[Any, Any]) -> None:
    async with agent.run_stream('go', run_id='r') as s:
        async for _ in s.output():
            break


async def leave_by_being_cancelled(agent: Agent[Any, Any]) -> None:
    reading = asyncio.Event()

    async def read() -> None:
        async with agent.run_stream('go', run_id='r') as s:
            async for _ in s.text():
                reading.set()
                await asyncio.sleep(30)

    task = asyncio.create_task(read())
    await reading.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


AT_ONCE: list[Callable[[Agent[Any, Any]], Awaitable[None]]] = [
    leave_by_break,
    leave_by_return,
    leave_by_exception,
    leave_by_cancel,
    leave_events_with_a_block,
    leave_two_nested_generators,
    leave_while_the_output_streams,
    leave_by_being_cancelled,
]
"""Ways after which everything is over as soon as the reader has left."""


@pytest.mark.parametrize('pause', [0.0, 0.01], ids=['fast', 'slow'])
@pytest.mark.parametrize('leave', AT_ONCE, ids=[f.__name__ for f in AT_ONCE])
def test_leaving_closes_the_response_at_once(leave: Callable[[Agent[Any, Any]], Awaitable[None]], pause: float) -> None:
    async def main() -> None:
        wire, journal = Wire(pause=pause), MemoryJournal()
        agent = Agent(wire, journal=journal)
        await leave(agent)
        assert wire.open == 0, 'the connection is closed when the block has been left'
        assert wire.sent < 500, 'the rest was not read silently'
        state = fold('r', await journal.load('r'))
        assert state.ended is not None and state.ended.status == 'cancelled'
        assert _is_partial(state.messages) and is_valid(state.messages)
        await _works_afterwards(agent, wire)

    go(main())


async def drop_events(agent: Agent[Any, Any]) -> None:
    async for event in agent.run_stream_events('go', run_id='r'):
        if isinstance(event, PartDeltaEvent):
            break


async def drop_by_return(agent: Agent[Any, Any]) -> None:
    async for _ in agent.run_stream_events('go', run_id='r'):
        return


async def drop_by_exception(agent: Agent[Any, Any]) -> None:
    with pytest.raises(Stop):  # noqa: PT012 (the loop is what raises)
        async for event in agent.run_stream_events('go', run_id='r'):
            if isinstance(event, PartDeltaEvent):
                raise Stop


async def drop_text(agent: Agent[Any, Any]) -> None:
    async for _ in agent.run_stream('go', run_id='r').text():
        break


async def drop_a_local_name(agent: Agent[Any, Any]) -> None:
    s = agent.run_stream('go', run_id='r')
    async for _ in s.text():
        break
    del s


async def close_in_another_task(agent: Agent[Any, Any]) -> None:
    events = agent.run_stream_events('go', run_id='r')
    async for event in events:
        if isinstance(event, PartDeltaEvent):
            break
    await asyncio.create_task(events.aclose())


DROPPED: list[Callable[[Agent[Any, Any]], Awaitable[None]]] = [
    drop_events,
    drop_by_return,
    drop_by_exception,
    drop_text,
    drop_a_local_name,
    close_in_another_task,
]


@pytest.mark.parametrize('leave', DROPPED, ids=[f.__name__ for f in DROPPED])
def test_a_dropped_reader_cancels_the_run(leave: Callable[[Agent[Any, Any]], Awaitable[None]]) -> None:
    async def main() -> None:
        wire, journal = Wire(), MemoryJournal()
        agent = Agent(wire, journal=journal)
        await leave(agent)
        gc.collect()
        await settle(50)
        assert wire.open == 0 and wire.sent < 500
        state = fold('r', await journal.load('r'))
        assert state.ended is not None and state.ended.status == 'cancelled'
        assert is_valid(state.messages)
        await _works_afterwards(agent, wire)

    go(main())


class Closing(Wire):
    """A connection that takes its time to close."""

    closed = False

    async def respond(self, messages: Any, info: Any, out: Any) -> None:
        try:
            await super().respond(messages, info, out)
        finally:
            await asyncio.sleep(0.03)
            self.closed = True


@pytest.mark.parametrize('reader', ['run_stream', 'node.stream'])
@pytest.mark.parametrize('scope', ['asyncio', 'anyio'])
def test_cancelled_twice_while_the_connection_closes(scope: str, reader: str) -> None:
    async def main() -> None:
        wire, journal = Closing(pause=0.001), MemoryJournal()
        agent = Agent(wire, journal=journal)

        async def read() -> None:
            if reader == 'run_stream':
                async with agent.run_stream('go', run_id='r') as s:
                    async for _ in s.text():
                        pass
                return
            async with agent.iter('go', run_id='r') as run:
                node: Any = await run.next()
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        pass

        if scope == 'anyio':
            with anyio.move_on_after(0.03):
                await read()
        else:
            task = asyncio.create_task(read())
            await asyncio.sleep(0.03)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0.003)
            with pytest.raises(asyncio.CancelledError):
                await task
        assert wire.closed, 'the block was left before the connection was closed'
        assert (await journal.info('r')).status == 'cancelled'

    go(main())


def test_result_after_leaving_is_a_typed_error() -> None:
    async def main() -> None:
        async with Agent(Wire()).run_stream('go') as s:
            async for _ in s.text():
                break
            await s.cancel()
            with pytest.raises(RunCancelled) as caught:
                await s.result()
            assert _is_partial(list(caught.value.messages)) and caught.value.run_id == s.run.run_id
        with pytest.raises(RunCancelled):
            await s.result()

    go(main())


def test_breaking_out_of_the_text_and_asking_for_the_result_goes_on() -> None:
    async def main() -> None:
        wire = Wire(pieces=200)
        async with Agent(wire).run_stream('go') as s:
            async for _ in s.text():
                break
            result = await s.result()
        assert result.output == 'word ' * 200 and wire.open == 0

    go(main())


@pytest.mark.parametrize('pieces', [1, 63, 64, 65, 500])
def test_a_block_entered_and_left_without_reading(pieces: int) -> None:
    async def main() -> None:
        wire = Wire(pieces=pieces)
        async with Agent(wire).run_stream('go'):
            await asyncio.sleep(0.01)
        assert wire.open == 0

    go(main())


def test_a_stream_nobody_reads_starts_nothing() -> None:
    async def main() -> None:
        wire = Wire()
        s = Agent(wire).run_stream('go')
        reader = Agent(wire).run_stream_events('go')
        await settle()
        del s, reader
        await settle()
        assert wire.asked == 0

    go(main())


def test_many_in_a_row_leave_no_task_and_no_thread() -> None:
    async def main() -> None:
        wire = Wire()
        agent = Agent(wire)
        threads, tasks = threading.active_count(), len(asyncio.all_tasks())
        for _ in range(50):
            await leave_by_break(agent)
        assert (threads, tasks) == (threading.active_count(), len(asyncio.all_tasks()))

    go(main())


def test_from_synchronous_code() -> None:
    wire = Wire()
    agent = Agent(wire)

    async def first(n: int) -> list[str]:
        async with agent.run_stream('go') as s:
            got: list[str] = []
            async for piece in s.text(delta=True):
                got.append(piece)
                if len(got) == n:
                    break
            return got

    for _ in range(3):
        assert asyncio.run(first(2)) == ['word ', 'word ']
    wire.pieces = 1
    assert agent.run_sync('go').output == 'word '
    assert wire.open == 0


@pytest.mark.parametrize('kind', ['run_stream', 'run_stream_events'])
def test_the_program_ends_although_a_reader_is_still_referred_to(kind: str) -> None:
    program = f"""
import asyncio
from agent_graph import Agent
from agent_graph.testing import ScriptedModel
reader = Agent(ScriptedModel(['word ' * 5000], chunk=1)).{kind}('go')
async def main():
    async for _ in reader:
        break
    await asyncio.sleep(0.05)
asyncio.run(main())
print('ended')
"""
    done = subprocess.run(
        [sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, timeout=8, check=False
    )
    assert (done.stdout, done.stderr) == ('ended\n', '')


def test_a_reader_that_stays_but_is_not_read_does_not_hold_up_the_end_of_its_task() -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        reader = Agent(ScriptedModel(['word ' * 5000], chunk=1)).run_stream_events('go')
        async for _ in reader:
            break
        await asyncio.sleep(0.02)
        try:
            for task in asyncio.all_tasks() - before:
                task.cancel()
                done, _ = await asyncio.wait({task}, timeout=2)
                assert done, 'a cancelled run waits for a reader for ever'
        finally:
            await reader.aclose()

    go(main())
