"""Every recorded answer yields the facts computed from its bytes; every recorded request is made again with that meaning."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

from agent_graph.messages import dump_json, load_json
from agent_graph.model import ModelSettings, RequestInfo
from agent_graph_providers.cohere import messages_from_cohere
from agent_graph_providers.cohere.history import entries_of
from agent_graph_providers.cohere.mapping import request_body, tool_form
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Memory, Offers
from tests.providers.cohere.recorded import COHERE
from tests.providers.recorded import each, kind_of, needs_recordings

pytestmark = needs_recordings('cohere_v2')


@each('cohere_v2')
def test_answer(record: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    record_property('recording', ('cohere_v2', record['provider'], kind_of(record)))
    for split in (0, 1) if record['stream'] else (0,):
        got = asyncio.run(COHERE.ask(record, watched=bool(record['stream']), split=split))
        assert COHERE.problems(record, got) == []


def has_request(record: dict[str, Any]) -> bool:
    return isinstance(record['request']['body'], dict) and record['response']['status'] == 200


@each('cohere_v2', has_request)
def test_request(record: dict[str, Any]) -> None:
    body: dict[str, Any] = record['request']['body']
    messages = messages_from_cohere(body)
    for history in (messages, load_json(dump_json(messages))):
        memory = Memory(Offers(tool_form), entries_of)
        question = Question(body['model'], history, RequestInfo(), ModelSettings(), memory, stream=False)
        made = request_body(question)
        assert list(meaning(made)) == list(meaning(body))


def meaning(body: dict[str, Any]) -> Iterator[str]:
    """What a request says; a text may stand alone or in a list, and nothing may be null or left out."""
    yield json.dumps(body.get('documents'), sort_keys=True)
    for message in body['messages']:
        content = message.get('content')
        blocks = [{'type': 'text', 'text': content}] if isinstance(content, str) else content or []
        said = {key: value for key, value in message.items() if value is not None}
        yield json.dumps({**said, 'content': blocks}, sort_keys=True)
