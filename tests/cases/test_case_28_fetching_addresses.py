"""Case 28: addresses in messages: a provider that needs the bytes fetches from nobody it should not.

Here a model stands for such a provider: it asks for the bytes of every file before it answers, as the adapters do.
"""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Sequence

import pytest

from agent_graph import Agent, FetchFailed, FetchRefused, FilePart, MessageError, RequestInfo, Tool, ToolReturn
from agent_graph.messages import AssistantPart, Message
from agent_graph.testing import FunctionModel
from agent_graph_providers.fetch import Fetcher, with_bytes
from tests.engine.kit import WAYS, Way, call, go
from tests.providers.fetch.kit import Names, connections, port_of
from tests.providers.loopback import Loopback, Reply

PNG = b'\x89PNG\r\n\x1a\n' + bytes(20)
TYPE = {'content-type': 'image/png'}
FILE = Reply([PNG], headers=TYPE, framing='length')

ADDRESSES = [
    'http://127.0.0.1/x.png',
    'http://127.0.0.1:8000/x.png',
    'http://localhost/x.png',
    'http://169.254.169.254/latest/meta-data/',
    'http://100.100.100.200/latest/meta-data/',
    'http://metadata.google.internal/',
    'http://[::1]/x.png',
    'http://[::]/x.png',
    'http://[::ffff:127.0.0.1]/x.png',
    'http://[::ffff:a9fe:a9fe]/x.png',
    'http://[64:ff9b::a9fe:a9fe]/x.png',
    'http://[fe80::1]/x.png',
    'http://[fd00::1]/x.png',
    'http://0.0.0.0/x.png',
    'http://2130706433/x.png',
    'http://0x7f000001/x.png',
    'http://0177.0.0.1/x.png',
    'http://127.1/x.png',
    'http://１２７.0.0.1/x.png',
    'http://10.0.0.1/x.png',
    'http://172.16.0.1/x.png',
    'http://192.168.1.1/x.png',
    'http://100.64.0.1/x.png',
    'http://internal.test/x.png',
    'http://half.test/x.png',
    'http://meta.test/x.png',
    'http://user:password@example.com/x.png',
    'http://example.com@127.0.0.1/x.png',
    'http://127.0.0.1\\@example.com/x.png',
    'file:///etc/passwd',
    'ftp://example.com/x.png',
]
NAMES = Names(
    internal_test=[['10.0.0.5']],
    half_test=[['8.8.8.8', '127.0.0.1']],
    meta_test=[['169.254.169.254']],
)


class Provider:
    """A model that needs the bytes of all files; `files` are those it got."""

    def __init__(self, fetcher: Fetcher, *, call_first: bool = False) -> None:
        self.files: list[FilePart] = []
        self._fetcher = fetcher
        self._call_first = call_first
        self.model = FunctionModel(self.answer)

    async def answer(self, messages: Sequence[Message], info: RequestInfo) -> str | list[AssistantPart]:
        messages = await with_bytes(messages, lambda _: True, self._fetcher)
        for message in messages:
            if message.kind == 'user':
                self.files += [item for item in message.content if isinstance(item, FilePart)]
            if message.kind == 'tool':
                self.files += [i for part in message.parts for i in part.extra_content if isinstance(i, FilePart)]
        if self._call_first and messages[-1].kind == 'user':
            return [call('look')]
        return 'I see.'


@pytest.mark.parametrize('url', ADDRESSES, ids=ascii)
@pytest.mark.parametrize('way', [WAYS['run'], WAYS['run_stream']], ids=['run', 'run_stream'])
def test_refused_before_any_connection(url: str, way: Way) -> None:
    async def main() -> None:
        provider = Provider(Fetcher(resolve=NAMES))
        with connections() as made, pytest.raises(FetchRefused) as raised:
            await way(Agent(provider.model), ['Look', FilePart('image/png', url=url)])
        assert made == []
        assert provider.files == []
        assert isinstance(raised.value, MessageError)
        assert 'password' not in str(raised.value)

    go(main())


def test_files_of_tools_are_no_exception() -> None:
    async def main() -> None:
        def look() -> ToolReturn:
            return ToolReturn('see', content=[FilePart('image/png', url='http://169.254.169.254/x.png')])

        provider = Provider(Fetcher(allow_private=True), call_first=True)
        with connections() as made, pytest.raises(FetchRefused, match=r'169\.254\.169\.254'):
            await Agent(provider.model, tools=[Tool(look)]).run('Look.')
        assert made == []

    go(main())


def test_a_host_that_is_meant() -> None:
    """The permission is one part's own, and metadata stay out of reach."""

    async def main() -> None:
        async with Loopback([FILE]) as server:
            provider = Provider(Fetcher())
            part = FilePart.from_url(f'{server.url}/x.png', allow_local=True)
            await Agent(provider.model).run(['Look', part])
            assert [file.data for file in provider.files] == [PNG]
            other = FilePart.from_url(f'{server.url}/y.png')
            with pytest.raises(FetchRefused):
                await Agent(provider.model).run(['Look', part, other])
            assert all(request.path == '/v1/x.png' for request in server.requests)
        for url in ('http://169.254.169.254/x.png', 'http://100.100.100.200/x.png', 'http://[fd00:ec2::254]/x.png'):
            with connections() as made, pytest.raises(FetchRefused, match='nothing is ever fetched'):
                await Agent(provider.model).run(['Look', FilePart.from_url(url, allow_local=True)])
            assert made == []

    go(main())


def test_a_name_that_changes_between_check_and_connect() -> None:
    async def main() -> None:
        async with Loopback([FILE]) as server:
            names = Names(rebind_test=[['93.184.215.14'], ['127.0.0.1']])
            part = FilePart('image/png', url=f'http://rebind.test:{port_of(server.url)}/')
            with connections() as made, pytest.raises(FetchFailed):
                await Agent(Provider(Fetcher(resolve=names)).model).run(['Look', part])
            assert made == [('93.184.215.14', port_of(server.url))]
            assert names.asked == ['rebind.test']
            assert server.connections == 0

    go(main())


@pytest.mark.parametrize(
    'location',
    [
        'http://169.254.169.254/',
        'http://127.0.0.2/',
        'http://[::1]/',
        'http://inner.test/',
        'file:///etc/passwd',
        '//0/',
    ],
)
def test_a_redirect_to_where_it_must_not_lead(location: str) -> None:
    async def main() -> None:
        async with Loopback([Reply([], 302, {'location': location}, framing='length')]) as server:
            names = Names(outer_test=[['127.0.0.1']], inner_test=[['127.0.0.1']])
            part = FilePart('image/png', url=f'http://outer.test:{port_of(server.url)}/')
            with connections() as made, pytest.raises(FetchRefused, match='redirected to'):
                await Agent(Provider(Fetcher(allow={'outer.test'}, resolve=names)).model).run(['Look', part])
            assert made == [('127.0.0.1', port_of(server.url))]

    go(main())


@pytest.mark.parametrize(
    'reply',
    [
        Reply([bytes(100_000)] * 1000, headers=TYPE, framing='close'),
        Reply([b'x'], headers={**TYPE, 'content-length': '10737418240'}, framing='close', hang=True),
        Reply([gzip.compress(bytes(50_000_000))], headers={**TYPE, 'content-encoding': 'gzip'}, framing='length'),
        Reply([b'x'] * 1000, headers=TYPE, framing='chunked', delay=0.02),
        Reply(framing='raw', hang=True),
    ],
    ids=['endless', 'promised', 'packed', 'slow', 'silent'],
)
def test_a_body_too_large_or_too_slow(reply: Reply) -> None:
    async def main() -> None:
        async with Loopback([reply]) as server:
            fetcher = Fetcher(allow={'127.0.0.1'}, max_bytes=1_000_000, total_timeout=0.5)
            began = time.monotonic()
            with pytest.raises((FetchRefused, FetchFailed)) as raised:
                await Agent(Provider(fetcher).model).run(['Look', FilePart('image/png', url=server.url)])
            assert raised.type is (FetchFailed if reply.delay or not reply.pieces else FetchRefused)
            assert time.monotonic() - began < 3
            for _ in range(100):
                if server.open == 0:
                    break
                await asyncio.sleep(0.01)
            assert server.open == 0

    go(main())
