"""Addresses that were copied from a request: `https://host/v1/chat/completions` in place of `https://host/v1`."""

from __future__ import annotations

import re

from agent_graph.errors import ConfigError
from agent_graph_providers.wire.errors import shown_url

__all__ = ['joined', 'without_endpoint']

_KNOWN = re.compile(
    r'/(?:(?:chat/)?completions|messages|responses|v1beta/models/[^/]+:\w+|api/(?:chat|generate)|v[12]/chat'
    r'|model/[^/]+/(?:converse(?:-stream)?|invoke(?:-with-response-stream)?)|models/[^/]+:(?:stream)?generateContent)$',
    re.IGNORECASE,
)
"""What requests of the known protocols end in."""


def without_endpoint(url: str, own: str, who: str) -> str:
    """The address that paths are appended to; `own` is a pattern of what this protocol's requests end in.

    Raises `ConfigError` for the endpoint of another protocol.
    """
    address, mark, query = url.partition('?')
    address = address.rstrip('/')
    if own and (found := re.search(f'(?:{own})$', address)):
        address = address[: found.start()]
    elif found := _KNOWN.search(address):
        raise ConfigError(
            f'the address {shown_url(url)!r} of {who} is an endpoint of another API; pass the address that '
            f"{who}'s own paths are appended to, without {found[0]!r}, or use the provider that speaks that API"
        )
    return f'{address}{mark}{query}'


def joined(address: str, path: str) -> str:
    """The URL of a path, before the query of an address that has one.

    Addresses are given with and without the version that begins a path: it is in the URL once.
    """
    address, mark, query = address.partition('?')
    version = path[: path.find('/', 1)]
    again = version[:2] == '/v' and version[2:3].isdigit() and address.endswith(version)
    more, _, own = path.partition('?')
    queries = '&'.join(filter(None, (own, query)))
    return address.rstrip('/') + (more[len(version) :] if again else more) + ('?' + queries if queries else mark)
