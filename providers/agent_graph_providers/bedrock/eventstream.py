"""Amazon's binary event stream (`application/vnd.amazon.eventstream`): bytes cut anywhere in, whole events out.

A message is a prelude (its whole length, the length of its headers, a CRC of both), headers, a payload, and a CRC of all
before it; numbers are big-endian. An event is passed on as one JSON object with the event's type as its only key, so that
it reads like an event of any other protocol: `{"messageStart": {...}}`. An exception becomes `{"exception": {"type": ...,
...}}`.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, TypeAlias, cast
from zlib import crc32

from agent_graph_providers.wire.jsontext import decode, encode
from agent_graph_providers.wire.sse import Event

__all__ = ['EventStream']

_PRELUDE = Struct('>III')
_CRC = Struct('>I')
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes that the value of a header takes, by its type; 6 (bytes) and 7 (text) say their own length."""

_LEAST = 16
_MOST_HEADERS = 128 * 1024
_MOST = 24 * 1024 * 1024
"""The format's own bounds: 128 KiB of headers and 24 MiB in all. A longer message is none."""

Headers: TypeAlias = dict[str, str]


class EventStream:
    """An incremental reader. Raises `ValueError` as soon as the bytes cannot be such a stream."""

    __slots__ = ('_held', '_size')

    def __init__(self) -> None:
        self._held = bytearray()
        self._size = 0
        """Of the message being received; 0 until its prelude is there."""

    def feed(self, piece: bytes) -> list[Event]:
        """The events completed by these bytes."""
        held = self._held
        held += piece
        events: list[Event] = []
        at = 0
        while len(held) - at >= _PRELUDE.size:
            size = self._size or _size(held, at)
            if len(held) - at < size:
                self._size = size
                break
            self._size = 0
            events.append(_event(bytes(held[at : at + size])))
            at += size
        if at:
            del held[:at]
        return events

    def end(self) -> list[Event]:
        """What is left of a message that did not come whole; it is no JSON, so that nobody takes it for an event."""
        left, self._held = bytes(self._held), bytearray()
        return [Event(b'\0' + left)] if left else []


def _size(held: bytearray, at: int) -> int:
    """The length of the message that begins here, its prelude checked before the number is believed."""
    size, headers, crc = _PRELUDE.unpack_from(held, at)
    if crc32(held[at : at + 8]) != crc:
        raise ValueError('the checksum of a message prelude does not match')
    if not _LEAST + headers <= size <= _MOST or headers > _MOST_HEADERS:
        raise ValueError(f'a message claims {size} bytes, {headers} of them headers')
    return size


def _event(message: bytes) -> Event:
    if crc32(message[:-4]) != _CRC.unpack_from(message, len(message) - 4)[0]:
        raise ValueError('the checksum of a message does not match')
    end = _PRELUDE.size + _PRELUDE.unpack_from(message)[1]
    headers, payload = _headers(message[_PRELUDE.size : end]), message[end:-4]
    kind = headers.get(':message-type', 'event')
    if kind == 'event':
        name = headers.get(':event-type', '')
        return Event(b'{%s:%s}' % (encode(name), payload or b'{}'), name.encode())
    if kind == 'exception':
        return _exception(headers.get(':exception-type', 'exception'), payload)
    return _exception(headers.get(':error-code', kind), encode({'message': headers.get(':error-message', '')}))


def _exception(kind: str, payload: bytes) -> Event:
    try:
        body: Any = decode(payload)
    except ValueError:
        body = payload.decode('utf-8', 'replace')
    fields = cast(dict[str, Any], body) if isinstance(body, dict) else {'message': str(body)}
    return Event(encode({'exception': {**fields, 'type': kind}}), b'exception')


def _headers(block: bytes) -> Headers:
    """The headers that are texts; the others are stepped over."""
    found: Headers = {}
    at = 0
    try:
        while at < len(block):
            name_end = at + 1 + block[at]
            kind, start = block[name_end], name_end + 1
            if kind in (6, 7):
                end = start + 2 + int.from_bytes(block[start : start + 2])
                if kind == 7:
                    found[block[at + 1 : name_end].decode()] = block[start + 2 : end].decode()
            else:
                end = start + _SIZES[kind]
            if end > len(block):
                raise ValueError('a header is longer than all headers')
            at = end
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f'the headers of a message cannot be read: {error!r}') from error
    return found
