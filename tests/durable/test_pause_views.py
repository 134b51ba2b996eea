"""A pause as it is seen: streams, steps, events, usage, limits, outputs beside it, and runs that have no journal."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from agent_graph import (
    Agent,
    Answer,
    ApprovalRequired,
    AssistantMessage,
    ConfigError,
    End,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    GraphError,
    HandleResponse,
    MemoryJournal,
    ModelRequest,
    RunContext,
    RunEnded,
    RunPaused,
    RunStarted,
    TextPart,
    Tool,
    ToolApproved,
    ToolDenied,
    UnknownRun,
    Usage,
    UsageLimitExceeded,
    UsageLimits,
)
from agent_graph.journal.entries import CallStarted
from agent_graph.messages import is_valid
from agent_graph.testing import ScriptedModel
from tests.durable.kit import entries_of, kinds_of, pending_ids, stored_state, yes
from tests.engine.kit import Log, answers_of, call, go

SCRIPT: list[Any] = [
    [TextPart('I will look.'), call('delete', {'path': 'x'}, 'c1'), call('free', {}, 'c2')],
    'all done',
]


def make_agent(log: Log, journal: Any, script: list[Any] | None = None, **options: Any) -> Agent[None, Any]:
    async def delete(path: str) -> str:
        log.append(f'delete {path}')
        return 'deleted'

    tools = [Tool(delete, requires_approval=True), log.tool('free')]
    return Agent(ScriptedModel(script or SCRIPT), tools=tools, journal=journal, **options)


# --- streams and events ----------------------------------------------------------------------------------------------


def test_events_of_a_pause_and_of_the_way_on() -> None:
    async def main() -> None:
        log = Log()
        agent = make_agent(log, MemoryJournal())
        events = [e async for e in agent.run_stream_events('go', run_id='r')]
        paused, ended = events[-2:]
        assert isinstance(paused, RunPaused) and isinstance(ended, RunEnded)
        assert [p.tool_call_id for p in paused.pending] == ['c1'] and ended.status == 'paused'
        called = [e.tool_call_id for e in events if isinstance(e, FunctionToolCallEvent)]
        assert called == ['c2'], 'a call that waits is not shown as called'
        assert [e.seq for e in events] == sorted({e.seq for e in events})
        assert not any(e.kind == 'final_result' for e in events)

        async with agent.resume_stream('r', answers={'c1': ToolApproved()}) as s:
            events = [e async for e in s.events()]
            result = await s.result()
        assert result.output == 'all done'
        assert isinstance(events[0], RunStarted) and events[0].resumed
        assert [e.tool_call_id for e in events if isinstance(e, FunctionToolCallEvent)] == ['c1']
        assert [e.tool_call_id for e in events if isinstance(e, FunctionToolResultEvent)] == ['c1']
        assert isinstance(events[-1], RunEnded) and events[-1].status == 'completed'

    go(main())


def test_a_denied_call_is_shown_too() -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal())
        await agent.run('go', run_id='r')
        async with agent.resume_stream('r', answers={'c1': ToolDenied('no')}) as s:
            events = [e async for e in s.events()]
        results = [e for e in events if isinstance(e, FunctionToolResultEvent)]
        assert [(e.part.tool_call_id, e.part.outcome) for e in results] == [('c1', 'denied')]

    go(main())


@pytest.mark.parametrize('reader', ['text', 'output', 'events', 'result'])
def test_every_reader_ends_at_a_pause(reader: str) -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal())
        async with agent.run_stream('go') as s:
            if reader == 'text':
                assert [t async for t in s.text()][-1] == 'I will look.'
            elif reader == 'output':
                # The text before the calls may be shown as a candidate; it is not the run's output.
                async for _ in s.output():
                    pass
            elif reader == 'events':
                async for _ in s.events():
                    pass
            result = await s.result()
            assert result.status == 'paused' and result.output is None and pending_ids(result) == ['c1']
            assert is_valid(s.messages) and s.usage.requests == 1
        async with agent.resume_stream(result.run_id, answers=yes(result)) as s:
            assert [t async for t in s.text()][-1] == 'all done'

    go(main())


@pytest.mark.parametrize('status', ['paused', 'completed'])
def test_a_reader_of_a_run_with_nothing_to_do_is_told_how_it_stands(status: str) -> None:
    """`RunEnded` is the last event of every stream, whatever became of the run."""

    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal())
        result = await agent.run('go', run_id='r')
        if status == 'completed':
            await agent.resume('r', answers=yes(result))
        before = await kinds_of(agent.journal, 'r')  # pyright: ignore[reportArgumentType]
        async with agent.resume_stream('r') as s:
            events = [e async for e in s.events()]
            assert (await s.result()).status == status
        assert isinstance(events[0], RunStarted)
        assert isinstance(events[-1], RunEnded) and events[-1].status == status
        if status == 'paused':
            assert any(isinstance(e, RunPaused) and e.pending == result.pending for e in events)
        assert await kinds_of(agent.journal, 'r') == before  # pyright: ignore[reportArgumentType]

    go(main())


def test_a_reader_that_leaves_at_the_pause_does_not_cancel_it() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal)
        async for event in agent.run_stream_events('go', run_id='r'):
            if isinstance(event, RunPaused):
                break
        assert (await journal.info('r')).status == 'paused'
        result = await agent.resume('r', answers={'c1': ToolApproved()})
        assert result.output == 'all done'

    go(main())


# --- stepping --------------------------------------------------------------------------------------------------------


def test_stepping_into_a_pause_and_on() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(log, journal)
        async with agent.iter('go', run_id='r') as run:
            names = [type(node).__name__ async for node in run]
            assert names == ['UserPrompt', 'ModelRequest', 'HandleResponse', 'End']
            result = run.result
            assert result is not None and result.status == 'paused' and pending_ids(result) == ['c1']
            assert is_valid(run.messages)
            with pytest.raises(GraphError):
                await run.next()
            assert [type(n).__name__ async for n in run] == []
        async with agent.resume_iter('r', answers={'c1': ToolApproved()}) as run:
            assert isinstance(run.next_node, HandleResponse), 'the node it waited in is the next one'
            names = [type(node).__name__ async for node in run]
            assert names == ['HandleResponse', 'ModelRequest', 'HandleResponse', 'End']
            assert run.result is not None and run.result.output == 'all done'
        assert log == ['free', 'delete x']

    go(main())


def test_stepping_with_node_streams_into_a_pause() -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal())
        async with agent.iter('go', run_id='r') as run:
            node = run.next_node
            seen: list[str] = []
            while not isinstance(node, End):
                if isinstance(node, HandleResponse | ModelRequest):
                    async with node.stream(run.ctx) as stream:
                        seen += [e.kind async for e in stream]
                node = await run.next(node)
            assert run.result is not None and run.result.status == 'paused'
            assert seen.count('function_tool_result') == 1

    go(main())


def test_leaving_after_the_answer_and_before_the_call() -> None:
    async def main() -> None:
        log = Log()
        agent = make_agent(log, MemoryJournal())
        await agent.run('go', run_id='r')
        async with agent.resume_iter('r', answers={'c1': ToolApproved()}):
            pass
        assert log == ['free']
        result = await agent.resume('r')
        assert result.output == 'all done' and log == ['free', 'delete x']

    go(main())


def test_a_paused_run_seen_node_by_node_without_an_answer() -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal())
        await agent.run('go', run_id='r')
        async with agent.resume_iter('r') as run:
            assert isinstance(run.next_node, End)
            assert run.result is not None and pending_ids(run.result) == ['c1']

    go(main())


# --- usage and limits ------------------------------------------------------------------------------------------------


def _costly(*parts: Any) -> AssistantMessage:
    return AssistantMessage(parts, Usage(input_tokens=100, output_tokens=10), finish_reason='tool_calls')


def test_usage_adds_up_over_pauses() -> None:
    async def main() -> None:
        log = Log()
        script = [
            _costly(call('delete', {'path': 'x'}, 'c1'), call('free', {}, 'c2')),
            _costly(call('delete', {'path': 'y'}, 'c3')),
            _costly(TextPart('done')),
        ]
        agent = make_agent(log, MemoryJournal(), script)
        first = await agent.run('go', run_id='r')
        assert first.usage == Usage(requests=1, tool_calls=1, input_tokens=100, output_tokens=10)
        second = await agent.resume('r', answers=yes(first))
        assert second.usage == Usage(requests=2, tool_calls=2, input_tokens=200, output_tokens=20)
        assert (await agent.resume('r')).usage == second.usage
        third = await agent.resume('r', answers=yes(second))
        assert third.usage == Usage(requests=3, tool_calls=3, input_tokens=300, output_tokens=30)
        assert third.run_id == 'r'

    go(main())


@pytest.mark.parametrize(
    ('limits', 'name'),
    [
        (UsageLimits(request_limit=1), 'request_limit'),
        (UsageLimits(tool_calls_limit=1), 'tool_calls_limit'),
        (UsageLimits(input_tokens_limit=100), 'input_tokens_limit'),
    ],
)
def test_limits_hold_over_a_pause(limits: UsageLimits, name: str) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        script = [_costly(call('delete', {'path': 'x'}, 'c1'), call('free', {}, 'c2')), _costly(TextPart('done'))]
        agent = make_agent(log, journal, script)
        result = await agent.run('go', run_id='r', usage_limits=limits)
        assert result.status == 'paused'
        with pytest.raises(UsageLimitExceeded) as caught:
            await agent.resume('r', answers=yes(result))
        assert caught.value.limit == name and is_valid(caught.value.messages)
        assert ('delete x' in log) == (name != 'tool_calls_limit'), 'never more calls than allowed'
        assert (await journal.info('r')).status == 'failed'

    go(main())


def test_what_waits_takes_no_place_among_the_calls_until_it_runs() -> None:
    async def main() -> None:
        log = Log()
        script = [[call('delete', {'path': str(n)}, f'c{n}') for n in range(4)], 'done']
        agent = make_agent(log, MemoryJournal(), script)
        result = await agent.run('go', run_id='r', usage_limits=UsageLimits(tool_calls_limit=2))
        assert len(result.pending) == 4
        answers = {'c0': ToolDenied(), 'c1': ToolApproved(), 'c2': ToolDenied(), 'c3': ToolApproved()}
        result = await agent.resume('r', answers=answers)
        assert result.output == 'done' and log == ['delete 1', 'delete 3']
        assert result.usage.tool_calls == 2

    go(main())


def test_at_a_limit_that_asks_for_a_final_answer_an_approved_call_is_skipped_with_a_word() -> None:
    async def main() -> None:
        log = Log()
        script = [[call('delete', {'path': str(n)}, f'c{n}') for n in range(3)], 'done']
        agent = make_agent(log, MemoryJournal(), script)
        limits = UsageLimits(tool_calls_limit=2, on_limit='final_answer')
        result = await agent.run('go', run_id='r', usage_limits=limits)
        result = await agent.resume('r', answers=yes(result))
        assert result.output == 'done' and len(log) == 2
        assert sorted(p.outcome for p in answers_of(result.messages)) == ['skipped', 'success', 'success']

    go(main())


def test_a_call_that_asked_and_was_begun_again_counts_once() -> None:
    async def main() -> None:
        async def pay(ctx: RunContext[None]) -> str:
            if not ctx.approved:
                raise ApprovalRequired
            await ctx.ask('How?')
            return 'paid'

        agent = Agent(ScriptedModel([[call('pay')], 'done']), tools=[pay], journal=MemoryJournal())
        result = await agent.run('go', run_id='r', usage_limits=UsageLimits(tool_calls_limit=1))
        result = await agent.resume('r', answers=yes(result))
        result = await agent.resume('r', answers={'pay': Answer('cash')})
        assert result.output == 'done' and result.usage.tool_calls == 1

    go(main())


def test_a_time_limit_does_not_run_while_nobody_answers() -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal())
        result = await agent.run('go', run_id='r', usage_limits=UsageLimits(time_limit=5.0))
        await asyncio.sleep(0)
        result = await agent.resume('r', answers=yes(result))
        assert result.output == 'all done'

    go(main())


# --- an output beside a call that waits ------------------------------------------------------------------------------


@pytest.mark.parametrize('why', ['declared', 'raised', 'question', 'external'])
@pytest.mark.parametrize('strategy', ['early', 'graceful', 'exhaustive'])
def test_a_settled_output_beside_a_call_that_waits(strategy: Any, why: str) -> None:
    """One documented rule for all strategies: nothing waits beside an output; such calls are not executed."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        async def slow(ctx: RunContext[None]) -> str:
            if why == 'raised':
                raise ApprovalRequired
            if why == 'question':
                await ctx.step('before', lambda: log.append('before'))
                await ctx.ask('What?')
            log.append('slow')
            return 'done'

        tool = Tool(slow, requires_approval=why == 'declared', external=why == 'external')
        script = [[call('slow', {}, 'c1'), call('final_result', {'response': 7}, 'o'), call('free', {}, 'c2')]]
        agent = Agent(
            ScriptedModel(script),
            output_type=int,
            tools=[tool, log.tool('free')],
            end_strategy=strategy,
            journal=journal,
        )
        result = await agent.run('go', run_id='r')
        assert result.status == 'completed' and result.output == 7
        assert 'slow' not in log and ('free' in log) == (strategy != 'early')
        assert is_valid(result.messages)
        part = next(p for p in answers_of(result.messages) if p.tool_call_id == 'c1')
        begun = any(isinstance(e, CallStarted) and e.tool_call_id == 'c1' for e in await entries_of(journal, 'r'))
        if begun and why == 'question':
            assert part.outcome == 'interrupted', 'it had begun, so "not executed" would be a lie'
        else:
            assert part.outcome == 'skipped'

    go(main())


@pytest.mark.parametrize('strategy', ['graceful', 'exhaustive'])
def test_a_refused_output_beside_a_call_that_waits(strategy: Any) -> None:
    async def main() -> None:
        log = Log()
        script = [
            [call('delete', {'path': 'x'}, 'c1'), call('final_result', {'response': 'many'}, 'o')],
            [call('final_result', {'response': 7}, 'o2')],
        ]
        agent = make_agent(log, MemoryJournal(), script, output_type=int, end_strategy=strategy)
        result = await agent.run('go', run_id='r')
        assert pending_ids(result) == ['c1'], 'without an output the call matters'
        result = await agent.resume('r', answers=yes(result))
        assert result.output == 7 and log == ['delete x']
        assert [p.outcome for p in answers_of(result.messages)] == ['success', 'retry', 'success']

    go(main())


def test_a_call_in_flight_at_a_crash_beside_an_output_is_not_called_unexecuted() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        script = [[call('pay', {}, 'c1'), call('final_result', {'response': 7}, 'o')]]
        agent = Agent(ScriptedModel(script), output_type=int, tools=[log.tool('pay')], journal=journal)
        await agent.run('go', run_id='r')
        started = next(r.seq for r in await journal.load('r') if isinstance(r.entry, CallStarted))
        log.clear()
        fork = await agent.fork('r', at=started)
        result = await agent.resume(fork)
        if result.status == 'paused':
            result = await agent.resume(fork, answers={'c1': ToolDenied()})
        assert result.output == 7 and log == []
        part = next(p for p in answers_of(result.messages) if p.tool_call_id == 'c1')
        assert part.outcome == 'interrupted' and 'Not executed' not in str(part.content)

    go(main())


# --- no journal ------------------------------------------------------------------------------------------------------


def test_without_a_journal_it_waits_in_the_agent_s_memory() -> None:
    async def main() -> None:
        log = Log()
        agent = make_agent(log, None)
        result = await agent.run('go')
        assert pending_ids(result) == ['c1'] and log == ['free']
        assert (await agent.resume(result.run_id)).pending == result.pending
        with pytest.raises(UnknownRun):
            await agent.resume('another', answers={'c1': ToolApproved()})
        result = await agent.resume(result.run_id, answers=yes(result))
        assert result.output == 'all done' and log == ['free', 'delete x']

    go(main())


def test_another_agent_knows_nothing_of_it() -> None:
    async def main() -> None:
        result = await make_agent(Log(), None).run('go')
        with pytest.raises(ConfigError, match='journal'):
            await make_agent(Log(), None).resume(result.run_id, answers=yes(result))

    go(main())


def test_without_a_journal_it_may_pause_again_and_in_every_way() -> None:
    async def main() -> None:
        log = Log()
        script = [
            [call('delete', {'path': 'x'}, 'c1')],
            [call('delete', {'path': 'y'}, 'c2')],
            [call('delete', {'path': 'z'}, 'c3')],
            'done',
        ]
        agent = make_agent(log, None, script)
        async with agent.run_stream('go') as s:
            result = await s.result()
        result = await agent.resume(result.run_id, answers=yes(result))
        async with agent.resume_iter(result.run_id, answers=yes(result)) as run:
            async for _ in run:
                pass
            assert run.result is not None
            result = run.result
        async with agent.resume_stream(result.run_id, answers=yes(result)) as s:
            result = await s.result()
        assert result.output == 'done' and log == ['delete x', 'delete y', 'delete z']

    go(main())


def test_paused_in_one_loop_and_resumed_in_another() -> None:
    log = Log()
    agent = make_agent(log, None)
    result = go(agent.run('go'))
    result = go(agent.resume(result.run_id, answers=yes(result)))
    assert result.output == 'all done' and log == ['free', 'delete x']


def test_a_paused_run_holds_no_task_and_can_be_dropped() -> None:
    async def main() -> None:
        agent = make_agent(Log(), None)
        await agent.run('go')
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def alone() -> None:
        agent = make_agent(Log(), None)
        result = await agent.run('go')
        assert result.status == 'paused'

    asyncio.run(alone())
    gc.collect()
    asyncio.run(main())


def test_the_history_of_a_paused_run_can_begin_another() -> None:
    async def main() -> None:
        log = Log()
        agent = make_agent(log, MemoryJournal(), [SCRIPT[0], 'never mind'])
        paused = await agent.run('go')
        assert is_valid(paused.messages)
        other = await agent.run('Leave it.', message_history=paused.messages)
        assert other.output == 'never mind'
        outcomes = [p.outcome for p in answers_of(other.messages)]
        assert outcomes == ['interrupted', 'success']
        await stored_state(agent.journal, paused.run_id)  # pyright: ignore[reportArgumentType]

    go(main())
