"""What the engine's tests share: ways to run an agent, a loop that notices what is left behind, short constructors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from agent_graph import (
    Agent,
    AssistantMessage,
    End,
    HandleResponse,
    Message,
    ModelRequest,
    RequestInfo,
    ResponseBuilder,
    RunError,
    RunResult,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
)
from agent_graph.messages import is_valid
from agent_graph.testing import ScriptedModel

__all__ = [
    'WAYS',
    'Log',
    'Outcome',
    'Way',
    'Wire',
    'answers_of',
    'call',
    'go',
    'outcome_of',
    'requests_of',
    'responses_of',
    'settle',
]

T = TypeVar('T')

Way: TypeAlias = Callable[..., Awaitable[RunResult[Any]]]
"""`await way(agent, prompt, **options)`: one of the ways to run an agent to its end."""


def go(work: Coroutine[Any, Any, T], *, seconds: float = 20.0) -> T:
    """Run `work` in a fresh loop; fails when it hangs, leaves a task behind, or makes the loop complain."""
    complaints: list[dict[str, Any]] = []

    async def main() -> T:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        result = await asyncio.wait_for(work, seconds)
        await settle()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f'tasks left behind: {left}'
        return result

    result = asyncio.run(main())
    assert not complaints, complaints
    return result


async def settle(rounds: int = 20) -> None:
    """Let everything that can go on without waiting go on."""
    for _ in range(rounds):
        await asyncio.sleep(0)


def call(name: str, args: dict[str, Any] | str | None = None, call_id: str = '') -> ToolCallPart:
    """A tool call; its id is the tool's name unless given."""
    return ToolCallPart(name, {} if args is None else args, call_id or name)


class Log(list[Any]):
    """What tools did, in order: side effects that the engine knows nothing of."""

    def tool(self, name: str, result: Any = None, **options: Any) -> Any:
        """An async tool of this name that notes that it ran."""
        from agent_graph import Tool

        async def function() -> Any:
            self.append(name)
            return result if result is not None else f'{name} done'

        return Tool(function, name=name, description=name, **options)


async def _plain(agent: Agent[Any, Any], prompt: Any = 'go', **options: Any) -> RunResult[Any]:
    return await agent.run(prompt, **options)


async def _stream(agent: Agent[Any, Any], prompt: Any = 'go', **options: Any) -> RunResult[Any]:
    async with agent.run_stream(prompt, **options) as s:
        async for _ in s.text():
            pass
        return await s.result()


async def _stream_output(agent: Agent[Any, Any], prompt: Any = 'go', **options: Any) -> RunResult[Any]:
    async with agent.run_stream(prompt, **options) as s:
        async for _ in s.output():
            pass
        return await s.result()


async def _events(agent: Agent[Any, Any], prompt: Any = 'go', **options: Any) -> RunResult[Any]:
    reader = agent.run_stream_events(prompt, **options)
    async for _ in reader:
        pass
    return await reader.finish()


async def _steps(agent: Agent[Any, Any], prompt: Any = 'go', **options: Any) -> RunResult[Any]:
    async with agent.iter(prompt, **options) as run:
        async for _ in run:
            pass
        assert run.result is not None
        return run.result


async def _streamed_steps(agent: Agent[Any, Any], prompt: Any = 'go', **options: Any) -> RunResult[Any]:
    async with agent.iter(prompt, **options) as run:
        node = run.next_node
        while not isinstance(node, End):
            if isinstance(node, ModelRequest | HandleResponse):
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        pass
            node = await run.next(node)
        assert run.result is not None
        return run.result


WAYS: dict[str, Way] = {
    'run': _plain,
    'run_stream': _stream,
    'run_stream output': _stream_output,
    'run_stream_events': _events,
    'iter': _steps,
    'iter and node.stream': _streamed_steps,
}
"""Every way to run an agent to its end; all must come to the same."""


@dataclass
class Outcome:
    """What came of a run: its output or its error, and the conversation either way."""

    output: Any
    error: Exception | None
    messages: list[Message]
    usage: Any

    @property
    def told(self) -> tuple[Any, type | None, str, list[Message], Any]:
        """Everything comparable about it."""
        return self.output, type(self.error) if self.error else None, str(self.error), self.messages, self.usage


async def outcome_of(way: Way, agent: Agent[Any, Any], prompt: Any = 'go', **options: Any) -> Outcome:
    """Run and catch a `RunError`; the history must be valid whatever happened."""
    try:
        result = await way(agent, prompt, **options)
    except RunError as error:
        assert is_valid(error.messages), error.messages  # noqa: PT017 (both endings are looked at)
        return Outcome(None, error, list(error.messages), error.usage)
    assert is_valid(result.messages), result.messages
    return Outcome(result.output, None, result.messages, result.usage)


def answers_of(messages: Sequence[Message]) -> list[ToolReturnPart]:
    """Every tool answer of a conversation, in order."""
    return [part for m in messages if isinstance(m, ToolMessage) for part in m.parts]


def requests_of(model: ScriptedModel) -> list[tuple[Message, ...]]:
    """The message lists a model was sent; each must be a valid history."""
    for request in model.requests:
        assert is_valid(request.messages), request.messages
    return [request.messages for request in model.requests]


def responses_of(messages: Sequence[Message]) -> list[AssistantMessage]:
    """Every response of a conversation."""
    return [m for m in messages if isinstance(m, AssistantMessage)]


class Wire:
    """A model that pushes text piece by piece, as from a connection, and says whether that is still open."""

    name = 'wire'
    provider = 'test'

    def __init__(self, pieces: int = 1000, *, pause: float = 0.0, piece: str = 'word ') -> None:
        self.pieces = pieces
        self.pause = pause
        self.piece = piece
        self.open = 0
        self.sent = 0
        self.asked = 0

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        self.asked += 1
        self.open += 1
        try:
            for _ in range(self.pieces):
                await out.text(self.piece)
                self.sent += 1
                await asyncio.sleep(self.pause)
            out.finish_reason = 'stop'
        finally:
            self.open -= 1
