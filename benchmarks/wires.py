"""What a provider's mapping costs beyond its transport, beside the vendor SDK's own accumulator, and in memory.

`python -m benchmarks.wires` starts a server in a process of its own and prints JSON: for each protocol the exact calls of a
request and of each streamed piece, for the bare transport, for ours and for the SDK; and the memory a 50 MB stream adds.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import httpx

from agent_graph.messages import UserMessage
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from benchmarks.measure import count_calls
from benchmarks.wire_bodies import PATHS, stream

__all__ = ['LIMITS', 'main', 'serve']

LIMITS = {'a piece': 350, 'a request': 2_500}
"""Calls above the bare transport that the mapping may take."""

FEW, MANY = 100, 600
BIG_PIECES, FILLER = 100_000, 400
"""About 50 MB on the wire for half a megabyte of text."""

Ask = Callable[[], Awaitable[None]]


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request: its `model` is `pieces-filler`, its path tells the protocol."""
    try:
        while True:
            head = await reader.readuntil(b'\r\n\r\n')
            length = next(
                int(v) for k, _, v in (h.partition(b':') for h in head.lower().split(b'\r\n')) if k == b'content-length'
            )
            pieces, filler = json.loads(await reader.readexactly(length))['model'].split('-')
            wire = next(w for w, path in PATHS.items() if path.encode() in head.partition(b'\r\n')[0])
            body = memoryview(stream(wire, int(pieces), int(filler)))
            for start in range(0, len(body), 65_536):
                writer.write(body[start : start + 65_536])
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _server() -> None:
    server = await asyncio.start_server(serve, '127.0.0.1', 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


async def _drop(*_: Any, **__: Any) -> None:
    """Somebody watches and keeps nothing."""


def _model(wire: str, url: str, size: str) -> Model:
    if wire == 'anthropic':
        from agent_graph_providers.anthropic import AnthropicModel

        return AnthropicModel(size, base_url=url, api_key='none')
    if wire == 'responses':
        from agent_graph_providers.responses import ResponsesModel

        return ResponsesModel(size, base_url=url, api_key='none')
    from agent_graph_providers.openai import OpenAIModel

    return OpenAIModel(size, base_url=url, api_key='none')


def ours(wire: str, url: str, size: str) -> Ask:
    """One request through our mapping."""
    model = _model(wire, url, size)

    async def ask() -> None:
        out = ResponseBuilder(_drop)
        await model.respond([UserMessage('go')], RequestInfo(settings={'max_tokens': 100}), out)
        await out.finish()
        assert out.build().parts

    return ask


@asynccontextmanager
async def bare(wire: str, url: str, size: str) -> AsyncGenerator[Ask]:
    """The same bytes through the HTTP client alone: httpx2 where the SDK sits on it, httpx elsewhere."""
    import httpx2

    client: Any = httpx.AsyncClient() if wire == 'anthropic' else httpx2.AsyncClient()
    body = json.dumps({'model': size, 'stream': True, 'messages': []}).encode()

    async def ask() -> None:
        async with client.stream('POST', url + PATHS[wire], content=body) as response:
            async for _ in response.aiter_bytes():
                pass

    async with client:
        yield ask


def _vendor(wire: str, url: str, size: str) -> tuple[Any, Callable[[], Any], str]:
    """The vendor's client (`None` where it is not installed), what opens a stream, and what gives the whole answer."""
    library: Any
    say: Any = [{'role': 'user', 'content': 'go'}]
    try:
        library = import_module('anthropic' if wire == 'anthropic' else 'openai')
    except ImportError:
        return None, lambda: None, ''
    if wire == 'anthropic':
        client = library.AsyncAnthropic(base_url=url, api_key='none')
        return client, lambda: client.messages.stream(model=size, max_tokens=100, messages=say), 'get_final_message'
    client = library.AsyncOpenAI(base_url=url, api_key='none')
    if wire == 'chat':
        return client, lambda: client.chat.completions.stream(model=size, messages=say), 'get_final_completion'
    return client, lambda: client.responses.stream(model=size, input=say), 'get_final_response'


@asynccontextmanager
async def sdk(wire: str, url: str, size: str) -> AsyncGenerator[Ask | None]:
    """The same answer through the vendor's library and its accumulator, where it is installed."""
    client, make, last = _vendor(wire, url, size)
    if client is None:
        yield None
        return

    async def ask() -> None:
        async with make() as events:
            async for _ in events:
                pass
            await getattr(events, last)()

    async with client:
        yield ask


async def calls(wire: str, url: str) -> dict[str, dict[str, float]]:
    """{'a piece' | 'a request': {who: exact calls}}; a request is what a stream costs besides its pieces."""
    counted: dict[str, list[int]] = {}
    for size in (FEW, MANY):
        name = f'{size}-0'
        async with bare(wire, url, name) as by_hand, sdk(wire, url, name) as vendor:
            for who, ask in (('transport', by_hand), ('ours', ours(wire, url, name)), ('SDK', vendor)):
                if ask is not None:
                    counted.setdefault(who, []).append(await count_calls(ask))
    out: dict[str, dict[str, float]] = {'a piece': {}, 'a request': {}}
    for who, (few, many) in counted.items():
        each = (many - few) / (MANY - FEW)
        out['a piece'][who], out['a request'][who] = each, few - each * FEW
    return out


async def memory(wire: str, url: str) -> float:
    """Megabytes at the peak of a 50 MB stream of which nobody keeps anything, beyond those of a short one."""
    await ours(wire, url, '10-0')()
    ask = ours(wire, url, f'{BIG_PIECES}-{FILLER}')
    tracemalloc.start()
    try:
        await ask()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


async def measure(url: str) -> dict[str, Any]:
    return {wire: {**await calls(wire, url), 'MB': await memory(wire, url)} for wire in PATHS}


def main() -> None:
    """Measure against a server process and print JSON."""
    with subprocess.Popen(
        [sys.executable, '-m', 'benchmarks.wires', 'serve'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None and server.stdin is not None
        try:
            print(json.dumps(asyncio.run(measure(f'http://127.0.0.1:{int(server.stdout.readline())}'))))
        finally:
            server.stdin.close()


if __name__ == '__main__':
    asyncio.run(_server()) if 'serve' in sys.argv else main()
