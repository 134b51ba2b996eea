"""The content blocks of a stream, put together from their pieces.

Blocks come one after the other, each with an index, a beginning, pieces and an end. Servers that copy the API repeat an
index or leave the end out, so a block that begins where another is open ends that one; a call without an end has to have whole
arguments. A piece for a block that is not
open, or for a text after which another block has begun, belongs nowhere: `ModelProtocolError`, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import from_json

from agent_graph.errors import ModelProtocolError
from agent_graph.messages import BuiltinToolCallPart
from agent_graph.model import ResponseBuilder
from agent_graph_providers.anthropic.parts import KNOWN, citation_of, extras, part_of
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.jsontext import Halves

__all__ = ['Block', 'Pieces']


class Block:
    """A block being received. `number` tells it from all others of the answer, whatever their indexes are."""

    __slots__ = ('args', 'citations', 'fields', 'kind', 'number')

    def __init__(self, number: int, kind: str, fields: dict[str, Any]) -> None:
        self.number = number
        self.kind = kind
        self.fields = fields
        self.args: list[str] = []
        self.citations: list[Mapping[str, Any]] = []

    def __str__(self) -> str:
        name = self.fields.get('name')
        return f'{self.kind} {name!r} (id {self.fields.get("id")!r})' if name else self.kind


class Pieces:
    """Pushes blocks into `out` as their pieces come; `back` maps tools' names as sent to their own."""

    __slots__ = ('_asked', '_back', '_halves', '_latest', '_open', '_out')

    def __init__(self, out: ResponseBuilder, asked: Asked, back: Mapping[str, str]) -> None:
        self._out = out
        self._asked = asked
        self._back = back
        self._open: dict[Any, Block] = {}
        self._latest = 0
        self._halves = Halves()

    async def start(self, event: Mapping[str, Any]) -> None:
        """`content_block_start`."""
        raw, index = event.get('content_block'), self._index(event)
        if not isinstance(raw, dict) or not isinstance(kind := cast(dict[str, Any], raw).get('type'), str):
            raise self._asked.unreadable(f'a content block is {raw!r}', b'')
        if index in self._open:
            self._check_ended(self._open[index])
            await self._close(index)
        self._latest += 1
        fields = dict(cast(dict[str, Any], raw))
        block = self._open[index] = Block(self._latest, kind, fields)
        if kind == 'text':
            if (details := extras(fields)) is not None:
                await self._out.text('', key=block.number, details=details)
            await self._text(block, fields.get('text') or '')
        elif kind == 'thinking':
            await self._think(block, fields.get('thinking') or '', fields.get('signature') or None)
        elif kind == 'tool_use':
            name = self._str(fields.get('name') or '')
            if not name:
                raise self._asked.unreadable(f'tool call {fields.get("id")!r} has no name', b'')
            await self._out.tool_call(
                block.number,
                name=self._back.get(name, name),
                tool_call_id=self._str(fields.get('id') or ''),
                details=extras(fields),
            )

    async def delta(self, event: Mapping[str, Any], edges: bool = False) -> None:
        """`content_block_delta`."""
        block, delta = self._open.get(self._index(event)), event.get('delta')
        if block is None or not isinstance(delta, dict):
            raise self._stray(event)
        fields = cast(dict[str, Any], delta)
        kind = fields.get('type')
        if kind == 'text_delta' and block.kind == 'text':
            await self._text(block, fields.get('text') or '')
        elif kind == 'input_json_delta' and block.kind not in ('text', 'thinking'):
            await self._input(block, self._str(fields.get('partial_json') or ''), edges)
        elif kind == 'thinking_delta' and block.kind == 'thinking':
            await self._think(block, fields.get('thinking') or '', None)
        elif kind == 'signature_delta' and block.kind == 'thinking':
            await self._think(block, '', self._str(fields.get('signature') or '') or None)
        elif kind == 'citations_delta' and block.kind == 'text':
            block.citations.append(self._object(fields.get('citation')))
        elif block.kind in KNOWN:
            if kind in _OF_BLOCKS:
                raise self._stray(event)
        else:
            _merge(block.fields, fields)

    async def stop(self, event: Mapping[str, Any]) -> None:
        """`content_block_stop`; one for a block that has ended already says nothing."""
        index = self._index(event)
        if index in self._open:
            await self._close(index)

    async def end(self, *, cut: bool) -> None:
        """The answer is whole: end the blocks that did not. `cut`: a limit was reached, so the last may be a half."""
        for index, block in list(self._open.items()):
            if not cut:
                self._check_ended(block)
            await self._close(index)

    def go_on(self) -> None:
        """The same answer goes on in another stream, whose indexes begin anew."""
        self._open.clear()

    # Pieces by kind

    async def _text(self, block: Block, text: Any) -> None:
        if block.number != self._latest:
            raise self._late(block)
        if text.__class__ is not str:
            raise self._asked.unreadable(f'a text is {text!r}', b'')
        if text:
            await self._out.text(text, key=block.number)

    async def _think(self, block: Block, text: Any, signature: Any) -> None:
        if block.number != self._latest:
            raise self._late(block)
        if text or signature is not None:
            details = extras(block.fields) if len(block.fields) > len(KNOWN['thinking']) else None
            await self._out.thinking(self._str(text), key=block.number, signature=signature, details=details)

    async def _input(self, block: Block, piece: str, edges: bool) -> None:
        if edges or self._halves:
            piece = self._halves.join(block.number, piece)
        if not piece:
            return
        block.args.append(piece)
        if block.kind == 'tool_use':
            await self._out.tool_call(block.number, args=piece)

    # The end of a block

    def _check_ended(self, block: Block) -> None:
        """Whether a call whose end did not come can be all there was of it."""
        if block.kind == 'tool_use' and not block.fields.get('input') and not _is_json(''.join(block.args)):
            raise self._asked.cut(f'{block} did not end')

    async def _close(self, index: Any) -> None:
        block = self._open.pop(index)
        if rest := self._halves.rest(block.number):
            await self._input(block, rest, edges=False)
        if block.kind == 'tool_use':
            given = block.fields.get('input')
            if not block.args and isinstance(given, dict) and given:
                await self._out.tool_call(block.number, args=cast(dict[str, Any], given))
        elif block.kind == 'text':
            self._cite(block)
        elif block.kind != 'thinking':
            await self._whole(block)

    def _cite(self, block: Block) -> None:
        begun: Any = block.fields.get('citations') or []
        if not isinstance(begun, list):
            raise self._asked.unreadable(f'the citations of a text are {begun!r}', b'')
        for raw in [*cast(list[Any], begun), *block.citations]:
            self._out.cite(citation_of(self._object(raw)), key=block.number)

    async def _whole(self, block: Block) -> None:
        """A block nobody but its provider reads."""
        fields = block.fields
        if block.args:
            text = ''.join(block.args)
            if not _is_json(text):
                # The provider's own tool, cut off by a limit: it is told, but cannot go back.
                part = BuiltinToolCallPart(block.kind, text, self._str(fields.get('id') or ''))
                await self._out.part(part)
                return
            fields['input'] = from_json(text)
        try:
            await self._out.part(part_of(fields))
        except ValueError as error:
            raise self._asked.unreadable(str(error), str(fields).encode()) from error

    # Reading

    def _index(self, event: Mapping[str, Any]) -> Any:
        index = event.get('index')
        return index if isinstance(index, int) else None

    def _str(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._asked.unreadable(f'{value!r} stands where a text should', b'')
        return value

    def _object(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._asked.unreadable(f'{value!r} stands where an object should', b'')
        return cast(dict[str, Any], value)

    def _stray(self, event: Mapping[str, Any]) -> ModelProtocolError:
        block = self._open.get(self._index(event))
        where = f'the open block is {block}' if block is not None else 'no such block is open'
        return self._asked.unreadable(
            f'a piece for block {event.get("index")!r} fits nothing: {where}', str(event).encode()
        )

    def _late(self, block: Block) -> ModelProtocolError:
        return self._asked.unreadable(f'a piece of a {block} came after another block had begun', b'')


_OF_BLOCKS = ('text_delta', 'thinking_delta', 'signature_delta', 'citations_delta', 'input_json_delta')
"""The pieces whose kind of block is known; others that come for a text, thinking or a call are left out."""


def _merge(fields: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """A piece of a block whose kind says nothing here: texts are appended, everything else is set."""
    for key, value in delta.items():
        if key != 'type':
            before = fields.get(key)
            fields[key] = before + value if isinstance(before, str) and isinstance(value, str) else value


def _is_json(text: str) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True
