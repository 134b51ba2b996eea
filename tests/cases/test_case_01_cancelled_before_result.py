"""Case 1: whatever stops a run while a tool works, the messages it leaves can start another run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AssistantMessage,
    MemoryJournal,
    Message,
    RunCancelled,
    SQLiteJournal,
    TextPart,
    ToolFailed,
    Usage,
    UsageLimitExceeded,
    UsageLimits,
    capture_run_messages,
)
from agent_graph.engine.state import fold
from agent_graph.messages import is_valid
from agent_graph.testing import ScriptedModel
from tests.engine.child import make_agent
from tests.engine.kit import Log, answers_of, call, go, requests_of

ROOT = Path(__file__).parents[2]


class Slow:
    """Tools that say when they started, and never end by themselves."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.runs = 0
        self.ended = 0

    async def slow(self) -> str:
        self.runs += 1
        self.started.set()
        try:
            await asyncio.sleep(30)
        finally:
            self.ended += 1
        return 'never'


async def _goes_on(messages: Sequence[Message], tool: Any = None) -> tuple[Message, ...]:
    """A new run with these messages works, and its request is a valid history; returns that request."""
    assert is_valid(messages), messages
    model = ScriptedModel(['I see'])
    result = await Agent(model, tools=[tool] if tool else []).run('and now?', message_history=messages)
    assert result.output == 'I see'
    return requests_of(model)[0]


def _check(request: Sequence[Message], expected: dict[str, str]) -> None:
    assert {p.tool_call_id: p.outcome for p in answers_of(request)} == expected


def test_the_task_is_cancelled_while_the_only_tool_runs() -> None:
    async def main() -> None:
        slow = Slow()
        journal = MemoryJournal()
        agent = Agent(ScriptedModel([[call('slow', call_id='s')]]), tools=[slow.slow], journal=journal)
        with capture_run_messages() as messages:
            task = asyncio.create_task(agent.run('work', run_id='r1'))
            await slow.started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (slow.runs, slow.ended) == (1, 1)
        _check(await _goes_on(messages, slow.slow), {'s': 'interrupted'})
        stored = fold('r1', await journal.load('r1'))
        assert stored.ended is not None and stored.ended.status == 'cancelled'
        assert stored.messages == messages
        assert slow.runs == 1, 'the interrupted tool must not be run again'

    go(main())


def test_run_cancel_from_another_task() -> None:
    async def main() -> None:
        slow = Slow()
        agent = Agent(ScriptedModel([[call('slow', call_id='s')]]), tools=[slow.slow])
        async with agent.iter('work') as run:

            async def stopper() -> None:
                await slow.started.wait()
                await run.cancel()

            helper = asyncio.create_task(stopper())
            with pytest.raises(RunCancelled) as caught:
                async for _ in run:
                    pass
            await helper
            assert slow.ended == 1
            assert run.result is not None and run.result.status == 'cancelled'
            assert list(caught.value.messages) == run.messages == run.result.messages
            assert caught.value.run_id == run.run_id and caught.value.usage is not None
        _check(await _goes_on(caught.value.messages), {'s': 'interrupted'})

    go(main())


def test_the_reader_leaves_while_the_tool_runs() -> None:
    async def main() -> None:
        slow = Slow()
        agent = Agent(ScriptedModel([[call('slow', call_id='s')]]), tools=[slow.slow])
        async with agent.run_stream('work') as s:
            async for event in s.events():
                if event.kind == 'function_tool_call':
                    await slow.started.wait()
                    break
        assert slow.ended == 1
        _check(await _goes_on(s.messages), {'s': 'interrupted'})

    go(main())


def test_a_an_exception_in_the_tool() -> None:
    async def main() -> None:
        async def broken() -> str:
            raise ValueError('no such file')

        agent = Agent(ScriptedModel([[call('broken', call_id='b')]]), tools=[broken])
        with pytest.raises(ToolFailed, match='no such file') as caught:
            await agent.run('work')
        assert isinstance(caught.value.__cause__, ValueError)
        assert (caught.value.tool_name, caught.value.tool_call_id) == ('broken', 'b')
        _check(await _goes_on(caught.value.messages), {'b': 'failed'})

    go(main())


@pytest.mark.parametrize(
    'limits',
    [UsageLimits(tool_calls_limit=0), UsageLimits(output_tokens_limit=5), UsageLimits(total_tokens_limit=5)],
    ids=['calls', 'output tokens', 'total tokens'],
)
def test_b_a_limit_between_response_and_tool(limits: UsageLimits) -> None:
    async def main() -> None:
        log = Log()
        response = AssistantMessage([TextPart('let me see'), call('a', call_id='1')], Usage(output_tokens=10))
        agent = Agent(ScriptedModel([response]), tools=[log.tool('a')])
        with pytest.raises(UsageLimitExceeded) as caught:
            await agent.run('work', usage_limits=limits)
        assert log == []
        _check(await _goes_on(caught.value.messages), {'1': 'interrupted'})

    go(main())


def test_c_a_deadline() -> None:
    async def main() -> None:
        slow = Slow()
        agent = Agent(ScriptedModel([[call('slow', call_id='s')]]), tools=[slow.slow])
        with pytest.raises(UsageLimitExceeded) as caught:
            await agent.run('work', usage_limits=UsageLimits(time_limit=0.1))
        assert caught.value.limit == 'time_limit' and slow.ended == 1
        _check(await _goes_on(caught.value.messages), {'s': 'interrupted'})

    go(main())


def test_c_a_deadline_set_by_the_caller() -> None:
    async def main() -> None:
        slow = Slow()
        agent = Agent(ScriptedModel([[call('slow', call_id='s')]]), tools=[slow.slow])
        with capture_run_messages() as messages, pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await agent.run('work')
        assert slow.ended == 1
        _check(await _goes_on(messages), {'s': 'interrupted'})

    go(main())


def test_d_a_killed_process(tmp_path: Path) -> None:
    log = tmp_path / 'log'
    program = [sys.executable, '-m', 'tests.engine.child', 'never', str(tmp_path / 'runs.db'), str(log), 'r1']
    child = subprocess.Popen(program, cwd=ROOT)
    try:
        until = time.monotonic() + 20
        while not log.exists() or len(log.read_text().split()) < 2:
            assert child.poll() is None and time.monotonic() < until, 'the child did not come to its tools'
            time.sleep(0.02)
        time.sleep(0.2)  # the quick tool's result is recorded
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()

    async def main() -> None:
        journal = SQLiteJournal(tmp_path / 'runs.db')
        state = fold('r1', await journal.load('r1'))
        _check(await _goes_on(state.valid_messages()), {'q': 'success', 's': 'interrupted'})
        result = await make_agent(journal, log).resume('r1')
        assert result.output.startswith('success: quick done and interrupted: ')
        assert is_valid(result.messages)
        assert log.read_text().split() == ['quick', 'slow'], 'nothing was run again'
        assert result.usage.requests == 2 and result.usage.tool_calls == 2
        await journal.aclose()

    go(main())


@pytest.mark.parametrize('how', ['task', 'run.cancel', 'failing sibling'])
def test_e_one_of_two_tools_had_finished(how: str) -> None:
    async def main() -> None:
        slow = Slow()
        log = Log()

        async def failing() -> str:
            await slow.started.wait()
            await asyncio.sleep(0.02)
            raise RuntimeError('broken')

        calls = [call('quick', call_id='q'), call('slow', call_id='s')]
        expected = {'q': 'success', 's': 'interrupted'}
        if how == 'failing sibling':
            calls.append(call('failing', call_id='f'))
            expected['f'] = 'failed'
        agent = Agent(ScriptedModel([calls]), tools=[log.tool('quick'), slow.slow, failing])
        messages: Sequence[Message] = ()
        async with agent.iter('work') as run:

            async def walk() -> None:
                async for _ in run:
                    pass

            task = asyncio.create_task(walk())
            await slow.started.wait()
            await asyncio.sleep(0.05)
            if how == 'task':
                task.cancel()
            elif how == 'run.cancel':
                await run.cancel()
            with pytest.raises((asyncio.CancelledError, RunCancelled, ToolFailed)):
                await task
            messages = run.messages
        request = await _goes_on(messages, slow.slow)
        _check(request, expected)
        assert answers_of(request)[0].content == 'quick done', 'finished results are kept'
        assert (log, slow.runs, slow.ended) == (['quick'], 1, 1)

    go(main())


def test_the_engines_answer_is_marked_and_says_what_happened() -> None:
    async def main() -> None:
        slow = Slow()
        agent = Agent(ScriptedModel([[call('slow', call_id='s')]]), tools=[slow.slow])
        with pytest.raises(UsageLimitExceeded) as caught:
            await agent.run('work', usage_limits=UsageLimits(time_limit=0.05))
        (part,) = answers_of(caught.value.messages)
        assert part.tool_name == 'slow' and part.outcome == 'interrupted'
        assert 'interrupted' in str(part.content)

    go(main())
