"""How events leave a run: nodes push them from ordinary coroutines, a reader takes them from a bounded queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agent_graph.events import RunEvent

__all__ = ['CAPACITY', 'EventQueue', 'Sink']

CAPACITY = 64
"""Events a reader may be behind before the run waits for it."""


class EventQueue:
    """A bounded queue of events with an end."""

    __slots__ = ('_ended', '_hurried', '_queue', 'closed')

    def __init__(self) -> None:
        self._queue: asyncio.Queue[RunEvent | None] = asyncio.Queue(CAPACITY)
        self._hurried = False
        self._ended = False
        self.closed = False

    async def put(self, event: RunEvent) -> None:
        """Hand over an event, waiting while the reader is behind; dropped once the reader has left."""
        if self._hurried:
            self._try_put(event)
        elif not self.closed:
            await self._queue.put(event)

    async def get(self) -> RunEvent | None:
        """The next event, or `None` at the end."""
        if self._ended and self._queue.empty():
            return None
        event = await self._queue.get()
        if event is None:
            self._put_end()  # for whoever else reads this queue
        return event

    async def end(self) -> None:
        """No more events will come."""
        self._ended = True
        if self._hurried:
            self._try_put(None)
        elif not self.closed:
            await self._queue.put(None)

    def hurry(self) -> None:
        """The work was cancelled: from now on nothing waits for the reader, who may be gone; what finds no room is lost."""
        self._hurried = True

    def _try_put(self, event: RunEvent | None) -> None:
        if not self.closed and not self._queue.full():
            self._queue.put_nowait(event)

    def close(self) -> None:
        """The reader has left: nobody waits for room any more."""
        self.closed = True
        while not self._queue.empty():
            self._queue.get_nowait()
        self._put_end()

    def _put_end(self) -> None:
        if not self._queue.full():
            self._queue.put_nowait(None)


class Sink:
    """Where one run's events go, with the fields all of them share."""

    __slots__ = ('node', 'now', 'path', 'queue', 'run_id', 'seq')

    def __init__(self, run_id: str, path: tuple[str, ...], now: Callable[[], float]) -> None:
        self.run_id = run_id
        self.path = path
        self.now = now
        self.node = ''
        self.seq = 0
        self.queue: EventQueue | None = None

    async def __call__(self, make: Any, **fields: Any) -> None:
        """Build an event of class `make` and hand it to the reader."""
        self.seq += 1
        queue = self.queue
        if queue is not None:
            await queue.put(
                make(run_id=self.run_id, seq=self.seq, node=self.node, path=self.path, time=self.now(), **fields)
            )
