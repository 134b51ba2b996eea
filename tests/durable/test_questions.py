"""`ctx.ask`, `ctx.step` and external tools: asked once, done once, answered once, with the type that was asked for."""

from __future__ import annotations

import asyncio
import datetime
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from agent_graph import (
    Agent,
    Answer,
    AnswerError,
    ApprovalRequired,
    ConfigError,
    FilePart,
    Journal,
    MemoryJournal,
    ModelRetry,
    RunContext,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolFailed,
    ToolReturn,
    UnknownRun,
)
from agent_graph.journal.entries import Answered, StepDone
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import (
    KINDS,
    Killed,
    Mortal,
    Store,
    at_every_write,
    entries_of,
    pending_ids,
    stored_state,
    unchanged,
)
from tests.engine.kit import Log, answers_of, call, go


class Color(enum.Enum):
    RED = 'red'
    BLUE = 'blue'


@dataclass
class Address:
    street: str
    number: int


class Guest(BaseModel):
    name: str
    children: list[str] = []


TYPES: dict[str, tuple[Any, Any, Any]] = {
    'text': (str, 'x', 'x'),
    'empty text': (str, '', ''),
    'whole number': (int, 3, 3),
    'number': (float, 1.5, 1.5),
    'truth': (bool, False, False),
    'nothing': (None, None, None),
    'maybe': (str | None, None, None),
    'choice': (Literal['a', 'b'], 'b', 'b'),
    'enum by value': (Color, 'blue', Color.BLUE),
    'enum itself': (Color, Color.RED, Color.RED),
    'list': (list[int], [1, 2], [1, 2]),
    'tuple': (tuple[int, str], (1, 'a'), (1, 'a')),
    'date': (datetime.date, datetime.date(2026, 1, 2), datetime.date(2026, 1, 2)),
    'date as text': (datetime.date, '2026-01-02', datetime.date(2026, 1, 2)),
    'dataclass': (Address, Address('High St', 3), Address('High St', 3)),
    'dataclass as data': (Address, {'street': 'High St', 'number': 3}, Address('High St', 3)),
    'model': (Guest, Guest(name='Ada', children=['B']), Guest(name='Ada', children=['B'])),
    'model as data': (Guest, {'name': 'Ada'}, Guest(name='Ada')),
    'dict': (dict[str, int], {'a': 1}, {'a': 1}),
    'bounded': (Annotated[int, Field(gt=0, lt=10)], 9, 9),
    'anything': (Any, {'a': [None]}, {'a': [None]}),
}


@pytest.mark.parametrize('name', TYPES)
def test_an_answer_comes_back_as_the_type_asked_for(name: str, tmp_path: Path) -> None:
    schema, value, expected = TYPES[name]

    async def main() -> None:
        store, got = Store('sqlite' if name in ('date', 'model', 'enum itself') else 'memory', tmp_path), Log()

        async def form(ctx: RunContext[None]) -> str:
            got.append(await ctx.ask('What?', schema=schema))
            return 'done'

        model = ScriptedModel([[call('form')], 'done'])
        result = await Agent(model, tools=[form], journal=store.journal).run('go', run_id='r')
        (pending,) = result.pending
        assert (pending.reason, pending.question, pending.tool_name) == ('question', 'What?', 'form')
        assert pending.schema is not None
        agent = Agent(model, tools=[form], journal=await store.restart())
        assert (await agent.resume('r')).pending == result.pending, 'it is the same after a restart'
        result = await agent.resume('r', answers={pending: Answer(value)})
        assert result.output == 'done' and got == [expected]
        assert type(got[0]) is type(expected)
        await store.journal.aclose()

    go(main())


class _Strict(BaseModel):
    start: int
    end: int

    @field_validator('end')
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError('must be even')
        return value


WRONG: dict[str, tuple[Any, Any]] = {
    'yes for a truth': (bool, 'yes'),
    'no for a truth': (bool, 'no'),
    'one for a truth': (bool, 1),
    'off for a truth': (bool, 'off'),
    'truth for a number': (int, True),
    'number for text': (str, 5),
    'another choice': (Literal['a', 'b'], 'c'),
    'another value': (Color, 'green'),
    'too small': (Annotated[int, Field(gt=0)], 0),
    'too long': (Annotated[str, Field(max_length=2)], 'abc'),
    'another pattern': (Annotated[str, Field(pattern='^[a-z]+$')], 'A1'),
    'field missing': (Address, {'street': 'High St'}),
    'field of another type': (Address, {'street': 'High St', 'number': 'three'}),
    'unknown item': (list[int], [1, 'b']),
    'too few items': (tuple[int, str], [1]),
    'nothing': (int, None),
}


@pytest.mark.parametrize('name', WRONG)
def test_an_answer_of_another_type_is_refused_before_anything_runs(name: str) -> None:
    schema, value = WRONG[name]

    async def main() -> None:
        journal, log = MemoryJournal(), Log()

        async def form(ctx: RunContext[None]) -> str:
            log.append('started')
            log.append(await ctx.ask('What?', schema=schema))
            return 'done'

        agent = Agent(ScriptedModel([[call('form')], 'done']), tools=[form], journal=journal)
        result = await agent.run('go', run_id='r')
        before = await journal.load('r')
        with unchanged(log), pytest.raises(AnswerError) as caught:
            await agent.resume('r', answers={'form': Answer(value)})
        assert repr(value) in str(caught.value), 'it shows the value'
        assert await journal.load('r') == before
        assert (await agent.resume('r')).pending == result.pending

    go(main())


LATE: dict[str, tuple[Any, Any, str, Any, Any]] = {
    'a check in Python': (
        _Strict,
        {'start': 1, 'end': 3},
        'must be even',
        {'start': 1, 'end': 4},
        _Strict(start=1, end=4),
    ),
    'a text that is no date': (datetime.date, 'tomorrow', 'date', '2026-01-02', datetime.date(2026, 1, 2)),
}


@pytest.mark.parametrize('name', LATE)
def test_what_only_the_type_itself_can_refuse_is_asked_again(name: str) -> None:
    """Such a check is no part of the schema, so it is found out when the tool takes the answer."""
    schema, wrong, why, right, expected = LATE[name]

    async def main() -> None:
        log = Log()

        async def form(ctx: RunContext[None]) -> str:
            first = await ctx.ask('What?', schema=schema)
            second = await ctx.ask('And?')
            log.append((first, second))
            return 'done'

        agent = Agent(ScriptedModel([[call('form')], 'done']), tools=[form], journal=MemoryJournal())
        first = await agent.run('go', run_id='r')
        result = await agent.resume('r', answers={'form': Answer(wrong)})
        (pending,) = result.pending
        assert pending != first.pending[0] and pending.question is not None
        assert pending.question.startswith('What?') and why in pending.question and log == []
        result = await agent.resume('r', answers={pending: Answer(right)})
        assert result.pending[0].question == 'And?'
        result = await agent.resume('r', answers={result.pending[0].token: Answer('that')})
        assert result.output == 'done' and log == [(expected, 'that')]

    go(main())


# --- several questions, steps between them ---------------------------------------------------------------------------


def hotel(journal: Journal | None, log: Log, model: Any) -> Agent[None, str]:
    """Approval, an effect, a question, an effect, another question."""

    async def book(ctx: RunContext[None], city: str) -> str:
        if not ctx.approved:
            raise ApprovalRequired(f'A hotel in {city}?')

        async def reserve() -> dict[str, Any]:
            log.append('reserve')
            return {'room': 17, 'beds': (1, 2)}

        room = await ctx.step('reserve', reserve)
        name = await ctx.ask('In whose name?')
        paid = await ctx.step('pay', lambda: log.append(f'pay for {name}') or 40)
        nights = await ctx.ask('How many nights?', schema=int)
        log.append('end')
        return f'{room} {name} {paid} {nights}'

    return Agent(model, tools=[book], journal=journal)


BOOK: list[Any] = [[call('book', {'city': 'Rome'}, 'c1')], 'done']
BOOKED = "{'room': 17, 'beds': [1, 2]} Ada 40 2"
REPLIES: list[Any] = [ToolApproved(), Answer('Ada'), Answer(2)]


@pytest.mark.parametrize('kind', [*KINDS, 'none'])
def test_several_questions_and_steps_in_one_tool(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        log, model = Log(), ScriptedModel(BOOK)
        store = None if kind == 'none' else Store(kind, tmp_path)
        agent = hotel(store.journal if store else None, log, model)
        result = await agent.run('go', run_id='r')
        asked: list[Any] = []
        for reply in REPLIES:
            (pending,) = result.pending
            asked.append((pending.reason, pending.question, pending.attempt, pending.args))
            if store is not None:
                agent = hotel(await store.restart(), log, model)
            result = await agent.resume('r', answers={pending: reply})
        assert asked == [
            ('approval', 'A hotel in Rome?', 1, {'city': 'Rome'}),
            ('question', 'In whose name?', 2, {'city': 'Rome'}),
            ('question', 'How many nights?', 3, {'city': 'Rome'}),
        ]
        assert result.output == 'done'
        assert answers_of(result.messages)[0].content == BOOKED
        assert log == ['reserve', 'pay for Ada', 'end'], 'nothing was done twice'
        assert result.usage.tool_calls == 1, 'it is one call, however often it waited'
        if store is not None:
            entries = await entries_of(store.journal, 'r')
            assert [e.name for e in entries if isinstance(e, StepDone)] == ['reserve', 'pay']
            assert [e.value for e in entries if isinstance(e, Answered)] == [None, 'Ada', 2]
            await store.journal.aclose()

    go(main())


@pytest.mark.parametrize('committed', [True, False], ids=['after the write', 'before the write'])
def test_killed_at_any_write_and_nothing_is_asked_or_done_twice(committed: bool) -> None:
    """Each step and each answer counts once; only a step that was in flight is done again."""

    async def main(at: int) -> bool:
        journal, log = MemoryJournal(), Log()
        model = FunctionModel(lambda messages, info: BOOK[len(messages) > 1])
        mortal = Mortal(journal, at, committed=committed)
        replies: dict[str | None, Any] = {
            'A hotel in Rome?': ToolApproved(),
            'In whose name?': Answer('Ada'),
            'How many nights?': Answer(2),
        }
        deaths, crashes, result = 0, 0, None
        answers: dict[Any, Any] | None = None
        for _ in range(14):
            agent = hotel(mortal, log, model)
            try:
                try:
                    await journal.info('r')
                except UnknownRun:
                    result = await agent.run('go', run_id='r')
                else:
                    result = await agent.resume('r', answers=answers)
            except Killed:
                deaths += 1
                await mortal.bury()
                mortal, answers = Mortal(journal), None
                continue
            if result.status == 'completed':
                break
            answers = {}
            for pending in result.pending:
                crashes += pending.reason == 'crash'
                answers[pending] = ToolApproved() if pending.reason == 'crash' else replies[pending.question]
        assert deaths <= 1 and crashes <= deaths
        assert result is not None and result.output == 'done'
        state = await stored_state(journal, 'r')
        assert answers_of(state.messages)[0].content == BOOKED
        assert state.tool_calls == 1
        # What was done and not recorded is done again, and only that.
        extra = list(log)
        for entry in ('reserve', 'pay for Ada', 'end'):
            extra.remove(entry)
        assert len(extra) <= deaths, (at, log)
        return deaths > 0

    assert at_every_write(main) > 20, 'all writes have been the last once'


def test_questions_side_by_side_in_several_calls() -> None:
    async def main() -> None:
        log = Log()

        async def form(ctx: RunContext[None], field: str) -> str:
            value = await ctx.ask(f'{field}?')
            log.append((field, value))
            return value

        calls = [call('form', {'field': f}, f'c{i}') for i, f in enumerate('abc')]
        agent = Agent(ScriptedModel([calls, 'done']), tools=[form], journal=MemoryJournal())
        result = await agent.run('go')
        assert [p.question for p in result.pending] == ['a?', 'b?', 'c?']
        result = await agent.resume(result.run_id, answers={'c1': Answer('B')})
        assert [p.question for p in result.pending] == ['a?', 'c?'] and log == [('b', 'B')]
        result = await agent.resume(result.run_id, answers={'c2': Answer('C'), 'c0': Answer('A')})
        assert [p.content for p in answers_of(result.messages)] == ['A', 'B', 'C']
        assert sorted(log) == [('a', 'A'), ('b', 'B'), ('c', 'C')]

    go(main())


def test_the_same_question_twice_is_two_questions() -> None:
    async def main() -> None:
        async def form(ctx: RunContext[None]) -> str:
            return f'{await ctx.ask("Name?")} and {await ctx.ask("Name?")}'

        agent = Agent(ScriptedModel([[call('form')], 'done']), tools=[form], journal=MemoryJournal())
        first = await agent.run('go')
        second = await agent.resume(first.run_id, answers={first.pending[0]: Answer('Ada')})
        assert second.pending[0] != first.pending[0], 'an old answer cannot be taken for the new question'
        with pytest.raises(AnswerError):
            await agent.resume(first.run_id, answers={first.pending[0]: Answer('Ada')})
        result = await agent.resume(first.run_id, answers={second.pending[0]: Answer('Bob')})
        assert answers_of(result.messages)[0].content == 'Ada and Bob'

    go(main())


def test_a_denied_question_is_told_to_the_model_and_the_tool_stops_there() -> None:
    async def main() -> None:
        log = Log()

        async def form(ctx: RunContext[None]) -> str:
            try:
                value = await ctx.ask('Name?')
            finally:
                log.append('left')
            log.append('never')
            return value

        agent = Agent(ScriptedModel([[call('form')], 'done']), tools=[form], journal=MemoryJournal())
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers={'form': ToolDenied('none of your business')})
        part = answers_of(result.messages)[0]
        assert (part.outcome, part.content) == ('denied', 'none of your business')
        assert log == ['left'], 'it is not even begun again'

    go(main())


def test_a_tool_may_go_on_failing_and_asking_after_an_answer() -> None:
    async def main() -> None:
        async def form(ctx: RunContext[None]) -> str:
            name = await ctx.ask('Name?')
            if ctx.retry == 0:
                raise ModelRetry(f'{name} is not a name')
            return name

        script = [[call('form', {}, 'c1')], [call('form', {}, 'c2')], 'done']
        agent = Agent(ScriptedModel(script), tools=[form], journal=MemoryJournal())
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers={'c1': Answer('x')})
        assert pending_ids(result) == ['c2'], 'another call asks for itself'
        result = await agent.resume(result.run_id, answers={'c2': Answer('Ada')})
        assert [p.content for p in answers_of(result.messages)] == ['x is not a name', 'Ada']

    go(main())


def test_two_questions_at_once_inside_one_tool() -> None:
    async def main() -> None:
        async def form(ctx: RunContext[None]) -> str:
            async with asyncio.TaskGroup() as group:
                name, age = group.create_task(ctx.ask('Name?')), group.create_task(ctx.ask('Age?', schema=int))
            return f'{name.result()} {age.result()}'

        agent = Agent(ScriptedModel([[call('form')], 'done']), tools=[form], journal=MemoryJournal())
        result = await agent.run('go')
        for _ in range(2):
            assert result.status == 'paused'
            replies = {p: Answer(3 if p.question == 'Age?' else 'Ada') for p in result.pending}
            if not replies or result.output:
                break
            result = await agent.resume(result.run_id, answers=replies)
        assert answers_of(result.messages)[0].content == 'Ada 3'

    go(main())


def test_code_that_catches_every_exception_does_not_swallow_the_question() -> None:
    async def main() -> None:
        async def form(ctx: RunContext[None]) -> str:
            try:
                return await ctx.ask('Name?')
            except Exception:
                return 'nobody'

        agent = Agent(ScriptedModel([[call('form')], 'done']), tools=[form], journal=MemoryJournal())
        result = await agent.run('go')
        assert result.status == 'paused'
        result = await agent.resume(result.run_id, answers={'form': Answer('Ada')})
        assert answers_of(result.messages)[0].content == 'Ada'

    go(main())


# --- steps -----------------------------------------------------------------------------------------------------------


def test_what_a_step_gives_is_the_same_the_first_time_and_later() -> None:
    async def main() -> None:
        seen = Log()

        async def form(ctx: RunContext[None]) -> str:
            seen.append(await ctx.step('data', lambda: {'t': (1, 2), 'd': datetime.date(2026, 1, 2)}))
            seen.append(await ctx.step('nothing', lambda: None))
            await ctx.ask('Go on?')
            return 'done'

        agent = Agent(ScriptedModel([[call('form')], 'done']), tools=[form], journal=MemoryJournal())
        result = await agent.run('go')
        await agent.resume(result.run_id, answers={'form': Answer('yes')})
        assert seen == [{'t': [1, 2], 'd': '2026-01-02'}, None] * 2

    go(main())


def test_a_step_that_fails_is_not_recorded_and_the_others_are() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        async def form(ctx: RunContext[None]) -> str:
            await ctx.step('one', lambda: log.append('one'))

            async def two() -> None:
                log.append('two')
                raise LookupError('no two')

            try:
                await ctx.step('two', two)
            except LookupError:
                log.append('caught')
            await ctx.ask('Go on?')
            return 'done'

        agent = Agent(ScriptedModel([[call('form')], 'done']), tools=[form], journal=journal)
        await agent.run('go', run_id='r')
        await agent.resume('r', answers={'form': Answer('yes')})
        assert log == ['one', 'two', 'caught', 'two', 'caught']

    go(main())


def test_one_name_for_two_steps_of_one_call_is_not_silently_one_step() -> None:
    """In a loop, the second effect would quietly not happen."""

    async def main() -> None:
        log = Log()

        async def mail(ctx: RunContext[None]) -> str:
            for who in ('Ada', 'Bob'):
                await ctx.step('mail', lambda who=who: log.append(who))
            return 'done'

        agent = Agent(ScriptedModel([[call('mail')], 'done']), tools=[mail], journal=MemoryJournal())
        with pytest.raises(ToolFailed, match=r"ctx.step.'mail'. was done already"):
            await agent.run('go')
        assert log == ['Ada']

    go(main())


def test_steps_of_equal_calls_are_different_steps() -> None:
    async def main() -> None:
        log = Log()

        async def mail(ctx: RunContext[None]) -> int:
            number: int = await ctx.step('mail', lambda: log.append(ctx.tool_call_id) or len(log))
            return number

        script = [[call('mail', {}, 'c1'), call('mail', {}, 'c2')], [call('mail', {}, 'c3')], 'done']
        agent = Agent(ScriptedModel(script), tools=[mail], journal=MemoryJournal())
        result = await agent.run('go')
        assert log == ['c1', 'c2', 'c3']
        assert [p.content for p in answers_of(result.messages)] == [1, 2, 3]

    go(main())


@pytest.mark.parametrize('what', ['ask', 'step'])
@pytest.mark.parametrize('where', ['instructions', 'validator', 'output function'])
def test_outside_a_tool_there_is_nothing_to_wait_in(where: str, what: str) -> None:
    async def main() -> None:
        async def use(ctx: RunContext[None]) -> str:
            if what == 'ask':
                return await ctx.ask('What?')
            return await ctx.step('x', lambda: 'x')

        async def final(ctx: RunContext[None], value: str) -> str:
            return await use(ctx)

        model = ScriptedModel([[call('final_result', {'value': 'x'})]] if where == 'output function' else ['done'])
        agent: Agent[None, str] = Agent(
            model,
            output_type=final if where == 'output function' else str,
            instructions=use if where == 'instructions' else None,
            journal=MemoryJournal(),
        )
        if where == 'validator':

            @agent.output_validator
            async def check(ctx: RunContext[None], value: str) -> str:  # pyright: ignore[reportUnusedFunction]
                return await use(ctx)

        with pytest.raises(Exception, match=r'outside a tool|in an output function') as caught:
            await agent.run('go')
        assert isinstance(caught.value, ConfigError | ToolFailed)

    go(main())


# --- external --------------------------------------------------------------------------------------------------------


def office(journal: Journal, log: Log, model: Any) -> Agent[None, str]:
    async def sign(document: str, copies: int = 1) -> str:
        log.append('never')
        return 'never'

    return Agent(model, tools=[Tool(sign, external=True), log.tool('free')], journal=journal)


@pytest.mark.parametrize('kind', KINDS)
def test_somebody_else_returns_the_result(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        calls = [call('sign', {'document': d}, f'c{i}') for i, d in enumerate('abcd')]
        model = ScriptedModel([[*calls, call('free')], 'done'])
        result = await office(store.journal, log, model).run('go', run_id='r')
        assert log == ['free']
        assert [(p.reason, p.args) for p in result.pending] == [('external', {'document': d}) for d in 'abcd']
        agent = office(await store.restart(), log, model)
        picture = FilePart.from_bytes(b'\x89PNG', 'image/png')
        result = await agent.resume('r', answers={'c1': ToolReturn({'by': 'Ada'}, metadata={'at': 1})})
        assert pending_ids(result) == ['c0', 'c2', 'c3']
        result = await agent.resume('r', answers={'c0': ToolReturn('x', content=picture), 'c3': ToolDenied('no')})
        result = await agent.resume('r', answers={'c2': ToolReturn(None)})
        told = answers_of(model.requests[1].messages)
        assert [p.content for p in told] == ['x', {'by': 'Ada'}, None, 'no', 'free done']
        assert told[1].metadata == {'at': 1} and told[0].extra_content == (picture,)
        assert [p.outcome for p in told] == ['success', 'success', 'success', 'denied', 'success']
        assert log == ['free'], 'the function is never called'
        await store.journal.aclose()

    go(main())


def test_an_external_call_that_does_not_fit_is_sent_back_to_the_model() -> None:
    async def main() -> None:
        log = Log()
        model = ScriptedModel([[call('sign', {'paper': 1}, 'c1')], [call('sign', {'document': 'a'}, 'c2')], 'done'])
        agent = office(MemoryJournal(), log, model)
        result = await agent.run('go')
        assert pending_ids(result) == ['c2']
        assert answers_of(result.messages)[0].outcome == 'retry'
        result = await agent.resume(result.run_id, answers={'c2': ToolReturn('signed')})
        assert result.output == 'done' and log == []

    go(main())


def test_an_external_tool_that_ends_the_run() -> None:
    async def main() -> None:
        async def sign() -> str:
            raise NotImplementedError

        model = ScriptedModel([[call('sign')]])
        agent = Agent(model, tools=[Tool(sign, external=True, stop_after=True)], journal=MemoryJournal())
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers={'sign': ToolReturn('signed')})
        assert result.output == 'signed' and result.status == 'completed'

    go(main())


@pytest.mark.parametrize('confirm', ['always', 'per_tool'])
def test_an_external_tool_that_needs_approval_is_asked_about_once(confirm: Any) -> None:
    async def main() -> None:
        async def sign() -> str:
            raise NotImplementedError

        model = ScriptedModel([[call('sign')], 'done'])
        agent = Agent(model, tools=[Tool(sign, external=True, requires_approval=True)], journal=MemoryJournal())
        result = await agent.run('go', confirm=confirm)
        assert [p.reason for p in result.pending] == ['external']
        result = await agent.resume(result.run_id, answers={'sign': ToolReturn('signed')})
        assert result.output == 'done'

    go(main())
