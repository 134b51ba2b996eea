"""Child of the fork test: uses a journal, forks, and uses it in both processes."""

from __future__ import annotations

import asyncio
import os
import sys

from agent_graph.journal import Entered, Record, Started
from agent_graph.journal.sqlite import SQLiteJournal

journal = SQLiteJournal(sys.argv[1])


async def write(run_id: str) -> None:
    lease = await journal.create(run_id, [Record(1, 1.0, Started('a'))], owner=run_id, ttl=60)
    for seq in range(2, 12):
        await journal.append(run_id, [Record(seq, 1.0, Entered('N'))], epoch=lease.epoch)


asyncio.run(write('before'))
pid = os.fork()
asyncio.run(write('parent' if pid else 'child'))
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    asyncio.run(write('after'))
    asyncio.run(journal.aclose())
else:
    asyncio.run(journal.aclose())
    os._exit(0)
