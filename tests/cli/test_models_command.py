"""`agent-graph models`: what is told of providers, without calling them and without showing a key."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.packages import install

Command = Callable[..., Any]

SECRET = 'sk-never-shown-0123456789'

ACME = """
class Site:
    base_url = 'https://api.acme.example/v1?token=hidden'
    base_url_env = 'ACME_BASE_URL'
    key_env = 'ACME_API_KEY'
    other_key_envs = ('ACME_TOKEN',)


class Model:
    provider = 'acme'

    def __init__(self, name):
        self.name = name

    async def respond(self, messages, info, out): ...

    @property
    def capabilities(self):
        from agent_graph.capabilities import Capabilities
        return Capabilities(images=False, thinking=self.name.startswith('deep'))


def model(name):
    if not name:
        raise ValueError('names no model')
    return Model(name)


model.site = Site()


def silent(name):
    return Model(name)


class Cloud:
    key_env = ''

    def credentials(self):
        return 'the profile "dev"'

    def locate(self):
        return 'https://user:pw@eu.acme.example'

    def model(self, name):
        return Model(name)


CLOUD = Cloud()
"""


@pytest.fixture
def acme(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that brings providers of several kinds."""
    providers = ['acme = acme:model', 'acme-cloud = acme:CLOUD.model', 'acme-silent = acme:silent']
    providers += ['acme-gone = acme_gone:model', 'acme-sdk = acme:model']
    requires = ["acme-client>=2; extra == 'acme-sdk'", 'pydantic']
    install(folder, monkeypatch, 'acme', requires=requires, extras=['acme-sdk'], providers=providers)
    (folder / 'packages' / 'acme.py').write_text(ACME)
    for name in ('ACME_API_KEY', 'ACME_TOKEN', 'ACME_BASE_URL'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, 'acme', raising=False)
    return folder


def one(command: Command, which: str) -> dict[str, Any]:
    done = command('models', which, '--json')
    assert done.code == 0, done.err
    (told,) = done.json()
    return told


def test_every_installed_provider_is_listed(command: Command, acme: Path) -> None:
    done = command('models', '--json')
    assert done.code == 0
    told = {one['provider']: one for one in done.json()}
    assert list(told) == sorted(told)
    assert {'openai', 'ollama', 'local', 'acme', 'acme-cloud', 'acme-gone', 'acme-sdk'} <= set(told)
    assert told['openai']['key'] == {
        'variable': 'OPENAI_API_KEY',
        'found': False,
        'optional': False,
        'others': [],
        'elsewhere': '',
        'faults': [],
        'told': True,
    }
    assert told['openai']['address'] == 'https://api.openai.com/v1' and not told['openai']['ready']
    assert told['ollama']['key']['optional'] and told['ollama']['ready']
    assert told['acme']['package'] == 'acme 1.0' and told['acme']['entry_point'] == 'acme:model'


def test_a_key_is_found_and_never_shown(command: Command, acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert one(command, 'acme')['key']['found'] is False
    monkeypatch.setenv('ACME_TOKEN', SECRET)
    told = one(command, 'acme')
    assert (told['key']['variable'], told['key']['found'], told['ready']) == ('ACME_TOKEN', True, True)
    monkeypatch.setenv('ACME_API_KEY', f'"{SECRET}"')
    told = one(command, 'acme')
    assert (told['key']['variable'], told['ready']) == ('ACME_API_KEY', False)
    assert told['key']['faults'] == ['has quotes around it: leave them out']
    for args in (['models'], ['models', 'acme'], ['models', 'acme:deep-1'], ['models', 'acme', '--json']):
        done = command(*args)
        assert SECRET not in done.out + done.err and 'ACME_API_KEY' in done.out


def test_addresses_are_shown_without_what_is_secret(
    command: Command, acme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert one(command, 'acme')['address'] == 'https://api.acme.example/v1'
    assert one(command, 'acme-cloud')['address'] == 'https://***@eu.acme.example'
    monkeypatch.setenv('ACME_BASE_URL', 'http://me:geheim@localhost:8080/x?y=1')
    assert one(command, 'acme')['address'] == 'http://***@localhost:8080/x'
    assert 'address  http://***@localhost:8080/x  (from ACME_BASE_URL)' in command('models', 'acme').out


def test_other_ways_to_sign_in(command: Command, acme: Path) -> None:
    told = one(command, 'acme-cloud')
    assert told['ready'] and told['key']['elsewhere'] == 'the profile "dev"'
    assert 'key      the profile "dev"' in command('models', 'acme-cloud').out
    assert 'key      not told' in command('models', 'acme-silent').out


def test_what_is_lacking_is_named(command: Command, acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = one(command, 'acme-sdk')
    assert (told['extra'], told['lacking']) == ('acme-sdk', ['acme-client>=2'])
    assert told['install'] == "pip install 'acme[acme-sdk]'" and not told['ready']
    install(acme, monkeypatch, 'acme-client', '1.9')
    assert one(command, 'acme-sdk')['lacking'] == ['acme-client>=2']
    install(acme, monkeypatch, 'acme-client', '2.0.1')
    monkeypatch.setenv('ACME_API_KEY', SECRET)
    told = one(command, 'acme-sdk')
    assert (told['lacking'], told['install'], told['ready']) == ([], None, True)


def test_a_provider_that_cannot_be_loaded_is_listed(command: Command, acme: Path) -> None:
    gone = one(command, 'acme-gone')
    assert gone['error'] == "ModuleNotFoundError: No module named 'acme_gone'" and not gone['ready']
    assert "cannot be loaded: ModuleNotFoundError: No module named 'acme_gone'" in command('models').out


def test_what_a_model_can_do(command: Command, acme: Path) -> None:
    deep, plain, newest = (one(command, which) for which in ('acme:deep-1', 'acme:plain', 'acme'))
    assert (deep['model'], deep['priced_as'], deep['assumed']) == ('deep-1', 'acme', False)
    assert deep['capabilities']['thinking'] and not deep['capabilities']['images']
    assert not plain['capabilities']['thinking']
    assert newest['model'] is None and not newest['capabilities']['images']
    out = command('models', 'acme:deep-1').out
    assert 'what acme:deep-1 can do:' in out and '✓ thinking' in out and '✗ images' in out
    assert 'what the newest models of acme can do:' in command('models', 'acme').out


def test_what_is_not_there(command: Command, acme: Path) -> None:
    done = command('models', 'opnai:gpt-5')
    assert done.code == 2 and "no provider 'opnai' (of 'opnai:gpt-5') is installed; did you mean 'openai'?" in done.err
    done = command('models', 'acme:')
    assert done.code == 0, 'the provider alone'
    done = command('models', 'acme-gone:x')
    assert done.code == 2 and "cannot be loaded: ModuleNotFoundError: No module named 'acme_gone'" in done.err
    done = command('models', 'nope', '--json')
    assert done.code == 2 and done.err == ''
    assert json.loads(done.out)['kind'] == 'error' and json.loads(done.out)['exit_code'] == 2
