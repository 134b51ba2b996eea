"""Messages, tools and settings -> the body of a Converse request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_graph.errors import ConfigError, MessageError, ToolDefinitionError
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    CachePoint,
    Citation,
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
from agent_graph_providers.bedrock import guarded, messages_from_converse
from agent_graph_providers.bedrock.families import family_of
from agent_graph_providers.bedrock.history import entries_of
from agent_graph_providers.bedrock.mapping import request_body, tool_spec
from agent_graph_providers.bedrock.media import safe_name
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Memory, Offers

CLAUDE, NOVA, LLAMA = 'us.anthropic.claude-sonnet-4-6', 'us.amazon.nova-2-lite-v1:0', 'meta.llama3-2-1b-instruct-v1:0'
OLDER = 'us.anthropic.claude-sonnet-4-20250514-v1:0'
QWEN, GPT_OSS, MISTRAL = 'qwen.qwen3-32b-v1:0', 'openai.gpt-oss-120b-1:0', 'mistral.mistral-large-3'
HI = [UserMessage('hi')]
POINT = {'cachePoint': {'type': 'default'}}
LONG = {'cachePoint': {'type': 'default', 'ttl': '1h'}}
F = ToolDefinition('f', 'Does f.', {'type': 'object', 'properties': {'x': {'type': 'integer'}}, 'required': ['x']})
G = ToolDefinition('g.h', '', {'type': 'object', 'properties': {}})


def body(
    messages: list[Message] | Any = HI, model: str = CLAUDE, info: RequestInfo | None = None, **settings: Any
) -> dict[str, Any]:
    family = family_of(model)
    memory = Memory(Offers(lambda t, name: tool_spec(t, name, family)), lambda m, names: entries_of(m, names, family))
    question = Question(model, messages, info or RequestInfo(), ModelSettings(**settings), memory, stream=False)
    return request_body(question, family)


def said(messages: list[Message] | Any, model: str = CLAUDE) -> list[tuple[str, list[Any]]]:
    return [(m['role'], m['content']) for m in body(messages, model)['messages']]


def call(call_id: str = 'a', name: str = 'f', args: Any = '{"x": 1}') -> ToolCallPart:
    return ToolCallPart(name, args, call_id)


def result(call_id: str = 'a', content: Any = 'one', **more: Any) -> ToolReturnPart:
    return ToolReturnPart('f', content, call_id, **more)


class TestTurns:
    def test_neighbours_are_one_turn(self) -> None:
        history = [
            SystemMessage('be nice'),
            UserMessage('one'),
            UserMessage(['two', '', ' \n']),
            AssistantMessage([TextPart('three')]),
            AssistantMessage([TextPart('  '), TextPart('four')]),
            SystemMessage('in the middle'),
            UserMessage('five'),
        ]
        assert said(history) == [
            ('user', [{'text': 'one'}, {'text': 'two'}]),
            ('assistant', [{'text': 'three'}, {'text': 'four'}]),
            ('user', [{'text': 'five'}]),
        ]
        assert body(history)['system'] == [{'text': 'be nice'}, {'text': 'in the middle'}]

    @pytest.mark.parametrize('history', [[], [UserMessage('')], [SystemMessage('x')], [UserMessage([CachePoint()])]])
    def test_there_is_always_a_turn(self, history: list[Message]) -> None:
        assert said(history) == [('user', [{'text': '.'}])]

    def test_a_history_that_begins_with_an_answer(self) -> None:
        history = [AssistantMessage([TextPart('I begin')]), UserMessage('go on')]
        assert [role for role, _ in said(history)] == ['user', 'assistant', 'user']

    def test_an_answer_with_nothing_to_send_is_left_out(self) -> None:
        empty = AssistantMessage([ThinkingPart('foreign', 'seal')], provider_name='other')
        assert said([*HI, empty, UserMessage('on')]) == [('user', [{'text': 'hi'}, {'text': 'on'}])]

    def test_a_refusal_is_sent_as_text(self) -> None:
        assert said([*HI, AssistantMessage([], refusal='no'), *HI])[1] == ('assistant', [{'text': 'no'}])

    def test_results_come_first_and_stand_alone_where_they_must(self) -> None:
        history = [*HI, AssistantMessage([call()]), ToolMessage([result()]), UserMessage('and?')]
        done = {'toolResult': {'toolUseId': 'a', 'content': [{'text': 'one'}], 'status': 'success'}}
        assert said(history)[2:] == [('user', [done, {'text': 'and?'}])]
        plain = {'toolResult': {'toolUseId': 'a', 'content': [{'text': 'one'}]}}
        assert said(history, MISTRAL)[2:] == [
            ('user', [plain]),
            ('assistant', [{'text': '.'}]),
            ('user', [{'text': 'and?'}]),
        ]

    def test_what_is_given_and_kept_is_not_changed(self) -> None:
        family = family_of(CLAUDE)
        memory = Memory(Offers(lambda t, name: tool_spec(t, name, family)), lambda m, n: entries_of(m, n, family))
        pdf = FilePart.from_bytes(b'x', 'application/pdf', name='a.pdf')
        history = [UserMessage(['x', pdf, CachePoint()]), UserMessage([pdf, pdf])]
        question = Question(CLAUDE, history, RequestInfo(), ModelSettings(auto_cache='5m'), memory, stream=False)
        first = json.dumps(request_body(question, family))
        assert json.dumps(request_body(question, family)) == first


class TestCalls:
    @pytest.mark.parametrize(
        ('args', 'sent'),
        [
            ('', {}),
            ({'x': 1}, {'x': 1}),
            ('{"x": 1}', {'x': 1}),
            ('{"x": ', {'invalid_arguments': '{"x": '}),
            ('[1]', {'invalid_arguments': '[1]'}),
        ],
    )
    def test_arguments_are_an_object(self, args: Any, sent: Any) -> None:
        history = [*HI, AssistantMessage([call(args=args)]), ToolMessage([result()])]
        assert said(history)[1][1] == [{'toolUse': {'toolUseId': 'a', 'name': 'f', 'input': sent}}]

    @pytest.mark.parametrize(
        ('content', 'sent'),
        [
            ('text', {'text': 'text'}),
            ('', {'text': '""'}),
            (' ', {'text': '" "'}),
            (None, {'text': 'null'}),
            (3, {'text': '3'}),
            ([1, 2], {'text': '[1,2]'}),
            ({'a': 1}, {'json': {'a': 1}}),
            ({}, {'text': '{}'}),
        ],
    )
    def test_results(self, content: Any, sent: Any) -> None:
        history = [*HI, AssistantMessage([call()]), ToolMessage([result(content=content)])]
        assert said(history)[2][1][0]['toolResult']['content'] == [sent]

    def test_a_result_that_is_none_says_so(self) -> None:
        for outcome in ('retry', 'failed', 'denied', 'interrupted', 'skipped'):
            history = [*HI, AssistantMessage([call()]), ToolMessage([result(outcome=outcome)])]
            assert said(history)[2][1][0]['toolResult']['status'] == 'error'
            assert 'status' not in said(history, LLAMA)[2][1][0]['toolResult']

    def test_files_and_sounds_of_a_tool(self) -> None:
        extra = ('see', FilePart.from_bytes(b'i', 'image/png'), FilePart.from_bytes(b's', 'audio/wav'))
        turn = said([*HI, AssistantMessage([call()]), ToolMessage([result(extra_content=extra)])])[2][1]
        image = {'image': {'format': 'png', 'source': {'bytes': 'aQ=='}}}
        assert turn[0]['toolResult']['content'] == [{'text': 'one'}, {'text': 'see'}, image]
        assert turn[1] == {'audio': {'format': 'wav', 'source': {'bytes': 'cw=='}}}

    def test_ids_are_mapped_and_stay_paired(self) -> None:
        ids = ['fine-1', 'x' * 65, 'x' * 66, 'no/slash', '', '', 'fine-1']
        history: list[Message] = [*HI]
        for group in (ids, ['fine-1']):
            history.append(AssistantMessage([call(i) for i in group], provider_name='other'))
            history.append(ToolMessage([result(i) for i in group]))
        turns = said(history)
        called = [b['toolUse']['toolUseId'] for _, c in turns for b in c if 'toolUse' in b]
        answered = [b['toolResult']['toolUseId'] for _, c in turns for b in c if 'toolResult' in b]
        assert called == answered and len(set(called)) == 8 and called[0] == 'fine-1'
        assert all(0 < len(i) <= 64 and '/' not in i for i in called)
        assert said([*history, UserMessage('more')])[:5][1:3] == turns[1:3]  # and the same in the next request

    def test_names_are_mapped(self) -> None:
        info = RequestInfo(tools=(F, G))
        history = [*HI, AssistantMessage([call(name='g.h', args={})]), ToolMessage([result()])]
        made = body(history, info=info)
        assert [t['toolSpec']['name'] for t in made['toolConfig']['tools']] == ['f', 'g_h']
        assert made['messages'][1]['content'][0]['toolUse']['name'] == 'g_h'


class TestOwnAndForeign:
    OWN = AssistantMessage(
        [
            ThinkingPart('hm', 'seal=='),
            ThinkingPart('', None, {'redactedContent': 'ZGF0YQ=='}),
            ThinkingPart('unsealed'),
            TextPart('cited', citations=(Citation(title='t', provider_details={'title': 't', 'location': {}}),)),
            BuiltinToolCallPart('nova_x', {}, 's1', {'toolUse': {'toolUseId': 's1', 'type': 'server_tool_use'}}),
        ],
        provider_name='aws',
        model_name=CLAUDE,
    )

    def test_what_bedrock_sealed_goes_back_verbatim_also_when_stored(self) -> None:
        (stored,) = load_json(dump_json([self.OWN]))
        for message in (self.OWN, stored):
            assert said([*HI, message, *HI])[1] == (
                'assistant',
                [
                    {'reasoningContent': {'reasoningText': {'text': 'hm', 'signature': 'seal=='}}},
                    {'reasoningContent': {'redactedContent': 'ZGF0YQ=='}},
                    {
                        'citationsContent': {
                            'content': [{'text': 'cited'}],
                            'citations': [{'title': 't', 'location': {}}],
                        }
                    },
                    {'toolUse': {'toolUseId': 's1', 'type': 'server_tool_use'}},
                ],
            )

    def test_to_another_makers_model_it_is_foreign(self) -> None:
        assert said([*HI, self.OWN, *HI], NOVA)[1] == ('assistant', [{'text': 'cited'}])

    def test_foreign_parts_are_left_out(self) -> None:
        foreign = AssistantMessage([*self.OWN.parts, FilePart.from_bytes(b'x', 'image/png')], provider_name='openai')
        assert said([*HI, foreign, *HI])[1] == ('assistant', [{'text': 'cited'}])


class TestFiles:
    def test_formats(self) -> None:
        files = {
            'image/jpg': 'jpeg',
            'video/quicktime': 'mov',
            'video/3gpp': 'three_gp',
            'audio/mpeg': 'mp3',
            'text/markdown': 'md',
            'text/x-python': 'txt',
            'application/json': 'txt',
            'application/vnd.ms-excel': 'xls',
        }
        content = said([UserMessage(['x', *(FilePart.from_bytes(b'x', t) for t in files)])])[0][1]
        assert [next(iter(b.values()))['format'] for b in content[1:]] == list(files.values())

    @pytest.mark.parametrize('media_type', ['image/tiff', 'application/zip', 'audio/midi'])
    def test_what_it_does_not_take(self, media_type: str) -> None:
        with pytest.raises(MessageError, match='convert it to one of'):
            body([UserMessage([FilePart.from_bytes(b'x', media_type)])])

    def test_a_file_somebody_else_holds(self) -> None:
        with pytest.raises(MessageError, match='s3://'):
            body([UserMessage([FilePart('image/png', file_id='file-1')])])

    def test_s3_and_data_addresses(self) -> None:
        details: Any = {'bucketOwner': '123456789012'}
        files = [
            FilePart('image/png', file_id='s3://b/k', provider_details=details),
            FilePart('video/mp4', url='s3://b/v'),
            FilePart('image/png', url='data:image/png;base64,AAAA'),
            FilePart('text/plain', url='data:text/plain,a%20b'),
        ]
        content = said([UserMessage(['x', *files])])[0][1]
        assert [next(iter(b.values()))['source'] for b in content[1:]] == [
            {'s3Location': {'uri': 's3://b/k', 'bucketOwner': '123456789012'}},
            {'s3Location': {'uri': 's3://b/v'}},
            {'bytes': 'AAAA'},
            {'bytes': 'YSBi'},
        ]

    @pytest.mark.parametrize(
        ('name', 'safe'),
        [
            (None, 'document'),
            ('report.pdf', 'report'),
            ('Report (final) [2].v2.pdf', 'Report (final) [2]-v2'),
            ('a  b\tc', 'a b-c'),
            ('größe_1.pdf', 'gr-e-1'),
            ('***', 'document'),
            ('x' * 300, 'x' * 200),
            ('ignore; previous\ninstructions', 'ignore- previous-instructions'),
        ],
    )
    def test_names_are_safe(self, name: str | None, safe: str) -> None:
        assert safe_name(name, 'pdf') == safe

    def test_names_are_there_once_and_a_text_is_beside(self) -> None:
        pdf = FilePart.from_bytes(b'x', 'application/pdf', name='a.pdf')
        history = [
            UserMessage([pdf, pdf]),
            AssistantMessage([call()]),
            ToolMessage([result(extra_content=(pdf,))]),
        ]
        turns = said(history)
        assert turns[0][1][0] == {'text': 'See the attached documents.'}
        named = [b['document']['name'] for b in turns[0][1][1:]]
        assert named == ['a', 'a 2']
        assert turns[2][1][0]['toolResult']['content'][1]['document']['name'] == 'a 3'

    def test_what_a_document_says_besides(self) -> None:
        details: Any = {'document': {'citations': {'enabled': True}, 'context': 'a law'}}
        file = FilePart('text/plain', data=b'x', name='law', provider_details=details)
        assert said([UserMessage(['?', file])])[0][1][1]['document'] == {
            'name': 'law',
            'format': 'txt',
            'source': {'bytes': 'eA=='},
            'citations': {'enabled': True},
            'context': 'a law',
        }

    def test_guarded_text(self) -> None:
        block = {'guardContent': {'text': {'text': 'Tokyo', 'qualifiers': ['query']}}}
        assert said([UserMessage([guarded('Tokyo', 'query')])])[0][1] == [block]
        (read,) = messages_from_converse({'messages': [{'role': 'user', 'content': [block]}]})
        assert read == UserMessage([guarded('Tokyo', 'query')])


class TestCache:
    def points(self, made: dict[str, Any]) -> list[tuple[int, int]]:
        """(message, place) of the points."""
        return [(i, j) for i, m in enumerate(made['messages']) for j, b in enumerate(m['content']) if 'cachePoint' in b]

    def test_where_it_stands(self) -> None:
        made = body([UserMessage(['a', CachePoint(), 'b', CachePoint('1h')])])
        assert made['messages'][0]['content'] == [{'text': 'a'}, LONG, {'text': 'b'}, LONG]  # none outlasts one before

    def test_other_models_get_none(self) -> None:
        assert said([UserMessage(['a', CachePoint('1h')])], LLAMA) == [('user', [{'text': 'a'}])]
        assert said([UserMessage(['a', CachePoint('1h')])], NOVA) == [('user', [{'text': 'a'}, POINT])]

    def test_not_after_documents_and_videos(self) -> None:
        pdf, film = FilePart.from_bytes(b'x', 'application/pdf'), FilePart.from_bytes(b'x', 'video/mp4')
        image = FilePart.from_bytes(b'x', 'image/png')
        made = body([UserMessage(['a', pdf, film, CachePoint()]), AssistantMessage([TextPart('b')])], NOVA)
        assert self.points(made) == [(0, 1)]
        assert self.points(body([UserMessage(['a', image, CachePoint()])])) == [(0, 2)]

    def test_before_everything_else(self) -> None:
        made = body([SystemMessage('s'), UserMessage([CachePoint(), 'a'])])
        assert made['system'] == [{'text': 's'}, POINT] and made['messages'][0]['content'] == [{'text': 'a'}]
        made = body([*HI, AssistantMessage([TextPart('b')]), UserMessage([CachePoint(), 'c'])])
        assert self.points(made) == [(1, 1)]

    def test_at_most_four_the_last_ones(self) -> None:
        made = body(
            [SystemMessage('s'), UserMessage([x for n in range(6) for x in (f't{n}', CachePoint())])], auto_cache='5m'
        )
        assert made['system'][-1] == POINT
        assert self.points(made) == [(0, 4), (0, 6), (0, 8)]

    def test_automatically(self) -> None:
        info = RequestInfo(tools=(F,))
        made = body([SystemMessage('s'), *HI], info=info, auto_cache='1h')
        assert made['system'][-1] == made['toolConfig']['tools'][-1] == made['messages'][-1]['content'][-1] == LONG
        made = body([SystemMessage('s'), *HI], NOVA, info, auto_cache='1h')
        assert made['system'][-1] == made['messages'][-1]['content'][-1] == POINT
        assert len(made['toolConfig']['tools']) == 1
        assert 'cachePoint' not in json.dumps(body(HI, LLAMA, info, auto_cache='1h'))


class TestTools:
    def choice(self, choice: Any, model: str = CLAUDE, *, allow_text: bool = True, **settings: Any) -> tuple[Any, Any]:
        info = RequestInfo(tools=(F, G), tool_choice=choice, allow_text=allow_text)
        config: dict[str, Any] = body(HI, model, info, **settings).get('toolConfig') or {}
        return [t['toolSpec']['name'] for t in config.get('tools', ())], config.get('toolChoice')

    def test_choice(self) -> None:
        assert self.choice('auto') == (['f', 'g_h'], None)
        assert self.choice('required') == (['f', 'g_h'], {'any': {}})
        assert self.choice('none') == ([], None)
        assert self.choice(('g.h',)) == (['g_h'], None)
        assert self.choice(('g.h',), allow_text=False) == (['f', 'g_h'], {'tool': {'name': 'g_h'}})
        assert self.choice(('f', 'g.h'), allow_text=False) == (['f', 'g_h'], {'any': {}})

    def test_models_that_cannot_be_made_to(self) -> None:
        assert self.choice('required', LLAMA, allow_text=False) == (['f', 'g_h'], None)
        with pytest.raises(ConfigError, match='tool_choice'):
            self.choice('required', LLAMA)

    @pytest.mark.parametrize(
        'settings',
        [
            {'reasoning_effort': 'low'},
            {'thinking_budget': 2000},
            {'extra_body': {'additionalModelRequestFields': {'thinking': {'type': 'enabled', 'budget_tokens': 1024}}}},
        ],
    )
    def test_thinking_forbids_it(self, settings: Any) -> None:
        assert self.choice('required', **settings) == (['f', 'g_h'], None)
        assert self.choice(('g.h',), allow_text=False, **settings) == (['g_h'], None)

    def test_a_history_with_calls_needs_tools(self) -> None:
        history = [*HI, AssistantMessage([call()]), ToolMessage([result()])]
        (spec,) = body(history)['toolConfig']['tools']
        assert spec['toolSpec']['name'] == 'f' and 'do not call' in spec['toolSpec']['description']
        info = RequestInfo(tools=(F, G), tool_choice='none')
        assert [t['toolSpec']['name'] for t in body(history, info=info)['toolConfig']['tools']] == ['f', 'g_h']

    def test_builtin_tools(self) -> None:
        made = body(HI, NOVA, RequestInfo(tools=(F,)), builtin_tools=[{'systemTool': {'name': 'nova_grounding'}}])
        assert made['toolConfig']['tools'][1] == {'systemTool': {'name': 'nova_grounding'}}

    def test_strict_and_dialects(self) -> None:
        strict = ToolDefinition('f', 'x', {'type': 'object', 'properties': {'a': {'type': 'string'}}}, strict=True)
        spec = body(HI, info=RequestInfo(tools=(strict,)))['toolConfig']['tools'][0]['toolSpec']
        assert spec['strict'] is True and spec['inputSchema']['json']['required'] == ['a']
        spec = body(HI, LLAMA, RequestInfo(tools=(strict,)))['toolConfig']['tools'][0]['toolSpec']
        assert 'strict' not in spec and 'required' not in spec['inputSchema']['json']
        shared = {
            'type': 'object',
            'properties': {'a': {'$ref': '#/$defs/A'}},
            '$defs': {'A': {'type': 'integer'}},
        }
        tool = ToolDefinition('f', '', shared)
        assert '$ref' in json.dumps(body(HI, info=RequestInfo(tools=(tool,))))
        assert '$ref' not in json.dumps(body(HI, NOVA, RequestInfo(tools=(tool,))))


class TestSettings:
    def test_fields(self) -> None:
        made = body(
            max_tokens=5,
            temperature=0.5,
            top_p=0.9,
            stop_sequences=['x'],
            service_tier='flex',
            user='u1',
            parallel_tool_calls=False,
            logprobs=False,
            seed=None,
        )
        assert made['inferenceConfig'] == {'maxTokens': 5, 'temperature': 0.5, 'topP': 0.9, 'stopSequences': ['x']}
        assert made['serviceTier'] == {'type': 'flex'} and made['requestMetadata'] == {'user': 'u1'}
        assert 'inferenceConfig' not in body()

    @pytest.mark.parametrize('key', ['seed', 'logit_bias', 'top_logprobs', 'previous_response_id', 'background', 'odd'])
    def test_refused(self, key: str) -> None:
        with pytest.raises(ConfigError, match=key):
            body(HI, CLAUDE, None, **{key: 1})

    @pytest.mark.parametrize(
        ('model', 'settings', 'fields', 'effort', 'most'),
        [
            (CLAUDE, {'reasoning_effort': 'high'}, {'thinking': {'type': 'adaptive'}}, 'high', None),
            (CLAUDE, {'reasoning_effort': 'minimal'}, {'thinking': {'type': 'adaptive'}}, 'low', None),
            (CLAUDE, {'reasoning_effort': 'none'}, {'thinking': {'type': 'disabled'}}, None, None),
            (CLAUDE, {'thinking_budget': 0}, {'thinking': {'type': 'disabled'}}, None, None),
            (OLDER, {'thinking_budget': 1}, {'thinking': {'type': 'enabled', 'budget_tokens': 1024}}, None, None),
            (OLDER, {'thinking_budget': 9000}, {'thinking': {'type': 'enabled', 'budget_tokens': 9000}}, None, 13096),
            (OLDER, {'reasoning_effort': 'low'}, {'thinking': {'type': 'enabled', 'budget_tokens': 2048}}, None, None),
            (
                NOVA,
                {'reasoning_effort': 'xhigh'},
                {'reasoningConfig': {'type': 'enabled', 'maxReasoningEffort': 'high'}},
                None,
                None,
            ),
            (NOVA, {'reasoning_effort': 'none'}, {'reasoningConfig': {'type': 'disabled'}}, None, None),
            (GPT_OSS, {'reasoning_effort': 'low'}, {'reasoning_effort': 'low'}, None, None),
            (QWEN, {'reasoning_effort': 'high'}, {'reasoning_config': 'high'}, None, None),
            (QWEN, {'reasoning_effort': 'none'}, None, None, None),
            (LLAMA, {'reasoning_effort': 'none'}, None, None, None),
        ],
    )
    def test_reasoning(self, model: str, settings: Any, fields: Any, effort: Any, most: Any) -> None:
        made = body(HI, model, **settings)
        assert made.get('additionalModelRequestFields') == fields
        output: dict[str, Any] = made.get('outputConfig') or {}
        inference: dict[str, Any] = made.get('inferenceConfig') or {}
        assert (output.get('effort'), inference.get('maxTokens')) == (effort, most)

    @pytest.mark.parametrize(
        ('model', 'settings'),
        [(LLAMA, {'reasoning_effort': 'low'}), (LLAMA, {'thinking_budget': 9}), (NOVA, {'thinking_budget': 9})],
    )
    def test_reasoning_that_cannot_be_told(self, model: str, settings: Any) -> None:
        with pytest.raises(ConfigError, match=next(iter(settings))):
            body(HI, model, **settings)

    def test_top_k(self) -> None:
        assert body(top_k=5, reasoning_effort='none')['additionalModelRequestFields'] == {
            'thinking': {'type': 'disabled'},
            'top_k': 5,
        }
        assert body(HI, NOVA, top_k=5)['additionalModelRequestFields'] == {'inferenceConfig': {'topK': 5}}
        with pytest.raises(ConfigError, match='top_k'):
            body(HI, LLAMA, top_k=5)

    def test_an_output_schema(self) -> None:
        schema = {'type': 'object', 'properties': {'a': {'type': 'integer'}}}
        made = body(
            info=RequestInfo(output_schema=OutputSchema('Ans wer', schema, 'an answer')), reasoning_effort='low'
        )
        text = made['outputConfig']['textFormat']
        inner = text['structure']['jsonSchema']
        assert (text['type'], inner['name'], inner['description']) == ('json_schema', 'Ans_wer', 'an answer')
        assert json.loads(inner['schema'])['additionalProperties'] is False
        assert made['outputConfig']['effort'] == 'low'

    def test_a_schema_that_cannot_be_strict(self) -> None:
        free = {'type': 'object', 'properties': {'a': {'type': 'object'}}}
        info = RequestInfo(output_schema=OutputSchema('a', free))
        assert 'textFormat' in body(info=info)['outputConfig']
        with pytest.raises(ToolDefinitionError):
            body(info=RequestInfo(output_schema=OutputSchema('a', free, strict=True)))

    def test_models_without_it(self) -> None:
        with pytest.raises(ConfigError, match='ToolOutput'):
            body(HI, NOVA, RequestInfo(output_schema=OutputSchema('a', {'type': 'object'})))


@pytest.mark.parametrize(
    ('model', 'maker', 'thinking'),
    [
        ('us.anthropic.claude-3-7-sonnet-20250219-v1:0', 'anthropic', 'budget'),
        ('anthropic.claude-3-haiku-20240307-v1:0', 'anthropic', 'none'),
        ('global.anthropic.claude-opus-4-5-20251101-v1:0', 'anthropic', 'budget'),
        ('anthropic.claude-opus-9', 'anthropic', 'adaptive'),
        ('arn:aws:bedrock:us-east-1:012345678901:inference-profile/us.amazon.nova-micro-v1:0', 'amazon', 'none'),
        ('arn:aws:bedrock:us-east-1:012345678901:application-inference-profile/x4glmnova0zz', 'anthropic', 'adaptive'),
        ('something-new', 'anthropic', 'adaptive'),
        ('amazon.titan-text-express-v1', 'titan', 'none'),
        ('deepseek.r1-v1:0', 'deepseek', 'none'),
        ('deepseek.v3-v1:0', 'open', 'config'),
    ],
)
def test_families(model: str, maker: str, thinking: str) -> None:
    family = family_of(model)
    assert (family.maker, family.thinking) == (maker, thinking)


UNREADABLE: list[dict[str, Any]] = [
    {'messages': 'x'},
    {'messages': [{'role': 'robot', 'content': []}]},
    {'messages': [{'role': 'user', 'content': {}}]},
    {'messages': [{'role': 'user', 'content': [{}]}]},
]


class TestReading:
    def test_everything_comes_back(self) -> None:
        content: list[Any] = [
            {'toolResult': {'toolUseId': 'a', 'content': [{'json': {'b': 1}}, {'text': 'c'}], 'status': 'error'}},
            {'toolResult': {'toolUseId': 'z', 'content': [{'image': {'format': 'png', 'source': {'bytes': 'AA=='}}}]}},
            {'text': 'and'},
            {'searchResult': {'source': 's', 'title': 't', 'content': [{'text': 'found'}]}},
            {'cachePoint': {'type': 'default', 'ttl': '1h'}},
            {'document': {'name': 'd', 'format': 'txt', 'source': {'text': 'inline'}}},
            {'document': {'name': 'e', 'source': {'bytes': 'AA=='}}},
        ]
        made: dict[str, Any] = {
            'system': [{'text': 's'}, POINT, {'guardContent': {'text': {'text': 'g'}}}],
            'messages': [
                {'role': 'user', 'content': [{'text': 'hi'}]},
                {'role': 'assistant', 'content': [{'toolUse': {'toolUseId': 'a', 'name': 'f', 'input': {}}}]},
                {'role': 'user', 'content': content},
            ],
        }
        system, guard, _, called, results, user = messages_from_converse(made)
        assert (system, guard) == (SystemMessage('s'), SystemMessage('g'))
        assert called == AssistantMessage([ToolCallPart('f', {}, 'a')])
        assert isinstance(results, ToolMessage) and isinstance(user, UserMessage)
        assert results.parts[0] == ToolReturnPart('f', {'b': 1}, 'a', 'retry', ('c',))
        assert isinstance(results.parts[1].extra_content[0], FilePart)
        assert isinstance(user.content[1], FilePart) and user.content[1].data == b'found'
        assert user.content[2] == CachePoint('1h')
        assert said([user])[0][1] == content[2:]

    @pytest.mark.parametrize('made', UNREADABLE)
    def test_what_cannot_be_read(self, made: dict[str, Any]) -> None:
        with pytest.raises(MessageError):
            messages_from_converse(made)
