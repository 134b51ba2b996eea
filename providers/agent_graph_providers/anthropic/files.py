"""Files -> content blocks, and back: images, PDFs, texts, files Anthropic already holds, and blocks of other types."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages import FilePart
from agent_graph.messages.media import parse_data_url, shown
from agent_graph_providers.wire.jsontext import decode, encode

__all__ = ['FILE_BLOCKS', 'block_of_file', 'file_of_block', 'needs_bytes']

FILE_BLOCKS = frozenset({'image', 'document', 'container_upload'})
"""The types of blocks that are files; `file_of_block` keeps any other block as a JSON file."""

_IMAGES = frozenset({'image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/*'})
_SAME = {'image/jpg': 'image/jpeg', 'image/pjpeg': 'image/jpeg', 'application/x-pdf': 'application/pdf'}
_PDF = 'application/pdf'
_TEXTS = frozenset(
    'application/json application/xml application/yaml application/x-yaml application/toml application/javascript '
    'application/x-python application/sql application/x-sh application/csv application/x-ndjson'.split()
)
_OPTIONS = ('citations', 'context', 'transformations')
"""Fields of a block beside its source, as `provider_details` may hold them."""


def needs_bytes(file: FilePart) -> bool:
    """Anthropic cannot fetch this address: it goes to `https:` only, for images and PDFs."""
    url = file.url
    if url is None or url[:5].lower() == 'data:':
        return False
    if _is_text(file.media_type):
        return True
    return url[:6].lower() != 'https:' and _kind(file) is not None


def block_of_file(file: FilePart) -> dict[str, Any]:
    """The content block of a file. Raises `MessageError` for a type Anthropic does not take."""
    details = file.provider_details or {}
    if details.get('type') == 'container_upload' and file.file_id is not None:
        return {'type': 'container_upload', 'file_id': file.file_id}
    if isinstance(kept := details.get('block_type'), str) and file.data is not None:
        return _kept(kept, file.data)
    kind = _kind(file)
    if kind is None:
        raise MessageError(
            f'Claude takes no file of type {file.media_type!r}; convert {file.name or "it"} to PNG, JPEG, GIF, WebP, PDF or text'
        )
    block: dict[str, Any] = {'type': kind, 'source': _source(file)}
    if kind == 'document' and file.name:
        block['title'] = file.name
    for option in _OPTIONS:
        if details.get(option) is not None:
            block[option] = details[option]
    return block


def file_of_block(block: Mapping[str, Any]) -> FilePart:
    """The file in a content block. Raises `ValueError` saying what is wrong with it.

    Base64 stays in a `data:` address, so nothing is decoded and nothing changes on the way back. A block that is no file is
    kept as JSON, and goes back as the block it was.
    """
    kind = block.get('type')
    if kind == 'container_upload':
        return FilePart('application/octet-stream', file_id=str(block.get('file_id')), provider_details=dict(block))
    if kind not in FILE_BLOCKS:
        return _as_json(block)
    source = block.get('source')
    if not isinstance(source, Mapping):
        raise ValueError(f'the block {shown(block)} has no source')
    fields = cast(Mapping[str, Any], source)
    details = {name: block[name] for name in _OPTIONS if block.get(name) is not None}
    title = block.get('title')
    return _file(str(kind), fields, title if isinstance(title, str) else None, details or None)


def _file(kind: str, source: Mapping[str, Any], name: str | None, details: dict[str, Any] | None) -> FilePart:
    way, media_type = source.get('type'), source.get('media_type')
    assumed = 'image/*' if kind == 'image' else _PDF
    if way == 'base64':
        return FilePart(
            str(media_type),
            url=f'data:{media_type};base64,{source.get("data")}',
            name=name,
            provider_details=details,
        )
    if way == 'text':
        return FilePart(
            'text/plain', data=str(source.get('data')).encode('utf-8', 'replace'), name=name, provider_details=details
        )
    if way == 'url':
        return FilePart(assumed, url=str(source.get('url')), name=name, provider_details=details)
    if way == 'file':
        return FilePart(assumed, file_id=str(source.get('file_id')), name=name, provider_details=details)
    block: dict[str, Any] = {'type': kind, 'source': source, **(details or {}), **({'title': name} if name else {})}
    return _as_json(block)


def _as_json(block: Mapping[str, Any]) -> FilePart:
    plain = {name: value for name, value in block.items() if name != 'cache_control'}
    return FilePart('application/json', data=encode(plain), provider_details={'block_type': str(block.get('type'))})


def _kept(kind: str, data: bytes) -> dict[str, Any]:
    """A block that was kept as JSON."""
    try:
        found: Any = decode(data)
    except ValueError:
        found = None
    block = cast(dict[str, Any], found) if isinstance(found, dict) else {}
    if block.get('type') != kind:
        raise MessageError(
            f'a file says that it is a block of type {kind!r}, but holds {shown(data)}; leave block_type out'
        )
    return block


def _plain(media_type: str) -> str:
    media_type = media_type.partition(';')[0].strip().lower()
    return _SAME.get(media_type, media_type)


def _kind(file: FilePart) -> str | None:
    media_type = _plain(file.media_type)
    if media_type in _IMAGES:
        return 'image'
    return 'document' if media_type == _PDF or _is_text(media_type) else None


def _is_text(media_type: str) -> bool:
    media_type = _plain(media_type)
    return media_type.startswith('text/') or media_type in _TEXTS or media_type.endswith(('+json', '+xml', '+yaml'))


def _source(file: FilePart) -> dict[str, Any]:
    if file.file_id is not None:
        return {'type': 'file', 'file_id': file.file_id}
    if _is_text(file.media_type):
        return {'type': 'text', 'media_type': 'text/plain', 'data': _decoded(file)}
    url = file.url or ''
    if (inline := parse_data_url(url)) is not None:
        said = _plain(inline[0])
        return _base64(said if said in _IMAGES or said == _PDF else file.media_type, inline[1])
    if file.data is not None or url[:5].lower() == 'data:':
        data = _bytes(file)
        return _base64(_exact(file.media_type, data), b64encode(data).decode())
    return {'type': 'url', 'url': url}


def _base64(media_type: str, data: str) -> dict[str, Any]:
    return {'type': 'base64', 'media_type': _plain(media_type), 'data': data}


def _exact(media_type: str, data: bytes) -> str:
    if '*' not in media_type:
        return media_type
    from agent_graph_providers.fetch.media_type import sniff  # loads the fetcher, so not before there is a need

    return sniff(data) or media_type


def _bytes(file: FilePart) -> bytes:
    if file.data is not None:
        return file.data
    from agent_graph_providers.fetch.data_url import read_data_url

    return read_data_url(file.url or 'data:,')


def _decoded(file: FilePart) -> str:
    data = _bytes(file)
    try:
        return data.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        raise MessageError(
            f'the file {file.name or file.media_type!r} is not UTF-8 text ({error}); encode it so, or send it as PDF'
        ) from error
