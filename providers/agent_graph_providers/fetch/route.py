"""Where a host may be reached: it is resolved once, every address is judged, and only judged addresses are connected to.

A name that changes between check and connect changes nothing, since nobody asks for it again.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from agent_graph_providers.fetch.address import Address
from agent_graph_providers.fetch.hosts import host_text, read_host
from agent_graph_providers.fetch.judge import IPAddress, Verdict, judge_address, judge_name, judge_port
from agent_graph_providers.fetch.reasons import Failure, Refusal

__all__ = ['Resolve', 'Route', 'Rules', 'find_route', 'read_allowed', 'system_resolve']

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""`(host, port)` -> the IP addresses of a host, as texts. Raises `OSError` if there are none."""

_MOST_OF_A_KIND = 2
"""IPv4 and IPv6 addresses that are tried, each: an unreachable kind must not use up the time of the other."""


@dataclass(frozen=True, slots=True)
class Route:
    """The judged addresses of a host, in the order they are tried.

    `local`: a redirect from here may lead to hosts of this machine and its networks. It may if the host is such a one
    itself: a stranger's server does not get to choose among ours.
    """

    addresses: tuple[IPAddress, ...]
    local: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """What `find_route` goes by; the fields of `Fetcher` of the same names."""

    schemes: Collection[str]
    ports: Collection[int] | None
    allow: Collection[tuple[str, int | None]]
    resolve: Resolve
    timeout: float


async def find_route(address: Address, rules: Rules, *, local: bool) -> Route:
    """Resolve and judge. `local`: addresses of this machine and its networks are allowed.

    Raises `Refusal` if any address may not be reached, `Failure` if there is none.
    """
    _check_form(address, rules)
    host = host_text(address.host)
    allowed = local or (host, None) in rules.allow or (host, address.port) in rules.allow
    if isinstance(address.host, str):
        _check(judge_name(host), host, host, allowed)
        found = [_read(text, host) for text in await _resolve(host, address.port, rules)]
    else:
        found = [address.host]
    verdicts = [judge_address(address) for address in found]
    for one, verdict in zip(found, verdicts, strict=True):
        _check(verdict, host, host_text(one), allowed)
    return Route(_some(found), local and any(verdict.reach == 'local' for verdict in verdicts))


async def system_resolve(host: str, port: int) -> list[str]:
    """Ask the system: its hosts file and its name servers."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(where[0]) for _, _, _, _, where in found]


def read_allowed(entry: str) -> tuple[str, int | None]:
    """An entry of `Fetcher.allow`, `host` or `host:port`. Raises `ValueError` or `Refusal`."""
    try:
        return host_text(ip_address(entry)), None
    except ValueError:
        pass
    head, colon, tail = entry.rpartition(':')
    host, port = (head, int(tail)) if colon and not entry.endswith(']') else (entry, None)
    return host_text(read_host(host)), port


def _check_form(address: Address, rules: Rules) -> None:
    if address.scheme not in rules.schemes:
        allowed = ' and '.join(sorted(rules.schemes))
        raise Refusal(f'{address.scheme}: is not among the allowed schemes ({allowed}); use another address')
    fits = judge_port(address.port) if rules.ports is None else address.port in rules.ports
    if not fits:
        raise Refusal(f'port {address.port} is not one files are fetched from; set Fetcher(ports=...) to allow it')


async def _resolve(host: str, port: int, rules: Rules) -> Sequence[str]:
    try:
        async with asyncio.timeout(rules.timeout):
            found = await rules.resolve(host, port)
    except TimeoutError as error:
        raise Failure(f'the address of {host} was not found in time; try again later') from error
    except (OSError, UnicodeError) as error:
        raise Failure(f'the host {host} was not found ({error}); check the address') from error
    if not found:
        raise Failure(f'the host {host} has no address; check the address')
    return found


def _read(text: str, host: str) -> IPAddress:
    try:
        return ip_address(text)
    except ValueError as error:
        raise Refusal(f'{host} resolves to {text!r}, which is no IP address; check resolve=') from error


def _some(found: list[IPAddress]) -> tuple[IPAddress, ...]:
    plain = list(dict.fromkeys(map(_plain, found)))
    v4, v6 = ([a for a in plain if a.version == version][:_MOST_OF_A_KIND] for version in (4, 6))
    return tuple(a for a in plain if a in v4 or a in v6)


def _check(verdict: Verdict, host: str, address: str, local: bool) -> None:
    what = f'{host} is {verdict.what}' if host == address else f'{host} resolves to {address}, {verdict.what}'
    if verdict.reach == 'never':
        raise Refusal(f'{what}, from which nothing is ever fetched; pass the bytes instead')
    if verdict.reach == 'local' and not local:
        raise Refusal(
            f'{what}; if you mean that host, and not somebody you do not know, say so: '
            f'FilePart.from_url(..., allow_local=True) or Fetcher(allow={{{host!r}}})'
        )


def _plain(address: IPAddress) -> IPAddress:
    """`::ffff:1.2.3.4` is 1.2.3.4, also where IPv6 is off."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else IPv4Address(mapped)
