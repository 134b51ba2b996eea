"""Exact calls of a protocol's way from bytes to events, engine and HTTP client included."""

from __future__ import annotations

import asyncio
import cProfile
import pstats
from collections.abc import Callable, Sequence
from typing import Any

from agent_graph import Agent
from agent_graph.model import Model
from tests.providers.loopback import Reply, in_thread

__all__ = ['calls_per_chunk', 'chunked', 'counts', 'total']


def counts(profile: cProfile.Profile) -> list[tuple[str, int]]:
    """(function, number of calls) of everything that was called."""
    stats: Any = pstats.Stats(profile)
    entries: dict[tuple[str, int, str], tuple[int, ...]] = stats.stats
    return [(name, entry[1]) for (_, _, name), entry in entries.items()]


def total(profile: cProfile.Profile) -> int:
    """All Python and C calls."""
    return sum(calls for _, calls in counts(profile))


def chunked(events: Sequence[bytes], kind: str = 'text/event-stream') -> Reply:
    """A whole HTTP response, each event in a chunk of its own, sent at once."""
    head = f'HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n'.encode()
    head += b'connection: close\r\n\r\n'  # as the server does: a client must not try it again
    return Reply([head + b''.join(b'%x\r\n%s\r\n' % (len(e), e) for e in events) + b'0\r\n\r\n'], framing='raw')


def calls_per_chunk(
    make_model: Callable[[str], Model], events: Callable[[int], Sequence[bytes]], kind: str = 'text/event-stream'
) -> float:
    """Python and C calls for each of a stream's pieces; `events(n)` is a stream of n pieces of text, of type `kind`."""

    def cost(count: int) -> int:
        async def main(url: str) -> int:
            agent = Agent(make_model(url))

            async def once() -> int:
                async with agent.run_stream('go') as stream:
                    return len([t async for t in stream.text(delta=True)])

            await once()
            profile = cProfile.Profile()
            profile.enable()
            seen = await once()
            profile.disable()
            assert seen == count
            return total(profile)

        with in_thread([chunked(events(count), kind)]) as server:
            return asyncio.run(main(server.url))

    return (cost(600) - cost(100)) / 500
