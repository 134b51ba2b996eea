"""The events of a stream -> items, shown while they come and settled when they are whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from agent_graph.model import ResponseBuilder
from agent_graph_providers.responses.live import Live, LiveItem
from agent_graph_providers.responses.notes import Notes
from agent_graph_providers.responses.parts import as_map
from agent_graph_providers.wire.errors import Asked

__all__ = ['Event', 'Events']

Event: TypeAlias = Mapping[str, Any]

_CALLS = frozenset({'function_call', 'custom_tool_call'})
_TEXTS = {
    'response.output_text.delta': ('message', 'text', 'content_index'),
    'response.reasoning_text.delta': ('reasoning', 'content', 'content_index'),
    'response.reasoning.delta': ('reasoning', 'content', 'content_index'),
    'response.reasoning_summary_text.delta': ('reasoning', 'summary', 'summary_index'),
    'response.reasoning_summary.delta': ('reasoning', 'summary', 'summary_index'),
}
"""Events with a piece of text -> the item it is of, the field it stands in, and what counts the texts there."""


class Events:
    """Takes in the events of one stream. `last` is the response object its last one brought."""

    __slots__ = ('_asked', '_live', '_notes', 'last')

    def __init__(self, out: ResponseBuilder, asked: Asked, notes: Notes, back: Mapping[str, str]) -> None:
        self._asked = asked
        self._notes = notes
        self._live = Live(out, asked, back)
        self.last: Mapping[str, Any] | None = None

    async def take(self, event: Event, edges: bool) -> bool:
        """Take in an event; false for one that tells nothing, or nothing that is not told again."""
        kind = event.get('type')
        take = _TAKES.get(kind) if isinstance(kind, str) else None
        if take is None:
            return False
        await take(self, event, edges)
        return True

    async def settle_rest(self, output: Sequence[Any], *, cut: bool) -> str | None:
        """Items that have not said that they are whole are so by the response's list, and those it alone has are added.

        Returns why what was shown is in doubt, if it is. Raises `ModelProtocolError` for a call that is not whole, unless
        the response was `cut`.
        """
        live, items = self._live, list(self._live.items)
        found: list[int] = []
        for index, whole in enumerate(map(as_map, output)):
            left = [item for item in items if item.number not in found and item.kind == whole.get('type')]
            item = _match(left, index, whole) or await live.add(index, whole)
            found.append(item.number)
            if not item.done:
                await live.settle(item, whole, self._notes.read(whole))
        if found != sorted(found):
            live.wonder('the items came in another order')
        for item in items:
            if item.number in found:
                continue
            if output and (not item.done or any(item.repeats(items[n]) for n in found if n < len(items))):
                live.wonder(f'item {item.number + 1} is not in the list')
            elif not item.done and item.kind in _CALLS and not cut:
                raise self._asked.unreadable(f'the call {item.head.get("name")!r} was not finished', b'')
        return live.doubt

    async def started(self, event: Event, _: bool) -> None:
        self._notes.take(as_map(event.get('response')))

    async def item_added(self, event: Event, _: bool) -> None:
        await self._live.add(_number(event.get('output_index')), as_map(event.get('item')))

    async def item_done(self, event: Event, _: bool) -> None:
        whole = as_map(event.get('item'))
        if not isinstance(whole.get('type'), str):
            raise self._asked.unreadable('an item has no type', str(dict(event)).encode())
        item = self._find(event, whole.get('id')) or await self._live.add(_number(event.get('output_index')), whole)
        if not item.done:
            await self._live.settle(item, whole, self._notes.read(whole))

    async def text(self, event: Event, edges: bool) -> None:
        kind, place, number = _TEXTS[event['type']]
        delta = event.get('delta')
        if isinstance(delta, str):
            item = await self._at(event, kind)
            await self._live.text(item, place, _number(event.get(number)) or 0, delta, edges=edges)

    async def arguments(self, event: Event, edges: bool) -> None:
        delta = event.get('delta')
        if isinstance(delta, str):
            await self._live.arguments(await self._at(event, 'function_call'), delta, edges=edges)

    async def arguments_done(self, event: Event, _: bool) -> None:
        args = event.get('arguments')
        item = await self._at(event, 'function_call')
        if isinstance(args, str) and not item.done:
            await self._live.whole_arguments(item, args)

    async def ended(self, event: Event, _: bool) -> None:
        # What the items said is enough for a server that does not say it twice.
        self.last = {'output': [], **as_map(event.get('response'))}

    async def failed(self, event: Event, _: bool) -> None:
        response = as_map(event.get('response'))
        status = response.get('status')
        self.last = {**response, 'status': status if status == 'cancelled' else 'failed'}

    async def error(self, event: Event, _: bool) -> None:
        raise self._asked.refused(event)

    async def _at(self, event: Event, kind: str) -> LiveItem:
        """The item an event is about; one that was not announced begins here."""
        item = self._find(event, event.get('item_id'))
        if item is None:
            return await self._live.add(_number(event.get('output_index')), {'type': kind, 'id': event.get('item_id')})
        return item

    def _find(self, event: Event, ident: object) -> LiveItem | None:
        """By its index; by its id where servers count badly. Raises `ModelProtocolError` where several would do."""
        index, items = _number(event.get('output_index')), self._live.items
        if items and items[-1].index == index and items[-1].goes_by(ident):
            return items[-1]
        found = [item for item in items if item.index == index] if index is not None else items
        named = [item for item in found if item.goes_by(ident)]
        unfinished = [item for item in found if not item.done]
        for chosen in (named, unfinished, found if index is not None else []):
            if len(chosen) == 1:
                return chosen[0]
        if len(found) > 1:
            raise self._asked.unreadable(f'{len(found)} items are number {index}', str(dict(event)).encode())
        return None


def _match(items: Sequence[LiveItem], index: int, whole: Mapping[str, Any]) -> LiveItem | None:
    """The item of a stream that is this one of the list: by id, else by the server's count, else by its place."""
    for item in items:
        if item.goes_by(whole.get('call_id')) or item.goes_by(whole.get('id')):
            return item
    counted = next((item for item in items if item.index == index), None)
    return counted or next((item for item in items if item.index is None and item.number == index), None)


def _number(value: Any) -> int | None:
    return value if type(value) is int else None


_TAKES: Mapping[str, Callable[[Events, Event, bool], Awaitable[None]]] = {
    **dict.fromkeys(_TEXTS, Events.text),
    **dict.fromkeys(('response.created', 'response.queued', 'response.in_progress'), Events.started),
    'response.output_item.added': Events.item_added,
    'response.output_item.done': Events.item_done,
    'response.function_call_arguments.delta': Events.arguments,
    'response.function_call_arguments.done': Events.arguments_done,
    **dict.fromkeys(('response.completed', 'response.done', 'response.incomplete'), Events.ended),
    **dict.fromkeys(('response.failed', 'response.cancelled'), Events.failed),
    **dict.fromkeys(('error', 'response.error'), Events.error),
}
