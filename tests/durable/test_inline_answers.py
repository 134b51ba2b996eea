"""`on_pending`: somebody answers while the run waits, and the run does not pause."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AgentGraphError,
    Answer,
    AnswerError,
    ApprovalRequired,
    MemoryJournal,
    Pending,
    RunCancelled,
    RunContext,
    RunError,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolReturn,
)
from agent_graph.journal.entries import Answered, Ended, Paused
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import Killed, Mortal, entries_of, kinds_of, stored_state
from tests.engine.kit import WAYS, Log, answers_of, call, go


def make_agent(log: Log, journal: Any = None, script: list[Any] | None = None) -> Agent[None, str]:
    """One call for each reason to wait."""

    async def delete(path: str) -> str:
        log.append(f'delete {path}')
        return 'deleted'

    async def sign() -> str:
        raise NotImplementedError

    async def book(ctx: RunContext[None]) -> str:
        name, nights = await ctx.ask('Name?'), await ctx.ask('Nights?', schema=int)
        log.append(f'book {name} {nights}')
        return 'booked'

    async def pay(ctx: RunContext[None]) -> str:
        if not ctx.approved:
            raise ApprovalRequired('Pay?')
        log.append('pay')
        return 'paid'

    calls = [call('delete', {'path': 'x'}), call('sign'), call('book'), call('pay'), call('free')]
    tools = [Tool(delete, requires_approval=True), Tool(sign, external=True), book, pay, log.tool('free')]
    return Agent(ScriptedModel(script or [calls, 'done']), tools=tools, journal=journal)


def reply(pending: Pending) -> Any:
    """A person who says yes to everything."""
    if pending.reason == 'external':
        return ToolReturn('signed')
    if pending.reason == 'question':
        return Answer('Ada' if pending.question == 'Name?' else 2)
    return ToolApproved()


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('kind', ['sync', 'async', 'object'])
def test_everything_is_answered_at_once(kind: str, way: str) -> None:
    async def main() -> None:
        log, asked, journal = Log(), Log(), MemoryJournal()

        def on_pending(pending: Pending) -> Any:
            asked.append(pending)
            return reply(pending)

        async def on_pending_async(pending: Pending) -> Any:
            await asyncio.sleep(0.001)
            return on_pending(pending)

        class Person:
            async def __call__(self, pending: Pending) -> Any:
                return on_pending(pending)

        given: dict[str, Any] = {'sync': on_pending, 'async': on_pending_async, 'object': Person()}
        result = await WAYS[way](make_agent(log, journal), 'go', run_id='r', on_pending=given[kind])
        assert result.output == 'done' and result.status == 'completed' and result.pending == ()
        assert sorted(log) == ['book Ada 2', 'delete x', 'free', 'pay']
        assert [p.outcome for p in answers_of(result.messages)] == ['success'] * 5
        reasons = sorted((p.reason, p.tool_name) for p in asked)
        assert reasons == [
            ('approval', 'delete'),
            ('approval', 'pay'),
            ('external', 'sign'),
            ('question', 'book'),
            ('question', 'book'),
        ]
        assert 'paused' not in await kinds_of(journal, 'r')

    go(main())


def test_the_answers_are_recorded_as_those_given_later_are() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        await make_agent(log, journal).run('go', run_id='r', on_pending=reply)
        entries = await entries_of(journal, 'r')
        assert sorted(e.tool_call_id for e in entries if isinstance(e, Answered)) == ['book', 'book', 'delete', 'pay']
        state = await stored_state(journal, 'r')
        assert state.usage.tool_calls == 4, 'the one done elsewhere is not ours'

    go(main())


def test_a_no_and_other_arguments_at_once() -> None:
    async def main() -> None:
        log = Log()

        def on_pending(pending: Pending) -> Any:
            if pending.tool_name == 'delete':
                return ToolApproved({'path': 'y'})
            return ToolDenied(f'no {pending.tool_name}')

        result = await make_agent(log).run('go', on_pending=on_pending)
        assert sorted(log) == ['delete y', 'free']
        contents = [p.content for p in answers_of(result.messages)]
        assert contents == ['deleted', 'no sign', 'no book', 'no pay', 'free done']

    go(main())


@pytest.mark.parametrize('name', ['delete', 'sign', 'book', 'pay'])
@pytest.mark.parametrize('kind', ['sync', 'async'])
def test_a_person_who_fails_lets_nothing_run(kind: str, name: str) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        def on_pending(pending: Pending) -> Any:
            if pending.tool_name == name:
                raise LookupError('the terminal is gone')
            return reply(pending)

        async def on_pending_async(pending: Pending) -> Any:
            return on_pending(pending)

        with pytest.raises(Exception, match='the terminal is gone') as caught:
            await make_agent(log, journal).run(
                'go', run_id='r', on_pending=on_pending if kind == 'sync' else on_pending_async
            )
        assert isinstance(caught.value, RunError), 'it carries the messages'
        assert is_valid(caught.value.messages)
        done = {'delete': 'delete x', 'book': 'book Ada 2', 'pay': 'pay', 'sign': 'never'}
        assert done[name] not in log
        assert isinstance((await entries_of(journal, 'r'))[-1], Ended)
        assert (await journal.info('r')).status == 'failed'
        await stored_state(journal, 'r')

    go(main())


@pytest.mark.parametrize('given', ['yes', True, 1, None, ToolApproved, {'decision': 'approved'}], ids=str)
@pytest.mark.parametrize('name', ['delete', 'pay', 'sign', 'book'])
def test_a_sloppy_answer_is_none(name: str, given: Any) -> None:
    """`None` may mean "not now"; nothing else may mean anything."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        def on_pending(pending: Pending) -> Any:
            return given if pending.tool_name == name else reply(pending)

        done = {'delete': 'delete x', 'book': 'book Ada 2', 'pay': 'pay', 'sign': 'never'}
        running = make_agent(log, journal).run('go', run_id='r', on_pending=on_pending)
        if given is None:
            assert [p.tool_name for p in (await running).pending] == [name]
        else:
            with pytest.raises(AgentGraphError) as caught:
                await running
            assert isinstance(caught.value, AnswerError) or isinstance(caught.value.__cause__, AnswerError)
        assert done[name] not in log
        await stored_state(journal, 'r')

    go(main())


def test_an_answer_of_the_wrong_type_is_none() -> None:
    async def main() -> None:
        log = Log()

        def on_pending(pending: Pending) -> Any:
            return Answer('many') if pending.question == 'Nights?' else reply(pending)

        with pytest.raises(AgentGraphError) as caught:
            await make_agent(log).run('go', on_pending=on_pending)
        assert isinstance(caught.value, AnswerError) or isinstance(caught.value.__cause__, AnswerError)
        assert 'book Ada 2' not in log

    go(main())


def test_resume_with_somebody_to_ask() -> None:
    """A run that paused goes on with `on_pending`: it is asked what the run waits for."""

    async def main() -> None:
        log, journal, asked = Log(), MemoryJournal(), Log()
        agent = make_agent(log, journal)
        result = await agent.run('go', run_id='r')
        assert len(result.pending) == 4

        def on_pending(pending: Pending) -> Any:
            asked.append(pending.question or pending.tool_name)
            return reply(pending)

        result = await agent.resume('r', answers={'sign': ToolReturn('signed')}, on_pending=on_pending)
        assert result.output == 'done'
        assert sorted(asked) == ['Name?', 'Nights?', 'Pay?', 'delete']
        assert sorted(log) == ['book Ada 2', 'delete x', 'free', 'pay']

    go(main())


def test_resume_without_answers_and_with_somebody_to_ask() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(log, journal)
        await agent.run('go', run_id='r')
        result = await agent.resume('r', on_pending=reply)
        assert result.output == 'done' and sorted(log) == ['book Ada 2', 'delete x', 'free', 'pay']
        assert len([e for e in await entries_of(journal, 'r') if isinstance(e, Paused)]) == 1

    go(main())


def _nested(log: Log, journal: Any, *, levels: int = 1) -> Agent[None, str]:
    async def delete(path: str) -> str:
        log.append(f'delete {path}')
        return 'deleted'

    def inner_model(messages: Any, info: Any) -> Any:
        return 'inner done' if len(messages) > 1 else [call('delete', {'path': 'x'}, 'c1')]

    agent: Agent[None, str] = Agent(
        FunctionModel(inner_model), name='inner', tools=[Tool(delete, requires_approval=True)]
    )
    for level in range(levels):
        inside = agent

        async def delegate(inside: Agent[None, str] = inside) -> str:
            return (await inside.run('clean')).output

        def model(messages: Any, info: Any, level: int = level) -> Any:
            return 'done' if len(messages) > 1 else [call('delegate', {}, f'd{level}')]

        tool = Tool.from_schema('delegate', None, {'type': 'object', 'properties': {}}, delegate)
        agent = Agent(FunctionModel(model), name=f'outer {level}', tools=[tool], journal=journal)
    return agent


@pytest.mark.parametrize('way', ['run', 'run_stream', 'iter'])
@pytest.mark.parametrize('levels', [1, 2])
def test_asked_for_an_agent_inside_a_tool(levels: int, way: str) -> None:
    async def main() -> None:
        log, asked = Log(), Log()

        def on_pending(pending: Pending) -> Any:
            asked.append(pending)
            return ToolApproved()

        result = await WAYS[way](_nested(log, MemoryJournal(), levels=levels), 'go', on_pending=on_pending)
        assert result.output == 'done' and log == ['delete x']
        assert [p.path for p in asked] == [('d1', 'd0')[2 - levels :]], 'it says which agent it is for'

    go(main())


def test_a_person_who_fails_inside() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        async def on_pending(pending: Pending) -> Any:
            raise LookupError('the terminal is gone')

        with pytest.raises(RunError, match='the terminal is gone') as caught:
            await _nested(log, journal).run('go', run_id='r', on_pending=on_pending)
        assert log == [] and is_valid(caught.value.messages)
        assert {info.status for info in await journal.runs()} == {'failed'}

    go(main())


def test_a_person_who_takes_time_does_not_stop_what_else_goes_on() -> None:
    async def main() -> None:
        log = Log()
        asked = asyncio.Event()

        async def on_pending(pending: Pending) -> Any:
            asked.set()
            await asyncio.sleep(0.02)
            log.append('answered')
            return reply(pending)

        agent = make_agent(log, None, [[call('book'), call('free')], 'done'])
        task = asyncio.create_task(agent.run('go', on_pending=on_pending))
        await asked.wait()
        await asyncio.sleep(0.005)
        assert log == ['free'], 'the other call has run meanwhile'
        assert (await task).output == 'done'

    go(main())


def test_cancelled_while_a_person_thinks() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        asked = asyncio.Event()

        async def on_pending(pending: Pending) -> Any:
            asked.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(make_agent(log, journal).run('go', run_id='r', on_pending=on_pending))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await journal.info('r')).status == 'cancelled'
        assert 'delete x' not in log
        await stored_state(journal, 'r')

    go(main())


def test_two_questions_at_once_keep_their_answers_when_asked_again() -> None:
    """Both are asked side by side and answered in the other order; later attempts must not mix them up."""

    async def main() -> None:
        journal, seen = MemoryJournal(), Log()

        async def form(ctx: RunContext[None]) -> str:
            name, city = await asyncio.gather(ctx.ask('Name?'), ctx.ask('City?'))
            seen.append((name, city))
            if await ctx.ask('Sure?') == 'later':
                return 'never'
            return f'{name} in {city}'

        async def on_pending(pending: Pending) -> Any:
            if pending.question == 'Sure?':
                raise LookupError('the process dies here')
            await asyncio.sleep(0.02 if pending.question == 'Name?' else 0.001)
            return Answer('Ada' if pending.question == 'Name?' else 'Rome')

        model = ScriptedModel([[call('form')], 'done'])
        agent = Agent(model, tools=[form], journal=journal)
        with pytest.raises(RunError, match='dies here'):
            await agent.run('go', run_id='r', on_pending=on_pending)
        records = await journal.load('r')
        last = max(i for i, r in enumerate(records) if isinstance(r.entry, Answered))
        fork = await agent.fork('r', at=records[last].seq)
        result = await agent.resume(fork, on_pending=lambda p: ToolApproved() if p.reason == 'crash' else Answer('yes'))
        assert result.output == 'done'
        assert seen == [('Ada', 'Rome'), ('Ada', 'Rome')]

    go(main())


# --- a function that takes its time ----------------------------------------------------------------------------------


def test_a_sync_function_does_not_stop_the_loop() -> None:
    async def main() -> None:
        begun, go_on = threading.Event(), threading.Event()

        def slow(pending: Pending) -> Any:
            begun.set()
            assert go_on.wait(10), 'the loop stood still'
            return ToolApproved()

        tool = Log().tool('delete', requires_approval=True)
        agent = Agent(ScriptedModel([[call('delete')], 'done']), tools=[tool])
        run = asyncio.create_task(agent.run('go', on_pending=slow))
        assert await asyncio.to_thread(begun.wait, 10)
        go_on.set()
        assert (await run).output == 'done'

    go(main())


def test_a_sync_function_is_asked_one_thing_at_a_time() -> None:
    """Two calls and an agent inside a third ask side by side; whoever stands at a terminal can answer only one."""

    async def main() -> None:
        inside, most, asked = 0, 0, set[str]()

        def person(pending: Pending) -> Any:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            time.sleep(0.02)
            asked.add('/'.join((*pending.path, pending.tool_call_id)))
            inside -= 1
            return Answer('yes') if pending.reason == 'question' else ToolApproved()

        async def book(ctx: RunContext[None]) -> str:
            return await ctx.ask('Sure?')

        gated = Log().tool('delete', requires_approval=True)
        inner = Agent(FunctionModel(lambda m, i: 'ok' if len(m) > 1 else [call('delete')]), tools=[gated])

        async def delegate() -> str:
            return (await inner.run('go')).output

        calls = [call('book', {}, 'b1'), call('book', {}, 'b2'), call('delegate')]
        agent = Agent(ScriptedModel([calls, 'done']), tools=[book, delegate], journal=MemoryJournal())
        assert (await agent.run('go', on_pending=person)).output == 'done'
        assert asked == {'b1', 'b2', 'delegate/delete'} and most == 1

    go(main())


def test_a_run_is_cancelled_while_a_sync_function_thinks() -> None:
    async def main() -> None:
        begun, go_on, log = threading.Event(), threading.Event(), Log()

        def slow(pending: Pending) -> Any:
            begun.set()
            go_on.wait(10)
            return ToolApproved()

        agent = Agent(ScriptedModel([[call('delete')], 'done']), tools=[log.tool('delete', requires_approval=True)])
        async with agent.iter('go', on_pending=slow) as run:
            driver = asyncio.create_task(run.to_end())
            assert await asyncio.to_thread(begun.wait, 10)
            await run.cancel()
            with pytest.raises(RunCancelled):
                await driver
            go_on.set()
            assert log == [] and is_valid(run.messages)

    go(main())


def test_a_sync_function_that_finds_out_what_a_crash_left_does_not_stop_the_loop() -> None:
    async def main() -> None:
        journal, loop_ran = MemoryJournal(), threading.Event()

        def look(ctx: RunContext[None], part: Any) -> Any:
            assert loop_ran.wait(10), 'the loop stood still'
            return ToolReturn('it was paid')

        async def pay() -> str:
            raise Killed

        def agent(store: Any) -> Agent[None, str]:
            model = FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('pay')])
            return Agent(model, tools=[Tool(pay, on_crash=look)], journal=store)

        mortal = Mortal(journal, 6, committed=False)
        with pytest.raises(Killed):
            await agent(mortal).run('go', run_id='r')
        await mortal.bury()
        task = asyncio.create_task(agent(journal).resume('r'))
        asyncio.get_running_loop().call_later(0.01, loop_ran.set)
        result = await task
        assert answers_of(result.messages)[0].content == 'it was paid'

    go(main())
