"""Case 24: an answer in doubt raises, records nothing and runs nothing; an answer is consumed once."""

from __future__ import annotations

import asyncio
import copy
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AgentGraphError,
    Answer,
    AnswerError,
    Journal,
    MemoryJournal,
    RunContext,
    RunLocked,
    RunResult,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolReturn,
)
from agent_graph.journal.entries import Answered, CallStarted
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

SCRIPT: list[Any] = [
    [call('delete', {'path': 'x'}, 'c1'), call('sign', {}, 'c2'), call('book', {}, 'c3'), call('free', {}, 'c4')],
    'done',
]


def make_agent(journal: Journal | None, log: Log, model: Any = None) -> Agent[None, str]:
    """An agent that waits for an approval, for somebody else's result and for an answer."""
    agent: Agent[None, str] = Agent(model or ScriptedModel(SCRIPT), name='three', journal=journal)

    @agent.tool(requires_approval=True)
    async def delete(path: str) -> str:
        log.append(('delete', path))
        return 'deleted'

    @agent.tool(external=True)
    async def sign() -> str:
        log.append('sign must never be called')
        return 'no'

    @agent.tool
    async def book(ctx: RunContext[None]) -> str:
        nights = await ctx.ask('How many nights?', schema=int)
        log.append(('book', nights))
        return f'{nights} nights'

    @agent.tool
    async def free() -> str:
        log.append('free')
        return 'free done'

    return agent


@dataclass(frozen=True)
class LikeApproved:
    """Looks like a yes, and is none."""

    override_args: dict[str, Any] | None = None


class MoreApproved(ToolApproved):
    """A yes of somebody else's making."""


APPROVAL: dict[str, Any] = {
    'the string false': 'false',
    'the string true': 'true',
    'yes': 'yes',
    'True': True,
    'False': False,
    'zero': 0,
    'one': 1,
    'None': None,
    'nothing': '',
    'a dict': {'decision': 'approved'},
    'a list': [ToolApproved()],
    'the class': ToolApproved,
    'the class of a no': ToolDenied,
    'an Answer': Answer(True),
    'a result': ToolReturn('done'),
    'look-alike': LikeApproved(),
    'subclass': MoreApproved(),
    'args that are no dict': ToolApproved(override_args='x'),  # pyright: ignore
    'args that are a list': ToolApproved(override_args=[('path', 'x')]),  # pyright: ignore
    'args that are JSON text': ToolApproved(override_args='{"path": "y"}'),  # pyright: ignore
    'args that do not fit': ToolApproved(override_args={'file': 'x'}),
    'args with one too many': ToolApproved(override_args={'path': 'x', 'more': 1}),
    'args of another type': ToolApproved(override_args={'path': 3}),
    'no args where one is needed': ToolApproved(override_args={}),
    'args that are no data': ToolApproved(override_args={'path': object()}),
    'args with a key that is no text': ToolApproved(override_args={1: 'x'}),  # pyright: ignore
    'args with a function': ToolApproved(override_args={'path': print}),
    'a no without words': ToolDenied(None),  # pyright: ignore
    'a no with a number': ToolDenied(5),  # pyright: ignore
}


async def _refused(
    agent: Agent[None, str], journal: Journal, log: Log, answers: Any, result: RunResult[str]
) -> AgentGraphError:
    """These answers raise; nothing is run or written, and the run waits as before."""
    before = await journal.load(result.run_id)
    with unchanged(log), pytest.raises(AnswerError) as caught:
        await agent.resume(result.run_id, answers=answers)
    assert await journal.load(result.run_id) == before
    again = await agent.resume(result.run_id)
    assert again.pending == result.pending
    assert await journal.load(result.run_id) == before
    return caught.value


@pytest.mark.parametrize('given', APPROVAL)
def test_no_answer_to_an_approval(given: str, tmp_path: Path) -> None:
    async def main() -> None:
        # In memory, where what could not be written would be kept.
        store, log = Store('memory', tmp_path), Log()
        agent = make_agent(store.journal, log)
        result = await agent.run('go', run_id='r')
        assert pending_ids(result) == ['c1', 'c2', 'c3'] and log == ['free']
        await _refused(agent, store.journal, log, {'c1': APPROVAL[given]}, result)
        # With good answers beside it, none of them counts.
        good = {'c2': ToolReturn('signed'), 'c3': Answer(2)}
        await _refused(agent, store.journal, log, {**good, 'c1': APPROVAL[given]}, result)
        await _refused(agent, store.journal, log, {'c1': APPROVAL[given], **good}, result)
        result = await agent.resume('r', answers={**good, 'c1': ToolApproved()})
        assert result.output == 'done' and log == ['free', ('delete', 'x'), ('book', 2)]
        await store.journal.aclose()

    go(main())


class _Whatever:
    pass


QUESTION: dict[str, Any] = {
    'the value itself': 2,
    'a yes': ToolApproved(),
    'a result': ToolReturn(2),
    'a word': Answer('many'),
    'a fraction': Answer(2.5),
    'a truth': Answer(True),
    'nothing': Answer(None),
    'a list': Answer([2]),
    'an object': Answer(_Whatever()),
    'a number that is none': Answer(float('nan')),
    'without end': Answer(float('inf')),
    'the class': Answer,
}

EXTERNAL: dict[str, Any] = {
    'the value itself': 'signed',
    'a yes': ToolApproved(),
    'an Answer': Answer('signed'),
    'an object': ToolReturn(_Whatever()),
    'an object as metadata': ToolReturn('signed', metadata=_Whatever()),  # pyright: ignore
    'an object beside it': ToolReturn('signed', content=_Whatever()),  # pyright: ignore
    'a number beside it': ToolReturn('signed', content=5),  # pyright: ignore
    'the class': ToolReturn,
}


@pytest.mark.parametrize(('call_id', 'given'), [*(('c3', g) for g in QUESTION), *(('c2', g) for g in EXTERNAL)])
def test_no_answer_to_a_question_or_in_another_s_place(call_id: str, given: str, tmp_path: Path) -> None:
    async def main() -> None:
        log, journal = Log(), Store('memory', tmp_path).journal
        agent = make_agent(journal, log)
        result = await agent.run('go', run_id='r')
        value = (QUESTION if call_id == 'c3' else EXTERNAL)[given]
        await _refused(agent, journal, log, {call_id: value}, result)
        await _refused(agent, journal, log, {'c1': ToolApproved(), call_id: value}, result)
        await journal.aclose()

    go(main())


def _other(result: RunResult[str], **changes: Any) -> Any:
    made = copy.copy(result.pending[0])
    for name, value in changes.items():
        object.__setattr__(made, name, value)
    return made


KEYS: dict[str, Callable[[RunResult[str]], Any]] = {
    'unknown id': lambda r: 'c9',
    'empty id': lambda r: '',
    'id in other letters': lambda r: 'C1',
    'id with a space': lambda r: 'c1 ',
    'id as bytes': lambda r: b'c1',
    'None': lambda r: None,
    'a number': lambda r: 1,
    'True': lambda r: True,
    'an id that was not waiting': lambda r: 'c4',
    'the tool name': lambda r: 'delete',
    'the run id': lambda r: 'r',
    'a path that is none': lambda r: ('c1', 'c1'),
    'an empty path': lambda r: (),
    'a path to nowhere': lambda r: ('c9', 'c1'),
    'Pending with other arguments': lambda r: _other(r, args={'path': 'y'}),
    'Pending of another run': lambda r: _other(r, run_id='other'),
    'Pending with another question': lambda r: _other(r, question='Sure?'),
    'Pending of another attempt': lambda r: _other(r, attempt=7),
}


@pytest.mark.parametrize('key', KEYS)
def test_an_answer_to_nobody(key: str) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(journal, log)
        result = await agent.run('go', run_id='r')
        named = KEYS[key](result)
        await _refused(agent, journal, log, {named: ToolApproved()}, result)
        await _refused(agent, journal, log, {'c1': ToolApproved(), named: ToolApproved()}, result)

    go(main())


@pytest.mark.parametrize('answers', [[('c1', ToolApproved())], 'c1', {'c1'}, 5, True, ToolApproved(), [], 0, '', False])
def test_answers_that_are_no_mapping(answers: Any) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(journal, log)
        result = await agent.run('go', run_id='r')
        await _refused(agent, journal, log, answers, result)

    go(main())


def test_one_call_answered_twice_in_one_go() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(journal, log)
        result = await agent.run('go', run_id='r')
        first = result.pending[0]
        await _refused(agent, journal, log, {'c1': ToolApproved(), first: ToolDenied('no')}, result)
        await _refused(agent, journal, log, {first: ToolApproved(), ('c1',): ToolApproved()}, result)

    go(main())


def test_no_answers_are_no_answer() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(journal, log)
        result = await agent.run('go', run_id='r')
        with unchanged(log):
            assert (await agent.resume('r', answers={})).pending == result.pending
            assert (await agent.resume('r', answers=None)).pending == result.pending

    go(main())


@pytest.mark.parametrize('key', ['id', 'path', 'pending'])
@pytest.mark.parametrize('kind', KINDS)
def test_every_way_to_name_a_call_and_none_counts_twice(kind: str, key: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        agent = make_agent(store.journal, log)
        result = await agent.run('go', run_id='r')
        name: dict[str, Any] = {'id': 'c1', 'path': ('c1',), 'pending': result.pending[0]}
        answers = {name[key]: ToolApproved()}
        agent = make_agent(await store.restart(), log, agent.model)
        after = await agent.resume('r', answers=answers)
        assert pending_ids(after) == ['c2', 'c3'] and log.count(('delete', 'x')) == 1
        with pytest.raises(AnswerError, match=r'answered already|not a pending call'):
            await agent.resume('r', answers=answers)
        with pytest.raises(AnswerError):
            await agent.resume('r', answers={**answers, 'c2': ToolReturn('signed')})
        assert log.count(('delete', 'x')) == 1
        assert pending_ids(await agent.resume('r')) == ['c2', 'c3']
        done = {'c2': ToolReturn('signed'), 'c3': Answer(1)}
        result = await agent.resume('r', answers=done)
        assert result.output == 'done'
        for late in (answers, done, {'c1': ToolDenied('too late')}):
            with pytest.raises(AnswerError):
                await agent.resume('r', answers=late)
        assert log == ['free', ('delete', 'x'), ('book', 1)]
        assert (await agent.resume('r')).output == 'done'
        await store.journal.aclose()

    go(main())


@pytest.mark.parametrize('status', ['cancelled', 'failed', 'completed'])
def test_a_run_that_has_ended_takes_no_answers(status: str) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(journal, log, ScriptedModel([*SCRIPT[:1], ValueError('broken')]))
        result = await agent.run('go', run_id='r')
        if status == 'cancelled':
            await agent.cancel('r')
        elif status == 'failed':
            with pytest.raises(ValueError, match='broken'):
                await agent.resume('r', answers={'c1': ToolDenied(), 'c2': ToolDenied(), 'c3': ToolDenied()})
        else:
            agent = make_agent(journal, log, ScriptedModel(['done']))
            await agent.resume('r', answers={'c1': ToolDenied(), 'c2': ToolDenied(), 'c3': ToolDenied()})
        before = await journal.load('r')
        for key in ('c1', result.pending[0], ('c1',)):
            with unchanged(log), pytest.raises(AnswerError):
                await agent.resume('r', answers={key: ToolApproved()})
        assert await journal.load('r') == before
        assert (await journal.info('r')).status == status
        assert (await agent.resume('r')).status == status

    go(main())


def test_an_answer_in_words_that_break_characters_is_mended(tmp_path: Path) -> None:
    async def main() -> None:
        log, journal = Log(), Store('sqlite', tmp_path).journal
        agent = make_agent(journal, log, ScriptedModel([SCRIPT[0], [call('ask', {}, 'c5')], 'done']))

        @agent.tool
        async def ask(ctx: RunContext[None]) -> str:
            return await ctx.ask('Who?')

        await agent.run('go', run_id='r')
        answers = {
            'c1': ToolApproved(override_args={'path': 'a\udc97'}),
            'c2': ToolReturn('b\udc97', metadata={'k\udc97': '\udc97'}),
            'c3': ToolDenied('c\udc97'),
        }
        await agent.resume('r', answers=answers)
        result = await agent.resume('r', answers={'c5': Answer('d\udc97')})
        assert ('delete', 'a\ufffd') in log
        assert [p.content for p in answers_of(result.messages)] == [
            'deleted',
            'b\ufffd',
            'c\ufffd',
            'free done',
            'd\ufffd',
        ]
        await journal.aclose()

    go(main())


def test_answers_of_many_types_are_kept_as_their_type(tmp_path: Path) -> None:
    async def main() -> None:
        journal = Store('sqlite', tmp_path).journal
        agent = make_agent(journal, Log())
        await agent.run('go', run_id='r')
        result = await agent.resume(
            'r',
            answers={
                'c1': ToolDenied(),
                'c2': ToolReturn({'price': decimal.Decimal('1.50'), 'at': (1, 2)}),
                'c3': Answer(7),
            },
        )
        assert answers_of(result.messages)[1].content == {'price': '1.50', 'at': [1, 2]}
        await journal.aclose()

    go(main())


# --- two calls with one id -------------------------------------------------------------------------------------------


def _nest(journal: Journal, log: Log) -> Agent[None, str]:
    """Outer and inner run each wait for a call with the id `c1`."""

    async def delete(where: str) -> str:
        log.append(where)
        return f'deleted {where}'

    gated = Tool(delete, requires_approval=True)

    async def inner_model(messages: Any, info: Any) -> Any:
        return 'inner done' if len(messages) > 1 else [call('delete', {'where': 'inside'}, 'c1')]

    inner = Agent(FunctionModel(inner_model), name='inner', tools=[gated])

    async def delegate() -> str:
        return (await inner.run('clean')).output

    script = [[call('delete', {'where': 'outside'}, 'c1'), call('delegate', {}, 'c2')], 'done']
    return Agent(ScriptedModel(script), name='outer', tools=[gated, delegate], journal=journal)


def test_an_id_that_fits_two_calls_is_refused() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = _nest(journal, log)
        result = await agent.run('go', run_id='r')
        assert [(p.path, p.tool_call_id) for p in result.pending] == [((), 'c1'), (('c2',), 'c1')]
        error = await _refused(agent, journal, log, {'c1': ToolApproved()}, result)
        assert 'c2/c1' in str(error), 'it says how to name each'
        await _refused(agent, journal, log, {'c2': ToolApproved()}, result)
        result = await agent.resume('r', answers={('c2', 'c1'): ToolApproved()})
        assert log == ['inside'], 'the inner call, and only that, was allowed'
        assert [(p.path, p.tool_call_id) for p in result.pending] == [((), 'c1')]
        # The id alone has named the inner call too: a yes to that may be on its way again.
        await _refused(agent, journal, log, {'c1': ToolApproved()}, result)
        result = await agent.resume('r', answers={('c1',): ToolDenied('not outside')})
        assert log == ['inside'] and result.output == 'done'
        assert [p.content for p in answers_of(result.messages)] == ['not outside', 'inner done']

    go(main())


def test_both_at_once_each_by_its_path() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = _nest(journal, log)
        await agent.run('go', run_id='r')
        result = await agent.resume('r', answers={('c1',): ToolDenied('no'), ('c2', 'c1'): ToolApproved()})
        assert log == ['inside'] and result.output == 'done'

    go(main())


# --- the same resume twice -------------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', KINDS)
def test_many_resumes_at_once_with_the_same_answers(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log, model = Store(kind, tmp_path), Log(), ScriptedModel(SCRIPT)
        await make_agent(store.journal, log, model).run('go', run_id='r')
        answers = {'c1': ToolApproved(), 'c2': ToolReturn('signed'), 'c3': Answer(3)}
        agents = [make_agent(store.journal, log, model) for _ in range(8)]
        results = await asyncio.gather(*(a.resume('r', answers=answers) for a in agents), return_exceptions=True)
        lost = [r for r in results if isinstance(r, BaseException)]
        assert all(isinstance(r, AnswerError | RunLocked) for r in lost), results
        assert sorted(log, key=str) == [('book', 3), ('delete', 'x'), 'free']
        final = await agents[0].resume('r')
        assert final.output == 'done'
        answered = [e for e in await entries_of(store.journal, 'r') if isinstance(e, Answered)]
        assert sorted(e.tool_call_id for e in answered) == ['c1', 'c3']
        await store.journal.aclose()

    go(main())


class _Late(Mortal):
    """A journal through which one reader sees the run, and then loses time."""

    def __init__(self, inner: Journal) -> None:
        super().__init__(inner)
        self.seen = asyncio.Event()
        self.go_on = asyncio.Event()

    async def load(self, run_id: str, *, after: int = 0, upto: int | None = None) -> Any:
        records = await self.inner.load(run_id, after=after, upto=upto)
        if not self.seen.is_set():
            self.seen.set()
            await self.go_on.wait()
        return records


def _asks_twice(journal: Journal, log: Log, model: Any) -> Agent[None, str]:
    agent: Agent[None, str] = Agent(model, journal=journal)

    @agent.tool
    async def transfer(ctx: RunContext[None]) -> str:
        who = await ctx.ask('To whom?')
        if await ctx.ask(f'Really to {who}?') == 'yes':
            log.append(who)
        return 'done'

    return agent


@pytest.mark.parametrize('key', ['pending', 'id'])
def test_an_answer_that_comes_late_does_not_answer_the_next_question(key: str) -> None:
    """Two people answer the same question; when the second answer gets through, the tool has asked something else."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        model = ScriptedModel([[call('transfer', {}, 'c1')], 'done'])
        result = await _asks_twice(journal, log, model).run('go', run_id='r')
        late = _Late(journal)
        answers: dict[Any, Any] = {result.pending[0] if key == 'pending' else 'c1': Answer('yes')}
        slow = asyncio.create_task(_asks_twice(late, log, model).resume('r', answers=answers))
        await late.seen.wait()
        second = await _asks_twice(journal, log, model).resume('r', answers={'c1': Answer('Ada')})
        assert second.pending[0].question == 'Really to Ada?'
        late.go_on.set()
        with pytest.raises(AnswerError):
            await slow
        assert log == []
        again = await _asks_twice(journal, log, model).resume('r')
        assert again.pending == second.pending

    go(main())


def test_the_same_pending_sent_twice_answers_one_question() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        model = ScriptedModel([[call('transfer', {}, 'c1')], 'done'])
        agent = _asks_twice(journal, log, model)
        result = await agent.run('go', run_id='r')
        answers = {result.pending[0]: Answer('yes')}
        result = await agent.resume('r', answers=answers)
        with pytest.raises(AnswerError):
            await agent.resume('r', answers=answers)
        assert result.status == 'paused' and log == []

    go(main())


NAMES: dict[str, Callable[[Any], Any]] = {
    'pending': lambda p: p,
    'token': lambda p: p.token,
    'id': lambda p: p.tool_call_id,
    'path': lambda p: (*p.path, p.tool_call_id),
}


@pytest.mark.parametrize('name', NAMES)
def test_an_answer_delivered_twice_does_not_answer_the_next_question(name: str) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = _asks_twice(journal, log, ScriptedModel([[call('transfer', {}, 'c1')], 'done']))
        result = await agent.run('go', run_id='r')
        first = {NAMES[name](result.pending[0]): Answer('yes')}
        result = await agent.resume('r', answers=first)
        error = await _refused(agent, journal, log, first, result)
        if name in ('id', 'path'):
            assert result.pending[0].token in str(error), 'it says how to answer this one'
        result = await agent.resume('r', answers={result.pending[0].token: Answer('yes')})
        assert result.output == 'done' and log == ['yes']

    go(main())


@pytest.mark.parametrize('name', NAMES)
def test_a_yes_delivered_twice_does_not_run_a_call_again_that_crashed(name: str) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        model = FunctionModel(lambda m, i: 'done' if len(m) > 1 else [SCRIPT[0][0]])
        result = await make_agent(journal, log, model).run('go', run_id='r')
        approval = {NAMES[name](result.pending[0]): ToolApproved()}
        mortal = Mortal(journal, 3, committed=False)  # the answer, the start, and not the result
        with pytest.raises(Killed):
            await make_agent(mortal, log, model).resume('r', answers=approval)
        await mortal.bury()
        agent = make_agent(journal, log, model)
        with unchanged(log), pytest.raises(AnswerError):
            await agent.resume('r', answers=approval)
        result = await agent.resume('r')
        assert result.pending[0].reason == 'crash'
        await _refused(agent, journal, log, approval, result)
        result = await agent.resume('r', answers={'c1': ToolReturn('it was deleted')})
        assert result.output == 'done' and log == [('delete', 'x')], 'no approval can have been meant by that'

    go(main())


@pytest.mark.parametrize('name', NAMES)
def test_a_yes_to_one_agent_inside_a_tool_is_none_to_the_next(name: str) -> None:
    """Both runs have a call of the same id at the same place."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        gated = log.tool('delete', requires_approval=True)
        inner = Agent(FunctionModel(lambda m, i: 'ok' if len(m) > 1 else [call('delete', {}, 'c1')]), tools=[gated])

        async def both() -> str:
            return f'{(await inner.run("one")).output} {(await inner.run("two")).output}'

        agent = Agent(ScriptedModel([[call('both', {}, 'o')], 'done']), tools=[both], journal=journal)
        result = await agent.run('go', run_id='r')
        answers = {NAMES[name](result.pending[0]): ToolApproved()}
        result = await agent.resume('r', answers=answers)
        assert result.status == 'paused' and log == ['delete']
        await _refused(agent, journal, log, answers, result)
        result = await agent.resume('r', answers={result.pending[0]: ToolApproved()})
        assert result.output == 'done' and log == ['delete', 'delete']

    go(main())


def test_a_token_is_of_one_question_in_one_run(tmp_path: Path) -> None:
    async def main() -> None:
        log, journal = Log(), Store('sqlite', tmp_path).journal
        agent = _asks_twice(journal, log, FunctionModel(lambda m, i: 'done' if len(m) > 1 else [call('transfer')]))
        result = await agent.run('go', run_id='r')
        again = await agent.resume('r')
        assert again.pending[0].token == result.pending[0].token, 'it is what was stored'
        tokens = {result.pending[0].token}
        fork = await agent.resume(await agent.fork('r'))
        other = await agent.run('go', run_id='q')
        tokens |= {fork.pending[0].token, other.pending[0].token}
        result = await agent.resume('r', answers={result.pending[0].token: Answer('Ada')})
        tokens |= {result.pending[0].token}
        assert len(tokens) == 4
        for token in tokens - {result.pending[0].token}:
            with pytest.raises(AnswerError):
                await agent.resume('r', answers={token: Answer('yes')})
        await journal.aclose()

    go(main())


# --- an answer survives what comes after it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('kind', 'answer', 'committed'),
    [
        *[
            ('memory', answer, committed)
            for answer in ('approve', 'override', 'deny', 'all')
            for committed in (True, False)
        ],
        ('sqlite', 'override', True),
    ],
)
def test_an_answer_survives_a_crash_at_every_write_after_it(
    kind: str, answer: str, committed: bool, tmp_path: Path
) -> None:
    """Whatever the process died at, the answer is there or was refused as a whole, and the call runs at most once."""
    given: dict[str, dict[Any, Any]] = {
        'approve': {'c1': ToolApproved()},
        'override': {'c1': ToolApproved({'path': 'y'})},
        'deny': {'c1': ToolDenied('no')},
        'all': {'c1': ToolApproved(), 'c2': ToolReturn('signed'), 'c3': Answer(4)},
    }
    answers = given[answer]

    async def main(at: int) -> bool:
        folder = tmp_path / str(at)
        folder.mkdir()
        store, log, model = Store(kind, folder), Log(), ScriptedModel([SCRIPT[0], *['done'] * 3])
        await make_agent(store.journal, log, model).run('go', run_id='r')
        mortal = Mortal(store.journal, at, committed=committed)
        try:
            await make_agent(mortal, log, model).resume('r', answers=answers)
        except Killed:
            died = True
        else:
            died = False
        await mortal.bury()
        agent = make_agent(await store.restart(), log, model)
        decided = (await stored_state(store.journal, 'r')).pending.keys() != {'c1', 'c2', 'c3'}
        result = await agent.resume('r', answers=None if decided else answers)
        if result.status == 'paused':
            crashed = [p for p in result.pending if p.reason == 'crash']
            assert all(p.tool_call_id in answers for p in crashed)
            rest: dict[Any, Any] = {'c1': ToolApproved(), 'c2': ToolReturn('signed'), 'c3': Answer(4)}
            left = {p: ToolReturn('it did') if p.reason == 'crash' else rest[p.tool_call_id] for p in result.pending}
            result = await agent.resume('r', answers=left)
        assert result.output == 'done'
        starts = [e for e in await entries_of(store.journal, 'r') if isinstance(e, CallStarted)]
        deleted = [entry for entry in log if entry[0] == 'delete']
        assert len(deleted) <= 1
        if answer == 'deny':
            assert deleted == [] and not any(e.tool_call_id == 'c1' for e in starts)
            assert answers_of(result.messages)[0].content == 'no'
        elif answer == 'override':
            assert [e.args for e in starts if e.tool_call_id == 'c1'] == [{'path': 'y'}]
            assert deleted in ([('delete', 'y')], [])
        await store.journal.aclose()
        return died

    assert at_every_write(main) > 2


def test_answers_of_a_failed_validation_do_not_take_the_run() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = make_agent(journal, log)
        await agent.run('go', run_id='r')
        with pytest.raises(AnswerError):
            await agent.resume('r', answers={'c9': ToolApproved()})
        lease = await journal.acquire('r', owner='somebody', ttl=60)
        with pytest.raises(RunLocked):
            await agent.resume('r', answers={'c1': ToolApproved(), 'c2': ToolReturn(1), 'c3': Answer(1)})
        await journal.release(lease)
        assert pending_ids(await agent.resume('r')) == ['c1', 'c2', 'c3']

    go(main())
