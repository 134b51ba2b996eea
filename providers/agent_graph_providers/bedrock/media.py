"""Files: `FilePart` -> Converse's blocks, and what their formats are called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages import FilePart
from agent_graph_providers.bedrock.notes import mapping

__all__ = ['BLOCK', 'EXTRAS', 'block_of', 'guarded', 'kind_of', 'safe_name', 'type_of', 'wants_bytes']

BLOCK = 'block'
"""In a file's `provider_details`: a block of Converse that is no file, sent as it is."""

EXTRAS = 'document'
"""In a document's `provider_details`: fields of its block that say more, such as `citations`."""

_IMAGES = {'image/png': 'png', 'image/jpeg': 'jpeg', 'image/jpg': 'jpeg', 'image/gif': 'gif', 'image/webp': 'webp'}
_VIDEOS = {
    'video/x-matroska': 'mkv',
    'video/quicktime': 'mov',
    'video/mp4': 'mp4',
    'video/webm': 'webm',
    'video/x-flv': 'flv',
    'video/mpeg': 'mpeg',
    'video/mpg': 'mpg',
    'video/x-ms-wmv': 'wmv',
    'video/3gpp': 'three_gp',
}
_SOUNDS = {
    'audio/mpeg': 'mp3',
    'audio/mp3': 'mp3',
    'audio/opus': 'opus',
    'audio/wav': 'wav',
    'audio/x-wav': 'wav',
    'audio/wave': 'wav',
    'audio/vnd.wave': 'wav',
    'audio/aac': 'aac',
    'audio/x-aac': 'x-aac',
    'audio/flac': 'flac',
    'audio/x-flac': 'flac',
    'audio/mp4': 'mp4',
    'audio/ogg': 'ogg',
    'audio/x-matroska': 'mka',
    'audio/x-m4a': 'm4a',
    'audio/m4a': 'm4a',
    'audio/L16': 'pcm',
    'audio/pcm': 'pcm',
    'audio/webm': 'webm',
}
_DOCUMENTS = {
    'application/pdf': 'pdf',
    'text/csv': 'csv',
    'application/msword': 'doc',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
    'application/vnd.ms-excel': 'xls',
    'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
    'text/html': 'html',
    'text/plain': 'txt',
    'text/markdown': 'md',
}
_FORMATS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {'image': _IMAGES, 'video': _VIDEOS, 'audio': _SOUNDS, 'document': _DOCUMENTS}
)
_TEXTUAL = frozenset({'application/json', 'application/xml', 'application/yaml', 'application/x-yaml'})
"""Types beside `text/*` whose content is plain text."""

_REFUSED_IN_NAMES = re.compile(r'[^A-Za-z0-9 \-()\[\]]+')
_LONGEST_NAME = 200


def type_of(kind: str, form: str) -> str:
    """The media type of one of Converse's formats."""
    for media_type, name in _FORMATS[kind].items():
        if name == form:
            return media_type
    if kind != 'document':
        return f'{kind}/{form}' if form else f'{kind}/*'
    return 'text/plain'  # a document need not say what it is


def kind_of(media_type: str) -> str:
    """The block a file goes into: image, video, audio or document."""
    kind = media_type.partition('/')[0]
    return kind if kind in _FORMATS else 'document'


def wants_bytes(file: FilePart) -> bool:
    """Converse fetches nothing but from its own storage."""
    return file.url is not None and not file.url.startswith(('data:', 's3:'))


def safe_name(name: str | None, form: str) -> str:
    """A document's name with only what Converse takes: the ending is said by the format already."""
    text = (name or '').removesuffix(f'.{form}')
    text = ' '.join(_REFUSED_IN_NAMES.sub('-', text).split()).strip('- ')
    return text[:_LONGEST_NAME].rstrip() or 'document'


def block_of(file: FilePart) -> dict[str, Any]:
    """The content block for a file. Raises `MessageError` for what Converse cannot take."""
    details = file.provider_details or {}
    if isinstance(own := details.get(BLOCK), dict):
        return cast(dict[str, Any], own)
    kind = kind_of(file.media_type)
    form = _form(kind, file)
    source = _source(file)
    if kind != 'document':
        return {kind: {'format': form, 'source': source}}
    extras = cast(dict[str, Any], mapping(details.get(EXTRAS)))
    return {kind: {'name': safe_name(file.name, form), 'format': form, 'source': source, **extras}}


def _form(kind: str, file: FilePart) -> str:
    formats, media_type = _FORMATS[kind], file.media_type.partition(';')[0].strip().lower()
    if media_type.endswith('/*'):
        media_type = _shown_by(file) or media_type
    form = formats.get(media_type) or formats.get(file.media_type)
    if form is None and (media_type.startswith('text/') or media_type in _TEXTUAL):
        form = 'txt'
    if form is None:
        raise MessageError(
            f'Bedrock takes no file of type {file.media_type!r}; convert it to one of {sorted(set(formats.values()))!r}'
        )
    return form


def _shown_by(file: FilePart) -> str | None:
    """The type that the first bytes show, for a file of which only the kind is known."""
    from agent_graph_providers.fetch.data_url import read_data_url
    from agent_graph_providers.fetch.media_type import sniff

    if file.data is None and (file.url is None or not file.url.startswith('data:')):
        return None
    return sniff(file.data if file.data is not None else read_data_url(file.url or ''))


def _source(file: FilePart) -> dict[str, Any]:
    place = file.file_id or file.url or ''
    if place.startswith('s3:'):
        owner = (file.provider_details or {}).get('bucketOwner')
        return {'s3Location': {'uri': place, **({'bucketOwner': owner} if isinstance(owner, str) else {})}}
    if file.file_id is not None:
        raise MessageError(
            f'Bedrock knows no file called {file.file_id!r}; pass an address that begins with s3://, or the bytes'
        )
    if file.data is not None:
        from binascii import b2a_base64

        return {'bytes': b2a_base64(file.data, newline=False).decode()}
    return {'bytes': _inline(place)}


def _inline(url: str) -> str:
    """The base64 text of a `data:` address."""
    head, _, data = url[5:].partition(',')
    if not url.startswith('data:'):
        raise MessageError(f'the address {url[:80]!r} of a file was not fetched; pass the bytes, or a data: address')
    if head.endswith(';base64'):
        return data
    from base64 import b64encode

    from agent_graph_providers.fetch.data_url import read_data_url

    return b64encode(read_data_url(url)).decode()


def guarded(text: str, *qualifiers: str) -> FilePart:
    """A text of a user message that a guardrail is to look at (`guardContent`).

    `qualifiers` are Bedrock's: `'grounding_source'`, `'query'`, `'guard_content'`. Other providers get it as plain text.
    """
    content: dict[str, Any] = {'text': text, **({'qualifiers': list(qualifiers)} if qualifiers else {})}
    return FilePart('text/plain', data=text.encode(), provider_details={BLOCK: {'guardContent': {'text': content}}})
