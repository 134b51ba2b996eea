"""`OpenAIModel`: a model behind a server that speaks Chat Completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import SecretStr

from agent_graph.errors import ConfigError, MessageError, ModelError
from agent_graph.messages import Message
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.openai.access import Access
from agent_graph_providers.openai.answer import Answer
from agent_graph_providers.openai.clients import Clients
from agent_graph_providers.openai.errors import shown_url
from agent_graph_providers.openai.jsontext import encode
from agent_graph_providers.openai.mapping import Offers, memory_of, request_body
from agent_graph_providers.openai.reading import Response, read_answer
from agent_graph_providers.openai.servers import SERVERS, Server

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
    event loop, for other ways to sign in.

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
    ) -> None:
        self._access = Access(
            name=name,
            server=_row(server) if isinstance(server, str) else server,
            base_url=str(base_url) if base_url is not None else None,
            api_key=SecretStr(api_key) if api_key is not None else None,
            http_client=http_client,
            make_client=make_client,
        )
        self._settings = settings
        self._offers = Offers(self._access.server)
        self._clients = Clients(self._access.client, close=http_client is None)

    @property
    def name(self) -> str:
        """The model, as its server calls it."""
        return self._access.name

    @property
    def provider(self) -> str:
        """Who serves it, as genai-prices calls it."""
        return self._access.provider

    def __repr__(self) -> str:
        access = self._access
        where = f', base_url={shown_url(access.base_url)!r}' if access.base_url is not None else ''
        return f'OpenAIModel({access.name!r}, server={access.server.name!r}{where})'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask once: as a stream when somebody watches, else plainly; the parts are the same either way."""
        access, settings = self._access, info.settings
        server = access.server
        if self._settings:
            settings = cast(ModelSettings, {**self._settings, **settings})
        memory = memory_of(info.scratch, server, self._offers)
        content = _encoded(request_body(access.name, memory, messages, info, settings, stream=out.watched))
        out.provider_name = access.provider
        asked = access.asked()
        answer = Answer(out, asked, back=memory.offer.back, known=memory.offer.known, think_tags=server.think_tags)
        client = await self._clients.get()
        response: Response | None = None
        try:
            response = await _post(client, content, settings)
            await read_answer(response, answer, asked, settings.get('timeout'))
        except ModelError as error:
            error.provider, error.model = access.provider, access.name
            raise
        except Exception as error:
            if (ours := asked.translate(error, answering=response is not None)) is None:
                raise
            raise ours from error
        finally:
            answer.notes.settle()
            if response is not None:
                await response.aclose()


def _row(name: str) -> Server:
    row = SERVERS.get(name)
    if row is None:
        raise ConfigError(f'no server is called {name!r}; use one of {sorted(SERVERS)!r}, or pass server=Server(...)')
    return row


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return encode(body)
    except ValueError as error:
        raise MessageError(
            f'the request cannot be written as JSON ({error}); tool results must be JSON data'
        ) from error


async def _post(client: AsyncOpenAI, content: bytes, settings: ModelSettings) -> Response:
    import httpx2

    from openai import AsyncStream

    options: Any = {}
    if headers := settings.get('extra_headers'):
        options['headers'] = headers
    if (timeout := settings.get('timeout')) is not None:
        options['timeout'] = timeout
    response: object = await client.post(
        '/chat/completions',
        cast_to=httpx2.Response,  # the raw response, whichever HTTP client it came from
        content=content,
        options=options,
        stream=True,
        stream_cls=AsyncStream[Any],
    )
    return cast(Response, response)
