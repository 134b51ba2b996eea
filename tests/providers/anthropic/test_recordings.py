"""Every recorded answer and request goes through the adapter and says the same on the other side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolReturnPart,
    Message,
    ThinkingPart,
    dump_json,
    load_json,
)
from agent_graph.model import ResponseBuilder
from agent_graph_providers.anthropic.answer import Answer
from agent_graph_providers.anthropic.blocks import assistant_blocks
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.model import merged
from agent_graph_providers.wire.reading import read_answer
from tests.providers.anthropic.asked import blocks, body_of, meaning, question_of
from tests.providers.anthropic.recorded import MESSAGES, returned_tools
from tests.providers.recorded import each, kind_of, needs_recordings

pytestmark = needs_recordings('messages')

ASKED = Asked('anthropic', 'm', '', None, '')


def answered(record: dict[str, Any]) -> bool:
    return not record['expected']['error']


@each('messages')
def test_answer(record: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    record_property('recording', ('messages', record['provider'], kind_of(record)))
    got = asyncio.run(MESSAGES.ask(record, watched=bool(record['stream'])))
    assert MESSAGES.problems(record, got) == []
    if isinstance(got, AssistantMessage):
        assert returned_of(got) == returned_tools(record)


def returned_of(got: AssistantMessage) -> list[str]:
    """The items that are no calls, by type: what the provider's own tools returned, and sealed thinking."""
    out: list[str] = []
    for part in got.parts:
        if isinstance(part, BuiltinToolReturnPart):
            out.append(part.tool_name)
        elif isinstance(part, ThinkingPart) and part.provider_details:
            out.append(str(part.provider_details['type']))
    return out


class Pieces:
    """A response whose body comes in pieces of so many bytes."""

    def __init__(self, record: dict[str, Any], size: int) -> None:
        self._size = size
        response = record['response']
        self._body: bytes = (response.get('sse') or response.get('body')).encode()
        self.headers = {'content-type': 'text/event-stream' if 'sse' in response else 'application/json'}

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        for at in range(0, len(self._body), self._size):
            yield self._body[at : at + self._size]

    async def aread(self) -> bytes:
        return self._body

    async def aclose(self) -> None:
        """Nothing is open."""


def read(record: dict[str, Any], size: int = 61) -> AssistantMessage:
    async def main() -> AssistantMessage:
        out = ResponseBuilder(provider_name='anthropic')
        await read_answer(Pieces(record, size), Answer(out, ASKED, back={}), ASKED)
        await out.finish()
        return out.build()

    return asyncio.run(main())


@each('messages', lambda r: answered(r) and len(r['response'].get('sse') or '') in range(1, 20_000))
def test_single_bytes(record: dict[str, Any]) -> None:
    assert MESSAGES.problems(record, read(record, 1)) == []


@each('messages', answered)
def test_an_answer_goes_back_as_it_came(record: dict[str, Any]) -> None:
    """Also after a round trip through JSON: every block, byte for byte, but for texts with nothing in them."""
    (message,) = load_json(dump_json([read(record)]))
    assert isinstance(message, AssistantMessage)
    assert blocks(assistant_blocks(message, {}, 'anthropic')) == content_of(record)


def content_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a recorded answer, put together from a stream by the shortest code that can."""
    response = record['response']
    if 'body' in response:
        return blocks(json.loads(response['body'])['content'])
    found: list[dict[str, Any]] = []
    texts: list[list[str]] = []
    for line in response['sse'].splitlines():
        event: dict[str, Any] = json.loads(line[5:]) if line.startswith('data:') else {}
        delta: dict[str, Any] = event.get('delta', {})
        kind = delta.get('type')
        if event.get('type') == 'content_block_start':
            found.append(event['content_block'])
            texts.append([])
        elif kind in ('text_delta', 'thinking_delta'):
            found[-1][kind[:-6]] += delta[kind[:-6]]
        elif kind == 'signature_delta':
            found[-1]['signature'] = delta['signature']
        elif kind == 'input_json_delta':
            texts[-1].append(delta['partial_json'])
        elif kind == 'citations_delta':
            found[-1]['citations'].append(delta['citation'])
    for block, pieces in zip(found, texts, strict=True):
        if any(pieces):
            block['input'] = input_of(''.join(pieces))
        if not block.get('citations'):
            block.pop('citations', None)
    return blocks([b for b in found if b['type'] != 'thinking' or b['signature']])


def input_of(text: str) -> dict[str, Any]:
    """Arguments that a limit cut off go back as text within an object."""
    try:
        return json.loads(text)
    except ValueError:
        return {'invalid_arguments': text}


def has_request(record: dict[str, Any]) -> bool:
    return isinstance(record['request']['body'], dict) and answered(record)


@each('messages', has_request)
def test_request(record: dict[str, Any]) -> None:
    """A recorded body, read into messages, tools and settings and written again, says the same in every field."""
    recorded = record['request']['body']
    messages, info, settings = question_of(recorded)
    if any(message.kind == 'assistant' for message in messages):
        messages = through_json(messages)
    body = body_of(messages, info, settings, name=recorded['model'], stream=bool(recorded.get('stream')))
    assert meaning(merged(body, settings.get('extra_body'))) == meaning(recorded)


def through_json(messages: list[Message]) -> list[Message]:
    return load_json(dump_json(messages))
