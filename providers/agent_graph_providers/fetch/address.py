"""An `http:` or `https:` address, read strictly and written in one way, so that nobody after us can read it differently."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from agent_graph_providers.fetch.hosts import Host, host_text, read_host
from agent_graph_providers.fetch.reasons import Refusal

__all__ = ['Address', 'join', 'read_address', 'shown']

_PORTS = {'http': 80, 'https': 443}
_LONGEST = 16_384
_LONGEST_SHOWN = 160
_UNSAFE = re.compile(r'[\x00-\x20\x7f\\]')
_SCHEME = re.compile(r'([a-z][a-z0-9+.-]*):(.*)', re.ASCII | re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r'//([^/?#]*)([^#]*)')
_HOST_AND_PORT = re.compile(r'(\[[^\]@]*\]|[^:\[\]@]*)(?::([0-9]{0,5}))?', re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a file is. `target` is the path and the query, as they are sent."""

    scheme: str
    host: Host
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Host and port, as in the `Host` header."""
        host = host_text(self.host)
        return host if self.port == _PORTS[self.scheme] else f'{host}:{self.port}'

    @property
    def url(self) -> str:
        return f'{self.scheme}://{self.authority}{self.target}'


def read_address(url: str) -> Address:
    """Read an address. Raises `Refusal` for anything but a whole, unambiguous one without credentials."""
    if len(url) > _LONGEST:
        raise Refusal(f'the address has {len(url):,} characters, more than {_LONGEST:,}; pass the bytes instead')
    if _UNSAFE.search(url):
        raise Refusal('the address has a space, a backslash or a control character in it; percent-encode it')
    found = _SCHEME.fullmatch(url)
    scheme, rest = (found[1].lower(), found[2]) if found else ('', '')
    if scheme not in _PORTS:
        raise Refusal('only http: and https: addresses are fetched; pass the bytes instead')
    parts = _AUTHORITY.match(rest)
    if parts is None:
        raise Refusal(f'the address has no // after {scheme}:; check it')
    host, port = _read_authority(parts[1])
    return Address(scheme, host, _PORTS[scheme] if port is None else port, _target(parts[2]))


def join(address: Address, location: str) -> Address:
    """The address a redirect leads to. Raises `Refusal` if it cannot be read."""
    location = location.strip().replace(' ', '%20')
    if _UNSAFE.search(location):
        raise Refusal('that address has a backslash or a control character in it; use the final address')
    try:
        return read_address(urljoin(address.url, location))
    except ValueError as error:  # brackets where no host is
        raise Refusal('that address cannot be read; use the final address') from error


def shown(url: str) -> str:
    """An address fit for a message: no credentials, no query, no fragment, not too long, only printable characters."""
    url, query, _ = re.split(r'([?#])', url, maxsplit=1) if re.search('[?#]', url) else (url, '', '')
    more = '?...' if query == '?' else ''
    found = _SCHEME.fullmatch(url)
    if found is not None and not found[2].startswith('//'):
        return _cut(f'{found[1]}:...')
    scheme, place = (f'{found[1]}://', found[2][2:]) if found else ('', url)
    authority = re.split(r'[/\\]', place, maxsplit=1)[0]
    if '@' in place and not (scheme and _HOST_AND_PORT.fullmatch(authority)):
        place = f'***@{place.rpartition("@")[2]}'
    return _cut(f'{scheme}{place}') + more


def _cut(text: str) -> str:
    text = text if len(text) <= _LONGEST_SHOWN else f'{text[:_LONGEST_SHOWN]}...'
    return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]


def _read_authority(text: str) -> tuple[Host, int | None]:
    if '@' in text:
        raise Refusal('the address has credentials in it (before the @); pass the bytes, or an address without them')
    found = _HOST_AND_PORT.fullmatch(text)
    if found is None:
        raise Refusal('what comes after // is no host and port; check the address')
    port = int(found[2]) if found[2] else None
    if port is not None and not 1 <= port <= 65535:
        raise Refusal(f'there is no port {port}; check the address')
    if not found[1]:
        raise Refusal('the address names no host; check it')
    return read_host(found[1]), port


def _target(text: str) -> str:
    try:
        text = quote(text, safe="/?%:@!$&'()*+,;=~[]")
    except UnicodeEncodeError as error:
        raise Refusal('the address has half a character (a surrogate) in it; percent-encode it') from error
    return text if text.startswith('/') else f'/{text}'
