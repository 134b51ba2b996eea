"""Both stores under the public conformance suite."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from agent_graph.journal import Journal
from agent_graph.journal.memory import MemoryJournal
from agent_graph.journal.sqlite import SQLiteJournal
from agent_graph.testing.journal_suite import DurableJournalSuite, JournalSuite

__all__ = ['TestMemoryJournal', 'TestSQLiteJournal', 'TestSQLiteJournalNormal']


class TestMemoryJournal(JournalSuite):
    def make(self) -> Journal:
        return MemoryJournal()


class TestSQLiteJournal(DurableJournalSuite):
    synchronous: Literal['FULL', 'NORMAL'] = 'FULL'

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / 'runs.db'

    def make(self) -> Journal:
        return SQLiteJournal(self.path, synchronous=self.synchronous)


class TestSQLiteJournalNormal(TestSQLiteJournal):
    synchronous = 'NORMAL'
