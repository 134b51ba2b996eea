"""Answers of the Messages API made for a test: from blocks, plainly or as the events of a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from agent_graph.errors import ModelError
from agent_graph.messages import AssistantMessage, Message, UserMessage
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.anthropic import AnthropicModel
from agent_graph_providers.anthropic.answer import Answer
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.reading import read_answer
from tests.providers.loopback import Reply, cut, event, json_reply

__all__ = [
    'KEY',
    'SSE',
    'ask',
    'body',
    'call',
    'events',
    'plain',
    'read',
    'settle',
    'streamed',
    'text',
    'thinking',
    'whole',
]

KEY = 'sk-ant-a-key-for-tests-only'
SSE = {'content-type': 'text/event-stream; charset=utf-8'}
USAGE = {'input_tokens': 3, 'output_tokens': 1}

Block = dict[str, Any]


def text(content: str, **fields: Any) -> Block:
    return {'type': 'text', 'text': content, **fields}


def thinking(content: str, signature: str = 'sealed==') -> Block:
    return {'type': 'thinking', 'thinking': content, 'signature': signature}


def call(call_id: str = 'toolu_1', name: str = 'f', /, **args: Any) -> Block:
    return {'type': 'tool_use', 'id': call_id, 'name': name, 'input': args}


def plain(*blocks: Block, stop: str | None = None, **fields: Any) -> dict[str, Any]:
    """A plain answer; it stops for its calls where it has any."""
    stop = stop or ('tool_use' if any(b.get('type') == 'tool_use' for b in blocks) else 'end_turn')
    head = {'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': 'claude-made-1', 'stop_sequence': None}
    return {**head, 'content': list(blocks), 'stop_reason': stop, 'usage': {**USAGE, 'output_tokens': 5}, **fields}


def events(*blocks: Block, stop: str | None = None, size: int = 3, **fields: Any) -> list[dict[str, Any]]:
    """The same as a stream, texts in pieces of `size` characters."""
    message: dict[str, Any] = {**plain(*blocks, stop=stop), 'content': [], 'stop_reason': None, 'usage': USAGE}
    out: list[dict[str, Any]] = [{'type': 'message_start', 'message': message}, {'type': 'ping'}]
    for index, block in enumerate(blocks):
        begin, deltas = pieces(block, size)
        out.append({'type': 'content_block_start', 'index': index, 'content_block': begin})
        out += [{'type': 'content_block_delta', 'index': index, 'delta': delta} for delta in deltas]
        out.append({'type': 'content_block_stop', 'index': index})
    ending = {'stop_reason': plain(*blocks, stop=stop)['stop_reason'], 'stop_sequence': None, **fields}
    out.append({'type': 'message_delta', 'delta': ending, 'usage': {**USAGE, 'output_tokens': 5}})
    return [*out, {'type': 'message_stop'}]


def pieces(block: Block, size: int) -> tuple[Block, list[Block]]:
    """A block as a stream begins it, and its pieces."""
    kind = block['type']
    if kind == 'text':
        cited = [{'type': 'citations_delta', 'citation': c} for c in block.get('citations') or ()]
        begin: Block = {**block, 'text': ''}
        if cited:
            begin['citations'] = []
        return begin, [*cited, *({'type': 'text_delta', 'text': piece} for piece in chopped(block['text'], size))]
    if kind == 'thinking':
        deltas = [{'type': 'thinking_delta', 'thinking': piece} for piece in chopped(block['thinking'], size)]
        seal = [{'type': 'signature_delta', 'signature': block['signature']}] if block['signature'] else []
        return {**block, 'thinking': '', 'signature': ''}, [*deltas, *seal]
    if 'input' in block:
        args = json.dumps(block['input']) if block['input'] else ''
        found = [{'type': 'input_json_delta', 'partial_json': piece} for piece in ['', *chopped(args, size)]]
        return {**block, 'input': {}}, found
    return block, []


def chopped(content: str, size: int) -> list[str]:
    return [content[at : at + size] for at in range(0, len(content), size)]


def body(made: list[dict[str, Any]]) -> bytes:
    """The bytes of a stream."""
    return b''.join(event(one, one['type']) for one in made)


def whole(*blocks: Block, **fields: Any) -> Reply:
    return json_reply(plain(*blocks, **fields))


def streamed(*blocks: Block, split: int = 11, **fields: Any) -> Reply:
    return Reply(cut(body(events(*blocks, **fields)), split), 200, SSE)


def settle(streamed_too: bool, *blocks: Block, **fields: Any) -> Reply:
    """The answer in the way it is asked for."""
    return streamed(*blocks, **fields) if streamed_too else whole(*blocks, **fields)


class Body:
    """A response with prepared pieces."""

    def __init__(self, made: list[bytes], kind: str) -> None:
        self._pieces = made
        self.headers = {'content-type': kind}

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        for one in self._pieces:
            yield one

    async def aread(self) -> bytes:
        return b''.join(self._pieces)

    async def aclose(self) -> None:
        """Nothing is open."""


def read(
    made: list[bytes] | list[dict[str, Any]] | dict[str, Any], kind: str = '', back: dict[str, str] | None = None
) -> AssistantMessage | ModelError:
    """What these bytes, these events or this plain answer say."""
    found: list[bytes]
    if isinstance(made, dict):
        found, kind = [json.dumps(made).encode()], kind or 'application/json'
    else:
        found = [one if isinstance(one, bytes) else event(one, str(one.get('type'))) for one in made]

    async def main() -> AssistantMessage | ModelError:
        out = ResponseBuilder()
        asked = Asked('anthropic', 'm', 'http://127.0.0.1', None, '')
        try:
            await read_answer(Body(found, kind or 'text/event-stream'), Answer(out, asked, back=back or {}), asked)
        except ModelError as error:
            return error
        await out.finish()
        return out.build()

    return asyncio.run(main())


async def ask(
    model: AnthropicModel,
    messages: list[Message] | None = None,
    info: RequestInfo | None = None,
    *,
    watched: bool = False,
    **settings: Any,
) -> AssistantMessage:
    """Ask once."""

    async def sink(*_: Any, **__: Any) -> None:
        """Somebody watches, and looks away."""

    out = ResponseBuilder(sink if watched else None)
    info = info or RequestInfo(settings=ModelSettings(**settings))
    await model.respond(messages or [UserMessage('hi')], info, out)
    await out.finish()
    return out.build()
