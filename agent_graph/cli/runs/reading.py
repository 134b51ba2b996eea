"""What the commands that look at runs have in common: a run's records up to some entry, and what it still waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from agent_graph.cli.exits import CommandError
from agent_graph.cli.journals import find_run
from agent_graph.engine.state import RunState, fold
from agent_graph.errors import UnknownRun
from agent_graph.journal import Journal
from agent_graph.journal.entries import Record, RunInfo
from agent_graph.pending import Pending

__all__ = ['AtOption', 'Stored', 'read_run', 'still_waiting']

AtOption = Annotated[
    int | None,
    typer.Option(
        '--at', metavar='N', help='As it was after entry N, as `runs steps` numbers them.', show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored run, or the beginning of it that was asked for."""

    info: RunInfo
    records: Sequence[Record]

    @property
    def whole(self) -> bool:
        """Whether its newest entry is among the records."""
        return self.records[-1].seq >= self.info.last_seq

    @property
    def state(self) -> RunState:
        """The fold of the records."""
        return fold(self.info.run_id, self.records)


async def read_run(journal: Journal, given: str, at: int | None = None) -> Stored:
    """The run whose id is or begins with `given`, up to entry `at`."""
    info = await find_run(journal, given)
    if at is not None and not 1 <= at <= info.last_seq:
        raise CommandError(f'run {info.run_id!r} has no entry {at}; its entries are 1 to {info.last_seq}')
    return Stored(info, await journal.load(info.run_id, upto=at))


async def still_waiting(journal: Journal, state: RunState) -> tuple[Pending, ...]:
    """What a run waits for, without what an inner run has been told already."""
    waiting = [p for p in state.waiting if not p.path or await _inner_waits(journal, p)]
    return tuple(waiting)


async def _inner_waits(journal: Journal, pending: Pending) -> bool:
    try:
        inner = fold(pending.run_id, await journal.load(pending.run_id))
    except UnknownRun:
        return True
    return pending.tool_call_id in inner.pending
