"""Faults people met on the wire, through a whole Agent: what the tools were given, and what was sent next."""

from __future__ import annotations

import asyncio
import cProfile
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ContentFiltered, ModelHTTPError, ModelProtocolError, UnexpectedModelBehavior
from agent_graph.messages import AssistantMessage, ToolCallPart, is_valid
from agent_graph_providers.openai import OpenAIModel
from tests.providers.cost import calls_per_chunk, counts
from tests.providers.loopback import Loopback, event, in_thread, json_reply, sse_reply
from tests.providers.openai.test_model import KEY, called, piece, plain
from tests.providers.openai.test_pieces import TWO

DONE = json_reply(plain({'content': 'done'}))
DONE_STREAMED = sse_reply([piece({'content': 'done'}), piece(finish='stop')])


class Noted:
    """An agent with tools that note what they were called with, and the requests its model got."""

    def __init__(self, url: str, server: str = 'openai') -> None:
        self.calls: list[tuple[str, Any]] = []
        self.agent = Agent(OpenAIModel('m', server=server, base_url=url, api_key=KEY))

        @self.agent.tool
        async def f(x: int) -> str:  # pyright: ignore[reportUnusedFunction]
            self.calls.append(('f', x))
            return f'f{x}'

        @self.agent.tool
        async def g(y: dict[str, int]) -> str:  # pyright: ignore[reportUnusedFunction]
            self.calls.append(('g', y))
            return f'g{y}'

    async def run(self, *, streamed: bool) -> Any:
        if not streamed:
            return await self.agent.run('go')
        async with self.agent.run_stream('go') as stream:
            return await stream.result()


def check(replies: list[Any], *, streamed: bool, server: str = 'openai') -> tuple[Noted, Any, list[Any]]:
    """Run against these replies: what was noted, the result, and each request's messages."""

    async def main() -> tuple[Noted, Any, list[Any]]:
        async with Loopback(replies) as loopback:
            noted = Noted(loopback.url, server)
            result = await noted.run(streamed=streamed)
            assert is_valid(result.messages)
            return noted, result, [r.json['messages'] for r in loopback.requests]

    return asyncio.run(main())


def ids(messages: list[Any]) -> tuple[list[str], list[str]]:
    """The ids of all calls in a request, and of all results."""
    calls = [c['id'] for m in messages for c in m.get('tool_calls') or ()]
    return calls, [m['tool_call_id'] for m in messages if m['role'] == 'tool']


@pytest.mark.parametrize('streamed', [False, True])
@pytest.mark.parametrize('wire_ids', [[''], ['', ''], ['same', 'same'], [None, None], ['a', 'b']])
def test_ids_that_are_empty_missing_or_repeated(wire_ids: list[str | None], streamed: bool) -> None:
    if streamed:
        heads = [called(i, call_id, 'f', f'{{"x": {i}}}') for i, call_id in enumerate(wire_ids)]
        replies = [sse_reply([*heads, piece(finish='tool_calls')]), DONE_STREAMED]
    else:
        calls = [{'id': v, 'function': {'name': 'f', 'arguments': f'{{"x": {i}}}'}} for i, v in enumerate(wire_ids)]
        replies = [json_reply(plain({'content': None, 'tool_calls': calls}, 'tool_calls')), DONE]
    noted, _, requests = check(replies, streamed=streamed)
    assert noted.calls == [('f', i) for i in range(len(wire_ids))]
    called_ids, answered = ids(requests[1])
    assert called_ids == answered and len(set(called_ids)) == len(called_ids) and all(called_ids)
    assert [m['content'] for m in requests[1] if m['role'] == 'tool'] == [f'f{i}' for i in range(len(wire_ids))]
    if wire_ids == ['a', 'b']:
        assert called_ids == ['a', 'b']


def test_an_id_used_again_in_a_later_response() -> None:
    call = json_reply(
        plain({'content': None, 'tool_calls': [{'id': 'x', 'function': {'name': 'f', 'arguments': '{"x": 1}'}}]})
    )
    _, _, requests = check([call, call, DONE], streamed=False)
    called_ids, answered = ids(requests[2])
    assert called_ids == answered and len(set(called_ids)) == 2 and called_ids[0] == 'x'


def test_calls_that_cannot_be_run_are_answered() -> None:
    names = {'f': '{"x": 1}', 'made_up': '{}', 'g': '{"y": ', 'a name': '{}'}
    calls = [{'id': n, 'function': {'name': n, 'arguments': a}} for n, a in names.items()]
    noted, result, requests = check([json_reply(plain({'content': None, 'tool_calls': calls})), DONE], streamed=False)
    assert noted.calls == [('f', 1)] and result.output == 'done'
    assert ids(requests[1]) == (list(names), list(names))
    sent = [c['function'] for c in requests[1][1]['tool_calls']]
    assert [c['name'] for c in sent] == ['f', 'made_up', 'g', 'a_name']
    assert sent[2]['arguments'] == '{"invalid_arguments":"{\\"y\\": "}'


@pytest.mark.parametrize('case', TWO)
def test_streamed_calls_with_bad_indexes(case: str) -> None:
    events = [called(i, call_id or None, name or None, args) for i, call_id, name, args in TWO[case]]
    noted, _, requests = check(
        [sse_reply([*events, piece(finish='tool_calls')], split=5), DONE_STREAMED], streamed=True
    )
    assert noted.calls == [('f', 1), ('g', {})]
    assert ids(requests[1])[0] == ids(requests[1])[1]


def test_pieces_that_could_belong_to_two_calls_run_nothing() -> None:
    events = [called(0, 'A', 'f', ''), called(0, 'B', 'g', ''), called(0, None, None, '{"x": 1}')]
    with pytest.raises(ModelProtocolError, match=r"'f' \(id 'A'\), 'g' \(id 'B'\)") as caught:
        check([sse_reply([*events, piece(finish='tool_calls')])], streamed=True)
    assert is_valid(caught.value.messages)


@pytest.mark.parametrize('streamed', [False, True])
def test_half_pairs_do_not_poison_a_conversation(streamed: bool) -> None:
    async def main() -> None:
        text = '"\\\\ud83c\\\\udf78 \\\\ud83c"'  # as the argument text spells it: escapes within a JSON string
        if streamed:
            pieces = ['{\\"t\\": \\"\\\\ud83c', '\\\\udf78 \\\\ud83c\\"}']
            heads = [
                '"id":"a","function":{"name":"echo","arguments":""}',
                *(f'"function":{{"arguments":"{p}"}}' for p in pieces),
            ]
            events = [f'{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,{h}}}]}}}}]}}' for h in heads]
            first = sse_reply([*events, piece(finish='tool_calls')])
        else:
            args = text.replace('"', '\\"')
            first = json_reply(
                '{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"tool_calls":['
                f'{{"id":"a","function":{{"name":"echo","arguments":"{{\\"t\\": {args}}}"}}}}]}}}}]}}'
            )
        done = DONE_STREAMED if streamed else DONE
        got: list[str] = []
        async with Loopback([first, done, done]) as loopback:
            agent = Agent(
                OpenAIModel('m', base_url=loopback.url, api_key=KEY), instructions='\U0001f468\u200d\U0001f467 \u202e!'
            )

            @agent.tool
            async def echo(t: str) -> str:  # pyright: ignore[reportUnusedFunction]
                got.append(t)
                return t + '\udc97'

            if streamed:
                async with agent.run_stream('go') as stream:
                    result = await stream.result()
            else:
                result = await agent.run('go')
            again = await agent.run('more', message_history=result.messages)
            assert got == ['\U0001f378 \ufffd']
            assert again.output == 'done'
            sent = loopback.requests[2].json['messages']
            assert [m['content'] for m in sent if m['role'] == 'tool'] == ['\U0001f378 \ufffd\ufffd']
            assert sent[0]['content'] == '\U0001f468\u200d\U0001f467 \u202e!'

    asyncio.run(main())


@pytest.mark.parametrize('streamed', [False, True])
@pytest.mark.parametrize('args', ['{"x": ', '{}'])
def test_a_call_cut_off_by_the_limit_is_never_run(args: str, streamed: bool) -> None:
    if streamed:
        replies = [sse_reply([called(0, 'a', 'f', args), piece(finish='length')]), DONE_STREAMED]
    else:
        calls = [{'id': 'a', 'function': {'name': 'f', 'arguments': args}}]
        replies = [json_reply(plain({'content': None, 'tool_calls': calls}, 'length')), DONE]
    noted, _, requests = check(replies, streamed=streamed)
    assert noted.calls == []
    assert ids(requests[1])[0] == ids(requests[1])[1]
    assert 'limit' in next(m['content'] for m in requests[1] if m['role'] == 'tool')


@pytest.mark.parametrize('streamed', [False, True])
@pytest.mark.parametrize(
    ('message', 'finish', 'reason'),
    [({'refusal': 'I will not'}, 'stop', 'I will not'), ({'content': 'half'}, 'content_filter', 'content_filter')],
)
def test_a_refusal_or_a_filter_ends_the_run_at_once(
    message: dict[str, Any], finish: str, reason: str, streamed: bool
) -> None:
    async def main() -> int:
        reply = sse_reply([piece(message), piece(finish=finish)]) if streamed else json_reply(plain(message, finish))
        async with Loopback([reply]) as loopback:
            with pytest.raises(ContentFiltered) as caught:
                await Noted(loopback.url).run(streamed=streamed)
            assert reason in f'{caught.value.reason} {caught.value}' and is_valid(caught.value.messages)
            return len(loopback.requests)

    assert asyncio.run(main()) == 1


def test_emptiness_is_retried_within_bounds_and_never_sent() -> None:
    async def main() -> list[Any]:
        async with Loopback([json_reply(plain({'content': ''}))]) as loopback:
            with pytest.raises(UnexpectedModelBehavior):
                await Noted(loopback.url).run(streamed=False)
            return [r.json['messages'] for r in loopback.requests]

    requests = asyncio.run(main())
    assert 1 < len(requests) < 6
    assert all(m['role'] != 'assistant' for m in requests[-1])


def test_thinking_tags_are_not_the_answer() -> None:
    text = '<think>secret plan</think>\nHello'
    for reply, streamed in (
        (json_reply(plain({'content': text})), False),
        (sse_reply([*(piece({'content': c}) for c in text), piece(finish='stop')]), True),
    ):
        _, result, _ = check([reply], streamed=streamed, server='ollama_openai')
        assert result.output.strip() == 'Hello'


@pytest.mark.parametrize('streamed', [False, True])
def test_a_server_error_carries_a_valid_history(streamed: bool) -> None:
    with pytest.raises(ModelHTTPError) as caught:
        check([json_reply({'error': {'message': 'no'}}, status=400)], streamed=streamed)
    assert caught.value.run_id and is_valid(caught.value.messages)


def test_one_agent_run_sync_and_streamed_by_turns() -> None:
    """`run_sync` after somebody closed the current loop, then a stream in another loop, and again."""
    with in_thread([DONE, DONE_STREAMED, DONE, DONE_STREAMED]) as server:
        noted = Noted(server.url)
        for _ in range(2):
            asyncio.new_event_loop().close()
            assert noted.agent.run_sync('go').output == 'done'
            assert asyncio.run(noted.run(streamed=True)).output == 'done'


def chunks(count: int) -> list[bytes]:
    """A stream of `count` pieces of text."""
    events = [event(piece({'content': f'tok{i} '})) for i in range(count)]
    events += [event(piece(finish='stop')), event('[DONE]')]
    return events


def test_calls_per_streamed_chunk() -> None:
    """Exact Python and C calls, engine and HTTP client included."""
    assert calls_per_chunk(lambda url: OpenAIModel('m', base_url=url, api_key=KEY), chunks) <= 200  # the bound is 350


def test_a_run_maps_each_message_once() -> None:
    """The work of a step does not grow with the steps before it, but for the bytes to send."""
    call = {'id': '', 'function': {'name': 'f', 'arguments': '{"x": 1}'}}
    again = json_reply(plain({'content': None, 'tool_calls': [call]}))

    async def main(steps: int) -> None:
        async with Loopback([*([again] * steps), DONE]) as loopback:
            await Noted(loopback.url).run(streamed=False)

    def mapped(steps: int) -> int:
        profile = cProfile.Profile()
        profile.enable()
        asyncio.run(main(steps))
        profile.disable()
        return sum(calls for name, calls in counts(profile) if name == 'message_to_openai')

    assert [mapped(4), mapped(16)] == [1 + 2 * 4, 1 + 2 * 16]


def test_the_history_is_the_same_whoever_watches() -> None:
    def parts(result: Any) -> list[Any]:
        return [m.parts for m in result.messages if isinstance(m, AssistantMessage)]

    calls = [{'id': 'a', 'type': 'function', 'function': {'name': 'f', 'arguments': '{"x": 1}'}}]
    plainly = check([json_reply(plain({'content': 'wait', 'tool_calls': calls}, 'tool_calls')), DONE], streamed=False)
    events = [
        piece({'content': 'wa'}),
        piece({'content': 'it'}),
        called(0, 'a', 'f', '{"x"'),
        called(0, None, None, ': 1}'),
    ]
    watched = check([sse_reply([*events, piece(finish='tool_calls')]), DONE_STREAMED], streamed=True)
    assert parts(plainly[1]) == parts(watched[1])
    assert plainly[0].calls == watched[0].calls == [('f', 1)]
    assert plainly[2] == watched[2]
    assert isinstance(parts(plainly[1])[0][1], ToolCallPart)
