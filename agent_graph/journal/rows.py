"""What each call of a journal does in the database, given a connection inside a transaction.

Everything that can be refused is checked before anything is written.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from agent_graph.errors import CodecError
from agent_graph.journal import Lease
from agent_graph.journal.checks import is_over, locked, no_record, status_of, taken, unknown, with_inside
from agent_graph.journal.codec import decode
from agent_graph.journal.database import statements
from agent_graph.journal.entries import Entry, Parent, Record, RunInfo, RunStatus
from agent_graph.journal.large import join
from agent_graph.messages.versioned import shorten

__all__ = [
    'acquire',
    'delete',
    'fork',
    'info',
    'list_runs',
    'load',
    'news',
    'place',
    'release',
    'vacuum',
]

_END = 2**62  # greater than any seq
_BATCH = 256
"""A follower is given at most so many records at once."""

_FILTERS = {'status': 'status = :status', 'agent': 'agent = :agent', 'since': 'created >= :since'}


class _Head(NamedTuple):
    id: int
    epoch: int
    owner: str
    expires: float
    status: RunStatus
    last: int


def _head(db: sqlite3.Connection, run_id: str) -> _Head:
    try:
        row = db.execute(statements()['head'], {'run_id': run_id}).fetchone()
    except UnicodeEncodeError:  # half a character: no run has such an id
        row = None
    if row is None:
        raise unknown(run_id, place(db))
    return _Head(*row)


def place(db: sqlite3.Connection) -> str:
    """The journal, for error messages."""
    return f'the journal {db.execute("PRAGMA database_list").fetchone()[2]!r}'


def _check_free(db: sqlite3.Connection, run_id: str) -> None:
    if db.execute(statements()['is_taken'], {'run_id': run_id}).fetchone():
        raise taken(run_id)


def load(db: sqlite3.Connection, run_id: str, after: int, upto: int | None) -> list[Record]:
    return _load(db, run_id, _head(db, run_id), after, upto)


def _load(db: sqlite3.Connection, run_id: str, head: _Head, after: int, upto: int | None) -> list[Record]:
    segments: list[tuple[int, int, int]] = []
    top = head.last if upto is None else min(upto, head.last)
    for run, base_seq in db.execute(statements()['lineage'], {'run': head.id}):
        if top > max(after, base_seq):
            segments.append((run, max(after, base_seq), top))
        top = min(top, base_seq)
    return [record for segment in reversed(segments) for record in _read(db, run_id, *segment)]


def _read(db: sqlite3.Connection, run_id: str, run: int, after: int, upto: int) -> list[Record]:
    rows = db.execute(statements()['records'], (run, after, upto)).fetchall()
    return [Record(seq, at, _entry(db, run_id, run, seq, large, data)) for seq, at, large, data in rows]


def _entry(db: sqlite3.Connection, run_id: str, run: int, seq: int, large: int, data: object) -> Entry:
    try:
        if not isinstance(data, bytes):  # SQLite takes any type in any column
            raise CodecError(f'the journal entry is not bytes: {shorten(data)}')
        if large:
            data = join(data, db.execute(statements()['pieces'], (run, seq)).fetchall())
        return decode(data)
    except CodecError as error:
        raise CodecError(
            f'record {seq} of run {run_id!r}: {error}; load(upto={seq - 1}) reads those before it'
        ) from error


def news(db: sqlite3.Connection, run_id: str, after: int) -> tuple[list[Record], bool]:
    """Records after `after`, and whether they are the last of a run that has ended."""
    head = _head(db, run_id)
    upto = min(head.last, after + _BATCH)
    records = _load(db, run_id, head, after, upto) if upto > after else []
    return records, is_over(head.status) and upto == head.last


def info(db: sqlite3.Connection, run_id: str) -> RunInfo:
    row = db.execute(statements()['info'], {'run_id': run_id}).fetchone()
    if row is None:
        raise unknown(run_id, place(db))
    return _info(row)


def list_runs(db: sqlite3.Connection, filters: dict[str, str | float | None], limit: int | None) -> list[RunInfo]:
    given = [_FILTERS[name] for name, value in filters.items() if value is not None]
    query = statements()['list'].format(filters=' AND '.join(given) or 'true')
    return [_info(row) for row in db.execute(query, filters | {'limit': -1 if limit is None else limit})]


def _info(row: Sequence[Any]) -> RunInfo:
    run_id, agent, status, created, updated, last, parent_run, parent_call, *more = row
    forked_from, forked_at, owner, expires = more
    return RunInfo(
        run_id=run_id,
        agent=agent,
        status=status,
        created=created,
        updated=updated,
        last_seq=last,
        parent=None if parent_run is None else Parent(parent_run, parent_call),
        forked_from=None if forked_from is None else (forked_from, forked_at),
        owner=owner,
        expires=expires,
    )


def fork(db: sqlite3.Connection, run_id: str, new_run_id: str, at: int, owner: str, ttl: float) -> Lease:
    head = _head(db, run_id)
    _check_free(db, new_run_id)
    if not 1 <= at <= head.last:
        raise no_record(run_id, at, head.last)
    lineage = db.execute(statements()['lineage'], {'run': head.id}).fetchall()
    base = next(run for run, base_seq in lineage if base_seq < at)
    status = status_of(_read(db, run_id, base, at - 1, at)[0].entry)
    now = time.time()
    values = {'source': head.id, 'base': base, 'at': at, 'status': status}
    values |= {'run_id': new_run_id, 'created': now, 'owner': owner, 'expires': now + ttl}
    db.execute(statements()['add_fork'], values)
    return Lease(new_run_id, owner, 1, now + ttl)


def acquire(db: sqlite3.Connection, run_id: str, owner: str, ttl: float, over: str | None) -> Lease:
    head = _head(db, run_id)
    now = time.time()
    if head.owner not in (owner, over) and head.expires > now:
        raise locked(run_id, head.owner, head.expires, now)
    return _lease(db, head.id, Lease(run_id, owner, head.epoch + 1, now + ttl))


def _lease(db: sqlite3.Connection, run: int, lease: Lease) -> Lease:
    values = {'run': run, 'owner': lease.owner, 'epoch': lease.epoch, 'expires': lease.expires}
    db.execute(statements()['set_lease'], values)
    return lease


def release(db: sqlite3.Connection, lease: Lease) -> None:
    db.execute(statements()['release'], {'run_id': lease.run_id, 'epoch': lease.epoch})


def delete(db: sqlite3.Connection, run_id: str) -> None:
    _head(db, run_id)  # raises if there is none
    # The runs made inside its tools have ids that begin with its own; ';' is the character after ':'.
    inside = db.execute(statements()['runs_inside'], {'from': f'{run_id}:', 'to': f'{run_id};'}).fetchall()
    for name in with_inside(run_id, dict(inside)):
        run: int | None = _head(db, name).id
        db.execute(statements()['hide_run'], (run,))
        while run is not None:
            run = _free(db, run)


def _free(db: sqlite3.Connection, run: int) -> int | None:
    """Drop what a deleted run holds and no fork needs; the deleted run it was itself kept on for, if any, is next."""
    kept: int | None = db.execute(statements()['needed_by_forks'], (run,)).fetchone()[0]
    _drop_records(db, run, kept or 0)
    if kept is not None:
        return None
    base = db.execute(statements()['deleted_base'], (run,)).fetchone()
    db.execute(statements()['drop_run'], (run,))
    return base[0] if base else None


def _drop_records(db: sqlite3.Connection, run: int, after: int) -> None:
    values = {'run': run, 'after': after}
    hashes = db.execute(statements()['hashes'], values).fetchall()
    db.execute(statements()['drop_pieces'], values)
    db.execute(statements()['drop_records'], values)
    db.executemany(statements()['drop_blob'], [{'hash': found} for (found,) in hashes])


def vacuum(db: sqlite3.Connection) -> None:
    """Give the space of deleted runs back to the disk. Not inside a transaction."""
    db.execute('VACUUM')
    db.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchone()
