"""Server-sent events: bytes cut anywhere in, the data of whole events out."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ['SSE', 'Event']


class Event(NamedTuple):
    """One event's data; several `data` lines are joined by line feeds. `name` is `b''` for an unnamed one."""

    data: bytes
    name: bytes = b''


class SSE:
    """An incremental reader by the WHATWG rules: any line ending, comments and unknown fields skipped."""

    __slots__ = ('_data', '_name', '_pending')

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._data: list[bytes] = []
        self._name = b''

    def feed(self, piece: bytes) -> list[Event]:
        """The events completed by these bytes."""
        # A carriage return at the very end may be the first half of CRLF, so it waits for what comes next.
        end = max(piece.rfind(b'\n'), piece.rfind(b'\r', 0, -1)) + 1
        held = self._pending
        if not end:
            if piece:
                held.append(piece)
            return []
        text = piece[:end] if not held else b''.join((*held, piece[:end]))
        self._pending = [piece[end:]] if end < len(piece) else []
        return self._lines(text.splitlines())

    def end(self) -> list[Event]:
        """The event that lacked its blank line when the bytes ended, if any."""
        text = b''.join(self._pending)
        self._pending = []
        events = self._lines(text.splitlines())
        if self._data:
            events.append(self._take())
        return events

    def _lines(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        data = self._data
        for line in lines:
            if line[:5] == b'data:':
                data.append(line[6:] if line[5:6] == b' ' else line[5:])
            elif not line:
                if data:
                    events.append(self._take())
                    data = self._data
                self._name = b''
            elif line[:6] == b'event:':
                self._name = line[6:].strip()
            elif line[:8] == b'\xef\xbb\xbfdata:':  # a byte order mark may open the stream
                data.append(line[8:].lstrip(b' '))
        return events

    def _take(self) -> Event:
        data, self._data = self._data, []
        return Event(data[0] if len(data) == 1 else b'\n'.join(data), self._name)
