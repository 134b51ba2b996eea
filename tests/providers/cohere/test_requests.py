"""Messages, tools and settings -> the body of a request, and the way back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_graph.errors import (
    ConfigError,
    MessageError,
)
from agent_graph.messages import (
    AssistantMessage,
    CachePoint,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
    dump_json,
    load_json,
)
from agent_graph.model import OutputSchema, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph.registry import infer_model
from agent_graph_providers.cohere import CohereModel, messages_from_cohere
from tests.providers.cohere.server import (
    HI,
    KEY,
    F,
    G,
    body,
    message,
    said,
)
from tests.providers.loopback import Loopback, json_reply


class TestMessages:
    def test_everything(self) -> None:
        history = [
            SystemMessage('be nice'),
            UserMessage(['look', '', CachePoint(), FilePart('image/png', url='https://x.example/a.png')]),
            AssistantMessage([ThinkingPart('hm'), TextPart('I call'), ToolCallPart('f', {'x': 1}, 'a')]),
            ToolMessage([ToolReturnPart('f', {'y': 2}, 'a')]),
            SystemMessage(' '),
            AssistantMessage([TextPart('done')]),
        ]
        assert said(history) == [
            {'role': 'system', 'content': 'be nice'},
            {
                'role': 'user',
                'content': [
                    {'type': 'text', 'text': 'look'},
                    {'type': 'image_url', 'image_url': {'url': 'https://x.example/a.png'}},
                ],
            },
            {
                'role': 'assistant',
                'content': [{'type': 'thinking', 'thinking': 'hm'}, {'type': 'text', 'text': 'I call'}],
                'tool_calls': [{'id': 'a', 'type': 'function', 'function': {'name': 'f', 'arguments': '{"x":1}'}}],
            },
            {'role': 'tool', 'tool_call_id': 'a', 'content': '{"y":2}'},
            {'role': 'assistant', 'content': 'done'},
        ]

    @pytest.mark.parametrize('history', [[], [UserMessage('')], [UserMessage([' '])], [SystemMessage('x')]])
    def test_there_is_always_a_message_of_a_user(self, history: list[Message]) -> None:
        assert said(history)[-1] == {'role': 'user', 'content': '.'}

    def test_foreign_thoughts_and_empty_answers_are_left_out(self) -> None:
        foreign = AssistantMessage([ThinkingPart('t'), TextPart('x')], provider_name='openai')
        assert said([*HI, foreign])[1] == {'role': 'assistant', 'content': 'x'}
        for parts in ([ThinkingPart('only')], [TextPart(' ')], []):
            assert len(said([*HI, AssistantMessage(parts)])) == 1
        assert said([*HI, AssistantMessage([], refusal='no')])[1] == {
            'role': 'assistant',
            'content': 'no',
        }

    @pytest.mark.parametrize(
        ('args', 'sent'),
        [
            ('null', '{}'),
            ('', '{}'),
            ('{"x": 1}', '{"x": 1}'),
            ('{"x": ', '{"invalid_arguments":"{\\"x\\": "}'),
            ('[1]', '{"invalid_arguments":"[1]"}'),
        ],
    )
    def test_arguments(self, args: str, sent: str) -> None:
        history = [*HI, AssistantMessage([ToolCallPart('f', args, 'a')]), ToolMessage([ToolReturnPart('f', '', 'a')])]
        assert said(history)[1]['tool_calls'][0]['function']['arguments'] == sent
        assert said(history)[2]['content'] == '""'

    def test_ids_are_there_once_and_paired(self) -> None:
        history: list[Message] = [*HI]
        for group in (['', '', 'a', 'a'], ['a']):
            history.append(AssistantMessage([ToolCallPart('f', {}, i) for i in group]))
            history.append(ToolMessage([ToolReturnPart('f', str(n), i) for n, i in enumerate(group)]))
        messages = said(history)
        called = [c['id'] for m in messages for c in m.get('tool_calls', ())]
        answered = [m['tool_call_id'] for m in messages if m['role'] == 'tool']
        assert called == answered and len(set(called)) == 5 and all(called) and called[2] == 'a'

    def test_documents(self) -> None:
        files = [
            FilePart.from_bytes(b'old', 'text/plain', name='a.txt'),
            FilePart('application/json', url='data:application/json;base64,e30='),
        ]
        made = body([UserMessage(['which?', files[0]]), UserMessage(files[1:])])
        assert made['messages'] == [
            {'role': 'user', 'content': [{'type': 'text', 'text': 'which?'}]},
            {'role': 'user', 'content': 'See the documents.'},
        ]
        assert made['documents'][0] == {'id': 'a.txt', 'data': {'text': 'old', 'title': 'a.txt'}}
        assert made['documents'][1]['data'] == {'text': '{}'} and made['documents'][1]['id'].startswith('document_')

    def test_what_a_tool_returns_besides(self) -> None:
        extra = ('see', FilePart.from_bytes(b'doc', 'text/csv', name='t'), FilePart.from_bytes(b'i', 'image/png'))
        part = ToolReturnPart('f', 'one', 'a', extra_content=extra)
        history = [*HI, AssistantMessage([ToolCallPart('f', {}, 'a')]), ToolMessage([part])]
        result, images = said(history)[2:]
        assert result['content'] == [
            {'type': 'text', 'text': 'one'},
            {'type': 'text', 'text': 'see'},
            {'type': 'document', 'document': {'id': 't', 'data': {'text': 'doc', 'title': 't'}}},
        ]
        assert images['content'][0]['image_url']['url'] == 'data:image/png;base64,aQ=='

    @pytest.mark.parametrize(
        'file',
        [
            FilePart.from_bytes(b'x', 'application/pdf'),
            FilePart.from_bytes(b'x', 'audio/wav'),
            FilePart('image/png', file_id='f1'),
            FilePart('text/plain', file_id='f1'),
            FilePart('text/plain', url='data:text/plain;base64,%%%'),
        ],
    )
    def test_what_it_does_not_take(self, file: FilePart) -> None:
        with pytest.raises(MessageError):
            body([UserMessage([file])])


UNREADABLE: list[Any] = [
    'x',
    [{'role': 'robot'}],
    [{'role': 'user', 'content': [{}]}],
    [{'role': 'user', 'content': 3}],
]


class TestReading:
    def test_the_way_back(self) -> None:
        documents: list[Any] = ['a text', {'id': 'd', 'data': {'title': 't', 'snippet': 's'}}]
        citation = {
            'start': 0,
            'end': 1,
            'text': 'x',
            'sources': [{'type': 'tool', 'id': 'a:0'}],
            'type': 'TEXT_CONTENT',
        }
        tool = [{'type': 'text', 'text': 'r'}, {'type': 'document', 'document': {'data': {'k': 'v'}}}]
        request: dict[str, Any] = {
            'documents': documents,
            'messages': [
                {'role': 'system', 'content': [{'type': 'text', 'text': 's'}]},
                {'role': 'user', 'content': 'q'},
                {
                    'role': 'assistant',
                    'tool_plan': 'I plan',
                    'tool_calls': [{'id': 'a', 'type': 'function', 'function': {'name': 'f', 'arguments': '{}'}}],
                    'citations': [{'type': 'PLAN', 'start': 0, 'end': 2}],
                },
                {'role': 'tool', 'tool_call_id': 'a', 'content': tool},
                {'role': 'assistant', 'content': [{'type': 'text', 'text': 'x'}], 'citations': [citation]},
            ],
        }
        messages = messages_from_cohere(request)
        for history in (messages, load_json(dump_json(messages))):
            made = body(history)
            assert made['documents'] == documents
            assert made['messages'][1]['content'] == [{'type': 'text', 'text': 'q'}]
            assert made['messages'][2:4] == request['messages'][2:4]
            assert made['messages'][4] == {'role': 'assistant', 'content': 'x', 'citations': [citation]}

    @pytest.mark.parametrize('messages', UNREADABLE)
    def test_what_cannot_be_read(self, messages: Any) -> None:
        with pytest.raises(MessageError):
            messages_from_cohere({'messages': messages})


class TestSettings:
    def test_fields(self) -> None:
        made = body(
            max_tokens=5,
            top_p=0.5,
            top_k=3,
            seed=1,
            stop_sequences=['x'],
            logprobs=True,
            auto_cache='5m',
            parallel_tool_calls=False,
            background=False,
        )
        del made['messages'], made['model'], made['stream']
        assert made == {'max_tokens': 5, 'p': 0.5, 'k': 3, 'seed': 1, 'stop_sequences': ['x'], 'logprobs': True}

    @pytest.mark.parametrize('key', ['user', 'logit_bias', 'service_tier', 'top_logprobs', 'builtin_tools', 'odd'])
    def test_refused(self, key: str) -> None:
        with pytest.raises(ConfigError, match=key):
            body(HI, None, **{key: 1})

    @pytest.mark.parametrize(
        ('settings', 'thinking'),
        [
            ({'reasoning_effort': 'none'}, {'type': 'disabled'}),
            ({'thinking_budget': 0}, {'type': 'disabled'}),
            ({'reasoning_effort': 'low'}, {'type': 'enabled', 'token_budget': 1024}),
            ({'reasoning_effort': 'high'}, {'type': 'enabled'}),
            ({'reasoning_effort': 'low', 'thinking_budget': 7}, {'type': 'enabled', 'token_budget': 7}),
        ],
    )
    def test_thinking(self, settings: Any, thinking: Any) -> None:
        assert body(**settings)['thinking'] == thinking

    def test_tools(self) -> None:
        assert 'tool_choice' not in body(info=RequestInfo(tools=(F, G)))
        assert body(info=RequestInfo(tools=(F, G), tool_choice='none'))['tool_choice'] == 'NONE'
        assert body(info=RequestInfo(tools=(F, G), tool_choice='required'))['tool_choice'] == 'REQUIRED'
        made = body(info=RequestInfo(tools=(F, G), tool_choice=('g',), allow_text=False))
        assert made['tool_choice'] == 'REQUIRED' and [t['function']['name'] for t in made['tools']] == ['g']
        assert 'strict_tools' not in made and body(info=RequestInfo(tools=(G,)))['strict_tools'] is True

    def test_an_output_schema(self) -> None:
        schema = {'type': 'object', 'properties': {'a': {'$ref': '#/$defs/A'}}, '$defs': {'A': {'type': 'integer'}}}
        made = body(info=RequestInfo(output_schema=OutputSchema('x', schema)))['response_format']
        assert made['type'] == 'json_object' and made['json_schema']['properties'] == {'a': {'type': 'integer'}}

    def test_names_of_tools(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv('COHERE_API_KEY', raising=False)
        monkeypatch.setenv('CO_API_KEY', KEY)

        async def main() -> Any:
            async with Loopback([json_reply(message({'type': 'text', 'text': 'x'}))]) as server:
                tools = tuple(ToolDefinition(n, '', {'type': 'object'}) for n in ('get-it', '9lives'))
                model = CohereModel('m', base_url=server.url)
                await model.respond(HI, RequestInfo(tools=tools), ResponseBuilder())
                return server.requests[0]

        request = asyncio.run(main())
        assert [t['function']['name'] for t in request.json['tools']] == ['get_it', '_9lives']
        assert request.headers['authorization'] == f'Bearer {KEY}' and request.path.endswith('/v2/chat')

    def test_by_name(self) -> None:
        assert isinstance(infer_model('cohere:command-a-03-2025'), CohereModel)
        with pytest.raises(ConfigError, match='names no model'):
            infer_model('cohere:')
