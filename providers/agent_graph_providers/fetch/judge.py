"""What may be reached: an IP address, or a name, is public, local, or never fetched from.

The tables are those of the IANA special-purpose registries and of the clouds' metadata services. They are written out since
`ipaddress` of the Python at hand may be older than they are; it is asked as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal, TypeAlias

__all__ = ['IPAddress', 'Reach', 'Verdict', 'judge_address', 'judge_name', 'judge_port']

IPAddress: TypeAlias = IPv4Address | IPv6Address

Reach: TypeAlias = Literal['public', 'local', 'never']
"""`local`: this machine and its networks, for whoever asks for it. `never`: nothing a file would come from."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`what` says in a few words what sort of address or name it is."""

    reach: Reach
    what: str


_PUBLIC = Verdict('public', 'a public address')
_METADATA = Verdict('never', "an address of a cloud's metadata service")
_LINK = Verdict('never', 'a link-local address, where clouds keep their metadata')
_LOOPBACK = Verdict('local', 'this machine')
_PRIVATE = Verdict('local', 'a private address')
_SHARED = Verdict('local', "a provider's shared address")
_BENCHMARK = Verdict('local', 'an address for benchmarks')
_NOWHERE = Verdict('never', 'an address that stands for no host')
_SPECIAL = Verdict('never', 'an address for special purposes')
_EXAMPLE = Verdict('never', 'an address for documentation')
_MANY = Verdict('never', 'a multicast or broadcast address')
_RESERVED = Verdict('never', 'a reserved address')

# The first network that holds an address decides.
_V4 = [
    (IPv4Network(network), verdict)
    for network, verdict in (
        ('100.100.100.200/32', _METADATA),  # Alibaba Cloud
        ('168.63.129.16/32', _METADATA),  # Azure's platform service, though of a public network
        ('0.0.0.0/8', _NOWHERE),
        ('10.0.0.0/8', _PRIVATE),
        ('100.64.0.0/10', _SHARED),
        ('127.0.0.0/8', _LOOPBACK),
        ('169.254.0.0/16', _LINK),
        ('172.16.0.0/12', _PRIVATE),
        ('192.0.0.0/24', _SPECIAL),  # Oracle's older metadata address among them
        ('192.0.2.0/24', _EXAMPLE),
        ('192.88.99.0/24', _SPECIAL),
        ('192.168.0.0/16', _PRIVATE),
        ('198.18.0.0/15', _BENCHMARK),
        ('198.51.100.0/24', _EXAMPLE),
        ('203.0.113.0/24', _EXAMPLE),
        ('224.0.0.0/4', _MANY),
        ('255.255.255.255/32', _MANY),
        ('240.0.0.0/4', _RESERVED),
    )
]
_V6 = [
    (IPv6Network(network), verdict)
    for network, verdict in (
        ('::1/128', _LOOPBACK),
        ('::/128', _NOWHERE),
        ('fd00:ec2::/32', _METADATA),  # Amazon
        ('fd20:ce::/32', _METADATA),  # Google
        ('fc00::/7', _PRIVATE),
        ('fe80::/10', _LINK),
        ('ff00::/8', _MANY),
        ('2001::/32', _SPECIAL),  # Teredo: two IPv4 addresses, neither of them seen by a firewall
        ('2001::/23', _SPECIAL),
        ('2001:db8::/32', _EXAMPLE),
        ('3fff::/20', _EXAMPLE),
    )
]
_GLOBAL_V6 = IPv6Network('2000::/3')

# Networks whose addresses are an IPv4 address in another form, in their last 32 bits. The last one is the form without a
# mark, so it comes after `::1` and `::`.
_IS_V4 = [IPv6Network(n) for n in ('::ffff:0:0/96', '::ffff:0:0:0/96', '64:ff9b::/96', '::/96')]
_6TO4 = IPv6Network('2002::/16')
_ISATAP = (0x00005EFE, 0x02005EFE)

_LOCAL_NAMES = frozenset(
    {'localhost', 'localhost6', 'loopback', 'ip6-localhost', 'ip6-loopback', 'broadcasthost', 'host.docker.internal'}
)
_LOCAL_ENDS = ('.localhost', '.localdomain', '.localdomain6', '.local', '.internal', '.intranet', '.lan', '.home.arpa')
_METADATA_NAMES = frozenset(
    {
        'metadata',
        'metadata.google.internal',
        'metadata.goog',
        'metadata.azure.internal',
        'metadata.azure.com',
        'metadata.tencentyun.com',
        'metadata.packet.net',
        'metadata.platformequinix.com',
        'instance-data',
        'instance-data.ec2.internal',
        'rancher-metadata',
    }
)

# Ports of services that are not HTTP but may act on a text sent to them: the list of the Fetch Standard.
_OTHER_SERVICES = frozenset(
    map(
        int,
        '1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 '
        '135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 '
        '995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080'.split(),
    )
)


def judge_address(address: IPAddress) -> Verdict:
    """What sort of address it is, by itself and by any IPv4 address inside it."""
    if isinstance(address, IPv4Address):
        return _look_up(address)
    if address.scope_id is not None:
        return _LINK
    for network, verdict in _V6:
        if address in network:
            return verdict
    if any(address in network for network in _IS_V4):
        return _look_up(IPv4Address(int(address) & 0xFFFFFFFF))
    inside = _embedded(address)
    if inside is not None:  # before the next question: Python's versions answer it differently for 6to4
        return _look_up(inside)
    return _PUBLIC if address in _GLOBAL_V6 and address.is_global else _RESERVED


def judge_name(name: str) -> Verdict:
    """What a name says by itself; what it resolves to is judged too."""
    if name in _METADATA_NAMES:
        return Verdict('never', "the name of a cloud's metadata service")
    if name in _LOCAL_NAMES or name.endswith(_LOCAL_ENDS):
        return Verdict('local', 'a name of this machine or its network')
    return _PUBLIC


def judge_port(port: int) -> bool:
    """True if a web server may listen there."""
    return port not in _OTHER_SERVICES


def _look_up(address: IPv4Address) -> Verdict:
    for network, verdict in _V4:
        if address in network:
            return verdict
    return _PUBLIC if address.is_global else _RESERVED


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to, for the forms that tunnel and can be reached from anywhere."""
    bits = int(address)
    if address in _6TO4:
        return IPv4Address((bits >> 80) & 0xFFFFFFFF)
    if address in _GLOBAL_V6 and address.is_global and (bits >> 32) & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(bits & 0xFFFFFFFF)
    return None
