"""The events of a stream, however they are framed: server-sent events, one JSON document a line, one JSON array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

from agent_graph_providers.wire.sse import SSE, Event

__all__ = ['FRAMINGS', 'Framing', 'Framings', 'JsonArray', 'JsonLines', 'framing_of']


class Framing(Protocol):
    """Bytes cut anywhere in, whole events out."""

    def feed(self, piece: bytes) -> Sequence[Event]:
        """The events completed by these bytes."""
        ...

    def end(self) -> Sequence[Event]:
        """What was left when the bytes ended: the last event, whole or not."""
        ...


Framings: TypeAlias = Mapping[str, Callable[[], Framing]]
"""How to read a stream, by a piece of its content type."""


class JsonLines:
    """One JSON document a line."""

    __slots__ = ('_pending',)

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, piece: bytes) -> list[Event]:
        end = piece.rfind(b'\n') + 1
        if not end:
            if piece:
                self._pending.append(piece)
            return []
        text = b''.join((*self._pending, piece[:end]))
        self._pending = [piece[end:]] if end < len(piece) else []
        return [Event(line) for line in text.splitlines() if line.strip()]

    def end(self) -> list[Event]:
        text, self._pending = b''.join(self._pending).strip(), []
        return [Event(text)] if text else []


class JsonArray:
    """The objects of one JSON array, each as soon as it is whole: `[{...},\\r\\n{...}]`.

    Only strings and braces are looked at; whether an object is JSON is for whoever reads it.
    """

    __slots__ = ('_begun', '_depth', '_escaped', '_held', '_string')

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._depth = 0
        self._string = self._escaped = self._begun = False

    def feed(self, piece: bytes) -> list[Event]:
        events: list[Event] = []
        start = 0
        for at, byte in enumerate(piece):
            if self._string:
                if self._escaped:
                    self._escaped = False
                elif byte == 0x5C:
                    self._escaped = True
                elif byte == 0x22:
                    self._string = False
            elif byte == 0x22:
                self._string = True
            elif byte == 0x7B:
                if not self._depth:
                    start = at
                self._depth += 1
            elif byte == 0x7D and self._depth:
                self._depth -= 1
                if not self._depth:
                    events.append(Event(b''.join((*self._held, piece[start : at + 1]))))
                    self._held = []
        if self._depth:
            self._held.append(piece[start:])
        return events

    def end(self) -> list[Event]:
        text, self._held = b''.join(self._held), []
        return [Event(text)] if text else []


FRAMINGS: Framings = MappingProxyType(
    {'event-stream': SSE, 'x-ndjson': JsonLines, 'jsonl': JsonLines, 'stream+json': JsonLines}
)
"""What needs no word from the protocol."""


def framing_of(content_type: str, own: Framings | None = None) -> Framing | None:
    """How an answer of this type is framed; `None` if it is one document. `own` goes before `FRAMINGS`."""
    for framings in (own or {}, FRAMINGS):
        for name, make in framings.items():
            if name in content_type:
                return make()
    return None
