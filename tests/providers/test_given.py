"""What is passed to a model of any provider: wrong kinds are refused at once by name, near misses are understood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from agent_graph.errors import ConfigError, ModelHTTPError
from agent_graph.messages import UserMessage
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.anthropic import AnthropicModel
from agent_graph_providers.bedrock import BedrockModel
from agent_graph_providers.cohere import CohereModel
from agent_graph_providers.google import GoogleModel, GoogleVertexModel
from agent_graph_providers.local import LocalModel
from agent_graph_providers.ollama import OllamaModel
from agent_graph_providers.openai import OpenAIModel
from agent_graph_providers.responses import ResponsesModel
from agent_graph_providers.wire.endpoints import joined
from tests.providers.loopback import Loopback, json_reply

pytestmark = pytest.mark.anyio

KEY = 'marker-key-5d0c7be1f2'
MODELS: list[Callable[..., Any]] = [
    AnthropicModel,
    BedrockModel,
    CohereModel,
    GoogleModel,
    GoogleVertexModel,
    OllamaModel,
    OpenAIModel,
    ResponsesModel,
]
each = pytest.mark.parametrize('make', MODELS, ids=lambda m: m.__name__)


async def ask(model: Any, **settings: Any) -> None:
    info = RequestInfo(settings=ModelSettings(**settings))
    await model.respond([UserMessage('hello')], info, ResponseBuilder())


# Kinds


@each
@pytest.mark.parametrize('name', [None, 7, b'name', '', '  ', ['m']])
async def test_a_name_that_is_none(make: Callable[..., Any], name: Any) -> None:
    with pytest.raises(ConfigError, match=r'name') as told:
        make(name, api_key=KEY)
    assert str(name) in str(told.value)


@each
@pytest.mark.parametrize('base_url', [7, b'http://h', '', '  ', True, ['http://h']])
async def test_an_address_that_is_none(make: Callable[..., Any], base_url: Any) -> None:
    with pytest.raises(ConfigError, match=r'base_url=.*pass the address') as told:
        make('m', api_key=KEY, base_url=base_url)
    assert repr(base_url) in str(told.value)


@each
async def test_an_address_of_another_library(make: Callable[..., Any]) -> None:
    assert 'http://host/v1' in repr(make('m', api_key=KEY, base_url=httpx.URL('http://host/v1')))


@each
@pytest.mark.parametrize('key', [7, KEY.encode(), [KEY], lambda: KEY])
async def test_a_key_that_is_none(make: Callable[..., Any], key: Any) -> None:
    with pytest.raises(ConfigError, match='api_key= is of type') as told:
        make('m', api_key=key)
    assert KEY not in str(told.value)


async def test_an_empty_key() -> None:
    for make in (AnthropicModel, CohereModel, GoogleModel, OpenAIModel, ResponsesModel):
        with pytest.raises(ConfigError, match="api_key='' is empty; pass the key"):
            make('m', api_key='')
    OpenAIModel('m', server='vllm', api_key='')  # a server that may want none


@each
@pytest.mark.parametrize('client', [7, 'http', httpx.AsyncClient, httpx.Client()])
async def test_a_client_that_is_none(make: Callable[..., Any], client: Any) -> None:
    with pytest.raises(ConfigError, match=r'http_client=.*pass an httpx.AsyncClient'):
        make('m', api_key=KEY, http_client=client)


@each
@pytest.mark.parametrize(
    'settings', ['x', [1], {'timeout': '5'}, {'timeout': b'5'}, {'timeout': None, 'max_tokens': 0}]
)
async def test_settings_that_are_none(make: Callable[..., Any], settings: Any) -> None:
    with pytest.raises(ConfigError, match='model setting'):
        make('m', api_key=KEY, settings=settings)


@each
async def test_a_record_that_is_none(make: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=r"capabilities='images' .*pass Capabilities"):
        make('m', api_key=KEY, capabilities='images')
    if make is not OpenAIModel:
        with pytest.raises(ConfigError, match=r'fetcher=7 cannot fetch; pass a Fetcher'):
            make('m', api_key=KEY, fetcher=7)


@pytest.mark.parametrize(
    ('make', 'given', 'told'),
    [
        (OpenAIModel, {'server': 7}, 'no server is called 7'),
        (OpenAIModel, {'server': 'opnai'}, "no server is called 'opnai'"),
        (OpenAIModel, {'make_client': 7}, 'make_client=7 cannot be called'),
        (ResponsesModel, {'server': None}, 'no server is called None'),
        (ResponsesModel, {'token': 'abc'}, "token='abc' cannot be called"),
        (AnthropicModel, {'site': 'x'}, "site='x' is none"),
        (BedrockModel, {'region': 7}, 'region=7 is not usable; pass a text'),
        (BedrockModel, {'region': ''}, "region='' is not usable; pass a text"),
        (GoogleVertexModel, {'project': 7}, 'project=7 is not usable; pass a text'),
        (GoogleVertexModel, {'location': ''}, "location='' is not usable; pass a text"),
        (
            GoogleVertexModel,
            {'credentials': 'c.json'},
            "credentials='c.json' are none; pass credentials of google-auth",
        ),
    ],
)
async def test_other_arguments(make: Callable[..., Any], given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        make('m', **given)
    assert told in str(error.value)


@pytest.mark.parametrize('given', [{'path': 7}, {'path': b'm.gguf'}, {'path': ''}, {'context': '4096'}, {'threads': 0}])
async def test_arguments_of_a_local_model(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r'pass its path|give a number'):
        LocalModel(**given)


# Settings


@each
async def test_a_misspelt_setting(make: Callable[..., Any]) -> None:
    model = make('m', api_key=KEY, base_url='http://127.0.0.1:9')
    with pytest.raises(ConfigError, match=r"no model setting 'max_token' \(did you mean 'max_tokens'\?\)") as told:
        await ask(model, max_token=5)
    for name in ('max_tokens', 'temperature', 'timeout', 'extra_headers', 'reasoning_effort'):
        assert f"'{name}'" in str(told.value), 'all it takes are listed, not the fields of its body only'
    with pytest.raises(ConfigError, match="no model setting 'frobnicate';"):
        await ask(model, frobnicate=None)


# Keys


@each
async def test_a_key_that_was_passed_is_what_to_check(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ('ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'COHERE_API_KEY', 'GEMINI_API_KEY', 'AWS_BEARER_TOKEN_BEDROCK'):
        monkeypatch.setenv(name, 'another-key-than-that')
    async with Loopback([json_reply({'error': {'message': 'no'}}, status=401)]) as server:
        with pytest.raises(ModelHTTPError, match='check the key passed as api_key='):
            await ask(make('m', base_url=server.url, api_key=SecretStr(KEY)))


@pytest.mark.parametrize(
    ('make', 'variable'),
    [
        (AnthropicModel, 'ANTHROPIC_API_KEY'),
        (CohereModel, 'CO_API_KEY'),
        (GoogleModel, 'GOOGLE_API_KEY'),
        (OpenAIModel, 'OPENAI_API_KEY'),
    ],
)
async def test_a_key_of_a_variable(make: Callable[..., Any], variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, KEY)
    async with Loopback([json_reply({'error': {'message': 'no'}}, status=401)]) as server:
        with pytest.raises(ModelHTTPError, match=f'check {variable}$'):
            await ask(make('m', base_url=server.url))


async def test_no_key_where_one_was_wanted_after_all() -> None:
    async with Loopback([json_reply({'error': 'no'}, status=401)]) as server:
        with pytest.raises(ModelHTTPError, match='none was sent; set OLLAMA_API_KEY or pass api_key='):
            await ask(OllamaModel('m', base_url=server.url))


# Addresses copied from a request


@pytest.mark.parametrize(
    ('make', 'ends', 'path'),
    [
        (OpenAIModel, ['/v1/chat/completions', '/v1/chat/completions/', '/v1/', '/v1'], '/v1/chat/completions'),
        (ResponsesModel, ['/v1/responses', '/v1/responses/', '/v1'], '/v1/responses'),
        (AnthropicModel, ['/v1/messages', '/v1/messages/count_tokens', '/v1', ''], '/v1/messages'),
        (CohereModel, ['/v2/chat', '/v1/chat', '/v2', ''], '/v2/chat'),
        (OllamaModel, ['/api/chat', '/api/generate', '/api', '/v1', '/v1/chat/completions', ''], '/api/chat'),
        (BedrockModel, ['/model/m/converse', '/model/m/converse-stream', ''], '/model/m/converse'),
        (GoogleModel, ['/v1beta/models/m:generateContent', '/v1beta'], '/v1beta/models/m:generateContent'),
        (
            GoogleVertexModel,
            ['/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent', '/v1'],
            '/v1/publishers/google/models/m:generateContent',
        ),
    ],
)
async def test_an_endpoint_as_address(make: Callable[..., Any], ends: list[str], path: str) -> None:
    async with Loopback([json_reply({'error': {'message': 'no'}}, status=400) for _ in ends]) as server:
        for end in ends:
            with pytest.raises(ModelHTTPError):
                await ask(make('m', base_url=server.url.removesuffix('/v1') + end, api_key=KEY))
    assert [r.path for r in server.requests] == [path] * len(ends)


@pytest.mark.parametrize(
    ('make', 'end'),
    [
        (OpenAIModel, '/v1/responses'),
        (OpenAIModel, '/v1/messages'),
        (OpenAIModel, '/api/chat'),
        (ResponsesModel, '/v1/chat/completions'),
        (AnthropicModel, '/v1/chat/completions'),
        (AnthropicModel, '/model/m/invoke'),
        (OllamaModel, '/v1/messages'),
        (GoogleModel, '/v1beta/openai/chat/completions'),
        (CohereModel, '/compatibility/v1/chat/completions'),
        (BedrockModel, '/openai/v1/chat/completions'),
    ],
)
async def test_an_endpoint_of_another_api(make: Callable[..., Any], end: str) -> None:
    with pytest.raises(ConfigError, match='is an endpoint of another API; pass the address that'):
        await ask(make('m', base_url=f'https://host.example{end}', api_key=KEY))


async def test_the_query_of_an_address_stays_with_it() -> None:
    for make in (OpenAIModel, ResponsesModel):
        async with Loopback([json_reply({'error': {'message': 'no'}}, status=400)] * 2) as server:
            for end in ('/v1?api-version=7', '/v1/chat/completions?api-version=7'):
                if make is ResponsesModel:
                    end = end.replace('chat/completions', 'responses')
                with pytest.raises(ModelHTTPError):
                    await ask(make('m', base_url=server.url.removesuffix('/v1') + end, api_key=KEY))
        assert {r.path for r in server.requests} == {
            '/v1/chat/completions?api-version=7' if make is OpenAIModel else '/v1/responses?api-version=7'
        }
    assert joined('http://h/v1beta?a=b', '/m:go?alt=sse') == 'http://h/v1beta/m:go?alt=sse&a=b'


async def test_the_address_of_a_deployment() -> None:
    url = 'https://r.openai.azure.com/openai/deployments/gpt-mine/chat/completions?api-version=2024-10-21'
    with pytest.raises(ConfigError, match=r"pass 'https://r.openai.azure.com', and the deployment .*: 'gpt-mine'"):
        await ask(OpenAIModel('m', server='azure', base_url=url, api_key=KEY))
