"""Graphs of one's own: what has changed in the code is named, forks begin elsewhere, a recorded way is walked again."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic_graph import End

from agent_graph import (
    Agent,
    Answer,
    CodecError,
    ConfigError,
    GraphContext,
    GraphNode,
    GraphPosition,
    Journal,
    JournalConflict,
    MemoryJournal,
    RunCancelled,
    SQLiteJournal,
    ToolApproved,
    ToolCallPart,
    UnknownRun,
    cancel_graph,
    fork_graph,
    replay_graph,
    resume_graph,
    run_graph,
)
from agent_graph.errors import ReplayMismatch
from agent_graph.journal.entries import Edited
from agent_graph.testing import FunctionModel
from tests.durable.graphs import Count, build
from tests.durable.kit import KINDS, Killed, Mortal, Store, entries_of, unchanged
from tests.engine.kit import Log, go

ROOT = Path(__file__).parents[2]


SOURCE = """
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic_graph import End, GraphBuilder

from agent_graph import Agent, GraphContext, GraphNode
from agent_graph.testing import FunctionModel


@dataclass
class Shelf:
    items: list[str] = field(default_factory=list)


@dataclass
class Fetch(GraphNode[Shelf, Any, str]):
    item: str

    async def run(self, ctx: GraphContext[Shelf, Any]) -> Ask:
        number = await ctx.step('fetch', lambda: ctx.deps.append(f'fetched {self.item}') or len(self.item))
        helper = Agent(FunctionModel(lambda m, i: ctx.deps.append('asked') or f'about {m[0].content}'), name='helper')
        said = (await helper.run(self.item)).output
        ctx.state.items.append(said)
        return Ask(self.item, number)


@dataclass
class Ask(GraphNode[Shelf, Any, str]):
    item: str
    number: int

    async def run(self, ctx: GraphContext[Shelf, Any]) -> Fetch | End[str]:
        more = await ctx.ask('What else?')
        if more == 'break':
            raise LookupError('broken')
        if more:
            return Fetch(more)
        return End(f'{", ".join(ctx.state.items)} ({self.number})')


builder = GraphBuilder(name='shopping', state_type=Shelf, input_type=Fetch, output_type=str)
builder.add(builder.edge_from(builder.start_node).to(Fetch), builder.node(Fetch), builder.node(Ask))
shopping = builder.build()
"""
"""A module with a graph: a node that does one thing once and asks an agent, and one that asks a person."""


def version(*changes: tuple[str, str]) -> Any:
    """That module, as another version of the code has it."""
    source = SOURCE
    for before, after in changes:
        assert before in source, before
        source = source.replace(before, after)
    name = f'shop_{sha256(source.encode()).hexdigest()[:12]}'
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, f'{name}.py', 'exec'), module.__dict__)
    return module


SHOP = version()
shopping = SHOP.shopping
Fetch, Ask, Shelf = SHOP.Fetch, SHOP.Ask, SHOP.Shelf


async def shop(journal: Journal, log: Log, *answers: str, run_id: str = 'g') -> Any:
    """Begin, and answer what is asked as long as there are answers."""
    result = await run_graph(shopping, Fetch('tea'), state=Shelf(), deps=log, journal=journal, run_id=run_id)
    for answer in answers:
        given = {result.pending[0]: Answer(answer)}
        result = await resume_graph(shopping, run_id, journal=journal, deps=log, answers=given)
    return result


# --- the code has changed --------------------------------------------------------------------------------------------


@dataclass
class Wider:
    """Another state, that reads the old one."""

    items: list[str] = field(default_factory=list[str])
    prices: list[int] = field(default_factory=list[int])


FINAL = (
    'builder = GraphBuilder(',
    """@dataclass
class Final(GraphNode[Shelf, Any, str]):
    async def run(self, ctx: GraphContext[Shelf, Any]) -> End[str]:
        return End('')


builder = GraphBuilder(""",
)
MORE = (FINAL, ('-> Ask:', '-> Ask | Final:'), ('node(Ask))', 'node(Ask), builder.node(Final))'))

CHANGES: dict[str, tuple[tuple[tuple[str, str], ...], list[str]]] = {
    'a node more': (MORE, ["node 'Final' is new", "'Fetch' led to Ask, and leads to Ask, Final"]),
    'a field more': (
        (('    number: int', '    number: int\n    price: int = 3'),),
        ["fields of node 'Ask' have changed"],
    ),
    'another type': ((('    number: int', '    number: str'),), ["fields of node 'Ask' have changed"]),
    'an edge less': ((('-> Fetch | End[str]', '-> End[str]'),), ["node 'Ask' led to End, Fetch, and leads to End"]),
    'another state': (
        (('    items: list[str]', '    prices: int = 0\n    items: list[str]'),),
        ['the state has changed'],
    ),
    'another output': ((('output_type=str', 'output_type=int'),), ['the output has changed']),
}


@pytest.mark.parametrize('name', CHANGES)
def test_a_changed_graph_is_refused_by_name(name: str) -> None:
    changes, expected = CHANGES[name]

    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        result = await shop(journal, log)
        before = await journal.load('g')
        graph = version(*changes).shopping
        for answers in (None, {result.pending[0]: Answer('')}):
            with unchanged(log), pytest.raises(ConfigError) as caught:
                await resume_graph(graph, 'g', journal=journal, deps=log, answers=answers)
            for text in expected:
                assert text in str(caught.value)
            assert str(caught.value).count(';') == len(expected) - 1, caught.value
        for no in ('yes', None, True, lambda c: False, lambda c, p: None, lambda c, p: p.fields):  # pyright: ignore
            with pytest.raises(ConfigError):
                await resume_graph(graph, 'g', journal=journal, deps=log, on_change=no)  # pyright: ignore
        assert await journal.load('g') == before
        same = await resume_graph(shopping, 'g', journal=journal, deps=log, answers={result.pending[0]: Answer('')})
        assert same.output == 'about tea (3)'

    go(main())


def test_what_is_the_same_graph() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        await shop(journal, log)
        result = await resume_graph(version(('What else?', 'And?')).shopping, 'g', journal=journal, deps=log)
        assert result.status == 'paused'

    go(main())


@pytest.mark.parametrize('how', ['continue', 'yes', 'async yes'])
def test_a_changed_graph_goes_on_if_it_may(how: str) -> None:
    async def main() -> None:
        journal, log, asked = MemoryJournal(), Log(), Log()
        result = await shop(journal, log)

        def decide(changes: list[str]) -> bool:
            asked.append(changes)
            return True

        async def decide_async(changes: list[str]) -> bool:
            return decide(changes)

        on_change: Any = {'continue': 'continue', 'yes': decide, 'async yes': decide_async}[how]
        graph = version(*MORE).shopping
        answers = {result.pending[0]: Answer('')}
        result = await resume_graph(graph, 'g', journal=journal, deps=log, answers=answers, on_change=on_change)
        assert result.output == 'about tea (3)' and len(asked) == (how != 'continue')
        assert 'Final' in str([e.fingerprint for e in await entries_of(journal, 'g') if isinstance(e, Edited)])

    go(main())


@dataclass
class Decide(GraphNode[Wider, Any, str]):
    """What `Ask` is called now, with other fields."""

    what: str
    step: int

    async def run(self, ctx: GraphContext[Wider, Any]) -> End[str]:
        made = await ctx.step('once', lambda: ctx.deps.append('once') or 1)
        more = await ctx.ask('What else?')
        return End(f'{self.what}, {more}, {self.step + made}, {ctx.state.prices}')


deciding = build('shopping', Wider, str, Decide)


def to_decide(changes: list[str], position: GraphPosition) -> GraphPosition:
    """The node under its new name, with its fields and the state as they are now."""
    assert isinstance(position.fields, dict) and isinstance(position.state, dict)
    assert position.node == 'Ask' and "node 'Decide' is new" in changes
    return GraphPosition(
        'Decide',
        {'what': position.fields['item'], 'step': position.fields['number']},
        {**position.state, 'prices': [1, 2]},
    )


@pytest.mark.parametrize('kind', KINDS)
def test_a_node_and_the_state_are_migrated(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        result = await shop(store.journal, log)
        journal = await store.restart()
        with pytest.raises(ConfigError, match="'Ask', which this graph does not have"):
            await resume_graph(deciding, 'g', journal=journal, deps=log, on_change='continue')
        shown = await resume_graph(deciding, 'g', journal=journal, deps=log, on_change=to_decide)
        assert shown.pending == result.pending and shown.state == Wider(['about tea'], [1, 2])
        answers = {result.pending[0]: Answer('')}
        mortal: Any = Mortal(journal, 3)  # the answer, the change, and the step
        with pytest.raises(Killed):
            await resume_graph(deciding, 'g', journal=mortal, deps=log, answers=answers, on_change=to_decide)
        await mortal.bury()
        assert log.count('once') == 1
        result = await resume_graph(deciding, 'g', journal=await store.restart(), deps=log)
        assert result.output == 'tea, , 4, [1, 2]' and log.count('once') == 1, 'it is not asked again, nor done again'
        with pytest.raises(ReplayMismatch):
            await replay_graph(shopping, 'g', journal=store.journal, deps=log)
        await store.journal.aclose()

    go(main())


def _as_text(changes: list[str], position: GraphPosition) -> GraphPosition:
    return GraphPosition('Decide', 'what', position.state)  # pyright: ignore


def _no_data(changes: list[str], position: GraphPosition) -> GraphPosition:
    return GraphPosition('Decide', {'what': object()}, position.state)  # pyright: ignore


def _unknown(changes: list[str], position: GraphPosition) -> GraphPosition:
    return GraphPosition('Nowhere', position.fields, position.state)


def _bad_state(changes: list[str], position: GraphPosition) -> GraphPosition:
    moved = to_decide(changes, position)
    moved.state = {'items': 'tea'}
    return moved


@pytest.mark.parametrize('migrate', [_as_text, _no_data, _unknown, _bad_state])
def test_a_migration_that_cannot_be(migrate: Callable[..., Any]) -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        await shop(journal, log)
        before = await journal.load('g')
        with pytest.raises(ConfigError):
            await resume_graph(deciding, 'g', journal=journal, deps=log, on_change=migrate)
        assert await journal.load('g') == before

    go(main())


def test_a_graph_that_went_on_meanwhile_is_not_moved_back() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        result = await shop(journal, log)
        given = {result.pending[0]: Answer('milk')}

        async def migrate(changes: list[str], position: GraphPosition) -> GraphPosition:
            await resume_graph(shopping, 'g', journal=journal, deps=log, answers=given)
            return to_decide(changes, position)

        with pytest.raises(JournalConflict, match='gone on'):
            await resume_graph(deciding, 'g', journal=journal, deps=log, on_change=migrate, on_pending=lambda p: None)
        assert (await resume_graph(shopping, 'g', journal=journal, deps=log)).pending[0].tool_call_id == 'Ask#4'

    go(main())


# --- cancelling ------------------------------------------------------------------------------------------------------

CHILD = """
import asyncio, sys
from agent_graph import SQLiteJournal, cancel_graph
asyncio.run(cancel_graph('g', journal=SQLiteJournal(sys.argv[1])))
"""


@dataclass
class Slow(GraphNode[None, Any, str]):
    """Works for long, with a sign of life in the journal now and then."""

    async def run(self, ctx: GraphContext[None, Any]) -> End[str]:
        ctx.deps.set()
        for number in range(1_000):
            await asyncio.sleep(0.01)
            await ctx.step(f'beat {number}', lambda: None)
        return End('done')


slow = build('slow', type(None), str, Slow)


def test_cancelled_from_another_process(tmp_path: Path) -> None:
    async def main() -> None:
        async with SQLiteJournal(tmp_path / 'runs.db') as journal:
            begun = asyncio.Event()
            walk = asyncio.create_task(run_graph(slow, Slow(), state=None, deps=begun, journal=journal, run_id='g'))
            await begun.wait()
            child = await asyncio.create_subprocess_exec(sys.executable, '-c', CHILD, journal.path, cwd=ROOT)
            assert await child.wait() == 0
            with pytest.raises(RunCancelled, match='another process'):
                await walk
            assert (await journal.info('g')).status == 'cancelled'
            before = await journal.load('g')
            await cancel_graph('g', journal=journal)
            assert await journal.load('g') == before, 'a second time does nothing'
            with pytest.raises(UnknownRun):
                await cancel_graph('nobody', journal=journal)

    go(main(), seconds=60)


def test_cancelling_a_graph_ends_the_agents_that_wait_in_it() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        gated = Log().tool('pay', requires_approval=True)
        payer = Agent(FunctionModel(lambda m, i: [ToolCallPart('pay', {}, 'c1')]), tools=[gated])

        @dataclass
        class Pay(GraphNode[None, Any, str]):
            async def run(self, ctx: GraphContext[None, Any]) -> End[str]:
                return End((await payer.run('go')).output)

        graph = build('paying', type(None), str, Pay)
        await run_graph(graph, Pay(), journal=journal, run_id='g')
        await cancel_graph('g', journal=journal)
        assert {i.run_id: i.status for i in await journal.runs()} == {'g': 'cancelled', 'g:Pay#1:1': 'cancelled'}

    go(main())


def test_a_graph_that_fails_ends_the_agents_that_wait_in_it() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        gated = Log().tool('pay', requires_approval=True)
        payer = Agent(FunctionModel(lambda m, i: [ToolCallPart('pay', {}, 'c1')]), tools=[gated])

        @dataclass
        class Pay(GraphNode[None, Any, str]):
            async def run(self, ctx: GraphContext[None, Any]) -> End[str]:
                try:
                    await payer.run('go')
                except BaseException:
                    raise LookupError('no') from None
                return End('')

        graph = build('paying', type(None), str, Pay)
        with pytest.raises(LookupError):
            await run_graph(graph, Pay(), journal=journal, run_id='g')
        assert {i.run_id: i.status for i in await journal.runs()} == {'g': 'failed', 'g:Pay#1:1': 'cancelled'}

    go(main())


# --- several waits side by side --------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', KINDS)
def test_waits_side_by_side_in_a_task_group(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()

        def payer() -> Agent[None, str]:
            gated = log.tool('pay', requires_approval=True)
            return Agent(
                FunctionModel(lambda m, i: 'paid' if len(m) > 1 else [ToolCallPart('pay', {}, 'c1')]), tools=[gated]
            )

        @dataclass
        class Both(GraphNode[None, Any, str]):
            async def run(self, ctx: GraphContext[None, Any]) -> End[str]:
                async with asyncio.TaskGroup() as group:
                    runs = [group.create_task(payer().run(name)) for name in ('one', 'two')]
                    asks = [group.create_task(ctx.ask(question)) for question in ('Who?', 'Where?')]
                return End(', '.join([*(r.result().output for r in runs), *(a.result() for a in asks)]))

        graph = build('both', type(None), str, Both)
        result = await run_graph(graph, Both(), journal=store.journal, run_id='g')
        said = {'Who?': 'Ada', 'Where?': 'Rome'}
        for _ in range(6):
            if result.status == 'completed':
                break
            answers: dict[Any, Any] = {
                p: ToolApproved() if p.path else Answer(said[str(p.question)]) for p in result.pending
            }
            result = await resume_graph(graph, 'g', journal=await store.restart(), answers=answers)
        assert result.output == 'paid, paid, Ada, Rome' and log == ['pay', 'pay']
        await store.journal.aclose()

    go(main())


def test_a_wait_beside_a_failure_is_a_failure() -> None:
    async def main() -> None:
        journal = MemoryJournal()

        @dataclass
        class Both(GraphNode[None, Any, str]):
            async def run(self, ctx: GraphContext[None, Any]) -> End[str]:
                async def fail() -> None:
                    raise LookupError('no')

                async with asyncio.TaskGroup() as group:
                    group.create_task(ctx.ask('Who?'))
                    group.create_task(fail())
                return End('')

        with pytest.raises(ExceptionGroup) as caught:
            await run_graph(build('both', type(None), str, Both), Both(), journal=journal, run_id='g')
        assert [type(e) for e in caught.value.exceptions] == [LookupError]
        assert (await journal.info('g')).status == 'failed'

    go(main())


# --- forks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', KINDS)
def test_another_node_another_field_another_state(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        journal = store.journal
        result = await shop(journal, log, 'milk', '')
        assert result.output == 'about tea, about milk (4)'
        original = await journal.load('g')
        log.clear()

        other = await fork_graph(shopping, 'g', journal=journal, at='Fetch', replace=Fetch('bread'))
        result = await resume_graph(shopping, other, journal=journal, deps=log, on_pending=lambda p: Answer(''))
        assert result.output == 'about tea, about bread (5)' and log == ['fetched bread', 'asked']

        log.clear()
        elsewhere = await fork_graph(shopping, 'g', journal=journal, at='Fetch', replace=Ask('honey', 9))
        result = await resume_graph(shopping, elsewhere, journal=journal, deps=log, on_pending=lambda p: Answer(''))
        assert result.output == 'about tea (9)' and log == []

        def without_tea(state: Any) -> None:
            state.items.remove('about tea')

        async def of_gold(state: Any) -> Any:
            return Shelf(['gold'])

        edits: list[tuple[Any, str]] = [(without_tea, 'about milk (4)'), (of_gold, 'gold (4)')]
        for edit, expected in edits:
            fork = await fork_graph(shopping, 'g', journal=journal, edit=edit)
            assert (await resume_graph(shopping, fork, journal=await store.restart(), deps=log)).output == expected
            journal = store.journal
        first = await fork_graph(shopping, 'g', journal=journal, at=2, replace=Fetch('salt'), edit=of_gold)
        result = await resume_graph(shopping, first, journal=journal, deps=log, on_pending=lambda p: Answer(''))
        assert result.output == 'gold, about salt (4)'
        assert await journal.load('g') == original
        for fork in (other, elsewhere, first):
            replayed = await replay_graph(shopping, fork, journal=journal, deps=log)
            assert replayed.output == (await resume_graph(shopping, fork, journal=journal)).output
        await journal.aclose()

    go(main())


def test_every_entry_can_be_forked_at() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        await shop(journal, log, 'milk', '')
        for record in (await journal.load('g'))[1:-1]:
            fork = await fork_graph(shopping, 'g', journal=journal, at=record.seq)
            result = await resume_graph(
                shopping,
                fork,
                journal=journal,
                deps=log,
                on_pending=lambda p: Answer('milk' if '#2' in p.tool_call_id else ''),
            )
            assert result.output == 'about tea, about milk (4)', record

    go(main())


def test_a_fork_that_cannot_be() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        await shop(journal, log, '')
        last = len(await journal.load('g'))
        agent = Agent(FunctionModel(lambda m, i: 'x'), journal=journal)
        await agent.run('go', run_id='of an agent')
        bad: list[dict[str, Any]] = [
            {'at': 1},
            {'at': 0},
            {'at': last},
            {'at': 'Nowhere'},
            {'at': 3, 'replace': Ask('x', 1)},  # a step of the node: no node is entered there
            {'replace': Count()},
            {'replace': Ask('x', 'many')},  # pyright: ignore
            {'edit': lambda state: 'junk'},  # pyright: ignore
            {'edit': lambda state: Wider()},  # pyright: ignore
        ]
        for options in bad:
            with pytest.raises(ConfigError):
                await fork_graph(shopping, 'g', journal=journal, **options)
        with pytest.raises(CodecError):
            await fork_graph(shopping, 'of an agent', journal=journal)
        with pytest.raises(UnknownRun):
            await fork_graph(shopping, 'nobody', journal=journal)
        names = {info.run_id for info in await journal.runs()}
        assert names == {'g', 'g:Fetch#1:1', 'of an agent'}, 'nothing half made is left'

    go(main())


# --- replay ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('answers', [(), ('',), ('milk',), ('milk', ''), ('break',)], ids=str)
@pytest.mark.parametrize('kind', KINDS)
def test_the_same_way_without_any_effect(kind: str, answers: tuple[str, ...], tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        try:
            result = await shop(store.journal, log, *answers)
        except LookupError:
            result = await resume_graph(shopping, 'g', journal=store.journal)
        journal = await store.restart()
        runs = await journal.runs()
        records = await journal.load('g')
        with unchanged(log):
            replayed = await replay_graph(shopping, 'g', journal=journal, deps=log)
        assert replayed == result
        assert await journal.runs() == runs and await journal.load('g') == records
        await journal.aclose()

    go(main())


def test_a_cancelled_graph_is_replayed_to_where_it_was_cancelled() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        await shop(journal, log, 'milk')
        await cancel_graph('g', journal=journal)
        with unchanged(log):
            assert (await replay_graph(shopping, 'g', journal=journal, deps=log)).status == 'cancelled'

    go(main())


SAID = '        said = (await helper.run(self.item)).output\n'
CAUGHT = """        try:
            said = (await helper.run('coffee')).output
        except Exception:
            said = 'nothing'
"""
MISMATCHES: dict[str, tuple[tuple[str, str], str]] = {
    'another step': (("'fetch'", "'get'"), r'does a step whose result is not in the recording'),
    'another prompt': (('run(self.item)', "run('coffee')"), r"asks agent 'helper' what it was not asked \('coffee'\)"),
    'another prompt, and it is caught': ((SAID, CAUGHT), r"asks agent 'helper'"),
    'another state': (
        ('append(said)', "append('x')"),
        r"data\['state'\]\['items'\]\[0\]\": recorded 'about tea', now 'x'",
    ),
    'another field': (
        ('self.item, number', 'self.item, number + 1'),
        r"data\['node'\]\['number'\]\": recorded 3, now 4",
    ),
    'another node': (
        ('        more = await', "        return End('x')\n        more = await"),
        r'recorded Fetch entered, now the end',
    ),
    'another output': (
        ('return End(f', "return End('!' + f"),
        r"'output': recorded 'about tea, about milk \(4\)', now",
    ),
    'a question more': (
        ('        return End', "        await ctx.ask('Really?')\n        return End"),
        r'recorded the end',
    ),
    'no question': (("await ctx.ask('What else?')", "'milk'"), r'entered, now|recorded the end'),
}


@pytest.mark.parametrize('name', MISMATCHES)
def test_the_first_difference_is_named(name: str) -> None:
    change, said = MISMATCHES[name]

    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        await shop(journal, log, 'milk', '')
        with unchanged(log), pytest.raises(ReplayMismatch, match=said):
            await replay_graph(version(change).shopping, 'g', journal=journal, deps=log)
        # What the agent in the node would say now does not matter: it is not asked.
        other = version(("f'about {m[0].content}'", "'nothing'")).shopping
        assert (await replay_graph(other, 'g', journal=journal, deps=log)).status == 'completed'

    go(main())


def test_a_changed_graph_is_no_difference_if_it_need_not_be() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        await shop(journal, log, 'milk', '')
        other = version(*MORE).shopping
        with pytest.raises(ReplayMismatch, match=r"entry 1 .*node 'Final' is new"):
            await replay_graph(other, 'g', journal=journal, deps=log)
        replayed = await replay_graph(other, 'g', journal=journal, deps=log, on_change='continue')
        assert replayed.output == 'about tea, about milk (4)'

    go(main())
