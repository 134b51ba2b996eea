"""Faults people met on the wire, through a whole Agent: what the tools were given, and what was sent next."""

from __future__ import annotations

import asyncio
import cProfile
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ContentFiltered, ModelHTTPError, ModelProtocolError, UnexpectedModelBehavior
from agent_graph.messages import AssistantMessage, Message, TextPart, ToolCallPart, UserMessage, is_valid
from agent_graph.model import RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph_providers.google import GoogleModel
from agent_graph_providers.wire.http import Http
from tests.providers.cost import calls_per_chunk, counts, total
from tests.providers.google.kit import KEY, answer, call, model
from tests.providers.google.test_answers import BEGIN, END, partial, pieces
from tests.providers.loopback import Loopback, Reply, event, in_thread, json_reply, sse_reply

NAME = 'gemini-3-flash'


def reply(*parts: dict[str, Any], streamed: bool, **candidate: Any) -> Reply:
    """One answer with these parts; streamed, each is a piece of its own and texts are cut."""
    if not streamed:
        return json_reply(answer(*parts, **candidate))
    cut: list[dict[str, Any]] = []
    for part in parts:
        letters = part['text'] if list(part) == ['text'] else ''
        cut += [{'text': letter} for letter in letters] or [part]
    finish = candidate.pop('finish', 'STOP')
    events = [*(answer(part, finish=None) for part in cut), answer(finish=finish, **candidate)]
    return sse_reply(events, done=False, split=9)


class Noted:
    """An agent with tools that note what they were called with, and the requests its model got."""

    def __init__(self, url: str) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.agent = Agent(model(url, NAME))

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


def check(replies: list[Any], *, streamed: bool) -> tuple[Noted, Any, list[Any]]:
    """Run against these replies: what was noted, the result, and each request's contents."""

    async def main() -> tuple[Noted, Any, list[Any]]:
        async with Loopback(replies) as loopback:
            noted = Noted(loopback.url)
            result = await noted.run(streamed=streamed)
            assert is_valid(result.messages)
            return noted, result, [r.json['contents'] for r in loopback.requests]

    return asyncio.run(main())


def both(sent: list[Any]) -> tuple[list[Any], list[Any]]:
    """All calls in a request, and all results."""
    parts = [part for content in sent for part in content['parts']]
    return [p['functionCall'] for p in parts if 'functionCall' in p], [
        p['functionResponse'] for p in parts if 'functionResponse' in p
    ]


STREAMED = pytest.mark.parametrize('streamed', [False, True])


@STREAMED
@pytest.mark.parametrize('wire_ids', [[''], ['', ''], ['same', 'same'], ['a', 'b'], ['a', '']])
def test_ids_that_are_missing_or_repeated(wire_ids: list[str], streamed: bool) -> None:
    first = reply(*(call('f', {'x': n}, i) for n, i in enumerate(wire_ids)), streamed=streamed)
    noted, result, requests = check([first, reply({'text': 'done'}, streamed=streamed)], streamed=streamed)
    assert noted.calls == [('f', n) for n in range(len(wire_ids))]
    calls, results = both(requests[1])
    sent = [c.get('id', '') for c in calls]
    assert sent == [r.get('id', '') for r in results]
    assert [bool(i) for i in sent] == [bool(i) for i in wire_ids]
    assert sent == wire_ids or (wire_ids == ['same', 'same'] and sent[0] == 'same' != sent[1])
    assert [r['response'] for r in results] == [{'output': f'f{n}'} for n in range(len(wire_ids))]
    ours = [p.tool_call_id for m in result.messages if m.kind == 'assistant' for p in m.parts if p.kind == 'tool_call']
    assert all(ours) and len(set(ours)) == len(ours)


def test_an_id_used_again_in_a_later_response() -> None:
    again = reply(call('f', {'x': 1}, 'x'), streamed=False)
    _, _, requests = check([again, again, reply({'text': 'done'}, streamed=False)], streamed=False)
    calls, results = both(requests[2])
    sent = [c['id'] for c in calls]
    assert sent == [r['id'] for r in results] and sent[0] == 'x' and len(set(sent)) == 2


def test_calls_that_cannot_be_run_are_answered() -> None:
    calls = [call('f', {'x': 1}), call('made_up', {}), call('g', {'y': 7}), call('a name', {})]
    noted, result, requests = check(
        [reply(*calls, streamed=False, finish='UNEXPECTED_TOOL_CALL'), reply({'text': 'done'}, streamed=False)],
        streamed=False,
    )
    assert noted.calls == [('f', 1)] and result.output == 'done'
    sent, results = both(requests[1])
    assert [c['name'] for c in sent] == ['f', 'made_up', 'g', 'a_name'] == [r['name'] for r in results]
    assert [list(r['response']) for r in results] == [['output'], ['error'], ['error'], ['error']]


@STREAMED
def test_signatures_go_back_on_the_part_they_came_with(streamed: bool) -> None:
    parts: list[dict[str, Any]] = [
        {'text': 'hm', 'thought': True, 'thoughtSignature': 'T+/=='},
        {'text': '', 'thoughtSignature': 'U_-'},
        call('f', {'x': 1}, thoughtSignature='V'),
        call('f', {'x': 2}),
    ]
    _, _, requests = check(
        [reply(*parts, streamed=streamed), reply({'text': 'done'}, streamed=streamed)], streamed=streamed
    )
    assert requests[1][1] == {'role': 'model', 'parts': parts}


def test_arguments_in_pieces_are_run_once_they_are_whole() -> None:
    events = pieces(BEGIN, partial('$.x', numberValue=4), END)
    done = sse_reply([answer({'text': 'done'})], done=False)
    noted, result, _ = check([sse_reply(events, done=False, split=5), done], streamed=True)
    assert noted.calls == [('f', 4)] and result.output == 'done'
    with pytest.raises(ModelProtocolError, match='has no end') as caught:
        check([sse_reply(pieces(BEGIN, partial('$.x', numberValue=4)), done=False)], streamed=True)
    assert is_valid(caught.value.messages)


@STREAMED
def test_half_pairs_do_not_poison_a_conversation(streamed: bool) -> None:
    async def main() -> None:
        raw = '{"functionCall": {"name": "echo", "args": {"t": "\\ud83c\\udf78 \\ud83c"}}}'
        body = f'{{"candidates": [{{"content": {{"parts": [{raw}]}}, "finishReason": "STOP"}}]}}'
        first = sse_reply([body], done=False) if streamed else json_reply(body)
        done = reply({'text': 'done'}, streamed=streamed)
        got: list[str] = []
        async with Loopback([first, done, reply({'text': 'done'}, streamed=False)]) as loopback:
            agent = Agent(model(loopback.url, NAME), instructions='\U0001f468\u200d\U0001f467 \u202e!')

            @agent.tool
            async def echo(t: str) -> str:  # pyright: ignore[reportUnusedFunction]
                got.append(t)
                return t + '\udc97'

            if streamed:
                async with agent.run_stream('go') as stream:
                    result = await stream.result()
            else:
                result = await agent.run('go')
            assert (await agent.run('more', message_history=result.messages)).output == 'done'
            assert got == ['\U0001f378 \ufffd']
            sent = loopback.requests[2].json
            assert both(sent['contents'])[1][0]['response'] == {'output': '\U0001f378 \ufffd\ufffd'}
            assert sent['systemInstruction'] == {'parts': [{'text': '\U0001f468\u200d\U0001f467 \u202e!'}]}

    asyncio.run(main())


@STREAMED
def test_a_call_cut_off_by_the_limit_is_never_run(streamed: bool) -> None:
    whole = [reply(call('f', {'x': 1}), streamed=streamed, finish='MAX_TOKENS')]
    if streamed:
        cut = [partial('$.x', numberValue=1), partial('$.more', stringValue='ha', more=True)]
        whole.append(sse_reply(pieces(BEGIN, *cut, finish='MAX_TOKENS'), done=False))
    for first in whole:
        noted, _, requests = check([first, reply({'text': 'done'}, streamed=streamed)], streamed=streamed)
        assert noted.calls == []
        _, (result,) = both(requests[1])
        assert 'limit' in result['response']['error']


@STREAMED
@pytest.mark.parametrize(
    ('data', 'reason'),
    [
        (answer({'text': 'half'}, finish='SAFETY'), 'SAFETY'),
        (answer({'text': 'half'}, finish='RECITATION'), 'RECITATION'),
        ({'candidates': [{'finishReason': 'PROHIBITED_CONTENT', 'index': 0}]}, 'PROHIBITED_CONTENT'),
        ({'promptFeedback': {'blockReason': 'BLOCKLIST'}}, 'BLOCKLIST'),
    ],
)
def test_a_filter_ends_the_run_at_once_with_its_reason(data: Any, reason: str, streamed: bool) -> None:
    async def main() -> int:
        first = sse_reply([data], done=False) if streamed else json_reply(data)
        async with Loopback([first]) as loopback:
            with pytest.raises(ContentFiltered) as caught:
                await Noted(loopback.url).run(streamed=streamed)
            assert caught.value.reason == reason and is_valid(caught.value.messages)
            return len(loopback.requests)

    assert asyncio.run(main()) == 1


@pytest.mark.parametrize(
    'empty',
    [
        answer(),
        answer({'text': ''}),
        answer({'text': ' \n'}),
        answer({'text': 'hm', 'thought': True}),
        answer(finish='MALFORMED_FUNCTION_CALL', finishMessage='bad'),
        {'candidates': [{'finishReason': 'STOP'}]},
    ],
)
def test_emptiness_is_asked_again_within_bounds_and_never_sent(empty: Any) -> None:
    async def main() -> list[Any]:
        async with Loopback([json_reply(empty)]) as loopback:
            with pytest.raises(UnexpectedModelBehavior):
                await Noted(loopback.url).run(streamed=False)
            return [r.json['contents'] for r in loopback.requests]

    requests = asyncio.run(main())
    assert 1 < len(requests) < 6
    for content in requests[-1]:
        assert content['parts'] and all(part.get('text') != '' for part in content['parts'])


@STREAMED
def test_a_server_error_carries_a_valid_history(streamed: bool) -> None:
    with pytest.raises(ModelHTTPError) as caught:
        check([json_reply([{'error': {'message': 'no', 'code': 400}}], status=400)], streamed=streamed)
    assert caught.value.run_id and is_valid(caught.value.messages)


def test_one_agent_run_sync_and_streamed_by_turns() -> None:
    def either(request: Any) -> Reply:
        return reply({'text': 'done'}, streamed='stream' in request.path)

    with in_thread([either]) as server:
        noted = Noted(server.url)
        for _ in range(2):
            asyncio.new_event_loop().close()
            assert noted.agent.run_sync('go').output == 'done'
            assert asyncio.run(noted.run(streamed=True)).output == 'done'


def test_the_history_is_the_same_whoever_watches() -> None:
    def parts(result: Any) -> list[Any]:
        return [m.parts for m in result.messages if isinstance(m, AssistantMessage)]

    said: list[dict[str, Any]] = [
        {'text': 'let me see', 'thought': True},
        {'text': 'wait'},
        call('f', {'x': 1}, 'id1', thoughtSignature='S'),
    ]
    runs = [check([reply(*said, streamed=s), reply({'text': 'done'}, streamed=s)], streamed=s) for s in (False, True)]
    (plainly, seen) = runs
    assert parts(plainly[1]) == parts(seen[1])
    assert plainly[0].calls == seen[0].calls == [('f', 1)]
    assert plainly[2] == seen[2]
    assert isinstance(parts(plainly[1])[0][2], ToolCallPart)


def chunks(count: int) -> list[bytes]:
    """A stream of `count` pieces of text."""
    events = [event(answer({'text': f'tok{i} '}, finish=None)) for i in range(count)]
    events.append(event(answer()))
    return events


def test_calls_per_streamed_chunk() -> None:
    """Exact Python and C calls, engine and HTTP client included."""
    assert calls_per_chunk(lambda url: GoogleModel('m', base_url=url, api_key=KEY), chunks) <= 200  # the bound is 350


def test_a_run_maps_each_message_once() -> None:
    """The work of a step does not grow with the steps before it, but for putting them together and the bytes to send."""
    again, done = (reply(p, streamed=False) for p in (call('f', {'x': 1}), {'text': 'done'}))

    async def main(steps: int) -> None:
        async with Loopback([*([again] * steps), done]) as loopback:
            await Noted(loopback.url).run(streamed=False)

    def mapped(steps: int) -> int:
        profile = cProfile.Profile()
        profile.enable()
        asyncio.run(main(steps))
        profile.disable()
        return sum(calls for name, calls in counts(profile) if name == 'to_contents')

    assert [mapped(4), mapped(16)] == [1 + 2 * 4, 1 + 2 * 16]


def test_calls_per_request() -> None:
    """Exact calls beyond the raw transport, for a history of 41 messages that no run has mapped before, and 20 tools."""
    schema: dict[str, Any] = {'type': 'object', 'properties': {'x': {'type': 'integer'}}}
    tools = tuple(ToolDefinition(f't{n}', '', schema) for n in range(20))
    turn = [UserMessage('hi'), AssistantMessage([TextPart('ho')], provider_name='google')]

    history: list[Message] = [*turn * 20, UserMessage('x')]

    async def main(url: str) -> int:
        gemini, http = model(url), Http()

        async def ask() -> None:
            await gemini.respond(history, RequestInfo(tools), ResponseBuilder())

        async def raw() -> None:
            response = await http.send('POST', f'{url}/x', headers={}, content=b'{}' * 2000, settings={})
            await response.aread()
            await response.aclose()

        async def cost(once: Any) -> int:
            await once()
            profile = cProfile.Profile()
            profile.enable()
            await once()
            profile.disable()
            return total(profile)

        try:
            return await cost(ask) - await cost(raw)
        finally:
            await http.close()

    with in_thread([reply({'text': 'done'}, streamed=False)]) as server:
        assert asyncio.run(main(server.url)) <= 2_000  # the bound is 2,500
