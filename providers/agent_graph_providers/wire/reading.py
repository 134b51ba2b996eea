"""The bytes of a response -> `Answer`, and the rule that tells a whole answer from one that was cut off.

A stream is whole when its protocol's end mark has come, or when it ended as HTTP says it should after a finish reason. Both
occur without the other on real servers; a stream with neither was cut, and so was one that stopped within an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import Framing, Framings, framing_of
from agent_graph_providers.wire.jsontext import decode, decode_piece
from agent_graph_providers.wire.sse import SSE, Event
from agent_graph_providers.wire.timing import Watch

__all__ = ['Answer', 'Body', 'Response', 'read_answer']

_DRAIN = 0.05
"""Seconds to wait for the end of a body after its end mark, so that the connection can be used again."""


class Body(Protocol):
    """An answer's bytes and what it says they are."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    def aiter_bytes(self) -> AsyncGenerator[bytes]: ...
    async def aread(self) -> bytes: ...


class Response(Body, Protocol):
    """What the responses of all HTTP clients have, as far as it is used."""

    @property
    def status_code(self) -> int: ...
    async def aclose(self) -> None: ...


class Answer(Protocol):
    """One protocol's reading of one answer, pushed into a `ResponseBuilder` as it comes."""

    @property
    def complete(self) -> bool:
        """It has said why it ended, so the end of its bytes is no accident."""
        ...

    @property
    def done(self) -> bool:
        """It has said that nothing more comes."""
        ...

    async def whole(self, data: Any) -> None:
        """Take in a plain answer, and end."""
        ...

    async def chunk(self, data: Any, edges: bool = False) -> None:
        """Take in one event of a stream; `edges`: its texts may begin or end with half a surrogate pair."""
        ...

    async def end(self) -> None:
        """Everything has come: pass on what was held back and set what is known only now."""
        ...

    def settle(self) -> None:
        """Set the usage told so far, be the answer whole or cut short. Called last, in every case."""
        ...


async def read_answer(
    response: Body, answer: Answer, asked: Asked, watch: Watch | None = None, framings: Framings | None = None
) -> None:
    """Read the body into `answer`. The server says what it is: some answer plainly although a stream was asked for."""
    framing = framing_of(response.headers.get('content-type', ''), framings)
    if framing is not None:
        pieces = response.aiter_bytes()
        try:
            await _Stream(answer, asked, watch).read(framing, pieces)
        finally:
            await pieces.aclose()  # else the loop would start a task to do it
        return
    body = await response.aread()
    if body.lstrip()[:5] in (b'data:', b'event'):  # a stream under another name
        reader = SSE()
        stream = _Stream(answer, asked, watch)
        if not await stream.take([*reader.feed(body), *reader.end()], last=True):
            await stream.close()
        return
    try:
        data = decode(body)
    except ValueError as error:
        raise asked.unreadable(str(error) if body else 'it is empty', body) from error
    await answer.whole(data)


class _Stream:
    __slots__ = ('_answer', '_asked', '_watch')

    def __init__(self, answer: Answer, asked: Asked, watch: Watch | None) -> None:
        self._answer = answer
        self._asked = asked
        self._watch = watch

    async def read(self, framing: Framing, pieces: AsyncGenerator[bytes]) -> None:
        async for piece in pieces:
            try:
                events = framing.feed(piece)
            except ValueError as error:  # what frames the events is damaged
                raise self._asked.unreadable(str(error), piece) from error
            if events:
                if self._watch is not None:
                    self._watch.alive()  # comments keep a connection alive, not an answer
                if await self.take(events):
                    await _drain(pieces)
                    return
        if not await self.take(framing.end(), last=True):
            await self.close()

    async def take(self, events: Sequence[Event], *, last: bool = False) -> bool:
        """Take in events; true once the stream has said that it is done."""
        answer = self._answer
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
                    raise self._asked.refused(data.decode('utf-8', 'replace')) from error
                if last:
                    raise self._asked.cut('it stopped within an event') from error
                raise self._asked.unreadable(str(error), data) from error
            await answer.chunk(value, edges)
            if answer.done:
                await answer.end()
                return True
        return False

    async def close(self) -> None:
        """The bytes ended without the end mark."""
        if not self._answer.complete:
            raise self._asked.cut('the stream ended without a finish reason')
        await self._answer.end()


async def _drain(pieces: AsyncGenerator[bytes]) -> None:
    try:
        async with asyncio.timeout(_DRAIN):
            async for _ in pieces:
                pass
    except Exception:
        pass
