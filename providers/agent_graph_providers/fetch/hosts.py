"""The host of an address: a name in the form DNS knows, or an IP address in whatever way it was spelled.

The reading is that of browsers (the URL Standard's host parser), so that `2130706433`, `0x7f.1`, `0177.0.0.1`,
`127。0。0。1` and `１２７.0.0.1` are all seen as what they are.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TypeAlias

from agent_graph_providers.fetch.reasons import Refusal

__all__ = ['Host', 'host_text', 'read_host']

Host: TypeAlias = str | IPv4Address | IPv6Address

_LABEL = re.compile(r'[a-z0-9_-]{1,63}', re.ASCII)
_NUMBER = re.compile(r'0x[0-9a-f]*|[0-9]+', re.ASCII)
_LONGEST_NAME = 253


def read_host(text: str) -> Host:
    """The host, `[...]` for IPv6. Raises `Refusal` for what is no host."""
    if text.startswith('['):
        return _ipv6(text)
    name = _ascii(text).lower().removesuffix('.')
    labels = name.split('.')
    if _NUMBER.fullmatch(labels[-1]):  # no top-level domain is a number, and resolvers would take it for an address
        return _ipv4(labels, text)
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise Refusal(f'{text[:_LONGEST_NAME]!r} is no host name; check the address')
    return name


def host_text(host: Host) -> str:
    """The host as it is written in an address and in the `Host` header."""
    return f'[{host}]' if isinstance(host, IPv6Address) else str(host)


def _ipv6(text: str) -> IPv6Address:
    inner = text[1:-1]
    if '%' in inner:
        raise Refusal(f'{text!r} names a network interface of this machine; use an address without a zone')
    try:
        if text.endswith(']'):
            return IPv6Address(inner)
    except AddressValueError:
        pass
    raise Refusal(f'{text!r} is no IPv6 address; check the address')


def _ascii(text: str) -> str:
    if text.isascii():
        return text
    import idna  # its tables are large, and few hosts need them

    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode()
    except UnicodeError as error:
        raise Refusal(f'{text!r} is no host name; check the address') from error


def _ipv4(labels: list[str], text: str) -> IPv4Address:
    """One to four numbers, decimal, octal or hexadecimal; the last one fills what the others leave."""
    try:
        *first, last = map(_number, labels)
        if len(first) <= 3 and all(n <= 255 for n in first) and last < 256 ** (4 - len(first)):
            return IPv4Address(sum(n << (24 - 8 * i) for i, n in enumerate(first)) + last)
    except ValueError:
        pass
    raise Refusal(f'{text!r} is no IPv4 address; check the address')


def _number(label: str) -> int:
    if not _NUMBER.fullmatch(label):
        raise ValueError(label)
    if label.startswith('0x'):
        return int(label[2:] or '0', 16)
    return int(label, 8 if label.startswith('0') else 10)
