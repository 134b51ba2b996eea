"""Counting with tiktoken where that is installed (the extra `tiktoken`) and has its data at hand; it never downloads here.

Left to itself, tiktoken fetches the data of an encoding when it is first used. So before it is asked, its cache is looked
at with its own rules: the file has to be there, whole, under the name tiktoken looks for.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

__all__ = ['Encoder', 'Missing', 'cached_data', 'encoder_for', 'is_countable']

_ADDRESS = 'https://openaipublic.blob.core.windows.net/encodings/'

_DATA = {
    'o200k_base': ('o200k_base', '446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d'),
    'o200k_harmony': ('o200k_base', '446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d'),
    'cl100k_base': ('cl100k_base', '223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7'),
}
"""Encodings of chat models: the file each is made from, and its SHA-256. Source: `tiktoken_ext.openai_public`."""

_lock = threading.Lock()


class Missing(Exception):
    """tiktoken cannot count here; the text says why."""


_OPENAI = re.compile(r'(?:ft:)?(?:chatgpt|codex|curie|davinci|gpt|o\d|text-)')
"""How names of the models begin that tiktoken knows."""


def is_countable(model_name: str) -> bool:
    """Whether the name is one of OpenAI's models; only for those tiktoken has encodings, installed or not."""
    return _OPENAI.match(model_name.rpartition('/')[2]) is not None


class Encoder:
    """Counts the tokens of texts with one encoding."""

    __slots__ = ('_encoding', 'name')

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encoding = encoding
        self.name = encoding.name

    def tokens(self, text: str) -> int:
        """How many tokens a text is; marks such as `<|endoftext|>` in it are text."""
        return len(self._encoding.encode_ordinary(text))


def encoder_for(model_name: str) -> Encoder:
    """The encoder of an OpenAI model, or a fine-tuned one, also behind a prefix such as `openai/`. Raises `Missing`."""
    try:
        from tiktoken.model import encoding_name_for_model
    except ImportError as error:
        raise Missing("tiktoken is not installed: pip install 'agent-graph[tiktoken]'") from error
    try:
        name = encoding_name_for_model(model_name.rpartition('/')[2])
    except KeyError:
        raise Missing(f'tiktoken knows no encoding of {model_name!r}') from None
    with _lock:  # making one takes half a second: once is enough
        return _encoder(name)


@lru_cache(maxsize=8)
def _encoder(name: str) -> Encoder:
    from tiktoken import registry

    if name not in registry.ENCODINGS:
        cached_data(name, os.environ)
    return Encoder(registry.get_encoding(name))


def cached_data(name: str, environ: Mapping[str, str]) -> Path:
    """The file in tiktoken's cache that holds the data of encoding `name`. Raises `Missing`; nothing is changed."""
    known = _DATA.get(name)
    if known is None:
        raise Missing(f'where tiktoken keeps the data of {name!r} is not known here; load that encoding before')
    data, digest = known
    folder = environ.get('TIKTOKEN_CACHE_DIR', environ.get('DATA_GYM_CACHE_DIR'))
    if folder == '':
        raise Missing('the cache of tiktoken is turned off, so it would download; set TIKTOKEN_CACHE_DIR to a folder')
    path = Path(folder or Path(tempfile.gettempdir(), 'data-gym-cache'))
    path /= hashlib.sha1(f'{_ADDRESS}{data}.tiktoken'.encode(), usedforsecurity=False).hexdigest()
    try:
        found = _sha256(path)
    except OSError:
        raise Missing(
            f'tiktoken has no data of {name!r} in {str(path.parent)!r}; run tiktoken.get_encoding({name!r}) once, '
            'where there is a network'
        ) from None
    if found != digest:
        raise Missing(f"tiktoken's data of {name!r} in {str(path)!r} is damaged; remove that file")
    return path


def _sha256(path: Path) -> str:
    with path.open('rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()
