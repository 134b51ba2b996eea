"""Every recorded answer goes through the adapter over loopback HTTP and yields the facts computed from its bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_graph.errors import MessageError, ModelHTTPError
from agent_graph.messages import AssistantMessage, TextPart, ToolCallPart, UserMessage, from_openai
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph_providers.openai import SERVERS, OpenAIModel
from agent_graph_providers.openai.answer import Answer
from agent_graph_providers.openai.mapping import form_of, request_body, tool_form
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.offers import Memory, Offers
from agent_graph_providers.wire.reading import read_answer
from tests.providers.loopback import Loopback, Reply, cut
from tests.providers.openai.recorded import CHAT, server_name
from tests.providers.recorded import FOLDER, each, kind_of, needs_recordings

pytestmark = needs_recordings('chat')


@each('chat')
def test_answer(record: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    record_property('recording', ('chat', record['provider'], kind_of(record)))
    got = asyncio.run(CHAT.ask(record, watched=bool(record['stream'])))
    assert CHAT.problems(record, got) == []


LOCAL = sorted((FOLDER / 'local').glob('*.response.http'))
CALL = 'get_weather'
EXPECTED_LOCAL: dict[str, tuple[str, list[tuple[str, str]], str | int]] = {
    'qwen05_01': ('', [(CALL, '{"city": "Paris"}')], 'tool_calls'),
    'qwen05_02': ('', [(CALL, '{"city": "Paris"}')], 'tool_calls'),
    'qwen05_03': ('', [('add', '{"a": 2, "b": 40}')], 'tool_calls'),
    'qwen05_04': ('The temperature in Paris is 11 degrees Celsius and the sky is cloudy.', [], 'stop'),
    'qwen05_05': ('The temperature in Paris is 11 degrees Celsius and the sky is cloudy.', [], 'stop'),
    'qwen05_06': ('{\n  "name": "Ann",\n  "age": 20\n}', [], 'stop'),
    'qwen05_07': ('Invalid tool_choice: sometimes', [], 400),
    'qwen05_08': ('The model produced output that does not match the expected peg-native format', [], 500),
}
"""Text (or what the error says), calls, and finish reason (or status), read off the files by hand."""


@pytest.mark.parametrize('path', LOCAL, ids=[p.name for p in LOCAL])
def test_local_server(path: Path) -> None:
    """Every byte a llama.cpp server sent, status line and chunk framing included."""
    raw = path.read_bytes()

    async def main() -> AssistantMessage | ModelHTTPError:
        async with Loopback([Reply(cut(raw, 7), framing='raw')]) as server:
            out = ResponseBuilder()
            try:
                await OpenAIModel('m', server='llamacpp', base_url=server.url).respond(
                    [UserMessage('x')], RequestInfo(), out
                )
            except ModelHTTPError as error:
                return error
            return out.build()

    got = asyncio.run(main())
    text, calls, end = EXPECTED_LOCAL[path.name[:9]]
    if isinstance(got, ModelHTTPError):
        assert got.status == end and text in str(got)
        return
    assert ''.join(p.content for p in got.parts if isinstance(p, TextPart)) == text
    assert [(p.tool_name, p.args) for p in got.parts if isinstance(p, ToolCallPart)] == calls
    assert got.finish_reason == end
    assert got.usage.output_tokens > 0 or b'"usage"' not in raw


class OneByteAtATime:
    """A response whose body comes in single bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.headers = {'content-type': 'text/event-stream'}

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        for byte in self._body:
            yield bytes([byte])

    async def aread(self) -> bytes:
        return self._body

    async def aclose(self) -> None:
        """Nothing is open."""


@each('chat', lambda r: 'sse' in r['response'] and not r['expected']['error'] and len(r['response']['sse']) < 60_000)
def test_single_bytes(record: dict[str, Any]) -> None:
    async def main() -> list[str]:
        out = ResponseBuilder()
        think = SERVERS[server_name(record)].think_tags
        answer = Answer(out, Asked('p', 'm', '', None, ''), back={}, known=frozenset(), think_tags=think)
        await read_answer(
            OneByteAtATime(record['response']['sse'].encode()), answer, Asked('p', 'm', '', None, ''), None
        )
        await out.finish()
        return CHAT.problems(record, out.build())

    assert asyncio.run(main()) == []


def has_request(record: dict[str, Any]) -> bool:
    """A request the server took: what it refused may be no valid list at all."""
    body = record['request']['body']
    return isinstance(body, dict) and bool(body.get('messages')) and record['response']['status'] == 200  # pyright: ignore


@each('chat', has_request)
def test_request(record: dict[str, Any]) -> None:
    """The recorded messages, read into ours and written again for that server, say the same."""
    server = SERVERS[server_name(record)]
    recorded = record['request']['body']['messages']
    body = request_body(
        'm',
        server,
        Memory(Offers(tool_form(server)), form_of(server)),
        from_openai(recorded),
        RequestInfo(),
        {},
        stream=False,
    )
    assert meaning(body['messages'], server.thinking) == meaning(recorded, server.thinking)


def test_refused_list_is_refused_here_too() -> None:
    """Content parts without a type, for which a server answered 400 (one of the recordings)."""
    bad = [{'role': 'user', 'content': [{'role': 'user', 'content': 'hi'}]}]
    with pytest.raises(MessageError, match='message 0'):
        from_openai(bad)


def meaning(messages: list[dict[str, Any]], thinking: frozenset[str]) -> list[tuple[Any, ...]]:
    """A list reduced to what it says: texts, files, calls and results, in order; notation and vendors' extras left out."""
    out: list[tuple[Any, ...]] = []
    for message in messages:
        role = {'developer': 'system'}.get(message['role'], message['role'])
        content = said(message.get('content'))
        fields = sorted(thinking & {'reasoning', 'reasoning_content', 'reasoning_details'})
        out += [(name, message[name]) for name in fields if message.get(name)]
        if role == 'tool':
            content: list[tuple[Any, ...]] = [
                ('call', message['tool_call_id']),
                ('text', ''.join(c[1] for c in content)),
            ]
        for call in message.get('tool_calls') or ():
            function = call['function']
            content.append((call['id'], function['name'], function['arguments'] or '{}'))
        if message.get('refusal'):
            content.append(('refusal', message['refusal']))
        if role == 'assistant' and not any(c[-1] for c in content):
            continue  # nothing in it: not sent
        out += [(role, *c) for c in content if role != 'assistant' or c[-1].strip()]
    return out


def said(content: Any) -> list[tuple[Any, ...]]:
    if content is None:
        return []
    if isinstance(content, str):
        return [('text', content)]
    out: list[tuple[Any, ...]] = []
    for part in content:
        kind = part['type']
        inner = part[kind] if kind != 'text' else part['text']
        if kind == 'thinking':
            inner = ''.join(t['text'] for t in inner)
        elif kind != 'text' and isinstance(inner, dict):
            fields: dict[str, str] = inner  # pyright: ignore[reportUnknownVariableType]
            inner = ' '.join(f'{k}={v}' for k, v in sorted(fields.items()))
        out.append((kind, inner))
    return out
