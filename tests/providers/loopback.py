"""A loopback HTTP server that answers with prepared bytes, cut into prepared pieces.

    async with Loopback([json_reply({...}), sse_reply([...])]) as server:
        model = OpenAIModel('m', base_url=server.url, api_key='k')
        ...
    assert server.requests[0].json['stream'] is False

Replies are given in order; the last one is repeated. A reply may also be a function of the request. `in_thread` runs the
server in a thread of its own, for clients in several event loops.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self, TypeAlias

__all__ = ['Loopback', 'Reply', 'Request', 'cut', 'event', 'in_thread', 'json_reply', 'sse_body', 'sse_reply']


@dataclass(frozen=True)
class Request:
    """What the client sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """Bytes to answer with. `pieces` are sent one after the other, each with `delay` seconds before it.

    `framing`: how the length is told. With `'close'` the connection is closed after the last piece, so a body that was cut
    looks whole to HTTP; `broken` closes it without the end that the framing promises; with `'raw'` the pieces are the whole
    response, status line and all. `hang` sends no end and waits for the client to give up.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay: float = 0.0
    framing: str = 'chunked'
    broken: bool = False
    hang: bool = False


Replies: TypeAlias = Iterable[Reply | Callable[[Request], Reply]]


def json_reply(body: Any, *, status: int = 200, **headers: str) -> Reply:
    """A plain JSON answer; `body` may be bytes or a text that is sent as it is."""
    raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    named = {name.replace('_', '-'): value for name, value in headers.items()}
    return Reply([raw], status, {'content-type': 'application/json', **named}, framing='length')


def event(data: Any, name: str = '') -> bytes:
    """One server-sent event: JSON data, or a text as it is."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f'event: {name}\n' if name else '').encode() + b'data: ' + text.encode() + b'\n\n'


def sse_body(events: Iterable[Any], *, done: bool = True) -> bytes:
    """Events one after the other, `[DONE]` at the end."""
    return b''.join(map(event, events)) + (event('[DONE]') if done else b'')


def sse_reply(
    events: Iterable[Any] | bytes, *, done: bool = True, split: int = 0, seed: int = 1, **kwargs: Any
) -> Reply:
    """A stream; with `split`, cut into pieces of 1..split bytes."""
    body = events if isinstance(events, bytes) else sse_body(events, done=done)
    return Reply(cut(body, split, seed), 200, {'content-type': 'text/event-stream'}, **kwargs)


def cut(body: bytes, split: int, seed: int = 1) -> list[bytes]:
    """`body` in pieces of 1..split bytes; in one piece for 0."""
    if not split:
        return [body]
    rng = Random(seed)
    pieces: list[bytes] = []
    at = 0
    while at < len(body):
        size = rng.randint(1, split)
        pieces.append(body[at : at + size])
        at += size
    return pieces


class Loopback:
    """The server; runs in the current event loop. `open` counts connections that are open now, `connections` all of them."""

    def __init__(self, replies: Replies) -> None:
        self._replies = list(replies)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.requests: list[Request] = []
        self.connections = 0
        self.hung_up = asyncio.Event()
        """Set when a client closed its side while an answer was being sent."""

    @property
    def open(self) -> int:
        return len(self._writers)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f'http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1'

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, '127.0.0.1', 0, backlog=2048)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while (request := await _read_request(reader)) is not None:
                index = min(len(self.requests), len(self._replies) - 1)
                self.requests.append(request)
                reply = self._replies[index]
                if not await self._send(writer, reply if isinstance(reply, Reply) else reply(request), reader):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, reply: Reply, reader: asyncio.StreamReader) -> bool:
        """Answer; false if the connection is not to be used again."""
        size = sum(map(len, reply.pieces))
        head = [f'HTTP/1.1 {reply.status} Status', *(f'{k}: {v}' for k, v in reply.headers.items())]
        head += {
            'length': [f'content-length: {size + (10 if reply.broken else 0)}'],
            'chunked': ['transfer-encoding: chunked'],
            'close': ['connection: close'],
            'raw': [],
        }[reply.framing]
        if reply.framing != 'raw':
            writer.write('\r\n'.join([*head, '', '']).encode())
        await writer.drain()
        for piece in reply.pieces:
            if reply.delay:
                await asyncio.sleep(reply.delay)
            writer.write(b'%x\r\n%s\r\n' % (len(piece), piece) if reply.framing == 'chunked' else piece)
            await writer.drain()
            if reply.delay and reader.at_eof():
                self.hung_up.set()
                return False
        if reply.hang:
            await reader.read()
            self.hung_up.set()
            return False
        if reply.framing == 'chunked' and not reply.broken:
            writer.write(b'0\r\n\r\n')
            await writer.drain()
        return reply.framing not in ('close', 'raw') and not reply.broken


@contextmanager
def in_thread(replies: Replies) -> Generator[Loopback]:
    """A server in a thread with an event loop of its own."""
    server, started, stop = Loopback(replies), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with server:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(5)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        loop.close()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b'\r\n\r\n')
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode('latin-1').split('\r\n')
    method, path, _ = first.split(' ', 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(':') for line in lines if line)}
    body = await reader.readexactly(int(headers.get('content-length', '0')))
    return Request(method, path, headers, body)
