"""`journal.follow` over pauses, forks and processes: it misses nothing, repeats nothing, and ends with the run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent, Journal, MemoryJournal, SQLiteJournal, Tool, ToolApproved, UnknownRun
from agent_graph.journal import Record
from agent_graph.testing import FunctionModel
from tests.durable.kit import KINDS, Store, yes
from tests.engine.kit import call, go


def make_agent(journal: Journal, steps: int = 3) -> Agent[None, str]:
    """Asks for one gated call after the other."""

    async def work(n: int) -> str:
        await asyncio.sleep(0.001)
        return f'{n} done'

    def answer(messages: Any, info: Any) -> Any:
        done = len(messages) // 2
        return 'all done' if done == steps else [call('work', {'n': done}, f'c{done}')]

    return Agent(FunctionModel(answer), tools=[Tool(work, requires_approval=True)], journal=journal)


async def drive(agent: Agent[None, str], run_id: str) -> None:
    result = await agent.run('go', run_id=run_id)
    while result.status == 'paused':
        await asyncio.sleep(0.002)
        result = await agent.resume(run_id, answers=yes(result))


@pytest.mark.parametrize('kind', KINDS)
def test_one_reader_sees_everything_over_pauses(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = Store(kind, tmp_path).journal
        agent = make_agent(journal)
        async with agent.iter('go', run_id='r') as run:
            await run.next()
        driving = asyncio.create_task(_go_on(agent))
        seen = [record async for record in journal.follow('r')]
        await driving
        assert seen == await journal.load('r')
        kinds = [r.entry.kind for r in seen]
        assert kinds.count('paused') == 3 and kinds[-1] == 'ended', 'a pause is not the end'
        await journal.aclose()

    go(main())


async def _go_on(agent: Agent[None, str]) -> None:
    result = await agent.resume('r')
    while result.status == 'paused':
        await asyncio.sleep(0.002)
        result = await agent.resume('r', answers=yes(result))


@pytest.mark.parametrize('kind', KINDS)
def test_readers_that_are_cut_off_after_every_entry(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = Store(kind, tmp_path).journal
        agent = make_agent(journal)
        async with agent.iter('go', run_id='r') as run:
            await run.next()
        driving = asyncio.create_task(_go_on(agent))
        seen: list[Record] = []
        ended = False
        while not ended:
            fresh = await anext(journal.follow('r', after=len(seen)), None)
            ended = fresh is None
            seen += [] if fresh is None else [fresh]
        await driving
        assert [r.seq for r in seen] == list(range(1, len(seen) + 1))
        assert seen == await journal.load('r')
        await journal.aclose()

    go(main())


def test_a_reader_that_is_cancelled_while_it_waits_for_an_answer_loses_nothing() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(journal, 1)
        paused = await agent.run('go', run_id='r')
        seen: list[int] = []
        note = seen.append

        async def read() -> None:
            async for record in journal.follow('r', after=len(seen)):
                note(record.seq)

        for _ in range(3):
            task = asyncio.create_task(read())
            await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        task = asyncio.create_task(read())
        await agent.resume('r', answers=yes(paused))
        await task
        assert seen == list(range(1, len(await journal.load('r')) + 1))

    go(main())


@pytest.mark.parametrize('kind', KINDS)
def test_a_fork_is_followed_from_the_beginning_it_shares(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = Store(kind, tmp_path).journal
        agent = make_agent(journal, 2)
        await drive(agent, 'r')
        original = await journal.load('r')
        fork = await agent.fork('r', at=4, new_run_id='f')

        async def read() -> list[Record]:
            return [record async for record in journal.follow('f')]

        reading = asyncio.create_task(read())
        result = await agent.resume(fork)
        while result.status == 'paused':
            result = await agent.resume(fork, answers=yes(result))
        seen = await reading
        assert seen[:4] == original[:4] and seen == await journal.load('f')
        await journal.aclose()

    go(main())


def test_cancelled_and_deleted_and_unknown() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(journal)
        await agent.run('go', run_id='r')

        async def kinds() -> list[str]:
            return [record.entry.kind async for record in journal.follow('r')]

        reading = asyncio.create_task(kinds())
        await asyncio.sleep(0.002)
        await agent.cancel('r')
        assert (await reading)[-1] == 'ended'
        last = len(await journal.load('r'))
        assert [r async for r in journal.follow('r', after=last)] == []
        assert [r.entry.kind async for r in journal.follow('r', after=last - 1)] == ['ended']
        with pytest.raises(UnknownRun):
            _ = [r async for r in journal.follow('nobody')]
        await agent.run('go', run_id='s')

        async def read_s() -> None:
            async for _ in journal.follow('s'):
                pass

        reader = asyncio.create_task(read_s())
        await asyncio.sleep(0.002)
        await journal.delete('s')
        with pytest.raises(UnknownRun):
            await reader

    go(main())


CHILD = """
import asyncio, sys
from agent_graph import SQLiteJournal
from tests.durable.test_following import _go_on, make_agent

async def main():
    journal = SQLiteJournal(sys.argv[1])
    await _go_on(make_agent(journal))
    await journal.aclose()

asyncio.run(main())
"""


def test_written_by_another_process(tmp_path: Path) -> None:
    """The run is paused here and driven to its end elsewhere; a reader here re-attaches after every few entries."""

    async def main() -> None:
        journal = SQLiteJournal(tmp_path / 'runs.db')
        await make_agent(journal).run('go', run_id='r')
        root = Path(__file__).parent.parent.parent
        child = await asyncio.create_subprocess_exec(
            sys.executable, '-c', CHILD, str(tmp_path / 'runs.db'), cwd=root, stderr=subprocess.PIPE
        )
        seen: list[Record] = []
        while not seen or seen[-1].entry.kind != 'ended':
            count = 0
            async for record in journal.follow('r', after=len(seen)):
                seen.append(record)
                count += 1
                if count == 3:
                    break
        _, errors = await child.communicate()
        assert child.returncode == 0, errors.decode()
        assert [r.seq for r in seen] == list(range(1, len(seen) + 1))
        assert seen == await journal.load('r')
        assert [r.entry.kind for r in seen].count('answered') == 3
        await journal.aclose()

    go(main(), seconds=40)


def test_many_readers_at_different_places() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(journal)
        async with agent.iter('go', run_id='r') as run:
            await run.next()
        driving = asyncio.create_task(_go_on(agent))

        async def read(after: int) -> list[int]:
            return [record.seq async for record in journal.follow('r', after=after)]

        seen = await asyncio.gather(*(read(n % 7) for n in range(30)))
        await driving
        last = len(await journal.load('r'))
        assert seen == [list(range(n % 7 + 1, last + 1)) for n in range(30)]
        _ = ToolApproved

    go(main())
