"""Child of the stop test: takes a run for a short time, says so, waits for a line, and writes with its old lease."""

from __future__ import annotations

import asyncio
import sys

from agent_graph.errors import JournalConflict
from agent_graph.journal import Entered, Record
from agent_graph.journal.sqlite import SQLiteJournal


async def main() -> None:
    journal = SQLiteJournal(sys.argv[1])
    lease = await journal.acquire('r', owner='sleeper', ttl=0.2)
    print('taken', flush=True)
    sys.stdin.readline()
    for call in (
        journal.append('r', [Record(2, 2.0, Entered('Stale'))], epoch=lease.epoch),
        journal.renew(lease, ttl=9),
    ):
        try:
            await call
        except JournalConflict:
            print('refused', flush=True)
        else:
            print('written', flush=True)
    await journal.aclose()


asyncio.run(main())
