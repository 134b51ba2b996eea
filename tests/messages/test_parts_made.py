"""What cannot be a file is refused when the part is made, not when a provider reads it."""

from __future__ import annotations

from typing import Any

import pytest

from agent_graph import FilePart
from agent_graph.errors import MessageError


def test_what_is_no_file_is_refused() -> None:
    text: Any = 'text'
    with pytest.raises(MessageError, match='not bytes'):
        FilePart.from_bytes(text, 'text/plain')
    with pytest.raises(MessageError, match='the media type of a file'):
        FilePart.from_bytes(b'x', '')
    changing: Any = bytearray(b'x')
    part = FilePart.from_bytes(changing, 'text/plain')
    changing[0] = 0
    assert part.data == b'x'


@pytest.mark.parametrize('url', ['nope.png', 'file:///etc/passwd.txt', './a.png', 'my file: a.png'])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(MessageError, match='no address'):
        FilePart.from_url(url, media_type='image/png')


@pytest.mark.parametrize(
    'url', ['https://a.example/b.png', 'gs://bucket/b.png', 's3://bucket/b.png', 'data:image/png;base64,eA==']
)
def test_addresses_of_all_kinds_pass(url: str) -> None:
    assert FilePart.from_url(url, media_type='image/png').url == url
