"""Recorded Responses traffic.

python -m tests.providers.responses.recorded        one line per record, then a table per provider
"""

from __future__ import annotations

import sys
from typing import Any

from agent_graph.errors import ModelError, ModelProtocolError
from agent_graph.messages import AssistantMessage
from agent_graph_providers.responses import SERVERS, ResponsesModel
from tests.providers.recorded import Traffic, expected_facts, main

__all__ = ['RESPONSES', 'UNFINISHED', 'server_name']

UNFINISHED = ('queued', 'in_progress')
"""Finish words of responses that are no answer yet; they are played apart (test_recordings.py)."""

_SERVERS = {'azure_openai': 'azure'}


def server_name(record: dict[str, Any]) -> str:
    """Our row for a record's provider; one we have no row for is asked like any server."""
    provider: str = record['provider']
    name = _SERVERS.get(provider, provider)
    return name if name in SERVERS else 'openai_compat'


def _model(record: dict[str, Any], url: str) -> ResponsesModel:
    return ResponsesModel('any', server=server_name(record), base_url=url, api_key='not-a-real-key')


class _Traffic(Traffic):
    """A response that was only put on a list is no answer: it has to be a typed error that names it."""

    def problems(self, record: dict[str, Any], got: AssistantMessage | ModelError) -> list[str]:
        expected = record['expected']
        if expected['finish'] not in UNFINISHED or expected.get('error'):
            return super().problems(record, got)
        told = isinstance(got, ModelProtocolError) and expected['id'] in str(got) and expected['finish'] in str(got)
        return [] if told else [f'{got!r}, expected a ModelProtocolError for a response that is {expected["finish"]}']


RESPONSES = _Traffic('responses', _model, expected_facts)

if __name__ == '__main__':
    sys.exit(main(RESPONSES))
