"""Files as Chat Completions writes them: content parts of type image_url, input_audio, audio_url, video_url and file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages.parts import FilePart

__all__ = ['FILE_TYPES', 'file_from_openai', 'file_to_openai', 'parse_data_url', 'shown']

FILE_TYPES = frozenset({'image_url', 'input_audio', 'audio_url', 'video_url', 'file'})
"""The content part types that `file_from_openai` reads."""

_AUDIO_FORMATS = {
    'audio/mpeg': 'mp3',
    'audio/mp3': 'mp3',
    'audio/wav': 'wav',
    'audio/x-wav': 'wav',
    'audio/wave': 'wav',
}
_AUDIO_TYPES = {'mp3': 'audio/mpeg', 'wav': 'audio/wav'}


def file_to_openai(part: FilePart) -> dict[str, Any]:
    """The content part for a file. Raises `MessageError` for what the format cannot say."""
    kind = part.media_type.partition('/')[0]
    details = part.provider_details or {}
    if part.file_id is not None:
        return {'type': 'file', 'file': _named(part, file_id=part.file_id)}
    if details.get('type') == 'file':
        return {'type': 'file', 'file': _named(part, file_data=_url(part))}
    if kind == 'image':
        extra = {'detail': details['detail']} if 'detail' in details else {}
        return {'type': 'image_url', 'image_url': {'url': _url(part), **extra}}
    if kind == 'video':
        return {'type': 'video_url', 'video_url': {'url': _url(part)}}
    if kind == 'audio':
        return _audio(part)
    return {'type': 'file', 'file': _named(part, file_data=_url(part))}


def file_from_openai(part: Mapping[str, Any]) -> FilePart:
    """The file of a content part whose type is one of `FILE_TYPES`. Raises `MessageError` if it cannot be read.

    Inline data stays in its `data:` address, so nothing is decoded and nothing changes on the way back.
    """
    kind = part['type']
    inner: Any = part.get(kind)
    if kind != 'file' and kind != 'input_audio' and isinstance(inner, str):
        inner = {'url': inner}
    if not isinstance(inner, Mapping):
        raise MessageError(f'content part {shown(part)} has no {kind!r} object; add it')
    fields = cast(Mapping[str, Any], inner)
    if kind == 'file':
        return _document(fields)
    if kind == 'input_audio':
        form = _text(fields, 'format')
        media_type = _AUDIO_TYPES.get(form, f'audio/{form}')
        return FilePart(media_type, url=f'data:{media_type};base64,{_text(fields, "data")}')
    url = _text(fields, 'url')
    detail = fields.get('detail')
    media_type = _media_type(url, kind.partition('_')[0])
    return FilePart(media_type, url=url, provider_details={'detail': detail} if isinstance(detail, str) else None)


def parse_data_url(url: str) -> tuple[str, str] | None:
    """(media type, base64 text) of a `data:` address with base64 data; `None` for any other address."""
    if not url.startswith('data:'):
        return None
    head, comma, data = url[5:].partition(',')
    if not comma or not head.endswith(';base64'):
        return None
    return head[: -len(';base64')].partition(';')[0], data


def shown(value: object, limit: int = 200) -> str:
    """A value for an error message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= limit else f'{text[:limit]}...'


def _audio(part: FilePart) -> dict[str, Any]:
    parsed = parse_data_url(_url(part))
    if parsed is None:
        return {'type': 'audio_url', 'audio_url': {'url': part.url}}
    media_type = part.media_type
    form = _AUDIO_FORMATS.get(media_type) or media_type.partition('/')[2].removeprefix('x-')
    return {'type': 'input_audio', 'input_audio': {'data': parsed[1], 'format': form}}


def _document(fields: Mapping[str, Any]) -> FilePart:
    name = fields.get('filename')
    name = name if isinstance(name, str) else None
    if fields.get('file_id') is not None:
        return FilePart('application/octet-stream', file_id=_text(fields, 'file_id'), name=name)
    url = _text(fields, 'file_data')
    media_type = _media_type(url, 'application', name)
    as_file = media_type.partition('/')[0] in ('image', 'audio', 'video')  # else the type alone would say another part
    return FilePart(media_type, url=url, name=name, provider_details={'type': 'file'} if as_file else None)


def _named(part: FilePart, **fields: str) -> dict[str, str]:
    return {**fields, 'filename': part.name} if part.name is not None else fields


def _url(part: FilePart) -> str:
    if part.data is not None:
        from binascii import b2a_base64

        return f'data:{part.media_type};base64,{b2a_base64(part.data, newline=False).decode()}'
    assert part.url is not None  # FilePart holds exactly one of data, url and file_id
    return part.url


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise MessageError(f'{key!r} of a file is {value!r} in {shown(dict(fields))}; give a text')
    return value


def _media_type(url: str, kind: str, name: str | None = None) -> str:
    """The type an address states or suggests; `image/*` and the like when it says nothing."""
    parsed = parse_data_url(url)
    if parsed is not None and parsed[0]:
        return parsed[0]
    from mimetypes import guess_type  # loads the system's tables, so only when a type has to be guessed

    guessed, _ = guess_type(name or url.split('?', 1)[0])
    if guessed is not None and (kind == 'application' or guessed.startswith(f'{kind}/')):
        return guessed
    return 'application/octet-stream' if kind == 'application' else f'{kind}/*'
