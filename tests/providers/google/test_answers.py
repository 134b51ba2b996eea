"""Answers of Gemini -> parts, plain and streamed, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import genai_prices
import pytest

from agent_graph.errors import ModelError, ModelHTTPError, ModelProtocolError
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    Citation,
    FilePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserMessage,
    dump_json,
    load_json,
)
from agent_graph.model import ResponseBuilder
from agent_graph.usage import Spend, cost_of
from agent_graph_providers.google.answer import Answer
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import JsonArray
from agent_graph_providers.wire.reading import read_answer
from tests.providers.google.kit import answer, body_for, call
from tests.providers.loopback import sse_body

ASKED = Asked('google', 'm', 'http://127.0.0.1', 'GEMINI_API_KEY', '')


class Body:
    """A response with prepared pieces."""

    def __init__(self, pieces: list[bytes], kind: str) -> None:
        self._pieces = pieces
        self.headers = {'content-type': kind}

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        for one in self._pieces:
            yield one

    async def aread(self) -> bytes:
        return b''.join(self._pieces)


def read_bytes(pieces: list[bytes], kind: str = 'text/event-stream', *, array: bool = False) -> AssistantMessage:
    async def main() -> AssistantMessage:
        out = ResponseBuilder(provider_name='google')
        framings = {'application/json': JsonArray} if array else None
        await read_answer(Body(pieces, kind), Answer(out, ASKED, back={'a_b': 'a.b'}), ASKED, framings=framings)
        await out.finish()
        return out.build()

    return asyncio.run(main())


def plain(data: Any) -> AssistantMessage:
    return read_bytes([json.dumps(data).encode()], 'application/json')


def streamed(*events: Any) -> AssistantMessage:
    return read_bytes([sse_body(events, done=False)])


def pieces(*parts: dict[str, Any], finish: str = 'STOP') -> list[dict[str, Any]]:
    """One event for each part, the reason at the end."""
    return [*(answer(part, finish=None) for part in parts), answer(finish=finish)]


class TestParts:
    def test_texts_of_a_stream_are_one_until_something_else_comes(self) -> None:
        got = streamed(*pieces({'text': 'a'}, {'text': 'b'}, {'text': ''}, call('f', {}), {'text': 'c'}, {'text': 'd'}))
        assert got.parts == (TextPart('ab'), ToolCallPart('f', {}), TextPart('cd'))

    def test_texts_of_a_plain_answer_stay_apart(self) -> None:
        assert plain(answer({'text': 'a'}, {'text': 'b'})).parts == (TextPart('a'), TextPart('b'))

    def test_a_signed_piece_is_a_part_of_its_own(self) -> None:
        signed = {'text': 'c', 'thoughtSignature': 'S+/='}
        got = streamed(*pieces({'text': 'a'}, {'text': 'b'}, signed, {'text': 'd'}))
        assert got.parts == (TextPart('ab'), TextPart('c', {'thoughtSignature': 'S+/='}), TextPart('d'))

    @pytest.mark.parametrize('part', [{'text': '', 'thoughtSignature': 'S'}, {'thoughtSignature': 'S'}])
    def test_a_signature_without_text(self, part: dict[str, Any]) -> None:
        got = streamed(*pieces({'text': 'a'}, part))
        assert got.parts == (TextPart('a'), TextPart('', {'thoughtSignature': 'S'}))

    def test_thoughts(self) -> None:
        thoughts = [{'text': 'I ', 'thought': True}, {'text': 'see', 'thought': True}]
        signed = {'text': '.', 'thought': True, 'thoughtSignature': 'S'}
        got = streamed(*pieces(*thoughts, {'text': 'Hi'}, signed, {'text': '!'}))
        assert got.parts == (ThinkingPart('I see'), TextPart('Hi'), ThinkingPart('.', 'S'), TextPart('!'))

    def test_calls_with_and_without_ids(self) -> None:
        got = plain(answer(call('f', {'x': 1.0}, thoughtSignature='S'), call('f', {'x': 2}, 'id-2'), call('a_b')))
        assert got.parts == (
            ToolCallPart('f', {'x': 1.0}, '', {'thoughtSignature': 'S'}),
            ToolCallPart('f', {'x': 2}, 'id-2', {'id': 'id-2'}),
            ToolCallPart('a.b', {}),
        )
        assert got.finish_reason == 'tool_calls'

    def test_files(self) -> None:
        inline = {'inlineData': {'mimeType': 'image/png', 'data': 'AP8='}, 'thoughtSignature': 'S'}
        stored = {'fileData': {'mimeType': 'video/mp4', 'fileUri': 'gs://b/v.mp4'}}
        got = plain(answer(inline, stored, {'fileData': {'fileUri': 'https://h.test/a.pdf'}}))
        assert got.parts == (
            FilePart('image/png', data=b'\x00\xff', provider_details={'thoughtSignature': 'S'}),
            FilePart('video/mp4', file_id='gs://b/v.mp4'),
            FilePart('application/octet-stream', url='https://h.test/a.pdf'),
        )

    def test_what_google_runs_itself_is_kept_whole(self) -> None:
        code: Any = {'executableCode': {'language': 'PYTHON', 'code': '1+1', 'id': 'k'}, 'thoughtSignature': 'S'}
        result: Any = {'codeExecutionResult': {'outcome': 'OUTCOME_OK', 'output': '2', 'id': 'k'}}
        search: Any = {'toolCall': {'toolType': 'GOOGLE_SEARCH_WEB', 'args': {'queries': ['q']}, 'id': 't'}}
        found: Any = {'toolResponse': {'toolType': 'GOOGLE_SEARCH_WEB', 'response': {'r': 1}, 'id': 't'}}
        got = plain(answer(code, result, search, found))
        assert got.parts == (
            BuiltinToolCallPart('executableCode', {'language': 'PYTHON', 'code': '1+1'}, 'k', {'part': code}),
            BuiltinToolReturnPart(
                'codeExecutionResult', {'outcome': 'OUTCOME_OK', 'output': '2'}, 'k', {'part': result}
            ),
            BuiltinToolCallPart('toolCall', {'queries': ['q']}, 't', {'part': search}),
            BuiltinToolReturnPart(
                'toolResponse', {'toolType': 'GOOGLE_SEARCH_WEB', 'response': {'r': 1}}, 't', {'part': found}
            ),
        )
        assert got.finish_reason == 'stop'

    def test_a_kind_nobody_knows_goes_back_whole(self) -> None:
        new: Any = {'hologram': {'id': 'h', 'depth': 3}, 'thoughtSignature': 'S'}
        got = plain(answer(new))
        assert got.parts == (BuiltinToolReturnPart('hologram', {'depth': 3}, 'h', {'part': new}),)
        assert sent_again(got) == [new]

    def test_all_of_it_goes_back_after_a_round_through_json(self) -> None:
        parts: list[dict[str, Any]] = [
            {'text': 'think', 'thought': True, 'thoughtSignature': 'A+/_-=='},
            {'text': 'say', 'thoughtSignature': 'B', 'partMetadata': {'snake_key': 1}},
            {'text': '', 'thoughtSignature': 'C'},
            call('f', {'x': 1.0, 'thought': None}, 'c1', thoughtSignature='D'),
            call('f', {'x': [1, {'y': 'z'}]}),
            {'inlineData': {'mimeType': 'image/png', 'data': 'AP8='}, 'thoughtSignature': 'E', 'thought': True},
            {'executableCode': {'language': 'PYTHON', 'code': '1'}, 'thoughtSignature': 'F'},
        ]
        assert sent_again(plain(answer(*parts))) == parts
        assert sent_again(streamed(*pieces(*parts))) == parts

    def test_only_the_first_candidate_is_read(self) -> None:
        data = answer({'text': 'one'})
        data['candidates'].insert(0, {'index': 1, 'content': {'parts': [{'text': 'two'}]}, 'finishReason': 'SAFETY'})
        got = plain(data)
        assert got.parts == (TextPart('one'),) and got.finish_reason == 'stop'


def sent_again(got: AssistantMessage) -> list[dict[str, Any]]:
    stored = load_json(dump_json([UserMessage('x'), got, UserMessage('y')]))
    return body_for('gemini-2.5-flash', stored)['contents'][1]['parts']


def partial(path: str, *, more: bool = False, last: bool = False, **value: Any) -> dict[str, Any]:
    piece: dict[str, Any] = {'jsonPath': path, **value, **({'willContinue': True} if more else {})}
    return {'functionCall': {'partialArgs': [piece], **({} if last else {'willContinue': True})}}


BEGIN = {'functionCall': {'name': 'f', 'id': 'c', 'willContinue': True}, 'thoughtSignature': 'S'}
END: dict[str, Any] = {'functionCall': {}}


class TestArgumentsInPieces:
    @pytest.mark.parametrize(
        ('parts', 'args'),
        [
            ([END], {}),
            ([partial('$.a', stringValue='x', more=True), partial('$.a', stringValue='y'), END], {'a': 'xy'}),
            ([partial('$.a', stringValue='x', more=True), END], {'a': 'x'}),
            ([partial('$.a', stringValue='x'), partial('$.a', stringValue='y', last=True)], {'a': 'y'}),
            ([partial('$.n', numberValue=3), partial('$.b', boolValue=False), END], {'n': 3, 'b': False}),
            ([partial('$.z', nullValue='NULL_VALUE'), END], {'z': None}),
            (
                [partial('$.l[0].a', stringValue='p'), partial('$.l[1].a', numberValue=1), END],
                {'l': [{'a': 'p'}, {'a': 1}]},
            ),
            ([partial('$.m[0][0]', numberValue=1), partial('$.m[0][1]', numberValue=2), END], {'m': [[1, 2]]}),
            ([partial("$['a b']['it\\'s'][\"\\u00e4\"]", numberValue=1), END], {'a b': {"it's": {'ä': 1}}}),
        ],
    )
    def test_values_and_paths(self, parts: list[dict[str, Any]], args: dict[str, Any]) -> None:
        got = streamed(*pieces(BEGIN, *parts))
        assert got.parts == (ToolCallPart('f', args, 'c', {'id': 'c', 'thoughtSignature': 'S'}),)

    def test_calls_one_after_the_other_and_pieces_of_both_lengths(self) -> None:
        a = [
            partial('$.t', stringValue='x', more=True),
            partial('$.u', stringValue='1'),
            partial('$.t', stringValue='y'),
        ]
        got = streamed(*pieces(call('g', {}), BEGIN, *a, END, BEGIN, partial('$.t', stringValue='z'), END))
        assert [p.args for p in got.parts if isinstance(p, ToolCallPart)] == [{}, {'t': 'xy', 'u': '1'}, {'t': 'z'}]

    @pytest.mark.parametrize(
        'path',
        [
            '',
            '$',
            'a',
            '$.',
            '$..a',
            '$[0]',
            '$.l[5]',
            '$.*',
            '$[*]',
            '$.a[',
            '$.a[-1]',
            '$.s.t',
            '$.l.x',
            '$.' + 'a.' * 300,
        ],
    )
    def test_a_path_that_leads_nowhere_runs_nothing(self, path: str) -> None:
        known = [partial('$.s', stringValue='v'), partial('$.l[0]', numberValue=1)]
        with pytest.raises(ModelProtocolError, match="arguments of 'f'"):
            streamed(*pieces(BEGIN, *known, partial(path, stringValue='w'), END))

    @pytest.mark.parametrize('odd', ['x', [None], [{'jsonPath': 1}], [{'stringValue': 'x'}]])
    def test_pieces_that_are_none(self, odd: Any) -> None:
        part: dict[str, Any] = {'functionCall': {'partialArgs': odd, 'willContinue': True}}
        if odd == 'x':
            assert streamed(*pieces(BEGIN, part, END)).parts[0] == ToolCallPart(
                'f', {}, 'c', {'id': 'c', 'thoughtSignature': 'S'}
            )
            return
        with pytest.raises(ModelProtocolError):
            streamed(*pieces(BEGIN, part, END))

    def test_a_call_without_an_end_is_cut(self) -> None:
        for rest in ([], [BEGIN, END], [call('g', {})]):
            with pytest.raises(ModelProtocolError, match="'f' has no end"):
                streamed(*pieces(BEGIN, partial('$.a', stringValue='x'), *rest))

    def test_a_call_cut_off_by_the_limit_cannot_be_read_as_json(self) -> None:
        got = streamed(*pieces(BEGIN, partial('$.a', stringValue='x', more=True), finish='MAX_TOKENS'))
        (part,) = got.parts
        assert isinstance(part, ToolCallPart) and part.args == '{"a":"x"' and got.finish_reason == 'length'

    def test_a_call_the_model_got_wrong_is_not_shown(self) -> None:
        got = streamed(*pieces(BEGIN, partial('$.a', stringValue='x'), finish='MALFORMED_FUNCTION_CALL'))
        assert got.parts == () and got.finish_reason == 'other'

    def test_half_a_pair_in_each_piece(self) -> None:
        halves = [partial('$.a', stringValue='\ud83c', more=True), partial('$.a', stringValue='\udf78')]
        (part,) = streamed(*pieces(BEGIN, *halves, END)).parts
        assert isinstance(part, ToolCallPart) and part.args == {'a': '\U0001f378'}


class TestHowItEnds:
    @pytest.mark.parametrize(
        ('word', 'common'),
        [
            ('STOP', 'stop'),
            ('MAX_TOKENS', 'length'),
            *((w, 'content_filter') for w in 'SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII'.split()),
            *((w, 'content_filter') for w in ('IMAGE_SAFETY', 'MODEL_ARMOR')),
            *((w, 'other') for w in 'OTHER MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS'.split()),
            *((w, 'other') for w in ('NO_IMAGE', 'A_WORD_OF_TOMORROW')),
        ],
    )
    def test_every_word(self, word: str, common: str) -> None:
        for got in (
            plain(answer({'text': 'x'}, finish=word, finishMessage='so')),
            streamed(answer({'text': 'x'}, finish=None), answer(finish=word, finishMessage='so')),
        ):
            assert got.finish_reason == common
            assert got.provider_details == {'finish_reason': word, 'finish_message': 'so'}

    def test_a_filtered_prompt_has_no_candidates(self) -> None:
        feedback = {
            'blockReason': 'PROHIBITED_CONTENT',
            'blockReasonMessage': 'no',
            'safetyRatings': [{'blocked': True}],
        }
        data = {'promptFeedback': feedback, 'usageMetadata': {'promptTokenCount': 4, 'totalTokenCount': 4}}
        for got in (plain(data), streamed(data)):
            assert got.parts == () and got.finish_reason == 'content_filter' and got.usage.input_tokens == 4
            assert got.provider_details == {
                'block_reason': 'PROHIBITED_CONTENT',
                'block_message': 'no',
                'prompt_safety_ratings': [{'blocked': True}],
            }

    def test_a_candidate_without_content(self) -> None:
        got = plain({'candidates': [{'finishReason': 'SAFETY', 'index': 0, 'safetyRatings': [{'a': 1}]}]})
        assert got.parts == () and got.finish_reason == 'content_filter'
        assert got.provider_details == {'finish_reason': 'SAFETY', 'safety_ratings': [{'a': 1}]}

    def test_no_candidates_is_no_answer(self) -> None:
        nothing: list[Any] = [{}, {'candidates': []}, {'usageMetadata': {'totalTokenCount': 1}}]
        for data in nothing:
            with pytest.raises(ModelProtocolError, match='no candidates'):
                plain(data)

    def test_a_stream_without_a_reason_was_cut(self) -> None:
        for events in ([], [answer({'text': 'x'}, finish=None)]):
            with pytest.raises(ModelProtocolError, match='cut off'):
                streamed(*events)

    def test_counts_may_come_after_the_reason(self) -> None:
        late = {'usageMetadata': {'promptTokenCount': 9, 'totalTokenCount': 9}, 'modelVersion': 'm'}
        assert streamed(answer({'text': 'x'}), late).usage.input_tokens == 9


class TestArrays:
    def test_an_array_is_read_as_it_comes(self) -> None:
        events = pieces({'text': 'a"}]'}, {'text': 'b{\\'}, call('f', {'x': '}'}))
        body = ('[' + '\r\n,'.join(map(json.dumps, events)) + ']').encode()
        for size in (1, 3, len(body)):
            cut = [body[at : at + size] for at in range(0, len(body), size)]
            got = read_bytes(cut, 'application/json; charset=UTF-8', array=True)
            assert got.parts == (TextPart('a"}]b{\\'), ToolCallPart('f', {'x': '}'}))

    def test_an_array_where_one_answer_was_asked_for(self) -> None:
        assert plain(pieces({'text': 'a'}, {'text': 'b'})).parts == (TextPart('ab'),)
        with pytest.raises(ModelProtocolError, match='cut off'):
            plain([answer({'text': 'x'}, finish=None)])

    def test_one_answer_where_an_array_was_asked_for(self) -> None:
        body = json.dumps(answer({'text': 'x'})).encode()
        assert read_bytes([body], 'application/json', array=True).parts == (TextPart('x'),)

    @pytest.mark.parametrize('body', [b'', b'[]', b'[{"candidates": [', b'nonsense', b'[nonsense]'])
    def test_what_is_no_array(self, body: bytes) -> None:
        with pytest.raises(ModelProtocolError):
            read_bytes([body], 'application/json', array=True)


QUOTA: Any = {
    'error': {
        'code': 429,
        'message': 'quota',
        'status': 'RESOURCE_EXHAUSTED',
        'details': [{'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '34.4s'}],
    }
}


class TestErrors:
    @pytest.mark.parametrize('wrap', [False, True])
    def test_an_error_where_an_answer_should_be(self, wrap: bool) -> None:
        data = [QUOTA] if wrap else QUOTA
        for ask in (plain, streamed):
            with pytest.raises(ModelHTTPError) as caught:
                ask(data)
            error = caught.value
            assert (error.status, error.type, error.code, error.retry_after) == (429, 'RESOURCE_EXHAUSTED', '429', 34.4)

    def test_an_error_in_a_stream(self) -> None:
        with pytest.raises(ModelHTTPError, match='overloaded') as caught:
            streamed(answer({'text': 'x'}, finish=None), {'error': {'code': 503, 'message': 'overloaded'}})
        assert caught.value.status == 503

    @pytest.mark.parametrize(
        'odd',
        [
            None,
            'text',
            7,
            {'candidates': 'x'},
            {'candidates': [{'content': {'parts': 'x'}, 'finishReason': 'STOP'}]},
            answer('x'),  # pyright: ignore[reportArgumentType]
            answer({'functionCall': 'f'}),
            answer({'functionCall': {'args': {'x': 1}}}),
            answer({'functionCall': {'name': 'f', 'args': [1]}}),
            answer({'inlineData': {'mimeType': 'image/png', 'data': 'not base64!'}}),
            answer({'inlineData': {'mimeType': 'image/png'}}),
            answer({'fileData': {}}),
            answer({'text': 'x', 'thought': True, 'thoughtSignature': {}}),
        ],
    )
    def test_what_is_no_answer(self, odd: Any) -> None:
        for ask in (plain, streamed):
            with pytest.raises(ModelError):
                ask(odd)


def test_usage_sums_what_gemini_counts_apart() -> None:
    data = answer({'text': 'x'})
    data['usageMetadata'] = {
        'promptTokenCount': 100,
        'toolUsePromptTokenCount': 40,
        'candidatesTokenCount': 20,
        'thoughtsTokenCount': 7,
        'cachedContentTokenCount': 60,
        'totalTokenCount': 167,
        'promptTokensDetails': [{'modality': 'TEXT', 'tokenCount': 90}, {'modality': 'AUDIO', 'tokenCount': 10}],
        'serviceTier': 'flex',
        'trafficType': 'ON_DEMAND',
    }
    got = plain(data)
    usage = got.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (140, 27, 167)
    assert (usage.cache_read_tokens, usage.reasoning_tokens) == (60, 7)
    assert usage.details == {'tool_use_prompt_tokens': 40, 'input_audio_tokens': 10}
    assert got.provider_details == {'finish_reason': 'STOP', 'service_tier': 'flex', 'traffic_type': 'ON_DEMAND'}


def test_the_price_is_that_of_googles_own_count() -> None:
    data = answer({'text': 'x'})
    data['usageMetadata'] = {
        'promptTokenCount': 1000,
        'toolUsePromptTokenCount': 400,
        'candidatesTokenCount': 200,
        'thoughtsTokenCount': 70,
        'cachedContentTokenCount': 600,
        'totalTokenCount': 1670,
    }
    data['modelVersion'] = 'gemini-2.5-flash'
    usage = plain(data).usage
    own = genai_prices.extract_usage(data, provider_id='google').calc_price().total_price
    assert own > 0
    for provider in ('google', 'google-vertex'):
        assert cost_of([Spend(provider, 'gemini-2.5-flash', usage)]) == own


def test_the_last_count_of_a_stream_is_the_whole_one() -> None:
    first, last = answer({'text': 'x'}, finish=None), answer()
    first['usageMetadata'] = {'promptTokenCount': 9, 'thoughtsTokenCount': 5, 'totalTokenCount': 14, 'trafficType': 'T'}
    usage = streamed(first, last, {'usageMetadata': {'trafficType': 'U'}}).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (3, 2, 5)


def test_logprobs_of_all_pieces() -> None:
    def said(token: str) -> dict[str, Any]:
        return {'chosenCandidates': [{'token': token}], 'topCandidates': [{'candidates': [{'token': token}]}]}

    got = streamed(
        answer({'text': 'a'}, finish=None, logprobsResult=said('a')),
        answer({'text': 'b'}, logprobsResult=said('b'), avgLogprobs=-0.5),
    )
    assert got.provider_details is not None
    assert got.provider_details['logprobs']['chosenCandidates'] == [{'token': 'a'}, {'token': 'b'}]
    assert len(got.provider_details['logprobs']['topCandidates']) == 2
    assert got.provider_details['avg_logprobs'] == -0.5


WEB: Any = {'web': {'uri': 'https://a.test/', 'title': 'A'}}
FILE: Any = {'retrievedContext': {'uri': 'files/x', 'title': 'x', 'text': 'quoted'}}


def grounded(*segments: dict[str, Any], chunks: Any = (WEB, FILE)) -> dict[str, Any]:
    supports = [{'segment': s, 'groundingChunkIndices': [n % len(chunks)]} for n, s in enumerate(segments)]
    return {'groundingChunks': list(chunks), 'groundingSupports': supports}


def spans(got: AssistantMessage) -> list[str | None]:
    return [
        part.content[c.start : c.end] if c.start is not None else None
        for part in got.parts
        if isinstance(part, TextPart)
        for c in part.citations
    ]


class TestCitations:
    def test_bytes_become_characters(self) -> None:
        text = 'Grüße \U0001f378 an 你好. Ende'
        start, end = len('Grüße '.encode()), len('Grüße \U0001f378 an 你好.'.encode())
        metadata = grounded({'startIndex': start, 'endIndex': end, 'text': '\U0001f378 an 你好.'})
        got = plain(answer({'text': text}, groundingMetadata=metadata))
        (part,) = got.parts
        assert isinstance(part, TextPart)
        assert part.citations == (
            Citation(
                'https://a.test/',
                'A',
                None,
                6,
                14,
                {'groundingChunk': WEB, 'groundingSupport': metadata['groundingSupports'][0]},
            ),
        )
        assert part.content[6:14] == '\U0001f378 an 你好.'
        assert got.provider_details is not None and got.provider_details['grounding_metadata'] == metadata

    def test_in_a_stream_offsets_run_over_all_pieces(self) -> None:
        said = [{'text': 'Wie sch'}, {'text': 'ön. '}, {'text': 'Ja.', 'thoughtSignature': 'S'}]
        metadata = grounded({'endIndex': 12, 'text': 'Wie schön.'}, {'startIndex': 13, 'endIndex': 16, 'text': 'Ja.'})
        events = [
            *(answer(p, finish=None) for p in said),
            answer(groundingMetadata={}),
            answer(groundingMetadata=metadata),
        ]
        got = streamed(*events)
        assert spans(got) == ['Wie schön.', 'Ja.']
        assert [len(p.citations) for p in got.parts if isinstance(p, TextPart)] == [1, 1]

    def test_an_offset_within_its_part(self) -> None:
        metadata = grounded({'partIndex': 2, 'startIndex': 4, 'endIndex': 7, 'text': 'two'})
        parts = [{'text': 'Not two'}, {'text': 'hm', 'thought': True}, {'text': 'two two'}]
        got = plain(answer(*parts, groundingMetadata=metadata))
        found = [p.citations for p in got.parts if isinstance(p, TextPart)]
        assert found[0] == () and (found[1][0].start, found[1][0].end) == (4, 7)

    def test_an_offset_that_does_not_fit_is_found_by_its_text(self) -> None:
        metadata = grounded({'startIndex': 1, 'endIndex': 3, 'text': 'text'}, {'endIndex': 4, 'text': 'unsaid'})
        assert spans(plain(answer({'text': 'some text'}, groundingMetadata=metadata))) == ['text', None]

    def test_an_offset_without_a_text(self) -> None:
        metadata = grounded({'startIndex': 5, 'endIndex': 900}, {'startIndex': 700, 'endIndex': 900}, {})
        assert spans(plain(answer({'text': 'some täxt'}, groundingMetadata=metadata))) == ['täxt', None, None]

    def test_sources_nothing_is_said_about(self) -> None:
        got = plain(answer({'text': 'x'}, groundingMetadata={'groundingChunks': [WEB, FILE]}))
        (part,) = got.parts
        assert isinstance(part, TextPart)
        assert [(c.url, c.title, c.cited_text, c.start) for c in part.citations] == [
            ('https://a.test/', 'A', None, None),
            ('files/x', 'x', 'quoted', None),
        ]

    @pytest.mark.parametrize('key', ['citations', 'citationSources'])
    def test_recited_sources(self, key: str) -> None:
        source: Any = {'startIndex': 3, 'endIndex': 6, 'uri': 'https://b.test', 'license': 'MIT'}
        got = plain(answer({'text': 'äb cd'}, citationMetadata={key: [source]}))
        (part,) = got.parts
        assert isinstance(part, TextPart)
        assert part.citations == (Citation('https://b.test', None, None, 2, 5, source),)

    @pytest.mark.parametrize('odd', [{'groundingSupports': 'x'}, {'groundingChunks': [None, 3]}, 7, []])
    def test_odd_metadata_is_kept_and_harms_nothing(self, odd: Any) -> None:
        assert plain(answer({'text': 'x'}, groundingMetadata=odd)).parts[0].kind == 'text'

    def test_without_text_there_is_nothing_to_cite(self) -> None:
        assert plain(answer(call('f', {}), groundingMetadata=grounded({'endIndex': 1}))).parts[0].kind == 'tool_call'

    def test_many_of_them_take_no_time(self) -> None:
        text = 'wörd ' * 20_000
        segments = [{'startIndex': 6 * n, 'endIndex': 6 * n + 5, 'text': 'nowhere'} for n in range(3_000)]
        got = plain(answer({'text': text}, groundingMetadata=grounded(*segments)))
        assert spans(got) == [None] * 3_000


class TestHalves:
    def test_half_a_pair_at_the_edge_of_a_piece(self) -> None:
        raw = [b'{"text": "a\\ud83c"}', b'{"text": "\\udf78b \\ud83c"}', b'{"text": "!"}']
        events = [b'data: {"candidates": [{"content": {"parts": [%s]}}]}\n\n' % part for part in raw]
        end = sse_body([answer()], done=False)
        got = read_bytes([*events, end])
        assert got.parts == (TextPart('a\U0001f378b \ufffd!'),)

    def test_half_a_pair_at_the_end(self) -> None:
        for last in (answer(), answer({'text': 'x', 'thought': True}), answer({'text': '', 'thoughtSignature': 'S'})):
            raw = b'data: {"candidates": [{"content": {"parts": [{"text": "a\\ud83c"}]}}]}\n\n'
            got = read_bytes([raw, sse_body([last], done=False)])
            assert ''.join(p.content for p in got.parts if isinstance(p, TextPart)) == 'a\ufffd'

    def test_half_a_pair_in_arguments_and_details(self) -> None:
        raw = (
            b'{"candidates": [{"finishReason": "STOP", "finishMessage": "\\ud83c", "content": {"parts": '
            b'[{"functionCall": {"name": "f", "args": {"text": "\\ud83c", "t": "\\ud83c\\udf78"}}}]}}]}'
        )
        for got in (read_bytes([raw], 'application/json'), read_bytes([b'data: ' + raw + b'\n\n'])):
            assert got.parts == (ToolCallPart('f', {'text': '\ufffd', 't': '\U0001f378'}),)
            assert got.provider_details == {'finish_reason': 'STOP', 'finish_message': '\ufffd'}
            dump_json([got])

    def test_numbers_beyond_all_bounds(self) -> None:
        raw = (
            b'{"candidates": [{"finishReason": "STOP", "avgLogprobs": 1e999, "content": {"parts": ['
            b'{"functionCall": {"name": "f", "args": {"n": 1e400, "t": "Infinity"}}}, {"hologram": {"depth": -1e400}}]}}]}'
        )
        got = read_bytes([raw], 'application/json')
        first, second = got.parts
        assert isinstance(first, ToolCallPart) and first.args == '{"n":Infinity,"t":"Infinity"}'
        assert isinstance(second, BuiltinToolReturnPart) and second.content == {'depth': None}
        assert got.provider_details == {'finish_reason': 'STOP', 'avg_logprobs': None}
        dump_json([got])


def test_a_call_is_one_whatever_unknown_field_stands_before_it() -> None:
    part = {'newField': {'a': 1}, 'text': None, 'functionCall': {'name': 'a_b', 'args': {'x': 1}}}
    events = [answer(part), answer({'newField': None, 'text': 'hi'})]
    got = read_bytes([sse_body(events, done=False)])
    assert [(p.kind, getattr(p, 'args', '')) for p in got.parts] == [('tool_call', {'x': 1}), ('text', '')]
