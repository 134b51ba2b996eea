"""The items of a stream while they come: their pieces are shown at once, and settled by what the whole item says.

A stream tells everything twice, in pieces and then whole. The pieces are what a watcher sees; the whole item is what counts.
Where the two differ, or where pieces of several items come so mixed that the parts would be out of order, `doubt` says so,
and the answer is made again from the response's own list of items. Arguments that differ are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from agent_graph.messages import AssistantPart, TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import ResponseBuilder
from agent_graph.text import clean_text
from agent_graph_providers.responses.parts import call_id
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.jsontext import Halves

__all__ = ['Live', 'LiveItem', 'Shown']


class Shown:
    """How much of a text has been shown, and its checksum: enough to tell whether the whole begins with it."""

    __slots__ = ('_size', '_sum')

    def __init__(self) -> None:
        self._size = self._sum = 0

    def add(self, piece: str) -> None:
        self._size += len(piece)
        self._sum = crc32(piece.encode('utf-8', 'surrogatepass'), self._sum)

    def rest(self, whole: str) -> str | None:
        """What of the whole has not been shown yet; `None` if it does not begin with what has."""
        size = self._size
        if crc32(whole[:size].encode('utf-8', 'surrogatepass')) != self._sum or len(whole) < size:
            return None
        return whole[size:]


class LiveItem:
    """One item being received. `number` is its place in order of appearance, `index` what the server counts it as."""

    __slots__ = ('args', 'called', 'done', 'head', 'index', 'kind', 'number', 'spots', 'texts')

    def __init__(self, number: int, index: int | None, head: Mapping[str, Any]) -> None:
        self.number = number
        self.index = index
        self.head = head
        self.kind = str(head.get('type') or '')
        self.spots: dict[tuple[str, int], int] = {}
        """(field, number within it) of every text -> which part of the item it is."""
        self.texts: list[Shown] = []
        """What each of these parts has shown."""
        self.called = False
        """It is shown as a tool call."""
        self.args = Shown()
        self.done = False

    def goes_by(self, ident: object) -> bool:
        """This is its id, or that of the call it is."""
        return bool(ident) and ident in (self.head.get('id'), self.head.get('call_id'))

    def repeats(self, other: LiveItem) -> bool:
        """It is the other one again."""
        return other.goes_by(self.head.get('id')) or (self.index is not None and self.index == other.index)


class Live:
    """All items of one stream, pushed into `out` in order. `back` maps tools' names as sent to their own."""

    __slots__ = ('_asked', '_back', '_halves', '_latest', '_open', '_out', 'doubt', 'items')

    def __init__(self, out: ResponseBuilder, asked: Asked, back: Mapping[str, str]) -> None:
        self._out = out
        self._asked = asked
        self._back = back
        self._halves = Halves()
        self._latest = -1
        """The number of the latest item that shows something; what comes before it is closed."""
        self._open: tuple[int, int] | None = None
        """The text that goes on."""
        self.items: list[LiveItem] = []
        self.doubt: str | None = None

    def wonder(self, why: str) -> None:
        """What was shown is not what the response says."""
        self.doubt = self.doubt or why

    async def add(self, index: int | None, head: Mapping[str, Any]) -> LiveItem:
        """An item begins. Reasoning and calls take their place at once, whatever comes of them."""
        item = LiveItem(len(self.items), index, head)
        self.items.append(item)
        if item.kind == 'reasoning':
            self._begin(item)
            item.texts.append(Shown())
            self._open = (item.number, 0)
            await self._out.thinking('', key=self._open, signature='')
        elif item.kind == 'function_call' and head.get('name') and call_id(head):
            self._begin(item)
            item.called = True
            await self._out.tool_call(item.number, name=self._name(head), tool_call_id=call_id(head))
        return item

    async def text(self, item: LiveItem, place: str, number: int, delta: str, *, edges: bool = False) -> None:
        """A piece of an item's text: `place` is the field it stands in, `number` its place there."""
        if edges or self._halves:
            delta = self._halves.join((item.number, place, number), delta)
        part = item.spots.get((place, number))
        if item.done:
            self.wonder(f'item {item.number + 1} went on after its end')
            return
        if part is None:
            if not delta:
                return
            if item.number < self._latest:
                self.wonder(f'item {item.number + 1} went on after a later one had begun')
                return
            part = item.spots[place, number] = len(item.spots)
            if part == len(item.texts):
                item.texts.append(Shown())
                self._begin(item)
            self._open = (item.number, part)
        elif self._open != (item.number, part):
            self.wonder(f'a text of item {item.number + 1} went on after another had begun')
            return
        item.texts[part].add(delta)
        if place == 'text':
            await self._out.text(delta, key=self._open)
        else:
            await self._out.thinking(delta, key=self._open)

    async def arguments(self, item: LiveItem, delta: str, *, edges: bool = False) -> None:
        """A piece of a call's arguments."""
        if item.done:
            raise self._unlike(item, delta)
        if edges or self._halves:
            delta = self._halves.join(item.number, delta)
        item.args.add(delta)
        if item.called and delta:
            await self._out.tool_call(item.number, args=delta)

    async def whole_arguments(self, item: LiveItem, args: str) -> None:
        """All arguments of a call: what had not come in pieces is added. Raises `ModelProtocolError` if they differ."""
        rest = item.args.rest(clean_text(args))
        if rest is None:
            raise self._unlike(item, args)
        self._halves.rest(item.number)
        if rest:
            await self.arguments(item, rest)

    async def settle(self, item: LiveItem, whole: Mapping[str, Any], parts: Sequence[AssistantPart]) -> None:
        """The item is whole, and means these parts."""
        text = 0
        for part in parts:
            if isinstance(part, TextPart | ThinkingPart) and text < len(item.texts):
                await self._settle_text((item.number, text), item, part)
                text += 1
            elif isinstance(part, ToolCallPart) and item.called:
                await self._settle_call(item, whole, part)
            elif item.number < self._latest:
                self.wonder(f'item {item.number + 1} came after a later one')
            else:
                self._begin(item)
                await self._out.part(part)
        if text < len(item.texts):
            self.wonder(f'item {item.number + 1} lacks a text that came in pieces')
        item.done = True

    async def _settle_text(self, key: tuple[int, int], item: LiveItem, part: TextPart | ThinkingPart) -> None:
        for spot, index in item.spots.items():
            if index == key[1]:
                self._halves.rest((item.number, *spot))
        rest = item.texts[key[1]].rest(part.content)
        if rest is None or (rest and self._open != key):
            self.wonder(f'a text of item {item.number + 1} came in pieces that differ from the whole')
        elif rest:
            push = self._out.text if isinstance(part, TextPart) else self._out.thinking
            await push(rest, key=key)
        if isinstance(part, TextPart):
            self._out.amend('text', key, details=part.provider_details, citations=part.citations)
        else:
            self._out.amend('thinking', key, details=part.provider_details, signature=part.signature)

    async def _settle_call(self, item: LiveItem, whole: Mapping[str, Any], part: ToolCallPart) -> None:
        if self._name(whole) != self._name(item.head) or call_id(whole) != call_id(item.head):
            raise self._unlike(item, f'{whole.get("name")!r} {call_id(whole)!r}')
        if isinstance(part.args, str):
            await self.whole_arguments(item, part.args)
        else:
            await self._out.tool_call(item.number, args=part.args)
        self._out.amend('tool_call', item.number, details=part.provider_details)

    def _begin(self, item: LiveItem) -> None:
        self._latest = max(self._latest, item.number)
        self._open = None

    def _name(self, item: Mapping[str, Any]) -> str:
        name = str(item.get('name') or '')
        return self._back.get(name, name)

    def _unlike(self, item: LiveItem, found: str) -> Exception:
        head = item.head
        return self._asked.unreadable(
            f'the call {head.get("name")!r} (id {call_id(head)!r}) came in pieces that differ from the whole',
            found.encode(),
        )
