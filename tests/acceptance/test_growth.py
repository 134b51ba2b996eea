"""Case 22: what a run stores grows with what is new in it, a resume reads it once, and deleting a run gives all of it back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent, AssistantMessage, Message, SQLiteJournal, ToolCallPart
from agent_graph.model import RequestInfo
from agent_graph.testing import FunctionModel
from tests.acceptance.points import MarkedJournal, Points

KB, MB = 1_000, 1_000_000
OVERHEAD = 3 * KB
"""What a step stores at most besides the texts of its call and result: ids, times, the frames of five entries."""


def size(path: Path) -> int:
    """Bytes on the disk, the write-ahead log included."""
    return sum(file.stat().st_size for file in path.parent.glob(f'{path.name}*'))


def make_agent(journal: Any, steps: int, *, large_at: int | None = None) -> Agent[None, str]:
    """Calls a tool `steps` times, one call a response; each result is 1 KB, the one at `large_at` 5 MB."""

    async def answer(messages: Sequence[Message], info: RequestInfo) -> str | list[ToolCallPart]:
        n = sum(isinstance(m, AssistantMessage) for m in messages)
        return 'done' if n == steps else [ToolCallPart('look', {'n': n}, f'c{n}')]

    async def look(n: int) -> str:
        return f'{n:04}' * (5 * MB // 4 if n == large_at else KB // 4)

    return Agent(FunctionModel(answer), tools=[look], journal=journal)


async def stored(path: Path, steps: int, **options: Any) -> int:
    """Bytes in the file after a run of so many steps."""
    async with SQLiteJournal(path, synchronous='NORMAL') as journal:
        await make_agent(journal, steps, **options).run('go', run_id='r')
    return size(path)


def test_bytes_are_linear_in_the_steps(tmp_path: Path) -> None:
    async def main() -> dict[int, int]:
        return {steps: await stored(tmp_path / f'{steps}.db', steps) for steps in (50, 200, 800)}

    sizes = asyncio.run(main())
    assert sizes[800] - sizes[200] < 4.2 * (sizes[200] - sizes[50])
    # The result of a call is in two entries: the call's own, and the message that goes to the model.
    assert sizes[800] < 800 * (2 * KB + OVERHEAD) + 150 * KB
    print(f'bytes by steps: {sizes}')


def test_a_large_result_early_on_is_stored_once(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        return await stored(tmp_path / 'without.db', 50), await stored(tmp_path / 'with.db', 50, large_at=1)

    without, with_it = asyncio.run(main())
    assert with_it - without < 5.1 * MB


@pytest.mark.parametrize('steps', [50, 200])
def test_every_step_writes_the_same(tmp_path: Path, steps: int) -> None:
    """Not one byte more is written for a late step than for an early one, and the store is never read on the way."""

    class Weighed(MarkedJournal):
        async def append(self, run_id: str, records: Sequence[Any], *, epoch: int) -> None:
            from agent_graph.journal.codec import encode

            weights.extend(len(encode(record.entry)) for record in records)
            await super().append(run_id, records, epoch=epoch)

    weights: list[int] = []

    async def main() -> int:
        async with SQLiteJournal(tmp_path / 'runs.db', synchronous='NORMAL') as inner:
            journal = Weighed(inner, Points())
            await make_agent(journal, steps).run('go', run_id='r')
            return journal.loads

    assert asyncio.run(main()) == 0
    assert len(weights) == 4 * steps + 4, 'four entries a step: request, response, call started, call finished'
    middle = weights[2:-2]
    early, late = sum(middle[4:44]), sum(middle[-44:-4])
    assert late - early < 40 * 8, 'only the numbers in ids and arguments have grown'


def test_a_resume_reads_the_entries_a_fixed_number_of_times(tmp_path: Path) -> None:
    async def main(steps: int) -> int:
        async with SQLiteJournal(tmp_path / f'{steps}.db', synchronous='NORMAL') as inner:
            journal = MarkedJournal(inner, Points())
            agent = make_agent(journal, steps)
            async with agent.iter('go', run_id='r') as run:
                for _ in range(2 * steps):
                    await run.next()
            assert journal.loads == 0
            result = await agent.resume('r')
            assert (result.output, result.usage.tool_calls) == ('done', steps)
            return journal.loads

    assert asyncio.run(main(5)) == asyncio.run(main(100)) <= 3


def test_deleting_a_run_frees_what_it_held(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / 'runs.db'
        async with SQLiteJournal(path, synchronous='NORMAL') as journal:
            await make_agent(journal, 20, large_at=1).run('go', run_id='one')
            await make_agent(journal, 20, large_at=1).run('go', run_id='two')
            assert size(path) < 11.5 * MB, 'the log and the file; the value itself is there once'
            await journal.delete('one')
            await journal.vacuum()
            assert 5 * MB < size(path) < 5.3 * MB
            assert (await make_agent(journal, 20).resume('two')).output == 'done'
            fork = await make_agent(journal, 20, large_at=1).fork('two', at=11)
            await journal.delete('two')
            await journal.vacuum()
            assert 5 * MB < size(path) < 5.3 * MB, 'the fork still needs it'
            await journal.delete(fork)
            await journal.vacuum()
            assert size(path) < 100 * KB

    asyncio.run(main())


def test_deleting_a_run_frees_the_runs_inside_its_tools(tmp_path: Path) -> None:
    async def main() -> None:
        async with SQLiteJournal(tmp_path / 'runs.db', synchronous='NORMAL') as journal:
            inner = make_agent(None, 5)

            async def ask(messages: Sequence[Message], info: RequestInfo) -> str | list[ToolCallPart]:
                return 'done' if len(messages) > 1 else [ToolCallPart('consult', {}, 'c')]

            async def consult() -> str:
                return (await inner.run('inside')).output

            await Agent(FunctionModel(ask), tools=[consult], journal=journal).run('go', run_id='outer')
            assert len(await journal.runs()) == 2
            await journal.delete('outer')
            assert await journal.runs() == []

    asyncio.run(main())
