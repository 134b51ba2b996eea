"""Child of the race test: `racer.py FILE NAME COUNT` tries to take each run at a moment all racers know.

It says when it is ready and is told the moment of the first run; the next follow 0.01 s apart. Prints for each run whether it was won, and that a loser's write with the
epoch it knew was refused.
"""

from __future__ import annotations

import asyncio
import sys
import time

from agent_graph.errors import JournalConflict, RunLocked
from agent_graph.journal import Entered, Lease, Record
from agent_graph.journal.sqlite import SQLiteJournal


async def attempt(journal: SQLiteJournal, run_id: str, name: str) -> str:
    record = Record(2, time.time(), Entered(name))
    try:
        lease = await journal.acquire(run_id, owner=name, ttl=60)
    except RunLocked:
        try:
            await journal.append(run_id, [record], epoch=1)
        except JournalConflict:
            return 'lost'
        return 'lost, and wrote'
    await journal.append(run_id, [record], epoch=lease.epoch)
    return 'won'


async def main() -> None:
    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    journal = SQLiteJournal(path)
    await journal.release(Lease('nobody', name, 0, 0.0))  # opens the file
    print('ready', flush=True)
    start = float(sys.stdin.readline())
    for n in range(count):
        while time.time() < start + n / 100:
            pass
        print(f'r{n}', await attempt(journal, f'r{n}', name), flush=True)
    await journal.aclose()


asyncio.run(main())
