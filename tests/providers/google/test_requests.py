"""Messages, tools and settings -> requests, and back."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agent_graph.capabilities import Capabilities
from agent_graph.errors import ConfigError, MessageError, ToolDefinitionError
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
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
from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ToolDefinition
from agent_graph_providers.google import GoogleModel, messages_from_google
from agent_graph_providers.google.contents import UNSIGNED
from agent_graph_providers.google.family import family_of
from agent_graph_providers.google.wire import GoogleWire, KeyDoor
from tests.providers.google.kit import body_for, sent_for

G3, G25, G2 = 'gemini-3-flash-preview', 'gemini-2.5-flash', 'gemini-2.0-flash'
NONE: dict[str, Any] = {'role': 'user', 'parts': [{'text': ' '}]}
HI = UserMessage('hi')
PNG = FilePart('image/png', data=b'\x00\xff')
SCHEMA: dict[str, Any] = {'type': 'object', 'properties': {'x': {'type': 'integer'}}, 'required': ['x']}


def contents(*messages: Message, name: str = G25, provider: str = 'google') -> list[dict[str, Any]]:
    return body_for(name, messages, provider=provider)['contents']


def model_turn(*parts: Any, provider: str | None = 'google', **fields: Any) -> AssistantMessage:
    return AssistantMessage(parts, provider_name=provider, **fields)


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {'role': 'user', 'parts': list(parts)}


def says(*parts: dict[str, Any]) -> dict[str, Any]:
    return {'role': 'model', 'parts': list(parts)}


def result(name: str, response: Any, **fields: Any) -> dict[str, Any]:
    return {'functionResponse': {**fields, 'name': name, 'response': response}}


def called(name: str, args: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {'functionCall': {**fields, 'name': name, 'args': args}}


class TestTurns:
    def test_instructions_go_to_one_place_from_wherever_they_stand(self) -> None:
        body = body_for(G25, [SystemMessage('a'), HI, SystemMessage('b {x}'), SystemMessage(''), UserMessage('ho')])
        assert body['systemInstruction'] == {'parts': [{'text': 'a'}, {'text': 'b {x}'}]}
        assert body['contents'] == [user({'text': 'hi'}), user({'text': 'ho'})]

    def test_a_family_without_instructions_reads_them_first(self) -> None:
        for history, first in (
            ([HI], user({'text': 'a'}, {'text': 'hi'})),
            ([model_turn(TextPart('x')), HI], user({'text': 'a'}, {'text': ' '})),
        ):
            body = body_for('gemma-3-27b-it', [SystemMessage('a'), *history])
            assert 'systemInstruction' not in body and body['contents'][0] == first

    def test_the_api_wants_a_user_at_both_ends(self) -> None:
        assert contents() == [NONE]
        assert contents(SystemMessage('a')) == [NONE]
        assert contents(model_turn(TextPart('x'))) == [NONE, says({'text': 'x'}), NONE]

    def test_empty_turns_are_left_out(self) -> None:
        empty = [
            UserMessage(''),
            UserMessage(['', CachePoint()]),
            model_turn(),
            model_turn(TextPart('')),
            model_turn(TextPart(''), provider='openai'),
            ToolMessage([]),
        ]
        assert contents(HI, *empty) == [user({'text': 'hi'})]

    def test_turns_of_the_model_are_joined(self) -> None:
        got = contents(HI, model_turn(TextPart('a')), model_turn(ToolCallPart('f', '{"x": 1}', 'c')), results('c'))
        assert got[1] == says({'text': 'a'}, called('f', {'x': 1}))

    def test_results_in_several_messages_are_one_turn(self) -> None:
        calls = model_turn(ToolCallPart('f', {}, 'a'), ToolCallPart('g', {}, 'b'))
        got = contents(HI, calls, results('a'), results('b', name='g'), HI)
        assert got[2:] == [user(result('f', {'output': 1}), result('g', {'output': 1})), user({'text': 'hi'})]

    def test_nothing_that_was_given_is_changed(self) -> None:
        history = [SystemMessage('s'), model_turn(ToolCallPart('f', {}, 'a', {'id': 'a'})), results('a')]
        before = dump_json(history)
        name = 'gemini-3-pro'
        assert body_for(name, history) == body_for(name, history)
        assert dump_json(history) == before


def results(call_id: str, content: Any = 1, *, name: str = 'f', **fields: Any) -> ToolMessage:
    return ToolMessage([ToolReturnPart(name, content, call_id, **fields)])


class TestCallsAndResults:
    def test_ids_go_back_only_where_the_api_gave_them(self) -> None:
        calls = model_turn(
            ToolCallPart('f', {}, 'given', {'id': 'given'}),
            ToolCallPart('f', {}, 'renamed', {'id': 'given'}),
            ToolCallPart('f', {}, 'ours'),
        )
        answers = ToolMessage([ToolReturnPart('f', n, i) for n, i in enumerate(('given', 'renamed', 'ours'))])
        got = contents(HI, calls, answers)
        assert got[1] == says(called('f', {}, id='given'), called('f', {}, id='renamed'), called('f', {}))
        assert got[2] == user(
            result('f', {'output': 0}, id='given'), result('f', {'output': 1}, id='renamed'), result('f', {'output': 2})
        )

    def test_results_of_a_turn_before_the_last_one(self) -> None:
        calls = model_turn(ToolCallPart('f', {}, 'given', {'id': 'given'}))
        got = contents(HI, calls, model_turn(TextPart('and')), ToolMessage([]), results('given'))
        assert got[1] == says(called('f', {}, id='given'), {'text': 'and'})
        assert got[2] == user(result('f', {'output': 1}, id='given'))

    @pytest.mark.parametrize('provider', ['openai', 'google-vertex', None])
    def test_ids_of_others_are_not_sent(self, provider: str | None) -> None:
        calls = model_turn(ToolCallPart('f', '', 'call_9', {'id': 'call_9'}), provider=provider)
        assert contents(HI, calls, results('call_9'))[1:] == [
            says(called('f', {})),
            user(result('f', {'output': 1})),
        ]

    @pytest.mark.parametrize(
        ('content', 'outcome', 'response'),
        [
            ('text', 'success', {'output': 'text'}),
            ({'a': 1}, 'success', {'a': 1}),
            ({}, 'success', {}),
            ({'error': 'x', 'a': 1}, 'success', {'output': {'error': 'x', 'a': 1}}),
            ({'output': 'x'}, 'success', {'output': {'output': 'x'}}),
            ([1], 'success', {'output': [1]}),
            (None, 'success', {'output': None}),
            ('no such tool', 'retry', {'error': 'no such tool'}),
            ('no', 'denied', {'error': 'no'}),
            ('stopped', 'interrupted', {'error': 'stopped'}),
            ('broken', 'failed', {'error': 'broken'}),
            ('not needed', 'skipped', {'output': 'not needed'}),
        ],
    )
    def test_what_tools_say(self, content: Any, outcome: Any, response: Any) -> None:
        got = contents(HI, model_turn(ToolCallPart('f', {}, 'c')), results('c', content, outcome=outcome))
        assert got[2] == user(result('f', response))

    @pytest.mark.parametrize(
        ('args', 'sent'),
        [
            ('', {}),
            (' ', {}),
            ('{"x": 1.0}', {'x': 1.0}),
            ({'x': None}, {'x': None}),
            ('[1]', {'invalid_arguments': '[1]'}),
            ('{"x": ', {'invalid_arguments': '{"x": '}),
        ],
    )
    def test_arguments_are_always_an_object(self, args: Any, sent: dict[str, Any]) -> None:
        assert contents(HI, model_turn(ToolCallPart('f', args, 'c')), results('c'))[1] == says(called('f', sent))

    @pytest.mark.parametrize('name', [G3, 'gemini-flash-latest', 'gemini-3.1-pro-preview', 'gemini-pro-latest'])
    def test_a_call_that_was_never_signed_says_so(self, name: str) -> None:
        history = [HI, model_turn(TextPart('a'), ToolCallPart('f', {}, 'a'), ToolCallPart('g', {}, 'b'), provider='x')]
        parts = contents(*history, results('a'), name=name)[1]['parts']
        assert [p.get('thoughtSignature') for p in parts] == [None, UNSIGNED, None]
        own = model_turn(ToolCallPart('f', {}, 'a', {'thoughtSignature': 'S'}), ToolCallPart('g', {}, 'b'))
        parts = contents(HI, own, results('a'), name=name)[1]['parts']
        assert [p.get('thoughtSignature') for p in parts] == ['S', None]

    @pytest.mark.parametrize('name', [G25, G2, 'gemini-1.5-pro-002', 'gemma-4-31b-it'])
    def test_older_families_want_no_signature(self, name: str) -> None:
        assert 'thoughtSignature' not in str(contents(HI, model_turn(ToolCallPart('f', {}, 'a')), name=name))

    def test_names_the_api_refuses_are_mapped_and_stay_apart(self) -> None:
        names = ['a.b', 'a_b', '3d', 'ü', 'x' * 90, 'Box[int]']
        tools = tuple(ToolDefinition(n, 'd', SCHEMA) for n in names)
        calls = model_turn(*(ToolCallPart(n, {}, n) for n in [*names, '9 gone', '-x']))
        answers = ToolMessage([ToolReturnPart(n, 1, n) for n in names])
        body = body_for(G25, [HI, calls, answers], RequestInfo(tools))
        sent = [f['name'] for f in body['tools'][0]['functionDeclarations']]
        assert len(set(sent)) == 6 and sent[1] == 'a_b'
        assert all(len(n) <= 64 and (n[0].isalpha() or n[0] == '_') and n.isascii() for n in sent)
        back = [p['functionCall']['name'] for p in body['contents'][1]['parts']]
        assert back[:6] == sent and all(n[0] == '_' for n in back[6:])
        assert [p['functionResponse']['name'] for p in body['contents'][2]['parts']] == sent


class TestForeignTurns:
    def test_what_only_another_provider_understands_stays_behind(self) -> None:
        turn = model_turn(
            ThinkingPart('secret', 'sealed', {'field': 'reasoning'}),
            BuiltinToolCallPart('web_search', {}, 'w', {'item': {'id': 'w'}}),
            TextPart('seen', {'phase': 'final'}),
            FilePart('image/png', file_id='file-1'),
            PNG,
            provider='openai',
        )
        assert contents(HI, turn, HI, name=G3)[1] == says(
            {'text': 'seen'}, {'inlineData': {'data': 'AP8=', 'mimeType': 'image/png'}}
        )

    def test_a_refusal_is_a_text(self) -> None:
        turn = AssistantMessage([], refusal='I will not', provider_name='openai')
        assert contents(HI, turn, HI)[1] == says({'text': 'I will not'})

    def test_signatures_stay_with_who_gave_them(self) -> None:
        turn = model_turn(ThinkingPart('t', 'S1'), TextPart('x', {'thoughtSignature': 'S2'}), provider='google-vertex')
        assert contents(HI, turn, HI) == [user({'text': 'hi'}), says({'text': 'x'}), user({'text': 'hi'})]
        back = contents(HI, turn, HI, provider='google-vertex')[1]
        assert back == says(
            {'text': 't', 'thought': True, 'thoughtSignature': 'S1'}, {'text': 'x', 'thoughtSignature': 'S2'}
        )


class TestFiles:
    @pytest.mark.parametrize(
        ('file', 'part'),
        [
            (PNG, {'inlineData': {'data': 'AP8=', 'mimeType': 'image/png'}}),
            (
                FilePart('image/png', url='data:image/png;base64,AP8='),
                {'inlineData': {'data': 'AP8=', 'mimeType': 'image/png'}},
            ),
            (
                FilePart('text/plain', url='data:,hi%20there'),
                {'inlineData': {'data': base64.b64encode(b'hi there').decode(), 'mimeType': 'text/plain'}},
            ),
            (
                FilePart('application/pdf', url='https://h.test/a.pdf'),
                {'fileData': {'fileUri': 'https://h.test/a.pdf', 'mimeType': 'application/pdf'}},
            ),
            (
                FilePart('video/*', url='https://youtu.be/x', provider_details={'videoMetadata': {'fps': 2}}),
                {'fileData': {'fileUri': 'https://youtu.be/x'}, 'videoMetadata': {'fps': 2}},
            ),
            (
                FilePart('audio/mpeg', file_id='files/abc', provider_details={'thoughtSignature': 'S', 'odd': 1}),
                {
                    'fileData': {
                        'fileUri': 'https://generativelanguage.googleapis.com/v1beta/files/abc',
                        'mimeType': 'audio/mpeg',
                    }
                },
            ),
            (
                FilePart('video/mp4', file_id='gs://b/v.mp4'),
                {'fileData': {'fileUri': 'gs://b/v.mp4', 'mimeType': 'video/mp4'}},
            ),
        ],
    )
    def test_every_kind(self, file: FilePart, part: dict[str, Any]) -> None:
        assert contents(UserMessage(['see', CachePoint(), file])) == [user({'text': 'see'}, part)]

    def test_bytes_show_their_type_where_it_was_not_told(self) -> None:
        png = base64.b64encode(b'\x89PNG\r\n\x1a\n' + bytes(600)).decode()
        for media_type, data, told in (
            ('image/*', png, 'image/png'),
            ('image/*', 'AP8=', 'image/*'),
            ('image/*', '?', 'image/*'),
            ('image/gif', png, 'image/gif'),
        ):
            sent = contents(UserMessage([FilePart(media_type, url=f'data:{media_type};base64,{data}')]))
            assert sent == [user({'inlineData': {'data': data, 'mimeType': told}})]

    def test_a_data_address_that_cannot_be_read(self) -> None:
        with pytest.raises(MessageError):
            contents(UserMessage([FilePart('image/png', url='data:image/png;base64;x,%%')]))

    @pytest.mark.parametrize(
        ('name', 'file', 'wanted'),
        [
            (G25, FilePart('image/png', url='https://h.test/a.png'), False),
            (G25, FilePart('audio/mpeg', url='https://h.test/a.mp3'), True),
            (G25, FilePart('image/png', url='http://h.test/a.png'), True),
            (G2, FilePart('image/png', url='https://h.test/a.png'), True),
            (G2, FilePart('video/mp4', url='https://www.youtube.com/watch?v=x'), False),
            (G25, FilePart('image/png', url='data:image/png;base64,AP8='), False),
            (G25, FilePart('image/png', file_id='files/x'), False),
        ],
    )
    def test_what_has_to_be_fetched_first(self, name: str, file: FilePart, wanted: bool) -> None:
        assert GoogleWire(name, KeyDoor()).wants_bytes(file) is wanted

    def test_files_of_results(self) -> None:
        calls = model_turn(ToolCallPart('f', {}, 'a'), ToolCallPart('g', {}, 'b'))
        answers = ToolMessage(
            [
                ToolReturnPart('f', {}, 'a', extra_content=(PNG,)),
                ToolReturnPart('g', 1, 'b', extra_content=('listen', FilePart('audio/mpeg', data=b'm'))),
            ]
        )
        picture = {'inlineData': {'data': 'AP8=', 'mimeType': 'image/png'}}
        sound = {'inlineData': {'data': 'bQ==', 'mimeType': 'audio/mpeg'}}
        new = contents(HI, calls, answers, name=G3)
        assert new[2:] == [
            user(result('f', {}, parts=[picture]), result('g', {'output': 1})),
            user({'text': 'listen'}, sound),
        ]
        old = contents(HI, calls, answers)
        assert old[2:] == [
            user(result('f', {}), result('g', {'output': 1})),
            user(picture, {'text': 'listen'}, sound),
        ]


TOOLS = (ToolDefinition('f', 'does f', SCHEMA), ToolDefinition('g.h', '', {'type': 'object', 'properties': {}}))


class TestTools:
    def test_declarations(self) -> None:
        body = body_for(G25, [HI], RequestInfo(TOOLS))
        assert body['tools'] == [
            {
                'functionDeclarations': [
                    {'name': 'f', 'description': 'does f', 'parameters': SCHEMA},
                    {'name': 'g_h', 'description': ''},
                ]
            }
        ]
        assert 'toolConfig' not in body

    @pytest.mark.parametrize(
        ('choice', 'allow_text', 'config', 'names'),
        [
            ('auto', True, None, 2),
            ('required', False, {'mode': 'ANY'}, 2),
            ('none', True, {'mode': 'NONE'}, 2),
            (('g.h',), False, {'mode': 'ANY', 'allowedFunctionNames': ['g_h']}, 2),
            (('g.h',), True, None, 1),
        ],
    )
    def test_choices(self, choice: Any, allow_text: bool, config: Any, names: int) -> None:
        body = body_for(G25, [HI], RequestInfo(TOOLS, tool_choice=choice, allow_text=allow_text))
        assert body.get('toolConfig') == (config and {'functionCallingConfig': config})
        assert len(body['tools'][0]['functionDeclarations']) == names

    def test_a_strict_tool_asks_for_validated_calls(self) -> None:
        tools = (ToolDefinition('f', '', SCHEMA, strict=True),)
        body = body_for(G25, [HI], RequestInfo(tools))
        assert body['toolConfig'] == {'functionCallingConfig': {'mode': 'VALIDATED'}}

    def test_none_chosen_is_none_offered(self) -> None:
        assert 'tools' not in body_for(G25, [HI], RequestInfo(TOOLS, tool_choice=()))

    def test_tools_google_runs_itself(self) -> None:
        settings: ModelSettings = {'builtin_tools': [{'googleSearch': {}}]}
        body = body_for(G3, [HI], RequestInfo(TOOLS[:1]), settings=settings)
        assert [list(t) for t in body['tools']] == [['functionDeclarations'], ['googleSearch']]
        assert body['toolConfig'] == {'includeServerSideToolInvocations': True}
        for name, provider, tool in (
            (G25, 'google', 'googleSearch'),
            (G3, 'google-vertex', 'googleSearch'),
            (G3, 'google', 'codeExecution'),
        ):
            body = body_for(name, [HI], provider=provider, settings={'builtin_tools': [{tool: {}}]})
            assert body['tools'] == [{tool: {}}] and 'toolConfig' not in body

    def test_a_schema_without_references(self) -> None:
        tree: dict[str, Any] = {
            '$defs': {
                'Node': {'type': 'object', 'properties': {'next': {'$ref': '#/$defs/Node'}, 'v': {'const': 'x'}}}
            },
            'type': 'object',
            'properties': {
                'root': {'$ref': '#/$defs/Node'},
                'maybe': {'anyOf': [{'type': 'string'}, {'type': 'null'}]},
            },
        }
        body = body_for(G25, [HI], RequestInfo((ToolDefinition('f', '', tree),)))
        parameters = body['tools'][0]['functionDeclarations'][0]['parameters']
        assert '$' not in str(parameters)
        assert parameters['properties']['maybe'] == {'type': 'string', 'nullable': True}

    def test_a_bad_schema_names_its_tool(self) -> None:
        bad: dict[str, Any] = {'type': 'object', 'properties': {'x': {'$ref': '#/$defs/gone'}}}
        with pytest.raises(ToolDefinitionError, match='broken'):
            body_for(G25, [HI], RequestInfo((ToolDefinition('broken', '', bad),)))

    def test_an_output_schema(self) -> None:
        output = OutputSchema('City', {**SCHEMA, '$defs': {}}, description='a city')
        config = body_for(G25, [HI], RequestInfo(output_schema=output))['generationConfig']
        assert config == {'responseMimeType': 'application/json', 'responseSchema': {**SCHEMA, 'description': 'a city'}}


class TestSettings:
    def test_every_key_has_its_place_or_is_refused(self) -> None:
        settings: ModelSettings = {
            'max_tokens': 5,
            'temperature': 0.5,
            'top_p': 0.1,
            'top_k': 3,
            'seed': 7,
            'stop_sequences': ['x'],
            'presence_penalty': 0.2,
            'frequency_penalty': 0.3,
            'logprobs': True,
            'top_logprobs': 2,
            'service_tier': 'flex',
            'auto_cache': '5m',
            'parallel_tool_calls': False,
            'timeout': 1.0,
            'extra_headers': {'a': 'b'},
        }
        body = body_for(G25, [HI], settings=settings)
        assert body['generationConfig'] == {
            'maxOutputTokens': 5,
            'temperature': 0.5,
            'topP': 0.1,
            'topK': 3,
            'seed': 7,
            'stopSequences': ['x'],
            'presencePenalty': 0.2,
            'frequencyPenalty': 0.3,
            'responseLogprobs': True,
            'logprobs': 2,
        }
        assert body['serviceTier'] == 'flex'
        for refused in ({'logit_bias': {'1': 2}}, {'user': 'u'}, {'previous_response_id': 'r'}, {'background': True}):
            (key,) = refused
            with pytest.raises(ConfigError, match=key):
                body_for(G25, [HI], settings=refused)  # pyright: ignore[reportArgumentType]
        with pytest.raises(ConfigError, match='tempreature'):
            body_for(G25, [HI], settings={'tempreature': 1})  # pyright: ignore[reportArgumentType]

    def test_all_keys_are_known(self) -> None:
        values: dict[str, Any] = dict.fromkeys(ModelSettings.__annotations__)
        body_for(G25, [HI], settings=values)  # pyright: ignore[reportArgumentType]

    @pytest.mark.parametrize(
        ('name', 'settings', 'config'),
        [
            (G3, {'reasoning_effort': 'none'}, {'thinkingLevel': 'MINIMAL'}),
            (G3, {'reasoning_effort': 'minimal'}, {'thinkingLevel': 'MINIMAL', 'includeThoughts': True}),
            (G3, {'reasoning_effort': 'xhigh'}, {'thinkingLevel': 'HIGH', 'includeThoughts': True}),
            ('gemini-3-pro', {'reasoning_effort': 'none'}, {'thinkingLevel': 'LOW'}),
            ('gemini-3-pro', {'reasoning_effort': 'medium'}, {'thinkingLevel': 'MEDIUM', 'includeThoughts': True}),
            (G25, {'reasoning_effort': 'none'}, {'thinkingBudget': 0}),
            (G25, {'reasoning_effort': 'low'}, {'thinkingBudget': 1024, 'includeThoughts': True}),
            ('gemini-2.5-pro', {'reasoning_effort': 'none'}, {'thinkingBudget': 128}),
            ('gemini-2.5-pro', {'reasoning_effort': 'xhigh'}, {'thinkingBudget': 32768, 'includeThoughts': True}),
            (G25, {'thinking_budget': 512}, {'thinkingBudget': 512, 'includeThoughts': True}),
            (G25, {'thinking_budget': -1}, {'thinkingBudget': -1, 'includeThoughts': True}),
            (G3, {'thinking_budget': 0}, {'thinkingBudget': 0}),
            (G3, {'thinking_budget': 99, 'reasoning_effort': 'low'}, {'thinkingBudget': 99, 'includeThoughts': True}),
            (G2, {'reasoning_effort': 'none'}, None),
            (G2, {'thinking_budget': 0}, None),
            (G2, {'reasoning_effort': 'low'}, {'thinkingBudget': 1024, 'includeThoughts': True}),
        ],
    )
    def test_thinking(self, name: str, settings: Any, config: Any) -> None:
        assert body_for(name, [HI], settings=settings).get('generationConfig', {}).get('thinkingConfig') == config

    def test_an_effort_that_is_none(self) -> None:
        with pytest.raises(ConfigError, match='reasoning_effort'):
            body_for(G3, [HI], settings={'reasoning_effort': 'much'})  # pyright: ignore[reportArgumentType]

    def test_a_cached_content_holds_the_rest(self) -> None:
        settings: ModelSettings = {'extra_body': {'cachedContent': 'cachedContents/x'}}
        body = body_for(G25, [SystemMessage('a'), HI], RequestInfo(TOOLS, tool_choice='required'), settings=settings)
        assert list(body) == ['contents']


class TestPaths:
    @pytest.mark.parametrize(
        ('name', 'provider', 'path'),
        [
            (G25, 'google', f'/models/{G25}'),
            ('models/x', 'google', '/models/x'),
            ('tunedModels/x', 'google', '/tunedModels/x'),
            ('a?b#c', 'google', '/models/a%3Fb%23c'),
            (G25, 'google-vertex', f'/publishers/google/models/{G25}'),
            ('meta/llama-4', 'google-vertex', '/publishers/meta/models/llama-4'),
            ('publishers/a/models/b@001', 'google-vertex', '/publishers/a/models/b@001'),
            ('projects/p/locations/l/endpoints/7', 'google-vertex', '/projects/p/locations/l/endpoints/7'),
        ],
    )
    def test_names(self, name: str, provider: str, path: str) -> None:
        assert sent_for(name, [HI], provider=provider).path == f'{path}:generateContent'
        streamed = sent_for(name, [HI], provider=provider, stream=True)
        assert streamed.path == f'{path}:streamGenerateContent?alt=sse' and streamed.framings

    @pytest.mark.parametrize('name', ['../x', 'a/../b', 'models/', 'a//b'])
    def test_names_that_lead_elsewhere(self, name: str) -> None:
        with pytest.raises(ConfigError, match='no name of a model'):
            sent_for(name, [HI])


class TestFamilies:
    @pytest.mark.parametrize(
        ('name', 'version'),
        [
            ('gemini-2.5-flash-lite', (2, 5)),
            ('models/gemini-1.5-pro-002', (1, 5)),
            ('gemini-3-flash-preview', (3, 0)),
            ('google/gemini-3.1-pro-preview', (3, 1)),
            ('gemini-live-2.5-flash', (2, 5)),
            ('gemini-10-flash', (10, 0)),
            ('gemini-exp-1206', (99, 0)),
            ('gemini-flash-latest', (99, 0)),
            ('whatever', (99, 0)),
        ],
    )
    def test_versions(self, name: str, version: tuple[int, int]) -> None:
        assert family_of(name).version == version

    def test_what_each_can_do(self) -> None:
        newest = family_of('a-model-of-tomorrow').capabilities()
        assert newest == Capabilities(
            audio=True, video=True, documents=True, thinking=True, count_tokens=True, native_output_with_tools=True
        )
        assert not family_of(G25).capabilities().native_output_with_tools
        assert not family_of(G2).capabilities().thinking
        assert not family_of('gemini-2.5-flash-image').capabilities().tools
        assert not family_of('gemini-2.5-flash-preview-tts').capabilities().images
        assert not family_of('gemma-3-27b-it').capabilities().tools
        assert family_of('gemma-4-31b-it').capabilities().tools

    def test_what_is_given_goes_before(self) -> None:
        given = Capabilities(images=False)
        assert GoogleModel(G25, capabilities=given).capabilities is given


UNREADABLE: list[Any] = [
    [{'role': 'tool', 'parts': []}],
    [{'parts': [{'hologram': 1}]}],
    [{'role': 'model', 'parts': [{'functionCall': {}}]}],
    [{'parts': ['x']}],
    ['x'],
    [{'parts': [{'fileData': {'fileUri': 7}}]}],
    'x',
]


class TestReading:
    def test_both_notations(self) -> None:
        body: Any = {
            'system_instruction': {'parts': [{'text': 's'}]},
            'contents': [
                {'parts': [{'text': 'hi'}, {'inline_data': {'mime_type': 'image/png', 'data': 'A-_='}}]},
                {
                    'role': 'model',
                    'parts': [
                        {'text': 't', 'thought': True, 'thought_signature': 'S'},
                        {'function_call': {'name': 'f', 'args': {'snake_key': {'in_side': 1}}}},
                        {'function_call': {'name': 'f', 'args': None}, 'thought_signature': 'S2'},
                        {'function_call': {'name': 'g', 'id': 'gid'}},
                    ],
                },
                {'parts': [{'functionCall': {'name': 'h'}}]},
                {'role': 'function', 'parts': [{'function_response': {'name': 'f', 'response': {'output': 1}}}]},
                {
                    'role': 'user',
                    'parts': [
                        {'functionResponse': {'name': 'g', 'id': 'gid', 'response': {'error': 'no'}}},
                        {
                            'functionResponse': {
                                'name': 'f',
                                'response': {'a': 2},
                                'parts': [{'fileData': {'fileUri': 'gs://x'}}],
                            }
                        },
                        {'text': 'and'},
                    ],
                },
            ],
        }
        assert messages_from_google(body) == [
            SystemMessage('s'),
            UserMessage(['hi', FilePart('image/png', url='data:image/png;base64,A-_=')]),
            model_turn(
                ThinkingPart('t', 'S'),
                ToolCallPart('f', {'snake_key': {'in_side': 1}}, 'call_1'),
                ToolCallPart('f', {}, 'call_2', {'thoughtSignature': 'S2'}),
                ToolCallPart('g', {}, 'gid', {'id': 'gid'}),
            ),
            model_turn(ToolCallPart('h', {}, 'call_3')),
            ToolMessage([ToolReturnPart('f', 1, 'call_1')]),
            ToolMessage(
                [
                    ToolReturnPart('g', 'no', 'gid', 'retry'),
                    ToolReturnPart(
                        'f',
                        {'a': 2},
                        'call_2',
                        extra_content=(FilePart('application/octet-stream', file_id='gs://x'),),
                    ),
                ]
            ),
            UserMessage('and'),
        ]

    @pytest.mark.parametrize('bad', UNREADABLE)
    def test_what_cannot_be_read_is_named(self, bad: Any) -> None:
        with pytest.raises(MessageError, match='contents'):
            messages_from_google({'contents': bad})

    def test_there_and_back(self) -> None:
        history: list[Message] = [
            SystemMessage('s'),
            UserMessage('hi'),
            model_turn(
                ThinkingPart('t', 'A'),
                TextPart('x', {'thoughtSignature': 'B'}),
                ToolCallPart('f', {'x': 1}, 'c1', {'id': 'c1', 'thoughtSignature': 'C'}),
                BuiltinToolCallPart('executableCode', {'code': '1'}, '', {'part': {'executableCode': {'code': '1'}}}),
            ),
            ToolMessage([ToolReturnPart('f', {'y': 2}, 'c1')]),
            UserMessage('more'),
        ]
        for name in (G25, G3):
            assert messages_from_google(body_for(name, load_json(dump_json(history)))) == history
