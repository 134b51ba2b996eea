"""Keys, addresses and the packages of providers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from agent_graph.cli.doctor.findings import Finding, fine, note, problem
from agent_graph.cli.providers import Provider, key_faults, shown_address

__all__ = ['addresses', 'keys', 'loading']


def loading(providers: Sequence[Provider]) -> Iterator[Finding]:
    """Whether the providers can be loaded, and have the packages they need where they are meant to be used."""
    if not providers:
        yield problem('providers', 'none is installed', 'install agent-graph itself (pip install .), it brings some')
    for one in providers:
        if one.error:
            remedy = one.install or f'reinstall {one.package or one.entry.value}'
            yield problem('providers', f'{one.name!r} cannot be loaded: {one.error}', remedy)
        elif one.hindered and one.key.found:
            needs = ', '.join(map(str, one.lacking))
            yield problem('providers', f'{one.key.variable} is set, but {one.name!r} lacks {needs}', one.install)
    ready = [one.name for one in providers if one.usable and (one.key.found or one.key.elsewhere)]
    if ready:
        yield fine('providers', f'ready to be asked: {", ".join(ready)}')
    elif providers:
        names = ', '.join(dict.fromkeys(one.key.variable for one in providers if one.key.missing))
        yield note('providers', 'no key is set: only models on this machine can be asked', f'set one of {names}')


def keys(providers: Sequence[Provider]) -> Iterator[Finding]:
    """Variables that hold keys: what is wrong with them, in words that do not show them."""
    users: dict[str, list[str]] = {}
    for one in providers:
        for name in (one.key.variable, *one.key.others):
            if name:
                users.setdefault(name, []).append(one.name)
    good: list[str] = []
    for name in sorted(users.keys() & os.environ.keys()):
        found = list(_key(name, os.environ[name], users[name]))
        yield from found
        if not found:
            good.append(name)
    if good:
        yield fine('keys', f'set, and of a form that can be sent: {", ".join(good)}')


def _key(name: str, value: str, users: Sequence[str]) -> Iterator[Finding]:
    who = ', '.join(users)
    if not value.strip():
        yield note('keys', f'{name} (for {who}) is set but empty', f'unset {name}, or put the key there')
        return
    for fault in key_faults(value, name):
        what, _, remedy = fault.partition(': ')
        yield problem('keys', f'{name} (for {who}) {what}', remedy or f'set {name} again, with nothing but the key')
    if value != value.strip():
        yield note('keys', f'{name} has blanks or a line break around it; they are left out')


_TAILS = ('/chat/completions', '/responses', '/messages', '/converse', '/chat')


def addresses(providers: Sequence[Provider]) -> Iterator[Finding]:
    """Variables that hold addresses."""
    users: dict[str, list[Provider]] = {}
    for one in providers:
        if one.address_variable:
            users.setdefault(one.address_variable, []).append(one)
    for name in sorted(users.keys() & os.environ.keys()):
        value = os.environ[name]
        if not value.strip():
            continue
        who = ', '.join(one.name for one in users[name])
        found = list(_address(name, value.strip(), who, keyed=any(one.key.found for one in users[name])))
        yield from found or [fine('addresses', f'{name} (for {who}) is {shown_address(value.strip())}')]
    for one in providers:
        if one.key.found and not one.key.optional and one.address_variable and not one.address:
            yield problem(
                'addresses',
                f'{one.key.variable} is set, but {one.name!r} has no address',
                f'set {one.address_variable}',
            )


def _address(name: str, url: str, who: str, *, keyed: bool) -> Iterator[Finding]:
    about = f'{name} (for {who}), {shown_address(url)!r},'
    if url[:1] in '"\'':
        yield problem('addresses', f'{name} (for {who}) has quotes around it', 'leave them out')
        return
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        yield problem('addresses', f'{name} (for {who}) is no URL: {error}', 'write https://host/path')
        return
    if parts.scheme not in ('http', 'https') or not host:
        yield problem('addresses', f'{about} is no URL', 'write https://host/path')
        return
    if parts.username or parts.password:
        yield problem('addresses', f'{about} carries credentials', 'put the key into the variable for keys')
    if any(c.isspace() for c in url):
        yield problem('addresses', f'{about} has a blank in it', 'leave it out')
    if parts.query or parts.fragment:
        yield problem(
            'addresses', f'{about} has a query or a fragment', 'leave it out; paths are appended to the address'
        )
    if tail := next((t for t in _TAILS if parts.path.rstrip('/').endswith(t)), ''):
        yield problem('addresses', f'{about} ends with {tail!r}, which is appended to it', f'leave {tail} out')
    if keyed and parts.scheme == 'http' and not _private(host):
        yield note('addresses', f'{about} is not encrypted: keys and messages can be read on the way', 'use https://')


def _private(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return '.' not in host or host.endswith(('.local', '.internal', '.localhost'))
