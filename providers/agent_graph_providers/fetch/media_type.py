"""What a file is: what the server says, what its first bytes say, and whether that is wanted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ['GENERIC', 'decide', 'is_pattern', 'matches', 'sniff', 'stated']

GENERIC = 'application/octet-stream'
"""The type that says nothing."""

_TYPE = re.compile(r"[a-z0-9!#$&^_.+'*-]+/[a-z0-9!#$&^_.+'*-]+", re.ASCII)
_SAYS_NOTHING = frozenset(
    {
        GENERIC,
        'application/binary',
        'application/download',
        'application/force-download',
        'application/unknown',
        'application/x-binary',
        'application/x-download',
        'application/x-octet-stream',
        'binary/octet-stream',
        'unknown/unknown',
    }
)

_BEGINNINGS = (
    (b'\x89PNG\r\n\x1a\n', 'image/png'),
    (b'\xff\xd8\xff', 'image/jpeg'),
    (b'GIF87a', 'image/gif'),
    (b'GIF89a', 'image/gif'),
    (b'II*\x00', 'image/tiff'),
    (b'MM\x00*', 'image/tiff'),
    (b'%PDF-', 'application/pdf'),
    (b'ID3', 'audio/mpeg'),
    (b'OggS', 'audio/ogg'),
    (b'fLaC', 'audio/flac'),
)
_RIFF = {b'WEBP': 'image/webp', b'WAVE': 'audio/wav', b'AVI ': 'video/x-msvideo'}
_BRANDS = {
    b'M4A ': 'audio/mp4',
    b'M4B ': 'audio/mp4',
    b'qt  ': 'video/quicktime',
    b'avif': 'image/avif',
    b'avis': 'image/avif',
    b'heic': 'image/heic',
    b'heix': 'image/heic',
    b'mif1': 'image/heif',
}


def stated(values: Sequence[str]) -> str | None:
    """The media type of the `Content-Type` headers, without parameters; `None` if they say nothing or contradict."""
    types = {value.partition(';')[0].strip().lower() for value in values}
    found = types.pop() if len(types) == 1 else ''
    if not _TYPE.fullmatch(found) or '*' in found or found in _SAYS_NOTHING:
        return None
    return found


def sniff(data: bytes) -> str | None:
    """The media type that the first bytes show; `None` if they show none of the common ones."""
    for beginning, media_type in _BEGINNINGS:
        if data.startswith(beginning):
            return media_type
    if data[:4] == b'RIFF':
        return _RIFF.get(data[8:12])
    if data[4:8] == b'ftyp':
        return _BRANDS.get(data[8:12], 'video/mp4')
    if data[:4] == b'\x1a\x45\xdf\xa3':
        return 'video/webm' if b'webm' in data[:64] else 'video/x-matroska'
    return 'audio/mpeg' if _is_mp3_frame(data) else None


def decide(said: str | None, data: bytes) -> str:
    """The type of a file: as the server said, or as its bytes show where that said nothing.

    Of two image types the bytes are believed: servers often give one for another, and providers refuse that.
    """
    if said is not None and not said.startswith('image/'):
        return said
    shown = sniff(data)
    if said is None:
        return shown or GENERIC
    return shown if shown is not None and shown.startswith('image/') else said


def matches(media_type: str, patterns: Iterable[str]) -> bool:
    """True if one of the patterns fits: `image/png`, `image/*` or `*/*`."""
    kind = media_type.partition('/')[0]
    return any(pattern in ('*/*', f'{kind}/*', media_type) for pattern in map(str.lower, patterns))


def is_pattern(text: object) -> bool:
    """True for a media type, or one with `*` for its second half or both."""
    if not isinstance(text, str) or not _TYPE.fullmatch(text.lower()):
        return False
    kind, _, sub = text.partition('/')
    return '*' not in kind + sub or (sub == '*' and (kind == '*' or '*' not in kind))


def _is_mp3_frame(data: bytes) -> bool:
    """An MPEG audio frame of layer III: its sync bits, and neither a bit rate nor a sampling rate that does not exist."""
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE6 != 0xE2:
        return False
    return data[1] & 0x18 != 0x08 and data[2] & 0xF0 not in (0x00, 0xF0) and data[2] & 0x0C != 0x0C
