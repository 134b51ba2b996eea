"""How many commits a run makes where they cost, and that none is late: before every effect all that came before is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    CodecError,
    Journal,
    JournalUnavailable,
    MemoryJournal,
    RunContext,
    SQLiteJournal,
    Tool,
    ToolApproved,
    ToolDefinition,
    ToolOutput,
)
from agent_graph.engine.state import fold
from agent_graph.journal import Lease
from agent_graph.journal.entries import Entered, Entry, Record
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import Killed, Mortal, at_every_write, entries_of, stored_state
from tests.engine.kit import Log, answers_of, call, go


class Costly(Mortal):
    """A journal with commits that cost, and what was in each."""

    batches = True

    def __init__(self, inner: Journal | None = None, at: int | None = None, *, committed: bool = True) -> None:
        super().__init__(inner or MemoryJournal(), at, committed=committed)
        self.commits: list[list[str]] = []
        self.failing = False

    async def create(self, run_id: str, records: Sequence[Record], *, owner: str, ttl: float) -> Lease:
        self.commits.append([_named(r.entry) for r in records])
        return await super().create(run_id, records, owner=owner, ttl=ttl)

    async def append(self, run_id: str, records: Sequence[Record], *, epoch: int) -> None:
        if self.failing:
            raise JournalUnavailable('the disk is full')
        self.commits.append([_named(r.entry) for r in records])
        await super().append(run_id, records, epoch=epoch)

    async def newest(self, run_id: str = 'r') -> str:
        """The newest entry that is stored."""
        return _named((await self.inner.load(run_id))[-1].entry)


def _named(entry: Entry) -> str:
    return entry.node if isinstance(entry, Entered) else entry.kind


ONE_TOOL: list[Any] = [[call('work', {}, 'c1')], 'done']


def test_at_most_one_commit_for_each_effect() -> None:
    async def main() -> None:
        journal, log = Costly(), Log()
        result = await Agent(ScriptedModel(ONE_TOOL), tools=[log.tool('work')], journal=journal).run('go', run_id='r')
        assert result.output == 'done' and log == ['work']
        assert journal.commits == [
            ['started'],
            ['UserPrompt', 'ModelRequest'],
            ['HandleResponse', 'call_started'],
            ['call_finished', 'ModelRequest'],
            ['HandleResponse', 'ended'],
        ]

    go(main())


def test_the_entries_are_those_of_a_journal_that_commits_each(tmp_path: Path) -> None:
    async def main() -> None:
        async def entries(journal: Journal) -> list[Entry]:
            calls = [[call('work', {}, 'c1')], [call('work', {}, 'c2')], 'done']
            await Agent(ScriptedModel(calls), tools=[Log().tool('work')], journal=journal).run('go', run_id='r')
            records = await journal.load('r')
            assert [r.seq for r in records] == list(range(1, len(records) + 1))
            assert sorted(r.time for r in records) == [r.time for r in records]
            return [r.entry for r in records]

        async with SQLiteJournal(tmp_path / 'runs.db') as disk:
            expected = await entries(MemoryJournal())
            assert await entries(Costly()) == expected == await entries(disk)

    go(main())


def test_before_every_effect_everything_is_stored() -> None:  # noqa: C901  one function for each kind of effect
    """In each function of the user's, the newest stored entry is the one that led there."""

    async def main() -> None:
        journal, seen = Costly(), Log()

        async def note(where: str) -> None:
            seen.append((where, await journal.newest()))

        def note_now(where: str) -> None:  # a journal in memory never lets go of the loop
            with pytest.raises(StopIteration):
                note(where).send(None)

        async def model(messages: Any, info: Any) -> Any:
            await note('model')
            step = sum(m.kind == 'assistant' for m in messages)
            return [[call('pay', {'euros': 1}, 'c1')], [call('ask', {}, 'c2')], [call('result', {'n': 1}, 'o')]][step]

        async def instruct() -> str:
            await note('instructions')
            return 'be brief'

        async def prepare(ctx: RunContext[None], definition: ToolDefinition) -> ToolDefinition:
            await note('prepare')
            return definition

        async def may(ctx: RunContext[None], args: dict[str, Any]) -> bool:
            await note('rule')
            return True

        async def pay(euros: int) -> str:
            await note('pay')
            return 'paid'

        async def ask(ctx: RunContext[None]) -> str:
            await ctx.step('step', lambda: note_now('step'))
            return str(await ctx.ask('Sure?', schema=bool))

        async def person(pending: Any) -> Any:
            await note(f'person {pending.reason}')
            from agent_graph import Answer

            return Answer(True) if pending.reason == 'question' else ToolApproved()

        async def result(n: int) -> int:
            await note('result')
            return n

        agent: Agent[None, Any] = Agent(
            FunctionModel(model),
            instructions=instruct,
            tools=[Tool(pay, requires_approval=may, prepare=prepare), ask],
            output_type=ToolOutput(result, name='result'),
            journal=journal,
        )

        @agent.output_validator
        async def check(value: Any) -> Any:
            await note('check')
            return value

        assert (await agent.run('go', run_id='r', on_pending=person)).output == 1
        assert seen == [
            ('instructions', 'UserPrompt'),
            ('prepare', 'ModelRequest'),
            ('model', 'ModelRequest'),
            ('rule', 'HandleResponse'),
            ('person approval', 'HandleResponse'),
            ('pay', 'call_started'),
            ('prepare', 'ModelRequest'),
            ('model', 'ModelRequest'),
            ('step', 'call_started'),
            ('person question', 'step_done'),
            ('prepare', 'ModelRequest'),
            ('model', 'ModelRequest'),
            ('result', 'call_started'),
            ('check', 'call_finished'),
        ]
        assert check is not None

    go(main())


def test_a_finished_call_does_not_wait_for_those_beside_it() -> None:
    async def main() -> None:
        journal, stored = Costly(), Log()

        async def fast() -> str:
            return 'fast'

        async def slow() -> str:
            await asyncio.sleep(0.01)
            stored.extend(_named(r.entry) for r in await journal.inner.load('r'))
            return 'slow'

        calls = [call('fast', {}, 'c1'), call('slow', {}, 'c2')]
        await Agent(ScriptedModel([calls, 'done']), tools=[fast, slow], journal=journal).run('go', run_id='r')
        assert sorted(stored[-3:]) == ['call_finished', 'call_started', 'call_started']

    go(main())


@pytest.mark.parametrize('how', ['iter', 'stream', 'drain', 'left'])
def test_nothing_is_held_where_nobody_knows_what_comes_next(how: str) -> None:
    async def main() -> None:
        journal, log = Costly(), Log()
        agent = Agent(ScriptedModel(ONE_TOOL), tools=[log.tool('work')], journal=journal)
        if how == 'iter':
            async with agent.iter('go', run_id='r') as run:
                async for _ in run:
                    assert fold('r', await journal.inner.load('r')) == run.state
        elif how == 'stream':
            async for event in agent.run_stream_events('go', run_id='r'):
                if event.kind == 'function_tool_result':
                    assert await journal.newest() == 'call_finished'
        else:
            async with agent.iter('go', run_id='r') as run:
                if how == 'drain':
                    work = asyncio.create_task(run.to_end())
                    run.drain()
                    await work
                else:
                    for _ in range(3):
                        await run.next()
            assert fold('r', await journal.inner.load('r')) == run.state
            assert (await agent.resume('r')).output == 'done'
        assert log == ['work'] and (await journal.inner.info('r')).status == 'completed'

    go(main())


def test_a_drained_run_has_stored_what_it_did() -> None:
    async def main() -> None:
        journal, runs = Costly(), Log()

        async def work() -> str:
            runs[0].drain()
            return 'worked'

        agent = Agent(ScriptedModel(ONE_TOOL), tools=[work], journal=journal)
        async with agent.iter('go', run_id='r') as run:
            runs.append(run)
            await run.to_end()
            assert await journal.newest() == 'call_finished'
        runs[:] = [type('Any', (), {'drain': lambda self: None})()]  # pyright: ignore
        result = await agent.resume('r')
        assert result.output == 'done' and answers_of(result.messages)[0].content == 'worked'

    go(main())


@pytest.mark.parametrize('committed', [True, False], ids=['after the write', 'before the write'])
def test_killed_at_every_commit(committed: bool) -> None:
    """A finished call that was stored is not run again; one that was not is in flight, and its rule says what now."""

    async def main(at: int) -> bool:
        log, inner = Log(), MemoryJournal()

        def agent(journal: Journal) -> Agent[None, str]:
            async def pay(euros: int) -> str:
                log.append(euros)
                return f'{euros} paid'

            def answer(messages: Any, info: Any) -> Any:
                step = sum(m.kind == 'assistant' for m in messages)
                return [[call('pay', {'euros': 1}, 'c1')], [call('pay', {'euros': 2}, 'c2')], 'done'][step]

            return Agent(FunctionModel(answer), tools=[Tool(pay, on_crash='never')], journal=journal)

        mortal = Costly(inner, at, committed=committed)
        try:
            result = await agent(mortal).run('go', run_id='r')
        except Killed:
            await mortal.bury()
            if not await inner.runs():
                return True
            again = Costly(inner)
            result = await agent(again).resume('r')
            assert [c for c in again.commits if len(c) > 2] == []
        assert result.output == 'done' and sorted(log) in ([1, 2], [1], [2])
        outcomes = [p.outcome for p in answers_of(result.messages)]
        assert outcomes.count('interrupted') <= 1 and outcomes.count('success') >= 1
        entries = await entries_of(inner, 'r')
        starts = [e.tool_call_id for e in entries if e.kind == 'call_started']
        assert starts == ['c1', 'c2'], 'nothing was started twice'
        await stored_state(inner, 'r')
        return mortal.dead

    assert at_every_write(main) == 8


def test_an_entry_that_cannot_be_stored_takes_what_it_waited_with_along(tmp_path: Path) -> None:
    async def main() -> None:
        async with SQLiteJournal(tmp_path / 'runs.db') as journal:

            def answer(messages: Any, info: Any) -> Any:
                from agent_graph import AssistantMessage, TextPart

                return AssistantMessage([TextPart('done')], provider_details={'x': object()})  # pyright: ignore

            with pytest.raises(CodecError):
                await Agent(FunctionModel(answer), journal=journal).run('go', run_id='r')
            state = await stored_state(journal, 'r')
            assert state.ended is not None and state.ended.error_type == 'CodecError' and state.requests == 1

    go(main())


def test_a_store_that_fails_at_a_commit_of_several() -> None:
    async def main() -> None:
        journal, log = Costly(), Log()

        async def work() -> str:
            log.append('work')
            journal.failing = True
            return 'worked'

        agent = Agent(ScriptedModel([*ONE_TOOL, 'done']), tools=[Tool(work, on_crash='never')], journal=journal)
        with pytest.raises(JournalUnavailable, match='disk is full'):
            await agent.run('go', run_id='r')
        assert await journal.newest() == 'call_started'
        journal.failing = False
        result = await agent.resume('r')
        assert result.output == 'done' and log == ['work']
        assert answers_of(result.messages)[0].outcome == 'interrupted'

    go(main())


def test_a_run_cancelled_while_something_is_held() -> None:
    async def main() -> None:
        journal = Costly()

        async def work() -> str:
            return 'worked'

        agent = Agent(ScriptedModel(ONE_TOOL), tools=[work], journal=journal)
        for turns in range(60):
            run_id = f'r{turns}'
            agent.model = ScriptedModel(ONE_TOOL)
            task = asyncio.create_task(agent.run('go', run_id=run_id))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                if not any(i.run_id == run_id for i in await journal.runs()):
                    continue
                state = await stored_state(journal.inner, run_id)
                assert state.ended is not None and state.ended.status == 'cancelled'
            else:
                assert (await journal.info(run_id)).status == 'completed'

    go(main())
