"""What answers say, as a stream and plainly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_graph.errors import ModelHTTPError, ModelProtocolError
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    FilePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from agent_graph.usage import Usage
from tests.providers.anthropic.made import call, events, plain, read, text, thinking
from tests.providers.loopback import event

SEARCH: dict[str, Any] = {'type': 'server_tool_use', 'id': 'srvtoolu_1', 'name': 'web_search', 'input': {'query': 'x'}}
FOUND: dict[str, Any] = {
    'type': 'web_search_tool_result',
    'tool_use_id': 'srvtoolu_1',
    'content': [{'type': 'web_search_result', 'url': 'https://a.test', 'title': 'A', 'encrypted_content': 'Eo=='}],
}
CITED: dict[str, Any] = {
    'type': 'web_search_result_location',
    'url': 'https://a.test',
    'title': 'A',
    'cited_text': 'said',
    'encrypted_index': 'E==',
}


def both(*blocks: dict[str, Any], **fields: Any) -> AssistantMessage:
    """The answer, which has to be the same either way (but that a stream keeps arguments as text)."""
    plainly, watched = read(plain(*blocks, **fields)), read(events(*blocks, **fields))
    assert isinstance(plainly, AssistantMessage) and isinstance(watched, AssistantMessage), (plainly, watched)
    as_objects = [
        ToolCallPart(p.tool_name, json.loads(str(p.args) or '{}'), p.tool_call_id, p.provider_details)
        if isinstance(p, ToolCallPart)
        else p
        for p in watched.parts
    ]
    assert as_objects == list(plainly.parts)
    assert (watched.finish_reason, watched.usage) == (plainly.finish_reason, plainly.usage)
    return plainly


def test_texts_stay_apart_and_thinking_is_sealed() -> None:
    got = both(thinking('hm'), text('one'), text('two \U0001f600'))
    assert got.parts == (ThinkingPart('hm', 'sealed=='), TextPart('one'), TextPart('two \U0001f600'))
    assert (got.finish_reason, got.model_name, got.provider_response_id) == ('stop', 'claude-made-1', 'msg_1')


def test_thinking_without_a_word_is_kept_for_its_seal() -> None:
    assert both(thinking(''), text('x')).parts[0] == ThinkingPart('', 'sealed==')
    assert both(thinking('', ''), text('x'), text('')).parts == (TextPart('x'),)


def test_sealed_thinking() -> None:
    block: dict[str, Any] = {'type': 'redacted_thinking', 'data': 'EmwK/+=='}
    assert both(block, text('x')).parts[0] == ThinkingPart('', None, block)


def test_calls() -> None:
    got = both(text('wait'), call('a', 'f', x=[1, {'y': None}]), call('b', 'g'), stop='tool_use')
    assert got.parts[1:] == (ToolCallPart('f', {'x': [1, {'y': None}]}, 'a'), ToolCallPart('g', {}, 'b'))
    assert got.finish_reason == 'tool_calls'


def test_what_else_a_block_says_is_kept() -> None:
    made = [{**call('a', 'f', x=1), 'caller': {'type': 'direct'}}, text('x', mood='good'), {**thinking('t'), 'age': 1}]
    got = both(*made)
    assert [p.provider_details for p in got.parts] == [{'caller': {'type': 'direct'}}, {'mood': 'good'}, {'age': 1}]


def test_arguments_that_come_with_the_beginning() -> None:
    """As servers send them that cannot stream arguments."""
    made = [e for e in events(call('a', 'f', x=1)) if e['type'] != 'content_block_delta']
    made[2]['content_block']['input'] = {'x': 1}
    got = read(made)
    assert isinstance(got, AssistantMessage) and got.parts == (ToolCallPart('f', {'x': 1}, 'a'),)


def test_names_come_back_as_the_tools_own() -> None:
    for made in (plain(call('a', 'a_b')), events(call('a', 'a_b'))):
        got = read(made, back={'a_b': 'a.b'})
        assert isinstance(got, AssistantMessage) and isinstance(call_part := got.parts[0], ToolCallPart)
        assert call_part.tool_name == 'a.b'


def test_the_providers_own_tools_are_kept_whole() -> None:
    fields: dict[str, Any] = {'caller': {'type': 'direct'}}
    got = both({**SEARCH, **fields}, FOUND, text('x'))
    called, returned = got.parts[:2]
    assert called == BuiltinToolCallPart('server_tool_use', {'query': 'x'}, 'srvtoolu_1', {**SEARCH, **fields})
    assert returned == BuiltinToolReturnPart('web_search_tool_result', FOUND['content'], 'srvtoolu_1', FOUND)


@pytest.mark.parametrize(
    'block',
    [
        {'type': 'mcp_tool_use', 'id': 'mcptoolu_1', 'name': 'ask', 'input': {'q': 1}, 'server_name': 's'},
        {'type': 'fallback', 'from': {'model': 'a'}, 'to': {'model': 'b'}, 'trigger': {'type': 'refusal'}},
        {'type': 'compaction', 'content': 'so far', 'encrypted_content': 'E=='},
        {'type': 'something_new', 'of': ['later']},
    ],
)
def test_blocks_of_any_kind_are_kept_whole(block: dict[str, Any]) -> None:
    (part,) = both(block).parts
    assert isinstance(part, BuiltinToolCallPart)
    assert (part.tool_name, part.provider_details) == (block['type'], block)


def test_the_model_that_stood_in_is_the_one_that_answered() -> None:
    block = {'type': 'fallback', 'from': {'model': 'claude-a'}, 'to': {'model': 'claude-b'}, 'trigger': {}}
    assert both(block, text('x')).model_name == 'claude-b'


def test_a_summary_that_comes_in_pieces() -> None:
    made = events({'type': 'compaction', 'content': None, 'encrypted_content': None}, text('x'))
    delta = {'type': 'compaction_delta', 'content': 'so far', 'encrypted_content': 'E=='}
    made.insert(3, {'type': 'content_block_delta', 'index': 0, 'delta': delta})
    got = read(made)
    assert isinstance(got, AssistantMessage)
    kept = {'type': 'compaction', 'content': 'so far', 'encrypted_content': 'E=='}
    assert got.parts[0].provider_details == kept


def test_a_file_its_code_made() -> None:
    block: dict[str, Any] = {'type': 'container_upload', 'file_id': 'file_1'}
    (part,) = both(block).parts
    assert part == FilePart('application/octet-stream', file_id='file_1', provider_details=block)


def test_citations() -> None:
    page = {
        'type': 'page_location',
        'cited_text': 'p',
        'document_index': 0,
        'document_title': 'D',
        'start_page_number': 1,
    }
    search = {'type': 'search_result_location', 'cited_text': 's', 'source': 'https://s.test', 'title': None}
    (part,) = both(text('so it is', citations=[CITED, page, search])).parts
    assert isinstance(part, TextPart) and part.content == 'so it is'
    assert [(c.url, c.title, c.cited_text) for c in part.citations] == [
        ('https://a.test', 'A', 'said'),
        (None, 'D', 'p'),
        ('https://s.test', None, 's'),
    ]
    assert [c.provider_details for c in part.citations] == [CITED, page, search]


@pytest.mark.parametrize(
    ('word', 'reason'),
    [
        ('end_turn', 'stop'),
        ('stop_sequence', 'stop'),
        ('max_tokens', 'length'),
        ('model_context_window_exceeded', 'length'),
        ('tool_use', 'tool_calls'),
        ('refusal', 'refusal'),
        ('compaction', 'other'),
        ('a_new_word', 'other'),
    ],
)
def test_stop_reasons(word: str, reason: str) -> None:
    got = both(text('x'), stop=word)
    assert got.finish_reason == reason
    assert (got.provider_details or {})['finish_reason'] == word


def test_a_refusal_says_why() -> None:
    details = {'type': 'refusal', 'category': 'cyber', 'explanation': 'not that'}
    got = both(stop='refusal', stop_details=details)
    assert got.provider_details == {
        'finish_reason': 'refusal',
        'stop_details': details,
        'refusal_reason': 'not that',
    }


def test_the_stop_sequence_and_the_container_are_told() -> None:
    got = both(text('x'), stop='stop_sequence', stop_sequence='END', container={'id': 'c1'})
    details = got.provider_details or {}
    assert (details['stop_sequence'], details['container']) == ('END', {'id': 'c1'})


class TestUsage:
    def test_all_counts(self) -> None:
        usage = {
            'input_tokens': 5,
            'cache_read_input_tokens': 100,
            'cache_creation_input_tokens': 20,
            'cache_creation': {'ephemeral_5m_input_tokens': 0, 'ephemeral_1h_input_tokens': 20},
            'output_tokens': 7,
            'output_tokens_details': {'thinking_tokens': 3},
            'server_tool_use': {'web_search_requests': 2},
            'service_tier': 'standard',
        }
        got = read(plain(text('x'), usage=usage))
        assert isinstance(got, AssistantMessage)
        details = {'ephemeral_1h_input_tokens': 20, 'web_search_requests': 2}
        assert got.usage == Usage(0, 0, 125, 7, 132, 100, 20, 3, details)
        assert (got.provider_details or {})['service_tier'] == 'standard'

    def test_what_is_told_last_counts_and_the_rest_stays(self) -> None:
        made = events(text('x'))
        made[0]['message']['usage'] = {'input_tokens': 600, 'cache_read_input_tokens': 9, 'output_tokens': 1}
        made[-2]['usage'] = {'input_tokens': 28, 'output_tokens': 50, 'cache_read_input_tokens': None}
        got = read(made)
        assert isinstance(got, AssistantMessage)
        assert (got.usage.input_tokens, got.usage.cache_read_tokens, got.usage.output_tokens) == (37, 9, 50)

    def test_a_stream_cut_short_has_used_what_it_told(self) -> None:
        import asyncio

        from agent_graph.model import ResponseBuilder
        from agent_graph_providers.anthropic.answer import Answer
        from agent_graph_providers.wire.errors import Asked

        async def main() -> int:
            out = ResponseBuilder()
            answer = Answer(out, Asked('a', 'm', '', None, ''), back={})
            for one in events(text('x'))[:3]:
                await answer.chunk(one)
            answer.settle()
            return out.usage.input_tokens

        assert asyncio.run(main()) == 3


class TestStreams:
    def test_unknown_events_and_pings_say_nothing(self) -> None:
        made = [{'type': 'brand_new', 'x': 1}, *events(text('hello'))]
        made.insert(4, {'type': 'ping'})
        made.insert(5, {'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'brand_new_delta', 'x': 1}})
        got = read(made)
        assert isinstance(got, AssistantMessage) and got.parts == (TextPart('hello'),)

    @pytest.mark.parametrize(
        ('kind', 'status'), [('overloaded_error', 529), ('rate_limit_error', 429), ('api_error', 500), ('new_error', 0)]
    )
    def test_an_error_within_a_stream(self, kind: str, status: int) -> None:
        error = {'type': 'error', 'error': {'type': kind, 'message': 'Overloaded'}, 'request_id': 'req_1'}
        got = read([*events(text('hello'))[:4], error])
        assert isinstance(got, ModelHTTPError) and 'Overloaded' in str(got)
        assert (got.status, got.type, got.body) == (status, kind, error)

    def test_an_error_in_place_of_an_answer(self) -> None:
        got = read({'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}})
        assert isinstance(got, ModelHTTPError) and got.status == 529

    def test_a_stream_without_a_stop_reason_was_cut(self) -> None:
        made = events(text('hello'))
        for end in range(1, len(made) - 2):
            assert isinstance(read(made[:end]), ModelProtocolError), made[:end]
        assert isinstance(read([*made[:-2], made[-1]]), ModelProtocolError)
        assert isinstance(read([*made[:-2], event('[DONE]')]), ModelProtocolError)  # pyright: ignore

    def test_the_last_event_may_be_missing(self) -> None:
        got = read(events(text('hello'))[:-1])
        assert isinstance(got, AssistantMessage) and got.parts == (TextPart('hello'),)

    def test_a_call_that_did_not_end_is_never_whole(self) -> None:
        made = events(call('a', 'f', x='long enough'))
        half = [e for e in made if e['type'] != 'content_block_stop'][:5]
        got = read([*half, *made[-2:]])
        assert isinstance(got, ModelProtocolError) and "'f' (id 'a') did not end" in str(got)

    def test_a_call_of_which_nothing_but_the_beginning_came(self) -> None:
        made = [
            e for e in events(call('a', 'f', x=1)) if e['type'] not in ('content_block_stop', 'content_block_delta')
        ]
        assert isinstance(read(made), ModelProtocolError)
        again = events(call('b', 'f', x=2))
        got = read([*made[:3], *again[2:]])  # another begins under its index
        assert isinstance(got, ModelProtocolError) and "(id 'a') did not end" in str(got)

    def test_a_call_that_the_limit_cut_off_is_told(self) -> None:
        made = events(call('a', 'f', x='long enough'), stop='max_tokens')
        got = read([*made[:5], *made[-2:]])
        assert isinstance(got, AssistantMessage) and got.finish_reason == 'length'
        assert got.parts == (ToolCallPart('f', '{"x', 'a'),)

    def test_interleaved_calls(self) -> None:
        one, two = events(call('a', 'f', x=1)), events(call('b', 'g', y={}))
        again = [{**e, 'index': 1} if 'index' in e else e for e in two]
        made = [*one[:3], again[2], *(e for pair in zip(one[3:6], again[3:6], strict=True) for e in pair)]
        rest = [e for e in [*one[6:], *again[6:]] if e['type'] == 'content_block_delta']
        got = read([*made, *rest, *one[-2:]])
        assert isinstance(got, AssistantMessage)
        assert got.parts == (ToolCallPart('f', '{"x": 1}', 'a'), ToolCallPart('g', '{"y": {}}', 'b'))

    def test_an_index_used_for_every_block(self) -> None:
        made = events(text('so'), call('a', 'f', x=1), call('b', 'g'))
        got = read([{**e, 'index': 0} if 'index' in e else e for e in made])
        assert isinstance(got, AssistantMessage)
        assert got.parts == (TextPart('so'), ToolCallPart('f', '{"x": 1}', 'a'), ToolCallPart('g', '', 'b'))

    def test_no_index_and_no_end_of_blocks(self) -> None:
        made = [
            {k: v for k, v in e.items() if k != 'index'}
            for e in events(call('a', 'f', x=1), call('b', 'g', y=2))
            if e['type'] != 'content_block_stop'
        ]
        got = read(made)
        assert isinstance(got, AssistantMessage)
        assert got.parts == (ToolCallPart('f', '{"x": 1}', 'a'), ToolCallPart('g', '{"y": 2}', 'b'))

    def test_a_piece_that_belongs_nowhere(self) -> None:
        made = events(call('a', 'f', x=1))
        made[4]['index'] = 7
        got = read(made)
        assert isinstance(got, ModelProtocolError) and 'block 7 fits nothing' in str(got)

    def test_a_text_piece_for_a_call(self) -> None:
        made = events(call('a', 'f', x=1))
        made[4]['delta'] = {'type': 'text_delta', 'text': 'x'}
        got = read(made)
        assert isinstance(got, ModelProtocolError) and "tool_use 'f' (id 'a')" in str(got)

    def test_a_text_that_goes_on_after_another_block(self) -> None:
        made = events(text('hello'))
        made.insert(4, {'type': 'content_block_start', 'index': 1, 'content_block': text('')})
        assert isinstance(read(made), ModelProtocolError)

    @pytest.mark.parametrize('size', [1, 2, 5])
    def test_an_emoji_cut_in_the_middle(self, size: int) -> None:
        """The two halves of an escape in two events, in texts, thinking and arguments."""
        half, other = '"\\ud83c"', '"\\udf78 x"'

        def two(kind: str, key: str) -> list[str]:
            delta = '{"type":"content_block_delta","index":0,"delta":{"type":"%s","%s":%s}}'
            return [delta % (kind, key, half), delta % (kind, key, other)]

        for block, kind, key in (
            (text(''), 'text_delta', 'text'),
            (thinking('', ''), 'thinking_delta', 'thinking'),
        ):
            made = events(block)
            raw = [json.dumps(e) for e in made[:3]] + two(kind, key) + [json.dumps(e) for e in made[3:]]
            data = b''.join(event(e) for e in raw)
            got = read([data[i : i + size] for i in range(0, len(data), size)])
            assert isinstance(got, AssistantMessage) and getattr(got.parts[0], 'content', '') == '\U0001f378 x'

    def test_an_emoji_cut_in_the_middle_of_arguments(self) -> None:
        made = [json.dumps(e) for e in events(call('a', 'f'))]
        delta = '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"%s"}}'
        made[3:4] = [delta % '{\\"t\\": \\"\\ud83c', delta % '\\udf78\\"}']
        got = read([event(e) for e in made])
        assert isinstance(got, AssistantMessage) and got.parts == (ToolCallPart('f', '{"t": "\U0001f378"}', 'a'),)

    def test_a_server_that_streams_although_it_was_not_asked_to(self) -> None:
        got = read([b''.join(event(e, e['type']) for e in events(text('hello')))], 'application/json')
        assert isinstance(got, AssistantMessage) and got.parts == (TextPart('hello'),)


@pytest.mark.parametrize(
    'made',
    [
        {},
        {'type': 'message'},
        plain(stop='end_turn', content=None),  # pyright: ignore
        plain({'type': 'text', 'text': 5}),
        plain({'text': 'x'}),
        plain({'type': 'tool_use', 'id': 'a', 'name': 'f', 'input': 'x'}),
        plain({'type': 'tool_use', 'id': 'a', 'name': '', 'input': {}}),
        plain(text('x', citations={'a': 1})),
        plain(text('x', citations=['a'])),
    ],
)
def test_answers_that_cannot_be_read(made: dict[str, Any]) -> None:
    assert isinstance(read(made), ModelProtocolError)
