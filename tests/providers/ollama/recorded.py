"""Recorded traffic of Ollama's own API.

python -m tests.providers.ollama.recorded        one line per record, then a table per provider
"""

from __future__ import annotations

import re
import sys
from typing import Any

from agent_graph_providers.ollama import OllamaModel
from tests.providers.recorded import Traffic, expected_facts, main

__all__ = ['OLLAMA']

_THINK = re.compile(r'<think>(.*?)(?:</think>|\Z)', re.DOTALL)


def _model(_: dict[str, Any], url: str) -> OllamaModel:
    return OllamaModel('any', base_url=url)


def _wanted(record: dict[str, Any]) -> dict[str, Any]:
    """One fact is read differently here: reasoning between `<think>` tags, which old servers leave in, is no text."""
    wanted = expected_facts(record)
    tagged: list[str] = _THINK.findall(wanted['text'])
    wanted['text'] = _THINK.sub('', wanted['text'])
    wanted['thinking'] += ''.join(tagged)
    return wanted


OLLAMA = Traffic('ollama_chat', _model, _wanted)

if __name__ == '__main__':
    sys.exit(main(OLLAMA))
