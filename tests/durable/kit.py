"""What the tests of durable runs share: journals that can be reopened, and one that dies at a chosen write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from agent_graph import Journal, MemoryJournal, Pending, RunResult, SQLiteJournal, ToolApproved
from agent_graph.engine.state import RunState, fold
from agent_graph.journal import Lease
from agent_graph.journal.entries import Entry, Record, RunInfo
from agent_graph.messages import is_valid
from tests.engine.kit import go

__all__ = [
    'KINDS',
    'Killed',
    'Mortal',
    'Store',
    'at_every_write',
    'by_id',
    'entries_of',
    'kinds_of',
    'pending_ids',
    'stored_state',
    'unchanged',
    'yes',
]

T = TypeVar('T')

KINDS = ('memory', 'sqlite')


class Store:
    """A journal that outlives a process: `restart()` gives what the next process would see."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._path = folder / 'runs.db'
        self.journal: Journal = MemoryJournal() if kind == 'memory' else SQLiteJournal(self._path)

    async def restart(self) -> Journal:
        """The same runs through another object; the file is really closed and opened."""
        if self._kind == 'sqlite':
            await self.journal.aclose()
            self.journal = SQLiteJournal(self._path)
        return self.journal


class Killed(BaseException):
    """The process has died: nothing that would have come after this happens."""


class Mortal:
    """A journal whose process dies at its `at`-th write, before or after that has been committed.

    From then on every call raises `Killed`, so whatever the engine does while it is torn down is not written. `bury()` gives
    the runs free, as the next process would find them: their owner is dead.
    """

    def __init__(self, inner: Journal, at: int | None = None, *, committed: bool = True) -> None:
        self.inner = inner
        self.at = at
        self.committed = committed
        self.writes = 0
        self.dead = False
        self._leases: dict[str, Lease] = {}

    async def _write(self, write: Callable[[], Awaitable[T]]) -> T:
        self._check()
        self.writes += 1
        last = self.writes == self.at
        if last and not self.committed:
            self.dead = True
            raise Killed
        made = await write()
        if isinstance(made, Lease):
            self._leases[made.run_id] = made
        if last:
            self.dead = True
            raise Killed
        return made

    def _check(self) -> None:
        if self.dead:
            raise Killed

    async def bury(self) -> None:
        """What the next process finds: the runs are nobody's."""
        for lease in self._leases.values():
            await self.inner.release(lease)

    async def create(self, run_id: str, records: Sequence[Record], *, owner: str, ttl: float) -> Lease:
        return await self._write(lambda: self.inner.create(run_id, records, owner=owner, ttl=ttl))

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        await self._write(lambda: self.inner.append(run_id, records, epoch=epoch))

    async def fork(self, run_id: str, new_run_id: str, *, at: int, owner: str, ttl: float) -> Lease:
        return await self._write(lambda: self.inner.fork(run_id, new_run_id, at=at, owner=owner, ttl=ttl))

    async def load(self, run_id: str, *, after: int = 0, upto: int | None = None) -> list[Record]:
        self._check()
        return await self.inner.load(run_id, after=after, upto=upto)

    async def info(self, run_id: str) -> RunInfo:
        self._check()
        return await self.inner.info(run_id)

    async def runs(self, **options: Any) -> list[RunInfo]:
        self._check()
        return await self.inner.runs(**options)

    async def delete(self, run_id: str) -> None:
        self._check()
        await self.inner.delete(run_id)

    async def acquire(self, run_id: str, *, owner: str, ttl: float, over: str | None = None) -> Lease:
        self._check()
        lease = await self.inner.acquire(run_id, owner=owner, ttl=ttl, over=over)
        self._leases[run_id] = lease
        return lease

    async def renew(self, lease: Lease, *, ttl: float) -> Lease:
        self._check()
        return await self.inner.renew(lease, ttl=ttl)

    async def release(self, lease: Lease) -> None:
        self._check()
        await self.inner.release(lease)

    def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[Record]:
        self._check()
        return self.inner.follow(run_id, after=after)

    async def aclose(self) -> None:
        await self.inner.aclose()


async def entries_of(journal: Journal, run_id: str) -> list[Entry]:
    """The entries of a run."""
    return [record.entry for record in await journal.load(run_id)]


async def kinds_of(journal: Journal, run_id: str) -> list[str]:
    """The kinds of its entries."""
    return [entry.kind for entry in await entries_of(journal, run_id)]


async def stored_state(journal: Journal, run_id: str) -> RunState:
    """What a run is by its entries; its history must be valid."""
    state = fold(run_id, await journal.load(run_id))
    assert is_valid(state.valid_messages()), state.messages
    return state


def pending_ids(result: RunResult[Any]) -> list[str]:
    """The call ids a paused run waits for."""
    assert result.status == 'paused', result
    return [pending.tool_call_id for pending in result.pending]


def by_id(result: RunResult[Any]) -> dict[str, Pending]:
    """What a paused run waits for, by call id; no id may be there twice."""
    found = {pending.tool_call_id: pending for pending in result.pending}
    assert len(found) == len(result.pending), result.pending
    return found


def yes(result: RunResult[Any]) -> dict[Any, Any]:
    """Everything allowed."""
    return {pending: ToolApproved() for pending in result.pending}


@contextmanager
def unchanged(*things: Sequence[Any] | Mapping[Any, Any]) -> Generator[None]:
    """Nothing is done inside: these lists stay as they are."""
    before = [list(thing) for thing in things]
    yield
    assert [list(thing) for thing in things] == before


def at_every_write(work: Callable[[int], Coroutine[Any, Any, bool]], *, most: int = 80) -> int:
    """Run `work(1)`, `work(2)`, ... until the process does not die any more, which it says; returns that number."""
    for at in range(1, most):
        if not go(work(at)):
            return at
    raise AssertionError(f'it still dies at write {most - 1}')
