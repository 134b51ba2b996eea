"""`OpenAIModel` over loopback HTTP: what is asked, and what comes of every kind of answer."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_graph.errors import ConfigError, MessageError
from agent_graph.messages import (
    AssistantMessage,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.model import Model, ModelSettings, OutputSchema, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph.usage import Usage
from agent_graph_providers.openai import SERVERS, OpenAIModel, Server
from agent_graph_providers.openai.mapping import form_of, request_body, tool_form
from agent_graph_providers.wire.offers import Memory, Offers
from tests.providers.loopback import Loopback, Reply, cut, json_reply, sse_body, sse_reply

KEY = 'sk-not-a-real-key'
HELLO: list[Message] = [UserMessage('hello')]


def plain(message: dict[str, Any], finish: str | None = 'stop', **fields: Any) -> dict[str, Any]:
    """A plain answer with one choice."""
    choice = {'index': 0, 'message': {'role': 'assistant', **message}, 'finish_reason': finish}
    return {'id': 'r1', 'model': 'm-1', 'choices': [choice], **fields}


def piece(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One event of a stream."""
    return {
        'id': 'r1',
        'model': 'm-1',
        'choices': [{'index': 0, 'delta': delta or {}, 'finish_reason': finish}],
        **fields,
    }


def called(index: int | None, call_id: str | None, name: str | None, args: str | None) -> dict[str, Any]:
    """An event with a piece of a tool call; `None` fields are left out."""
    function = {k: v for k, v in (('name', name), ('arguments', args)) if v is not None}
    call = {k: v for k, v in (('index', index), ('id', call_id)) if v is not None}
    return piece({'tool_calls': [{**call, 'type': 'function', 'function': function}]})


class Watcher:
    """Keeps the events a builder shows."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, kind: type[Any], **fields: Any) -> None:
        self.events.append((kind.__name__, fields))


async def respond(
    model: Model, messages: Sequence[Message] = HELLO, info: RequestInfo | None = None, watcher: Watcher | None = None
) -> AssistantMessage:
    out = ResponseBuilder(watcher)
    await model.respond(messages, info or RequestInfo(), out)
    await out.finish()
    return out.build()


def answer(
    reply: Reply | dict[str, Any] | list[Any],
    *,
    server: str = 'openai',
    messages: Sequence[Message] = HELLO,
    info: RequestInfo | None = None,
) -> AssistantMessage:
    """One request to a server that gives this reply; a list is streamed."""

    async def main() -> AssistantMessage:
        made = reply if isinstance(reply, Reply) else json_reply(reply) if isinstance(reply, dict) else sse_reply(reply)
        async with Loopback([made]) as loopback:
            model = OpenAIModel('m', server=server, base_url=loopback.url, api_key=KEY)
            return await respond(model, messages, info, Watcher() if isinstance(reply, list) else None)

    return asyncio.run(main())


def sent(
    messages: Sequence[Message] = HELLO,
    *,
    server: str | Server = 'openai',
    info: RequestInfo | None = None,
    watched: bool = False,
    settings: ModelSettings | None = None,
) -> dict[str, Any]:
    """The body of the request that these messages and settings make."""

    async def main() -> dict[str, Any]:
        reply = sse_reply([piece({'content': 'x'}, 'stop')]) if watched else json_reply(plain({'content': 'x'}))
        async with Loopback([reply]) as loopback:
            model = OpenAIModel('m', server=server, base_url=loopback.url, api_key=KEY, settings=settings)
            await respond(model, messages, info, Watcher() if watched else None)
            (request,) = loopback.requests
            assert request.path == '/v1/chat/completions'
            assert request.headers['authorization'] == f'Bearer {KEY}'
            return request.json

    return asyncio.run(main())


def tool(name: str, **fields: Any) -> ToolDefinition:
    return ToolDefinition(name, f'does {name}', {'type': 'object', 'properties': {'x': {'type': 'integer'}}}, **fields)


class TestRequest:
    def test_a_plain_request_and_a_stream(self) -> None:
        assert sent() == {'model': 'm', 'messages': [{'role': 'user', 'content': 'hello'}]}
        streamed = sent(watched=True)
        assert streamed['stream'] is True and streamed['stream_options'] == {'include_usage': True}
        assert 'stream_options' not in sent(watched=True, server='mistral')

    def test_all_settings(self) -> None:
        settings = ModelSettings(
            max_tokens=10,
            temperature=0.5,
            top_p=0.9,
            seed=1,
            stop_sequences=['x'],
            presence_penalty=0.1,
            frequency_penalty=0.2,
            logit_bias={'5': 1},
            logprobs=True,
            top_logprobs=2,
            parallel_tool_calls=False,
            reasoning_effort='low',
            service_tier='flex',
            user='u',
            timeout=5.0,
            extra_body={'store': True, 'user': 'v'},
            extra_headers={'x-a': 'b'},
        )
        body = sent(info=RequestInfo(settings=settings, tools=(tool('f'),)))
        del body['messages'], body['tools']
        assert body == {
            'model': 'm',
            'max_completion_tokens': 10,
            'temperature': 0.5,
            'top_p': 0.9,
            'seed': 1,
            'stop': ['x'],
            'presence_penalty': 0.1,
            'frequency_penalty': 0.2,
            'logit_bias': {'5': 1},
            'logprobs': True,
            'top_logprobs': 2,
            'parallel_tool_calls': False,
            'reasoning_effort': 'low',
            'service_tier': 'flex',
            'user': 'v',
            'store': True,
        }

    def test_servers_name_fields_in_their_own_way(self) -> None:
        settings = ModelSettings(max_tokens=10, seed=1, reasoning_effort='low')
        body = sent(server='mistral', info=RequestInfo(settings=settings))
        assert (body['max_tokens'], body['random_seed']) == (10, 1)
        assert sent(server='openrouter', info=RequestInfo(settings=settings))['reasoning'] == {'effort': 'low'}

    def test_the_models_own_settings_stand_under_those_of_the_run(self) -> None:
        own = ModelSettings(temperature=0.1, seed=3)
        body = sent(settings=own, info=RequestInfo(settings=ModelSettings(temperature=0.9)))
        assert (body['temperature'], body['seed']) == (0.9, 3)

    def test_an_unknown_setting_and_a_setting_without_a_use(self) -> None:
        with pytest.raises(ConfigError, match=r"no model setting 'temprature'.*extra_body"):
            sent(info=RequestInfo(settings={'temprature': 1}))  # pyright: ignore
        assert 'parallel_tool_calls' not in sent(info=RequestInfo(settings=ModelSettings(parallel_tool_calls=True)))

    def test_headers_and_no_retries(self) -> None:
        async def main() -> None:
            async with Loopback([json_reply({'error': {'message': 'busy'}}, status=503)]) as loopback:
                model = OpenAIModel('m', base_url=loopback.url, api_key=KEY)
                info = RequestInfo(settings=ModelSettings(extra_headers={'x-tenant': 't1'}))
                with pytest.raises(Exception, match='503'):
                    await respond(model, info=info)
                assert [r.headers['x-tenant'] for r in loopback.requests] == ['t1']

        asyncio.run(main())

    @pytest.mark.parametrize(
        ('choice', 'allow_text', 'names', 'wire'),
        [
            ('auto', True, ['f', 'g'], None),
            ('required', True, ['f', 'g'], 'required'),
            ('none', True, ['f', 'g'], 'none'),
            (('g',), True, ['g'], None),
            (('g',), False, ['g'], 'required'),
        ],
    )
    def test_tool_choice(self, choice: Any, allow_text: bool, names: list[str], wire: str | None) -> None:
        info = RequestInfo(tools=(tool('f'), tool('g', strict=True)), tool_choice=choice, allow_text=allow_text)
        body = sent(info=info)
        assert [t['function']['name'] for t in body['tools']] == names
        assert body.get('tool_choice') == wire
        assert body['tools'][-1]['function'] == {
            'name': 'g',
            'description': 'does g',
            'parameters': {
                'type': 'object',
                'properties': {'x': {'type': ['integer', 'null']}},
                'required': ['x'],
                'additionalProperties': False,
            },
            'strict': True,
        }

    def test_schemas_are_written_for_the_server(self) -> None:
        bare = ToolDefinition('f', '', {})
        assert sent(info=RequestInfo(tools=(bare,)))['tools'] == [
            {'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object', 'properties': {}}}}
        ]
        schema = {'type': 'object', 'properties': {'x': {'type': 'integer', 'default': 1}, 'y': {'const': 'z'}}}

        def parameters(server: str, strict: bool | None) -> dict[str, Any]:
            tools = (ToolDefinition('f', '', schema, strict),)
            return sent(server=server, info=RequestInfo(tools=tools))['tools'][0]['function']['parameters']

        assert parameters('openai', None) == schema
        assert parameters('openai', True)['required'] == ['x', 'y']
        assert parameters('google_openai_compat', None)['properties']['y']['enum'] == ['z']

    def test_an_output_schema(self) -> None:
        schema = OutputSchema('Box[int]', {'type': 'object'}, 'a box', True)
        body = sent(info=RequestInfo(output_schema=schema))
        made = body['response_format']['json_schema']
        assert body['response_format']['type'] == 'json_schema'
        assert made.pop('name').isidentifier()
        closed: dict[str, Any] = {'type': 'object', 'properties': {}, 'required': [], 'additionalProperties': False}
        assert made == {'description': 'a box', 'schema': closed, 'strict': True}
        with pytest.raises(ConfigError, match=r'deepseek cannot hold .* use ToolOutput or PromptedOutput'):
            sent(server='deepseek', info=RequestInfo(output_schema=schema))

    def test_an_earlier_run_as_it_is_sent(self) -> None:
        history: list[Message] = [
            SystemMessage('keep {braces} {{x}} ${y} %(z)s as they are'),
            UserMessage(['look', FilePart.from_bytes(b'x', 'image/png')]),
            AssistantMessage(
                [ThinkingPart('hm'), ToolCallPart('f', {'x': 1}, 'c1'), ToolCallPart('gone.tool', '', 'c2')]
            ),
            ToolMessage(
                [
                    ToolReturnPart('f', [1, 2], 'c1', extra_content=('see this',)),
                    ToolReturnPart('gone.tool', 'no', 'c2'),
                ]
            ),
            AssistantMessage([]),
            AssistantMessage([TextPart('a'), ThinkingPart('b'), TextPart('c')]),
            UserMessage('and now?'),
        ]
        messages = sent(history, info=RequestInfo(tools=(tool('f'),)))['messages']
        assert messages[0]['content'] == 'keep {braces} {{x}} ${y} %(z)s as they are'
        assert messages[2] == {
            'role': 'assistant',
            'content': None,
            'tool_calls': [
                {'id': 'c1', 'type': 'function', 'function': {'name': 'f', 'arguments': '{"x":1}'}},
                {'id': 'c2', 'type': 'function', 'function': {'name': 'gone_tool', 'arguments': '{}'}},
            ],
        }
        assert messages[3:] == [
            {'role': 'tool', 'tool_call_id': 'c1', 'content': '[1,2]'},
            {'role': 'tool', 'tool_call_id': 'c2', 'content': 'no'},
            {'role': 'user', 'content': [{'type': 'text', 'text': 'see this'}]},
            {'role': 'assistant', 'content': 'ac'},
            {'role': 'user', 'content': 'and now?'},
        ]

    def test_what_is_no_json_is_a_message_error(self) -> None:
        bad = ToolMessage([ToolReturnPart('f', object(), 'c1')])  # pyright: ignore
        with pytest.raises(MessageError, match='JSON'):
            sent([AssistantMessage([ToolCallPart('f', '', 'c1')]), bad])

    def test_broken_characters_do_not_stop_a_request(self) -> None:
        text = 'family \U0001f468\u200d\U0001f469\u200d\U0001f467 \u202ertl\u202c \udc97'
        assert sent([UserMessage(text)])['messages'][0]['content'] == text.replace('\udc97', '\ufffd')


class TestNames:
    NAMES = ('a.b', 'a-b', 'a_b', 'Box[int]', 'server/' * 12 + 'tool', 'größe', 'ok')

    def test_every_name_is_sent_fit_and_comes_back_as_it_was(self) -> None:
        info = RequestInfo(tools=tuple(tool(n) for n in self.NAMES))
        names = [t['function']['name'] for t in sent(info=info)['tools']]
        assert len(set(names)) == len(self.NAMES)
        assert all(n.replace('-', '_').isascii() and n.replace('-', '_').replace('_', 'x').isalnum() for n in names)
        assert all(len(n) <= 64 for n in names)
        calls = [{'id': str(i), 'function': {'name': n, 'arguments': '{}'}} for i, n in enumerate(names)]
        got = answer(plain({'content': None, 'tool_calls': calls}, 'tool_calls'), info=info)
        assert [p.tool_name for p in got.parts if isinstance(p, ToolCallPart)] == list(self.NAMES)
        streamed = answer(
            [called(i, str(i), n, '{}') for i, n in enumerate(names)] + [piece(finish='tool_calls')], info=info
        )
        assert streamed.parts == got.parts

    def test_history_goes_out_under_the_names_sent_also_after_the_tools_changed(self) -> None:
        scratch: dict[Any, Any] = {}
        history: list[Message] = [
            AssistantMessage([ToolCallPart('a.b', '{}', '1')]),
            ToolMessage([ToolReturnPart('a.b', 'r', '1')]),
        ]

        def name(tools: tuple[ToolDefinition, ...]) -> tuple[str, list[str]]:
            body = sent(history, info=RequestInfo(tools=tools, scratch=scratch), server=SERVERS['openai'])
            wire = [t['function']['name'] for t in body['tools']]
            return body['messages'][0]['tool_calls'][0]['function']['name'], wire

        assert name((tool('a.b'),)) == ('a_b', ['a_b'])
        used, wire = name((tool('a.b'), tool('a_b')))
        assert used == wire[0] != 'a_b'

    def test_work_is_done_once_a_run(self) -> None:
        openai = SERVERS['openai']
        memory = Memory(Offers(tool_form(openai)), form_of(openai))
        tools = (tool('f'), tool('x.y'))
        history: list[Message] = [UserMessage('1'), AssistantMessage([TextPart('2')])]
        info = RequestInfo(tools=tools)
        first = request_body('m', openai, memory, history, info, {}, stream=False)
        history += [UserMessage('3')]
        second = request_body('m', openai, memory, history, info, {}, stream=False)
        assert second['tools'] is first['tools']
        offers = Offers(tool_form(openai))
        bodies = [
            request_body('m', openai, Memory(offers, form_of(openai)), history, info, {}, stream=False)
            for _ in range(2)
        ]
        assert bodies[0]['tools'] is bodies[1]['tools']
        assert all(a is b for a, b in zip(first['messages'], second['messages'], strict=False))
        history[0] = SystemMessage('changed')
        third = request_body('m', openai, memory, history[:2], info, {}, stream=False)
        assert [m['role'] for m in third['messages']] == ['system', 'assistant']
        assert third['messages'][1] is first['messages'][1]


class TestAnswer:
    def test_text_usage_and_details_plain_and_streamed(self) -> None:
        usage = {
            'prompt_tokens': 10,
            'completion_tokens': 5,
            'total_tokens': 20,
            'prompt_tokens_details': {'cached_tokens': 4, 'audio_tokens': 2},
            'completion_tokens_details': {'reasoning_tokens': 3},
        }
        logprobs = {'content': [{'token': 'hi', 'logprob': -0.1}]}
        want = answer(
            {
                **plain({'content': 'hi there'}, usage=usage, service_tier='default'),
                'choices': [
                    {'index': 0, 'message': {'content': 'hi there'}, 'finish_reason': 'stop', 'logprobs': logprobs},
                    {'index': 1, 'message': {'content': 'other'}, 'finish_reason': 'stop'},
                ],
            }
        )
        assert want == AssistantMessage(
            [TextPart('hi there')],
            Usage(0, 0, 10, 5, 20, 4, 0, 3, {'input_audio_tokens': 2}),
            'm-1',
            'r1',
            'stop',
            {'finish_reason': 'stop', 'service_tier': 'default', 'logprobs': logprobs},
            'openai',
        )
        first = piece({'role': 'assistant', 'content': 'hi'}, service_tier='default')
        first['choices'][0]['logprobs'] = logprobs
        other = {'id': 'r1', 'choices': [{'index': 1, 'delta': {'content': 'other'}, 'finish_reason': 'stop'}]}
        late: dict[str, Any] = {'id': 'r1', 'choices': [], 'usage': usage}
        assert answer([first, other, piece({'content': ' there'}), piece(finish='stop'), late]) == want

    @pytest.mark.parametrize(
        'fields',
        [
            {'usage': {'prompt_tokens': 1, 'completion_tokens': 2}},
            {'x_groq': {'usage': {'prompt_tokens': 1, 'completion_tokens': 2}}},
        ],
    )
    def test_usage_with_the_last_piece_or_elsewhere(self, fields: dict[str, Any]) -> None:
        assert answer([piece({'content': 'x'}), piece(finish='stop', **fields)]).usage.total_tokens == 3

    def test_usage_inside_the_choice(self) -> None:
        last = piece(finish='stop')
        last['choices'][0]['usage'] = {'prompt_tokens': 1, 'completion_tokens': 2}
        assert answer([piece({'content': 'x'}), last]).usage.total_tokens == 3

    def test_parallel_calls_plain_and_streamed(self) -> None:
        calls = [
            {'id': 'a', 'type': 'function', 'function': {'name': 'f', 'arguments': '{"x": 1}'}},
            {'id': 'b', 'type': 'function', 'function': {'name': 'g', 'arguments': {'y': 2}}},
        ]
        got = answer(plain({'content': 'wait', 'tool_calls': calls}, 'tool_calls'))
        assert got.parts == (TextPart('wait'), ToolCallPart('f', '{"x": 1}', 'a'), ToolCallPart('g', {'y': 2}, 'b'))
        assert got.finish_reason == 'tool_calls'
        events = [
            piece({'role': 'assistant', 'content': 'wait'}),
            called(0, 'a', 'f', ''),
            called(1, 'b', 'g', ''),
            called(0, None, None, '{"x"'),
            called(1, None, None, '{"y":'),
            called(0, None, None, ': 1}'),
            called(1, None, None, ' 2}'),
            piece(finish='tool_calls'),
        ]
        assert answer(events).parts == (
            TextPart('wait'),
            ToolCallPart('f', '{"x": 1}', 'a'),
            ToolCallPart('g', '{"y": 2}', 'b'),
        )

    def test_the_watcher_sees_each_piece(self) -> None:
        async def main() -> list[tuple[str, dict[str, Any]]]:
            watcher = Watcher()
            events = [
                piece({'content': 'a'}),
                piece({'content': 'b'}),
                called(0, 'c', 'f', ''),
                called(0, None, None, '{}'),
            ]
            async with Loopback([sse_reply([*events, piece(finish='tool_calls')])]) as loopback:
                await respond(OpenAIModel('m', base_url=loopback.url, api_key=KEY), watcher=watcher)
            return watcher.events

        names = [name for name, _ in asyncio.run(main())]
        assert names == ['PartStartEvent', 'PartDeltaEvent', 'PartEndEvent', 'PartStartEvent', 'PartEndEvent']

    def test_an_old_function_call_and_an_empty_one(self) -> None:
        old = {'name': 'f', 'arguments': '{}'}
        assert answer(plain({'content': None, 'function_call': old})).parts == (ToolCallPart('f', '{}'),)
        assert answer([piece({'function_call': old}), piece(finish='function_call')]).parts == (
            ToolCallPart('f', '{}'),
        )
        assert answer(plain({'content': 'x', 'function_call': {'name': '', 'arguments': ''}})).parts == (TextPart('x'),)

    @pytest.mark.parametrize('field', ['reasoning_content', 'reasoning'])
    def test_reasoning_comes_and_goes_in_its_field(self, field: str) -> None:
        server = 'deepseek' if field == 'reasoning_content' else 'groq'
        got = answer(plain({'content': 'a', field: 'hm'}), server=server)
        assert got.parts == (ThinkingPart('hm', None, {'field': field}), TextPart('a'))
        streamed = answer([piece({field: 'h'}), piece({field: 'm'}), piece({'content': 'a'}, 'stop')], server=server)
        assert streamed.parts == got.parts
        assert sent([*HELLO, got], server=server)['messages'][1] == {'role': 'assistant', 'content': 'a', field: 'hm'}
        assert field not in sent([*HELLO, got], server='openai')['messages'][1]

    def test_sealed_reasoning_goes_back_as_it_came(self) -> None:
        blocks: list[Any] = [
            {'type': 'reasoning.text', 'text': 'let me see', 'signature': 'SEAL', 'index': 0},
            {'type': 'reasoning.encrypted', 'data': 'gAAA', 'id': 'rs_1', 'index': 1},
        ]
        got = answer(
            plain({'content': 'a', 'reasoning': 'let me see', 'reasoning_details': blocks}), server='openrouter'
        )
        assert got.parts[0] == ThinkingPart('let me see', 'gAAA', {'field': 'reasoning', 'reasoning_details': blocks})
        assert sent([*HELLO, got], server='openrouter')['messages'][1]['reasoning_details'] == blocks
        events = [
            piece({'reasoning': 'let me', 'reasoning_details': [{**blocks[0], 'text': 'let me', 'signature': None}]}),
            piece({'reasoning': ' see', 'reasoning_details': [{**blocks[0], 'text': ' see', 'signature': None}]}),
            piece({'reasoning_details': [{'type': 'reasoning.text', 'index': 0, 'signature': 'SEAL'}]}),
            piece({'reasoning_details': [blocks[1]]}),
            piece({'content': 'a'}, 'stop'),
        ]
        assert answer(events, server='openrouter').parts == got.parts

    def test_pieces_of_sealed_reasoning_are_joined_only_to_their_own_block(self) -> None:
        def block(index: int, text: str, **fields: Any) -> dict[str, Any]:
            return piece({'reasoning_details': [{'type': 'reasoning.text', 'index': index, 'text': text, **fields}]})

        events = [block(0, 'a'), block(0, 'b', signature='S0'), block(0, 'c'), block(1, 'd'), block(1, 'e')]
        (part,) = answer([*events, piece(finish='stop')], server='openrouter').parts
        assert isinstance(part, ThinkingPart) and part.content == 'abcde' and part.provider_details is not None
        blocks: Any = part.provider_details['reasoning_details']
        assert [(b['index'], b['text'], b.get('signature')) for b in blocks] == [
            (0, 'ab', 'S0'),
            (0, 'c', None),
            (1, 'de', None),
        ]

    def test_reasoning_blocks_in_the_content(self) -> None:
        blocks = [{'type': 'thinking', 'thinking': [{'type': 'text', 'text': 'hm'}]}, {'type': 'text', 'text': 'a'}]
        got = answer(plain({'content': blocks}), server='mistral')
        assert got.parts == (ThinkingPart('hm', None, {'field': 'thinking'}), TextPart('a'))
        assert sent([*HELLO, got], server='mistral')['messages'][1]['content'] == blocks

    @pytest.mark.parametrize('server', ['ollama_openai', 'openai'])
    def test_thinking_tags_are_read_where_servers_leave_them_in(self, server: str) -> None:
        text = '<think>secret plan</think>\nHello'
        want = (ThinkingPart('secret plan'), TextPart('\nHello')) if server == 'ollama_openai' else (TextPart(text),)
        assert answer(plain({'content': text}), server=server).parts == want
        assert answer([*(piece({'content': c}) for c in text), piece(finish='stop')], server=server).parts == want

    def test_what_looked_like_a_tag_comes_before_the_call_that_follows(self) -> None:
        events = [piece({'content': 'a <th'}), called(0, 'c', 'f', '{}'), piece(finish='tool_calls')]
        assert answer(events, server='ollama_openai').parts == (TextPart('a <th'), ToolCallPart('f', '{}', 'c'))

    def test_vendor_data_of_calls_goes_back(self) -> None:
        call = {
            'id': 'a',
            'type': 'function',
            'function': {'name': 'f', 'arguments': '{}'},
            'extra_content': {'google': {'s': 'x'}},
        }
        got = answer(plain({'content': None, 'tool_calls': [call]}), server='google_openai_compat')
        assert sent([*HELLO, got], server='google_openai_compat')['messages'][1]['tool_calls'] == [call]
        assert 'extra_content' not in sent([*HELLO, got], server='openai')['messages'][1]['tool_calls'][0]

    def test_images_and_sounds_in_an_answer(self) -> None:
        image = {'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,AA=='}}
        got = answer(plain({'content': 'see', 'images': [image]}))
        assert got.parts == (TextPart('see'), FilePart('image/png', url='data:image/png;base64,AA=='))
        spoken = {'id': 'audio_1', 'data': 'UklGRg==', 'transcript': 'hello', 'expires_at': 1}
        got = answer(plain({'content': None, 'audio': spoken}))
        assert [type(p) for p in got.parts] == [TextPart, FilePart]
        assert sent([*HELLO, got])['messages'][1]['audio'] == {'id': 'audio_1'}

    @pytest.mark.parametrize('finish', ['stop', 'content_filter'])
    def test_a_refusal(self, finish: str) -> None:
        got = answer(plain({'content': None, 'refusal': 'I will not'}, finish))
        assert (got.parts, got.refusal, got.finish_reason) == ((), 'I will not', 'refusal')
        streamed = answer([piece({'refusal': 'I will'}), piece({'refusal': ' not'}), piece(finish=finish)])
        assert (streamed.parts, streamed.refusal, streamed.finish_reason) == ((), 'I will not', 'refusal')

    def test_content_filters(self) -> None:
        assert answer(plain({'content': None}, 'content_filter')).finish_reason == 'content_filter'
        filtered = [{'prompt_index': 0, 'content_filter_results': {'hate': {'filtered': True}}}]
        got = answer({'id': 'x', 'model': 'm', 'choices': [], 'prompt_filter_results': filtered}, server='azure')
        assert got.finish_reason == 'content_filter' and got.parts == ()

    @pytest.mark.parametrize('content', [None, '', ' \n'])
    def test_nothing_is_nothing(self, content: str | None) -> None:
        got = answer(plain({'content': content}))
        assert ''.join(p.content for p in got.parts if isinstance(p, TextPart)) == (content or '')
        assert sent([*HELLO, got])['messages'] == [{'role': 'user', 'content': 'hello'}]

    @pytest.mark.parametrize(
        ('word', 'common'),
        [
            ('length', 'length'),
            ('model_length', 'length'),
            ('eos', 'stop'),
            ('', None),
            (None, None),
            ('novel', 'other'),
        ],
    )
    def test_finish_words(self, word: str | None, common: str | None) -> None:
        got = answer(plain({'content': 'x'}, word))
        assert got.finish_reason == common
        assert (got.provider_details or {}).get('finish_reason') == word

    def test_a_call_cut_by_the_limit_keeps_both_facts(self) -> None:
        got = answer([called(0, 'a', 'f', '{"x": '), piece(finish='length')])
        assert got.finish_reason == 'length' and got.parts == (ToolCallPart('f', '{"x": ', 'a'),)

    def test_half_pairs_in_every_kind_of_text(self) -> None:
        raw = '{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"\\ud83c\\udf78 \\ud83c"}}]}'
        assert answer(json_reply(raw)).parts == (TextPart('\U0001f378 \ufffd'),)
        events = [
            '{"choices":[{"index":0,"delta":{"reasoning":"\\ud83c"}}]}',
            '{"choices":[{"index":0,"delta":{"reasoning":"\\udf78"}}]}',
            '{"choices":[{"index":0,"delta":{"content":"a\\ud83c"}}]}',
            '{"choices":[{"index":0,"delta":{"content":"\\udf78 \\ud83c"}}]}',
            '{"choices":[{"index":0,"delta":{"content":" b"}}]}',
            '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"\\"\\ud83c"}}]}}]}',
            '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\udf78\\""}}]}}]}',
            piece(finish='stop'),
        ]
        got = answer(events, server='groq')
        assert got.parts == (
            ThinkingPart('\U0001f378', None, {'field': 'reasoning'}),
            TextPart('a\U0001f378 \ufffd b'),
            ToolCallPart('f', '"\U0001f378"', 'c'),
        )

    def test_half_pairs_in_what_is_kept_beside_the_text(self) -> None:
        half = (
            '{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"%s"}]}}]}'
        )
        noted = '{"choices":[{"index":0,"delta":{"annotations":[{"text":"\\ud83c"}]},"finish_reason":"stop"}]}'
        got = answer([half % '\\ud83c', half % '\\udf78', noted], server='openrouter')
        blocks: list[Any] = [{'type': 'reasoning.text', 'index': 0, 'text': '\U0001f378'}]
        assert got.parts == (ThinkingPart('\U0001f378', None, {'reasoning_details': blocks}),)
        assert (got.provider_details or {})['annotations'] == [{'text': '\ufffd'}]

    def test_compressed_answers(self) -> None:
        headers = {'content-encoding': 'gzip', 'content-type': 'application/json'}
        body = gzip.compress(json.dumps(plain({'content': 'x'})).encode())
        assert answer(Reply(cut(body, 3), headers=headers)).parts == (TextPart('x'),)
        body = gzip.compress(sse_body([piece({'content': 'x'}), piece(finish='stop')]))
        headers['content-type'] = 'text/event-stream'
        assert answer(Reply(cut(body, 3), headers=headers)).parts == (TextPart('x'),)

    def test_a_server_that_answers_in_another_way_than_asked(self) -> None:
        async def main(reply: Reply, watched: bool) -> AssistantMessage:
            async with Loopback([reply]) as loopback:
                model = OpenAIModel('m', base_url=loopback.url, api_key=KEY)
                return await respond(model, watcher=Watcher() if watched else None)

        stream = sse_reply([piece({'content': 'x'}), piece(finish='stop')])
        assert asyncio.run(main(json_reply(plain({'content': 'x'})), True)).parts == (TextPart('x'),)
        assert asyncio.run(main(stream, False)).parts == (TextPart('x'),)
        mislabelled = Reply(stream.pieces, headers={'content-type': 'text/plain'})
        assert asyncio.run(main(mislabelled, True)).parts == (TextPart('x'),)
        whole = sse_reply([plain({'content': 'x'})])
        assert asyncio.run(main(whole, True)).parts == (TextPart('x'),)


def test_the_model_contract() -> None:
    model = OpenAIModel('m', server='xai', base_url='http://user:secret@127.0.0.1:9/v1?token=t', api_key=KEY)
    assert isinstance(model, Model)
    assert (model.name, model.provider) == ('m', 'x-ai')
    assert repr(model) == "OpenAIModel('m', server='xai', base_url='http://***@127.0.0.1:9/v1')"
    with pytest.raises(ConfigError, match="no server is called 'nowhere'"):
        OpenAIModel('m', server='nowhere')


@pytest.mark.parametrize('name', sorted(SERVERS))
def test_every_row_makes_a_model(name: str) -> None:
    model = SERVERS[name].model('some/model:tag')
    assert (model.name, SERVERS[name].name) == ('some/model:tag', name)
    assert SERVERS[name].base_url or SERVERS[name].base_url_env
    assert SERVERS[name].key_env


def test_azure_asks_its_deployment() -> None:
    async def main() -> tuple[str, dict[str, str]]:
        async with Loopback([json_reply(plain({'content': 'x'}))]) as loopback:
            model = OpenAIModel('my-gpt', server='azure', base_url=loopback.url.removesuffix('/v1'), api_key=KEY)
            await respond(model)
            return loopback.requests[0].path, dict(loopback.requests[0].headers)

    path, headers = asyncio.run(main())
    assert path.startswith('/openai/deployments/my-gpt/chat/completions?api-version=')
    assert headers['api-key'] == KEY


def test_openais_own_headers_are_not_told_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('OPENAI_ORG_ID', 'org-secret')
    monkeypatch.setenv('OPENAI_PROJECT_ID', 'proj-secret')
    monkeypatch.setenv('OPENAI_CUSTOM_HEADERS', 'X-Proxy-Auth: hush')

    async def main(server: str) -> str:
        async with Loopback([json_reply(plain({'content': 'x'}))]) as loopback:
            await respond(OpenAIModel('m', server=server, base_url=loopback.url, api_key=KEY))
            return str(loopback.requests[0].headers)

    assert 'org-secret' in asyncio.run(main('openai'))
    assert not any(word in asyncio.run(main('groq')) for word in ('org-secret', 'proj-secret', 'hush'))
