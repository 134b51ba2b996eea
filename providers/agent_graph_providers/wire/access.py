"""How one model is reached: address and key. Variables are read when they are needed, so a missing one is no error before
the first request."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import SecretStr

from agent_graph.errors import ConfigError
from agent_graph.model import ModelSettings
from agent_graph_providers.wire.endpoints import without_endpoint
from agent_graph_providers.wire.errors import Asked, shown_url

__all__ = ['Access', 'Hidden', 'Key', 'Site', 'at', 'own_settings']

F = TypeVar('F', bound=Callable[..., Any])


class Key(str):
    """A key that does not show itself: tools that print the variables of a traceback see `'***'`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Hidden(dict[str, str]):
    """Headers that do not show themselves, for the same reason."""

    def __repr__(self) -> str:
        return '{***}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a provider is and which key it wants.

    `name` is the prefix in `"name:model"`. `provider` is its name in the genai-prices data where that differs. `base_url`
    is where it is, `base_url_env` the variable that says otherwise; without either, `base_url=` has to be passed.
    `key_env` is the variable that holds the key; `key_optional` providers are asked without one when it is not set.
    `locate` finds the address where it depends on something else, such as a region; it raises `ConfigError`. `secrets` are
    others than the key that no error may show.
    `other_key_envs` are looked at, in order, where `key_env` is not set. `endpoint` is a pattern of what requests end in: it
    is taken off an address that was copied from one.

    For the command line: `extra` is the extra to install where its name is not the prefix, `credentials` says in a few words
    where credentials other than a key come from (`''` for nowhere), without asking the network.
    """

    name: str
    base_url: str | None = None
    key_env: str | None = None
    provider: str = ''
    base_url_env: str | None = None
    key_optional: bool = False
    locate: Callable[[], str] | None = None
    secrets: Callable[[], Iterable[str]] | None = None
    other_key_envs: tuple[str, ...] = ()
    extra: str = ''
    credentials: Callable[[], str] | None = None
    endpoint: str = ''

    def placed(self, address: str, model: str) -> str:
        """The address at which `model` is asked; a site may add a path to one that was given without."""
        return address


def at(site: Site) -> Callable[[F], F]:
    """Marks the function an entry point names with where its models are, so that tools can tell without calling it."""

    def mark(function: F) -> F:
        function.site = site  # pyright: ignore[reportFunctionMemberAccess]
        return function

    return mark


@dataclass(frozen=True, slots=True)
class Access:
    """What was said about a model's site when the model was made."""

    name: str
    site: Site
    base_url: str | None = None
    api_key: SecretStr | None = None

    @property
    def provider(self) -> str:
        """Who serves it, as genai-prices calls it."""
        return self.site.provider or self.site.name

    def asked(self, *, key: str | None = None) -> Asked:
        """Who is asked, for the errors of one request. Raises `ConfigError` like `address` and `key`."""
        secret = self.key() if key is None else key
        asked = Asked(self.provider, self.name, self.address(), self._to_check(), secret)
        if self.site.secrets is not None:
            asked.hide_also(self.site.secrets)
        return asked

    def shown_address(self) -> str:
        """The base URL without credentials and query; `''` while there is none."""
        try:
            return shown_url(self.address())
        except ConfigError:
            return ''

    def address(self) -> str:
        """The base URL, without a slash at its end. Raises `ConfigError` if there is none, or if it is no URL."""
        site = self.site
        url = self.base_url or (os.environ.get(site.base_url_env, '') if site.base_url_env else '') or site.base_url
        if not url and site.locate is not None:
            url = site.locate()
        if not url:
            raise ConfigError(f'{site.name} has no address; set {site.base_url_env} or pass base_url=')
        if not url.startswith(('http://', 'https://')):
            raise ConfigError(
                f'the address {shown_url(url)!r} of {site.name} is no URL; begin it with https:// or http://'
            )
        return site.placed(without_endpoint(url, site.endpoint, site.name), self.name)

    def key(self) -> Key:
        """The key, `''` where none is needed. Raises `ConfigError` if one is missing or cannot be sent."""
        site = self.site
        if self.api_key is not None:
            key, source = Key(self.api_key.get_secret_value().strip()), 'api_key='
        else:
            key, source = _key_set(site)
        if not key and (site.key_optional or site.key_env is None):
            return Key()
        if not key:
            raise ConfigError(f'{site.name} wants a key for {self.name!r}; set {site.key_env} or pass api_key=')
        if not key.isascii() or not key.isprintable():
            raise ConfigError(
                f'the key for {site.name} holds characters no HTTP header can; check {source} for quotes and line breaks'
            )
        return key

    def _to_check(self) -> str:
        """What is to be looked at when the server does not know whoever asks: where the key that was used came from."""
        if self.api_key is not None and self.api_key.get_secret_value().strip():
            return 'the key passed as api_key='
        key, name = _key_set(self.site)
        if key and self.api_key is None:
            return name or ''
        return f'whether it wants a key: none was sent; set {name} or pass api_key=' if name else ''


def _key_set(site: Site) -> tuple[Key, str | None]:
    """The key in the first of the site's variables that holds one, and that variable."""
    names = (site.key_env, *site.other_key_envs) if site.key_env else ()
    for name in names:
        if key := os.environ.get(name, '').strip():
            return Key(key), name
    return Key(), site.key_env


def own_settings(settings: ModelSettings | None) -> dict[str, Any]:
    """A model's own settings as JSON data, for its `identity`; headers may hold secrets and are left out."""
    return {'settings': {k: v for k, v in (settings or {}).items() if k != 'extra_headers' and not callable(v)}}
