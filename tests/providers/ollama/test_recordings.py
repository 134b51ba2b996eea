"""Every recorded answer yields the facts computed from its bytes; every recorded request is made again with that meaning."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

from agent_graph.messages import AssistantMessage, TextPart, dump_json, load_json
from agent_graph.model import ModelSettings, RequestInfo
from agent_graph_providers.ollama import messages_from_ollama
from agent_graph_providers.ollama.history import entries_of
from agent_graph_providers.ollama.mapping import request_body, tool_form
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Memory, Offers
from tests.providers.ollama.recorded import OLLAMA
from tests.providers.recorded import each, kind_of, needs_recordings

pytestmark = needs_recordings('ollama_chat')


@each('ollama_chat')
def test_answer(record: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    record_property('recording', ('ollama_chat', record['provider'], kind_of(record)))
    got = asyncio.run(OLLAMA.ask(record, watched=bool(record['stream'])))
    assert OLLAMA.problems(record, got) == []


@each('ollama_chat', lambda r: bool(r['stream']))
def test_single_bytes(record: dict[str, Any]) -> None:
    lines = record['response']['body'].splitlines(keepends=True)
    short = {**record, 'response': {**record['response'], 'body': ''.join(lines[-40:])}}
    text = ''.join(json.loads(line)['message']['content'] for line in lines[-40:])
    whole, single = (asyncio.run(OLLAMA.ask(short, watched=True, split=split)) for split in (10_000, 1))
    assert whole == single and isinstance(whole, AssistantMessage)
    assert ''.join(p.content for p in whole.parts if isinstance(p, TextPart)) == text


def has_request(record: dict[str, Any]) -> bool:
    return isinstance(record['request']['body'], dict) and record['response']['status'] == 200


@each('ollama_chat', has_request)
def test_request(record: dict[str, Any]) -> None:
    body: dict[str, Any] = record['request']['body']
    messages = messages_from_ollama(body)
    for history in (messages, load_json(dump_json(messages))):
        memory = Memory(Offers(tool_form), entries_of)
        question = Question(body['model'], history, RequestInfo(), ModelSettings(), memory, stream=False)
        assert list(meaning(request_body(question))) == list(meaning(body))


def meaning(body: dict[str, Any]) -> Iterator[str]:
    """What a request says; which tool a result is from may be said besides."""
    for message in body['messages']:
        said = {key: value for key, value in message.items() if value is not None and key != 'tool_name'}
        yield json.dumps(said, sort_keys=True)
