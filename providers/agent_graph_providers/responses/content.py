"""What a person or a tool gives, as content of the API and back: texts, images, files and sounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_graph.errors import MessageError
from agent_graph.messages import CachePoint, FilePart, UserContent
from agent_graph.messages.media import parse_data_url, shown
from agent_graph_providers.responses.parts import as_list, as_map

__all__ = ['content_of', 'data_url', 'parts_of']

_SOUNDS = {'audio/mpeg': 'mp3', 'audio/mp3': 'mp3', 'audio/wav': 'wav', 'audio/x-wav': 'wav', 'audio/wave': 'wav'}
_ANY = 'application/octet-stream'
_SOUND_TYPES = {'mp3': 'audio/mpeg', 'wav': 'audio/wav'}


def parts_of(
    content: Sequence[UserContent], *, mark: str | None = None, refused: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """Content blocks, without empty texts. Raises `MessageError` for a file the API cannot say, and for `refused` kinds.

    `mark` is the field that says, on the block before a `CachePoint`, that everything up to it is worth caching.
    """
    out: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, CachePoint):
            if mark is not None and out:
                explicit = mark == 'prompt_cache_breakpoint'
                out[-1][mark] = {'mode': 'explicit'} if explicit else {'type': 'ephemeral', 'ttl': part.ttl}
        elif isinstance(part, FilePart):
            out.append(_file(part, refused))
        elif part:
            out.append({'type': 'input_text', 'text': part})
    return out


def content_of(content: Any) -> str | tuple[UserContent, ...]:
    """The other way round. Raises `MessageError` for what is no content of the API."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise MessageError(f'content is {shown(content)}; use a text or a list of content blocks')
    out: list[UserContent] = []
    for block in as_list(content):
        fields = as_map(block)
        text = fields.get('text')
        if fields.get('type') in ('input_text', 'text', 'output_text') and isinstance(text, str):
            out.append(text)
        else:
            out.append(_file_of(fields))
        if fields.get('prompt_cache_breakpoint') or fields.get('cache_control'):
            out.append(CachePoint('1h' if as_map(fields.get('cache_control')).get('ttl') == '1h' else '5m'))
    return tuple(out)


def data_url(part: FilePart) -> str:
    """The address of a file, its bytes inside it where they are at hand."""
    if part.data is not None:
        from binascii import b2a_base64

        return f'data:{part.media_type};base64,{b2a_base64(part.data, newline=False).decode()}'
    assert part.url is not None  # FilePart holds exactly one of data, url and file_id
    return part.url


def _file_of(block: Mapping[str, Any]) -> FilePart:
    """The file of a content block. Inline data stays in its `data:` address, so nothing changes on the way back."""
    read = _FILES.get(str(block.get('type')))
    file = read(block) if read is not None else None
    if file is None:
        raise MessageError(
            f'content block {shown(dict(block))} cannot be read; use input_text, input_image, input_file or input_audio'
        )
    return file


def _image_of(block: Mapping[str, Any]) -> FilePart | None:
    file_id, url, detail = block.get('file_id'), block.get('image_url'), block.get('detail')
    details: dict[str, Any] | None = {'detail': detail} if isinstance(detail, str) else None
    if isinstance(file_id, str):
        return FilePart('image/*', file_id=file_id, provider_details=details)
    return FilePart(_media_type(url, 'image/'), url=url, provider_details=details) if isinstance(url, str) else None


def _document_of(block: Mapping[str, Any]) -> FilePart | None:
    file_id, name = block.get('file_id'), block.get('filename')
    name = name if isinstance(name, str) else None
    if isinstance(file_id, str):
        return FilePart(_ANY, file_id=file_id, name=name)
    url = block.get('file_data') or block.get('file_url')
    if not isinstance(url, str):
        return None
    url = url if url.startswith('data:') or '://' in url else f'data:application/pdf;base64,{url}'
    return FilePart(_media_type(url, ''), url=url, name=name)


def _sound_of(block: Mapping[str, Any]) -> FilePart | None:
    sound = as_map(block.get('input_audio'))
    form, data = str(sound.get('format') or 'wav'), sound.get('data')
    media_type = _SOUND_TYPES.get(form, f'audio/{form}')
    return FilePart(media_type, url=f'data:{media_type};base64,{data}') if isinstance(data, str) else None


_FILES = {'input_image': _image_of, 'input_file': _document_of, 'input_audio': _sound_of}


def _file(part: FilePart, refused: frozenset[str]) -> dict[str, Any]:
    kind = part.media_type.partition('/')[0]
    name = kind if kind in ('image', 'audio', 'video') else 'document'
    if name in refused:
        raise MessageError(
            f'this model takes no {name} ({part.media_type}); send its text, or pass capabilities= if it does'
        )
    if kind == 'image':
        where = {'file_id': part.file_id} if part.file_id is not None else {'image_url': data_url(part)}
        detail = (part.provider_details or {}).get('detail')
        return {'type': 'input_image', **where, 'detail': detail if isinstance(detail, str) else 'auto'}
    if kind == 'audio' and part.file_id is None:
        return _sound(part)
    if kind == 'video':
        raise MessageError(
            f'a video ({part.media_type}) cannot be sent to the Responses API; send pictures out of it, or its text'
        )
    return _document(part)


def _sound(part: FilePart) -> dict[str, Any]:
    parsed = parse_data_url(data_url(part))
    if parsed is None:
        raise MessageError(f'the sound at {shown(part.url)} is no data: address; pass its bytes')
    form = _SOUNDS.get(part.media_type) or part.media_type.partition('/')[2].removeprefix('x-')
    return {'type': 'input_audio', 'input_audio': {'data': parsed[1], 'format': form}}


def _document(part: FilePart) -> dict[str, Any]:
    named = {'filename': part.name} if part.name else {}
    if part.file_id is not None:
        return {'type': 'input_file', 'file_id': part.file_id, **named}
    url = data_url(part)
    if not url.startswith('data:'):
        return {'type': 'input_file', 'file_url': url}  # with a name beside it the API refuses an address
    return {'type': 'input_file', 'file_data': url, 'filename': part.name or _name(part.media_type)}


def _name(media_type: str) -> str:
    """A name for data without one: the API wants one, and goes by its ending."""
    from mimetypes import guess_extension  # loads the system's tables, so only when there is a need

    return f'file{guess_extension(media_type) or ".bin"}'


def _media_type(url: str, kind: str) -> str:
    """The type an address states or suggests, of this kind (`image/`, `''` for any)."""
    parsed = parse_data_url(url)
    if parsed is not None and parsed[0]:
        return parsed[0]
    from mimetypes import guess_type

    guessed, _ = guess_type(url.split('?', 1)[0])
    return guessed if guessed is not None and guessed.startswith(kind) else f'{kind}*' if kind else _ANY
