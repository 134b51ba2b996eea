"""What the tests of wrapping models share: models that fail as told, and ways to ask a model without a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from agent_graph.errors import ModelHTTPError, ModelProtocolError
from agent_graph.events import PartDeltaEvent, PartStartEvent, ResponseRestarted, TextPartDelta
from agent_graph.messages import AssistantMessage, Message, TextPart, UserMessage
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from agent_graph.models import CachedModel
from agent_graph.testing import FunctionModel
from agent_graph.usage import Usage
from tests.engine.kit import go

__all__ = [
    'HELLO',
    'Clock',
    'Faulty',
    'Gauge',
    'Seen',
    'Step',
    'answer',
    'ask',
    'broken',
    'busy',
    'by_prompt',
    'cached',
    'stored',
    'text_of',
    'watch',
]

HELLO: tuple[Message, ...] = (UserMessage('Hello'),)

Step: TypeAlias = Callable[[ResponseBuilder], Awaitable[None]]
"""What a `Faulty` model does at one request."""


def busy(status: int = 429, **more: Any) -> ModelHTTPError:
    """A server that has too much to do."""
    return ModelHTTPError(f'busy ({status})', status=status, provider='test', model='faulty', **more)


def answer(text: str, **more: Any) -> AssistantMessage:
    """A whole text answer that used 10 tokens."""
    more = {'usage': Usage(input_tokens=7, output_tokens=3), 'finish_reason': 'stop', **more}
    return AssistantMessage([TextPart(text)], **more)


def broken(text: str, error: Exception | None = None, *, tokens: int = 0) -> Step:
    """An answer that breaks off after `text`, having reported `tokens` of usage."""

    async def step(out: ResponseBuilder) -> None:
        for word in text.split(' '):
            await out.text(word + ' ')
            await asyncio.sleep(0)
        if tokens:
            out.usage = Usage(input_tokens=tokens)
        raise error or ModelProtocolError('the answer was cut off')

    return step


class Faulty:
    """A model that goes through a list of steps, the last one for ever: an answer, an exception, or something it does.

    `requests` are the messages it was asked with; `open` is how many requests are going on.
    """

    def __init__(
        self,
        steps: Sequence[str | AssistantMessage | BaseException | Step],
        *,
        name: str = 'faulty',
        provider: str = 'test',
    ) -> None:
        self.name = name
        self.provider = provider
        self.steps: list[Any] = list(steps)
        self.requests: list[tuple[Message, ...]] = []
        self.infos: list[RequestInfo] = []
        self.open = 0

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        step = self.steps[min(len(self.requests), len(self.steps) - 1)]
        self.requests.append(tuple(messages))
        self.infos.append(info)
        self.open += 1
        try:
            await asyncio.sleep(0)
            await _do(step, out)
        finally:
            self.open -= 1


async def _do(step: str | AssistantMessage | BaseException | Step, out: ResponseBuilder) -> None:
    if isinstance(step, BaseException):
        raise step
    if isinstance(step, str):
        step = answer(step)
    if not isinstance(step, AssistantMessage):
        await step(out)
    elif not out.watched:
        await out.message(step)
    else:
        for part in step.parts:
            if isinstance(part, TextPart):
                for word in part.content.split(' '):
                    await out.text(word + ' ')
                    await asyncio.sleep(0)
            else:
                await out.part(part)
        await out.message(AssistantMessage((), step.usage, finish_reason=step.finish_reason, refusal=step.refusal))


@dataclass
class Clock:
    """Time that passes only while somebody sleeps; `slept` are the waits."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list[float])

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class Seen:
    """What a reader saw of one response: events as (class, fields)."""

    events: list[tuple[type, dict[str, Any]]] = field(default_factory=list[tuple[type, dict[str, Any]]])

    async def __call__(self, make: type, **fields: Any) -> None:
        self.events.append((make, fields))
        await asyncio.sleep(0)

    @property
    def names(self) -> list[str]:
        return [make.__name__ for make, _ in self.events]

    @property
    def text(self) -> str:
        """The text as the reader has it at the end: void from a restart on."""
        text = ''
        for make, fields in self.events:
            if make is ResponseRestarted:
                text = ''
            elif make is PartStartEvent and isinstance(fields['part'], TextPart):
                text += fields['part'].content
            elif make is PartDeltaEvent and isinstance(fields['delta'], TextPartDelta):
                text += fields['delta'].content_delta
        return text


async def ask(model: Model, messages: Sequence[Message] = HELLO, **info: Any) -> AssistantMessage:
    """Ask as a run does that nobody watches."""
    out = ResponseBuilder(model_name=model.name, provider_name=model.provider)
    await model.respond(messages, RequestInfo(**info), out)
    await out.finish()
    return out.build()


async def watch(model: Model, messages: Sequence[Message] = HELLO, **info: Any) -> tuple[AssistantMessage, Seen]:
    """Ask as a run does whose events are read."""
    seen = Seen()
    out = ResponseBuilder(seen, model_name=model.name, provider_name=model.provider)
    await model.respond(messages, RequestInfo(**info), out)
    await out.finish()
    return out.build(), seen


def text_of(message: AssistantMessage) -> str:
    return ''.join(p.content for p in message.parts if isinstance(p, TextPart))


def cached(model: Any, path: Path, *, requests: int = 2, **options: Any) -> list[AssistantMessage]:
    """Ask `requests` times through a cache of its own."""

    async def main() -> list[AssistantMessage]:
        async with CachedModel(model, path, **options) as cache:
            return [await ask(cache) for _ in range(requests)]

    return go(main())


def stored(path: Path) -> int:
    async def main() -> int:
        async with CachedModel(Faulty(['x']), path) as cache:
            return await cache.count()

    return go(main())


def by_prompt(size: int = 0) -> tuple[FunctionModel, list[str]]:
    asked: list[str] = []

    def reply(messages: Any, info: RequestInfo) -> str:
        asked.append(messages[-1].content)
        return messages[-1].content + 'x' * size

    return FunctionModel(reply), asked


class Gauge:
    """A model that takes `seconds` and notes how many ask at once, and in which order."""

    name, provider = 'gauge', 'test'

    def __init__(self, seconds: float = 0.0, tokens: int = 0) -> None:
        self.seconds, self.tokens = seconds, tokens
        self.now = self.most = 0
        self.order: list[str] = []
        self.lock = threading.Lock()

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.order.append(str(messages[-1].content))  # pyright: ignore
        try:
            await asyncio.sleep(self.seconds)
        finally:
            with self.lock:
                self.now -= 1
        await out.message(answer('Hi', usage=Usage(input_tokens=self.tokens)))
