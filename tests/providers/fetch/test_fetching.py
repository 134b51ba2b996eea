"""Fetching over loopback: what is sent, redirects, pinned addresses, sizes, times, what is left behind."""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import time
import tracemalloc
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from agent_graph import ConfigError, FetchFailed, FetchRefused, MessageError
from agent_graph_providers.fetch import Fetched, Fetcher, fetch
from agent_graph_providers.fetch.address import read_address
from agent_graph_providers.fetch.channel import Channel
from agent_graph_providers.fetch.route import Rules, find_route
from tests.providers.fetch.kit import Names, cancel_everywhere, connections, open_files, port_of, settled, until
from tests.providers.loopback import Loopback, Reply, Request, cut, in_thread

pytestmark = pytest.mark.anyio

HERE = Fetcher(allow={'127.0.0.1'})
PNG = b'\x89PNG\r\n\x1a\n' + bytes(20)


def answer(data: bytes = PNG, media_type: str = 'image/png', **headers: str) -> Reply:
    named = {name.replace('_', '-'): value for name, value in headers.items()}
    return Reply([data], 200, {'content-type': media_type, **named}, framing='length')


def redirect(location: str, status: int = 302) -> Reply:
    return Reply([b'moved'], status, {'location': location}, framing='length')


async def test_a_file() -> None:
    async with Loopback([answer(media_type='image/PNG; charset=x')]) as server:
        file = await HERE.fetch(f'{server.url}/a.png?key=secret#part')
        assert file == Fetched(PNG, 'image/png', f'{server.url}/a.png?key=secret')
        assert 'secret' not in repr(file)
        assert len(repr(file)) < 200
        request = server.requests[0]
        assert (request.method, request.path, request.body) == ('GET', '/v1/a.png?key=secret', b'')
        assert request.headers == {
            'host': f'127.0.0.1:{port_of(server.url)}',
            'user-agent': 'agent-graph',
            'accept': '*/*',
            'accept-encoding': 'identity',
            'connection': 'close',
        }
        await settled()
        assert server.open == 0


async def test_the_function() -> None:
    names = Names(files_test=[['127.0.0.1']])
    async with Loopback([answer()]) as server:
        url = f'http://files.test:{port_of(server.url)}/x'
        with pytest.raises(FetchRefused, match=r'files\.test resolves to 127\.0\.0\.1, this machine'):
            await fetch(url, resolve=names)
        file = await fetch(url, resolve=names, allow_private=True, media_types=['image/*'], timeout=5, max_bytes=100)
        assert file.data == PNG
        with pytest.raises(FetchRefused, match='at most 20 are fetched'):
            await fetch(url, resolve=names, allow_private=True, max_bytes=20)
        assert server.connections == 2


@pytest.mark.parametrize('framing', ['length', 'chunked', 'close'])
@pytest.mark.parametrize('split', [0, 1, 7])
async def test_every_framing(framing: str, split: int) -> None:
    async with Loopback([Reply(cut(PNG * 5, split), 200, {'content-type': 'image/png'}, framing=framing)]) as server:
        assert (await HERE.fetch(server.url)).data == PNG * 5


async def test_a_large_file_comes_whole() -> None:
    data = os.urandom(3_000_000)
    async with Loopback([answer(data, 'application/x')]) as server:
        assert (await HERE.fetch(server.url)).data == data


async def test_nothing_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Loopback([answer()]) as proxy, Loopback([answer(b'right', 'text/plain')]) as server:
        for name in ('http_proxy', 'https_proxy', 'all_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv('NO_PROXY', raising=False)
        assert (await HERE.fetch(server.url)).data == b'right'
        assert proxy.connections == 0


# --- the address that is connected to


async def test_the_judged_address_is_the_one_connected_to() -> None:
    names = Names(files_test=[['127.0.0.1'], ['127.0.0.2']])
    async with Loopback([answer()]) as server:
        with connections() as made:
            await Fetcher(allow={'files.test'}, resolve=names).fetch(f'http://files.test:{port_of(server.url)}/')
        assert names.asked == ['files.test']
        assert made == [('127.0.0.1', port_of(server.url))]
        assert server.requests[0].headers['host'] == f'files.test:{port_of(server.url)}'


async def test_a_name_that_becomes_local_after_the_check() -> None:
    names = Names(files_test=[['93.184.215.14'], ['127.0.0.1']])
    async with Loopback([answer()]) as server:
        with connections() as made, pytest.raises(FetchFailed, match=r'93\.184\.215\.14'):
            await Fetcher(resolve=names).fetch(f'http://files.test:{port_of(server.url)}/')
        assert names.asked == ['files.test']
        assert made == [('93.184.215.14', port_of(server.url))]
        assert server.connections == 0


@pytest.mark.parametrize('addresses', [['8.8.8.8', '127.0.0.1'], ['127.0.0.1', '8.8.8.8'], ['2606:4700::1', '::1']])
async def test_one_local_address_among_others_refuses(addresses: Sequence[str]) -> None:
    with connections() as made, pytest.raises(FetchRefused, match='this machine'):
        await Fetcher(resolve=Names(a_test=[addresses])).fetch('http://a.test/')
    assert made == []


@pytest.mark.parametrize(
    'address',
    ['169.254.169.254', '100.100.100.200', '::ffff:169.254.169.254', 'fe80::1%eth0', '0.0.0.0', 'fd00:ec2::254'],
)
async def test_metadata_is_never_reached(address: str) -> None:
    names = Names(files_test=[['127.0.0.1', address]])
    fetcher = Fetcher(resolve=names, allow={'files.test', address.partition('%')[0]}, allow_private=True)
    with connections() as made, pytest.raises(FetchRefused, match='nothing is ever fetched'):
        await fetcher.fetch('http://files.test/', allow_private=True)
    assert made == []


@pytest.mark.parametrize('address', ['', 'localhost', '127.1', '2130706433', '0177.0.0.1', '127.0.0.1\n', 'x'])
async def test_a_resolver_that_gives_no_addresses(address: str) -> None:
    with connections() as made, pytest.raises(FetchRefused, match='no IP address'):
        await Fetcher(resolve=Names(files_test=[[address]]), allow_private=True).fetch('http://files.test/')
    assert made == []


async def test_a_name_nobody_knows() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError(-2, 'Name or service not known')

    with pytest.raises(FetchFailed, match=r'a\.test was not found .*Name or service not known'):
        await Fetcher(resolve=resolve).fetch('http://a.test/')
    with pytest.raises(FetchFailed, match=r'a\.test has no address'):
        await Fetcher(resolve=Names(a_test=[[]])).fetch('http://a.test/')


async def test_a_resolver_that_takes_too_long() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(30)
        return []

    with pytest.raises(FetchFailed, match='not found in time'):
        await Fetcher(resolve=resolve, connect_timeout=0.05).fetch('http://a.test/')


async def test_the_next_address_is_tried() -> None:
    async with Loopback([answer()]) as server:
        port = port_of(server.url)
        names = Names(files_test=[['::1', '127.0.0.1']])
        with connections() as made:
            file = await Fetcher(allow={'files.test'}, resolve=names).fetch(f'http://files.test:{port}/')
        assert file.data == PNG
        assert made == [('::1', port), ('127.0.0.1', port)]


async def test_few_of_many_addresses_are_tried() -> None:
    v4, v6 = [f'8.8.8.{n}' for n in range(1, 50)], [f'2606:4700::{n}' for n in range(1, 50)]
    with connections() as made, pytest.raises(FetchFailed, match='no connection'):
        await Fetcher(resolve=Names(a_test=[v6 + v4 + v6])).fetch('http://a.test/')
    assert [host for host, _ in made] == [*v6[:2], *v4[:2]]


async def test_a_mapped_address_is_connected_to_as_ipv4() -> None:
    async with Loopback([answer()]) as server:
        with connections() as made:
            await fetch(f'http://[::ffff:127.0.0.1]:{port_of(server.url)}/', allow_private=True)
        assert made == [('127.0.0.1', port_of(server.url))]


async def test_the_system_resolver() -> None:
    async with Loopback([answer()]) as server:
        url = server.url.replace('127.0.0.1', 'localhost')
        assert (await Fetcher(allow={'localhost'}).fetch(url)).data == PNG
        with pytest.raises(FetchRefused):
            await fetch(url)


async def test_allowed_hosts() -> None:
    async with Loopback([answer()]) as server:
        port = port_of(server.url)
        for entry in ('127.0.0.1', f'127.0.0.1:{port}', '2130706433', '127.1', '127.0.0.1.'):
            assert (await Fetcher(allow=[entry]).fetch(server.url)).data == PNG
        for entry in ('127.0.0.2', '127.0.0.1:1', 'localhost', '[::1]', '::1', '0.0.1', 'x127.0.0.1'):
            with pytest.raises((FetchRefused, ConfigError)):
                await Fetcher(allow=[entry]).fetch(server.url)
        assert server.connections == 5


async def test_ports() -> None:
    with connections() as made:
        for port in (22, 25, 6000, 6667):
            with pytest.raises(FetchRefused, match='port'):
                await HERE.fetch(f'http://127.0.0.1:{port}/')
        with pytest.raises(FetchRefused, match='port 81'):
            await Fetcher(ports={80, 443}).fetch('http://8.8.8.8:81/')
        assert made == []
        with pytest.raises(FetchFailed):
            await Fetcher(ports=[25], allow={'127.0.0.2'}).fetch('http://127.0.0.2:25/')


async def test_schemes() -> None:
    with connections() as made, pytest.raises(FetchRefused, match=r'http: is not among the allowed schemes \(https\)'):
        await Fetcher(schemes=['https'], allow={'127.0.0.1'}).fetch('http://127.0.0.1/')
    assert made == []


# --- redirects


@pytest.mark.parametrize('status', [301, 302, 303, 307, 308])
async def test_redirects_are_followed(status: int) -> None:
    async with Loopback([redirect('../b?c#d', status), answer()]) as server:
        file = await HERE.fetch(f'{server.url}/a/x')
        assert file.url == f'{server.url}/b?c'
        assert [r.path for r in server.requests] == ['/v1/a/x', '/v1/b?c']
        assert server.connections == 2


@pytest.mark.parametrize(
    ('location', 'said'),
    [
        ('http://127.0.0.2/', 'this machine'),
        ('http://localhost/', 'this machine'),
        ('http://2130706434/', 'this machine'),
        ('//[::1]/', 'this machine'),
        ('//[::ffff:10.0.0.1]/', 'private'),
        ('http://10.0.0.1/', 'private'),
        ('http://169.254.169.254/latest/', 'link-local'),
        ('http://metadata.google.internal/', 'metadata'),
        ('http://u:p@example.com/', 'credentials'),
        ('http://127.0.0.1:22/', 'port 22'),
        ('file:///etc/passwd', 'only http'),
        ('ftp://example.com/', 'only http'),
        ('data:text/plain,x', 'only http'),
        ('javascript:alert(1)', 'only http'),
        ('\\\\example.com', 'backslash'),
        ('http://exam ple.com/', 'no host name'),
        ('http://[', 'cannot be read'),
    ],
)
async def test_every_redirect_is_judged(location: str, said: str) -> None:
    async with Loopback([redirect('/on'), redirect(location)]) as server:
        with connections() as made, pytest.raises(FetchRefused, match=said) as raised:
            await HERE.fetch(f'{server.url}/?key=secret')
        assert made == [('127.0.0.1', port_of(server.url))] * 2
        assert str(raised.value).startswith(f'the file at {server.url}/?... , redirected to '.replace(' ,', ','))
        assert raised.value.url == f'{server.url}/?...'
        assert 'secret' not in str(raised.value)


async def test_a_redirect_to_the_same_name_is_resolved_and_judged_again() -> None:
    names = Names(files_test=[['127.0.0.1'], ['169.254.169.254']])
    async with Loopback([redirect('/b')]) as server:
        with pytest.raises(FetchRefused, match=r'files\.test resolves to 169\.254\.169\.254'):
            await Fetcher(allow={'files.test'}, resolve=names).fetch(f'http://files.test:{port_of(server.url)}/')
        assert server.connections == 1


async def test_local_hosts_may_redirect_to_local_hosts() -> None:
    names = Names(a_test=[['127.0.0.1']], b_test=[['127.0.0.1']])

    def reply(request: Request) -> Reply:
        host, _, port = request.headers['host'].partition(':')
        return answer() if host == 'b.test' else redirect(f'http://b.test:{port}/')

    async with Loopback([reply]) as server:
        url = f'http://a.test:{port_of(server.url)}/'
        assert (await Fetcher(resolve=names).fetch(url, allow_private=True)).data == PNG
        with pytest.raises(FetchRefused, match=r'b\.test resolves to 127\.0\.0\.1'):
            await Fetcher(resolve=names, allow={'a.test'}).fetch(url)


@pytest.mark.parametrize(
    ('address', 'local', 'goes_on'),
    [('8.8.8.8', True, False), ('127.0.0.1', True, True), ('10.0.0.1', True, True), ('10.0.0.1', False, False)],
)
async def test_a_public_host_cannot_lead_to_local_ones(address: str, local: bool, goes_on: bool) -> None:
    rules = Rules({'http'}, None, {('a.test', None)}, Names(a_test=[[address]]), 1.0)
    route = await find_route(read_address('http://a.test/'), rules, local=local)
    assert (str(route.addresses[0]), route.local) == (address, goes_on)


async def test_how_many_redirects() -> None:
    async with Loopback([lambda r: redirect(f'/{len(r.path)}x') if len(r.path) < 4 else redirect('/')]) as server:
        with pytest.raises(FetchRefused, match='more than 3 redirects'):
            await Fetcher(allow={'127.0.0.1'}, max_redirects=3).fetch(server.url)
        assert server.connections == 4
        with pytest.raises(FetchRefused, match='more than 0 redirects'):
            await Fetcher(allow={'127.0.0.1'}, max_redirects=0).fetch(server.url)
        assert server.connections == 5


async def test_cookies_stay_where_they_are() -> None:
    moved = Reply(
        [], 302, {'location': '/b', 'set-cookie': 'a=b; Path=/', 'www-authenticate': 'Basic'}, framing='length'
    )
    async with Loopback([moved, answer()]) as server:
        await HERE.fetch(server.url)
        assert set(server.requests[1].headers) == {'host', 'user-agent', 'accept', 'accept-encoding', 'connection'}


@pytest.mark.parametrize('status', [201, 204, 206, 300, 302, 304, 305, 400, 401, 403, 404, 410, 429, 500, 503, 599])
async def test_other_answers(status: int) -> None:
    async with Loopback([Reply([] if status in (204, 304) else [b'no'], status, framing='length')]) as server:
        with pytest.raises(FetchFailed, match=f'answered {status}; ') as raised:
            await HERE.fetch(server.url)
        assert raised.value.status == status
        assert isinstance(raised.value, MessageError)


# --- sizes


@pytest.mark.parametrize('framing', ['length', 'chunked', 'close'])
async def test_too_long(framing: str) -> None:
    fetcher = Fetcher(allow={'127.0.0.1'}, max_bytes=1000)
    async with Loopback([Reply([bytes(1000)], framing=framing), Reply([bytes(1001)], framing=framing)]) as server:
        assert len((await fetcher.fetch(server.url)).data) == 1000
        with pytest.raises(FetchRefused, match=r'1,00[01] bytes'):
            await fetcher.fetch(server.url)


async def test_ten_gigabytes() -> None:
    endless = Reply([bytes(50_000)] * 2000, framing='close')
    said = Reply([bytes(10)], headers={'content-length': '10737418240'}, framing='close', hang=True)
    lies = Reply([b'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n', bytes(5_000_000)], framing='raw')
    async with Loopback([endless, said, lies]) as server:
        began = time.monotonic()
        for text in ('goes on after 200,000 bytes', 'has 10,737,418,240 bytes'):
            with pytest.raises(FetchRefused, match=text):
                await Fetcher(allow={'127.0.0.1'}, max_bytes=200_000).fetch(server.url)
        assert (await HERE.fetch(server.url)).data == bytes(10)
        assert time.monotonic() - began < 5


async def test_nothing_piles_up_while_nobody_reads() -> None:
    sent = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with suppress(ConnectionError):
            while sent < 100_000_000:
                writer.write(bytes(50_000))
                await writer.drain()
                sent += 50_000
        writer.close()

    server = await asyncio.start_server(serve, '127.0.0.1', 0)
    async with server:
        channel = Channel()
        await channel.connect([IPv4Address('127.0.0.1')], server.sockets[0].getsockname()[1], timeout=5)
        await asyncio.sleep(0.5)
        stopped_at = sent
        assert stopped_at < 50_000_000  # the buffers of the system are large, but not that large
        received = 0
        while received < 60_000_000:
            received += len(await channel.receive(timeout=5))
        assert sent > stopped_at
        await channel.close()
        await settled()


async def test_packed_files() -> None:
    data = b'text ' * 1000
    twice = gzip.compress(data[:2000]) + gzip.compress(data[2000:])
    replies = [answer(gzip.compress(data), 'text/plain', content_encoding=name) for name in ('gzip', 'X-GZIP ')]
    replies += [answer(twice, 'text/plain', content_encoding='gzip')]
    replies += [Reply(cut(twice, 3), 200, {'content-encoding': 'gzip', 'content-type': 'text/plain'})]
    replies += [
        answer(data, 'text/plain', content_encoding='identity'),
        answer(data, 'text/plain', content_encoding=''),
    ]
    async with Loopback(replies) as server:
        for _ in replies:
            assert (await HERE.fetch(server.url)).data == data


@pytest.mark.parametrize('split', [0, 1000])
async def test_a_gzip_bomb(split: int) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b''.join([packer.compress(bytes(1_000_000)) for _ in range(300)]) + packer.flush()
    assert len(bomb) < 400_000
    async with Loopback([Reply(cut(bomb, split), 200, {'content-encoding': 'gzip'})]) as server:
        tracemalloc.start()
        try:
            with pytest.raises(FetchRefused, match='goes on after 1,000,000 bytes'):
                await Fetcher(allow={'127.0.0.1'}, max_bytes=1_000_000).fetch(server.url)
            assert tracemalloc.get_traced_memory()[1] < 6_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ('body', 'coding', 'said'),
    [
        (gzip.compress(gzip.compress(b'x')), 'gzip, gzip', 'packed as'),
        (zlib.compress(b'x'), 'deflate', 'packed as'),
        (b'x', 'br', 'packed as'),
        (b'x', 'zstd', 'packed as'),
        (b'x' * 100, 'gzip', 'cannot be unpacked'),
        (gzip.compress(b'x' * 100)[:-3], 'gzip', 'cut off'),
        (gzip.compress(b'x') + b'garbage that is no gzip', 'gzip', 'cannot be unpacked'),
        (gzip.compress(b'') * 2000, 'gzip', 'more than 1,000 parts'),
    ],
)
async def test_packed_wrongly(body: bytes, coding: str, said: str) -> None:
    async with Loopback([answer(body, content_encoding=coding)]) as server:
        with pytest.raises(FetchFailed, match=said):
            await HERE.fetch(server.url)


async def test_packed_data_that_hold_nothing() -> None:
    """Empty blocks without end: every byte is taken, none comes out."""
    block = b'\x00\x00\x00\xff\xff'
    empty = gzip.compress(b'')[:10] + block * 40_000
    async with Loopback([Reply([empty, block * 1000], 200, {'content-encoding': 'gzip'}, framing='chunked')]) as server:
        with pytest.raises(FetchRefused, match='goes on'):
            await Fetcher(allow={'127.0.0.1'}, max_bytes=1000).fetch(server.url)


async def test_an_empty_file() -> None:
    async with Loopback([answer(b''), answer(b'', content_encoding='gzip')]) as server:
        for _ in range(2):
            assert (await HERE.fetch(server.url)).data == b''


# --- times


async def test_a_server_that_says_nothing() -> None:
    async with Loopback([Reply(framing='raw', hang=True)]) as server:
        with pytest.raises(FetchFailed, match=r'nothing came for 0\.05 seconds'):
            await Fetcher(allow={'127.0.0.1'}, read_timeout=0.05).fetch(server.url)
        await asyncio.wait_for(server.hung_up.wait(), 2)


@pytest.mark.parametrize('where', ['head', 'body'])
async def test_a_slow_drip(where: str) -> None:
    whole = b'HTTP/1.1 200 OK\r\nx: ' + b'y' * 500 + b'\r\n\r\n' + bytes(500)
    pieces = [whole[i : i + 1] for i in range(len(whole))] if where == 'head' else [whole[:525], *[b'.'] * 500]
    async with Loopback([Reply(pieces, framing='raw', delay=0.01)]) as server:
        began = time.monotonic()
        with pytest.raises(FetchFailed, match=r'longer than 0\.3 seconds') as raised:
            await Fetcher(allow={'127.0.0.1'}, read_timeout=0.2, total_timeout=0.3).fetch(server.url)
        assert 0.25 < time.monotonic() - began < 2
        assert raised.value.url == server.url
        await asyncio.wait_for(server.hung_up.wait(), 2)


async def test_redirects_share_the_time() -> None:
    moved = Reply([b'HTTP/1.1 302 x\r\nlocation: /v1\r\n\r\n'], framing='raw', delay=0.1)
    async with Loopback([moved]) as server:
        with pytest.raises(FetchFailed, match='longer than'):
            await Fetcher(allow={'127.0.0.1'}, total_timeout=0.25, max_redirects=100).fetch(server.url)
        assert server.connections <= 3


async def test_informational_answers_are_passed_over() -> None:
    head = b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx'
    async with Loopback([Reply([head], framing='raw')]) as server:
        assert (await HERE.fetch(server.url)).data == b'x'


@pytest.mark.parametrize(
    'raw',
    [
        b'',
        b'SSH-2.0-OpenSSH_9.6\r\n',
        b'220 mail ESMTP\r\n',
        b'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort',
        b'HTTP/1.1 200 OK\r\ncontent-length: 10\r\ncontent-length: 11\r\n\r\n0123456789',
        b'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n',
        b'HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999999999999\r\n\r\n',
        b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab',
        b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nab',
        b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffffffff\r\nab',
        b'HTTP/1.1 200 OK\r\nno colon\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nx: ' + b'y' * 300_000,
        b'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\nx',
        b'HTTP/1.1 999999 x\r\n\r\n',
        b'\x00' * 1000,
        b'<html>',
    ],
    ids=range(16),
)
async def test_what_is_no_answer(raw: bytes) -> None:
    async with Loopback([Reply([raw] if raw else [], framing='raw')]) as server:
        with pytest.raises(FetchFailed):
            await HERE.fetch(server.url)


async def test_nobody_is_there() -> None:
    async with Loopback([answer()]) as server:
        url = server.url
    with pytest.raises(FetchFailed, match=r'no connection could be made \(127\.0\.0\.1: '):
        await HERE.fetch(url)


# --- what is left behind


@pytest.mark.parametrize(
    'reply',
    [
        answer(),
        redirect('http://127.0.0.2:1/'),
        Reply(framing='raw', hang=True),
        Reply([b'x'] * 100, framing='chunked', delay=0.01),
        Reply([b'x'], framing='chunked', broken=True),
        Reply([b'x'], 404, framing='length', hang=True),
        Reply([bytes(100_000)] * 10, framing='length', hang=True),
    ],
    ids=range(7),
)
async def test_nothing_is_left_open(reply: Reply) -> None:
    with in_thread([reply]) as server:
        tasks, files = asyncio.all_tasks(), open_files()
        for _ in range(3):
            with suppress(FetchFailed, FetchRefused):
                await Fetcher(allow={'127.0.0.1'}, max_bytes=50_000, total_timeout=0.15).fetch(server.url)
            await settled()
            assert asyncio.all_tasks() == tasks
        assert server.connections == 3
        await until(lambda: server.open == 0 and open_files() == files)


async def test_cancelled_at_any_point() -> None:
    with in_thread([Reply([b'x'] * 3, framing='chunked')]) as server:
        tasks, files = asyncio.all_tasks(), open_files()
        ended = await cancel_everywhere(lambda: HERE.fetch(server.url))
        assert 0 < ended < 60
        assert asyncio.all_tasks() == tasks
        await until(lambda: server.open == 0 and open_files() == files)


async def test_many_at_once() -> None:
    async with Loopback([lambda r: answer(r.path.encode(), 'text/plain')]) as server:
        found = await asyncio.gather(*(HERE.fetch(f'{server.url}/{n}') for n in range(100)))
        assert [f.data for f in found] == [f'/v1/{n}'.encode() for n in range(100)]
        await settled()
        assert server.open == 0


def test_one_fetcher_in_several_loops() -> None:
    with in_thread([answer()]) as server:
        for _ in range(3):
            assert asyncio.run(HERE.fetch(server.url)).data == PNG


async def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Loopback([redirect('/b?token=secret'), answer()]) as server:
        await HERE.fetch(f'{server.url}?key=secret')
    assert 'secret' not in caplog.text


# --- types


async def test_wanted_types() -> None:
    replies = [
        answer(media_type='text/html'),
        answer(b'<html>', 'image/png'),
        answer(b'<html>', 'application/octet-stream'),
        answer(PNG, 'binary/octet-stream'),
        Reply([PNG], framing='length'),
        answer(b'%PDF-1.7', ''),
        answer(PNG, 'image/jpeg'),
    ]
    wanted = ['image/*', 'application/pdf']
    async with Loopback(replies) as server:
        with pytest.raises(FetchRefused, match=r'of type text/html, not application/pdf, image/\*'):
            await HERE.fetch(server.url, media_types=wanted)
        assert (await HERE.fetch(server.url, media_types=wanted)).media_type == 'image/png'
        with pytest.raises(FetchRefused, match='of type application/octet-stream'):
            await HERE.fetch(server.url, media_types=wanted)
        for media_type in ('image/png', 'image/png', 'application/pdf', 'image/png'):
            assert (await HERE.fetch(server.url, media_types=wanted)).media_type == media_type
        assert server.requests[0].headers['accept'] == 'application/pdf, image/*'


@pytest.mark.parametrize(
    'options',
    [
        {'max_bytes': 0},
        {'max_bytes': 1.5},
        {'max_bytes': True},
        {'max_bytes': '5'},
        {'connect_timeout': 0},
        {'read_timeout': -1},
        {'total_timeout': float('nan')},
        {'total_timeout': None},
        {'max_redirects': -1},
        {'at_once': 0},
        {'at_once': 1.5},
        {'max_files': -1},
        {'max_total_bytes': 0},
        {'schemes': ['ftp']},
        {'schemes': 'https'},
        {'ports': 80},
        {'ports': '80'},
        {'ports': [0]},
        {'ports': ['80']},
        {'allow': 'localhost'},
        {'allow': ['http://localhost']},
        {'allow': ['localhost:x']},
        {'allow': ['*.example.com']},
        {'allow': ['10.0.0.0/8']},
        {'allow': ['']},
        {'allow': [None]},
        {'allow_private': 'false'},
        {'allow_private': 1},
        {'media_types': 'image/*'},
        {'media_types': ['image']},
        {'media_types': ['*/png']},
        {'media_types': [None]},
        {'media_types': ['image/p*g']},
    ],
    ids=repr,
)
async def test_settings_that_make_no_sense(options: dict[str, object]) -> None:
    name = next(iter(options))
    with pytest.raises(ConfigError, match=f'^{name} of a Fetcher is '):
        Fetcher(**options)  # pyright: ignore[reportArgumentType]


async def test_a_fetcher_is_data() -> None:
    hosts = ['127.0.0.1']
    fetcher = Fetcher(allow=hosts, schemes=['http'], media_types=['image/*'])
    hosts.append('10.0.0.1')
    assert fetcher == Fetcher(allow={'127.0.0.1'}, schemes={'http'}, media_types={'image/*'})
    assert hash(fetcher) == hash(replace(fetcher, max_bytes=fetcher.max_bytes))
    assert replace(fetcher, max_bytes=5) != fetcher


async def test_only_true_allows() -> None:
    for value in ('true', 'false', 1, 'yes', object()):
        with connections() as made, pytest.raises(FetchRefused):
            await Fetcher().fetch('http://127.0.0.1/', allow_private=value)  # pyright: ignore[reportArgumentType]
        assert made == []
