"""Every recorded conversation with Cohere runs through an Agent against the replay server to its recorded end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from agent_graph_providers.cohere import CohereModel, messages_from_cohere
from tests.providers.conversations import Dialect, Result, each_conversation, play


def model(record: dict[str, Any], url: str) -> CohereModel:
    return CohereModel(record['request']['body']['model'], base_url=url, api_key='not-a-key')


def offered(body: dict[str, Any]) -> dict[str, tuple[str | None, dict[str, Any]]]:
    functions = [t['function'] for t in body.get('tools') or ()]
    return {f['name']: (f.get('description'), f.get('parameters') or {}) for f in functions}


def results(body: dict[str, Any]) -> Iterator[Result]:
    for message in body['messages']:
        if message['role'] == 'tool':
            yield message['tool_call_id'], '', message['content']


COHERE = Dialect('cohere_v2', model, messages_from_cohere, offered, results)


@each_conversation('cohere_v2')
def test_conversation(conversation: dict[str, Any]) -> None:
    asyncio.run(play(COHERE, conversation))
