"""Where the tests keep a cache."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / 'folder').mkdir()
    return tmp_path / 'folder' / 'cache.db'
