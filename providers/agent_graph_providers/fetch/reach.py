"""What sort of host an address names, as far as it says so itself: no name server is asked."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from agent_graph_providers.fetch.hosts import read_host
from agent_graph_providers.fetch.judge import Reach, judge_address, judge_name
from agent_graph_providers.fetch.reasons import Refusal

__all__ = ['is_at_hand', 'reach_of']


@lru_cache(maxsize=1024)  # a history is looked at again at every step
def reach_of(url: str) -> Reach:
    """Whether the host is public, of this machine or its networks, or nothing a file comes from; `public` if it is unclear."""
    try:
        name = urlsplit(url).hostname or ''
        host = read_host(f'[{name}]' if ':' in name else name)
    except (ValueError, Refusal):
        return 'public'
    return (judge_name(host) if isinstance(host, str) else judge_address(host)).reach


def is_at_hand(url: str) -> bool:
    """A server at this address is in the local network, so it can reach what is there; so is one without a full name."""
    if reach_of(url) != 'public':
        return True
    name = urlsplit(url).hostname or ''
    return '.' not in name and ':' not in name
