"""Streams of the three protocols whose cost is bounded: a text in many pieces, as their servers frame it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

__all__ = ['PATHS', 'stream']

PATHS = {'chat': '/chat/completions', 'responses': '/responses', 'anthropic': '/v1/messages'}
"""Where each protocol is asked, below the server's address."""

HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
PIECE = 'word '


@cache
def stream(wire: str, pieces: int, filler: int = 0) -> bytes:
    """The whole HTTP response: a text of `pieces` words, each in an event of its own, `filler` bytes beside each."""
    frames = list({'chat': _chat, 'responses': _responses, 'anthropic': _anthropic}[wire](pieces, 'x' * filler))
    return HEAD + b''.join(b'%x\r\n%s\r\n' % (len(f), f) for f in frames) + b'0\r\n\r\n'


def _frame(data: Any, name: str = '') -> bytes:
    return (f'event: {name}\n' if name else '').encode() + b'data: ' + json.dumps(data).encode() + b'\n\n'


def _chat(pieces: int, filler: str) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {'index': 0, 'delta': delta, 'finish_reason': finish}
        return {'id': 'c1', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm', 'choices': [choice]}

    extra = {'obfuscation': filler} if filler else {}
    yield _frame(chunk({'role': 'assistant', 'content': ''}))
    for _ in range(pieces):
        yield _frame(chunk({'content': PIECE}) | extra)
    yield _frame(chunk({}, 'stop'))
    yield _frame(chunk({}) | {'choices': [], 'usage': {'prompt_tokens': 1, 'completion_tokens': 1, 'total_tokens': 2}})
    yield b'data: [DONE]\n\n'


def _responses(pieces: int, filler: str) -> Iterator[bytes]:
    number = iter(range(1_000_000_000))

    def event(kind: str, **fields: Any) -> bytes:
        return _frame({'type': kind, 'sequence_number': next(number), **fields}, kind)

    place = {'item_id': 'msg_1', 'output_index': 0, 'content_index': 0}
    text = PIECE * pieces
    part: dict[str, Any] = {'type': 'output_text', 'annotations': [], 'logprobs': [], 'text': ''}
    item: dict[str, Any] = {
        'id': 'msg_1',
        'type': 'message',
        'status': 'in_progress',
        'content': [],
        'role': 'assistant',
    }
    response: dict[str, Any] = {
        'id': 'resp_1', 'object': 'response', 'created_at': 1, 'status': 'in_progress', 'model': 'm', 'output': [],
        'parallel_tool_calls': True, 'tool_choice': 'auto', 'tools': [], 'error': None, 'incomplete_details': None,
        'instructions': None, 'metadata': {}, 'temperature': 1.0, 'top_p': 1.0, 'usage': None,
    }  # fmt: skip
    yield event('response.created', response=response)
    yield event('response.output_item.added', output_index=0, item=item)
    yield event('response.content_part.added', **place, part=part)
    extra = {'obfuscation': filler} if filler else {}
    for _ in range(pieces):
        yield event('response.output_text.delta', **place, delta=PIECE, logprobs=[], **extra)
    whole: dict[str, Any] = {**item, 'status': 'completed', 'content': [{**part, 'text': text}]}
    usage = {
        'input_tokens': 1, 'output_tokens': 1, 'total_tokens': 2,
        'input_tokens_details': {'cached_tokens': 0}, 'output_tokens_details': {'reasoning_tokens': 0},
    }  # fmt: skip
    yield event('response.output_text.done', **place, text=text, logprobs=[])
    yield event('response.content_part.done', **place, part={**part, 'text': text})
    yield event('response.output_item.done', output_index=0, item=whole)
    yield event('response.completed', response={**response, 'status': 'completed', 'output': [whole], 'usage': usage})


def _anthropic(pieces: int, filler: str) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return _frame({'type': kind, **fields}, kind)

    usage = {'input_tokens': 1, 'output_tokens': 1}
    message: dict[str, Any] = {
        'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'm', 'content': [], 'stop_reason': None,
        'stop_sequence': None, 'usage': usage,
    }  # fmt: skip
    extra = {'padding': filler} if filler else {}
    yield event('message_start', message=message)
    yield event('content_block_start', index=0, content_block={'type': 'text', 'text': ''})
    for _ in range(pieces):
        yield event('content_block_delta', index=0, delta={'type': 'text_delta', 'text': PIECE}, **extra)
    yield event('content_block_stop', index=0)
    yield event('message_delta', delta={'stop_reason': 'end_turn', 'stop_sequence': None}, usage=usage)
    yield event('message_stop')
