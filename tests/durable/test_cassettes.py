"""`check_replay`: a stored run becomes a regression test with one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent, ConfigError, MemoryJournal, ModelTimeout, RunContext, SQLiteJournal, Tool, ToolDenied
from agent_graph.errors import ReplayMismatch
from agent_graph.journal import Record
from agent_graph.journal.jsonl import export_run, import_run
from agent_graph.testing import CassetteMismatch, ScriptedModel, check_replay, replay_cassette
from tests.engine.kit import Log, call, go

LOG = Log()


def make_agent(journal: Any = None, *, rule: str = 'Be exact.', model: Any = None) -> Agent[None, str]:
    agent: Agent[None, str] = Agent(
        model or ScriptedModel([[call('stock', {'item': 'pen'})], 'Two pens.']), instructions=rule, journal=journal
    )

    @agent.tool
    async def stock(item: str) -> int:
        """How many there are."""
        LOG.append(item)
        return 2

    return agent


@pytest.fixture(scope='module')
def cassette(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on disk, exported."""
    folder = tmp_path_factory.mktemp('cassettes')

    async def record() -> str:
        async with SQLiteJournal(folder / 'runs.db') as journal:
            result = await make_agent(journal).run('How many pens are there?')
            return export_run(await journal.load(result.run_id))

    path = folder / 'stock.jsonl'
    path.write_text(go(record()), encoding='utf-8')
    LOG.clear()
    return path


def test_one_line(cassette: Path) -> None:
    assert check_replay(make_agent(), cassette).output == 'Two pens.'
    assert check_replay(make_agent(), str(cassette)).output == 'Two pens.'
    assert LOG == [], 'no tool was called'


def test_from_records_and_in_async_tests(cassette: Path) -> None:
    records = import_run(cassette.read_text(encoding='utf-8'))

    async def main() -> None:
        assert (await replay_cassette(make_agent(), records)).output == 'Two pens.'
        assert (await replay_cassette(make_agent(), cassette)).output == 'Two pens.'
        with pytest.raises(ConfigError, match='await replay_cassette'):
            check_replay(make_agent(), cassette)

    go(main())


@pytest.mark.parametrize('form', ['path', 'records'])
def test_the_first_difference_in_plain_words(cassette: Path, form: str) -> None:
    given: Any = cassette if form == 'path' else import_run(cassette.read_text(encoding='utf-8'))
    with pytest.raises(AssertionError) as caught:
        check_replay(make_agent(rule='Be quick.'), given)
    error = caught.value
    assert isinstance(error, CassetteMismatch) and isinstance(error, ReplayMismatch)
    assert error.seq == 3
    text = str(error)
    if form == 'path':
        assert text.startswith(f'{cassette}:3: ')
    assert "'system[0].content': recorded 'Be exact.', now 'Be quick.'" in text
    assert 'record the run anew' in text


def test_the_line_is_counted_as_an_editor_counts(cassette: Path, tmp_path: Path) -> None:
    path = tmp_path / 'spaced.jsonl'
    path.write_text('\n\n' + cassette.read_text(encoding='utf-8').replace('\n', '\n\n'), encoding='utf-8')
    assert check_replay(make_agent(), path).output == 'Two pens.'
    with pytest.raises(CassetteMismatch, match=r'spaced\.jsonl:7: entry 3'):
        check_replay(make_agent(rule='Be quick.'), path)


def test_options_are_those_of_replay(cassette: Path) -> None:
    agent = make_agent()

    @agent.tool
    async def more() -> str:
        return 'more'

    with pytest.raises(CassetteMismatch, match="tool 'more' is new"):
        check_replay(agent, cassette)
    assert check_replay(agent, cassette, on_change='continue').output == 'Two pens.'
    with pytest.raises(TypeError):
        check_replay(make_agent(), cassette, nonsense=1)


def test_deps_and_output_type() -> None:
    async def record() -> list[Record]:
        journal = MemoryJournal()
        await deps_agent(journal).run('go', deps='Ada', run_id='r')
        return await journal.load('r')

    def deps_agent(journal: Any = None) -> Agent[str, str]:
        def greet(ctx: RunContext[str]) -> str:
            return f'Serve {ctx.deps}.'

        return Agent(ScriptedModel(['done']), deps_type=str, instructions=greet, journal=journal)

    records = go(record())
    assert check_replay(deps_agent(), records, deps='Ada').output == 'done'
    with pytest.raises(CassetteMismatch, match=r'Serve Ada.*Serve Bob'):
        check_replay(deps_agent(), records, deps='Bob')


def _with_gate(journal: Any, model: Any = None) -> Agent[None, str]:
    async def pay() -> str:
        LOG.append('pay')
        return 'paid'

    return Agent(
        model or ScriptedModel([[call('pay')], 'done']), tools=[Tool(pay, requires_approval=True)], journal=journal
    )


def test_runs_that_wait_went_on_failed_or_were_cancelled(tmp_path: Path) -> None:
    async def record() -> dict[str, str]:
        journal = MemoryJournal()
        agent = _with_gate(journal)
        await agent.run('go', run_id='r')
        paused = export_run(await journal.load('r'))
        await agent.resume('r', answers={'pay': ToolDenied('no')})
        await _with_gate(journal).run('go', run_id='c')
        await agent.cancel('c')
        failing = make_agent(journal, model=ScriptedModel([ModelTimeout('no answer')]))
        with pytest.raises(ModelTimeout):
            await failing.run('go', run_id='f')
        exported = {name: export_run(await journal.load(name)) for name in 'rcf'}
        return {'paused': paused, 'completed': exported['r'], 'cancelled': exported['c'], 'failed': exported['f']}

    for status, text in go(record()).items():
        path = tmp_path / f'{status}.jsonl'
        path.write_text(text, encoding='utf-8')
        agent = make_agent() if status == 'failed' else _with_gate(None)
        assert check_replay(agent, path).status == status
    assert LOG == []


def test_cassettes_that_are_none(cassette: Path, tmp_path: Path) -> None:
    text = cassette.read_text(encoding='utf-8')
    lines = text.splitlines(keepends=True)
    bad: dict[str, str | bytes] = {
        'empty': '',
        'blank': '\n \n',
        'cut': ''.join(lines[:5]),
        'half a line': text[:-20],
        'a line missing': ''.join(lines[:3] + lines[4:]),
        'no run': '{"hello": 1}\n',
        'no text': b'\xff\xfe\x00',
        'no JSON': 'hello\n',
    }
    for name, content in bad.items():
        path = tmp_path / f'{name}.jsonl'
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        with pytest.raises(ConfigError) as caught:
            check_replay(make_agent(), path)
        assert name in str(caught.value)
    for missing in (tmp_path / 'missing.jsonl', tmp_path):
        with pytest.raises(ConfigError, match='cannot be read'):
            check_replay(make_agent(), missing)
    junk: list[Any] = [[], ['x'], 5, None]
    for records in junk:
        with pytest.raises(ConfigError):
            check_replay(make_agent(), records)


def test_a_cassette_is_one_record_a_line_and_equal_runs_are_equal_but_for_time(cassette: Path) -> None:
    text = cassette.read_text(encoding='utf-8')
    records = import_run(text)
    assert export_run(records) == text and text.count('\n') == len(records)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))


def test_exported_and_imported_into_another_journal() -> None:
    """With everything a run may hold: pauses, answers, steps, questions, forks, other alphabets."""

    async def main() -> None:
        from tests.durable.test_forks import finish, make_agent, recorded

        journal, other = MemoryJournal(), MemoryJournal()
        agent = make_agent(Log(), journal, metadata={'name': 'Zoë \u2028', 'n': [1.5, None, True]})
        await recorded(agent)
        await agent.fork('r', at=8, new_run_id='f')
        await finish(agent, 'f')
        for run_id in ('r', 'f'):
            records = await journal.load(run_id)
            text = export_run(records)
            again = import_run(text)
            assert again == records and export_run(again) == text
            await other.create(run_id, again, owner='import', ttl=0)
            assert await other.load(run_id) == records
            stored = await make_agent(Log(), other).resume(run_id)
            assert stored.messages == (await agent.resume(run_id)).messages
            assert (await replay_cassette(make_agent(Log(), None), again)).messages == stored.messages

    go(main())


PYTEST = """
from agent_graph import Agent
from agent_graph.testing import ScriptedModel, check_replay

def test_it():
    check_replay(Agent(ScriptedModel([]), instructions={rule!r}), {path!r}, on_change='continue')
"""


def test_what_pytest_shows(cassette: Path, tmp_path: Path) -> None:
    """The place in the cassette and the two values, and none of our own frames."""
    (tmp_path / 'test_it.py').write_text(PYTEST.format(rule='Be quick.', path=str(cassette)), encoding='utf-8')
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--rootdir', str(tmp_path), 'test_it.py'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert f'{cassette}:3: entry 3 (entered) differs in' in done.stdout
    assert "recorded 'Be exact.', now 'Be quick.'" in done.stdout
    assert 'cassettes.py' not in done.stdout and 'asyncio' not in done.stdout, done.stdout


def test_the_names_are_there_without_being_loaded() -> None:
    code = (
        'import sys, agent_graph.testing as t; '
        "assert 'agent_graph.testing.cassettes' not in sys.modules; "
        't.check_replay; t.replay_cassette; t.CassetteMismatch; '
        'assert {"check_replay", "replay_cassette", "CassetteMismatch"} <= set(t.__all__)'
    )
    subprocess.run([sys.executable, '-c', code], check=True, timeout=60)
