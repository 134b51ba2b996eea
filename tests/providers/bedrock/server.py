"""What a Bedrock server sends: plain answers, and messages of its binary event stream."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from tests.providers.loopback import Reply, cut, json_reply

__all__ = ['STREAM', 'answer', 'events', 'exception', 'framed', 'message', 'said', 'stream', 'tool_events']

STREAM = 'application/vnd.amazon.eventstream'


def framed(payload: bytes, headers: bytes) -> bytes:
    """A message of the event stream with these headers, as they are on the wire."""
    head = struct.pack('>II', 16 + len(headers) + len(payload), len(headers))
    head += struct.pack('>I', crc32(head))
    body = head + headers + payload
    return body + struct.pack('>I', crc32(body))


def message(payload: Any, **headers: str) -> bytes:
    """A message with text headers; `event_type` stands for `:event-type` and so on."""
    raw = b''
    for name, value in headers.items():
        wire, text = f':{name.replace("_", "-")}'.encode(), value.encode()
        raw += bytes([len(wire)]) + wire + b'\x07' + struct.pack('>H', len(text)) + text
    return framed(payload if isinstance(payload, bytes) else json.dumps(payload).encode(), raw)


def events(items: Iterable[Mapping[str, Any]]) -> bytes:
    """Events, each as {its type: what it says}."""
    return b''.join(
        message(body, message_type='event', event_type=kind, content_type='application/json')
        for item in items
        for kind, body in item.items()
    )


def exception(kind: str, **fields: Any) -> bytes:
    return message(fields, message_type='exception', exception_type=kind, content_type='application/json')


def said(*blocks: Sequence[Mapping[str, Any]], stop: str = 'end_turn', usage: Any = None) -> list[dict[str, Any]]:
    """The events of a whole stream: of each block its deltas, or a start and its deltas."""
    out: list[dict[str, Any]] = [{'messageStart': {'role': 'assistant'}}]
    for index, deltas in enumerate(blocks):
        for delta in deltas:
            if 'start' in delta:
                out.append({'contentBlockStart': {**delta, 'contentBlockIndex': index}})
            else:
                out.append({'contentBlockDelta': {'delta': delta, 'contentBlockIndex': index}})
        out.append({'contentBlockStop': {'contentBlockIndex': index}})
    usage = usage or {'inputTokens': 3, 'outputTokens': 2, 'totalTokens': 5}
    return [*out, {'messageStop': {'stopReason': stop}}, {'metadata': {'usage': usage, 'metrics': {'latencyMs': 1}}}]


def tool_events(name: str, call_id: str, *pieces: str, **more: Any) -> list[dict[str, Any]]:
    """The start and the deltas of a tool call."""
    start = {'start': {'toolUse': {'toolUseId': call_id, 'name': name, **more}}}
    return [start, *({'toolUse': {'input': piece}} for piece in pieces)]


def stream(body: bytes | Iterable[Mapping[str, Any]], *, split: int = 0, **kwargs: Any) -> Reply:
    raw = body if isinstance(body, bytes) else events(body)
    return Reply(cut(raw, split), 200, {'content-type': STREAM}, **kwargs)


def answer(*content: Mapping[str, Any], stop: str = 'end_turn', **fields: Any) -> Reply:
    """A plain answer."""
    usage = {'inputTokens': 3, 'outputTokens': 2, 'totalTokens': 5}
    output = {'message': {'role': 'assistant', 'content': list(content)}}
    return json_reply({'output': output, 'stopReason': stop, 'usage': usage, 'metrics': {'latencyMs': 1}, **fields})
