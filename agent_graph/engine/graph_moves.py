"""Time travel for users' graphs: a changed graph goes on, a fork begins elsewhere, a recorded way is walked again."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn, cast

from pydantic_graph import BaseNode

from agent_graph.engine.budget import Budget
from agent_graph.engine.channel import Sink
from agent_graph.engine.effects import now
from agent_graph.engine.forks import fork_point, make_fork
from agent_graph.engine.graph_data import GraphData
from agent_graph.engine.migration import migration_of, moved_on
from agent_graph.engine.plan import Handles
from agent_graph.engine.replaying import ReplayEffects, check_fingerprint
from agent_graph.engine.state import GraphPosition, RunState, apply, fold
from agent_graph.errors import CodecError, ConfigError, UnknownRun
from agent_graph.journal import Journal, Lease
from agent_graph.journal.entries import Edited, Entered, Entry, Record, RunInfo, Started
from agent_graph.messages import JsonValue
from agent_graph.text import json_form

__all__ = ['fork_graph_run', 'graph_change', 'recorded_place', 'replayed']


async def graph_change(data: GraphData, run: RunState, on_change: Any) -> Edited | None:
    """What to record because the graph has changed; `ConfigError` if the run may not, or cannot, go on with it."""
    held = run.at.data if run.at is not None else None
    if run.ended is not None or run.at is None or not isinstance(held, dict):
        return None
    past = GraphPosition(run.at.node, cast('dict[str, Any]', held.get('node')), run.data)
    change = await migration_of(run, data.fingerprint(), on_change, past, lambda after: _moved(past, after))
    if change is not None:
        after = moved_on(run, change)
        try:
            data.node_at(after)
            data.load_state(after.data)
        except CodecError as error:
            raise ConfigError(
                f'run {run.run_id} cannot go on in the changed graph: {error}. Pass as on_change a function '
                '(changes, position) that puts the node, its fields and the state into their new form'
            ) from error
    return change


def _moved(past: GraphPosition, after: GraphPosition) -> Edited | None:
    """What the caller's function made of the position, as an entry."""
    made: dict[str, JsonValue] = {}
    try:
        if (after.node, after.fields) != (past.node, past.fields):
            made |= {'name': after.node, 'node': json_form(after.fields)}
        if after.state != past.state:
            made['state'] = json_form(after.state)
    except ValueError as error:
        raise ConfigError(f'on_change made {after!r}, which has no JSON form: {error}') from error
    return Edited(data=made) if made else None


async def fork_graph_run(
    data: GraphData,
    journal: Journal,
    run_id: str,
    *,
    at: int | str | None,
    edit: Callable[[Any], Any] | None,
    node: BaseNode[Any, Any, Any] | None,
    new_id: str | None,
) -> str:
    """Make the new run and return its id; the original is untouched."""
    records = await journal.load(run_id)
    point = fork_point(run_id, records, at)
    data.node_at(fold(run_id, records[:2]))  # a graph's run has its first node in its second entry
    if point < 2:
        raise ConfigError(f'run {run_id} is in no node yet at entry {point}; fork it at an entry from 2 on')
    more: list[Entry] = []
    shared = point
    if node is not None:
        shared, entry = point - 1, _replaced(data, run_id, records[point - 1], node)
        more.append(entry)
    if edit is not None:
        more += await _edited(data, fold(run_id, records[:point]), edit)
    return await make_fork(journal, run_id, shared, more, new_id)


def _replaced(data: GraphData, run_id: str, record: Record, node: BaseNode[Any, Any, Any]) -> Entered:
    entry = record.entry
    if not isinstance(entry, Entered) or not isinstance(entry.data, dict):
        raise ConfigError(
            f'entry {record.seq} of run {run_id} enters no node ({entry.kind}), so no other node can be entered there; pass '
            'as at= the number of one that does, or the name of a node'
        )
    return replace(entry, node=node.get_node_id(), data={**entry.data, 'node': data.dump_node(node)}, by_hand=True)


async def _edited(data: GraphData, run: RunState, edit: Callable[[Any], Any]) -> list[Entry]:
    state = data.load_state(copy.deepcopy(run.data))
    given = edit(state)
    if inspect.isawaitable(given):
        given = await given
    dumped = data.dump_state(state if given is None else given)
    return [] if dumped == run.data else [Edited(data={'state': dumped})]


def replayed(
    data: GraphData,
    journal: Journal,
    run_id: str,
    records: Sequence[Record],
    deps: Any,
    on_change: Literal['refuse', 'continue'],
) -> tuple[Handles, Any, Any]:
    """Handles behind which there is only a recording, with the node and the state it begins with."""
    run = fold(run_id, records[:2])
    start = data.node_at(run)
    check_fingerprint(records, data.fingerprint(), on_change)
    state = data.load_state(run.data)
    run = RunState(run_id)
    first = records[0].entry
    assert isinstance(first, Started)
    apply(run, first)
    recorded = _Recorded(journal, run_id)
    recorded.effects = effects = ReplayEffects(records, run, recorded)
    handles = Handles(
        user_deps=deps, effects=effects, state=run, budget=Budget(run.limits, None), events=Sink(run_id, (), now)
    )
    return handles, start, state


def recorded_place(data: GraphData, handles: Handles, node: Any, state: Any) -> tuple[Any, Any]:
    """The node and the state to go on with in a replay: those of the recording where a person has changed them."""
    run = handles.state
    if run.at is not None and run.at.by_hand:
        node = data.node_at(run)
    return node, state if data.dump_state(state) == run.data else data.load_state(run.data)


class _Recorded:
    """The journal of a replay: agents in nodes find the runs they had, and none is begun or gone on with."""

    effects: ReplayEffects

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal = journal
        self._run_id = run_id

    async def load(self, run_id: str, *, after: int = 0, upto: int | None = None) -> list[Record]:
        """The records of a run; of an agent in a node that a fork shares, those it left in the original."""
        owner = self._run_id
        while True:
            try:
                return await self._journal.load(owner + run_id.removeprefix(self._run_id), after=after, upto=upto)
            except UnknownRun:
                forked = (await self._journal.info(owner)).forked_from
                if forked is None or not run_id.startswith(f'{self._run_id}:'):
                    raise
                owner = forked[0]

    async def info(self, run_id: str) -> RunInfo:
        return await self._journal.info(run_id)

    async def create(self, run_id: str, records: Sequence[Record], **options: Any) -> NoReturn:
        first: Any = records[0].entry
        self.effects.refuse(f'asks agent {first.agent!r} what it was not asked ({first.prompt!r:.80})')

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        self.effects.refuse(f'goes on with run {run_id}, which has not come to its end')

    async def acquire(self, run_id: str, **options: Any) -> NoReturn:
        self.effects.refuse(f'goes on with run {run_id}, which has not come to its end')

    async def renew(self, lease: Lease, *, ttl: float) -> Lease:
        return lease

    async def release(self, lease: Lease) -> None:
        """There is nothing to give back."""
