"""Fetching a file from an address that somebody wrote into a message."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from ssl import SSLContext
from typing import Any, NoReturn, cast

from agent_graph.errors import ConfigError, FetchFailed, FetchRefused
from agent_graph_providers.fetch.address import Address, join, read_address, shown
from agent_graph_providers.fetch.body import Body
from agent_graph_providers.fetch.channel import Channel
from agent_graph_providers.fetch.exchange import Exchange, Head
from agent_graph_providers.fetch.media_type import decide, is_pattern, matches, stated
from agent_graph_providers.fetch.reasons import Failure, Refusal
from agent_graph_providers.fetch.route import Resolve, Route, Rules, find_route, read_allowed, system_resolve

__all__ = ['Fetched', 'Fetcher', 'fetch']

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOGIN = frozenset({401, 403, 407})
_SCHEMES = frozenset({'http', 'https'})


@dataclass(frozen=True, slots=True, repr=False)
class Fetched:
    """A file that was fetched: its bytes, its media type, and the address it came from in the end."""

    data: bytes
    media_type: str
    url: str

    def __repr__(self) -> str:
        return f'Fetched({len(self.data):,} bytes, {self.media_type!r}, {shown(self.url)!r})'


@dataclass(frozen=True, slots=True)
class Fetcher:
    """What may be fetched, and how much of it. The defaults suit addresses from people one does not know.

    `max_bytes` counts the file after unpacking. Times are in seconds: `connect_timeout` for finding the host, for connecting
    and for the TLS handshake, each; `read_timeout` without a byte; `total_timeout` for all of it, redirects included.
    `ports` `None` allows all but those of other services. `allow` names hosts (`'files.internal'`, `'10.0.0.5:8000'`,
    `'[::1]'`) that may be of this machine or its networks; `allow_private` allows every such host, and from there on only
    redirects from such a host to another. Metadata services, link-local, multicast and reserved addresses are never
    fetched from. `media_types` are patterns such as `'image/*'`, `None` for any. `resolve` finds the addresses of a host
    in place of the system, `tls` replaces the usual certificate store. `max_files` and `max_total_bytes` bound what one
    `with_bytes` fetches, `at_once` how many at a time. Raises `ConfigError` for values that make no sense.

    It holds no connection, so it may be shared by threads and event loops. Proxies of the environment are not used.
    """

    max_bytes: int = 20_000_000
    connect_timeout: float = 10.0
    read_timeout: float = 20.0
    total_timeout: float = 60.0
    max_redirects: int = 5
    schemes: Collection[str] = _SCHEMES
    ports: Collection[int] | None = None
    allow: Collection[str] = frozenset()
    allow_private: bool = False
    media_types: Collection[str] | None = None
    resolve: Resolve | None = None
    tls: SSLContext | None = None
    max_files: int = 100
    max_total_bytes: int = 100_000_000
    at_once: int = 4
    _rules: Rules = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ('connect_timeout', 'read_timeout', 'total_timeout'):
            _check(name, value := getattr(self, name), _is_number(value, int, float) and value > 0, 'seconds above 0')
        for name in ('max_bytes', 'max_total_bytes', 'at_once'):
            _check(name, value := getattr(self, name), _is_number(value, int) and value > 0, 'a whole number above 0')
        for name in ('max_redirects', 'max_files'):
            _check(name, value := getattr(self, name), _is_number(value, int) and value >= 0, 'a whole number')
        private: object = self.allow_private
        _check('allow_private', private, private is True or private is False, 'True or False')
        _check('schemes', self.schemes, _SCHEMES.issuperset(self.schemes), "'http', 'https' or both")
        _check('ports', self.ports, self.ports is None or _are_ports(self.ports), 'port numbers such as {80, 443}')
        _check_patterns(self.media_types)
        allow = _allowed(self.allow)
        for name in ('schemes', 'ports', 'allow', 'media_types'):  # so that it stays as it was checked, and hashable
            value = getattr(self, name)
            object.__setattr__(self, name, value if value is None else frozenset(value))
        resolve = self.resolve or system_resolve
        rules = Rules(self.schemes, self.ports, allow, resolve, self.connect_timeout)
        object.__setattr__(self, '_rules', rules)

    async def fetch(
        self, url: str, *, allow_private: bool = False, media_types: Collection[str] | None = None
    ) -> Fetched:
        """Fetch a file. `allow_private` and `media_types` go for this one, beside what the fetcher says.

        Raises `FetchRefused` for what is not allowed, `FetchFailed` when the network or the server fails.
        """
        _check_patterns(media_types)
        patterns = self.media_types if media_types is None else media_types
        trail = [url]
        scope = asyncio.timeout(self.total_timeout)
        try:
            async with scope:
                return await self._follow(trail, self.allow_private or allow_private is True, patterns)
        except Refusal as reason:
            raise FetchRefused(_said(trail, reason), url=shown(url)) from reason.__cause__
        except Failure as reason:
            raise FetchFailed(_said(trail, reason), url=shown(url), status=reason.status) from reason.__cause__
        except TimeoutError:
            if not scope.expired():
                raise
        late = f'it took longer than {self.total_timeout:g} seconds; set Fetcher(total_timeout=...), or pass the bytes'
        raise FetchFailed(_said(trail, late), url=shown(url))

    async def _follow(self, trail: list[str], local: bool, patterns: Collection[str] | None) -> Fetched:
        """Go where redirects lead; `trail` gets every address."""
        address = read_address(trail[0])
        while True:
            route = await find_route(address, self._rules, local=local)
            answer = await self._ask(address, route, patterns)
            if isinstance(answer, Fetched):
                return answer
            if len(trail) > self.max_redirects:
                raise Refusal(f'there were more than {self.max_redirects} redirects; use the final address')
            trail.append(answer)
            following = join(address, answer)
            trail[-1] = following.url
            if address.scheme == 'https' and following.scheme == 'http':
                raise Refusal('that address is not encrypted while the one before was; use the final address')
            address, local = following, route.local

    async def _ask(self, address: Address, route: Route, patterns: Collection[str] | None) -> Fetched | str:
        """The file, or the address of a redirect."""
        channel = Channel()
        try:
            await channel.connect(route.addresses, address.port, timeout=self.connect_timeout)
            if address.scheme == 'https':
                name = str(address.host)
                await channel.secure(self.tls or _tls(), name, timeout=self.connect_timeout)
            exchange = Exchange(channel, timeout=self.read_timeout)
            exchange.ask(address, sorted(patterns or ()))
            head = await exchange.head()
            location = head.all('location')
            if head.status in _REDIRECTS and location:
                return location[0]
            _check_status(head.status)
            return await self._read(address, exchange, head, patterns)
        finally:
            await channel.close()

    async def _read(
        self, address: Address, exchange: Exchange, head: Head, patterns: Collection[str] | None
    ) -> Fetched:
        said = stated(head.all('content-type'))
        if said is not None and not said.startswith('image/'):  # of an image the bytes decide
            _check_type(said, patterns)
        body = Body(self.max_bytes, ', '.join(head.all('content-encoding')))
        body.promise(head.length)
        while (piece := await exchange.piece()) is not None:
            body.add(piece)
        data = body.end()
        media_type = decide(said, data)
        _check_type(media_type, patterns)
        return Fetched(data, media_type, address.url)


async def fetch(
    url: str,
    *,
    max_bytes: int = 20_000_000,
    timeout: float = 60.0,
    allow_private: bool = False,
    media_types: Collection[str] | None = None,
    resolve: Resolve | None = None,
) -> Fetched:
    """Fetch one file, by the rules of `Fetcher`; `timeout` is for all of it, in seconds."""
    fetcher = Fetcher(
        max_bytes=max_bytes,
        connect_timeout=min(timeout, 10.0),
        read_timeout=min(timeout, 20.0),
        total_timeout=timeout,
        allow_private=allow_private,
        media_types=media_types,
        resolve=resolve,
    )
    return await fetcher.fetch(url)


def _said(trail: list[str], reason: object) -> str:
    first, *others = map(shown, trail)
    by = f', redirected to {others[-1]},' if others else ''
    return f'the file at {first}{by} was not fetched: {reason}'


def _check_status(status: int) -> None:
    if status in (200, 203):
        return
    hint = 'pass the bytes instead' if status in _LOGIN else 'try again later' if status >= 429 else 'check the address'
    raise Failure(f'the server answered {status}; {hint}', status=status)


def _check_type(media_type: str, patterns: Collection[str] | None) -> None:
    if patterns is not None and not matches(media_type, patterns):
        wanted = ', '.join(sorted(patterns))
        raise Refusal(f'it is of type {media_type}, not {wanted}; check the address, or set media_types=')


def _check_patterns(patterns: Any) -> None:
    fits = patterns is None or (not isinstance(patterns, str) and all(map(is_pattern, patterns)))
    _check('media_types', patterns, fits, "patterns such as ['image/*', 'application/pdf']")


def _allowed(entries: Any) -> frozenset[tuple[str, int | None]]:
    wanted = "hosts such as {'files.internal', '10.0.0.5:8000', '[::1]'}"
    fits = not isinstance(entries, str) and all(isinstance(entry, str) for entry in entries)
    _check('allow', entries, fits, wanted)
    try:
        return frozenset(map(read_allowed, entries))
    except (ValueError, Refusal) as error:
        _wrong('allow', entries, wanted, error)


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _are_ports(value: object) -> bool:
    if isinstance(value, (str, bytes)) or not isinstance(value, Collection):
        return False
    return all(_is_number(port, int) and 1 <= cast(int, port) <= 65535 for port in cast('Collection[object]', value))


def _check(name: str, value: object, fits: bool, wanted: str) -> None:
    if not fits:
        _wrong(name, value, wanted)


def _wrong(name: str, value: object, wanted: str, cause: Exception | None = None) -> NoReturn:
    raise ConfigError(f'{name} of a Fetcher is {value!r}; pass {wanted}') from cause


@lru_cache(maxsize=1)
def _tls() -> SSLContext:
    """Reading the certificate store takes longer than all the rest; every fetch may share it."""
    import httpx  # slow to load, and not needed for `http:`

    return httpx.create_ssl_context()
