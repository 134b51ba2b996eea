"""Time travel: a new run that shares the past of another up to some entry, and goes on differently from there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from agent_graph.engine.effects import new_run_id, now
from agent_graph.engine.lease import new_owner
from agent_graph.engine.start import LEASE_SECONDS
from agent_graph.engine.state import RunState, fold
from agent_graph.errors import ConfigError
from agent_graph.journal import Journal
from agent_graph.journal.entries import Edited, Ended, Entered, Entry, Record
from agent_graph.messages import AssistantMessage, Message, ToolMessage, UserMessage, repair
from agent_graph.text import clean_data

__all__ = ['fork_run']

_EDITABLE = ('messages', 'metadata', 'limits')


async def fork_run(
    journal: Journal,
    run_id: str,
    *,
    at: int | str | None,
    edit: Callable[[RunState], Any] | None,
    replacement: Message | None,
    new_id: str | None,
) -> str:
    """Make the new run and return its id; the original is untouched."""
    records = await journal.load(run_id)
    point = _point(run_id, records, at)
    more: list[Entry] = []
    if replacement is not None:
        point, entry = _replaced(records, point, replacement)
        more.append(entry)
    if edit is not None:
        if point < 1:
            raise ConfigError('edit and replace cannot both stand before the first entry; pass one of them')
        more += _edited(fold(run_id, records[:point]), edit)
    made = new_id or new_run_id()
    lease = await journal.fork(run_id, made, at=point, owner=new_owner(), ttl=LEASE_SECONDS)
    if more:
        at_time = now()
        await journal.append(made, [Record(point + i, at_time, e) for i, e in enumerate(more, 1)], epoch=lease.epoch)
    await journal.release(lease)
    return made


def _point(run_id: str, records: Sequence[Record], at: int | str | None) -> int:
    """The entry to fork after: a number, the last entry of a node by name, or the newest that does not end the run."""
    if at is None:
        last = records[-1]
        return last.seq - 1 if isinstance(last.entry, Ended) else last.seq
    if isinstance(at, str):
        seqs = [r.seq for r in records if isinstance(r.entry, Entered) and r.entry.node == at]
        if not seqs:
            nodes = list(dict.fromkeys(r.entry.node for r in records if isinstance(r.entry, Entered)))
            raise ConfigError(f'run {run_id} never entered a node {at!r}; it entered: {", ".join(nodes)}')
        return seqs[-1]
    if not 1 <= at <= records[-1].seq:
        raise ConfigError(f'run {run_id} has no entry {at!r}; its entries are 1 to {records[-1].seq}')
    if isinstance(records[at - 1].entry, Ended):
        raise ConfigError(f'entry {at} ends run {run_id}; fork at an earlier one, up to {at - 1}')
    return at


def _replaced(records: Sequence[Record], point: int, message: Message) -> tuple[int, Entered]:
    """Share everything before the node entered at `point`, and enter it with another message."""
    entry = records[point - 1].entry
    if isinstance(entry, Entered) and entry.node == 'ModelRequest' and isinstance(message, UserMessage | ToolMessage):
        return point - 1, replace(entry, message=clean_data(message))
    if isinstance(entry, Entered) and entry.response is not None and isinstance(message, AssistantMessage):
        return point - 1, replace(entry, response=clean_data(message))
    raise ConfigError(
        f'{type(message).__name__} cannot replace what entry {point} brought ({getattr(entry, "node", entry.kind)}); a '
        'ModelRequest takes a UserMessage or ToolMessage, a HandleResponse an AssistantMessage'
    )


def _edited(state: RunState, edit: Callable[[RunState], Any]) -> list[Entry]:
    """What `edit` changed in (or returned instead of) a copy of the state, as one entry."""
    before = copy.deepcopy(state)
    given = edit(state)
    after = state if given is None else given
    if not isinstance(after, RunState):
        raise ConfigError(f'edit returned {given!r}; change the state it is given, or return a RunState')
    changed = [f.name for f in fields(RunState) if getattr(before, f.name) != getattr(after, f.name)]
    refused = [name for name in changed if name not in _EDITABLE]
    if refused:
        raise ConfigError(f'edit changed {", ".join(refused)}; a fork may change: {", ".join(_EDITABLE)}')
    if not changed:
        return []
    values: dict[str, Any] = {name: clean_data(getattr(after, name)) for name in changed}
    if 'messages' in values:
        values['messages'] = tuple(_repaired(after, list(values['messages'])))
    return [Edited(**values)]


def _repaired(state: RunState, messages: list[Message]) -> list[Message]:
    """A valid history, but for the calls of the response that the fork is about to handle: those are answered by it."""
    handled = state.at.response if state.at is not None else None
    if handled is not None and messages and messages[-1] == handled:
        return [*repair(messages[:-1]), messages[-1]]
    return list(repair(messages))
