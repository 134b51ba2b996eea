"""Durable graphs of your own: any pydantic-graph graph of `BaseNode`s, with the journal that agents have.

    result = await run_graph(graph, Draft('a poem'), state=Notes(), journal=journal, run_id='poem-1')
    result = await resume_graph(graph, 'poem-1', journal=journal)

Nodes are `GraphNode`s (or any `BaseNode`s). Every node entered is one entry with the node's fields, and the state where it changed. Inside a node `ctx` is a
`GraphContext`: `await ctx.step(name, function)` does something once in the run's life, `await ctx.ask(question)` waits for
a person, and agents run there belong to the run: they are recorded with it and go on where they were.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, overload

from pydantic_graph import BaseNode, End, Graph, GraphRunContext
from typing_extensions import TypeForm, TypeVar

from agent_graph.engine import ending
from agent_graph.engine.budget import ActiveCall
from agent_graph.engine.options import Answers, OnGraphChange
from agent_graph.engine.plan import Handles, OnCancel, OnPending, active_call
from agent_graph.engine.state import RunState
from agent_graph.errors import ConfigError
from agent_graph.journal import Journal
from agent_graph.pending import PauseSignal, Pending
from agent_graph.runner import GraphRun, shown
from agent_graph.tools.context import AnswerT, StepData
from agent_graph.usage import Usage, UsageLimits

if TYPE_CHECKING:
    from agent_graph.engine.graph_data import GraphData

__all__ = [
    'GraphContext',
    'GraphNode',
    'GraphResult',
    'cancel_graph',
    'fork_graph',
    'replay_graph',
    'resume_graph',
    'run_graph',
]

StateT = TypeVar('StateT', default=Any)
DepsT = TypeVar('DepsT', default=Any)
EndT = TypeVar('EndT', default=Any)


@dataclass(kw_only=True)
class GraphContext(GraphRunContext[StateT, DepsT], Generic[StateT, DepsT]):
    """What a node of a durable graph is given: its state and deps, and the run it belongs to."""

    handles: Handles
    scope: str = ''

    @property
    def run_id(self) -> str:
        """The run's id in its journal."""
        return self.handles.run_id

    @overload
    async def step(
        self, name: str, function: Callable[[], Awaitable[StepData]] | Callable[[], StepData]
    ) -> StepData: ...
    @overload
    async def step(self, name: str, function: Callable[[], Any]) -> Any: ...
    async def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Do something once in the run's life; its result (JSON data) is recorded and given back after a crash."""
        return await self.handles.do_step(self.scope, name, function)

    async def ask(self, question: str, *, schema: TypeForm[AnswerT] = str) -> AnswerT:
        """Ask a person. The run pauses until there is an answer; the node is then run again from its start."""
        return await self.handles.ask(self.scope, self.scope.split('#')[0], question, schema)


class GraphNode(BaseNode[StateT, DepsT, EndT]):
    """A node whose `run` is given a `GraphContext`; the base of nodes that use `ctx.step` or `ctx.ask`.

    Any `BaseNode` works as well; this one tells type checkers what `ctx` is.
    """

    @abstractmethod
    async def run(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, ctx: GraphContext[StateT, DepsT]
    ) -> BaseNode[StateT, DepsT, Any] | End[EndT]:
        """Do the node's work and return the next node, or `End`. The return annotation is what the graph is made of."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class GraphResult(Generic[EndT, StateT]):
    """What a durable graph ended with: its output, what it waits for, or what stopped it (`error`, in words)."""

    output: EndT
    state: StateT
    run_id: str
    status: Literal['completed', 'paused', 'failed', 'cancelled']
    pending: tuple[Pending, ...] = ()
    usage: Usage = field(default_factory=Usage)
    error: str | None = None

    def __repr__(self) -> str:
        return shown(self, state=self.state, pending=self.pending, error=self.error)


async def run_graph(
    graph: Graph[StateT, DepsT, Any, EndT],
    start: BaseNode[StateT, DepsT, EndT],
    *,
    state: StateT = None,
    deps: DepsT = None,
    journal: Journal | None = None,
    run_id: str | None = None,
    usage_limits: UsageLimits | None = None,
    on_pending: OnPending | None = None,
    on_cancel: OnCancel = 'cancel',
) -> GraphResult[EndT, StateT]:
    """Walk a graph from `start` to its end or to a pause, recording the way.

    Nodes are dataclasses with fields pydantic knows, and `state` is of a type pydantic knows: `ConfigError` names what is
    not, before anything runs. `usage_limits` hold for all agents run in the nodes together. `on_cancel='leave'`: cancelled
    from outside, the run is left to be resumed, not ended.
    """
    from agent_graph.engine.graph_run import begin

    _check(on_cancel)
    data = _data(graph)
    handles = await begin(data, start, state, deps, journal, run_id, usage_limits, on_pending, on_cancel)
    return await _walk(graph, data, start, state, deps, handles, entered=True)


async def resume_graph(
    graph: Graph[StateT, DepsT, Any, EndT],
    run_id: str,
    *,
    journal: Journal,
    deps: DepsT = None,
    answers: Answers | None = None,
    on_pending: OnPending | None = None,
    on_change: OnGraphChange = 'refuse',
    on_cancel: OnCancel = 'cancel',
) -> GraphResult[EndT, StateT]:
    """Go on with a graph that stopped: the node it was in is run again, its finished steps and agent runs are not.

    `answers` as for `Agent.resume`. A run that has ended gives its result, one that still waits its `pending`. When the
    graph's nodes, their fields, its edges, or the types of its state or output have changed since, `on_change` decides:
    `'refuse'` names what changed, `'continue'` goes on, and a function `(changes, position)` is given a `GraphPosition` to
    put into its new form and return; for anything but that and `True` the run is refused. `on_cancel` as for `run_graph`.

    Raises `UnknownRun`, `RunLocked` while another process drives it, `AnswerError`, and `ConfigError` for a changed graph.
    """
    from agent_graph.engine.graph_run import reopen

    _check(on_cancel)
    data = _data(graph)
    opened = await reopen(data, run_id, journal, deps, answers, on_pending, on_change)
    if opened.handles is None:
        return _stored(data, opened.run, opened.state)
    opened.handles.on_cancel = on_cancel
    return await _walk(graph, data, opened.node, opened.state, deps, opened.handles, entered=opened.entered)


async def cancel_graph(run_id: str, *, journal: Journal) -> None:
    """Cancel a stored run of a graph, with the agents in its node, from any process.

    Whoever drives it is stopped at its next write, or within seconds. Does nothing to a run that has ended. Raises
    `UnknownRun`.
    """
    from agent_graph.engine.control import cancel_run

    await cancel_run(journal, run_id)


async def fork_graph(
    graph: Graph[StateT, DepsT, Any, EndT],
    run_id: str,
    *,
    journal: Journal,
    at: int | str | None = None,
    edit: Callable[[StateT], StateT | None] | Callable[[StateT], Awaitable[StateT | None]] | None = None,
    replace: BaseNode[StateT, DepsT, EndT] | None = None,
    new_run_id: str | None = None,
) -> str:
    """Make a new run with the past of `run_id` up to `at`, by reference; returns its id, for `resume_graph`.

    `at` is the number of a journal entry, or the name of a node (its last entry); by default the newest entry before the
    end. `replace` enters another node there, or the same with other fields; `edit` is given the graph's state there and may
    change it, or return another. The original is untouched. Raises `UnknownRun`, `ConfigError`.
    """
    from agent_graph.engine.graph_moves import fork_graph_run

    return await fork_graph_run(_data(graph), journal, run_id, at=at, edit=edit, node=replace, new_id=new_run_id)


async def replay_graph(
    graph: Graph[StateT, DepsT, Any, EndT],
    run_id: str,
    *,
    journal: Journal,
    deps: DepsT = None,
    on_change: Literal['refuse', 'continue'] = 'refuse',
) -> GraphResult[EndT, StateT]:
    """Walk a recorded run again with the nodes as they are now, without any effect.

    Steps, answers of people and runs of agents in the nodes come from the journal; the code of the nodes itself does run.
    Raises `ReplayMismatch` naming the first entry that differs. A run that failed, was cancelled or waits gives a result
    with that `status`, if the code still comes to that place.
    """
    from agent_graph.engine.graph_moves import replayed
    from agent_graph.engine.replaying import ReplayEffects, follow_recording

    data = _data(graph)
    handles, start, state = replayed(data, journal, run_id, await journal.load(run_id), deps, on_change)
    walk = _walk(graph, data, start, state, deps, handles, entered=False)
    await follow_recording(walk, cast('ReplayEffects', handles.effects))
    return _stored(data, handles.state, data.load_state(handles.state.data))


def _check(on_cancel: object) -> None:
    if on_cancel not in ('cancel', 'leave'):
        raise ConfigError(f"on_cancel={on_cancel!r} is unknown; use 'cancel' or 'leave'")


def _data(graph: Graph[Any, Any, Any, Any]) -> GraphData:
    from agent_graph.engine.graph_data import GraphData  # brings pydantic's adapters along

    return GraphData(graph)


async def _walk(
    graph: Graph[StateT, DepsT, Any, EndT],
    data: GraphData,
    start: Any,
    state: StateT,
    deps: DepsT,
    handles: Handles,
    *,
    entered: bool,
) -> GraphResult[EndT, StateT]:
    from agent_graph.engine.graph_moves import recorded_place
    from agent_graph.engine.graph_run import end, enter, fail, pause

    ctx: GraphContext[StateT, DepsT] = GraphContext(state=state, deps=deps, handles=handles)
    run: GraphRun[StateT, DepsT, EndT] = GraphRun(graph, start, ctx)
    handles.driver = asyncio.current_task()
    try:
        while not isinstance(node := run.next_node, End):
            ctx.scope = await enter(data, handles, node, ctx.state, entered=entered)
            entered = False
            if handles.effects.replays:
                run.next_node, ctx.state = recorded_place(data, handles, node, ctx.state)
            await _node_task(handles, asyncio.create_task(_inside(handles, ctx, run)))
        await end(data, handles, node.data, ctx.state)
        return GraphResult(node.data, ctx.state, handles.run_id, 'completed', usage=handles.usage)
    except PauseSignal as signal:
        try:
            pending = await pause(handles, ctx.scope, signal)
        except ConfigError as error:
            await fail(handles, error)
            raise
        return GraphResult(cast('EndT', None), ctx.state, handles.run_id, 'paused', pending, handles.usage)
    except BaseException as error:
        made = await fail(handles, error)
        if made is error:
            raise
        raise made from None
    finally:
        handles.driver = None


async def _node_task(handles: Handles, task: asyncio.Task[None]) -> None:
    """Wait for a node; one in a run that is left is stopped only when the agents in it can tell that."""
    if handles.on_cancel == 'cancel':
        await task
        return
    try:
        await handles.effects.until(task)
    except ending.FROM_OUTSIDE:
        ending.is_left(handles)
        await handles.effects.stop({task})
        raise
    finally:
        if task.done() and not task.cancelled():
            task.exception()  # looked at, whatever is raised here
    await task


async def _inside(handles: Handles, ctx: GraphContext[Any, Any], run: GraphRun[Any, Any, Any]) -> None:
    """Run one node, in a task of its own: agents started in it belong to the node."""
    handles.attempts.pop(ctx.scope, None)
    handles.inside = inside = ActiveCall(handles, ctx.scope, None)
    if ctx.scope in handles.left:
        inside.take_up(handles.left.pop(ctx.scope))
    active_call.set(inside)
    try:
        await run.next()
    except PauseSignal as signal:
        raise _all_waits(inside, signal.pending) from None
    except BaseExceptionGroup as group:  # several waits side by side, in an asyncio.TaskGroup
        waits, others = group.split(PauseSignal)
        if waits is None:
            raise
        if others is not None:
            raise others from None
        from agent_graph.engine.tool_calls import leaves

        raise _all_waits(inside, tuple(p for signal in leaves(waits) for p in signal.pending)) from None


def _all_waits(inside: ActiveCall, pending: tuple[Pending, ...]) -> PauseSignal:
    """Everything the node waits for; of several questions of its own the first, for answers come in order."""
    found, run_id = inside.all_waits(pending), cast('Handles', inside.owner).run_id
    own = [p for p in found if p.run_id == run_id]
    return PauseSignal((*own[:1], *(p for p in found if p.run_id != run_id)))


def _stored(data: GraphData, run: RunState, state: Any) -> GraphResult[Any, Any]:
    if run.ended is None:
        return GraphResult(None, state, run.run_id, 'paused', run.waiting, run.usage)
    if not run.ended.output_stored:
        raise ConfigError(f'run {run.run_id} is complete, but its output has no JSON form and was not stored')
    output = data.load_output(run.ended.output) if run.ended.status == 'completed' else None
    return GraphResult(output, state, run.run_id, run.ended.status, usage=run.usage, error=run.ended.error)
