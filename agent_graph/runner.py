"""Drives a graph: `GraphRun` any pydantic-graph graph of `BaseNode`s, `AgentRun` the agent's, with its journal.

A node is run by awaiting `node.run(ctx)`; what it returns is checked against the graph's edges. Nothing else happens
between two nodes, so stepping by hand and running to the end are the same walk.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast

from pydantic_graph import BaseNode, End, Graph, GraphRunContext
from typing_extensions import TypeVar

from agent_graph.engine import ending
from agent_graph.engine.graph import AGENT_EDGES, AGENT_GRAPH, Edges, edges_of
from agent_graph.engine.nodes import FinalResult, ModelRequest
from agent_graph.engine.plan import Handles, RunDeps
from agent_graph.engine.state import RunState
from agent_graph.errors import ConfigError, GraphError, RunCancelled
from agent_graph.events import RunEnded, RunStarted
from agent_graph.journal.entries import Enqueued, Paused
from agent_graph.messages import JsonValue, Message, UserMessage
from agent_graph.pending import PauseSignal, Pending
from agent_graph.text import clean_data
from agent_graph.usage import Usage, cost_of

if TYPE_CHECKING:
    from decimal import Decimal

__all__ = ['AgentNode', 'AgentRun', 'GraphRun', 'RunResult', 'shown']

StateT = TypeVar('StateT', default=Any)
DepsT = TypeVar('DepsT', default=Any)
EndT = TypeVar('EndT', default=Any)
Output = TypeVar('Output', default=str)

SHOWN = 200
"""Characters of a value that the `repr` of a result shows."""

AgentNode = BaseNode[RunState, RunDeps, FinalResult]
"""Any node of an agent's graph."""


class GraphRun(Generic[StateT, DepsT, EndT]):
    """A walk through a graph, one node at a time or to its end.

    `async for node in run` shows each node before it is run, the `End` last; `await run.next(node)` runs one. Raises
    `GraphError` for a node that is not in the graph, or that a node returned without an edge to it.
    """

    def __init__(
        self,
        graph: Graph[StateT, DepsT, Any, Any],
        start: BaseNode[StateT, DepsT, EndT] | End[EndT],
        ctx: GraphRunContext[StateT, DepsT],
        *,
        edges: Edges | None = None,
    ) -> None:
        self.ctx = ctx
        self.next_node: BaseNode[StateT, DepsT, EndT] | End[EndT] = start
        self._edges = edges_of(graph) if edges is None else edges
        self._shown = False

    @property
    def state(self) -> StateT:
        """The graph's state."""
        return self.ctx.state

    async def next(
        self, node: BaseNode[StateT, DepsT, EndT] | None = None
    ) -> BaseNode[StateT, DepsT, EndT] | End[EndT]:
        """Run `node` (by default the one that is next; it may also be changed, or another one) and return what follows."""
        current: Any = self.next_node if node is None else node
        edges = self._edges.get(current.__class__)
        if edges is None:
            raise self._not_drivable(current)
        made = await current.run(self.ctx)
        if made.__class__ not in edges:
            raise self._no_edge(current, made, edges)
        self.next_node = made
        self._shown = False
        return made

    async def to_end(self) -> EndT:
        """Run what is left and return the end's data."""
        node = self.next_node
        while node.__class__ is not End:
            node = await self.next()
        assert isinstance(node, End)
        return node.data

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BaseNode[StateT, DepsT, EndT] | End[EndT]:
        if not self._shown:
            self._shown = True
            return self.next_node
        if isinstance(self.next_node, End):
            raise StopAsyncIteration
        node = await self.next()
        self._shown = True
        return node

    def _no_edge(self, current: Any, made: Any, edges: frozenset[type]) -> BaseException:
        allowed = ', '.join(sorted(e.__name__ for e in edges))
        return GraphError(
            f'{type(current).__name__}.run returned {made!r}, and the graph has no edge to it; return one of: {allowed}, '
            'or add it to the return annotation of run'
        )

    def _not_drivable(self, node: Any) -> GraphError:
        if isinstance(node, End):
            return GraphError('the run has ended: there is no next node')
        known = ', '.join(sorted(n.__name__ for n in self._edges))
        return GraphError(f'{node!r} is not a node of this graph; its nodes are: {known}')


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Generic[Output]):
    """What a run ended with.

    `messages` is the whole conversation, the history it was given included; `new_messages` what this run added.
    `pending` lists what a paused run waits for. A run that was left before its end, by `drain()` say, is `stopped`:
    `resume` goes on with it. Only a completed run has an output.
    """

    output: Output
    state: RunState
    status: Literal['completed', 'cancelled', 'failed', 'paused', 'stopped'] = 'completed'
    pending: tuple[Pending, ...] = ()

    def __repr__(self) -> str:
        return shown(self, pending=self.pending, error=self.error)

    @property
    def messages(self) -> list[Message]:
        """The conversation, valid as the history of another run."""
        return self.state.valid_messages()

    @property
    def new_messages(self) -> list[Message]:
        """The messages this run added, without the instructions."""
        return self.state.valid_messages()[self.state.new_from :]

    @property
    def usage(self) -> Usage:
        """Requests, tool calls and tokens, agents run inside tools included."""
        return self.state.usage

    @property
    def cost(self) -> Decimal | None:
        """The price in USD; `None` when the price of some response is unknown."""
        return cost_of(self.state.all_spends)

    @property
    def error(self) -> str | None:
        """What stopped a run that failed or was cancelled, in words."""
        return self.state.ended.error if self.state.ended is not None else None

    @property
    def run_id(self) -> str:
        """The run's id in its journal."""
        return self.state.run_id

    @property
    def undelivered(self) -> tuple[UserMessage, ...]:
        """Messages given by `run.enqueue` that no request has carried."""
        return self.state.queued

    @property
    def metadata(self) -> dict[str, JsonValue] | None:
        """The metadata given to the run."""
        return self.state.metadata


def shown(result: Any, **others: object) -> str:
    """A result in one line: its run, how that stands, its output, and what of `others` there is."""
    told = {'run_id': result.run_id, 'status': result.status}
    told |= {'output': result.output} if result.status == 'completed' else {}
    told |= {name: value for name, value in others.items() if value}
    return f'{type(result).__name__}({", ".join(f"{k}={_short(repr(v))}" for k, v in told.items())})'


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f'{text[:SHOWN]}… ({len(text)} characters)'


class AgentRun(GraphRun[RunState, RunDeps, FinalResult], Generic[Output]):
    """A run of an agent, from `async with agent.iter(...) as run`.

    Leaving the block before the end leaves the run where it is: with a journal that outlives it, `agent.resume(run_id)`
    goes on from there. An exception inside a node ends the run as failed.
    """

    def __init__(self, start: AgentNode | End[FinalResult], ctx: GraphRunContext[RunState, RunDeps]) -> None:
        super().__init__(AGENT_GRAPH, start, ctx, edges=AGENT_EDGES)
        self._result: RunResult[Output] | None = None

    @property
    def run_id(self) -> str:
        """The run's id in its journal."""
        return self.ctx.state.run_id

    @property
    def messages(self) -> list[Message]:
        """The conversation up to here, valid as the history of another run."""
        return self.ctx.state.valid_messages()

    @property
    def usage(self) -> Usage:
        """What the run has used up to here."""
        return self.ctx.state.usage

    @property
    def result(self) -> RunResult[Output] | None:
        """What the run ended or paused with, or was left as; `None` while it goes on."""
        state, deps = self.ctx.state, self.ctx.deps
        if self._result is None:
            if state.ended is not None and state.ended.status != 'completed':
                self._result = RunResult(cast('Output', None), state, state.ended.status)
            elif state.paused and isinstance(self.next_node, End):
                return RunResult(cast('Output', None), state, 'paused', state.waiting)
            elif state.ended is None and (deps.leaving or (deps.drain_asked and deps.driver is None)):
                return RunResult(cast('Output', None), state, 'stopped')
        return self._result

    def finished(self) -> RunResult[Output]:
        """The result of a run that has been driven to its end.

        A run inside a tool that waits for people makes the runs around it wait too: raises `PauseSignal` to that end.
        """
        result = self.result
        if result is None:  # a replay has come to where the recorded run stands
            waiting = self.ctx.state.waiting
            return RunResult(cast('Output', None), self.ctx.state, 'paused' if waiting else 'stopped', waiting)
        deps = self.ctx.deps
        if result.status == 'paused' and deps.around is not None:
            owner = cast('Handles', deps.around.owner)
            if owner.keeper is None and deps.keeper is not None:
                raise ConfigError(
                    f'run {self.run_id} waits inside a tool of run {owner.run_id}, which has no journal to wait in; give the '
                    'outer agent a journal, or resume the inner run by itself'
                )
            raise PauseSignal(deps.around.all_waits(result.pending))
        return result

    async def next(self, node: AgentNode | None = None) -> AgentNode | End[FinalResult]:
        """Run `node` (by default the one that is next) and return what follows; the last is an `End`.

        Raises `RunCancelled` once the run has been cancelled, and whatever error ended it.
        """
        current: Any = self.next_node if node is None else node
        deps = self.ctx.deps
        kind = current.__class__
        edges = self._edges[kind] if kind in self._edges else None
        left_over = deps.around is not None and deps.around.is_over
        if edges is None or deps.state.ended is not None or left_over or deps.leaving:
            over = deps.state.ended or deps.leaving or not left_over
            raise self._refusal(current) if over else await ending.left_over(deps)
        walked, deps.walked = deps.walked, None
        mine, beside = deps.driver is None, None
        if mine:
            deps.driver = asyncio.current_task()
            if deps.around is not None:
                beside = deps.around.begin()
        elif not deps.driven:
            raise ConfigError(f'a node of run {deps.run_id} is being run already; wait for it before running another')
        try:
            if walked is not None and walked[0] is current:
                made = walked[1]
            else:
                deadline, ctx = deps.deadline, self.ctx
                made = await (current.run(ctx) if deadline is None else ending.in_time(deps, current, ctx, deadline))
            if made.__class__ not in edges or deps.cancel_asked:
                raise self._no_edge(current, made, edges)
            if made.__class__ is End:
                made = await self._end(made)
        except BaseException as error:
            made = await self._stopped(error)
            if made is error:
                raise
            raise made from (error if isinstance(error, Exception) else None)
        finally:
            if mine:
                deps.driver = None
            if beside is not None and deps.around is not None:
                deps.around.leave(beside)
        self.next_node = made
        self._shown = False
        return made

    async def _stopped(self, error: BaseException) -> BaseException:
        """Record what stopped a node, and return what to raise."""
        deps = self.ctx.deps
        if isinstance(error, asyncio.CancelledError):
            return await ending.cancelled(deps) or error
        if isinstance(error, ending.FROM_OUTSIDE) and ending.is_left(deps):
            await ending.leave(deps)
        if isinstance(error, PauseSignal):  # of an agent run in this one's instructions or checks: it is left as it is
            await self.close()
        return await ending.failed(deps, error) if isinstance(error, Exception) else error

    def _no_edge(self, current: Any, made: Any, edges: frozenset[type]) -> BaseException:
        if self.ctx.deps.cancel_asked:  # the node did not let itself be cancelled
            return asyncio.CancelledError()
        return super()._no_edge(current, made, edges)

    async def to_end(self) -> FinalResult:
        """Run what is left and return the end's data; with `drain()` asked for, stop before the next node."""
        deps, node = self.ctx.deps, self.next_node
        around = deps.around
        beside = around.begin() if around is not None else None
        if deps.driver is None:
            deps.driver, deps.driven = asyncio.current_task(), True
        try:
            if node.__class__ is End:
                await ending.show_standing(deps)
            while node.__class__ is not End:
                if deps.drain_asked:
                    await deps.effects.flush()
                    await ending.keep(deps)
                    if deps.sink is not None:
                        await deps.sink(RunEnded, status='stopped')
                    return FinalResult(None)
                node = await self.next()
        finally:
            deps.driver, deps.driven = None, False
            if around is not None and beside is not None:
                around.leave(beside)
        if around is not None and deps.state.paused:
            # The wait leaves the call this run is in: not before those beside it have ended, or wait too.
            around.all_waits(deps.state.waiting)
            await around.quiet()
        return node.data  # pyright: ignore

    async def cancel(self) -> None:
        """Stop the run now, from any task of its loop: what goes on is cancelled, what had finished is kept.

        A `next` that is in progress raises `RunCancelled`. Does nothing to a run that has ended.
        """
        deps = self.ctx.deps
        if deps.state.ended is not None:
            return
        deps.cancel_asked = True
        if deps.driver is not None and deps.driver is not asyncio.current_task():
            deps.driver.cancel()
            return
        await ending.stop(deps, 'cancelled', None)

    def drain(self) -> None:
        """Stop after the node in progress; the run can be resumed. The driver gets a result with status `stopped`."""
        self.ctx.deps.drain_asked = True

    async def enqueue(self, message: UserMessage | str) -> None:
        """Give the run a message to send along with its next request; recorded at once.

        If the model has just given its output, the run goes on with one more request for it. Where a limit allows none,
        the run ends as it is and the message is in `result.undelivered`.
        """
        made = UserMessage(message) if isinstance(message, str) else message
        if self.ctx.state.ended is not None:
            raise self._refusal(self.next_node)
        state = self.ctx.state
        # The newest entry says how a run stands: one that waits goes on waiting.
        still = Paused(state.waiting, state.inside, state.inside_spends) if state.paused else None
        await self.ctx.deps.effects.record(Enqueued(clean_data(made)), still)

    async def _end(self, end: End[FinalResult]) -> AgentNode | End[FinalResult]:
        deps, final = self.ctx.deps, end.data
        if final.pending:
            await ending.pause(deps, final.pending)
            return end
        if deps.state.queued and not deps.state.final_asked and deps.budget.has_request():
            return ModelRequest(final.message)  # somebody has said something that the model has not heard yet
        await ending.complete(
            deps,
            final.output,
            message=final.message,
            tool_name=final.tool_name,
            tool_call_id=final.tool_call_id,
        )
        self._result = RunResult(final.output, self.ctx.state)
        return end

    def restore(self, result: RunResult[Output]) -> None:
        """Take over the result of a stored run that had ended."""
        self._result = result

    def _refusal(self, current: Any) -> Exception:
        ended = self.ctx.state.ended
        if ended is None and self.ctx.deps.leaving:
            error = RunCancelled(f'run {self.run_id} was left when it was cancelled; go on with it by resume')
            ending.fill(error, self.ctx.deps)
            return error
        if ended is None:
            return self._not_drivable(current)
        if ended.status == 'cancelled':
            error = RunCancelled(f'run {self.run_id} was cancelled; start another run with its messages')
            ending.fill(error, self.ctx.deps)
            return error
        return GraphError(f'run {self.run_id} has ended ({ended.status}); there is no next node')

    async def __anext__(self) -> AgentNode | End[FinalResult]:
        ended, deps = self.ctx.state.ended, self.ctx.deps
        left = deps.leaving or (deps.drain_asked and self._shown)
        if left or (ended is not None and ended.status != 'completed'):
            raise StopAsyncIteration
        return await super().__anext__()

    async def announce(self, *, resumed: bool = False) -> None:
        """Show that the run begins, to whoever watches."""
        deps = self.ctx.deps
        if deps.sink is not None:
            await deps.sink(RunStarted, agent=deps.agent_name, resumed=resumed)

    async def close(self) -> None:
        """Give the run free for others to go on with, if it has not ended."""
        deps = self.ctx.deps
        if deps.leaving:  # given free when it was left
            return
        await deps.effects.flush()
        if deps.keeper is not None:
            deps.keeper.stop()
        if deps.tracing is not None:
            deps.tracing.end('left', deps.state.usage, None)
        if deps.state.ended is None and not deps.state.paused:
            await deps.effects.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
