"""Time travel: a new run that shares the past of another up to some entry, and goes on differently from there."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from agent_graph.engine.effects import lease_seconds, new_run_id, now
from agent_graph.engine.lease import new_owner
from agent_graph.engine.response import normalise
from agent_graph.engine.state import RunState, apply, fold
from agent_graph.errors import ConfigError, JournalError
from agent_graph.journal import Journal
from agent_graph.journal.entries import CallFinished, CallStarted, Edited, Ended, Entered, Entry, Record
from agent_graph.messages import (
    AssistantMessage,
    JsonValue,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
    repair,
)
from agent_graph.messages.history import INTERRUPTED, calls_of
from agent_graph.text import clean_data, json_form
from agent_graph.usage import UsageLimits

__all__ = ['edits', 'fork_point', 'fork_run', 'make_fork']

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
    point, more = fork_point(run_id, records, at), list[Entry]()
    if at is None and replacement is None:
        point, more = _before_failure(run_id, records, point)
    if replacement is not None:
        point, entry = _replaced(run_id, records, point, replacement)
        more.append(entry)
    elif _is_cut_off(records[point - 1]):
        raise ConfigError(
            f'entry {point} of run {run_id} is a response that was cut off; fork before it, at {point - 1}, or replace it'
        )
    if edit is not None:
        if point < 1:
            raise ConfigError('edit and replace cannot both stand before the first entry; pass one of them')
        changed = await _edited(_with(fold(run_id, records[:point]), more), edit)
        more += [changed] if changed is not None else []
    more += _forgiven(fold(run_id, records[:point])) if not more and point else []
    return await make_fork(journal, run_id, point, more, new_id)


async def make_fork(journal: Journal, run_id: str, point: int, more: Sequence[Entry], new_id: str | None) -> str:
    """A run that shares the records up to `point` and goes on with `more`; its id."""
    made = new_id or new_run_id()
    lease = await journal.fork(run_id, made, at=point, owner=new_owner(), ttl=lease_seconds(journal))
    if more:
        at_time = now()
        new = [Record(point + i, at_time, e) for i, e in enumerate(more, 1)]
        try:
            await journal.append(made, new, epoch=lease.epoch)
        except JournalError:
            await journal.delete(made)
            raise
    await journal.release(lease)
    return made


def _before_failure(run_id: str, records: Sequence[Record], point: int) -> tuple[int, list[Entry]]:
    """Of a run that failed in a call: the place before that call began, and what belongs to the others since then.

    So the call is made again, as it was approved. What was stopped because of it is in flight, as after a crash.
    """
    last = records[-1].entry
    if not isinstance(last, Ended) or last.status != 'failed':
        return point, []
    finished = fold(run_id, records[:point]).finished.values()
    failed = {f.part.tool_call_id for f in finished if f.part.outcome == 'failed'}
    if not failed:
        return point, []
    begun = {r.entry.tool_call_id: r.seq for r in records if isinstance(r.entry, CallStarted)}
    place = min(begun[call_id] for call_id in failed) - 1
    since = [r.entry for r in records[place:point]]
    return place, [entry for entry in since if not _is_undone(entry, failed)]


def _is_undone(entry: Entry, failed: set[str]) -> bool:
    if isinstance(entry, CallStarted):
        return entry.tool_call_id in failed
    if not isinstance(entry, CallFinished):
        return False
    stopped = entry.part.outcome == 'interrupted' and entry.part.content == INTERRUPTED
    return stopped or entry.part.tool_call_id in failed


def _with(state: RunState, entries: Sequence[Entry]) -> RunState:
    for entry in entries:
        apply(state, entry)
    return state


def _forgiven(state: RunState) -> list[Entry]:
    """Calls that failed and ended the original: the fork goes on, and its model is told of them."""
    failed = [f.part for f in state.finished.values() if f.part.outcome == 'failed']
    return [CallFinished(replace(part, outcome='interrupted')) for part in failed]


def fork_point(run_id: str, records: Sequence[Record], at: object) -> int:
    """The entry to fork after: a number, the last entry of a node by name, or the newest that does not end the run.

    Neither of the latter two is a response that was cut off: it is no step the run could go on from.
    """
    if at is None:
        return next(r.seq for r in reversed(records) if not isinstance(r.entry, Ended) and not _is_cut_off(r))
    if isinstance(at, str):
        nodes = {r.entry.node: r.seq for r in records if isinstance(r.entry, Entered) and not _is_cut_off(r)}
        if at not in nodes:
            raise ConfigError(f'run {run_id} never entered a node {at!r}; it entered: {", ".join(nodes)}')
        return nodes[at]
    if not isinstance(at, int) or isinstance(at, bool) or not 1 <= at <= records[-1].seq:
        raise ConfigError(f'run {run_id} has no entry {at!r}; its entries are 1 to {records[-1].seq}')
    if isinstance(records[at - 1].entry, Ended):
        raise ConfigError(f'entry {at} ends run {run_id}; fork at an earlier one, up to {at - 1}')
    return at


def _is_cut_off(record: Record) -> bool:
    entry = record.entry
    return isinstance(entry, Entered) and entry.response is not None and entry.response.interrupted


def _replaced(run_id: str, records: Sequence[Record], point: int, message: Message) -> tuple[int, Entered]:
    """Share everything before the node entered at `point`, and enter it with another message."""
    entry = records[point - 1].entry
    if isinstance(entry, Entered) and entry.node == 'ModelRequest' and isinstance(message, UserMessage | ToolMessage):
        return point - 1, replace(entry, message=clean_data(message), by_hand=True)
    if isinstance(entry, Entered) and entry.response is not None and isinstance(message, AssistantMessage):
        return point - 1, replace(entry, response=normalise(message, fold(run_id, records[: point - 1])))
    raise ConfigError(
        f'{type(message).__name__} cannot replace what entry {point} brought ({getattr(entry, "node", entry.kind)}); a '
        'ModelRequest takes a UserMessage or ToolMessage, a HandleResponse an AssistantMessage'
    )


async def _edited(state: RunState, edit: Callable[[RunState], Any]) -> Edited | None:
    """What `edit` changed in (or returned instead of) a copy of the state, as one entry."""
    # A copy of everything: a journal in memory holds these very objects.
    copied = copy.deepcopy(state)
    given = edit(copied)
    if inspect.isawaitable(given):
        given = await given
    after = copied if given is None else given
    if not isinstance(after, RunState):
        raise ConfigError(f'edit returned {given!r}; change the state it is given, or return a RunState')
    return edits(state, after)


def edits(state: RunState, after: RunState) -> Edited | None:
    """What is different in `after`, as one entry; `ConfigError` for what is no message, or may not be changed."""
    changed = [f.name for f in fields(RunState) if getattr(state, f.name) != getattr(after, f.name)]
    refused = [name for name in changed if name not in _EDITABLE]
    if refused:
        raise ConfigError(f'the edit changed {", ".join(refused)}; it may change: {", ".join(_EDITABLE)}')
    if not changed:
        return None
    return Edited(
        _messages(state, after) if 'messages' in changed else None,
        _metadata(after) if 'metadata' in changed else None,
        _limits(after) if 'limits' in changed else None,
    )


def _messages(state: RunState, after: RunState) -> tuple[Message, ...]:
    given: Any = after.messages
    kinds = SystemMessage | UserMessage | AssistantMessage | ToolMessage
    if not isinstance(given, list | tuple) or not all(isinstance(m, kinds) for m in cast('Sequence[Any]', given)):
        raise ConfigError(f'edit made messages {given!r}; it has to be a list of messages')
    return tuple(_repaired(state, clean_data(list(cast('Sequence[Message]', given)))))


def _metadata(state: RunState) -> dict[str, JsonValue]:
    given: Any = {} if state.metadata is None else state.metadata
    try:
        made: Any = json_form(given)
    except ValueError as error:
        raise ConfigError(f'edit made metadata {given!r}, which has no JSON form: {error}') from error
    if not isinstance(made, dict):
        raise ConfigError(f'edit made metadata {given!r}; it is a dict, or None')
    return cast('dict[str, JsonValue]', made)


def _limits(state: RunState) -> UsageLimits:
    given: Any = UsageLimits() if state.limits is None else state.limits
    if not isinstance(given, UsageLimits):
        raise ConfigError(f'edit made limits {given!r}; pass UsageLimits(...), or None for no limits')
    return given


def _repaired(state: RunState, messages: list[Message]) -> list[Message]:
    """A valid history, but for the calls of the response that is about to be handled: those are answered by that."""
    handled = state.at.response if state.at is not None else None
    if handled is None or not state.messages or state.messages[-1] != handled:
        return list(repair(messages))
    last = messages[-1] if messages else None
    if not isinstance(last, AssistantMessage):
        raise ConfigError(
            'the edit took away the response that is handled next, the last message; keep it, changed or not, or fork at '
            'an entry before it came'
        )
    last = normalise(last, state, instead_of=handled)
    left = {c.tool_call_id for c in calls_of(last)}
    lost = [c for c in (*state.started, *state.finished, *state.pending) if c not in left]
    if lost:
        raise ConfigError(f'the edit took away the call {lost[0]!r}, which has begun or waits; keep it under its id')
    return [*repair(messages[:-1]), last]
