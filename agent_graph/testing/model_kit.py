"""What the model suites are made of: scenes a server plays, what it saw, and one request to a model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar
from unittest import SkipTest

from agent_graph.errors import ConfigError
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    FinishReason,
    Message,
    TextPart,
    ToolCallPart,
    UserMessage,
)
from agent_graph.model import Model, ModelSettings, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph.usage import Usage

__all__ = [
    'HELLO',
    'TOOLS',
    'Fails',
    'Garbles',
    'ModelTest',
    'Says',
    'Scene',
    'Seen',
    'Served',
    'Unreachable',
    'Watcher',
    'args_of',
    'ask',
    'calls',
    'check',
    'failure',
    'ids_of',
    'pieces',
    'run',
    'text',
    'until',
]

T = TypeVar('T')
E = TypeVar('E', bound=BaseException)
S = TypeVar('S', bound='ModelTest')

_USAGE = Usage(input_tokens=11, output_tokens=7)


@dataclass(frozen=True, slots=True)
class Says:
    """The server answers with these parts, as a stream or plainly, whichever it is asked for.

    `finish_reason` and `usage` (`input_tokens`, `output_tokens`) are told in the protocol's own words. `error`: a stream
    tells this error after the parts, in place of an ending. Only the share `upto` of the answer's bytes is sent (0: not even
    the head), and `then` the answer ends as if that were all, the connection is closed, or nothing comes any more.
    """

    parts: tuple[AssistantPart, ...] = (TextPart('hello'),)
    finish_reason: FinishReason = 'stop'
    usage: Usage = _USAGE
    error: str | None = None
    upto: float = 1.0
    then: Literal['end', 'close', 'hang'] = 'end'

    @property
    def text(self) -> str:
        """All its text."""
        return ''.join(p.content for p in self.parts if isinstance(p, TextPart))

    @property
    def calls(self) -> list[ToolCallPart]:
        """Its tool calls, in order."""
        return [p for p in self.parts if isinstance(p, ToolCallPart)]


@dataclass(frozen=True, slots=True)
class Fails:
    """The server answers with an error. `retry_after` seconds are told in a header."""

    status: int
    message: str = 'no, for the reason r-17'
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Garbles:
    """The server answers with bytes that are not of its protocol: a page of some proxy."""

    data: bytes = b'<html><body>Bad gateway</body></html>'
    status: int = 200
    content_type: str = 'text/html'


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Nobody listens at the server's address."""


Scene: TypeAlias = Says | Fails | Garbles | Unreachable
"""What a server does with one request."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as the server saw it; header names are in lower case."""

    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    method: str = 'POST'

    @property
    def json(self) -> Any:
        """The body as JSON data; `None` when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def text(self) -> str:
        """Path and body as one text, to look for words in: JSON without escapes."""
        data = self.json
        body = self.body.decode('utf-8', 'replace') if data is None else json.dumps(data, ensure_ascii=False)
        return f'{self.path}\n{body}'

    @property
    def asked(self) -> tuple[str, str, Any]:
        """What makes two requests the same; headers are not part of it, since some carry the time."""
        return self.method, self.path, self.body if self.json is None else self.json


@dataclass(frozen=True, slots=True)
class Served:
    """A model and the server it speaks to.

    `requests` grows with each request, `None` where they cannot be seen. `busy` tells how many answers are under way.
    `secret` is the key the model was given.
    """

    model: Model
    requests: Sequence[Seen] | None = None
    busy: Callable[[], int] | None = None
    secret: str | None = None

    @property
    def seen(self) -> Sequence[Seen]:
        """The requests; the test is skipped where they cannot be seen."""
        if self.requests is None:
            raise SkipTest('the requests of this model cannot be seen')
        return self.requests


class ModelTest:
    """Runs its checks on the models that `serve` gives."""

    cannot: ClassVar[Mapping[str, str]] = {}
    """Tests that make no sense for this model -> why. They are reported as skipped."""

    def serve(self, scenes: Sequence[Scene]) -> AbstractContextManager[Served]:
        """A model whose server plays `scenes`, one a request, the last one again and again."""
        raise NotImplementedError('give serve() in the subclass, or use HTTPModelSuite')

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if unknown := [name for name in cls.cannot if not hasattr(cls, name)]:
            raise ConfigError(f'{cls.__name__}.cannot names no test with {unknown!r}; use the names of test methods')


def check(test: Callable[[S], None]) -> Callable[[S], None]:
    """A test method that is skipped where `cannot` has a reason."""

    @wraps(test)
    def checked(self: S) -> None:
        if reason := self.cannot.get(test.__name__):
            raise SkipTest(reason)
        test(self)

    return checked


HELLO: tuple[Message, ...] = (UserMessage('hello'),)

_CITY = {'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}
_ZONE = {'type': 'object', 'properties': {'zone': {'type': 'string'}}}

TOOLS = (
    ToolDefinition('weather', 'Look at the sky.', _CITY),
    ToolDefinition('clock', 'Tell the time.', _ZONE),
)


def text(content: str = 'hello', **fields: Any) -> Says:
    """The server says a text."""
    return Says((TextPart(content),), **fields)


def pieces(content: str, size: int = 7) -> list[str]:
    """A text as a server streams it, a few characters at a time."""
    return [content[at : at + size] for at in range(0, len(content), size)]


def calls(*args: Mapping[str, Any], before: str = '', **fields: Any) -> Says:
    """The server calls `weather` once for each of these arguments, after a text."""
    found = [ToolCallPart('weather', dict(a), f'callA000{n}') for n, a in enumerate(args or [{'city': 'Rome'}], 1)]
    said = Says((*([TextPart(before)] if before else []), *found), 'tool_calls')
    return replace(said, **fields)


class Watcher:
    """A reader of the events: keeps them, and raises `error` at the first one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._error = error

    async def __call__(self, kind: type[Any], **fields: Any) -> None:
        self.events.append((kind.__name__, fields))
        if self._error is not None:
            raise self._error


async def ask(
    model: Model,
    messages: Sequence[Message] = HELLO,
    info: RequestInfo | None = None,
    *,
    watcher: Watcher | None = None,
    **settings: Any,
) -> AssistantMessage:
    """Ask once, as the engine does: streamed to a watcher, or plainly."""
    out = ResponseBuilder(watcher, model_name=model.name, provider_name=model.provider)
    await model.respond(messages, info or RequestInfo(settings=ModelSettings(**settings)), out)
    await out.finish()
    return out.build()


async def failure(kind: type[E], asking: Coroutine[Any, Any, Any]) -> E:
    """The error of this kind that `asking` ends with; an assertion about anything else."""
    try:
        found = await asking
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f'expected {kind.__name__}, got {error!r}') from error
    raise AssertionError(f'expected {kind.__name__}, nothing was raised and the answer is {found!r}')


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run one test in an event loop of its own; half a minute at most."""

    async def bounded() -> T:
        return await asyncio.wait_for(main, 30)

    return asyncio.run(bounded())


async def until(true: Callable[[], object], seconds: float = 3.0) -> bool:
    """Wait until something is true; whether it is."""
    for _ in range(int(seconds / 0.005)):
        if true():
            return True
        await asyncio.sleep(0.005)
    return bool(true())


def args_of(message: AssistantMessage) -> list[tuple[str, Any]]:
    """Name and arguments of each tool call; no arguments at all are none given."""
    found = [p for p in message.parts if isinstance(p, ToolCallPart)]
    try:
        return [(p.tool_name, json.loads(p.args or '{}') if isinstance(p.args, str) else p.args) for p in found]
    except json.JSONDecodeError as error:
        raise AssertionError(f'arguments that are no JSON: {found}') from error


def ids_of(message: AssistantMessage) -> list[str]:
    """The id of each tool call."""
    return [p.tool_call_id for p in message.parts if isinstance(p, ToolCallPart)]
