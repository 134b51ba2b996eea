"""Requests over loopback HTTP: what is sent, what goes wrong, and what is left open afterwards (nothing)."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Sequence
from typing import Any

import pytest

from agent_graph.errors import (
    ConfigError,
    ModelError,
    ModelHTTPError,
    ModelProtocolError,
    ModelTimeout,
    ModelUnreachable,
)
from agent_graph.messages import FilePart, SystemMessage, TextPart, UserMessage
from agent_graph.model import RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph.models import CountingModel, count_tokens
from agent_graph.registry import infer_model
from agent_graph_providers.anthropic import AnthropicModel
from agent_graph_providers.fetch import Fetcher
from tests.providers.anthropic.made import KEY, SSE, ask, body, call, events, streamed, text, whole
from tests.providers.anthropic.test_answer import FOUND, SEARCH
from tests.providers.loopback import Loopback, Reply, Request, event, json_reply


def exchange(replies: Sequence[Reply], watched: bool = False, **settings: Any) -> tuple[Any, list[Request]]:
    """The answer or the error these replies make, and the requests."""

    async def main() -> tuple[Any, list[Request]]:
        async with Loopback(replies) as loopback:
            model = AnthropicModel('claude-sonnet-4-5', base_url=loopback.url, api_key=KEY)
            try:
                return await ask(model, watched=watched, **settings), loopback.requests
            except ModelError as error:
                return error, loopback.requests

    got, requests = asyncio.run(main())
    if isinstance(got, ModelError):
        assert (got.provider, got.model) == ('anthropic', 'claude-sonnet-4-5')
    return got, requests


class TestRequests:
    def test_what_is_sent(self) -> None:
        _, (request,) = exchange([whole(text('x'))])
        assert (request.method, request.path) == ('POST', '/v1/messages')
        sent = {name: request.headers[name] for name in ('x-api-key', 'anthropic-version', 'content-type')}
        assert sent == {'x-api-key': KEY, 'anthropic-version': '2023-06-01', 'content-type': 'application/json'}
        assert request.json == {
            'model': 'claude-sonnet-4-5',
            'max_tokens': 32_000,
            'messages': [{'role': 'user', 'content': [text('hi')]}],
        }

    def test_what_a_user_adds(self) -> None:
        headers = {'Anthropic-Version': '2026-10-21', 'anthropic-beta': 'a-1'}
        extra = {'thinking': {'display': 'summarized'}, 'fallbacks': 'default'}
        _, (request,) = exchange([whole(text('x'))], extra_headers=headers, extra_body=extra, thinking_budget=2000)
        assert (request.headers['anthropic-version'], request.headers['anthropic-beta']) == ('2026-10-21', 'a-1')
        assert request.json['thinking'] == {'type': 'enabled', 'budget_tokens': 2000, 'display': 'summarized'}
        assert request.json['fallbacks'] == 'default'

    def test_the_address_from_the_environment_and_without_a_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def main() -> list[str]:
            async with Loopback([whole(text('x'))]) as loopback:
                monkeypatch.setenv('ANTHROPIC_API_KEY', KEY)
                for url in (loopback.url, loopback.url.removesuffix('/v1'), loopback.url + '/'):
                    monkeypatch.setenv('ANTHROPIC_BASE_URL', url)
                    model = infer_model('anthropic:claude-x')
                    assert isinstance(model, AnthropicModel)
                    await ask(model)
                return [r.path for r in loopback.requests]

        assert asyncio.run(main()) == ['/v1/messages'] * 3

    def test_a_missing_key_and_a_missing_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv('ANTHROPIC_API_KEY', raising=False)
        with pytest.raises(ConfigError, match='set ANTHROPIC_API_KEY or pass api_key='):
            asyncio.run(ask(AnthropicModel('claude-x')))
        with pytest.raises(ConfigError, match='names no model'):
            infer_model('anthropic:')

    def test_files_anthropic_cannot_fetch_itself(self) -> None:
        async def main() -> Any:
            files = Reply([b'a text'], 200, {'content-type': 'text/plain'}, framing='length')
            async with Loopback([files]) as elsewhere, Loopback([whole(text('x'))]) as loopback:
                model = AnthropicModel('claude-x', base_url=loopback.url, api_key=KEY, fetcher=Fetcher())
                file = FilePart.from_url(f'{elsewhere.url}/a.txt', allow_local=True)
                await ask(model, [UserMessage(['read', file])])
                return loopback.requests[0].json['messages'][0]['content'][1]

        source = {'type': 'text', 'media_type': 'text/plain', 'data': 'a text'}
        assert asyncio.run(main()) == {'type': 'document', 'source': source}


class TestPauses:
    """`pause_turn`: the provider's own tools ran for long; the answer goes on when it is sent back."""

    @pytest.mark.parametrize('watched', [True, False])
    def test_the_answer_goes_on(self, watched: bool) -> None:
        replies = [
            streamed(text('one'), SEARCH, FOUND, stop='pause_turn', container={'id': 'c1'})
            if watched
            else whole(text('one'), SEARCH, FOUND, stop='pause_turn', container={'id': 'c1'}),
            streamed(text('two'), stop='pause_turn') if watched else whole(text('two'), stop='pause_turn'),
            streamed(text('three'), call('a', 'f', x=1)) if watched else whole(text('three'), call('a', 'f', x=1)),
        ]
        got, requests = exchange(replies, watched)
        assert [p.content for p in got.parts if isinstance(p, TextPart)] == ['one', 'two', 'three']
        assert (got.finish_reason, got.provider_details['finish_reason']) == ('tool_calls', 'tool_use')
        assert (got.usage.input_tokens, got.usage.output_tokens) == (9, 15)
        first, second, third = [r.json for r in requests]
        assert second == {
            **first,
            'messages': [*first['messages'], {'role': 'assistant', 'content': [text('one'), SEARCH, FOUND]}],
            'container': 'c1',
        }
        assert third['messages'][-1]['content'] == [text('one'), SEARCH, FOUND, text('two')]

    def test_not_for_ever(self) -> None:
        got, requests = exchange([whole(SEARCH, FOUND, stop='pause_turn')])
        assert isinstance(got, ModelProtocolError) and 'pause_turn' in str(got)
        assert 10 < len(requests) < 30

    def test_a_pause_with_nothing_to_send_back(self) -> None:
        got, requests = exchange([whole(stop='pause_turn')])
        assert isinstance(got, ModelProtocolError) and len(requests) == 1

    def test_an_error_in_between_keeps_what_was_used(self) -> None:
        async def main() -> ResponseBuilder:
            failing = json_reply({'type': 'error', 'error': {'type': 'api_error', 'message': 'no'}}, status=500)
            async with Loopback([whole(text('one'), SEARCH, FOUND, stop='pause_turn'), failing]) as loopback:
                out = ResponseBuilder()
                model = AnthropicModel('claude-x', base_url=loopback.url, api_key=KEY)
                with pytest.raises(ModelHTTPError):
                    await model.respond([UserMessage('hi')], RequestInfo(), out)
                return out

        out = asyncio.run(main())
        assert out.usage.input_tokens == 3 and out.build().parts[0] == TextPart('one')


class TestCounting:
    def test_the_providers_own_count(self) -> None:
        tools = (ToolDefinition('f', '', {'type': 'object'}),)

        async def main() -> tuple[int | None, Request]:
            async with Loopback([json_reply({'input_tokens': 14})]) as loopback:
                model = AnthropicModel('claude-x', base_url=loopback.url, api_key=KEY)
                info = RequestInfo(tools, {'extra_body': {'x': 1}, 'temperature': 0.5})
                return await model.count_tokens([SystemMessage('s'), UserMessage('hi')], info), loopback.requests[0]

        tokens, request = asyncio.run(main())
        assert (tokens, request.path) == (14, '/v1/messages/count_tokens')
        assert set(request.json) == {'model', 'messages', 'system', 'tools'}

    def test_through_the_wrappers(self) -> None:
        async def main() -> Any:
            async with Loopback([json_reply({'input_tokens': 14})]) as loopback:
                model = AnthropicModel('claude-x', base_url=loopback.url, api_key=KEY)
                return await count_tokens(CountingModel(model), [UserMessage('hi')])

        found = asyncio.run(main())
        assert (found.tokens, found.source) == (14, 'provider')

    @pytest.mark.parametrize('reply', [{}, {'input_tokens': 'many'}, [], 'x'])
    def test_an_answer_without_a_number(self, reply: Any) -> None:
        async def main() -> None:
            async with Loopback([json_reply(reply)]) as loopback:
                model = AnthropicModel('claude-x', base_url=loopback.url, api_key=KEY)
                with pytest.raises(ModelProtocolError):
                    await model.count_tokens([UserMessage('hi')], RequestInfo())

        asyncio.run(main())


class TestErrors:
    def test_of_a_request(self) -> None:
        said = {'type': 'error', 'error': {'type': 'rate_limit_error', 'message': 'slow'}, 'request_id': 'req_1'}
        got, _ = exchange([json_reply(said, status=429, retry_after='7')])
        assert isinstance(got, ModelHTTPError) and 'slow' in str(got)
        assert (got.status, got.type, got.retry_after, got.body) == (429, 'rate_limit_error', 7.0, said)

    def test_a_refused_key_says_where_it_came_from(self) -> None:
        said = {'type': 'error', 'error': {'type': 'authentication_error', 'message': 'invalid x-api-key'}}
        got, _ = exchange([json_reply(said, status=401)])
        assert isinstance(got, ModelHTTPError) and 'check the key passed as api_key=' in str(got)

    @pytest.mark.parametrize('watched', [True, False])
    def test_of_a_gateway(self, watched: bool) -> None:
        got, _ = exchange([json_reply('<html>bad gateway</html>', status=502)], watched)
        assert isinstance(got, ModelHTTPError) and got.status == 502
        got, _ = exchange([json_reply('<html>all is well</html>')], watched)
        assert isinstance(got, ModelProtocolError)

    @pytest.mark.parametrize('framing', ['close', 'chunked', 'length'])
    def test_a_stream_that_breaks(self, framing: str) -> None:
        half = body(events(text('some text')))[:700]
        got, _ = exchange([Reply([half], 200, SSE, framing=framing, broken=True)], watched=True)
        assert isinstance(got, ModelProtocolError) and 'cut off' in str(got)

    def test_silence(self) -> None:
        begin = time.monotonic()
        hanging = Reply([body(events(text('x'))[:4])], 200, SSE, hang=True)
        for limit in ({'timeout': 0.2}, {'event_timeout': 0.2}):
            got, _ = exchange([hanging], watched=True, **limit)
            assert isinstance(got, ModelTimeout)
        got, _ = exchange([Reply([b''], framing='raw', hang=True)], first_event_timeout=0.2)
        assert isinstance(got, ModelTimeout) and time.monotonic() - begin < 5

    def test_nobody_listens(self) -> None:
        model = AnthropicModel('claude-x', base_url='http://127.0.0.1:9', api_key=KEY)
        with pytest.raises(ModelUnreachable, match='no connection'):
            asyncio.run(ask(model))

    @pytest.mark.parametrize(
        'reply',
        [
            json_reply({'type': 'error', 'error': {'type': 'x', 'message': f'key {KEY}', 'key': KEY}}, status=401),
            json_reply(f'you sent {KEY}', status=500),
            json_reply(f'you sent {KEY}'),
            Reply([event({'type': 'error', 'error': {'message': KEY}}, 'error')], 200, SSE),
            Reply([event(f'you sent {KEY}')], 200, SSE),
        ],
    )
    def test_a_server_that_quotes_the_key(self, reply: Reply) -> None:
        got, _ = exchange([reply], watched=True)
        shown = ''.join(traceback.format_exception(got)) + repr(got) + repr(getattr(got, 'body', ''))
        assert KEY not in shown and '***' in shown

    def test_credentials_in_an_address(self) -> None:
        url = 'http://user:pass-word@127.0.0.1:9?token=hush'
        model = AnthropicModel('claude-x', base_url=url, api_key=KEY)
        with pytest.raises(ModelUnreachable) as caught:
            asyncio.run(ask(model))
        shown = ''.join(traceback.format_exception(caught.value)) + repr(model) + repr(model.identity)
        assert not any(secret in shown for secret in ('pass-word', 'hush', KEY))


class TestLeavingEarly:
    def test_cancelling_closes_the_response_at_once(self) -> None:
        async def main() -> None:
            made = events(text('x' * 3000), size=1)
            reply = Reply([event(e, e['type']) for e in made], 200, SSE, delay=0.02)
            async with Loopback([reply]) as loopback:
                model = AnthropicModel('claude-x', base_url=loopback.url, api_key=KEY)
                arrived = asyncio.Event()

                async def sink(*_: Any, **__: Any) -> None:
                    arrived.set()

                out = ResponseBuilder(sink)
                task = asyncio.create_task(model.respond([UserMessage('hi')], RequestInfo(), out))
                await arrived.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.wait_for(loopback.hung_up.wait(), 2)
                (part,) = out.build(interrupted=True).parts
                assert isinstance(part, TextPart) and set(part.content) == {'x'}
                assert out.usage.input_tokens == 3

        asyncio.run(main())

    def test_a_connection_is_used_again(self) -> None:
        async def main() -> None:
            replies = [streamed(text('x')), whole(text('x')), streamed(text('x')), whole(text('x'))]
            async with Loopback(replies) as loopback:
                model = AnthropicModel('claude-x', base_url=loopback.url, api_key=KEY)
                for watched in (True, False, True, False):
                    await ask(model, watched=watched)
                assert (len(loopback.requests), loopback.connections) == (4, 1)

        asyncio.run(main())

    def test_a_server_that_does_not_end_its_stream_is_left(self) -> None:
        begin = time.monotonic()
        got, _ = exchange([Reply([body(events(text('x')))], 200, SSE, hang=True)], watched=True)
        assert got.parts == (TextPart('x'),) and time.monotonic() - begin < 2
