"""Agents inside tools: the pause reaches the outermost run, the answer the right inner one, and no model is asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    Answer,
    AnswerError,
    Journal,
    MemoryJournal,
    RunContext,
    RunPaused,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolFailed,
    ToolReturn,
    Usage,
)
from agent_graph.messages import AssistantMessage
from agent_graph.testing import FunctionModel
from tests.durable.kit import KINDS, Killed, Mortal, Store, at_every_write, pending_ids, stored_state, yes
from tests.engine.kit import Log, answers_of, call, go


class Tree:
    """Agents in agents: `leaf` has gated tools, each level above delegates; every request is noted, with its usage."""

    def __init__(self, levels: int = 2, calls: int = 1, helpers: int = 1) -> None:
        self.levels = levels
        self.calls = calls
        self.helpers = helpers
        self.log = Log()
        self.asked = Log()

    def build(self, journal: Journal | None) -> Agent[None, str]:
        """The outermost agent, as a new process would make it."""
        log = self.log

        async def delete(path: str) -> str:
            log.append(f'delete {path}')
            return f'{path} is gone'

        async def free() -> str:
            log.append('free')
            return 'free done'

        calls = [call('delete', {'path': f'p{n}'}, f'c{n}') for n in range(self.calls)]
        agent = Agent(
            self._model('leaf', [*calls, call('free', {}, 'f')]),
            name='leaf',
            tools=[Tool(delete, requires_approval=True), free],
        )
        for level in range(self.levels):
            agent = self._above(agent, level)
        agent.journal = journal
        return agent

    def _above(self, inside: Agent[None, str], level: int) -> Agent[None, str]:
        async def delegate(number: int) -> str:
            return (await inside.run(f'task {number}')).output

        calls = [call('delegate', {'number': n}, f'd{n}') for n in range(self.helpers)]
        return Agent(self._model(f'level {level}', calls), name=f'level {level}', tools=[delegate])

    def _model(self, name: str, calls: list[Any]) -> FunctionModel:
        def answer(messages: Any, info: Any) -> AssistantMessage:
            self.asked.append((name, len(messages)))
            usage = Usage(input_tokens=10, output_tokens=1)
            if len(messages) == 1:
                return AssistantMessage(calls, usage, finish_reason='tool_calls')
            text = ', '.join(str(p.content) for p in messages[-1].parts)
            return AssistantMessage([*_text(f'{name}: {text}')], usage, finish_reason='stop')

        return FunctionModel(answer)


def _text(text: str) -> list[Any]:
    from agent_graph import TextPart

    return [TextPart(text)]


@pytest.mark.parametrize('levels', [1, 2, 3])
@pytest.mark.parametrize('kind', [*KINDS, 'none'])
def test_all_the_way_out_and_back(kind: str, levels: int, tmp_path: Path) -> None:
    async def main() -> None:
        tree = Tree(levels)
        store = None if kind == 'none' else Store(kind, tmp_path)
        agent = tree.build(store.journal if store else None)
        result = await agent.run('go', run_id='r')
        (pending,) = result.pending
        assert pending.path == ('d0',) * levels and pending.tool_call_id == 'c0'
        assert pending.run_id == 'r' + ':d0:1' * levels
        assert tree.log == ['free'] and len(tree.asked) == levels + 1
        if store is not None:
            agent = tree.build(await store.restart())
        result = await agent.resume('r', answers={pending: ToolApproved()})
        assert tree.log == ['free', 'delete p0']
        assert len(tree.asked) == 2 * (levels + 1), 'each model was asked twice, and none a third time'
        assert len(set(tree.asked)) == len(tree.asked)
        assert str(result.output).endswith('leaf: p0 is gone, free done')
        assert result.usage == Usage(
            requests=2 * (levels + 1),
            tool_calls=levels + 2,
            input_tokens=20 * (levels + 1),
            output_tokens=2 * (levels + 1),
        )
        if store is not None:
            infos = await store.journal.runs()
            assert {info.status for info in infos} == {'completed'} and len(infos) == levels + 1
            for info in infos:
                await stored_state(store.journal, info.run_id)
            await store.journal.aclose()

    go(main())


def test_usage_while_it_waits_counts_what_was_used() -> None:
    async def main() -> None:
        tree = Tree(2)
        result = await tree.build(MemoryJournal()).run('go', run_id='r')
        assert result.usage.requests == len(tree.asked) == 3
        assert result.usage.input_tokens == 30
        assert result.usage.tool_calls == 3, 'two delegations and the free tool'

    go(main())


def test_partial_answers_go_to_their_run_and_the_rest_waits() -> None:
    async def main() -> None:
        tree, journal = Tree(2, calls=2, helpers=2), MemoryJournal()
        result = await tree.build(journal).run('go', run_id='r')
        paths = [(*p.path, p.tool_call_id) for p in result.pending]
        assert paths == [(a, b, c) for a in ('d0', 'd1') for b in ('d0', 'd1') for c in ('c0', 'c1')]
        assert len({p.run_id for p in result.pending}) == 4
        asked = len(tree.asked)
        order = [5, 0, 7, 2, 1, 6, 3]  # any order
        for number in order:
            key: tuple[str, ...] = paths[number]
            result = await tree.build(journal).resume('r', answers={key: ToolDenied(f'no {number}')})
            left = [(*p.path, p.tool_call_id) for p in result.pending]
            assert left == [p for i, p in enumerate(paths) if i not in order[: order.index(number) + 1]]
        result = await tree.build(journal).resume('r', answers={paths[4]: ToolApproved()})
        assert result.status == 'completed'
        assert tree.log == ['free'] * 4 + ['delete p0']
        assert len(set(tree.asked)) <= len(tree.asked) == asked + 4 + 2 + 1
        for number in (0, 1, 2, 3, 5, 6, 7):
            assert f'no {number}' in str(result.output)
        assert result.usage.requests == len(tree.asked)

    go(main())


@pytest.mark.parametrize(
    'key', ['c0', ('c0',), ('d0', 'c0'), ('d0', 'd0'), ('d0',), 'd0', ('c0', 'd0', 'd0'), ('d0', 'd0', 'd0', 'c0')]
)
def test_a_wrong_path(key: Any) -> None:
    async def main() -> None:
        tree, journal = Tree(2, helpers=2), MemoryJournal()
        result = await tree.build(journal).run('go', run_id='r')
        runs = {info.run_id: await journal.load(info.run_id) for info in await journal.runs()}
        with pytest.raises(AnswerError):
            await tree.build(journal).resume('r', answers={key: ToolApproved()})
        assert {info.run_id: await journal.load(info.run_id) for info in await journal.runs()} == runs
        assert (await tree.build(journal).resume('r')).pending == result.pending
        assert tree.log == ['free'] * 4

    go(main())


def test_the_same_id_at_every_level_is_never_a_guess() -> None:
    """Three runs wait for a call `c`, each in its own way in; the id alone fits all, the path fits one."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        async def delete(level: int) -> str:
            log.append(level)
            return f'{level} is gone'

        def level(number: int, inside: Agent[None, str] | None) -> Agent[None, str]:
            async def delegate() -> str:
                assert inside is not None
                return (await inside.run('task')).output

            calls = [call('delete', {'level': number}, 'c'), *([call('delegate', {}, 'd')] if inside else [])]
            return Agent(
                FunctionModel(lambda m, i: f'level {number}' if len(m) > 1 else calls),
                tools=[Tool(delete, requires_approval=True), *([delegate] if inside else [])],
                journal=journal,
            )

        agent = level(0, level(1, level(2, None)))
        result = await agent.run('go', run_id='r')
        assert [(*p.path, p.tool_call_id) for p in result.pending] == [('c',), ('d', 'c'), ('d', 'd', 'c')]
        for key in ('c', 'd', ('d',), ('d', 'd'), ('d', 'd', 'd', 'c')):
            with pytest.raises(AnswerError):
                await agent.resume('r', answers={key: ToolApproved()})
        result = await agent.resume('r', answers={('d', 'c'): ToolApproved()})
        assert log == [1]
        assert [(*p.path, p.tool_call_id) for p in result.pending] == [('c',), ('d', 'd', 'c')]
        with pytest.raises(AnswerError):
            await agent.resume('r', answers={'c': ToolApproved()})
        result = await agent.resume('r', answers={('d', 'd', 'c'): ToolDenied('no')})
        assert log == [1] and [(*p.path, p.tool_call_id) for p in result.pending] == [('c',)]
        with pytest.raises(AnswerError, match='has named something else'):
            await agent.resume('r', answers={'c': ToolApproved()})
        result = await agent.resume('r', answers={('c',): ToolApproved()})
        assert log == [1, 0] and result.output == 'level 0'

    go(main())


def test_an_inner_run_may_be_answered_and_driven_by_itself() -> None:
    """Then the outer run finds it complete."""

    async def main() -> None:
        tree, journal = Tree(1), MemoryJournal()
        result = await tree.build(journal).run('go', run_id='r')
        leaf = Tree(0)
        leaf.log, leaf.asked = tree.log, tree.asked
        inner = await leaf.build(journal).resume(result.pending[0].run_id, answers={'c0': ToolApproved()})
        assert inner.output == 'leaf: p0 is gone, free done'
        result = await tree.build(journal).resume('r')
        assert result.output == 'level 0: leaf: p0 is gone, free done'
        assert tree.log == ['free', 'delete p0'] and len(tree.asked) == 4
        assert result.usage.requests == 4

    go(main())


def test_a_bad_answer_for_an_inner_call_is_refused_before_anything_runs() -> None:
    """The outer agent does not know the inner tool; the answer must not end any run."""

    async def main() -> None:
        tree, journal = Tree(1), MemoryJournal()
        result = await tree.build(journal).run('go', run_id='r')
        bad = {('d0', 'c0'): ToolApproved({'nonsense': 1})}
        try:
            result = await tree.build(journal).resume('r', answers=bad)
        except AnswerError:
            result = await tree.build(journal).resume('r')
        assert result.status == 'paused' and tree.log == ['free']
        result = await tree.build(journal).resume('r', answers={result.pending[0]: ToolApproved({'path': 'other'})})
        assert result.status == 'completed' and tree.log == ['free', 'delete other']

    go(main())


def test_an_inner_agent_with_a_journal_in_an_outer_one_without_is_told_to_change_that() -> None:
    """The answer could not find its way: the outer run waits in memory, the inner one elsewhere."""

    async def main() -> None:
        tree, journal = Tree(0), MemoryJournal()
        inner = tree.build(journal)

        async def delegate() -> str:
            return (await inner.run('task')).output

        outer = Agent(
            FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('delegate', {}, 'd')]), tools=[delegate]
        )
        with pytest.raises(ToolFailed, match='give the outer agent a journal'):
            await outer.run('go')
        outer.journal = journal
        result = await outer.run('go')
        result = await outer.resume(result.run_id, answers=yes(result))
        assert result.output == 'done' and tree.log == ['free', 'free', 'delete p0']

    go(main())


def test_what_an_earlier_inner_run_said_is_kept_while_a_later_one_waits() -> None:
    """One tool asks two helpers after each other; the second waits."""

    async def main(journal: Journal | None) -> None:
        tree = Tree(0)
        asked = Log()
        first = Agent(FunctionModel(lambda m, i: asked.append('first') or 'first'), name='first')
        second = tree.build(None)

        async def both() -> str:
            return f'{(await first.run("x")).output} {(await second.run("y")).output}'

        outer = Agent(
            FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('both', {}, 'b')]),
            tools=[both],
            journal=journal,
        )
        result = await outer.run('go')
        assert [p.path for p in result.pending] == [('b',)]
        result = await outer.resume(result.run_id, answers=yes(result))
        assert answers_of(result.messages)[0].content == 'first leaf: p0 is gone, free done'
        assert asked == ['first'], 'its model was asked once'
        assert result.usage.requests == 5

    go(main(MemoryJournal()))
    go(main(None))


@pytest.mark.parametrize('how', ['group', 'gather'])
def test_two_agents_side_by_side_in_one_tool(how: str) -> None:
    async def main() -> None:
        tree, journal = Tree(0), MemoryJournal()
        leaf = tree.build(None)

        async def both() -> str:
            if how == 'gather':
                results = await asyncio.gather(leaf.run('x'), leaf.run('y'))
                return ' | '.join(r.output for r in results)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(leaf.run(p)) for p in 'xy']
            return ' | '.join(t.result().output for t in tasks)

        outer = Agent(
            FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('both', {}, 'b')]),
            tools=[both],
            journal=journal,
        )
        result = await outer.run('go', run_id='r')
        assert [p.run_id for p in result.pending] == ['r:b:1', 'r:b:2'], 'both at once'
        result = await outer.resume('r', answers=yes(result))
        assert result.output == 'done'
        assert answers_of(result.messages)[0].content == ' | '.join(['leaf: p0 is gone, free done'] * 2)
        assert sorted(tree.log) == ['delete p0', 'delete p0', 'free', 'free'], 'no finished tool ran twice'

    go(main())


@pytest.mark.parametrize('first', ['agent', 'question'])
@pytest.mark.parametrize('how', ['group', 'gather'])
@pytest.mark.parametrize('kind', KINDS)
def test_what_runs_beside_a_wait_comes_to_its_end_first(kind: str, how: str, first: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, tree, log = Store(kind, tmp_path), Tree(0), Log()

        async def work() -> str:
            log.append('begun')
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                log.append('cut off')
                raise
            log.append('ended')
            return 'worked'

        worker = Agent(FunctionModel(lambda m, i: 'well' if len(m) > 1 else [call('work')]), tools=[work])

        def build(journal: Journal) -> Agent[None, str]:
            leaf = tree.build(None)

            async def both(ctx: RunContext[None]) -> str:
                waits: Coroutine[Any, Any, Any] = leaf.run('x') if first == 'agent' else ctx.ask('Who?')
                if how == 'gather':
                    found: Any = await asyncio.gather(waits, worker.run('y'))
                else:
                    async with asyncio.TaskGroup() as group:
                        tasks: list[asyncio.Task[Any]] = [group.create_task(waits), group.create_task(worker.run('y'))]
                    found = [t.result() for t in tasks]
                return str(found[1].output)

            script = FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('both', {}, 'b')])
            return Agent(script, tools=[both], journal=journal)

        result = await build(store.journal).run('go', run_id='r')
        assert log == ['begun', 'ended'] and len(result.pending) == 1
        assert (await store.journal.info('r:b:2' if first == 'agent' else 'r:b:1')).status == 'completed'
        answer: Any = ToolApproved() if first == 'agent' else Answer('Ada')
        result = await build(await store.restart()).resume('r', answers={result.pending[0]: answer})
        assert result.output == 'done' and log == ['begun', 'ended']
        assert answers_of(result.messages)[0].content == 'well'
        await store.journal.aclose()

    go(main())


@pytest.mark.parametrize('where', ['step', 'validator', 'instructions'])
def test_a_wait_of_an_agent_inside_another_s_work_does_not_wait_for_that(where: str) -> None:
    """The one it is part of cannot come to its end before it."""

    async def main() -> None:
        tree, journal = Tree(0), MemoryJournal()
        leaf = tree.build(None)
        middle = Agent(FunctionModel(lambda m, i: 'middle'))

        async def check(value: str) -> str:
            return (await leaf.run('x')).output if where != 'step' else value

        async def instruct() -> str:
            return await check('')

        if where == 'instructions':
            middle.instructions(instruct)
        elif where == 'validator':
            middle.output_validator(check)

        async def delegate(ctx: RunContext[None]) -> str:
            if where == 'step':

                async def ask() -> str:
                    return (await leaf.run('x')).output

                return await ctx.step('ask', ask)
            return (await middle.run('task')).output

        outer = Agent(
            FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('delegate', {}, 'd')]),
            tools=[delegate],
            journal=journal,
        )
        result = await asyncio.wait_for(outer.run('go', run_id='r'), 5)
        assert result.status == 'paused' and pending_ids(result) == ['c0']
        result = await asyncio.wait_for(outer.resume('r', answers=yes(result)), 5)
        assert result.output == 'done' and tree.log.count('delete p0') == 1

    go(main())


def test_a_sync_tool_that_runs_an_agent() -> None:
    async def main() -> None:
        tree, journal = Tree(0), MemoryJournal()
        leaf = tree.build(None)

        def delegate() -> str:
            return leaf.run_sync('task').output

        outer = Agent(
            FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('delegate', {}, 'd')]),
            tools=[delegate],
            journal=journal,
        )
        result = await outer.run('go')
        assert [p.path for p in result.pending] == [('d',)]
        result = await outer.resume(result.run_id, answers=yes(result))
        assert result.output == 'done' and tree.log == ['free', 'delete p0'] and len(tree.asked) == 2

    go(main())


@pytest.mark.parametrize('way', ['iter', 'run_stream', 'run_stream_events'])
def test_an_inner_run_that_is_stepped_or_streamed(way: str) -> None:
    async def main() -> None:
        tree, journal = Tree(0), MemoryJournal()
        leaf = tree.build(None)

        async def delegate() -> str:
            if way == 'iter':
                async with leaf.iter('task') as run:
                    await run.to_end()
                    return run.finished().output
            if way == 'run_stream':
                async with leaf.run_stream('task') as s:
                    return (await s.result()).output
            reader = leaf.run_stream_events('task')
            async for _ in reader:
                pass
            return (await reader.finish()).output

        outer = Agent(
            FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('delegate', {}, 'd')]),
            tools=[delegate],
            journal=journal,
        )
        result = await outer.run('go')
        assert result.status == 'paused'
        assert [p.path for p in result.pending] == [('d',)]
        result = await outer.resume(result.run_id, answers=yes(result))
        assert answers_of(result.messages)[0].content == 'leaf: p0 is gone, free done'
        assert tree.log == ['free', 'delete p0'] and len(tree.asked) == 2

    go(main())


def test_events_of_all_levels() -> None:
    async def main() -> None:
        tree, journal = Tree(2), MemoryJournal()
        events = [e async for e in tree.build(journal).run_stream_events('go', run_id='r')]
        paused = [e for e in events if isinstance(e, RunPaused)]
        assert [e.path for e in paused] == [('d0', 'd0'), ('d0',), ()]
        assert [p.path for p in paused[-1].pending] == [('d0', 'd0')]
        assert events[-1].kind == 'run_ended' and events[-1].path == ()

    go(main())


def _questions(log: Log, journal: Journal) -> Agent[None, str]:
    """The inner tool asks two questions, so the inner run pauses twice for one outer call."""

    async def form(ctx: RunContext[None]) -> str:
        first = await ctx.ask('First?')
        second = await ctx.ask('Second?')
        log.append((first, second))
        return f'{first} {second}'

    def answer(calls: list[Any]) -> Callable[[Any, Any], Any]:
        return lambda messages, info: 'done' if len(messages) > 1 else calls

    inner = Agent(FunctionModel(answer([call('form', {}, 'c')])), name='inner', tools=[form])

    async def delegate() -> str:
        result = await inner.run('task')
        return str(answers_of(result.messages)[0].content)

    return Agent(FunctionModel(answer([call('delegate', {}, 'd')])), name='outer', tools=[delegate], journal=journal)


@pytest.mark.parametrize('committed', [True, False], ids=['after the write', 'before the write'])
def test_killed_at_any_write_of_any_run(committed: bool) -> None:
    """Between the inner run's pause and the outer one's, too: what the outer run then shows must be what waits."""

    async def main(at: int) -> bool:
        journal, log = MemoryJournal(), Log()
        mortal = Mortal(journal, at, committed=committed)
        replies = {'First?': Answer('1'), 'Second?': Answer('2')}
        answers: dict[Any, Any] | None = None
        died, begun, result = False, False, None
        for _ in range(12):
            agent = _questions(log, mortal)  # pyright: ignore[reportArgumentType]
            try:
                if begun:
                    result = await agent.resume('r', answers=answers)
                else:
                    result = await agent.run('go', run_id='r')
                    begun = True
            except Killed:
                died = True
                begun = begun or bool(await journal.runs())
                await mortal.bury()
                mortal, answers = Mortal(journal), None
                continue
            if result.status == 'completed':
                break
            answers = {p: ToolApproved() if p.reason == 'crash' else replies[str(p.question)] for p in result.pending}
        assert log and log[-1] == ('1', '2'), (at, log)
        assert len(log) <= 2
        assert result is not None and result.output == 'done'
        return died

    assert at_every_write(main) > 25


def test_cancelling_the_outer_run_ends_the_inner_ones_that_wait() -> None:
    """Nobody can allow a call of a run that is over."""

    async def main() -> None:
        tree, journal = Tree(2), MemoryJournal()
        result = await tree.build(journal).run('go', run_id='r')
        await tree.build(journal).cancel('r')
        assert {info.status for info in await journal.runs()} == {'cancelled'}
        leaf = Tree(0)
        leaf.log = tree.log
        with pytest.raises(AnswerError):
            await leaf.build(journal).resume(result.pending[0].run_id, answers={'c0': ToolApproved()})
        assert tree.log == ['free']
        assert await journal.runs(status='paused') == []

    go(main())


def test_an_inner_run_that_catches_the_pause_of_its_own_helper_is_not_confused() -> None:
    async def main() -> None:
        tree, journal = Tree(0), MemoryJournal()
        leaf = tree.build(None)

        async def delegate() -> str:
            try:
                return (await leaf.run('task')).output
            except Exception:
                return 'nothing'

        outer = Agent(
            FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('delegate', {}, 'd')]),
            tools=[delegate],
            journal=journal,
        )
        result = await outer.run('go')
        assert pending_ids(result) == ['c0']

    go(main())


# --- nothing inside outlives the call it is in -----------------------------------------------------------------------


def _with_inner(journal: Journal | None, calls: list[Any], log: Log, **options: Any) -> Agent[None, Any]:
    """An agent whose tool `delegate` runs another one, which waits for an approval; `options` are the tool's."""
    gated = log.tool('delete', requires_approval=True)
    leaf = Agent(FunctionModel(lambda m, i: 'leaf' if len(m) > 1 else [call('delete', {}, 'c0')]), tools=[gated])
    middle = Agent(FunctionModel(lambda m, i: 'middle' if len(m) > 1 else [call('ask', {}, 'm0')]))

    @middle.tool
    async def ask() -> str:
        return (await leaf.run('task')).output

    async def delegate() -> str:
        return (await middle.run('task')).output

    async def fail(wait: int) -> str:
        await asyncio.sleep(wait / 1000)
        raise ValueError('broken')

    return Agent(
        FunctionModel(lambda m, i: 'done' if len(m) > 1 else calls),
        tools=[Tool(delegate, **options), fail],
        journal=journal,
        output_type=[str, int],
    )


async def _statuses(journal: Journal) -> dict[str, str]:
    return {info.run_id: info.status for info in await journal.runs()}


@pytest.mark.parametrize('kind', KINDS)
def test_beside_a_settled_output_no_run_inside_goes_on_waiting(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        calls = [call('delegate', {}, 'd0'), call('final_result', {'response': 7}, 'o')]
        result = await _with_inner(store.journal, calls, log).run('go', run_id='r')
        assert result.output == 7 and answers_of(result.messages)[0].outcome == 'interrupted'
        assert await _statuses(store.journal) == {'r': 'completed', 'r:d0:1': 'cancelled', 'r:d0:1:m0:1': 'cancelled'}
        await store.journal.aclose()

    go(main())


@pytest.mark.parametrize('wait', [0, 20])
def test_a_run_that_fails_ends_the_runs_inside_that_wait(wait: int) -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        calls = [call('delegate', {}, 'd0'), call('fail', {'wait': wait}, 'f0')]
        with pytest.raises(ToolFailed):
            await _with_inner(journal, calls, log).run('go', run_id='r')
        statuses = await _statuses(journal)
        assert statuses.pop('r') == 'failed' and set(statuses.values()) <= {'cancelled'}
        assert statuses or wait == 0

    go(main())


def _it_did(ctx: RunContext[None], part: Any) -> ToolReturn:
    return ToolReturn('it did')


LEFT: dict[str, tuple[Any, dict[str, Any] | None]] = {
    'never': ('never', None),
    'found out': (_it_did, None),
    'a person says no': ('ask', {'d0': ToolDenied()}),
    'a person knows the result': ('ask', {'d0': ToolReturn('it did')}),
}


@pytest.mark.parametrize('inline', [False, True])
@pytest.mark.parametrize('how', LEFT)
def test_a_call_that_is_left_after_a_crash_leaves_no_run_behind(how: str, inline: bool) -> None:
    """The process dies while the innermost run is at work; the call it is in is answered otherwise."""
    rule, answers = LEFT[how]

    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        calls = [call('delegate', {}, 'd0')]
        mortal = Mortal(journal, 13)
        with pytest.raises(Killed):
            await _with_inner(mortal, calls, log, on_crash=rule).run('go', run_id='r')
        await mortal.bury()
        assert await _statuses(journal) == {'r': 'running', 'r:d0:1': 'running', 'r:d0:1:m0:1': 'running'}
        agent = _with_inner(journal, calls, log, on_crash=rule)
        if inline:
            result = await agent.resume('r', on_pending=lambda p: answers['d0'] if answers else None)
        else:
            result = await agent.resume('r')
            assert (result.status == 'paused') == (answers is not None)
            if answers is not None:
                result = await agent.resume('r', answers=answers)
        assert result.output == 'done' and log == []
        assert await _statuses(journal) == {'r': 'completed', 'r:d0:1': 'cancelled', 'r:d0:1:m0:1': 'cancelled'}

    go(main())
