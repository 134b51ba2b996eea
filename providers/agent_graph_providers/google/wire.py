"""`GoogleWire`: the two mappings of `generateContent`, and where its requests go."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, cast
from urllib.parse import quote

from agent_graph.capabilities import Capabilities
from agent_graph.errors import ConfigError
from agent_graph.messages import FilePart, Message
from agent_graph.model import ResponseBuilder, ToolDefinition
from agent_graph_providers.google.answer import Answer
from agent_graph_providers.google.contents import to_contents
from agent_graph_providers.google.family import family_of
from agent_graph_providers.google.files import fetchable
from agent_graph_providers.google.mapping import request_body, tool_to_google
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import Framings, JsonArray
from agent_graph_providers.wire.model import Question, Sent, merged

__all__ = ['Door', 'GoogleWire', 'KeyDoor', 'resource_path']

_STREAMED: Framings = MappingProxyType({'application/json': JsonArray})
"""A stream that is not told as server-sent events is one JSON array."""


_COUNTED = frozenset({'contents', 'systemInstruction', 'tools', 'generationConfig'})
"""The fields Vertex takes when it only counts."""


class Door(Protocol):
    """How requests get in: with a key at the Gemini API, with a token at Vertex."""

    provider: str
    cloud: bool

    def resource(self, name: str) -> str:
        """The path of a model, below the base URL."""
        ...

    async def headers(self, key: str) -> dict[str, str]:
        """The headers that say who asks."""
        ...

    def guard(self, asked: Asked) -> None:
        """Say what errors should not speak of."""
        ...


class KeyDoor:
    """The Gemini API. The key goes into a header, never into the address, where logs would show it."""

    provider = 'google'
    cloud = False

    def resource(self, name: str) -> str:
        return resource_path(name if name.startswith(('models/', 'tunedModels/')) else f'models/{name}')

    async def headers(self, key: str) -> dict[str, str]:
        return {'x-goog-api-key': key} if key else {}

    def guard(self, asked: Asked) -> None:
        """They may name the variable of the key."""


def resource_path(path: str) -> str:
    """`/` and the path, fit for an address. Raises `ConfigError` for one that leads elsewhere."""
    if any(step in ('', '.', '..') for step in path.split('/')):
        raise ConfigError(f'{path!r} is no name of a model; write it as Google does, such as "gemini-3-flash-preview"')
    return '/' + quote(path, safe='/@:')


class GoogleWire:
    """`generateContent` for the model `name`, whose family decides a few details of requests."""

    framings: Framings = MappingProxyType({})

    def __init__(self, name: str, door: Door) -> None:
        self._name = name
        self._door = door

    def map_tool(self, tool: ToolDefinition, name: str) -> dict[str, Any]:
        return tool_to_google(tool, name)

    def map_message(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        return to_contents(message, names, provider=self._door.provider, family=family_of(self._name))

    def wants_bytes(self, file: FilePart) -> bool:
        if file.url is None or file.url[:5].lower() == 'data:' or self._door.cloud:
            return False
        return not fetchable(file, family_of(self._name))

    def request(self, question: Question) -> Sent:
        path = self._door.resource(self._name)
        if question.stream:
            return Sent(f'{path}:streamGenerateContent?alt=sse', self._body(question), framings=_STREAMED)
        return Sent(f'{path}:generateContent', self._body(question))

    def answer(self, question: Question, out: ResponseBuilder, asked: Asked) -> Answer:
        self._door.guard(asked)
        return Answer(out, asked, back=question.memory.offer.back)

    def capabilities(self, name: str) -> Capabilities:
        return family_of(name).capabilities()

    async def authorise(self, url: str, key: str, content: bytes) -> Mapping[str, str]:
        return await self._door.headers(key)

    def count_request(self, question: Question) -> Sent:
        path = self._door.resource(self._name)
        body = merged(self._body(question), question.settings.get('extra_body'))
        if self._door.cloud:
            body = {key: value for key, value in body.items() if key in _COUNTED}
        else:  # its own fields know no tools and no instructions
            body = {'generateContentRequest': {'model': path[1:], **body}}
        return Sent(f'{path}:countTokens', body)

    def counted(self, data: Any) -> int | None:
        tokens: Any = cast(dict[str, Any], data).get('totalTokens') if isinstance(data, dict) else None
        return tokens if type(tokens) is int else None

    def _body(self, question: Question) -> dict[str, Any]:
        door = self._door
        return request_body(question, provider=door.provider, family=family_of(self._name), cloud=door.cloud)
