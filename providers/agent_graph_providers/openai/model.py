"""`OpenAIModel`: a model behind a server that speaks Chat Completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from agent_graph.capabilities import Capabilities
from agent_graph.errors import ConfigError
from agent_graph.messages import FilePart, Message
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.openai.answer import Answer
from agent_graph_providers.openai.families import capabilities_for
from agent_graph_providers.openai.mapping import form_of, request_body, tool_form
from agent_graph_providers.openai.sdk import NO_KEY, make_client
from agent_graph_providers.openai.servers import SERVERS, Server
from agent_graph_providers.wire.access import Access, own_settings
from agent_graph_providers.wire.asking import ask
from agent_graph_providers.wire.clients import Clients
from agent_graph_providers.wire.errors import Asked, shown_url
from agent_graph_providers.wire.files import files_of
from agent_graph_providers.wire.given import (
    address_given,
    check_callable,
    check_client,
    check_name,
    check_rest,
    key_given,
)
from agent_graph_providers.wire.jsontext import encoded
from agent_graph_providers.wire.offers import Offers, memory_of
from agent_graph_providers.wire.reading import Response
from agent_graph_providers.wire.timing import SILENCE

if TYPE_CHECKING:
    import httpx
    import httpx2

    from openai import AsyncOpenAI

__all__ = ['OpenAIModel']


class OpenAIModel:
    """The model `name` on a server that speaks Chat Completions: a row of `SERVERS`, or any `base_url`.

    Making one is cheap and reads nothing: no SDK is imported, no client made and no variable read before the first
    request. One object may be used from several threads and event loops at once; each loop has its own client, closed
    with the loop.

    `server` is a `Server` or its name; `'openai_compat'` with a `base_url` is any other server, with or without a key.
    `base_url` replaces the server's own, `api_key` the variable that the server names. `settings` are this model's own,
    under those of the agent and the run. `http_client`, an `httpx.AsyncClient` or `httpx2.AsyncClient`, is used for every
    request and never closed here: use such a model in one event loop. `make_client` makes the SDK's client, once per
    event loop, for other ways to sign in. `capabilities` replaces what is assumed of the model's family.

    Raises `ConfigError` for an unknown server, and at the first request when the key or the address is missing.
    """

    def __init__(
        self,
        name: str,
        *,
        server: Server | str = 'openai',
        base_url: str | None = None,
        api_key: str | None = None,
        settings: ModelSettings | None = None,
        http_client: httpx.AsyncClient | httpx2.AsyncClient | None = None,
        make_client: Callable[[], AsyncOpenAI] | None = None,
        capabilities: Capabilities | None = None,
    ) -> None:
        server = _row(server)
        if name.__class__ is not str or not name.strip():  # what is left out costs no call: models are made often
            check_name(name, server.name)
        if http_client is not None:
            check_client(http_client)
        if settings is not None or capabilities is not None:
            check_rest(settings, capabilities)
        if make_client is not None:
            check_callable('make_client', make_client, 'a function that returns an openai.AsyncOpenAI')
        key = None if api_key is None else key_given(api_key, server.name, optional=server.key_optional)
        address = None if base_url is None else address_given(base_url, server.name)
        self._server = server
        self._access = Access(name, server, address, key)
        self._http_client = http_client
        self._make_client = make_client
        self._capabilities = capabilities
        self._settings = settings
        self._offers = Offers(tool_form(server))
        self._map_message = form_of(server)
        self._clients = Clients(self._client, close=http_client is None)

    @property
    def name(self) -> str:
        """The model, as its server calls it."""
        return self._access.name

    @property
    def provider(self) -> str:
        """Who serves it, as genai-prices calls it."""
        return self._access.provider

    @property
    def capabilities(self) -> Capabilities:
        """What this model can do, by its server and family or as given."""
        return self._capabilities or capabilities_for(self._server, self.name)

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this model's answers from another's of that name, as JSON data: where it is and its own settings."""
        return {'site': self._server.name, 'address': self._access.shown_address(), **own_settings(self._settings)}

    def __repr__(self) -> str:
        access = self._access
        where = f', base_url={shown_url(access.base_url)!r}' if access.base_url is not None else ''
        return f'OpenAIModel({access.name!r}, server={self._server.name!r}{where})'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask once: as a stream when somebody watches, else plainly; the parts are the same either way."""
        access, server, settings = self._access, self._server, info.settings
        if self._settings:
            settings = cast(ModelSettings, {**self._settings, **settings})
        memory = memory_of(info.scratch, self, self._offers, self._map_message)
        messages = await files_of(info.scratch, self).fetched(messages, _servers_fetch, None, self._where)
        content = encoded(request_body(access.name, server, memory, messages, info, settings, stream=out.watched))
        out.provider_name = access.provider
        asked = self._asked()
        answer = Answer(out, asked, back=memory.offer.back, known=memory.offer.known, think_tags=server.think_tags)
        client = await self._clients.get()
        await ask(partial(_post, client, content, settings), answer, asked, settings)

    def _where(self) -> str:
        """The server's address; with a client of the user's own only what was said of it."""
        return self._access.address() if self._make_client is None else self._access.base_url or ''

    def _asked(self) -> Asked:
        access = self._access
        if self._make_client is not None:
            return Asked(
                access.provider, access.name, access.base_url or '', 'the key of the client from make_client=', ''
            )
        return access.asked()

    def _client(self) -> AsyncOpenAI:
        """A new client of the SDK."""
        if self._make_client is not None:
            return self._make_client()
        access, given = self._access, self._http_client
        if given is not None and given.is_closed:
            raise ConfigError(
                f'the http_client given for {access.name!r} is closed; keep it open while the model is used'
            )
        return make_client(self._server, access.address(), access.key() or NO_KEY, access.name, given)


def _servers_fetch(_: FilePart) -> bool:
    """Servers are sent addresses as they are, but for those of a local network."""
    return False


def _row(server: Any) -> Server:
    row: object = SERVERS.get(server) if server.__class__ is str else server
    if not isinstance(row, Server):
        raise ConfigError(f'no server is called {server!r}; use one of {sorted(SERVERS)!r}, or pass server=Server(...)')
    return row


async def _post(client: AsyncOpenAI, content: bytes, settings: ModelSettings) -> Response:
    import httpx2

    import openai

    options: Any = {}
    if headers := settings.get('extra_headers'):
        options['headers'] = headers
    if (connect := settings.get('connect_timeout')) is not None:
        options['timeout'] = httpx2.Timeout(SILENCE, connect=connect)
    try:
        response: object = await client.post(
            '/chat/completions',
            cast_to=httpx2.Response,  # the raw response, whichever HTTP client it came from
            content=content,
            options=options,
            stream=True,
            stream_cls=openai.AsyncStream[Any],
        )
    except openai.APIStatusError as error:
        return cast(Response, error.response)  # read like every other answer
    return cast(Response, response)
