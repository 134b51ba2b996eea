"""How a run begins or goes on: its first entry or the fold of its entries, and the handles it works with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pydantic_graph import BaseNode, GraphRunContext

from agent_graph import telemetry
from agent_graph.engine.budget import Budget
from agent_graph.engine.channel import EventQueue, Sink
from agent_graph.engine.effects import Effects, new_owner, new_run_id, now
from agent_graph.engine.nodes import HandleResponse, ModelRequest, UserPrompt
from agent_graph.engine.plan import Plan, RunDeps, active_call
from agent_graph.engine.state import RunState, apply, fold
from agent_graph.errors import CodecError
from agent_graph.journal import Journal, Lease
from agent_graph.journal.entries import Entered, Parent, Record, Started
from agent_graph.journal.memory import MemoryJournal
from agent_graph.messages import FilePart, JsonValue, Message
from agent_graph.model import Model, ModelSettings
from agent_graph.usage import UsageLimits

__all__ = ['LEASE_SECONDS', 'Opened', 'Order', 'captured', 'open_run', 'reopen_run']

LEASE_SECONDS = 60.0
"""How long a run stays reserved for a driver that says nothing; a dead process on this machine is noticed at once."""

captured: ContextVar[list[Message] | None] = ContextVar('agent_graph_captured', default=None)
"""The list `capture_run_messages` waits to see filled; the first run started takes it."""

Opened = tuple[BaseNode[RunState, RunDeps, Any], GraphRunContext[RunState, RunDeps]]
"""The node to begin with and the context to run it in."""


@dataclass(slots=True)
class Order:
    """What a caller asked for, resolved: everything a run needs besides its id and journal entries."""

    plan: Plan
    model: Model
    settings: ModelSettings
    deps: Any
    journal: Journal | None
    limits: UsageLimits | None
    prompt: str | Sequence[str | FilePart] | None = None
    history: Sequence[Message] | None = None
    metadata: dict[str, JsonValue] | None = None
    run_id: str | None = None
    queue: EventQueue | None = None


async def open_run(order: Order) -> Opened:
    """Begin a new run: its first entry is committed when this returns."""
    around = active_call.get()
    owner: RunDeps | None = around.owner if around is not None else None  # pyright: ignore[reportAssignmentType]
    journal = order.journal or (owner.effects.journal if owner is not None else MemoryJournal())
    run_id = order.run_id or new_run_id()
    prompt = order.prompt
    if prompt is not None and not isinstance(prompt, str):
        prompt = tuple(prompt)
    parent = Parent(owner.run_id, around.tool_call_id) if around is not None and owner is not None else None
    history = tuple(order.history) if order.history else ()
    entry = Started(order.plan.name, prompt, history, order.metadata, order.limits, parent)
    lease = await journal.create(run_id, [Record(1, now(), entry)], owner=new_owner(), ttl=LEASE_SECONDS)
    state = RunState(run_id)
    _take_captured(state)
    apply(state, entry)
    deps = _handles(order, Effects(journal, lease, state, 2), state, owner)
    return UserPrompt(prompt), GraphRunContext(state=state, deps=deps)


async def reopen_run(order: Order, run_id: str, journal: Journal, lease: Lease, records: list[Record]) -> Opened:
    """Go on with a stored run: the node it was in is entered again, without a new entry."""
    state = fold(run_id, records)
    order.limits = state.limits
    deps = _handles(order, Effects(journal, lease, state, records[-1].seq + 1), state, None)
    _take_captured(state)
    deps.entered = state.at is not None
    deps.events.node = state.at.node if state.at is not None else ''
    return _node_at(state), GraphRunContext(state=state, deps=deps)


def _handles(order: Order, effects: Effects, state: RunState, owner: RunDeps | None) -> RunDeps:
    around = active_call.get() if owner is not None else None
    path = (*owner.events.path, around.tool_call_id) if owner is not None and around is not None else ()
    budget = Budget(
        state.limits,
        owner.budget if owner is not None else None,
        requests=state.requests,
        tool_calls=state.tool_calls,
        tokens=state.tokens,
        spends=state.spends,
    )
    events = Sink(state.run_id, path, now)
    deps = RunDeps(
        order.plan, order.model, order.settings, order.deps, effects, state, budget, events, around,
        telemetry.start_run(order.plan.name, state.run_id),
    )  # fmt: skip
    queue = order.queue
    if queue is None and owner is not None and owner.sink is not None and owner.effects.loop is asyncio.get_running_loop():
        queue = owner.events.queue
    if queue is not None:
        events.queue = queue
        deps.sink = events
    if state.limits is not None and state.limits.time_limit is not None:
        deps.deadline = now() + state.limits.time_limit
    return deps


def _take_captured(state: RunState) -> None:
    """Let the list that somebody waits to see filled be the run's own."""
    waiting = captured.get()
    if waiting is not None and not waiting:
        waiting.extend(state.messages)
        state.messages = waiting
        captured.set(None)


def _node_at(state: RunState) -> BaseNode[RunState, RunDeps, Any]:
    entry: Entered | None = state.at
    if entry is None or entry.node == 'UserPrompt':
        return UserPrompt(state.prompt)
    if entry.node == 'ModelRequest':
        return ModelRequest(entry.message, entry.system, entry.retry)  # pyright: ignore[reportArgumentType]
    if entry.node == 'HandleResponse' and entry.response is not None:
        return HandleResponse(entry.response)
    raise CodecError(f'run {state.run_id} stopped in a node this graph does not have: {entry.node!r}')

