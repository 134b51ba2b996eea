"""Every recorded conversation with Ollama's own API runs through an Agent against the replay server to its recorded end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from agent_graph_providers.ollama import OllamaModel, messages_from_ollama
from tests.providers.conversations import Dialect, Result, each_conversation, play


def model(record: dict[str, Any], url: str) -> OllamaModel:
    return OllamaModel(record['request']['body']['model'], base_url=url)


def offered(body: dict[str, Any]) -> dict[str, tuple[str | None, dict[str, Any]]]:
    functions = [t['function'] for t in body.get('tools') or ()]
    return {f['name']: (f.get('description'), f.get('parameters') or {}) for f in functions}


def results(body: dict[str, Any]) -> Iterator[Result]:
    for message in body['messages']:
        if message['role'] == 'tool':
            yield message.get('tool_call_id') or '', message.get('tool_name') or '', message['content']


OLLAMA = Dialect('ollama_chat', model, messages_from_ollama, offered, results)


@each_conversation('ollama_chat')
def test_conversation(conversation: dict[str, Any]) -> None:
    asyncio.run(play(OLLAMA, conversation))
