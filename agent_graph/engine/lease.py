"""Who drives a run: owners that can be told to be dead, and leases that are kept while the driver lives."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from agent_graph.engine.effects import lease_seconds
from agent_graph.errors import JournalConflict, JournalError, RunLocked
from agent_graph.journal import Journal, Lease
from agent_graph.journal.memory import MemoryJournal

if TYPE_CHECKING:
    from agent_graph.engine.plan import Handles

__all__ = ['RENEW_SECONDS', 'Keeper', 'give_up', 'is_dead', 'new_owner', 'take']

RENEW_SECONDS = 5.0
"""How often a living driver says so, and how soon it notices that it has lost its run; more often for short leases."""


def new_owner() -> str:
    """A name for a driver in this process: machine, process and when that started, and a random part."""
    return f'{_process(os.getpid())}/{os.urandom(4).hex()}'


@cache
def _process(pid: int) -> str:
    """This process, as long as it is the one asked for: a forked child is another."""
    return f'{_machine()}/{pid}/{_started(pid)}'


def is_dead(owner: str) -> bool:
    """True only if `owner` has stopped: a process of this machine that does not exist any more; in doubt False."""
    if owner in _gone:
        return True
    parts = owner.split('/')
    if len(parts) != 4 or parts[0] != _machine() or not parts[1].isdigit() or not parts[2]:
        return False
    return _started(int(parts[1])) != parts[2]


def give_up(owner: str) -> None:
    """A driver of this process has stopped and could not give its run free: the journal did not take that."""
    if len(_gone) >= _MOST_GONE:
        _gone.pop(next(iter(_gone)))
    _gone[owner] = None


_gone: dict[str, None] = {}
_MOST_GONE = 10_000
"""So many are known, the newest; others are told by their leases."""


def _machine() -> str:
    """The machine, this boot of it, and the process namespace: only inside one of these do process ids mean anything."""
    try:
        boot = Path('/proc/sys/kernel/random/boot_id').read_text(encoding='ascii').strip()
        return f'{boot}.{Path("/proc/self/ns/pid").stat().st_ino}'
    except OSError:
        return f'{os.uname().nodename}.unknown'


def _started(pid: int) -> str:
    """When a process started, in clock ticks since boot; empty if it does not exist or has ended, or cannot be told."""
    try:
        fields = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8', errors='replace').rpartition(')')[2].split()
    except OSError:
        return ''
    return '' if fields[0] in ('Z', 'X') else fields[19]


async def take(journal: Journal, run_id: str, held: Lease | None = None) -> Lease:
    """Take a run over; at once if its owner is dead, or is who `held` it. Raises `RunLocked` while its owner may be alive."""
    owner, over = new_owner(), None if held is None else held.owner
    try:
        return await journal.acquire(run_id, owner=owner, ttl=lease_seconds(journal), over=over)
    except RunLocked as error:
        if not is_dead(error.owner):
            raise
        return await journal.acquire(run_id, owner=owner, ttl=lease_seconds(journal), over=error.owner)


class Keeper:
    """Has a run's lease renewed while it is driven, and stops the driver when the run has another owner."""

    __slots__ = ('_deps', '_rounds', 'every', 'lost')

    def __init__(self, deps: Handles) -> None:
        self._deps = deps
        self.lost = False
        loop, journal = deps.effects.loop, deps.effects.journal
        self.every = RENEW_SECONDS
        if journal.__class__ is not MemoryJournal:
            self.every = min(RENEW_SECONDS, lease_seconds(journal) / 4)
        self._rounds = rounds = _rounds[loop] if loop in _rounds else _Rounds(loop)
        rounds.keepers.add(self)
        if self.every < rounds.every:
            rounds.hasten(self.every)

    def stop(self) -> None:
        """The run is driven no more."""
        self._rounds.keepers.discard(self)

    async def renew(self) -> None:
        """Say that the driver lives; cancel it if the run has been taken over."""
        effects = self._deps.effects
        try:
            effects.lease = await effects.journal.renew(effects.lease, ttl=lease_seconds(effects.journal))
        except JournalConflict:
            self.lost = True
            self.stop()
            if self._deps.driver is not None:
                self._deps.driver.cancel()
        except JournalError:
            pass  # the next write says it better, and the lease lasts for some more tries


class _Rounds:
    """One timer for all runs driven in an event loop; there is none while no run is driven."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.keepers: set[Keeper] = set()
        self.task: asyncio.Task[None] | None = None
        self.every = RENEW_SECONDS
        self.timer = loop.call_later(RENEW_SECONDS, self.begin)
        for gone in [other for other in _rounds if other.is_closed()]:
            _rounds.pop(gone, None)
        _rounds[loop] = self

    def hasten(self, every: float) -> None:
        self.every = every
        self.timer.cancel()
        self.timer = self.loop.call_later(every, self.begin)

    def begin(self) -> None:
        if self.keepers:
            self.task = self.loop.create_task(self.go())
        else:
            _rounds.pop(self.loop, None)

    async def go(self) -> None:
        await asyncio.gather(*(keeper.renew() for keeper in list(self.keepers)))
        self.every = min([RENEW_SECONDS, *(keeper.every for keeper in self.keepers)])
        self.timer.cancel()
        self.timer = self.loop.call_later(self.every, self.begin)


_rounds: dict[asyncio.AbstractEventLoop, _Rounds] = {}
"""Per event loop; each only touched from its own thread."""
