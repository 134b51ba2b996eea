"""The bytes of the files of a conversation: where they are found, what becomes of the parts, when nothing changes."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_graph import FetchFailed, FetchRefused, FilePart, MessageError
from agent_graph.messages import (
    AssistantMessage,
    CachePoint,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
    dump_json,
    load_json,
    to_openai,
)
from agent_graph_providers.fetch import Fetcher, file_bytes, with_bytes
from agent_graph_providers.fetch.data_url import read_data_url
from agent_graph_providers.fetch.media_type import is_pattern, matches, sniff, stated
from tests.providers.fetch.kit import connections, open_files, settled, until
from tests.providers.loopback import Loopback, Reply, Request, in_thread

pytestmark = pytest.mark.anyio

HERE = Fetcher(allow={'127.0.0.1'})
PNG = b'\x89PNG\r\n\x1a\n' + bytes(20)
JPEG = b'\xff\xd8\xff\xe0' + bytes(20)


def answer(data: bytes, media_type: str) -> Reply:
    return Reply([data], 200, {'content-type': media_type} if media_type else {}, framing='length')


def everything(part: FilePart) -> bool:
    return True


def talk(*files: FilePart) -> list[Message]:
    """A conversation with the same files in a user message, in the model's answer and in a tool's result."""
    return [
        SystemMessage('Be kind.'),
        UserMessage('no file'),
        UserMessage(['look', *files, CachePoint(), 'there']),
        AssistantMessage([TextPart('I do'), *files, ToolCallPart('look', {}, 'c1'), ToolCallPart('look', {}, 'c2')]),
        ToolMessage([ToolReturnPart('look', 1, 'c1', extra_content=('see', *files)), ToolReturnPart('look', 2, 'c2')]),
    ]


# --- one file


async def test_bytes_at_hand() -> None:
    data = b'abc'
    assert await file_bytes(FilePart.from_bytes(data, 'text/plain'), HERE) is data
    assert await file_bytes(FilePart.from_bytes(b'', 'text/plain'), HERE) == b''


async def test_a_file_of_another_provider() -> None:
    with pytest.raises(MessageError, match=r"cannot use the file 'file-1', which another one holds"):
        await file_bytes(FilePart('image/png', file_id='file-1'), HERE)


async def test_a_file_at_an_address() -> None:
    async with Loopback([answer(PNG, 'image/png')]) as server:
        part = FilePart('image/png', url=server.url)
        assert await file_bytes(part, HERE) == PNG
        with pytest.raises(FetchRefused, match='this machine'):
            await file_bytes(part, Fetcher())
        assert await file_bytes(FilePart.from_url(f'{server.url}/a.png', allow_local=True), Fetcher()) == PNG


DATA_URLS = {
    'data:text/plain;base64,aGVsbG8=': b'hello',
    'data:;base64,aGVsbG8=': b'hello',
    'data:image/png;charset=x;base64,aGVsbG8=': b'hello',
    'DATA:text/plain;BASE64,aGVsbG8=': b'hello',
    'data:text/plain;base64,aGVsbG8%3D': b'hello',
    'data:text/plain;base64,%2B%2F%2b/': b'\xfb\xff\xbf',
    'data:text/plain;base64,': b'',
    'data:,hello%20world': b'hello world',
    'data:,': b'',
    'data:text/plain,a,b;base64,c': b'a,b;base64,c',
    'data:text/plain;charset=utf-8,%C3%BC': 'ü'.encode(),
    'data:text/plain,ü': 'ü'.encode(),
    'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg"/>': b'<svg xmlns="http://www.w3.org/2000/svg"/>',
    'data:application/octet-stream,%00%ff': b'\x00\xff',
    'data:base64,aGVsbG8=': b'aGVsbG8=',
}


@pytest.mark.parametrize(('url', 'data'), DATA_URLS.items(), ids=ascii)
async def test_data_addresses(url: str, data: bytes) -> None:
    with connections() as made:
        assert await file_bytes(FilePart('*/*', url=url), Fetcher()) == data
        filled = await with_bytes([UserMessage([FilePart('text/x', url=url)])], everything, Fetcher())
    assert filled == [UserMessage([FilePart('text/x', data=data)])]
    assert made == []


@pytest.mark.parametrize(
    ('url', 'said'),
    [
        ('data:text/plain', 'no comma'),
        ('data:', 'no comma'),
        ('data:text/plain;base64,aGVsbG8', 'not base64'),
        ('data:text/plain;base64,aGVsb', 'not base64'),
        ('data:text/plain;base64,a', 'not base64'),
        ('data:text/plain;base64,aGVs bG8=', 'not base64'),
        ('data:text/plain;base64,aGVs\nbG8=', 'not base64'),
        ('data:text/plain;base64,aGVsbG8==', 'not base64'),
        ('data:text/plain;base64,aGVsbG8=aGVsbG8=', 'not base64'),
        ('data:text/plain;base64,=aGVsbG8', 'not base64'),
        ('data:text/plain;base64,_-8=', 'not base64'),
        ('data:text/plain;base64,aGVs...', 'not base64'),
        ('data:text/plain;base64,aGVsbG8=#x', '#'),
        ('data:text/plain,a#b', '#'),
        ('data:text/plain,100%', '%'),
        ('data:text/plain,%zz', '%'),
        ('data:text/plain,%4', '%'),
        ('data:text/plain,\ud83c', 'half a character'),
        ('data:text/plain;base64,ü', 'not base64'),
    ],
    ids=ascii,
)
async def test_faulty_data_addresses(url: str, said: str) -> None:
    with pytest.raises(MessageError, match=said) as raised:
        await file_bytes(FilePart('text/plain', url=url), HERE)
    assert len(str(raised.value)) < 300
    str(raised.value).encode()


@given(st.binary(max_size=200))
def test_data_addresses_hold_any_bytes(data: bytes) -> None:
    assert read_data_url(f'data:x/y;base64,{b64encode(data).decode()}') == data
    assert read_data_url('data:x/y,' + ''.join(f'%{byte:02x}' for byte in data)) == data


# --- a whole conversation


async def test_files_everywhere() -> None:
    async with Loopback([lambda r: answer(r.path.encode(), 'text/plain')]) as server:
        details = {'detail': 'high'}
        a = FilePart('text/plain', url=f'{server.url}/a', name='a.txt', provider_details=dict(details))
        b = FilePart('text/plain', url=f'{server.url}/b')
        messages = talk(a, b)
        before = dump_json(messages)
        full_a = FilePart('text/plain', data=b'/v1/a', name='a.txt', provider_details=dict(details))
        full_b = FilePart('text/plain', data=b'/v1/b')
        filled = await with_bytes(messages, everything, HERE)
        expected = talk(full_a, full_b)
        expected[3] = messages[3]
        assert list(filled) == expected
        assert [new is old for new, old in zip(filled, messages, strict=True)] == [True, True, False, True, False]
        assert sorted(r.path for r in server.requests) == ['/v1/a', '/v1/b']
        assert list(await with_bytes(messages, everything, HERE, answers=True)) == talk(full_a, full_b)
        assert dump_json(messages) == before


async def test_only_what_is_wanted() -> None:
    async with Loopback([answer(PNG, 'image/png')]) as server:
        image = FilePart('image/png', url=f'{server.url}/a')
        held = FilePart('image/png', data=PNG)
        named = FilePart('image/png', file_id='file-1')
        text = FilePart('text/plain', url=f'{server.url}/b')
        messages = talk(image, held, named, text, image)
        asked: list[FilePart] = []

        def wanted(part: FilePart) -> bool:
            asked.append(part)
            return part.media_type.startswith('image/')

        filled = await with_bytes(messages, wanted, HERE)
        user, tool = filled[2], filled[4]
        assert isinstance(user, UserMessage) and isinstance(tool, ToolMessage)
        assert user.content == ('look', held, held, named, text, held, CachePoint(), 'there')
        assert user.content[2] is held and user.content[3] is named and user.content[4] is text
        assert tool.parts[0].extra_content == ('see', held, held, named, text, held)
        old = messages[4]
        assert isinstance(old, ToolMessage) and tool.parts[1] is old.parts[1]
        assert asked == [image, text]
        assert len(server.requests) == 1


async def test_what_needs_no_change_is_the_same() -> None:
    a = FilePart('text/plain', url='http://127.0.0.1/')
    messages = talk(a)
    with connections() as made:
        assert await with_bytes(messages, lambda _: False, HERE) is messages
        plain = (UserMessage('x'), UserMessage(['x', FilePart('image/png', data=PNG)]))
        assert await with_bytes(plain, everything, HERE) is plain
        assert await with_bytes((), everything, HERE) == ()
    assert made == []


async def test_each_address_once_and_few_at_a_time() -> None:
    now = most = 0
    release = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        await reader.readuntil(b'\r\n\r\n')
        now += 1
        most = max(most, now)
        if most == 3:
            asyncio.get_running_loop().call_later(0.05, release.set)
        await release.wait()
        now -= 1
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx')
        writer.close()

    server = await asyncio.start_server(serve, '127.0.0.1', 0)
    async with server:
        url = f'http://127.0.0.1:{server.sockets[0].getsockname()[1]}'
        parts = [FilePart('text/plain', url=f'{url}/{n % 10}') for n in range(30)]
        filled = await with_bytes([UserMessage(parts)], everything, Fetcher(allow={'127.0.0.1'}, at_once=3))
    assert filled == [UserMessage([FilePart('text/plain', data=b'x')] * 30)]
    assert most == 3


async def test_one_may_be_local_and_another_not() -> None:
    """The same address twice, once with the permission and once without: the one does not help the other."""
    async with Loopback([answer(PNG, 'image/png')]) as server:
        url = f'{server.url}/a.png'
        allowed, other = FilePart.from_url(url, allow_local=True), FilePart.from_url(url)
        assert (await with_bytes([UserMessage([allowed])], everything, Fetcher()))[0] != UserMessage([allowed])
        with pytest.raises(FetchRefused):
            await with_bytes([UserMessage([allowed, other])], everything, Fetcher())


@pytest.mark.parametrize('value', ['true', 'false', 1, 0, None, [True], {'a': True}])
async def test_only_true_allows_local_hosts(value: object) -> None:
    details = {'allow_local': value}
    part = FilePart('image/png', url='http://127.0.0.1/', provider_details=details)  # pyright: ignore[reportArgumentType]
    with connections() as made, pytest.raises(FetchRefused):
        await file_bytes(part, Fetcher())
    assert made == []


async def test_metadata_is_not_a_local_host() -> None:
    for url in ('http://169.254.169.254/x.png', 'http://100.100.100.200/x.png', 'http://[fd00:ec2::254]/x.png'):
        with connections() as made, pytest.raises(FetchRefused, match='nothing is ever fetched'):
            await file_bytes(FilePart.from_url(url, allow_local=True), Fetcher())
        assert made == []


async def test_the_permission_is_kept_but_not_sent() -> None:
    part = FilePart.from_url('http://127.0.0.1/a.png', allow_local=True)
    assert load_json(dump_json([UserMessage([part])])) == [UserMessage([part])]
    assert 'allow_local' not in str(to_openai([UserMessage([part])]))


async def test_too_many_and_too_much() -> None:
    async with Loopback([answer(bytes(1000), 'application/x')]) as server:
        parts = [FilePart('application/x', url=f'{server.url}/{n}') for n in range(11)]
        with pytest.raises(FetchRefused, match='11 addresses of files, more than 10'):
            await with_bytes([UserMessage(parts)], everything, Fetcher(allow={'127.0.0.1'}, max_files=10))
        assert server.connections == 0
        fetcher = Fetcher(allow={'127.0.0.1'}, max_total_bytes=10_000)
        with pytest.raises(FetchRefused, match='more than 10,000 bytes together'):
            await with_bytes([UserMessage(parts)], everything, fetcher)
        await with_bytes([UserMessage(parts[1:])], everything, fetcher)


async def test_the_first_error_ends_all() -> None:
    def reply(request: Request) -> Reply:
        return Reply([b'no'], 404, framing='length') if request.path.endswith('/1') else Reply(framing='raw', hang=True)

    with in_thread([reply]) as server:
        tasks, files = asyncio.all_tasks(), open_files()
        parts = [FilePart('text/plain', url=f'{server.url}/{n}') for n in range(3)]
        with pytest.raises(FetchFailed, match='answered 404') as raised:
            await asyncio.wait_for(with_bytes([UserMessage(parts)], everything, HERE), 5)
        assert raised.value.status == 404
        await settled()
        assert asyncio.all_tasks() == tasks
        await until(lambda: server.open == 0 and open_files() == files)


@pytest.mark.parametrize('after', [0.0, 0.02, 0.1])
async def test_cancelled_in_the_middle(after: float) -> None:
    with in_thread([Reply(framing='raw', hang=True)]) as server:
        tasks, files = asyncio.all_tasks(), open_files()
        parts = [FilePart('text/plain', url=f'{server.url}/{n}') for n in range(6)]
        task = asyncio.create_task(with_bytes([UserMessage(parts)], everything, HERE))
        await asyncio.sleep(after)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        await settled()
        assert asyncio.all_tasks() == tasks
        await until(lambda: server.open == 0 and open_files() == files)


# --- types


@pytest.mark.parametrize(
    ('part', 'served', 'data', 'becomes'),
    [
        ('image/png', 'image/png', PNG, 'image/png'),
        ('image/*', 'image/png', PNG, 'image/png'),
        ('image/*', '', PNG, 'image/png'),
        ('image/*', 'application/octet-stream', b'unknown', 'image/*'),
        ('image/*', 'image/webp', b'unknown', 'image/webp'),
        ('image/jpeg', 'image/webp', b'unknown', 'image/webp'),
        ('image/png', 'image/png', JPEG, 'image/jpeg'),
        ('image/jpeg', 'binary/octet-stream', PNG, 'image/png'),
        ('application/octet-stream', 'application/pdf', b'x', 'application/pdf'),
        ('*/*', '', b'%PDF-1.4', 'application/pdf'),
        ('text/markdown', 'text/plain', b'# x', 'text/markdown'),
        ('text/csv', 'application/octet-stream', b'a,b', 'text/csv'),
        ('text/html', 'text/html', b'<html>', 'text/html'),
        ('audio/*', 'video/mp4', b'', 'audio/mp4'),
        ('audio/wav', 'audio/x-wav', b'RIFF1234WAVE', 'audio/wav'),
        ('application/pdf', 'application/pdf', b'%PDF-1.4', 'application/pdf'),
    ],
)
async def test_the_type_of_a_part(part: str, served: str, data: bytes, becomes: str) -> None:
    async with Loopback([answer(data, served)]) as server:
        filled = await with_bytes([UserMessage([FilePart(part, url=server.url)])], everything, HERE)
        assert filled == [UserMessage([FilePart(becomes, data=data)])]


@pytest.mark.parametrize(
    ('part', 'served'),
    [('image/png', 'text/html'), ('application/pdf', 'text/html; charset=utf-8'), ('image/*', 'text/plain')],
)
async def test_a_page_in_place_of_a_file(part: str, served: str) -> None:
    async with Loopback([answer(b'<html>Log in', served)]) as server:
        with pytest.raises(FetchRefused, match=rf'of type {served.partition(";")[0]}, not '):
            await with_bytes([UserMessage([FilePart(part, url=server.url)])], everything, HERE)
        with pytest.raises(FetchRefused, match='of type'):
            await file_bytes(FilePart(part, url=server.url), HERE)


SNIFFED: dict[bytes, str | None] = {
    PNG: 'image/png',
    JPEG: 'image/jpeg',
    b'GIF89a..': 'image/gif',
    b'GIF87a..': 'image/gif',
    b'RIFF\x00\x00\x00\x00WEBPVP8 ': 'image/webp',
    b'RIFF\x00\x00\x00\x00WAVEfmt ': 'audio/wav',
    b'RIFF\x00\x00\x00\x00xxxx': None,
    b'%PDF-1.7\n': 'application/pdf',
    b'ID3\x04\x00': 'audio/mpeg',
    b'\xff\xfb\x90\x64': 'audio/mpeg',
    b'\xff\xf3\x48\xc4': 'audio/mpeg',
    b'\xff\xf1\x50\x80': None,
    b'\xff\xfe<\x00': None,
    b'\x00\x00\x00\x18ftypmp42': 'video/mp4',
    b'\x00\x00\x00\x18ftypisom': 'video/mp4',
    b'\x00\x00\x00\x18ftypM4A ': 'audio/mp4',
    b'\x00\x00\x00\x18ftypqt  ': 'video/quicktime',
    b'\x00\x00\x00\x18ftypheic': 'image/heic',
    b'\x1a\x45\xdf\xa3....webm': 'video/webm',
    b'OggS': 'audio/ogg',
    b'': None,
    b'\xff': None,
    b'text': None,
    b'<svg': None,
}


@pytest.mark.parametrize(('data', 'media_type'), SNIFFED.items(), ids=ascii)
async def test_what_the_bytes_show(data: bytes, media_type: str | None) -> None:
    assert sniff(data) == media_type


@pytest.mark.parametrize(
    ('values', 'media_type'),
    [
        (['image/png'], 'image/png'),
        (['Image/PNG ; charset=binary'], 'image/png'),
        (['image/png', 'image/png;x=y'], 'image/png'),
        (['image/png', 'text/html'], None),
        ([], None),
        ([''], None),
        (['png'], None),
        (['image/png, text/html'], None),
        (['*/*'], None),
        (['APPLICATION/octet-stream'], None),
        (['image/p\xfcng'], None),
        (['application/vnd.api+json'], 'application/vnd.api+json'),
    ],
)
async def test_what_the_server_says(values: list[str], media_type: str | None) -> None:
    assert stated(values) == media_type


@given(st.binary(max_size=64))
def test_any_bytes_can_be_looked_at(data: bytes) -> None:
    found = sniff(data)
    assert found is None or is_pattern(found)


async def test_patterns() -> None:
    assert matches('image/png', ['text/*', 'IMAGE/*'])
    assert matches('image/png', ['*/*'])
    assert matches('image/png', ['image/png'])
    assert not matches('image/png', ['image/pn', 'imag/*', 'text/png'])
    assert not matches('image/png', [])
