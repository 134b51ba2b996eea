"""Makes the suite's assertions explain themselves."""

from __future__ import annotations

import pytest

for name in ('suite', 'kit', 'sharing'):
    pytest.register_assert_rewrite(f'agent_graph.testing.journal_{name}')
