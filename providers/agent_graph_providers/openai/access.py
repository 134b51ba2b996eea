"""How one model is reached: address, key and client. Variables are read when they are needed, so a missing one is no error
before the first request."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from agent_graph.errors import ConfigError
from agent_graph_providers.openai.clients import make_client
from agent_graph_providers.openai.errors import Asked, shown_url
from agent_graph_providers.openai.servers import Server

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ['Access']

_NO_KEY = 'none'
"""Sent where a server wants none; the SDK insists on one."""


@dataclass(frozen=True, slots=True)
class Access:
    """What was said about a model's server when the model was made."""

    name: str
    server: Server
    base_url: str | None
    api_key: SecretStr | None
    http_client: Any
    make_client: Callable[[], AsyncOpenAI] | None

    @property
    def provider(self) -> str:
        return self.server.provider or self.server.name

    def asked(self) -> Asked:
        """Who is asked, for the errors of one request. Raises `ConfigError` like `address` and `key`."""
        if self.make_client is not None:
            return Asked(self.provider, self.name, self.base_url or '', self.server.key_env, '')
        key = self.key()
        return Asked(self.provider, self.name, self.address(), self.server.key_env, '' if key == _NO_KEY else key)

    def client(self) -> AsyncOpenAI:
        """A new client of the SDK."""
        if self.make_client is not None:
            return self.make_client()
        if self.http_client is not None and self.http_client.is_closed:
            raise ConfigError(
                f'the http_client given for {self.name!r} is closed; keep it open while the model is used'
            )
        return make_client(self.server, self.address(), self.key(), self.name, self.http_client)

    def address(self) -> str:
        """The base URL. Raises `ConfigError` if there is none, or if it is no URL."""
        server = self.server
        url = (
            self.base_url or (os.environ.get(server.base_url_env, '') if server.base_url_env else '') or server.base_url
        )
        if not url:
            raise ConfigError(f'{server.name} has no address; set {server.base_url_env} or pass base_url=')
        if not url.startswith(('http://', 'https://')):
            raise ConfigError(
                f'the address {shown_url(url)!r} of {server.name} is no URL; begin it with https:// or http://'
            )
        return url

    def key(self) -> str:
        """The key. Raises `ConfigError` if it is missing where one is wanted, or cannot be sent."""
        server = self.server
        if self.api_key is not None:
            key, source = self.api_key.get_secret_value().strip(), 'api_key='
        else:
            key, source = (os.environ.get(server.key_env, '') if server.key_env else '').strip(), server.key_env
        if not key and (server.key_optional or server.key_env is None):
            return _NO_KEY
        if not key:
            raise ConfigError(f'{server.name} wants a key for {self.name!r}; set {server.key_env} or pass api_key=')
        if not key.isascii() or not key.isprintable():
            raise ConfigError(
                f'the key for {server.name} holds characters no HTTP header can; check {source} for quotes and line breaks'
            )
        return key
