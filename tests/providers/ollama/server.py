"""Ollama's own API: what its server sends, and one request to it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent_graph.errors import ModelError
from agent_graph.messages import (
    AssistantMessage,
    Message,
    UserMessage,
)
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph_providers.ollama import OllamaModel
from agent_graph_providers.ollama.history import entries_of
from agent_graph_providers.ollama.mapping import request_body, tool_form
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Memory, Offers
from tests.providers.loopback import Loopback, Reply, cut

__all__ = ['END', 'HI', 'PNG', 'F', 'G', 'body', 'call', 'drop', 'end', 'failure', 'got', 'lines', 'piece', 'said']

HI = [UserMessage('hi')]
F = ToolDefinition('f', 'Does f.', {'type': 'object', 'properties': {'x': {'type': 'integer'}}, 'required': ['x']})
G = ToolDefinition('g', '', {'type': 'object', 'properties': {}})
END = {
    'model': 'm:latest',
    'done': True,
    'done_reason': 'stop',
    'prompt_eval_count': 3,
    'eval_count': 2,
    'eval_duration': 9,
}
PNG = b'\x89PNG\r\n\x1a\nrest'


def body(
    messages: list[Message] | Any = HI, info: RequestInfo | None = None, model: str = 'm', **settings: Any
) -> dict[str, Any]:
    memory = Memory(Offers(tool_form), entries_of)
    asked = ModelSettings(**settings)
    return request_body(Question(model, messages, info or RequestInfo(), asked, memory, stream=False))


def said(messages: list[Message] | Any) -> list[dict[str, Any]]:
    return body(messages)['messages']


def piece(**message: Any) -> dict[str, Any]:
    return {'model': 'm:latest', 'message': {'role': 'assistant', 'content': '', **message}, 'done': False}


def end(**fields: Any) -> dict[str, Any]:
    return {**piece(), **END, **fields}


def call(name: str, args: Any, **more: Any) -> dict[str, Any]:
    return {'function': {'name': name, 'arguments': args}, **more}


def lines(*items: Any, kind: str = 'application/x-ndjson', split: int = 0, **kwargs: Any) -> Reply:
    raw = ''.join((item if isinstance(item, str) else json.dumps(item)) + '\n' for item in items).encode()
    return Reply(cut(raw, split), 200, {'content-type': kind}, **kwargs)


async def drop(*_: Any, **__: Any) -> None:
    """Somebody watches, and looks away."""


def got(reply: Reply, *, watched: bool = True, **settings: Any) -> AssistantMessage:
    async def main() -> AssistantMessage:
        async with Loopback([reply]) as server:
            out = ResponseBuilder(drop if watched else None)
            info = RequestInfo(settings=ModelSettings(**settings))
            await OllamaModel('m', base_url=server.url).respond(HI, info, out)
            await out.finish()
            return out.build()

    return asyncio.run(main())


def failure(reply: Reply, *, watched: bool = True, **settings: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        got(reply, watched=watched, **settings)
    assert (caught.value.provider, caught.value.model) == ('ollama', 'm')
    return caught.value
