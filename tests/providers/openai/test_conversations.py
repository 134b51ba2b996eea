"""Every recorded chat conversation runs through an Agent against the replay server to its recorded end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from agent_graph.messages import from_openai
from agent_graph_providers.openai import OpenAIModel
from tests.providers.conversations import Dialect, Result, each_conversation, play
from tests.providers.openai.recorded import server_name


def model(record: dict[str, Any], url: str) -> OpenAIModel:
    name = record['request']['body'].get('model') or 'any'
    return OpenAIModel(name, server=server_name(record), base_url=url, api_key='not-a-key')


def offered(body: dict[str, Any]) -> dict[str, tuple[str | None, dict[str, Any]]]:
    functions = [t['function'] for t in body.get('tools') or () if 'function' in t]
    return {
        f['name']: (f.get('description'), f.get('parameters') or {})
        for f in [*functions, *(body.get('functions') or ())]
    }


def results(body: dict[str, Any]) -> Iterator[Result]:
    for message in body['messages']:
        if message['role'] in ('tool', 'function'):
            yield message.get('tool_call_id') or '', '', message['content']


CHAT = Dialect('chat', model, lambda body: from_openai(body['messages']), offered, results)


@each_conversation('chat')
def test_conversation(conversation: dict[str, Any]) -> None:
    asyncio.run(play(CHAT, conversation))
