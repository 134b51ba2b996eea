"""How a stored run stands right now: what its newest entry says, and whether anybody drives it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, TypeAlias

from agent_graph.cli.runs.reading import still_waiting
from agent_graph.engine.lease import is_dead
from agent_graph.engine.state import fold
from agent_graph.errors import CodecError
from agent_graph.journal import Journal
from agent_graph.journal.entries import (
    Answered,
    CallFinished,
    CallStarted,
    Entered,
    Entry,
    Paused,
    Record,
    RunInfo,
    RunStatus,
)

__all__ = ['STORED', 'STYLES', 'Standing', 'is_open', 'standing']

Standing: TypeAlias = Literal['running', 'paused', 'answered', 'stopped', 'died', 'completed', 'failed', 'cancelled']
"""`running`: somebody drives it. `paused`: it waits for people. `answered`: it waits for nobody, only to be gone on with.
`stopped`: it was left, forked or imported before its end. `died`: its process ended without giving it free, or has given
no sign of life for longer than its lease. The others are its end."""

STORED: dict[Standing, tuple[RunStatus, ...]] = {
    'running': ('running', 'paused'),
    'paused': ('paused', 'running'),
    'answered': ('running', 'paused'),
    'stopped': ('running', 'paused'),
    'died': ('running',),
    'completed': ('completed',),
    'failed': ('failed',),
    'cancelled': ('cancelled',),
}
"""What the journal itself says of a run that stands so. A run answered in part is one whose newest entry is no pause; one
whose inner run was answered still ends with its own."""

STYLES: dict[Standing, str] = {
    'running': 'cyan',
    'paused': 'yellow',
    'answered': 'yellow',
    'stopped': 'yellow',
    'died': 'red',
    'failed': 'red',
    'cancelled': 'dim',
}


def is_open(stands: Standing) -> bool:
    """Whether `runs resume` would go on with such a run."""
    return stands in ('answered', 'stopped', 'died')


async def standing(journal: Journal, info: RunInfo) -> Standing:
    """How a run stands. Reads no more of it than it takes: nothing of one that has ended or is driven."""
    try:
        if info.status == 'paused':
            return await _of_paused(journal, info)
        if info.status == 'running' and not _is_driven(info):
            return await _of_idle(journal, info)
    except CodecError:  # a damaged entry must not hide the run from lists
        return 'paused' if info.status == 'paused' else 'stopped'
    return info.status


def _is_driven(info: RunInfo) -> bool:
    """In doubt true: a store need not tell who drives a run, and of another machine's processes nothing is known."""
    return info.owner is None or (info.expires > time.time() and not is_dead(info.owner))


async def _of_paused(journal: Journal, info: RunInfo) -> Standing:
    """Paused by its own newest entry; what it waits for inside its calls may have been answered there."""
    newest = await _newest(journal, info)
    if isinstance(newest, Paused) and any(not pending.path for pending in newest.pending):
        return 'paused'
    state = fold(info.run_id, await journal.load(info.run_id))
    if await still_waiting(journal, state):
        return 'paused'
    if _is_driven(info) and info.owner is not None:
        return 'running'
    return 'answered' if state.paused else 'stopped'


async def _of_idle(journal: Journal, info: RunInfo) -> Standing:
    """Neither ended nor paused, and nobody drives it."""
    if info.expires:
        return 'died'
    if not isinstance(await _newest(journal, info), Answered | CallFinished):
        return 'stopped'
    records = await journal.load(info.run_id)
    if not _is_answered(records):
        return 'stopped'
    return 'paused' if await still_waiting(journal, fold(info.run_id, records)) else 'answered'


async def _newest(journal: Journal, info: RunInfo) -> Entry:
    records = await journal.load(info.run_id, after=info.last_seq - 1)
    return records[-1].entry


def _is_answered(records: Sequence[Record]) -> bool:
    """Whether nothing but answers came after its newest pause: the result of a call may be one, handed in from outside."""
    for record in reversed(records):
        if isinstance(record.entry, Paused):
            return True
        if isinstance(record.entry, Entered | CallStarted):
            return False
    return False
