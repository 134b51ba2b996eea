"""`AnthropicModel`: Claude behind Anthropic's Messages API, or a server that copies it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from agent_graph.capabilities import Capabilities
from agent_graph.errors import ConfigError
from agent_graph.messages import FilePart, Message
from agent_graph.model import ModelSettings, ResponseBuilder, ToolDefinition
from agent_graph_providers.anthropic.answer import Answer
from agent_graph_providers.anthropic.asking import tool_form
from agent_graph_providers.anthropic.blocks import assistant_blocks, entries_of
from agent_graph_providers.anthropic.families import capabilities_of_name
from agent_graph_providers.anthropic.files import needs_bytes
from agent_graph_providers.anthropic.mapping import BINDING, COUNTED, request_body
from agent_graph_providers.wire.access import Site, at
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import Framings
from agent_graph_providers.wire.model import HttpModel, Question, Sent

if TYPE_CHECKING:
    import httpx
    import httpx2

    from agent_graph_providers.fetch import Fetcher

__all__ = ['ANTHROPIC', 'AnthropicModel', 'MessagesWire', 'model']

ANTHROPIC = Site(
    name='anthropic',
    base_url='https://api.anthropic.com',
    base_url_env='ANTHROPIC_BASE_URL',
    key_env='ANTHROPIC_API_KEY',
    endpoint='/messages(?:/count_tokens)?',
)

_VERSION = '2023-06-01'
"""The API version. The one after it refuses `temperature`, which models before Claude 4.7 take; an `extra_headers` entry
`anthropic-version` asks for another."""


class MessagesWire:
    """The Messages API. `provider` is who made the messages that go back unchanged."""

    framings: Framings = MappingProxyType({})

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def map_tool(self, tool: ToolDefinition, name: str) -> dict[str, Any]:
        return tool_form(tool, name)

    def map_message(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        return entries_of(message, names, self._provider)

    def wants_bytes(self, file: FilePart) -> bool:
        return needs_bytes(file)

    def request(self, question: Question) -> Sent:
        body = request_body(question, self._provider)
        return Sent('/v1/messages', body, _headers(body))

    def answer(self, question: Question, out: ResponseBuilder, asked: Asked) -> Answer:
        offer = question.memory.offer
        return Answer(
            out,
            asked,
            back=offer.back,
            again=partial(self.request, question),
            as_blocks=partial(assistant_blocks, names=offer.names, provider=self._provider),
        )

    def capabilities(self, name: str) -> Capabilities:
        return capabilities_of_name(name)

    async def authorise(self, url: str, key: str, content: bytes) -> Mapping[str, str]:
        return {'x-api-key': key} if key else {}

    def count_request(self, question: Question) -> Sent:
        body = {name: value for name, value in request_body(question, self._provider).items() if name in COUNTED}
        return Sent('/v1/messages/count_tokens', body, _headers(body))

    def counted(self, data: Any) -> int | None:
        tokens = cast(Mapping[str, Any], data).get('input_tokens') if isinstance(data, Mapping) else None
        return tokens if type(tokens) is int else None


def _headers(body: Mapping[str, Any]) -> dict[str, str]:
    headers = {'anthropic-version': _VERSION}
    if 'block_binding' in body.get('thinking', ()):
        headers['anthropic-beta'] = BINDING
    return headers


class AnthropicModel(HttpModel):
    """The Claude model `name`, such as `'claude-sonnet-4-5'`; see `HttpModel` for everything that can be passed.

    `site` is another provider that speaks the same protocol: what one made is not sent back to another unchanged. Raises
    `ConfigError` at the first request when the key (`ANTHROPIC_API_KEY`) is missing.
    """

    def __init__(
        self,
        name: str,
        *,
        site: Site = ANTHROPIC,
        base_url: str | None = None,
        api_key: str | None = None,
        settings: ModelSettings | None = None,
        http_client: httpx.AsyncClient | httpx2.AsyncClient | None = None,
        capabilities: Capabilities | None = None,
        fetcher: Fetcher | None = None,
    ) -> None:
        given: Any = site
        if not isinstance(given, Site):
            raise ConfigError(f'site={given!r} is none; pass a Site(...), or leave it out for Anthropic itself')
        super().__init__(
            name,
            site,
            MessagesWire(site.provider or site.name),
            base_url=base_url,
            api_key=api_key,
            settings=settings,
            http_client=http_client,
            capabilities=capabilities,
            fetcher=fetcher,
        )


@at(ANTHROPIC)
def model(name: str) -> AnthropicModel:
    """The model `"anthropic:name"` means. Raises `ConfigError` for an empty name."""
    return AnthropicModel(name)
