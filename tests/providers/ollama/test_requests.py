"""Messages, tools and settings -> the body of a request, and the way back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_graph.errors import ConfigError, MessageError
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
    is_valid,
    load_json,
)
from agent_graph.model import OutputSchema, RequestInfo, ResponseBuilder
from agent_graph.registry import infer_model
from agent_graph_providers.ollama import OllamaModel, messages_from_ollama
from agent_graph_providers.ollama.model import host_address
from tests.providers.loopback import Loopback, json_reply
from tests.providers.ollama.server import HI, PNG, F, G, body, call, end, said


class TestAddress:
    @pytest.mark.parametrize(
        ('host', 'address'),
        [
            ('', 'http://127.0.0.1:11434'),
            ('1.2.3.4', 'http://1.2.3.4:11434'),
            ('0.0.0.0', 'http://127.0.0.1:11434'),
            ('[::]:8080', 'http://[::1]:8080'),
            (':56789', 'http://127.0.0.1:56789'),
            ('example.com:56789/', 'http://example.com:56789'),
            ('http://example.com', 'http://example.com:80'),
            ('https://example.com/sub/', 'https://example.com:443/sub'),
            ('example.com:odd', 'http://example.com:11434'),
        ],
    )
    def test_of_the_host(self, host: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv('OLLAMA_BASE_URL', raising=False)
        monkeypatch.setenv('OLLAMA_HOST', host)
        assert host_address() == address
        assert OllamaModel('m').identity['address'] == address

    def test_what_goes_before_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv('OLLAMA_HOST', 'elsewhere')
        monkeypatch.setenv('OLLAMA_BASE_URL', 'http://here:1/v1/')
        assert OllamaModel('m').identity['address'] == 'http://here:1'
        assert OllamaModel('m', base_url='http://there').identity['address'] == 'http://there'

    def test_a_key_is_sent_where_there_is_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def main() -> list[str | None]:
            async with Loopback([json_reply(end(message={'content': 'x'}))]) as server:
                for _ in range(2):
                    await OllamaModel('m', base_url=server.url).respond(HI, RequestInfo(), ResponseBuilder())
                    monkeypatch.setenv('OLLAMA_API_KEY', 'ollama-key-0123456789')
                assert {request.path for request in server.requests} == {'/api/chat'}
                return [request.headers.get('authorization') for request in server.requests]

        monkeypatch.delenv('OLLAMA_API_KEY', raising=False)
        assert asyncio.run(main()) == [None, 'Bearer ollama-key-0123456789']

    def test_by_name(self) -> None:
        assert isinstance(infer_model('ollama:qwen3'), OllamaModel)
        assert infer_model('ollama_openai:qwen3').provider == 'ollama'


class TestMessages:
    def test_everything(self) -> None:
        history = [
            SystemMessage('be nice'),
            UserMessage(['look', '', CachePoint(), FilePart.from_bytes(PNG, 'image/png'), 'well']),
            AssistantMessage(
                [ThinkingPart('hm'), TextPart('I '), TextPart('call'), ToolCallPart('f', '{"x": 1}', 'a')]
            ),
            ToolMessage([ToolReturnPart('f', {'y': 2}, 'a')]),
            AssistantMessage([TextPart('done')]),
        ]
        assert said(history) == [
            {'role': 'system', 'content': 'be nice'},
            {'role': 'user', 'content': 'look\n\nwell', 'images': ['iVBORw0KGgpyZXN0']},
            {
                'role': 'assistant',
                'content': 'I call',
                'thinking': 'hm',
                'tool_calls': [{'id': 'a', 'function': {'name': 'f', 'arguments': {'x': 1}}}],
            },
            {'role': 'tool', 'content': '{"y":2}', 'tool_name': 'f', 'tool_call_id': 'a'},
            {'role': 'assistant', 'content': 'done'},
        ]

    @pytest.mark.parametrize('history', [[], [UserMessage('')], [UserMessage([' '])], [SystemMessage('x')]])
    def test_somebody_always_says_something(self, history: list[Message]) -> None:
        assert said(history)[-1] == {'role': 'user', 'content': '.'}

    def test_foreign_thoughts_and_empty_answers_are_left_out(self) -> None:
        foreign = AssistantMessage([ThinkingPart('t'), TextPart('x')], provider_name='openai')
        assert said([*HI, foreign])[1] == {'role': 'assistant', 'content': 'x'}
        for parts in ([ThinkingPart('only')], [TextPart(' ')], []):
            assert len(said([*HI, AssistantMessage(parts)])) == 1
        assert said([*HI, AssistantMessage([], refusal='no')])[1]['content'] == 'no'

    @pytest.mark.parametrize(
        ('args', 'sent'), [('', {}), ('{"x": ', {'invalid_arguments': '{"x": '}), ('[1]', {'invalid_arguments': '[1]'})]
    )
    def test_arguments(self, args: str, sent: Any) -> None:
        history = [*HI, AssistantMessage([ToolCallPart('f', args, 'a')]), ToolMessage([ToolReturnPart('f', None, 'a')])]
        assert said(history)[1]['tool_calls'][0]['function']['arguments'] == sent
        assert said(history)[2]['content'] == 'null'

    def test_ids_are_there_once_and_paired(self) -> None:
        history: list[Message] = [*HI]
        for group in (['', 'a', 'a'], ['a']):
            history.append(AssistantMessage([ToolCallPart('f', {}, i) for i in group]))
            history.append(ToolMessage([ToolReturnPart('f', str(n), i) for n, i in enumerate(group)]))
        messages = said(history)
        called = [c['id'] for m in messages for c in m.get('tool_calls', ())]
        answered = [m['tool_call_id'] for m in messages if m['role'] == 'tool']
        assert called == answered and len(set(called)) == 4 and all(called)

    def test_calls_without_ids_stay_so(self) -> None:
        history: list[Message] = [*HI, AssistantMessage([ToolCallPart('f', {}), ToolCallPart('g', {})])]
        history.append(ToolMessage([ToolReturnPart('f', '1', ''), ToolReturnPart('g', '2', '')]))
        messages = said(history)
        assert all('id' not in c for c in messages[1]['tool_calls'])
        assert [(m['tool_name'], m.get('tool_call_id')) for m in messages[2:]] == [('f', None), ('g', None)]

    def test_files(self) -> None:
        text = FilePart.from_bytes(b'a,b', 'text/csv', name='t.csv')
        assert said([UserMessage(['see', text])])[0]['content'] == 'see\n\nt.csv:\na,b'
        inline = FilePart('image/png', url='data:image/png;base64,AAAA')
        assert said([UserMessage([inline])])[0] == {'role': 'user', 'content': '', 'images': ['AAAA']}
        part = ToolReturnPart('f', '', 'a', extra_content=('seen', FilePart.from_bytes(PNG, 'image/png')))
        history = [*HI, AssistantMessage([ToolCallPart('f', {}, 'a')]), ToolMessage([part])]
        result, images = said(history)[2:]
        assert result['content'] == 'seen' and images['images'] == ['iVBORw0KGgpyZXN0']

    @pytest.mark.parametrize(
        'file',
        [
            FilePart.from_bytes(b'x', 'application/pdf'),
            FilePart('image/png', file_id='f1'),
            FilePart('text/plain', url='data:text/plain;base64,%%%'),
        ],
    )
    def test_what_it_does_not_take(self, file: FilePart) -> None:
        with pytest.raises(MessageError):
            body([UserMessage([file])])


class TestReading:
    def test_the_way_back(self) -> None:
        request: dict[str, Any] = {
            'messages': [
                {'role': 'system', 'content': 's'},
                {'role': 'user', 'content': 'q', 'images': ['AAAA']},
                {
                    'role': 'assistant',
                    'content': '',
                    'thinking': 't',
                    'tool_calls': [call('f', {}), call('g', {'x': 1})],
                },
                {'role': 'tool', 'content': '1'},
                {'role': 'tool', 'content': '2', 'tool_name': 'g'},
                {'role': 'assistant', 'content': '', 'tool_calls': [call('f', {}, id='a')]},
                {'role': 'tool', 'content': '3', 'tool_call_id': 'a'},
            ]
        }
        messages = messages_from_ollama(request)
        assert is_valid(messages)
        assert isinstance(messages[3], ToolMessage) and [p.tool_name for p in messages[3].parts] == ['f', 'g']
        for history in (messages, load_json(dump_json(messages))):
            made = body(history)['messages']
            assert made[:3] == request['messages'][:3] and made[5] == request['messages'][5]
            assert [m['content'] for m in made if m['role'] == 'tool'] == ['1', '2', '3']

    @pytest.mark.parametrize('messages', ['x', [{'role': 'robot'}], [{'role': 'user', 'content': '', 'images': [3]}]])
    def test_what_cannot_be_read(self, messages: Any) -> None:
        with pytest.raises(MessageError):
            messages_from_ollama({'messages': messages})


class TestSettings:
    def test_options_and_fields(self) -> None:
        made = body(
            max_tokens=5, top_p=0.5, stop_sequences=['x'], logprobs=True, top_logprobs=2, auto_cache='5m', seed=None
        )
        assert made['options'] == {'num_predict': 5, 'top_p': 0.5, 'stop': ['x']}
        assert made['logprobs'] is True and made['top_logprobs'] == 2
        assert set(body()) == {'model', 'messages', 'stream'}

    @pytest.mark.parametrize('key', ['user', 'logit_bias', 'service_tier', 'builtin_tools', 'thinking_budget', 'odd'])
    def test_refused(self, key: str) -> None:
        with pytest.raises(ConfigError, match=key):
            body(HI, None, 'm', **{key: 1})

    @pytest.mark.parametrize(
        ('model', 'settings', 'think'),
        [
            ('qwen3', {'reasoning_effort': 'high'}, True),
            ('qwen3', {'reasoning_effort': 'none'}, False),
            ('qwen3', {'thinking_budget': 0}, False),
            ('gpt-oss:20b', {'reasoning_effort': 'minimal'}, 'low'),
            ('gpt-oss:20b', {'reasoning_effort': 'xhigh'}, 'high'),
        ],
    )
    def test_thinking(self, model: str, settings: Any, think: Any) -> None:
        assert body(HI, None, model, **settings)['think'] == think

    def test_tools(self) -> None:
        assert [t['function']['name'] for t in body(info=RequestInfo(tools=(F, G)))['tools']] == ['f', 'g']
        assert 'tools' not in body(info=RequestInfo(tools=(F, G), tool_choice='none'))
        made = body(info=RequestInfo(tools=(F, G), tool_choice=('g',)))
        assert [t['function']['name'] for t in made['tools']] == ['g']
        assert len(body(info=RequestInfo(tools=(F, G), tool_choice='required', allow_text=False))['tools']) == 2
        with pytest.raises(ConfigError, match='tool_choice'):
            body(info=RequestInfo(tools=(F, G), tool_choice='required'))

    def test_an_output_schema(self) -> None:
        schema = {'type': 'object', 'properties': {'a': {'$ref': '#/$defs/A'}}, '$defs': {'A': {'type': 'integer'}}}
        made = body(info=RequestInfo(output_schema=OutputSchema('x', schema)))
        assert made['format']['properties'] == {'a': {'type': 'integer'}}

    def test_extra_options_are_merged(self) -> None:
        async def main() -> Any:
            async with Loopback([json_reply(end(message={'content': 'x'}))]) as server:
                extra: Any = {'options': {'num_ctx': 8192}, 'keep_alive': '10m'}
                info = RequestInfo(settings={'temperature': 0, 'extra_body': extra})
                await OllamaModel('m', base_url=server.url).respond(HI, info, ResponseBuilder())
                return server.requests[0].json

        made = asyncio.run(main())
        assert made['options'] == {'temperature': 0, 'num_ctx': 8192} and made['keep_alive'] == '10m'
