"""Driving a user's graph with a journal: begun, gone on with, each node entered, paused, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_graph import BaseNode

from agent_graph.engine.budget import Budget
from agent_graph.engine.channel import Sink
from agent_graph.engine.effects import Effects, RunStore, lease_seconds, new_run_id, now
from agent_graph.engine.ending import FROM_OUTSIDE, is_left, leave
from agent_graph.engine.graph_data import GraphData
from agent_graph.engine.graph_moves import graph_change
from agent_graph.engine.inside import used_in_open_calls
from agent_graph.engine.lease import Keeper, new_owner, take
from agent_graph.engine.plan import Handles, OnCancel, OnPending
from agent_graph.engine.reopening import look_inside
from agent_graph.engine.replaying import RecordedEnd
from agent_graph.engine.start import PrivateJournal, created
from agent_graph.engine.state import RunState, apply, fold
from agent_graph.errors import ConfigError, JournalConflict, JournalError, ReplayMismatch
from agent_graph.journal import Journal, Lease
from agent_graph.journal.entries import Edited, Ended, Entered, Paused, Record, Started
from agent_graph.messages import JsonValue
from agent_graph.pending import PauseSignal, Pending
from agent_graph.text import clean_data, clean_text
from agent_graph.usage import Spend, Usage, UsageLimits, Used

__all__ = ['Reopened', 'begin', 'end', 'enter', 'fail', 'pause', 'reopen']


async def begin(
    data: GraphData,
    start: BaseNode[Any, Any, Any],
    state: Any,
    deps: Any,
    journal: Journal | None,
    run_id: str | None,
    limits: UsageLimits | None,
    on_pending: OnPending | None,
    on_cancel: OnCancel,
) -> Handles:
    """Record the start of a run of a graph."""
    node, held = data.dump_node(start), data.dump_state(state)
    run, at = RunState(run_id or new_run_id()), now()
    fingerprint = None if journal is None else data.fingerprint()
    # In one commit: a run without its first node could not be resumed.
    entered = Entered(start.get_node_id(), data={'node': node, 'state': held})
    first = [
        Record(1, at, Started(data.graph.name or 'graph', limits=limits, fingerprint=fingerprint)),
        Record(2, at, entered),
    ]
    store: RunStore
    if journal is None:
        store, lease = PrivateJournal(), Lease(run.run_id, 'private', 1, 0.0)
        await store.append(run.run_id, first, epoch=1)
    else:
        making = journal.create(run.run_id, first, owner=new_owner(), ttl=lease_seconds(journal))
        store, lease = journal, await created(journal, making, 3, leave=on_cancel == 'leave')
    for record in first:
        apply(run, record.entry)
    handles = _handles(run, Effects(store, lease, run, 3), deps, on_pending, keep=journal is not None)
    handles.on_cancel = on_cancel
    return handles


def _handles(run: RunState, effects: Effects, deps: Any, on_pending: OnPending | None, *, keep: bool) -> Handles:
    budget = Budget(
        run.limits, None, requests=run.requests, tool_calls=run.tool_calls, tokens=run.tokens, spends=list(run.spends)
    )
    handles = Handles(
        user_deps=deps,
        effects=effects,
        state=run,
        budget=budget,
        events=Sink(run.run_id, (), now),
        on_pending=on_pending,
    )
    if keep:
        handles.keeper = Keeper(handles)
    return handles


@dataclass(slots=True)
class Reopened:
    """A stored run of a graph: where it was, and, if it can go on now, its handles."""

    run: RunState
    state: Any
    node: Any = None
    entered: bool = False
    handles: Handles | None = None
    effects: Effects | None = None
    left: dict[str, Used] = field(default_factory=lambda: dict[str, Used]())


async def reopen(
    data: GraphData,
    run_id: str,
    journal: Journal,
    deps: Any,
    answers: Mapping[Any, Any] | None,
    on_pending: OnPending | None,
    on_change: Any,
) -> Reopened:
    """Find a stored run and take it over, unless it has ended or waits for an answer that nobody gave."""
    records = await journal.load(run_id)
    run = fold(run_id, records)
    change = await graph_change(data, run, on_change)
    if change is None:
        data.node_at(run)
    await look_inside(run, journal)
    held: Lease | None = None
    if answers is not None:
        from agent_graph.engine.control import answer_and_hold

        held = await answer_and_hold(run, None, journal, answers)
    try:
        opened = await _reopened(data, run, journal, on_pending, change, held)
    except BaseException:
        if held is not None:  # no matter where the run has been taken over already
            with suppress(JournalError):
                await journal.release(held)
        raise
    if opened.effects is None:
        return opened
    opened.handles = _handles(opened.run, opened.effects, deps, on_pending, keep=True)
    opened.handles.left = opened.left
    for used in opened.left.values():
        opened.handles.budget.take_up(used)
    return opened


async def _reopened(
    data: GraphData,
    decided: RunState,
    journal: Journal,
    on_pending: OnPending | None,
    change: Edited | None,
    held: Lease | None,
) -> Reopened:
    run_id = decided.run_id
    run = fold(run_id, await journal.load(run_id))
    await look_inside(run, journal)
    waits = run.paused and on_pending is None and not await _inner_answered(run, journal)
    if run.ended is not None or waits:
        if held is not None:
            await journal.release(held)
        if change is not None:
            apply(run, change)
        return Reopened(run, data.load_state(run.data))
    lease = await take(journal, run_id, held)
    try:
        records = await journal.load(run_id)
        run = fold(run_id, records)
        effects = Effects(journal, lease, run, records[-1].seq + 1)
        if change is not None:
            if (run.at, run.visit) != (decided.at, decided.visit):
                raise JournalConflict(f'run {run_id} has gone on since its change was decided; resume it again')
            await effects.record(change)
        left = await used_in_open_calls(journal, run)
        return Reopened(run, data.load_state(run.data), data.node_at(run), entered=True, effects=effects, left=left)
    except BaseException:
        await journal.release(lease)
        raise


async def _inner_answered(run: RunState, journal: Journal) -> bool:
    for pending in run.waiting:
        if pending.path and (await journal.info(pending.run_id)).status != 'paused':
            return True
    return False


async def enter(data: GraphData, handles: Handles, node: Any, state: Any, *, entered: bool) -> str:
    """Record that a node is entered; returns the scope of what happens in it."""
    name = node.get_node_id()
    if entered:
        # The same visit to the node as before the stop: its steps have been recorded under this scope.
        return handles.state.scope
    held: dict[str, JsonValue] = {'node': data.dump_node(node)}
    dumped = data.dump_state(state)
    if dumped != handles.state.data:
        held['state'] = dumped
    usage, spends = _used(handles)
    await handles.effects.record(Entered(name, data=held, usage=usage, spends=spends))
    return handles.state.scope


def _used(handles: Handles) -> tuple[Usage | None, tuple[Spend, ...]]:
    """What the agents run in the node that has just been left used."""
    inside, handles.inside = handles.inside, None
    return (None, ()) if inside is None else (inside.usage(), tuple(inside.spends))


async def pause(handles: Handles, scope: str, signal: PauseSignal) -> tuple[Pending, ...]:
    """Record what the node waits for."""
    found: list[Pending] = []
    for pending in signal.pending:
        own = pending.run_id == handles.run_id
        found.append(pending if own else clean_data(_below(scope, pending)))
    if isinstance(handles.effects.journal, PrivateJournal):
        asked = ', '.join(repr(p.question or p.tool_name) for p in found)
        raise ConfigError(
            f'the graph waits for people ({asked}), and without a journal nobody could answer; pass journal=, or on_pending='
        )
    if handles.keeper is not None:
        handles.keeper.stop()
    inside = handles.inside
    used = (None, ()) if inside is None else (inside.usage(), tuple(inside.spends))
    await handles.effects.record(Paused(tuple(found), *used))
    await handles.effects.release()
    return tuple(found)


def _below(scope: str, pending: Pending) -> Pending:
    return replace(pending, path=(scope, *pending.path))


async def end(data: GraphData, handles: Handles, output: Any, state: Any) -> None:
    """Record that the run is complete, with its output and what its last node made of the state."""
    if handles.keeper is not None:
        handles.keeper.stop()
    stored, value = data.dump_output(output)
    usage, spends = _used(handles)
    last = data.dump_state(state)
    held: JsonValue = None if last == handles.state.data else {'state': last}
    ended = Ended('completed', value, output_stored=stored, usage=usage, spends=spends, data=held)
    await handles.effects.record(ended)


async def fail(handles: Handles, error: BaseException) -> BaseException:
    """Record that a node failed, or that the walk was cancelled; returns what to raise."""
    keeper = handles.keeper
    if keeper is not None:
        keeper.stop()
    if isinstance(error, RecordedEnd | ReplayMismatch):  # a replay has come to its end
        return error
    if isinstance(error, JournalConflict) or (keeper is not None and keeper.lost):
        return await _lost(handles, error)
    if isinstance(error, FROM_OUTSIDE) and is_left(handles):
        await leave(handles)
        return error
    status = 'failed' if isinstance(error, Exception) else 'cancelled'
    try:
        text = clean_text(str(error) or type(error).__name__)
        usage, spends = _used(handles)
        ended = Ended(status, error=text, error_type=type(error).__name__, usage=usage, spends=spends)
        await handles.effects.record(ended)
        await handles.let_go(handles.state.scope)
    except JournalError as failure:
        error.add_note(f'and the journal could not record this: {failure}')
        with suppress(JournalError):  # so that the run can be gone on with at once
            await handles.effects.release()
    return error


async def _lost(handles: Handles, error: BaseException) -> BaseException:
    """The run has another owner, who may have cancelled it: nothing more is written here."""
    from agent_graph.engine.ending import lost

    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None:  # by the keeper, to stop this walk
        task.uncancel()
    return await lost(handles, error if isinstance(error, JournalConflict) else None)
