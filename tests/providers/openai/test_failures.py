"""What goes wrong between us and a server is a typed error; nothing is left open, and no key is told."""

from __future__ import annotations

import asyncio
import socket
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
from agent_graph.messages import TextPart, UserMessage
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.openai import OpenAIModel
from agent_graph_providers.wire.errors import shown_url
from tests.providers.loopback import Loopback, Reply, event, json_reply, sse_body, sse_reply
from tests.providers.openai.test_model import KEY, Watcher, called, piece, plain

SSE = {'content-type': 'text/event-stream'}


async def ask(model: OpenAIModel, out: ResponseBuilder | None = None, **settings: Any) -> ResponseBuilder:
    out = out or ResponseBuilder(Watcher())
    info = RequestInfo(settings=ModelSettings(**settings))
    await model.respond([UserMessage('hi')], info, out)
    return out


def failure(reply: Reply, *, watched: bool = True, key: str = KEY, **settings: Any) -> ModelError:
    """The error that this reply makes."""

    async def main() -> ModelError:
        async with Loopback([reply]) as loopback:
            model = OpenAIModel('m', base_url=loopback.url, api_key=key)
            with pytest.raises(ModelError) as caught:
                await ask(model, ResponseBuilder(Watcher() if watched else None), **settings)
            return caught.value

    error = asyncio.run(main())
    assert (error.provider, error.model) == ('openai', 'm')
    return error


class TestToldByTheServer:
    @pytest.mark.parametrize(
        ('body', 'code', 'kind', 'said'),
        [
            ({'error': {'message': 'too fast', 'type': 'rate', 'code': 'slow_down'}}, 'slow_down', 'rate', 'too fast'),
            ({'error': {'message': 'x', 'code': 429}}, '429', None, 'x'),
            ({'error': 'plain words'}, None, None, 'plain words'),
            ({'object': 'error', 'message': 'm', 'type': 't', 'code': None}, None, 't', 'm'),
            ({'detail': [{'loc': ['body'], 'msg': 'field required'}]}, None, None, 'field required'),
            ('<html>gateway</html>', None, None, '<html>gateway</html>'),
            ('', None, None, 'no reason given'),
        ],
    )
    def test_every_form_of_error(self, body: Any, code: str | None, kind: str | None, said: str) -> None:
        error = failure(json_reply(body, status=429, retry_after='7'))
        assert isinstance(error, ModelHTTPError)
        assert (error.status, error.code, error.type, error.retry_after) == (429, code, kind, 7.0)
        assert said in str(error)

    @pytest.mark.parametrize(
        ('headers', 'seconds'),
        [
            ({'retry_after_ms': '1500'}, 1.5),
            ({'retry_after': 'Wed, 21 Oct 2015 07:28:00 GMT'}, 0.0),
            ({'retry_after': 'soon'}, None),
            ({}, None),
        ],
    )
    def test_when_to_come_again(self, headers: dict[str, str], seconds: float | None) -> None:
        error = failure(json_reply({'error': {'message': 'x'}}, status=503, **headers))
        assert isinstance(error, ModelHTTPError) and error.retry_after == seconds

    def test_a_refused_key_says_where_it_came_from(self) -> None:
        error = failure(json_reply({'error': {'message': 'bad key'}}, status=401))
        assert 'check the key passed as api_key=' in str(error)

    @pytest.mark.parametrize('watched', [True, False])
    def test_an_error_inside_a_200(self, watched: bool) -> None:
        body = {'error': {'message': 'filtered', 'code': 'content_filter', 'status': 400}}
        error = failure(json_reply(body), watched=watched)
        assert isinstance(error, ModelHTTPError)
        assert (error.status, error.code, error.body) == (400, 'content_filter', body)

    def test_an_error_in_the_stream(self) -> None:
        body = sse_body([piece({'content': 'half an'}), {'error': {'message': 'overloaded', 'code': 503}}])
        error = failure(sse_reply(body))
        assert isinstance(error, ModelHTTPError) and error.status == 503 and 'overloaded' in str(error)

    def test_an_error_event_with_and_without_json(self) -> None:
        for data in ({'error': {'message': 'overloaded'}}, 'overloaded'):
            error = failure(sse_reply(event(piece({'content': 'x'})) + event(data, 'error')))
            assert isinstance(error, ModelHTTPError) and 'overloaded' in str(error)

    def test_an_error_inside_a_choice(self) -> None:
        last = piece()
        for word in ('error', None):
            last['choices'][0].update(finish_reason=word, error={'message': 'upstream died', 'code': 502})
            error = failure(sse_reply([piece({'content': 'x'}), last]))
            assert isinstance(error, ModelHTTPError) and error.status == 502

    @pytest.mark.parametrize('word', ['error', 'insufficient_system_resource'])
    def test_a_finish_word_that_means_failure(self, word: str) -> None:
        for reply in (
            json_reply(plain({'content': 'x'}, word)),
            sse_reply([piece({'content': 'x'}), piece(finish=word)]),
        ):
            error = failure(reply)
            assert isinstance(error, ModelHTTPError) and error.code == word


class TestCutOff:
    EVENTS = sse_body([piece({'content': 'some'}), piece({'content': ' text'})], done=False)

    @pytest.mark.parametrize('framing', ['close', 'chunked'])
    def test_a_stream_that_ends_too_early(self, framing: str) -> None:
        error = failure(Reply([self.EVENTS], headers=SSE, framing=framing))
        assert isinstance(error, ModelProtocolError) and 'without a finish reason' in str(error)

    def test_a_connection_that_breaks(self) -> None:
        for framing in ('chunked', 'length'):
            error = failure(Reply([self.EVENTS], headers=SSE, framing=framing, broken=True))
            assert isinstance(error, ModelProtocolError) and 'cut off' in str(error)

    def test_a_stream_that_ends_within_an_event(self) -> None:
        done = sse_body([piece({'content': 'x'}), piece(finish='stop')], done=False)
        error = failure(Reply([done + b'data: {"usage": {"prompt_'], headers=SSE, framing='close'))
        assert isinstance(error, ModelProtocolError) and 'within an event' in str(error)

    def test_a_finish_reason_without_the_end_mark_is_whole(self) -> None:
        async def main() -> None:
            body = sse_body([piece({'content': 'x'}), piece(finish='stop')], done=False)
            async with Loopback([Reply([body.rstrip()], headers=SSE, framing='close')]) as loopback:
                out = await ask(OpenAIModel('m', base_url=loopback.url, api_key=KEY))
                assert out.finish_reason == 'stop'

        asyncio.run(main())

    def test_the_end_mark_without_a_finish_reason_is_whole(self) -> None:
        async def main() -> None:
            async with Loopback([sse_reply([piece({'content': 'x'})])]) as loopback:
                out = await ask(OpenAIModel('m', base_url=loopback.url, api_key=KEY))
                assert (out.finish_reason, out.build().parts) == (None, (TextPart('x'),))

        asyncio.run(main())

    @pytest.mark.parametrize('body', [b'', b'{"choices": [{"mess', b'<html>', b'[]', b'"x"', b'{}', b'{"choices": []}'])
    def test_a_plain_answer_that_is_none(self, body: bytes) -> None:
        error = failure(json_reply(body), watched=False)
        assert isinstance(error, ModelProtocolError)

    def test_a_plain_answer_that_breaks(self) -> None:
        error = failure(
            Reply([b'{"choices"'], headers={'content-type': 'application/json'}, framing='length', broken=True)
        )
        assert isinstance(error, ModelProtocolError) and 'cut off' in str(error)

    @pytest.mark.parametrize('events', [['[DONE]'], [{'choices': [], 'usage': {'prompt_tokens': 1}}], ['not json']])
    def test_a_stream_without_an_answer(self, events: list[Any]) -> None:
        assert isinstance(failure(sse_reply(events)), ModelProtocolError)

    def test_calls_that_cannot_be_told_apart(self) -> None:
        heads = [called(0, 'A', 'f', ''), called(0, 'B', 'g', ''), called(0, None, None, '{}')]
        assert isinstance(failure(sse_reply([*heads, piece(finish='tool_calls')])), ModelProtocolError)

    def test_a_call_without_a_name(self) -> None:
        events = [called(0, 'A', None, '{}'), piece(finish='tool_calls')]
        error = failure(sse_reply(events))
        assert isinstance(error, ModelProtocolError) and "'A'" in str(error) and 'no name' in str(error)

    @pytest.mark.parametrize('choices', ['x', [{'delta': {'content': 5}}], [{'delta': {'tool_calls': 'x'}}]])
    def test_shapes_that_make_no_sense(self, choices: Any) -> None:
        assert isinstance(failure(sse_reply([{'choices': choices}])), ModelProtocolError)

    def test_what_was_used_is_kept_of_a_cut_answer(self) -> None:
        async def main() -> ResponseBuilder:
            body = sse_body([piece({'content': 'x'}, usage={'prompt_tokens': 7})], done=False)
            out = ResponseBuilder(Watcher())
            async with Loopback([Reply([body], headers=SSE, framing='close')]) as loopback:
                with pytest.raises(ModelProtocolError):
                    await ask(OpenAIModel('m', base_url=loopback.url, api_key=KEY), out)
            return out

        out = asyncio.run(main())
        message = out.build(interrupted=True)
        assert (message.parts, message.usage.input_tokens, message.model_name) == ((TextPart('x'),), 7, 'm-1')


class TestNoAnswer:
    def test_nobody_listens(self) -> None:
        with socket.socket() as taken:
            taken.bind(('127.0.0.1', 0))
            model = OpenAIModel('m', base_url=f'http://127.0.0.1:{taken.getsockname()[1]}/v1', api_key=KEY)
            with pytest.raises(ModelUnreachable, match=r'no connection to http://127\.0\.0\.1'):
                asyncio.run(ask(model))

    def test_a_connection_closed_before_an_answer(self) -> None:
        assert isinstance(failure(Reply([b''], framing='raw')), ModelUnreachable)

    @pytest.mark.parametrize('watched', [True, False])
    def test_no_answer_in_time(self, watched: bool) -> None:
        begin = time.monotonic()
        error = failure(Reply([b''], framing='raw', hang=True), watched=watched, timeout=0.2)
        assert isinstance(error, ModelTimeout) and time.monotonic() - begin < 2

    def test_a_stream_that_falls_silent(self) -> None:
        body = sse_body([piece({'content': 'x'})], done=False)
        error = failure(Reply([body], headers=SSE, hang=True), timeout=0.2)
        assert isinstance(error, ModelTimeout)

    def test_signs_of_life_are_no_answer(self) -> None:
        error = failure(Reply([b': ping\n\n'] * 100, headers=SSE, delay=0.05), timeout=0.3)
        assert isinstance(error, ModelTimeout)
        body = Reply([b' '] * 100, headers={'content-type': 'application/json'}, delay=0.05)
        assert isinstance(failure(body, watched=False, timeout=0.3), ModelTimeout)


class TestSecrets:
    def test_a_missing_key_is_named_when_a_request_is_made_and_not_before(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ('GROQ_API_KEY', 'OLLAMA_API_KEY'):
            monkeypatch.delenv(name, raising=False)
        model = OpenAIModel('m', server='groq')
        with pytest.raises(ConfigError, match='set GROQ_API_KEY or pass api_key='):
            asyncio.run(ask(model))
        monkeypatch.setenv('GROQ_API_KEY', '  \n')
        with pytest.raises(ConfigError, match='GROQ_API_KEY'):
            asyncio.run(ask(model))

    def test_a_local_server_wants_no_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv('OLLAMA_API_KEY', raising=False)

        async def main() -> list[str]:
            async with Loopback([sse_reply([piece({'content': 'x'}, 'stop')])]) as loopback:
                for url in (loopback.url, loopback.url.removesuffix('/v1')):  # as one Ollama API wants it, or the other
                    monkeypatch.setenv('OLLAMA_BASE_URL', url)
                    await ask(OpenAIModel('m', server='ollama_openai'))
                return [request.path for request in loopback.requests]

        assert asyncio.run(main()) == ['/v1/chat/completions'] * 2

    def test_a_missing_address(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv('AZURE_OPENAI_ENDPOINT', raising=False)
        with pytest.raises(ConfigError, match='azure has no address; set AZURE_OPENAI_ENDPOINT'):
            asyncio.run(ask(OpenAIModel('m', server='azure', api_key=KEY)))
        with pytest.raises(ConfigError, match='begin it with https://'):
            asyncio.run(ask(OpenAIModel('m', base_url='localhost:80', api_key=KEY)))

    @pytest.mark.parametrize('key', ['sk-secret\nline', 'sk-gehe\u00efm-schl\u00fcssel'])
    def test_a_key_no_header_can_hold(self, key: str) -> None:
        with pytest.raises(ConfigError, match='characters no HTTP header can') as caught:
            asyncio.run(ask(OpenAIModel('m', base_url='http://127.0.0.1:9', api_key=key)))
        assert key not in str(caught.value)

    def test_a_key_is_trimmed(self) -> None:
        async def main() -> str:
            async with Loopback([sse_reply([piece({'content': 'x'}, 'stop')])]) as loopback:
                await ask(OpenAIModel('m', base_url=loopback.url, api_key=f' {KEY}\n'))
                return loopback.requests[0].headers['authorization']

        assert asyncio.run(main()) == f'Bearer {KEY}'

    @pytest.mark.parametrize(
        'reply',
        [
            json_reply({'error': {'message': f'key {KEY} is wrong', 'key': KEY}}, status=401),
            json_reply({'error': {'message': f'key {KEY} is wrong'}}),
            json_reply(f'you sent {KEY}', status=500),
            json_reply(f'you sent {KEY}'),
            sse_reply([{'error': f'key {KEY}'}]),
            sse_reply(event(f'you sent {KEY}')),
        ],
    )
    def test_a_server_that_quotes_the_key(self, reply: Reply) -> None:
        error = failure(reply)
        shown = ''.join(traceback.format_exception(error)) + repr(error) + repr(getattr(error, 'body', ''))
        assert KEY not in shown and '***' in shown

    def test_credentials_in_an_address(self) -> None:
        url = 'http://user:pass-word@127.0.0.1:9/v1?token=hush'
        model = OpenAIModel('m', base_url=url, api_key=KEY)
        with pytest.raises(ModelUnreachable) as caught:
            asyncio.run(ask(model))
        text = ''.join(traceback.format_exception(caught.value)) + repr(model)
        assert 'pass-word' not in text and 'hush' not in text and KEY not in text

    @pytest.mark.parametrize(
        ('url', 'shown'),
        [
            ('https://a.test/v1', 'https://a.test/v1'),
            ('https://u:p@a.test:8/v1?k=s#f', 'https://***@a.test:8/v1'),
            ('http://u@[::1]:8/', 'http://***@[::1]:8/'),
            ('http://[bad', '(an address that cannot be read)'),
        ],
    )
    def test_shown_url(self, url: str, shown: str) -> None:
        assert shown_url(url) == shown


class TestLeavingEarly:
    def test_cancelling_closes_the_response_at_once(self) -> None:
        async def main() -> None:
            reply = Reply([event(piece({'content': 'x'}))] * 1000, headers=SSE, delay=0.02)
            async with Loopback([reply]) as loopback:
                model = OpenAIModel('m', base_url=loopback.url, api_key=KEY)
                arrived = asyncio.Event()

                async def sink(*_: Any, **__: Any) -> None:
                    arrived.set()

                out = ResponseBuilder(sink)
                task = asyncio.create_task(ask(model, out))
                await arrived.wait()
                before = asyncio.all_tasks() - {asyncio.current_task(), task}
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.wait_for(loopback.hung_up.wait(), 2)
                assert asyncio.all_tasks() - {asyncio.current_task()} <= before
                assert out.build(interrupted=True).parts[0] == TextPart('x' * len(out.build().parts[0].content))  # pyright: ignore

        asyncio.run(main())

    def test_a_reader_that_fails_closes_it_too_and_its_error_is_its_own(self) -> None:
        class Boom(Exception):
            pass

        async def sink(*_: Any, **__: Any) -> None:
            raise Boom

        async def main() -> None:
            reply = Reply([event(piece({'content': 'x'}))] * 1000, headers=SSE, delay=0.02)
            async with Loopback([reply]) as loopback:
                with pytest.raises(Boom):
                    await ask(OpenAIModel('m', base_url=loopback.url, api_key=KEY), ResponseBuilder(sink))
                await asyncio.wait_for(loopback.hung_up.wait(), 2)

        asyncio.run(main())

    def test_no_task_is_left_to_clean_up(self) -> None:
        async def main() -> None:
            body = [event(piece({'content': 'x'})), event({'error': {'message': 'overloaded'}}), event(piece())]
            async with Loopback([Reply(body, headers=SSE, delay=0.02)]) as loopback:
                model = OpenAIModel('m', base_url=loopback.url, api_key=KEY)
                with pytest.raises(ModelHTTPError):
                    await ask(model)
                before = asyncio.all_tasks()
                await asyncio.sleep(0)
                assert asyncio.all_tasks() <= before

        asyncio.run(main())

    def test_a_connection_is_used_again_after_a_stream(self) -> None:
        async def main() -> None:
            replies = [sse_reply([piece({'content': 'x'}, 'stop')]), json_reply(plain({'content': 'x'}))]
            async with Loopback([replies[0], replies[0], replies[1], replies[0]]) as loopback:
                model = OpenAIModel('m', base_url=loopback.url, api_key=KEY)
                for watched in (True, True, False, True):
                    await ask(model, ResponseBuilder(Watcher() if watched else None))
                assert (len(loopback.requests), loopback.connections) == (4, 1)

        asyncio.run(main())

    def test_a_server_that_does_not_end_its_stream_is_left(self) -> None:
        async def main() -> None:
            body = sse_body([piece({'content': 'x'}, 'stop')])
            async with Loopback([Reply([body], headers=SSE, hang=True)]) as loopback:
                begin = time.monotonic()
                out = await ask(OpenAIModel('m', base_url=loopback.url, api_key=KEY))
                assert out.build().parts == (TextPart('x'),) and time.monotonic() - begin < 1

        asyncio.run(main())
