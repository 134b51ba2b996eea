"""What keeping runs on disk costs: 1,000 runs at once in memory, on SQLite with every commit flushed, and by hand.

By hand means: the very records that SQLite journal holds, written with `executemany` in grouped commits, each flushed,
and nothing else: no model, no tool, no walk. It is measured three times. Twice by a loop that makes as many commits as one
run does, as if all runs kept step: with the rows ready to be written, and from the records, each made JSON by the journal's
codec first. And once as runs have to do it that survive a crash: as many coroutines as there are runs, each of which waits
until one commit is on the disk before it makes its next records JSON, and one thread that writes what is waiting.
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
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from agent_graph import Agent, Journal, MemoryJournal, SQLiteJournal
from agent_graph.journal import Lease, Record
from agent_graph.journal.codec import encode
from benchmarks.adapters import agent_graph_
from benchmarks.workload import FINAL, PROMPT, SCRIPT, Script, get_weather

__all__ = ['BY_HAND', 'EACH_WAITS', 'FROM_RECORDS', 'ROWS_READY', 'main', 'measure']

ROWS_READY = 'by hand, rows ready'
FROM_RECORDS = 'by hand, from records'
EACH_WAITS = 'by hand, each run waits'
BY_HAND = (ROWS_READY, FROM_RECORDS, EACH_WAITS)

Row = tuple[int, int, float, bytes]

Groups = list[list[tuple[int, Record]]]
"""One list for each commit of a run: the records of all runs, each with the number of its run."""

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


async def groups_of(journal: Journal, ids: list[str], sizes: list[int]) -> Groups:
    """The records of these runs, by commit."""
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
    db = _open(path)
    start = time.perf_counter()
    for group in groups:
        _commit(db, group)
    took = time.perf_counter() - start
    db.close()
    return took


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute('PRAGMA journal_mode = WAL')
    db.execute('PRAGMA synchronous = FULL')
    db.execute(_TABLE)
    return db


def _commit(db: sqlite3.Connection, group: list[Row]) -> None:
    db.execute('BEGIN IMMEDIATE')
    db.executemany('INSERT INTO records VALUES (?, ?, ?, ?)', group)
    db.execute('COMMIT')


class Writer:
    """A thread that commits whatever is waiting together."""

    def __init__(self, path: Path) -> None:
        self._db = _open(path)
        self._queue: SimpleQueue[tuple[list[Row], asyncio.Future[None]] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._work)
        self._thread.start()

    def write(self, group: list[Row]) -> asyncio.Future[None]:
        written = self._loop.create_future()
        self._queue.put((group, written))
        return written

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._db.close()

    def _work(self) -> None:
        item = self._queue.get()
        while item is not None:
            waiting: list[tuple[list[Row], asyncio.Future[None]]] = []
            with suppress(Empty):
                while item is not None:
                    waiting.append(item)
                    item = self._queue.get_nowait()
            _commit(self._db, [row for group, _ in waiting for row in group])
            self._loop.call_soon_threadsafe(_tell, [written for _, written in waiting])
            item = item and self._queue.get()


def _tell(those_who_wait: list[asyncio.Future[None]]) -> None:
    for written in those_who_wait:
        written.set_result(None)


async def write_as_runs(path: Path, groups: Groups) -> float:
    """Seconds for a coroutine a run to write its records, commit by commit."""
    commits: defaultdict[int, Groups] = defaultdict(list)
    for group in groups:
        for run, some in groupby(group, key=itemgetter(0)):
            commits[run].append(list(some))
    writer = Writer(path)

    async def one(mine: Groups) -> None:
        for some in mine:
            await writer.write(rows(some))

    gc.collect()
    start = time.perf_counter()
    await asyncio.gather(*[asyncio.create_task(one(mine)) for mine in commits.values()])
    took = time.perf_counter() - start
    writer.close()
    return took


async def measure(folder: Path, rounds: int, count: int) -> dict[str, list[float]]:
    """Seconds of each round, by what was measured; they take turns."""
    found: dict[str, list[float]] = {'memory': [], 'sqlite': [], **{way: [] for way in BY_HAND}}
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
        found[EACH_WAITS].append(await write_as_runs(folder / f'waiting{number}.db', groups))
    return found


def main() -> None:
    """Measure and print a JSON object: `python -m benchmarks.journals FOLDER ROUNDS RUNS`."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
        print(json.dumps(asyncio.run(measure(Path(folder), int(sys.argv[2]), int(sys.argv[3])))))


if __name__ == '__main__':
    main()
