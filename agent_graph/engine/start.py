"""How a run begins or goes on: its first entry or the fold of its entries, and the handles it works with."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from pydantic_graph import BaseNode, End, GraphRunContext

from agent_graph import telemetry
from agent_graph.engine.budget import Budget
from agent_graph.engine.channel import EventQueue, Sink
from agent_graph.engine.effects import LEASE_SECONDS, Effects, lease_seconds, new_run_id, now
from agent_graph.engine.nodes import FinalResult, UserPrompt
from agent_graph.engine.plan import Keep, OnCancel, OnPending, Plan, RunDeps, active_call
from agent_graph.engine.state import RunState, apply
from agent_graph.errors import ConfigError, MessageError
from agent_graph.journal import Journal, Lease
from agent_graph.journal.entries import Ended, Parent, Record, Started
from agent_graph.journal.memory import MemoryJournal
from agent_graph.messages import CachePoint, FilePart, JsonValue, Message, UserContent
from agent_graph.model import Model, ModelSettings
from agent_graph.pending import Confirm
from agent_graph.text import clean_data, clean_text, json_form
from agent_graph.usage import UsageLimits

__all__ = [
    'Opened',
    'Order',
    'PrivateJournal',
    'captured',
    'created',
    'first_entry',
    'handles_of',
    'open_run',
    'take_captured',
]


class PrivateJournal:
    """The journal of one run that was given none: it lives and dies with the run, which is its only reader and writer."""

    __slots__ = ('records',)

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        """Keep the records."""
        self.records += records

    async def load(self, run_id: str) -> list[Record]:
        """All records."""
        return list(self.records)

    async def renew(self, lease: Lease, *, ttl: float) -> Lease:
        """Nobody else can take the run."""
        return lease

    async def release(self, lease: Lease) -> None:
        """Nobody else can take the run."""


captured: ContextVar[list[Message] | None] = ContextVar('agent_graph_captured', default=None)
"""The list `capture_run_messages` waits to see filled; the first run started takes it."""

Opened = tuple['BaseNode[RunState, RunDeps, Any] | End[FinalResult]', GraphRunContext[RunState, RunDeps]]
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
    prompt: str | Sequence[UserContent] | None = None
    history: Sequence[Message] | None = None
    metadata: dict[str, JsonValue] | None = None
    run_id: str | None = None
    queue: EventQueue | None = None
    confirm: Confirm = 'per_tool'
    on_pending: OnPending | None = None
    keep: Keep | None = None
    on_cancel: OnCancel = 'cancel'


async def open_run(order: Order) -> Opened:
    """Begin a new run: its first entry is committed when this returns.

    A run started inside a tool call has an id made from that call's. When the call is run again, after a crash or a wait,
    such a run is found and goes on.
    """
    around = active_call.get()
    owner: RunDeps | None = cast('RunDeps', around.owner) if around is not None else None
    journal = _journal_for(order, owner)
    run_id, parent = order.run_id, None
    beside = around.begin() if around is not None else None
    try:
        if around is not None and owner is not None:
            parent = Parent(owner.run_id, around.tool_call_id)
            if run_id is None:
                around.children += 1
                run_id = f'{owner.run_id}:{around.tool_call_id}:{around.children}'
            if journal.__class__ is not PrivateJournal:
                from agent_graph.engine.reopening import go_on  # most agents run in no tool

                found = await go_on(order, run_id, cast('Journal', journal), owner, parent)
                if not isinstance(found, str):
                    return found
                run_id = found
            if order.run_id is not None:
                owner.counted.add(run_id)
        return await _new_run(order, run_id or new_run_id(), journal, owner, parent)
    finally:
        if around is not None and beside is not None:
            around.leave(beside)


async def _new_run(
    order: Order, run_id: str, journal: Journal | PrivateJournal, owner: RunDeps | None, parent: Parent | None
) -> Opened:
    private = journal.__class__ is PrivateJournal
    entry = first_entry(order, parent, None if private else order.plan.fingerprint())
    first = (Record(1, now(), entry),)
    if private:
        await journal.append(run_id, first, epoch=1)
        lease, batches = Lease(run_id, 'private', 1, 0.0), False
    else:
        # A journal in memory never lets go of the loop, so no cancellation can come in between.
        in_memory = journal.__class__ is MemoryJournal
        ttl = LEASE_SECONDS if in_memory else lease_seconds(journal)
        making = cast('Journal', journal).create(run_id, first, owner=_new_owner(), ttl=ttl)
        leave = order.on_cancel == 'leave' if owner is None else owner.leaving
        lease = await (making if in_memory else created(cast('Journal', journal), making, 2, leave=leave))
        batches = not in_memory and getattr(journal, 'batches', False)
    state = RunState(run_id)
    take_captured(state)
    apply(state, entry)
    deps = handles_of(order, Effects(journal, lease, state, 2), state, owner, private=private)
    deps.effects.batches = batches
    return UserPrompt(entry.prompt), GraphRunContext(state=state, deps=deps)


async def created(journal: Journal, making: Coroutine[Any, Any, Lease], next_seq: int, *, leave: bool) -> Lease:
    """Make the run; one whose caller is cancelled meanwhile is ended, or given free, not left behind as if it were driven."""
    task = asyncio.create_task(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        lease = await task
        if leave:
            await journal.release(lease)
        else:
            await journal.append(lease.run_id, (Record(next_seq, now(), Ended('cancelled')),), epoch=lease.epoch)
        raise


def _journal_for(order: Order, owner: RunDeps | None) -> Journal | PrivateJournal:
    """A run inside another is recorded where that one is, so that the two can be resumed together."""
    if owner is not None and not isinstance(owner.effects.journal, PrivateJournal):
        return cast('Journal', owner.effects.journal)
    return order.journal or PrivateJournal()


def first_entry(order: Order, parent: Parent | None, fingerprint: dict[str, JsonValue] | None) -> Started:
    """What was ordered, checked and mended, as the entry a run begins with."""
    prompt = order.prompt
    if prompt.__class__ is str:
        prompt = cast('str', prompt)
        prompt = prompt if prompt.isascii() else clean_text(prompt)
    elif prompt is not None:
        prompt = clean_data(_checked_prompt(prompt))
    if prompt is not None and not any(prompt):  # providers refuse such a message, each in its own words
        raise ConfigError(f'the prompt is empty: {order.prompt!r}; pass what to say, or None to go on from the history')
    history = _checked_history(order.history) if order.history else ()
    metadata = order.metadata
    if metadata is not None:
        try:
            metadata = json_form(metadata)  # a copy: what the caller does with it later is no part of the run
        except ValueError as error:
            raise ConfigError(f'metadata={order.metadata!r} has no JSON form: {error}; pass JSON data') from error
    return Started(order.plan.name, prompt, history, metadata, order.limits, parent, fingerprint, order.confirm)


def _checked_prompt(prompt: Any) -> tuple[UserContent, ...]:
    """A prompt of several parts; `ConfigError` for what is none."""
    if not isinstance(prompt, list | tuple):
        raise ConfigError(f'the prompt is {prompt!r}; pass a str, or a list of str, FilePart and CachePoint')
    items = tuple(cast('Sequence[Any]', prompt))
    for index, item in enumerate(items):
        if not isinstance(item, str | FilePart | CachePoint):
            raise ConfigError(
                f'item {index} of the prompt is {item!r}; pass a str, or a list of str, FilePart and CachePoint'
            )
    return items


def _checked_history(history: Sequence[Any]) -> tuple[Message, ...]:
    """A message list, with a word on what it takes when it is none."""
    try:
        return _clean_history(tuple(history))
    except (AttributeError, TypeError):
        kinds = ('system', 'user', 'assistant', 'tool')
        wrong = next((i for i, m in enumerate(history) if getattr(m, 'kind', None) not in kinds), 0)
        raise MessageError(
            f'item {wrong} of message_history is {history[wrong]!r}, which is no message; pass messages such as '
            'result.messages, or convert Chat Completions dicts with agent_graph.messages.from_openai'
        ) from None


def _clean_history(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """The history with broken characters mended; all of it is looked at together, for histories are long."""
    texts = [m.content for m in history if (m.kind == 'user' or m.kind == 'system') and m.content.__class__ is str]
    plain = [m for m in history if m.kind == 'assistant' and m.provider_details is None and m.refusal is None]
    texts += [p.content for m in plain for p in m.parts if p.kind == 'text' and p.provider_details is None]
    rest: list[Any] = [m for m in history if m.kind == 'tool' or (m.kind == 'user' and m.content.__class__ is not str)]
    rest += [m for m in history if m.kind == 'assistant' and (m.provider_details is not None or m.refusal is not None)]
    rest += [p for m in plain for p in m.parts if p.kind != 'text' or p.provider_details is not None]
    try:
        ''.join(cast('list[str]', texts)).encode()
        if rest:
            from pydantic_core import to_json

            to_json(rest, bytes_mode='base64')  # one call into native code, which refuses what cannot be encoded
    except ValueError:
        return clean_data(history)
    return history


def _new_owner() -> str:
    import agent_graph.engine.lease as leases  # runs that are kept in memory need none

    return leases.new_owner()


def handles_of(order: Order, effects: Effects, state: RunState, owner: RunDeps | None, *, private: bool) -> RunDeps:
    """The handles a run works with."""
    around = active_call.get() if owner is not None else None
    path = (*owner.events.path, around.tool_call_id) if owner is not None and around is not None else ()
    budget = Budget(
        state.limits,
        owner.budget if owner is not None else None,
        requests=state.requests,
        tool_calls=state.tool_calls,
        tokens=state.tokens,
        spends=list(state.spends) if state.spends else None,
    )
    events = Sink(state.run_id, path, now)
    deps = RunDeps(
        user_deps=order.deps,
        effects=effects,
        state=state,
        budget=budget,
        events=events,
        around=around,
        tracing=telemetry.start_run(order.plan.name, state.run_id),
        plan=order.plan,
        model=order.model,
        settings=order.settings,
    )
    queue = order.queue
    if (
        queue is None
        and owner is not None
        and owner.sink is not None
        and owner.effects.loop is asyncio.get_running_loop()
    ):
        queue = owner.events.queue
    if queue is not None:
        events.queue = queue
        deps.sink = events
    deps.on_pending = order.on_pending or (owner.on_pending if owner is not None else None)
    deps.on_cancel = order.on_cancel
    if effects.journal.__class__ is PrivateJournal:
        deps.keep = owner.keep if owner is not None and owner.keep is not None else order.keep
        if owner is not None:
            owner.inner.append(deps)
    elif not private:
        import agent_graph.engine.lease as leases

        deps.keeper = leases.Keeper(deps)
    if state.limits is not None and state.limits.time_limit is not None:
        deps.deadline = now() + state.limits.time_limit
    return deps


def take_captured(state: RunState) -> None:
    """Let the list that somebody waits to see filled be the run's own."""
    waiting = captured.get()
    if waiting is not None and not waiting:
        waiting.extend(state.messages)
        state.messages = waiting
        captured.set(None)
