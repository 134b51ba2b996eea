"""What every protocol over plain HTTP gets from `HttpModel`: keys, errors, time limits, several requests, clean-up."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from agent_graph.capabilities import Capabilities
from agent_graph.errors import (
    ConfigError,
    FetchRefused,
    ModelError,
    ModelHTTPError,
    ModelProtocolError,
    ModelTimeout,
    ModelUnreachable,
)
from agent_graph.messages import (
    AssistantMessage,
    FilePart,
    Message,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.anthropic import AnthropicModel
from agent_graph_providers.bedrock import BedrockModel
from agent_graph_providers.cohere import CohereModel
from agent_graph_providers.fetch import Fetcher
from agent_graph_providers.fetch.reach import is_at_hand
from agent_graph_providers.google import GoogleModel
from agent_graph_providers.ollama import OllamaModel
from agent_graph_providers.openai import OpenAIModel
from agent_graph_providers.responses import ResponsesModel
from tests.providers.loopback import Loopback, Reply, json_reply, sse_reply
from tests.providers.wire.toy import toy

pytestmark = pytest.mark.anyio

KEY = 'sk-toy-not-a-real-key'
HELLO: Sequence[Message] = [UserMessage('hello')]


async def drop(*_: Any, **__: Any) -> None:
    """Somebody watches."""


async def ask(
    model: Any,
    *,
    watched: bool = False,
    messages: Sequence[Message] = HELLO,
    info: RequestInfo | None = None,
    **settings: Any,
) -> AssistantMessage:
    out = ResponseBuilder(drop if watched else None)
    await model.respond(messages, info or RequestInfo(settings=ModelSettings(**settings)), out)
    await out.finish()
    return out.build()


def said(message: AssistantMessage) -> str:
    return ''.join(p.content for p in message.parts if isinstance(p, TextPart))


async def test_plain_and_streamed() -> None:
    async with Loopback(
        [json_reply({'say': 'hello', 'end': True}), sse_reply([{'say': 'hel'}, {'say': 'lo'}, {'end': True}])]
    ) as server:
        model = toy(server.url)
        assert said(await ask(model)) == 'hello'
        assert said(await ask(model, watched=True)) == 'hello'
    first = server.requests[0]
    assert (first.path, first.headers['authorization'], first.headers['x-kind']) == ('/v1/say', f'Bearer {KEY}', 'toy')
    assert [r.json['stream'] for r in server.requests] == [False, True]


async def test_an_answer_of_several_requests() -> None:
    replies = [json_reply({'say': 'a', 'more': 2}), json_reply({'say': 'b'}), json_reply({'say': 'c'})]
    async with Loopback(replies) as server:
        assert said(await ask(toy(server.url))) == 'abc'
    assert [(r.method, r.path) for r in server.requests] == [
        ('POST', '/v1/say'),
        ('GET', '/v1/more'),
        ('GET', '/v1/more'),
    ]


async def test_extra_body_and_headers_come_last() -> None:
    async with Loopback([json_reply({'end': True})]) as server:
        await ask(toy(server.url), extra_body={'stream': 'maybe'}, extra_headers={'x-kind': 'mine'})
    assert server.requests[0].json['stream'] == 'maybe'
    assert server.requests[0].headers['x-kind'] == 'mine'


@pytest.mark.parametrize(
    ('setting', 'reply'),
    [
        ('first_event_timeout', Reply([], 200, {'content-type': 'text/event-stream'}, hang=True)),
        ('event_timeout', Reply([b'data: {"say": "a"}\n\n'], 200, {'content-type': 'text/event-stream'}, hang=True)),
        ('timeout', Reply([b'data: {"say": "a"}\n\n'] * 200, 200, {'content-type': 'text/event-stream'}, delay=0.02)),
        ('event_timeout', Reply([b'data: {"say": "a"}\n\n', *[b': still here\n\n'] * 200], 200, {'content-type': 'text/event-stream'}, delay=0.02)),
    ],
    ids=['nothing comes', 'it stands still', 'it takes too long', 'only comments come'],
)  # fmt: skip
async def test_time_limits(setting: str, reply: Reply) -> None:
    async with Loopback([reply]) as server:
        limits: Any = {setting: 0.15}
        with pytest.raises(ModelTimeout, match=f'raise the setting {setting}'):
            await ask(toy(server.url), watched=True, info=RequestInfo(settings=limits))
        async with asyncio.timeout(2):
            await server.hung_up.wait()


async def test_a_slow_stream_that_goes_on_is_let_be() -> None:
    pieces = [b'data: {"say": "a"}\n\n'] * 20 + [b'data: {"end": true}\n\n']
    async with Loopback([Reply(pieces, 200, {'content-type': 'text/event-stream'}, delay=0.02)]) as server:
        assert said(await ask(toy(server.url), watched=True, event_timeout=0.3, first_event_timeout=0.3)) == 'a' * 20


async def test_no_connection() -> None:
    with pytest.raises(ModelUnreachable, match='check the address'):
        await ask(toy('http://127.0.0.1:9'), connect_timeout=1.0)


async def test_cut_off() -> None:
    async with Loopback([sse_reply([{'say': 'a'}], done=False)]) as server:
        with pytest.raises(ModelProtocolError, match='cut off'):
            await ask(toy(server.url), watched=True)


@pytest.mark.parametrize('where', ['body', 'stream', 'header'])
async def test_a_key_that_the_server_quotes_is_hidden(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {'error': {'message': f'bad key {KEY}', 'code': KEY}}
    reply = {
        'body': json_reply(body, status=401),
        'stream': sse_reply([body]),
        'header': json_reply(body, status=401, x_key=KEY),
    }[where]
    async with Loopback([reply]) as server:
        monkeypatch.setenv('TOY_API_KEY', KEY)
        model = toy(server.url, key=None)
        with pytest.raises(ModelHTTPError) as caught:
            await ask(model, watched=True)
    error = caught.value
    printed = ''.join(traceback.format_exception(error))
    for text in (printed, repr(error), repr(error.body), repr(error.code), repr(model), repr(model.identity)):
        assert KEY not in text


@pytest.mark.parametrize('url', ['', 'http://127.0.0.1:9'])
async def test_a_key_is_in_no_variable_that_a_traceback_shows(url: str) -> None:
    """As error trackers print them, for every frame of ours."""
    async with Loopback([json_reply({'error': 'busy'}, status=503)]) as server:
        with pytest.raises(ModelError) as caught:
            await ask(toy(url or server.url), watched=True)
    shown = ''.join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    ours = [part for part in shown.split('  File ') if 'agent_graph_providers' in part.partition('\n')[0]]
    assert len(ours) >= 2 and KEY not in ''.join(ours)


async def test_credentials_in_the_address_are_masked() -> None:
    model = toy('http://user:hunter2secret@127.0.0.1:9/v1?token=hunter3secret')
    with pytest.raises(ModelUnreachable) as caught:
        await ask(model)
    assert 'hunter' not in f'{model!r} {model.identity!r} {caught.value} {caught.value!r}'


async def test_no_key_and_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv('TOY_API_KEY', raising=False)
    with pytest.raises(ConfigError, match='set TOY_API_KEY or pass api_key='):
        await ask(toy(key=None))
    with pytest.raises(ConfigError, match='characters no HTTP header can'):
        await ask(toy(key='two\nlines'))
    with pytest.raises(ConfigError, match='is no URL'):
        await ask(toy('127.0.0.1:9'))


async def test_a_client_of_ones_own() -> None:
    async with Loopback([json_reply({'say': 'x', 'end': True})]) as server, httpx.AsyncClient() as client:
        model = toy(server.url, http_client=client)
        await ask(model)
        await ask(model)
        assert server.connections == 1
    with pytest.raises(ConfigError, match='is closed'):
        await ask(toy(http_client=client))


def test_each_loop_has_its_own_client_and_closes_it() -> None:
    model = toy()

    async def once() -> int:
        async with Loopback([json_reply({'say': 'x', 'end': True})]) as server:
            model._access = toy(server.url)._access  # pyright: ignore
            await ask(model)
            return server.connections

    assert [asyncio.run(once()) for _ in range(3)] == [1, 1, 1]
    gc.collect()


async def test_a_reader_who_leaves_closes_the_connection() -> None:
    reply = Reply([b'data: {"say": "a"}\n\n'] * 500, 200, {'content-type': 'text/event-stream'}, delay=0.01)
    async with Loopback([reply]) as server:
        task = asyncio.create_task(ask(toy(server.url), watched=True))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(2):
            await server.hung_up.wait()


async def test_capabilities_by_family_or_as_said() -> None:
    assert not toy().capabilities.audio
    assert toy(capabilities=Capabilities(audio=True)).capabilities.audio


async def test_bytes_of_an_address_are_fetched_once_a_run() -> None:
    page = Reply([b'words'], 200, {'content-type': 'text/plain'}, framing='length')
    async with Loopback([page]) as files, Loopback([json_reply({'end': True})]) as server:
        model = toy(server.url, fetcher=Fetcher(allow=frozenset({'127.0.0.1'})))
        file = FilePart('text/plain', url=files.url + '/a.txt')
        messages, info = [UserMessage(['read', file])], RequestInfo()
        await ask(model, messages=messages, info=info)
        await ask(model, messages=messages, info=info)
    assert [r.json['messages'][0]['files'] for r in server.requests] == [['words'], ['words']]
    assert len(files.requests) == 1


async def test_a_model_checks_its_own_settings() -> None:
    wrong: Any = {'timeout': '5'}
    with pytest.raises(ConfigError, match="the model setting 'timeout' is '5'"):
        toy(settings=wrong)
    with pytest.raises(ConfigError, match="the model setting 'timeout' is '5'"):
        OpenAIModel('m', settings=wrong)


@pytest.mark.parametrize('make', [AnthropicModel, GoogleModel, ResponsesModel, CohereModel, OllamaModel, BedrockModel])
async def test_an_address_in_a_local_network_is_fetched_for_every_provider(make: Any) -> None:
    """Also by those that fetch addresses themselves: they could not reach it."""
    picture = Reply([b'\x89PNG\r\n\x1a\n'], 200, {'content-type': 'image/png'}, framing='length')
    async with Loopback([picture]) as files, Loopback([json_reply({'message': 'seen'}, status=418)]) as server:
        address = files.url + '/a.png'
        near = FilePart.from_url(address, allow_local=True)
        with pytest.raises(ModelHTTPError):
            await ask(make('m', base_url=server.url, api_key=KEY), messages=[UserMessage(['What?', near])])
    assert len(files.requests) == 1
    body = server.requests[0].body
    assert b'iVBORw0KGgo' in body and address.encode() not in body


CLOUD = [AnthropicModel, GoogleModel, ResponsesModel, CohereModel, OllamaModel, BedrockModel, OpenAIModel]


@pytest.mark.parametrize('make', CLOUD)
@pytest.mark.parametrize(
    'url',
    [
        'http://127.0.0.1:8000/a.png',
        'https://localhost/a.png',
        'https://files.internal/a.png',
        'https://10.0.0.7/a.png',
        'https://[::1]/a.png',
        'https://0x7f.1/a.png',
        'https://169.254.169.254/latest/a.png',
    ],
)
async def test_a_server_elsewhere_is_not_sent_a_local_address(make: Any, url: str) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f'sent: {request.url}')

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as client:
        model = make('m', base_url='https://models.example.com', api_key=KEY, http_client=client)
        for messages in (
            [UserMessage(['What?', FilePart.from_url(url)])],
            [
                UserMessage('go'),
                AssistantMessage([ToolCallPart('look', {}, 'c1')]),
                ToolMessage([ToolReturnPart('look', 'see', 'c1', extra_content=(FilePart.from_url(url),))]),
            ],
        ):
            with pytest.raises(FetchRefused, match='was not fetched'):
                await ask(model, messages=messages)


@pytest.mark.parametrize('make', [AnthropicModel, ResponsesModel, OpenAIModel, GoogleModel])
async def test_a_server_at_hand_is_left_a_local_address(make: Any) -> None:
    """It is in the same network. What clouds keep at such addresses is left to nobody."""
    picture = UserMessage(['What?', FilePart.from_url('https://files.internal/a.png')])
    async with Loopback([json_reply({'message': 'seen'}, status=418)]) as server:
        model = make('m', base_url=server.url, api_key=KEY)
        with pytest.raises(ModelHTTPError):
            await ask(model, messages=[picture])
        assert b'https://files.internal/a.png' in server.requests[0].body
        metadata = FilePart.from_url('https://169.254.169.254/a.png')
        with pytest.raises(FetchRefused, match='from which nothing is ever fetched'):
            await ask(model, messages=[UserMessage(['What?', metadata])])
    assert len(server.requests) == 1


def test_which_servers_are_at_hand() -> None:
    for near in (
        'http://127.0.0.1:11434',
        'http://ollama:11434/v1',
        'http://[::1]:1',
        'https://gw.lan',
        'http://10.1.2.3',
        '',
    ):
        assert is_at_hand(near), near
    for far in ('https://api.openai.com/v1', 'https://8.8.8.8', 'http://[2606:4700::1111]/v1'):
        assert not is_at_hand(far), far
