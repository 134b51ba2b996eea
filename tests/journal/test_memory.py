"""What only the memory journal promises: it costs next to nothing, and gives back what it held."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import tracemalloc
import weakref
from typing import Any

from agent_graph.journal import Entered, Journal, Record, Started
from agent_graph.journal.memory import MemoryJournal

TTL = 60.0


class Traced(list[Any]):
    """Data one can hold a weak reference to."""


def record(seq: int, data: Any = None) -> Record:
    return Record(seq, float(seq), Entered('N', data=data))


def start() -> list[Record]:
    return [Record(1, 1.0, Started('a'))]


def test_it_is_a_journal() -> None:
    assert isinstance(MemoryJournal(), Journal)


def test_an_append_is_a_handful_of_calls() -> None:
    async def main() -> int:
        journal = MemoryJournal()
        await journal.create('r', start(), owner='me', ttl=TTL)
        records = [[record(n)] for n in range(2, 102)]
        profile = cProfile.Profile()
        profile.enable()
        for some in records:
            await journal.append('r', some, epoch=1)
        profile.disable()
        return sum(entry.callcount for entry in profile.getstats())

    assert asyncio.run(main()) <= 100 * 4 + 5


def test_an_append_never_gives_way_to_another_task() -> None:
    journal = MemoryJournal()
    asyncio.run(journal.create('r', start(), owner='me', ttl=TTL))
    call = journal.append('r', [record(2)], epoch=1)
    try:
        call.send(None)
    except StopIteration:
        return
    raise AssertionError('append waited')


def test_records_are_kept_as_the_objects_they_are() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        mine = record(2)
        await journal.create('r', [*start(), mine], owner='me', ttl=TTL)
        await journal.fork('r', 'f', at=2, owner='me', ttl=TTL)
        assert (await journal.load('r'))[1] is mine
        assert (await journal.load('f'))[1] is mine

    asyncio.run(main())


def test_deleting_frees_what_no_fork_needs() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        data = [Traced() for _ in range(10)]
        alive = [weakref.ref(some) for some in data]
        await journal.create(
            'a', [*start(), *(record(n + 2, some) for n, some in enumerate(data))], owner='me', ttl=TTL
        )
        del data
        await journal.fork('a', 'b', at=6, owner='me', ttl=TTL)
        await journal.fork('b', 'c', at=3, owner='me', ttl=TTL)
        await journal.delete('a')
        assert [ref() is not None for ref in alive] == [True] * 5 + [False] * 5
        await journal.delete('b')
        assert [ref() is not None for ref in alive] == [True] * 2 + [False] * 8
        await journal.delete('c')
        assert [ref() is not None for ref in alive] == [False] * 10

    gc.disable()  # reference counts alone must do it
    try:
        asyncio.run(main())
    finally:
        gc.enable()


def test_a_journal_for_each_run_leaves_nothing() -> None:
    async def main() -> None:
        for _ in range(2000):
            journal = MemoryJournal()
            lease = await journal.create('r', start(), owner='me', ttl=TTL)
            await journal.append('r', [record(2)], epoch=lease.epoch)

    gc.disable()
    try:
        asyncio.run(main())
        tracemalloc.start()
        asyncio.run(main())
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 100_000


def test_followers_leave_nothing_behind() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await journal.create('r', start(), owner='me', ttl=TTL)
        for _ in range(50):
            follower = journal.follow('r', after=1)
            waiting = asyncio.ensure_future(anext(follower))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert journal._watchers.runs == {}  # pyright: ignore[reportPrivateUsage]

    asyncio.run(main())
