"""Going on with a stored run: its fold, a lease, and the node it was in; also of a run inside a tool call, or in replay."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic_graph import BaseNode, End, GraphRunContext

from agent_graph.engine.effects import Effects
from agent_graph.engine.inside import used_by, used_in_open_calls
from agent_graph.engine.nodes import FinalResult, HandleResponse, ModelRequest, UserPrompt
from agent_graph.engine.plan import RunDeps, active_call
from agent_graph.engine.start import Opened, Order, first_entry, handles_of, take_captured
from agent_graph.engine.state import RunState, apply, fold
from agent_graph.errors import CodecError, ConfigError, JournalConflict, JournalError, UnknownRun
from agent_graph.journal import Journal, Lease
from agent_graph.journal.entries import Edited, Entered, Parent, Record, Started
from agent_graph.messages import Message
from agent_graph.pending import Pending
from agent_graph.usage import Used

__all__ = ['Change', 'go_on', 'look_inside', 'reopen_run', 'replay_run']


@dataclass(frozen=True, slots=True)
class Change:
    """What to record because the agent has changed, and the messages of the run for which that was decided."""

    entry: Edited
    messages: list[Message]


async def go_on(order: Order, run_id: str, journal: Journal, owner: RunDeps, parent: Parent) -> Opened | str:
    """The run an earlier attempt of this tool call started; the id for a new one if there is none to go on with."""
    try:
        records = await journal.load(run_id)
    except UnknownRun:
        return run_id
    state = fold(run_id, records)
    # A fork that is replayed finds what the original left, made in the same call of that.
    made_here = (
        parent if not owner.effects.replays or state.parent is None else replace(parent, run_id=state.parent.run_id)
    )
    same = (
        state.parent == made_here
        and state.agent == order.plan.name
        and state.prompt == first_entry(order, None, None).prompt
    )
    if same and (state.ended is None or state.ended.status == 'completed'):
        return await reopen_run(order, run_id, journal, owner=owner)
    # The tool does something else this time, or begins again what failed.
    return run_id if order.run_id else await go_on(order, f'{run_id}+', journal, owner, parent)


async def reopen_run(
    order: Order,
    run_id: str,
    journal: Journal,
    *,
    owner: RunDeps | None = None,
    change: Change | None = None,
    held: Lease | None = None,
) -> Opened:
    """Go on with a stored run: the node it was in is entered again, without a new entry.

    A run that has ended, or that waits for an answer nobody gave, comes back at its `End`. A `change` is recorded before
    the run goes on. `held` is the lease of whoever has just answered it.
    """
    try:
        return await _reopened(order, run_id, journal, owner, change, held)
    except BaseException:
        if held is not None:  # no matter where the run has been taken over already
            with suppress(JournalError):
                await journal.release(held)
        raise


async def _reopened(
    order: Order, run_id: str, journal: Journal, owner: RunDeps | None, change: Change | None, held: Lease | None
) -> Opened:
    state = fold(run_id, await journal.load(run_id))
    await look_inside(state, journal)
    if state.ended is None and not (state.paused and order.on_pending is None and not await _woken(state, journal)):
        effects, left = await _taken(run_id, journal, change, held)
        state, waits = effects.state, False
    else:
        effects, waits = Effects(journal, Lease(run_id, '', 0, 0.0), state, 0), True
        left = {}
        if held is not None:
            await journal.release(held)
    order.limits = state.limits
    take_captured(state)
    around = active_call.get() if owner is not None else None
    if around is not None and owner is not None and order.run_id == run_id and run_id not in owner.counted:
        used = await used_by(journal, state)  # nothing but its own name leads to it, so this was not counted yet
        around.take_up(used, around=True)
        owner.budget.take_up(used, around=True)
        owner.counted.add(run_id)
    deps = handles_of(order, effects, state, owner, private=waits)
    deps.left = left
    for used in left.values():
        deps.budget.take_up(used)
    deps.woken = await _woken(state, journal) if state.pending else frozenset()
    deps.events.node = state.at.node if state.at is not None else ''
    ctx = GraphRunContext(state=state, deps=deps)
    if waits:
        return End(FinalResult(None, pending=state.waiting)), ctx
    deps.entered = state.at is not None
    if state.offered is not None:
        deps.offered_names = state.offered
    return _node_at(state), ctx


async def _taken(
    run_id: str, journal: Journal, change: Change | None, held: Lease | None
) -> tuple[Effects, dict[str, Used]]:
    """Take a run over, and record what its agent's change makes of it."""
    from agent_graph.engine.lease import take

    lease = await take(journal, run_id, held)
    try:
        records = await journal.load(run_id)
        state = fold(run_id, records)
        await look_inside(state, journal)
        effects = Effects(journal, lease, state, records[-1].seq + 1)
        effects.batches = getattr(journal, 'batches', False)
        if change is not None:
            if state.messages != change.messages:
                raise JournalConflict(f'run {run_id} has gone on since its change was decided; resume it again')
            await effects.record(change.entry)
        return effects, await used_in_open_calls(journal, state)
    except BaseException:
        with suppress(JournalError):
            await journal.release(lease)
        raise


def replay_run(
    order: Order, records: Sequence[Record], run_id: str | None, on_change: Literal['refuse', 'continue']
) -> tuple[UserPrompt, GraphRunContext[RunState, RunDeps]]:
    """A recorded run from its beginning, with a door that only compares."""
    from agent_graph.engine.replaying import ReplayEffects, check_fingerprint, recorded_id

    first: Any = records[0] if records else None
    first = first.entry if isinstance(first, Record) else None
    if not isinstance(first, Started):
        raise ConfigError('there is nothing to replay: the recording does not begin with the start of a run')
    check_fingerprint(records, order.plan.fingerprint(), on_change)
    state = RunState(run_id or recorded_id(records))
    apply(state, first)
    order.limits = state.limits
    order.keep = None
    deps = handles_of(order, ReplayEffects(records, state), state, None, private=True)
    deps.deadline = None
    return UserPrompt(state.prompt), GraphRunContext(state=state, deps=deps)


async def look_inside(state: RunState, journal: Journal) -> None:
    """What the runs inside tool calls wait for now, in place of what the outer run wrote down when it paused.

    A process may die between the pause of an inner run and that of the run around it.
    """
    for call_id, group in list(state.pending.items()):
        fresh: list[Pending] = []
        for child in dict.fromkeys(_child(state.run_id, call_id, p.run_id) for p in group if p.path):
            try:
                inner = fold(child, await journal.load(child))
            except UnknownRun:
                continue
            await look_inside(inner, journal)
            if inner.paused:
                fresh += [replace(p, path=(call_id, *p.path)) for p in inner.waiting]
        if fresh:
            state.pending[call_id] = (*(p for p in group if not p.path), *fresh)


def _child(run_id: str, call_id: str, inner: str) -> str:
    """The id of the run directly inside a call, of which `inner` is one or is inside of."""
    head = f'{run_id}:{call_id}:'
    return head + inner[len(head) :].split(':', 1)[0]


async def _woken(state: RunState, journal: Journal) -> frozenset[str]:
    """The calls of this run whose inner runs have been answered, so that they can go on."""
    woken: set[str] = set()
    for call_id, group in state.pending.items():
        for pending in group:
            if pending.path and (await journal.info(pending.run_id)).status != 'paused':
                woken.add(call_id)
    return frozenset(woken)


def _node_at(state: RunState) -> BaseNode[RunState, RunDeps, Any]:
    entry: Entered | None = state.at
    if entry is None or entry.node == 'UserPrompt':
        return UserPrompt(state.prompt)
    if entry.node == 'ModelRequest':
        return ModelRequest(entry.message, entry.system, entry.retry)  # pyright: ignore[reportArgumentType]
    if entry.node == 'HandleResponse' and entry.response is not None:
        return HandleResponse(entry.response)
    raise CodecError(f'run {state.run_id} stopped in a node this graph does not have: {entry.node!r}')
