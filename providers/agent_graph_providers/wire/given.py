"""What was passed when a model was made: refused at once where it is of the wrong kind, saying what to pass."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from agent_graph.capabilities import Capabilities
from agent_graph.errors import ConfigError
from agent_graph.settings import check_settings

__all__ = ['address_given', 'check_callable', 'check_client', 'check_name', 'check_rest', 'check_texts', 'key_given']

_CLIENT = ('build_request', 'send', 'aclose', 'is_closed')
"""What is used of an HTTP client; a synchronous one lacks some of it."""


def check_name(name: Any, who: str) -> None:
    """Raises `ConfigError` for what is no model's name; `who` is the prefix of such models."""
    if not isinstance(name, str):
        raise ConfigError(
            f'{name!r} is no name of a model; pass a text, such as the one after the colon in "{who}:..."'
        )
    if not name.strip():
        raise ConfigError(f'"{who}:{name}" names no model; write the model after the colon: "{who}:..."')


def check_texts(**given: Any) -> None:
    """Raises `ConfigError` for an argument that is neither a text with something in it nor `None`."""
    for name, value in given.items():
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise ConfigError(f'{name}={value!r} is not usable; pass a text, or None to leave it out')


def check_callable(name: str, given: Any, what: str) -> None:
    """Raises `ConfigError` for an argument that is neither a function nor `None`; `what` says which function."""
    if given is not None and not callable(given):
        raise ConfigError(f'{name}={given!r} cannot be called; pass {what}, or None')


def address_given(base_url: Any, who: str) -> str | None:
    """`base_url` as a text; objects that stand for a URL are taken as well. Raises `ConfigError` for anything else."""
    if base_url is None:
        return None
    text = base_url if isinstance(base_url, str) else _url_text(base_url)
    if not text.strip():
        what = 'empty' if isinstance(base_url, str) else 'no address'
        raise ConfigError(
            f"base_url={base_url!r} is {what}; pass the address as a text, such as 'https://...', or None for {who}'s own"
        )
    return text


def key_given(api_key: Any, who: str, *, optional: bool) -> SecretStr | None:
    """`api_key` hidden. Raises `ConfigError`, which does not show it, for what is no key; `optional` ones may be empty."""
    if isinstance(api_key, SecretStr):
        api_key = api_key.get_secret_value()
    if api_key is None:
        return None
    if not isinstance(api_key, str):
        raise ConfigError(f'api_key= is of type {type(api_key).__name__}; pass the key for {who} as a text')
    if not api_key.strip() and not optional:
        raise ConfigError(f'api_key={api_key!r} is empty; pass the key for {who}, or None to use the variable it is in')
    return SecretStr(api_key)


def check_client(http_client: Any) -> None:
    """Raises `ConfigError` for what requests cannot be sent with."""
    lacking = isinstance(http_client, type) or not all(hasattr(http_client, name) for name in _CLIENT)
    if http_client is not None and lacking:
        raise ConfigError(f'http_client={http_client!r} cannot be used; pass an httpx.AsyncClient, or None for our own')


def check_rest(settings: Any, capabilities: Any, fetcher: Any = None) -> None:
    """Raises `ConfigError` for settings, a record of capabilities or a fetcher of the wrong kind."""
    check_settings(settings if settings is not None else {})
    if capabilities is not None and not isinstance(capabilities, Capabilities):
        raise ConfigError(f'capabilities={capabilities!r} is no record of them; pass Capabilities(...), or None')
    if fetcher is not None and (isinstance(fetcher, type) or not hasattr(fetcher, 'fetch')):
        raise ConfigError(f'fetcher={fetcher!r} cannot fetch; pass a Fetcher(...), or None for the usual one')


def _url_text(given: Any) -> str:
    """The address an object of another library stands for, `''` if it is no URL."""
    text = '' if isinstance(given, bytes | bytearray) else str(given)
    return text if text.startswith(('http://', 'https://')) else ''
