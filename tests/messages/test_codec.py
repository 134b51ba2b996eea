"""Message lists as JSON: an exact round trip, versioned, and nothing but messages is ever built."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import CodecError, MessageError
from agent_graph.messages import (
    AssistantMessage,
    FilePart,
    JsonValue,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
    dump_json,
    load_json,
)
from agent_graph.usage import Usage
from tests.journal.strategies import json_values, values_of

messages: st.SearchStrategy[Message] = values_of(Message)


@given(st.lists(messages, max_size=5))
@settings(max_examples=200, deadline=None)
def test_any_messages_come_back_equal(given_messages: list[Message]) -> None:
    data = dump_json(given_messages)
    assert load_json(data) == given_messages
    assert load_json(data.decode()) == given_messages
    assert dump_json(load_json(data)) == data


@given(json_values | st.dictionaries(st.sampled_from(['v', 'messages', 'x']), json_values))
@settings(max_examples=200, deadline=None)
def test_other_json_gives_an_empty_list_or_an_error(value: JsonValue) -> None:
    try:
        found = load_json(json.dumps(value))
    except CodecError:
        return
    assert found == []
    assert value == {'v': 1, 'messages': []}


def test_what_the_document_looks_like() -> None:
    conversation = [
        SystemMessage('short'),
        UserMessage(['see', FilePart('image/png', data=b'\xff\xfe')]),
        AssistantMessage(
            [ToolCallPart('look', {'at': None}, 'id')], Usage(input_tokens=2), provider_details={'n': None}
        ),
        ToolMessage([ToolReturnPart('look', None, 'id')]),
        AssistantMessage([TextPart('done\u2028')]),
    ]
    data = dump_json(conversation)
    assert json.loads(data) == {
        'v': 1,
        'messages': [
            {'kind': 'system', 'content': 'short'},
            {'kind': 'user', 'content': ['see', {'kind': 'file', 'media_type': 'image/png', 'data': '__4='}]},
            {
                'kind': 'assistant',
                'parts': [{'kind': 'tool_call', 'tool_name': 'look', 'args': {'at': None}, 'tool_call_id': 'id'}],
                'usage': {'input_tokens': 2, 'total_tokens': 2},
                'provider_details': {'n': None},
            },
            {
                'kind': 'tool',
                'parts': [{'kind': 'tool_return', 'tool_name': 'look', 'content': None, 'tool_call_id': 'id'}],
            },
            {'kind': 'assistant', 'parts': [{'kind': 'text', 'content': 'done\u2028'}]},
        ],
    }
    back = load_json(data)
    assert back == conversation
    assert [type(message) for message in back] == [type(message) for message in conversation]
    assert isinstance(back[1], UserMessage)
    assert isinstance(back[1].content, tuple)


def test_nothing_said_is_a_conversation_too() -> None:
    assert load_json(dump_json([])) == []
    assert load_json(dump_json(())) == []


@pytest.mark.parametrize(
    ('bad', 'words'),
    [
        (ToolMessage([ToolReturnPart('t', {'when': {1}}, 'id')]), "parts[0].content['when'] is {1} (set)"),  # pyright: ignore[reportArgumentType]
        (AssistantMessage([TextPart('x')], provider_details={'raw': object()}), "provider_details['raw'] is <object"),
        (AssistantMessage([TextPart('x')], provider_details={'raw': (1,)}), "provider_details['raw'] is (1,) (tuple)"),
        (AssistantMessage([TextPart('x')], provider_details={'n': float('nan')}), "provider_details['n'] is nan"),
        (UserMessage('\udc97'), 'not valid text'),
        (UserMessage([1]), 'UserMessage'),  # pyright: ignore[reportArgumentType]
        ('a text', 'a text'),
        ({'kind': 'user', 'content': 'x'}, "{'kind': 'user'"),
    ],
    ids=['set', 'object', 'tuple', 'nan', 'surrogate', 'content', 'str', 'dict'],
)
def test_what_cannot_be_written_is_named(bad: Any, words: str) -> None:
    with pytest.raises(MessageError) as raised:
        dump_json([UserMessage('fine'), bad])
    assert str(raised.value).startswith('message 1 ')
    assert words in str(raised.value)


@pytest.mark.parametrize(
    'document',
    [
        b'',
        b'[]',
        pickle.dumps([UserMessage('x')]),
        '{"v":1,"messages":[{"kind":"os.system","content":"true"}]}',
        '{"v":1,"messages":[{"kind":"user","content":"x","__class__":"os.system"}]}',
        '{"v":1,"messages":[{"content":"x"}]}',
        '{"v":1,"messages":[{"kind":"user","content":7}]}',
        '{"v":1,"messages":[{"kind":"user","content":[{"kind":"file","media_type":"a","url":"b","file_id":"c"}]}]}',
        '{"v":1,"messages":[{"kind":"tool","parts":[{"kind":"text","content":"x"}]}]}',
        '{"v":1,"messages":[' + '[' * 5000 + ']' * 5000 + ']}',
        '{"v":1,"messages":{"0":{"kind":"user","content":"x"}}}',
        '{"v":2,"messages":[]}',
        '{"v":null,"messages":[]}',
        '{"messages":[]}',
        '{"v":1}',
        '{"v":1,"messages":[{"kind":"user","content":"x"}',
    ],
)
def test_anything_else_is_refused(document: bytes | str) -> None:
    with pytest.raises(CodecError, match='the message list'):
        load_json(document)
