"""The bytes of a response -> `Answer`, and the rule that tells a whole answer from one that was cut off.

A stream is whole when it said `[DONE]`, or when it ended as HTTP says it should after a finish reason. Both occur without
the other on real servers; a stream with neither was cut, and so was one that stopped within an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from time import monotonic
from typing import Protocol

from agent_graph_providers.openai.answer import Answer
from agent_graph_providers.openai.errors import Asked
from agent_graph_providers.openai.jsontext import decode, decode_piece
from agent_graph_providers.openai.sse import SSE, Event

__all__ = ['Response', 'read_answer']

_DRAIN = 0.05
"""Seconds to wait for the end of a body after its end mark, so that the connection can be used again."""


class Response(Protocol):
    """What both HTTP clients' responses have, as far as it is used."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    def aiter_bytes(self) -> AsyncGenerator[bytes]: ...
    async def aread(self) -> bytes: ...
    async def aclose(self) -> None: ...


async def read_answer(response: Response, answer: Answer, asked: Asked, timeout: float | None) -> None:
    """Read the body into `answer`. The server says what it is: some answer plainly although a stream was asked for."""
    if 'event-stream' in response.headers.get('content-type', ''):
        pieces = response.aiter_bytes()
        try:
            await _stream(pieces, answer, asked, timeout)
        finally:
            await pieces.aclose()  # else the loop would start a task to do it
        return
    async with asyncio.timeout(timeout):
        body = await response.aread()
    if body.lstrip()[:5] in (b'data:', b'event'):  # a stream under another name
        reader = SSE()
        if not await _take([*reader.feed(body), *reader.end()], answer, asked, last=True):
            await _close(answer, asked)
        return
    try:
        data = decode(body)
    except ValueError as error:
        raise asked.unreadable(str(error) if body else 'it is empty', body) from error
    await answer.whole(data)


async def _stream(pieces: AsyncGenerator[bytes], answer: Answer, asked: Asked, timeout: float | None) -> None:
    reader = SSE()
    last = monotonic()
    async for piece in pieces:
        if events := reader.feed(piece):
            if await _take(events, answer, asked):
                await _drain(pieces)
                return
            last = monotonic()
        elif timeout is not None and monotonic() - last > timeout:
            raise TimeoutError(f'no event for {timeout:g} s')  # comments keep a connection alive, not an answer
    if not await _take(reader.end(), answer, asked, last=True):
        await _close(answer, asked)


async def _take(events: Sequence[Event], answer: Answer, asked: Asked, *, last: bool = False) -> bool:
    """Take in events; true once the stream has said that it is done."""
    for data, name in events:
        if data == b'[DONE]':
            await answer.end()
            return True
        if not data or data.isspace():
            continue
        try:
            value, edges = decode_piece(data)
        except ValueError as error:
            if name == b'error':
                raise asked.refused(data.decode('utf-8', 'replace')) from error
            if last:
                raise asked.cut('it stopped within an event') from error
            raise asked.unreadable(str(error), data) from error
        await answer.chunk(value, edges)
    return False


async def _drain(pieces: AsyncGenerator[bytes]) -> None:
    try:
        async with asyncio.timeout(_DRAIN):
            async for _ in pieces:
                pass
    except Exception:
        pass


async def _close(answer: Answer, asked: Asked) -> None:
    """The bytes ended without the end mark."""
    if answer.notes.finished is None:
        raise asked.cut('the stream ended without a finish reason')
    await answer.end()
