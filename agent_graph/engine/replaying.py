"""Replay: the same code against recorded entries, without any effect; the first difference is named."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from agent_graph.engine.effects import Effects
from agent_graph.engine.start import PrivateJournal
from agent_graph.engine.state import APPLY, RunState
from agent_graph.errors import ReplayMismatch, UnexpectedModelBehavior
from agent_graph.journal import Lease
from agent_graph.journal.entries import Ended, Entered, Entry, Record
from agent_graph.messages import Message
from agent_graph.model import Model, RequestInfo, ResponseBuilder

__all__ = ['ReplayEffects']

_WALK = (Entered, Ended)
"""The entries that are the path itself; what happened inside a node is taken over from the recording."""


class ReplayEffects(Effects):
    """A door behind which there is a recording: responses and finished calls come from it, and nothing is written.

    An entry of the path that the code makes now is held against the recorded one; entries inside a node (tool calls,
    pauses, answers) are applied as they were recorded, so that no tool runs.
    """

    __slots__ = ('broken', 'position', 'records')

    def __init__(self, records: Sequence[Record], state: RunState) -> None:
        super().__init__(PrivateJournal(), Lease(state.run_id, 'replay', 1, 0.0), state, 2)
        self.records = records
        self.position = 1
        self.broken = False

    def record(self, entry: Entry, second: Entry | None = None) -> Awaitable[None]:
        """Compare instead of commit."""
        self._take(entry)
        if second is not None:
            self._take(second)
        done: asyncio.Future[None] = self.loop.create_future()
        done.set_result(None)
        return done

    def _take(self, entry: Entry) -> None:
        if self.broken or not isinstance(entry, _WALK):
            APPLY[entry.__class__](self.state, entry)
            return
        if self.position >= len(self.records):
            self.broken = True
            raise UnexpectedModelBehavior(
                f'the recording ends after entry {len(self.records)}, where the run goes on with {entry!r}; record it to its end'
            )
        recorded = self.records[self.position]
        if isinstance(recorded.entry, Ended) and recorded.entry.status != 'completed' and not isinstance(entry, Ended):
            self.broken = True
            raise UnexpectedModelBehavior(
                f'the recorded run {recorded.entry.status} at entry {recorded.seq}: {recorded.entry.error or "no error"}'
            )
        difference = _difference(recorded.entry, entry)
        if difference is not None:
            self.broken = True
            raise _mismatch(recorded, difference, recorded.entry, entry)
        APPLY[entry.__class__](self.state, recorded.entry)
        self.position += 1
        while self.position < len(self.records) and not isinstance(self.records[self.position].entry, _WALK):
            inside = self.records[self.position].entry
            APPLY[inside.__class__](self.state, inside)
            self.position += 1

    async def ask(self, model: Model, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """The recorded response, or the recorded failure."""
        upcoming = self.records[self.position].entry if self.position < len(self.records) else None
        if isinstance(upcoming, Entered) and upcoming.response is not None:
            await out.message(upcoming.response)
            await out.finish()
            return
        if isinstance(upcoming, Ended):
            raise UnexpectedModelBehavior(f'the recorded request failed: {upcoming.error or upcoming.status}')
        raise UnexpectedModelBehavior(
            f'the recording stops before request {self.state.step} was answered; record the run to its end to replay it'
        )

    async def call(self, *args: Any, **kwargs: Any) -> Any:
        """A call that was not recorded as finished: replay has no effects, so it cannot be made now."""
        raise ReplayMismatch(
            f'after entry {self.position} the run calls a tool whose result is not in the recording',
            seq=self.position,
            index=0,
            expected=None,
            found=None,
        )

    async def release(self) -> None:
        """There is no lease to give back."""


def _difference(recorded: Entry, made: Entry) -> str | None:
    """The name of the first field that differs, `kind` for another entry altogether."""
    if type(recorded) is not type(made):
        return 'kind'
    for name in recorded.__dataclass_fields__:
        before, now = getattr(recorded, name), getattr(made, name)
        if before != now and not (isinstance(recorded, Ended) and name in ('error', 'error_type')):
            return name
    return None


def _mismatch(record: Record, name: str, recorded: Entry, made: Entry) -> ReplayMismatch:
    before = recorded if name == 'kind' else getattr(recorded, name)
    now = made if name == 'kind' else getattr(made, name)
    return ReplayMismatch(
        f'entry {record.seq} ({recorded.kind}) differs in {name!r}: recorded {before!r}, now {now!r}',
        seq=record.seq,
        index=0,
        expected=before,
        found=now,
    )
