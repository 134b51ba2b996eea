"""Faults people met on the wire, through a whole Agent: what the tools were given, and what was sent next."""

from __future__ import annotations

import asyncio
import cProfile
import pstats
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ContentFiltered, ModelHTTPError, ModelProtocolError, UnexpectedModelBehavior
from agent_graph.messages import AssistantMessage, TextPart, UserMessage, dump_json, is_valid
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph_providers.responses import ResponsesModel
from tests.providers.cost import calls_per_chunk, counts
from tests.providers.loopback import Loopback, Reply, event, in_thread, json_reply, sse_reply
from tests.providers.responses.made import KEY, TOOL, call, event_stream, events_of, message, reasoning, response

Items = list[dict[str, Any]]


class Noted:
    """An agent with tools that note what they were called with."""

    def __init__(self, url: str, **model: Any) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.agent = Agent(ResponsesModel('m', base_url=url, api_key=KEY, **model))

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


def reply(items: Items, streamed: bool, **fields: Any) -> Reply:
    whole = response(items, **fields)
    return sse_reply(events_of(whole), split=9, done=False) if streamed else json_reply(whole)


def check(turns: list[Items], *, streamed: bool, **fields: Any) -> tuple[Noted, Any, list[Any]]:
    """Run against these responses: what was noted, the result, and each request's input."""

    async def main() -> tuple[Noted, Any, list[Any]]:
        async with Loopback([reply(items, streamed, **fields) for items in turns]) as loopback:
            noted = Noted(loopback.url)
            result = await noted.run(streamed=streamed)
            assert is_valid(result.messages)
            return noted, result, [r.json['input'] for r in loopback.requests]

    return asyncio.run(main())


def ids(items: list[Any]) -> tuple[list[str], list[str]]:
    """The ids of all calls in a request, and of all outputs."""
    found = {
        kind: [i['call_id'] for i in items if i.get('type') == kind]
        for kind in ('function_call', 'function_call_output')
    }
    return found['function_call'], found['function_call_output']


DONE: Items = [message('done')]
BOTH = pytest.mark.parametrize('streamed', [False, True])


@BOTH
@pytest.mark.parametrize('wire_ids', [[''], ['', ''], ['same', 'same'], ['a', 'b']])
def test_ids_that_are_empty_or_repeated(wire_ids: list[str], streamed: bool) -> None:
    calls = [call('f', f'{{"x": {i}}}', v, ident='') for i, v in enumerate(wire_ids)]
    noted, _, requests = check([calls, DONE], streamed=streamed)
    assert noted.calls == [('f', i) for i in range(len(wire_ids))]
    called_ids, answered = ids(requests[1])
    assert called_ids == answered and len(set(called_ids)) == len(called_ids) and all(called_ids)
    assert [i['output'] for i in requests[1] if i.get('type') == 'function_call_output'] == [
        f'f{i}' for i in range(len(wire_ids))
    ]
    if wire_ids == ['a', 'b']:
        assert called_ids == ['a', 'b']


@BOTH
def test_calls_that_cannot_be_run_are_answered(streamed: bool) -> None:
    names = {'f': '{"x": 1}', 'made_up': '{}', 'g': '{"y": ', 'a name': '{}'}
    calls = [call(n, a, n, ident=f'fc_{i}') for i, (n, a) in enumerate(names.items())]
    noted, result, requests = check([calls, DONE], streamed=streamed)
    assert noted.calls == [('f', 1)] and result.output == 'done'
    assert ids(requests[1]) == (list(names), list(names))
    sent = [i for i in requests[1] if i.get('type') == 'function_call']
    assert [c['name'] for c in sent] == ['f', 'made_up', 'g', 'a_name']
    assert sent[2]['arguments'] == '{"invalid_arguments":"{\\"y\\": "}'


@BOTH
def test_reasoning_goes_back_with_its_call(streamed: bool) -> None:
    turn = [reasoning('thought', seal='gAAA='), call('f', '{"x": 1}')]
    _, result, requests = check([turn, DONE], streamed=streamed)
    assert requests[1][1:] == [*turn, {'type': 'function_call_output', 'call_id': 'call_1', 'output': 'f1'}]
    assert b'gAAA=' in dump_json(result.messages)


@BOTH
@pytest.mark.parametrize('args', ['{"x": ', '{}'])
def test_a_call_cut_off_by_the_limit_is_never_run(args: str, streamed: bool) -> None:
    async def main() -> None:
        cut = reply([call('f', args, 'a', status='incomplete')], streamed, reason='max_output_tokens')
        async with Loopback([cut, reply(DONE, streamed)]) as server:
            noted = Noted(server.url)
            await noted.run(streamed=streamed)
            assert noted.calls == []
            called, answered = ids(server.requests[1].json['input'])
            assert called == answered == ['a']

    asyncio.run(main())


@BOTH
def test_a_refusal_or_a_filter_ends_the_run_at_once(streamed: bool) -> None:
    async def main(items: Items, reason: str | None, word: str) -> None:
        async with Loopback([reply(items, streamed, reason=reason)]) as server:
            with pytest.raises(ContentFiltered) as caught:
                await Noted(server.url).run(streamed=streamed)
            assert word in f'{caught.value.reason} {caught.value}' and is_valid(caught.value.messages)
            assert len(server.requests) == 1

    asyncio.run(main([message({'type': 'refusal', 'refusal': 'I will not'})], None, 'I will not'))
    asyncio.run(main([message('half')], 'content_filter', 'incomplete'))


def test_emptiness_is_retried_within_bounds_and_never_sent() -> None:
    async def main() -> list[Any]:
        async with Loopback([reply([reasoning(), message('')], False)]) as loopback:
            with pytest.raises(UnexpectedModelBehavior):
                await Noted(loopback.url).run(streamed=False)
            return [r.json['input'] for r in loopback.requests]

    requests = asyncio.run(main())
    assert 1 < len(requests) < 6
    assert all(i['role'] == 'user' for i in requests[-1])


@BOTH
def test_a_server_error_carries_a_valid_history(streamed: bool) -> None:
    async def main() -> None:
        async with Loopback([json_reply({'error': {'message': 'no'}}, status=400)]) as server:
            with pytest.raises(ModelHTTPError) as caught:
                await Noted(server.url).run(streamed=streamed)
            assert caught.value.run_id and is_valid(caught.value.messages)

    asyncio.run(main())


@BOTH
def test_the_next_run_goes_on_from_a_stored_response(streamed: bool) -> None:
    async def main() -> None:
        turns = [
            reply([call('f', '{"x": 1}')], streamed, id='resp_a', store=True),
            reply(DONE, streamed, id='resp_b', store=True),
            reply(DONE, streamed, id='resp_c', store=True),
        ]
        async with Loopback(turns) as server:
            noted = Noted(server.url, settings={'previous_response_id': 'auto'})
            result = await noted.run(streamed=streamed)
            if not streamed:
                await noted.agent.run('and now?', message_history=result.messages)
            bodies = [r.json for r in server.requests]
            assert [b.get('previous_response_id') for b in bodies] == [None, 'resp_a', 'resp_b'][: len(bodies)]
            assert [len(b['input']) for b in bodies] == [1] * len(bodies)

    asyncio.run(main())


def test_a_custom_tool_is_run_with_its_text() -> None:
    async def main() -> None:
        asked = {
            'type': 'custom_tool_call',
            'id': 'ctc_1',
            'call_id': 'c',
            'name': 'shell',
            'input': 'ls "{}"',
            'status': 'completed',
        }
        for streamed in (False, True):
            async with Loopback([reply([asked], streamed), reply(DONE, streamed)]) as server:
                settings: Any = {'builtin_tools': [{'type': 'custom', 'name': 'shell'}]}
                agent = Agent(ResponsesModel('m', base_url=server.url, api_key=KEY, settings=settings))
                ran: list[str] = []

                @agent.tool
                async def shell(command: str) -> str:  # pyright: ignore[reportUnusedFunction]
                    ran.append(command)  # noqa: B023
                    return 'a.txt'

                if streamed:
                    async with agent.run_stream('go') as stream:
                        await stream.result()
                else:
                    await agent.run('go')
                assert ran == ['ls "{}"']
                assert server.requests[1].json['input'][1:] == [
                    asked,
                    {'type': 'custom_tool_call_output', 'call_id': 'c', 'output': 'a.txt'},
                ]

    asyncio.run(main())


def test_leaving_early_closes_the_connection() -> None:
    async def main() -> None:
        events = [event(e) for e in event_stream(message('hello ' * 50))[:-3]]
        stalled = Reply(events, 200, {'content-type': 'text/event-stream'}, hang=True)
        async with Loopback([stalled, reply(DONE, False)]) as server:
            noted = Noted(server.url)
            async with noted.agent.run_stream('go') as stream:
                async for _ in stream.text(delta=True):
                    break
            await asyncio.wait_for(server.hung_up.wait(), 5)
            assert (await noted.run(streamed=False)).output == 'done'

    asyncio.run(main())


def test_one_model_in_several_loops() -> None:
    with in_thread([reply(DONE, False)]) as server:
        noted = Noted(server.url)
        for _ in range(3):
            assert noted.agent.run_sync('go').output == 'done'


def test_the_history_is_the_same_whoever_watches() -> None:
    turn = [reasoning('thought'), message('wait', ident='msg_0'), call('f', '{"x": 1}')]

    def parts(result: Any) -> list[Any]:
        return [m.parts for m in result.messages if isinstance(m, AssistantMessage)]

    plainly, watched = check([turn, DONE], streamed=False), check([turn, DONE], streamed=True)
    assert parts(plainly[1]) == parts(watched[1])
    assert plainly[0].calls == watched[0].calls == [('f', 1)]
    assert plainly[2] == watched[2]


def test_the_key_is_nowhere() -> None:
    async def main() -> None:
        told = {'error': {'message': f'Incorrect API key provided: {KEY}', 'code': 'invalid_api_key'}}
        events = [*event_stream(message('x'))[:-1], {'type': 'error', **told['error']}]
        for answer, streamed in ((json_reply(told, status=401), False), (sse_reply(events, done=False), True)):
            async with Loopback([answer]) as server:
                noted = Noted(server.url)
                with pytest.raises(ModelHTTPError) as caught:
                    await noted.run(streamed=streamed)
                error = caught.value
                assert KEY not in f'{error!r} {error} {error.body} {error.messages} {noted.agent.model!r}'

    asyncio.run(main())


# Cost


def chunks(count: int) -> list[bytes]:
    """A stream of `count` pieces of text."""
    return [event(e) for e in events_of(response([message('tok ' * count)]), size=4)]


def test_calls_per_streamed_chunk() -> None:
    """Exact Python and C calls, engine and HTTP client included."""
    assert (
        calls_per_chunk(lambda url: ResponsesModel('m', base_url=url, api_key=KEY), chunks) <= 200
    )  # the bound is 350


def test_calls_per_request() -> None:
    """What the mapping costs besides the HTTP client, for a request with a tool, a history and an answer of every kind."""
    answered = [reasoning('thought'), message('text'), call('f', '{"x": 1}')]
    history = [UserMessage('x'), AssistantMessage([TextPart('y')], provider_name='openai')] * 10

    async def main(url: str) -> int:
        model, profile = ResponsesModel('m', base_url=url, api_key=KEY), cProfile.Profile()
        await model.respond(history, RequestInfo(tools=(TOOL,)), ResponseBuilder())
        profile.enable()
        await model.respond(history, RequestInfo(tools=(TOOL,)), ResponseBuilder())
        profile.disable()
        stats: Any = pstats.Stats(profile)
        ours = [entry[1] for (path, _, _), entry in stats.stats.items() if 'agent_graph' in path]
        return sum(ours)

    with in_thread([reply(answered, False)]) as server:
        assert asyncio.run(main(server.url)) <= 1_200  # the bound is 2,500


def test_a_run_maps_each_message_once() -> None:
    """The work of a step does not grow with the steps before it, but for the bytes to send."""

    async def main(steps: int) -> None:
        turns = [reply([call('f', '{"x": 1}', '')], False)] * steps
        async with Loopback([*turns, reply(DONE, False)]) as loopback:
            await Noted(loopback.url).run(streamed=False)

    def mapped(steps: int) -> int:
        profile = cProfile.Profile()
        profile.enable()
        asyncio.run(main(steps))
        profile.disable()
        return sum(calls for name, calls in counts(profile) if name == 'message_items')

    assert [mapped(4), mapped(16)] == [1 + 2 * 4, 1 + 2 * 16]


def test_pieces_that_never_are_whole_run_nothing() -> None:
    async def main() -> None:
        events = event_stream(call('f', '{"x": 1}'))
        at = next(i for i, e in enumerate(events) if e['type'].endswith('arguments.delta'))
        async with Loopback([sse_reply([*events[:at], *events[at + 1 :]], done=False)]) as server:
            noted = Noted(server.url)
            with pytest.raises(ModelProtocolError, match="the call 'f'") as caught:
                await noted.run(streamed=True)
            assert noted.calls == [] and is_valid(caught.value.messages)

    asyncio.run(main())


def test_an_answer_that_is_made_again_from_the_whole_is_the_answer() -> None:
    """A doubled piece: the run ends with what the response says, and its history holds nothing else."""

    async def main() -> None:
        events = event_stream(reasoning('thought'), message('a long answer'))
        at = next(i for i, e in enumerate(events) if e['type'] == 'response.output_text.delta')
        async with Loopback([sse_reply([*events[:at], events[at], *events[at:]], done=False)]) as server:
            result = await Noted(server.url).run(streamed=True)
            assert result.output == 'a long answer'
            assert [p.kind for p in result.messages[-1].parts] == ['thinking', 'text']
            assert result.usage.total_tokens == 5

    asyncio.run(main())
