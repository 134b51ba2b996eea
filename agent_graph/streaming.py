"""Reading a whole run as it goes: `RunStream` behind `agent.run_stream`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Self

from typing_extensions import TypeVar

from agent_graph.engine.channel import EventQueue
from agent_graph.engine.ending import fill
from agent_graph.engine.plan import RunDeps
from agent_graph.engine.stream import EventReader, text_pieces
from agent_graph.engine.validators import run_validators
from agent_graph.errors import ConfigError, ModelRetry, RunCancelled
from agent_graph.events import (
    NodeStarted,
    PartDeltaEvent,
    PartStartEvent,
    ResponseRestarted,
    RunEvent,
    TextPartDelta,
    ToolCallPartDelta,
)
from agent_graph.messages import Message, TextPart, ToolCallPart
from agent_graph.runner import AgentRun, RunResult
from agent_graph.usage import Usage

__all__ = ['Open', 'RunStream', 'events_of']

Output = TypeVar('Output', default=str)

Open = Callable[[EventQueue], Awaitable[AgentRun[Any]]]
"""Begins a run whose events go to the queue."""

SHORT = 32_000
"""Characters up to which a partial output is checked again for every bit of growth that shows."""

GROWTH = 512, 64
"""A partial output is checked again once it has grown by 1/512, a long one by 1/64: the work is linear in the text."""


@dataclass(slots=True)
class _Holder:
    """Where the run appears once it has begun; shared with the task, which must not hold the reader."""

    run: AgentRun[Any] | None = None


def events_of(open_run: Open) -> EventReader[RunResult[Any]]:
    """Every event of a run, in one flat iteration."""
    return _RunReader(open_run)


def _driver(
    open_run: Open, holder: _Holder, *, resumed: bool = False
) -> Callable[[EventQueue], Awaitable[RunResult[Any]]]:
    async def drive(queue: EventQueue) -> RunResult[Any]:
        holder.run = run = await open_run(queue)
        async with run:
            await run.announce(resumed=resumed)
            await run.to_end()
        return run.finished()

    return drive


class _RunReader(EventReader[RunResult[Output]], Generic[Output]):
    """The events of a whole run."""

    def __init__(self, open_run: Open, *, resumed: bool = False) -> None:
        self._holder = holder = _Holder()
        super().__init__(_driver(open_run, holder, resumed=resumed))

    def _run_read(self) -> RunDeps | None:
        return None if self._holder.run is None else self._holder.run.ctx.deps


class RunStream(_RunReader[Output], Generic[Output]):
    """A run being read: `async with agent.run_stream(...) as s`, then one of `text()`, `output()` and `events()`.

    Leaving the block before the end cancels the run; `s.messages` then ends with the partial response. With
    `on_cancel='leave'` it leaves the run to be resumed; `cancel()` cancels it all the same.
    """

    @property
    def run(self) -> AgentRun[Output]:
        """The run; there is one as soon as the first event has been read."""
        run = self._holder.run
        if run is None:
            raise ConfigError('the run has not begun: read an event, or await result(), before asking for it')
        return run

    @property
    def messages(self) -> list[Message]:
        """The conversation up to here, valid as the history of another run."""
        return self.run.messages

    @property
    def usage(self) -> Usage:
        """What the run has used up to here."""
        return self.run.usage

    def _cancelled(self) -> RunCancelled:
        error = super()._cancelled()
        if self._holder.run is not None:
            fill(error, self._holder.run.ctx.deps)
        return error

    def events(self) -> Self:
        """Every event of the run."""
        return self

    def text(self, *, delta: bool = False) -> AsyncIterator[str]:
        """Text as it arrives, of every response, also what the model says before it calls tools.

        Without `delta` each item is the current response's text so far, so the last one is the answer; with `delta=True`
        each item is a new piece. Results of tools marked `show_result` come too. A response that is asked for again from
        its start (see `ResponseRestarted`) begins anew: its text so far becomes `''`, and its pieces come once more.
        """
        self.claim('text')
        return text_pieces(self, delta=delta)

    async def result(self) -> RunResult[Output]:
        """Read what is left and return the run's result."""
        return await self.finish()

    def output(self) -> AsyncIterator[Output]:
        """The output as it grows: each item is valid as far as it goes, and the last one is the run's output."""
        self.claim('output')
        return self._outputs()

    async def _outputs(self) -> AsyncIterator[Output]:
        candidate = _Candidate()
        seen: list[Any] = []
        async for event in self:
            if event.path or not candidate.take(event, self.run):
                continue
            found, value = await candidate.value(self.run)
            if found and seen != [value]:
                seen = [value]
                yield value
        result = await self.finish()
        if result.status == 'completed' and seen != [result.output]:
            yield result.output


class _Candidate:
    """The part of the current response that may become the output, as far as it has arrived."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0
        self.checked = 0
        self.tool_name: str | None = None
        self.index: int | None = None

    def take(self, event: RunEvent, run: AgentRun[Any]) -> bool:
        """Add what an event brings; true if there is enough that is new to look at."""
        if isinstance(event, NodeStarted | ResponseRestarted):
            self.__init__()  # another response, or this one from its start: what had come of it is void
        elif isinstance(event, PartStartEvent):
            self._begin(event, run)
        elif isinstance(event, PartDeltaEvent) and event.index == self.index:
            match event.delta:
                case TextPartDelta(content_delta=piece) | ToolCallPartDelta(args_delta=piece):
                    self._add(piece)
                case _:
                    pass
        else:
            return False
        growth = GROWTH[self.size > SHORT]
        return self.size > self.checked and (self.size - self.checked) * growth >= self.size

    def _begin(self, event: PartStartEvent, run: AgentRun[Any]) -> None:
        output = run.ctx.deps.plan.output
        part = event.part
        if isinstance(part, ToolCallPart) and part.tool_name in output.tools and self.tool_name is None:
            self.__init__()
            self.index, self.tool_name = event.index, part.tool_name
            self._add(part.args if isinstance(part.args, str) else '')
        elif isinstance(part, TextPart) and self.tool_name is None and output.text in ('str', 'json'):
            self.index = event.index
            self._add(part.content)

    def _add(self, piece: str) -> None:
        self.pieces.append(piece)
        self.size += len(piece)

    async def value(self, run: AgentRun[Any]) -> tuple[bool, Any]:
        """(True, value) if what has arrived is a valid output as far as it goes."""
        self.checked = self.size
        text = ''.join(self.pieces)
        self.pieces = [text]
        deps = run.ctx.deps
        found, value = deps.plan.output.partial(text, self.tool_name)
        if not found:
            return False, None
        try:
            return True, await run_validators(deps, value, partial=True)
        except ModelRetry:
            return False, None
