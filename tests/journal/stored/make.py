"""Make a stored journal of the present format: `python -m tests.journal.stored.make FOLDER`.

What was made by a released version is never made again: it has to stay readable as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

from agent_graph import (
    Answer,
    ModelTimeout,
    SQLiteJournal,
    ToolApproved,
    ToolDenied,
    UsageLimits,
    UserMessage,
    resume_graph,
    run_graph,
)
from agent_graph.journal.jsonl import export_run
from agent_graph.testing import ScriptedModel
from tests.journal.stored.agents import Notes, Write, archivist, clerk, gatekeeper, miller, newsroom

__all__ = ['file_of', 'main']


async def finished(journal: SQLiteJournal) -> None:
    limits = UsageLimits(request_limit=9, tool_calls_limit=9)
    await clerk(journal).run('Report, please.', run_id='finished', metadata={'tags': ['a', 1]}, usage_limits=limits)
    await archivist(journal).run('Fetch it.', run_id='large')
    await clerk(journal).fork('finished', at=8, new_run_id='fork')
    early = UserMessage('Report on page 1.')
    await clerk(journal).fork('finished', at=3, replace=early, new_run_id='fork-replaced')


async def waiting(journal: SQLiteJournal) -> None:
    await gatekeeper(journal).run('Let me in.', run_id='paused')
    result = await gatekeeper(journal).run('Let me in, too.', run_id='answered')
    first, _, question, inner = result.pending
    answers = {first: ToolDenied('not today'), question: Answer(2), inner: ToolApproved()}
    await gatekeeper(journal).resume('answered', answers=answers)


async def ended(journal: SQLiteJournal) -> None:
    with contextlib.suppress(ModelTimeout):
        await clerk(journal).run('Report.', run_id='failed', model=ScriptedModel([ModelTimeout('no answer')]))
    async with clerk(journal).iter('Report.', run_id='cancelled') as run:
        await run.next()
        await run.enqueue('Be quick.')
        await run.next()
        await run.cancel()


async def graphs(journal: SQLiteJournal) -> None:
    await run_graph(newsroom(), Write('mills'), state=Notes(), journal=journal, run_id='graph')
    result = await run_graph(newsroom(), Write('mills'), state=Notes(), journal=journal, run_id='graph-finished')
    result = await resume_graph(
        newsroom(), 'graph-finished', journal=journal, answers={result.pending[0]: Answer(False)}
    )
    await resume_graph(newsroom(), 'graph-finished', journal=journal, answers={result.pending[0]: Answer(True)})


async def make(folder: Path) -> None:
    """The runs that end, or stop, in good order."""
    async with SQLiteJournal(folder / 'runs.sqlite') as journal:
        for part in (finished, waiting, ended, graphs):
            await part(journal)


async def crash(folder: Path) -> None:
    """A run whose process dies in it."""
    await miller(SQLiteJournal(folder / 'runs.sqlite'), dies=True).run('Make flour.', run_id='crashed')


async def export(folder: Path) -> None:
    """Each run as a text, but for the large one."""
    async with SQLiteJournal(folder / 'runs.sqlite') as journal:
        await journal.vacuum()
        for info in await journal.runs():
            if info.run_id != 'large':
                text = export_run(await journal.load(info.run_id))
                (folder / file_of(info.run_id)).write_text(text, 'utf-8')


def file_of(run_id: str) -> str:
    """The name of the file with a run's export."""
    return run_id.replace(':', '_').replace('#', '-') + '.jsonl'


def age(file: Path) -> None:
    """As if it had been made long ago, whatever the clock of the machine that reads it says: no lease is left."""
    db = sqlite3.connect(file, isolation_level=None)
    db.execute('UPDATE runs SET expires = min(expires, 60)')
    db.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchone()
    db.close()


def main() -> None:
    """Make the files, or die in the middle of a run."""
    folder = Path(sys.argv[1])
    if sys.argv[2:] == ['crash']:
        asyncio.run(crash(folder))
        return
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(make(folder))
    subprocess.run([sys.executable, '-m', 'tests.journal.stored.make', str(folder), 'crash'], check=True)
    asyncio.run(export(folder))
    age(folder / 'runs.sqlite')


if __name__ == '__main__':
    main()
