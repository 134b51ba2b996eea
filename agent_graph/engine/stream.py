"""Reading the events of work while it goes on: the work runs in a task of its own and pushes into a bounded queue.

A reader that leaves early cancels the work and waits until it has ended, so that nothing goes on unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Self

from pydantic_graph import BaseNode, End, GraphRunContext
from typing_extensions import TypeVar

from agent_graph.engine.channel import EventQueue
from agent_graph.engine.effects import stop_tasks
from agent_graph.engine.ending import cancelled, failed, in_time, is_left, leave
from agent_graph.engine.plan import RunDeps
from agent_graph.engine.state import RunState
from agent_graph.errors import ConfigError, RunCancelled
from agent_graph.events import (
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartStartEvent,
    ResponseRestarted,
    RunEvent,
    TextPartDelta,
)
from agent_graph.messages import AssistantMessage, TextPart

__all__ = ['EventReader', 'NodeStream', 'RequestStream', 'text_pieces']

Result = TypeVar('Result', default=Any)


class EventReader(Generic[Result]):
    """An async iterator over the events of some work; `async with` is optional.

    Left normally, the block waits for the work to end (`finish`); left by an exception, by `cancel()`, or simply
    dropped, the work is cancelled.
    """

    def __init__(self, work: Callable[[EventQueue], Awaitable[Result]]) -> None:
        self._work = work
        self._queue = EventQueue()
        self._task: asyncio.Task[Result] | None = None
        self._claimed: str | None = None

    def _begin(self) -> asyncio.Task[Result]:
        if self._task is None:
            # The task must not refer to this object: dropping the reader is what cancels it.
            self._task = asyncio.create_task(_feed(self._work, self._queue))
        return self._task

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        task = self._begin()
        if self._queue.closed:
            raise StopAsyncIteration
        try:
            event = await self._queue.get()
        except asyncio.CancelledError:  # the reader is cancelled, and the work is done for the reader
            await self._leave()
            raise
        if event is not None:
            return event
        self._queue.close()
        await self._outcome(task)
        raise StopAsyncIteration

    async def finish(self) -> Result:
        """Read to the end without looking, and return what the work returned."""
        task = self._begin()
        try:
            while not self._queue.closed and await self._queue.get() is not None:
                pass
        except asyncio.CancelledError:
            await self._leave()
            raise
        self._queue.close()
        return await self._outcome(task)

    async def _outcome(self, task: asyncio.Task[Result]) -> Result:
        """What the work returned or raised; `RunCancelled` if it was cancelled, which is not the reader's cancellation."""
        await asyncio.wait({task})
        if task.cancelled():
            raise self._cancelled()
        return task.result()

    def claim(self, reading: str) -> None:
        """Say that `reading` takes the events; a second reading would only find what the first has left."""
        if self._claimed is not None:
            raise ConfigError(
                f'{reading}() was called on a stream that {self._claimed}() reads; a stream can be read once'
            )
        self._claimed = reading

    def _cancelled(self) -> RunCancelled:
        return RunCancelled('the run was cancelled before its end')

    async def cancel(self) -> None:
        """Stop the work now and wait until it has ended; what it had received is kept."""
        run, task = self._run_read(), self._task
        if run is not None and run.on_cancel == 'leave' and task is not None and not task.done():
            run.cancel_asked = True  # said in so many words, and not a reader that is gone
        await self._leave()

    def _run_read(self) -> RunDeps | None:
        """The run whose events these are, once there is one."""
        return None

    async def _leave(self) -> None:
        self._queue.close()
        task = self._begin()
        try:
            await stop_tasks({task})
        finally:
            if task.done() and not task.cancelled():
                task.exception()  # looked at: the reader has chosen to leave

    async def aclose(self) -> None:
        """Leave: stop the work, if it still goes on, and wait until it has ended."""
        task = self._task
        if task is not None and not task.done():
            await self._leave()
        elif task is not None and not task.cancelled():
            task.exception()  # looked at: whoever leaves without reading on does not want to know

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task = self._task
        if task is not None and not task.done() and not task.get_loop().is_closed():
            self._queue.closed = True
            task.get_loop().call_soon_threadsafe(_abandon, task, self._queue)


def _abandon(task: asyncio.Task[Any], queue: EventQueue) -> None:
    queue.close()
    task.cancel()
    task.add_done_callback(lambda t: t.cancelled() or t.exception())


async def _feed(work: Callable[[EventQueue], Awaitable[Result]], queue: EventQueue) -> Result:
    try:
        return await work(queue)
    except asyncio.CancelledError:
        queue.hurry()
        raise
    finally:
        await queue.end()


class NodeStream(EventReader['BaseNode[Any, Any, Any] | End[Any]']):
    """The events of one node. Leaving the block normally finishes the node, and the run goes on from there."""

    def __init__(self, node: BaseNode[RunState, RunDeps, Any], ctx: GraphRunContext[RunState, RunDeps]) -> None:
        super().__init__(lambda queue: _walk(node, ctx, queue))
        self._node = node
        self._ctx = ctx

    def _run_read(self) -> RunDeps:
        return self._ctx.deps

    async def __aenter__(self) -> Self:
        deps = self._ctx.deps
        if deps.state.ended is not None:
            raise RunCancelled(f'run {deps.run_id} has ended ({deps.state.ended.status}); start or fork another one')
        if deps.leaving:
            raise RunCancelled(f'run {deps.run_id} was left when it was cancelled; go on with it by resume')
        if deps.driver is not None:
            raise ConfigError(f'a node of run {deps.run_id} is being run already; wait for it before streaming another')
        if deps.walked is not None and deps.walked[0] is self._node:
            raise ConfigError(f'{self._node!r} has been run already; stream the node that run.next_node shows')
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self._queue.closed:
            await self.finish()
        else:
            await self.aclose()
        task = self._task
        if error is None and task is not None and task.done() and not task.cancelled():
            failure = task.exception()
            if failure is not None and not isinstance(failure, RunCancelled):
                raise failure


async def _walk(
    node: BaseNode[RunState, RunDeps, Any], ctx: GraphRunContext[RunState, RunDeps], queue: EventQueue
) -> BaseNode[RunState, RunDeps, Any] | End[Any]:
    """Run a node with its events going to `queue`; what it returned waits in `deps.walked` for `run.next(node)`."""
    deps = ctx.deps
    before = deps.sink, deps.events.queue
    deps.sink, deps.events.queue = deps.events, queue
    deps.driver = asyncio.current_task()
    try:
        made = await (node.run(ctx) if deps.deadline is None else in_time(deps, node, ctx, deps.deadline))
    except asyncio.CancelledError:
        error = await cancelled(deps)
        if error is None:
            raise
        raise error from None
    except (KeyboardInterrupt, SystemExit):
        if is_left(deps):
            await leave(deps)
        raise
    except Exception as error:
        made = await failed(deps, error)
        if made is error:
            raise
        raise made from error
    finally:
        deps.driver = None
        deps.sink, deps.events.queue = before
    deps.walked = (node, made)
    return made


class RequestStream(NodeStream):
    """The events of a model request: the response as it arrives."""

    @property
    def response(self) -> AssistantMessage:
        """The response: complete once the node has finished, before that what has arrived."""
        walked = self._ctx.deps.walked
        if walked is not None and walked[0] is self._node:
            return walked[1].response
        builder = self._ctx.deps.builder
        if builder is not None:
            return builder.build(interrupted=True)
        last = self._ctx.state.at.response if self._ctx.state.at is not None else None
        return last if last is not None else AssistantMessage((), interrupted=True)

    def text(self, *, delta: bool = False) -> AsyncIterator[str]:
        """The response's text as it grows; with `delta=True` only what is new each time."""
        self.claim('text')
        return text_pieces(self, delta=delta)


async def text_pieces(events: EventReader[Any], *, delta: bool) -> AsyncIterator[str]:
    """Text out of events: each response's text, and the results of tools marked `show_result`.

    Without `delta` the text of the current response so far; it starts anew with each response, and with `''` where a response
    is asked for again from its start.
    """
    text = ''
    async for event in events:
        if event.path:
            continue
        if isinstance(event, ResponseRestarted):
            if text and not delta:
                yield ''  # what came before is void
            text = ''
            continue
        if isinstance(event, PartStartEvent):
            if event.index == 0:
                text = ''
            piece = event.part.content if isinstance(event.part, TextPart) else ''
        elif isinstance(event, PartDeltaEvent):
            piece = event.delta.content_delta if isinstance(event.delta, TextPartDelta) else ''
        elif isinstance(event, FunctionToolResultEvent) and event.show:
            piece = str(event.part.content)
        else:
            continue
        if piece:
            text += piece
            yield piece if delta else text
