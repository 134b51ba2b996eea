"""Over TLS: the address is the judged one, the name in the handshake and in the certificate is that of the host."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_graph import FetchFailed, FetchRefused
from agent_graph_providers.fetch import Fetcher
from tests.providers.fetch.kit import Names, cancel_everywhere, connections, open_files, port_of, settled, until
from tests.providers.loopback import Loopback, Reply

pytestmark = pytest.mark.anyio

DATA = bytes(range(256)) * 20_000
REPLY = b'HTTP/1.1 200 OK\r\ncontent-type: application/x\r\ncontent-length: %d\r\n\r\n' % len(DATA) + DATA


@dataclass
class Server:
    port: int
    names: list[str | None] = field(default_factory=list[str | None])
    requests: list[bytes] = field(default_factory=list[bytes])
    stop: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture(scope='session')
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its key, in one file, for `files.test` and 127.0.0.1."""
    openssl = shutil.which('openssl')
    if openssl is None:
        pytest.skip('the program openssl, which makes the certificate, is not installed')
    path = tmp_path_factory.mktemp('tls') / 'both.pem'
    key, cert = path.with_name('key.pem'), path.with_name('cert.pem')
    command = f'{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=x'
    command += ' -addext subjectAltName=DNS:files.test,IP:127.0.0.1 -addext keyUsage=digitalSignature,keyCertSign'
    subprocess.run([*command.split(), '-keyout', key, '-out', cert], check=True, capture_output=True)
    path.write_bytes(cert.read_bytes() + key.read_bytes())
    return path


@contextmanager
def serving(certificate: Path, reply: bytes = REPLY) -> Generator[Server]:
    """A server in a thread of its own: its loop complains about clients that hang up, and is left to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    found, loop, started = Server(0), asyncio.new_event_loop(), threading.Event()

    def named(_: object, name: str | None, __: object) -> None:
        found.names.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            found.requests.append(await reader.readuntil(b'\r\n\r\n'))
            writer.write(reply)
            await writer.drain()
        writer.close()

    def complain(_: asyncio.AbstractEventLoop, __: dict[str, Any]) -> None: ...

    async def main() -> None:
        loop.set_exception_handler(complain)
        context.sni_callback = named
        server = await asyncio.start_server(serve, '127.0.0.1', 0, ssl=context)
        found.port, found.stop = server.sockets[0].getsockname()[1], asyncio.Event()
        started.set()
        async with server:
            await found.stop.wait()
        await settled()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()))
    thread.start()
    assert started.wait(5)
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(found.stop.set)
        thread.join(5)
        loop.close()


def fetcher_for(certificate: Path, *names: str, **options: float) -> Fetcher:
    resolve = Names(**{name.replace('.', '_'): [['127.0.0.1']] for name in names})
    tls = ssl.create_default_context(cafile=str(certificate))
    return Fetcher(allow={*names, '127.0.0.1'}, resolve=resolve, tls=tls, **options)  # pyright: ignore[reportArgumentType]


async def test_the_name_is_in_the_handshake_and_the_certificate(certificate: Path) -> None:
    with serving(certificate) as server:
        with connections() as made:
            file = await fetcher_for(certificate, 'files.test').fetch(f'https://FILES.test.:{server.port}/x?y')
        assert (file.data, file.media_type) == (DATA, 'application/x')
        assert file.url == f'https://files.test:{server.port}/x?y'
        assert made == [('127.0.0.1', server.port)]
        assert server.names == ['files.test']
        assert server.requests[0].startswith(b'GET /x?y HTTP/1.1\r\nHost: files.test:%d\r\n' % server.port)


async def test_a_certificate_for_an_address(certificate: Path) -> None:
    with serving(certificate) as server:
        assert (await fetcher_for(certificate).fetch(f'https://127.0.0.1:{server.port}/')).data == DATA
        assert server.names == [None]


async def test_a_certificate_of_another_name(certificate: Path) -> None:
    """The right address is not enough: whoever answers there has to be who was asked for."""
    with serving(certificate) as server:
        with pytest.raises(FetchFailed, match=r'does not show that the server is other\.test'):
            await fetcher_for(certificate, 'other.test').fetch(f'https://other.test:{server.port}/')
        assert server.requests == []


async def test_a_certificate_nobody_vouches_for(certificate: Path) -> None:
    with serving(certificate) as server:
        with pytest.raises(FetchFailed, match='certificate does not show'):
            await Fetcher(allow={'127.0.0.1'}).fetch(f'https://127.0.0.1:{server.port}/')
        assert server.requests == []


async def test_a_server_without_tls(certificate: Path) -> None:
    async with Loopback([Reply([b'x'])]) as server:
        with pytest.raises(FetchFailed, match='TLS handshake'):
            await fetcher_for(certificate, connect_timeout=0.3).fetch(f'https://127.0.0.1:{port_of(server.url)}/')


async def test_a_handshake_that_stands_still(certificate: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()
        writer.close()

    gone = asyncio.Event()
    server = await asyncio.start_server(serve, '127.0.0.1', 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        for options in ({'connect_timeout': 0.1}, {'total_timeout': 0.1}):
            gone.clear()
            with pytest.raises(FetchFailed, match=r'handshake in time|longer than 0\.1'):
                await fetcher_for(certificate, **options).fetch(f'https://127.0.0.1:{port}/')
            await asyncio.wait_for(gone.wait(), 2)


async def test_no_redirect_out_of_tls(certificate: Path) -> None:
    async with Loopback([Reply([b'x'])]) as plain:
        reply = f'HTTP/1.1 302 x\r\nlocation: {plain.url}\r\ncontent-length: 0\r\n\r\n'.encode()
        with serving(certificate, reply) as server, pytest.raises(FetchRefused, match='not encrypted'):
            await fetcher_for(certificate).fetch(f'https://127.0.0.1:{server.port}/')
        assert plain.connections == 0


async def test_redirect_into_tls(certificate: Path) -> None:
    with serving(certificate) as server:
        moved = Reply([], 301, {'location': f'https://files.test:{server.port}/'}, framing='length')
        async with Loopback([moved]) as plain:
            file = await fetcher_for(certificate, 'files.test').fetch(plain.url)
        assert file.url == f'https://files.test:{server.port}/'


async def test_too_much_over_tls(certificate: Path) -> None:
    with serving(certificate, b'HTTP/1.1 200 OK\r\n\r\n' + DATA) as server:
        url = f'https://127.0.0.1:{server.port}/'
        with pytest.raises(FetchRefused, match='goes on after 100,000'):
            await fetcher_for(certificate, max_bytes=100_000).fetch(url)
        assert (await fetcher_for(certificate).fetch(url)).data == DATA


async def test_cancelled_at_any_point(certificate: Path) -> None:
    fetcher = fetcher_for(certificate)
    with serving(certificate, b'HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx') as server:
        url = f'https://127.0.0.1:{server.port}/'
        await fetcher.fetch(url)
        await settled()
        tasks, files = asyncio.all_tasks(), open_files()
        ended = await cancel_everywhere(lambda: fetcher.fetch(url))
        assert 0 < ended < 60
        await until(lambda: asyncio.all_tasks() == tasks and open_files() == files)
