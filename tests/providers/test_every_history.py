"""A history made with one provider can be sent to every other.

Every recorded conversation, read as it was sent and with its last answer added, goes through the request builders of all
protocols. What must hold there: each call is answered once, right after it, under one id; tools are named as they are offered;
and nothing that only its maker understands (signatures, encrypted reasoning, items of its own tools) is sent to anybody else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from agent_graph.errors import MessageError, ModelHTTPError
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    FilePart,
    Message,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
    dump_json,
    is_valid,
    load_json,
    repair,
)
from agent_graph.model import RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph.testing.model_suite import HTTPModelSuite, Seen
from tests.providers.conversations import Dialect, conversations
from tests.providers.loopback import Loopback, json_reply
from tests.providers.recorded import Traffic, records

MADE = {
    'chat': ('openai', 'CHAT', 'CHAT'),
    'responses': ('responses', 'RESPONSES', 'RESPONSES'),
    'messages': ('anthropic', 'MESSAGES', 'MESSAGES'),
    'generate_content': ('google', 'GOOGLE', 'GOOGLE'),
    'converse': ('bedrock', 'CONVERSE', 'CONVERSE'),
    'cohere_v2': ('cohere', 'COHERE', 'COHERE'),
    'ollama_chat': ('ollama', 'OLLAMA', 'OLLAMA'),
}
"""For each API: the folder of its tests, and how its `Traffic` and its `Dialect` are called there."""

ASKED = {
    'chat': ('openai', 'TestOpenAI'),
    'mistral': ('openai', 'TestMistral'),
    'responses': ('responses', 'TestOpenAI'),
    'messages': ('anthropic', 'TestAnthropic'),
    'generate_content': ('google', 'TestGoogle'),
    'converse': ('bedrock', 'TestBedrock'),
    'cohere_v2': ('cohere', 'TestCohere'),
    'ollama_chat': ('ollama', 'TestOllama'),
}
"""For each protocol that is sent a history: whose hooks read its requests."""


def suite(name: str) -> HTTPModelSuite:
    folder, kind = ASKED[name]
    return getattr(import_module(f'tests.providers.{folder}.test_suite'), kind)()


@cache
def made(api: str, conversation: str) -> tuple[tuple[Message, ...], tuple[ToolDefinition, ...]]:
    """The whole history of a conversation, its last answer and what answers that included; and the tools offered."""
    folder, traffic_name, dialect_name = MADE[api]
    traffic: Traffic = getattr(import_module(f'tests.providers.{folder}.recorded'), traffic_name)
    dialect: Dialect = getattr(import_module(f'tests.providers.{folder}.test_conversations'), dialect_name)
    found = next(c for c in conversations(api) if c['conversation'] == conversation)
    last = {r['id']: r for r in records(api)}[found['record_ids'][-1]]
    body: dict[str, Any] = last['request']['body']
    history = [_offline(m) for m in repair(dialect.history(body))]
    answer = asyncio.run(traffic.ask(last, watched=last['stream']))
    if isinstance(answer, AssistantMessage):
        history.append(answer)
        calls = [p for p in answer.parts if isinstance(p, ToolCallPart)]
        if calls:
            history.append(ToolMessage([ToolReturnPart(c.tool_name, 'done', c.tool_call_id) for c in calls]))
        else:
            history.append(UserMessage('Go on.'))
    tools = tuple(
        ToolDefinition(name, description or '', schema or {'type': 'object', 'properties': {}})
        for name, (description, schema) in dialect.offered(body).items()
    )
    return tuple(history), tools


def _offline(message: Message) -> Message:
    """Files at addresses become bytes: nothing is fetched here."""
    if not isinstance(message, UserMessage) or isinstance(message.content, str):
        return message
    return UserMessage([_bytes(i) if isinstance(i, FilePart) and i.url else i for i in message.content])


def _bytes(file: FilePart) -> FilePart:
    if file.url is None or file.url.startswith('data:'):
        return file
    return FilePart(file.media_type.replace('*', 'png'), data=b'bytes', name=file.name)


EVERY = [(api, c['conversation'], c['provider']) for api in MADE for c in conversations(api)]


@pytest.mark.skipif(not EVERY, reason='no recorded conversations; set AGENT_GRAPH_RECORDINGS to a folder of recordings')
@pytest.mark.parametrize('target', ASKED)
@pytest.mark.parametrize(('api', 'conversation'), [e[:2] for e in EVERY], ids=[f'{e[2]}-{e[0]}-{e[1]}' for e in EVERY])
def test_a_recorded_history_goes_everywhere(api: str, conversation: str, target: str) -> None:
    history, tools = made(api, conversation)
    assert is_valid(history)
    hooks = suite(target)
    again = load_json(dump_json(history))
    assert again == list(history)
    try:
        seen = asyncio.run(sent(hooks, again, tools))
    except MessageError:
        if not any(files(history)):
            raise
        return  # files are all that may be refused
    check(hooks, seen, history, tools, own=target)


async def sent(hooks: HTTPModelSuite, history: Sequence[Message], tools: tuple[ToolDefinition, ...]) -> Seen:
    """The request for this history, which the server then refuses."""
    async with Loopback([json_reply({'error': {'message': 'seen'}}, status=418)]) as server:
        model = hooks.model(server.url.removesuffix('/v1'), 'not-a-real-key')
        with pytest.raises(ModelHTTPError):
            await model.respond(history, RequestInfo(tools=tools), ResponseBuilder())
        (request,) = server.requests
        return Seen(request.path, request.body, request.headers, request.method)


def check(
    hooks: HTTPModelSuite, seen: Seen, history: Sequence[Message], tools: tuple[ToolDefinition, ...], *, own: str
) -> None:
    ids, names = hooks.ids_in(seen), hooks.names_in(seen)
    assert ids is not None and names is not None
    called, answered = ids
    assert list(called) == list(answered)
    calls = sum(isinstance(p, ToolCallPart) for m in history if isinstance(m, AssistantMessage) for p in m.parts)
    assert len(called) == calls
    if any(called):
        assert len(set(called)) == len(called)
    # Some want every tool that was ever called to be offered still.
    assert len(names) == len(tools) or (len(names) > len(tools) and calls)
    text = seen.body.decode()
    owners = maker_of(own)
    for message in history:
        if isinstance(message, AssistantMessage) and message.provider_name not in owners:
            for secret in sealed(message):
                assert secret not in text, f'{message.provider_name} gave {secret[:60]!r}'


def maker_of(target: str) -> tuple[str | None, ...]:
    """The names under which a protocol's own answers are known."""
    return {
        'chat': ('openai', None),
        'responses': ('openai', None),
        'messages': ('anthropic', None),
        'generate_content': ('google', None),
        'converse': ('aws', 'bedrock', None),
        'cohere_v2': ('cohere', None),
        'ollama_chat': ('ollama', None),
        'mistral': ('mistral', None),
    }[target]


def sealed(message: AssistantMessage) -> Iterator[str]:
    """Texts of a response that mean something to its maker alone."""
    for part in message.parts:
        if isinstance(part, ThinkingPart) and part.signature:
            yield part.signature
        details: Any = part.provider_details or {}
        for text in _long_texts(details):
            if isinstance(part, BuiltinToolCallPart | BuiltinToolReturnPart | ThinkingPart | ToolCallPart):
                yield text


def _long_texts(value: Any, key: str = '') -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _long_texts(inner, str(name))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _long_texts(inner, key)
    elif isinstance(value, str) and len(value) > 40 and ('encrypted' in key or 'ignature' in key or key == 'data'):
        yield json.dumps(value)[1:-1]


def files(history: Sequence[Message]) -> Iterator[FilePart]:
    for message in history:
        inside: Sequence[Any] = ()
        if isinstance(message, UserMessage) and not isinstance(message.content, str):
            inside = message.content
        elif isinstance(message, ToolMessage):
            inside = [item for part in message.parts for item in part.extra_content]
        elif isinstance(message, AssistantMessage):
            inside = message.parts
        yield from (item for item in inside if isinstance(item, FilePart))
