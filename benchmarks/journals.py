"""What keeping runs on disk costs: 1,000 runs at once in memory, on SQLite with every commit flushed, and by hand.

By hand means: the very records that SQLite journal holds, written by one thread with `executemany`, as many commits as a
run has records, each flushed; no other way to keep the promise could need fewer.
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
from pathlib import Path
from typing import Any

from agent_graph import Agent, Journal, MemoryJournal, SQLiteJournal
from agent_graph.journal.codec import encode
from benchmarks.adapters import agent_graph_
from benchmarks.workload import FINAL, PROMPT, SCRIPT, Script, get_weather

__all__ = ['main', 'measure']

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


async def rows_of(journal: Journal, ids: list[str]) -> list[list[Row]]:
    """The records of these runs as rows: one list for each position in a run."""
    by_seq: defaultdict[int, list[Row]] = defaultdict(list)
    for run, run_id in enumerate(ids):
        for record in await journal.load(run_id):
            by_seq[record.seq].append((run, record.seq, record.time, encode(record.entry)))
    return [by_seq[seq] for seq in sorted(by_seq)]


def write_by_hand(path: Path, groups: list[list[Row]]) -> float:
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
    """Seconds of each round, by what was measured; the three take turns."""
    found: dict[str, list[float]] = {'memory': [], 'sqlite': [], 'by hand': []}
    for number in range(rounds):
        memory = MemoryJournal()
        found['memory'].append((await many_runs(memory, count))[0])
        sqlite = SQLiteJournal(folder / f'runs{number}.db')
        took, ids = await many_runs(sqlite, count)
        found['sqlite'].append(took)
        groups = await rows_of(sqlite, ids)
        await sqlite.aclose()
        found['by hand'].append(write_by_hand(folder / f'hand{number}.db', groups))
    return found


def main() -> None:
    """Measure and print a JSON object: `python -m benchmarks.journals FOLDER ROUNDS RUNS`."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
        print(json.dumps(asyncio.run(measure(Path(folder), int(sys.argv[2]), int(sys.argv[3])))))


if __name__ == '__main__':
    main()
