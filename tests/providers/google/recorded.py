"""Recorded `generateContent` traffic, of the Gemini API and of Vertex.

python -m tests.providers.google.recorded        one line per record, then a table per provider
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from agent_graph_providers.google import GoogleModel, GoogleVertexModel
from tests.providers.recorded import Traffic, expected_facts, main

__all__ = ['API', 'GOOGLE', 'events', 'model_name', 'model_of']

API = 'generate_content'
KEY = 'not-a-real-key'


def model_name(record: dict[str, Any]) -> str:
    """The model a record's path names; a recent one where there is none."""
    found = re.search(r'models/([^/:]+):', record['request']['path'] or '')
    return found[1] if found else 'gemini-3-flash-preview'


def model_of(record: dict[str, Any], url: str) -> GoogleModel | GoogleVertexModel:
    """The model that asks for a record; Vertex in express mode, which differs in the path alone."""
    if record['provider'] == 'google_vertex':
        return GoogleVertexModel(model_name(record), base_url=url, api_key=KEY)
    return GoogleModel(model_name(record), base_url=url, api_key=KEY)


def events(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of an answer: the events of a stream, the items of an array, or the one there is."""
    response = record['response']
    if 'sse' in response:
        lines = response['sse'].replace('\r\n', '\n').split('\n')
        return [json.loads(line[5:]) for line in lines if line.startswith('data:')]
    body: list[dict[str, Any]] | dict[str, Any] = json.loads(response['body'])
    return body if isinstance(body, list) else [body]


def _wanted(record: dict[str, Any]) -> dict[str, Any]:
    """Three facts are read differently here than by the parser that computed them.

    Gemini counts thinking beside the output, and what its tools brought in beside the input; ours are the sums. Results of
    its own tools are parts of another kind than the calls, so only the calls are compared here.
    """
    wanted = expected_facts(record)
    used: dict[str, Any] = {}
    for event in events(record) if record['response']['status'] == 200 else ():
        used.update(event.get('usageMetadata') or {})
    if 'usage.input' in wanted:
        wanted['usage.input'] += used.get('toolUsePromptTokenCount', 0)
    if 'usage.output' in wanted:
        wanted['usage.output'] += record['expected']['usage']['reasoning'] or 0
    wanted['server_tools'] = [name for name in wanted['server_tools'] if name in ('executableCode', 'toolCall')]
    return wanted


GOOGLE = Traffic(API, model_of, _wanted)

if __name__ == '__main__':
    sys.exit(main(GOOGLE))
