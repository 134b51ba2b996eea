"""Responses made in the background: one that is only on a list is no answer."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ModelError, ModelHTTPError, ModelProtocolError, ModelTimeout
from agent_graph.messages import AssistantMessage
from agent_graph_providers.responses import ResponsesModel
from tests.providers.loopback import Loopback, Reply, Request, json_reply, sse_reply
from tests.providers.responses.made import KEY, ask, call, event_stream, message, response

DONE = response([message('hello')], store=True)
WAITS: dict[str, Any] = {'usage': None, 'store': True}
QUEUED = response([], status='queued', **WAITS)
GOING = response([], status='in_progress', **WAITS)


def go(
    replies: list[Any], *, watched: bool = False, **settings: Any
) -> tuple[AssistantMessage | ModelError, list[Request]]:
    async def drop(*_: Any, **__: Any) -> None:
        """Somebody watches, and looks away."""

    async def main() -> tuple[AssistantMessage | ModelError, list[Request]]:
        async with Loopback([r if isinstance(r, Reply) else json_reply(r) for r in replies]) as server:
            model = ResponsesModel('m', base_url=server.url, api_key=KEY)
            try:
                got = await ask(model, sink=drop if watched else None, settings=settings)
            except ModelError as error:
                return error, server.requests
            return got, server.requests

    return asyncio.run(main())


@pytest.mark.parametrize('watched', [False, True])
def test_it_is_asked_for_until_it_is_made(watched: bool) -> None:
    got, requests = go([QUEUED, GOING, DONE], watched=watched, background=True)
    assert isinstance(got, AssistantMessage) and [p.kind for p in got.parts] == ['text']
    assert [(r.method, r.path) for r in requests] == [
        ('POST', '/v1/responses'),
        *[('GET', '/v1/responses/resp_1')] * 2,
    ]
    body = requests[0].json
    assert (body['background'], body['store'], 'stream' in body) == (True, True, False)
    assert not requests[1].body and requests[1].headers['authorization'] == f'Bearer {KEY}'
    assert got.usage.total_tokens == 5 and got.finish_reason == 'stop'


def test_one_that_is_made_at_once() -> None:
    got, requests = go([DONE], background=True)
    assert isinstance(got, AssistantMessage) and len(requests) == 1


@pytest.mark.parametrize('state', [QUEUED, GOING])
def test_without_the_setting_it_is_an_error(state: dict[str, Any]) -> None:
    got, requests = go([state, DONE])
    assert isinstance(got, ModelProtocolError) and len(requests) == 1
    assert all(word in str(got) for word in ('resp_1', state['status'], 'background'))
    assert (got.provider, got.model) == ('openai', 'm')


def test_a_stream_that_only_says_it_is_queued() -> None:
    events = [{'type': 'response.created', 'response': QUEUED}, {'type': 'response.queued', 'response': QUEUED}]
    got, _ = go([sse_reply(events, done=False)], watched=True)
    assert isinstance(got, ModelProtocolError) and 'cut off' in str(got)


def test_a_server_that_streams_it_all_the_same() -> None:
    events = [{'type': 'response.queued', 'response': QUEUED}, *event_stream(message('hello'), store=True)]
    got, requests = go([sse_reply(events, done=False)], watched=True, background=True)
    assert isinstance(got, AssistantMessage) and len(requests) == 1


def test_one_that_failed() -> None:
    failed = response([], status='failed', error={'code': 'server_error', 'message': 'It broke.'})
    got, _ = go([QUEUED, failed], background=True)
    assert isinstance(got, ModelHTTPError) and got.code == 'server_error'
    got, _ = go([QUEUED, response([], status='cancelled')], background=True)
    assert isinstance(got, ModelHTTPError) and got.code == 'cancelled'
    got, _ = go([QUEUED, json_reply({'error': {'message': 'gone'}}, status=404)], background=True)
    assert isinstance(got, ModelHTTPError) and got.status == 404


def test_it_is_not_waited_for_for_ever() -> None:
    begun = time.monotonic()
    got, requests = go([QUEUED], background=True, timeout=0.6)
    assert isinstance(got, ModelTimeout) and 1 < len(requests) < 5
    assert 0.5 < time.monotonic() - begun < 5


def test_leaving_while_it_is_waited_for() -> None:
    async def main() -> None:
        async with Loopback([json_reply(QUEUED)]) as server:
            model = ResponsesModel('m', base_url=server.url, api_key=KEY)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await ask(model, settings={'background': True})
            await asyncio.sleep(0.6)
            assert len(server.requests) == 1

    asyncio.run(main())


def test_an_agent_with_tools() -> None:
    async def main() -> None:
        called = response([call('f', '{"x": 1}')], store=True)
        replies = [QUEUED, called, QUEUED, DONE]
        async with Loopback([json_reply(r) for r in replies]) as server:
            agent = Agent(ResponsesModel('m', base_url=server.url, api_key=KEY), model_settings={'background': True})

            @agent.tool
            async def f(x: int) -> str:  # pyright: ignore[reportUnusedFunction]
                return f'f{x}'

            assert (await agent.run('go')).output == 'hello'
            assert [r.method for r in server.requests] == ['POST', 'GET', 'POST', 'GET']
            assert server.requests[2].json['input'][-1]['output'] == 'f1'

    asyncio.run(main())
