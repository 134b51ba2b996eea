"""A stand-in for a Chat Completions server, on loopback and in a process of its own: `python -m benchmarks.server`.

It prints its port, then answers until it is stopped or its standard input ends. The request's `model` says what with:
`tools-T-P` (T responses of P tool calls, then a text), `stream-N` (a text in N pieces), `json-N-B` (a JSON document of at
least B characters in N pieces), anything else a short text. Answers are made once and kept as bytes.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from functools import cache
from itertools import pairwise
from typing import Any

from benchmarks.workload import ARGS, FINAL, report_json

__all__ = ['main']

USAGE = {'prompt_tokens': 20, 'completion_tokens': 10, 'total_tokens': 30}
LENGTH = re.compile(rb'content-length: *(\d+)', re.IGNORECASE)


@cache
def answer(model: str, turn: int, streamed: bool) -> bytes:
    """The whole HTTP response to request number `turn` (from 0) of a run."""
    kind, *numbers = model.split('-')
    sizes = [int(n) for n in numbers if n.isdigit()]
    calls: list[dict[str, Any]] = []
    pieces = [FINAL]
    if kind == 'tools' and turn < sizes[0]:
        function = {'name': 'get_weather', 'arguments': ARGS}
        calls = [{'id': f'call_{turn}_{k}', 'type': 'function', 'function': function} for k in range(sizes[1])]
    elif kind == 'stream':
        pieces = [f'word{n} ' for n in range(sizes[0])]
    elif kind == 'json':
        pieces = _cut(report_json(sizes[1]), sizes[0])
    return _stream(model, pieces, calls) if streamed else _plain(model, pieces, calls)


def _cut(text: str, count: int) -> list[str]:
    edges = [len(text) * n // count for n in range(count + 1)]
    return [text[start:end] for start, end in pairwise(edges)]


def _plain(model: str, pieces: list[str], calls: list[dict[str, Any]]) -> bytes:
    message: dict[str, Any] = {'role': 'assistant', 'content': None if calls else ''.join(pieces)}
    if calls:
        message['tool_calls'] = calls
    choice = {'index': 0, 'message': message, 'finish_reason': 'tool_calls' if calls else 'stop'}
    body = json.dumps(_envelope('chat.completion', model, [choice]) | {'usage': USAGE}).encode()
    return b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' % (len(body), body)


def _stream(model: str, pieces: list[str], calls: list[dict[str, Any]]) -> bytes:
    deltas: list[dict[str, Any]] = [{'role': 'assistant', 'content': ''}]
    if calls:
        deltas += [{'tool_calls': [{'index': n, **call}]} for n, call in enumerate(calls)]
    else:
        deltas += [{'content': piece} for piece in pieces]
    choices: list[list[dict[str, Any]]] = [[{'index': 0, 'delta': d, 'finish_reason': None}] for d in deltas]
    choices.append([{'index': 0, 'delta': {}, 'finish_reason': 'tool_calls' if calls else 'stop'}])
    events = [json.dumps(_envelope('chat.completion.chunk', model, c), separators=(',', ':')) for c in choices]
    events.append(json.dumps(_envelope('chat.completion.chunk', model, []) | {'usage': USAGE}))
    frames = [f'data: {event}\n\n'.encode() for event in (*events, '[DONE]')]
    head = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
    return head + b''.join(b'%x\r\n%s\r\n' % (len(f), f) for f in frames) + b'0\r\n\r\n'


def _envelope(kind: str, model: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {'id': 'chat-1', 'object': kind, 'created': 1_750_000_000, 'model': model, 'choices': choices}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b'\r\n\r\n')
            length = LENGTH.search(head)
            request = json.loads(await reader.readexactly(int(length[1]) if length else 0))
            turn = sum(1 for m in request['messages'] if m.get('tool_calls'))
            writer.write(answer(request['model'], turn, bool(request.get('stream'))))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    """Serve on a free port until standard input ends."""
    server = await asyncio.start_server(_serve, '127.0.0.1', 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == '__main__':
    asyncio.run(main())
