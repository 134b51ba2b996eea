"""The smallest protocol there is: what every wire protocol shares is tested with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_graph.capabilities import Capabilities
from agent_graph.messages import FilePart, Message, UserMessage
from agent_graph.model import ModelSettings, ResponseBuilder, ToolDefinition
from agent_graph_providers.wire.access import Site
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import Framings
from agent_graph_providers.wire.model import HttpModel, Question, Sent

__all__ = ['Toy', 'ToyAnswer', 'toy']

SITE = Site(name='toy', base_url='http://127.0.0.1:1', key_env='TOY_API_KEY', base_url_env='TOY_BASE_URL')


class ToyAnswer:
    """`{"say": text}` any number of times, `{"end": true}` at the end; `{"more": n}` asks for n more answers."""

    def __init__(self, out: ResponseBuilder, asked: Asked) -> None:
        self.out, self.asked = out, asked
        self.done = self.complete = False
        self.more = 0
        self.settled = 0

    async def whole(self, data: Any) -> None:
        await self.chunk(data)
        await self.end()

    async def chunk(self, data: Any, edges: bool = False) -> None:
        if 'error' in data:
            raise self.asked.refused(data)
        await self.out.text(data.get('say', ''))
        self.more = data.get('more', self.more)
        self.complete = self.done = bool(data.get('end'))

    async def end(self) -> None:
        self.out.finish_reason = 'stop'

    def settle(self) -> None:
        self.settled += 1

    def following(self) -> Sent | None:
        if not self.more:
            return None
        self.more, self.done, self.complete = self.more - 1, False, False
        return Sent('/more', None, method='GET', wait=0.01)


class Toy:
    """Messages as their class names."""

    def __init__(self) -> None:
        self.framings: Framings = {}

    def map_tool(self, tool: ToolDefinition, name: str) -> dict[str, Any]:
        return {'name': name, 'parameters': tool.parameters}

    def map_message(self, message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        content = message.content if isinstance(message, UserMessage) else ()
        files = [(f.data or b'').decode() for f in content if isinstance(f, FilePart)]
        return [{'kind': message.kind, 'files': files}]

    def wants_bytes(self, file: FilePart) -> bool:
        return file.media_type == 'text/plain'

    def request(self, question: Question) -> Sent:
        offer = question.memory.take(question.info.tools)
        body = {'messages': question.memory.messages(question.messages), 'tools': offer.wire, 'stream': question.stream}
        return Sent('/say', body, {'x-kind': 'toy'})

    def answer(self, question: Question, out: ResponseBuilder, asked: Asked) -> ToyAnswer:
        return ToyAnswer(out, asked)

    def capabilities(self, name: str) -> Capabilities:
        return Capabilities(audio='audio' in name)

    async def authorise(self, url: str, key: str, content: bytes) -> Mapping[str, str]:
        return {'authorization': f'Bearer {key}'}


def toy(
    url: str = '', *, key: str | None = 'sk-toy-not-a-real-key', settings: ModelSettings | None = None, **options: Any
) -> HttpModel:
    return HttpModel('small', SITE, Toy(), base_url=url or None, api_key=key, settings=settings, **options)
