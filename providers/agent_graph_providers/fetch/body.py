"""The body of an answer, counted while it comes: what matters is the size after unpacking, not what the server says."""

from __future__ import annotations

import zlib

from agent_graph_providers.fetch.reasons import Failure, Refusal

__all__ = ['Body']

_GZIP = 16 + zlib.MAX_WBITS
_NAMES = ('gzip', 'x-gzip')
_OVERHEAD = 65_536
"""Packed data may be this much longer than what is in it; beyond that it is only there to keep us busy."""
_MOST_MEMBERS = 1000
"""gzip data may be several, one after the other; empty ones cost time and bring nothing."""


class Body:
    """Collects a body of at most `most` bytes; `coding` is the answer's `Content-Encoding`."""

    def __init__(self, most: int, coding: str = '') -> None:
        coding = coding.strip().lower()
        if coding not in ('', 'identity', *_NAMES):
            raise Failure(f'the file comes packed as {coding[:40]!r}, which was not asked for; pass the bytes instead')
        self._most = most
        self._packed = coding in _NAMES
        self._unpack = zlib.decompressobj(_GZIP) if self._packed else None
        self._members = 1
        self._data = bytearray()
        self.received = 0
        """Bytes as they came."""

    def promise(self, length: int | None) -> None:
        """What the server says the length will be; too much is refused at once. Nothing else depends on it."""
        if length is not None and length > self._most + (_OVERHEAD if self._packed else 0):
            raise Refusal(f'it has {length:,} bytes, {self._limit()}')

    def add(self, piece: bytes) -> None:
        """Raises `Refusal` as soon as it is too long, `Failure` if it cannot be unpacked."""
        self.received += len(piece)
        if self.received > self._most + (_OVERHEAD if self._packed else 0):
            raise self._too_long()
        if not self._packed:
            self._data += piece
            return
        try:
            self._add_packed(piece)
        except zlib.error as error:
            raise Failure(f'the packed file cannot be unpacked ({error}); pass the bytes instead') from error

    def end(self) -> bytes:
        """The whole body. Raises `Failure` if packed data end too early."""
        if self.received and self._unpack is not None and not self._unpack.eof:
            raise Failure('the packed file was cut off; try again later')
        return bytes(self._data)

    def _add_packed(self, piece: bytes) -> None:
        assert self._unpack is not None  # only called for packed data
        while piece:
            if self._unpack.eof:
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise Failure(f'the file is packed in more than {_MOST_MEMBERS:,} parts; pass the bytes instead')
                self._unpack = zlib.decompressobj(_GZIP)
            # One byte more than fits shows that there is more; never is more than that unpacked.
            self._data += self._unpack.decompress(piece, self._most + 1 - len(self._data))
            if len(self._data) > self._most:
                raise self._too_long()
            piece = self._unpack.unused_data

    def _too_long(self) -> Refusal:
        return Refusal(f'it goes on after {self._most:,} bytes, {self._limit()}')

    def _limit(self) -> str:
        return f'and at most {self._most:,} are fetched; set Fetcher(max_bytes=...), or pass the bytes'
