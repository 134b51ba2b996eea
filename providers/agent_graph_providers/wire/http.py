"""Plain HTTP: a client of our own, and one request through it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from agent_graph.model import ModelSettings
from agent_graph_providers.wire.reading import Response
from agent_graph_providers.wire.timing import CONNECT, SILENCE

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx

__all__ = ['Http', 'most_connections', 'tls']


class Http:
    """An `httpx.AsyncClient` (or an `httpx2` one), ours or given to us, as `Clients` keeps it."""

    __slots__ = ('_client',)

    def __init__(self, client: Any = None) -> None:
        self._client: httpx.AsyncClient = client if client is not None else _new_client()

    def close(self) -> Any:
        return self._client.aclose()

    def is_closed(self) -> bool:
        return self._client.is_closed

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None, settings: ModelSettings
    ) -> Response:
        """Send one request; the body of its answer has not been read. Close the answer."""
        connect = settings.get('connect_timeout')
        extra: dict[str, Any] = {}
        if connect is not None:
            extra['timeout'] = (connect, SILENCE, SILENCE, SILENCE)  # as both clients take it
        request = self._client.build_request(method, url, headers=headers, content=content, **extra)
        return cast(Response, await self._client.send(request, stream=True))


def _new_client() -> httpx.AsyncClient:
    import httpx  # slow to load, so not before the first request

    most = most_connections()
    return httpx.AsyncClient(
        verify=tls(),
        timeout=httpx.Timeout(SILENCE, connect=CONNECT),
        limits=httpx.Limits(max_connections=most, max_keepalive_connections=min(most, 100)),
    )


def most_connections() -> int:
    """A thousand, or a quarter of the files this process may open; requests beyond wait for a free one."""
    try:
        import resource
    except ImportError:  # not on this system
        return 1000
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1000 if soft == resource.RLIM_INFINITY else max(10, min(1000, soft // 4))


@lru_cache(maxsize=1)
def tls() -> SSLContext:
    """Reading the certificate store takes longer than all the rest of making a client; every client may share it."""
    import httpx2

    return httpx2.create_ssl_context()
