"""What the tests of the fetcher share: which connections are made, what is left open, hosts with prepared addresses."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

__all__ = ['Names', 'cancel_everywhere', 'connections', 'open_files', 'port_of', 'settled', 'until']

_watched: list[list[tuple[str, int]]] = []
_installed = False


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event == 'socket.connect' and _watched and isinstance(args[1], tuple):
        host, port = cast('tuple[str, int]', args[1][:2])
        _watched[-1].append((host, port))
        if not host.startswith('127.') and host != '::1':
            raise ConnectionRefusedError(111, 'this test connects to nobody out there')


@contextmanager
def connections() -> Generator[list[tuple[str, int]]]:
    """Every (host, port) that a socket of this process connects to; only those of this machine come through."""
    global _installed
    if not _installed:
        sys.addaudithook(_audit)  # it cannot be taken back, so it is there once and does nothing outside of this
        _installed = True
    _watched.append([])
    try:
        yield _watched[-1]
    finally:
        _watched.pop()


class Names:
    """A resolver: each name has lists of addresses, given one after the other; the last one is repeated."""

    def __init__(self, **hosts: Sequence[Sequence[str]]) -> None:
        self._hosts = {name.replace('_', '.'): list(answers) for name, answers in hosts.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(0)
        answers = self._hosts[host]
        self.asked.append(host)
        return answers[min(self.asked.count(host), len(answers)) - 1]


def port_of(url: str) -> int:
    return int(url.rpartition(':')[2].partition('/')[0])


async def settled() -> None:
    """Some turns of the loop, in which closed sockets go."""
    for _ in range(5):
        await asyncio.sleep(0.001)


def open_files() -> int:
    """How many files and sockets this process has open."""
    return len(list(Path('/dev/fd').iterdir()))


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so; fails if it never is."""
    for _ in range(200):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError('it does not come to that')


async def cancel_everywhere(fetch: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """Fetch many times, each time cancelled some turns of the loop later; how often it had come to its end before."""
    ended = 0
    for turns in range(60):
        task = asyncio.create_task(fetch())
        for _ in range(turns):
            await asyncio.sleep(0 if turns % 2 else 0.0001)
        task.cancel()
        try:
            await task
            ended += 1
        except asyncio.CancelledError:
            assert task.cancelled()
    await settled()
    return ended
