"""Servers that speak the Responses API, as rows of data: where each is, which key it wants, and where it differs.

A row is all there is to a provider; its `model` is what an entry point names. For a server without a row, use
`OPENAI_COMPAT` with a `base_url`, or make a row of your own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from agent_graph.errors import ConfigError
from agent_graph_providers.openai import servers as chat
from agent_graph_providers.wire.access import Site

if TYPE_CHECKING:
    from agent_graph_providers.responses.model import ResponsesModel

__all__ = [
    'AZURE',
    'BEDROCK_MANTLE',
    'DEEPSEEK',
    'LMSTUDIO',
    'OPENAI',
    'OPENAI_COMPAT',
    'OPENROUTER',
    'SERVERS',
    'XAI',
    'ResponsesServer',
    'row',
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesServer(Site):
    """One server and its quirks.

    `paths` are (piece of a model's name, path): an address without a path gets that of the first piece found in the name.
    `key_header` carries the key, bare, in place of `Authorization: Bearer`. `fields` are request fields for settings the
    API itself has none for, or renames them (a dot goes one object down). `stateful`: it can keep responses, and knows
    `store`, `previous_response_id` and `background`. `encrypted`: it seals reasoning when asked to. `instructions`: it
    takes them beside a previous response. `json_schema`: it can hold an answer to a JSON schema; `dialect` is how it wants
    schemas written. `file_outputs`: a tool's output may hold files. `texts_first`: it wants the texts of a response before
    its calls. `fetches`: it gets files from addresses itself. `counts`: it counts tokens without answering. `images` and
    `documents`: it takes such files at all. `runs_customs`: custom calls that nobody offered are its own tools at work.
    `cache_control`: its marks in the prompt up to which it is to be cached are called that, and any model takes them.
    """

    paths: tuple[tuple[str, str], ...] = ()
    key_header: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    stateful: bool = True
    encrypted: bool = True
    instructions: bool = True
    json_schema: bool = True
    dialect: Literal['openai', 'plain'] = 'openai'
    file_outputs: bool = True
    texts_first: bool = False
    fetches: bool = True
    counts: bool = False
    images: bool = True
    documents: bool = True
    runs_customs: bool = False
    cache_control: bool = False
    endpoint: str = '/responses(?:/input_tokens)?'

    @property
    def short_name(self) -> str:
        """Its name in `SERVERS`."""
        return self.name.removesuffix('-responses')

    def model(self, name: str) -> ResponsesModel:
        """The model called `name` on this server; raises `ConfigError` for an empty name."""
        from agent_graph_providers.responses.model import ResponsesModel

        return ResponsesModel(name, server=self)

    def placed(self, address: str, model: str) -> str:
        """An address with the path the API has on this server, where it was given without one."""
        parts = urlsplit(address)
        if parts.path.strip('/') or parts.query:
            return address
        path = next((path for piece, path in self.paths if piece in model), '')
        return address + path


OPENAI = ResponsesServer(
    name='openai-responses',
    provider='openai',
    base_url=chat.OPENAI.base_url,
    base_url_env=chat.OPENAI.base_url_env,
    key_env=chat.OPENAI.key_env,
    counts=True,
)
AZURE = ResponsesServer(
    name='azure-responses',
    provider='azure',
    base_url_env=chat.AZURE.base_url_env,
    key_env=chat.AZURE.key_env,
    key_header='api-key',
    paths=(('', '/openai/v1'),),
)
BEDROCK_MANTLE = ResponsesServer(
    name='bedrock_mantle-responses',
    provider='aws',
    base_url='https://bedrock-mantle.us-east-1.api.aws',
    base_url_env=chat.BEDROCK_MANTLE.base_url_env,
    key_env=chat.BEDROCK_MANTLE.key_env,
    paths=(('gpt-oss', '/v1'), ('', '/openai/v1')),  # open models are beside OpenAI's own
)
DEEPSEEK = ResponsesServer(
    name='deepseek-responses',
    provider='deepseek',
    base_url=chat.DEEPSEEK.base_url,
    key_env=chat.DEEPSEEK.key_env,
    stateful=False,
    encrypted=False,  # its reasoning is plain text, and goes back as that
    json_schema=False,
    file_outputs=False,
    texts_first=True,  # it misses the output of a call that a text follows
    images=False,
    documents=False,
)
LMSTUDIO = ResponsesServer(
    name='lmstudio-responses',
    provider='lmstudio',
    base_url=chat.LMSTUDIO.base_url,
    base_url_env=chat.LMSTUDIO.base_url_env,
    key_env=chat.LMSTUDIO.key_env,
    key_optional=True,
    encrypted=False,
    file_outputs=False,
    fetches=False,
    documents=False,
)
OPENROUTER = ResponsesServer(
    name='openrouter-responses',
    provider='openrouter',
    base_url=chat.OPENROUTER.base_url,
    key_env=chat.OPENROUTER.key_env,
    stateful=False,
    cache_control=True,
)
XAI = ResponsesServer(
    name='xai-responses',
    provider='x-ai',
    base_url=chat.XAI.base_url,
    key_env=chat.XAI.key_env,
    instructions=False,
    runs_customs=True,
)
OPENAI_COMPAT = ResponsesServer(
    name='openai_compat-responses',
    provider='openai_compat',
    base_url_env=chat.OPENAI_COMPAT.base_url_env,
    key_env=chat.OPENAI_COMPAT.key_env,
    key_optional=True,
    encrypted=False,
    file_outputs=False,
)

SERVERS: Mapping[str, ResponsesServer] = MappingProxyType(
    {row.short_name: row for row in (OPENAI, AZURE, BEDROCK_MANTLE, DEEPSEEK, LMSTUDIO, OPENROUTER, XAI, OPENAI_COMPAT)}
)
"""Every known server by its short name."""


def row(server: Any) -> ResponsesServer:
    """A row, or the one of this name, with or without `-responses` at its end; raises `ConfigError` for anything else."""
    if isinstance(server, ResponsesServer):
        return server
    found = SERVERS.get(server.removesuffix('-responses')) if isinstance(server, str) else None
    if found is None:
        raise ConfigError(
            f'no server is called {server!r}; use one of {sorted(SERVERS)!r}, or pass server=ResponsesServer(...)'
        )
    return found
