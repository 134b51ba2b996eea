"""What keeping runs on disk costs: 1,000 runs at once in memory, on SQLite with every commit flushed, and by hand.

By hand means: the very records that SQLite journal holds, written by one thread with `executemany` in as many commits as
one run makes, each flushed; all runs keep step, so no other way to keep the promise could need fewer. It is measured
twice: with the rows ready to be written, and from the records, each made JSON by the journal's codec first.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agent_graph import Agent, Journal, MemoryJournal, SQLiteJournal
from agent_graph.journal import Lease, Record
from agent_graph.journal.codec import encode
from benchmarks.adapters import agent_graph_
from benchmarks.workload import FINAL, PROMPT, SCRIPT, Script, get_weather

__all__ = ['FROM_RECORDS', 'ROWS_READY', 'main', 'measure']

ROWS_READY = 'by hand, rows ready'
FROM_RECORDS = 'by hand, from records'

Row = tuple[int, int, float, bytes]

_TABLE = 'CREATE TABLE records (run INTEGER, seq INTEGER, time REAL, entry BLOB, PRIMARY KEY (run, seq))'


async def many_runs(journal: Journal, count: int) -> tuple[float, list[str]]:
    """Seconds for `count` runs of one tool at once, and their ids."""
    agent: Agent[None, Any] = Agent(agent_graph_.Fake(), tools=[get_weather], journal=journal)

    async def one() -> str:
        SCRIPT.set(Script(1))
        result = await agent.run(PROMPT)
        assert result.output == FINAL
        return result.run_id

    await one()
    gc.collect()
    start = time.perf_counter()
    ids = await asyncio.gather(*[asyncio.create_task(one()) for _ in range(count)])
    return time.perf_counter() - start, ids


class Watched(SQLiteJournal):
    """Notes how many records each commit of a run had; of the newest run."""

    sizes: list[int]

    async def create(self, run_id: str, records: Sequence[Record], *, owner: str, ttl: float) -> Lease:
        self.sizes = [len(records)]
        return await super().create(run_id, records, owner=owner, ttl=ttl)

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        self.sizes.append(len(records))
        await super().append(run_id, records, epoch=epoch)


async def commits_of_a_run(path: Path) -> list[int]:
    """How many records go into each commit of one run."""
    async with Watched(path) as journal:
        await many_runs(journal, 1)
        return journal.sizes


async def groups_of(journal: Journal, ids: list[str], sizes: list[int]) -> list[list[tuple[int, Record]]]:
    """The records of these runs with the number of the run: one list for each commit."""
    position = {seq: nth for nth in range(len(sizes)) for seq in range(sum(sizes[:nth]) + 1, sum(sizes[: nth + 1]) + 1)}
    groups: defaultdict[int, list[tuple[int, Record]]] = defaultdict(list)
    for run, run_id in enumerate(ids):
        for record in await journal.load(run_id):
            groups[position[record.seq]].append((run, record))
    return [groups[nth] for nth in sorted(groups)]


def rows(group: list[tuple[int, Record]]) -> list[Row]:
    """What is written of a group."""
    return [(run, record.seq, record.time, encode(record.entry)) for run, record in group]


def write_by_hand(path: Path, groups: Iterable[list[Row]]) -> float:
    """Seconds to write the groups, each in a transaction that is flushed to the disk."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute('PRAGMA journal_mode = WAL')
    db.execute('PRAGMA synchronous = FULL')
    db.execute(_TABLE)
    start = time.perf_counter()
    for group in groups:
        db.execute('BEGIN IMMEDIATE')
        db.executemany('INSERT INTO records VALUES (?, ?, ?, ?)', group)
        db.execute('COMMIT')
    took = time.perf_counter() - start
    db.close()
    return took


async def measure(folder: Path, rounds: int, count: int) -> dict[str, list[float]]:
    """Seconds of each round, by what was measured; they take turns."""
    found: dict[str, list[float]] = {'memory': [], 'sqlite': [], ROWS_READY: [], FROM_RECORDS: []}
    sizes = await commits_of_a_run(folder / 'one.db')
    for number in range(rounds):
        found['memory'].append((await many_runs(MemoryJournal(), count))[0])
        sqlite = SQLiteJournal(folder / f'runs{number}.db')
        took, ids = await many_runs(sqlite, count)
        found['sqlite'].append(took)
        groups = await groups_of(sqlite, ids, sizes)
        await sqlite.aclose()
        found[ROWS_READY].append(write_by_hand(folder / f'ready{number}.db', [rows(group) for group in groups]))
        found[FROM_RECORDS].append(write_by_hand(folder / f'made{number}.db', (rows(group) for group in groups)))
    return found


def main() -> None:
    """Measure and print a JSON object: `python -m benchmarks.journals FOLDER ROUNDS RUNS`."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
        print(json.dumps(asyncio.run(measure(Path(folder), int(sys.argv[2]), int(sys.argv[3])))))


if __name__ == '__main__':
    main()
