"""The file of a cache: one SQLite table of answers, used by any number of threads and processes at once.

Nothing here may fail a run. A cache that is damaged is moved aside and a new one begun; a file that cannot be read or
written now is told in the log, and its answers are misses. Only a file that is none of ours, and a folder that is not
there when the file is first opened, are refused.

A cache may lose what it wrote last, so commits do not wait for the disk.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agent_graph.errors import ConfigError
from agent_graph.models.wrapper import LOG, line

__all__ = ['CacheFile', 'Found']

T = TypeVar('T')

FORMAT = 1
_APPLICATION = 0x61676D63

_TABLES = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {FORMAT};
CREATE TABLE IF NOT EXISTS answers (
    key TEXT NOT NULL PRIMARY KEY,
    answer BLOB NOT NULL,
    stored REAL NOT NULL,
    used REAL NOT NULL,
    expires REAL
) STRICT;
CREATE INDEX IF NOT EXISTS answers_by_use ON answers (used, length(answer));
CREATE INDEX IF NOT EXISTS answers_by_end ON answers (expires) WHERE expires IS NOT NULL;
COMMIT;
"""

_MAGIC, _HEAD, _OWNER = b'SQLite format 3\0', 100, 68
"""How every database begins, the bytes of its head, and where in it the application's number is. Ours is written with the
table, so a cache has it from the beginning. Source: the description of SQLite's file format."""

_DAMAGE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)

_STORE = 'INSERT OR REPLACE INTO answers (key, answer, stored, used, expires) VALUES (?, ?, ?, ?, ?)'

_EVICT = """
DELETE FROM answers WHERE key IN (
    SELECT key FROM (
        SELECT key,
            row_number() OVER newest AS entries,
            sum(length(answer)) OVER newest AS bytes
        FROM answers WINDOW newest AS (ORDER BY used DESC, key)
    ) WHERE entries > ? OR bytes > ?
)
"""

_SKEW = 86_400
"""Seconds by which clocks may differ; what seems to be stored later than that would never grow old."""

_inherited: list[sqlite3.Connection | None] = []
"""A parent's connections in a child: closing one here, be it by the collector, would take the parent's locks away."""

_ANY = 2**62
"""More than any file holds."""


@dataclass(frozen=True, slots=True)
class Found:
    """A stored answer as it was written, and when (Unix seconds)."""

    answer: bytes
    stored: float


class CacheFile:
    """The file at `path`. Every method blocks; one thread at a time uses the connection.

    `max_entries` and `max_bytes` (of answers) bound it: what was used longest ago goes first.
    """

    def __init__(
        self, path: Path, *, max_entries: int | None, max_bytes: int | None, timeout: float, clock: Callable[[], float]
    ) -> None:
        self._path = path
        self._most = max_entries or _ANY, max_bytes or _ANY
        self._timeout = timeout
        self._clock = clock
        self._db: sqlite3.Connection | None = None
        self._lock = threading.RLock()
        self._told: set[int] = set()
        self._found = False
        """The file has been opened before: its folder was there."""

    def find(self, key: str, oldest: float) -> Found | None:
        """The answer under `key`, unless it is past its time or was stored before `oldest` (Unix seconds)."""
        return self._do(lambda db: self._find(db, key, oldest))

    def store(self, key: str, answer: bytes, ttl: float | None) -> None:
        """Keep an answer for `ttl` seconds (`None`: for ever), and let go of what is too old or too much."""
        self._do(lambda db: self._store(db, key, answer, ttl))

    def clear(self) -> int:
        """Remove every answer; how many there were."""
        return self._do(lambda db: db.execute('DELETE FROM answers').rowcount) or 0

    def count(self) -> int:
        """How many answers there are."""
        return self._do(lambda db: db.execute('SELECT count(*) FROM answers').fetchone()[0]) or 0

    def close(self) -> None:
        """Close the connection; another call opens it again."""
        with self._lock:
            db, self._db = self._db, None
            if db is not None:
                with suppress(sqlite3.Error):
                    db.close()

    def after_fork(self) -> None:
        """In a child: the connection is the parent's, and must not even be closed here."""
        _inherited.append(self._db)
        self._db = None
        self._lock = threading.RLock()

    def _find(self, db: sqlite3.Connection, key: str, oldest: float) -> Found | None:
        now = self._clock()
        row = db.execute('SELECT answer, stored, used, expires FROM answers WHERE key = ?', (key,)).fetchone()
        match row:
            case (bytes(answer), float(stored), float(used), float() | None as expires):
                pass
            case _:  # nothing, or a file made by somebody else
                return None
        if not oldest <= stored <= now + _SKEW or (expires is not None and expires <= now):
            return None
        if now - used > 60 and self._most != (_ANY, _ANY):
            db.execute('UPDATE answers SET used = ? WHERE key = ?', (now, key))
        return Found(answer, stored)

    def _store(self, db: sqlite3.Connection, key: str, answer: bytes, ttl: float | None) -> None:
        now = self._clock()
        if len(answer) > self._most[1]:
            return
        db.execute('BEGIN IMMEDIATE')
        try:
            db.execute('DELETE FROM answers WHERE expires <= ?', (now,))
            db.execute(_STORE, (key, answer, now, now, None if ttl is None else now + ttl))
            if self._most != (_ANY, _ANY):
                self._evict(db)
            db.execute('COMMIT')
        except BaseException:
            if db.in_transaction:
                db.execute('ROLLBACK')
            raise

    def _evict(self, db: sqlite3.Connection) -> None:
        entries, size = db.execute('SELECT count(*), total(length(answer)) FROM answers').fetchone()
        if entries > self._most[0] or size > self._most[1]:
            # A bit more than has to go, as finding what goes means looking at everything.
            db.execute(_EVICT, [most - most // 16 for most in self._most])

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Work with the open file; `None` if that cannot be. A damaged file is replaced, and the work is tried once more."""
        with self._lock:
            for again in (True, False):
                try:
                    self._db = self._db or self._open()
                    return work(self._db)
                except (sqlite3.Error, OSError) as error:
                    self.close()
                    if not (again and _code(error) in _DAMAGE and self._replace()):
                        self._tell(error)
                        return None
        return None

    def _open(self) -> sqlite3.Connection:
        until = time.monotonic() + self._timeout
        while True:
            try:
                return self._connect()
            except sqlite3.Error as error:
                # Turning WAL on is refused at once while another process does the same.
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.01)

    def _connect(self) -> sqlite3.Connection:
        if not self._found and not self._path.parent.exists():
            raise ConfigError(
                f'there is no folder {str(self._path.parent)!r} for the cache; make it, or name another file'
            )
        with suppress(FileNotFoundError):
            self._head()
        db = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            db.execute('PRAGMA trusted_schema = OFF')  # the file may come from anywhere
            db.execute('PRAGMA cell_size_check = ON')
            if self._format(db) != FORMAT:
                db.executescript(_TABLES)
            db.execute('PRAGMA journal_mode = WAL')
            db.execute('PRAGMA synchronous = NORMAL')
            self._found = True
        except BaseException:
            if db.in_transaction:
                db.execute('ROLLBACK')
            db.close()
            raise
        return db

    def _format(self, db: sqlite3.Connection) -> int:
        """The file's format: `FORMAT`, or 0 for an empty file. Raises `ConfigError` for a file that is not ours."""
        db.execute('BEGIN')  # one moment for the three: another process may be making the table
        try:
            found = int(db.execute('PRAGMA user_version').fetchone()[0])
            owner = int(db.execute('PRAGMA application_id').fetchone()[0])
            tables = int(db.execute('SELECT count(*) FROM sqlite_master').fetchone()[0])
        finally:
            if db.in_transaction:
                db.execute('ROLLBACK')
        if tables and owner != _APPLICATION:
            raise self._foreign('a database of another application')
        if found > FORMAT:
            raise ConfigError(f'{self._path} is a cache of format {found}, of a newer agent_graph; name another file')
        return found if tables else 0

    def _foreign(self, what: str) -> ConfigError:
        return ConfigError(f'{self._path} is {what}, no cache; it was left as it is: name another file for the cache')

    def _head(self) -> bytes:
        """How the file begins. Raises `ConfigError` if it is no database: SQLite would write over one of a few bytes."""
        with self._path.open('rb') as file:
            head = file.read(_HEAD)
        if not (head.startswith(_MAGIC) or _MAGIC.startswith(head)):
            raise self._foreign('no SQLite database')
        return head

    def _refuse_foreign(self) -> None:
        """Raises `ConfigError` for a damaged file that was never a cache: it must not be moved."""
        head = self._head()
        if len(head) == _HEAD and int.from_bytes(head[_OWNER : _OWNER + 4]) != _APPLICATION:
            raise self._foreign('a damaged database of another application')

    def _replace(self) -> bool:
        """Move a damaged cache aside, with what belongs to it; true if the work may be tried again."""
        path = self._path
        try:
            self._refuse_foreign()
            before = path.stat().st_ino
            if self._is_sound():
                return True  # another process has replaced it: the connection was to what is aside now
            aside = path.with_name(f'{path.name}.damaged-{time.time_ns()}')
            if path.stat().st_ino == before:
                path.rename(aside)
            for end in ('-wal', '-shm'):
                Path(f'{path}{end}').unlink(missing_ok=True)
        except FileNotFoundError:
            return True
        except (OSError, sqlite3.Error) as error:
            self._tell(error)
            return False
        LOG.warning('the cache %s was damaged; it is now %s, and a new one is begun', path, aside.name)
        return True

    def _is_sound(self) -> bool:
        with closing(sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None)) as db:
            try:
                return db.execute('PRAGMA quick_check(1)').fetchone()[0] == 'ok'
            except sqlite3.DatabaseError as error:
                if _code(error) in _DAMAGE:
                    return False
                raise

    def _tell(self, error: Exception) -> None:
        """Say once for each kind of failure that the cache cannot be used."""
        code = _code(error)
        if code not in self._told:
            self._told.add(code)
            LOG.warning('the cache %s cannot be used now, so models are asked: %s', self._path, line(error))


def _code(error: Exception) -> int:
    """SQLite's result code without its extension; 1 (any error) for others."""
    return getattr(error, 'sqlite_errorcode', sqlite3.SQLITE_ERROR) & 0xFF
