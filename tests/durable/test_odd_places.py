"""Faults at odd places: names that collide, two who answer at once, a journal that fails while it is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_graph import End, GraphBuilder

from agent_graph import (
    Agent,
    AnswerError,
    AssistantMessage,
    GraphContext,
    GraphNode,
    JournalUnavailable,
    MemoryJournal,
    RunCancelled,
    RunContext,
    RunLocked,
    TextPart,
    Tool,
    ToolApproved,
    ToolFailed,
    ToolReturn,
    Usage,
    UsageLimits,
    run_graph,
)
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import KINDS, Killed, Mortal, Store, kinds_of, yes
from tests.engine.kit import WAYS, Log, Way, answers_of, call, go, outcome_of

EACH_KIND = pytest.mark.parametrize('kind', KINDS)


def _nested(journal: Any, call_id: str = 'd', **options: Any) -> Any:
    """A run with one tool, that runs an agent."""
    inner = Agent(FunctionModel(lambda messages, info: 'from inside'), name='inner')

    async def delegate() -> str:
        return (await inner.run('go')).output

    model = FunctionModel(lambda messages, info: 'end' if len(messages) > 1 else [call('delegate', {}, call_id)])
    return Agent(model, tools=[Tool(delegate, **options)], journal=journal)


@EACH_KIND
def test_deleting_a_run_leaves_what_is_inside_one_with_a_longer_name(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = Store(kind, tmp_path).journal
        agent = _nested(journal)
        for run_id in ('a', 'a:b', 'a:d'):
            await agent.run('go', run_id=run_id)
        await journal.delete('a')
        assert sorted(info.run_id for info in await journal.runs()) == ['a:b', 'a:b:d:1', 'a:d', 'a:d:d:1']
        await journal.delete('a:d')
        assert sorted(info.run_id for info in await journal.runs()) == ['a:b', 'a:b:d:1']
        await journal.aclose()

    go(main())


@EACH_KIND
def test_somebodys_own_run_with_the_name_of_one_inside(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = Store(kind, tmp_path).journal
        own = Agent(ScriptedModel(['my own']), name='inner', journal=journal)
        await own.run('go', run_id='r:d:1')
        result = await _nested(journal).run('go', run_id='r')
        assert answers_of(result.messages)[0].content == 'from inside' and result.usage.requests == 3
        await journal.delete('r')
        assert [info.run_id for info in await journal.runs()] == ['r:d:1']
        await journal.aclose()

    go(main())


def test_cancelling_leaves_somebodys_own_run_alone() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        gate = Tool(_done, name='gate', requires_approval=True)
        asks = FunctionModel(lambda messages, info: [call('gate', {}, 'd')] if len(messages) == 1 else 'end')
        agent = Agent(asks, tools=[gate], journal=journal)
        for run_id in ('r:d:1', 'r'):
            assert (await agent.run('go', run_id=run_id)).status == 'paused'
        await agent.resume('r')
        await agent.cancel('r')
        assert (await journal.info('r:d:1')).status == 'paused'

    go(main())


async def _done() -> str:
    return 'done'


@pytest.mark.parametrize('call_id', ['new\nline', '\u202e', '\x00', 'tab\t', '\x7f'])
@EACH_KIND
def test_a_call_id_that_cannot_be_printed(kind: str, call_id: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = Store(kind, tmp_path).journal
        result = await _nested(journal, call_id).run('go', run_id='r')
        answer = answers_of(result.messages)[0]
        assert answer.content == 'from inside' and answer.tool_call_id.isprintable()
        assert [info.run_id for info in await journal.runs()] == [f'r:{answer.tool_call_id}:1', 'r']
        await journal.aclose()

    go(main())


def _gated(journal: Any, log: Log) -> Any:
    """A run whose tool runs an agent with a call that needs a yes."""
    asks = FunctionModel(lambda messages, info: 'inside' if len(messages) > 1 else [call('gate')])
    inner = Agent(asks, tools=[log.tool('gate', requires_approval=True)], name='inner')

    async def delegate() -> str:
        return (await inner.run('go')).output

    model = FunctionModel(lambda messages, info: 'end' if len(messages) > 1 else [call('delegate')])
    return Agent(model, tools=[delegate], journal=journal)


class Crowded:
    """A journal in which somebody else does something at each time a run is taken."""

    def __init__(self, inner: MemoryJournal, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._meanwhile = meanwhile
        self.taken: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def acquire(self, run_id: str, **options: Any) -> Any:
        lease = await self._inner.acquire(run_id, **options)
        self.taken.append(run_id)
        await self._meanwhile()
        return lease

    async def release(self, lease: Any) -> None:
        await self._inner.release(lease)
        await self._meanwhile()


def test_two_who_answer_a_nested_run_at_once() -> None:
    async def main() -> None:
        shared, log = MemoryJournal(), Log()
        result = await _gated(shared, log).run('go', run_id='r')
        refused: list[type] = []

        async def other() -> None:
            try:
                await _gated(shared, log).resume('r', answers=yes(result))
            except (RunLocked, AnswerError) as error:
                refused.append(type(error))

        crowded = Crowded(shared, other)
        done = await _gated(crowded, log).resume('r', answers=yes(result))
        assert done.status == 'completed' and log == ['gate']
        assert refused and len(refused) >= len(crowded.taken), 'the other was refused each time, and touched nothing'
        assert crowded.taken[0] == 'r', 'the outer run is taken before the one inside'

    go(main())


def test_a_refused_answer_gives_the_run_free() -> None:
    async def main() -> None:
        shared, log = MemoryJournal(), Log()
        agent = _gated(shared, log)
        result = await agent.run('go', run_id='r')
        lease = await shared.acquire(result.pending[0].run_id, owner='somebody', ttl=60)
        with pytest.raises(RunLocked):
            await agent.resume('r', answers=yes(result))
        await shared.release(lease)
        assert (await agent.resume('r', answers=yes(result))).status == 'completed'

    go(main())


class Failing:
    """A journal on a disk that is full from some write on, and has room again later."""

    def __init__(self, inner: MemoryJournal, after: int) -> None:
        self._inner = inner
        self.left: int | None = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise JournalUnavailable('the disk is full')

    async def append(self, *args: Any, **options: Any) -> None:
        self._count()
        await self._inner.append(*args, **options)

    async def release(self, lease: Any) -> None:
        self._count()
        await self._inner.release(lease)


def test_a_run_that_could_not_be_given_free_can_be_resumed_here_at_once() -> None:
    async def main() -> None:
        journal, log = Failing(MemoryJournal(), 3), Log()
        script = FunctionModel(lambda messages, info: [call('a')] if len(messages) == 1 else 'end')
        agent: Any = Agent(script, tools=[log.tool('a')], journal=journal)  # pyright: ignore[reportArgumentType]
        with pytest.raises(JournalUnavailable):
            await agent.run('go', run_id='r')
        journal.left = None
        assert (await agent.resume('r')).status == 'completed'

    go(main())


@pytest.mark.parametrize('how', ['cancel', 'timeout', 'failure'])
@pytest.mark.parametrize('journal', [None, MemoryJournal])
def test_a_run_in_a_thread_ends_with_its_call(how: str, journal: type[MemoryJournal] | None) -> None:
    async def main() -> None:
        asked, begun = Log(), asyncio.Event()
        loop = asyncio.get_running_loop()

        async def again(messages: Any, info: Any) -> Any:
            asked.append(len(messages))
            loop.call_soon_threadsafe(begun.set)
            await asyncio.sleep(0.02)
            return [call('t', {}, f'c{len(messages)}')]

        inner = Agent(FunctionModel(again), tools=[Tool(_done, name='t')], name='inner')

        def endless() -> str:
            return inner.run_sync('go').output

        async def bad() -> str:
            await begun.wait()
            raise ValueError('no')

        calls = [call('endless'), *([call('bad')] if how == 'failure' else [])]
        model = FunctionModel(lambda messages, info: 'end' if len(messages) > 1 else calls)
        tools = [Tool(endless, timeout=0.1 if how == 'timeout' else None), Tool(bad)]
        agent: Any = Agent(model, tools=tools, journal=journal() if journal else None)
        if how == 'cancel':
            async with agent.iter('go') as run:
                walk = asyncio.create_task(run.to_end())
                await begun.wait()
                await run.cancel()
                await asyncio.wait({walk})
                assert isinstance(walk.exception(), RunCancelled)
        else:
            await outcome_of(WAYS['run'], agent)
        after = len(asked)
        await asyncio.sleep(0.3)
        assert len(asked) <= after + 1, 'at most the request that was on its way'

    go(main())


def _ring() -> list[Any]:
    ring: list[Any] = []
    ring.append({'again': ring})
    return ring


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
def test_a_result_that_contains_itself(way: Way) -> None:
    async def main() -> None:
        done = await outcome_of(way, Agent(ScriptedModel([[call('_ring')]]), tools=[_ring]))
        assert isinstance(done.error, ToolFailed) and 'contains itself' in str(done.error)

    go(main())


def test_a_result_with_the_same_list_twice() -> None:
    def twice() -> Any:
        shared = ['\ud800']
        return [shared, {'a': shared}, shared]

    async def main() -> None:
        result = await Agent(ScriptedModel([[call('twice')], 'end']), tools=[twice]).run('go')
        assert answers_of(result.messages)[0].content == [['\ufffd'], {'a': ['\ufffd']}, ['\ufffd']]

    go(main())


async def _cancelled(*args: Any) -> Any:
    raise asyncio.CancelledError


def test_a_function_of_the_users_that_cancels_itself_fails_the_run() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        checked = Agent(ScriptedModel(['x']), journal=journal)
        checked.output_validator(_cancelled)
        asked = Tool(_done, name='t', requires_approval=_cancelled)
        for agent in (
            Agent(ScriptedModel(['x']), instructions=_cancelled, journal=journal),
            checked,
            Agent(ScriptedModel([[call('t')]]), tools=[asked], journal=journal),
        ):
            with pytest.raises(RuntimeError, match='cancelled from inside'):
                await agent.run('go')
        assert {info.status for info in await journal.runs()} == {'failed'}

    go(main())


def test_cancelling_a_run_in_such_a_function_is_still_a_cancel() -> None:
    async def main() -> None:
        journal, begun = MemoryJournal(), asyncio.Event()

        async def slow() -> str:
            begun.set()
            await asyncio.sleep(30)
            return 'never'

        task = asyncio.create_task(
            Agent(ScriptedModel(['x']), instructions=slow, journal=journal).run('go', run_id='r')
        )
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await journal.info('r')).status == 'cancelled'

    go(main())


async def _unfit(ctx: RunContext, call: Any) -> ToolReturn:
    return ToolReturn(object())


@pytest.mark.parametrize('rule', [_cancelled, _unfit])
def test_an_on_crash_function_that_comes_to_nothing_leaves_it_to_a_person(rule: Any) -> None:
    async def main() -> None:
        journal, begun = MemoryJournal(), asyncio.Event()

        async def work() -> str:
            begun.set()
            await asyncio.sleep(30)
            return 'never'

        def agent(store: Any) -> Any:
            script = FunctionModel(lambda messages, info: [call('work')] if len(messages) == 1 else 'end')
            return Agent(script, tools=[Tool(work, on_crash=rule)], journal=store)

        mortal = Mortal(journal)
        task = asyncio.create_task(agent(mortal).run('go', run_id='r'))
        await begun.wait()
        mortal.dead = True
        task.cancel()
        with pytest.raises((Killed, asyncio.CancelledError)):
            await task
        await mortal.bury()
        result = await agent(journal).resume('r')
        assert [pending.reason for pending in result.pending] == ['crash']
        assert (await agent(journal).resume('r', answers={result.pending[0]: ToolReturn('done')})).output == 'end'

    go(main())


def test_a_paused_run_and_its_fork_are_replayed() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        asks = FunctionModel(lambda messages, info: _said() if len(messages) > 1 else _said(call('gate')))
        inner = Agent(asks, tools=[log.tool('gate', requires_approval=True)], name='inner')

        async def delegate() -> str:
            return (await inner.run('go')).output

        calls = [call('delegate'), call('gate')]
        model = FunctionModel(lambda messages, info: 'end' if len(messages) > 1 else calls)
        agent: Any = Agent(model, tools=[delegate, log.tool('gate', requires_approval=True)], journal=journal)
        result = await agent.run('go', run_id='r')
        assert result.usage.input_tokens == 10 and len(result.pending) == 2
        again = await agent.replay('r')
        assert (again.status, again.pending, again.usage) == (result.status, result.pending, result.usage)
        kinds = await kinds_of(journal, 'r')
        fork = await agent.fork('r', at=kinds.index('paused') + 1)
        first, again = await agent.resume(fork), await agent.replay(fork)
        assert first.status == again.status == 'paused' and first.pending == again.pending and len(first.pending) == 1
        result = await agent.resume(fork, answers={first.pending[0]: ToolApproved()})
        result = await agent.resume(fork, answers=yes(result))
        assert result.output == 'end' and (await agent.replay(fork)).messages == result.messages

    go(main())


def _said(*parts: Any, tokens: int = 10, **more: Any) -> AssistantMessage:
    return AssistantMessage(parts or (TextPart('ok'),), Usage(input_tokens=tokens), **more)


PRICED: dict[str, Any] = {'provider_name': 'openai', 'model_name': 'gpt-4o-mini'}
COSTLY = Agent(FunctionModel(lambda messages, info: _said(tokens=1_000_000, **PRICED)), name='costly')


@dataclass
class Count(GraphNode[None, None, str]):
    left: int

    async def run(self, ctx: GraphContext[None, None]) -> Count | End[str]:
        await COSTLY.run('go')
        return Count(self.left - 1) if self.left else End('done')


def test_agents_in_a_graph_cost_what_they_cost_once() -> None:
    async def main() -> None:
        builder = GraphBuilder(name='count', input_type=Count, output_type=str)
        builder.add(builder.edge_from(builder.start_node).to(Count), builder.node(Count))
        graph: Any = builder.build()
        limits = UsageLimits(cost_limit=0.61)  # four requests of 0.15 USD each
        result = await run_graph(graph, Count(3), journal=MemoryJournal(), usage_limits=limits)
        assert result.status == 'completed' and result.usage is not None and result.usage.requests == 4

    go(main())
