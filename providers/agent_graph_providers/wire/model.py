"""`HttpModel`: a model behind plain HTTP, given a `Wire`: the two pure mappings of one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from agent_graph.capabilities import Capabilities
from agent_graph.errors import ConfigError
from agent_graph.messages import FilePart, Message
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph_providers.wire.access import Access, Hidden, Site, own_settings
from agent_graph_providers.wire.asking import ask
from agent_graph_providers.wire.clients import Clients
from agent_graph_providers.wire.counting import Count, Counting
from agent_graph_providers.wire.endpoints import joined
from agent_graph_providers.wire.errors import Asked, shown_url
from agent_graph_providers.wire.files import files_of
from agent_graph_providers.wire.framing import Framings
from agent_graph_providers.wire.given import address_given, check_client, check_name, check_rest, key_given
from agent_graph_providers.wire.http import Http
from agent_graph_providers.wire.jsontext import encoded
from agent_graph_providers.wire.offers import Memory, Offers, memory_of
from agent_graph_providers.wire.reading import Answer, Response

if TYPE_CHECKING:
    import httpx
    import httpx2

    from agent_graph_providers.fetch import Fetcher

__all__ = ['Going', 'HttpModel', 'Question', 'Sent', 'Wire', 'merged', 'with_extra']

A = TypeVar('A', bound='Going', covariant=True)


@dataclass(frozen=True, slots=True)
class Question:
    """What one request is made of. `memory` maps tools and messages, each once a run; `stream`: somebody watches."""

    name: str
    messages: Sequence[Message]
    info: RequestInfo
    settings: ModelSettings
    memory: Memory
    stream: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it is sent: `path` is appended to the base URL. `wait` seconds are waited before.

    `framings` replace the wire's for this one's answer, where a type of content means another thing in a stream.
    """

    path: str
    body: dict[str, Any] | None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    method: str = 'POST'
    wait: float = 0.0
    framings: Framings | None = None


class Going(Answer, Protocol):
    """An answer that may take more than one request."""

    def following(self) -> Sent | None:
        """What has to be asked next for the answer to be whole, pushed into the same builder; `None` when it is."""
        ...


class Wire(Protocol[A]):
    """One wire protocol."""

    framings: Framings
    """Ways to frame a stream beyond server-sent events and JSON lines."""

    def map_tool(self, tool: ToolDefinition, name: str) -> dict[str, Any]:
        """A tool as it is offered, under the name it is sent by."""
        ...

    def map_message(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        """A message as the list entries it takes; `names`: tools' own names -> as sent, where they differ."""
        ...

    def wants_bytes(self, file: FilePart) -> bool:
        """The provider cannot fetch this address itself: its bytes are fetched (guarded) and sent.

        Not asked about addresses said to be in a local network (`allow_local`); those that are seen to be in one are not
        left to a server that is elsewhere, whatever this says.
        """
        ...

    def request(self, question: Question) -> Sent:
        """The request. Raises `ConfigError` for settings that cannot be said, `MessageError` for such content."""
        ...

    def answer(self, question: Question, out: ResponseBuilder, asked: Asked) -> A:
        """Where the answer to `question` is read into."""
        ...

    def capabilities(self, name: str) -> Capabilities:
        """What the family this model belongs to can do; a name nobody knows gets the newest family's record."""
        ...

    async def authorise(self, url: str, key: str, content: bytes) -> Mapping[str, str]:
        """The headers that say who asks (and all others the protocol always sends)."""
        ...


class HttpModel:
    """The model `name` of one provider.

    Making one is cheap and reads nothing: no client is made and no variable read before the first request. One object may
    be used from several threads and event loops at once; each loop has its own client, closed with the loop.

    `base_url` replaces the provider's own address, `api_key` the variable that holds the key. `settings` are this model's
    own, under those of the agent and the run. `http_client`, an `httpx.AsyncClient` or `httpx2.AsyncClient`, is used for
    every request and never closed here: use such a model in one event loop. `capabilities` replaces what is assumed of the
    model's family. `fetcher` gets files from addresses the provider cannot fetch itself.
    """

    def __init__(
        self,
        name: str,
        site: Site,
        wire: Wire[Going],
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        settings: ModelSettings | None = None,
        http_client: httpx.AsyncClient | httpx2.AsyncClient | None = None,
        capabilities: Capabilities | None = None,
        fetcher: Fetcher | None = None,
    ) -> None:
        check_name(name, site.name)
        check_client(http_client)
        check_rest(settings, capabilities, fetcher)
        key = key_given(api_key, site.name, optional=site.key_optional)
        self._access = Access(name, site, address_given(base_url, site.name), key)
        self._wire = wire
        self._settings = settings
        self._capabilities = capabilities
        self._fetcher = fetcher
        self._http_client = http_client
        self._offers = Offers(wire.map_tool)
        self._clients = Clients(self._client, close=http_client is None)

    @property
    def name(self) -> str:
        """The model, as its provider calls it."""
        return self._access.name

    @property
    def provider(self) -> str:
        """Who serves it, as genai-prices calls it."""
        return self._access.provider

    @property
    def capabilities(self) -> Capabilities:
        """What this model can do, by its family or as given."""
        return self._capabilities or self._wire.capabilities(self.name)

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this model's answers from another's of that name, as JSON data: where it is and its own settings."""
        return {'site': self._access.site.name, 'address': self._access.shown_address(), **own_settings(self._settings)}

    def __repr__(self) -> str:
        access = self._access
        where = f', base_url={shown_url(access.base_url)!r}' if access.base_url is not None else ''
        return f'{type(self).__name__}({access.name!r}{where})'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask once: as a stream when somebody watches, else plainly; the parts are the same either way."""
        question = await self._question(messages, info, stream=out.watched)
        settings = question.settings
        sent: Sent | None = self._wire.request(question)
        out.provider_name = self.provider
        key = self._access.key()
        asked = self._access.asked(key=key)
        answer = self._wire.answer(question, out, asked)
        http = await self._clients.get()
        while sent is not None:
            framings = sent.framings or self._wire.framings
            await ask(partial(self._send, http, sent, key, settings), answer, asked, settings, framings)
            sent = answer.following()

    async def count_tokens(self, messages: Sequence[Message], info: RequestInfo) -> int | None:
        """The input tokens of a request as the provider counts them, without an answer; `None` where it does not."""
        wire = self._wire
        if not self.capabilities.count_tokens or not isinstance(wire, Counting):
            return None
        question = await self._question(messages, info, stream=False)
        sent, key = wire.count_request(question), self._access.key()
        asked = self._access.asked(key=key)
        count = Count(wire, asked)
        # The body has another form than a request's: the wire merges what a user adds to those.
        settings = cast(ModelSettings, {k: v for k, v in question.settings.items() if k != 'extra_body'})
        http = await self._clients.get()
        await ask(partial(self._send, http, sent, key, settings), count, asked, settings)
        return count.tokens

    async def _question(self, messages: Sequence[Message], info: RequestInfo, *, stream: bool) -> Question:
        settings = info.settings
        if self._settings:
            settings = cast(ModelSettings, {**self._settings, **settings})
        memory = memory_of(info.scratch, self, self._offers, self._wire.map_message)
        messages = await files_of(info.scratch, self).fetched(
            messages, self._wire.wants_bytes, self._fetcher, self._access.address
        )
        return Question(self.name, messages, info, settings, memory, stream)

    async def _send(self, http: Http, sent: Sent, key: str, settings: ModelSettings) -> Response:
        if sent.wait:
            import asyncio

            await asyncio.sleep(sent.wait)
        url = joined(self._access.address(), sent.path)
        content = None if sent.body is None else encoded(merged(sent.body, settings.get('extra_body')))
        headers = with_extra({'content-type': 'application/json', **sent.headers}, settings.get('extra_headers'))
        headers.update(await self._wire.authorise(url, key, content or b''))
        return await http.send(sent.method, url, headers=headers, content=content, settings=settings)

    def _client(self) -> Http:
        given = self._http_client
        if given is not None and given.is_closed:
            raise ConfigError(
                f'the http_client given for {self.name!r} is closed; keep it open while the model is used'
            )
        return Http(given)


def with_extra(headers: Mapping[str, str], extra: Mapping[str, str] | None) -> Hidden:
    """The headers with a user's in them: they replace ours, but lists of betas (`...-beta`) are put together."""
    out = Hidden(headers)
    ours = {name.lower(): name for name in headers} if extra else {}
    for name, value in (extra or {}).items():
        before = out.pop(ours.get(name.lower(), name), None)
        if before is not None and name.lower().endswith('-beta'):
            value = ','.join(dict.fromkeys(beta.strip() for beta in f'{before},{value}'.split(',')))
        out[name] = value
    return out


def merged(body: dict[str, Any], extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """The body with `extra` in it: objects are merged field by field, everything else is replaced."""
    if not extra:
        return body
    out = dict(body)
    for key, value in extra.items():
        before = out.get(key)
        both = isinstance(before, dict) and isinstance(value, Mapping)
        out[key] = merged(cast(dict[str, Any], before), cast(Mapping[str, Any], value)) if both else value
    return out
