"""`data:` addresses, which hold the file themselves."""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from urllib.parse import unquote_to_bytes

from agent_graph.errors import MessageError

__all__ = ['is_data_url', 'read_data_url']

_BROKEN_ESCAPE = re.compile(r'%(?![0-9A-Fa-f]{2})')
_BASE64 = re.compile(r';\s*base64\s*$', re.IGNORECASE)


def is_data_url(url: str) -> bool:
    return url[:5].lower() == 'data:'


def read_data_url(url: str) -> bytes:
    """The bytes of a `data:` address. Raises `MessageError` for anything but a whole, faultless one.

    A fault in the data means that something was lost on the way, and half an image is worse than an error.
    """
    head, comma, data = url[5:].partition(',')
    start = f'data:{head[:60]}{comma}...'
    if not comma:
        raise MessageError(f'the address {start!r} has no comma before its data; check it')
    if '#' in data:
        raise MessageError(f'the data of {start!r} have a # in them; write it as %23')
    if _BROKEN_ESCAPE.search(data):
        raise MessageError(f'the data of {start!r} have a % that begins no escape; write it as %25')
    try:
        raw = unquote_to_bytes(data) if '%' in data or not data.isascii() else data.encode()
    except UnicodeEncodeError as error:
        raise MessageError(f'the data of {start!r} have half a character (a surrogate) in them') from error
    if not _BASE64.search(head):
        return raw
    try:
        return a2b_base64(raw, strict_mode=True)
    except Error as error:
        raise MessageError(f'the data of {start!r} are not base64 ({error}); encode the bytes again') from error
