"""Whatever a server sends: a file or a typed error, within the limits, and nothing left open."""

from __future__ import annotations

import asyncio
import gzip

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph import FetchFailed, FetchRefused
from agent_graph_providers.fetch import Fetcher
from tests.providers.loopback import Loopback, Reply, cut

LINES = st.sampled_from(
    [
        b'HTTP/1.1 200 OK',
        b'HTTP/1.0 200 OK',
        b'HTTP/1.1 302 Found',
        b'HTTP/1.1 100 Continue',
        b'HTTP/1.1 204 No Content',
        b'HTTP/1.1 101 x',
        b'content-type: image/png',
        b'content-type: ;;;',
        b'content-length: 5',
        b'content-length: 500',
        b'content-encoding: gzip',
        b'content-encoding: br',
        b'transfer-encoding: chunked',
        b'transfer-encoding: gzip, chunked',
        b'location: /x',
        b'location: http://127.0.0.2/',
        b'location: \xff\xfe',
        b'location:',
        b'connection: keep-alive',
        b'upgrade: h2c',
        b' folded',
        b'',
        b'5',
        b'abcde',
        b'0',
        b'fffff',
        b'-1',
        b'5;ext=' + b'x' * 100,
        gzip.compress(b'text' * 100),
        gzip.compress(bytes(100_000)),
        gzip.compress(b'x')[:-4],
        b'\x89PNG\r\n\x1a\n',
    ]
)
ANSWERS = st.lists(st.one_of(LINES, st.binary(max_size=30)), max_size=14).map(b'\r\n'.join)


@settings(max_examples=150)
@given(ANSWERS, st.booleans(), st.integers(0, 20))
def test_any_answer(raw: bytes, headed: bool, split: int) -> None:
    if headed:
        raw = b'HTTP/1.1 200 OK\r\n' + raw

    async def main() -> None:
        async with Loopback([Reply(cut(raw, split), framing='raw')]) as server:
            fetcher = Fetcher(allow={'127.0.0.1'}, max_bytes=1000, total_timeout=1.0, max_redirects=2)
            try:
                file = await fetcher.fetch(server.url)
            except (FetchFailed, FetchRefused) as error:
                str(error).encode()
            else:
                assert len(file.data) <= 1000
            for _ in range(100):
                if server.open == 0:
                    break
                await asyncio.sleep(0.005)
            assert server.open == 0

    asyncio.run(main())
