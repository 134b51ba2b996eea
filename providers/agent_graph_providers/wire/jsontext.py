"""JSON as servers send it: fast where it is clean, and still read where it holds halves of surrogate pairs.

Half of an escaped emoji (`"\\ud83c"`) is not valid text: it would fail later, when the text is encoded. It is mended here,
at the edge (`agent_graph.text`). In a stream the two halves may come in two pieces, so `STREAMED` fields keep a half at
their edge and `Halves` joins them.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from math import isfinite
from typing import Any, TypeVar, cast

from pydantic_core import from_json, to_json

from agent_graph.errors import MessageError
from agent_graph.text import clean_json, clean_text

__all__ = ['STREAMED', 'Halves', 'decode', 'decode_piece', 'encode', 'encoded', 'finite', 'storable_args']

T = TypeVar('T')

STREAMED = frozenset(
    {
        'content',
        'text',
        'thinking',
        'reasoning',
        'reasoning_content',
        'refusal',
        'arguments',
        'summary',
        'delta',
        'partial_json',
        'stringValue',
    }
)
"""Fields that a stream sends in pieces."""


def decode(data: bytes) -> Any:
    """The value of a whole JSON document. Raises `ValueError` if it is none."""
    try:
        return from_json(data)
    except ValueError:
        return clean_json(_loads(data))


def decode_piece(data: bytes) -> tuple[Any, bool]:
    """The value of one event of a stream, and whether its `STREAMED` fields may begin or end with half a pair."""
    try:
        return from_json(data), False
    except ValueError:
        return _clean(_loads(data)), True


def encode(value: Any) -> bytes:
    """A JSON document; lone halves in its texts are replaced, and so are infinite numbers (by null)."""
    try:
        return to_json(value, inf_nan_mode='null')
    except ValueError:  # of which PydanticSerializationError is one
        return to_json(clean_json(value), inf_nan_mode='null')


def encoded(body: Any) -> bytes:
    """A request body, or a piece of one, as JSON. Raises `MessageError` for what has no JSON form."""
    try:
        return encode(body)
    except ValueError as error:
        raise MessageError(
            f'the request cannot be written as JSON ({error}); tool results must be JSON data'
        ) from error


def finite(value: T) -> T:
    """JSON data that can be stored: lone halves are replaced, and infinite numbers, as a parser makes of `1e400`, by null.

    The same object when there is nothing to do.
    """
    value = clean_json(value)
    return value if _is_finite(value) else _finite(value)


def storable_args(args: dict[str, Any]) -> dict[str, Any] | str:
    """Arguments that came as an object: that, or its text where a number in it is infinite, for the tool's check to refuse."""
    args = clean_json(args)
    return args if _is_finite(args) else to_json(args, inf_nan_mode='constants').decode()


def _is_finite(value: Any) -> bool:
    text = to_json(value, inf_nan_mode='constants')  # one call into native code answers the usual case
    return (b'Infinity' not in text and b'NaN' not in text) or _finite(value) == value


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast(dict[str, Any], value).items()}
    return [_finite(item) for item in cast(list[Any], value)] if isinstance(value, list) else value


def _loads(data: bytes) -> Any:
    """What only the slower parser takes: lone halves, bytes that are no UTF-8, and nesting a little deeper."""
    try:
        text = data.decode('utf-8', 'surrogatepass')
    except UnicodeDecodeError:
        text = data.decode('utf-8', 'replace')
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError('nested too deeply') from error
    except json.JSONDecodeError as error:
        wrong = str(error)
    # Not from within: that error carries the whole text, in which a server may have quoted the key.
    raise ValueError(wrong)


def _clean(value: Any, key: str = '') -> Any:
    if isinstance(value, str):
        return _clean_middle(value) if key in STREAMED else clean_text(value)
    if isinstance(value, dict):
        return {clean_text(k): _clean(v, k) for k, v in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_clean(v) for v in cast(list[Any], value)]
    return value


def _clean_middle(text: str) -> str:
    """Cleaned, but for a half at either edge whose other half may be in the piece before or after."""
    first = text[0] if '\udc00' <= text[:1] <= '\udfff' else ''
    last = text[-1] if _is_high(text[-1:]) else ''
    return first + clean_text(text[len(first) : len(text) - len(last)]) + last


def _is_high(char: str) -> bool:
    return '\ud800' <= char <= '\udbff'


class Halves:
    """Joins half pairs over the pieces of several texts, told apart by a key."""

    __slots__ = ('_held',)

    def __init__(self) -> None:
        self._held: dict[Hashable, str] = {}

    def __bool__(self) -> bool:
        """True while half a pair is held back."""
        return bool(self._held)

    def join(self, key: Hashable, piece: str) -> str:
        """The text that is certain now; half a pair at its end is held for the next piece."""
        text = self._held.pop(key, '') + piece
        if _is_high(text[-1:]):
            self._held[key] = text[-1]
            text = text[:-1]
        return clean_text(text)

    def rest(self, key: Hashable) -> str:
        """What was still held under this key when its text ended: nothing, or a replacement character."""
        return clean_text(self._held.pop(key, ''))
