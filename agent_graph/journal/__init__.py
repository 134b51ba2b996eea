"""Where runs are kept: the `Journal` contract, its entries and two stores that fulfil it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agent_graph.journal.entries import (
    CallFinished,
    CallStarted,
    Ended,
    Entered,
    Entry,
    Parent,
    Record,
    RunInfo,
    RunStatus,
    Started,
)

__all__ = [
    'CallFinished',
    'CallStarted',
    'Ended',
    'Entered',
    'Entry',
    'Journal',
    'Lease',
    'Parent',
    'Record',
    'RunInfo',
    'RunStatus',
    'Started',
]


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a run. `epoch` grows with every owner; `expires` is in Unix seconds."""

    run_id: str
    owner: str
    epoch: int
    expires: float


@runtime_checkable
class Journal(Protocol):
    """A store of runs. `agent_graph.testing.JournalSuite` checks an implementation against this contract.

    A run has one writer at a time: the holder of its newest lease. Every write names the lease's epoch and the position
    it expects; a store refuses both a stale epoch and a position that is not the next one (`JournalConflict`), in the
    same transaction as the write. When `append` returns, the records are as durable as the store promises.
    All methods may be called from any task, thread and event loop.
    """

    async def create(self, run_id: str, records: Sequence[Record], *, owner: str, ttl: float) -> Lease:
        """Make a new run with its first records and give its lease to `owner` for `ttl` seconds.

        Raises `RunExists` if the id is taken.
        """
        ...

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        """Commit records, all or none; `records[0].seq` must be the run's next position.

        Raises `UnknownRun`, `JournalConflict`, `JournalUnavailable`.
        """
        ...

    async def load(self, run_id: str, *, after: int = 0, upto: int | None = None) -> list[Record]:
        """The records with `after < seq <= upto`, in order, those shared with the run it was forked from included.

        Raises `UnknownRun`, `CodecError`.
        """
        ...

    async def info(self, run_id: str) -> RunInfo:
        """One run's line of `runs`; raises `UnknownRun`."""
        ...

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[RunInfo]:
        """Runs, newest first."""
        ...

    async def delete(self, run_id: str) -> None:
        """Remove a run, with the runs made inside its tools, and free their data, except what a fork still needs.

        Raises `UnknownRun`.
        """
        ...

    async def fork(self, run_id: str, new_run_id: str, *, at: int, owner: str, ttl: float) -> Lease:
        """Make `new_run_id` share the records of `run_id` up to and including `at`, by reference; write after that.

        Raises `UnknownRun`, `RunExists`, and `JournalError` if there is no record `at`.
        """
        ...

    async def acquire(self, run_id: str, *, owner: str, ttl: float, over: str | None = None) -> Lease:
        """Take a run over: a new, higher epoch. Raises `RunLocked` while another owner's lease has not expired.

        `over` names an owner whose lease may be taken all the same, because it is known to be gone or is to be stopped.
        """
        ...

    async def renew(self, lease: Lease, *, ttl: float) -> Lease:
        """Extend a lease from now; raises `JournalConflict` if the run has a newer owner."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give the run free at once; does nothing if the run has a newer owner or is gone."""
        ...

    def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[Record]:
        """The records after `after` as they are written, from this process or another; ends with the run's `Ended`."""
        ...

    async def aclose(self) -> None:
        """Finish what is being written and close; later calls raise `JournalUnavailable`."""
        ...
