"""The wrappers around a model behind real HTTP: what servers say about waiting, streams that break, keys."""

from __future__ import annotations

import asyncio
import logging
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent, ModelHTTPError, ModelProtocolError
from agent_graph.models import (
    Backoff,
    CachedModel,
    CountingModel,
    FallbackModel,
    LimitedModel,
    RetryingModel,
    TimeoutModel,
)
from agent_graph_providers.openai import OpenAIModel
from tests.engine.kit import WAYS, Way
from tests.models.kit import Clock
from tests.providers.loopback import Loopback, Reply, event, json_reply, sse_reply

pytestmark = pytest.mark.anyio

USAGE = {'prompt_tokens': 20, 'completion_tokens': 10, 'total_tokens': 30}
KEY = 'sk-marker-0123456789'


def whole(text: str = 'Hi there') -> dict[str, Any]:
    message = {'role': 'assistant', 'content': text}
    return {
        'id': 'c',
        'model': 'm',
        'choices': [{'index': 0, 'message': message, 'finish_reason': 'stop'}],
        'usage': USAGE,
    }


def piece(text: str | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {} if text is None else {'content': text}
    return {'id': 'c', 'model': 'm', 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}], **more}


def streamed(*texts: str) -> Reply:
    return sse_reply([*map(piece, texts), piece(None, 'stop', usage=USAGE)])


def good(request: Any) -> Reply:
    """Plain or streamed, as it is asked for."""
    return streamed('Hi ', 'there') if request.json.get('stream') else json_reply(whole())


def error(status: int, **headers: str) -> Reply:
    return json_reply({'error': {'message': 'Slow down.', 'type': 'requests', 'code': 'x'}}, status=status, **headers)


def model_at(server: Loopback) -> OpenAIModel:
    return OpenAIModel('m', base_url=server.url, api_key=KEY)


def patient(server: Loopback, clock: Clock, **options: Any) -> RetryingModel:
    backoff = Backoff(first=0.25, factor=1, jitter=0)
    return RetryingModel(model_at(server), backoff=backoff, sleep=clock.sleep, clock=clock, **options)


@pytest.mark.parametrize(
    ('reply', 'wait'),
    [
        (error(429), 0.25),
        (error(429, retry_after='7'), 7),
        (error(503, retry_after_ms='1500'), 1.5),
        (error(500, x_ratelimit_remaining_tokens='5', x_ratelimit_reset_tokens='6m0s'), 0.25),
        (error(429, x_ratelimit_remaining_requests='0', x_ratelimit_reset_requests='1m2s'), 62),
        (error(429, retry_after='3', x_ratelimit_remaining_requests='0', x_ratelimit_reset_requests='1m2s'), 3),
        (json_reply({'error': {'message': 'Please try again in 20s.', 'code': 'x'}}, status=429), 20),
    ],
)
async def test_the_server_says_how_long_to_wait(reply: Reply, wait: float) -> None:
    clock = Clock()
    async with Loopback([reply, good]) as server:
        result = await Agent(patient(server, clock)).run('Hello')
    assert result.output == 'Hi there' and clock.slept == [pytest.approx(wait)]
    assert result.usage.requests == 1 and len(server.requests) == 2


async def test_the_server_names_a_moment() -> None:
    clock = Clock()
    iso = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 30))
    named = {'anthropic_ratelimit_tokens_remaining': '0', 'anthropic_ratelimit_tokens_reset': iso}
    replies = [error(429, retry_after=formatdate(time.time() + 40, usegmt=True)), error(429, **named), good]
    async with Loopback(replies) as server:
        await Agent(patient(server, clock)).run('Hello')
    assert clock.slept == [pytest.approx(40, abs=3), pytest.approx(30, abs=3)]


@pytest.mark.parametrize('status', [400, 401, 403, 404, 413, 422])
async def test_what_is_ours_is_not_asked_again(status: int) -> None:
    async with Loopback([error(status), good]) as server:
        with pytest.raises(ModelHTTPError):
            await Agent(patient(server, Clock())).run('Hello')
        assert len(server.requests) == 1


async def test_an_empty_account() -> None:
    quota = json_reply(
        {'error': {'message': 'You exceeded your current quota', 'code': 'insufficient_quota'}}, status=429
    )
    async with Loopback([quota, good]) as server:
        with pytest.raises(ModelHTTPError, match='quota'):
            await Agent(patient(server, Clock())).run('Hello')
        assert len(server.requests) == 1


@pytest.mark.parametrize('way', list(WAYS.values()), ids=list(WAYS))
async def test_every_way_to_run(way: Way) -> None:
    """Overloaded before anything came, whether streamed or not; the library beneath does not retry by itself."""
    overloaded = sse_reply([{'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}])

    def first(request: Any) -> Reply:
        return overloaded if request.json.get('stream') else error(529)

    async with Loopback([first, error(500), good]) as server:
        result = await way(Agent(patient(server, Clock())))
        assert result.output == 'Hi there' and result.usage.requests == 1
        assert len(server.requests) == 3 and server.open <= 1


async def test_a_stream_that_breaks_off() -> None:
    cut = sse_reply([piece('Once '), piece('upon')], done=False, framing='close')
    async with Loopback([cut, streamed('The ', 'end')]) as server:
        agent = Agent(patient(server, Clock(), restart=True))
        async with agent.run_stream('Hello') as stream:
            texts = [text async for text in stream.text()]
        assert texts == ['Once ', 'Once upon', '', 'The ', 'The end']
        assert stream.messages[-1].parts[0].content == 'The end'  # pyright: ignore

    async with Loopback([cut, good]) as server:
        agent = Agent(patient(server, Clock()))
        with pytest.raises(ModelProtocolError, match='cut off') as caught:
            await WAYS['run_stream'](agent)
        assert len(server.requests) == 1
        assert caught.value.messages[-1].interrupted  # pyright: ignore

    async with Loopback([cut, good]) as server:
        assert (await Agent(patient(server, Clock())).run('Hello')).output == 'Hi there'


async def test_a_server_that_does_not_answer() -> None:
    async with Loopback([Reply(hang=True), good]) as server:
        bounded = TimeoutModel(model_at(server), whole=0.2)
        assert (await Agent(RetryingModel(bounded)).run('Hello')).output == 'Hi there'
        await asyncio.wait_for(server.hung_up.wait(), 5)  # the connection was closed

    stalled = Reply([event(piece('Hi '))], headers={'content-type': 'text/event-stream'}, hang=True)
    async with Loopback([stalled, good]) as server:
        bounded = TimeoutModel(model_at(server), between=0.2)
        async with Agent(RetryingModel(bounded, restart=True)).run_stream('Hello') as stream:
            result = await stream.result()
        assert result.output == 'Hi there'


async def test_another_server_takes_over() -> None:
    async with Loopback([error(401)]) as down, Loopback([good]) as up:
        model = FallbackModel([RetryingModel(model_at(down)), LimitedModel(model_at(up), concurrency=1)])
        result = await Agent(model).run('Hello')
        details: Any = getattr(result.messages[-1], 'provider_details')  # noqa: B009 (whatever message it is)
        assert result.output == 'Hi there'
        assert details['fallback'][0]['error'].startswith('ModelHTTPError: openai answered 401')
        assert len(down.requests) == len(up.requests) == 1


async def test_cached(path: Path) -> None:
    async with Loopback([good]) as server:
        async with CachedModel(RetryingModel(model_at(server)), path) as cache:
            agent = Agent(cache)
            first = await agent.run('Hello')
            async with agent.run_stream('Hello') as stream:
                text = ''.join([piece async for piece in stream.text(delta=True)])
        assert text == first.output == 'Hi there' and len(server.requests) == 1
        assert (first.usage.total_tokens, stream.usage.total_tokens) == (30, 0)


async def test_the_key_is_nowhere(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not in logs, errors and their notes, events, the shown wrappers, nor the cache's files."""
    caplog.set_level(logging.DEBUG, 'agent_graph')

    def quoting(request: Any) -> Reply:
        return json_reply({'error': {'message': f'bad key {request.headers["authorization"]}'}}, status=503)

    seen: list[str] = []
    async with Loopback([quoting, quoting, good]) as server:
        cache = CachedModel(CountingModel(patient(server, Clock())), path)
        agent = Agent(FallbackModel([LimitedModel(cache, concurrency=1)]))
        seen.extend([repr(told) async for told in agent.run_stream_events('Hello')])
        await cache.close()
        seen.append(repr(FallbackModel([LimitedModel(cache, concurrency=1)])))
    async with Loopback([quoting]) as server:
        with pytest.raises(ModelHTTPError) as caught:
            await Agent(patient(server, Clock())).run('Hello')
        seen += [str(caught.value), *caught.value.__notes__, *caught.value.tried]
    assert 'bad key' in ''.join(seen) and 'bad key' in caplog.text
    everything = ''.join(seen) + caplog.text + ''.join(f.read_bytes().decode('latin-1') for f in path.parent.iterdir())
    assert KEY not in everything
