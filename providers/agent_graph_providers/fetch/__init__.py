"""The guarded fetcher: files at addresses that somebody wrote into a message, for providers that need the bytes.

    fetcher = Fetcher(max_bytes=5_000_000)
    messages = await with_bytes(messages, lambda part: part.media_type.startswith('image/'), fetcher)

An address may come from somebody who wants to see what is behind it, so before any connection: only `http:` and `https:`;
every spelling of an address is understood; the host is resolved once, all its addresses are judged, and the judged ones are
the ones connected to; the same for every redirect. Size, time and number of redirects are bounded.
"""

from agent_graph_providers.fetch.fetcher import Fetched, Fetcher, fetch
from agent_graph_providers.fetch.parts import file_bytes, with_bytes
from agent_graph_providers.fetch.route import Resolve

__all__ = ['Fetched', 'Fetcher', 'Resolve', 'fetch', 'file_bytes', 'with_bytes']
