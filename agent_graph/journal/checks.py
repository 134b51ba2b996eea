"""What every store checks and says alike: positions, leases, and the words of a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_graph.errors import JournalConflict, JournalError, JournalUnavailable, RunExists, RunLocked, UnknownRun
from agent_graph.journal.entries import Ended, Entry, Parent, Paused, Record, RunStatus, Started

__all__ = [
    'agent_of',
    'check_id',
    'check_limit',
    'check_new',
    'check_order',
    'closed',
    'is_over',
    'locked',
    'misplaced',
    'no_record',
    'parent_of',
    'stale',
    'status_of',
    'taken',
    'unknown',
    'with_inside',
]


def status_of(entry: Entry) -> RunStatus:
    """The state of a run whose newest entry this is."""
    if isinstance(entry, Ended):
        return entry.status
    return 'paused' if isinstance(entry, Paused) else 'running'


def is_over(status: RunStatus) -> bool:
    """Whether nothing will be added to such a run; whoever follows it stops here."""
    return status not in ('running', 'paused')


def agent_of(entry: Entry) -> str | None:
    """The agent a run's first entry names."""
    return entry.agent if isinstance(entry, Started) else None


def parent_of(entry: Entry) -> Parent | None:
    """The tool call a run's first entry says it was started from."""
    return entry.parent if isinstance(entry, Started) else None


def check_id(run_id: str) -> None:
    """A run's id is text that any store can keep, and not empty."""
    if not run_id or not run_id.isprintable():
        raise JournalError(f'a run needs an id of printable characters, got {run_id!r}; leave it out to have one made')


def check_new(run_id: str, records: Sequence[Record]) -> None:
    """The first records of a run: at least one, counted from 1, under an id that can be kept."""
    check_id(run_id)
    if not records:
        raise JournalError(f'run {run_id!r} cannot begin without a record; pass its `Started` entry')
    check_order(run_id, records, records[0].seq)
    if records[0].seq != 1:
        raise misplaced(run_id, records[0].seq, 1)


def check_order(run_id: str, records: Sequence[Record], first: int) -> None:
    """Records must count on from `first` without a gap."""
    for expected, record in enumerate(records, first):
        if record.seq != expected:
            raise misplaced(run_id, record.seq, expected)


def check_limit(limit: int | None) -> None:
    """A limit on a list is not negative."""
    if limit is not None and limit < 0:
        raise JournalError(f'limit must be 0 or more, got {limit!r}; leave it out for all runs')


def with_inside(run_id: str, parents: Mapping[str, str | None]) -> list[str]:
    """A run with those made inside its tools, of runs whose ids begin with its own: by whose parents they are.

    `parents` may hold runs that are somebody's own, and what is inside those.
    """
    found = [run_id]
    for name in found:
        found += [inner for inner, parent in parents.items() if parent == name]
    return found


def unknown(run_id: str, where: str = 'this journal') -> UnknownRun:
    return UnknownRun(f'no run {run_id!r} in {where}; check the id, or list the runs it holds')


def taken(run_id: str) -> RunExists:
    return RunExists(f'run {run_id!r} is already in this journal; resume it, or choose another id')


def locked(run_id: str, owner: str, expires: float, now: float) -> RunLocked:
    return RunLocked(
        f'run {run_id!r} is driven by {_described(owner)}, for {expires - now:.1f} more seconds unless that renews its '
        'lease; wait for it to end, or stop it',
        owner=owner,
        expires=expires,
    )


def _described(owner: str) -> str:
    """An owner in words; those the engine makes are `machine/process/when it started/a random part`."""
    parts = owner.split('/')
    if len(parts) != 4 or not parts[1].isdigit():
        return repr(owner)
    return f'process {parts[1]} on machine {parts[0].partition(".")[0][:8]!r}'


def stale(run_id: str, epoch: int, current: int) -> JournalConflict:
    return JournalConflict(
        f'run {run_id!r} is now at epoch {current}, the write came with epoch {epoch}: another owner has taken the run '
        'over; stop driving it here'
    )


def misplaced(run_id: str, seq: int, expected: int) -> JournalConflict:
    return JournalConflict(
        f'the next record of run {run_id!r} is {expected}, got seq {seq!r}; load the run again before writing to it'
    )


def no_record(run_id: str, at: int, last: int) -> JournalError:
    return JournalError(f'run {run_id!r} has records 1 to {last}, none at {at!r}; fork at one of these')


def closed(journal: object) -> JournalUnavailable:
    return JournalUnavailable(f'{journal!r} is closed; open another one to go on')
