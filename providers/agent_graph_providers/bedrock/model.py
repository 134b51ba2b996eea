"""`BedrockModel`: a model behind Amazon Bedrock's Converse API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from agent_graph.capabilities import Capabilities
from agent_graph.messages import FilePart, Message
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph_providers.bedrock.answer import Answer
from agent_graph_providers.bedrock.eventstream import EventStream
from agent_graph_providers.bedrock.families import family_of
from agent_graph_providers.bedrock.history import PROVIDER, entries_of
from agent_graph_providers.bedrock.mapping import request_body, tool_spec
from agent_graph_providers.bedrock.media import wants_bytes
from agent_graph_providers.bedrock.notes import mapping
from agent_graph_providers.bedrock.signing import Account, credentials_at_hand
from agent_graph_providers.wire.access import Site, at
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import Framings
from agent_graph_providers.wire.given import check_name, check_texts
from agent_graph_providers.wire.model import HttpModel, Question, Sent, merged

if TYPE_CHECKING:
    import httpx
    import httpx2

    from agent_graph_providers.fetch import Fetcher

__all__ = ['BEDROCK', 'BedrockModel', 'model']

BEDROCK = Site(
    name='bedrock',
    provider=PROVIDER,
    base_url_env='AWS_ENDPOINT_URL_BEDROCK_RUNTIME',
    key_env='AWS_BEARER_TOKEN_BEDROCK',
    key_optional=True,
    locate=Account('any model', None, None).address,
    credentials=credentials_at_hand,
    endpoint=r'/model/[^/]+/[\w-]+',
)

_GEOGRAPHY = re.compile(r'^[a-z-]+\.(?=anthropic\.)')


class BedrockModel(HttpModel):
    """The model `name` (an id, an inference profile or an ARN) on Amazon Bedrock.

    Requests carry the Bedrock API key of `api_key` or AWS_BEARER_TOKEN_BEDROCK, else they are signed with what AWS's own
    credential chain finds, which takes the extra `bedrock`. `region` is by default what the environment or the AWS
    configuration says; `session` is a botocore or boto3 session to take region and credentials from. `base_model` is the
    id of the model that `name` stands for where `name` does not tell (an application inference profile): what it can do
    goes by it. The others are those of every model over HTTP.

    Raises `ConfigError` at the first request when there is no region, no credentials, or no botocore to sign with.
    """

    def __init__(
        self,
        name: str,
        *,
        region: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        session: Any = None,
        base_model: str | None = None,
        settings: ModelSettings | None = None,
        http_client: httpx.AsyncClient | httpx2.AsyncClient | None = None,
        capabilities: Capabilities | None = None,
        fetcher: Fetcher | None = None,
    ) -> None:
        check_name(name, BEDROCK.name)
        check_texts(region=region, base_model=base_model)
        self._account = Account(name, region, session)
        self._base_model = base_model
        site = replace(BEDROCK, locate=self._account.address, secrets=self._account.secrets)
        super().__init__(
            name,
            site,
            _Converse(base_model or name, self._account),
            base_url=base_url,
            api_key=api_key,
            settings=settings,
            http_client=http_client,
            capabilities=capabilities,
            fetcher=fetcher,
        )

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this model's answers from another's of that name, as JSON data."""
        return {**super().identity, 'base_model': self._base_model}

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask once: as a stream when somebody watches, else plainly; the parts are the same either way."""
        await self._prepare()
        await super().respond(messages, info, out)

    async def count_tokens(self, messages: Sequence[Message], info: RequestInfo) -> int | None:
        """The input tokens of a request as Bedrock counts them, for models it counts for; else `None`."""
        if self.capabilities.count_tokens:
            await self._prepare()
        return await super().count_tokens(messages, info)

    async def _prepare(self) -> None:
        access = self._access
        placed = access.base_url is not None or bool(access.shown_address())
        await self._account.prepare(sign=not access.key(), locate=not placed)


@at(BEDROCK)
def model(name: str) -> BedrockModel:
    """What the entry point `bedrock` names: the model called `name`."""
    return BedrockModel(name)


class _Converse:
    """The wire protocol, as one family speaks it."""

    framings: Framings = MappingProxyType({'vnd.amazon.eventstream': EventStream})

    def __init__(self, name: str, account: Account) -> None:
        self._family = family_of(name)
        self._base_model = name
        self._account = account

    def map_tool(self, tool: ToolDefinition, name: str) -> dict[str, Any]:
        return tool_spec(tool, name, self._family)

    def map_message(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        return entries_of(message, names, self._family)

    def wants_bytes(self, file: FilePart) -> bool:
        return wants_bytes(file)

    def request(self, question: Question) -> Sent:
        action = 'converse-stream' if question.stream else 'converse'
        return Sent(_path(question.name, action), request_body(question, self._family))

    def answer(self, question: Question, out: ResponseBuilder, asked: Asked) -> Answer:
        if self._account.signs:
            asked.to_check = 'the AWS credentials and what they allow'
        return Answer(out, asked, back=question.memory.offer.back)

    def capabilities(self, name: str) -> Capabilities:
        return self._family.can

    async def authorise(self, url: str, key: str, content: bytes) -> Mapping[str, str]:
        return {'authorization': f'Bearer {key}'} if key else self._account.headers(url, content)

    def count_request(self, question: Question) -> Sent:
        body = merged(request_body(question, self._family), question.settings.get('extra_body'))
        kept = ('messages', 'system', 'toolConfig', 'additionalModelRequestFields')
        converse = {key: body[key] for key in kept if key in body}
        # The count is the same everywhere: Bedrock wants the model here, not a profile that spans regions.
        name = _GEOGRAPHY.sub('', self._base_model)
        return Sent(_path(name, 'count-tokens'), {'input': {'converse': converse}})

    def counted(self, data: Any) -> int | None:
        tokens = mapping(data).get('inputTokens')
        return tokens if type(tokens) is int else None


def _path(name: str, action: str) -> str:
    return f'/model/{quote(name, safe="")}/{action}'
