"""Runs that released versions have stored: they can be read, shown, replayed, gone on with and exported, as they are.

A folder for each format ever released, made by `stored/make.py` of that version and never again.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Answer, SQLiteJournal, ToolApproved, ToolReturn, render, resume_graph
from agent_graph.engine.state import fold
from agent_graph.journal.codec import VERSION
from agent_graph.journal.database import FORMAT
from agent_graph.journal.jsonl import export_run, import_run
from agent_graph.messages import is_valid
from agent_graph.testing import check_replay
from tests.engine.kit import answers_of, go
from tests.journal.stored.agents import LARGE, Notes, Report, archivist, clerk, gatekeeper, miller, newsroom
from tests.journal.stored.make import file_of

STORED = Path(__file__).parent / 'stored'
FOLDERS = sorted(path for path in STORED.glob('format*') if path.is_dir())

STATUSES = {
    'finished': 'completed',
    'finished:c3:1': 'completed',
    'large': 'completed',
    'fork': 'running',
    'fork-replaced': 'running',
    'paused': 'paused',
    'paused:g3:1': 'paused',
    'answered': 'paused',
    'answered:g3:1': 'completed',
    'failed': 'failed',
    'cancelled': 'cancelled',
    'crashed': 'running',
    'graph': 'paused',
    'graph:Write#1:1': 'completed',
    'graph-finished': 'completed',
    'graph-finished:Write#1:1': 'completed',
    'graph-finished:Write#3:1': 'completed',
}

MADE = 'A text about something else. (no. 4)'


def exported(folder: Path) -> dict[str, Path]:
    """By run id: the file of each run that was exported."""
    return {run_id: folder / file_of(run_id) for run_id in STATUSES if run_id != 'large'}


@pytest.fixture(params=FOLDERS, ids=lambda path: path.name)
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param


def stored(folder: Path, tmp_path: Path, work: Callable[[SQLiteJournal], Awaitable[None]]) -> None:
    """Do something with a copy of the file."""

    async def main() -> None:
        copy = shutil.copy(folder / 'runs.sqlite', tmp_path / 'runs.db')
        async with SQLiteJournal(copy) as journal:
            await work(journal)

    go(main())


def test_there_is_one_of_every_format() -> None:
    names = {path.name for path in FOLDERS}
    assert {f'format{number}' for number in range(1, max(VERSION, FORMAT) + 1)} <= names


def test_every_run_is_listed_and_loaded(folder: Path, tmp_path: Path) -> None:
    async def work(journal: SQLiteJournal) -> None:
        infos = {info.run_id: info for info in await journal.runs()}
        assert {run_id: info.status for run_id, info in infos.items()} == STATUSES
        assert infos['fork'].forked_from == ('finished', 8)
        for run_id, info in infos.items():
            records = await journal.load(run_id)
            assert records[-1].seq == info.last_seq == len(records)
            assert is_valid(fold(run_id, records).valid_messages())
            assert STATUSES[run_id] in render.tree(records)
            assert render.run(records).startswith('---\ntitle')
        found = [r.entry async for r in journal.follow('finished')]
        assert found[-1].kind == 'ended'

    stored(folder, tmp_path, work)


def test_the_exports_are_the_same_runs(folder: Path, tmp_path: Path) -> None:
    async def work(journal: SQLiteJournal) -> None:
        for run_id, path in exported(folder).items():
            text = path.read_text('utf-8')
            records = await journal.load(run_id)
            assert import_run(text) == records
            again = export_run(records)
            assert import_run(again) == records
            if folder.name == f'format{VERSION}':
                assert again == text, 'what has not changed is written as it was'

    stored(folder, tmp_path, work)


def test_what_has_ended_gives_its_result(folder: Path, tmp_path: Path) -> None:
    async def work(journal: SQLiteJournal) -> None:
        result = await clerk(journal).resume('finished')
        assert result.output == Report(title='Page 1', pages=1) and result.metadata == {'tags': ['a', 1]}
        usage = result.usage
        assert (usage.requests, usage.tool_calls, usage.input_tokens, usage.cache_read_tokens) == (5, 3, 203, 5)
        part = answers_of(result.messages)[1]
        assert part.metadata == {'page': 1} and part.extra_content[0] == 'see'
        large = await archivist(journal).resume('large')
        assert answers_of(large.messages)[0].content == LARGE
        failed = await clerk(journal).resume('failed')
        assert failed.status == 'failed' and failed.error == 'no answer'
        assert (await clerk(journal).resume('cancelled')).status == 'cancelled'
        graph = await resume_graph(newsroom(), 'graph-finished', journal=journal)
        assert graph.output == MADE and graph.state == Notes(['seen: A text about mills.', f'seen: {MADE[:28]}'])

    stored(folder, tmp_path, work)


def test_what_waits_is_answered(folder: Path, tmp_path: Path) -> None:
    async def work(journal: SQLiteJournal) -> None:
        agent = gatekeeper(journal)
        result = await agent.resume('paused')
        assert [p.reason for p in result.pending] == ['approval', 'external', 'question', 'approval']
        first, _, nights, inner = result.pending
        answers = {first.token: ToolApproved(), 'g1': ToolReturn('signed'), nights: Answer(2), inner: ToolApproved()}
        result = await agent.resume('paused', answers=answers)
        result = await agent.resume('paused', answers={result.pending[0]: Answer('Ada')})
        assert result.output == 'open; signed; room 17, 2 nights, Ada; the guard is done'
        result = await agent.resume('answered')
        name = {result.pending[1]: Answer('Bob'), 'g1': ToolReturn('signed')}
        result = await agent.resume('answered', answers=name)
        assert result.output == 'not today; signed; room 17, 2 nights, Bob; the guard is done'
        graph = await resume_graph(newsroom(), 'graph', journal=journal, answers={'Decide#2': Answer(True)})
        assert graph.output == 'A text about mills. (no. 4)' and graph.usage is not None and graph.usage.requests == 1

    stored(folder, tmp_path, work)


def test_what_a_crash_cut_off_goes_on(folder: Path, tmp_path: Path) -> None:
    async def work(journal: SQLiteJournal) -> None:
        result = await miller(journal).resume('crashed')
        (asked,) = result.pending
        assert (asked.reason, asked.tool_name) == ('crash', 'pay')
        result = await miller(journal).resume('crashed', answers={asked: ToolReturn('paid once')})
        parts = answers_of(result.messages)
        assert [p.outcome for p in parts] == ['success', 'success', 'success', 'interrupted']
        assert [p.content for p in parts][:3] == ['weighed', 'paid once', '3 bags ground']
        starts = [r.entry for r in await journal.load('crashed') if r.entry.kind == 'call_started']
        assert [e.tool_name for e in starts] == ['weigh', 'pay', 'grind', 'ship', 'grind']

    stored(folder, tmp_path, work)


def test_forks_go_on_and_new_ones_are_made(folder: Path, tmp_path: Path) -> None:
    async def work(journal: SQLiteJournal) -> None:
        for run_id in ('fork', 'fork-replaced', await clerk(journal).fork('finished', at='HandleResponse')):
            assert (await clerk(journal).resume(run_id)).output == Report(title='Page 1', pages=1)
        await journal.delete('finished')
        assert (await clerk(journal).resume('fork')).status == 'completed', 'it keeps what it shares'

    stored(folder, tmp_path, work)


REPLAYED: dict[str, Any] = {
    'finished': clerk,
    'failed': clerk,
    'cancelled': clerk,
    'paused': gatekeeper,
    'answered': gatekeeper,
}


@pytest.mark.parametrize('run_id', REPLAYED)
def test_the_exports_are_cassettes(folder: Path, run_id: str) -> None:
    """The same agents still walk the way they walked then."""
    result = check_replay(REPLAYED[run_id](None), exported(folder)[run_id])
    assert result.status == STATUSES[run_id]
