"""Recorded Cohere traffic.

python -m tests.providers.cohere.recorded        one line per record, then a table per provider
"""

from __future__ import annotations

import sys
from typing import Any

from agent_graph_providers.cohere import CohereModel
from tests.providers.recorded import Traffic, expected_facts, main

__all__ = ['COHERE']


def _model(_: dict[str, Any], url: str) -> CohereModel:
    return CohereModel('any', base_url=url, api_key='not-a-real-key')


COHERE = Traffic('cohere_v2', _model, expected_facts)

if __name__ == '__main__':
    sys.exit(main(COHERE))
