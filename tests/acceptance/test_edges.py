"""Moments a kill seldom meets, made by cutting a run's entries short; and stores that fail for a moment."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    JournalUnavailable,
    MemoryJournal,
    RunContext,
    SQLiteJournal,
    Tool,
    ToolCallPart,
    ToolFailed,
    ToolReturnPart,
    UnknownRun,
)
from agent_graph.journal import Journal, Record
from agent_graph.messages import is_valid
from agent_graph.testing import ScriptedModel
from tests.acceptance.points import MarkedJournal, Points
from tests.acceptance.stage import answers


def call(tool_name: str, call_id: str, **args: Any) -> ToolCallPart:
    return ToolCallPart(tool_name, args, call_id)


async def cut(journal: Journal, run_id: str, before: str, into: MemoryJournal | None = None) -> MemoryJournal:
    """A journal with this run as it was before its first entry of this name."""
    records = await journal.load(run_id)
    upto = [type(record.entry).__name__ for record in records].index(before)
    return await copy(run_id, records[:upto], into or MemoryJournal())


async def copy(run_id: str, records: Sequence[Record], into: MemoryJournal) -> MemoryJournal:
    lease = await into.create(run_id, records, owner='dead', ttl=0)
    await into.release(lease)
    return into


def answered(result: Any) -> dict[str, ToolReturnPart]:
    assert is_valid(result.messages)
    return {part.tool_call_id: part for part in answers(result.messages)}


def test_a_tool_that_failed_before_the_crash_has_failed_after_it() -> None:
    """The run was going to end as failed: when the process dies is no reason for it to go on instead."""

    async def broken() -> str:
        raise ValueError('no such file')

    async def main() -> None:
        journal = MemoryJournal()
        with pytest.raises(ToolFailed):
            await Agent(ScriptedModel([[call('broken', 'b')]]), tools=[broken], journal=journal).run('go', run_id='r')
        journal = await cut(journal, 'r', 'Ended')
        with pytest.raises(ToolFailed):
            await Agent(ScriptedModel(['so what']), tools=[broken], journal=journal).resume('r')
        assert (await journal.info('r')).status == 'failed'

    asyncio.run(main())


@dataclass
class Report:
    text: str


@pytest.mark.parametrize('rule', ['ask', 'never'])
def test_a_call_in_flight_beside_an_output_is_not_said_to_be_unexecuted(rule: Any) -> None:
    ran: list[str] = []

    async def pay() -> str:
        ran.append('pay')
        return 'paid'

    def agent(journal: Journal) -> Agent[None, Report]:
        model = ScriptedModel([[call('final_result', 'o', text='done'), call('pay', 'p')]])
        return Agent(model, tools=[Tool(pay, on_crash=rule)], output_type=Report, journal=journal)

    async def main() -> None:
        journal = MemoryJournal()
        await agent(journal).run('go', run_id='r')
        journal = await cut(journal, 'r', 'CallFinished')
        result = await agent(journal).resume('r')
        assert ran == ['pay']
        if result.status == 'completed':
            assert answered(result)['p'].outcome == 'interrupted', 'it may have taken effect'
        else:
            assert [p.reason for p in result.pending] == ['crash']

    asyncio.run(main())


def test_a_tool_that_does_not_do_the_same_again_is_not_given_the_answer_to_another_question() -> None:
    """Runs inside a call are found again by their order; one with another prompt or of another agent is another run."""
    asked: list[str] = []
    agents = {name: Agent(ScriptedModel([f'answer of {name}', f'answer of {name}']), name=name) for name in 'ab'}

    async def consult(ctx: RunContext) -> str:
        asked.append('b' if asked else 'a')
        return (await agents[asked[-1]].run(f'question for {asked[-1]}')).output

    def agent(journal: Journal) -> Agent[None, str]:
        model = ScriptedModel([[call('consult', 'c')], 'end'])
        return Agent(model, tools=[Tool(consult, on_crash='retry')], journal=journal)

    async def main() -> None:
        whole = MemoryJournal()
        await agent(whole).run('go', run_id='r')
        journal = await cut(whole, 'r', 'CallFinished')
        await copy('r:c:1', await whole.load('r:c:1'), journal)
        model = ScriptedModel(['end'])
        result = await agent(journal).resume('r', model=model)
        assert asked == ['a', 'b']
        assert answered(result)['c'].content == 'answer of b'

    asyncio.run(main())


# A store that fails for a moment: a full disk, a file held by somebody else


class Failing(MarkedJournal):
    """Refuses the next entry of this name, once."""

    refuse = ''

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        if self.refuse in [type(record.entry).__name__ for record in records]:
            self.refuse = ''
            raise JournalUnavailable('the disk is full')
        await super().append(run_id, records, epoch=epoch)


@pytest.mark.parametrize('what', ['Entered', 'CallStarted', 'CallFinished', 'Ended'])
def test_a_store_that_fails_for_a_moment(what: str) -> None:
    """The error is the store's own, nothing is lost, and the same process can go on with the run at once."""
    ran: list[str] = []

    async def pay() -> str:
        ran.append('pay')
        if what != 'CallStarted' and len(ran) == 1:
            journal.refuse = what
        return 'paid'

    def agent(*script: Any) -> Agent[None, str]:
        return Agent(ScriptedModel(script), tools=[Tool(pay, on_crash='retry')], journal=journal)

    async def main() -> None:
        if what == 'CallStarted':
            journal.refuse = what
        with pytest.raises(JournalUnavailable, match='disk is full'):
            await agent([call('pay', 'p')], 'end').run('go', run_id='r')
        assert (await journal.info('r')).status in ('running', 'failed')
        if (await journal.info('r')).status == 'running':
            result = await agent('end').resume('r')
            assert (result.output, result.usage.tool_calls) == ('end', 1)
            assert ran.count('pay') == (2 if what == 'CallFinished' else 1)

    journal = Failing(MemoryJournal(), Points())
    asyncio.run(main())


def test_killed_while_the_file_was_made(tmp_path: Path) -> None:
    """SQLite has begun the file, and its tables are not there: it is a journal without any run."""
    path = tmp_path / 'runs.db'
    begun = sqlite3.connect(path)
    begun.execute('PRAGMA journal_mode = WAL')
    begun.close()
    assert path.stat().st_size > 0

    async def main() -> None:
        async with SQLiteJournal(path) as journal:
            assert await journal.runs() == []
            agent = Agent(ScriptedModel(['hello']), journal=journal)
            with pytest.raises(UnknownRun):
                await agent.resume('r')
            assert (await agent.run('go', run_id='r')).output == 'hello'

    asyncio.run(main())
