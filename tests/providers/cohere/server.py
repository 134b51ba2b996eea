"""Cohere's chat: what its server sends, and one request to it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_graph.errors import (
    ModelError,
)
from agent_graph.messages import (
    AssistantMessage,
    Message,
    UserMessage,
)
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph_providers.cohere import CohereModel
from agent_graph_providers.cohere.history import entries_of
from agent_graph_providers.cohere.mapping import request_body, tool_form
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Memory, Offers
from tests.providers.loopback import Loopback, Reply

__all__ = ['HI', 'KEY', 'F', 'G', 'body', 'call_events', 'drop', 'failure', 'got', 'message', 'said', 'text_events']

KEY = 'cohere-key-0123456789'
HI = [UserMessage('hi')]
F = ToolDefinition('f', 'Does f.', {'type': 'object', 'properties': {'x': {'type': 'integer'}}, 'required': ['x']})
G = ToolDefinition('g', '', {'type': 'object', 'properties': {}}, strict=True)


def body(messages: list[Message] | Any = HI, info: RequestInfo | None = None, **settings: Any) -> dict[str, Any]:
    memory = Memory(Offers(tool_form), entries_of)
    return request_body(Question('m', messages, info or RequestInfo(), ModelSettings(**settings), memory, stream=False))


def said(messages: list[Message] | Any) -> list[dict[str, Any]]:
    return body(messages)['messages']


def message(*content: dict[str, Any], finish: str = 'COMPLETE', **fields: Any) -> dict[str, Any]:
    """A plain answer."""
    usage = {
        'billed_units': {'input_tokens': 2, 'output_tokens': 1.0},
        'tokens': {'input_tokens': 30.0, 'output_tokens': 2},
    }
    return {
        'id': 'r1',
        'message': {'role': 'assistant', 'content': list(content), **fields},
        'finish_reason': finish,
        'usage': {**usage, 'cached_tokens': 16},
    }


def text_events(*pieces: str, finish: str = 'COMPLETE', **end: Any) -> list[dict[str, Any]]:
    deltas = [{'type': 'content-delta', 'index': 0, 'delta': {'message': {'content': {'text': p}}}} for p in pieces]
    return [
        {'type': 'message-start', 'id': 'r1', 'delta': {'message': {'role': 'assistant'}}},
        {'type': 'content-start', 'index': 0, 'delta': {'message': {'content': {'type': 'text', 'text': ''}}}},
        *deltas,
        {'type': 'content-end', 'index': 0},
        {'type': 'message-end', 'delta': {'finish_reason': finish, 'usage': message()['usage'], **end}},
    ]


def call_events(kind: str, index: Any, **call: Any) -> dict[str, Any]:
    return {'type': f'tool-call-{kind}', 'index': index, 'delta': {'message': {'tool_calls': call}}}


async def drop(*_: Any, **__: Any) -> None:
    """Somebody watches, and looks away."""


def got(reply: Reply, *, watched: bool = False) -> AssistantMessage:
    async def main() -> AssistantMessage:
        async with Loopback([reply]) as server:
            out = ResponseBuilder(drop if watched else None)
            await CohereModel('m', base_url=server.url, api_key=KEY).respond(HI, RequestInfo(), out)
            await out.finish()
            return out.build()

    return asyncio.run(main())


def failure(reply: Reply, *, watched: bool = True) -> ModelError:
    with pytest.raises(ModelError) as caught:
        got(reply, watched=watched)
    assert (caught.value.provider, caught.value.model) == ('cohere', 'm')
    return caught.value
