"""Child of the fork test: forks again and again while five runs are being written; every process uses the one journal.

`forker.py FILE FORKS`
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from agent_graph.journal import Entered, Record, Started
from agent_graph.journal.sqlite import SQLiteJournal

journal = SQLiteJournal(sys.argv[1])
ending = threading.Event()


async def write(run_id: str, count: int | None = None) -> None:
    lease = await journal.create(run_id, [Record(1, 1.0, Started('a'))], owner=run_id, ttl=60)
    seq = 1
    while seq < count if count else not ending.is_set():
        seq += 1
        await journal.append(run_id, [Record(seq, 1.0, Entered('N', data='x' * 500))], epoch=lease.epoch)
    assert len(await journal.load(run_id)) == seq


async def busy() -> None:
    await asyncio.gather(*(write(f'busy {n}', None) for n in range(5)))


async def write_and_read(run_id: str) -> None:
    await write(run_id, 20)
    assert (await journal.info(run_id)).last_seq == 20


asyncio.run(write_and_read('before'))
threading.Thread(target=asyncio.run, args=(busy(),), daemon=True).start()
children: list[int] = []
for n in range(int(sys.argv[2])):
    pid = os.fork()
    if not pid:
        try:
            asyncio.run(write_and_read(f'child {n}'))
            asyncio.run(journal.aclose())
        except BaseException as error:
            sys.stderr.write(f'child {n}: {error!r}\n')
            os._exit(1)
        os._exit(0)
    children.append(pid)
    asyncio.run(write_and_read(f'parent {n}'))
statuses = [os.waitpid(pid, 0)[1] for pid in children]
ending.set()
asyncio.run(write_and_read('after'))
asyncio.run(journal.aclose())
assert statuses == [0] * len(children), statuses
