"""Forks: another way on from any entry; the original stays as it is, and what had finished is not done again."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    Answer,
    AssistantMessage,
    ConfigError,
    Journal,
    MemoryJournal,
    ModelRetry,
    RunContext,
    RunExists,
    SystemMessage,
    TextPart,
    Tool,
    ToolApproved,
    ToolCallPart,
    ToolDenied,
    ToolFailed,
    ToolMessage,
    ToolReturnPart,
    UnknownRun,
    Usage,
    UsageLimitExceeded,
    UsageLimits,
    UserMessage,
)
from agent_graph.journal import Record
from agent_graph.journal.entries import Answered, CallFinished, CallStarted, Ended, Entered, Paused
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import KINDS, Store, kinds_of, pending_ids, stored_state, yes
from tests.engine.kit import Log, Wire, answers_of, call, go


def model() -> FunctionModel:
    """A tool that fails once, then a free, a gated and an asking one together, then their results as text."""

    def answer(messages: Any, info: Any) -> Any:
        last = messages[-1]
        if not isinstance(last, ToolMessage):
            return _counted(call('add', {'a': 1}, 'c1'))
        if last.parts[0].outcome == 'retry':
            return _counted(
                call('add', {'a': 1, 'b': 2}, 'c2'), call('delete', {'path': 'x'}, 'c3'), call('book', {}, 'c4')
            )
        return _counted(TextPart('; '.join(f'{p.outcome} {p.content}' for p in last.parts)))

    return FunctionModel(answer)


def _counted(*parts: Any) -> AssistantMessage:
    return AssistantMessage(parts, Usage(input_tokens=10, output_tokens=1), finish_reason='stop')


def make_agent(log: Log, journal: Journal | None, **options: Any) -> Agent[None, str]:
    agent: Agent[None, str] = Agent(model(), name='forked', journal=journal, instructions='Be exact.', **options)

    @agent.tool
    async def add(ctx: RunContext[None], a: int, b: int = 0) -> int:
        log.append(f'{ctx.run_id} add {a} {b}')
        if b == 0:
            raise ModelRetry('b is missing')
        return a + b

    @agent.tool(requires_approval=True)
    async def delete(ctx: RunContext[None], path: str) -> str:
        log.append(f'{ctx.idempotency_key} delete {path}')
        return f'{path} is gone'

    @agent.tool
    async def book(ctx: RunContext[None]) -> str:
        await ctx.step('reserve', lambda: log.append(f'{ctx.run_id} reserve'))
        nights = await ctx.ask('How many nights?', schema=int)
        log.append(f'{ctx.run_id} book {nights}')
        return f'{nights} nights'

    return agent


OUTPUT = 'success 3; success x is gone; success 2 nights'


async def finish(agent: Agent[None, str], run_id: str) -> Any:
    """Go on until it is complete, with a yes to everything."""
    result = await agent.resume(run_id)
    for _ in range(5):
        if result.status != 'paused':
            break
        assert all(p.run_id == run_id for p in result.pending), result.pending
        answers: dict[Any, Any] = {p: Answer(2) if p.reason == 'question' else ToolApproved() for p in result.pending}
        result = await agent.resume(run_id, answers=answers)
    return result


async def recorded(agent: Agent[None, str]) -> list[Record]:
    """The run that is forked in these tests, complete, under the id `r`."""
    assert agent.journal is not None
    await agent.run('go', run_id='r')
    result = await finish(agent, 'r')
    assert result.output == OUTPUT
    return await agent.journal.load('r')


@pytest.mark.parametrize('kind', KINDS)
def test_at_every_entry(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        original = await recorded(make_agent(log, store.journal))
        kinds = [r.entry.kind for r in original]
        assert {'started', 'entered', 'call_started', 'call_finished', 'paused', 'answered', 'step_done'} < set(kinds)
        for record in original[:-1]:
            agent = make_agent(log, await store.restart() if record.seq % 10 == 1 else store.journal)
            log.clear()
            prefix = original[: record.seq]
            fork = await agent.fork('r', at=record.seq, new_run_id=f'f{record.seq}')
            assert fork == f'f{record.seq}'
            info = await store.journal.info(fork)
            assert info.forked_from == ('r', record.seq) and info.status in ('running', 'paused')
            assert await store.journal.load(fork) == prefix
            result = await finish(agent, fork)
            assert result.output == OUTPUT, (record.seq, result)
            assert result.run_id == fork and is_valid(result.messages)
            _check_effects(log, fork, prefix)
            state = await stored_state(store.journal, fork)
            assert state.usage.requests == 3 and state.usage.input_tokens == 30
            assert await store.journal.load('r') == original, 'the original is untouched'
            assert (await store.journal.load(fork))[: record.seq] == prefix
        await store.journal.aclose()

    go(main(), seconds=60)


def _check_effects(log: Log, fork: str, prefix: list[Record]) -> None:
    """What had finished before the point was not done again, and what comes after it was done once."""
    finished = {r.entry.part.tool_call_id for r in prefix if isinstance(r.entry, CallFinished)}
    effects = {
        'c1': f'{fork} add 1 0',
        'c2': f'{fork} add 1 2',
        'c3': f'{fork}:c3 delete x',
        'c4': f'{fork} book 2',
    }
    assert {c for c, effect in effects.items() if effect in log} == effects.keys() - finished
    reserved = any(r.entry.kind == 'step_done' for r in prefix)
    assert log.count(f'{fork} reserve') == (0 if reserved else 1)
    assert len(log) == len(set(log)), log


@pytest.mark.parametrize(
    ('at', 'expected'), [('UserPrompt', 0), ('ModelRequest', -1), ('HandleResponse', -1), (None, None)]
)
def test_at_a_node_by_its_name_is_its_last_entry(at: str | None, expected: int | None) -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal())
        original = await recorded(agent)
        fork = await agent.fork('r', at=at)
        entered = [r.seq for r in original if isinstance(r.entry, Entered) and r.entry.node == at]
        want = original[-1].seq - 1 if expected is None else entered[expected]
        assert (await agent.journal.info(fork)).forked_from == ('r', want)  # pyright: ignore[reportOptionalMemberAccess]
        assert (await finish(agent, fork)).output == OUTPUT

    go(main())


@pytest.mark.parametrize(
    'at', [0, -1, 10_000, True, False, 2.0, '3', 'Nope', 'End', '', 'modelrequest', b'ModelRequest']
)
def test_at_a_place_that_does_not_exist(at: Any) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal)
        original = await recorded(agent)
        with pytest.raises(ConfigError) as caught:
            await agent.fork('r', at=at)
        assert repr(at) in str(caught.value)
        assert len(await journal.runs()) == 1 and await journal.load('r') == original

    go(main())


def test_at_the_end_and_of_nobody() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal)
        original = await recorded(agent)
        with pytest.raises(ConfigError, match='ends'):
            await agent.fork('r', at=original[-1].seq)
        with pytest.raises(UnknownRun):
            await agent.fork('nobody')
        with pytest.raises(RunExists):
            await agent.fork('r', new_run_id='r')
        first = await agent.fork('r')
        with pytest.raises(RunExists):
            await agent.fork('r', new_run_id=first)
        with pytest.raises(ConfigError, match='journal'):
            await Agent(model()).fork('r')
        assert {info.run_id for info in await journal.runs()} == {'r', first}

    go(main())


# --- edit ------------------------------------------------------------------------------------------------------------


def _set(name: str, value: Any) -> Callable[[Any], None]:
    return lambda state: setattr(state, name, value)


def test_edit_changes_the_fork_and_nothing_else() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal, metadata={'tags': ['a'], 'n': 1})
        original = copy.deepcopy(await recorded(agent))

        def edit(state: Any) -> None:
            state.metadata['tags'].append('b')
            state.metadata['n'] = 2
            state.limits = UsageLimits(request_limit=9)
            call_part = state.messages[2].parts[0]
            call_part.args['a'] = 100  # what must not reach the original by way of a shared object

        fork = await agent.fork('r', at='HandleResponse', edit=edit)
        assert await journal.load('r') == original
        state = await stored_state(journal, fork)
        assert state.metadata == {'tags': ['a', 'b'], 'n': 2}
        assert state.limits == UsageLimits(request_limit=9)
        result = await finish(agent, fork)
        assert result.metadata == {'tags': ['a', 'b'], 'n': 2}
        assert await journal.load('r') == original

    go(main())


def test_an_edited_response_is_the_one_that_is_handled() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()

        async def pay(euros: int) -> str:
            log.append(euros)
            return f'{euros} paid'

        def answer(messages: Any, info: Any) -> Any:
            return messages[-1].parts[0].content if len(messages) > 1 else [call('pay', {'euros': 5}, 'c1')]

        agent = Agent(FunctionModel(answer), tools=[pay], journal=journal)
        await agent.run('go', run_id='r')
        assert log == [5]

        def cheaper(state: Any) -> None:
            state.messages[-1] = AssistantMessage([call('pay', {'euros': 1}, 'c1'), call('pay', {'euros': 2}, '')])

        fork = await agent.fork('r', at=4, edit=cheaper)
        result = await agent.resume(fork)
        assert log == [5, 1, 2] and result.output == '1 paid' and is_valid(result.messages)
        assert (await agent.replay(fork)).output == '1 paid'
        # The call has begun at the next entry: there it can be changed, but not be taken away.
        again = await agent.resume(await agent.fork('r', at=6, edit=cheaper))
        assert log == [5, 1, 2, 2] and again.output == '5 paid'
        for at, messages in (
            (4, []),
            (4, [UserMessage('go')]),
            (6, [AssistantMessage([call('pay', {'euros': 1}, 'x')])]),
        ):
            with pytest.raises(ConfigError, match='took away'):
                await agent.fork('r', at=at, edit=_set('messages', messages))

    go(main())


def test_edit_may_return_a_state() -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal())
        await recorded(agent)

        def edit(state: Any) -> Any:
            made = copy.deepcopy(state)
            made.metadata = {'edited': True}
            return made

        fork = await agent.fork('r', edit=edit)
        assert (await finish(agent, fork)).metadata == {'edited': True}

    go(main())


def test_edit_that_changes_nothing_writes_nothing() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal)
        original = await recorded(agent)
        fork = await agent.fork('r', at=5, edit=lambda state: None)
        assert await journal.load(fork) == original[:5]

    go(main())


BAD_EDITS: dict[str, Any] = {
    'run_id': _set('run_id', 'other'),
    'step': _set('step', 0),
    'requests': _set('requests', 0),
    'tool_calls': _set('tool_calls', 0),
    'finished': lambda state: state.finished.clear(),  # pyright: ignore
    'approved': _set('approved', frozenset({'c3'})),
    'denied': _set('denied', frozenset({('delete', '{}')})),
    'pending': lambda state: state.pending.update(c9=()),  # pyright: ignore
    'returns junk': lambda state: 'junk',  # pyright: ignore
    'returns a list': lambda state: state.messages,  # pyright: ignore
    'messages of no kind': _set('messages', ['hello']),
    'messages as text': _set('messages', 'hello'),
    'messages gone': _set('messages', None),
    'metadata that is no data': _set('metadata', {'x': object()}),
    'metadata of no kind': _set('metadata', 5),
    'limits of no kind': _set('limits', {'request_limit': 3}),
}


@pytest.mark.parametrize('name', BAD_EDITS)
def test_an_edit_that_cannot_be(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = Store('memory', tmp_path)
        agent = make_agent(Log(), store.journal)
        original = await recorded(agent)
        point = next(r.seq for r in original if isinstance(r.entry, CallFinished))
        with pytest.raises(ConfigError):
            await agent.fork('r', at=point, edit=BAD_EDITS[name])
        assert len(await store.journal.runs()) == 1, 'no half-made fork is left'
        assert await store.journal.load('r') == original
        await store.journal.aclose()

    go(main())


def test_an_edit_that_raises() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal)
        original = await recorded(agent)

        def edit(state: Any) -> None:
            state.messages.clear()
            raise LookupError('no')

        with pytest.raises(LookupError):
            await agent.fork('r', at=5, edit=edit)
        assert len(await journal.runs()) == 1 and await journal.load('r') == original

    go(main())


def test_an_async_edit_is_awaited_or_refused() -> None:
    async def main() -> None:
        agent = make_agent(Log(), MemoryJournal())
        await recorded(agent)

        async def edit(state: Any) -> None:
            state.metadata = {'edited': True}

        try:
            fork = await agent.fork('r', at=5, edit=edit)
        except ConfigError:
            return
        assert (await stored_state(agent.journal, fork)).metadata == {'edited': True}  # pyright: ignore

    go(main())


def test_another_past_is_made_valid_and_its_calls_are_not_run() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(log, journal)
        await recorded(agent)
        log.clear()

        def edit(state: Any) -> None:
            state.messages = [
                SystemMessage('Be exact.'),
                UserMessage('something else\udc97'),
                AssistantMessage([ToolCallPart('add', {'a': 7}, 'old')]),
            ]

        fork = await agent.fork('r', at=2, edit=edit)
        assert log == []
        result = await finish(agent, fork)
        assert is_valid(result.messages)
        assert UserMessage('something else\ufffd') in result.messages
        assert not any('add 7' in entry for entry in log)

    go(main())


def _limit(name: str, value: int) -> UsageLimits:
    return UsageLimits(request_limit=value) if name == 'request_limit' else UsageLimits(tool_calls_limit=value)


@pytest.mark.parametrize('limit', ['request_limit', 'tool_calls_limit'])
def test_a_run_that_hit_its_limit_goes_on_with_a_higher_one(limit: str) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(log, journal)
        with pytest.raises(UsageLimitExceeded):
            await agent.run('go', run_id='r', usage_limits=_limit(limit, 1))
        before = list(log)
        fork = await agent.fork('r', edit=_set('limits', _limit(limit, 50)))
        result = await finish(agent, fork)
        assert result.output == OUTPUT
        assert 'r add 1 0' in before and f'{fork} add 1 0' not in log, 'the finished call was not repeated'
        assert (await agent.resume('r')).status == 'failed'

    go(main())


# --- replace ---------------------------------------------------------------------------------------------------------


def test_another_question_another_response_another_answer() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()

        def echo(messages: Any, info: Any) -> Any:
            last = messages[-1]
            if isinstance(last, ToolMessage):
                return f'told {last.parts[0].content}'
            return [call('look', {'city': last.content}, 'c1')]

        async def look(city: str) -> str:
            log.append(city)
            return f'{city} is nice'

        agent = Agent(FunctionModel(echo), tools=[look], journal=journal)
        await agent.run('Rome', run_id='r')
        original = await journal.load('r')
        requests = [r.seq for r in original if isinstance(r.entry, Entered) and r.entry.node == 'ModelRequest']
        response = next(r.seq for r in original if isinstance(r.entry, Entered) and r.entry.response is not None)

        asked = await agent.fork('r', at=requests[0], replace=UserMessage('Oslo'))
        assert (await agent.resume(asked)).output == 'told Oslo is nice'
        other = AssistantMessage([call('look', {'city': 'Bern'}, 'c1')])
        called = await agent.fork('r', at=response, replace=other)
        assert (await agent.resume(called)).output == 'told Bern is nice'
        told = ToolMessage([ToolReturnPart('look', 'rain', 'c1')])
        answered = await agent.fork('r', at=requests[1], replace=told)
        assert (await agent.resume(answered)).output == 'told rain'
        final = await agent.fork('r', replace=AssistantMessage([TextPart('no comment')]), at='HandleResponse')
        assert (await agent.resume(final)).output == 'no comment'
        said = await agent.fork('r', at=requests[1], replace=UserMessage('never mind'))
        result = await agent.resume(said)
        assert is_valid(result.messages)
        assert log == ['Rome', 'Oslo', 'Bern', 'never mind']
        assert await journal.load('r') == original
        assert (await journal.info(asked)).forked_from == ('r', requests[0] - 1)

    go(main())


IDS: dict[str, list[str]] = {
    'no ids': ['', ''],
    'the same id': ['c1', 'c1'],
    'an id used before': ['c1', 'c2'],
}


@pytest.mark.parametrize('ids', IDS)
def test_calls_put_in_by_hand_get_ids_of_their_own(ids: str) -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()

        async def look(city: str) -> str:
            log.append(city)
            return f'{city} is nice'

        agent = Agent(
            FunctionModel(lambda m, i: 'done' if len(m) > 3 else [call('look', {'city': 'Rome'}, f'c{len(m)}')]),
            tools=[look],
            journal=journal,
        )
        await agent.run('go', run_id='r')
        log.clear()
        second = [call('look', {'city': c}, i or '') for c, i in zip(('Oslo', 'Bern'), IDS[ids], strict=True)]
        second = [ToolCallPart(p.tool_name, p.args, i) for p, i in zip(second, IDS[ids], strict=True)]
        fork = await agent.fork('r', at='HandleResponse', replace=AssistantMessage(second))
        result = await agent.resume(fork)
        assert is_valid(result.messages) and sorted(log) == ['Bern', 'Oslo']
        assert [p.content for p in answers_of(result.messages)][-2:] == ['Oslo is nice', 'Bern is nice']
        all_ids = [p.tool_call_id for p in answers_of(result.messages)]
        assert len(set(all_ids)) == len(all_ids)
        await stored_state(journal, fork)

    go(main())


def test_a_message_in_a_place_it_does_not_fit() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal)
        original = await recorded(agent)
        bad: list[tuple[Any, Any]] = [
            ('ModelRequest', AssistantMessage([TextPart('x')])),
            ('HandleResponse', UserMessage('x')),
            ('UserPrompt', UserMessage('x')),
            (1, UserMessage('x')),
            ('ModelRequest', SystemMessage('x')),
            ('ModelRequest', 'x'),
            ('HandleResponse', 'x'),
            (next(r.seq for r in original if isinstance(r.entry, CallStarted)), UserMessage('x')),
            (next(r.seq for r in original if isinstance(r.entry, Paused)), UserMessage('x')),
        ]
        for at, message in bad:
            with pytest.raises(ConfigError):
                await agent.fork('r', at=at, replace=message)
        assert len(await journal.runs()) == 1

    go(main())


def test_edit_and_replace_together() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = make_agent(Log(), journal)
        await recorded(agent)
        fork = await agent.fork('r', at=3, replace=UserMessage('otherwise'), edit=_set('metadata', {'edited': True}))
        state = await stored_state(journal, fork)
        assert state.metadata == {'edited': True}
        result = await finish(agent, fork)
        assert [m.content for m in result.messages if isinstance(m, UserMessage)] == ['otherwise']

    go(main())


# --- forks of forks, deletion ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('kind', 'order'), [('memory', 'r a b'), ('memory', 'b a r'), ('sqlite', 'a r b'), ('sqlite', 'r b a')]
)
def test_forks_of_forks_outlive_what_they_came_from(kind: str, order: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        agent = make_agent(log, store.journal)
        original = await recorded(agent)
        await agent.fork('r', at=8, new_run_id='a')
        await finish(agent, 'a')
        of_a = await store.journal.load('a')
        await agent.fork('a', at=12, new_run_id='b')
        await agent.fork('b', at=6, new_run_id='c')
        of_b, of_c = await store.journal.load('b'), await store.journal.load('c')
        assert of_b == of_a[:12] and of_c == original[:6]
        expected = {'r': original, 'a': of_a, 'b': of_b}
        for name in order.split():
            await store.journal.delete(name)
            del expected[name]
            for left, records in expected.items():
                assert await store.journal.load(left) == records
            assert await store.journal.load('c') == of_c
            with pytest.raises(UnknownRun):
                await agent.resume(name)
        result = await finish(make_agent(log, await store.restart()), 'c')
        assert result.output == OUTPUT
        assert (await store.journal.info('c')).forked_from == ('b', 6)
        await store.journal.aclose()

    go(main())


def test_many_forks_of_one_entry_at_once() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(log, journal)
        await recorded(agent)
        log.clear()
        forks = await asyncio.gather(*(agent.fork('r', at='ModelRequest') for _ in range(20)))
        results = await asyncio.gather(*(finish(agent, fork) for fork in forks))
        assert len(set(forks)) == 20 and {r.output for r in results} == {OUTPUT}
        assert log == []

    go(main())


# --- forks of runs that did not end well -----------------------------------------------------------------------------


@pytest.mark.parametrize('kind', KINDS)
def test_a_fork_of_a_paused_run_has_a_life_of_its_own(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        agent = make_agent(log, store.journal)
        await agent.run('go', run_id='r')
        original = await store.journal.load('r')
        log.clear()
        fork = await agent.fork('r', new_run_id='f')
        waiting = await agent.resume(fork)
        assert pending_ids(waiting) == ['c3', 'c4'] and {p.run_id for p in waiting.pending} == {'f'}
        result = await agent.resume(fork, answers={'c3': ToolDenied('no'), 'c4': Answer(1)})
        assert result.output == 'success 3; denied no; success 1 nights'
        assert await store.journal.load('r') == original
        assert log == ['f book 1']
        assert (await finish(agent, 'r')).output == OUTPUT
        assert (await agent.resume('f')).output == result.output
        await store.journal.aclose()

    go(main())


def test_a_fork_of_a_run_that_waits_inside() -> None:
    """The inner run that waits is the original's: answering the fork's question must not answer that."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        async def delete(ctx: RunContext[None], path: str) -> str:
            log.append(ctx.run_id)
            return 'gone'

        def inner_model(m: Any, i: Any) -> Any:
            return 'inner' if len(m) > 1 else [call('delete', {'path': 'x'}, 'c')]

        inner = Agent(FunctionModel(inner_model), name='inner', tools=[Tool(delete, requires_approval=True)])

        async def delegate() -> str:
            return (await inner.run('task')).output

        agent = Agent(
            FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('delegate', {}, 'd')]),
            tools=[delegate],
            journal=journal,
        )
        await agent.run('go', run_id='r')
        before = {info.run_id: await journal.load(info.run_id) for info in await journal.runs()}
        fork = await agent.fork('r')
        result = await agent.resume(fork)
        for _ in range(3):
            if result.status != 'paused':
                break
            result = await agent.resume(fork, answers=yes(result))
        assert result.output == 'done' and len(log) == 1
        for run_id, records in before.items():
            assert await journal.load(run_id) == records, f'{run_id} was touched'
        result = await agent.resume('r')
        result = await agent.resume('r', answers=yes(result))
        assert result.output == 'done' and len(log) == 2

    go(main())


def test_a_fork_of_a_cancelled_run_asks_again_and_does_not_take_the_half_response_for_whole() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = Agent(Wire(pieces=1000, pause=0.001), journal=journal)
        async with agent.run_stream('go', run_id='r') as s:
            async for text in s.text():
                if len(text) > 20:
                    break
        assert (await journal.info('r')).status == 'cancelled'
        after = Agent(ScriptedModel(['the whole answer']), journal=journal)
        fork = await after.fork('r')
        result = await after.resume(fork)
        assert result.output == 'the whole answer'
        assert is_valid(result.messages)

    go(main())


def test_a_fork_of_a_run_whose_response_was_cut_off_runs_no_call_of_it() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        waiting = asyncio.Event()

        async def half(messages: Any, info: Any) -> Any:
            yield call('pay', {}, 'c1')
            waiting.set()
            await asyncio.sleep(60)

        agent = Agent(FunctionModel(half), tools=[log.tool('pay')], journal=journal)
        task = asyncio.create_task(agent.run('go', run_id='r'))
        await waiting.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        after = Agent(ScriptedModel(['done']), tools=[log.tool('pay')], journal=journal)
        result = await after.resume(await after.fork('r'))
        assert result.output == 'done' and log == []

    go(main())


def test_a_fork_of_a_failed_run_goes_on_before_the_failure() -> None:
    async def main() -> None:
        log, journal, broken = Log(), MemoryJournal(), [True]

        async def fetch() -> str:
            log.append('fetch')
            if broken[0]:
                raise OSError('the network is gone')
            return 'fetched'

        model = FunctionModel(lambda m, i: str(answers_of(m)[0].content) if len(m) > 1 else [call('fetch')])
        agent = Agent(model, tools=[fetch], journal=journal)
        with pytest.raises(ToolFailed):
            await agent.run('go', run_id='r')
        broken[0] = False
        result = await agent.resume(await agent.fork('r', at='HandleResponse'))
        assert result.output == 'fetched' and log == ['fetch', 'fetch']
        result = await agent.resume(await agent.fork('r'))
        assert result.output == 'fetched' and log == ['fetch'] * 3, 'by default a fork makes the failed call again'

    go(main())


def test_a_fork_while_the_original_runs_on() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        agent = make_agent(log, journal)
        async with agent.iter('go', run_id='r') as run:
            for _ in range(4):
                await run.next()
            fork = await agent.fork('r', at='HandleResponse')
            await run.to_end()
        assert (await finish(agent, fork)).output == OUTPUT
        assert (await finish(agent, 'r')).output == OUTPUT
        assert not any(isinstance(e, Ended) for e in [r.entry for r in (await journal.load('r'))[:-1]])

    go(main())


def test_an_answer_in_the_past_of_a_fork_still_counts() -> None:
    """Forked between the yes and the call: nobody has to be asked again."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(log, journal)
        original = await recorded(agent)
        point = max(r.seq for r in original if isinstance(r.entry, Answered))
        log.clear()
        fork = await agent.fork('r', at=point)
        result = await agent.resume(fork)
        assert result.output == OUTPUT and f'{fork}:c3 delete x' in log
        assert (await kinds_of(journal, fork)).count('answered') == 2

    go(main())
