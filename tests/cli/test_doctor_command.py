"""`agent-graph doctor`: each thing that can be wrong is found, named, and has a remedy; no key is ever shown."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from agent_graph.cli.providers import key_faults
from agent_graph.cli.requirements import satisfies
from tests.cli.packages import install
from tests.cli.test_models_command import SECRET, acme
from tests.providers.loopback import Reply, in_thread

__all__ = ['acme']  # a fixture

Command = Callable[..., Any]


@pytest.fixture(autouse=True)
def plain_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the surroundings is found fault with."""
    names = [f'{name}_PROXY' for name in ('HTTP', 'HTTPS', 'ALL', 'NO')]
    for name in (*names, *map(str.lower, names), 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'SSLKEYLOGFILE'):
        monkeypatch.delenv(name, raising=False)


def findings(command: Command, *args: str) -> list[dict[str, Any]]:
    """What is found; the report and the exit code agree with it."""
    done = command('doctor', '--json', *args)
    assert SECRET not in done.out + done.err
    *found, report = done.json()
    problems = [one for one in found if one['level'] == 'problem']
    assert report == {'kind': 'report', 'problems': len(problems), 'notes': sum(o['level'] == 'note' for o in found)}
    assert done.code == (1 if problems else 0)
    assert all(one['remedy'] for one in problems), 'a problem without a remedy'
    return found


def problems(command: Command, *args: str) -> list[str]:
    return [f'{o["about"]}: {o["text"]} -> {o["remedy"]}' for o in findings(command, *args) if o['level'] == 'problem']


def the_problem(command: Command, *args: str) -> str:
    (found,) = problems(command, *args)
    return found


def notes(command: Command, *args: str) -> list[str]:
    return [f'{o["about"]}: {o["text"]}' for o in findings(command, *args) if o['level'] == 'note']


def test_a_machine_with_nothing_wrong(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('OPENAI_API_KEY', SECRET)
    done = command('doctor')
    assert done.code == 0, done.out
    assert done.out.endswith('nothing is wrong\n')
    for line in (
        '✓ packages: all versions fit: ',
        '✓ keys: set, and of a form that can be sent: OPENAI_API_KEY',
        "✓ journal: 'agent_graph.db' is not there yet; the first run makes it",
        '✓ journal: the file system there can hold a write-ahead log',
    ):
        assert line in done.out
    assert not Path('agent_graph.db').exists() and not list(Path.cwd().glob('.agent-graph*'))


def test_versions_that_do_not_fit(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, monkeypatch, 'openai', '2.9.1')
    install(folder, monkeypatch, 'pydantic-graph', '1.7')
    install(folder, monkeypatch, 'xllamacpp', '2025.1')
    found = problems(command)
    assert "packages: openai is 2.9.1, and >=3,<4 is needed (for agent-graph) -> pip install 'openai>=3,<4'" in found
    assert any(one.startswith('packages: pydantic-graph is 1.7, and >=2.68,<3 is needed') for one in found)
    assert any('xllamacpp is 2025.1' in one and "the extra 'local'" in one for one in found)
    assert len(found) == 3


def test_a_package_that_is_missing(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, monkeypatch, 'agent-graph', '0.1.0', requires=['acme-tools>=2', 'acme-win; sys_platform == "none"'])
    found = problems(command)
    assert "packages: acme-tools is not installed (for agent-graph) -> pip install 'acme-tools>=2'" in found
    assert not any('acme-win' in one for one in found)


@pytest.mark.parametrize(
    ('found', 'spec', 'fits'),
    [
        ('3.0', '>=3,<4', True),
        ('3', '>=3.0.0,<4', True),
        ('4.0', '>=3,<4', False),
        ('2.99.9', '>=3,<4', False),
        ('3.10', '>=3.9', True),
        ('3.1.post2', '>=3.1', True),
        ('1.2.3', '~=1.2', True),
        ('2.0', '~=1.2', False),
        ('1.1', '~=1.2', False),
        ('1.2', '==1.*', True),
        ('2.2', '==1.*', False),
        ('1.2', '!=1.2', False),
        ('1.2', '!=1.*', False),
        ('1.3', '>1.2,<=1.3', True),
        ('1!2.0', '>=1.5', True),
        ('unknown', '>=1', True),
        ('1.0', '', True),
    ],
)
def test_how_versions_are_compared(found: str, spec: str, *, fits: bool) -> None:
    assert satisfies(found, spec) is fits


@pytest.mark.parametrize(
    ('value', 'faults'),
    [
        (SECRET, []),
        (f'  {SECRET}\n', []),
        (f'"{SECRET}"', ['has quotes around it: leave them out']),
        (f"'{SECRET}", ['has quotes around it: leave them out']),
        (f'Bearer {SECRET}', ['begins with "Bearer": leave that out']),
        (f'MY_KEY={SECRET}', ['holds its own name: set only what comes after the =']),
        ('sk-one\nsk-two', ['has a line break in it']),
        ('sk-one two', ['has a blank in it']),
        ('sk-schlüssel', ['holds characters that no HTTP header can: copy it again']),
        ('sk-zero\u200bwidth', ['holds characters that no HTTP header can: copy it again']),
        ('your-api-key', ['is a placeholder: put the key there']),
        ('<YOUR KEY>', ['has a blank in it', 'is a placeholder: put the key there']),
        ('sk-...', ['is a placeholder: put the key there']),
        ('${OPENAI_API_KEY}', ['is a placeholder: put the key there']),
        ('sk-noneuveau-xxx1', []),
    ],
)
def test_what_is_wrong_with_a_key(value: str, faults: list[str]) -> None:
    assert key_faults(value, 'MY_KEY') == faults


def test_keys_that_cannot_be_right(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('OPENAI_API_KEY', f'"{SECRET}"')
    monkeypatch.setenv('GROQ_API_KEY', f'{SECRET}\n{SECRET}')
    found = problems(command)
    assert len(found) == 2
    assert (
        found[0]
        == 'keys: GROQ_API_KEY (for groq) has a line break in it -> set GROQ_API_KEY again, with nothing but the key'
    )
    assert found[1].startswith('keys: OPENAI_API_KEY (for openai') and 'quotes' in found[1]
    monkeypatch.setenv('OPENAI_API_KEY', ' ')
    monkeypatch.setenv('GROQ_API_KEY', f' {SECRET}')
    assert problems(command) == []
    said = notes(command)
    assert any('OPENAI_API_KEY' in one and 'set but empty' in one for one in said)
    assert any('GROQ_API_KEY has blanks' in one for one in said)


def test_providers_that_lack_something(command: Command, acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = the_problem(command)
    assert found == (
        "providers: 'acme-gone' cannot be loaded: ModuleNotFoundError: No module named 'acme_gone' -> reinstall acme 1.0"
    )
    monkeypatch.setenv('ACME_API_KEY', SECRET)
    found = problems(command)
    assert len(found) == 2
    assert (
        found[1]
        == "providers: ACME_API_KEY is set, but 'acme-sdk' lacks acme-client>=2 -> pip install 'acme[acme-sdk]'"
    )


@pytest.mark.parametrize(
    ('url', 'fault'),
    [
        ('api.acme.example/v1', 'is no URL'),
        ('ftp://api.acme.example', 'is no URL'),
        ('https://', 'is no URL'),
        ('"https://api.acme.example"', 'has quotes around it'),
        ('https://api.acme.example:port/v1', 'is no URL'),
        ('https://[::1/v1', 'is no URL'),
        ('https://me:geheim@api.acme.example/v1', 'carries credentials'),
        ('https://api.acme.example/v1?key=geheim', 'has a query or a fragment'),
        ('https://api.acme.example/v1/chat/completions', "ends with '/chat/completions'"),
        ('https://api.acme.example/v 1', 'has a blank in it'),
    ],
)
def test_addresses_that_cannot_be_right(
    command: Command, monkeypatch: pytest.MonkeyPatch, url: str, fault: str
) -> None:
    monkeypatch.setenv('ZAI_BASE_URL', url)
    found = the_problem(command)
    assert found.startswith('addresses: ZAI_BASE_URL (for zai') and fault in found and 'geheim' not in found


def test_addresses_that_are_right_or_nearly(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('ZAI_API_KEY', SECRET)
    for url, noted in (('http://10.0.0.3:8000/v1', 0), ('http://gpu:8000', 0), ('http://api.acme.example/v1', 1)):
        monkeypatch.setenv('ZAI_BASE_URL', url)
        assert problems(command) == []
        assert sum('not encrypted' in one for one in notes(command)) == noted
    monkeypatch.setenv('AZURE_OPENAI_API_KEY', SECRET)
    assert any("'azure' has no address -> set AZURE_OPENAI_ENDPOINT" in one for one in problems(command))


def test_proxies(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('HTTPS_PROXY', 'http://me:geheim@proxy.example:3128')
    said = notes(command)
    assert 'proxies: requests go through http://***@proxy.example:3128 (HTTPS_PROXY)' in said
    assert any('requests to servers on this machine (' in one and 'ollama' in one for one in said)
    monkeypatch.setenv('no_proxy', 'localhost')
    assert not any('servers on this machine' in one for one in notes(command))
    for value, fault in (('proxy.example:3128', 'no URL of a proxy'), ('http://proxy.example:x', 'is no URL')):
        monkeypatch.setenv('HTTPS_PROXY', value)
        assert fault in the_problem(command)


def test_certificates(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('SSL_CERT_FILE', 'nowhere.pem')
    assert "SSL_CERT_FILE is 'nowhere.pem', and there is no such file" in the_problem(command)
    Path('bad.pem').write_text('no certificate')
    monkeypatch.setenv('SSL_CERT_FILE', 'bad.pem')
    assert "SSL_CERT_FILE is 'bad.pem', which cannot be used" in the_problem(command)
    monkeypatch.delenv('SSL_CERT_FILE')
    monkeypatch.setenv('SSL_CERT_DIR', str(folder))
    monkeypatch.setenv('SSLKEYLOGFILE', 'keys.log')
    assert problems(command) == []
    assert sum(one.startswith('certificates: ') for one in notes(command)) == 2


def test_a_clock_in_the_past(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, monkeypatch, 'agent-graph', '0.1.0', files=['installed_later.py'])
    later = folder / 'packages' / 'installed_later.py'
    later.touch()
    assert not any(one.startswith('clock') for one in problems(command))
    os.utime(later, (time.time() + 10 * 86_400, time.time() + 10 * 86_400))
    assert any('this package was installed at' in one and one.startswith('clock') for one in problems(command))


class TestJournal:
    def test_a_journal_with_runs(self, command: Command, new_run: Callable[..., str]) -> None:
        new_run('agents.py:hello')
        found = findings(command)
        assert any(o['text'].startswith("'agent_graph.db' holds 1 run, ") and o['level'] == 'ok' for o in found)
        assert problems(command, '--journal', 'agent_graph.db') == []

    def test_a_journal_that_another_process_holds(self, command: Command, new_run: Callable[..., str]) -> None:
        new_run('agents.py:hello')
        other = sqlite3.connect('agent_graph.db', isolation_level=None)
        other.execute('BEGIN IMMEDIATE')
        assert "another process holds 'agent_graph.db'" in the_problem(command)
        other.execute('ROLLBACK')
        assert problems(command) == []
        other.close()

    def test_files_that_are_no_journals(self, command: Command) -> None:
        Path('text.db').write_text('this is no database at all, but a text of some length ' * 40)
        assert 'damaged, or no journal' in the_problem(command, '--journal', 'text.db')
        other = sqlite3.connect('other.db')
        other.execute('CREATE TABLE theirs (x)')
        other.close()
        assert 'a database of another application' in the_problem(command, '--journal', 'other.db')
        Path('empty.db').touch()
        assert problems(command, '--journal', 'empty.db') == []
        assert Path('empty.db').stat().st_size == 0, 'looking at it has made tables'
        assert 'cannot be read' in the_problem(command, '--journal', '.')
        assert "there is no folder 'nowhere'" in the_problem(command, '--journal', 'nowhere/runs.db')

    def test_a_damaged_journal(self, command: Command, new_run: Callable[..., str]) -> None:
        new_run('agents.py:hello')
        file = Path('agent_graph.db')
        db = sqlite3.connect(file)
        db.execute('PRAGMA wal_checkpoint(TRUNCATE)')  # what is in the log is not damaged
        db.close()
        data = bytearray(file.read_bytes())
        data[4096:8192] = b'\xff' * 4096
        file.write_bytes(data)
        assert 'damaged' in the_problem(command)

    def test_the_variable_names_it(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv('AGENT_GRAPH_JOURNAL', 'elsewhere/mine.db')
        assert "there is no folder 'elsewhere'" in the_problem(command)


class TestOnline:
    @pytest.fixture(autouse=True)
    def only_ours(self, acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Only one provider has a key, and only it is at an address that is no local server's."""
        monkeypatch.setenv('ACME_API_KEY', SECRET)
        install(acme, monkeypatch, 'acme', providers=['acme = acme:model'])

    def online(self, command: Command) -> list[dict[str, Any]]:
        return [o for o in findings(command, '--online') if 'acme' in o['text'] or o['about'] == 'clock']

    def test_any_answer_is_a_connection_and_no_key_is_sent(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with in_thread([answer(401), answer(200), answer(302, location='http://127.0.0.1:9/')]) as server:
            monkeypatch.setenv('ACME_BASE_URL', server.url)
            for status in (401, 200, 302):
                assert any(f'answered {status} in' in o['text'] for o in self.online(command))
            assert len(server.requests) == 3
            for request in server.requests:
                assert SECRET not in str(request.headers) + request.path + request.body.decode()

    def test_nothing_is_asked_without_online(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        with in_thread([answer(200)]) as server:
            monkeypatch.setenv('ACME_BASE_URL', server.url)
            findings(command)
            assert server.connections == 0

    def test_only_servers_are_connected_to(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv('ACME_BASE_URL', 'file:///etc/hostname')
        assert [o for o in self.online(command) if o['about'] == 'connections'] == []
        with in_thread([answer(200)]) as server:
            monkeypatch.setenv('ACME_BASE_URL', server.url.replace('http://', 'http://me:geheim@'))
            assert any('answered 200 in' in o['text'] for o in self.online(command))
            assert 'authorization' not in server.requests[0].headers

    def test_nobody_answers(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv('ACME_BASE_URL', 'http://127.0.0.2:9/v1')
        (found,) = [o for o in self.online(command) if o['about'] == 'connections']
        assert found['level'] == 'problem' and 'acme: no connection to 127.0.0.2:9: ' in found['text']
        monkeypatch.setenv('ACME_BASE_URL', 'http://127.0.0.1:9/v1')
        (found,) = [o for o in self.online(command) if o['about'] == 'connections']
        assert found['level'] == 'note' and 'nobody answers at 127.0.0.1:9' in found['text']

    def test_a_clock_that_goes_wrong(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        with in_thread([answer(200, date=formatdate(time.time() + 3600, usegmt=True))]) as server:
            monkeypatch.setenv('ACME_BASE_URL', server.url)
            (found,) = [o for o in self.online(command) if o['about'] == 'clock']
            assert 'the clock of this machine is 3600 s behind' in found['text'] or '3599 s behind' in found['text']


def answer(status: int, **headers: str) -> Reply:
    return Reply([b'{}'], status, {'content-type': 'application/json', **headers}, framing='length')
