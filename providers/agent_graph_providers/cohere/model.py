"""`CohereModel`: a model behind Cohere's chat API, version 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agent_graph.capabilities import Capabilities
from agent_graph.messages import FilePart, Message
from agent_graph.model import ModelSettings, ResponseBuilder, ToolDefinition
from agent_graph_providers.cohere.answer import Answer
from agent_graph_providers.cohere.documents import wants_bytes
from agent_graph_providers.cohere.history import PROVIDER, entries_of
from agent_graph_providers.cohere.mapping import request_body, tool_form
from agent_graph_providers.wire.access import Site, at
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import Framings
from agent_graph_providers.wire.model import HttpModel, Question, Sent
from agent_graph_providers.wire.offers import Offers

if TYPE_CHECKING:
    import httpx
    import httpx2

    from agent_graph_providers.fetch import Fetcher

__all__ = ['COHERE', 'CohereModel', 'model']

COHERE = Site(
    name=PROVIDER,
    base_url='https://api.cohere.com',
    base_url_env='CO_API_URL',
    key_env='COHERE_API_KEY',
    other_key_envs=('CO_API_KEY',),
    endpoint='/v[12]/chat',
)

_CAN = Capabilities(native_output_with_tools=False, images=False, documents=True)
_ROWS: tuple[tuple[tuple[str, ...], Capabilities], ...] = (
    (('reasoning',), replace(_CAN, thinking=True)),
    (('vision',), replace(_CAN, images=True, tools=False, tool_choice=False)),
    (('aya',), replace(_CAN, images=True, tools=False, tool_choice=False, native_output=False)),
    (('command-light', 'command-nightly'), replace(_CAN, tools=False, tool_choice=False, native_output=False)),
    (('command-a-03', 'command-a-translate', 'r7b'), _CAN),
    (('command-r',), replace(_CAN, tool_choice=False)),
)
"""What older families can do, by pieces of a name; the first that fits counts."""

_NEWEST = replace(_CAN, thinking=True, images=True)


class CohereModel(HttpModel):
    """The model `name`, such as `'command-a-03-2025'`, on Cohere's platform or a deployment of one's own (`base_url`).

    The key is `api_key`, else COHERE_API_KEY, else CO_API_KEY. All else is as `HttpModel` says. Raises `ConfigError` for an
    empty name, and at the first request when there is no key.
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
        wire = _Chat()
        super().__init__(
            name,
            COHERE,
            wire,
            base_url=base_url,
            api_key=api_key,
            settings=settings,
            http_client=http_client,
            capabilities=capabilities,
            fetcher=fetcher,
        )
        # It refuses hyphens in names, and digits at their beginning.
        self._offers = Offers(wire.map_tool, start='[A-Za-z_]', pattern='[A-Za-z0-9_]')


@at(COHERE)
def model(name: str) -> CohereModel:
    """What the entry point `cohere` names: the model called `name`."""
    return CohereModel(name)


class _Chat:
    """The wire protocol."""

    framings: Framings = MappingProxyType({})

    def map_tool(self, tool: ToolDefinition, name: str) -> dict[str, Any]:
        return tool_form(tool, name)

    def map_message(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        return entries_of(message, names)

    def wants_bytes(self, file: FilePart) -> bool:
        return wants_bytes(file)

    def request(self, question: Question) -> Sent:
        return Sent('/v2/chat', request_body(question))

    def answer(self, question: Question, out: ResponseBuilder, asked: Asked) -> Answer:
        return Answer(out, asked, back=question.memory.offer.back)

    def capabilities(self, name: str) -> Capabilities:
        for pieces, found in _ROWS:
            if any(piece in name for piece in pieces):
                return found
        return _NEWEST

    async def authorise(self, url: str, key: str, content: bytes) -> Mapping[str, str]:
        return {'authorization': f'Bearer {key}', 'accept': 'application/json, text/event-stream'}
