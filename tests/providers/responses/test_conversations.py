"""Every recorded Responses conversation runs through an Agent against the replay server to its recorded end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from agent_graph.model import ModelSettings
from agent_graph_providers.responses import ResponsesModel, messages_from_responses
from tests.providers.conversations import Dialect, Result, each_conversation, play
from tests.providers.responses.recorded import server_name


def model(record: dict[str, Any], url: str) -> ResponsesModel:
    body: dict[str, Any] = record['request']['body'] or {}
    name = body.get('model') or 'any'
    return ResponsesModel(name, server=server_name(record), base_url=url, api_key='not-a-key')


def offered(body: dict[str, Any]) -> dict[str, tuple[str | None, dict[str, Any]]]:
    return {
        t['name']: (t.get('description'), t.get('parameters') or {})
        for t in body.get('tools') or ()
        if t['type'] == 'function'
    }


def results(body: dict[str, Any]) -> Iterator[Result]:
    items: list[dict[str, Any]] = [] if isinstance(body['input'], str) else body['input']
    for item in items:
        if item.get('type') in ('function_call_output', 'custom_tool_call_output'):
            output: Any = item['output']
            if not isinstance(output, str):
                output = ''.join(block.get('text') or '' for block in output)
            yield item['call_id'], '', output


def settings(body: dict[str, Any]) -> ModelSettings:
    previous = body.get('previous_response_id')
    return ModelSettings(previous_response_id=previous) if previous else ModelSettings()


RESPONSES = Dialect('responses', model, messages_from_responses, offered, results, settings)


@each_conversation('responses')
def test_conversation(conversation: dict[str, Any]) -> None:
    asyncio.run(play(RESPONSES, conversation))
