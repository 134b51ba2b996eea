"""The SQLite file of a journal: opening it, its statements, and what its errors mean.

Imported when a journal is first used, with the modules built on it: nothing else knows `sqlite3`.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agent_graph.errors import JournalError, JournalUnavailable

__all__ = ['FORMAT', 'Database', 'NoTables', 'result_code', 'statements']

FORMAT = 1
"""The format of the tables, kept in the file's `user_version`."""

_APPLICATION = 0x61676A6C

_MEANING = {
    sqlite3.SQLITE_FULL: 'the disk is full: free some space and try again; nothing of this write was kept',
    sqlite3.SQLITE_READONLY: 'it is read-only: give this process the right to write the file and its folder',
    sqlite3.SQLITE_PERM: 'it is read-only: give this process the right to write the file and its folder',
    sqlite3.SQLITE_CANTOPEN: 'it cannot be opened: check that the folder exists and that this process may write there',
    sqlite3.SQLITE_NOTADB: 'it is damaged, or no journal: restore a backup, or name another file',
    sqlite3.SQLITE_CORRUPT: (
        'it is damaged: copy it away, then keep what can be read with `sqlite3 FILE .recover`, or restore a backup'
    ),
    sqlite3.SQLITE_IOERR: 'the disk failed or is full: check it; nothing of this write was kept',
    sqlite3.SQLITE_ERROR: 'its tables are not those of a journal: name another file',
}


@cache
def statements() -> dict[str, str]:
    """The statements of `queries.sql` by name."""
    found: dict[str, str] = {}
    for block in _read('queries.sql').split('-- :')[1:]:
        name, _, text = block.partition('\n')
        found[name.strip()] = text.strip()
    return found


def _read(name: str) -> str:
    from importlib.resources import files  # nineteen modules, so only when a journal is used

    return files('agent_graph.journal').joinpath(name).read_text('utf-8')


class NoTables(JournalUnavailable):
    """The file is there, but no journal has been made in it yet."""


@dataclass(frozen=True, slots=True)
class Database:
    """Where the file is and how it is used. `timeout` is how many seconds to wait for other writers."""

    path: Path
    synchronous: str
    timeout: float

    def open_writer(self) -> sqlite3.Connection:
        """A connection that may write; the file and its tables are made if they are not there."""
        return self._open(self._connect)

    def open_reader(self) -> sqlite3.Connection:
        """A connection that only reads, also from a file or folder that may not be written."""
        with suppress(OSError):
            if self.path.stat().st_size == 0:
                self.open_writer().close()
        if not self.path.exists():
            self.open_writer().close()
        try:
            return self._open(self._connect_reader)
        except NoTables:
            # Whoever made the file died before its tables were there; making them is safe, whoever else does.
            self.open_writer().close()
            return self._open(self._connect_reader)

    def _open(self, connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
        # Turning WAL on, and recovering after a crash, take the whole file and are refused at once while another
        # process does the same; so the wait for it is ours.
        until = time.monotonic() + self.timeout
        while True:
            try:
                return connect()
            except sqlite3.Error as error:
                if result_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.01)

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=self.timeout, isolation_level=None, cached_statements=256)
        try:
            if self._format(db) != FORMAT:
                _make_tables(db)
            self._use_wal(db)
            db.execute(f'PRAGMA synchronous = {self.synchronous}')
            db.execute('PRAGMA fullfsync = ON')  # for macOS, where an ordinary flush stops at the disk's own memory
            _distrust(db)
        except BaseException:
            db.close()
            raise
        return db

    def _connect_reader(self) -> sqlite3.Connection:
        refused: sqlite3.Error | None = None
        for query in self._ways_to_read():
            db = sqlite3.connect(self.path.as_uri() + query, timeout=self.timeout, isolation_level=None, uri=True)
            try:
                if self._format(db) != FORMAT:
                    raise NoTables(f'{self.path} is not a journal yet: {_MEANING[sqlite3.SQLITE_ERROR]}')
                db.execute('PRAGMA query_only = ON')
                _distrust(db)
                return db
            except sqlite3.Error as error:
                db.close()
                refused = error
                if result_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                    raise
            except BaseException:
                db.close()
                raise
        assert refused is not None
        raise refused

    def _ways_to_read(self) -> list[str]:
        # Without the right to write its folder SQLite cannot make the -shm file a WAL needs. Where there is no WAL all is
        # in the file itself, and `immutable` reads it as it stands.
        wal = Path(f'{self.path}-wal')
        whole = not wal.exists() or wal.stat().st_size == 0
        return ['?mode=rw', '?mode=ro', *(['?immutable=1'] if whole else [])]

    def _format(self, db: sqlite3.Connection) -> int:
        """The file's format: `FORMAT`, or 0 for an empty file; anything else is refused."""
        db.execute('BEGIN')  # one moment for the three: another process may be making the tables
        try:
            found = int(db.execute('PRAGMA user_version').fetchone()[0])
            owner = int(db.execute('PRAGMA application_id').fetchone()[0])
            tables = int(db.execute('SELECT count(*) FROM sqlite_master').fetchone()[0])
        finally:
            if db.in_transaction:
                db.execute('ROLLBACK')
        if tables and owner != _APPLICATION:
            raise JournalUnavailable(f'{self.path} is a database of another application; name another file')
        if found > FORMAT:
            raise JournalUnavailable(
                f'{self.path} is of format {found}, written by a newer agent_graph; this one reads up to {FORMAT}: upgrade it'
            )
        return found

    def _use_wal(self, db: sqlite3.Connection) -> None:
        mode = db.execute('PRAGMA journal_mode = WAL').fetchone()[0]
        if mode != 'wal':
            raise JournalUnavailable(
                f'{self.path} is on a file system without shared memory (journal mode {mode!r}); keep it on a local disk'
            )

    def failure(self, error: Exception) -> Exception:
        """What an exception of the database means to the caller."""
        if isinstance(error, JournalError) or not isinstance(error, sqlite3.Error):
            return error
        code = result_code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            meaning = f'another process has held it for {self.timeout:g} s: end that process, or pass a longer timeout='
        else:
            meaning = _MEANING.get(code, 'SQLite failed')
        return JournalUnavailable(
            f'the journal {os.fspath(self.path)!r} cannot be used now; {meaning} (SQLite says: {error})'
        )


def result_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; 1 (any error) where Python's own checks raised."""
    return getattr(error, 'sqlite_errorcode', sqlite3.SQLITE_ERROR) & 0xFF


def _make_tables(db: sqlite3.Connection) -> None:
    # executescript() would commit an open transaction first, so the script opens its own. Two processes may come here
    # at once: the second finds all tables there.
    try:
        db.executescript(f'BEGIN IMMEDIATE;\n{_read("schema.sql")}\nCOMMIT;')
    except sqlite3.Error:
        if db.in_transaction:
            db.execute('ROLLBACK')
        raise


def _distrust(db: sqlite3.Connection) -> None:
    """The file may come from anywhere: SQL hidden in its schema gets no functions that reach outside."""
    db.execute('PRAGMA trusted_schema = OFF')
    db.execute('PRAGMA cell_size_check = ON')
