"""Child of the kill test: `appender.py FILE` writes to five runs at once for ever, and prints what was acknowledged."""

from __future__ import annotations

import asyncio
import sys
import time

from agent_graph.errors import UnknownRun
from agent_graph.journal import Entered, Record, Started
from agent_graph.journal.sqlite import SQLiteJournal


async def write(journal: SQLiteJournal, run_id: str) -> None:
    try:
        seq = (await journal.info(run_id)).last_seq
        epoch = (await journal.acquire(run_id, owner='child', ttl=60)).epoch
    except UnknownRun:
        seq, epoch = (
            1,
            (await journal.create(run_id, [Record(1, time.time(), Started('a'))], owner='child', ttl=60)).epoch,
        )
    while True:
        seq += 1
        await journal.append(
            run_id, [Record(seq, time.time(), Entered('N', data='x' * (seq * 137 % 3000)))], epoch=epoch
        )
        sys.stdout.write(f'{run_id} {seq}\n')  # one write: a line is there as a whole or not
        sys.stdout.flush()


async def main() -> None:
    journal = SQLiteJournal(sys.argv[1])
    await asyncio.gather(*(write(journal, f'r{n}') for n in range(5)))


asyncio.run(main())
