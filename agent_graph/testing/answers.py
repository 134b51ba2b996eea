"""What a test model may be told to answer, and how an answer is pushed piece by piece."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias, cast

from agent_graph.errors import ConfigError
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    FilePart,
    FinishReason,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.settings import SETTINGS, check_names

__all__ = ['AnswerFunction', 'ModelAnswer', 'as_message', 'check_chunk', 'check_request', 'give', 'give_result']

ModelAnswer: TypeAlias = AssistantMessage | str | Sequence[AssistantPart]
"""A whole response; a text and a list of parts are one without usage that ends with `stop` or `tool_calls`."""

AnswerFunction: TypeAlias = Callable[
    [Sequence[Message], RequestInfo],
    Awaitable[ModelAnswer] | ModelAnswer | AsyncIterator[str | AssistantPart | AssistantMessage],
]
"""`fn(messages, info)`: plain, async, or an async generator whose texts, parts and messages are pushed as they come."""

_PARTS = (TextPart, ThinkingPart, ToolCallPart, FilePart, BuiltinToolCallPart, BuiltinToolReturnPart)


def as_message(value: object, where: str) -> AssistantMessage:
    """The response `value` stands for; `where` names it in the `ConfigError` raised for anything else."""
    if isinstance(value, AssistantMessage):
        return value
    if isinstance(value, str):
        return AssistantMessage([TextPart(value)], finish_reason='stop')
    if isinstance(value, Sequence) and all(isinstance(part, _PARTS) for part in cast('Sequence[object]', value)):
        parts = cast('Sequence[AssistantPart]', value)
        return AssistantMessage(parts, finish_reason=_finish_reason(parts))
    raise ConfigError(
        f'{where} is {value!r}, which is no answer of a model; '
        'give a text, a list of parts (TextPart, ThinkingPart, ToolCallPart, FilePart) or an AssistantMessage'
    )


def check_chunk(chunk: int) -> int:
    """`chunk` itself when it can be the size of a piece, else a `ConfigError`."""
    if chunk < 1:
        raise ConfigError(
            f'chunk={chunk!r} is no size of a piece; pass the number of characters to stream at a time, 1 or more'
        )
    return chunk


def check_request(info: RequestInfo) -> None:
    """Raises `ConfigError` for a setting no model knows, as providers do: what is misspelt must not pass a test."""
    check_names(info.settings, 'a test model', SETTINGS)


async def give(message: AssistantMessage, out: ResponseBuilder, chunk: int) -> None:
    """Push `message`: at once when nobody watches, else in pieces of `chunk` characters with the loop let go between.

    The response is the same either way.
    """
    if not out.watched:
        await out.message(message)
        return
    for part in message.parts:
        await _stream(part, out, chunk)
    await out.message(replace(message, parts=()))


async def give_result(
    fn: AnswerFunction, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder, chunk: int
) -> None:
    """Call `fn` and push what it answers; an exception it returns is raised."""
    result: Any = fn(messages, info)
    if isinstance(result, AsyncIterator):
        await _drain(cast('AsyncIterator[str | AssistantPart | AssistantMessage]', result), out)
        return
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, BaseException):
        raise result
    await give(as_message(result, f'what {_name_of(fn)} returned'), out, chunk)


async def _drain(items: AsyncIterator[Any], out: ResponseBuilder) -> None:
    """Push each item as it comes; the generator is closed here also when the run is cancelled in between."""
    called = False
    async with aclosing(cast('Any', items)):
        async for item in items:
            if isinstance(item, str):
                await out.text(item)
            elif isinstance(item, AssistantMessage):
                await out.message(item)
            elif isinstance(item, _PARTS):
                called = called or isinstance(item, ToolCallPart)
                await out.part(item)
            else:
                raise ConfigError(f'an answer function yielded {item!r}; yield texts, parts or an AssistantMessage')
    if out.finish_reason is None:
        out.finish_reason = 'tool_calls' if called else 'stop'


async def _stream(part: AssistantPart, out: ResponseBuilder, chunk: int) -> None:
    key = object()  # its own key for every part: neighbours of one kind must not run together
    if isinstance(part, ToolCallPart):
        await _stream_call(part, key, out, chunk)
    elif not isinstance(part, TextPart | ThinkingPart) or not part.content:
        await out.part(part)
    elif isinstance(part, TextPart):
        for piece in _pieces(part.content, chunk):
            await out.text(piece, key=key, details=part.provider_details)
            await asyncio.sleep(0)
        for citation in part.citations:
            out.cite(citation, key=key)
    else:
        for piece in _pieces(part.content, chunk):
            await out.thinking(piece, key=key, details=part.provider_details)
            await asyncio.sleep(0)
        if part.signature is not None:
            await out.thinking('', key=key, signature=part.signature)


async def _stream_call(part: ToolCallPart, key: object, out: ResponseBuilder, chunk: int) -> None:
    args = part.args if isinstance(part.args, str) else json.dumps(part.args, ensure_ascii=False)
    await out.tool_call(key, name=part.tool_name, tool_call_id=part.tool_call_id, details=part.provider_details)
    for piece in _pieces(args, chunk):
        await asyncio.sleep(0)
        await out.tool_call(key, args=piece)
    if not isinstance(part.args, str):
        await out.tool_call(key, args=part.args)  # the object itself, so that the part is the one that was given


def _pieces(text: str, chunk: int) -> list[str]:
    return [text[i : i + chunk] for i in range(0, len(text), chunk)]


def _finish_reason(parts: Sequence[AssistantPart]) -> FinishReason:
    return 'tool_calls' if any(isinstance(part, ToolCallPart) for part in parts) else 'stop'


def _name_of(fn: object) -> str:
    return getattr(fn, '__qualname__', None) or repr(fn)
