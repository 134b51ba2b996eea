"""`resume`: from every place a run can have stopped, in memory and on disk, after a stop and after a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AssistantMessage,
    Journal,
    MemoryJournal,
    ModelRetry,
    RunContext,
    RunLocked,
    SQLiteJournal,
    TextPart,
    Tool,
    ToolDefinition,
    ToolReturnPart,
    Usage,
    UsageLimitExceeded,
    UsageLimits,
    UserMessage,
)
from agent_graph.engine.state import fold
from agent_graph.journal.entries import CallFinished, CallStarted, Ended, Entered, Record, Started
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.child import make_agent, make_slow_output_agent
from tests.engine.kit import Log, answers_of, call, go, requests_of

ROOT = Path(__file__).parents[2]
JOURNALS = pytest.mark.parametrize('kind', ['memory', 'sqlite'])


def _journal(kind: str, path: Path) -> Journal:
    return MemoryJournal() if kind == 'memory' else SQLiteJournal(path)


async def _cut(records: list[Record], run_id: str, journal: Journal) -> None:
    """A journal that holds only these records of a run, whose driver is gone."""
    lease = await journal.create(run_id, records[:1], owner='gone', ttl=60)
    if records[1:]:
        await journal.append(run_id, records[1:], epoch=lease.epoch)
    await journal.release(lease)


@dataclass
class Whole:
    """An undisturbed run to compare with."""

    result: Any
    records: list[Record]
    model: ScriptedModel


SCRIPT: list[Any] = [
    AssistantMessage([TextPart('I look'), call('a', {'n': 1}, 'a1'), call('a', {'n': 2}, 'a2')], Usage(input_tokens=5)),
    AssistantMessage([call('a', {'n': 3}, 'a3')], Usage(input_tokens=7)),
    AssistantMessage([TextPart('done')], Usage(input_tokens=11)),
]


async def _answer(messages: Any, info: Any) -> Any:
    """The script, as a function of the history: what a model would do after a restart."""
    return SCRIPT[sum(1 for m in messages if m.kind == 'assistant')]


def _agent(journal: Journal, ran: list[int]) -> Agent[None, str]:
    async def a(n: int) -> int:
        ran.append(n)
        return n * 10

    return Agent(
        FunctionModel(_answer),
        name='resumed',
        tools=[Tool(a, on_crash='never')],
        journal=journal,
        instructions='be brief',
    )


@JOURNALS
def test_from_every_entry(kind: str, tmp_path: Path) -> None:
    """Cut the journal after each of its entries: what was recorded is not done again, and the end is the same."""

    async def main() -> None:
        ran: list[int] = []
        journal = MemoryJournal()
        whole = await _agent(journal, ran).run('go', run_id='r')
        records = await journal.load('r')
        assert sorted(ran) == [1, 2, 3] and len(records) > 10
        for upto in range(1, len(records) + 1):
            other = _journal(kind, tmp_path / f'{upto}.db')
            await _cut(records[:upto], 'r', other)
            before = fold('r', records[:upto])
            again: list[int] = []
            result = await _agent(other, again).resume('r')
            assert is_valid(result.messages)
            started = {r.entry.tool_call_id for r in records[:upto] if isinstance(r.entry, CallStarted)}
            done = {r.entry.part.tool_call_id for r in records[:upto] if isinstance(r.entry, CallFinished)}
            assert sorted(again) == sorted({1, 2, 3} - {int(i[1]) for i in started}), 'a started call is not run again'
            interrupted = {p.tool_call_id for p in answers_of(result.messages) if p.outcome == 'interrupted'}
            assert interrupted == started - done
            assert result.output == whole.output and result.run_id == 'r'
            assert result.usage == whole.usage, f'after entry {upto}'
            if not interrupted:
                assert result.messages == whole.messages
            assert fold('r', await other.load('r')) == result.state
            assert (await other.info('r')).status == 'completed' and before.run_id == 'r'
            await other.aclose()

    go(main(), seconds=40)


def test_a_short_lease_is_renewed_in_time_and_soon_over(tmp_path: Path) -> None:
    """`SQLiteJournal(lease=1)`: kept while the driver lives, and a foreign driver that fell silent loses it within that."""

    async def main() -> None:
        async with SQLiteJournal(tmp_path / 'r.db', lease=1) as journal:
            go_on = asyncio.Event()

            async def wait() -> str:
                await go_on.wait()
                return 'waited'

            script = [[call('wait', {}, 'w1')], 'done']
            driven = asyncio.create_task(
                Agent(ScriptedModel(script), tools=[wait], journal=journal).run('go', run_id='r')
            )
            await asyncio.sleep(1.6)
            with pytest.raises(RunLocked) as caught:
                await journal.acquire('r', owner='other', ttl=1)
            assert 0 < caught.value.expires - time.time() <= 1
            go_on.set()
            assert (await driven).output == 'done'

            lease = await journal.create('s', [Record(1, 1.0, Started('resumed', 'go'))], owner='elsewhere', ttl=1)
            agent = Agent(ScriptedModel(['taken over']), name='resumed', journal=journal)
            with pytest.raises(RunLocked):
                await agent.resume('s')
            await asyncio.sleep(max(0.0, lease.expires - time.time()) + 0.01)
            assert (await agent.resume('s')).output == 'taken over'

    go(main())


@JOURNALS
def test_a_finished_run_gives_its_result_without_any_effect(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = _journal(kind, tmp_path / 'r.db')
        ran: list[int] = []
        agent = _agent(journal, ran)
        whole = await agent.run('go', run_id='r')
        count = len(await journal.load('r'))
        again = await agent.resume('r', model=ScriptedModel([]))
        assert (again.output, again.messages, again.usage, again.status) == (
            whole.output,
            whole.messages,
            whole.usage,
            'completed',
        )
        assert len(await journal.load('r')) == count and len(ran) == 3
        await journal.aclose()

    go(main())


@JOURNALS
@pytest.mark.parametrize('status', ['failed', 'cancelled'])
def test_a_run_that_failed_or_was_cancelled_is_not_run_again(kind: str, status: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = _journal(kind, tmp_path / 'r.db')
        log = Log()

        async def bad() -> str:
            log.append('bad')
            raise RuntimeError('broken')

        model = ScriptedModel([[call('bad')], 'never'])
        agent = Agent(model, tools=[bad], journal=journal)
        if status == 'failed':
            with pytest.raises(Exception, match='broken'):
                await agent.run('go', run_id='r')
        else:
            async with agent.iter('go', run_id='r') as run:
                await run.next()
                await run.cancel()
        asked = len(model.requests)
        result = await agent.resume('r')
        assert result.status == status and result.output is None and is_valid(result.messages)
        assert len(model.requests) == asked and len(log) <= 1
        await journal.aclose()

    go(main())


@JOURNALS
def test_stopped_between_two_entries_by_leaving_iter(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        for steps in range(6):
            journal = _journal(kind, tmp_path / f'{steps}.db')
            ran: list[int] = []
            agent = _agent(journal, ran)
            async with agent.iter('go', run_id='r') as run:
                for _ in range(steps):
                    await run.next()
            result = await agent.resume('r')
            assert result.output == 'done' and sorted(ran) == [1, 2, 3]
            assert result.usage.requests == 3 and result.usage.input_tokens == 23
            await journal.aclose()

    go(main())


def test_resumed_again_and_again() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        ran: list[int] = []
        whole = await _agent(MemoryJournal(), []).run('go')
        agent = _agent(journal, ran)
        async with agent.iter('go', run_id='r'):
            pass
        stops = 0
        while (await journal.info('r')).status == 'running':
            records = await journal.load('r')
            other = MemoryJournal()
            await _cut(records, 'r', other)
            result = await _agent(other, ran).resume('r')
            upto = min(len(records) + 2, len(await other.load('r')))
            journal = MemoryJournal()
            await _cut((await other.load('r'))[:upto], 'r', journal)
            stops += 1
            assert stops < 30 and result.usage == whole.usage
        assert stops > 3

    go(main())


def test_limits_hold_across_the_stop() -> None:
    async def main() -> None:
        async def more(messages: Any, info: Any) -> Any:
            return [call('a', {}, f'c{len(messages)}')]

        for limits, calls in ((UsageLimits(request_limit=4), 4), (UsageLimits(tool_calls_limit=3), 3)):
            journal, log = MemoryJournal(), Log()
            agent = Agent(FunctionModel(more), tools=[log.tool('a')], journal=journal)
            async with agent.iter('go', run_id='r', usage_limits=limits) as run:
                for _ in range(5):
                    await run.next()
            assert log == ['a', 'a']
            with pytest.raises(UsageLimitExceeded) as caught:
                await agent.resume('r')
            assert caught.value.usage is not None
            assert caught.value.usage.requests == 4 and len(log) == calls == caught.value.usage.tool_calls

    go(main())


def test_retries_go_on_counting() -> None:
    async def main() -> None:
        async def never() -> str:
            raise ModelRetry('no')

        async def more(messages: Any, info: Any) -> Any:
            return [call('never', {}, f'c{len(messages)}')]

        journal = MemoryJournal()
        agent = Agent(FunctionModel(more), tools=[never], journal=journal, retries=2)
        async with agent.iter('go', run_id='r') as run:
            for _ in range(5):
                await run.next()
            assert run.usage.requests == 2
        with pytest.raises(Exception, match='no') as caught:
            await agent.resume('r')
        assert caught.value.usage.requests == 3  # pyright: ignore

    go(main())


def test_instructions_are_those_of_the_first_start() -> None:
    async def main() -> None:
        asked: list[int] = []

        def instructions() -> str:
            asked.append(1)
            return f'number {len(asked)}'

        model = ScriptedModel([[call('a')], 'done'])
        agent = Agent(model, instructions=instructions, tools=[Log().tool('a')], journal=MemoryJournal())
        async with agent.iter('go', run_id='r') as run:
            for _ in range(3):
                await run.next()
        result = await agent.resume('r')
        assert asked == [1] and [m.kind for m in result.messages].count('system') == 1
        assert requests_of(model)[1][:2] == requests_of(model)[0]

    go(main())


def _crashed_in(tool: Tool, upto: type, n: int = 1) -> Any:
    """The records of a run up to the n-th entry of a class."""

    async def records(script: list[Any], **options: Any) -> list[Record]:
        journal = MemoryJournal()
        agent: Agent[None, Any] = Agent(ScriptedModel(script), tools=[tool], journal=journal, **options)
        await agent.run('go', run_id='r')
        all_records = await journal.load('r')
        seqs = [r.seq for r in all_records if isinstance(r.entry, upto)]
        return all_records[: seqs[n - 1]]

    return records


def test_a_call_in_flight_follows_its_rule() -> None:
    async def main() -> None:
        for rule in ('never', 'retry'):
            seen: list[tuple[str, str | None]] = []

            async def t(ctx: RunContext[None], seen: Any = None, log: list[Any] = seen) -> str:
                log.append((ctx.idempotency_key, ctx.tool_call_id))
                return 'done'

            tool = Tool.from_schema(
                't', None, {'type': 'object', 'properties': {}}, t, takes_context=True, on_crash=rule
            )
            records = await _crashed_in(tool, CallStarted)([[call('t', {}, 'c1')], 'end'])
            assert seen == [('r:c1', 'c1')]
            journal = MemoryJournal()
            await _cut(records, 'r', journal)
            result = await Agent(ScriptedModel(['end']), tools=[tool], journal=journal).resume('r')
            assert result.output == 'end'
            assert seen == [('r:c1', 'c1')] * (2 if rule == 'retry' else 1)
            (part,) = answers_of(result.messages)
            assert part.outcome == ('success' if rule == 'retry' else 'interrupted')
            assert result.usage.tool_calls == 1

    go(main())


def test_two_equal_calls_are_two_executions() -> None:
    async def main() -> None:
        ran: list[int] = []

        async def t(n: int) -> int:
            ran.append(n)
            return len(ran)

        tool = Tool(t, on_crash='never')
        script = [[call('t', {'n': 1}, 'x'), call('t', {'n': 1}, 'y')], [call('t', {'n': 1}, 'z')], 'end']
        records = await _crashed_in(tool, CallFinished, 2)(script)
        ran.clear()
        journal = MemoryJournal()
        await _cut(records, 'r', journal)
        result = await Agent(ScriptedModel(script[1:]), tools=[tool], journal=journal).resume('r')
        assert ran == [1] and len(answers_of(result.messages)) == 3

    go(main())


def test_an_output_function_in_flight_is_not_silently_run_again() -> None:
    async def main() -> None:
        ran: list[str] = []

        async def deliver(text: str) -> str:
            ran.append(text)
            return f'delivered {text}'

        journal = MemoryJournal()
        first = ScriptedModel([[call('final_result', {'text': 'one'}, 'c1')]])
        await Agent(first, output_type=deliver, journal=journal).run('go', run_id='r')
        records = await journal.load('r')
        upto = next(r.seq for r in records if isinstance(r.entry, CallStarted))
        other = MemoryJournal()
        await _cut(records[:upto], 'r', other)
        model = ScriptedModel([[call('final_result', {'text': 'two'}, 'c2')]])
        result = await Agent(model, output_type=deliver, journal=other).resume('r')
        assert ran.count('one') == 1, 'its effects are unknown: the letter may have been sent'
        assert result.output == 'delivered two' and is_valid(result.messages)
        (part,) = answers_of(requests_of(model)[0])
        assert part.outcome in ('interrupted', 'retry') and 'interrupted' in str(part.content)

    go(main())


def test_a_finished_output_function_is_not_run_again() -> None:
    async def main() -> None:
        ran: list[str] = []

        async def deliver(text: str) -> list[str]:
            ran.append(text)
            return [text]

        journal = MemoryJournal()
        first = ScriptedModel([[call('final_result', {'text': 'one'}, 'c1')]])
        whole = await Agent(first, output_type=deliver, journal=journal).run('go', run_id='r')
        records = await journal.load('r')
        upto = next(r.seq for r in records if isinstance(r.entry, CallFinished))
        other = MemoryJournal()
        await _cut(records[:upto], 'r', other)
        result = await Agent(ScriptedModel([]), output_type=deliver, journal=other).resume('r')
        assert ran == ['one'] and result.output == whole.output == ['one'] and result.messages == whole.messages

    go(main())


def test_a_recorded_response_is_never_asked_for_again() -> None:
    async def main() -> None:
        ran: list[int] = []
        journal = MemoryJournal()
        await _agent(journal, ran).run('go', run_id='r')
        records = await journal.load('r')
        responses = [r.seq for r in records if isinstance(r.entry, Entered) and r.entry.response is not None]
        other = MemoryJournal()
        await _cut(records[: responses[-1]], 'r', other)
        result = await Agent(ScriptedModel([]), journal=other, tools=[_agent(other, ran)._tools[0]]).resume('r')  # pyright: ignore
        assert result.output == 'done'

    go(main())


def test_a_tool_that_was_not_offered_is_not_run_after_the_stop_either() -> None:
    async def main() -> None:
        log = Log()

        async def drop(ctx: RunContext[None], definition: ToolDefinition) -> ToolDefinition | None:
            return None

        tool = log.tool('hidden', prepare=drop)
        journal = MemoryJournal()
        await Agent(ScriptedModel([[call('hidden')], 'end']), tools=[tool], journal=journal).run('go', run_id='r')
        assert log == []
        records = await journal.load('r')
        upto = next(r.seq for r in records if isinstance(r.entry, Entered) and r.entry.response is not None)
        other = MemoryJournal()
        await _cut(records[:upto], 'r', other)
        result = await Agent(ScriptedModel(['end']), tools=[tool], journal=other).resume('r')
        assert log == [] and answers_of(result.messages)[0].outcome == 'retry'

    go(main())


def test_a_tool_withdrawn_by_a_limit_is_not_run_after_the_stop_either() -> None:
    async def main() -> None:
        log = Log()
        limits = UsageLimits(request_limit=3, on_limit='final_answer')
        script = [[call('a', {}, '1')], [call('a', {}, '2')], [call('a', {}, '3')], 'end']
        journal = MemoryJournal()
        agent = Agent(ScriptedModel(script), tools=[log.tool('a')], journal=journal)
        with pytest.raises(UsageLimitExceeded):
            await agent.run('go', run_id='r', usage_limits=limits)
        assert log == ['a', 'a']
        records = await journal.load('r')
        upto = [r.seq for r in records if isinstance(r.entry, Entered) and r.entry.response is not None][2]
        other = MemoryJournal()
        await _cut(records[:upto], 'r', other)
        with pytest.raises(UsageLimitExceeded):
            await Agent(ScriptedModel(['end']), tools=[log.tool('a')], journal=other).resume('r')
        assert log == ['a', 'a']

    go(main())


def test_stop_after_across_the_stop() -> None:
    async def main() -> None:
        ran: list[int] = []

        async def last(n: int) -> dict[str, int]:
            ran.append(n)
            return {'n': n}

        tool = Tool(last, stop_after=True)
        records = await _crashed_in(tool, CallFinished)([[call('last', {'n': 5})]])
        journal = MemoryJournal()
        await _cut(records, 'r', journal)
        agent: Agent[None, Any] = Agent(ScriptedModel([]), tools=[tool], journal=journal)
        result = await agent.resume('r')
        assert result.output == {'n': 5} and ran == [5]

    go(main())


def test_who_watches_a_resumed_run_is_told_so() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = Agent(ScriptedModel(['done']), journal=journal)
        async with agent.iter('go', run_id='r') as run:
            await run.next()
        result = await agent.resume('r')
        assert result.output == 'done' and result.messages[0] == UserMessage('go')
        kinds = [type(r.entry) for r in await journal.load('r')]
        assert kinds.count(Ended) == 1

    go(main())


def test_two_resumes_at_once_in_one_process() -> None:
    async def main() -> None:
        from agent_graph import JournalConflict, RunLocked

        ran: list[int] = []

        async def slow(n: int) -> int:
            ran.append(n)
            await asyncio.sleep(0.02)
            return n

        journal = MemoryJournal()
        agent = Agent(ScriptedModel([[call('slow', {'n': 1})], 'done', 'done']), tools=[slow], journal=journal)
        async with agent.iter('go', run_id='r') as run:
            await run.next()
        results = await asyncio.gather(agent.resume('r'), agent.resume('r'), return_exceptions=True)
        good = [r for r in results if not isinstance(r, BaseException)]
        assert len(good) == 1 and ran == [1], results
        assert all(isinstance(r, RunLocked | JournalConflict) for r in results if isinstance(r, BaseException))

    go(main())


# A process that is killed


def _start(mode: str, tmp_path: Path, lines: int) -> Path:
    """Start the child, wait until its tools have begun, kill it."""
    log = tmp_path / 'log'
    program = [sys.executable, '-m', 'tests.engine.child', mode, str(tmp_path / 'runs.db'), str(log), 'r1']
    child = subprocess.Popen(program, cwd=ROOT)
    try:
        until = time.monotonic() + 20
        while not log.exists() or len(log.read_text().splitlines()) < lines:
            assert child.poll() is None and time.monotonic() < until, 'the child did not come to its tools'
            time.sleep(0.02)
        time.sleep(0.2)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    return log


def test_killed_in_a_tool_that_may_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _start('retry', tmp_path, 2)
    monkeypatch.setenv('SLOW', '0')

    async def main() -> None:
        journal = SQLiteJournal(tmp_path / 'runs.db')
        result = await make_agent(journal, log, on_crash='retry').resume('r1')
        assert result.output == 'success: quick done and success: slow done'
        assert log.read_text().split('\n')[:-1] == ['quick', 'slow', 'slow', 'slow ended']
        assert result.usage.requests == 2 and result.usage.tool_calls == 2 and result.usage.input_tokens == 10
        assert isinstance(answers_of(result.messages)[0], ToolReturnPart)
        await journal.aclose()

    go(main())


def test_killed_in_an_output_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _start('output', tmp_path, 1)
    monkeypatch.setenv('SLOW', '0')

    async def main() -> None:
        journal = SQLiteJournal(tmp_path / 'runs.db')
        result = await make_slow_output_agent(journal, log).resume('r1')
        lines = log.read_text().splitlines()
        assert lines[0] == 'deliver letter 1' and lines.count('deliver letter 1') == 1
        assert result.output == 'delivered letter 3' and is_valid(result.messages)
        await journal.aclose()

    go(main())


def test_killed_between_two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / 'log'
    program = [sys.executable, '-m', 'tests.engine.child', 'step', str(tmp_path / 'runs.db'), str(log), 'r1']
    assert subprocess.run(program, cwd=ROOT, timeout=30, check=False).returncode == -signal.SIGKILL
    monkeypatch.setenv('SLOW', '0')

    async def main() -> None:
        journal = SQLiteJournal(tmp_path / 'runs.db')
        result = await make_agent(journal, log).resume('r1')
        assert log.read_text().split('\n')[:-1] == ['quick', 'slow', 'slow ended']
        assert result.output == 'success: quick done and success: slow done' and result.usage.requests == 2
        await journal.aclose()

    go(main())
