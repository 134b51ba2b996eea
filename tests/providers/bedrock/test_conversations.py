"""Every recorded Converse conversation runs through an Agent against the replay server to its recorded end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from agent_graph_providers.bedrock import BedrockModel, messages_from_converse
from tests.providers.bedrock.recorded import model_id
from tests.providers.conversations import Dialect, Result, each_conversation, play


def model(record: dict[str, Any], url: str) -> BedrockModel:
    return BedrockModel(model_id(record), base_url=url, api_key='not-a-key')


def offered(body: dict[str, Any]) -> dict[str, tuple[str | None, dict[str, Any]]]:
    config: dict[str, Any] = body.get('toolConfig') or {}
    specs: list[dict[str, Any]] = [t['toolSpec'] for t in config.get('tools') or () if 'toolSpec' in t]
    return {s['name']: (s.get('description'), s['inputSchema']['json']) for s in specs}


def results(body: dict[str, Any]) -> Iterator[Result]:
    for message in body['messages']:
        for block in message['content']:
            if 'toolResult' in block:
                result = block['toolResult']
                content = [b.get('json', b.get('text', '')) for b in result['content']]
                yield result['toolUseId'], '', content[0] if len(content) == 1 else content


CONVERSE = Dialect('converse', model, messages_from_converse, offered, results)


@each_conversation('converse')
def test_conversation(conversation: dict[str, Any]) -> None:
    asyncio.run(play(CONVERSE, conversation))
