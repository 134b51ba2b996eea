"""The journal: SQLite, the file, its folder and the disk."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agent_graph.cli.doctor.findings import Finding, fine, note, problem
from agent_graph.cli.exits import one_line
from agent_graph.errors import JournalError
from agent_graph.journal.database import Database

__all__ = ['store']

_OLDEST = (3, 24)
"""Before this SQLite a WAL file could lose what was written; JSON functions and upserts are in it."""

_LITTLE, _LOW = 100_000_000, 1_000_000_000
_WAIT = 0.2
"""Seconds to wait for a lock: long enough for a write, too short for a process that holds the file."""


def store(file: Path) -> Iterator[Finding]:
    """Everything about keeping runs in `file`. Nothing is written into it."""
    if sqlite3.sqlite_version_info < _OLDEST:
        oldest = '.'.join(map(str, _OLDEST))
        yield problem(
            'SQLite', f'{sqlite3.sqlite_version} is too old', f'use a Python built with SQLite {oldest} or later'
        )
    else:
        yield fine('SQLite', sqlite3.sqlite_version)
    folder = file.parent
    if not folder.is_dir():
        yield problem('journal', f'there is no folder {str(folder)!r}', 'make it, or name another file with --journal')
        return
    yield from _disk(folder)
    if file.exists():
        yield from _file(file)
    elif os.access(folder, os.W_OK | os.X_OK):
        yield fine('journal', f'{str(file)!r} is not there yet; the first run makes it')
        yield from _wal(folder)
    else:
        yield problem('journal', f'nothing can be written in {str(folder)!r}', 'name a file elsewhere with --journal')


def _disk(folder: Path) -> Iterator[Finding]:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    text = f'{free / 1e9:.1f} GB free where the journal is'
    if free < _LITTLE:
        yield problem('disk', f'only {free / 1e6:.0f} MB free where the journal is', 'free some space')
    else:
        yield note('disk', text, 'runs with large results may need more') if free < _LOW else fine('disk', text)


def _wal(folder: Path) -> Iterator[Finding]:
    """Whether the file system there can share memory between processes, tried with a file of its own."""
    with tempfile.TemporaryDirectory(dir=folder, prefix='.agent-graph-doctor-') as trial:
        db = sqlite3.connect(Path(trial, 'trial.db'))
        try:
            mode = db.execute('PRAGMA journal_mode = WAL').fetchone()[0]
            db.execute('CREATE TABLE t (x)')
        except sqlite3.Error as error:
            mode = str(error)
        finally:
            db.close()
    if mode == 'wal':
        yield fine('journal', 'the file system there can hold a write-ahead log')
    else:
        yield problem('journal', f'no write-ahead log can be used in {str(folder)!r} ({mode})', 'use a local disk')


def _file(file: Path) -> Iterator[Finding]:
    if not file.is_file() or not os.access(file, os.R_OK):
        yield problem('journal', f'{str(file)!r} cannot be read', 'check what it is and who owns it')
        return
    if file.stat().st_size == 0:
        yield fine('journal', f'{str(file)!r} is empty; the first run makes its tables')
        return
    database = Database(file.resolve(), 'FULL', _WAIT)
    try:
        reader = database.open_reader()
        try:
            runs = reader.execute('SELECT count(*) FROM runs WHERE run_id IS NOT NULL').fetchone()[0]
            damage = reader.execute('PRAGMA quick_check(1)').fetchone()[0] if file.stat().st_size < _LITTLE else 'ok'
        finally:
            reader.close()
    except (sqlite3.Error, JournalError, OSError) as error:
        yield problem('journal', one_line(database.failure(error)), 'see above, or name another file with --journal')
        return
    if damage != 'ok':
        yield problem(
            'journal', f'{str(file)!r} is damaged: {damage}', f'keep what can be read: sqlite3 {file} .recover'
        )
        return
    size = file.stat().st_size / 1e6
    yield fine('journal', f'{str(file)!r} holds {runs} {"run" if runs == 1 else "runs"}, {size:.1f} MB')
    yield from _writing(file)


def _writing(file: Path) -> Iterator[Finding]:
    if not os.access(file, os.W_OK) or not os.access(file.parent, os.W_OK):
        yield note('journal', f'{str(file)!r} or its folder may not be written: runs can be looked at, not recorded')
        return
    db = sqlite3.connect(f'{file.resolve().as_uri()}?mode=rw', uri=True, timeout=_WAIT, isolation_level=None)
    try:
        db.execute('BEGIN IMMEDIATE')
        db.execute('ROLLBACK')
    except sqlite3.OperationalError as error:
        busy = f'another process holds {str(file)!r} ({error})'
        yield problem('journal', busy, 'end that process, or wait until it has finished')
    finally:
        db.close()
