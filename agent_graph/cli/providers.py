"""The installed providers and what each needs: read from entry points, their `site`, and the environment. None is called.

A provider tells about itself by data: what its entry point names has an attribute `site`, or is a method of such an object.
All that is read of a site: `base_url`, `base_url_env`, `key_env`, `other_key_envs`, `key_optional`, `locate()`, `extra`,
`credentials()`. Keys are looked at for faults and never shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from agent_graph.cli.exits import one_line
from agent_graph.cli.requirements import Requirement, extra_of, requirements
from agent_graph.registry import installed

__all__ = ['Key', 'Provider', 'all_providers', 'key_faults', 'provider_of', 'shown_address']


@dataclass(frozen=True, slots=True)
class Key:
    """The key a provider wants. `variable` is where it was found or is wanted, `''` if it wants none.

    `others` are looked at where `variable` is not set. `elsewhere` says in words where other credentials come from.
    """

    variable: str = ''
    found: bool = False
    optional: bool = True
    others: tuple[str, ...] = ()
    elsewhere: str = ''
    faults: tuple[str, ...] = ()
    told: bool = True
    """The provider says what it wants; else nothing is known of it."""

    @property
    def missing(self) -> bool:
        """Nothing can be asked without it, and it is not there."""
        return not (self.found or self.optional or self.elsewhere)

    @property
    def text(self) -> str:
        """In a few words."""
        if not self.variable:
            return self.elsewhere or ('none needed' if self.told else 'not told')
        if self.found:
            return f'{self.variable} {"malformed" if self.faults else "found"}'
        if self.elsewhere:
            return self.elsewhere
        return f'{" or ".join((self.variable, *self.others))} {"not set (optional)" if self.optional else "missing"}'


@dataclass(frozen=True, slots=True)
class Provider:
    """One installed provider. `error` says why it cannot be loaded; `lacking` is what its `extra` would bring."""

    name: str
    entry: EntryPoint
    site: Any = None
    load: Any = None
    error: str = ''
    key: Key = Key()
    address: str = ''
    address_variable: str = ''
    address_set: bool = False
    extra: str = ''
    lacking: tuple[Requirement, ...] = ()

    @property
    def package(self) -> str:
        """Name and version of the distribution that brings it."""
        dist = self.entry.dist
        return f'{dist.name} {dist.version}' if dist is not None else ''

    @property
    def install(self) -> str:
        """The command that brings what it lacks, `''` if it lacks nothing."""
        if not self.lacking or self.entry.dist is None:
            return ''
        return f"pip install '{self.entry.dist.name}[{self.extra}]'"

    @property
    def usable(self) -> bool:
        """It can be loaded, and what it wants to be asked with is there."""
        homeless = bool(self.address_variable) and not self.address
        return not (self.error or self.key.missing or self.key.faults or self.hindered or homeless)

    @property
    def hindered(self) -> bool:
        """It lacks packages it needs. Where there is another way to sign in than a key, they are for that one."""
        signs_in = getattr(self.site, 'credentials', None) is not None
        return bool(self.lacking) and not (signs_in and self.key.found)

    @property
    def local(self) -> bool:
        """Its server is on this machine."""
        return urlsplit(self.address).hostname in ('127.0.0.1', 'localhost', '::1')


def all_providers() -> list[Provider]:
    """Every provider there is, by name."""
    return [provider_of(entry) for _, entry in sorted(installed().items())]


def provider_of(entry: EntryPoint) -> Provider:
    """What an entry point brings, and what is there of all it needs."""
    loaded, error = _loaded(entry)
    site = _site_of(loaded)
    extra = extra_of(entry.dist, _text(site, 'extra') or entry.name)
    wanted = requirements(entry.dist, extra) if entry.dist is not None and extra else []
    variable = _text(site, 'base_url_env')
    return Provider(
        entry.name,
        entry,
        site,
        loaded,
        error,
        _key_of(site),
        _address_of(site),
        variable,
        bool(variable and os.environ.get(variable, '').strip()),
        extra,
        tuple(need for need in wanted if need.fault),
    )


def _loaded(entry: EntryPoint) -> tuple[Any, str]:
    try:
        return entry.load(), ''
    except (Exception, SystemExit) as error:  # whatever somebody else's package raises when it is imported
        return None, one_line(error)


def _site_of(loaded: Any) -> Any:
    site = getattr(loaded, 'site', None)
    return site if site is not None else getattr(loaded, '__self__', None)


def _text(site: Any, name: str) -> str:
    value = getattr(site, name, None)
    return value if isinstance(value, str) else ''


def _told(site: Any, name: str) -> str:
    """What a function of the site says, `''` where there is none or it has nothing to say."""
    function = getattr(site, name, None)
    if not callable(function):
        return ''
    try:
        told = cast(Callable[[], object], function)()
    except Exception:  # it says where something is: nowhere
        return ''
    return told if isinstance(told, str) else ''


def _key_of(site: Any) -> Key:
    elsewhere = _told(site, 'credentials')
    variable = _text(site, 'key_env')
    if not variable:
        return Key(elsewhere=elsewhere, told=site is not None)
    others = tuple(cast(Sequence[str], getattr(site, 'other_key_envs', ())))
    optional = bool(getattr(site, 'key_optional', False))
    for name in (variable, *others):
        if os.environ.get(name, '').strip():
            faults = tuple(key_faults(os.environ[name], name))
            return Key(name, True, optional, others, elsewhere, faults)
    return Key(variable, False, optional, others, elsewhere)


def _address_of(site: Any) -> str:
    variable = _text(site, 'base_url_env')
    given = os.environ.get(variable, '').strip() if variable else ''
    return shown_address(given or _text(site, 'base_url') or _told(site, 'locate'))


def shown_address(url: str) -> str:
    """An address without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
        _, at, host = parts.netloc.rpartition('@')
        return urlunsplit((parts.scheme, ('***@' if at else '') + host, parts.path, '', ''))
    except ValueError:
        return '(an address that cannot be read)'


_PLACEHOLDER = re.compile(
    r'(?i)<.*>|\{.*\}|\$\{?\w+\}?|your[-_ ].*|.*[-_]here|(sk-)?(\.{2,}|x{3,}|\*{3,}|…)|change[-_ ]?me|todo|none|null'
)


def key_faults(value: str, variable: str) -> list[str]:
    """What is wrong with a key, in words that do not show it; empty for one that can be sent."""
    key = value.strip()
    found: list[str] = []
    if key[:1] in '"\'`' or key[-1:] in '"\'`':
        found.append('has quotes around it: leave them out')
    if key.lower().startswith('bearer '):
        found.append('begins with "Bearer": leave that out')
    if key.startswith((f'{variable}=', 'export ')):
        found.append('holds its own name: set only what comes after the =')
    if '\n' in key or '\r' in key:
        found.append('has a line break in it')
    elif any(c.isspace() for c in key) and not found:
        found.append('has a blank in it')
    if not key.isascii() or not key.replace('\n', '').replace('\r', '').isprintable():
        found.append('holds characters that no HTTP header can: copy it again')
    if _PLACEHOLDER.fullmatch(key.strip('"\'`')):
        found.append('is a placeholder: put the key there')
    return found
