"""Case 8: when a run is cancelled, or one of several tools fails, no other tool goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio
import pytest

from agent_graph import Agent, MemoryJournal, RunCancelled, ToolFailed
from agent_graph.engine.state import fold
from agent_graph.journal.entries import CallFinished
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import WAYS, Log, Way, answers_of, call, go


class Worker:
    """An async tool that counts in a loop, and takes its time to clean up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.cleaned = False

    @property
    def tool(self) -> Callable[[], Coroutine[Any, Any, str]]:
        async def work() -> str:
            try:
                while True:
                    self.count += 1
                    await asyncio.sleep(0.002)
            finally:
                await asyncio.sleep(0.02)
                self.cleaned = True

        work.__name__ = self.name
        return work


async def _bad() -> str:
    await asyncio.sleep(0.01)
    raise RuntimeError('tool 2 is broken')


async def _watch(workers: list[Worker]) -> None:
    counts = [w.count for w in workers]
    assert all(w.cleaned for w in workers), 'the run ended before the tools had'
    await asyncio.sleep(0.05)
    assert [w.count for w in workers] == counts, 'a tool goes on after the run has ended'


@pytest.mark.parametrize('watched', [False, True], ids=['plain', 'streamed'])
def test_b_a_failing_tool_stops_its_siblings(watched: bool) -> None:
    async def main() -> None:
        workers = [Worker('one'), Worker('three')]
        journal, log = MemoryJournal(), Log()
        calls = [call('one'), call('_bad'), call('three'), call('quick')]
        tools = [workers[0].tool, _bad, workers[1].tool, log.tool('quick')]
        agent = Agent(ScriptedModel([calls]), tools=tools, journal=journal)
        with pytest.raises(ToolFailed, match='tool 2 is broken') as caught:  # noqa: PT012 (the loop is what raises)
            if watched:
                async for _ in agent.run_stream_events('go', run_id='r'):
                    pass
            else:
                await agent.run('go', run_id='r')
        await _watch(workers)
        assert all(w.count for w in workers)
        outcomes = {p.tool_name: p.outcome for p in answers_of(caught.value.messages)}
        assert outcomes == {'one': 'interrupted', '_bad': 'failed', 'three': 'interrupted', 'quick': 'success'}
        records = await journal.load('r')
        finished = {r.entry.part.tool_name: r.entry.part.outcome for r in records if isinstance(r.entry, CallFinished)}
        assert finished['quick'] == 'success' and finished['_bad'] == 'failed'
        state = fold('r', records)
        assert state.ended is not None and state.ended.status == 'failed' and is_valid(state.messages)

    go(main())


@pytest.mark.parametrize('how', ['task', 'run.cancel', 'reader', 'deadline'])
def test_a_cancelling_stops_every_tool(how: str) -> None:
    async def main() -> None:
        workers = [Worker('one'), Worker('two'), Worker('three')]
        agent = Agent(ScriptedModel([[call(w.name) for w in workers]]), tools=[w.tool for w in workers])
        if how == 'reader':
            async with agent.run_stream('go') as s:
                async for event in s.events():
                    if event.kind == 'function_tool_call':
                        await asyncio.sleep(0.01)
                        break
            await _watch(workers)
            return
        async with agent.iter('go') as run:

            async def walk() -> None:
                async for _ in run:
                    pass

            task = asyncio.create_task(walk())
            while not all(w.count for w in workers):  # noqa: ASYNC110 (nothing tells when)
                await asyncio.sleep(0.002)
            if how == 'run.cancel':
                await run.cancel()
                with pytest.raises(RunCancelled):
                    await task
            elif how == 'task':
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(task, 0.01)
            await _watch(workers)
            assert run.result is not None and run.result.status == 'cancelled'

    go(main())


@pytest.mark.parametrize('tools', [1, 2, 3])
@pytest.mark.parametrize('scope', ['asyncio', 'anyio'])
def test_cancelled_twice_while_the_tools_clean_up(scope: str, tools: int) -> None:
    """An impatient caller; and anyio's cancel scopes, which cancel again in every turn of the loop."""

    async def main() -> None:
        workers = [Worker(f'tool_{n}') for n in range(tools)]
        journal = MemoryJournal()
        agent = Agent(
            ScriptedModel([[call(w.name) for w in workers]]), tools=[w.tool for w in workers], journal=journal
        )
        if scope == 'anyio':
            with anyio.move_on_after(0.05):
                await agent.run('go', run_id='r')
        else:
            task = asyncio.create_task(agent.run('go', run_id='r'))
            await asyncio.sleep(0.05)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0.003)
            with pytest.raises(asyncio.CancelledError):
                await task
        assert all(w.count for w in workers)
        await _watch(workers)
        state = fold('r', await journal.load('r'))
        assert state.ended is not None and state.ended.status == 'cancelled' and is_valid(state.messages)

    go(main())


def test_two_tools_fail_at_once_and_neither_is_forgotten() -> None:
    async def main() -> None:
        async def bad(n: int) -> str:
            raise RuntimeError(f'broken {n}')

        calls = [call('bad', {'n': n}, f'c{n}') for n in range(20)]
        with pytest.raises(ToolFailed, match='broken 0') as caught:
            await Agent(ScriptedModel([calls]), tools=[bad]).run('go')
        assert is_valid(caught.value.messages)

    go(main())


def test_a_tool_that_raises_while_it_is_stopped() -> None:
    async def main() -> None:
        async def stubborn() -> str:
            try:
                await asyncio.sleep(30)
            finally:
                raise ValueError('while cleaning up')

        with pytest.raises(ToolFailed, match='tool 2 is broken') as caught:
            await Agent(ScriptedModel([[call('stubborn'), call('_bad')]]), tools=[stubborn, _bad]).run('go')
        assert is_valid(caught.value.messages)

    go(main())


def test_a_tool_that_ignores_being_stopped_is_waited_for() -> None:
    async def main() -> None:
        ended: list[str] = []

        async def deaf() -> str:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                await asyncio.sleep(0.02)
            ended.append('deaf')
            return 'finished all the same'

        with pytest.raises(ToolFailed) as caught:
            await Agent(ScriptedModel([[call('deaf'), call('_bad')]]), tools=[deaf, _bad]).run('go')
        assert ended == ['deaf']
        outcomes = {p.tool_name: p.outcome for p in answers_of(caught.value.messages)}
        assert outcomes == {'deaf': 'success', '_bad': 'failed'}, 'what had finished is kept'

    go(main())


def test_a_tool_whose_own_task_is_cancelled_does_not_look_like_a_cancelled_run() -> None:
    async def main() -> None:
        async def own() -> str:
            raise asyncio.CancelledError

        with pytest.raises(ToolFailed):
            await Agent(ScriptedModel([[call('own')]]), tools=[own]).run('go')

    go(main())


def test_nested_runs_are_stopped_too() -> None:
    async def main() -> None:
        worker = Worker('inner')
        inner = Agent(ScriptedModel([[call('inner')]]), tools=[worker.tool])

        async def delegate() -> str:
            return (await inner.run('work')).output

        with pytest.raises(ToolFailed, match='tool 2 is broken') as caught:
            await Agent(ScriptedModel([[call('delegate'), call('_bad')]]), tools=[delegate, _bad]).run('go')
        await _watch([worker])
        assert caught.value.usage is not None and caught.value.usage.requests == 2

    go(main())


def test_run_cancel_is_not_lost_when_the_model_ignores_it() -> None:
    async def main() -> None:
        async def deaf(messages: Any, info: Any) -> str:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
            return 'late answer'

        async with Agent(FunctionModel(deaf)).iter('go') as run:
            task = asyncio.create_task(run.to_end())
            await asyncio.sleep(0.01)
            await run.cancel()
            with pytest.raises(RunCancelled):
                await task
            assert run.result is not None and run.result.status == 'cancelled' and is_valid(run.messages)

    go(main())


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
@pytest.mark.parametrize('where', ['model', 'tool', 'two tools'])
def test_a_cancel_scope_of_anyio_around_a_run_catches_its_own_cancellation(where: str, way: Way) -> None:
    async def main() -> None:
        async def wait() -> str:
            await asyncio.sleep(30)
            return 'never'

        async def answer(messages: Any, info: Any) -> Any:
            if where == 'model':
                await asyncio.sleep(30)
            return [call('wait', {}, '1'), call('wait', {}, '2')][: 1 if where == 'tool' else 2]

        agent = Agent(FunctionModel(answer), tools=[wait])
        with anyio.move_on_after(0.03) as scope:
            await way(agent, 'go')
        task = asyncio.current_task()
        assert scope.cancelled_caught and task is not None and task.cancelling() == 0
        await asyncio.sleep(0)

    go(main(), seconds=5)
