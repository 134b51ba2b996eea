"""The events of a stream, however they are framed: server-sent events, one JSON document a line, one JSON array."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

from agent_graph_providers.wire.sse import SSE, Event

__all__ = ['FRAMINGS', 'Framing', 'Framings', 'JsonArray', 'JsonLines', 'framing_of']


class Framing(Protocol):
    """Bytes cut anywhere in, whole events out."""

    def feed(self, piece: bytes) -> Sequence[Event]:
        """The events completed by these bytes. Raises `ValueError` for bytes that are no such stream."""
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

    Only strings and braces are looked at; whether an object is JSON is for whoever reads it. What stands beside the objects
    is skipped, unless no object ever comes: then it is the last event, for its reader to say that it is none.
    """

    __slots__ = ('_begun', '_depth', '_escaped', '_held', '_stray', '_string')

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._depth = 0
        self._string = self._escaped = self._begun = False
        self._stray = b''

    def feed(self, piece: bytes) -> list[Event]:
        events: list[Event] = []
        start = at = 0
        if self._escaped and piece:
            self._escaped, at = False, 1
        while (mark := (_IN_STRING if self._string else _OUTSIDE).search(piece, at)) is not None:
            at = mark.end()
            byte = piece[at - 1]
            if byte == 0x5C:
                self._escaped = at == len(piece)
                at += 1
            elif byte == 0x22:
                self._string = not self._string
            elif byte == 0x7B:
                if not self._depth:
                    start, self._begun = at - 1, True
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    events.append(Event(b''.join((*self._held, piece[start:at]))))
                    self._held = []
        if self._depth:
            self._held.append(piece[start:])
        elif not self._begun and len(self._stray) < _MOST_STRAY:
            self._stray += piece[:_MOST_STRAY]
        return events

    def end(self) -> list[Event]:
        text, self._held = b''.join(self._held), []
        if not self._begun and self._stray.strip(_AROUND):
            text = self._stray
        return [Event(text)] if text else []


_IN_STRING = re.compile(rb'["\\]')
_OUTSIDE = re.compile(rb'["{}]')
_AROUND = b'[] ,\t\r\n'
_MOST_STRAY = 1000


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
