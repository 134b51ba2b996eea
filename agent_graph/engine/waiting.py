"""Runs of an agent without a journal that wait for people: kept in memory until they have ended."""

from __future__ import annotations

from collections.abc import Sequence

from agent_graph.errors import RunExists
from agent_graph.journal import Record
from agent_graph.journal.memory import MemoryJournal

__all__ = ['Waiting']


class Waiting:
    """The runs of one agent that wait; `journal` is where they are resumed from."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()

    async def keep(self, run_id: str, records: Sequence[Record]) -> None:
        """Take over a run that waits from now on, or has been waiting inside one."""
        await self.forget_ended()
        try:
            lease = await self.journal.create(run_id, records, owner='waiting', ttl=0.0)
        except RunExists:  # kept before, when a run inside it waited
            return
        await self.journal.release(lease)

    async def forget_ended(self) -> None:
        """Drop runs that waited here and have ended since, with those inside them."""
        runs = await self.journal.runs()
        over = [r.run_id for r in runs if r.parent is None and r.status not in ('paused', 'running')]
        for run_id in over:
            await self.journal.delete(run_id)
