"""Keys, addresses, counting, timeouts: what goes wrong is a typed error, nothing is left open, and no key is told."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import time
import traceback
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
from agent_graph.messages import SystemMessage, TextPart, UserMessage
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph.registry import infer_model
from agent_graph_providers.google import GoogleModel, GoogleVertexModel
from tests.providers.google.kit import KEY, answer, model
from tests.providers.loopback import Loopback, Reply, event, in_thread, json_reply, sse_body, sse_reply

SSE = {'content-type': 'text/event-stream'}
HALF = answer({'text': 'x'}, finish=None)


async def seen(*_: Any, **__: Any) -> None:
    """Somebody watches."""


async def ask(
    asked: GoogleModel | GoogleVertexModel, *, watched: bool = True, out: ResponseBuilder | None = None, **settings: Any
) -> ResponseBuilder:
    out = out or ResponseBuilder(seen if watched else None)
    await asked.respond([UserMessage('hi')], RequestInfo(settings=ModelSettings(**settings)), out)
    return out


def failure(reply: Reply, *, watched: bool = True, **settings: Any) -> ModelError:
    """The error that this reply makes."""

    async def main() -> ModelError:
        async with Loopback([reply]) as loopback:
            with pytest.raises(ModelError) as caught:
                await ask(model(loopback.url), watched=watched, **settings)
            return caught.value

    error = asyncio.run(main())
    assert (error.provider, error.model) == ('google', 'gemini-3-flash')
    return error


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ('GEMINI_API_KEY', 'GOOGLE_API_KEY', 'GOOGLE_CLOUD_PROJECT', 'GOOGLE_CLOUD_LOCATION'):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


class TestKeys:
    def test_the_key_is_in_a_header_and_never_in_the_address(self) -> None:
        async def main() -> list[Any]:
            async with Loopback([sse_reply([answer({'text': 'x'})], done=False), json_reply(answer())]) as loopback:
                await ask(model(loopback.url))
                await ask(model(loopback.url), watched=False)
                return loopback.requests

        streamed, plain = asyncio.run(main())
        assert streamed.path == '/v1/models/gemini-3-flash:streamGenerateContent?alt=sse'
        assert plain.path == '/v1/models/gemini-3-flash:generateContent'
        for request in (streamed, plain):
            assert request.headers['x-goog-api-key'] == KEY and KEY not in request.path
            assert 'authorization' not in request.headers and KEY.encode() not in request.body

    def test_either_variable_holds_it(self, no_keys: pytest.MonkeyPatch) -> None:
        async def used(url: str) -> str:
            async with Loopback([json_reply(answer({'text': 'x'}))]) as loopback:
                await ask(GoogleModel('m', base_url=loopback.url), watched=False)
                return loopback.requests[0].headers['x-goog-api-key']

        no_keys.setenv('GOOGLE_API_KEY', ' second-key ')
        assert asyncio.run(used('')) == 'second-key'
        no_keys.setenv('GEMINI_API_KEY', 'first-key')
        assert asyncio.run(used('')) == 'first-key'

    def test_a_missing_one_is_named_when_it_is_needed(self, no_keys: pytest.MonkeyPatch) -> None:
        asked = infer_model('google:gemini-3-flash')
        assert isinstance(asked, GoogleModel)
        with pytest.raises(ConfigError, match='set GEMINI_API_KEY or pass api_key='):
            asyncio.run(ask(asked))
        with pytest.raises(ConfigError, match='names no model'):
            infer_model('google:')

    @pytest.mark.parametrize(
        'reply',
        [
            json_reply({'error': {'message': f'key {KEY} is wrong', 'code': 401}}, status=401),
            json_reply([{'error': {'message': f'key {KEY} is wrong', 'code': 400}}], status=400),
            json_reply({'error': {'message': f'key {KEY} is wrong'}}),
            json_reply(f'you sent {KEY}', status=500),
            json_reply(f'you sent {KEY}'),
            sse_reply([{'error': {'message': f'key {KEY}'}}]),
            sse_reply(event(f'you sent {KEY}')),
            sse_reply([{'candidates': f'{KEY}'}]),
        ],
    )
    @pytest.mark.parametrize('watched', [False, True])
    def test_a_server_that_quotes_it(self, reply: Reply, watched: bool) -> None:
        error = failure(reply, watched=watched)
        shown = ''.join(traceback.format_exception(error)) + repr(error) + repr(getattr(error, 'body', ''))
        assert KEY not in shown

    def test_nothing_shows_it(self) -> None:
        asked = GoogleModel('m', base_url='http://u:pass-word@127.0.0.1:9/v1?key=hush', api_key=KEY)
        with pytest.raises(ModelUnreachable) as caught:
            asyncio.run(ask(asked))
        shown = ''.join(traceback.format_exception(caught.value)) + repr(asked) + repr(asked.identity)
        assert KEY not in shown and 'pass-word' not in shown and 'hush' not in shown

    def test_a_refused_key_says_where_it_came_from(self) -> None:
        error = failure(json_reply({'error': {'message': 'bad key', 'code': 403}}, status=403))
        assert 'check the key passed as api_key=' in str(error)


class TestErrors:
    def test_when_to_come_again(self) -> None:
        details = [{'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '34.4s'}]
        body = {'error': {'code': 429, 'message': 'quota', 'status': 'RESOURCE_EXHAUSTED', 'details': details}}
        for reply, seconds in (
            (json_reply(body, status=429), 34.4),
            (json_reply([body], status=429), 34.4),
            (json_reply(body, status=429, retry_after='7'), 7.0),
        ):
            error = failure(reply)
            assert isinstance(error, ModelHTTPError)
            assert (error.status, error.type, error.code, error.retry_after) == (
                429,
                'RESOURCE_EXHAUSTED',
                '429',
                seconds,
            )
            assert 'quota' in str(error)

    @pytest.mark.parametrize('framing', ['close', 'chunked'])
    def test_a_stream_that_ends_too_early(self, framing: str) -> None:
        error = failure(Reply([sse_body([HALF], done=False)], headers=SSE, framing=framing))
        assert isinstance(error, ModelProtocolError) and 'without a finish reason' in str(error)

    def test_a_connection_that_breaks(self) -> None:
        for headers in (SSE, {'content-type': 'application/json'}):
            error = failure(Reply([sse_body([HALF], done=False)], headers=headers, broken=True))
            assert isinstance(error, ModelProtocolError) and 'cut off' in str(error)

    @pytest.mark.parametrize('body', [b'', b'{"candidates": [{"con', b'<html>', b'[]', b'"x"', b'{}', b'null'])
    @pytest.mark.parametrize('watched', [False, True])
    def test_a_plain_answer_that_is_none(self, body: bytes, watched: bool) -> None:
        assert isinstance(failure(json_reply(body), watched=watched), ModelProtocolError)

    def test_what_was_used_is_kept_of_a_cut_answer(self) -> None:
        async def main() -> ResponseBuilder:
            out = ResponseBuilder(seen)
            async with Loopback([Reply([sse_body([HALF], done=False)], headers=SSE, framing='close')]) as loopback:
                with pytest.raises(ModelProtocolError):
                    await ask(model(loopback.url), out=out)
            return out

        message = asyncio.run(main()).build(interrupted=True)
        assert (message.parts, message.usage.input_tokens, message.model_name) == (
            (TextPart('x'),),
            3,
            'gemini-3-flash',
        )

    @pytest.mark.parametrize('watched', [True, False])
    def test_no_answer_in_time(self, watched: bool) -> None:
        begin = time.monotonic()
        error = failure(Reply([b''], framing='raw', hang=True), watched=watched, timeout=0.2)
        assert isinstance(error, ModelTimeout) and time.monotonic() - begin < 2

    def test_a_stream_that_falls_silent(self) -> None:
        for headers, body in (
            (SSE, sse_body([HALF], done=False)),
            ({'content-type': 'application/json'}, b'[{"a": 1}'),
        ):
            error = failure(Reply([body], headers=headers, hang=True), event_timeout=0.2, first_event_timeout=5)
            assert isinstance(error, ModelTimeout), error

    def test_leaving_early_closes_the_response(self) -> None:
        async def main() -> None:
            async with Loopback([Reply([event(HALF)] * 1000, headers=SSE, delay=0.02)]) as loopback:
                arrived = asyncio.Event()

                async def sink(*_: Any, **__: Any) -> None:
                    arrived.set()

                task = asyncio.create_task(ask(model(loopback.url), out=ResponseBuilder(sink)))
                await arrived.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.wait_for(loopback.hung_up.wait(), 2)

        asyncio.run(main())

    def test_a_connection_is_used_again(self) -> None:
        async def main() -> None:
            replies = [sse_reply([answer({'text': 'x'})], done=False), json_reply(answer({'text': 'x'}))]
            async with Loopback([*replies, *replies]) as loopback:
                asked = model(loopback.url)
                for watched in (True, False, True, False):
                    await ask(asked, watched=watched)
                assert (len(loopback.requests), loopback.connections) == (4, 1)

        asyncio.run(main())


class TestSharing:
    def test_several_loops_and_many_at_once(self) -> None:
        def echo(request: Any) -> Reply:
            said = answer(request.json['contents'][-1]['parts'][0])
            return sse_reply([said], done=False) if 'stream' in request.path else json_reply(said)

        async def one(asked: GoogleModel, text: str) -> bool:
            out = ResponseBuilder(seen if len(text) % 2 else None)
            await asked.respond([UserMessage(text)], RequestInfo(), out)
            return out.build().parts == (TextPart(text),)

        async def many(asked: GoogleModel) -> bool:
            return all(await asyncio.gather(*(one(asked, f'n{k}') for k in range(60))))

        with in_thread([echo]) as server:
            asked = model(server.url)
            assert all(asyncio.run(many(asked)) for _ in range(3))

    def test_a_model_object_loads_and_reads_nothing(self) -> None:
        code = (
            'import sys\n'
            'from agent_graph_providers.google import GoogleModel, GoogleVertexModel\n'
            'GoogleModel("m"), GoogleVertexModel("m")\n'
            'print(sorted({"openai", "httpx", "httpx2", "google.auth"} & set(sys.modules)))'
        )
        env = {'PYTHONPATH': ':'.join(sys.path)}
        done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, env=env)
        assert done.stdout.strip() == '[]'

    def test_an_error_can_be_pickled_without_the_key(self) -> None:
        error = failure(json_reply({'error': {'message': f'no {KEY}'}}, status=400))
        assert KEY.encode() not in pickle.dumps(str(error))


class TestCounting:
    def test_everything_that_will_be_sent_is_counted(self) -> None:
        async def main() -> tuple[int | None, Any]:
            async with Loopback([json_reply({'totalTokens': 31})]) as loopback:
                asked = model(loopback.url, settings={'temperature': 0.5, 'extra_body': {'labels': {'a': 'b'}}})
                tool = ToolDefinition('f', '', {'type': 'object', 'properties': {}})
                found = await asked.count_tokens([SystemMessage('s'), UserMessage('hi')], RequestInfo((tool,)))
                return found, loopback.requests[0]

        found, request = asyncio.run(main())
        assert found == 31 and request.path == '/v1/models/gemini-3-flash:countTokens'
        counted = request.json['generateContentRequest']
        assert list(request.json) == ['generateContentRequest']
        assert counted['model'] == 'models/gemini-3-flash' and counted['labels'] == {'a': 'b'}
        assert set(counted) == {'model', 'contents', 'systemInstruction', 'tools', 'generationConfig', 'labels'}

    def test_vertex_counts_fewer_fields(self) -> None:
        async def main() -> Any:
            async with Loopback([json_reply({'totalTokens': 31})]) as loopback:
                asked = GoogleVertexModel('gemini-3-flash', base_url=loopback.url, api_key=KEY)
                info = RequestInfo(settings={'service_tier': 'flex'}, tool_choice='required')
                assert await asked.count_tokens([UserMessage('hi')], info) == 31
                return loopback.requests[0]

        request = asyncio.run(main())
        assert request.path == '/v1/publishers/google/models/gemini-3-flash:countTokens'
        assert list(request.json) == ['contents']

    def test_what_is_no_count(self) -> None:
        for reply, kind in (
            (json_reply({}), ModelProtocolError),
            (json_reply({'error': {'message': 'no', 'code': 404}}, status=404), ModelHTTPError),
        ):

            async def main(reply: Reply = reply) -> None:
                async with Loopback([reply]) as loopback:
                    await model(loopback.url).count_tokens([UserMessage('hi')], RequestInfo())

            with pytest.raises(kind):
                asyncio.run(main())
