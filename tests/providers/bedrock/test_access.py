"""Where Bedrock is and who asks: region, API key, signatures, and what is said when one of them is missing."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agent_graph.errors import ConfigError, ModelHTTPError, ModelUnreachable
from agent_graph.messages import UserMessage
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.registry import infer_model
from agent_graph_providers.bedrock import BedrockModel
from agent_graph_providers.bedrock.signing import credentials_at_hand
from tests.providers.bedrock.server import answer
from tests.providers.loopback import Loopback, Reply, Request, json_reply

ARN = 'arn:aws:bedrock:eu-west-1:012345678901:inference-profile/us.anthropic.claude-3-7-sonnet-20250219-v1:0'
SECRET, TOKEN = 'secret-access-key-0123456789', 'session-token-0123456789'


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that is set up for nothing."""
    for name in ('AWS_BEARER_TOKEN_BEDROCK', 'AWS_REGION', 'AWS_DEFAULT_REGION', 'AWS_PROFILE', 'AWS_ACCESS_KEY_ID'):
        monkeypatch.delenv(name, raising=False)
    for name in ('AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN', 'AWS_ENDPOINT_URL_BEDROCK_RUNTIME'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('AWS_CONFIG_FILE', str(tmp_path / 'config'))
    monkeypatch.setenv('AWS_SHARED_CREDENTIALS_FILE', str(tmp_path / 'credentials'))
    monkeypatch.setenv('AWS_EC2_METADATA_DISABLED', 'true')


async def ask(model: BedrockModel) -> ResponseBuilder:
    out = ResponseBuilder()
    await model.respond([UserMessage('hi')], RequestInfo(), out)
    return out


def seen(reply: Reply | None = None, name: str = 'm', **kwargs: Any) -> Request:
    """The request that a model makes."""

    async def main() -> Request:
        async with Loopback([reply or answer({'text': 'x'})]) as server:
            await ask(BedrockModel(name, base_url=server.url, **kwargs))
            return server.requests[0]

    return asyncio.run(main())


def refused(model: BedrockModel) -> Exception:
    with pytest.raises((ConfigError, ModelUnreachable)) as caught:
        asyncio.run(ask(model))
    return caught.value


class Session:
    """A session as botocore's are, with prepared credentials."""

    def __init__(self, credentials: Any, region: str | None = None) -> None:
        self._credentials = credentials
        self._region = region

    def get_credentials(self) -> Any:
        if isinstance(self._credentials, Exception):
            raise self._credentials
        return self._credentials

    def get_config_variable(self, name: str) -> str | None:
        assert name == 'region'
        return self._region


class Passing:
    """Credentials that have to be renewed each time, and note by whom."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.old = True

    def refresh_needed(self) -> bool:
        return self.old

    def get_frozen_credentials(self) -> Any:
        from botocore.credentials import ReadOnlyCredentials  # pyright: ignore

        if self.old:
            self.threads.append(threading.current_thread())
        self.old = False
        return ReadOnlyCredentials('AKIDEXAMPLE', SECRET, TOKEN, None)  # pyright: ignore


def signature(request: Request, host: str, region: str) -> str:
    """The signature by the published algorithm (AWS Signature Version 4), from what was received."""
    day = request.headers['x-amz-date'][:8]
    head, signed = dict(request.headers), request.headers['authorization']
    names = signed.partition('SignedHeaders=')[2].partition(',')[0]
    head['host'] = host
    lines = [
        request.method,
        quote(request.path, safe='/~'),
        '',
        *(f'{n}:{head[n]}' for n in names.split(';')),
        '',
        names,
        hashlib.sha256(request.body).hexdigest(),
    ]
    scope = f'{day}/{region}/bedrock/aws4_request'
    digest = hashlib.sha256('\n'.join(lines).encode()).hexdigest()
    text = '\n'.join(['AWS4-HMAC-SHA256', head['x-amz-date'], scope, digest])
    key = f'AWS4{SECRET}'.encode()
    for piece in (day, region, 'bedrock', 'aws4_request'):
        key = hmac.new(key, piece.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class TestKey:
    def test_a_key_needs_no_botocore_and_no_region(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv('AWS_BEARER_TOKEN_BEDROCK', 'key-from-the-environment')
        monkeypatch.setitem(sys.modules, 'botocore.session', None)
        request = seen(name=ARN)
        assert request.headers['authorization'] == 'Bearer key-from-the-environment'
        assert request.path == f'/v1/model/{quote(ARN, safe="")}/converse'
        assert 'x-amz-date' not in request.headers
        assert seen(api_key='key-of-the-model').headers['authorization'] == 'Bearer key-of-the-model'

    def test_nothing_is_loaded_for_it(self) -> None:
        program = (
            'import asyncio, sys\n'
            'from tests.providers.bedrock.test_access import seen\n'
            'seen(api_key="0123456789")\n'
            'assert not [n for n in sys.modules if n.startswith(("boto", "openai"))]\n'
        )
        subprocess.run([sys.executable, '-c', program], check=True, cwd=Path(__file__).parents[3])


class TestSigning:
    @pytest.mark.parametrize('token', [None, TOKEN])
    @pytest.mark.parametrize('name', ['amazon.nova-micro-v1:0', ARN])
    def test_requests_are_signed(self, name: str, token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv('AWS_ACCESS_KEY_ID', 'AKIDEXAMPLE')
        monkeypatch.setenv('AWS_SECRET_ACCESS_KEY', SECRET)
        if token:
            monkeypatch.setenv('AWS_SESSION_TOKEN', token)
        request = seen(name=name, region='us-west-2')
        given = request.headers['authorization']
        assert given.endswith(f'Signature={signature(request, request.headers["host"], "us-west-2")}')
        assert 'Credential=AKIDEXAMPLE/' in given and request.headers.get('x-amz-security-token') == token

    def test_credentials_of_a_file_and_a_profile(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / 'credentials').write_text(f'[work]\naws_access_key_id=AKIDWORK\naws_secret_access_key={SECRET}\n')
        (tmp_path / 'config').write_text('[profile work]\nregion = ap-south-1\n')
        monkeypatch.setenv('AWS_PROFILE', 'work')
        assert '/ap-south-1/bedrock/' in seen().headers['authorization']

    def test_credentials_that_pass_are_renewed_in_a_thread(self) -> None:
        passing = Passing()

        async def main() -> None:
            async with Loopback([answer({'text': 'x'})]) as server:
                model = BedrockModel('m', base_url=server.url, session=Session(passing), region='us-east-1')
                await ask(model)
                await ask(model)
                passing.old = True
                await ask(model)

        asyncio.run(main())
        assert len(passing.threads) == 2 and threading.main_thread() not in passing.threads

    def test_the_session_token_is_never_told(self) -> None:
        """A server that finds the signature wrong quotes all it was sent."""

        def quoting(request: Request) -> Reply:
            return json_reply({'message': f'canonical: {request.headers["x-amz-security-token"]}'}, status=403)

        async def main() -> None:
            async with Loopback([quoting]) as server:
                model = BedrockModel('m', base_url=server.url, session=Session(Passing()), region='us-east-1')
                with pytest.raises(ModelHTTPError) as caught:
                    await ask(model)
                shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
                text = ''.join(shown) + repr(model) + repr(caught.value.__dict__)
                assert TOKEN not in text and SECRET not in text and 'canonical: ***' in text
                assert 'check the AWS credentials' in text

        asyncio.run(main())

    def test_without_botocore(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, 'botocore.session', None)
        error = refused(BedrockModel('m', region='us-east-1'))
        assert isinstance(error, ConfigError) and 'pip install "agent-graph[bedrock]"' in str(error)

    def test_without_credentials(self) -> None:
        error = refused(BedrockModel('m', region='us-east-1'))
        assert 'AWS_BEARER_TOKEN_BEDROCK' in str(error) and 'AWS_ACCESS_KEY_ID' in str(error)

    def test_a_chain_that_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from botocore.exceptions import ConnectTimeoutError, UnauthorizedSSOTokenError  # pyright: ignore

        expired: Any = UnauthorizedSSOTokenError()  # pyright: ignore
        error = refused(BedrockModel('m', region='us-east-1', session=Session(expired)))
        assert isinstance(error, ConfigError) and 'log in' in str(error) and error.__cause__ is expired
        lost: Any = ConnectTimeoutError(endpoint_url='https://sts')  # pyright: ignore
        assert isinstance(refused(BedrockModel('m', region='us-east-1', session=Session(lost))), ModelUnreachable)
        monkeypatch.setenv('AWS_PROFILE', 'nobody')
        assert 'nobody' in str(refused(BedrockModel('m', region='us-east-1')))


class TestRegion:
    def address(self, model: BedrockModel) -> str:
        return str(model.identity['address'])

    def test_where_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv('AWS_DEFAULT_REGION', 'eu-north-1')
        assert self.address(BedrockModel('m')) == 'https://bedrock-runtime.eu-north-1.amazonaws.com'
        monkeypatch.setenv('AWS_REGION', 'eu-west-3')
        assert self.address(BedrockModel('m')) == 'https://bedrock-runtime.eu-west-3.amazonaws.com'
        assert 'us-west-2' in self.address(BedrockModel('m', region='us-west-2'))
        monkeypatch.setenv('AWS_ENDPOINT_URL_BEDROCK_RUNTIME', 'https://bedrock.example')
        assert self.address(BedrockModel('m', region='us-west-2')) == 'https://bedrock.example'

    def test_nobody_says(self) -> None:
        assert 'AWS_REGION' in str(refused(BedrockModel('m', api_key='0123456789')))
        model = BedrockModel('m', base_url='http://127.0.0.1:9', session=Session(Passing()))
        assert 'AWS_REGION' in str(refused(model))

    def test_an_arn_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, 'botocore.session', None)
        model = BedrockModel(ARN, api_key='0123456789')
        asyncio.run(model._account.prepare(sign=False, locate=True))  # pyright: ignore[reportPrivateUsage]
        assert 'eu-west-1' in self.address(model)


def test_by_name() -> None:
    model = infer_model('bedrock:us.anthropic.claude-sonnet-4-6')
    assert isinstance(model, BedrockModel) and model.provider == 'aws'
    with pytest.raises(ConfigError, match='names no model'):
        infer_model('bedrock:')


def test_credentials_at_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv('HOME', str(tmp_path))
    assert credentials_at_hand() == ''
    (tmp_path / 'credentials').write_text('')
    assert credentials_at_hand() == str(tmp_path / 'credentials')
    monkeypatch.setenv('AWS_PROFILE', 'work')
    assert credentials_at_hand() == 'AWS_PROFILE'


class TestCounting:
    def test_bedrock_counts(self) -> None:
        async def main() -> tuple[int | None, Request]:
            async with Loopback([json_reply({'inputTokens': 17})]) as server:
                model = BedrockModel('us.anthropic.claude-sonnet-4-6', base_url=server.url, api_key='0123456789')
                extra: Any = {'additionalModelRequestFields': {'x': 1}}
                info = RequestInfo(settings={'max_tokens': 5, 'top_k': 3, 'extra_body': extra})
                return await model.count_tokens([UserMessage('hi')], info), server.requests[0]

        count, request = asyncio.run(main())
        assert count == 17 and request.path == '/v1/model/anthropic.claude-sonnet-4-6/count-tokens'
        assert request.json == {
            'input': {
                'converse': {
                    'messages': [{'role': 'user', 'content': [{'text': 'hi'}]}],
                    'additionalModelRequestFields': {'top_k': 3, 'x': 1},
                }
            }
        }

    def test_other_models_are_not_counted(self) -> None:
        assert asyncio.run(BedrockModel('amazon.nova-lite-v1:0').count_tokens([], RequestInfo())) is None


def test_extra_fields_are_merged() -> None:
    async def main() -> Any:
        async with Loopback([answer({'text': 'x'})]) as server:
            model = BedrockModel('us.anthropic.claude-sonnet-4-6', base_url=server.url, api_key='0123456789')
            extra: Any = {
                'additionalModelRequestFields': {'anthropic_beta': ['b']},
                'guardrailConfig': {'guardrailIdentifier': 'g', 'guardrailVersion': 'DRAFT'},
            }
            info = RequestInfo(settings={'top_k': 3, 'extra_body': extra})
            await model.respond([UserMessage('hi')], info, ResponseBuilder())
            return server.requests[0].json

    body = asyncio.run(main())
    assert body['additionalModelRequestFields'] == {'top_k': 3, 'anthropic_beta': ['b']}
    assert body['guardrailConfig']['guardrailVersion'] == 'DRAFT'
