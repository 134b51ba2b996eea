"""A TCP or TLS connection to one of the judged addresses of a host, closed whatever happens.

It is made here, not by an HTTP client's pool: the address connected to has to be the one that was judged, while the name in
the TLS handshake and in the certificate stays that of the host; and a fetch that is cancelled, even in the middle of a
handshake, must leave no socket, task or generator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from ssl import SSLCertVerificationError, SSLContext
from typing import cast

from agent_graph_providers.fetch.judge import IPAddress
from agent_graph_providers.fetch.reasons import Failure

__all__ = ['Channel']

_PIECE = 65_536


class _Bytes(asyncio.Protocol):
    """The bytes that came; receiving pauses while nobody takes them."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._more = asyncio.Event()
        self._paused = False
        self._lost: Exception | None = None
        self._ended = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > _PIECE and not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()
        self._more.set()

    def eof_received(self) -> None:
        self._ended = True
        self._more.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._lost = exc
        self._more.set()

    async def take(self) -> bytes:
        """Some bytes; none at the end."""
        while not self._held and not self._ended:
            self._more.clear()
            await self._more.wait()
        if not self._held and self._lost is not None:
            raise self._lost
        data = bytes(self._held)
        self._held.clear()
        if self._paused and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()
        return data


class Channel:
    """One connection. `close` has to be called, also when `connect` or `secure` failed."""

    def __init__(self) -> None:
        self._bytes = _Bytes()
        self._open: list[asyncio.Transport] = []

    async def connect(self, addresses: Sequence[IPAddress], port: int, *, timeout: float) -> None:
        """Connect to the first address that answers; they share the time. Raises `Failure`."""
        loop = asyncio.get_running_loop()
        reasons: list[str] = []
        for address in addresses:
            try:
                async with asyncio.timeout(timeout / len(addresses)):
                    # An IP address is not looked up again; a connection cut short is closed in there.
                    transport, self._bytes = await loop.create_connection(_Bytes, str(address), port)
            except TimeoutError:
                reasons.append(f'{address} did not answer in time')
            except OSError as error:
                reasons.append(f'{address}: {error.strerror or error}')
            else:
                self._open.append(transport)
                return
        raise Failure(f'no connection could be made ({"; ".join(reasons)}); check the address, or try again later')

    async def secure(self, context: SSLContext, name: str, *, timeout: float) -> None:
        """Begin TLS with the server of this name. Raises `Failure`."""
        loop, plain = asyncio.get_running_loop(), self._open[0]
        try:
            async with asyncio.timeout(timeout):
                transport = await loop.start_tls(plain, self._bytes, context, server_hostname=name)
        except TimeoutError as error:
            raise Failure(f'{name} did not finish the TLS handshake in time; try again later') from error
        except SSLCertVerificationError as error:
            said = error.verify_message
            raise Failure(f'the certificate does not show that the server is {name} ({said}); check it') from error
        except OSError as error:
            raise Failure(f'the TLS handshake with {name} failed ({error}); check the address') from error
        if transport is None:  # what `start_tls` answers when the connection is gone
            raise Failure(f'{name} hung up during the TLS handshake; try again later')
        self._bytes.transport = transport
        self._open.append(transport)

    def send(self, data: bytes) -> None:
        """Send a little; nothing waits for it, since the other side answers only when it has it."""
        self._open[-1].write(data)

    async def receive(self, *, timeout: float) -> bytes:
        """Some bytes, none at the end. Raises `Failure` if there are none in time or the connection breaks."""
        try:
            async with asyncio.timeout(timeout):
                return await self._bytes.take()
        except TimeoutError as error:
            raise Failure(f'nothing came for {timeout:g} seconds; try again later') from error
        except OSError as error:
            raise Failure(f'the connection broke ({error}); try again later') from error

    async def close(self) -> None:
        """Close without a word to the other side, which might not listen."""
        for transport in reversed(self._open):
            transport.abort()
        await asyncio.sleep(0)  # the socket is closed in the next turn of the loop
