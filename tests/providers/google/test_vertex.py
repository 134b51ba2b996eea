"""Vertex: addresses, projects, and tokens from google-auth, against a token server on this machine."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agent_graph.errors import ConfigError, ModelHTTPError, ModelUnreachable
from agent_graph.messages import UserMessage
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.registry import infer_model
from agent_graph_providers.google import GoogleVertexModel
from agent_graph_providers.google.vertex import CloudDoor
from tests.providers.google.kit import KEY, answer
from tests.providers.loopback import Loopback, Reply, in_thread, json_reply

TOKEN = 'ya29.marker-token-77'
_PEM = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine that knows nothing of Google."""
    for name in ('GOOGLE_API_KEY', 'GOOGLE_CLOUD_PROJECT', 'GOOGLE_CLOUD_LOCATION', 'GOOGLE_APPLICATION_CREDENTIALS'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.setenv('CLOUDSDK_CONFIG', str(tmp_path))
    monkeypatch.setenv('NO_GCE_CHECK', 'true')
    return monkeypatch


async def ask(asked: GoogleVertexModel) -> None:
    await asked.respond([UserMessage('hi')], RequestInfo(), ResponseBuilder())


OK = json_reply(answer({'text': 'x'}))


class Credentials:
    """Credentials that need no network; each refresh takes a moment and gives another token."""

    def __init__(self, lifetime: float = 60.0) -> None:
        self.token: str | None = None
        self.refreshed = 0
        self.threads: set[int] = set()
        self._lifetime = lifetime
        self._until = 0.0

    @property
    def valid(self) -> bool:
        return self.token is not None and time.monotonic() < self._until

    def refresh(self, request: Any) -> None:
        time.sleep(0.05)
        self.refreshed += 1
        self.threads.add(threading.get_ident())
        self.token, self._until = f'{TOKEN}-{self.refreshed}', time.monotonic() + self._lifetime


class TestAddresses:
    @pytest.mark.parametrize(
        ('location', 'address'),
        [
            (None, 'https://aiplatform.googleapis.com/v1beta1'),
            ('global', 'https://aiplatform.googleapis.com/v1beta1'),
            ('us-central1', 'https://us-central1-aiplatform.googleapis.com/v1beta1'),
            ('eu', 'https://aiplatform.eu.rep.googleapis.com/v1beta1'),
        ],
    )
    def test_locations(self, location: str | None, address: str) -> None:
        assert CloudDoor('m', 'p', location).address() == address

    def test_variables_are_read_when_they_are_needed(self, bare: pytest.MonkeyPatch) -> None:
        door = CloudDoor('m')
        bare.setenv('GOOGLE_CLOUD_PROJECT', 'proj')
        bare.setenv('GOOGLE_CLOUD_LOCATION', 'europe-west4')
        assert door.address() == 'https://europe-west4-aiplatform.googleapis.com/v1beta1'
        assert door.resource('m') == '/projects/proj/locations/europe-west4/publishers/google/models/m'
        assert CloudDoor('m', 'mine', 'us').resource('meta/l') == '/projects/mine/locations/us/publishers/meta/models/l'

    def test_identity_names_project_and_place(self) -> None:
        one, other = (GoogleVertexModel('m', project=p) for p in ('a', 'b'))
        assert one.identity != other.identity and one.identity['project'] == 'a'


class TestExpressMode:
    @pytest.mark.parametrize('given', [True, False])
    def test_a_key_is_all_it_takes(self, given: bool, bare: pytest.MonkeyPatch) -> None:
        async def main() -> Any:
            async with Loopback([OK]) as loopback:
                if given:
                    bare.setenv('GOOGLE_CLOUD_PROJECT', 'unused')
                    await ask(GoogleVertexModel('m', base_url=loopback.url, api_key=KEY))
                else:
                    bare.setenv('GOOGLE_API_KEY', KEY)
                    await ask(GoogleVertexModel('m', base_url=loopback.url))
                return loopback.requests[0]

        request = asyncio.run(main())
        assert request.path == '/v1/publishers/google/models/m:generateContent'
        assert request.headers['x-goog-api-key'] == KEY and 'authorization' not in request.headers


class TestTokens:
    def test_one_token_serves_all_until_it_expires(self) -> None:
        async def main() -> tuple[Credentials, list[Any]]:
            credentials = Credentials(lifetime=0.4)
            async with Loopback([OK]) as loopback:
                asked = GoogleVertexModel('m', project='p', credentials=credentials, base_url=loopback.url)
                await asyncio.gather(*(ask(asked) for _ in range(20)))
                await asyncio.sleep(0.5)
                await ask(asked)
                return credentials, loopback.requests

        credentials, requests = asyncio.run(main())
        assert credentials.refreshed == 2 and threading.get_ident() not in credentials.threads
        sent = [r.headers['authorization'] for r in requests]
        assert sent == [f'Bearer {TOKEN}-1'] * 20 + [f'Bearer {TOKEN}-2']
        assert requests[0].path == '/v1/projects/p/locations/global/publishers/google/models/m:generateContent'

    def test_the_loop_goes_on_while_a_token_is_fetched(self) -> None:
        async def main() -> int:
            async with Loopback([OK]) as loopback:
                task = asyncio.create_task(
                    ask(GoogleVertexModel('m', project='p', credentials=Credentials(), base_url=loopback.url))
                )
                turns = 0
                while not task.done():
                    await asyncio.sleep(0.001)
                    turns += 1
                await task
                return turns

        assert asyncio.run(main()) > 10

    def test_several_loops_share_it(self) -> None:
        credentials = Credentials()
        with in_thread([OK]) as server:
            asked = GoogleVertexModel('m', project='p', credentials=credentials, base_url=server.url)
            for _ in range(3):
                asyncio.run(ask(asked))
        assert credentials.refreshed == 1

    def test_a_server_that_quotes_the_token(self) -> None:
        quoted = json_reply({'error': {'message': f'bad token {TOKEN}-1', 'code': 401}}, status=401)

        async def main() -> ModelHTTPError:
            async with Loopback([quoted]) as loopback:
                asked = GoogleVertexModel('m', project='p', credentials=Credentials(), base_url=loopback.url)
                with pytest.raises(ModelHTTPError) as caught:
                    await ask(asked)
                return caught.value

        error = asyncio.run(main())
        assert TOKEN not in f'{error} {error.body}' and 'bad token ***' in str(error)
        assert 'GOOGLE_API_KEY' not in str(error)


def account_file(folder: Path, token_uri: str) -> Path:
    """The file of a service account whose tokens come from `token_uri`."""
    account = {
        'type': 'service_account',
        'project_id': 'project-of-the-account',
        'private_key_id': 'k',
        'private_key': _PEM.decode(),
        'client_email': 'a@b.iam.gserviceaccount.com',
        'token_uri': token_uri,
        'quota_project_id': 'who-pays',
    }
    path = folder / 'account.json'
    path.write_text(json.dumps(account))
    return path


class TestCredentialsOfThisMachine:
    def test_a_service_account_with_its_own_project(self, bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def token(request: Any) -> Reply:
            grant = parse_qs(request.body.decode())
            assert grant['grant_type'] == ['urn:ietf:params:oauth:grant-type:jwt-bearer']
            return json_reply({'access_token': TOKEN, 'expires_in': 3600, 'token_type': 'Bearer'})

        with in_thread([token]) as tokens, in_thread([OK]) as server:
            bare.setenv('GOOGLE_APPLICATION_CREDENTIALS', str(account_file(tmp_path, f'{tokens.url}/token')))
            asked = infer_model('google-vertex:gemini-3-flash')
            assert isinstance(asked, GoogleVertexModel)
            asked = GoogleVertexModel('gemini-3-flash', base_url=server.url)
            asyncio.run(ask(asked))
            asyncio.run(ask(asked))
            assert len(tokens.requests) == 1
            first = server.requests[0]
        assert first.path.startswith('/v1/projects/project-of-the-account/locations/global/publishers/google/')
        assert first.headers['authorization'] == f'Bearer {TOKEN}'

    def test_no_credentials_at_all(self) -> None:
        with pytest.raises(ConfigError, match=r'found no credentials of google-auth .*\(express mode\): pass api_key='):
            asyncio.run(ask(GoogleVertexModel('m', project='p')))
        told = r'agent-graph\[vertex\].*\(express mode\): set GOOGLE_API_KEY or pass api_key='
        with pytest.raises(ConfigError, match=told):
            asyncio.run(ask(GoogleVertexModel('m')))

    def test_no_project_at_all(self) -> None:
        with pytest.raises(ConfigError, match='set GOOGLE_CLOUD_PROJECT, pass project='):
            asyncio.run(ask(GoogleVertexModel('m', credentials=Credentials())))

    def test_a_token_server_that_says_no_or_nothing(self, bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
        with in_thread([json_reply({'error': 'invalid_grant'}, status=400)]) as tokens:
            bare.setenv('GOOGLE_APPLICATION_CREDENTIALS', str(account_file(tmp_path, f'{tokens.url}/token')))
            with pytest.raises(ModelHTTPError, match='invalid_grant') as caught:
                asyncio.run(ask(GoogleVertexModel('m')))
            assert caught.value.status == 401 and caught.value.provider == 'google-vertex'
        bare.setenv('GOOGLE_APPLICATION_CREDENTIALS', str(account_file(tmp_path, 'http://127.0.0.1:9/token')))
        with pytest.raises(ModelUnreachable, match='no token for Vertex'):
            asyncio.run(ask(GoogleVertexModel('m')))


def test_a_missing_extra_is_named() -> None:
    code = (
        'import asyncio, sys\n'
        'sys.modules["google"] = sys.modules["google.auth"] = None\n'
        'from agent_graph.messages import UserMessage\n'
        'from agent_graph.model import RequestInfo, ResponseBuilder\n'
        'from agent_graph_providers.google import GoogleVertexModel\n'
        'model = GoogleVertexModel("m", project="p")\n'
        'asyncio.run(model.respond([UserMessage("hi")], RequestInfo(), ResponseBuilder()))\n'
    )
    env = {'PYTHONPATH': ':'.join(sys.path)}
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False, env=env)
    assert 'ConfigError' in done.stderr and 'pip install "agent-graph[vertex]"' in done.stderr, done.stderr
    assert 'google-auth' in done.stderr and 'pass api_key=' in done.stderr, done.stderr
