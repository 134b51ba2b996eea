"""The same hand-written loop on the OpenAI SDK. Rows with an in-process model have no SDK in them, so there are none here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from openai import AsyncOpenAI

from benchmarks.workload import TOOL_SCHEMA

from .floor_http import Hand, answer, beginning, read_report

__all__ = [
    'DISTS',
    'IMPORT',
    'NAME',
    'Chat',
    'http',
    'json_agent',
    'make_agent',
    'run_http',
    'stream_http',
    'stream_json',
]

NAME = 'by hand, OpenAI SDK'
IMPORT = 'import openai; openai.AsyncOpenAI'
DISTS = ['openai']


def make_agent() -> Hand:
    return Hand(AsyncOpenAI(api_key='x'), 'gpt-4o')


class Chat:
    """Chat Completions through the SDK."""

    def __init__(self, url: str, model: str) -> None:
        self._completions: Any = AsyncOpenAI(base_url=url, api_key='x').chat.completions
        self._model = model

    async def ask(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        reply = await self._completions.create(model=self._model, messages=messages, tools=[TOOL_SCHEMA])
        message = reply.choices[0].message
        made: dict[str, Any] = {'role': 'assistant', 'content': message.content}
        if message.tool_calls:
            made['tool_calls'] = [
                {
                    'id': c.id,
                    'type': 'function',
                    'function': {'name': c.function.name, 'arguments': c.function.arguments},
                }
                for c in message.tool_calls
            ]
        return made

    async def text(self) -> AsyncIterator[str]:
        stream = await self._completions.create(model=self._model, messages=beginning(), stream=True)
        async for chunk in stream:
            for choice in chunk.choices:
                if choice.delta.content:
                    yield choice.delta.content


http = Chat
json_agent = Chat


async def run_http(h: Chat) -> str:
    return await answer(h.ask, beginning())


async def stream_http(h: Chat) -> int:
    return len([piece async for piece in h.text()])


async def stream_json(h: Chat, partial: bool) -> tuple[int, int]:
    return await read_report(h.text(), partial)
