"""One answer of Converse or ConverseStream -> pushes into a `ResponseBuilder`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from agent_graph.model import ResponseBuilder
from agent_graph_providers.bedrock.blocks import REDACTED, SERVER_CALL, Blocks, Pieces
from agent_graph_providers.bedrock.notes import Notes, mapping, status_of
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.jsontext import Halves

__all__ = ['Answer']


class Answer:
    """Reads the answer to one request. `back` maps tools' names as sent to their own."""

    def __init__(self, out: ResponseBuilder, asked: Asked, *, back: Mapping[str, str]) -> None:
        self._out = out
        self._asked = asked
        self._blocks = Blocks(out, asked, back)
        self._halves = Halves()
        self._edges = False
        self._index: int | None = None
        """The block being received: blocks come one after the other."""
        self._pieces = Pieces('text', {})
        self._over: set[int] = set()
        self._begun = False
        self.notes = Notes(out)
        self.done = False
        self._handlers: dict[str, Callable[[Any], Awaitable[None]]] = {
            'contentBlockDelta': self._delta,
            'contentBlockStart': self._start,
            'contentBlockStop': self._stop,
            'messageStart': self._message_start,
            'messageStop': self._message_stop,
            'metadata': self._metadata,
            'exception': self._exception,
        }

    async def whole(self, data: Any) -> None:
        """A plain answer."""
        if not isinstance(data, dict):
            raise self._asked.unreadable('it is no JSON object', str(data).encode())
        fields = cast(dict[str, Any], data)
        if not isinstance(fields.get('output'), dict):
            if 'message' in fields or 'Message' in fields or '__type' in fields:
                raise self._asked.refused(fields)
            raise self._asked.unreadable('it has no output', str(fields).encode())
        content: Any = mapping(mapping(fields['output']).get('message')).get('content')
        if content is not None and not isinstance(content, list):
            raise self._asked.unreadable(f'content is {content!r}', b'')
        for index, block in enumerate(cast(list[Any], content or [])):
            await self._blocks.whole(index, mapping(block))
        self.notes.take(fields)
        await self.end()

    async def chunk(self, data: Any, edges: bool = False) -> None:
        """One event of a stream, its type as the only key; `edges`: texts may begin or end with half a surrogate pair."""
        self._edges = edges or bool(self._halves)
        fields = mapping(data)
        for kind, body in fields.items():
            handler = self._handlers.get(kind)
            if handler is not None:
                await handler(body)
            elif kind.endswith('Exception'):
                await self._exception({**mapping(body), 'type': kind})
        if not fields:
            raise self._asked.unreadable('an event is no object', str(data).encode())

    @property
    def complete(self) -> bool:
        """It has told why it stopped."""
        return self.notes.finished is not None

    def settle(self) -> None:
        """Set the usage told so far."""
        self.notes.settle()

    async def end(self) -> None:
        """The answer is whole."""
        if self._index is not None:
            await self._stop({'contentBlockIndex': self._index})
        if self._blocks.unknown:
            self.notes.details['content'] = self._blocks.unknown
        self.notes.end()

    def following(self) -> None:
        """One request is enough."""
        return

    # The events of a stream

    async def _message_start(self, body: Any) -> None:
        if self._begun:
            raise self._asked.unreadable('a second message begins', str(body).encode())
        self._begun = True

    async def _start(self, body: Any) -> None:
        start = mapping(mapping(body).get('start'))
        index = await self._enter(body, begins=True)
        if tool := mapping(start.get('toolUse')):
            served = tool.get('type') == SERVER_CALL
            self._pieces = Pieces('server_call' if served else 'call', dict(tool))
            if not served:
                await self._blocks.begin_call(index, tool)
        elif result := mapping(start.get('toolResult')):
            self._pieces = Pieces('server_result', dict(result))
        elif image := mapping(start.get('image')):
            self._pieces = Pieces('image', dict(image))

    async def _delta(self, body: Any) -> None:
        fields, index = mapping(body), self._index
        if index is None or fields.get('contentBlockIndex') != index:
            index = await self._enter(body)
        for key, value in mapping(fields.get('delta')).items():
            if key == 'text' and value.__class__ is str:
                await self._out.text(self._halves.join('text', value) if self._edges else value, key=index)
            elif key == 'toolUse':
                await self._arguments(index, mapping(value))
            elif key == 'reasoningContent':
                await self._reasoning(index, mapping(value))
            elif key == 'citation' and isinstance(value, dict):
                self._pieces.citations.append(cast(dict[str, Any], value))
            elif key == 'toolResult' and isinstance(value, list):
                self._pieces.list += cast(list[Any], value)
            elif key == 'image':
                self._pieces.text.append(str(mapping(mapping(value).get('source')).get('bytes') or ''))

    async def _arguments(self, index: int, value: Mapping[str, Any]) -> None:
        pieces, text = self._pieces, value.get('input')
        if pieces.kind not in ('call', 'server_call'):
            raise self._asked.unreadable(f'arguments came for block {index}, which is no tool call', b'')
        if not isinstance(text, str):
            raise self._asked.unreadable(f'arguments are {text!r}', b'')
        pieces.text.append(text)
        if pieces.kind == 'call' and text:
            await self._out.tool_call(index, args=text)

    async def _reasoning(self, index: int, value: Mapping[str, Any]) -> None:
        text, signature, data = value.get('text'), value.get('signature'), value.get(REDACTED)
        if isinstance(text, str):
            await self._out.thinking(self._halves.join('thinking', text) if self._edges else text, key=index)
        if isinstance(signature, str):
            await self._out.thinking('', key=index, signature=signature)
        if isinstance(data, str):
            self._pieces.text.append(data)

    async def _stop(self, body: Any) -> None:
        index = self._index
        if index is None or mapping(body).get('contentBlockIndex') != index:
            await self._enter(body)  # a block with nothing in it has no other event
            index = cast(int, self._index)
        if rest := self._halves.rest('text'):
            await self._out.text(rest, key=index)
        if rest := self._halves.rest('thinking'):
            await self._out.thinking(rest, key=index)
        self._index = None
        self._over.add(index)
        await self._blocks.end(index, self._pieces)

    async def _message_stop(self, body: Any) -> None:
        if self._index is not None:
            await self._stop({'contentBlockIndex': self._index})
        self.notes.take(mapping(body))

    async def _metadata(self, body: Any) -> None:
        self.notes.take(mapping(body))
        self.done = self.complete

    async def _exception(self, body: Any) -> None:
        fields = mapping(body)
        raise self._asked.refused(dict(fields), status=status_of(fields))

    async def _enter(self, body: Any, *, begins: bool = False) -> int:
        """The block an event belongs to, which may be new. Blocks that are mixed up are not guessed at."""
        index = mapping(body).get('contentBlockIndex')
        if type(index) is not int:
            raise self._asked.unreadable(f'a block has the index {index!r}', str(body).encode())
        if self.complete or index in self._over or (begins and index == self._index):
            raise self._asked.unreadable(f'block {index} goes on after its end', str(body).encode())
        if index != self._index:
            if self._index is not None:
                await self._stop({'contentBlockIndex': self._index})
            self._index, self._pieces = index, Pieces('text', {})
        return index
