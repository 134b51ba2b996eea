"""The way to providers: proxies, certificates, the clock; and, when it is asked for, a connection to each."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from agent_graph.cli.doctor.findings import Finding, fine, note, problem
from agent_graph.cli.facts import time_text
from agent_graph.cli.providers import Provider, shown_address

__all__ = ['certificates', 'clock', 'connections', 'proxies']

_PROXIES = ('HTTPS_PROXY', 'HTTP_PROXY', 'ALL_PROXY')
_SECONDS = 10.0
_SKEW = 120.0
"""Seconds a clock may be wrong: signatures and certificates bear about so much."""


def proxies(providers: Sequence[Provider]) -> Iterator[Finding]:
    """Proxy variables."""
    found = {
        name: value for base in _PROXIES for name in (base, base.lower()) if (value := os.environ.get(name, '').strip())
    }
    for name, value in found.items():
        yield from _proxy(name, value)
    exempt = (os.environ.get('NO_PROXY') or os.environ.get('no_proxy') or '').strip()
    local = sorted({one.name for one in providers if one.local})
    if found and local and not any(host in exempt for host in ('*', 'localhost', '127.0.0.1')):
        yield note(
            'proxies',
            f'requests to servers on this machine ({", ".join(local)}) go through the proxy too',
            'set NO_PROXY=localhost,127.0.0.1',
        )


def _proxy(name: str, value: str) -> Iterator[Finding]:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        yield problem('proxies', f'{name} is no URL: {error}', 'write http://host:port, or unset it')
        return
    if parts.scheme not in ('http', 'https', 'socks5', 'socks5h') or not parts.hostname:
        yield problem(
            'proxies', f'{name} is {shown_address(value)!r}, which is no URL of a proxy', 'write http://host:port'
        )
    elif parts.scheme.startswith('socks') and find_spec('socksio') is None:
        yield problem(
            'proxies', f'{name} is a SOCKS proxy, which takes the package socksio', "pip install 'httpx[socks]'"
        )
    else:
        yield note('proxies', f'requests go through {shown_address(value)} ({name})')


def certificates() -> Iterator[Finding]:
    """Where the certificates of authorities are read from."""
    for name in ('SSL_CERT_FILE', 'SSL_CERT_DIR'):
        value = os.environ.get(name)
        if value is None:
            continue
        is_file = name == 'SSL_CERT_FILE'
        there = Path(value).is_file() if is_file else Path(value).is_dir()
        if not there:
            kind = 'file' if is_file else 'folder'
            yield problem(
                'certificates', f'{name} is {value!r}, and there is no such {kind}', f'mend it, or unset {name}'
            )
            continue
        try:
            ssl.create_default_context(cafile=value if is_file else None, capath=None if is_file else value)
        except (ssl.SSLError, OSError) as error:
            yield problem('certificates', f'{name} is {value!r}, which cannot be used: {error}', f'unset {name}')
        else:
            yield note('certificates', f'authorities are those of {value} ({name})')
    if os.environ.get('SSLKEYLOGFILE'):
        yield note('certificates', 'SSLKEYLOGFILE is set: whoever reads that file can read all traffic', 'unset it')


def clock() -> Iterator[Finding]:
    """A clock that lies in the past: certificates are not valid yet then, and leases never end."""
    newest = _installed_at()
    now = time.time()
    if newest is not None and now < newest - 86_400:
        said = f'it is {time_text(now)} by the clock, and this package was installed at {time_text(newest)}'
        yield problem('clock', said, 'set the clock')


def _installed_at() -> float | None:
    try:
        files = distribution('agent-graph').files or []
    except PackageNotFoundError:
        return None
    times = [Path(str(file.locate())).stat().st_mtime for file in files[:20] if Path(str(file.locate())).exists()]
    return max(times, default=None)


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        return None


def connections(providers: Sequence[Provider]) -> Iterator[Finding]:
    """Connect to each provider that has a key, and to servers of this machine. No key is sent: any answer will do."""
    wanted = [one for one in providers if one.key.found or one.key.elsewhere or one.local]
    asked = {url: one for one in wanted if (url := _url(one))}
    if not asked:
        yield note('connections', 'there is nothing to connect to: no provider has a key')
        return
    with ThreadPoolExecutor(8) as pool:
        yield from pool.map(_connect, asked.values(), asked)


def _url(one: Provider) -> str:
    """Its address without credentials; `''` for what cannot be connected to, which is a finding of its own."""
    url = one.address.replace('***@', '')
    return url if url.startswith(('http://', 'https://')) else ''


def _connect(one: Provider, url: str) -> Finding:
    host = urlsplit(url).netloc
    began = time.monotonic()
    try:
        request = Request(url, headers={'user-agent': 'agent-graph doctor'})
        with build_opener(_NoRedirect).open(request, timeout=_SECONDS) as answer:
            status, date = answer.status, answer.headers.get('date', '')
    except HTTPError as error:  # an answer like any other
        status, date = error.code, error.headers.get('date', '')
        error.close()
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if one.local:
            return note(
                'connections', f'{one.name}: nobody answers at {host} ({reason})', 'start that server to use it'
            )
        return problem(
            'connections', f'{one.name}: no connection to {host}: {reason}', 'check network, proxy and address'
        )
    if (skew := _skew(date)) is not None and abs(skew) > _SKEW:
        wrong = f'{abs(skew):.0f} s {"behind" if skew > 0 else "ahead"}'
        return problem('clock', f'by the answer of {host} the clock of this machine is {wrong}', 'set the clock')
    return fine('connections', f'{one.name}: {host} answered {status} in {time.monotonic() - began:.2f} s')


def _skew(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (TypeError, ValueError):
        return None
