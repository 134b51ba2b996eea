"""Worker threads for synchronous functions: bounded, reused, and never in the way of the process's end.

`concurrent.futures.ThreadPoolExecutor` joins its threads when the interpreter exits, so one stuck tool would keep the
process alive for ever; Python cannot stop a thread. These threads are daemons. A call whose waiter has gone away before
a thread took it is never started.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

__all__ = ['MAX_THREADS', 'run_in_thread']

MAX_THREADS = 40
"""Threads of one process at most, for each depth of nesting; further calls wait for a free one (their timeout runs)."""

_Work = tuple['Future[Any]', Callable[[], Any]]


class _Threads:
    """A pool of daemon threads that grows while none is idle, up to its bound."""

    def __init__(self, bound: int, depth: int) -> None:
        self.bound = bound
        self.depth = depth
        self.work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.threads = 0
        self.free = 0
        self.backlog = 0

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self.lock:  # each piece of work is counted against a free thread, a new one, or the backlog, at once
            if self.free:
                self.free -= 1
            elif self.threads < self.bound:
                self.threads += 1
                threading.Thread(target=self._serve, name=f'agent-graph-tool-{self.threads}', daemon=True).start()
            else:
                self.backlog += 1
        self.work.put((future, function))
        return future

    def _serve(self) -> None:
        _here.depth = self.depth
        while True:
            future, function = self.work.get()
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except StopIteration as error:  # no future can carry one: it would end the coroutine that waits
                    future.set_exception(RuntimeError(f'the function raised StopIteration: {error.value!r}'))
                except BaseException as error:  # the waiter decides what an exception means, SystemExit included
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del future, function  # an idle thread keeps nothing of the last call alive
            with self.lock:
                if self.backlog:
                    self.backlog -= 1
                else:
                    self.free += 1


_pools: list[_Threads] = []
_here = threading.local()


def run_in_thread(function: Callable[[], Any]) -> asyncio.Future[Any]:
    """Start `function` in a worker thread; cancelling the future drops its result, not the function.

    A function that itself waits for worker threads (a sync tool that runs an agent with sync tools) finds them in a pool
    of its own depth, so a full pool never waits for itself.
    """
    depth = getattr(_here, 'depth', -1) + 1
    while len(_pools) <= depth:
        _pools.append(_Threads(MAX_THREADS, len(_pools)))
    return asyncio.wrap_future(_pools[depth].submit(function))
