"""`GoogleModel` and `GoogleVertexModel`: Gemini behind its own API, and behind Vertex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_graph.capabilities import Capabilities
from agent_graph.errors import ConfigError
from agent_graph.messages import Message
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.google.vertex import CloudDoor, Credentials, credentials_at_hand
from agent_graph_providers.google.wire import Door, GoogleWire, KeyDoor
from agent_graph_providers.wire.access import Site, at
from agent_graph_providers.wire.given import check_name, check_texts
from agent_graph_providers.wire.model import HttpModel
from agent_graph_providers.wire.offers import Offers

if TYPE_CHECKING:
    import httpx
    import httpx2

    from agent_graph_providers.fetch import Fetcher

__all__ = ['GOOGLE', 'VERTEX', 'GoogleModel', 'GoogleVertexModel', 'gemini', 'vertex']

_ENDPOINT = r'(?:/projects/[^/]+/locations/[^/]+)?(?:/publishers/[^/]+)?/models/[^/]+:\w+'

GOOGLE = Site(
    name='google',
    base_url='https://generativelanguage.googleapis.com/v1beta',
    key_env='GEMINI_API_KEY',
    other_key_envs=('GOOGLE_API_KEY',),
    endpoint=_ENDPOINT,
)
VERTEX = Site(
    name='google-vertex',
    key_env='GOOGLE_API_KEY',
    key_optional=True,
    locate=CloudDoor('any model', key_env='GOOGLE_API_KEY').address,
    extra='vertex',
    credentials=credentials_at_hand,
    endpoint=_ENDPOINT,
)

_NAME_START = '[A-Za-z_]'
"""What the name of a function may begin with."""


class _Gemini(HttpModel):
    def __init__(self, name: str, site: Site, door: Door, **rest: Any) -> None:
        check_name(name, site.name)
        wire = GoogleWire(name, door)
        super().__init__(name, site, wire, **rest)
        self._offers = Offers(wire.map_tool, start=_NAME_START)


class GoogleModel(_Gemini):
    """The Gemini model `name`, such as `'gemini-3-flash-preview'`, behind the Gemini API.

    The key is `api_key`, else `GEMINI_API_KEY`, else `GOOGLE_API_KEY`. All else is as `HttpModel` says. Raises
    `ConfigError` for an empty name, and at the first request when there is no key.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        settings: ModelSettings | None = None,
        http_client: httpx.AsyncClient | httpx2.AsyncClient | None = None,
        capabilities: Capabilities | None = None,
        fetcher: Fetcher | None = None,
    ) -> None:
        super().__init__(
            name,
            GOOGLE,
            KeyDoor(),
            base_url=base_url,
            api_key=api_key,
            settings=settings,
            http_client=http_client,
            capabilities=capabilities,
            fetcher=fetcher,
        )


class GoogleVertexModel(_Gemini):
    """The model `name` behind Vertex: Google's own, `'publisher/model'`, or an endpoint `'projects/...'`.

    `project` and `location` replace `GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION` (`'global'` when neither is set).
    `credentials` of google-auth replace those found on this machine; they need the extra `vertex`. With an `api_key`, or
    with `GOOGLE_API_KEY` and no project, requests use Vertex's express mode, which needs neither.

    `base_url` ends in the API's version. Raises `ConfigError` for an empty name, and at the first request when there is no
    project, no credentials or no google-auth.
    """

    def __init__(
        self,
        name: str,
        *,
        project: str | None = None,
        location: str | None = None,
        credentials: Credentials | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        settings: ModelSettings | None = None,
        http_client: httpx.AsyncClient | httpx2.AsyncClient | None = None,
        capabilities: Capabilities | None = None,
        fetcher: Fetcher | None = None,
    ) -> None:
        check_name(name, VERTEX.name)
        check_texts(project=project, location=location)
        if credentials is not None and not hasattr(credentials, 'refresh'):
            raise ConfigError(f'credentials={credentials!r} are none; pass credentials of google-auth, or None')
        keyed = api_key is not None and api_key != ''
        door = CloudDoor(name, project, location, credentials, keyed=keyed, key_env=VERTEX.key_env or '')
        super().__init__(
            name,
            replace(VERTEX, locate=door.address, secrets=door.secrets),
            door,
            base_url=base_url,
            api_key=api_key,
            settings=settings,
            http_client=http_client,
            capabilities=capabilities,
            fetcher=fetcher,
        )
        self._door = door

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this model's answers from another's of that name, as JSON data: where it is and its own settings."""
        return {**super().identity, **self._door.described()}

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        await self._door.ready()
        await super().respond(messages, info, out)

    async def count_tokens(self, messages: Sequence[Message], info: RequestInfo) -> int | None:
        await self._door.ready()
        return await super().count_tokens(messages, info)


@at(GOOGLE)
def gemini(name: str) -> GoogleModel:
    """What the entry point `google` names: the model called `name`."""
    return GoogleModel(name)


@at(VERTEX)
def vertex(name: str) -> GoogleVertexModel:
    """What the entry point `google-vertex` names: the model called `name`."""
    return GoogleVertexModel(name)
