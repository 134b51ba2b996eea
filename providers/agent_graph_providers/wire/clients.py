"""One HTTP client (or SDK client) per model and event loop, closed with its loop.

A client's connections belong to the loop they were opened in; used from another one they fail. So each loop gets its own,
from any thread. What has to be closed is kept per loop, by an async generator that every loop closes when it ends in good
order (`asyncio.run` and `anyio.run` do); what belonged to loops closed without that is dropped when the next one comes.
A client whose model is gone is closed before the next request in its loop. No task is ever started for any of this.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

__all__ = ['Client', 'Clients']


class Client(Protocol):
    """What a client has in common with every other: it can be closed."""

    def close(self) -> Awaitable[None]: ...
    def is_closed(self) -> bool: ...


C = TypeVar('C', bound=Client)


class _InLoop:
    """What has to be closed with one event loop."""

    __slots__ = ('__weakref__', 'closing', 'left', 'loop', 'used')

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.used: set[Client] = set()
        self.left: list[Client] = []
        """Clients of models that are gone. A model may go in any thread; appending to a list is safe from each."""
        self.closing = self._close_at_end()

    async def close_left(self) -> None:
        while self.left:
            client = self.left.pop()
            self.used.discard(client)
            with suppress(Exception):  # it is no matter of the request that comes next
                await client.close()

    def drop(self) -> None:
        """The loop is closed and nothing can be closed in it any more: let go of everything, the generator's cycle too."""
        self.used.clear()
        self.left.clear()
        del self.closing

    async def _close_at_end(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self.left = list(self.used)
            await self.close_left()


_loops: dict[int, _InLoop] = {}
_lock = threading.Lock()


async def _in_running_loop() -> _InLoop:
    loop = asyncio.get_running_loop()
    here = _loops.get(id(loop))
    if here is not None and here.loop is loop:
        return here
    here = _InLoop(loop)
    with _lock:
        for key in [key for key, other in _loops.items() if other.loop.is_closed()]:
            _loops.pop(key).drop()
        _loops[id(loop)] = here
    await anext(here.closing)  # from here on the loop knows it
    return here


class Clients(Generic[C]):
    """The clients of one model, made by `make`, one per event loop. `close`: they are ours to close."""

    def __init__(self, make: Callable[[], C], *, close: bool) -> None:
        self._make = make
        self._close = close
        # Made with the first client: constructing a model, and an agent with it, stays a matter of a few calls.
        self._by_loop: MutableMapping[_InLoop, C] | None = None

    async def get(self) -> C:
        """The client for the running loop, made on first use."""
        here = await _in_running_loop()
        if here.left:
            await here.close_left()
        by_loop = self._by_loop
        if by_loop is None:
            with _lock:
                by_loop = self._by_loop = weakref.WeakKeyDictionary() if self._by_loop is None else self._by_loop
            weakref.finalize(self, _leave, by_loop).atexit = False
        client = by_loop.get(here)
        if client is None or client.is_closed():
            client = by_loop[here] = self._make()
            if self._close:
                here.used.add(client)
        return client

    def __len__(self) -> int:
        return len(self._by_loop or ())


def _leave(by_loop: MutableMapping[_InLoop, Any]) -> None:
    for here, client in list(by_loop.items()):
        if client in here.used:
            here.left.append(client)
