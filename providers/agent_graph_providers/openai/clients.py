"""One SDK client per model and event loop, closed with its loop.

A client's connections belong to the loop they were opened in; used from another one they fail. So each loop gets its own,
from any thread. What has to be closed is kept per loop, by an async generator that every loop closes when it ends in good
order (`asyncio.run` and `anyio.run` do); what belonged to loops closed without that is dropped when the next one comes.
A client whose model is gone is closed before the next request in its loop. No task is ever started for any of this.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from agent_graph_providers.openai.servers import Server

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx2

    import openai

__all__ = ['Clients', 'make_client']


class _InLoop:
    """What has to be closed with one event loop."""

    __slots__ = ('__weakref__', 'closing', 'left', 'loop', 'used')

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.used: set[openai.AsyncOpenAI] = set()
        self.left: list[openai.AsyncOpenAI] = []
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


class Clients:
    """The clients of one model, made by `make`, one per event loop. `close`: they are ours to close."""

    def __init__(self, make: Callable[[], openai.AsyncOpenAI], *, close: bool) -> None:
        self._make = make
        self._close = close
        # Made with the first client: constructing a model, and an agent with it, stays a matter of a few calls.
        self._by_loop: MutableMapping[_InLoop, openai.AsyncOpenAI] | None = None

    async def get(self) -> openai.AsyncOpenAI:
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


def _leave(by_loop: MutableMapping[_InLoop, openai.AsyncOpenAI]) -> None:
    for here, client in list(by_loop.items()):
        if client in here.used:
            here.left.append(client)


def make_client(server: Server, base_url: str, key: str, model: str, http_client: Any) -> openai.AsyncOpenAI:
    """The SDK's client for a server. Retries are left to whoever asks."""
    import openai  # slow to load, so not before the first request

    own = http_client if http_client is not None else _new_http_client()
    if server.azure and not base_url.partition('://')[2].partition('/')[2].strip('/'):
        return openai.AsyncAzureOpenAI(
            azure_endpoint=base_url,
            azure_deployment=model,
            api_version=os.environ.get('OPENAI_API_VERSION', '2024-10-21'),
            api_key=key,
            max_retries=0,
            http_client=own,
        )
    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=key,
        max_retries=0,
        default_headers=None if server.name == 'openai' else _without_openai_headers(),
        http_client=own,
    )


def _new_http_client() -> httpx2.AsyncClient:
    import httpx2

    import openai

    most = _most_connections()
    return openai.DefaultAsyncHttpxClient(
        verify=_tls(),
        # The SDK's 5 seconds to connect are too few when a thousand requests start in one event loop.
        timeout=httpx2.Timeout(600.0, connect=30.0),
        limits=httpx2.Limits(max_connections=most, max_keepalive_connections=min(most, 100)),
    )


def _most_connections() -> int:
    """The SDK's thousand, or a quarter of the files this process may open; requests beyond wait for a free one."""
    try:
        import resource
    except ImportError:  # not on this system
        return 1000
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1000 if soft == resource.RLIM_INFINITY else max(10, min(1000, soft // 4))


@lru_cache(maxsize=1)
def _tls() -> SSLContext:
    """Reading the certificate store takes longer than all the rest of making a client; every client may share it."""
    import httpx2

    return httpx2.create_ssl_context()


def _without_openai_headers() -> Mapping[str, str]:
    """What the SDK would tell every server although it is meant for OpenAI's: organisation, project, custom headers."""
    import openai

    lines = os.environ.get('OPENAI_CUSTOM_HEADERS', '').splitlines()
    names = {line.partition(':')[0].strip() for line in lines} | {'OpenAI-Organization', 'OpenAI-Project'}
    return cast(Mapping[str, str], {n: openai.omit for n in sorted(names) if n and n.lower() != 'authorization'})
