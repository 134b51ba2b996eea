"""Code that changed between the stop and `resume`: refused by name, allowed on purpose, and never half done."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agent_graph import (
    Agent,
    AnswerError,
    AssistantMessage,
    CodecError,
    ConfigError,
    Journal,
    JournalConflict,
    JournalError,
    MemoryJournal,
    RunContext,
    RunState,
    Tool,
    ToolApproved,
    ToolDenied,
    UnknownRun,
    resume_graph,
)
from agent_graph.journal.entries import Edited
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel
from tests.durable.kit import KINDS, Killed, Mortal, Store, entries_of, pending_ids, stored_state
from tests.engine.kit import Log, answers_of, call, go


def model() -> FunctionModel:
    return FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('pay', {'euros': 5}, 'c1')])


async def pay(euros: int) -> str:
    """Pay."""
    return f'{euros} paid'


async def look(city: str = 'Rome') -> str:
    """Look."""
    return city


def agent_with(journal: Journal, *tools: Any, **options: Any) -> Agent[None, Any]:
    return Agent(model(), tools=tools, journal=journal, **options)


async def stopped(journal: Journal) -> None:
    """A paused run `r` of an agent with the tools `pay` (gated) and `look`, and text as output."""
    result = await agent_with(journal, Tool(pay, requires_approval=True), look).run('go', run_id='r')
    assert pending_ids(result) == ['c1']


def _renamed(name: str) -> Any:
    async def pay(euros: int) -> str:
        return 'paid'

    return Tool(pay, name=name, requires_approval=True)


def _with(annotation: Any) -> Any:
    async def pay(euros: Any) -> str:
        return 'paid'

    pay.__annotations__['euros'] = annotation
    return Tool(pay, requires_approval=True)


async def _more(euros: int, note: str) -> str:
    return 'paid'


async def _with_default(euros: int = 3) -> str:
    return 'paid'


class Report(BaseModel):
    title: str


@dataclass
class Other:
    title: str


GATED = Tool(pay, requires_approval=True)
CHANGES: dict[str, tuple[Callable[[Journal], Agent[None, Any]], list[str]]] = {
    'a tool gone': (lambda j: agent_with(j, GATED), ["tool 'look' is gone"]),
    'a tool more': (lambda j: agent_with(j, GATED, look, Tool(look, name='see')), ["tool 'see' is new"]),
    'a tool renamed': (
        lambda j: agent_with(j, _renamed('transfer'), look),
        ["tool 'pay' is gone", "'transfer' is new"],
    ),
    'another type': (lambda j: agent_with(j, _with(float), look), ["arguments of tool 'pay'"]),
    'a narrower type': (lambda j: agent_with(j, _with(Literal[5, 6]), look), ["arguments of tool 'pay'"]),
    'a bound': (lambda j: agent_with(j, _with(Annotated[int, Field(le=3)]), look), ["arguments of tool 'pay'"]),
    'one argument more': (
        lambda j: agent_with(j, Tool(_more, name='pay', requires_approval=True), look),
        ["arguments of tool 'pay'"],
    ),
    'a default': (
        lambda j: agent_with(j, Tool(_with_default, name='pay', requires_approval=True), look),
        ["arguments of tool 'pay'"],
    ),
    'another output': (lambda j: agent_with(j, GATED, look, output_type=int), ['output has changed']),
    'a model as output': (lambda j: agent_with(j, GATED, look, output_type=Report), ['output has changed']),
    'no output allowed': (lambda j: agent_with(j, GATED, look, output_type=[str, None]), ['output has changed']),
    'everything': (
        lambda j: agent_with(j, _with(str), output_type=Other),
        ["tool 'look' is gone", "arguments of tool 'pay'", 'output has changed'],
    ),
}


@pytest.mark.parametrize('name', CHANGES)
def test_refused_by_name_and_nothing_else_is_named(name: str) -> None:
    make, expected = CHANGES[name]

    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        before = await journal.load('r')
        agent = make(journal)
        for answers in (None, {'c1': ToolApproved()}):
            with pytest.raises(ConfigError) as caught:
                await agent.resume('r', answers=answers)
            for text in expected:
                assert text in str(caught.value)
            assert str(caught.value).count(';') == len(expected) - 1, caught.value
        assert await journal.load('r') == before
        seen: list[list[str]] = []
        with pytest.raises(ConfigError):
            await agent.resume('r', on_change=lambda changes: seen.append(changes) or False)
        assert len(seen) == 1 and len(seen[0]) == len(expected)
        assert await journal.load('r') == before
        # And the one that was not changed goes on.
        result = await agent_with(journal, GATED, look).resume('r', answers={'c1': ToolApproved()})
        assert result.output == 'done'

    go(main())


async def _reworded(euros: Annotated[int, Field(description='How much?', title='Amount')]) -> str:
    """Give money away."""
    return f'{euros} paid'


SAME: dict[str, Callable[[Journal], Agent[None, Any]]] = {
    'other words': lambda j: agent_with(j, Tool(_reworded, name='pay', description='Money.'), look),
    'other order': lambda j: agent_with(j, look, GATED),
    'other instructions': lambda j: agent_with(j, GATED, look, instructions='Be brief.', name='another'),
    'other rules': lambda j: agent_with(j, Tool(pay, retries=7, timeout=3, on_crash='never'), look, retries=5),
    'with a context': lambda j: agent_with(j, Tool(_with_context, name='pay', requires_approval=True), look),
}


async def _with_context(ctx: RunContext[None], euros: int) -> str:
    return f'{euros} paid to {ctx.run_id}'


@pytest.mark.parametrize('name', SAME)
def test_what_the_model_cannot_tell_apart_is_no_change(name: str) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        result = await SAME[name](journal).resume('r', answers={'c1': ToolApproved()})
        assert result.output == 'done' and '5 paid' in str(answers_of(result.messages)[0].content)

    go(main())


@pytest.mark.parametrize('how', ['continue', 'function', 'async function'])
def test_allowed_on_purpose(how: str) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        asked = Log()

        def decide(changes: list[str]) -> bool:
            asked.append(changes)
            return True

        async def decide_async(changes: list[str]) -> bool:
            return decide(changes)

        given: dict[str, Any] = {'continue': 'continue', 'function': decide, 'async function': decide_async}
        agent = agent_with(journal, GATED, look, Tool(look, name='see'))
        result = await agent.resume('r', answers={'c1': ToolApproved()}, on_change=given[how])
        assert result.output == 'done'
        assert asked == ([] if how == 'continue' else [["tool 'see' is new"]])

    go(main())


@pytest.mark.parametrize('given', ['Continue', 'yes', '', True, None, 1], ids=repr)
def test_an_on_change_that_does_not_exist_is_no_yes(given: Any) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        before = await journal.load('r')
        agent = agent_with(journal, GATED, look, Tool(look, name='see'))
        with pytest.raises(ConfigError):
            await agent.resume('r', answers={'c1': ToolApproved()}, on_change=given)
        assert await journal.load('r') == before

    go(main())


async def _says_no(changes: list[str]) -> bool:
    return False


class _Decides:
    async def __call__(self, changes: list[str]) -> bool:
        return False


@pytest.mark.parametrize('given', [_says_no, _Decides(), lambda c: _says_no(c)], ids=['function', 'object', 'lambda'])  # pyright: ignore
def test_an_async_no_is_a_no(given: Any) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        agent = agent_with(journal, GATED, look, Tool(look, name='see'))
        with pytest.raises(ConfigError):
            await agent.resume('r', answers={'c1': ToolApproved()}, on_change=given)

    go(main())


def test_the_one_who_decides_may_fail() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        before = await journal.load('r')

        def decide(changes: list[str]) -> bool:
            raise LookupError('who knows')

        agent = agent_with(journal, GATED)
        with pytest.raises(LookupError):
            await agent.resume('r', answers={'c1': ToolApproved()}, on_change=decide)
        assert await journal.load('r') == before
        assert pending_ids(await agent_with(journal, GATED, look).resume('r')) == ['c1']

    go(main())


def test_going_on_without_the_tool_that_waits() -> None:
    """The approved call's tool is gone: the model is told, and nothing is made up."""

    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        agent = agent_with(journal, look)
        result = await agent.resume('r', on_change='continue')
        if result.status == 'paused':
            result = await agent.resume('r', answers={'c1': ToolApproved()}, on_change='continue')
        assert result.output == 'done'
        (part,) = answers_of(result.messages)
        assert part.outcome == 'retry' and 'pay' in str(part.content)

    go(main())


def test_going_on_with_arguments_that_no_longer_fit() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        await stopped(journal)

        async def pay(euros: Annotated[int, Field(le=3)]) -> str:
            log.append(euros)
            return 'paid'

        agent = agent_with(journal, Tool(pay, requires_approval=True), look)
        result = await agent.resume('r', answers={'c1': ToolApproved()}, on_change='continue')
        assert result.output == 'done' and log == []
        assert answers_of(result.messages)[0].outcome == 'retry'

    go(main())


@pytest.mark.parametrize('how', ['resume', 'resume_iter', 'resume_stream'])
def test_every_way_to_resume_refuses(how: str) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        agent = agent_with(journal, GATED)

        async def stream() -> None:
            async with agent.resume_stream('r') as s:
                await s.result()

        work: dict[str, Callable[[], Awaitable[Any]]] = {
            'resume': lambda: agent.resume('r'),
            'resume_iter': lambda: agent.resume_iter('r').__aenter__(),
            'resume_stream': stream,
        }
        with pytest.raises(ConfigError, match="tool 'look' is gone"):
            await work[how]()
        async with agent.resume_iter('r', on_change='continue') as run:
            assert run.result is not None and run.result.status == 'paused'

    go(main())


def test_a_run_that_has_ended_is_not_refused() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        await agent_with(journal, GATED, look).resume('r', answers={'c1': ToolApproved()})
        assert (await agent_with(journal).resume('r')).output == 'done'

    go(main())


# --- runs of somebody else -------------------------------------------------------------------------------------------


def test_unknown_runs() -> None:
    async def main() -> None:
        agent = agent_with(MemoryJournal(), GATED)
        for work in (agent.resume('nobody'), agent.cancel('nobody'), agent.fork('nobody'), agent.replay('nobody')):
            with pytest.raises(UnknownRun):
                await work
        with pytest.raises(UnknownRun):
            async with agent.resume_stream('nobody') as s:
                await s.result()

    go(main())


def test_a_run_of_another_graph_is_refused_and_stays_free() -> None:
    from tests.durable.graphs import Count, Tally, counting, run_counting

    async def main() -> None:
        journal = MemoryJournal()
        await run_counting(journal, 'g', stop_at=2)
        agent = agent_with(journal, GATED)
        for _ in range(2):
            with pytest.raises((CodecError, ConfigError, JournalError)) as caught:
                await agent.resume('g')
            assert type(caught.value).__name__ != 'RunLocked', 'the first attempt did not give the run back'
        result = await resume_graph(counting, 'g', journal=journal)
        assert result.output == 'counted to 5'
        _ = Count, Tally

    go(main())


def test_a_run_of_an_agent_is_no_run_of_a_graph() -> None:
    from tests.durable.graphs import counting

    async def main() -> None:
        journal = MemoryJournal()
        async with agent_with(journal, GATED, look).iter('go', run_id='r') as run:
            await run.next()
        for _ in range(2):
            with pytest.raises((CodecError, ConfigError, JournalError)) as caught:
                await resume_graph(counting, 'r', journal=journal)
            assert type(caught.value).__name__ != 'RunLocked', 'the first attempt did not give the run back'
        result = await agent_with(journal, GATED, look).resume('r')
        assert pending_ids(result) == ['c1']

    go(main())


# --- migrating -------------------------------------------------------------------------------------------------------


def renaming(old: str, new: str, **args: Any) -> Callable[[list[str], RunState], RunState]:
    """Renames a tool in the past, and adds arguments to its calls."""

    def part(p: Any) -> Any:
        if p.kind == 'tool_call' and p.tool_name == old:
            return replace(p, tool_name=new, args={**p.args, **args})
        return replace(p, tool_name=new) if p.kind == 'tool_return' and p.tool_name == old else p

    def migrate(changes: list[str], state: RunState) -> RunState:
        assert f'tool {old!r} is gone' in changes and f'tool {new!r} is new' in changes
        state.messages = [
            replace(m, parts=tuple(part(p) for p in m.parts)) if m.kind in ('assistant', 'tool') else m  # pyright: ignore
            for m in state.messages
        ]
        return state

    return migrate


def _transfer(log: Log, **options: Any) -> Tool:
    async def transfer(euros: int, note: str) -> str:
        log.append((euros, note))
        return f'{euros} transferred'

    return Tool(transfer, **options)


@pytest.mark.parametrize('override', [None, {'euros': 1, 'note': 'by hand'}], ids=['plain', 'override'])
@pytest.mark.parametrize('kind', KINDS)
def test_a_call_that_waits_is_migrated_and_answered_at_once(kind: str, override: Any, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        result = await agent_with(store.journal, GATED, look).run('go', run_id='r')
        waiting = result.pending[0]
        agent = agent_with(await store.restart(), _transfer(log, requires_approval=True), look)
        migrate = renaming('pay', 'transfer', note='migrated')
        shown = await agent.resume('r', on_change=migrate)
        assert shown.pending == (waiting,), 'nothing happens to a run that waits'
        with pytest.raises(AnswerError, match=r'no tool|cannot be used'):
            await agent.resume('r', answers={waiting: ToolApproved({'euros': 1})}, on_change=migrate)
        result = await agent.resume('r', answers={waiting: ToolApproved(override)}, on_change=migrate)
        assert result.output == 'done' and log == [(1, 'by hand') if override else (5, 'migrated')]
        (part,) = answers_of(result.messages)
        assert (part.tool_name, part.tool_call_id) == ('transfer', 'c1') and is_valid(result.messages)
        calls = [
            p for m in result.messages if isinstance(m, AssistantMessage) for p in m.parts if p.kind == 'tool_call'
        ]
        assert [(p.tool_name, p.args) for p in calls] == [('transfer', {'euros': 5, 'note': 'migrated'})]
        entries = await entries_of(store.journal, 'r')
        (edited,) = [e for e in entries if isinstance(e, Edited)]
        assert edited.fingerprint is not None and 'transfer' in str(edited.fingerprint)
        assert (await stored_state(store.journal, 'r')).fingerprint == edited.fingerprint
        assert (await agent.replay('r')).output == 'done', "the run is the new agent's now"
        await store.journal.aclose()

    go(main())


def test_a_denied_call_stays_denied_under_its_new_name() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()

        def answer(messages: Any, info: Any) -> Any:
            name = info.tools[0].name
            args = {'euros': 5} if name == 'pay' else {'euros': 5, 'note': 'n'}
            return 'done' if len(messages) > 4 else [call(name, args, f'c{len(messages)}')]

        agent = Agent(FunctionModel(answer), tools=[GATED], journal=journal)
        result = await agent.run('go', run_id='r')
        async with agent.resume_iter('r', answers={result.pending[0]: ToolDenied('no')}) as run:
            await run.next()  # the denial is handled, and the model not asked again yet
        agent = Agent(FunctionModel(answer), tools=[_transfer(log, requires_approval=True)], journal=journal)
        result = await agent.resume('r', on_change=renaming('pay', 'transfer', note='n'))
        assert [p.outcome for p in answers_of(result.messages)] == ['denied', 'denied'] and log == []

    go(main())


def test_a_call_a_crash_cut_off_is_migrated() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        mortal = Mortal(journal, 6, committed=False)
        with pytest.raises(Killed):
            await agent_with(mortal, Tool(pay, on_crash='retry'), look).run('go', run_id='r')
        await mortal.bury()
        agent = agent_with(journal, _transfer(log, on_crash='retry'), look)
        result = await agent.resume('r', on_change=renaming('pay', 'transfer', note='m'))
        assert result.output == 'done' and log == [(5, 'm')]

    go(main())


def test_a_call_that_had_finished_is_not_run_under_its_new_name() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        mortal = Mortal(journal, 7, committed=False)
        with pytest.raises(Killed):
            await agent_with(mortal, pay, look).run('go', run_id='r')
        await mortal.bury()
        agent = agent_with(journal, _transfer(log), look)
        result = await agent.resume('r', on_change=renaming('pay', 'transfer', note='m'))
        assert result.output == 'done' and log == []
        (part,) = answers_of(result.messages)
        assert (part.tool_name, part.content) == ('transfer', '5 paid')

    go(main())


async def _left_behind(journal: Journal) -> None:
    """A run between its first request and the response."""
    async with agent_with(journal, pay, look).iter('go', run_id='r', metadata={'v': 1}) as run:
        await run.next()


@pytest.mark.parametrize('how', ['continue', True, 'state'])
def test_once_it_has_gone_on_it_is_the_new_agent_s(how: Any) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await _left_behind(journal)
        asked: list[Any] = []

        def migrate(changes: list[str], state: RunState) -> Any:
            asked.append(changes)
            state.metadata = {'v': 2}
            return state if how == 'state' else how

        mortal = Mortal(journal, 2)  # the change, and one thing more
        new = agent_with(mortal, pay)
        with pytest.raises(Killed):
            await new.resume('r', on_change='continue' if how == 'continue' else migrate)
        await mortal.bury()
        with pytest.raises(ConfigError, match="tool 'look' is new"):
            await agent_with(journal, pay, look).resume('r')
        result = await agent_with(journal, pay).resume('r')
        assert result.output == 'done' and asked == ([] if how == 'continue' else [["tool 'look' is gone"]])
        assert result.metadata == {'v': 1 if how == 'continue' else 2}

    go(main())


def _takes_away(changes: list[str], state: RunState) -> RunState:
    state.messages = state.messages[:-1]
    return state


def _renames_the_id(changes: list[str], state: RunState) -> RunState:
    state.messages[-1] = AssistantMessage([call('look', {}, 'other')])
    return state


def _tampers(changes: list[str], state: RunState) -> RunState:
    state.tool_calls = 0
    state.requests = 0
    return state


NO: dict[str, Any] = {
    'nothing': lambda changes, state: None,  # pyright: ignore
    'a word': lambda changes, state: 'yes',  # pyright: ignore
    'the messages': lambda changes, state: state.messages,  # pyright: ignore
    'no': lambda changes, state: False,  # pyright: ignore
    'without the response that waits': _takes_away,
    'without the call that waits': _renames_the_id,
    'another count': _tampers,
}


@pytest.mark.parametrize('name', NO)
def test_a_migration_in_doubt_is_a_no(name: str) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await stopped(journal)
        before = copy.deepcopy(await journal.load('r'))
        for answers in (None, {'c1': ToolApproved()}):
            with pytest.raises(ConfigError):
                await agent_with(journal, GATED).resume('r', answers=answers, on_change=NO[name])
        assert await journal.load('r') == before
        assert pending_ids(await agent_with(journal, GATED, look).resume('r')) == ['c1']

    go(main())


def test_a_run_that_went_on_meanwhile_is_not_given_an_old_past() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await _left_behind(journal)

        async def migrate(changes: list[str], state: RunState) -> RunState:
            async with agent_with(journal, pay, look).resume_iter('r') as run:
                await run.next()
                await run.next()
            return state

        with pytest.raises(JournalConflict, match='gone on'):
            await agent_with(journal, pay).resume('r', on_change=migrate)
        result = await agent_with(journal, pay, look).resume('r')
        assert result.output == 'done'

    go(main())
