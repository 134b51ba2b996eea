"""The two connections of a SQLite journal at work: one writes in groups, one reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, TypeAlias

from agent_graph.errors import JournalError, JournalUnavailable
from agent_graph.journal.batch import Write, write_all
from agent_graph.journal.database import Database, result_code
from agent_graph.journal.worker import Job

__all__ = ['Call', 'ReadSession', 'WriteSession']

Call: TypeAlias = Callable[[sqlite3.Connection], Any]
"""Work that is done by calling it with the connection."""

_Jobs: TypeAlias = Sequence[Job[Call | Write]]


class WriteSession:
    """Performs jobs in one transaction and commits them together.

    A job refuses by raising `JournalError` before it writes anything; the others go on. Anything else that is raised
    undoes the group, and each job is tried in a transaction of its own: one damaged page or one value that is too big
    fails the write it belongs to and no other.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        try:
            self._db = database.open_writer()
            self._file = _identity(database)
        except Exception as error:
            raise database.failure(error) from error

    def perform(self, jobs: _Jobs) -> None:
        for alone, some in groupby(jobs, key=lambda job: job.alone):
            group = list(some)
            try:
                self._check_file()
                if alone:
                    self._run(group)
                else:
                    self._commit(group)
            except Exception as error:  # nobody else is there to hear of it
                self._fail(group, error)

    def close(self) -> None:
        with suppress(sqlite3.Error):  # all that was promised is committed
            self._db.close()

    def _commit(self, jobs: _Jobs) -> None:
        self._db.execute('BEGIN IMMEDIATE')
        try:
            self._run(jobs)
            self._db.execute('COMMIT')
        except Exception:
            if self._db.in_transaction:
                self._db.execute('ROLLBACK')
            if len(jobs) == 1:
                raise
            self._commit_each(jobs)

    def _commit_each(self, jobs: _Jobs) -> None:
        for index, job in enumerate(jobs):
            job.result = job.error = None
            try:
                self._commit([job])
            except sqlite3.Error as again:
                if result_code(again) == sqlite3.SQLITE_BUSY:  # waiting again for each would take for ever
                    self._fail(jobs[index:], again)
                    return
                self._fail([job], again)
            except Exception as again:
                self._fail([job], again)

    def _run(self, jobs: _Jobs) -> None:
        for together, some in groupby(jobs, key=lambda job: isinstance(job.work, Write)):
            if together:
                self._write(list(some))
            else:
                for job in some:
                    self._call(job)

    def _write(self, jobs: _Jobs) -> None:
        writes = [job.work for job in jobs if isinstance(job.work, Write)]
        for job, result in zip(jobs, write_all(self._db, writes), strict=True):
            if isinstance(result, JournalError):
                job.error = result
            else:
                job.result = result

    def _call(self, job: Job[Call | Write]) -> None:
        if not isinstance(job.work, Write):
            try:
                job.result = job.work(self._db)
            except JournalError as refusal:
                job.error = refusal

    def _fail(self, jobs: _Jobs, error: Exception) -> None:
        for job in jobs:
            job.error = self._database.failure(error)
            job.error.__cause__ = error

    def _check_file(self) -> None:
        if _identity(self._database) != self._file:
            raise JournalUnavailable(
                f'{self._database.path} was moved, deleted or replaced while it was open, and what is written to it now '
                'would be lost; put it back, or open the journal again'
            )


class ReadSession:
    """Performs each job in a read transaction of its own: it sees one moment, and blocks no writer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        try:
            self._db = database.open_reader()
        except Exception as error:
            raise database.failure(error) from error

    def perform(self, jobs: Sequence[Job[Call]]) -> None:
        for job in jobs:
            try:
                self._db.execute('BEGIN')
                try:
                    job.result = job.work(self._db)
                finally:
                    self._db.execute('ROLLBACK')
            except Exception as error:  # nobody else is there to hear of it
                job.error = self._database.failure(error)
                job.error.__cause__ = error

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._db.close()


def _identity(database: Database) -> tuple[int, int] | None:
    try:
        found = database.path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
