"""Recorded Converse traffic.

python -m tests.providers.bedrock.recorded        one line per record, then a table per provider
"""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import unquote

from agent_graph_providers.bedrock import BedrockModel
from tests.providers.recorded import Traffic, expected_facts, main

__all__ = ['CONVERSE', 'model_id']


def model_id(record: dict[str, Any]) -> str:
    """The model a record's request went to."""
    return unquote(record['request']['path'].split('/')[2])


def _model(record: dict[str, Any], url: str) -> BedrockModel:
    return BedrockModel(model_id(record), base_url=url, api_key='not-a-real-key')


def _wanted(record: dict[str, Any]) -> dict[str, Any]:
    """Two facts are read differently here than by the parser that computed them, and one is not compared.

    Converse's `inputTokens` leaves out what the cache gave or took, `Usage.input_tokens` includes both. The arguments of a
    call are an object in Converse; a stream spells it in pieces of text, and means the same. Which words stand for tools
    that Bedrock ran itself cannot be known where none of the records shows any; that there are none is compared.
    """
    expected: dict[str, Any] = record['expected']
    wanted = expected_facts(record)
    usage: dict[str, Any] = expected['usage'] or {}
    if usage.get('input') is not None:
        wanted['usage.input'] = sum(usage.get(name) or 0 for name in ('input', 'cached_input', 'cache_write'))
    if wanted['server_tools']:
        del wanted['server_tools']
    wanted['tool_calls'] = [
        (c['id'] or '', c['name'], c['args'] if isinstance(c['args'], dict) else c['raw'] or {})
        for c in expected['tool_calls']
    ]
    return wanted


CONVERSE = Traffic('converse', _model, _wanted)

if __name__ == '__main__':
    sys.exit(main(CONVERSE))
