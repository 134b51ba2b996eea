"""Large values inside an entry's JSON are taken out and kept once, by hash, however many entries hold them.

A tool result of 5 MB is in the entry that finishes the call, in the request that sends it, and in the history of every
run that goes on from there. Only the JSON is looked at, never the types: the smallest parts that are still large come
out, and where each came out is remembered outside the JSON, so that no text in it can be taken for a reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pydantic_core import from_json, to_json

from agent_graph.errors import CodecError

__all__ = ['LARGE', 'join', 'split']

LARGE = 64 * 1024
"""A value whose JSON is longer than this many bytes is large."""


def split(document: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
    """A large JSON document as what is left of it and `(position in that, JSON)` of each value taken out, in order."""
    rest = bytearray()
    pieces: list[tuple[int, bytes]] = []
    _take_out(from_json(document), rest, pieces)
    return bytes(rest), pieces


def join(rest: bytes, pieces: Sequence[tuple[int, object]]) -> bytes:
    """The document again; raises `CodecError` if a piece is missing."""
    out: list[bytes] = []
    done = 0
    for position, piece in pieces:
        if not isinstance(piece, bytes):
            raise CodecError(f'a large value at byte {position} is missing: the journal is damaged; restore a backup')
        out += (rest[done:position], piece)
        done = position
    return b''.join((*out, rest[done:]))


def _take_out(value: Any, rest: bytearray, pieces: list[tuple[int, bytes]]) -> None:
    """Write `value`, whose JSON is large, to `rest` without the smallest parts of it that are large themselves."""
    children = _children(value)
    if all(len(encoded) <= LARGE for _, _, encoded in children):
        pieces.append((len(rest), to_json(value)))
        return
    opening, closing = (b'{', b'}') if isinstance(value, dict) else (b'[', b']')
    rest += opening
    for index, (key, child, encoded) in enumerate(children):
        rest += b',' + key if index else key
        if len(encoded) > LARGE:
            _take_out(child, rest, pieces)
        else:
            rest += encoded
    rest += closing


def _children(value: Any) -> list[tuple[bytes, Any, bytes]]:
    """Key with its colon, value and its JSON, for everything directly inside `value`."""
    if isinstance(value, dict):
        return [(to_json(key) + b':', child, to_json(child)) for key, child in cast('dict[str, Any]', value).items()]
    if isinstance(value, list):
        return [(b'', child, to_json(child)) for child in cast('list[Any]', value)]
    return []
