"""Following a run while it is written: an iterator that reads, and waits to be woken when there is nothing to read."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from agent_graph.journal.entries import Record

__all__ = ['Bell', 'Fetch', 'Follower', 'Watchers']

Fetch = Callable[[int], Awaitable[tuple[list[Record], bool]]]
"""Given a seq: some or all records after it, in order, and whether these are the last of a run that has ended."""


class Bell:
    """Something to wait on in one event loop that any thread can ring."""

    __slots__ = ('_loop', '_rung')

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, timeout: float | None) -> None:
        timer = None if timeout is None else self._loop.call_later(timeout, self._rung.set)
        try:
            await self._rung.wait()
        finally:
            if timer is not None:
                timer.cancel()


class Watchers:
    """Who waits for news of which run. `runs` may be looked into without a lock: most runs have no watcher."""

    def __init__(self) -> None:
        self.runs: dict[str, set[Bell]] = {}
        self._lock = threading.Lock()

    def listen(self, run_id: str) -> Bell:
        """A bell that rings at the next news; give it back with `leave`."""
        bell = Bell()
        with self._lock:
            self.runs.setdefault(run_id, set()).add(bell)
        return bell

    def leave(self, run_id: str, bell: Bell) -> None:
        with self._lock:
            bells = self.runs.get(run_id)
            if bells is not None:
                bells.discard(bell)
                if not bells:
                    del self.runs[run_id]

    def tell(self, run_id: str) -> None:
        """`wake`, for runs that are likely to have no watcher."""
        if run_id in self.runs:
            self.wake(run_id)

    def wake(self, run_id: str) -> None:
        """Ring for everyone who watches this run; from any thread."""
        with self._lock:
            bells = tuple(self.runs.get(run_id, ()))
        for bell in bells:
            bell.ring()

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self.runs.clear()  # they wait in loops of the parent
        self._lock.release()

    def wake_all(self) -> None:
        for run_id in tuple(self.runs):
            self.wake(run_id)


class Follower:
    """The records of one run, as they come. It holds nothing open between two records, so it may simply be dropped.

    `poll` is the shortest and the longest time in seconds to wait before looking again without being woken (the wait
    doubles while nothing happens); `None` where every writer wakes.
    """

    def __init__(
        self, run_id: str, after: int, fetch: Fetch, watchers: Watchers, poll: tuple[float, float] | None = None
    ) -> None:
        self._run_id = run_id
        self._after = after
        self._fetch = fetch
        self._watchers = watchers
        self._poll = poll
        self._ready: deque[Record] = deque()
        self._ended = False
        self._reading = False

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Record:
        if not self._ready and not self._ended:
            if self._reading:
                raise RuntimeError("another task is waiting for this run's next record; give each its own follow()")
            self._reading = True
            try:
                await self._read()
            finally:
                self._reading = False
        if self._ready:
            return self._ready.popleft()
        raise StopAsyncIteration

    async def _read(self) -> None:
        pause = self._poll[0] if self._poll else None
        while not self._ready and not self._ended:
            # Listening begins before reading, so that what is written in between rings the bell.
            bell = self._watchers.listen(self._run_id)
            try:
                records, self._ended = await self._fetch(self._after)
                if records:
                    self._after = records[-1].seq
                    self._ready.extend(records)
                elif not self._ended:
                    await bell.wait(pause)
            finally:
                self._watchers.leave(self._run_id, bell)
            if pause is not None and self._poll:
                pause = min(pause * 2, self._poll[1])
