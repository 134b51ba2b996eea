"""Child of the read-only test: becomes an ordinary user, reads run `r`, tries to write: `reader.py FILE`."""

from __future__ import annotations

import asyncio
import os
import sys

# Imported before the rights are given up: the interpreter's own files may be closed to that user.
from agent_graph.errors import JournalUnavailable
from agent_graph.journal import Entered, Record, codec, database, jsonl, rows, sessions, worker
from agent_graph.journal.sqlite import SQLiteJournal

used = (codec, database, jsonl, rows, sessions, worker)
database.statements()
codec.decode(codec.encode(Entered('n')))


async def main() -> None:
    journal = SQLiteJournal(sys.argv[1], timeout=1)
    print([record.seq for record in await journal.load('r')])
    print(len(await journal.runs()))
    try:
        await journal.append('r', [Record(3, 1.0, Entered('N'))], epoch=1)
    except JournalUnavailable as error:
        print(error)
    await journal.aclose()


if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
asyncio.run(main())
