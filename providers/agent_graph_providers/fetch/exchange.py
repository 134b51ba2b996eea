"""One request and its answer in HTTP/1.1; `h11` knows the rules. Nothing but the address is sent along."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import h11

from agent_graph_providers.fetch.address import Address
from agent_graph_providers.fetch.channel import Channel
from agent_graph_providers.fetch.reasons import Failure

__all__ = ['Exchange', 'Head']

_LONGEST_HEAD = 65_536


@dataclass(frozen=True, slots=True)
class Head:
    """How an answer begins; the names of headers are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        """The values of every header of this name."""
        return [value for key, value in self.headers if key == name]

    @property
    def length(self) -> int | None:
        """The length it promises; a promise only."""
        values = self.all('content-length')
        return int(values[0]) if values and values[0].isdecimal() else None


class Exchange:
    """Ask once; read the head, then the pieces of the body until there are no more."""

    def __init__(self, channel: Channel, *, timeout: float) -> None:
        self._channel = channel
        self._timeout = timeout
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)

    def ask(self, address: Address, accept: Iterable[str]) -> None:
        """Send the request: no cookies, no credentials, nothing from the environment."""
        request = h11.Request(
            method='GET',
            target=address.target,
            headers=[
                ('Host', address.authority),
                ('User-Agent', 'agent-graph'),
                ('Accept', ', '.join(accept) or '*/*'),
                ('Accept-Encoding', 'identity'),
                ('Connection', 'close'),
            ],
        )
        for event in (request, h11.EndOfMessage()):
            self._channel.send(self._http.send(event) or b'')

    async def head(self) -> Head:
        """Wait for the answer to begin. Raises `Failure`."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                pairs = ((name.decode('latin-1').lower(), _text(value)) for name, value in event.headers)
                return Head(event.status_code, tuple(pairs))
            if not isinstance(event, h11.InformationalResponse):
                raise Failure('the server answered out of turn; check the address')

    async def piece(self) -> bytes | None:
        """The next bytes of the body as sent, `None` after the last. Raises `Failure` if it is cut off."""
        event = await self._next()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.EndOfMessage):
            return None
        raise Failure('the answer was cut off; try again later')

    async def _next(self) -> object:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._channel.receive(timeout=self._timeout))
        except h11.ProtocolError as error:
            raise Failure(f'the answer is cut off or not HTTP ({error}); check the address') from error
        return event


def _text(value: bytes) -> str:
    """A header's value: UTF-8 where it is, else as HTTP says."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode('latin-1')
