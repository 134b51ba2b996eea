"""The contract of a `Journal` as tests that any store can be put under.

    from agent_graph.testing.journal_suite import DurableJournalSuite

    class TestMyJournal(DurableJournalSuite):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path):
            self.path = tmp_path / 'runs.db'

        def make(self):
            return MyJournal(self.path)

`JournalSuite` is for a store that lives in one process, `DurableJournalSuite` adds what must survive it. Nothing here
needs pytest or a plug-in: each test is a plain method that runs an event loop of its own. For detailed failures call
`pytest.register_assert_rewrite('agent_graph.testing.journal_suite')` before importing it.
"""

from __future__ import annotations

import asyncio
from functools import partial

from agent_graph.errors import (
    JournalConflict,
    JournalError,
    JournalUnavailable,
    RunExists,
    RunLocked,
    UnknownRun,
)
from agent_graph.journal import Ended, Journal, Lease, Parent, Record, Started
from agent_graph.testing.journal_kit import (
    TTL,
    JournalTest,
    check,
    collect,
    first,
    in_threads,
    last,
    pause,
    raises,
    sample_entries,
    sample_records,
    seqs,
    soon,
    steps,
)
from agent_graph.testing.journal_sharing import FollowTests, ForkTests

__all__ = [
    'DurableJournalSuite',
    'JournalSuite',
    'LeaseTests',
    'ListTests',
    'WriteTests',
    'sample_entries',
    'sample_records',
]


class WriteTests(JournalTest):
    """What is written is read; a write is whole or refused."""

    @check
    async def test_what_is_written_is_read(self, journal: Journal) -> None:
        records = sample_records()
        lease = await journal.create('r', records[:1], owner='me', ttl=TTL)
        assert (lease.run_id, lease.owner, lease.epoch >= 1) == ('r', 'me', True)
        await journal.append('r', records[1:3], epoch=lease.epoch)
        for record in records[3:]:
            await journal.append('r', [record], epoch=lease.epoch)
        assert await journal.load('r') == records

    @check
    async def test_create_takes_several_records(self, journal: Journal) -> None:
        await journal.create('r', sample_records(), owner='me', ttl=TTL)
        assert await journal.load('r') == sample_records()
        assert (await journal.info('r')).status == 'completed'

    @check
    async def test_load_takes_a_range(self, journal: Journal) -> None:
        await journal.create('r', first() + steps(2, 3, 4, 5), owner='me', ttl=TTL)
        assert seqs(await journal.load('r', after=2)) == [3, 4, 5]
        assert seqs(await journal.load('r', upto=2)) == [1, 2]
        assert seqs(await journal.load('r', after=1, upto=3)) == [2, 3]
        assert seqs(await journal.load('r', after=1, upto=99)) == [2, 3, 4, 5]
        assert await journal.load('r', after=5) == []
        assert await journal.load('r', after=3, upto=2) == []

    @check
    async def test_a_loaded_list_is_the_readers_own(self, journal: Journal) -> None:
        await journal.create('r', first(), owner='me', ttl=TTL)
        (await journal.load('r')).clear()
        assert seqs(await journal.load('r')) == [1]

    @check
    async def test_an_id_is_taken_once(self, journal: Journal) -> None:
        await journal.create('r', first(), owner='me', ttl=TTL)
        with raises(RunExists):
            await journal.create('r', first(), owner='me', ttl=TTL)

    @check
    async def test_a_run_begins_with_record_one(self, journal: Journal) -> None:
        with raises(JournalError):
            await journal.create('r', [], owner='me', ttl=TTL)
        with raises(JournalConflict):
            await journal.create('r', steps(2), owner='me', ttl=TTL)
        with raises(JournalConflict):
            await journal.create('r', first() + steps(3), owner='me', ttl=TTL)
        with raises(JournalError):
            await journal.create('', first(), owner='me', ttl=TTL)
        with raises(UnknownRun):
            await journal.load('r')

    @check
    async def test_only_the_next_position_is_taken(self, journal: Journal) -> None:
        lease = await journal.create('r', first(), owner='me', ttl=TTL)
        for wrong in (steps(1), steps(3), steps(0), steps(2, 4), steps(2, 2), steps(3, 2)):
            with raises(JournalConflict):
                await journal.append('r', wrong, epoch=lease.epoch)
        assert seqs(await journal.load('r')) == [1]
        await journal.append('r', steps(2, 3), epoch=lease.epoch)
        await journal.append('r', [], epoch=lease.epoch)
        assert seqs(await journal.load('r')) == [1, 2, 3]

    @check
    async def test_unknown_runs(self, journal: Journal) -> None:
        nobody = Lease('no', 'me', 1, 0.0)
        for call in (
            journal.append('no', steps(2), epoch=1),
            journal.load('no'),
            journal.info('no'),
            journal.delete('no'),
            journal.fork('no', 'new', at=1, owner='me', ttl=TTL),
            journal.acquire('no', owner='me', ttl=TTL),
            journal.renew(nobody, ttl=TTL),
            anext(journal.follow('no')),
        ):
            with raises(UnknownRun):
                await call
        await journal.release(nobody)

    @check
    async def test_many_runs_at_once(self, journal: Journal) -> None:
        async def one(name: str) -> None:
            lease = await journal.create(name, first(), owner=name, ttl=TTL)
            for n in range(2, 12):
                await journal.append(name, steps(n), epoch=lease.epoch)

        await asyncio.gather(*(one(f'r{n}') for n in range(40)))
        for n in range(40):
            assert seqs(await journal.load(f'r{n}')) == list(range(1, 12))

    @check
    async def test_a_refused_write_does_not_fail_its_neighbours(self, journal: Journal) -> None:
        leases = [await journal.create(f'r{n}', first(), owner='me', ttl=TTL) for n in range(20)]
        calls = [journal.append(x.run_id, steps(2), epoch=x.epoch + n % 2) for n, x in enumerate(leases)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for n, result in enumerate(results):
            assert isinstance(result, JournalConflict) if n % 2 else result is None
            assert seqs(await journal.load(f'r{n}')) == ([1] if n % 2 else [1, 2])

    @check
    async def test_a_cancelled_write_is_whole_or_not_there(self, journal: Journal) -> None:
        lease = await journal.create('r', first(), owner='me', ttl=TTL)
        write = asyncio.ensure_future(journal.append('r', steps(2, 3, 4), epoch=lease.epoch))
        await asyncio.sleep(0)
        write.cancel()
        await asyncio.wait([write])
        await journal.renew(lease, ttl=TTL)  # a later write comes after it, if it comes at all
        found = seqs(await journal.load('r'))
        assert found in ([1], [1, 2, 3, 4])
        await journal.append('r', steps(len(found) + 1), epoch=lease.epoch)
        assert seqs(await journal.load('r')) == [*found, len(found) + 1]

    def test_threads_and_loops_share_a_journal(self) -> None:
        async def main() -> None:
            journal = self.make()

            async def one(name: str) -> None:
                lease = await journal.create(name, first(), owner=name, ttl=TTL)
                for n in range(2, 22):
                    await journal.append(name, steps(n), epoch=lease.epoch)

            in_threads([partial(asyncio.run, one(f'r{n}')) for n in range(6)])
            for n in range(6):
                assert seqs(await journal.load(f'r{n}')) == list(range(1, 22))
            await journal.aclose()

        asyncio.run(main())

    def test_of_two_threads_at_one_position_one_wins(self) -> None:
        async def main() -> None:
            journal = self.make()
            lease = await journal.create('r', first(), owner='me', ttl=TTL)
            for n in range(2, 22):
                won: list[int] = []
                in_threads([partial(asyncio.run, attempt(journal, lease, n, won)) for _ in range(3)])
                assert won == [n]
            await journal.aclose()

        async def attempt(journal: Journal, lease: Lease, seq: int, won: list[int]) -> None:
            try:
                await journal.append('r', steps(seq), epoch=lease.epoch)
            except JournalConflict:
                return
            won.append(seq)

        asyncio.run(main())

    @check
    async def test_a_closed_journal_says_so(self, journal: Journal) -> None:
        lease = await journal.create('r', first(), owner='me', ttl=TTL)
        follower = journal.follow('r')
        await anext(follower)
        await journal.aclose()
        await journal.aclose()
        for call in (
            journal.create('s', first(), owner='me', ttl=TTL),
            journal.append('r', steps(2), epoch=lease.epoch),
            journal.load('r'),
            journal.info('r'),
            journal.runs(),
            journal.delete('r'),
            journal.fork('r', 'f', at=1, owner='me', ttl=TTL),
            journal.acquire('r', owner='me', ttl=TTL),
            journal.renew(lease, ttl=TTL),
            journal.release(lease),
            anext(follower),
        ):
            with raises(JournalUnavailable):
                await call


class ListTests(JournalTest):
    """What lists say of a run."""

    @check
    async def test_info_follows_the_run(self, journal: Journal) -> None:
        start = Started('agent', parent=Parent('outer', 'call'))
        lease = await journal.create('r', [Record(1, 1_000.5, start)], owner='me', ttl=TTL)
        info = await journal.info('r')
        assert (info.run_id, info.agent, info.status, info.last_seq) == ('r', 'agent', 'running', 1)
        assert (info.created, info.updated, info.parent, info.forked_from) == (1_000.5, 1_000.5, start.parent, None)
        await journal.append('r', steps(2, 3), epoch=lease.epoch)
        assert (await journal.info('r')).updated == 1_003.0
        await journal.append('r', [Record(4, 1_010.0, Ended('failed'))], epoch=lease.epoch)
        info = await journal.info('r')
        assert (info.status, info.last_seq, info.created, info.updated) == ('failed', 4, 1_000.5, 1_010.0)

    @check
    async def test_a_run_that_goes_on_after_its_end_is_running(self, journal: Journal) -> None:
        lease = await journal.create('r', first() + last(2), owner='me', ttl=TTL)
        await journal.append('r', steps(3), epoch=lease.epoch)
        assert (await journal.info('r')).status == 'running'

    @check
    async def test_a_paused_run(self, journal: Journal) -> None:
        lease = await journal.create('r', first() + pause(2), owner='me', ttl=TTL)
        assert (await journal.info('r')).status == 'paused'
        assert [run.run_id for run in await journal.runs(status='paused')] == ['r']
        await journal.append('r', steps(3), epoch=lease.epoch)
        assert await journal.runs(status='paused') == []

    @check
    async def test_who_drives_a_run_is_told_rightly_or_not_at_all(self, journal: Journal) -> None:
        lease = await journal.create('r', first(), owner='me', ttl=TTL)
        info = await journal.info('r')
        if info.owner is None:
            return
        assert (info.owner, info.expires) == ('me', lease.expires)
        await journal.release(lease)
        assert (await journal.info('r')).expires == 0
        lease = await journal.acquire('r', owner='you', ttl=TTL)
        (info,) = await journal.runs()
        assert (info.owner, info.expires) == ('you', lease.expires)

    @check
    async def test_runs_come_newest_first(self, journal: Journal) -> None:
        assert await journal.runs() == []
        for name, agent, time in (('a', 'x', 30.0), ('b', None, 10.0), ('c', 'x', 20.0), ('d', 'y', 30.0)):
            await journal.create(name, first(agent, time), owner='me', ttl=TTL)
        await journal.append('c', last(2), epoch=1)
        assert [run.run_id for run in await journal.runs()] == ['d', 'a', 'c', 'b']
        assert [run.run_id for run in await journal.runs(limit=2)] == ['d', 'a']
        assert [run.run_id for run in await journal.runs(agent='x')] == ['a', 'c']
        assert [run.run_id for run in await journal.runs(status='completed')] == ['c']
        assert [run.run_id for run in await journal.runs(status='running', since=20.0, limit=9)] == ['d', 'a']
        assert [run.run_id for run in await journal.runs(since=20.0)] == ['d', 'a', 'c']
        assert await journal.runs(limit=0) == []
        assert await journal.runs(agent="x' OR 1=1 --") == []
        assert (await journal.runs(limit=1))[0] == await journal.info('d')
        with raises(JournalError):
            await journal.runs(limit=-1)


class LeaseTests(JournalTest):
    """A run has one owner at a time, and the store itself refuses any other."""

    @check
    async def test_a_live_lease_locks_at_once(self, journal: Journal) -> None:
        lease = await journal.create('r', first(), owner='me', ttl=TTL)
        with raises(RunLocked) as found:
            await journal.acquire('r', owner='you', ttl=TTL)
        assert (found[0].owner, found[0].expires) == ('me', lease.expires)
        await journal.append('r', steps(2), epoch=lease.epoch)

    @check
    async def test_a_stale_owner_cannot_write(self, journal: Journal) -> None:
        old = await journal.create('r', first(), owner='me', ttl=0.0)
        new = await journal.acquire('r', owner='you', ttl=TTL)
        assert new.epoch > old.epoch
        with raises(JournalConflict):
            await journal.append('r', steps(2), epoch=old.epoch)
        with raises(JournalConflict):
            await journal.renew(old, ttl=TTL)
        await journal.release(old)
        with raises(RunLocked):
            await journal.acquire('r', owner='me', ttl=TTL)
        await journal.append('r', steps(2), epoch=new.epoch)
        assert seqs(await journal.load('r')) == [1, 2]

    @check
    async def test_a_lease_may_be_taken_over_from_a_named_owner(self, journal: Journal) -> None:
        old = await journal.create('r', first(), owner='me', ttl=TTL)
        with raises(RunLocked):
            await journal.acquire('r', owner='you', ttl=TTL, over='another')
        new = await journal.acquire('r', owner='you', ttl=TTL, over='me')
        assert (new.owner, new.epoch > old.epoch) == ('you', True)
        with raises(JournalConflict):
            await journal.append('r', steps(2), epoch=old.epoch)

    @check
    async def test_the_owner_may_take_the_run_again(self, journal: Journal) -> None:
        old = await journal.create('r', first(), owner='me', ttl=TTL)
        new = await journal.acquire('r', owner='me', ttl=TTL)
        assert new.epoch > old.epoch
        with raises(JournalConflict):
            await journal.append('r', steps(2), epoch=old.epoch)

    @check
    async def test_a_renewed_lease_lives_on(self, journal: Journal) -> None:
        lease = await journal.create('r', first(), owner='me', ttl=0.0)
        renewed = await journal.renew(lease, ttl=TTL)
        assert renewed.epoch == lease.epoch
        assert renewed.expires > lease.expires
        with raises(RunLocked):
            await journal.acquire('r', owner='you', ttl=TTL)
        await journal.append('r', steps(2), epoch=renewed.epoch)

    @check
    async def test_a_released_run_is_free_at_once(self, journal: Journal) -> None:
        lease = await journal.create('r', first(), owner='me', ttl=TTL)
        await journal.release(lease)
        new = await journal.acquire('r', owner='you', ttl=TTL)
        assert (new.owner, new.epoch > lease.epoch) == ('you', True)

    @check
    async def test_of_many_takers_one_gets_the_run(self, journal: Journal) -> None:
        await journal.create('r', first(), owner='me', ttl=0.0)
        takers = [journal.acquire('r', owner=f'taker {n}', ttl=TTL) for n in range(10)]
        results = await asyncio.gather(*takers, return_exceptions=True)
        assert sum(isinstance(result, Lease) for result in results) == 1
        assert sum(isinstance(result, RunLocked) for result in results) == 9


class JournalSuite(WriteTests, ListTests, LeaseTests, ForkTests, FollowTests):
    """The whole contract. Subclass it in a test file under a name beginning with `Test` and give `make`."""


class DurableJournalSuite(JournalSuite):
    """For stores that outlive their process. Called again within a test, `make` opens the same store again."""

    @check
    async def test_runs_survive_closing(self, journal: Journal) -> None:
        records = sample_records()
        lease = await journal.create('r', records[:4], owner='me', ttl=TTL)
        await journal.fork('r', 'f', at=2, owner='me', ttl=TTL)
        infos = await journal.runs()
        await journal.aclose()
        again = self.make()
        assert await again.load('r') == records[:4]
        assert await again.load('f') == records[:2]
        assert await again.runs() == infos
        with raises(RunLocked):
            await again.acquire('r', owner='you', ttl=TTL)
        await again.append('r', records[4:], epoch=lease.epoch)
        assert await again.load('r') == records
        await again.aclose()

    @check
    async def test_two_journals_on_one_store(self, journal: Journal) -> None:
        other = self.make()
        old = await journal.create('r', first(), owner='me', ttl=0.0)
        new = await other.acquire('r', owner='you', ttl=TTL)
        with raises(JournalConflict):
            await journal.append('r', steps(2), epoch=old.epoch)
        await other.append('r', steps(2), epoch=new.epoch)
        assert await journal.load('r') == await other.load('r')
        with raises(RunLocked):
            await journal.acquire('r', owner='me', ttl=TTL)
        await other.aclose()

    @check
    async def test_two_journals_write_at_once(self, journal: Journal) -> None:
        other = self.make()

        async def one(mine: Journal, name: str) -> None:
            lease = await mine.create(name, first(), owner=name, ttl=TTL)
            for n in range(2, 12):
                await mine.append(name, steps(n), epoch=lease.epoch)

        await asyncio.gather(*(one(mine, f'{n}{k}') for n in range(5) for k, mine in enumerate((journal, other))))
        for info in await journal.runs():
            assert seqs(await other.load(info.run_id)) == list(range(1, 12))
        await other.aclose()

    @check
    async def test_following_through_another_journal(self, journal: Journal) -> None:
        other = self.make()
        lease = await journal.create('r', first(), owner='me', ttl=TTL)
        reader = asyncio.create_task(collect(other.follow('r')))
        for n in range(2, 30):
            await journal.append('r', steps(n), epoch=lease.epoch)
            await asyncio.sleep(0.002)
        await journal.append('r', last(30), epoch=lease.epoch)
        assert seqs(await soon(reader)) == list(range(1, 31))
        await other.aclose()
