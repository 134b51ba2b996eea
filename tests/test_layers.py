"""Imports go down only; the contracts are in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_layers_hold(capsys: pytest.CaptureFixture[str]) -> None:
    cli = pytest.importorskip('importlinter.cli', reason='import-linter is not installed; it is in the group "test"')
    code = cli.lint_imports(config_filename=str(ROOT / 'pyproject.toml'), no_cache=True)
    assert code == 0, capsys.readouterr().out
