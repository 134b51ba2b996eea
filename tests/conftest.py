"""What every test has: the asyncio backend, steady hypothesis, and no keys from the surroundings."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# The suites for the contracts are part of the package; before anything imports them, so that their asserts explain themselves.
for part in ('journal_suite', 'journal_kit', 'journal_sharing'):
    pytest.register_assert_rewrite(f'agent_graph.testing.{part}')
for part in ('model_suite', 'model_kit', 'model_failing', 'model_requests', 'model_sharing'):
    pytest.register_assert_rewrite(f'agent_graph.testing.{part}')

# Times vary on busy machines, so no deadline; in CI the examples are the same every time.
settings.register_profile('local', deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile('ci', settings.get_profile('local'), derandomize=True, print_blob=True)
settings.load_profile('ci' if os.environ.get('CI') else 'local')


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes are named by their length: packed ones hold the time, and the workers of one run must agree on the names."""
    return f'{len(val)} bytes' if isinstance(val, bytes) else None


@pytest.fixture
def anyio_backend() -> str:
    """For tests marked `anyio`: plain asyncio, the one the engine runs on."""
    return 'asyncio'


@pytest.fixture(autouse=True, scope='session')
def no_keys() -> Iterator[None]:
    """Keys and addresses of real providers are not seen by any test, nor by the processes it starts."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.endswith(('_API_KEY', '_BASE_URL')) or name.startswith(('OTEL_', 'LOGFIRE_')):
                patch.delenv(name)
        yield
