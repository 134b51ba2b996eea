"""Where the tests keep a cache."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'folder' / 'cache.db'
