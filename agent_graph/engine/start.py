"""How a run begins or goes on: its first entry or the fold of its entries, and the handles it works with."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from pydantic_graph import BaseNode, End, GraphRunContext

from agent_graph import telemetry
from agent_graph.engine.budget import Budget
from agent_graph.engine.channel import EventQueue, Sink
from agent_graph.engine.effects import LEASE_SECONDS, Effects, new_run_id, now
from agent_graph.engine.nodes import FinalResult, HandleResponse, ModelRequest, UserPrompt
from agent_graph.engine.plan import Keep, OnPending, Plan, RunDeps, active_call
from agent_graph.engine.state import RunState, apply, fold
from agent_graph.errors import CodecError, ConfigError, JournalConflict, JournalError, MessageError, UnknownRun
from agent_graph.journal import Journal, Lease
from agent_graph.journal.entries import Edited, Ended, Entered, Parent, Record, Started
from agent_graph.journal.memory import MemoryJournal
from agent_graph.messages import CachePoint, FilePart, JsonValue, Message, UserContent
from agent_graph.model import Model, ModelSettings
from agent_graph.pending import Confirm, Pending
from agent_graph.text import clean_data, clean_text, json_form
from agent_graph.usage import UsageLimits

__all__ = [
    'Change',
    'Opened',
    'Order',
    'PrivateJournal',
    'captured',
    'look_inside',
    'open_run',
    'reopen_run',
    'replay_run',
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


@dataclass(frozen=True, slots=True)
class Change:
    """What to record because the agent has changed, and the messages of the run for which that was decided."""

    entry: Edited
    messages: list[Message]


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
            around.children += 1
            run_id = run_id or f'{owner.run_id}:{around.tool_call_id}:{around.children}'
            if journal.__class__ is not PrivateJournal:
                found = await _go_on(order, run_id, cast('Journal', journal), owner)
                if not isinstance(found, str):
                    return found
                run_id = found
        return await _new_run(order, run_id or new_run_id(), journal, owner, parent)
    finally:
        if around is not None and beside is not None:
            around.leave(beside)


async def _new_run(
    order: Order, run_id: str, journal: Journal | PrivateJournal, owner: RunDeps | None, parent: Parent | None
) -> Opened:
    private = journal.__class__ is PrivateJournal
    entry = _first_entry(order, parent, None if private else order.plan.fingerprint())
    first = (Record(1, now(), entry),)
    if private:
        await journal.append(run_id, first, epoch=1)
        lease, batches = Lease(run_id, 'private', 1, 0.0), False
    else:
        making = cast('Journal', journal).create(run_id, first, owner=_new_owner(), ttl=LEASE_SECONDS)
        # A journal in memory never lets go of the loop, so no cancellation can come in between.
        in_memory = journal.__class__ is MemoryJournal
        lease = await (making if in_memory else _created(cast('Journal', journal), run_id, making))
        batches = not in_memory and getattr(journal, 'batches', False)
    state = RunState(run_id)
    _take_captured(state)
    apply(state, entry)
    deps = _handles(order, Effects(journal, lease, state, 2), state, owner, private=private)
    deps.effects.batches = batches
    return UserPrompt(entry.prompt), GraphRunContext(state=state, deps=deps)


async def _created(journal: Journal, run_id: str, making: Coroutine[Any, Any, Lease]) -> Lease:
    """Make the run; one whose caller is cancelled meanwhile is ended, not left behind as if it were running."""
    task = asyncio.create_task(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        lease = await task
        await journal.append(run_id, (Record(2, now(), Ended('cancelled')),), epoch=lease.epoch)
        raise


def _journal_for(order: Order, owner: RunDeps | None) -> Journal | PrivateJournal:
    """A run inside another is recorded where that one is, so that the two can be resumed together."""
    if owner is not None and not isinstance(owner.effects.journal, PrivateJournal):
        return cast('Journal', owner.effects.journal)
    return order.journal or PrivateJournal()


def _first_entry(order: Order, parent: Parent | None, fingerprint: dict[str, JsonValue] | None) -> Started:
    prompt = order.prompt
    if prompt.__class__ is str:
        prompt = cast('str', prompt)
        prompt = prompt if prompt.isascii() else clean_text(prompt)
    elif prompt is not None:
        prompt = clean_data(_checked_prompt(prompt))
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


async def _go_on(order: Order, run_id: str, journal: Journal, owner: RunDeps) -> Opened | str:
    """The run an earlier attempt of this tool call started; the id for a new one if there is none to go on with."""
    try:
        records = await journal.load(run_id)
    except UnknownRun:
        return run_id
    state = fold(run_id, records)
    same = state.agent == order.plan.name and state.prompt == _first_entry(order, None, None).prompt
    if same and (state.ended is None or state.ended.status == 'completed'):
        return await reopen_run(order, run_id, journal, owner=owner)
    # The tool does something else this time, or begins again what failed.
    return run_id if order.run_id else await _go_on(order, f'{run_id}+', journal, owner)


async def reopen_run(
    order: Order, run_id: str, journal: Journal, *, owner: RunDeps | None = None, change: Change | None = None
) -> Opened:
    """Go on with a stored run: the node it was in is entered again, without a new entry.

    A run that has ended, or that waits for an answer nobody gave, comes back at its `End`. A `change` is recorded before
    the run goes on.
    """
    state = fold(run_id, await journal.load(run_id))
    await look_inside(state, journal)
    if state.ended is None and not (state.paused and order.on_pending is None and not await _woken(state, journal)):
        effects = await _taken(run_id, journal, change)
        state, waits = effects.state, False
    else:
        effects, waits = Effects(journal, Lease(run_id, '', 0, 0.0), state, 0), True
    order.limits = state.limits
    _take_captured(state)
    around = active_call.get() if owner is not None else None
    if around is not None and owner is not None:
        used = state.requests, state.tool_calls, state.tokens, state.spends
        around.absorb(*used)
        owner.budget.absorb(*used)
    deps = _handles(order, effects, state, owner, private=waits)
    deps.woken = await _woken(state, journal) if state.pending else frozenset()
    deps.events.node = state.at.node if state.at is not None else ''
    ctx = GraphRunContext(state=state, deps=deps)
    if waits:
        return End(FinalResult(None, pending=state.waiting)), ctx
    deps.entered = state.at is not None
    if state.offered is not None:
        deps.offered_names = state.offered
    return _node_at(state), ctx


async def _taken(run_id: str, journal: Journal, change: Change | None) -> Effects:
    """Take a run over, and record what its agent's change makes of it."""
    from agent_graph.engine.lease import take

    lease = await take(journal, run_id)
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
    except BaseException:
        with suppress(JournalError):
            await journal.release(lease)
        raise
    return effects


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
    deps = _handles(order, ReplayEffects(records, state), state, None, private=True)
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


def _new_owner() -> str:
    import agent_graph.engine.lease as leases  # runs that are kept in memory need none

    return leases.new_owner()


def _handles(order: Order, effects: Effects, state: RunState, owner: RunDeps | None, *, private: bool) -> RunDeps:
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
