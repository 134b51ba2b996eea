"""Recorded Chat Completions traffic.

python -m tests.providers.openai.recorded        one line per record, then a table per provider
"""

from __future__ import annotations

import re
import sys
from typing import Any

from agent_graph_providers.openai import SERVERS, OpenAIModel
from tests.providers.recorded import Traffic, expected_facts, main

__all__ = ['CHAT', 'server_name']

_SERVERS = {'azure_openai': 'azure', 'ollama': 'ollama_openai'}
_THINK = re.compile(r'<think>(.*?)(?:</think>|\Z)', re.DOTALL)


def server_name(record: dict[str, Any]) -> str:
    """Our row for a record's provider; one we have no row for is asked like any server."""
    provider: str = record['provider']
    name = _SERVERS.get(provider, provider)
    return name if name in SERVERS else 'openai_compat'


def _model(record: dict[str, Any], url: str) -> OpenAIModel:
    return OpenAIModel('any', server=server_name(record), base_url=url, api_key='not-a-real-key')


def _wanted(record: dict[str, Any]) -> dict[str, Any]:
    """Three facts are read differently here than by the parser that computed them.

    Reasoning between `<think>` tags counts as reasoning where servers leave the tags in. An empty `function_call` without
    a name is no call. Reasoning that came in `reasoning_details` alone may stand where that parser did not look.
    """
    expected: dict[str, Any] = record['expected']
    wanted, text = expected_facts(record), expected['text']
    tags = SERVERS[server_name(record)].think_tags
    tagged: list[str] = _THINK.findall(text) if tags else []
    wanted['text'] = _THINK.sub('', text) if tags else text
    wanted['thinking'] = (expected['thinking'] or '') + ''.join(tagged)
    if not expected['thinking'] and 'reasoning_details' in str(record['response']):
        del wanted['thinking']
    wanted['tool_calls'] = [
        (c['id'] or '', c['name'], c['raw'] or c['args'] or '') for c in expected['tool_calls'] if c['name']
    ]
    del wanted['server_tools']  # what servers ran themselves stays in the details
    return wanted


CHAT = Traffic('chat', _model, _wanted)

if __name__ == '__main__':
    sys.exit(main(CHAT))
