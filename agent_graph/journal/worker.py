"""A thread that owns one session, such as a database connection, and performs jobs sent to it from any thread or loop.

All jobs that are waiting when the thread looks are performed together: this is where group commit comes from. A job
that was sent is performed whether or not its sender still waits, so a cancelled caller leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

__all__ = ['Halt', 'Job', 'Session', 'Worker']

MAX_GROUP = 1_000
"""At most so many jobs in one transaction, so that other processes get their turn."""

PATIENCE = 0.05
"""Seconds to wait at most for more of a group."""

FEW = 4
"""No more than so many jobs are not worth waiting for."""

W = TypeVar('W')


class Halt:
    """Behind the jobs in a queue: close the session. `last`: and end the thread."""

    __slots__ = ('done', 'last')

    def __init__(self, *, last: bool) -> None:
        self.last = last
        self.done = threading.Event()


class Job(Generic[W]):
    """One thing to do, in the form `W` that the session understands, and where its result goes.

    `alone` marks work that cannot share a transaction; `news` is the run its success is news of.
    """

    __slots__ = ('alone', 'error', 'future', 'loop', 'news', 'result', 'work')

    def __init__(self, work: W, *, alone: bool = False, news: str | None = None) -> None:
        self.work = work
        self.alone = alone
        self.news = news
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None

    def settle(self) -> None:
        """Tell the sender, in its own loop."""
        if self.future.done():  # the sender was cancelled
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Session(Protocol[W]):
    """An open connection as the worker uses it."""

    def perform(self, jobs: Sequence[Job[W]]) -> None:
        """Do the jobs in order and set each one's `result` or `error`; never raises."""
        ...

    def close(self) -> None: ...


class Worker(Generic[W]):
    """Sends jobs to a thread that is started by the first one and ends with `stop`.

    `open_session` runs in that thread, again after it failed. `on_done` is told of each successful job's `news`. A
    `patient` worker waits some milliseconds for those it has just served to come back, to serve them together again.
    """

    def __init__(
        self,
        name: str,
        open_session: Callable[[], Session[W]],
        on_done: Callable[[str], None] | None = None,
        *,
        patient: bool = False,
    ) -> None:
        self._name = name
        self._open_session = open_session
        self._on_done = on_done
        self._patient = patient
        self._queue: SimpleQueue[Job[W] | Halt] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def send(self, job: Job[W]) -> bool:
        """Queue a job; `False` if the worker has been stopped. Await `job.future` for the result."""
        with self._lock:
            if self._stopped:
                return False
            if self._thread is None:
                # The thread must not hold this object: a journal that is dropped without being closed ends it.
                arguments = (self._queue, self._open_session, self._on_done, self._patient)
                self._thread = threading.Thread(target=_serve, args=arguments, name=self._name, daemon=True)
                self._thread.start()
            self._queue.put(job)
        return True

    def stop(self) -> None:
        """Take no more jobs; the thread finishes those it has, closes its connection and ends. Does not wait."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._queue.put(Halt(last=True))

    def before_fork(self) -> None:
        """Do what was sent, close the session, and take nothing more until `after_fork`."""
        self._lock.acquire()
        if self._thread is not None and self._thread.is_alive():
            halt = Halt(last=False)
            self._queue.put(halt)
            while not halt.done.wait(0.01) and self._thread.is_alive():
                pass

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._queue = SimpleQueue()
            self._thread = None
        self._lock.release()

    async def ended(self) -> None:
        """Wait until the thread of a stopped worker is gone."""
        thread = self._thread
        if thread is not None:
            await asyncio.to_thread(thread.join)


def _serve(
    queue: SimpleQueue[Job[Any] | Halt],
    open_session: Callable[[], Session[Any]],
    on_done: Callable[[str], None] | None,
    patient: bool,
) -> None:
    session: Session[Any] | None = None
    served = 0
    while True:
        jobs, halt = _take(queue, served if patient else 0)
        served = len(jobs)
        if jobs:
            session = _perform(session, open_session, jobs)
            _tell(jobs, on_done)
            jobs.clear()  # or the last results would live as long as the next wait
        if halt is not None:
            if session is not None:
                session.close()
                session = None
            halt.done.set()
            if halt.last:
                return


def _take(queue: SimpleQueue[Job[Any] | Halt], expected: int) -> tuple[list[Job[Any]], Halt | None]:
    """Everything that is waiting, at least one thing, and what to halt for after it.

    The senders of the group before are being told just now, and most will send again within milliseconds. Where they
    were several, flushing the disk for the first alone would make all others wait for that flush: so as long as more
    keep coming, they are waited for.
    """
    jobs: list[Job[Any]] = []
    halt = _drain(queue, queue.get(), jobs)
    until = time.monotonic() + PATIENCE
    while halt is None and FEW < expected > len(jobs) and time.monotonic() < until:
        time.sleep(0.001)
        seen = len(jobs)
        try:
            halt = _drain(queue, queue.get_nowait(), jobs)
        except Empty:
            break
        if len(jobs) - seen < FEW:
            break
    return jobs, halt


def _drain(queue: SimpleQueue[Job[Any] | Halt], item: Job[Any] | Halt, jobs: list[Job[Any]]) -> Halt | None:
    """Add `item` and what waits behind it to `jobs`, up to a halt."""
    with suppress(Empty):
        while not isinstance(item, Halt):
            jobs.append(item)
            if len(jobs) >= MAX_GROUP:
                return None
            item = queue.get_nowait()
        return item
    return None


def _perform(
    session: Session[Any] | None, open_session: Callable[[], Session[Any]], jobs: Sequence[Job[Any]]
) -> Session[Any] | None:
    try:
        session = session or open_session()
    except Exception as error:  # whatever it is, those who wait must hear of it
        for job in jobs:
            job.error = error
        return None
    session.perform(jobs)
    return session


def _tell(jobs: Sequence[Job[Any]], on_done: Callable[[str], None] | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
        if on_done is not None and job.news is not None and job.error is None:
            on_done(job.news)
    for loop, done in by_loop.items():
        # One call a loop and group: each wakes that loop through a socket.
        with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_settle, done)


def _settle(jobs: Sequence[Job[Any]]) -> None:
    for job in jobs:
        job.settle()
