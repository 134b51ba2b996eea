"""Recorded Messages traffic.

python -m tests.providers.anthropic.recorded        one line per record, then a table
"""

from __future__ import annotations

import sys
from typing import Any

from agent_graph.model import ResponseBuilder
from agent_graph_providers.anthropic import ANTHROPIC, AnthropicModel
from agent_graph_providers.anthropic.answer import Answer
from agent_graph_providers.anthropic.model import MessagesWire
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.model import HttpModel, Question
from tests.providers.recorded import Traffic, expected_facts, main

__all__ = ['MESSAGES', 'returned_tools']


class _UpToThePause(MessagesWire):
    """Reads an answer that pauses as it stands: a record holds no more of it."""

    def answer(self, question: Question, out: ResponseBuilder, asked: Asked) -> Answer:
        return Answer(out, asked, back=question.memory.offer.back)


def _model(record: dict[str, Any], url: str) -> HttpModel:
    if record['expected']['finish'] == 'pause_turn':
        return HttpModel('claude-any', ANTHROPIC, _UpToThePause('anthropic'), base_url=url, api_key='not-a-key')
    return AnthropicModel('claude-any', base_url=url, api_key='not-a-real-key')


def _wanted(record: dict[str, Any]) -> dict[str, Any]:
    """Two facts are put in other words here than by the parser that computed them.

    `input_tokens` of the API leave out what the cache read and wrote, ours take both in. Of the items the provider ran
    itself the calls are compared here; what they returned, and sealed thinking, are `returned_tools`.
    """
    expected: dict[str, Any] = record['expected']
    wanted = expected_facts(record)
    usage: dict[str, int | None] = expected['usage'] or {}
    if 'usage.input' in wanted:
        wanted['usage.input'] += (usage['cached_input'] or 0) + (usage['cache_write'] or 0)
    back = set(returned_tools(record))
    wanted['server_tools'] = [name for name in wanted['server_tools'] if name not in back]
    return wanted


def returned_tools(record: dict[str, Any]) -> list[str]:
    """The types of the items that are no calls, in order."""
    names: list[str] = record['expected']['server_tools'] or []
    return [name for name in names if name.endswith('_tool_result') or name == 'redacted_thinking']


MESSAGES = Traffic('messages', _model, _wanted)

if __name__ == '__main__':
    sys.exit(main(MESSAGES))
