"""The floor: a loop over plain dicts as one would write it by hand, on the HTTP client that the OpenAI SDK uses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import httpx2
from pydantic_core import from_json

from benchmarks.workload import ARGS, FINAL, INSTRUCTIONS, PROMPT, TOOL_SCHEMA, get_weather, model_step

from ._report import Report

__all__ = [
    'DISTS',
    'IMPORT',
    'NAME',
    'Chat',
    'Hand',
    'answer',
    'beginning',
    'call_tool',
    'fake',
    'history',
    'http',
    'json_agent',
    'make_agent',
    'make_agent_shared',
    'read_report',
    'run_fake',
    'run_http',
    'stream_http',
    'stream_json',
]

NAME = 'by hand, raw HTTP'
IMPORT = 'import httpx2'
DISTS = ['httpx2']

Message = dict[str, Any]
Ask = Callable[[list[Message]], Awaitable[Message]]

TOOLS = {'get_weather': get_weather}


class Hand(NamedTuple):
    """All that such a loop has for an agent."""

    client: Any
    model: str


def make_agent() -> Hand:
    return Hand(None, 'gpt-4o')


make_agent_shared = make_agent


def beginning(history: list[Message] | None = None) -> list[Message]:
    """The messages of a first request."""
    return [
        {'role': 'system', 'content': INSTRUCTIONS},
        *(history or ()),
        {'role': 'user', 'content': PROMPT},
    ]


async def answer(ask: Ask, messages: list[Message]) -> str:
    """Ask, call the tools that were asked for, ask again, until there is a text."""
    while True:
        reply = await ask(messages)
        messages.append(reply)
        calls = reply.get('tool_calls')
        if not calls:
            return reply['content']
        if len(calls) == 1:
            messages.append(await call_tool(calls[0]))
        else:
            messages.extend(await asyncio.gather(*[call_tool(call) for call in calls]))


async def call_tool(call: dict[str, Any]) -> Message:
    function = call['function']
    result = await TOOLS[function['name']](**json.loads(function['arguments']))
    return {'role': 'tool', 'tool_call_id': call['id'], 'content': result}


def fake() -> Ask:
    async def ask(_: list[Message]) -> Message:
        index, count = await model_step()
        if not count:
            return {'role': 'assistant', 'content': FINAL}
        function = {'name': 'get_weather', 'arguments': ARGS}
        calls = [{'id': f'call_{index}_{k}', 'type': 'function', 'function': function} for k in range(count)]
        return {'role': 'assistant', 'content': None, 'tool_calls': calls}

    return ask


def history(n: int) -> list[Message]:
    pair = ({'role': 'user', 'content': PROMPT}, {'role': 'assistant', 'content': FINAL})
    return [dict(pair[i % 2]) for i in range(n)]


async def run_fake(h: Ask, hist: list[Message] | None) -> str:
    return await answer(h, beginning(hist))


class Chat:
    """Chat Completions over a raw HTTP client."""

    def __init__(self, url: str, model: str) -> None:
        self._http = httpx2.AsyncClient(
            base_url=url, timeout=60, headers={'Authorization': 'Bearer x'}, trust_env=False
        )
        self._model = model

    async def ask(self, messages: list[Message]) -> Message:
        body = {'model': self._model, 'messages': messages, 'tools': [TOOL_SCHEMA]}
        response = await self._http.post('/chat/completions', json=body)
        return response.json()['choices'][0]['message']

    async def text(self) -> AsyncIterator[str]:
        body = {'model': self._model, 'messages': beginning(), 'stream': True}
        async with self._http.stream('POST', '/chat/completions', json=body) as response:
            async for line in response.aiter_lines():
                if not line.startswith('data: ') or line == 'data: [DONE]':
                    continue
                for choice in json.loads(line[6:])['choices']:
                    if piece := choice['delta'].get('content'):
                        yield piece


http = Chat
json_agent = Chat


async def run_http(h: Chat) -> str:
    return await answer(h.ask, beginning())


async def stream_http(h: Chat) -> int:
    return len([piece async for piece in h.text()])


async def stream_json(h: Chat, partial: bool) -> tuple[int, int]:
    return await read_report(h.text(), partial)


async def read_report(pieces: AsyncIterator[str], partial: bool) -> tuple[int, int]:
    """Partial objects the simple way: everything so far is read again with every piece."""
    text, updates = '', 0
    async for piece in pieces:
        text += piece
        if partial:
            Report.model_validate(from_json(text, allow_partial='trailing-strings'))
            updates += 1
    return updates, len(Report.model_validate_json(text).items)
