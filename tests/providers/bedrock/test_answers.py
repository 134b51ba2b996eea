"""What Bedrock answers -> our parts: the same whether it came whole or in pieces, and back again verbatim."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent_graph.errors import ModelError, ModelHTTPError, ModelProtocolError
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    FilePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserMessage,
    dump_json,
    load_json,
)
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.models.failures import retryable
from agent_graph_providers.bedrock import BedrockModel
from agent_graph_providers.bedrock.families import family_of
from agent_graph_providers.bedrock.history import entries_of
from tests.providers.bedrock.server import answer, events, exception, said, stream, tool_events
from tests.providers.loopback import Loopback, Reply, json_reply

KEY = 'bedrock-api-key-0123456789'
CLAUDE = 'us.anthropic.claude-sonnet-4-6'


async def drop(*_: Any, **__: Any) -> None:
    """Somebody watches, and looks away."""


def got(reply: Reply, *, watched: bool) -> AssistantMessage:
    async def main() -> AssistantMessage:
        async with Loopback([reply]) as server:
            out = ResponseBuilder(drop if watched else None)
            model = BedrockModel(CLAUDE, base_url=server.url, api_key=KEY)
            await model.respond([UserMessage('hi')], RequestInfo(), out)
            await out.finish()
            return out.build()

    return asyncio.run(main())


def failure(reply: Reply, *, watched: bool = True, key: str = KEY) -> ModelError:
    async def main() -> ModelError:
        async with Loopback([reply]) as server:
            model = BedrockModel(CLAUDE, base_url=server.url, api_key=key)
            with pytest.raises(ModelError) as caught:
                await model.respond([UserMessage('hi')], RequestInfo(), ResponseBuilder(drop if watched else None))
            assert (caught.value.provider, caught.value.model) == ('aws', CLAUDE)
            return caught.value

    return asyncio.run(main())


CITATION = {
    'title': 'Page',
    'sourceContent': [{'text': 'one '}, {'text': 'two'}],
    'location': {'web': {'url': 'https://example.com/a', 'domain': 'example.com'}},
}
BLOCKS: dict[str, tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]] = {
    'text': ({'text': 'hello'}, [{'text': 'hel'}, {'text': ''}, {'text': 'lo'}]),
    'reasoning': (
        {'reasoningContent': {'reasoningText': {'text': 'hm so', 'signature': 'SEAL=='}}},
        [
            {'reasoningContent': {'text': 'hm '}},
            {'reasoningContent': {'text': 'so'}},
            {'reasoningContent': {'signature': 'SEAL=='}},
        ],
    ),
    'redacted': (
        {'reasoningContent': {'redactedContent': 'QUJDREVG'}},
        [{'reasoningContent': {'redactedContent': 'QUJD'}}, {'reasoningContent': {'redactedContent': 'REVG'}}],
    ),
    'call': (
        {'toolUse': {'toolUseId': 't1', 'name': 'f', 'input': {'x': 'ü'}}},
        tool_events('f', 't1', '{"x"', ': "\\u00fc"}'),
    ),
    'call without arguments': ({'toolUse': {'toolUseId': 't2', 'name': 'f', 'input': {}}}, tool_events('f', 't2')),
    'cited text': (
        {'citationsContent': {'content': [{'text': 'it is'}], 'citations': [CITATION]}},
        [{'text': 'it '}, {'citation': CITATION}, {'text': 'is'}],
    ),
    'server call': (
        {'toolUse': {'toolUseId': 's1', 'name': 'nova_code', 'type': 'server_tool_use', 'input': {'code': '1'}}},
        tool_events('nova_code', 's1', '{"code":', ' "1"}', type='server_tool_use'),
    ),
    'server result': (
        {
            'toolResult': {
                'toolUseId': 's1',
                'type': 'code_result',
                'status': 'success',
                'content': [{'json': {'o': 1}}],
            }
        },
        [
            {'start': {'toolResult': {'toolUseId': 's1', 'type': 'code_result', 'status': 'success'}}},
            {'toolResult': [{'json': {'o': 1}}]},
        ],
    ),
    'image': (
        {'image': {'format': 'png', 'source': {'bytes': 'QUJDREVG'}}},
        [
            {'start': {'image': {'format': 'png'}}},
            {'image': {'source': {'bytes': 'QUJD'}}},
            {'image': {'source': {'bytes': 'REVG'}}},
        ],
    ),
}
PARTS: dict[str, Any] = {
    'text': TextPart('hello'),
    'reasoning': ThinkingPart('hm so', 'SEAL=='),
    'redacted': ThinkingPart('', None, {'redactedContent': 'QUJDREVG'}),
    'call': ToolCallPart('f', {'x': 'ü'}, 't1'),
    'call without arguments': ToolCallPart('f', {}, 't2'),
    'server call': BuiltinToolCallPart(
        'server_tool_use', {'code': '1'}, 's1', {'toolUse': BLOCKS['server call'][0]['toolUse']}
    ),
    'server result': BuiltinToolReturnPart(
        'code_result', [{'json': {'o': 1}}], 's1', {'toolResult': BLOCKS['server result'][0]['toolResult']}
    ),
    'image': FilePart('image/png', data=b'ABCDEF'),
}


@pytest.mark.parametrize('name', BLOCKS)
def test_a_block_is_the_same_part_streamed_or_not(name: str) -> None:
    block, deltas = BLOCKS[name]
    plain, streamed = got(answer(block), watched=False), got(stream(said(deltas), split=9), watched=True)
    assert plain.parts == streamed.parts and plain.usage == streamed.usage
    if name in PARTS:
        assert plain.parts == (PARTS[name],)
    if name != 'image':  # which the model may not be sent back
        for message in (streamed, *load_json(dump_json([streamed]))):
            assert entries_of(message, {}, family_of(CLAUDE)) == [{'role': 'assistant', 'content': [block]}]


def test_a_citation_in_common_words() -> None:
    (part,) = got(answer(BLOCKS['cited text'][0]), watched=False).parts
    assert isinstance(part, TextPart) and part.content == 'it is'
    (citation,) = part.citations
    assert (citation.url, citation.title, citation.cited_text) == ('https://example.com/a', 'Page', 'one two')
    assert citation.provider_details == CITATION


def test_many_blocks_keep_their_order() -> None:
    plain = got(answer(*(block for block, _ in BLOCKS.values()), {'oddity': {'x': 1}}), watched=False)
    streamed = got(stream(said(*(deltas for _, deltas in BLOCKS.values()))), watched=True)
    assert plain.parts == streamed.parts and len(plain.parts) == len(BLOCKS)
    assert plain.provider_details is not None and plain.provider_details['content'] == [{'oddity': {'x': 1}}]


def test_numbers_beyond_every_bound_can_be_stored() -> None:
    """A model's `1e400` is no finite number: the tool's check refuses it, and nothing fails before."""
    raw = '{"output":{"message":{"content":[{"toolUse":{"toolUseId":"a","name":"f","input":{"x":1e400}}}]}},'
    plain = got(json_reply(raw + '"stopReason":"tool_use","metrics":{"latencyMs":1e400}}'), watched=False)
    streamed = got(stream(said(tool_events('f', 'a', '{"x":1e400}'), stop='tool_use')), watched=True)
    for message in (plain, streamed):
        (part,) = message.parts
        assert isinstance(part, ToolCallPart) and isinstance(part.args, str)
        assert load_json(dump_json([message])) == [message]


def test_usage_and_details() -> None:
    usage = {
        'inputTokens': 10,
        'outputTokens': 5,
        'totalTokens': 215,
        'cacheReadInputTokens': 120,
        'cacheWriteInputTokens': 80,
        'cacheReadInputTokenCount': 120,
        'cacheDetails': [{'ttl': '1h', 'inputTokens': 80}],
        'serverToolUsage': {'webSearchRequests': 2},
    }
    router = {'promptRouter': {'invokedModelId': 'arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-lite-v1:0'}}
    message = got(
        answer({'text': 'x'}, usage=usage, trace=router, performanceConfig={'latency': 'optimized'}), watched=False
    )
    assert message.usage.input_tokens == 210 and message.usage.total_tokens == 215
    assert (message.usage.cache_read_tokens, message.usage.cache_write_tokens) == (120, 80)
    assert message.usage.details == {'cache_write_1h': 80, 'server_tool_webSearchRequests': 2}
    assert message.model_name == 'amazon.nova-lite-v1:0' and message.provider_name == 'aws'
    assert message.provider_details == {
        'finish_reason': 'end_turn',
        'metrics': {'latencyMs': 1},
        'trace': router,
        'performanceConfig': {'latency': 'optimized'},
    }


@pytest.mark.parametrize(
    ('word', 'reason'),
    [
        ('end_turn', 'stop'),
        ('stop_sequence', 'stop'),
        ('max_tokens', 'length'),
        ('model_context_window_exceeded', 'length'),
        ('tool_use', 'tool_calls'),
        ('content_filtered', 'content_filter'),
        ('guardrail_intervened', 'content_filter'),
        ('malformed_tool_use', 'other'),
        ('new_word', 'other'),
    ],
)
def test_why_it_ended(word: str, reason: str) -> None:
    for reply, watched in ((answer({'text': 'x'}, stop=word), False), (stream(said([{'text': 'x'}], stop=word)), True)):
        message = got(reply, watched=watched)
        assert message.finish_reason == reason
        assert message.provider_details is not None and message.provider_details['finish_reason'] == word


@pytest.mark.parametrize(
    ('actions', 'reason'),
    [(['ANONYMIZED', 'NONE'], 'stop'), (['ANONYMIZED', 'BLOCKED'], 'content_filter'), (['NONE'], 'content_filter')],
)
def test_a_guardrail_that_only_masked_words(actions: list[str], reason: str) -> None:
    policy = {'sensitiveInformationPolicy': {'piiEntities': [{'action': a} for a in actions]}}
    trace = {'guardrail': {'outputAssessments': {'g1': [policy]}}}
    message = got(answer({'text': '{NAME}'}, stop='guardrail_intervened', trace=trace), watched=False)
    assert message.finish_reason == reason


class TestErrors:
    def test_told_by_the_status(self) -> None:
        reply = json_reply({'message': 'too fast'}, status=429, x_amzn_errortype='ThrottlingException:http://x/y')
        error = failure(reply)
        assert isinstance(error, ModelHTTPError)
        assert (error.status, error.type, error.code) == (429, 'ThrottlingException', None)
        assert 'too fast' in str(error)

    def test_other_forms(self) -> None:
        error = failure(json_reply({'__type': 'com.amazon.coral.service#UnknownOperationException'}, status=404))
        assert isinstance(error, ModelHTTPError) and error.type == 'UnknownOperationException'
        error = failure(json_reply({'Message': 'User: arn:aws:... is not authorized'}, status=403))
        assert 'not authorized' in str(error) and 'the key passed as api_key=' in str(error)
        error = failure(json_reply({'message': 'odd'}), watched=False)
        assert isinstance(error, ModelHTTPError) and error.status == 0 and 'odd' in str(error)

    @pytest.mark.parametrize(
        ('kind', 'fields', 'status'),
        [
            ('throttlingException', {}, 429),
            ('internalServerException', {}, 500),
            ('serviceUnavailableException', {}, 503),
            ('validationException', {}, 400),
            ('modelTimeoutException', {}, 408),
            ('modelStreamErrorException', {}, 424),
            ('modelStreamErrorException', {'originalStatusCode': 529, 'originalMessage': 'overloaded'}, 529),
            ('modelStreamErrorException', {'originalStatusCode': 200}, 424),
            ('newException', {}, 0),
        ],
    )
    def test_exceptions_in_the_stream(self, kind: str, fields: Any, status: int) -> None:
        body = events(said([{'text': 'half an'}])[:2]) + exception(kind, message='so it is', **fields)
        error = failure(stream(body, split=5))
        assert isinstance(error, ModelHTTPError)
        assert (error.status, error.type) == (status, kind) and 'so it is' in str(error)
        assert retryable(error) == (kind not in ('validationException', 'newException'))

    def test_an_exception_as_an_event(self) -> None:
        error = failure(stream([{'throttlingException': {'message': 'slow'}}]))
        assert isinstance(error, ModelHTTPError) and error.status == 429

    def test_the_key_is_never_told(self) -> None:
        for reply in (
            json_reply({'message': f'bad key {KEY}'}, status=403),
            stream(exception('validationException', message=f'bad key {KEY}')),
        ):
            error = failure(reply)
            assert KEY not in f'{error} {error.__dict__}' and '***' in str(error)

    def test_damage(self) -> None:
        body = bytearray(events(said([{'text': 'hello'}])))
        body[-3] ^= 1
        error = failure(stream(bytes(body)))
        assert isinstance(error, ModelProtocolError) and 'checksum' in str(error)

    @pytest.mark.parametrize('items', [[], said([{'text': 'x'}])[:-2], said(tool_events('f', 'a', '{"x": 1}'))[:-3]])
    def test_a_stream_without_its_end(self, items: Any) -> None:
        assert isinstance(failure(stream(items)), ModelProtocolError)

    def test_the_usage_may_be_missing(self) -> None:
        assert got(stream(said([{'text': 'x'}])[:-1]), watched=True).parts == (TextPart('x'),)

    def test_a_stream_cut_within_a_message(self) -> None:
        body = events(said([{'text': 'x'}])[:-2])
        error = failure(stream(body + b'\0\0\1'))
        assert isinstance(error, ModelProtocolError) and 'cut off' in str(error)

    @pytest.mark.parametrize(
        'items',
        [
            [{'contentBlockDelta': {'contentBlockIndex': 0, 'delta': {'toolUse': {'input': '{}'}}}}],
            [{'contentBlockDelta': {'delta': {'text': 'x'}}}],
            [{'contentBlockDelta': 'x'}],
            [{'messageStart': {}}, {'messageStart': {}}],
            [{'contentBlockStart': {'contentBlockIndex': 0, 'start': {'toolUse': {'toolUseId': 'a'}}}}],
        ],
    )
    def test_nonsense(self, items: Any) -> None:
        assert isinstance(failure(stream([*items, {'messageStop': {'stopReason': 'end_turn'}}])), ModelProtocolError)

    @pytest.mark.parametrize('data', [[], {}, {'output': {'message': {'content': 'x'}}}, {'x': 1}])
    def test_nonsense_plainly(self, data: Any) -> None:
        assert isinstance(failure(json_reply(data), watched=False), ModelProtocolError)

    def test_calls_whose_pieces_are_mixed_up_run_nothing(self) -> None:
        start = [
            {'contentBlockStart': {'contentBlockIndex': i, 'start': {'toolUse': {'toolUseId': n, 'name': 'f'}}}}
            for i, n in enumerate('ab')
        ]
        delta = {'contentBlockDelta': {'contentBlockIndex': 0, 'delta': {'toolUse': {'input': '{}'}}}}
        for items in (
            [*start, delta],
            [start[0], delta, start[0]],
            [start[0], {'contentBlockStop': start[0]['contentBlockStart']}, delta],
        ):
            error = failure(stream([*items, {'messageStop': {'stopReason': 'tool_use'}}]))
            assert isinstance(error, ModelProtocolError) and 'after its end' in str(error)


@pytest.mark.parametrize('output', [None, 'x', ['x']])
def test_an_output_that_is_none_is_no_empty_answer(output: Any) -> None:
    assert isinstance(failure(json_reply({'output': output}), watched=False), ModelProtocolError)


def test_kinds_a_block_is_not_may_be_null() -> None:
    blocks = [{'toolUse': None, 'reasoningContent': None, 'text': 'hi', 'image': None}]
    body = {'output': {'message': {'role': 'assistant', 'content': blocks}}, 'stopReason': 'end_turn'}
    assert got(json_reply(body), watched=False).parts == (TextPart('hi'),)
