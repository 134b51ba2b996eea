"""The SDK's client for a server. Retries are left to whoever asks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from agent_graph_providers.openai.servers import Server
from agent_graph_providers.wire.http import most_connections, tls
from agent_graph_providers.wire.timing import CONNECT, SILENCE

if TYPE_CHECKING:
    import httpx2

    import openai

__all__ = ['NO_KEY', 'make_client']

NO_KEY = 'none'
"""Sent where a server wants none; the SDK insists on one."""


def make_client(server: Server, base_url: str, key: str, model: str, http_client: Any) -> openai.AsyncOpenAI:
    """The SDK's client for a server. Retries are left to whoever asks."""
    import openai  # slow to load, so not before the first request

    base_url, _, query = base_url.partition('?')
    asked = dict(parse_qsl(query)) or None
    own = http_client if http_client is not None else _new_http_client()
    if server.azure and not base_url.partition('://')[2].partition('/')[2].strip('/'):
        return openai.AsyncAzureOpenAI(
            azure_endpoint=base_url,
            azure_deployment=model,
            api_version=os.environ.get('OPENAI_API_VERSION', '2024-10-21'),
            api_key=key,
            max_retries=0,
            default_query=asked,
            http_client=own,
        )
    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=key,
        max_retries=0,
        default_query=asked,
        default_headers=None if server.name == 'openai' else _without_openai_headers(),
        http_client=own,
    )


def _new_http_client() -> httpx2.AsyncClient:
    import httpx2

    import openai

    most = most_connections()
    return openai.DefaultAsyncHttpxClient(
        verify=tls(),
        timeout=httpx2.Timeout(SILENCE, connect=CONNECT),
        limits=httpx2.Limits(max_connections=most, max_keepalive_connections=min(most, 100)),
    )


def _without_openai_headers() -> Mapping[str, str]:
    """What the SDK would tell every server although it is meant for OpenAI's: organisation, project, custom headers."""
    import openai

    lines = os.environ.get('OPENAI_CUSTOM_HEADERS', '').splitlines()
    names = {line.partition(':')[0].strip() for line in lines} | {'OpenAI-Organization', 'OpenAI-Project'}
    return cast(Mapping[str, str], {n: openai.omit for n in sorted(names) if n and n.lower() != 'authorization'})
