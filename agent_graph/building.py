"""`ResponseBuilder`: where a model puts its answer as it arrives, and what it looks like so far."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from agent_graph.events import (
    Event,
    PartDelta,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    ResponseRestarted,
    TextPartDelta,
    ThinkingPartDelta,
    ToolCallPartDelta,
)
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    Citation,
    FinishReason,
    JsonValue,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from agent_graph.text import clean_text
from agent_graph.usage import NO_USAGE

__all__ = ['PartSink', 'ResponseBuilder']

PartSink: TypeAlias = Callable[..., Awaitable[None]]
"""`await sink(EventType, **fields)`: the engine adds the run's own fields and hands the event to the reader."""

_REPLACEMENT = '\ufffd'
_MOST_PIECES = 4096


@dataclass(slots=True)
class _Open:
    """A part being received."""

    of: Literal['text', 'thinking', 'tool_call']
    pieces: list[str] = field(default_factory=list[str])
    blocks: list[str] = field(default_factory=list[str])
    signature: str | None = None
    tool_name: str = ''
    tool_call_id: str = ''
    args: dict[str, JsonValue] | None = None
    details: dict[str, JsonValue] | None = None
    held: str = ''
    citations: tuple[Citation, ...] = ()
    kind: Literal['open'] = 'open'

    def mend(self, delta: str) -> str:
        """Text that can be encoded: half of a surrogate pair at the end is held back until the other half comes."""
        text, self.held = self.held + delta, ''
        if '\ud800' <= text[-1] <= '\udbff':
            text, self.held = text[:-1], text[-1]
        return clean_text(text)

    def add(self, delta: str) -> None:
        """Append text. Many small pieces are joined now and then: each of them costs ten times its letters."""
        pieces = self.pieces
        pieces.append(delta)
        if len(pieces) >= _MOST_PIECES:
            self.blocks.append(''.join(pieces))
            pieces.clear()

    def part(self, *, whole: bool = True) -> TextPart | ThinkingPart | ToolCallPart:
        text = ''.join((*self.blocks, *self.pieces)) + (_REPLACEMENT if self.held and whole else '')
        if self.of == 'text':
            return TextPart(text, self.details, self.citations)
        if self.of == 'thinking':
            return ThinkingPart(text, self.signature, self.details)
        return ToolCallPart(self.tool_name, text if self.args is None else self.args, self.tool_call_id, self.details)


class ResponseBuilder:
    """Collects one response as it arrives and shows each piece to whoever watches.

    A model pushes with `text`, `thinking`, `tool_call`, `part` and `message`, and sets `usage`, `finish_reason`,
    `model_name` and the like as plain attributes. Parts are in order of first appearance. Text goes on in the open text
    part until something else begins; parts that arrive interleaved are told apart by `key`.
    """

    __slots__ = (
        '_by_key',
        '_last',
        '_parts',
        '_sink',
        'finish_reason',
        'model_name',
        'provider_details',
        'provider_name',
        'provider_response_id',
        'refusal',
        'usage',
    )

    def __init__(
        self, sink: PartSink | None = None, *, model_name: str | None = None, provider_name: str | None = None
    ):
        self._sink = sink
        self._parts: list[_Open | AssistantPart] = []
        self._by_key: dict[Hashable, int] = {}
        self._last: tuple[str, Hashable] | None = None
        self.usage = NO_USAGE
        self.model_name = model_name
        self.provider_name = provider_name
        self.provider_response_id: str | None = None
        self.finish_reason: FinishReason | None = None
        self.refusal: str | None = None
        self.provider_details: dict[str, Any] | None = None

    @property
    def watched(self) -> bool:
        """Somebody reads the pieces as they come; when false, a plain answer serves as well."""
        return self._sink is not None

    @property
    def started(self) -> bool:
        """Something has been pushed: asking again from the start would repeat it."""
        return bool(self._parts)

    @property
    def progress(self) -> tuple[int, int]:
        """Another value as soon as something more has come; for whoever has to notice that nothing comes."""
        open_parts = [p for p in self._parts if p.kind == 'open']
        pieces = [len(p.blocks) * _MOST_PIECES + len(p.pieces) + bool(p.signature) for p in open_parts]
        return len(self._parts), sum(pieces)

    async def text(self, delta: str, *, key: Hashable = 'text', details: dict[str, JsonValue] | None = None) -> None:
        """Append visible text; `key` tells text blocks apart where a protocol numbers them."""
        await self._append('text', key, delta, details)

    def cite(self, citation: Citation, *, key: Hashable = 'text') -> None:
        """Add a citation to the text part `key`, be it open or closed; text that never came is opened empty."""
        index = self._by_key.get(('text', key))
        if index is None:
            index = self._by_key['text', key] = len(self._parts)
            self._parts.append(TextPart(''))
        part = self._parts[index]
        if isinstance(part, _Open):
            part.citations += (citation,)
        elif isinstance(part, TextPart):
            self._parts[index] = replace(part, citations=(*part.citations, citation))

    def amend(
        self,
        kind: Literal['text', 'thinking', 'tool_call'],
        key: Hashable,
        *,
        details: dict[str, JsonValue] | None = None,
        signature: str | None = None,
        citations: tuple[Citation, ...] = (),
    ) -> None:
        """Set what is known only when the part `key` is whole, be it open or closed; what was set before is replaced."""
        index = self._by_key[kind, key]
        part = self._parts[index]
        if isinstance(part, _Open):
            part.details, part.signature, part.citations = details, signature, citations
        elif isinstance(part, TextPart):
            self._parts[index] = replace(part, provider_details=details, citations=citations)
        elif isinstance(part, ThinkingPart):
            self._parts[index] = replace(part, provider_details=details, signature=signature)

    async def thinking(
        self,
        delta: str,
        *,
        key: Hashable = 'thinking',
        signature: str | None = None,
        details: dict[str, JsonValue] | None = None,
    ) -> None:
        """Append reasoning text; a `signature` is set on the part, replacing an earlier one."""
        await self._append('thinking', key, delta, details, signature)

    async def tool_call(
        self,
        key: Hashable,
        *,
        name: str = '',
        args: str | dict[str, JsonValue] = '',
        tool_call_id: str = '',
        details: dict[str, JsonValue] | None = None,
    ) -> None:
        """Begin or continue the tool call `key`: `name` and `args` text are appended, `tool_call_id` is set once."""
        index = self._by_key.get(('tool_call', key))
        if index is None:
            call = _Open('tool_call', tool_name=name, tool_call_id=tool_call_id, details=details)
            if isinstance(args, dict):
                call.args = args
            elif args:
                call.pieces.append(args)
            self._by_key['tool_call', key] = len(self._parts)
            await self._begin(call, ('tool_call', key))
            return
        call = self._parts[index]
        assert isinstance(call, _Open)
        call.tool_name += name
        call.tool_call_id = call.tool_call_id or tool_call_id
        call.details = details or call.details
        if isinstance(args, dict):
            call.args = args
        elif args:
            call.add(args)
        if self._sink is not None:
            text = args if isinstance(args, str) else ''
            await self._delta(index, ToolCallPartDelta(text, name, tool_call_id or call.tool_call_id))

    async def part(self, part: AssistantPart) -> None:
        """Push a part that is complete as it stands."""
        if self._last is not None:
            await self._close_last()
            self._last = None
        self._parts.append(part)
        if self._sink is not None:
            index = len(self._parts) - 1
            await self._sink(PartStartEvent, index=index, part=part)
            await self._sink(PartEndEvent, index=index, part=part)

    async def message(self, message: AssistantMessage) -> None:
        """Push a whole response and take over its usage and details."""
        if self._sink is None and self._last is None:
            self._parts += message.parts
        else:
            for part in message.parts:
                await self.part(part)
        self.usage = message.usage
        self.model_name = message.model_name or self.model_name
        self.provider_name = message.provider_name or self.provider_name
        self.provider_response_id = message.provider_response_id
        self.finish_reason = message.finish_reason
        self.refusal = message.refusal
        self.provider_details = message.provider_details

    async def notice(self, event: Callable[..., Event], **fields: Any) -> None:
        """Show the reader an event that is not about a part, such as `RequestRetried`."""
        if self._sink is not None:
            await self._sink(event, **fields)

    async def restart(self, reason: str) -> None:
        """Drop everything pushed so far: the response is asked for again. A reader who saw some of it is told."""
        if self._sink is not None and self._parts:
            await self._sink(ResponseRestarted, reason=reason)
        self._parts.clear()
        self._by_key.clear()
        self._last = None
        self.usage = NO_USAGE
        self.provider_response_id = self.finish_reason = self.refusal = self.provider_details = None

    async def finish(self) -> None:
        """Close every open part; the engine calls this once the model has returned."""
        self._last = None
        for index, part in enumerate(self._parts):
            if part.kind == 'open':
                await self._close(index)

    def build(self, *, interrupted: bool = False) -> AssistantMessage:
        """The response as it stands."""
        parts = tuple([p.part() if p.kind == 'open' else p for p in self._parts])
        return AssistantMessage(
            parts,
            self.usage,
            self.model_name,
            self.provider_response_id,
            self.finish_reason,
            self.provider_details,
            self.provider_name,
            self.refusal,
            interrupted,
        )

    async def _append(
        self,
        kind: Literal['text', 'thinking'],
        key: Hashable,
        delta: str,
        details: dict[str, JsonValue] | None,
        signature: str | None = None,
    ) -> None:
        full_key = (kind, key)
        if full_key != self._last:
            if not delta and signature is None and details is None:
                return  # an empty piece opens no part: servers send them at the head of a tool call
            opened = _Open(kind, signature=signature, details=details)
            if delta:
                opened.pieces.append(delta if delta.isascii() else opened.mend(delta))
            await self._begin(opened, full_key)
            return
        index = self._by_key[full_key]
        part = self._parts[index]
        assert isinstance(part, _Open)
        if delta and (part.held or not delta.isascii()):
            delta = part.mend(delta)
        part.add(delta)
        part.signature = signature or part.signature
        part.details = details or part.details
        if self._sink is not None and (delta or signature):
            await self._delta(index, TextPartDelta(delta) if kind == 'text' else ThinkingPartDelta(delta, signature))

    async def _begin(self, part: _Open, key: tuple[str, Hashable]) -> None:
        await self._close_last()
        self._last = key
        self._by_key[key] = len(self._parts)
        self._parts.append(part)
        if self._sink is not None:
            await self._sink(PartStartEvent, index=len(self._parts) - 1, part=part.part(whole=False))

    async def _close_last(self) -> None:
        """End the text or thinking part that was being received; tool calls may still go on interleaved."""
        if self._last is not None and self._last[0] != 'tool_call':
            await self._close(self._by_key[self._last])

    async def _close(self, index: int) -> None:
        part = self._parts[index]
        if isinstance(part, _Open):
            self._parts[index] = closed = part.part()
            if self._sink is not None:
                if part.held:
                    kind = TextPartDelta if part.of == 'text' else ThinkingPartDelta
                    await self._delta(index, kind(_REPLACEMENT))
                await self._sink(PartEndEvent, index=index, part=closed)

    async def _delta(self, index: int, delta: PartDelta) -> None:
        assert self._sink is not None
        await self._sink(PartDeltaEvent, index=index, delta=delta)
