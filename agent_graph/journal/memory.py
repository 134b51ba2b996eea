"""A journal in memory: the whole contract without a disk, for tests and for runs that need not outlive their process."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

from agent_graph.journal import Lease
from agent_graph.journal.checks import (
    agent_of,
    check_id,
    check_limit,
    check_new,
    closed,
    is_over,
    locked,
    misplaced,
    no_record,
    parent_of,
    stale,
    status_of,
    taken,
    unknown,
    with_inside,
)
from agent_graph.journal.entries import Record, RunInfo, RunStatus
from agent_graph.journal.follow import Follower, Watchers

__all__ = ['MemoryJournal']


class _Run:
    """One run. `records` are its own; up to `base_seq` it shares those of `base`."""

    __slots__ = (
        'base',
        'base_seq',
        'created',
        'deleted',
        'epoch',
        'expires',
        'forked_from',
        'forks',
        'last',
        'owner',
        'records',
        'run_id',
    )

    def __init__(self, run_id: str, records: list[Record], created: float, owner: str, expires: float) -> None:
        self.run_id = run_id
        self.records = records
        self.last = len(records)
        self.created = created
        self.owner = owner
        self.expires = expires
        self.epoch = 1
        self.base: _Run | None = None
        self.base_seq = 0
        self.forked_from: tuple[str, int] | None = None
        self.forks: set[_Run] | None = None
        self.deleted = False

    def read(self, after: int, upto: int | None) -> list[Record]:
        """The records with `after < seq <= upto`, those of the runs it was forked from included."""
        pieces: list[list[Record]] = []
        run: _Run | None = self
        top = self.last if upto is None else min(upto, self.last)
        while run is not None and top > after:
            start = max(after, run.base_seq)
            pieces.append(run.records[start - run.base_seq : max(top - run.base_seq, 0)])
            top = min(top, run.base_seq)
            run = run.base
        return [record for piece in reversed(pieces) for record in piece]

    def newest(self) -> Record:
        return self.records[-1] if self.records else self.read(self.last - 1, None)[0]

    def parent(self) -> str | None:
        parent = parent_of(self.read(0, 1)[0].entry)
        return None if parent is None else parent.run_id

    def info(self) -> RunInfo:
        first = self.records[0] if self.base is None else self.read(0, 1)[0]
        newest = self.newest()
        return RunInfo(
            run_id=self.run_id,
            agent=agent_of(first.entry),
            status=status_of(newest.entry),
            created=self.created,
            updated=newest.time if self.records else self.created,
            last_seq=self.last,
            parent=parent_of(first.entry),
            forked_from=self.forked_from,
            owner=self.owner,
            expires=self.expires,
        )


class MemoryJournal:
    """Keeps runs in this process until they are deleted or the journal itself is dropped.

    Fulfils the `Journal` contract for all tasks, threads and event loops of one process. Entries are kept as the
    objects they are, never copied or encoded: what could not be stored on disk is not found out here.
    """

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self._watchers = Watchers()
        self._closed = False

    async def create(self, run_id: str, records: Sequence[Record], *, owner: str, ttl: float) -> Lease:
        check_new(run_id, records)
        expires = time.time() + ttl
        run = _Run(run_id, list(records), records[0].time, owner, expires)
        with self._lock:
            self._add(run)
        return Lease(run_id, owner, 1, expires)

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        # The hot path of a run in memory: it calls as little as it can and never awaits.
        with self._lock:
            try:
                run = self._runs[run_id]
            except KeyError:
                self._refuse(run_id)
            if run.epoch != epoch:
                raise stale(run_id, epoch, run.epoch)
            last = run.last
            for record in records:
                last += 1
                if record.seq != last:
                    raise misplaced(run_id, record.seq, last)
            run.records += records
            run.last = last
        if run_id in self._watchers.runs:
            self._watchers.wake(run_id)

    async def load(self, run_id: str, *, after: int = 0, upto: int | None = None) -> list[Record]:
        with self._lock:
            return self._run(run_id).read(after, upto)

    async def info(self, run_id: str) -> RunInfo:
        with self._lock:
            return self._run(run_id).info()

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        check_limit(limit)
        with self._lock:
            self._check_open()
            infos = [run.info() for run in self._runs.values()]
        infos.reverse()
        infos.sort(key=lambda info: info.created, reverse=True)  # stable: of equal times the later made comes first
        found = [
            info
            for info in infos
            if (status is None or info.status == status)
            and (agent is None or info.agent == agent)
            and (since is None or info.created >= since)
        ]
        return found[:limit]

    async def delete(self, run_id: str) -> None:
        with self._lock:
            self._run(run_id)  # raises if there is none
            prefix = f'{run_id}:'
            gone = with_inside(run_id, {r: run.parent() for r, run in self._runs.items() if r.startswith(prefix)})
            for name in gone:
                run = self._runs.pop(name)
                run.deleted = True
                _free(run)
        for name in gone:
            self._watchers.wake(name)

    async def fork(self, run_id: str, new_run_id: str, *, at: int, owner: str, ttl: float) -> Lease:
        check_id(new_run_id)
        now = time.time()
        new = _Run(new_run_id, [], now, owner, now + ttl)
        with self._lock:
            source = self._run(run_id)
            if not 1 <= at <= source.last:
                raise no_record(run_id, at, source.last)
            new.forked_from = (run_id, at)
            while source.base is not None and at <= source.base_seq:
                source = source.base
            new.base, new.base_seq, new.last = source, at, at
            self._add(new)
            if source.forks is None:
                source.forks = set()
            source.forks.add(new)
        return Lease(new_run_id, owner, 1, new.expires)

    async def acquire(self, run_id: str, *, owner: str, ttl: float, over: str | None = None) -> Lease:
        now = time.time()
        with self._lock:
            run = self._run(run_id)
            if run.owner not in (owner, over) and run.expires > now:
                raise locked(run_id, run.owner, run.expires, now)
            run.owner, run.expires = owner, now + ttl
            run.epoch += 1
            return Lease(run_id, owner, run.epoch, run.expires)

    async def renew(self, lease: Lease, *, ttl: float) -> Lease:
        with self._lock:
            run = self._run(lease.run_id)
            if run.epoch != lease.epoch:
                raise stale(lease.run_id, lease.epoch, run.epoch)
            run.expires = time.time() + ttl
            return Lease(run.run_id, lease.owner, lease.epoch, run.expires)

    async def release(self, lease: Lease) -> None:
        with self._lock:
            self._check_open()
            run = self._runs.get(lease.run_id)
            if run is not None and run.epoch == lease.epoch:
                run.expires = 0.0

    def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[Record]:
        async def fetch(seen: int) -> tuple[list[Record], bool]:
            with self._lock:
                run = self._run(run_id)
                return run.read(seen, None), is_over(status_of(run.newest().entry))

        return Follower(run_id, after, fetch, self._watchers)

    async def aclose(self) -> None:
        with self._lock:
            self._closed = True
            self._runs = {}
        self._watchers.wake_all()

    def __repr__(self) -> str:
        return 'MemoryJournal()'

    def _run(self, run_id: str) -> _Run:
        run = self._runs.get(run_id)
        if run is None:
            self._refuse(run_id)
        return run

    def _add(self, run: _Run) -> None:
        self._check_open()
        if self._runs.setdefault(run.run_id, run) is not run:
            raise taken(run.run_id)

    def _refuse(self, run_id: str) -> NoReturn:
        self._check_open()
        raise unknown(run_id)

    def _check_open(self) -> None:
        if self._closed:
            raise closed(self)


def _free(run: _Run | None) -> None:
    """Drop what a deleted run holds and no fork needs; then look whether its base was kept only for it."""
    while run is not None and run.deleted:
        if run.forks:
            keep = max(fork.base_seq for fork in run.forks)
            del run.records[keep - run.base_seq :]
            return
        run.records = []
        base, run.base = run.base, None
        if base is not None and base.forks is not None:
            base.forks.discard(run)
        run = base
