"""Chat Completions message lists, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    FilePart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
    from_openai,
    to_openai,
)
from agent_graph.messages.chat import ChatForm, message_to_openai

CALL = {'id': 'c1', 'type': 'function', 'function': {'name': 'f', 'arguments': '{"x":1}'}}
PNG = 'data:image/png;base64,iVBORw0KGgo='

SAME_BOTH_WAYS: dict[str, list[dict[str, Any]]] = {
    'texts': [
        {'role': 'system', 'content': 'be {kind}'},
        {'role': 'user', 'content': 'hi'},
        {'role': 'assistant', 'content': 'ho'},
    ],
    'empty answer': [{'role': 'assistant', 'content': ''}],
    'text parts': [{'role': 'user', 'content': [{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]}],
    'calls': [
        {'role': 'assistant', 'content': None, 'tool_calls': [CALL, {**CALL, 'id': 'c2'}]},
        {'role': 'tool', 'tool_call_id': 'c1', 'content': '1'},
        {'role': 'tool', 'tool_call_id': 'c2', 'content': '{"y": 2}'},
    ],
    'two calls with one id': [
        {'role': 'assistant', 'content': None, 'tool_calls': [CALL, CALL]},
        {'role': 'tool', 'tool_call_id': 'c1', 'content': 'first'},
        {'role': 'tool', 'tool_call_id': 'c1', 'content': 'second'},
    ],
    'text beside a call': [{'role': 'assistant', 'content': 'wait', 'tool_calls': [CALL]}],
    'unanswered call': [{'role': 'assistant', 'content': None, 'tool_calls': [CALL]}, {'role': 'user', 'content': 'x'}],
    'image': [{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': PNG, 'detail': 'low'}}]}],
    'image address': [
        {'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': 'https://x.test/a.jpg?b=1'}}]}
    ],
    'image of unknown type': [
        {'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': 'https://x.test/a'}}]}
    ],
    'sound': [
        {'role': 'user', 'content': [{'type': 'input_audio', 'input_audio': {'data': 'UklGRg==', 'format': 'wav'}}]}
    ],
    'sound mp3': [
        {'role': 'user', 'content': [{'type': 'input_audio', 'input_audio': {'data': 'SUQz', 'format': 'mp3'}}]}
    ],
    'sound address': [
        {'role': 'user', 'content': [{'type': 'audio_url', 'audio_url': {'url': 'https://x.test/a.mp3'}}]}
    ],
    'video': [{'role': 'user', 'content': [{'type': 'video_url', 'video_url': {'url': 'https://x.test/v.mp4'}}]}],
    'document': [
        {
            'role': 'user',
            'content': [
                {'type': 'file', 'file': {'file_data': 'data:application/pdf;base64,JVBERi0=', 'filename': 'a.pdf'}}
            ],
        }
    ],
    'image sent as a file': [
        {'role': 'user', 'content': [{'type': 'file', 'file': {'file_data': PNG, 'filename': 'a.png'}}]}
    ],
    'stored file': [{'role': 'user', 'content': [{'type': 'file', 'file': {'file_id': 'file-1'}}]}],
    'refusal': [{'role': 'assistant', 'content': None, 'refusal': 'I will not'}],
    'spoken answer': [{'role': 'assistant', 'content': None, 'audio': {'id': 'audio_1'}}],
    'reasoning_content': [{'role': 'assistant', 'content': 'a', 'reasoning_content': 'think'}],
    'reasoning': [
        {
            'role': 'assistant',
            'content': 'a',
            'reasoning': 'think',
            'reasoning_details': [{'type': 'reasoning.text', 'text': 'think', 'signature': 's'}],
        }
    ],
    'sealed reasoning': [
        {'role': 'assistant', 'content': 'a', 'reasoning_details': [{'type': 'reasoning.encrypted', 'data': 'xx'}]}
    ],
    'reasoning block': [
        {
            'role': 'assistant',
            'content': [
                {'type': 'thinking', 'thinking': [{'type': 'text', 'text': 'hm'}]},
                {'type': 'text', 'text': 'a'},
            ],
        }
    ],
    'vendor data of a call': [
        {'role': 'assistant', 'content': None, 'tool_calls': [{**CALL, 'extra_content': {'google': {'s': 1}}}]}
    ],
}


@pytest.mark.parametrize('name', SAME_BOTH_WAYS)
def test_nothing_is_lost(name: str) -> None:
    wire = SAME_BOTH_WAYS[name]
    assert to_openai(from_openai(wire)) == wire


def test_results_of_one_response_become_one_message_in_call_order() -> None:
    messages = from_openai(
        [
            {'role': 'assistant', 'content': None, 'tool_calls': [CALL, {**CALL, 'id': 'c2'}]},
            {'role': 'tool', 'tool_call_id': 'c2', 'content': [{'type': 'text', 'text': 'b'}]},
            {'role': 'tool', 'tool_call_id': 'c1', 'content': 'a'},
        ]
    )
    assert messages[1] == ToolMessage([ToolReturnPart('f', 'a', 'c1'), ToolReturnPart('f', 'b', 'c2')])


def test_a_result_without_an_id_goes_by_its_name_and_may_be_empty() -> None:
    two = [CALL, {**CALL, 'id': 'c2', 'function': {'name': 'g', 'arguments': '{}'}}]
    messages = from_openai(
        [
            {'role': 'assistant', 'content': None, 'tool_calls': two},
            {'role': 'tool', 'name': 'g', 'content': None},
            {'role': 'tool', 'name': 'f', 'content': 'r'},
        ]
    )
    assert messages[1] == ToolMessage([ToolReturnPart('f', 'r', 'c1'), ToolReturnPart('g', '', 'c2')])


def test_older_and_looser_notation_is_read() -> None:
    messages = from_openai(
        [
            {'role': 'developer', 'content': [{'type': 'text', 'text': 'one'}, {'type': 'text', 'text': 'two'}]},
            {'role': 'user', 'content': [{'type': 'image_url', 'image_url': PNG}]},
            {'role': 'assistant', 'content': None, 'function_call': {'name': 'f', 'arguments': '{}'}},
            {'role': 'function', 'name': 'f', 'content': 'r'},
            {'role': 'assistant', 'content': [{'type': 'refusal', 'refusal': 'no'}]},
        ]
    )
    assert messages[:2] == [SystemMessage('one'), SystemMessage('two')]
    assert messages[2] == UserMessage([FilePart('image/png', url=PNG)])
    assert messages[3] == AssistantMessage([ToolCallPart('f', '{}', 'call_2_0')])
    assert messages[4] == ToolMessage([ToolReturnPart('f', 'r', 'call_2_0')])
    assert messages[5] == AssistantMessage([], refusal='no')


BAD: list[tuple[list[Any], str]] = [
    ([{'role': 'robot', 'content': 'x'}], "message 0: .*role 'robot'"),
    (['text'], 'message 0: .*role None'),
    ([{'role': 'user', 'content': 'x'}, {'role': 'user'}], 'message 1: content is None'),
    ([{'role': 'user', 'content': [{'type': 'hologram'}]}], "type 'hologram'"),
    ([{'role': 'user', 'content': ['x']}], 'not a dict'),
    ([{'role': 'user', 'content': [{'type': 'text', 'text': 3}]}], "'text' of content part"),
    ([{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {}}]}], "'url' of a file is None"),
    ([{'role': 'user', 'content': [{'type': 'file'}]}], "no 'file' object"),
    ([{'role': 'system', 'content': [{'type': 'image_url'}]}], 'only text'),
    ([{'role': 'assistant', 'content': [{'type': 'image_url'}]}], 'assistant message holds'),
    ([{'role': 'assistant', 'content': None, 'tool_calls': [{'id': 'x'}]}], 'no function with a name'),
    ([{'role': 'assistant', 'content': None, 'tool_calls': 'x'}], "tool_calls is 'x'"),
    ([{'role': 'tool', 'tool_call_id': 'x', 'content': 'r'}], "call 'x' answers no open call"),
    (
        [
            {'role': 'assistant', 'content': None, 'tool_calls': [CALL]},
            {'role': 'tool', 'tool_call_id': 'c1', 'content': 'r'},
            {'role': 'tool', 'tool_call_id': 'c1', 'content': 'again'},
        ],
        "message 2: .*'c1' answers no open call",
    ),
]


@pytest.mark.parametrize(('wire', 'said'), BAD)
def test_bad_input_is_named(wire: list[Any], said: str) -> None:
    with pytest.raises(MessageError, match=said):
        from_openai(wire)


def test_a_huge_value_does_not_flood_the_error() -> None:
    with pytest.raises(MessageError) as caught:
        from_openai([{'role': 'user', 'content': [{'type': 'blob', 'data': 'x' * 1_000_000}]}])
    assert len(str(caught.value)) < 1_000


def test_files_of_all_kinds_are_written() -> None:
    (message,) = to_openai(
        [
            UserMessage(
                [
                    'look',
                    FilePart.from_bytes(b'\x89PNG\r\n\x1a\n', 'image/png'),
                    FilePart.from_bytes(b'RIFF', 'audio/x-wav'),
                    FilePart.from_bytes(b'ID3', 'audio/mpeg'),
                    FilePart.from_bytes(b'%PDF-', 'application/pdf', name='a.pdf'),
                    FilePart.from_bytes(b'\0', 'video/mp4'),
                ]
            )
        ]
    )
    assert message['content'] == [
        {'type': 'text', 'text': 'look'},
        {'type': 'image_url', 'image_url': {'url': PNG}},
        {'type': 'input_audio', 'input_audio': {'data': 'UklGRg==', 'format': 'wav'}},
        {'type': 'input_audio', 'input_audio': {'data': 'SUQz', 'format': 'mp3'}},
        {'type': 'file', 'file': {'file_data': 'data:application/pdf;base64,JVBERi0=', 'filename': 'a.pdf'}},
        {'type': 'video_url', 'video_url': {'url': 'data:video/mp4;base64,AA=='}},
    ]


def test_results_that_are_no_text_are_written_as_json_and_files_follow_in_a_user_message() -> None:
    image = FilePart('image/png', url=PNG)
    wire = to_openai(
        [
            ToolMessage(
                [
                    ToolReturnPart('f', {'a': [1, None]}, '1', extra_content=('see', image)),
                    ToolReturnPart('g', None, '2'),
                ]
            )
        ]
    )
    assert wire == [
        {'role': 'tool', 'tool_call_id': '1', 'content': '{"a":[1,null]}'},
        {'role': 'tool', 'tool_call_id': '2', 'content': 'null'},
        {
            'role': 'user',
            'content': [{'type': 'text', 'text': 'see'}, {'type': 'image_url', 'image_url': {'url': PNG}}],
        },
    ]


class TestForm:
    """What a server's form changes."""

    def test_reasoning_goes_back_only_to_its_provider_and_only_in_fields_it_takes(self) -> None:
        part = ThinkingPart('hm', provider_details={'field': 'reasoning_content'})
        mine = AssistantMessage([part, TextPart('a')], provider_name='p')
        takes = ChatForm(provider='p', thinking=frozenset({'reasoning_content'}), strict=True)
        assert message_to_openai(mine, takes) == [{'role': 'assistant', 'content': 'a', 'reasoning_content': 'hm'}]
        other = AssistantMessage([part, TextPart('a')], provider_name='q')
        assert message_to_openai(other, takes) == [{'role': 'assistant', 'content': 'a'}]
        not_taken = ChatForm(provider='p', thinking=frozenset(), strict=True)
        assert message_to_openai(mine, not_taken) == [{'role': 'assistant', 'content': 'a'}]

    @pytest.mark.parametrize('parts', [(), (TextPart(''),), (TextPart(' \n'),), (ThinkingPart('hm'),)])
    def test_nothing_to_say_is_not_sent(self, parts: tuple[Any, ...]) -> None:
        assert message_to_openai(AssistantMessage(parts), ChatForm(strict=True)) == []

    def test_a_refusal_is_text_for_servers_without_the_field(self) -> None:
        message = AssistantMessage([], refusal='no')
        assert message_to_openai(message, ChatForm(strict=True, refusal=False)) == [
            {'role': 'assistant', 'content': 'no'}
        ]

    @pytest.mark.parametrize(
        ('args', 'sent'),
        [
            ('{"a": 1}', '{"a": 1}'),
            ('', '{}'),
            ({'a': 1}, '{"a":1}'),
            ('{"a": ', '{"invalid_arguments":"{\\"a\\": "}'),
            ('[1]', '{"invalid_arguments":"[1]"}'),
        ],
    )
    def test_arguments_are_always_an_object(self, args: Any, sent: str) -> None:
        (wire,) = message_to_openai(AssistantMessage([ToolCallPart('f', args, '1')]), ChatForm(strict=True))
        assert wire['tool_calls'][0]['function']['arguments'] == sent

    def test_tools_go_by_the_names_sent(self) -> None:
        (wire,) = message_to_openai(
            AssistantMessage([ToolCallPart('a.b', '{}', '1')]), ChatForm(tool_names={'a.b': 'a_b'})
        )
        assert wire['tool_calls'][0]['function']['name'] == 'a_b'
