"""Faults people met on the wire, through a whole Agent: what the tools were given, and what was sent next."""

from __future__ import annotations

import asyncio
import cProfile
import json
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from agent_graph import Agent, NativeOutput, SystemMessage, UserMessage
from agent_graph.errors import ContentFiltered, ModelHTTPError, ModelProtocolError, UnexpectedModelBehavior
from agent_graph.messages import AssistantMessage, ToolCallPart, dump_json, is_valid, load_json
from agent_graph_providers.anthropic import AnthropicModel
from tests.providers.anthropic.made import KEY, SSE, body, call, events, settle, streamed, text, thinking, whole
from tests.providers.anthropic.test_answer import FOUND, SEARCH
from tests.providers.cost import calls_per_chunk, total
from tests.providers.loopback import Loopback, Reply, event, in_thread, json_reply

DONE = text('done')


@dataclass
class Pair:
    a: int
    b: int | None = None


class Noted:
    """An agent with tools that note what they were called with."""

    def __init__(self, url: str, name: str = 'claude-sonnet-4-5', **kwargs: Any) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.agent: Agent[None, Any] = Agent(AnthropicModel(name, base_url=url, api_key=KEY), **kwargs)

        @self.agent.tool
        async def f(x: int) -> str:  # pyright: ignore[reportUnusedFunction]
            self.calls.append(('f', x))
            return f'f{x}'

        @self.agent.tool
        async def g(y: dict[str, int]) -> str:  # pyright: ignore[reportUnusedFunction]
            self.calls.append(('g', y))
            return f'g{y}'

    async def run(self, prompt: str = 'go', *, streamed: bool, **kwargs: Any) -> Any:
        if not streamed:
            return await self.agent.run(prompt, **kwargs)
        async with self.agent.run_stream(prompt, **kwargs) as stream:
            return await stream.result()


def check(replies: list[Reply], *, streamed: bool, **kwargs: Any) -> tuple[Noted, Any, list[Any]]:
    """Run against these replies: what was noted, the result, and each request's body."""

    async def main() -> tuple[Noted, Any, list[Any]]:
        async with Loopback(replies) as loopback:
            noted = Noted(loopback.url, **kwargs)
            result = await noted.run(streamed=streamed)
            assert is_valid(result.messages)
            return noted, result, [r.json for r in loopback.requests]

    return asyncio.run(main())


def ids(request: Any) -> tuple[list[str], list[str]]:
    """The ids of all calls in a request, and of all results."""
    blocks: list[Any] = [b for m in request['messages'] for b in m['content']]
    called = [b['id'] for b in blocks if b['type'] == 'tool_use']
    return called, [b['tool_use_id'] for b in blocks if b['type'] == 'tool_result']


both_ways = pytest.mark.parametrize('streamed', [False, True])


class TestCalls:
    @both_ways
    @pytest.mark.parametrize('wire_ids', [[''], ['', ''], ['same', 'same'], ['a', 'b']])
    def test_ids_that_are_empty_or_repeated(self, wire_ids: list[str], streamed: bool) -> None:
        blocks = [call(v, 'f', x=i) for i, v in enumerate(wire_ids)]
        noted, _, requests = check([settle(streamed, *blocks), settle(streamed, DONE)], streamed=streamed)
        assert noted.calls == [('f', i) for i in range(len(wire_ids))]
        called, answered = ids(requests[1])
        assert called == answered and len(set(called)) == len(called) and all(called)
        if wire_ids == ['a', 'b']:
            assert called == ['a', 'b']

    def test_an_id_used_again_in_a_later_response(self) -> None:
        _, _, requests = check([whole(call('x', 'f', x=1))] * 2 + [whole(DONE)], streamed=False)
        called, answered = ids(requests[2])
        assert called == answered and len(set(called)) == 2 and called[0] == 'x'

    def test_calls_that_cannot_be_run_are_answered(self) -> None:
        blocks = [call('1', 'f', x=1), call('2', 'made_up'), call('3', 'g', y='no'), call('4', 'a name')]
        noted, result, requests = check([whole(*blocks), whole(DONE)], streamed=False)
        assert noted.calls == [('f', 1)] and result.output == 'done'
        assert ids(requests[1]) == (list('1234'), list('1234'))
        assert [b['name'] for b in requests[1]['messages'][1]['content']] == ['f', 'made_up', 'g', 'a_name']
        failed = [b.get('is_error', False) for b in requests[1]['messages'][2]['content']]
        assert failed == [False, True, True, True]

    def test_streamed_arguments_that_are_no_json_are_not_run(self) -> None:
        made = events(call('a', 'f', x=1))
        for one in made:
            if one['type'] == 'content_block_delta':
                one['delta']['partial_json'] = one['delta']['partial_json'].replace('}', '')
        noted, _, requests = check([Reply([body(made)], 200, SSE), streamed(DONE)], streamed=True)
        assert noted.calls == []
        assert requests[1]['messages'][1]['content'][0]['input'] == {'invalid_arguments': '{"x": 1'}

    @both_ways
    def test_a_call_cut_off_by_the_limit_is_never_run(self, streamed: bool) -> None:
        replies = [settle(streamed, call('a', 'f', x=1), stop='max_tokens'), settle(streamed, DONE)]
        noted, _, requests = check(replies, streamed=streamed)
        assert noted.calls == [] and ids(requests[1]) == (['a'], ['a'])
        assert 'limit' in requests[1]['messages'][2]['content'][0]['content']

    def test_the_history_says_the_same_whoever_watches(self) -> None:
        def said(result: Any) -> list[Any]:
            parts = [p for m in result.messages if isinstance(m, AssistantMessage) for p in m.parts]
            return [(p.tool_name, args_of(p)) if isinstance(p, ToolCallPart) else p for p in parts]

        def args_of(part: ToolCallPart) -> Any:
            return json.loads(part.args) if isinstance(part.args, str) else part.args

        blocks = [thinking('hm'), text('wait'), call('a', 'f', x=1)]
        plainly = check([whole(*blocks), whole(DONE)], streamed=False)
        watched = check([streamed(*blocks), streamed(DONE)], streamed=True)
        assert plainly[0].calls == watched[0].calls == [('f', 1)]
        assert [{**r, 'stream': None} for r in plainly[2]] == [{**r, 'stream': None} for r in watched[2]]
        assert said(plainly[1]) == said(watched[1])


class TestWhatGoesBack:
    @both_ways
    def test_thinking_and_the_providers_tools(self, streamed: bool) -> None:
        """In the next step, and in the next run after a round trip through JSON."""
        blocks = [thinking('hm'), SEARCH, FOUND, text('so'), {**call('a', 'f', x=1), 'caller': {'type': 'direct'}}]

        async def main() -> list[Any]:
            replies = [settle(streamed, *blocks), settle(streamed, DONE), settle(streamed, DONE)]
            async with Loopback(replies) as loopback:
                noted = Noted(loopback.url)
                result = await noted.run(streamed=streamed)
                history = load_json(dump_json(result.messages))
                await noted.run('more', streamed=streamed, message_history=history)
                return [r.json['messages'] for r in loopback.requests]

        _, second, third = asyncio.run(main())
        assert second[1]['content'] == third[1]['content'] == blocks
        assert [m['role'] for m in third] == ['user', 'assistant', 'user', 'assistant', 'user']

    def test_half_pairs_do_not_poison_a_conversation(self) -> None:
        async def main() -> None:
            plain = whole(call('a', 'echo', t='?')).pieces[0].replace(b'"?"', b'"\\ud83c\\udf78 \\ud83c"')
            got: list[str] = []
            async with Loopback([json_reply(plain), whole(DONE)]) as loopback:
                agent = Agent(AnthropicModel('claude-x', base_url=loopback.url, api_key=KEY), instructions='\u202e!')

                @agent.tool
                async def echo(t: str) -> str:  # pyright: ignore[reportUnusedFunction]
                    got.append(t)
                    return t + '\udc97'

                result = await agent.run('go')
                await agent.run('more', message_history=result.messages)
                assert got == ['\U0001f378 \ufffd']
                sent = loopback.requests[2].json
                assert sent['messages'][2]['content'][0]['content'] == '\U0001f378 \ufffd\ufffd'
                assert sent['system'] == [text('\u202e!')]

        asyncio.run(main())

    def test_a_history_with_system_messages_in_the_middle(self) -> None:
        async def main() -> Any:
            async with Loopback([whole(DONE)]) as loopback:
                noted = Noted(loopback.url, instructions='first')
                history = [UserMessage('a'), SystemMessage('second'), UserMessage('b')]
                await noted.run(streamed=False, message_history=history)
                return loopback.requests[0].json

        sent = asyncio.run(main())
        assert [b['text'] for b in sent['system']] == ['first', 'second']
        assert [b['text'] for b in sent['messages'][0]['content']] == ['a', 'b', 'go']


class TestEnds:
    @both_ways
    def test_a_refusal_ends_the_run_at_once(self, streamed: bool) -> None:
        async def main() -> int:
            details = {'type': 'refusal', 'category': 'cyber', 'explanation': 'I will not'}
            reply = settle(streamed, text('Hi'), stop='refusal', stop_details=details)
            async with Loopback([reply]) as loopback:
                with pytest.raises(ContentFiltered) as caught:
                    await Noted(loopback.url).run(streamed=streamed)
                assert caught.value.reason == 'I will not' and is_valid(caught.value.messages)
                return len(loopback.requests)

        assert asyncio.run(main()) == 1

    @pytest.mark.parametrize('blocks', [[], [text('')], [text(' \n')], [thinking('hm')]])
    def test_emptiness_is_retried_within_bounds_and_never_sent(self, blocks: list[Any]) -> None:
        async def main() -> list[Any]:
            async with Loopback([whole(*blocks)]) as loopback:
                with pytest.raises(UnexpectedModelBehavior):
                    await Noted(loopback.url).run(streamed=False)
                return [r.json['messages'] for r in loopback.requests]

        requests = asyncio.run(main())
        assert 1 < len(requests) < 6
        sent = [b for m in requests[-1] for b in m['content']]
        assert all(b['type'] != 'text' or b['text'].strip() for b in sent)

    @both_ways
    def test_an_error_of_the_server_carries_a_valid_history(self, streamed: bool) -> None:
        said = json_reply({'type': 'error', 'error': {'type': 'invalid_request_error', 'message': 'no'}}, status=400)
        with pytest.raises(ModelHTTPError) as caught:
            check([settle(streamed, call('a', 'f', x=1)), said], streamed=streamed)
        assert caught.value.run_id and is_valid(caught.value.messages)

    def test_half_a_call_runs_nothing(self) -> None:
        made = events(call('a', 'f', x=1), call('b', 'f', x=2))
        half = Reply([body(made[:-4])], 200, SSE, framing='close')
        with pytest.raises(ModelProtocolError) as caught:
            check([half], streamed=True)
        assert is_valid(caught.value.messages)

    def test_a_structured_answer(self) -> None:
        async def main() -> Any:
            async with Loopback([whole(text('{"a": 1, "b": null}'))]) as loopback:
                model = AnthropicModel('claude-sonnet-4-5', base_url=loopback.url, api_key=KEY)
                agent = Agent(model, output_type=NativeOutput(Pair))
                return (await agent.run('go')).output, loopback.requests[0].json

        output, sent = asyncio.run(main())
        assert output == Pair(1)
        assert sent['output_config']['format']['schema']['required'] == ['a']

    def test_an_output_tool_where_a_call_cannot_be_forced(self) -> None:
        """The newest models take no forced choice: a text is answered with the request to call the tool."""
        replies = [whole(text('It is one.')), whole(call('a', 'final_result', a=1))]
        _, result, requests = check(replies, streamed=False, name='claude-opus-5-5', output_type=Pair)
        assert result.output == Pair(1)
        assert all('tool_choice' not in r for r in requests)


class TestManyLoops:
    def test_one_agent_run_sync_and_streamed_by_turns(self) -> None:
        with in_thread([whole(DONE), streamed(DONE)] * 2) as server:
            noted = Noted(server.url)
            for _ in range(2):
                asyncio.new_event_loop().close()
                assert noted.agent.run_sync('go').output == 'done'
                assert asyncio.run(noted.run(streamed=True)).output == 'done'

    def test_many_threads(self) -> None:
        with in_thread([whole(DONE)]) as server:
            noted, found = Noted(server.url), list[str]()
            threads = [
                threading.Thread(target=lambda: found.append(noted.agent.run_sync('go').output)) for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
            assert found == ['done'] * 8


def chunks(count: int) -> list[bytes]:
    """A stream of `count` pieces of text."""
    return [event(e, e['type']) for e in events(text('tok ' * count), size=4)]


class TestCost:
    def test_calls_per_streamed_chunk(self) -> None:
        """Engine and HTTP client included; the bound for the mapping above the transport is 350."""
        assert (
            calls_per_chunk(lambda url: AnthropicModel('claude-sonnet-4-5', base_url=url, api_key=KEY), chunks) <= 200
        )

    def test_calls_per_request(self) -> None:
        """The mapping alone, both ways: at most 2,500 a request, and a few for each message before it."""
        from agent_graph.model import RequestInfo, ResponseBuilder
        from agent_graph_providers.anthropic.model import MessagesWire
        from agent_graph_providers.wire.errors import Asked
        from agent_graph_providers.wire.model import Question
        from agent_graph_providers.wire.offers import Memory, Offers
        from tests.providers.anthropic.made import plain

        wire = MessagesWire('anthropic')

        def cost(turns: int) -> int:
            answer = AssistantMessage([ToolCallPart('f', '{}', 'a')], provider_name='anthropic')
            history: list[Any] = [UserMessage('go'), *[answer, UserMessage('x')] * turns]
            memory = Memory(Offers(wire.map_tool), wire.map_message)

            async def once() -> None:
                question = Question('claude-sonnet-4-5', history, RequestInfo(), {}, memory, False)
                wire.request(question)
                out = ResponseBuilder()
                reader = wire.answer(question, out, Asked('a', 'm', '', None, ''))
                await reader.whole(plain(text('x'), call('a', 'f', x=1)))
                reader.settle()

            asyncio.run(once())
            profile = cProfile.Profile()
            loop = asyncio.new_event_loop()
            profile.enable()
            loop.run_until_complete(once())
            profile.disable()
            loop.close()
            return total(profile)

        few, many = cost(1), cost(101)
        assert few <= 1_000
        assert (many - few) / 200 <= 6
