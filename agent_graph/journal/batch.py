"""New runs, new records and renewed leases: what a running agent writes, for a whole group in a handful of statements.

Python gives up its lock around every step of a statement and gets it back only when another thread lets go, which may
take milliseconds while agents are busy. So what costs time in a group is the number of statements, not of rows: all
runs are looked up in one, and rows are inserted many at a time.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from agent_graph.errors import JournalError
from agent_graph.journal import Lease
from agent_graph.journal.checks import misplaced, stale, taken, unknown
from agent_graph.journal.database import statements
from agent_graph.journal.entries import Parent, RunStatus
from agent_graph.journal.large import LARGE, split
from agent_graph.journal.rows import place

__all__ = ['Append', 'Create', 'Encoded', 'Renew', 'Write', 'write_all']

_SIZES = (1024, 256, 64, 16, 4, 1)
"""Rows inserted at a time, as far as SQLite takes so many values in one statement."""


class Encoded(NamedTuple):
    """A record on its way to the database."""

    seq: int
    time: float
    entry: bytes


class Create(NamedTuple):
    """A new run; `status` is that of its last record, what its row says is taken from its first."""

    run_id: str
    records: Sequence[Encoded]
    status: RunStatus
    agent: str | None
    parent: Parent | None
    owner: str
    ttl: float


class Append(NamedTuple):
    """More records; `status` is that of the last. No records: only the epoch is checked."""

    run_id: str
    records: Sequence[Encoded]
    status: RunStatus
    epoch: int


class Renew(NamedTuple):
    """A lease to be extended."""

    lease: Lease
    ttl: float

    @property
    def run_id(self) -> str:
        return self.lease.run_id


Write: TypeAlias = Create | Append | Renew

Result: TypeAlias = Lease | JournalError | None


def write_all(db: sqlite3.Connection, writes: Sequence[Write]) -> list[Result]:
    """Carry out writes in their order, inside a transaction; what each gave, or why it was refused and wrote nothing."""
    plan = _Plan(db, writes)
    results: list[Result] = []
    for write in writes:
        try:
            results.append(plan.add(write))
        except JournalError as refusal:
            results.append(refusal)
    plan.carry_out()
    return results


class _Run:
    """What must be known of a run to write to it, as it will be after the writes before."""

    __slots__ = ('epoch', 'id', 'last', 'status')

    def __init__(self, id: int, epoch: int, status: RunStatus, last: int) -> None:  # noqa: A002 (the column's name)
        self.id = id
        self.epoch = epoch
        self.status = status
        self.last = last


class _Plan:
    """Rows to insert and columns to set, gathered write by write."""

    def __init__(self, db: sqlite3.Connection, writes: Sequence[Write]) -> None:
        self._db = db
        self._now = time.time()
        self._runs = _look_up(db, writes)
        self._next_id = _next_id(db) if any(isinstance(write, Create) for write in writes) else 0
        self._run_rows: list[tuple[Any, ...]] = []
        self._record_rows: list[tuple[Any, ...]] = []
        self._statuses: dict[int, RunStatus] = {}
        self._expiries: dict[int, float] = {}

    def add(self, write: Write) -> Lease | None:
        if isinstance(write, Create):
            return self._create(write)
        run = self._runs.get(write.run_id)
        if run is None:
            raise unknown(write.run_id, place(self._db))
        if isinstance(write, Append):
            return self._append(write, run)
        if run.epoch != write.lease.epoch:
            raise stale(write.run_id, write.lease.epoch, run.epoch)
        self._expiries[run.id] = expires = self._now + write.ttl
        return Lease(write.run_id, write.lease.owner, run.epoch, expires)

    def _create(self, new: Create) -> Lease:
        if new.run_id in self._runs:
            raise taken(new.run_id)
        run = self._runs[new.run_id] = _Run(self._next_id, 1, new.status, new.records[-1].seq)
        self._next_id += 1
        parent = (new.parent.run_id, new.parent.tool_call_id) if new.parent else (None, None)
        expires = self._now + new.ttl
        created = new.records[0].time
        self._run_rows.append((run.id, new.run_id, 0, new.agent, *parent, new.status, created, new.owner, 1, expires))
        self._add_records(run.id, new.records)
        return Lease(new.run_id, new.owner, 1, expires)

    def _append(self, more: Append, run: _Run) -> None:
        if run.epoch != more.epoch:
            raise stale(more.run_id, more.epoch, run.epoch)
        if not more.records:
            return
        if more.records[0].seq != run.last + 1:
            raise misplaced(more.run_id, more.records[0].seq, run.last + 1)
        self._add_records(run.id, more.records)
        run.last = more.records[-1].seq
        if more.status != run.status:
            run.status = self._statuses[run.id] = more.status

    def _add_records(self, run: int, records: Sequence[Encoded]) -> None:
        for seq, at, entry in records:
            if len(entry) > LARGE:
                rest, pieces = split(entry)
                _keep(self._db, run, seq, pieces)
                self._record_rows.append((run, seq, at, 1, rest))
            else:
                self._record_rows.append((run, seq, at, 0, entry))

    def carry_out(self) -> None:
        _insert(self._db, 'add_runs', self._run_rows)
        _insert(self._db, 'add_records', self._record_rows)
        _set(self._db, 'set_status', self._statuses)
        _set(self._db, 'set_expiry', self._expiries)


def _look_up(db: sqlite3.Connection, writes: Sequence[Write]) -> dict[str, _Run]:
    ids = json.dumps(list(dict.fromkeys(write.run_id for write in writes)))
    found: str = db.execute(statements()['heads'], (ids,)).fetchone()[0]
    return {run_id: _Run(*rest) for run_id, *rest in json.loads(found)}


def _next_id(db: sqlite3.Connection) -> int:
    return db.execute(statements()['next_id']).fetchone()[0]


def _keep(db: sqlite3.Connection, run: int, seq: int, pieces: Sequence[tuple[int, bytes]]) -> None:
    for nth, (position, data) in enumerate(pieces):
        digest = sha256(data).digest()
        if not db.execute(statements()['has_blob'], (digest,)).fetchone():
            db.execute(statements()['add_blob'], (digest, data))
        db.execute(statements()['add_piece'], (run, seq, nth, position, digest))


def _insert(db: sqlite3.Connection, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    done = 0
    most = db.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(rows[0]) if rows else 0
    for size in _SIZES:
        while most >= size and len(rows) - done >= size:
            some = rows[done : done + size]
            db.execute(_many(name, len(some[0]), size), [value for row in some for value in row])
            done += size


@cache
def _many(name: str, width: int, size: int) -> str:
    """An insert of `size` rows; few different texts, so that SQLite's compiled statements are found again."""
    row = f'({", ".join("?" * width)})'
    return f'{statements()[name]} {", ".join([row] * size)}'


def _set(db: sqlite3.Connection, name: str, values: dict[int, Any]) -> None:
    by_value: defaultdict[Any, list[int]] = defaultdict(list)
    for run, value in values.items():
        by_value[value].append(run)
    for value, runs in by_value.items():
        db.execute(statements()[name], (value, json.dumps(runs)))
