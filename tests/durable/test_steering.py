"""Steering a run: a message for its next request, stopping after the current step, cancelling what waits."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AnswerError,
    End,
    MemoryJournal,
    ModelRequest,
    RunCancelled,
    RunError,
    RunLocked,
    Tool,
    ToolApproved,
    UnknownRun,
    UsageLimits,
    UserMessage,
)
from agent_graph.journal.entries import Enqueued
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import KINDS, Store, entries_of, kinds_of, pending_ids, stored_state, yes
from tests.engine.kit import Log, call, go, requests_of, settle


def make_agent(log: Log, journal: Any, model: Any) -> Agent[None, str]:
    async def delete(path: str) -> str:
        log.append(f'delete {path}')
        return 'deleted'

    return Agent(model, tools=[Tool(delete, requires_approval=True), log.tool('free')], journal=journal)


def texts(messages: Any) -> list[Any]:
    """What users said."""
    return [m.content for m in messages if isinstance(m, UserMessage)]


# --- enqueue ---------------------------------------------------------------------------------------------------------


def test_a_message_goes_with_the_next_request_and_only_with_that() -> None:
    async def main() -> None:
        journal, model = MemoryJournal(), ScriptedModel([[call('free')], [call('free', {}, 'c2')], 'done'])
        agent = make_agent(Log(), journal, model)
        async with agent.iter('go', run_id='r') as run:
            async for node in run:
                if type(node).__name__ == 'HandleResponse' and run.state.step == 1:
                    await run.enqueue('Hurry.')
                    await run.enqueue(UserMessage('Please.'))
            assert run.result is not None
            result = run.result
        first, second, third = requests_of(model)
        assert texts(first) == ['go']
        assert [m.kind for m in second] == ['user', 'assistant', 'tool', 'user', 'user']
        assert texts(second) == ['go', 'Hurry.', 'Please.'] == texts(third)
        assert texts(result.messages) == ['go', 'Hurry.', 'Please.']
        enqueued = [e.message.content for e in await entries_of(journal, 'r') if isinstance(e, Enqueued)]
        assert enqueued == ['Hurry.', 'Please.']
        await stored_state(journal, 'r')

    go(main())


async def _said_at_the_end(agent: Agent[None, Any], **options: Any) -> Any:
    """A run that is told something when the last response has come, and when its output has been accepted."""
    async with agent.iter('go', run_id='r', **options) as run:
        while type(run.next_node).__name__ != 'HandleResponse':
            await run.next()
        await run.enqueue('Wait.')
        await run.to_end()
        return run.result


@pytest.mark.parametrize('watched', [False, True])
def test_a_message_that_comes_with_the_output_is_answered_too(watched: bool) -> None:
    async def main() -> None:
        journal, model = MemoryJournal(), ScriptedModel(['done', 'waiting'])
        agent = make_agent(Log(), journal, model)
        if watched:
            async with agent.iter('go', run_id='r') as run:
                await run.next()
                await run.next()
                node: Any = run.next_node
                async with node.stream(run.ctx):
                    pass
                await run.enqueue('Wait.')  # the node has ended the run, and nobody has gone on to that end yet
                await run.to_end()
                result: Any = run.result
        else:
            result = await _said_at_the_end(agent)
        assert result.output == 'waiting' and result.undelivered == ()
        assert [m.kind for m in result.messages] == ['user', 'assistant', 'user', 'assistant']
        assert texts(result.messages) == ['go', 'Wait.'] and result.usage.requests == 2
        state = await stored_state(journal, 'r')
        assert state.ended is not None and state.ended.output == 'waiting'
        assert (await agent.replay('r')).output == 'waiting'

    go(main())


def test_a_message_that_comes_with_an_output_tool_or_a_tool_that_stops() -> None:
    async def main() -> None:
        script = [[call('final_result', {'response': 1}, 'o1')], [call('final_result', {'response': 2}, 'o2')]]
        agent: Agent[None, Any] = Agent(ScriptedModel(script), output_type=int, journal=MemoryJournal())
        result = await _said_at_the_end(agent)
        assert result.output == 2 and is_valid(result.messages)
        assert [m.kind for m in result.messages] == ['user', 'assistant', 'tool', 'user', 'assistant', 'tool']

        stops = Log().tool('stop', stop_after=True)
        model = ScriptedModel([[call('stop', {}, 'c1')], 'heard'])
        result = await _said_at_the_end(Agent(model, tools=[stops], journal=MemoryJournal()))
        assert result.output == 'heard' and is_valid(result.messages)

    go(main())


@pytest.mark.parametrize(
    'limits', [UsageLimits(request_limit=1), UsageLimits(request_limit=1, on_limit='final_answer')]
)
def test_a_message_no_request_is_left_for_is_given_back(limits: UsageLimits) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal, ScriptedModel(['done']))
        result = await _said_at_the_end(agent, usage_limits=limits)
        assert result.status == 'completed' and result.output == 'done'
        assert [m.content for m in result.undelivered] == ['Wait.'] and texts(result.messages) == ['go']
        assert (await agent.resume('r')).undelivered == result.undelivered

    go(main())


@pytest.mark.parametrize('kind', KINDS)
def test_a_message_with_the_output_survives_a_crash(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, model = Store(kind, tmp_path), ScriptedModel(['done', 'heard'])
        async with make_agent(Log(), store.journal, model).iter('go', run_id='r') as run:
            while type(run.next_node).__name__ != 'HandleResponse':
                await run.next()
            await run.enqueue('Wait.')
        result = await make_agent(Log(), await store.restart(), model).resume('r')
        assert result.output == 'heard' and texts(result.messages) == ['go', 'Wait.']
        await store.journal.aclose()

    go(main())


def test_before_the_first_request() -> None:
    async def main() -> None:
        model = ScriptedModel(['done'])
        agent = make_agent(Log(), MemoryJournal(), model)
        async with agent.iter('go') as run:
            await run.enqueue('Be quick.')
            await run.to_end()
        assert texts(requests_of(model)[0]) == ['go', 'Be quick.']

    go(main())


def test_while_the_model_is_answering_and_while_a_tool_runs() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        runs: list[Any] = []

        async def answer(messages: Any, info: Any) -> Any:
            if len(messages) == 1:
                await runs[0].enqueue('While you think.')
                return [call('work')]
            return 'done'

        async def work() -> str:
            await runs[0].enqueue('While you work.')
            return 'worked'

        agent = Agent(FunctionModel(answer), tools=[work], journal=journal)
        async with agent.iter('go', run_id='r') as run:
            runs.append(run)
            await run.to_end()
            assert texts(run.messages) == ['go', 'While you think.', 'While you work.']
        await stored_state(journal, 'r')

    go(main())


def test_from_another_task_while_a_stream_is_read() -> None:
    async def main() -> None:
        model = ScriptedModel([[call('work')], 'done'])
        said = asyncio.Event()

        async def work() -> str:
            await said.wait()
            return 'worked'

        async with Agent(model, tools=[work]).run_stream('go') as s:
            async for event in s.events():
                if event.kind == 'function_tool_call':
                    await asyncio.create_task(s.run.enqueue('Hurry.'))
                    said.set()
            await s.result()
        assert texts(requests_of(model)[1]) == ['go', 'Hurry.']

    go(main())


@pytest.mark.parametrize('kind', KINDS)
def test_a_message_survives_a_stop(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, model = Store(kind, tmp_path), ScriptedModel([[call('free')], 'done'])
        async with make_agent(Log(), store.journal, model).iter('go', run_id='r') as run:
            for _ in range(3):
                await run.next()
            await run.enqueue('Do not forget.')
        result = await make_agent(Log(), await store.restart(), model).resume('r')
        assert texts(requests_of(model)[1]) == ['go', 'Do not forget.']
        assert result.output == 'done'
        await store.journal.aclose()

    go(main())


@pytest.mark.parametrize('kind', KINDS)
def test_a_message_to_a_run_that_is_paused(kind: str, tmp_path: Path) -> None:
    """It is sent when the run goes on; the run is still paused, and its answers still fit."""

    async def main() -> None:
        store, model, log = Store(kind, tmp_path), ScriptedModel([[call('delete', {'path': 'x'}, 'c1')], 'done']), Log()
        agent = make_agent(log, store.journal, model)
        async with agent.iter('go', run_id='r') as run:
            await run.to_end()
            await run.enqueue('By the way.')
        info = await store.journal.info('r')
        assert info.status == 'paused', 'a list of what waits for people must have it'
        agent = make_agent(log, await store.restart(), model)
        again = await agent.resume('r')
        assert pending_ids(again) == ['c1']
        result = await agent.resume('r', answers={'c1': ToolApproved()})
        assert result.output == 'done' and log == ['delete x']
        assert texts(requests_of(model)[1]) == ['go', 'By the way.']
        await store.journal.aclose()

    go(main())


def test_a_message_to_a_paused_run_that_somebody_else_has_answered_meanwhile() -> None:
    """The one who paused it does not own it any more: nothing may be mixed into the other's entries."""

    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        agent = make_agent(log, journal, ScriptedModel([[call('delete', {'path': 'x'}, 'c1')], 'done']))
        async with agent.iter('go', run_id='r') as run:
            await run.to_end()
            result = await agent.resume('r', answers={'c1': ToolApproved()})
            assert result.output == 'done'
            before = await journal.load('r')
            with pytest.raises(Exception, match=r'ended|newer|epoch|owner'):
                await run.enqueue('Too late.')
        assert await journal.load('r') == before
        assert (await journal.info('r')).status == 'completed'

    go(main())


@pytest.mark.parametrize('status', ['completed', 'cancelled'])
def test_a_message_to_a_run_that_has_ended_is_refused(status: str) -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal(), ScriptedModel(['done']))
        async with agent.iter('go') as run:
            if status == 'cancelled':
                await run.cancel()
            else:
                await run.to_end()
            with pytest.raises(RunError, match=r'ended|cancelled'):
                await run.enqueue('Too late.')

    go(main())


def test_a_message_with_broken_characters_is_mended(tmp_path: Path) -> None:
    async def main() -> None:
        journal, model = Store('sqlite', tmp_path).journal, ScriptedModel(['done'])
        async with make_agent(Log(), journal, model).iter('go') as run:
            await run.enqueue('a\udc97')
            await run.to_end()
        assert texts(requests_of(model)[0]) == ['go', 'a\ufffd']
        await journal.aclose()

    go(main())


# --- drain -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', KINDS)
def test_drain_stops_after_the_step_and_loses_nothing(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        model = ScriptedModel([[call('work')], [call('free')], 'done'])
        started = asyncio.Event()

        async def work() -> str:
            started.set()
            await asyncio.sleep(0.02)
            log.append('work')
            return 'worked'

        def agent() -> Agent[None, str]:
            return Agent(model, tools=[work, log.tool('free')], journal=store.journal)

        async with agent().iter('go', run_id='r') as run:
            task = asyncio.create_task(run.to_end())
            await started.wait()
            run.drain()
            await task
            assert log == ['work'], 'the step in progress is finished'
            result = run.finished()
            assert result.status == 'stopped' and result.pending == () and is_valid(result.messages)
        assert len(model.requests) == 1
        await store.restart()
        result = await agent().resume('r')
        assert result.output == 'done' and log == ['work', 'free'] and len(model.requests) == 3
        await store.journal.aclose()

    go(main())


def test_drain_through_a_stream() -> None:
    async def main() -> None:
        model = ScriptedModel([[call('free')], 'done'])
        agent = make_agent(Log(), MemoryJournal(), model)
        async with agent.run_stream('go', run_id='r') as s:
            async for event in s.events():
                if event.kind == 'function_tool_call':
                    s.run.drain()
            result = await s.result()
        assert result.status == 'stopped' and result.output is None
        result = await agent.resume('r')
        assert result.output == 'done' and len(model.requests) == 2

    go(main())


def test_a_drained_run_without_a_journal_is_kept_like_a_paused_one() -> None:
    async def main() -> None:
        agent = make_agent(Log(), None, ScriptedModel([[call('free')], 'done']))
        async with agent.iter('go') as run:
            await run.next()
            run.drain()
            await run.to_end()
            assert run.finished().status == 'stopped'
        result = await agent.resume(run.run_id)
        assert result.output == 'done'

    go(main())


def test_drain_again_and_again_takes_every_step_once() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        model = ScriptedModel([[call('free', {}, f'c{n}')] for n in range(3)] + ['done'])
        agent = make_agent(log, journal, model)
        async with agent.iter('go', run_id='r') as run:
            await run.next()
        for _ in range(20):
            async with agent.resume_iter('r') as run:
                await run.next()  # what it was in: nothing of that is done again
                if not isinstance(run.next_node, End):
                    await run.next()
                run.drain()
                await run.to_end()
                if run.result is not None and run.result.status == 'completed':
                    break
        assert log == ['free'] * 3 and len(model.requests) == 4
        plain = make_agent(Log(), journal, ScriptedModel([[call('free', {}, f'c{n}')] for n in range(3)] + ['done']))
        await plain.run('go', run_id='plain')
        assert await kinds_of(journal, 'r') == await kinds_of(journal, 'plain')

    go(main())


def test_draining_a_run_that_waits_keeps_what_it_waits_for() -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal(), ScriptedModel([[call('delete', {'path': 'x'}, 'c1')], 'done']))
        async with agent.iter('go', run_id='r') as run:
            await run.next()
            await run.next()
            run.drain()
            await run.next()
            assert run.result is not None and pending_ids(run.result) == ['c1']
        assert pending_ids(await agent.resume('r')) == ['c1']

    go(main())


# --- cancel ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('how', ['agent', 'run'])
@pytest.mark.parametrize('kind', KINDS)
def test_cancelling_a_run_that_is_paused(kind: str, how: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        agent = make_agent(log, store.journal, ScriptedModel([[call('delete', {'path': 'x'}, 'c1')], 'done']))
        async with agent.iter('go', run_id='r') as run:
            await run.to_end()
            if how == 'run':
                await run.cancel()
        if how == 'agent':
            await make_agent(log, await store.restart(), None).cancel('r')
        assert (await store.journal.info('r')).status == 'cancelled'
        agent = make_agent(log, await store.restart(), ScriptedModel([]))
        result = await agent.resume('r')
        assert result.status == 'cancelled' and result.output is None and is_valid(result.messages)
        with pytest.raises(AnswerError):
            await agent.resume('r', answers={'c1': ToolApproved()})
        assert log == []
        await agent.cancel('r')
        assert (await kinds_of(store.journal, 'r')).count('ended') == 1
        await store.journal.aclose()

    go(main())


def test_cancelling_an_unknown_or_ended_run() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal, ScriptedModel(['done']))
        with pytest.raises(UnknownRun):
            await agent.cancel('nobody')
        await agent.run('go', run_id='r')
        await agent.cancel('r')
        assert (await journal.info('r')).status == 'completed'

    go(main())


@pytest.mark.parametrize('calls', [1, 3])
@pytest.mark.parametrize('how', ['task', 'run', 'agent'])
def test_cancelled_at_every_turn_of_the_loop(how: str, calls: int) -> None:
    """Whatever is just ending: the run is cancelled or complete, its history valid, and nobody complains."""

    async def main(turns: int) -> str:
        journal, log = MemoryJournal(), Log()

        async def work(n: int) -> str:
            for _ in range(n):
                await asyncio.sleep(0)
            log.append(n)
            return 'worked'

        made = [call('work', {'n': n}, f'c{n}') for n in range(calls)]
        agent = Agent(FunctionModel(lambda m, i: 'done' if len(m) > 1 else made), tools=[work], journal=journal)
        async with agent.iter('go', run_id='r') as run:
            task = asyncio.create_task(run.to_end())
            for _ in range(turns):
                await asyncio.sleep(0)
            if how == 'task':
                task.cancel()
            elif how == 'run':
                await run.cancel()
            else:
                await agent.cancel('r')
            with suppress(asyncio.CancelledError, RunCancelled):
                await task
        status = (await journal.info('r')).status
        assert status in ('cancelled', 'completed'), (turns, status)
        state = await stored_state(journal, 'r')
        assert len(log) == len(set(log))
        done = {f.part.tool_call_id for f in state.finished.values() if f.part.outcome == 'success'}
        assert {f'c{n}' for n in log} >= done
        return status

    seen = [go(main(turns)) for turns in range(1, 40)]
    assert seen[0] == 'cancelled' and seen[-1] == 'completed'


def test_cancelling_from_elsewhere_a_run_that_is_driven() -> None:
    """Its driver notices at its next write, stops its tools and writes nothing more."""

    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        started = asyncio.Event()

        async def slow() -> str:
            try:
                started.set()
                await asyncio.sleep(0.05)
                return 'slow'
            finally:
                log.append('left')

        async def ticking() -> str:
            await asyncio.sleep(0.01)
            return 'tick'

        agent = Agent(ScriptedModel([[call('slow'), call('ticking')], 'done']), tools=[slow, ticking], journal=journal)
        task = asyncio.create_task(agent.run('go', run_id='r'))
        await started.wait()
        await make_agent(Log(), journal, None).cancel('r')
        before = await journal.load('r')
        with pytest.raises(RunCancelled) as caught:
            await task
        assert log == ['left'] and is_valid(caught.value.messages)
        assert await journal.load('r') == before
        await stored_state(journal, 'r')

    go(main())


def test_a_run_that_is_driven_cannot_be_resumed_nor_answered() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        agent = make_agent(log, journal, ScriptedModel([[call('delete', {'path': 'x'}, 'c1')], 'done']))
        paused = await agent.run('go', run_id='r')
        async with agent.resume_iter('r', answers=yes(paused)) as run:
            with pytest.raises(RunLocked):
                await agent.resume('r')
            with pytest.raises(AnswerError):
                await agent.resume('r', answers=yes(paused))
            await run.to_end()
        assert log == ['delete x']

    go(main())


def test_cancelled_between_the_answer_and_the_call() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        agent = make_agent(log, journal, ScriptedModel([[call('delete', {'path': 'x'}, 'c1')], 'done']))
        paused = await agent.run('go', run_id='r')
        async with agent.resume_iter('r', answers=yes(paused)) as run:
            await agent.cancel('r')
            await settle()
            with pytest.raises(RunCancelled):
                await run.next()
        assert log == [] and (await journal.info('r')).status == 'cancelled'

    go(main())


def test_what_was_queued_stays_in_order_when_the_node_is_entered_by_hand() -> None:
    async def main() -> None:
        model = ScriptedModel(['done'])
        agent = make_agent(Log(), MemoryJournal(), model)
        async with agent.iter('go') as run:
            await run.next()
            await run.enqueue('second')
            await run.next(ModelRequest(UserMessage('first')))
        assert texts(requests_of(model)[0]) == ['first', 'second']

    go(main())
