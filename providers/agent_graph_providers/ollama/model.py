"""`OllamaModel`: a model behind Ollama's own chat API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent_graph.capabilities import Capabilities
from agent_graph.messages import FilePart, Message
from agent_graph.model import ModelSettings, ResponseBuilder, ToolDefinition
from agent_graph_providers.ollama.answer import Answer
from agent_graph_providers.ollama.history import PROVIDER, entries_of, wants_bytes
from agent_graph_providers.ollama.mapping import request_body, tool_form
from agent_graph_providers.wire.access import Site, at
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import Framings, JsonLines
from agent_graph_providers.wire.model import HttpModel, Question, Sent

if TYPE_CHECKING:
    import httpx
    import httpx2

    from agent_graph_providers.fetch import Fetcher

__all__ = ['OLLAMA', 'OllamaModel', 'host_address', 'model']

_PORT = 11434


def host_address() -> str:
    """The address OLLAMA_HOST means, by Ollama's own rules; this machine's without it.

    It may lack the scheme, the host or the port; `0.0.0.0` and `::` tell a server to listen everywhere, which for a client
    is this machine.
    """
    host = os.environ.get('OLLAMA_HOST', '').strip()
    scheme, separator, rest = host.rpartition('://')
    parts = urlsplit(f'//{rest}')
    usual = {'http': 80, 'https': 443}.get(scheme, _PORT) if separator else _PORT
    name = parts.hostname or '127.0.0.1'
    name = {'0.0.0.0': '127.0.0.1', '::': '::1'}.get(name, name)
    try:
        port = parts.port or usual
    except ValueError:
        port = usual
    shown = f'[{name}]' if ':' in name else name
    return f'{scheme or "http"}://{shown}:{port}{parts.path.rstrip("/")}'


@dataclass(frozen=True, slots=True, kw_only=True)
class _OllamaSite(Site):
    def placed(self, address: str, model: str) -> str:
        """OLLAMA_BASE_URL is often that of the other API, which ends in `/v1`."""
        return address.removesuffix('/v1')


OLLAMA = _OllamaSite(
    name=PROVIDER,
    base_url_env='OLLAMA_BASE_URL',
    key_env='OLLAMA_API_KEY',
    key_optional=True,
    endpoint='/api(?:/chat|/generate)?|/v1/chat/completions',
    locate=host_address,
)


class OllamaModel(HttpModel):
    """The model `name`, such as `'qwen3:8b'`, on an Ollama server.

    It is at `base_url`, else OLLAMA_BASE_URL, else OLLAMA_HOST, else on this machine. A key (`api_key`, else
    OLLAMA_API_KEY) is sent where there is one: Ollama's cloud wants it. All else is as `HttpModel` says.
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
            OLLAMA,
            _Chat(),
            base_url=base_url,
            api_key=api_key,
            settings=settings,
            http_client=http_client,
            capabilities=capabilities,
            fetcher=fetcher,
        )


@at(OLLAMA)
def model(name: str) -> OllamaModel:
    """What the entry point `ollama` names: the model called `name`."""
    return OllamaModel(name)


class _Chat:
    """The wire protocol."""

    framings: Framings = MappingProxyType({})
    _streamed: Framings = MappingProxyType({'json': JsonLines})
    """Streams are JSON lines, also under the type of a plain answer."""

    def map_tool(self, tool: ToolDefinition, name: str) -> dict[str, Any]:
        return tool_form(tool, name)

    def map_message(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        return entries_of(message, names)

    def wants_bytes(self, file: FilePart) -> bool:
        return wants_bytes(file)

    def request(self, question: Question) -> Sent:
        framings = self._streamed if question.stream else None
        return Sent('/api/chat', request_body(question), framings=framings)

    def answer(self, question: Question, out: ResponseBuilder, asked: Asked) -> Answer:
        return Answer(out, asked, back=question.memory.offer.back)

    def capabilities(self, name: str) -> Capabilities:
        """What a server may have pulled cannot be known; whoever knows says it with `capabilities=`."""
        return Capabilities(tool_choice=False, native_output_with_tools=False, thinking=True)

    async def authorise(self, url: str, key: str, content: bytes) -> Mapping[str, str]:
        return {'authorization': f'Bearer {key}'} if key else {}
