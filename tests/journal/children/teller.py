"""Child of the follow test: writes a run of `COUNT` records slowly, then ends it: `teller.py FILE COUNT`."""

from __future__ import annotations

import asyncio
import sys

from agent_graph.journal import Ended, Entered, Record, Started
from agent_graph.journal.sqlite import SQLiteJournal


async def main() -> None:
    journal, count = SQLiteJournal(sys.argv[1]), int(sys.argv[2])
    lease = await journal.create('r', [Record(1, 1.0, Started('teller'))], owner='teller', ttl=60)
    print('begun', flush=True)
    for seq in range(2, count):
        await journal.append('r', [Record(seq, float(seq), Entered('N', data=seq))], epoch=lease.epoch)
        if seq % 10 == 0:
            await asyncio.sleep(0.03)
    await journal.append('r', [Record(count, float(count), Ended('completed'))], epoch=lease.epoch)
    await journal.aclose()


asyncio.run(main())
