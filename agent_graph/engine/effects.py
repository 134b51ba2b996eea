"""The one door between a run and the world: clock, ids, journal, models, user functions, tasks, threads and timeouts.

Nothing else in the engine touches any of these, so the same engine runs in memory, on SQLite or in replay, and the code
between two effects is deterministic.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from agent_graph.engine.state import APPLY, RunState
from agent_graph.errors import JournalError
from agent_graph.journal import Lease
from agent_graph.journal.entries import Entry, Record
from agent_graph.messages import Message
from agent_graph.model import Model, RequestInfo, ResponseBuilder

__all__ = [
    'LEASE_SECONDS',
    'Effects',
    'RunStore',
    'ToolTimeout',
    'is_coroutine_function',
    'lease_seconds',
    'new_run_id',
    'now',
    'stop_tasks',
]

T = TypeVar('T')


class ToolTimeout(Exception):
    """A tool call took longer than it may; `seconds` is the bound."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f'timed out after {seconds:g} s')
        self.seconds = seconds


def now() -> float:
    """Unix time in seconds."""
    return time.time()


def new_run_id() -> str:
    """A UUID of version 7: ids made later sort later."""
    value = int(time.time() * 1000) << 80 | int.from_bytes(os.urandom(10), 'big')
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f'{value:032x}'
    return f'{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}'


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """True for `async def` functions, partials of them, and objects whose `__call__` is one."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(type(function), '__call__', None)  # noqa: B004  an object whose class defines an async one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def stop_tasks(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until each has really ended, even if this waiting is cancelled meanwhile."""
    again: asyncio.CancelledError | None = None
    for task in tasks:
        task.cancel()
    while tasks := {t for t in tasks if not t.done()}:  # looked at first: a scope may cancel every wait at once
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            again = error
    if again is not None:
        raise again  # the very one: whoever cancelled knows it again


LEASE_SECONDS = 60.0
"""How long a run stays reserved for a driver that says nothing; see `agent_graph.engine.lease`."""


def lease_seconds(journal: object) -> float:
    """The same for a run in this journal, which may have its own idea of it."""
    return getattr(journal, 'lease_seconds', LEASE_SECONDS)


class RunStore(Protocol):
    """What a run needs of the journal it is recorded in; every `Journal` has it."""

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None: ...
    async def load(self, run_id: str) -> list[Record]: ...
    async def renew(self, lease: Lease, *, ttl: float) -> Lease: ...
    async def release(self, lease: Lease) -> None: ...


async def _by_itself(task: asyncio.Task[Any]) -> Any:
    """What a user's function gives; that its own code was cancelled is an error of it, and not the run's cancellation."""
    try:
        return await task
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if task.cancelled() and current is not None and not current.cancelling():
            raise RuntimeError('it was cancelled from inside (asyncio.CancelledError)') from None
        raise


async def _settled(future: Awaitable[Any]) -> Any:
    """What a sync function returned; if that is an awaitable (a wrapper round an async function), what that gives."""
    value = await future
    return await value if inspect.isawaitable(value) else value


class Effects:
    """One run's door: it knows the run's journal, lease and state, and numbers its entries."""

    __slots__ = ('batches', 'held', 'journal', 'lease', 'loop', 'next_seq', 'state')

    replays = False
    """Whether there is a recording behind this door, and no world."""

    def __init__(self, journal: RunStore, lease: Lease, state: RunState, next_seq: int) -> None:
        self.journal = journal
        self.lease = lease
        self.state = state
        self.next_seq = next_seq
        self.loop = asyncio.get_running_loop()
        self.batches = False
        self.held: tuple[Record, ...] = ()

    def record(self, entry: Entry, second: Entry | None = None) -> Awaitable[None]:
        """Apply entries to the state and commit them; once awaited they are as durable as the journal promises.

        Numbers are given and the state changed before anything is awaited, so concurrent calls keep one order.
        """
        state, seq, at = self.state, self.next_seq, time.time()
        APPLY[entry.__class__](state, entry)
        records: tuple[Record, ...] = (Record(seq, at, entry),)
        if self.held:
            records, self.held = (*self.held, *records), ()
        self.next_seq = seq + 1
        if second is not None:
            APPLY[second.__class__](state, second)
            records = (*records, Record(seq + 1, at, second))
            self.next_seq = seq + 2
        return self.journal.append(state.run_id, records, epoch=self.lease.epoch)

    def hold(self, entry: Entry) -> None:
        """Apply an entry that is committed together with the next one, or before the next effect, whichever comes first.

        For entries that are followed at once by another: where a commit costs, one does for both. Only with `batches`.
        """
        APPLY[entry.__class__](self.state, entry)
        self.held = (*self.held, Record(self.next_seq, time.time(), entry))
        self.next_seq += 1

    async def flush(self) -> None:
        """Commit what is held: an effect is about to happen, or nobody knows when the next entry comes."""
        if self.held:
            records, self.held = self.held, ()
            await self.journal.append(self.state.run_id, records, epoch=self.lease.epoch)

    def now(self) -> float:
        """Unix time in seconds."""
        return time.time()

    async def release(self) -> None:
        """Give the run free for another owner; where the journal fails, at least others in this process know."""
        try:
            await self.journal.release(self.lease)
        except JournalError:
            from agent_graph.engine.lease import give_up

            give_up(self.lease.owner)
            raise

    async def ask(self, model: Model, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask a model once; what it answers is in `out`, also when it is cut short."""
        if self.held:
            await self.flush()
        await model.respond(messages, info, out)
        await out.finish()

    async def step(self, function: Callable[[], Any]) -> Any:
        """Do what `ctx.step` was given, sync or async."""
        await self.flush()
        value = function()
        return await value if inspect.isawaitable(value) else value

    def task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work beside the run, with a copy of the caller's context variables."""
        return self.loop.create_task(work)

    def wait(self, tasks: set[asyncio.Task[T]]) -> Awaitable[tuple[set[asyncio.Task[T]], set[asyncio.Task[T]]]]:
        """Wait until at least one of the tasks is done: (done, still running)."""
        return asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    def until(self, task: asyncio.Task[Any]) -> asyncio.Future[Any]:
        """A future that is set when the task is done; cancelling it does not cancel the task."""
        waiter: asyncio.Future[Any] = self.loop.create_future()

        def wake(_: object) -> None:
            if not waiter.done():  # the waiting may have been cancelled in the same turn of the loop
                waiter.set_result(None)

        task.add_done_callback(wake)
        return waiter

    async def stop(self, tasks: set[asyncio.Task[T]]) -> None:
        """Cancel tasks and wait until each has really ended; see `stop_tasks`."""
        await stop_tasks(tasks)

    def call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        *,
        is_async: bool,
        timeout: float | None = None,
    ) -> Awaitable[Any]:
        """Call a tool's function: async ones here, sync ones in a worker thread that sees the same context variables.

        Raises `ToolTimeout` when it takes longer than `timeout` seconds; a sync function then goes on in its thread, and
        what it returns is dropped.
        """
        if self.lease.expires and time.time() >= self.lease.expires:
            # The process was stopped for longer than the lease: the run may have another owner by now.
            return self._call_if_ours(function, args, kwargs, is_async, timeout)
        if timeout is not None:
            return self._call_in_time(function, args, kwargs, is_async, timeout)
        if is_async:
            return function(*args, **kwargs)
        from agent_graph.engine.threads import run_in_thread  # the first sync tool brings the threads

        context = contextvars.copy_context()
        return _settled(run_in_thread(lambda: context.run(function, *args, **kwargs)))

    async def _call_if_ours(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        is_async: bool,
        timeout: float | None,
    ) -> Any:
        """Take the lease again first, which a run that was taken over cannot (`JournalConflict`)."""
        self.lease = await self.journal.renew(self.lease, ttl=lease_seconds(self.journal))
        return await self.call(function, args, kwargs, is_async=is_async, timeout=timeout)

    async def _call_in_time(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], is_async: bool, timeout: float
    ) -> Any:
        scope = asyncio.timeout(timeout)
        try:
            async with scope:
                return await self.call(function, args, kwargs, is_async=is_async)
        except TimeoutError:
            if scope.expired():
                raise ToolTimeout(timeout) from None
            raise

    async def consult(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call an instruction function, a check or a `prepare`: in a context of its own, sync ones without a thread."""
        if self.held:
            await self.flush()
        if not is_coroutine_function(function):
            return contextvars.copy_context().run(function, *args)
        return await _by_itself(asyncio.create_task(function(*args)))

    async def inquire(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that may take its time, such as one that asks a person: a sync one in a worker thread."""
        await self.flush()
        if is_coroutine_function(function):
            return await _by_itself(asyncio.create_task(function(*args)))
        return await self.call(function, args, {}, is_async=False)
