"""Models that answer what a test tells them: from a list (`ScriptedModel`) or from a function (`FunctionModel`)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from agent_graph.errors import ConfigError, UnexpectedModelBehavior
from agent_graph.messages import AssistantMessage, Message
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.testing.answers import (
    AnswerFunction,
    ModelAnswer,
    as_message,
    check_chunk,
    check_request,
    give,
    give_result,
)

__all__ = ['FunctionModel', 'Request', 'ScriptItem', 'ScriptedModel']

ScriptItem: TypeAlias = ModelAnswer | BaseException | type[BaseException] | AnswerFunction
"""One entry of a script: an answer, an exception to raise, or a function `(messages, info)` that gives the answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a model was asked: the messages as they were then, and everything else about the request."""

    messages: tuple[Message, ...]
    info: RequestInfo


class ScriptedModel:
    """A model that gives the items of a script, one a request, in order.

        model = ScriptedModel([[ToolCallPart('add', {'a': 1, 'b': 2}, 'c1')], 'The sum is 3.'])

    An item is an `AssistantMessage` (given as it is), a list of parts or a text (finish reason `tool_calls` or `stop`,
    no usage), an exception (raised), or a function `(messages, info)` returning any of these, plain or async; an async
    generator's texts and parts are pushed as it yields them. Whoever watches sees pieces of `chunk` characters.

    `requests` records every request for asserts. The script is a state that all runs of one model share: several runs
    may use it at once and take the next item each. Asking more often than the script is long raises
    `UnexpectedModelBehavior`; an item of another type raises `ConfigError` when the model is made.
    """

    def __init__(
        self, script: Sequence[ScriptItem], *, chunk: int = 8, name: str = 'scripted', provider: str = 'test'
    ) -> None:
        if isinstance(script, str):
            raise ConfigError(f'script={script!r} would answer letter by letter; pass a list: [{script!r}]')
        self._script = [_prepare(item, index) for index, item in enumerate(script)]
        self._chunk = check_chunk(chunk)
        self._name = name
        self._provider = provider
        self._lock = threading.Lock()
        self.requests: list[Request] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return self._provider

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Give the next item of the script."""
        if info.settings:
            check_request(info)
        item = self._next(Request(tuple(messages), info))
        if isinstance(item, AssistantMessage):
            await give(item, out, self._chunk)
        elif isinstance(item, BaseException):
            raise item
        else:
            await give_result(item, messages, info, out, self._chunk)

    def _next(self, request: Request) -> AssistantMessage | BaseException | AnswerFunction:
        with self._lock:  # runs in several threads may share the script
            index = len(self.requests)
            self.requests.append(request)
        if index < len(self._script):
            return self._script[index]
        raise UnexpectedModelBehavior(
            f'model {self._name!r} was asked {index + 1} times, but its script has {len(self._script)} answers; '
            'add an answer for each request the run makes, or let the last one end the run'
        )


class FunctionModel:
    """A model that is a function of the request: `async fn(messages, info)` returns the answer.

    It may return an `AssistantMessage`, a list of parts or a text, be a plain function, or be an async generator whose
    texts, parts and messages are pushed as they come. Holds no state of its own, so any number of runs may share it.
    """

    def __init__(self, fn: AnswerFunction, *, chunk: int = 8, name: str = 'function', provider: str = 'test') -> None:
        self._fn = fn
        self._chunk = check_chunk(chunk)
        self._name = name
        self._provider = provider

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return self._provider

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Give what the function answers."""
        if info.settings:
            check_request(info)
        await give_result(self._fn, messages, info, out, self._chunk)


def _prepare(item: ScriptItem, index: int) -> AssistantMessage | BaseException | AnswerFunction:
    if isinstance(item, type):
        return item() if issubclass(item, BaseException) else as_message(cast(object, item), f'script[{index}]')
    if isinstance(item, BaseException) or callable(item):
        return item
    return as_message(item, f'script[{index}]')
