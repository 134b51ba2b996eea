"""`ResponsesModel`: a model behind a server that speaks the Responses API."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from agent_graph.capabilities import Capabilities
from agent_graph.messages import FilePart, Message
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph_providers.responses.answer import Answer
from agent_graph_providers.responses.body import API, custom_arguments, included, request_body, tool_form
from agent_graph_providers.responses.families import capabilities_for
from agent_graph_providers.responses.items import Form, message_items
from agent_graph_providers.responses.notes import Reading
from agent_graph_providers.responses.parts import Reader, as_map
from agent_graph_providers.responses.servers import OPENAI, ResponsesServer, row
from agent_graph_providers.wire.errors import Asked, shown_url
from agent_graph_providers.wire.framing import Framings
from agent_graph_providers.wire.given import check_callable, check_name, check_rest
from agent_graph_providers.wire.model import HttpModel, Question, Sent

if TYPE_CHECKING:
    import httpx
    import httpx2

    from agent_graph_providers.fetch import Fetcher

__all__ = ['ResponsesModel']

_PATH = '/responses'

_ACCOUNT = {'openai-organization': 'OPENAI_ORG_ID', 'openai-project': 'OPENAI_PROJECT_ID'}
"""Headers that say which account pays, for OpenAI itself, and the variables they are in."""

_COUNTED = (
    'model',
    'input',
    'instructions',
    'tools',
    'tool_choice',
    'parallel_tool_calls',
    'reasoning',
    'text',
    'previous_response_id',
)
"""The fields of a request that counting its tokens takes as well."""


class ResponsesModel(HttpModel):
    """The model `name` on a server that speaks the Responses API: a row of `SERVERS`, or any `base_url`.

    `server` is a `ResponsesServer` or its short name; `'openai_compat'` with a `base_url` is any other one. `token` is asked
    before every request for a bearer token, in place of a key, for other ways to sign in. Everything else is said at
    `HttpModel`.

    Raises `ConfigError` for an unknown server, and at the first request when the key or the address is missing.
    """

    def __init__(
        self,
        name: str,
        *,
        server: ResponsesServer | str = 'openai',
        base_url: str | None = None,
        api_key: str | None = None,
        token: Callable[[], Awaitable[str]] | None = None,
        settings: ModelSettings | None = None,
        http_client: httpx.AsyncClient | httpx2.AsyncClient | None = None,
        capabilities: Capabilities | None = None,
        fetcher: Fetcher | None = None,
    ) -> None:
        server = row(server)
        check_name(name, server.name)
        check_rest(settings, capabilities, fetcher)
        check_callable('token', token, 'an async function that returns a bearer token')
        if token is not None:
            server = replace(server, key_optional=True)
        able = capabilities or capabilities_for(server, name)
        self._server = server
        super().__init__(
            name,
            server,
            _Protocol(server, able, token),
            base_url=base_url,
            api_key=api_key,
            settings=settings,
            http_client=http_client,
            capabilities=able,
            fetcher=fetcher,
        )

    def __repr__(self) -> str:
        access = self._access
        where = f', base_url={shown_url(access.base_url)!r}' if access.base_url is not None else ''
        return f'ResponsesModel({access.name!r}, server={self._server.short_name!r}{where})'

    async def _question(self, messages: Sequence[Message], info: RequestInfo, *, stream: bool) -> Question:
        question = await super()._question(messages, info, stream=stream)
        extra = question.settings.get('extra_body') or {}
        if 'include' not in extra:
            return question
        # What a user wants included comes beside what is needed here, not in its place.
        include = included(question.settings, encrypted=self._server.encrypted and self.capabilities.thinking)
        extra = {**extra, 'include': include}
        return replace(question, settings=cast(ModelSettings, {**question.settings, 'extra_body': extra}))


class _Protocol:
    """The Responses API as one server speaks it, for one model."""

    framings: Framings = MappingProxyType({})

    def __init__(self, server: ResponsesServer, able: Capabilities, token: Callable[[], Awaitable[str]] | None) -> None:
        self._server = server
        self._able = able
        self._token = token
        self._form = Form(
            provider=server.provider or server.name,
            file_outputs=server.file_outputs,
            texts_first=server.texts_first,
            mark=_mark(server) if able.prompt_cache else None,
            refused=frozenset(
                kind for kind, taken in (('image', able.images), ('document', able.documents)) if not taken
            ),
        )

    def map_tool(self, tool: ToolDefinition, name: str) -> dict[str, Any]:
        return tool_form(self._server, tool, name)

    def map_message(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        return message_items(message, names, self._form)

    def wants_bytes(self, file: FilePart) -> bool:
        if file.url is None or file.url.startswith('data:'):
            return False
        return not self._server.fetches or file.media_type.startswith('audio/')

    def request(self, question: Question) -> Sent:
        return Sent(_PATH, request_body(self._server, question, encrypted=self._encrypted))

    def answer(self, question: Question, out: ResponseBuilder, asked: Asked) -> Answer:
        settings = question.settings
        reader = Reader(question.memory.offer.back, custom_arguments(question), self._server.runs_customs)
        reading = Reading(
            reader,
            API,
            _PATH,
            bool(settings.get('background')),
            settings.get('timeout'),
            bool(settings.get('logprobs') or settings.get('top_logprobs')),
        )
        return Answer(out, asked, reading)

    def capabilities(self, name: str) -> Capabilities:
        return self._able

    async def authorise(self, url: str, key: str, content: bytes) -> Mapping[str, str]:
        server, token = self._server, key
        if self._token is not None:
            token = await self._token()
        elif server.key_header is not None:
            return {server.key_header: key} if key else {}
        headers = {'authorization': f'Bearer {token}'} if token else {}
        if server.name == OPENAI.name:
            for header, variable in _ACCOUNT.items():
                if value := os.environ.get(variable):
                    headers[header] = value
        return headers

    def count_request(self, question: Question) -> Sent:
        body = request_body(self._server, question, encrypted=False)
        return Sent(f'{_PATH}/input_tokens', {name: body[name] for name in _COUNTED if name in body})

    def counted(self, data: Any) -> int | None:
        tokens = as_map(data).get('input_tokens')
        return tokens if type(tokens) is int else None

    @property
    def _encrypted(self) -> bool:
        return self._server.encrypted and self._able.thinking


def _mark(server: ResponsesServer) -> str:
    return 'cache_control' if server.cache_control else 'prompt_cache_breakpoint'
