"""Text that can be encoded: surrogate halves are joined or replaced where text comes in, so nothing fails later.

Half of an emoji (a lone UTF-16 surrogate) is a legal piece of a Python string and of a JSON escape, but cannot be sent,
stored or printed. Valid pairs become the one character they spell; a lone half becomes U+FFFD; nothing else changes.
"""

from __future__ import annotations

from typing import TypeVar, cast

__all__ = ['clean_json', 'clean_text']

T = TypeVar('T')


def clean_text(s: str) -> str:
    """`s` with surrogate pairs joined and lone halves replaced by U+FFFD; the same object when there is nothing to do."""
    if s.isascii():
        return s
    try:
        s.encode()
    except UnicodeEncodeError:
        return s.encode('utf-16-le', 'surrogatepass').decode('utf-16-le', 'replace')
    return s


def clean_json(value: T) -> T:
    """JSON data with every string (keys too) put through `clean_text`; the same object when there is nothing to do."""
    from pydantic_core import PydanticSerializationError, to_json  # not at import: it brings a dozen modules along

    try:
        to_json(value)  # one call into native code answers the usual case
    except PydanticSerializationError:
        return cast('T', _clean(value))
    return value


def _clean(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in cast('dict[object, object]', value).items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in cast('list[object]', value)]
    return value
