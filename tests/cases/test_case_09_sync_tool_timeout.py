"""Case 9: a synchronous tool that takes too long: the run goes on, threads are bounded, late results are dropped."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from agent_graph import Agent, MemoryJournal, Tool
from agent_graph.engine.threads import MAX_THREADS
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import answers_of, call, go


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What a stuck function waits for; set at the end, so that no thread stays busy."""
    event = threading.Event()
    yield event
    event.set()


def test_the_run_goes_on_and_threads_are_bounded(release: threading.Event) -> None:
    started: list[int] = []

    def stuck(n: int) -> str:
        started.append(n)
        release.wait(10)
        return 'LATE'

    async def main() -> None:
        journal = MemoryJournal()
        before = threading.active_count()
        agents_messages: list[object] = []
        for r in range(5):
            calls = [call('stuck', {'n': r * 10 + n}, f'c{n}') for n in range(10)]
            agent = Agent(ScriptedModel([calls, 'go on']), tools=[Tool(stuck, timeout=0.1)], journal=journal)
            begin = time.monotonic()
            result = await agent.run('go', run_id=f'r{r}')
            took = time.monotonic() - begin
            assert result.output == 'go on' and 0.09 < took < 2, took
            parts = answers_of(result.messages)
            assert len(parts) == 10 and all('timed out after 0.1 s' in str(p.content) for p in parts)
            assert all(p.outcome == 'interrupted' for p in parts) and is_valid(result.messages)
            agents_messages.append(result.messages)
        assert threading.active_count() - before <= MAX_THREADS
        assert len(started) <= MAX_THREADS
        release.set()
        await asyncio.sleep(0.1)
        assert 'LATE' not in repr(agents_messages)
        for r in range(5):
            assert 'LATE' not in repr(await journal.load(f'r{r}')), 'a late value is never stored as an answer'
        assert len(started) <= MAX_THREADS, 'a call whose waiter has gone is never started'

    go(main())


def test_the_threads_are_used_again_afterwards() -> None:
    async def main() -> None:
        names: set[str] = set()

        def quick(n: int) -> int:
            names.add(threading.current_thread().name)
            return n

        calls = [call('quick', {'n': n}, f'c{n}') for n in range(200)]
        result = await Agent(ScriptedModel([calls, 'done']), tools=[quick]).run('go')
        assert [p.content for p in answers_of(result.messages)] == list(range(200))
        assert len(names) <= MAX_THREADS and threading.main_thread().name not in names

    go(main())


def test_the_loop_is_free_while_a_sync_tool_works(release: threading.Event) -> None:
    async def main() -> None:
        def blocking() -> str:
            release.wait(10)
            return 'ok'

        task = asyncio.create_task(Agent(ScriptedModel([[call('blocking')], 'done']), tools=[blocking]).run('go'))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not task.done()
        release.set()
        assert (await task).output == 'done'

    go(main())


def test_cancelling_a_run_does_not_wait_for_the_thread(release: threading.Event) -> None:
    async def main() -> None:
        begun = threading.Event()

        def stuck() -> str:
            begun.set()
            release.wait(10)
            return 'LATE'

        task = asyncio.create_task(Agent(ScriptedModel([[call('stuck')]]), tools=[stuck]).run('go'))
        while not begun.is_set():  # noqa: ASYNC110 (nothing tells when)
            await asyncio.sleep(0.005)
        begin = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begin < 1

    go(main())


def test_a_timeout_of_an_async_tool_stops_it() -> None:
    async def main() -> None:
        cleaned: list[str] = []

        async def slow() -> str:
            try:
                await asyncio.sleep(30)
            finally:
                cleaned.append('slow')
            return 'x'

        result = await Agent(ScriptedModel([[call('slow')], 'on']), tools=[Tool(slow, timeout=0.05)]).run('go')
        assert result.output == 'on' and cleaned == ['slow']
        assert 'timed out' in str(answers_of(result.messages)[0].content)

    go(main())


def test_the_agents_timeout_is_for_tools_without_their_own() -> None:
    async def main() -> None:
        async def slow() -> str:
            await asyncio.sleep(0.15)
            return 'slow'

        async def patient() -> str:
            await asyncio.sleep(0.15)
            return 'patient'

        model = ScriptedModel([[call('slow'), call('patient')], 'on'])
        agent = Agent(model, tools=[slow, Tool(patient, timeout=5)], tool_timeout=0.05)
        parts = answers_of((await agent.run('go')).messages)
        assert [p.outcome for p in parts] == ['interrupted', 'success']

    go(main())


def test_a_tools_own_timeout_error_is_a_failure_and_no_timeout() -> None:
    from agent_graph import ToolFailed

    async def main() -> None:
        async def broken() -> str:
            raise TimeoutError('of the database')

        with pytest.raises(ToolFailed, match='of the database'):
            await Agent(ScriptedModel([[call('broken')]]), tools=[Tool(broken, timeout=5)]).run('go')

    go(main())


def test_sync_tools_that_run_agents_with_sync_tools_do_not_lock_each_other_out() -> None:
    """More of them than there are threads: each would hold one while it waits for another."""

    async def inner_answer(messages: object, info: object) -> object:
        return 'inner' if len(messages) > 1 else [call('leaf')]  # pyright: ignore

    def leaf() -> str:
        return 'leaf'

    inner = Agent(FunctionModel(inner_answer), tools=[leaf])  # pyright: ignore[reportArgumentType]
    gate = threading.Event()

    def outer(n: int) -> str:
        gate.wait(0.3)  # all threads are taken before the first inner run begins
        return inner.run_sync('go').output

    async def main() -> None:
        calls = [call('outer', {'n': n}, f'c{n}') for n in range(MAX_THREADS + 10)]
        agent = Agent(ScriptedModel([calls, 'done']), tools=[outer], tool_timeout=4)
        result = await agent.run('go')
        assert {p.outcome for p in answers_of(result.messages)} == {'success'}

    go(main(), seconds=10)
