"""Faults people met on the wire, through a whole Agent: what the tools were given, and what was sent next."""

from __future__ import annotations

import asyncio
import cProfile
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ContentFiltered, ModelProtocolError, ModelTimeout, UnexpectedModelBehavior
from agent_graph.messages import TextPart, UserMessage, is_valid
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph_providers.bedrock import BedrockModel
from tests.providers.bedrock.server import STREAM, answer, events, message, said, stream, tool_events
from tests.providers.cost import calls_per_chunk, total
from tests.providers.loopback import Loopback, Reply, in_thread

KEY = 'bedrock-api-key-0123456789'
CLAUDE = 'us.anthropic.claude-sonnet-4-6'
DONE = answer({'text': 'done'})
DONE_STREAMED = stream(said([{'text': 'done'}]))


def model(url: str) -> BedrockModel:
    return BedrockModel(CLAUDE, base_url=url, api_key=KEY)


class Noted:
    """An agent with a tool that notes what it was called with."""

    def __init__(self, url: str) -> None:
        self.calls: list[int] = []
        self.agent = Agent(model(url))

        @self.agent.tool
        async def f(x: int) -> str:  # pyright: ignore[reportUnusedFunction]
            self.calls.append(x)
            return f'f{x}'

    async def run(self, *, streamed: bool) -> Any:
        if not streamed:
            return await self.agent.run('go')
        async with self.agent.run_stream('go') as watched:
            return await watched.result()


def check(replies: list[Any], *, streamed: bool) -> tuple[Noted, Any, list[Any]]:
    async def main() -> tuple[Noted, Any, list[Any]]:
        async with Loopback(replies) as loopback:
            noted = Noted(loopback.url)
            result = await noted.run(streamed=streamed)
            assert is_valid(result.messages)
            return noted, result, [r.json['messages'] for r in loopback.requests]

    return asyncio.run(main())


def ids(messages: list[Any]) -> tuple[list[str], list[str]]:
    blocks = [b for m in messages for b in m['content']]
    called = [b['toolUse']['toolUseId'] for b in blocks if 'toolUse' in b]
    return called, [b['toolResult']['toolUseId'] for b in blocks if 'toolResult' in b]


@pytest.mark.parametrize('streamed', [False, True])
@pytest.mark.parametrize('wire_ids', [[''], ['', ''], ['same', 'same'], ['a', 'b']])
def test_ids_that_are_empty_or_repeated(wire_ids: list[str], streamed: bool) -> None:
    if streamed:
        calls = [tool_events('f', i, f'{{"x": {n}}}') for n, i in enumerate(wire_ids)]
        replies = [stream(said(*calls, stop='tool_use')), DONE_STREAMED]
    else:
        blocks = [{'toolUse': {'toolUseId': i, 'name': 'f', 'input': {'x': n}}} for n, i in enumerate(wire_ids)]
        replies = [answer(*blocks, stop='tool_use'), DONE]
    noted, _, requests = check(replies, streamed=streamed)
    assert noted.calls == list(range(len(wire_ids)))
    called, answered = ids(requests[1])
    assert called == answered and len(set(called)) == len(called) and all(called)
    assert wire_ids != ['a', 'b'] or called == ['a', 'b']


def test_half_pairs_do_not_poison_a_conversation() -> None:
    pieces = '{"x": 1, "note": "\\ud83c', '\\udf78 \\ud83c"}'
    raw = events(said(tool_events('echo', 'a', *pieces), stop='tool_use'))

    async def main() -> None:
        got: list[str] = []
        async with Loopback([stream(raw), DONE_STREAMED]) as loopback:
            agent = Agent(model(loopback.url), instructions='\U0001f468\u200d\U0001f467 \u202e!')

            @agent.tool
            async def echo(x: int, note: str) -> str:  # pyright: ignore[reportUnusedFunction]
                got.append(note)
                return note + '\udc97'

            async with agent.run_stream('go') as watched:
                assert (await watched.result()).output == 'done'
            assert got == ['\U0001f378 \ufffd']
            sent = loopback.requests[1].json
            assert sent['messages'][2]['content'][0]['toolResult']['content'] == [{'text': '\U0001f378 \ufffd\ufffd'}]
            assert sent['system'] == [{'text': '\U0001f468\u200d\U0001f467 \u202e!'}]

    asyncio.run(main())


def test_half_pairs_in_two_pieces_of_text() -> None:
    """As a careless encoder would cut an emoji: its two escapes in two events."""
    bodies = [events([item]) for item in said([{'text': 'x'}, {'text': 'y'}])]
    halves = (
        b'{"contentBlockIndex":0,"delta":{"text":"a\\ud83c"}}',
        b'{"contentBlockIndex":0,"delta":{"text":"\\udf78b\\ud83c"}}',
    )
    bodies[1:3] = [message(raw, message_type='event', event_type='contentBlockDelta') for raw in halves]

    async def main() -> ResponseBuilder:
        async with Loopback([stream(b''.join(bodies), split=4)]) as server:
            out = ResponseBuilder(_drop)
            await model(server.url).respond([UserMessage('hi')], RequestInfo(), out)
            await out.finish()
            return out

    assert asyncio.run(main()).build().parts == (TextPart('a\U0001f378b\ufffd'),)


async def _drop(*_: Any, **__: Any) -> None:
    """Somebody watches, and looks away."""


@pytest.mark.parametrize('args', ['{"x": ', '{}'])
def test_a_call_cut_off_by_the_limit_is_never_run(args: str) -> None:
    replies = [stream(said(tool_events('f', 'a', args), stop='max_tokens')), DONE_STREAMED]
    noted, _, requests = check(replies, streamed=True)
    assert noted.calls == [] and ids(requests[1]) == (['a'], ['a'])
    result = requests[1][2]['content'][0]['toolResult']
    assert result['status'] == 'error' and 'limit' in result['content'][0]['text']


def test_a_call_that_was_cut_off_by_the_network_is_never_run() -> None:
    for keep in (3, 4):
        items = said(tool_events('f', 'a', '{"x": 1}'), stop='tool_use')[:keep]
        with pytest.raises(ModelProtocolError) as caught:
            check([stream(items)], streamed=True)
        assert is_valid(caught.value.messages)


@pytest.mark.parametrize('streamed', [False, True])
@pytest.mark.parametrize('word', ['content_filtered', 'guardrail_intervened'])
def test_a_filter_ends_the_run_at_once(word: str, streamed: bool) -> None:
    async def main() -> int:
        reply = stream(said([{'text': 'half'}], stop=word)) if streamed else answer({'text': 'half'}, stop=word)
        async with Loopback([reply]) as loopback:
            with pytest.raises(ContentFiltered) as caught:
                await Noted(loopback.url).run(streamed=streamed)
            assert word in f'{caught.value.reason} {caught.value}' and is_valid(caught.value.messages)
            return len(loopback.requests)

    assert asyncio.run(main()) == 1


def test_emptiness_is_retried_within_bounds_and_never_sent() -> None:
    async def main() -> list[Any]:
        async with Loopback([answer({'text': ''})]) as loopback:
            with pytest.raises(UnexpectedModelBehavior):
                await Noted(loopback.url).run(streamed=False)
            return [r.json['messages'] for r in loopback.requests]

    requests = asyncio.run(main())
    assert 1 < len(requests) < 6
    assert all(block.get('text', 'x').strip() for m in requests[-1] for block in m['content'])


def test_one_model_in_several_loops() -> None:
    with in_thread([DONE, DONE_STREAMED, DONE, DONE_STREAMED]) as server:
        noted = Noted(server.url)
        for _ in range(2):
            assert noted.agent.run_sync('go').output == 'done'
            assert asyncio.run(noted.run(streamed=True)).output == 'done'


def test_a_stream_that_stands_still_is_noticed() -> None:
    async def main() -> None:
        half = Reply([events(said([{'text': 'x'}])[:2])], 200, {'content-type': STREAM}, hang=True)
        async with Loopback([half]) as server:
            info = RequestInfo(settings={'event_timeout': 0.1})
            with pytest.raises(ModelTimeout, match='event_timeout'):
                await model(server.url).respond([UserMessage('hi')], info, ResponseBuilder(_drop))
            await asyncio.wait_for(server.hung_up.wait(), 5)

    asyncio.run(main())


def test_leaving_early_closes_the_connection() -> None:
    async def main() -> None:
        half = Reply([events(said([{'text': 'x'}])[:2])], 200, {'content-type': STREAM}, hang=True)
        async with Loopback([half]) as server:
            async with Agent(model(server.url)).run_stream('go') as watched:
                async for _ in watched.text(delta=True):
                    break
            await asyncio.wait_for(server.hung_up.wait(), 5)

    asyncio.run(main())


def chunks(count: int) -> list[bytes]:
    """A stream of `count` pieces of text."""
    return [events([item]) for item in said([{'text': f'tok{i} '} for i in range(count)])]


def test_calls_per_streamed_chunk() -> None:
    """Engine and HTTP client included."""
    assert calls_per_chunk(model, chunks, STREAM) <= 250  # the bound is 350


def test_calls_per_request() -> None:
    """Above one request of the bare HTTP client."""

    async def main(url: str) -> tuple[int, int]:
        import httpx

        async with httpx.AsyncClient() as client:
            asked = BedrockModel(CLAUDE, base_url=url, api_key=KEY, http_client=client)

            async def bare() -> None:
                await client.post(f'{url}/model/x/converse', content=b'{}')

            async def ours() -> None:
                await asked.respond([UserMessage('hi')], RequestInfo(), ResponseBuilder())

            costs: list[int] = []
            for ask in (bare, ours):
                await ask()
                profile = cProfile.Profile()
                profile.enable()
                await ask()
                profile.disable()
                costs.append(total(profile))
            return costs[0], costs[1]

    with in_thread([DONE]) as server:
        bare, ours = asyncio.run(main(server.url))
    assert ours - bare <= 2_500
