"""Files -> blocks, and the bodies of requests -> messages."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, ClassVar

import pytest

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    CachePoint,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    dump_json,
    load_json,
)
from agent_graph_providers.anthropic import messages_from_anthropic
from agent_graph_providers.anthropic.files import needs_bytes
from tests.providers.anthropic import test_messages as given
from tests.providers.anthropic.asked import blocks, body_of
from tests.providers.anthropic.made import text
from tests.providers.anthropic.test_answer import CITED
from tests.providers.anthropic.test_messages import HI, own, returned, sent


class TestFiles:
    def block(self, part: FilePart) -> dict[str, Any]:
        return sent(UserMessage([part]))[0][1][0]

    @pytest.mark.parametrize(
        ('part', 'block'),
        [
            (
                FilePart('image/jpg', data=b'x'),
                {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/jpeg', 'data': 'eA=='}},
            ),
            (
                FilePart('image/*', url='data:image/gif;base64,R0lG'),
                {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/gif', 'data': 'R0lG'}},
            ),
            (
                FilePart('image/*', data=b'\x89PNG\r\n\x1a\n'),
                {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/png', 'data': 'iVBORw0KGgo='}},
            ),
            (
                FilePart.from_url('https://a.test/x.webp'),
                {'type': 'image', 'source': {'type': 'url', 'url': 'https://a.test/x.webp'}},
            ),
            (
                FilePart('image/png', file_id='file_1'),
                {'type': 'image', 'source': {'type': 'file', 'file_id': 'file_1'}},
            ),
            (
                FilePart('application/pdf', data=b'%PDF', name='a.pdf'),
                {
                    'type': 'document',
                    'source': {'type': 'base64', 'media_type': 'application/pdf', 'data': 'JVBERg=='},
                    'title': 'a.pdf',
                },
            ),
            (
                FilePart('application/pdf', url='https://a.test/x'),
                {'type': 'document', 'source': {'type': 'url', 'url': 'https://a.test/x'}},
            ),
            (
                FilePart('text/csv', data='a;ü'.encode()),
                {'type': 'document', 'source': {'type': 'text', 'media_type': 'text/plain', 'data': 'a;ü'}},
            ),
            (
                FilePart('application/json', url='data:application/json,%7B%7D'),
                {'type': 'document', 'source': {'type': 'text', 'media_type': 'text/plain', 'data': '{}'}},
            ),
            (FilePart('application/zip', file_id='f', provider_details={'type': 'container_upload'}), {'type': 'container_upload', 'file_id': 'f'}),
        ],
    )  # fmt: skip
    def test_blocks(self, part: FilePart, block: dict[str, Any]) -> None:
        assert self.block(part) == block

    def test_options_of_a_document(self) -> None:
        options: dict[str, Any] = {'citations': {'enabled': True}, 'context': 'from a friend', 'foreign': 1}
        got = self.block(FilePart('text/plain', data=b'x', provider_details=options))
        assert (got['citations'], got['context'], 'foreign' in got) == ({'enabled': True}, 'from a friend', False)

    @pytest.mark.parametrize('media_type', ['audio/mpeg', 'video/mp4', 'image/tiff', 'application/zip'])
    def test_types_that_claude_does_not_take(self, media_type: str) -> None:
        with pytest.raises(MessageError, match=f'takes no file of type {media_type!r}; convert'):
            self.block(FilePart(media_type, data=b'x'))

    def test_text_that_is_none(self) -> None:
        with pytest.raises(MessageError, match=r'a\.txt.*not UTF-8'):
            self.block(FilePart('text/plain', data=b'\xff\xfe\x00', name='a.txt'))

    @pytest.mark.parametrize(
        ('part', 'wanted'),
        [
            (FilePart.from_url('https://a.test/x.png'), False),
            (FilePart.from_url('http://a.test/x.png'), True),
            (FilePart.from_url('https://a.test/x.txt'), True),
            (FilePart.from_url('https://a.test/x.mp3'), False),
            (FilePart('image/png', url='data:image/png;base64,eA=='), False),
            (FilePart('image/png', data=b'x'), False),
            (FilePart('image/png', file_id='x'), False),
        ],
    )
    def test_addresses_anthropic_cannot_go_to(self, part: FilePart, wanted: bool) -> None:
        assert needs_bytes(part) is wanted

    def test_files_a_model_made_are_left_out(self) -> None:
        made = AssistantMessage([FilePart('image/png', data=b'x'), TextPart('look')], provider_name='google')
        assert sent(HI, made)[1][1] == [text('look')]


class TestReading:
    def test_our_own_bodies(self) -> None:
        history: list[Message] = [
            SystemMessage('s'),
            UserMessage(['a', CachePoint('1h'), FilePart('text/plain', data=b'x', name='n')]),
            own(*given.TestAnswers.PARTS),
            ToolMessage([returned(outcome='failed', extra_content=('b', FilePart('image/png', file_id='file_1')))]),
            UserMessage([CachePoint(), 'c']),
        ]
        body = body_of(history)
        assert body_of(messages_from_anthropic(body)) == body

    def test_blocks_of_any_kind(self) -> None:
        search = {'type': 'search_result', 'source': 's', 'title': 't', 'content': [text('c')]}
        reference = {'type': 'tool_reference', 'tool_name': 'f'}
        inner = {'type': 'document', 'source': {'type': 'content', 'content': [text('c')]}, 'title': 't'}
        upload = {'type': 'container_upload', 'file_id': 'f'}
        result = {'type': 'tool_result', 'tool_use_id': 'toolu_1', 'content': [reference, search]}
        body: dict[str, Any] = {
            'messages': [
                {'role': 'user', 'content': [search, inner, upload]},
                {'role': 'assistant', 'content': [{'type': 'tool_use', 'id': 'toolu_1', 'name': 'f', 'input': {}}]},
                {'role': 'user', 'content': [result, text('x', citations=[CITED])]},
            ]
        }
        read = load_json(dump_json(messages_from_anthropic(body)))
        again = body_of(read)['messages']
        assert [blocks(m['content']) for m in again] == [m['content'] for m in body['messages']]

    def test_base64_is_not_touched(self) -> None:
        data = b64encode(b'PNG' * 5).decode()
        source = {'type': 'base64', 'media_type': 'image/png', 'data': data}
        body: dict[str, Any] = {'messages': [{'role': 'user', 'content': [{'type': 'image', 'source': source}]}]}
        (message,) = messages_from_anthropic(body)
        assert message == UserMessage([FilePart('image/png', url=f'data:image/png;base64,{data}')])
        assert body_of([message])['messages'] == body['messages']

    UNREADABLE: ClassVar[list[tuple[dict[str, Any], str]]] = [
        ({}, 'messages'),
        ({'messages': {}}, 'messages'),
        ({'messages': ['x']}, 'message 0'),
        ({'messages': [{'role': 'tool', 'content': 'x'}]}, "message 0.*'tool'"),
        ({'messages': [{'role': 'user', 'content': 5}]}, 'message 0'),
        ({'messages': [{'role': 'user', 'content': [5]}]}, 'message 0'),
        ({'messages': [{'role': 'user', 'content': [{'type': 'text'}]}]}, 'message 0'),
        ({'messages': [{'role': 'user', 'content': [{'type': 'image'}]}]}, 'message 0.*no source'),
        ({'messages': [{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': [{}]}]}, 'message 1'),
        ({'messages': [{'role': 'system', 'content': [{'type': 'image'}]}]}, 'message 0.*texts only'),
        ({'system': [{'type': 'image'}], 'messages': []}, 'system'),
    ]

    @pytest.mark.parametrize(('body', 'what'), UNREADABLE)
    def test_what_cannot_be_read(self, body: dict[str, Any], what: str) -> None:
        with pytest.raises(MessageError, match=what):
            messages_from_anthropic(body)

    def test_another_site(self) -> None:
        (message,) = messages_from_anthropic({'messages': [{'role': 'assistant', 'content': 'x'}]}, provider='bedrock')
        assert isinstance(message, AssistantMessage) and message.provider_name == 'bedrock'
