"""The nodes and state of a user's graph as journal entries, and back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_graph import BaseNode, Graph
from pydantic_graph.step import NodeStep

from agent_graph.engine.budget import Budget
from agent_graph.engine.channel import Sink
from agent_graph.engine.effects import LEASE_SECONDS, Effects, RunStore, new_run_id, now
from agent_graph.engine.fidelity import loss
from agent_graph.engine.lease import Keeper, new_owner, take
from agent_graph.engine.plan import Handles, OnPending
from agent_graph.engine.start import PrivateJournal, look_inside
from agent_graph.engine.state import RunState, apply, fold
from agent_graph.errors import CodecError, ConfigError, JournalConflict, JournalError
from agent_graph.journal import Journal, Lease
from agent_graph.journal.entries import Ended, Entered, Paused, Record, Started
from agent_graph.messages import JsonValue
from agent_graph.pending import PauseSignal, Pending
from agent_graph.text import clean_data, clean_text, json_form
from agent_graph.usage import Spend, Usage, UsageLimits

__all__ = ['GraphData', 'Reopened', 'begin', 'end', 'enter', 'fail', 'pause', 'reopen']


class GraphData:
    """Writes and reads the nodes, the state and the output of one graph through their pydantic schemas."""

    def __init__(self, graph: Graph[Any, Any, Any, Any], state_type: Any) -> None:
        self.graph = graph
        self.nodes: dict[str, TypeAdapter[Any]] = {}
        self.classes: dict[str, type] = {}
        for step in graph.nodes.values():
            if isinstance(step, NodeStep):
                self.classes[str(step.id)] = step.node_type
                self.nodes[str(step.id)] = _adapter(step.node_type, f'node {step.id}')
        self.state = _adapter(state_type, 'the state')
        self.output = _adapter(graph.output_type, 'the output')
        self.last: JsonValue = None

    def dump_node(self, node: BaseNode[Any, Any, Any]) -> JsonValue:
        """The node's fields."""
        name = node.get_node_id()
        if name not in self.nodes:
            raise ConfigError(f'{node!r} is not a node of this graph; its nodes are: {", ".join(self.nodes)}')
        return _dump(self.nodes[name], node, f'node {name}')

    def dump_state(self, state: Any) -> JsonValue:
        """The state as JSON data."""
        return _dump(self.state, state, 'the state')

    def dump_output(self, output: Any) -> tuple[bool, JsonValue]:
        """Whether the output can be stored, and its stored form."""
        try:
            return True, _dump(self.output, output, 'the output')
        except ConfigError:
            return False, None

    def load_node(self, name: str, data: JsonValue) -> Any:
        """The node that was entered."""
        if name not in self.nodes:
            raise CodecError(
                f'the run stopped in node {name!r}, which this graph does not have: {", ".join(self.nodes)}'
            )
        return _load(self.nodes[name], data, f'node {name}')

    def load_state(self, data: JsonValue) -> Any:
        """The state as it was."""
        return _load(self.state, data, 'the state')

    def load_output(self, data: JsonValue) -> Any:
        """The output as it was."""
        return _load(self.output, data, 'the output')


def _adapter(target: Any, what: str) -> TypeAdapter[Any]:
    try:
        if what.startswith('node ') and not is_dataclass(target):
            raise ConfigError(f'{what} is no dataclass, so its fields cannot be stored; make it one')
        made: TypeAdapter[Any] = TypeAdapter(cast('type[Any]', target))
        return made
    except ConfigError:
        raise
    except Exception as error:  # pydantic raises many types here, and all mean the same to the caller
        raise ConfigError(f'{what} ({target!r}) cannot be stored: {error}; use types pydantic can check') from error


def _dump(adapter: TypeAdapter[Any], value: Any, what: str) -> JsonValue:
    try:
        data: JsonValue = json_form(adapter.dump_python(value, mode='json', by_alias=True, warnings=False))
    except Exception as error:  # a value of another type than declared fails in many ways
        raise ConfigError(f'{what} cannot be stored: {error}; {value!r} has something JSON cannot hold') from error
    try:
        found = loss(value, _load(adapter, data, what), what)
    except CodecError as error:
        raise ConfigError(
            f'{what} cannot be stored: {value!r} is not of the type it is declared as. {error}'
        ) from error
    if found is not None:
        raise ConfigError(f'{what} cannot be stored: {found}; declare the types of what it holds exactly')
    return data


def _load(adapter: TypeAdapter[Any], data: JsonValue, what: str) -> Any:
    try:
        return adapter.validate_json(json.dumps(data))
    except ValueError as error:
        raise CodecError(f'{what} cannot be read from what was stored: {error}') from error


async def begin(
    data: GraphData,
    start: BaseNode[Any, Any, Any],
    state: Any,
    deps: Any,
    journal: Journal | None,
    run_id: str | None,
    limits: UsageLimits | None,
    on_pending: OnPending | None,
) -> Handles:
    """Record the start of a run of a graph."""
    node, data.last = data.dump_node(start), data.dump_state(state)
    run, at = RunState(run_id or new_run_id()), now()
    # In one commit: a run without its first node could not be resumed.
    entered = Entered(start.get_node_id(), data={'node': node, 'state': data.last})
    first = [Record(1, at, Started(data.graph.name or 'graph', limits=limits)), Record(2, at, entered)]
    store: RunStore
    if journal is None:
        store, lease = PrivateJournal(), Lease(run.run_id, 'private', 1, 0.0)
        await store.append(run.run_id, first, epoch=1)
    else:
        store, lease = journal, await journal.create(run.run_id, first, owner=new_owner(), ttl=LEASE_SECONDS)
    for record in first:
        apply(run, record.entry)
    return _handles(run, Effects(store, lease, run, 3), deps, on_pending, keep=journal is not None)


def _handles(run: RunState, effects: Effects, deps: Any, on_pending: OnPending | None, *, keep: bool) -> Handles:
    budget = Budget(
        run.limits, None, requests=run.requests, tool_calls=run.tool_calls, tokens=run.tokens, spends=run.spends
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


async def reopen(
    data: GraphData,
    run_id: str,
    journal: Journal,
    deps: Any,
    answers: Mapping[Any, Any] | None,
    on_pending: OnPending | None,
) -> Reopened:
    """Find a stored run and take it over, unless it has ended or waits for an answer that nobody gave."""
    records = await journal.load(run_id)
    run = fold(run_id, records)
    _node_at(data, run)
    await look_inside(run, journal)
    if answers is not None:
        from agent_graph.engine.control import record_answers

        await record_answers(run, None, journal, answers)
        records = await journal.load(run_id)
        run = fold(run_id, records)
        await look_inside(run, journal)
    waits = run.paused and on_pending is None and not await _inner_answered(run, journal)
    if run.ended is not None or waits:
        return Reopened(run, data.load_state(_newest_state(records)))
    lease: Lease = await take(journal, run_id)
    try:
        records = await journal.load(run_id)
        run = fold(run_id, records)
        data.last = _newest_state(records)
        opened = Reopened(run, data.load_state(data.last), _node_at(data, run), entered=True)
    except BaseException:
        await journal.release(lease)
        raise
    effects = Effects(journal, lease, run, records[-1].seq + 1)
    opened.handles = _handles(run, effects, deps, on_pending, keep=True)
    return opened


def _node_at(data: GraphData, run: RunState) -> Any:
    """The node the run is in; the error says whose run it is if it is none of this graph's."""
    held = run.at.data if run.at is not None else None
    if run.at is None or not isinstance(held, dict):
        raise CodecError(
            f'run {run.run_id} is not one of run_graph, but of the agent {run.agent!r}; resume it with that'
        )
    return data.load_node(run.at.node, held.get('node'))


def _newest_state(records: list[Record]) -> JsonValue:
    for record in reversed(records):
        held = record.entry.data if isinstance(record.entry, Entered | Ended) else None
        if isinstance(held, dict) and 'state' in held:
            return held['state']
    return None


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
        return f'{name}#{handles.state.visit}'
    held: dict[str, JsonValue] = {'node': data.dump_node(node)}
    dumped = data.dump_state(state)
    if dumped != data.last or not handles.state.visit:
        held['state'] = data.last = dumped
    usage, spends = _used(handles)
    await handles.effects.record(Entered(name, data=held, usage=usage, spends=spends))
    return f'{name}#{handles.state.visit}'


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
    usage = handles.inside.usage() if handles.inside is not None else None
    await handles.effects.record(Paused(tuple(found), usage))
    await handles.effects.release()
    return tuple(found)


def _below(scope: str, pending: Pending) -> Pending:
    from dataclasses import replace

    return replace(pending, path=(scope, *pending.path))


async def end(data: GraphData, handles: Handles, output: Any, state: Any) -> None:
    """Record that the run is complete, with its output and what its last node made of the state."""
    if handles.keeper is not None:
        handles.keeper.stop()
    stored, value = data.dump_output(output)
    usage, spends = _used(handles)
    last = data.dump_state(state)
    held: JsonValue = None if last == data.last else {'state': last}
    ended = Ended('completed', value, output_stored=stored, usage=usage, spends=spends, data=held)
    await handles.effects.record(ended)


async def fail(handles: Handles, error: BaseException) -> BaseException:
    """Record that a node failed, or that the walk was cancelled; returns what to raise."""
    keeper = handles.keeper
    if keeper is not None:
        keeper.stop()
    if isinstance(error, JournalConflict) or (keeper is not None and keeper.lost):
        return await _lost(handles, error)
    status = 'failed' if isinstance(error, Exception) else 'cancelled'
    try:
        text = clean_text(str(error) or type(error).__name__)
        usage, spends = _used(handles)
        ended = Ended(status, error=text, error_type=type(error).__name__, usage=usage, spends=spends)
        await handles.effects.record(ended)
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
