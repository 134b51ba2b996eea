"""The binary event stream: any cut gives the same events, and damage is told before anything is believed."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest

from agent_graph_providers.bedrock.eventstream import EventStream
from agent_graph_providers.wire.sse import Event
from tests.providers.bedrock.server import events, exception, framed, message, said
from tests.providers.loopback import cut

BODY = events(said([{'text': 'hel'}, {'text': 'lo \U0001f378'}]))


def read(pieces: list[bytes]) -> list[Event]:
    reader = EventStream()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.end()


def test_any_cut_gives_the_events() -> None:
    whole = read([BODY])
    assert whole[1].data == b'{"contentBlockDelta":{"delta": {"text": "hel"}, "contentBlockIndex": 0}}'
    assert [e.name for e in whole] == [
        b'messageStart',
        b'contentBlockDelta',
        b'contentBlockDelta',
        b'contentBlockStop',
        b'messageStop',
        b'metadata',
    ]
    for split in (1, 3, 50):
        assert read(cut(BODY, split)) == whole


def test_exceptions_and_errors_have_one_form() -> None:
    told = exception('throttlingException', message='slow down')
    assert read([told])[0].data == b'{"exception":{"message":"slow down","type":"throttlingException"}}'
    other = message(b'', message_type='error', error_code='InternalError', error_message='an "error"')
    assert read([other])[0].data == b'{"exception":{"message":"an \\"error\\"","type":"InternalError"}}'
    odd = message(b'no json \xff', message_type='exception', exception_type='x')
    assert b'"message":"no json' in read([odd])[0].data


def test_headers_of_every_type_are_stepped_over() -> None:
    odd = [
        (0, b''),
        (1, b''),
        (2, b'\1'),
        (3, b'\1\2'),
        (4, b'1234'),
        (5, b'12345678'),
        (6, b'\0\3abc'),
        (8, b'12345678'),
    ]
    odd.append((9, b'u' * 16))
    raw = b''.join(bytes([2]) + b'h%d' % kind + bytes([kind]) + value for kind, value in odd)
    name, kind = b':event-type', b'metadata'
    raw += bytes([len(name)]) + name + b'\7' + struct.pack('>H', len(kind)) + kind
    assert read([framed(b'{}', raw)]) == [Event(b'{"metadata":{}}', b'metadata')]


@pytest.mark.parametrize('raw', [b'\x05ab', b'\x01h\x0b', b'\x01h\x07\xff\xff', b'\x01h\x07\x00\x02\xff\xff'])
def test_broken_headers(raw: bytes) -> None:
    with pytest.raises(ValueError, match='header'):
        EventStream().feed(framed(b'{}', raw))


def test_every_flipped_bit_is_noticed() -> None:
    first = message({'role': 'assistant'}, message_type='event', event_type='messageStart')
    for at in range(len(first)):
        for bit in (1, 0x80):
            broken = bytearray(first)
            broken[at] ^= bit
            with pytest.raises(ValueError, match='checksum'):
                EventStream().feed(bytes(broken))


@pytest.mark.parametrize(
    ('size', 'headers'),
    [(2**31, 0), (25 * 2**20, 0), (15, 0), (0, 0), (100, 100), (2**20, 2**18), (2**32 - 1, 2**32 - 1)],
)
def test_lengths_are_bounded(size: int, headers: int) -> None:
    """A prelude with a right checksum and a gigantic length is refused at once: nobody waits for that many bytes."""
    head = struct.pack('>II', size, headers)
    with pytest.raises(ValueError, match='claims'):
        EventStream().feed(head + struct.pack('>I', crc32(head)))


def test_what_is_left_is_no_event() -> None:
    for end in (1, 11, 12, 40, len(BODY) - 1):
        left = read([BODY[:end]])[-1]
        assert left.data[:1] == b'\0' and not left.name


def test_many_small_pieces_take_no_more_than_their_bytes() -> None:
    reader = EventStream()
    large = message({'text': 'x' * 200_000}, message_type='event', event_type='e')
    found = [event for at in range(0, len(large), 7) for event in reader.feed(large[at : at + 7])]
    assert len(found) == 1 and len(reader._held) == 0  # pyright: ignore[reportPrivateUsage]
