"""The part of the journal suite about what runs share: forks, deleting, following."""

from __future__ import annotations

import asyncio
from threading import Event, Thread

from agent_graph.errors import JournalConflict, JournalError, RunExists, RunLocked, UnknownRun
from agent_graph.journal import Entered, Journal, Parent, Record, Started
from agent_graph.testing.journal_kit import (
    TTL,
    JournalTest,
    check,
    collect,
    first,
    last,
    pause,
    raises,
    seqs,
    soon,
    steps,
)

__all__ = ['FollowTests', 'ForkTests']


class ForkTests(JournalTest):
    """Forks share a beginning by reference; deleting keeps what they need."""

    @check
    async def test_a_fork_shares_its_beginning(self, journal: Journal) -> None:
        start = await journal.create('r', first() + steps(2, 3), owner='me', ttl=TTL)
        fork = await journal.fork('r', 'f', at=2, owner='you', ttl=TTL)
        assert (fork.run_id, fork.owner) == ('f', 'you')
        assert await journal.load('f') == await journal.load('r', upto=2)
        other = [Record(3, 9.0, Entered('Other'))]
        await journal.append('f', other, epoch=fork.epoch)
        await journal.append('r', steps(4), epoch=start.epoch)
        assert await journal.load('f') == [*first(), *steps(2), *other]
        assert seqs(await journal.load('f', after=1)) == [2, 3]
        assert await journal.load('f', after=2) == other
        assert seqs(await journal.load('f', upto=2)) == [1, 2]
        assert seqs(await journal.load('r')) == [1, 2, 3, 4]
        with raises(RunLocked):
            await journal.acquire('f', owner='me', ttl=TTL)

    @check
    async def test_a_fork_is_a_run_of_its_own(self, journal: Journal) -> None:
        await journal.create('r', first('agent') + last(2), owner='me', ttl=TTL)
        await journal.fork('r', 'early', at=1, owner='me', ttl=TTL)
        await journal.fork('r', 'late', at=2, owner='me', ttl=TTL)
        early, late = await journal.info('early'), await journal.info('late')
        assert (early.agent, early.status, early.last_seq, early.forked_from) == ('agent', 'running', 1, ('r', 1))
        assert (late.status, late.last_seq, late.forked_from) == ('completed', 2, ('r', 2))
        assert early.created == early.updated
        assert [run.run_id for run in await journal.runs()] == ['late', 'early', 'r']
        with raises(JournalConflict):
            await journal.append('early', steps(1), epoch=1)

    @check
    async def test_where_a_fork_cannot_be_made(self, journal: Journal) -> None:
        await journal.create('r', first() + steps(2), owner='me', ttl=TTL)
        for at in (0, 3, -1):
            with raises(JournalError):
                await journal.fork('r', 'f', at=at, owner='me', ttl=TTL)
        with raises(RunExists):
            await journal.fork('r', 'r', at=1, owner='me', ttl=TTL)
        with raises(JournalError):
            await journal.fork('r', '', at=1, owner='me', ttl=TTL)
        assert [run.run_id for run in await journal.runs()] == ['r']

    @check
    async def test_forks_of_forks(self, journal: Journal) -> None:
        await journal.create('a', first() + steps(2, 3), owner='me', ttl=TTL)
        b = await journal.fork('a', 'b', at=3, owner='me', ttl=TTL)
        await journal.append('b', steps(4, 5), epoch=b.epoch)
        c = await journal.fork('b', 'c', at=4, owner='me', ttl=TTL)
        await journal.append('c', steps(5, 6), epoch=c.epoch)
        await journal.fork('c', 'd', at=2, owner='me', ttl=TTL)
        assert seqs(await journal.load('c')) == [1, 2, 3, 4, 5, 6]
        assert seqs(await journal.load('c', after=2, upto=5)) == [3, 4, 5]
        assert seqs(await journal.load('d')) == [1, 2]
        assert (await journal.info('d')).forked_from == ('c', 2)

    @check
    async def test_a_deleted_run_is_gone(self, journal: Journal) -> None:
        lease = await journal.create('r', first() + steps(2), owner='me', ttl=TTL)
        await journal.delete('r')
        for call in (journal.load('r'), journal.info('r'), journal.append('r', steps(3), epoch=lease.epoch)):
            with raises(UnknownRun):
                await call
        assert await journal.runs() == []
        await journal.release(lease)
        await journal.create('r', first(), owner='me', ttl=TTL)
        assert seqs(await journal.load('r')) == [1]

    @check
    async def test_deleting_keeps_what_forks_need(self, journal: Journal) -> None:
        await journal.create('a', first() + steps(2, 3, 4), owner='me', ttl=TTL)
        b = await journal.fork('a', 'b', at=3, owner='me', ttl=TTL)
        await journal.append('b', steps(4, 5), epoch=b.epoch)
        await journal.fork('b', 'c', at=4, owner='me', ttl=TTL)
        await journal.fork('a', 'd', at=2, owner='me', ttl=TTL)
        await journal.delete('a')
        with raises(UnknownRun):
            await journal.load('a')
        with raises(UnknownRun):
            await journal.fork('a', 'e', at=1, owner='me', ttl=TTL)
        await journal.create('a', first('another'), owner='me', ttl=TTL)
        assert seqs(await journal.load('b')) == [1, 2, 3, 4, 5]
        await journal.delete('b')
        assert seqs(await journal.load('c')) == [1, 2, 3, 4]
        assert seqs(await journal.load('d')) == [1, 2]
        await journal.delete('c')
        assert seqs(await journal.load('d')) == [1, 2]
        await journal.delete('d')
        assert [run.run_id for run in await journal.runs()] == ['a']

    @check
    async def test_deleting_takes_what_is_inside_a_run_and_nothing_else(self, journal: Journal) -> None:
        around = {'a:c:1': 'a', 'a:c:1:d:1': 'a:c:1', 'a:b': None, 'a:b:c:1': 'a:b', 'ab': None}
        await journal.create('a', first(), owner='me', ttl=TTL)
        for run_id, parent in around.items():
            began = Started('agent', parent=None if parent is None else Parent(parent, 'c'))
            await journal.create(run_id, [Record(1, 1_000.0, began)], owner='me', ttl=TTL)
        await journal.delete('a')
        assert sorted(run.run_id for run in await journal.runs()) == ['a:b', 'a:b:c:1', 'ab']


class FollowTests(JournalTest):
    """`follow` misses and repeats nothing, and may be dropped at any time."""

    @check
    async def test_following_an_ended_run_ends(self, journal: Journal) -> None:
        await journal.create('r', first() + steps(2) + last(3), owner='me', ttl=TTL)
        assert seqs(await soon(collect(journal.follow('r')))) == [1, 2, 3]
        assert seqs(await soon(collect(journal.follow('r', after=2)))) == [3]
        assert await soon(collect(journal.follow('r', after=3))) == []

    @check
    async def test_following_goes_on_through_a_pause(self, journal: Journal) -> None:
        lease = await journal.create('r', first() + pause(2), owner='me', ttl=TTL)
        reader = asyncio.create_task(collect(journal.follow('r')))
        await asyncio.sleep(0.01)
        await journal.append('r', last(3), epoch=lease.epoch)
        assert seqs(await soon(reader)) == [1, 2, 3]

    @check
    async def test_following_sees_each_record_once(self, journal: Journal) -> None:
        lease = await journal.create('r', first(), owner='me', ttl=TTL)
        readers = [asyncio.create_task(collect(journal.follow('r', after=n))) for n in (0, 0, 1)]
        for n in range(2, 40):
            await journal.append('r', steps(n), epoch=lease.epoch)
            if n % 7 == 0:
                await asyncio.sleep(0.01)
        await journal.append('r', last(40), epoch=lease.epoch)
        found = [seqs(await soon(reader)) for reader in readers]
        assert found == [list(range(1, 41)), list(range(1, 41)), list(range(2, 41))]

    @check
    async def test_a_follower_may_be_dropped_and_taken_up_again(self, journal: Journal) -> None:
        lease = await journal.create('r', first() + steps(2), owner='me', ttl=TTL)
        follower = journal.follow('r')
        assert (await anext(follower)).seq == 1
        del follower
        again = journal.follow('r', after=1)
        assert (await anext(again)).seq == 2
        waiting = asyncio.ensure_future(anext(again))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        await journal.append('r', steps(3), epoch=lease.epoch)
        assert (await soon(anext(again))).seq == 3

    @check
    async def test_following_a_fork_begins_with_what_it_shares(self, journal: Journal) -> None:
        await journal.create('r', first() + last(2), owner='me', ttl=TTL)
        lease = await journal.fork('r', 'f', at=2, owner='me', ttl=TTL)
        await journal.append('f', steps(3), epoch=lease.epoch)
        reader = asyncio.create_task(collect(journal.follow('f')))
        await asyncio.sleep(0.01)
        await journal.append('f', last(4), epoch=lease.epoch)
        assert seqs(await soon(reader)) == [1, 2, 3, 4]

    @check
    async def test_following_a_run_that_is_deleted(self, journal: Journal) -> None:
        await journal.create('r', first(), owner='me', ttl=TTL)
        follower = journal.follow('r')
        await anext(follower)
        waiting = asyncio.ensure_future(anext(follower))
        await asyncio.sleep(0.01)
        await journal.delete('r')
        with raises(UnknownRun):
            await soon(waiting)

    def test_following_from_another_thread(self) -> None:
        async def main() -> None:
            journal = self.make()
            lease = await journal.create('r', first(), owner='me', ttl=TTL)
            found: list[Record] = []
            begun = Event()

            async def follow() -> None:
                async for record in journal.follow('r'):
                    found.append(record)
                    begun.set()

            reader = Thread(target=asyncio.run, args=(soon(follow()),))
            reader.start()
            await asyncio.to_thread(begun.wait, 20)
            for n in range(2, 6):
                await asyncio.sleep(0.02)  # the follower has read all and waits
                await journal.append('r', steps(n), epoch=lease.epoch)
            await journal.append('r', last(6), epoch=lease.epoch)
            await asyncio.to_thread(reader.join, 10)
            assert seqs(found) == [1, 2, 3, 4, 5, 6]
            await journal.aclose()

        asyncio.run(main())
