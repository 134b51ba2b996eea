"""What the server answers -> our parts; and faults people met on the wire, through a whole Agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import (
    ContentFiltered,
    ModelHTTPError,
    ModelProtocolError,
)
from agent_graph.messages import (
    TextPart,
    ToolCallPart,
    dump_json,
    is_valid,
    load_json,
)
from agent_graph.usage import Spend, cost_of
from agent_graph_providers.cohere import CohereModel
from agent_graph_providers.cohere.history import entries_of
from tests.providers.cohere.server import (
    HI,
    KEY,
    call_events,
    failure,
    got,
    message,
    said,
    text_events,
)
from tests.providers.cost import calls_per_chunk
from tests.providers.loopback import Loopback, Reply, event, json_reply, sse_reply

CITED = {
    'start': 3,
    'end': 7,
    'text': 'here',
    'sources': [
        {
            'type': 'document',
            'id': 'd1',
            'document': {'title': 'T', 'url': 'https://x.example', 'snippet': 'the source'},
        }
    ],
    'type': 'TEXT_CONTENT',
}


class TestAnswers:
    @pytest.mark.parametrize('watched', [False, True])
    def test_a_cited_text(self, watched: bool) -> None:
        plain = message({'type': 'text', 'text': 'it here'}, citations=[CITED])
        start = {'type': 'citation-start', 'index': 0, 'delta': {'message': {'citations': CITED}}}
        events = text_events('it ', 'here')
        found = got(
            sse_reply([*events[:-2], start, {'type': 'citation-end', 'index': 0}, *events[-2:]])
            if watched
            else json_reply(plain),
            watched=watched,
        )
        (part,) = found.parts
        assert isinstance(part, TextPart) and part.content == 'it here'
        (citation,) = part.citations
        assert part.content[citation.start : citation.end] == 'here'
        assert (citation.url, citation.title, citation.cited_text) == ('https://x.example', 'T', 'the source')
        assert citation.provider_details == CITED
        assert found.usage.input_tokens == 30 and found.usage.cache_read_tokens == 16
        assert found.usage.details == {'billed_input_tokens': 2, 'billed_output_tokens': 1}
        assert (found.provider_response_id, found.finish_reason) == ('r1', 'stop')
        assert said([*HI, found])[1] == {'role': 'assistant', 'content': 'it here', 'citations': [CITED]}

    @pytest.mark.parametrize('watched', [False, True])
    def test_calls_with_a_plan(self, watched: bool) -> None:
        calls = [{'id': i, 'type': 'function', 'function': {'name': 'f', 'arguments': '{"x": 1}'}} for i in 'ab']
        cited = {'type': 'PLAN', 'start': 0, 'end': 1}
        plain = message(finish='TOOL_CALL', tool_plan='I plan', tool_calls=calls, citations=[cited])
        events: list[Any] = [
            {'type': 'tool-plan-delta', 'delta': {'message': {'tool_plan': p}}} for p in ('I ', 'plan')
        ]
        for index, call in enumerate(calls):
            function: Any = call['function']
            events.append(call_events('start', index, **{**call, 'function': {**function, 'arguments': ''}}))
            events += [call_events('delta', index, function={'arguments': p}) for p in ('{"x"', ': 1}')]
            events.append({'type': 'tool-call-end', 'index': index})
        events.append({'type': 'citation-start', 'delta': {'message': {'citations': cited}}})
        end = text_events(finish='TOOL_CALL')[-1]
        found = got(sse_reply([*events, end]) if watched else json_reply(plain), watched=watched)
        assert found.parts == tuple(ToolCallPart('f', '{"x": 1}', i) for i in 'ab')
        assert found.provider_details == {'finish_reason': 'TOOL_CALL', 'tool_plan': 'I plan', 'citations': [cited]}
        (stored,) = load_json(dump_json([found]))
        for one in (found, stored):
            (sent,) = entries_of(one, {})
            assert sent['tool_plan'] == 'I plan' and sent['citations'] == [cited] and sent['tool_calls'] == calls

    def test_log_probabilities(self) -> None:
        items = [{'text': 'x', 'token_ids': [1], 'logprobs': [-0.1]}]
        plain = {**message({'type': 'text', 'text': 'x'}), 'logprobs': items}
        events = text_events('x')
        events[2]['logprobs'] = items[0]
        for found in (got(json_reply(plain)), got(sse_reply(events), watched=True)):
            assert found.provider_details is not None and found.provider_details['logprobs'] == items

    @pytest.mark.parametrize(
        ('word', 'reason'),
        [
            ('COMPLETE', 'stop'),
            ('STOP_SEQUENCE', 'stop'),
            ('MAX_TOKENS', 'length'),
            ('ERROR_TOXIC', 'content_filter'),
            ('NEW', 'other'),
        ],
    )
    def test_why_it_ended(self, word: str, reason: str) -> None:
        for found in (
            got(json_reply(message({'type': 'text', 'text': 'x'}, finish=word))),
            got(sse_reply(text_events('x', finish=word)), watched=True),
        ):
            assert found.finish_reason == reason

    def test_prices_go_by_what_is_billed(self) -> None:
        usage = got(json_reply(message({'type': 'text', 'text': 'x'}))).usage
        billed = cost_of([Spend('cohere', 'command-a-03-2025', usage)])
        assert billed is not None and 0 < billed < 0.0001
        assert round(float(billed) * 1e6, 3) == 2 * 2.5 + 1 * 10


class TestErrors:
    def test_told_by_the_status(self) -> None:
        error = failure(json_reply({'id': 'x', 'message': f'invalid api token {KEY}'}, status=401))
        assert isinstance(error, ModelHTTPError) and error.status == 401
        assert 'invalid api token ***' in str(error) and 'the key passed as api_key=' in str(error)

    @pytest.mark.parametrize('watched', [False, True])
    @pytest.mark.parametrize('word', ['ERROR', 'TIMEOUT'])
    def test_a_finish_word_that_means_failure(self, word: str, watched: bool) -> None:
        reply = (
            sse_reply(text_events('x', finish=word, error='it broke')) if watched else json_reply(message(finish=word))
        )
        error = failure(reply, watched=watched)
        assert isinstance(error, ModelHTTPError) and (error.code == word) and ('it broke' in str(error)) == watched

    def test_an_error_within_a_200(self) -> None:
        for watched in (False, True):
            assert isinstance(failure(json_reply({'message': 'odd'}), watched=watched), ModelHTTPError)
        assert isinstance(failure(sse_reply([*text_events('x')[:3], {'message': 'odd'}])), ModelHTTPError)

    @pytest.mark.parametrize('data', [[], {}, {'message': {'content': 3}}, {'message': {'tool_calls': 'x'}}])
    def test_nonsense(self, data: Any) -> None:
        assert isinstance(failure(json_reply(data), watched=False), ModelProtocolError)

    def test_a_stream_without_its_end(self) -> None:
        assert isinstance(failure(sse_reply(text_events('x')[:-1])), ModelProtocolError)
        assert isinstance(failure(sse_reply(text_events('x')[:-1], done=False)), ModelProtocolError)


class TestAgent:
    def run(self, replies: list[Reply]) -> tuple[list[int], list[Any]]:
        async def main() -> tuple[list[int], list[Any]]:
            seen: list[int] = []
            async with Loopback(replies) as server:
                agent = Agent(CohereModel('m', base_url=server.url, api_key=KEY))

                @agent.tool
                async def f(x: int) -> str:  # pyright: ignore[reportUnusedFunction]
                    seen.append(x)
                    return f'f{x}'

                async with agent.run_stream('go') as stream:
                    assert is_valid((await stream.result()).messages)
                return seen, [r.json['messages'] for r in server.requests]

        return asyncio.run(main())

    DONE = sse_reply(text_events('done'))

    @pytest.mark.parametrize(('first', 'second'), [(0, 0), (None, None), (0, 1)])
    def test_calls_with_bad_indexes_and_ids(self, first: Any, second: Any) -> None:
        events: list[Any] = []
        for index, number in ((first, 1), (second, 2)):
            events.append(call_events('start', index, id='', function={'name': 'f', 'arguments': ''}))
            events.append(call_events('delta', index, function={'arguments': f'{{"x": {number}'}))
            events.append(call_events('delta', index, function={'arguments': '}'}))
        seen, requests = self.run([sse_reply([*events, text_events(finish='TOOL_CALL')[-1]]), self.DONE])
        assert seen == [1, 2]
        assert [c['id'] for c in requests[1][1]['tool_calls']] == [m['tool_call_id'] for m in requests[1][2:]]

    def test_pieces_that_could_belong_to_two_calls_run_nothing(self) -> None:
        start = [call_events('start', 0, id=i, function={'name': 'f', 'arguments': ''}) for i in 'ab']
        events = [*start, call_events('delta', 0, function={'arguments': '{"x": 1}'}), text_events()[-1]]
        with pytest.raises(ModelProtocolError, match='more than one call'):
            self.run([sse_reply(events)])

    def test_a_call_cut_off_by_the_limit_is_never_run(self) -> None:
        call = call_events('start', 0, id='a', function={'name': 'f', 'arguments': '{"x": '})
        seen, requests = self.run([sse_reply([call, text_events(finish='MAX_TOKENS')[-1]]), self.DONE])
        assert seen == [] and 'limit' in requests[1][2]['content']

    def test_a_filter_ends_the_run(self) -> None:
        with pytest.raises(ContentFiltered):
            self.run([sse_reply(text_events('half', finish='ERROR_TOXIC'))])

    def test_half_pairs(self) -> None:
        raw = [
            '{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"a\\ud83c"}}}}',
            '{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"\\udf78\\ud83c"}}}}',
        ]
        found = got(sse_reply([*raw, text_events()[-1]]), watched=True)
        assert found.parts == (TextPart('a\U0001f378\ufffd'),)


def chunks(count: int) -> list[bytes]:
    """A stream of `count` pieces of text."""
    return [event(e, e['type']) for e in text_events(*(f'tok{i} ' for i in range(count)))]


def test_calls_per_streamed_chunk() -> None:
    """Engine and HTTP client included."""
    assert calls_per_chunk(lambda url: CohereModel('m', base_url=url, api_key=KEY), chunks) <= 250  # the bound is 350


def test_a_finish_reason_that_is_no_word() -> None:
    assert got(json_reply({**message({'type': 'text', 'text': 'x'}), 'finish_reason': ['X']})).finish_reason == 'other'
