"""Where a process may be killed: places the code passes, counted, and a journal that has three at every write.

A place is reached by calling `Points.reach` in the models and tools of a scenario, and in a `Journal` of the tests' own
around the real one. Where calls run in parallel the order of places may differ a little from run to run; "the third
write" is the third write all the same.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agent_graph.journal import Journal, Lease, Record, RunInfo, RunStatus

__all__ = ['AFTER_WRITE', 'AT_MODEL', 'BEFORE_WRITE', 'DURING_WRITE', 'IN_TOOL', 'MarkedJournal', 'Points']

T = TypeVar('T')

BEFORE_WRITE = 'before a write'
DURING_WRITE = 'during a write'
AFTER_WRITE = 'after a write'
IN_TOOL = 'in a tool'
AT_MODEL = 'at the model'


@dataclass
class Points:
    """Counts the places a process passes, and sends it `signal` at the one numbered `at` (from 1).

    With `of`, only places whose names begin like this are numbered. The names are in `passed`; the last one is left in
    the file `deaths`, which outlives the process.
    """

    at: int | None = None
    of: str = ''
    signal: int = signal.SIGKILL
    deaths: Path | None = None
    passed: list[str] = field(default_factory=list[str])
    _numbered: int = 0
    _here: str = ''
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, phase: str, what: str) -> None:
        """Come to a place, and perhaps no further."""
        if self.is_last(phase, what):
            self.strike()

    def is_last(self, phase: str, what: str) -> bool:
        """Count a place; true if it is the one to stop at."""
        with self._lock:  # sync tools come here from their threads
            self.passed.append(f'{phase}: {what}')
            self._numbered += self.passed[-1].startswith(self.of)
            if self._numbered != self.at or not self.passed[-1].startswith(self.of):
                return False
            self._here = self.passed[-1]
            return True

    def strike(self) -> None:
        """Say where, and be killed or stopped here."""
        if self.deaths is not None:
            with self.deaths.open('a') as file:
                file.write(f'{self._here}\n')
        os.kill(os.getpid(), self.signal)
        while self.signal == signal.SIGKILL:
            time.sleep(1)


class MarkedJournal:
    """A journal that passes everything on to another one, with places before, during and after every write.

    To die during a write, the write is begun and the process dies `delay` seconds later, written or not. With `ttl`
    every lease is given for so many seconds, whatever was asked for.
    """

    def __init__(self, inner: Journal, points: Points, *, delay: float = 0.0, ttl: float | None = None) -> None:
        self.inner = inner
        self.points = points
        self.delay = delay
        self.ttl = ttl
        self.loads = 0
        self.batches = getattr(inner, 'batches', False)

    async def _write(self, what: str, work: Awaitable[T]) -> T:
        self.points.reach(BEFORE_WRITE, what)
        task = asyncio.ensure_future(work)
        if self.points.is_last(DURING_WRITE, what):
            await asyncio.wait({task}, timeout=self.delay)
            self.points.strike()
        done = await task
        self.points.reach(AFTER_WRITE, what)
        return done

    def _ttl(self, ttl: float) -> float:
        return ttl if self.ttl is None else self.ttl

    async def create(self, run_id: str, records: Sequence[Record], *, owner: str, ttl: float) -> Lease:
        work = self.inner.create(run_id, records, owner=owner, ttl=self._ttl(ttl))
        return await self._write('create', work)

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        what = ' '.join(type(record.entry).__name__ for record in reversed(records))  # named for the newest
        await self._write(what, self.inner.append(run_id, records, epoch=epoch))

    async def acquire(self, run_id: str, *, owner: str, ttl: float, over: str | None = None) -> Lease:
        work = self.inner.acquire(run_id, owner=owner, ttl=self._ttl(ttl), over=over)
        return await self._write('acquire', work)

    async def renew(self, lease: Lease, *, ttl: float) -> Lease:
        return await self._write('renew', self.inner.renew(lease, ttl=self._ttl(ttl)))

    async def release(self, lease: Lease) -> None:
        await self._write('release', self.inner.release(lease))

    async def fork(self, run_id: str, new_run_id: str, *, at: int, owner: str, ttl: float) -> Lease:
        work = self.inner.fork(run_id, new_run_id, at=at, owner=owner, ttl=self._ttl(ttl))
        return await self._write('fork', work)

    async def delete(self, run_id: str) -> None:
        await self._write('delete', self.inner.delete(run_id))

    async def load(self, run_id: str, *, after: int = 0, upto: int | None = None) -> list[Record]:
        self.loads += 1
        return await self.inner.load(run_id, after=after, upto=upto)

    async def info(self, run_id: str) -> RunInfo:
        return await self.inner.info(run_id)

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        return await self.inner.runs(status=status, agent=agent, since=since, limit=limit)

    def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[Record]:
        return self.inner.follow(run_id, after=after)

    async def aclose(self) -> None:
        await self.inner.aclose()
