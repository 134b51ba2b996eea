"""Durable graphs of one's own: state where it changed, steps once, agents inside nodes, people, limits, refusals."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from pydantic_graph import End

from agent_graph import (
    Agent,
    Answer,
    AnswerError,
    ConfigError,
    GraphContext,
    GraphError,
    GraphNode,
    MemoryJournal,
    RunCancelled,
    RunContext,
    RunExists,
    RunLocked,
    Tool,
    ToolApproved,
    ToolCallPart,
    ToolDenied,
    UnknownRun,
    Usage,
    UsageLimitExceeded,
    UsageLimits,
    render,
    resume_graph,
    run_graph,
)
from agent_graph.errors import JournalConflict
from agent_graph.journal.entries import Ended, Entered, StepDone
from agent_graph.messages import AssistantMessage, TextPart
from agent_graph.testing import FunctionModel
from tests.durable.graphs import Check, Count, Tally, build, counting, run_counting
from tests.durable.kit import KINDS, Killed, Mortal, Store, at_every_write, entries_of, kinds_of
from tests.engine.kit import Log, call, go

# --- the path and the state ------------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', [*KINDS, 'none'])
def test_a_graph_that_loops(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = None if kind == 'none' else Store(kind, tmp_path).journal
        state = Tally()
        result = await run_graph(counting, Count(), state=state, journal=journal, run_id='g')
        assert (result.output, result.status, result.run_id) == ('counted to 5', 'completed', 'g')
        assert result.state is state and state.count == 5
        if journal is None:
            return
        entered = [e for e in await entries_of(journal, 'g') if isinstance(e, Entered)]
        assert [e.node for e in entered] == ['Count', 'Check'] * 5
        held: list[Any] = [e.data for e in entered]
        assert [d['node'] for d in held[:2]] == [{'by': 1}, {'enough': False}]
        with_state = [i for i, d in enumerate(held) if 'state' in d]
        assert with_state == [0, 1, 3, 5, 7, 9], 'the state is recorded where it changed'
        assert [held[i]['state']['count'] for i in with_state] == [0, 1, 2, 3, 4, 5]
        info = await journal.info('g')
        assert info.agent == 'counting' and info.status == 'completed'
        again = await resume_graph(counting, 'g', journal=journal)
        assert (again.output, again.status) == ('counted to 5', 'completed')
        assert again.state == Tally(5)
        await journal.aclose()

    go(main())


@pytest.mark.parametrize('committed', [True, False], ids=['after the write', 'before the write'])
def test_killed_between_any_two_entries_of_a_loop(committed: bool) -> None:
    async def main(at: int) -> bool:
        journal = MemoryJournal()
        mortal: Any = Mortal(journal, at, committed=committed)
        try:
            result = await run_graph(counting, Count(), state=Tally(), journal=mortal, run_id='g')
        except Killed:
            await mortal.bury()
            if not await journal.runs():
                return True
            result = await resume_graph(counting, 'g', journal=journal)
        assert result.output == 'counted to 5' and result.state == Tally(5)
        plain = MemoryJournal()
        await run_graph(counting, Count(), state=Tally(), journal=plain, run_id='g')
        assert await entries_of(journal, 'g') == await entries_of(plain, 'g'), 'it took the very same way'
        return mortal.dead

    assert at_every_write(main) == 12


class Mood(enum.Enum):
    GOOD = 'good'


class Cat(BaseModel):
    name: str


@dataclass
class Rich:
    """State of many types."""

    when: datetime.datetime
    price: decimal.Decimal
    mood: Mood
    pets: dict[str, Cat]
    numbers: set[int]
    pair: tuple[int, str]
    path: Path
    raw: bytes
    maybe: Cat | None = None
    ratio: float = 1
    items: tuple[str, ...] = ()
    seen: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    text: str = ''


@dataclass
class Keep(GraphNode[Rich, Any, Rich]):
    cat: Cat
    tags: list[str] = field(default_factory=list[str])
    bound: Annotated[int, Field(gt=0)] = 1

    async def run(self, ctx: GraphContext[Rich, Any]) -> End[Rich]:
        answer = await ctx.ask('Well?')
        ctx.state.text = f'{answer} {self.cat.name}'
        return End(ctx.state)


def _rich(**changes: Any) -> Rich:
    values: dict[str, Any] = {
        'when': datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.UTC),
        'price': decimal.Decimal('1.10'),
        'mood': Mood.GOOD,
        'pets': {'a': Cat(name='Mia')},
        'numbers': {3, 1},
        'pair': (1, 'x'),
        'path': Path('a/b'),
        'raw': b'plain',
        'seen': {1: [2]},
    }
    return Rich(**{**values, **changes})


keeping = build('keeping', Rich, Rich, Keep)


def test_state_and_nodes_of_many_types_come_back_as_they_were(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store('sqlite', tmp_path)
        state = _rich()
        await run_graph(keeping, Keep(Cat(name='Tom'), ['x']), state=state, journal=store.journal, run_id='g')
        result = await resume_graph(keeping, 'g', journal=await store.restart(), answers={'Keep#1': Answer('yes')})
        assert result.status == 'completed'
        assert result.state == _rich(text='yes Tom') and result.output == result.state
        stored = await resume_graph(keeping, 'g', journal=await store.restart())
        assert stored.output == _rich(text='yes Tom'), 'the output too'
        await store.journal.aclose()

    go(main())


def test_a_number_json_lacks_in_the_state(tmp_path: Path) -> None:
    async def main() -> None:
        store = Store('sqlite', tmp_path)
        state = _rich(ratio=float('inf'), text='half \udc97')
        await run_graph(keeping, Keep(Cat(name='Tom')), state=state, journal=store.journal, run_id='g')
        result = await resume_graph(keeping, 'g', journal=await store.restart())
        assert result.state.ratio == float('inf')
        await store.journal.aclose()

    go(main())


def test_the_state_at_the_end_is_what_a_later_look_shows() -> None:
    @dataclass
    class Last(GraphNode[Tally, Any, str]):
        async def run(self, ctx: GraphContext[Tally, Any]) -> End[str]:
            ctx.state.notes.append('the end')
            return End('done')

    graph = build('last', Tally, str, Last)

    async def main() -> None:
        journal = MemoryJournal()
        result = await run_graph(graph, Last(), state=Tally(), journal=journal, run_id='g')
        again = await resume_graph(graph, 'g', journal=journal)
        assert again.state == result.state == Tally(0, ['the end'])

    go(main())


# --- refused before anything runs ------------------------------------------------------------------------------------

RAN: list[str] = []


class Plain(GraphNode[Tally, Any, str]):
    """No dataclass."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    async def run(self, ctx: GraphContext[Tally, Any]) -> End[str]:
        RAN.append('Plain')
        return End('x')


@dataclass
class ToPlain(GraphNode[Tally, Any, str]):
    async def run(self, ctx: GraphContext[Tally, Any]) -> Plain:
        RAN.append('ToPlain')
        return Plain()


class Opaque:
    """Nothing pydantic knows."""


@dataclass
class Holds(GraphNode[Tally, Any, str]):
    value: Opaque | None = None

    async def run(self, ctx: GraphContext[Tally, Any]) -> End[str]:
        RAN.append('Holds')
        return End('x')


@dataclass
class First(GraphNode[Any, Any, Any]):
    value: Any = None

    async def run(self, ctx: GraphContext[Any, Any]) -> Second | End[Any]:
        RAN.append('First')
        return End('x') if self.value is None else Second()


@dataclass
class Second(GraphNode[Any, Any, Any]):
    value: Any = None

    async def run(self, ctx: GraphContext[Any, Any]) -> End[Any]:
        RAN.append('Second')
        return End('x')


@dataclass
class Base:
    name: str = ''


@dataclass
class More(Base):
    extra: int = 0


@dataclass
class Twin:
    name: str = ''


@dataclass
class Pets:
    """A union of look-alikes, and a field whose declared type is a base class."""

    one: Base | Twin
    other: Base


@dataclass
class MoreTally(Tally):
    more: int = 7


REFUSED: dict[str, tuple[Any, Any, Any]] = {
    'a node that is no dataclass': (lambda: build('g', Tally, str, Plain), lambda: Plain(), Tally()),
    'a node later on that is no dataclass': (
        lambda: build('g', Tally, str, ToPlain, Plain),
        lambda: ToPlain(),
        Tally(),
    ),
    'a field of no known type': (lambda: build('g', Tally, str, Holds), Holds, Tally()),
    'a state of no known type': (lambda: build('g', Opaque, str, First, Second), First, Opaque()),
    'a state no type was declared for': (lambda: build('g', type(None), str, First, Second), First, Tally()),
    'a state of another type': (lambda: build('g', Tally, str, Count, Check), Count, Twin()),
    'no state': (lambda: build('g', Tally, str, Count, Check), Count, None),
    'a state with more than was declared': (lambda: build('g', Tally, str, Count, Check), Count, MoreTally()),
    'a state with a value of another type': (lambda: build('g', Tally, str, Count, Check), Count, Tally('x')),  # pyright: ignore
    'an output of no known type': (lambda: build('g', Tally, Opaque, Count, Check), Count, Tally()),
    'a value of no known type': (lambda: build('g', Tally, str, First, Second), lambda: First(Opaque()), Tally()),
    'a value that would come back as a dict': (
        lambda: build('g', Tally, str, First, Second),
        lambda: First(Base('x')),
        Tally(),
    ),
    'a value that would come back as text': (
        lambda: build('g', Tally, str, First, Second),
        lambda: First(datetime.date(2026, 1, 1)),
        Tally(),
    ),
    'a value that would come back as its base': (
        lambda: build('g', Pets, str, First, Second),
        First,
        Pets(Base('a'), More('b')),
    ),
    'a value that would come back as its twin': (
        lambda: build('g', Pets, str, First, Second),
        First,
        Pets(Twin('a'), Base('b')),
    ),
    'a node of another graph': (lambda: build('g', Tally, str, First, Second), Count, Tally()),
}


@pytest.mark.parametrize('name', REFUSED)
def test_what_cannot_be_stored_is_refused_before_anything_runs(name: str) -> None:
    make, start, state = REFUSED[name]

    async def main() -> None:
        journal = MemoryJournal()
        RAN.clear()
        with pytest.raises(ConfigError) as caught:
            await run_graph(make(), start(), state=state, journal=journal, run_id='g')
        assert RAN == [] and await journal.runs() == []
        assert len(str(caught.value)) > 40, 'it says what is wrong'

    go(main())


@dataclass
class Make(GraphNode[Tally, Any, str]):
    async def run(self, ctx: GraphContext[Tally, Any]) -> Take:
        return Take(Base('x'))


@dataclass
class Take(GraphNode[Tally, Any, str]):
    value: Any

    async def run(self, ctx: GraphContext[Tally, Any]) -> End[str]:
        RAN.append('Take')
        return End('x')


def test_a_node_made_on_the_way_that_cannot_be_stored_ends_the_run_with_its_name() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        RAN.clear()
        with pytest.raises(ConfigError, match=r'Take.*Base'):
            await run_graph(build('g', Tally, str, Make, Take), Make(), state=Tally(), journal=journal, run_id='g')
        assert RAN == [] and (await journal.info('g')).status == 'failed'

    go(main())


def test_edges_that_were_not_declared() -> None:
    @dataclass
    class Sly(GraphNode[Tally, Any, str]):
        to: Literal['count', 'nothing', 'itself', 'text']

        async def run(self, ctx: GraphContext[Tally, Any]) -> Check | End[str]:
            made: dict[str, Any] = {'count': Count(), 'nothing': None, 'itself': Sly('text'), 'text': 'Check'}
            return made[self.to]

    graph = build('sly', Tally, str, Sly, Check, Count)

    async def main() -> None:
        for to in ('count', 'nothing', 'itself', 'text'):
            journal = MemoryJournal()
            with pytest.raises(GraphError, match='Sly'):
                await run_graph(graph, Sly(to), state=Tally(), journal=journal, run_id='g')
            assert (await journal.info('g')).status == 'failed'
            assert (await kinds_of(journal, 'g')) == ['started', 'entered', 'ended']

    go(main())


def test_a_node_that_fails() -> None:
    @dataclass
    class Fail(GraphNode[Tally, Any, str]):
        async def run(self, ctx: GraphContext[Tally, Any]) -> End[str]:
            raise LookupError('no way')

    graph = build('failing', Tally, str, Fail)

    async def main() -> None:
        journal = MemoryJournal()
        with pytest.raises(LookupError, match='no way'):
            await run_graph(graph, Fail(), state=Tally(), journal=journal, run_id='g')
        ended = (await entries_of(journal, 'g'))[-1]
        assert isinstance(ended, Ended) and (ended.status, ended.error_type) == ('failed', 'LookupError')
        result = await resume_graph(graph, 'g', journal=journal)
        assert result.status == 'failed' and result.output is None
        with pytest.raises(AnswerError):
            await resume_graph(graph, 'g', journal=journal, answers={'Fail#1': Answer('x')})

    go(main())


def test_run_ids_and_unknown_runs() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        result = await run_graph(counting, Count(), state=Tally(), journal=journal)
        assert (await journal.info(result.run_id)).status == 'completed'
        with pytest.raises(RunExists):
            await run_graph(counting, Count(), state=Tally(), journal=journal, run_id=result.run_id)
        with pytest.raises(UnknownRun):
            await resume_graph(counting, 'nobody', journal=journal)

    go(main())


# --- one owner -------------------------------------------------------------------------------------------------------


@dataclass
class Wait(GraphNode[Tally, Any, str]):
    async def run(self, ctx: GraphContext[Tally, Any]) -> End[str]:
        started, go_on = ctx.deps
        started.set()
        await go_on.wait()
        return End('done')


waiting = build('waiting', Tally, str, Wait)


@pytest.mark.parametrize('kind', KINDS)
def test_a_graph_that_is_driven_is_locked(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        journal = Store(kind, tmp_path).journal
        deps = (asyncio.Event(), asyncio.Event())
        task = asyncio.create_task(run_graph(waiting, Wait(), state=Tally(), deps=deps, journal=journal, run_id='g'))
        await deps[0].wait()
        with pytest.raises(RunLocked):
            await resume_graph(waiting, 'g', journal=journal, deps=deps)
        deps[1].set()
        assert (await task).output == 'done'
        assert (await resume_graph(waiting, 'g', journal=journal)).output == 'done'
        await journal.aclose()

    go(main())


def test_many_resumes_of_one_graph_at_once() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await run_counting(journal, 'g', stop_at=3)
        results = await asyncio.gather(
            *(resume_graph(counting, 'g', journal=journal) for _ in range(10)), return_exceptions=True
        )
        good = [r for r in results if not isinstance(r, BaseException)]
        assert good and all(r.output == 'counted to 5' for r in good)
        assert all(isinstance(r, RunLocked) for r in results if isinstance(r, BaseException))
        assert (await kinds_of(journal, 'g')).count('ended') == 1

    go(main())


def test_cancelling_a_graph_leaves_it_cancelled_and_its_node_stopped() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        deps = (asyncio.Event(), asyncio.Event())
        task = asyncio.create_task(run_graph(waiting, Wait(), state=Tally(), deps=deps, journal=journal, run_id='g'))
        await deps[0].wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await journal.info('g')).status == 'cancelled'
        assert (await resume_graph(waiting, 'g', journal=journal)).status == 'cancelled'

    go(main())


@pytest.mark.parametrize('after', ['cancelled', 'taken over'])
def test_a_graph_that_is_taken_from_its_driver_writes_nothing_more(after: str) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        deps = (asyncio.Event(), asyncio.Event())
        task = asyncio.create_task(run_graph(waiting, Wait(), state=Tally(), deps=deps, journal=journal, run_id='g'))
        await deps[0].wait()
        if after == 'cancelled':
            await Agent(FunctionModel(lambda m, i: 'x'), journal=journal).cancel('g')
        else:
            with pytest.raises(RunLocked) as locked:
                await journal.acquire('g', owner='other', ttl=60)
            await journal.acquire('g', owner='other', ttl=60, over=locked.value.owner)
        before = await journal.load('g')
        deps[1].set()
        with pytest.raises(RunCancelled if after == 'cancelled' else JournalConflict):
            await task
        assert await journal.load('g') == before
        result = await asyncio.gather(resume_graph(waiting, 'g', journal=journal, deps=deps), return_exceptions=True)
        if after == 'cancelled':
            assert not isinstance(result[0], BaseException) and result[0].status == 'cancelled'
        else:
            assert isinstance(result[0], RunLocked)

    go(main())


def test_a_resume_that_cannot_read_the_run_gives_it_back() -> None:
    @dataclass
    class Other(GraphNode[Tally, Any, str]):
        async def run(self, ctx: GraphContext[Tally, Any]) -> End[str]:
            return End('x')

    async def main() -> None:
        journal = MemoryJournal()
        await run_counting(journal, 'g', stop_at=3)
        before = await journal.load('g')
        for graph in (build('other', Tally, str, Other), build('counting', Pets, str, Count, Check)):
            with pytest.raises(ConfigError, match=r'is gone|the state has changed'):
                await resume_graph(graph, 'g', journal=journal)
            with pytest.raises(ConfigError, match='cannot go on in the changed graph'):
                await resume_graph(graph, 'g', journal=journal, on_change='continue')
        assert await journal.load('g') == before
        assert (await resume_graph(counting, 'g', journal=journal)).output == 'counted to 5'

    go(main())


# --- steps -----------------------------------------------------------------------------------------------------------


@dataclass
class Work(GraphNode[Tally, Any, str]):
    """Two effects, and round again."""

    async def run(self, ctx: GraphContext[Tally, Any]) -> Work | End[str]:
        log: Log = ctx.deps
        number = await ctx.step('draw', lambda: log.append(f'draw {ctx.state.count}') or len(log))

        async def send() -> str:
            log.append(f'send {number}')
            return f'sent {number}'

        ctx.state.notes.append(await ctx.step('send', send))
        ctx.state.count += 1
        return Work() if ctx.state.count < 3 else End(', '.join(ctx.state.notes))


working = build('working', Tally, str, Work)


@pytest.mark.parametrize('committed', [True, False], ids=['after the write', 'before the write'])
def test_steps_are_not_repeated_after_a_kill_at_any_write(committed: bool) -> None:
    async def main(at: int) -> bool:
        journal, log = MemoryJournal(), Log()
        mortal: Any = Mortal(journal, at, committed=committed)
        try:
            result = await run_graph(working, Work(), state=Tally(), deps=log, journal=mortal, run_id='g')
        except Killed:
            await mortal.bury()
            if not await journal.runs():
                return True
            result = await resume_graph(working, 'g', journal=journal, deps=log)
        steps = [e for e in await entries_of(journal, 'g') if isinstance(e, StepDone)]
        assert [(s.scope, s.name) for s in steps] == [(f'Work#{n}', s) for n in (1, 2, 3) for s in ('draw', 'send')]
        assert result.output == ', '.join(f'sent {s.value}' for s in steps if s.name == 'draw')
        assert result.state.count == 3 and len(result.state.notes) == 3, 'the state is that of one way through'
        repeated = len(log) - len(set(log))
        assert len(log) - 6 <= (0 if committed else 1), (at, log)
        assert repeated <= (0 if committed else 1)
        return mortal.dead

    assert at_every_write(main) == 11


# --- people ----------------------------------------------------------------------------------------------------------


@dataclass
class Form(GraphNode[Tally, Any, str]):
    """Two questions with an effect between them, in a loop."""

    number: int = 1

    async def run(self, ctx: GraphContext[Tally, Any]) -> Form | End[str]:
        name = await ctx.ask(f'Name {self.number}?')
        ctx.state.notes.append(await ctx.step('note', lambda: ctx.deps.append(name) or name))
        if await ctx.ask(f'More than {self.number}?', schema=bool):
            return Form(self.number + 1)
        return End(' and '.join(ctx.state.notes))


forming = build('forming', Tally, str, Form)


@pytest.mark.parametrize('kind', KINDS)
def test_questions_in_a_node_of_a_loop(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        result = await run_graph(forming, Form(), state=Tally(), deps=log, journal=store.journal, run_id='g')
        asked: list[Any] = []
        for reply in ('Ada', True, 'Bob', False):
            (pending,) = result.pending
            asked.append((pending.question, pending.tool_call_id, pending.tool_name, pending.reason, pending.path))
            assert (await store.journal.info('g')).status == 'paused'
            again = await resume_graph(forming, 'g', journal=store.journal, deps=log)
            assert again.status == 'paused' and again.pending == result.pending
            wrong: Any
            for wrong in ({pending: True}, {pending: ToolApproved()}, {'nobody': Answer('x')}, {pending: Answer([])}):
                with pytest.raises(AnswerError):
                    await resume_graph(forming, 'g', journal=store.journal, deps=log, answers=wrong)
            result = await resume_graph(
                forming, 'g', journal=await store.restart(), deps=log, answers={pending: Answer(reply)}
            )
            with pytest.raises(AnswerError):
                await resume_graph(forming, 'g', journal=store.journal, deps=log, answers={pending: Answer(reply)})
        assert asked == [
            ('Name 1?', 'Form#1', 'Form', 'question', ()),
            ('More than 1?', 'Form#1', 'Form', 'question', ()),
            ('Name 2?', 'Form#2', 'Form', 'question', ()),
            ('More than 2?', 'Form#2', 'Form', 'question', ()),
        ]
        assert result.output == 'Ada and Bob' and log == ['Ada', 'Bob']
        assert result.state.notes == ['Ada', 'Bob']
        await store.journal.aclose()

    go(main())


@pytest.mark.parametrize('how', ['run', 'resume'])
def test_answered_at_once(how: str) -> None:
    async def main() -> None:
        log, asked, journal = Log(), Log(), MemoryJournal()

        async def on_pending(pending: Any) -> Any:
            asked.append(pending.question)
            return Answer('Ada') if str(pending.question).startswith('Name') else Answer('2' not in pending.question)

        if how == 'run':
            result = await run_graph(forming, Form(), state=Tally(), deps=log, journal=journal, on_pending=on_pending)
        else:
            await run_graph(forming, Form(), state=Tally(), deps=log, journal=journal, run_id='g')
            result = await resume_graph(forming, 'g', journal=journal, deps=log, on_pending=on_pending)
        assert result.output == 'Ada and Ada'
        assert asked == ['Name 1?', 'More than 1?', 'Name 2?', 'More than 2?']

    go(main())


def test_a_denied_question_in_a_node() -> None:
    """There is no model to be told; the node must not go on as if it had an answer."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        result = await run_graph(forming, Form(), state=Tally(), deps=log, journal=journal, run_id='g')
        answers = {result.pending[0]: ToolDenied('none of your business')}
        with pytest.raises(AnswerError, match='none of your business'):
            await resume_graph(forming, 'g', journal=journal, deps=log, answers=answers)
        assert (await journal.info('g')).status == 'failed'
        with pytest.raises(AnswerError, match='not at once'):
            await run_graph(forming, Form(), state=Tally(), deps=log, on_pending=lambda p: ToolDenied('not at once'))
        assert log == []

    go(main())


def test_without_a_journal_a_graph_that_would_wait_says_so() -> None:
    """Nothing could ever answer it."""

    async def main() -> None:
        log = Log()
        with pytest.raises(ConfigError, match='journal'):
            await run_graph(forming, Form(), state=Tally(), deps=log)
        result = await run_graph(
            forming,
            Form(),
            state=Tally(),
            deps=log,
            on_pending=lambda p: Answer('Ada' if str(p.question).startswith('Name') else False),
        )
        assert result.output == 'Ada'

    go(main())


# --- agents in nodes -------------------------------------------------------------------------------------------------


def _usage_of(messages: Any) -> Usage:
    return Usage(input_tokens=10 * len(messages), output_tokens=1)


class Desk:
    """Two agents, a gated tool, and how often everything happened."""

    def __init__(self) -> None:
        self.asked = Log()
        self.done = Log()
        self.writer = self._agent('writer', 'publish')
        self.critic = self._agent('critic', None)

    def _agent(self, name: str, tool: str | None) -> Agent[None, str]:
        def answer(messages: Any, info: Any) -> AssistantMessage:
            self.asked.append((name, str(messages[0].content), len(messages)))
            parts: list[Any] = [TextPart(f'{name} on {messages[0].content}')]
            if tool is not None and len(messages) == 1:
                parts = [ToolCallPart(tool, {'text': str(messages[0].content)}, 'c1')]
            return AssistantMessage(parts, _usage_of(messages), finish_reason='stop')

        async def publish(ctx: RunContext[None], text: str) -> str:
            self.done.append(f'published {text}')
            return 'published'

        return Agent(FunctionModel(answer), name=name, tools=[Tool(publish, requires_approval=True)] if tool else [])


@dataclass
class Draft(GraphNode[Tally, Any, str]):
    topic: str

    async def run(self, ctx: GraphContext[Tally, Any]) -> Judge:
        opinion = await ctx.deps.critic.run(f'idea {self.topic}')
        text = await ctx.deps.writer.run(self.topic)
        ctx.state.notes += [opinion.output, text.output]
        return Judge()


@dataclass
class Judge(GraphNode[Tally, Any, str]):
    async def run(self, ctx: GraphContext[Tally, Any]) -> Draft | End[str]:
        ctx.state.count += 1
        if ctx.state.count < 2:
            return Draft(f'again {ctx.state.count}')
        return End('; '.join(ctx.state.notes))


drafting = build('drafting', Tally, str, Draft, Judge)
DRAFTED = 'critic on idea cats; writer on cats; critic on idea again 1; writer on again 1'


async def _drive(desk: Desk, journal: Any, *, run_id: str = 'g', **options: Any) -> Any:
    """Run or go on, with a yes to everything, until it is complete."""
    try:
        await journal.info(run_id)
    except UnknownRun:
        result = await run_graph(
            drafting, Draft('cats'), state=Tally(), deps=desk, journal=journal, run_id=run_id, **options
        )
    else:
        result = await resume_graph(drafting, run_id, journal=journal, deps=desk)
    while result.status == 'paused':
        answers = {p: ToolApproved() for p in result.pending}
        result = await resume_graph(drafting, run_id, journal=journal, deps=desk, answers=answers)
    return result


@pytest.mark.parametrize('kind', KINDS)
def test_agents_in_nodes_wait_and_go_on(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, desk = Store(kind, tmp_path), Desk()
        result = await run_graph(drafting, Draft('cats'), state=Tally(), deps=desk, journal=store.journal, run_id='g')
        (pending,) = result.pending
        assert (pending.tool_name, pending.path, pending.args) == ('publish', ('Draft#1',), {'text': 'cats'})
        assert pending.run_id == 'g:Draft#1:2'
        assert len(desk.asked) == 2 and desk.done == []
        after_restart = await store.restart()
        result = await resume_graph(
            drafting, 'g', journal=after_restart, deps=desk, answers={('Draft#1', 'c1'): ToolApproved()}
        )
        assert result.pending[0].path == ('Draft#3',) and desk.done == ['published cats']
        result = await resume_graph(
            drafting, 'g', journal=after_restart, deps=desk, answers={result.pending[0]: ToolApproved()}
        )
        assert result.output == DRAFTED and desk.done == ['published cats', 'published again 1']
        assert len(desk.asked) == len(set(desk.asked)) == 6, 'no model was asked twice'
        assert result.usage is not None
        assert (result.usage.requests, result.usage.tool_calls, result.usage.input_tokens) == (6, 2, 100)
        again = await resume_graph(drafting, 'g', journal=after_restart)
        assert again.usage == result.usage
        assert {i.status for i in await after_restart.runs()} == {'completed'}
        await after_restart.aclose()

    go(main())


def test_usage_of_a_graph_that_waits_counts_its_agents() -> None:
    async def main() -> None:
        desk, journal = Desk(), MemoryJournal()
        result = await run_graph(drafting, Draft('cats'), state=Tally(), deps=desk, journal=journal, run_id='g')
        assert result.usage is not None and result.usage.requests == len(desk.asked) == 2

    go(main())


@pytest.mark.parametrize('committed', [True, False], ids=['after the write', 'before the write'])
def test_agents_in_nodes_killed_at_any_write(committed: bool) -> None:
    async def main(at: int) -> bool:
        journal, desk = MemoryJournal(), Desk()
        mortal: Any = Mortal(journal, at, committed=committed)
        try:
            result = await _drive(desk, mortal)
        except Killed:
            await mortal.bury()
            result = await _drive(desk, journal)
        assert result.output == DRAFTED, at
        extra = len(desk.asked) - len(set(desk.asked))
        assert extra <= 1, 'at most the request in flight was made again'
        # A call in flight is never repeated unasked; here everything is allowed, so once more at most.
        assert set(desk.done) == {'published cats', 'published again 1'} and len(desk.done) <= 3
        assert result.usage is not None
        assert (result.usage.requests, result.usage.tool_calls, result.usage.input_tokens) == (6, 2, 100), at
        return mortal.dead

    assert at_every_write(main) > 30


@pytest.mark.parametrize(
    ('limits', 'name'),
    [
        (UsageLimits(request_limit=3), 'request_limit'),
        (UsageLimits(tool_calls_limit=1), 'tool_calls_limit'),
        (UsageLimits(total_tokens_limit=60), 'total_tokens_limit'),
    ],
)
@pytest.mark.parametrize('restart', [False, True])
def test_limits_over_all_agents_in_the_nodes(limits: UsageLimits, name: str, restart: bool) -> None:
    async def main() -> None:
        desk, journal = Desk(), MemoryJournal()
        work = _drive(desk, journal, usage_limits=limits)
        if not restart:
            work.close()
            work = run_graph(
                drafting,
                Draft('cats'),
                state=Tally(),
                deps=desk,
                journal=journal,
                run_id='g',
                usage_limits=limits,
                on_pending=lambda p: ToolApproved(),
            )
        with pytest.raises(UsageLimitExceeded) as caught:
            await work
        assert caught.value.limit == name
        assert len(desk.asked) <= 5 and len(desk.done) <= 1
        if name == 'request_limit':
            assert len(desk.asked) == 3
        assert (await journal.info('g')).status == 'failed'

    go(main())


def test_a_graph_in_a_tool_of_an_agent_in_a_node() -> None:
    """Deeper than one would like, and still one run with one owner and one account."""

    async def main() -> None:
        desk, journal = Desk(), MemoryJournal()

        async def delegate() -> str:
            return (await desk.critic.run('deep')).output

        def answer(messages: Any, info: Any) -> Any:
            return 'outer' if len(messages) > 1 else [call('delegate', {}, 'd')]

        outer = Agent(FunctionModel(answer), name='outer', tools=[delegate])

        @dataclass
        class Only(GraphNode[Tally, Any, str]):
            async def run(self, ctx: GraphContext[Tally, Any]) -> End[str]:
                return End((await outer.run('go')).output)

        result = await run_graph(
            build('only', Tally, str, Only), Only(), state=Tally(), deps=desk, journal=journal, run_id='g'
        )
        assert result.output == 'outer' and result.usage is not None and result.usage.requests == 3
        ids = {i.run_id for i in await journal.runs()}
        assert ids == {'g', 'g:Only#1:1', 'g:Only#1:1:d:1'}

    go(main())


def test_the_path_as_a_picture() -> None:
    async def main() -> None:
        desk, journal = Desk(), MemoryJournal()
        await _drive(desk, journal)
        records = await journal.load('g')
        picture = render.run(records)
        assert picture.startswith(('---\n', 'flowchart'))
        for name in ('Draft', 'Judge', 'End'):
            assert name in picture
        tree = render.tree(records)
        assert tree.count('Draft') >= 2 and tree.count('Judge') >= 2

    go(main())


# --- the rest of what runs have, for graphs too ----------------------------------------------------------------------


def test_forks_of_a_graph() -> None:
    """An agent's `fork` needs a journal and a run id only, so any agent with that journal can fork a graph's run."""

    async def main() -> None:
        desk, journal = Desk(), MemoryJournal()
        await _drive(desk, journal)
        original = await journal.load('g')
        helper = Agent(FunctionModel(lambda m, i: 'x'), journal=journal)
        for record in original[:-1]:
            if record.seq == 1:
                continue
            fork = await helper.fork('g', at=record.seq, new_run_id=f'f{record.seq}')
            result = await _drive(desk, journal, run_id=fork)
            assert result.output == DRAFTED, record
        assert await journal.load('g') == original
        by_name = await helper.fork('g', at='Judge')
        assert (await _drive(desk, journal, run_id=by_name)).output == DRAFTED

    go(main())


def test_following_a_graph() -> None:
    async def main() -> None:
        desk, journal = Desk(), MemoryJournal()
        result = await run_graph(drafting, Draft('cats'), state=Tally(), deps=desk, journal=journal, run_id='g')

        async def read() -> list[int]:
            return [r.seq async for r in journal.follow('g')]

        reading = asyncio.create_task(read())
        assert result.status == 'paused'
        await _drive(desk, journal)
        assert await reading == list(range(1, len(await journal.load('g')) + 1))

    go(main())
