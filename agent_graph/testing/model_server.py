"""An HTTP server on this machine, in a thread of its own, that plays the scenes of a model suite."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from agent_graph.testing.model_kit import Fails, Garbles, Says, Scene, Seen, Unreachable

__all__ = ['ModelServer', 'Reply', 'playing']

_LONGEST_PIECE = 40


@dataclass(frozen=True, slots=True)
class Reply:
    """The bytes of a whole answer. `stream`: they are sent in many small pieces, cut anywhere, as they come."""

    data: bytes
    content_type: str = 'application/json'
    stream: bool = False
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def json(cls, data: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
        """A plain answer of JSON data."""
        return cls(json.dumps(data, ensure_ascii=False).encode(), status=status, headers=headers or {})

    @classmethod
    def lines(cls, items: Sequence[object], *, content_type: str = 'application/x-ndjson') -> Reply:
        """A stream of JSON data, one a line."""
        text = ''.join(json.dumps(item, ensure_ascii=False) + '\n' for item in items)
        return cls(text.encode(), content_type, stream=True)

    @classmethod
    def events(cls, items: Sequence[object], *, named: Sequence[str] | None = None, done: str = '') -> Reply:
        """A stream of server-sent events with JSON data; `named` gives each its name, `done` is the last one's text."""
        names = named or [''] * len(items)
        heads = [f'event: {name}\n' if name else '' for name in names]
        texts = [json.dumps(item, ensure_ascii=False) for item in items]
        body = ''.join(f'{head}data: {text}\n\n' for head, text in zip(heads, texts, strict=True))
        return cls((body + (f'data: {done}\n\n' if done else '')).encode(), 'text/event-stream', stream=True)


class ModelServer:
    """Plays `scenes` to one request each, the last one again and again.

    `answer` and `error` give the bytes for what is said and what fails. What they raise is in `failed`.
    """

    def __init__(
        self, scenes: Sequence[Scene], answer: Callable[[Says, Seen], Reply], error: Callable[[Fails], Reply]
    ) -> None:
        self._scenes = scenes
        self._answer = answer
        self._error = error
        self._random = Random(17)
        self._writers: set[asyncio.StreamWriter] = set()
        self.requests: list[Seen] = []
        self.busy = 0
        """Answers that are under way: neither sent whole nor left by whom they are for."""
        self.failed: list[Exception] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self._writers.add(writer)
        try:
            while (seen := await _read(reader)) is not None:
                self.busy += 1
                try:
                    if not await self._play(seen, reader, writer):
                        break
                finally:
                    self.busy -= 1
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has left
        except Exception as error:  # a mistake in what makes the answers: the test has to see it
            self.failed.append(error)
        finally:
            self._writers.discard(writer)
            writer.close()

    def close(self) -> None:
        """Close what is open."""
        for writer in list(self._writers):
            writer.close()

    async def _play(self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection may be used again."""
        scene = self._scenes[min(len(self.requests), len(self._scenes) - 1)]
        self.requests.append(seen)
        reply = self._reply(scene, seen)
        upto, then = (scene.upto, scene.then) if isinstance(scene, Says) else (1.0, 'end')
        if upto > 0:
            await self._send(reply, int(len(reply.data) * upto), then, writer)
        if then == 'hang':
            await reader.read()  # until the client has had enough
        return then == 'end'

    def _reply(self, scene: Scene, seen: Seen) -> Reply:
        match scene:
            case Says():
                return self._answer(scene, seen)
            case Fails():
                reply = self._error(scene)
                headers = {} if scene.retry_after is None else {'retry-after': str(scene.retry_after)}
                return Reply(reply.data, reply.content_type, status=scene.status, headers={**reply.headers, **headers})
            case Garbles():
                return Reply(scene.data, scene.content_type, status=scene.status)
            case Unreachable():
                raise ValueError('an unreachable server plays nothing else; give Unreachable() alone')

    async def _send(self, reply: Reply, size: int, then: str, writer: asyncio.StreamWriter) -> None:
        """The head and the first `size` bytes. Only an answer that ends is told to be whole."""
        length = str(size if then == 'end' else len(reply.data))
        framing = {'transfer-encoding': 'chunked'} if reply.stream else {'content-length': length}
        headers = {'content-type': reply.content_type, **reply.headers, **framing}
        head = [f'HTTP/1.1 {reply.status} Status', *(f'{name}: {value}' for name, value in headers.items()), '', '']
        writer.write('\r\n'.join(head).encode())
        at = 0
        while at < size:
            piece = reply.data[at : min(size, at + self._random.randint(1, _LONGEST_PIECE))] if reply.stream else None
            piece = reply.data[:size] if piece is None else piece
            writer.write(b'%x\r\n%s\r\n' % (len(piece), piece) if reply.stream else piece)
            at += len(piece)
        if reply.stream and then == 'end':
            writer.write(b'0\r\n\r\n')
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b'\r\n\r\n')
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode('latin-1').split('\r\n')
    method, path, _ = first.split(' ', 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(':') for line in lines if line)}
    if 'chunked' in headers.get('transfer-encoding', ''):
        return Seen(path, await _chunks(reader), headers, method)
    return Seen(path, await reader.readexactly(int(headers.get('content-length', '0'))), headers, method)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b''
    while size := int((await reader.readline()).split(b';')[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


@contextmanager
def playing(server: ModelServer, *, reachable: bool = True) -> Generator[str]:
    """Run the server in a thread; gives its address, one where nobody listens unless `reachable`."""
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:  # asyncio sends small pieces at once only if told so
        listening.bind(('127.0.0.1', 0))
        url = f'http://127.0.0.1:{listening.getsockname()[1]}'
        if not reachable:
            yield url
            return
        loop, stop, started = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
        thread = threading.Thread(
            target=loop.run_until_complete, args=(_serve(server, listening, started, stop),), daemon=True
        )
        thread.start()
        started.wait(10)
        try:
            yield url
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)
            loop.close()
            if server.failed:  # all that the model saw of it is a connection that was closed
                raise server.failed[0]


async def _serve(server: ModelServer, listening: socket.socket, started: threading.Event, stop: asyncio.Event) -> None:
    serving = await asyncio.start_server(server.take, sock=listening, backlog=256)
    started.set()
    await stop.wait()
    serving.close()
    server.close()
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=5)  # each sees that its connection is closed
