"""Every recorded conversation runs through an Agent against the replay server to its recorded end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from agent_graph.model import ModelSettings
from agent_graph_providers.anthropic import AnthropicModel, messages_from_anthropic
from tests.providers.anthropic.asked import own_tools, question_of
from tests.providers.conversations import Dialect, Result, each_conversation, play


def model(record: dict[str, Any], url: str) -> AnthropicModel:
    return AnthropicModel(record['request']['body']['model'], base_url=url, api_key='not-a-key')


def offered(body: dict[str, Any]) -> dict[str, tuple[str | None, dict[str, Any]]]:
    return {tool.name: (tool.description, tool.parameters) for tool in own_tools(body)}


def results(body: dict[str, Any]) -> Iterator[Result]:
    for message in messages_from_anthropic(body):
        if message.kind == 'tool':
            for part in message.parts:
                yield part.tool_call_id, part.tool_name, part.content


def settings(body: dict[str, Any]) -> ModelSettings:
    """The settings of the recorded requests, whose tools of the provider's own decide how they go."""
    return question_of(body)[2]


MESSAGES = Dialect('messages', model, messages_from_anthropic, offered, results, settings)


@each_conversation('messages')
def test_conversation(conversation: dict[str, Any]) -> None:
    asyncio.run(play(MESSAGES, conversation))
