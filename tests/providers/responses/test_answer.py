"""Answers, plain and streamed: what they mean, how they end, and streams that are badly made."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent_graph.errors import ModelError, ModelHTTPError, ModelProtocolError
from agent_graph.events import PartDeltaEvent, PartEndEvent, PartStartEvent, ResponseRestarted
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    Citation,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from agent_graph_providers.responses import ResponsesModel
from tests.providers.loopback import Loopback, json_reply, sse_reply
from tests.providers.responses.made import (
    KEY,
    answer,
    ask,
    call,
    event_stream,
    message,
    reasoning,
    response,
)
from tests.providers.responses.test_items import CITED, CODE, IMAGE, LISTED, MCP, NEWEST, NOTE, SEARCH

ITEMS: list[dict[str, Any]] = [
    LISTED,
    reasoning('one', 'two'),
    SEARCH,
    message('hello ', CITED, phase='commentary'),
    reasoning(ident='rs_2'),
    CODE,
    MCP,
    IMAGE,
    call('f', '{"x": 1}', 'a', ident='fc_1'),
    call('g', '{}', 'b', ident='fc_2'),
    NEWEST,
]


def good(whole: Any, **kwargs: Any) -> AssistantMessage:
    got = answer(whole, **kwargs)
    assert isinstance(got, AssistantMessage), got
    return got


def test_an_answer_is_the_same_whoever_watches() -> None:
    whole = response(ITEMS)
    plainly, watched = good(whole), good(whole, watched=True)
    assert plainly == watched
    assert good(whole, watched=True, split=1) == plainly
    kinds = [p.kind for p in plainly.parts]
    assert kinds == [
        'builtin_tool_call',
        'thinking',
        'thinking',
        'builtin_tool_call',
        'text',
        'text',
        'thinking',
        *['builtin_tool_call', 'builtin_tool_return'] * 2,
        'builtin_tool_call',
        'file',
        'tool_call',
        'tool_call',
        'builtin_tool_call',
    ]
    assert [p.tool_name for p in plainly.parts if isinstance(p, BuiltinToolCallPart)] == [
        i['type'] for i in ITEMS if i['type'] not in ('reasoning', 'message', 'function_call')
    ]
    assert plainly.finish_reason == 'tool_calls'


def test_details() -> None:
    got = good(response([reasoning(), message('x')], service_tier='flex', usage={'input_tokens': 1, 'cost': 0.5}))
    assert got.provider_details == {
        'api': 'responses',
        'finish_reason': 'completed',
        'service_tier': 'flex',
        'cost': 0.5,
        'reasoning_items': 1,
    }
    assert (got.provider_name, got.model_name, got.provider_response_id) == ('openai', 'm-2025', 'resp_1')


def test_usage() -> None:
    usage = {
        'input_tokens': 100,
        'input_tokens_details': {'cached_tokens': 60, 'cache_write_tokens': 20, 'audio_tokens': 5},
        'output_tokens': 50,
        'output_tokens_details': {'reasoning_tokens': 40},
        'total_tokens': 150,
    }
    got = good(response([message('x')], usage=usage)).usage
    assert (got.input_tokens, got.output_tokens, got.total_tokens) == (100, 50, 150)
    assert (got.cache_read_tokens, got.cache_write_tokens, got.reasoning_tokens) == (60, 20, 40)
    assert got.details == {'input_audio_tokens': 5}
    assert good(response([message('x')], usage=None)).usage.total_tokens == 0


@pytest.mark.parametrize('watched', [False, True])
def test_citations(watched: bool) -> None:
    file: dict[str, Any] = {'type': 'file_citation', 'file_id': 'f', 'filename': 'a.txt', 'index': 3}
    place: dict[str, Any] = {
        'type': 'container_file_citation',
        'file_id': 'f',
        'filename': 'b.png',
        'start_index': 1,
        'end_index': 2,
    }
    block = {'type': 'output_text', 'text': 'so', 'annotations': [NOTE, file, place]}
    [part] = good(response([message(block)]), watched=watched).parts
    assert isinstance(part, TextPart)
    assert part.citations == (
        Citation('https://e.example', 'E', None, 0, 2, NOTE),
        Citation(None, 'a.txt', None, None, None, file),
        Citation(None, 'b.png', None, 1, 2, place),
    )


def test_log_probabilities_are_kept_when_they_were_asked_for() -> None:
    tokens = [{'token': 'x', 'logprob': -0.1}]
    whole = response([message({'type': 'output_text', 'text': 'x', 'annotations': [], 'logprobs': tokens})])
    assert 'logprobs' not in (good(whole).provider_details or {})
    got = good(whole, watched=True, settings={'logprobs': True})
    assert (got.provider_details or {})['logprobs'] == {'content': tokens}


@pytest.mark.parametrize('watched', [False, True])
@pytest.mark.parametrize(
    ('reason', 'finish'),
    [('max_output_tokens', 'length'), ('content_filter', 'content_filter'), ('of_next_year', 'other')],
)
def test_incomplete(reason: str, finish: str, watched: bool) -> None:
    got = good(response([message('half', status='incomplete')], reason=reason), watched=watched)
    assert got.finish_reason == finish
    details = got.provider_details or {}
    assert (details['finish_reason'], details['incomplete_reason']) == ('incomplete', reason)


@pytest.mark.parametrize('watched', [False, True])
def test_refusals(watched: bool) -> None:
    blocks: list[dict[str, Any]] = [
        {'type': 'output_text', 'text': 'Hm. ', 'annotations': []},
        {'type': 'refusal', 'refusal': 'I will not.'},
    ]
    got = good(response([message(*blocks)]), watched=watched)
    assert (got.refusal, got.finish_reason) == ('I will not.', 'refusal')
    assert [p.content for p in got.parts if isinstance(p, TextPart)] == ['Hm. ']


ERROR = {'code': 'rate_limit_exceeded', 'message': 'Slow down.'}


@pytest.mark.parametrize(
    ('told', 'code', 'status'),
    [
        (response([], status='failed', error=ERROR), 'rate_limit_exceeded', 0),
        (response([message('half')], status='failed'), 'failed', 0),
        (response([], status='cancelled'), 'cancelled', 0),
        ({'error': {'code': 429, 'message': 'Slow down.'}}, '429', 429),
        ({'message': 'no such thing', 'code': 404}, '404', 404),
    ],
)
def test_failures_in_an_answer(told: Any, code: str, status: int) -> None:
    got = answer(told)
    assert isinstance(got, ModelHTTPError) and (got.code, got.status) == (code, status)


STREAMED_FAILURES: list[list[Any]] = [
    [{'type': 'error', 'code': 'server_error', 'message': 'It broke.', 'param': None}],
    [{'type': 'error', 'error': {'type': 'server_error', 'code': 'server_error', 'message': 'It broke.'}}],
    [{'type': 'response.error', 'error': {'code': 'server_error', 'message': 'It broke.'}}],
    [{'error': {'code': 'server_error', 'message': 'It broke.'}}],
    [{'type': 'response.failed', 'response': {'error': {'code': 'server_error', 'message': 'It broke.'}}}],
]


@pytest.mark.parametrize('end', STREAMED_FAILURES)
def test_failures_in_a_stream(end: list[Any]) -> None:
    begun = event_stream(message('hello'), call('f', '{}'))[:-1]
    got = answer([*begun, *end], watched=True)
    assert isinstance(got, ModelHTTPError) and got.code == 'server_error' and 'It broke.' in str(got)


def test_a_failed_response_without_a_reason() -> None:
    got = answer([{'type': 'response.failed', 'response': response([])}], watched=True)
    assert isinstance(got, ModelHTTPError) and got.code == 'failed'


NO_RESPONSES: list[Any] = [[], {}, {'output': {}}, 'text', None, {'output': [5]}, {'output': [{'type': []}]}]


@pytest.mark.parametrize('told', NO_RESPONSES)
def test_what_is_no_response(told: Any) -> None:
    got = answer(json.dumps(told))
    assert isinstance(got, ModelProtocolError) and 'cannot be read' in str(got)


def test_a_stream_cut_off() -> None:
    events = event_stream(message('hello'), call('f', '{"x": 1}'))
    for end in range(len(events)):
        got = answer(events[:end], watched=True)
        assert isinstance(got, ModelProtocolError) and 'cut off' in str(got)


def test_a_server_that_cannot_stream() -> None:
    whole = response([message('hello')])
    want = good(whole)
    assert good([whole], watched=True) == want  # all in one event
    assert good([{'type': 'response.completed', 'response': whole}], watched=True) == want  # only the end
    assert good([{'type': 'response.created', 'response': whole}, {'type': 'keepalive'}, whole], watched=True) == want


# Streams that are badly made


def watch(events: list[Any]) -> tuple[AssistantMessage | ModelError, list[tuple[Any, dict[str, Any]]]]:
    """An answer, and what its reader saw."""
    seen: list[tuple[Any, dict[str, Any]]] = []

    async def sink(kind: Any, **fields: Any) -> None:
        seen.append((kind, fields))

    async def main() -> AssistantMessage | ModelError:
        async with Loopback([sse_reply(events, done=False)]) as server:
            try:
                return await ask(ResponsesModel('m', base_url=server.url, api_key=KEY), sink=sink)
            except ModelError as error:
                return error

    return asyncio.run(main()), seen


def parts(got: AssistantMessage | ModelError) -> list[tuple[str, Any]]:
    assert isinstance(got, AssistantMessage), got
    return [
        (p.kind, getattr(p, 'content', None) if p.kind != 'tool_call' else (p.tool_name, p.args)) for p in got.parts
    ]  # type: ignore[union-attr]


def pick(events: list[Any], *words: str) -> list[Any]:
    return [e for e in events if any(word in e['type'] for word in words)]


def test_calls_interleaved() -> None:
    """Pieces of several calls in any mix, as their index says."""
    a, b = call('f', '{"x": 12345}', 'a', ident='fc_1'), call('g', '{"y": {"z": 1}}', 'b', ident='fc_2')
    events = event_stream(a, b)
    by_item = [[e for e in events if e.get('output_index') == n] for n in (0, 1)]
    mixed = [e for pair in zip(*by_item, strict=False) for e in pair]
    mixed += [e for n in (0, 1) for e in by_item[n][min(map(len, by_item)) :]]
    got, seen = watch([*events[:2], *mixed, events[-1]])
    assert parts(got) == [('tool_call', ('f', a['arguments'])), ('tool_call', ('g', b['arguments']))]
    assert not [kind for kind, _ in seen if kind is ResponseRestarted]


def test_texts_interleaved_are_taken_from_the_whole() -> None:
    one, two = message('first text', ident='msg_1'), message('second text', ident='msg_2')
    events = event_stream(one, two)
    deltas = pick(events, 'output_text.delta')
    added = pick(events, 'item.added')
    mixed = [*added, deltas[0], deltas[2], deltas[1], *deltas[3:], *pick(events, 'item.done'), events[-1]]
    got, seen = watch(mixed)
    assert parts(got) == [('text', 'first text'), ('text', 'second text')]
    assert [kind for kind, _ in seen].count(ResponseRestarted) == 1
    after = seen[[kind for kind, _ in seen].index(ResponseRestarted) :]
    assert [f['part'].content for kind, f in after if kind is PartEndEvent] == ['first text', 'second text']


def test_reasoning_that_ends_after_the_text_it_came_before() -> None:
    """OpenRouter says that reasoning is whole when the answer is; nothing has to be taken back for that."""
    events = event_stream(reasoning('thought'), message('text'))
    late = [e for e in events if e.get('output_index') == 0 and 'done' in e['type']]
    got, seen = watch([*(e for e in events[:-1] if e not in late), *late, events[-1]])
    assert parts(got) == [('thinking', 'thought'), ('text', 'text')]
    assert isinstance(got, AssistantMessage) and isinstance(got.parts[0], ThinkingPart)
    assert got.parts[0].signature == 'sealed' and got.parts[0].provider_details is not None
    assert not [kind for kind, _ in seen if kind is ResponseRestarted]


@pytest.mark.parametrize('change', ['repeat', 'drop', 'swap'])
def test_texts_that_came_damaged_are_taken_from_the_whole(change: str) -> None:
    events = event_stream(reasoning('a long thought'), message('a long answer'))
    at = [i for i, e in enumerate(events) if e['type'] == 'response.output_text.delta'][1]
    damaged = {
        'repeat': [*events[:at], events[at], *events[at:]],
        'drop': [*events[:at], *events[at + 1 :]],
        'swap': [*events[: at - 1], events[at], events[at - 1], *events[at + 1 :]],
    }[change]
    got, seen = watch(damaged)
    assert parts(got) == [('thinking', 'a long thought'), ('text', 'a long answer')]
    assert [kind for kind, _ in seen].count(ResponseRestarted) == 1


def test_an_answer_in_doubt_without_a_whole_is_an_error() -> None:
    events = event_stream(message('a long answer'))
    at = next(i for i, e in enumerate(events) if e['type'] == 'response.output_text.delta')
    end = {'type': 'response.completed', 'response': response([])}
    got, _ = watch([*events[:at], *events[at:-1], end])
    assert parts(got) == [('text', 'a long answer')]  # its items were whole
    got, _ = watch([*events[:at], events[at], *events[at:-1], end])
    assert isinstance(got, ModelProtocolError) and 'differ from the whole' in str(got)


def damaged_calls() -> dict[str, list[Any]]:
    events = event_stream(call('f', '{"x": 12345}', 'a'))
    at = next(i for i, e in enumerate(events) if e['type'].endswith('arguments.delta'))
    other = json.loads(json.dumps(events[-2]))
    other['item']['name'] = 'g'
    nothing = {'type': 'response.completed', 'response': response([])}
    return {
        'a piece twice': [*events[:at], events[at], *events[at:]],
        'a piece missing': [*events[:at], *events[at + 1 :]],
        'pieces swapped': [*events[:at], events[at + 1], events[at], *events[at + 2 :]],
        'a piece after the end': [*events[:-1], events[at], events[-1]],
        'another name': [*events[:-2], other, events[-1]],
        'never whole': [*events[: at + 3], nothing],
        'only announced': [*events[:at], nothing],
    }


@pytest.mark.parametrize('case', damaged_calls())
def test_a_call_that_came_damaged_is_never_passed_on(case: str) -> None:
    got, _ = watch(damaged_calls()[case])
    assert isinstance(got, ModelProtocolError) and "'f'" in str(got)


def test_a_call_that_only_its_end_tells() -> None:
    """LM Studio sends no pieces; others send the head without a name."""
    events = [e for e in event_stream(call('f', '{"x": 1}')) if 'delta' not in e['type']]
    want = [('tool_call', ('f', '{"x": 1}'))]
    assert parts(watch(events)[0]) == want
    headless = [{**e, 'item': {**e['item'], 'name': None}} if e['type'].endswith('added') else e for e in events]
    assert parts(watch(headless)[0]) == want
    only_list = [e for e in events if 'arguments' not in e['type'] and 'item.done' not in e['type']]
    assert parts(watch(only_list)[0]) == want


def test_events_without_an_index() -> None:
    items = [reasoning('thought'), message('text'), call('f', '{"x": 1}')]
    events = [{k: v for k, v in e.items() if k != 'output_index'} for e in event_stream(*items)]
    want = [('thinking', 'thought'), ('text', 'text'), ('tool_call', ('f', '{"x": 1}'))]
    assert parts(watch(events)[0]) == want


def test_events_that_all_have_one_index() -> None:
    items = [message('text'), call('f', '{"x": 1}', 'a', ident='fc_1'), call('g', '{"y": 2}', 'b', ident='fc_2')]
    events = [{**e, 'output_index': 0} if 'output_index' in e else e for e in event_stream(*items)]
    want = [('text', 'text'), ('tool_call', ('f', '{"x": 1}')), ('tool_call', ('g', '{"y": 2}'))]
    assert parts(watch(events)[0]) == want


def test_ids_that_change_from_event_to_event() -> None:
    items = [reasoning('thought'), message('text'), call('f', '{"x": 1}')]
    events = [{**e, 'item_id': f'x{n}'} if 'item_id' in e else e for n, e in enumerate(event_stream(*items))]
    want = [('thinking', 'thought'), ('text', 'text'), ('tool_call', ('f', '{"x": 1}'))]
    assert parts(watch(events)[0]) == want


def test_pieces_that_could_be_of_two_calls() -> None:
    heads = [
        {'type': 'response.output_item.added', 'output_index': 0, 'item': call(n, '', n, ident=f'fc_{n}')} for n in 'fg'
    ]
    piece = {'type': 'response.function_call_arguments.delta', 'output_index': 0, 'item_id': 'fc_x', 'delta': '{}'}
    got, _ = watch([*heads, piece, {'type': 'response.completed', 'response': response([])}])
    assert isinstance(got, ModelProtocolError) and '2 items are number 0' in str(got)


def test_items_that_the_stream_did_not_announce() -> None:
    events = event_stream(message('text'))
    whole = response([message('text'), call('f', '{}')])
    got, _ = watch([*events[:-1], {'type': 'response.completed', 'response': whole}])
    assert parts(got) == [('text', 'text'), ('tool_call', ('f', '{}'))]
    got, _ = watch([*pick(events, 'output_text.delta'), events[-1]])
    assert parts(got) == [('text', 'text')]


@pytest.mark.parametrize('word', ['item.added', 'item.done', 'arguments.done', 'created', 'output_text.done'])
def test_events_told_twice(word: str) -> None:
    events = event_stream(reasoning('thought'), message('text'), call('f', '{"x": 1}'))
    twice = [e for event in events for e in ([event] * 2 if word in event['type'] else [event])]
    assert parts(watch(twice)[0]) == [('thinking', 'thought'), ('text', 'text'), ('tool_call', ('f', '{"x": 1}'))]


def test_half_pairs_over_pieces() -> None:
    def events(text: str, *pieces: str) -> list[str]:
        made = json.dumps(event_stream(message('TEXT'), call('f', '"ARGS"'), reason=None))
        begun, end = json.loads(made)[:5], json.loads(made)[-1]
        deltas = [
            f'{{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"{p}"}}' for p in pieces
        ]
        done = json.dumps(end).replace('TEXT', text).replace('ARGS', text)
        rest = [json.dumps(e).replace('TEXT', text).replace('ARGS', text) for e in json.loads(made)[6:-1]]
        rest = [e for e in rest if 'text.delta' not in e and 'arguments.delta' not in e]
        return [*map(json.dumps, begun[:4]), *deltas, *rest, done]

    async def main() -> AssistantMessage:
        stream = events('a \\ud83c\\udf78 b \\ud83c', 'a \\ud83c', '\\udf78 b \\ud83c')
        async with Loopback([sse_reply(stream, done=False)]) as server:

            async def sink(*_: Any, **fields: Any) -> None:
                json.dumps(str(fields)).encode()

            return await ask(ResponsesModel('m', base_url=server.url, api_key=KEY), sink=sink)

    got = asyncio.run(main())
    assert parts(got) == [('text', 'a \U0001f378 b \ufffd'), ('tool_call', ('f', '"a \U0001f378 b \ufffd"'))]


def test_a_watcher_sees_the_pieces() -> None:
    got, seen = watch(event_stream(reasoning('thought'), message('hello world'), call('f', '{"x": 1}')))
    starts = [f['part'] for kind, f in seen if kind is PartStartEvent]
    assert [p.kind for p in starts] == ['thinking', 'text', 'tool_call']
    deltas = [
        getattr(f['delta'], 'content_delta', None) or getattr(f['delta'], 'args_delta', '')
        for kind, f in seen
        if kind is PartDeltaEvent
    ]
    assert ''.join(d for d in deltas if d) == 'thought' + 'hello world'[5:] + '{"x": 1}'
    ends = [f['part'] for kind, f in seen if kind is PartEndEvent]
    assert isinstance(got, AssistantMessage)
    assert [p for p in ends if isinstance(p, ToolCallPart)] == [p for p in got.parts if isinstance(p, ToolCallPart)]


def test_tools_xai_runs_itself_come_as_custom_calls() -> None:
    item = {'type': 'custom_tool_call', 'id': 'ctc', 'call_id': 'c', 'name': 'x_keyword_search', 'input': '{"q": 1}'}
    whole = response([item, message('found')])
    assert [p.kind for p in good(whole, server='xai').parts] == ['builtin_tool_call', 'text']
    assert [p.kind for p in good(whole).parts] == ['tool_call', 'text']


def test_an_unfinished_answer_keeps_what_had_come() -> None:
    """A call that was cut off has no mark, so nothing of it is taken for a whole item."""

    async def main() -> None:
        from agent_graph.messages import UserMessage
        from agent_graph.model import RequestInfo, ResponseBuilder

        async def drop(*_: Any, **__: Any) -> None: ...

        events = event_stream(reasoning('thought'), message('hello world'))
        async with Loopback([sse_reply(events[:-2], done=False)]) as server:
            out = ResponseBuilder(drop)
            with pytest.raises(ModelProtocolError):
                await ResponsesModel('m', base_url=server.url, api_key=KEY).respond(
                    [UserMessage('x')], RequestInfo(), out
                )
            thinking, text = out.build(interrupted=True).parts
            assert isinstance(thinking, ThinkingPart) and thinking.signature == 'sealed'
            assert text == TextPart('hello world')

    asyncio.run(main())


def test_http_errors() -> None:
    async def main() -> None:
        body = {'error': {'message': f'bad key {KEY}', 'type': 'invalid_request_error', 'code': 'invalid_api_key'}}
        async with Loopback([json_reply(body, status=401, retry_after='3')]) as server:
            with pytest.raises(ModelHTTPError) as caught:
                await ask(ResponsesModel('m', base_url=server.url, api_key=KEY))
        error = caught.value
        assert (error.status, error.code, error.type) == (401, 'invalid_api_key', 'invalid_request_error')
        assert error.retry_after == 3 and 'check the key passed as api_key=' in str(error)
        assert KEY not in f'{error} {error.body}'

    asyncio.run(main())
