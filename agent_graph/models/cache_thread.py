"""The thread in which a cache's file is used, so that no event loop waits for the disk."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from agent_graph.models.cache_file import CacheFile

__all__ = ['CacheThread']

T = TypeVar('T')


class _Job:
    """One thing to do, and where its result goes."""

    __slots__ = ('future', 'loop', 'work')

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def do(self) -> None:
        result, error = None, None
        try:
            result = self.work()
        except Exception as failure:  # whatever it is, whoever waits must hear of it
            error = failure
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: Exception | None) -> None:
        if self.future.done():  # whoever waited was cancelled
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


_Jobs: TypeAlias = SimpleQueue[_Job | None]
"""`None` ends the thread."""


class CacheThread:
    """Does one thing after the other with a file, for any event loop. It begins with the first of them."""

    def __init__(self, file: CacheFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._jobs: _Jobs | None = None
        self._pid = os.getpid()

    async def run(self, work: Callable[[], T]) -> T:
        """Do something with the file. It is done to its end even if whoever waits is cancelled."""
        job = _Job(work)
        if self._pid != os.getpid():
            self._after_fork()
        with self._lock:
            if self._jobs is None:
                self._jobs = SimpleQueue()
                # The thread must not hold this object: a cache that is dropped without being closed ends it.
                threading.Thread(
                    target=_serve, args=(self._jobs, self._file), name='agent-graph-cache', daemon=True
                ).start()
            self._jobs.put(job)
        return await job.future

    async def close(self) -> None:
        """Close the file and end the thread; the next thing to do begins another one."""
        await self.run(self._file.close)
        with self._lock:
            self.drop()

    def drop(self) -> None:
        """The cache is gone. Takes no lock, as the collector may call this in the middle of anything."""
        jobs, self._jobs = self._jobs, None
        if jobs is not None and self._pid == os.getpid():
            jobs.put(None)

    def _after_fork(self) -> None:
        """Neither threads nor locks nor connections are of any use in a child."""
        self._lock = threading.Lock()
        self._jobs = None
        self._pid = os.getpid()
        self._file.after_fork()


def _serve(jobs: _Jobs, file: CacheFile) -> None:
    while (job := jobs.get()) is not None:
        job.do()
        del job  # or the last result would live as long as the next wait
    file.close()
