"""Every recorded answer yields the facts computed from its bytes; every recorded request is made again with that meaning."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

from agent_graph.messages import dump_json, load_json
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.bedrock import messages_from_converse
from agent_graph_providers.bedrock.answer import Answer
from agent_graph_providers.bedrock.eventstream import EventStream
from agent_graph_providers.bedrock.families import family_of
from agent_graph_providers.bedrock.history import entries_of
from agent_graph_providers.bedrock.mapping import request_body, tool_spec
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Memory, Offers
from agent_graph_providers.wire.reading import read_answer
from tests.providers.bedrock.recorded import CONVERSE, model_id
from tests.providers.recorded import each, kind_of, needs_recordings

pytestmark = needs_recordings('converse')


@each('converse')
def test_answer(record: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    record_property('recording', ('converse', record['provider'], kind_of(record)))
    got = asyncio.run(CONVERSE.ask(record, watched=bool(record['stream'])))
    assert CONVERSE.problems(record, got) == []


class OneByteAtATime:
    """A response whose body comes in single bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.headers = {'content-type': 'application/vnd.amazon.eventstream'}

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        for byte in self._body:
            yield bytes([byte])

    async def aread(self) -> bytes:
        return self._body


@each('converse', lambda r: 'body_b64' in r['response'] and len(r['response']['body_b64']) < 60_000)
def test_single_bytes(record: dict[str, Any]) -> None:
    async def main() -> list[str]:
        out, asked = ResponseBuilder(), Asked('p', 'm', '', None, '')
        body = OneByteAtATime(b64decode(record['response']['body_b64']))
        await read_answer(body, Answer(out, asked, back={}), asked, framings={'eventstream': EventStream})
        await out.finish()
        return CONVERSE.problems(record, out.build())

    assert asyncio.run(main()) == []


def has_request(record: dict[str, Any]) -> bool:
    """A request the server took: what it refused may be no valid history at all."""
    return isinstance(record['request']['body'], dict) and record['response']['status'] == 200


def made_again(record: dict[str, Any], *, stored: bool) -> dict[str, Any]:
    """The recorded request read into our messages and written again."""
    body, family = record['request']['body'], family_of(model_id(record))
    messages = messages_from_converse(body)
    if stored:
        messages = load_json(dump_json(messages))
    memory = Memory(
        Offers(lambda tool, name: tool_spec(tool, name, family)), lambda m, names: entries_of(m, names, family)
    )
    question = Question(model_id(record), messages, RequestInfo(), ModelSettings(), memory, stream=False)
    return request_body(question, family)


@each('converse', has_request)
def test_request(record: dict[str, Any]) -> None:
    for stored in (False, True):
        made = made_again(record, stored=stored)
        assert list(meaning(made)) == list(meaning(record['request']['body']))


def meaning(body: dict[str, Any]) -> Iterator[Any]:
    """What a request says, block by block; a result that is not marked has succeeded.

    Cache points in `system` and `tools` are a setting here (`auto_cache`), no part of the messages. What only stands where
    Converse insists on something (a dot, a blank) says nothing; an empty result is its JSON text here.
    """
    yield [b['text'] for b in body.get('system') or () if b.get('text', '').strip()]
    for message in body['messages']:
        for block in message['content']:
            if 'toolResult' in block:
                result = block['toolResult']
                content = [c for c in result['content'] if c.get('text', 'x').strip()] or [{'text': '""'}]
                said = {**result, 'content': content, 'status': result.get('status', 'success')}
                yield message['role'], json.dumps({'toolResult': said}, sort_keys=True)
            elif block.get('text', 'x').strip(' .\n'):
                yield message['role'], json.dumps(block, sort_keys=True)
