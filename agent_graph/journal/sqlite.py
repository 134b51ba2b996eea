"""A journal in one SQLite file: runs that survive their process, shared between threads, loops and processes."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeVar

from agent_graph.errors import ConfigError
from agent_graph.journal import Lease
from agent_graph.journal.checks import (
    agent_of,
    check_id,
    check_limit,
    check_new,
    check_order,
    closed,
    parent_of,
    status_of,
)
from agent_graph.journal.entries import Record, RunInfo, RunStatus
from agent_graph.journal.follow import Follower, Watchers

if TYPE_CHECKING:
    import asyncio
    import sqlite3

    from agent_graph.journal.batch import Append, Encoded, Write
    from agent_graph.journal.entries import Entry
    from agent_graph.journal.sessions import Call
    from agent_graph.journal.worker import Job, Worker

__all__ = ['SQLiteJournal']

T = TypeVar('T')

_POLL = (0.02, 0.25)
"""Other processes cannot wake a follower: seconds between two looks, at first and at most."""


class _Crew(NamedTuple):
    """The two threads of a journal in one process, and what a write is made of: modules that are loaded with them."""

    writer: Worker[Call | Write]
    reader: Worker[Call]
    job: type[Job[Any]]
    append: type[Append]
    record: type[Encoded]
    encode: Callable[[Entry], bytes]


class SQLiteJournal:
    """Keeps runs in the SQLite file `path`, made at first use; fulfils the `Journal` contract.

    One thread writes. All writes that are waiting while it commits go into its next transaction, so many runs at once
    cost one disk flush together. Reads have a connection of their own and neither wait for writers nor hold them up.
    Any number of journals, in any number of processes on one machine, may share a file on a local disk.

    `synchronous='FULL'` (the default) flushes every commit to the disk: what `append` returned from survives a power
    cut. `'NORMAL'` flushes now and then: it survives the death of the process, but a power cut may take the last
    moments' entries, never older ones, and never half of one. `timeout` is how many seconds to wait while another
    process holds the file. `lease` is how many seconds a run stays reserved for a driver that gives no sign of life, before
    a process on another machine may take it over; a living driver renews it several times as often.

    A caller cancelled while it waits for a write does not stop it: it is committed or refused as a whole, as if the
    caller had waited. `os.fork()` waits until what is being written is committed; parent and child may both go on
    using the journal, each with connections of its own. Values whose JSON is longer than 64 KB are kept once, however many entries hold them.

    Raises `JournalUnavailable` when the file cannot be used: full disk, read-only, locked beyond `timeout`, damaged,
    of a newer format, or closed.
    """

    batches = True
    """A commit costs enough that an entry may wait for the one that follows it at once."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal['FULL', 'NORMAL'] = 'FULL',
        timeout: float = 10.0,
        lease: float = 60.0,
    ) -> None:
        if synchronous not in ('FULL', 'NORMAL'):
            raise ConfigError(f"synchronous is {synchronous!r}; pass 'FULL' (the default) or 'NORMAL'")
        if not lease >= 1:
            raise ConfigError(f'lease={lease!r} is too short to be renewed in time; pass seconds from 1 on')
        if not os.fspath(path) or os.fspath(path) == ':memory:':
            raise ConfigError(
                f'a SQLite journal needs a file, got {os.fspath(path)!r}; for one in memory use MemoryJournal()'
            )
        # A text, and pathlib only later: it brings five modules along, and this module is always imported.
        self.path = os.path.abspath(path)  # noqa: PTH100
        self._synchronous = synchronous
        self._timeout = timeout
        self.lease_seconds = lease
        self._watchers = Watchers()
        self._closed = False
        self._lock = threading.Lock()
        self._crew: _Crew | None = None

    async def create(self, run_id: str, records: Sequence[Record], *, owner: str, ttl: float) -> Lease:
        from agent_graph.journal.batch import Create

        check_new(run_id, records)
        start, status = records[0].entry, status_of(records[-1].entry)
        new = Create(run_id, self._encode(records), status, agent_of(start), parent_of(start), owner, ttl)
        return await self._write(new)

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        if records:
            check_order(run_id, records, records[0].seq)
        status = status_of(records[-1].entry) if records else 'running'
        more = self._hands().append(run_id, self._encode(records), status, epoch)
        await self._write(more, news=run_id)

    async def load(self, run_id: str, *, after: int = 0, upto: int | None = None) -> list[Record]:
        from agent_graph.journal import rows

        return await self._read(partial(rows.load, run_id=run_id, after=after, upto=upto))

    async def info(self, run_id: str) -> RunInfo:
        from agent_graph.journal import rows

        return await self._read(partial(rows.info, run_id=run_id))

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        from agent_graph.journal import rows

        check_limit(limit)
        filters = {'status': status, 'agent': agent, 'since': since}
        return await self._read(partial(rows.list_runs, filters=filters, limit=limit))

    async def delete(self, run_id: str) -> None:
        from agent_graph.journal import rows

        await self._write(partial(rows.delete, run_id=run_id), news=run_id)

    async def fork(self, run_id: str, new_run_id: str, *, at: int, owner: str, ttl: float) -> Lease:
        from agent_graph.journal import rows

        check_id(new_run_id)
        work = partial(rows.fork, run_id=run_id, new_run_id=new_run_id, at=at, owner=owner, ttl=ttl)
        return await self._write(work)

    async def acquire(self, run_id: str, *, owner: str, ttl: float, over: str | None = None) -> Lease:
        from agent_graph.journal import rows

        return await self._write(partial(rows.acquire, run_id=run_id, owner=owner, ttl=ttl, over=over))

    async def renew(self, lease: Lease, *, ttl: float) -> Lease:
        from agent_graph.journal.batch import Renew

        return await self._write(Renew(lease, ttl))

    async def release(self, lease: Lease) -> None:
        from agent_graph.journal import rows

        await self._write(partial(rows.release, lease=lease))

    def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[Record]:
        async def fetch(seen: int) -> tuple[list[Record], bool]:
            from agent_graph.journal import rows

            return await self._read(partial(rows.news, run_id=run_id, after=seen))

        return Follower(run_id, after, fetch, self._watchers, _POLL)

    async def vacuum(self) -> None:
        """Give the disk space of deleted runs back. Writes wait meanwhile; it needs as much free space as is in use."""
        from agent_graph.journal import rows

        await self._write(rows.vacuum, alone=True)

    async def aclose(self) -> None:
        self._closed = True
        crew = self._crew
        if crew is not None:
            _dismiss(crew)
            await crew.reader.ended()
            await crew.writer.ended()
        self._watchers.wake_all()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f'SQLiteJournal({self.path!r})'

    def _write(self, work: Call | Write, *, alone: bool = False, news: str | None = None) -> asyncio.Future[Any]:
        hands = self._hands()
        job = hands.job(work, alone=alone, news=news)
        if not hands.writer.send(job):
            raise closed(self)
        return job.future

    def _encode(self, records: Sequence[Record]) -> list[Encoded]:
        # Here and not in the writer's thread: it is busy with the disk, and a value that cannot be stored is the caller's.
        hands = self._hands()
        encode, made = hands.encode, hands.record
        return [made(record.seq, record.time, encode(record.entry)) for record in records]

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        hands = self._hands()
        job: Job[Call] = hands.job(work)
        if not hands.reader.send(job):
            raise closed(self)
        return await job.future

    def before_fork(self) -> None:
        """Finish what is being written and close the file; called by `os.fork()` itself."""
        self._lock.acquire()
        if self._crew is not None:
            self._crew.writer.before_fork()
            self._crew.reader.before_fork()
        self._watchers.before_fork()

    def after_fork(self, *, in_child: bool) -> None:
        """Go on, in the parent and in the child; called by `os.fork()` itself."""
        self._watchers.after_fork(in_child=in_child)
        if self._crew is not None:
            self._crew.reader.after_fork(in_child=in_child)
            self._crew.writer.after_fork(in_child=in_child)
        self._lock.release()

    def _hands(self) -> _Crew:
        if self._closed:
            raise closed(self)
        if self._crew is None:
            with self._lock:
                self._crew = self._crew or self._hire()
        return self._crew

    def _hire(self) -> _Crew:
        from pathlib import Path

        from agent_graph.journal.batch import Append, Encoded
        from agent_graph.journal.codec import encode
        from agent_graph.journal.database import Database
        from agent_graph.journal.forking import take_part_in_forks
        from agent_graph.journal.sessions import ReadSession, WriteSession
        from agent_graph.journal.worker import Job, Worker

        take_part_in_forks(self)
        file = Path(self.path)
        database = Database(file, self._synchronous, self._timeout)
        name = f'journal {file.name}'
        crew = _Crew(
            Worker(f'{name}, writing', partial(WriteSession, database), self._watchers.tell, patient=True),
            Worker(f'{name}, reading', partial(ReadSession, database)),
            Job,
            Append,
            Encoded,
            encode,
        )
        weakref.finalize(self, _dismiss, crew)
        return crew


def _dismiss(crew: _Crew) -> None:
    """End the threads of a journal, also of one that was dropped without being closed; what was sent is still written."""
    crew.reader.stop()
    crew.writer.stop()
