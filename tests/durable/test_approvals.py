"""Approval: who has to be asked, what runs before and after, and that a yes is for one exact call. Cases 8c and 23."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    ApprovalRequired,
    ConfigError,
    Journal,
    MemoryJournal,
    ModelRetry,
    RunContext,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolFailed,
)
from agent_graph.journal.entries import Paused
from agent_graph.messages import is_valid
from agent_graph.testing import ScriptedModel
from tests.durable.kit import KINDS, Store, by_id, entries_of, pending_ids, stored_state, yes
from tests.engine.kit import WAYS, Log, Way, answers_of, call, go, requests_of


def deleter(log: Log, **options: Any) -> Tool:
    """A tool that notes what it deleted."""

    async def delete(path: str, force: bool = False) -> str:
        log.append((path, force) if force else path)
        return f'{path} is gone'

    options.setdefault('requires_approval', True)
    return Tool(delete, **options)


async def _async_rule(ctx: RunContext[Any], args: dict[str, Any]) -> bool:
    await asyncio.sleep(0)
    return args['path'].startswith('/')


class _Rule:
    def __call__(self, ctx: RunContext[Any], args: dict[str, Any]) -> bool:
        return args['path'].startswith('/')


class _AsyncRule:
    async def __call__(self, ctx: RunContext[Any], args: dict[str, Any]) -> bool:
        return args['path'].startswith('/')


def _plain_rule(ctx: RunContext[Any], args: dict[str, Any]) -> bool:
    return args['path'].startswith('/')


def _rule_with_extra(prefix: str, ctx: RunContext[Any], args: dict[str, Any]) -> bool:
    return args['path'].startswith(prefix)


RULES: dict[str, Any] = {
    'function': _plain_rule,
    'async function': _async_rule,
    'lambda': lambda ctx, args: args['path'].startswith('/'),  # pyright: ignore
    'object': _Rule(),
    'async object': _AsyncRule(),
    'partial': functools.partial(_rule_with_extra, '/'),
}


@pytest.mark.parametrize('rule', RULES)
def test_a_rule_says_which_calls_wait(rule: str) -> None:
    async def main() -> None:
        log = Log()
        script = [[call('delete', {'path': 'a'}, 'c1'), call('delete', {'path': '/b'}, 'c2')], 'done']
        agent = Agent(
            ScriptedModel(script), tools=[deleter(log, requires_approval=RULES[rule])], journal=MemoryJournal()
        )
        result = await agent.run('go')
        assert pending_ids(result) == ['c2']
        assert log == ['a']
        result = await agent.resume(result.run_id, answers=yes(result))
        assert result.output == 'done'
        assert log == ['a', '/b']

    go(main())


def test_the_rule_sees_checked_arguments_context_and_deps_and_is_asked_once() -> None:
    async def main() -> None:
        log, seen = Log(), Log()

        def rule(ctx: RunContext[str], args: dict[str, Any]) -> bool:
            seen.append((ctx.deps, ctx.tool_call_id, ctx.tool_name, args))
            return True

        script = [[call('delete', '{"path": "a"}', 'c1')], 'done']
        agent = Agent(
            ScriptedModel(script),
            deps_type=str,
            tools=[deleter(log, requires_approval=rule)],
            journal=MemoryJournal(),
        )
        result = await agent.run('go', deps='the deps')
        assert seen == [('the deps', 'c1', 'delete', {'path': 'a'})]
        result = await agent.resume(result.run_id, deps='the deps')
        assert pending_ids(result) == ['c1']
        result = await agent.resume(result.run_id, answers={'c1': ToolApproved()}, deps='the deps')
        assert result.output == 'done' and log == ['a']
        assert len(seen) == 1, 'a call that waits already, or has been allowed, is not judged again'

    go(main())


def test_a_person_sees_arguments_as_data_whatever_form_the_model_sent_them_in() -> None:
    async def main() -> None:
        script = [[call('delete', '{"path": "a"}', 'c1'), call('delete', {'path': 'b'}, 'c2')], 'done']
        agent = Agent(ScriptedModel(script), tools=[deleter(Log())], journal=MemoryJournal())
        result = await agent.run('go')
        assert [pending.args for pending in result.pending] == [{'path': 'a'}, {'path': 'b'}]

    go(main())


def test_a_rule_that_fails_lets_nothing_run() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        def rule(ctx: RunContext[Any], args: dict[str, Any]) -> bool:
            raise LookupError('the list of rules is gone')

        script = [[call('free'), call('delete', {'path': 'a'}, 'c1')], 'done']
        agent = Agent(
            ScriptedModel(script), tools=[log.tool('free'), deleter(log, requires_approval=rule)], journal=journal
        )
        with pytest.raises(Exception, match='the list of rules is gone'):
            await agent.run('go', run_id='r')
        assert 'a' not in log
        assert (await journal.info('r')).status == 'failed'
        await stored_state(journal, 'r')

    go(main())


# --- confirm ---------------------------------------------------------------------------------------------------------


def _shy(log: Log) -> Tool:
    async def shy(ctx: RunContext[None]) -> str:
        if not ctx.approved:
            raise ApprovalRequired('Really?')
        log.append('shy')
        return 'done'

    return Tool(shy)


@pytest.mark.parametrize(
    ('confirm', 'waiting'),
    [('per_tool', ['delete', 'shy']), ('always', ['delete', 'free', 'shy']), ('never', [])],
)
def test_confirm(confirm: Any, waiting: list[str]) -> None:
    async def main() -> None:
        log = Log()
        script = [[call('delete', {'path': 'a'}), call('free'), call('shy')], 'done']
        agent = Agent(ScriptedModel(script), tools=[deleter(log), log.tool('free'), _shy(log)], journal=MemoryJournal())
        result = await agent.run('go', confirm=confirm)
        if waiting:
            assert pending_ids(result) == waiting
            result = await agent.resume(result.run_id, answers=yes(result))
        assert result.output == 'done'
        assert sorted(log) == ['a', 'free', 'shy']

    go(main())


@pytest.mark.parametrize('confirm', ['per-tool', 'Always', 'ALWAYS', '', None, True, False, 1])
def test_a_confirm_that_does_not_exist_is_refused_and_runs_nothing(confirm: Any) -> None:
    async def main() -> None:
        log = Log()
        script = [[call('delete', {'path': 'a'}), call('free')], 'done']
        model = ScriptedModel(script)
        agent = Agent(model, tools=[deleter(log), log.tool('free')], journal=MemoryJournal())
        with pytest.raises(ConfigError, match='confirm'):
            await agent.run('go', confirm=confirm)
        assert log == [] and not model.requests

    go(main())


def test_confirm_holds_after_the_pause_and_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store('sqlite', tmp_path), Log()
        script = [[call('one')], [call('two')], 'done']
        model = ScriptedModel(script)
        agent = Agent(model, tools=[log.tool('one'), log.tool('two')], journal=store.journal)
        result = await agent.run('go', run_id='r', confirm='always')
        again = Agent(model, tools=[log.tool('one'), log.tool('two')], journal=await store.restart())
        result = await again.resume('r', answers=yes(result))
        assert pending_ids(result) == ['two'] and log == ['one']
        await store.journal.aclose()

    go(main())


# --- raised in the tool ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize('sync', [False, True])
@pytest.mark.parametrize('kind', KINDS)
def test_a_tool_that_asks_for_approval_itself(kind: str, sync: bool, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()

        def pay(ctx: RunContext[None], euros: int) -> str:
            log.append(('asked', ctx.approved, ctx.idempotency_key))
            if euros > 100 and not ctx.approved:
                raise ApprovalRequired(f'{euros} euros?')
            log.append(euros)
            return f'{euros} paid'

        async def async_pay(ctx: RunContext[None], euros: int) -> str:
            return pay(ctx, euros)

        def agent(journal: Journal) -> Agent[None, str]:
            return Agent(model, tools=[Tool(pay if sync else async_pay, name='pay')], journal=journal)

        model = ScriptedModel([[call('pay', {'euros': 5}, 'c1'), call('pay', {'euros': 500}, 'c2')], 'done'])
        result = await agent(store.journal).run('go', run_id='r')
        assert pending_ids(result) == ['c2']
        assert result.pending[0].question == '500 euros?'
        assert result.pending[0].reason == 'approval'
        assert sorted(log, key=str) == [('asked', False, 'r:c1'), ('asked', False, 'r:c2'), 5]
        log.clear()
        result = await agent(await store.restart()).resume('r', answers={'c2': ToolApproved()})
        assert result.output == 'done'
        assert log == [('asked', True, 'r:c2'), 500]
        assert [part.content for part in answers_of(result.messages)] == ['5 paid', '500 paid']
        assert result.usage.tool_calls == 2
        await store.journal.aclose()

    go(main())


def test_an_approved_call_may_fail_softly_and_its_next_attempt_needs_a_yes_of_its_own() -> None:
    async def main() -> None:
        log = Log()

        async def pay(euros: int) -> str:
            log.append(euros)
            if euros > 100:
                raise ModelRetry('too much')
            return 'paid'

        script = [[call('pay', {'euros': 500}, 'c1')], [call('pay', {'euros': 50}, 'c2')], 'done']
        agent = Agent(ScriptedModel(script), tools=[Tool(pay, requires_approval=True)], journal=MemoryJournal())
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers=yes(result))
        assert pending_ids(result) == ['c2'] and log == [500]
        result = await agent.resume(result.run_id, answers=yes(result))
        assert result.output == 'done' and log == [500, 50]

    go(main())


def test_calls_that_cannot_run_are_not_shown_to_a_person() -> None:
    async def main() -> None:
        log = Log()
        calls = [
            call('delete', {'nonsense': 1}, 'c1'),
            call('unknown', {}, 'c2'),
            call('delete', {'path': 'a'}, 'c3'),
        ]
        agent = Agent(ScriptedModel([calls, 'done']), tools=[deleter(log)], journal=MemoryJournal())
        result = await agent.run('go')
        assert pending_ids(result) == ['c3']
        result = await agent.resume(result.run_id, answers=yes(result))
        assert [part.outcome for part in answers_of(result.messages)] == ['retry', 'retry', 'success']
        assert log == ['a']

    go(main())


# --- case 23 ---------------------------------------------------------------------------------------------------------

CASE_23 = [
    [
        call('look', {}, 'A'),
        call('delete', {'path': 'x'}, 'B'),
        call('delete', {'path': 'x'}, 'C'),
        call('drop', {'path': 'y'}, 'D'),
    ],
    'done',
]


def _case_23(journal: Journal, log: Log, model: ScriptedModel) -> Agent[None, str]:
    return Agent(model, tools=[log.tool('look'), deleter(log), deleter(log, name='drop')], journal=journal)


@pytest.mark.parametrize('kind', KINDS)
def test_some_of_several_calls(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log, model = Store(kind, tmp_path), Log(), ScriptedModel(CASE_23)
        result = await _case_23(store.journal, log, model).run('go', run_id='r')
        assert log == ['look'], 'what is free runs before the pause'
        assert pending_ids(result) == ['B', 'C', 'D']
        assert all(p.run_id == 'r' and p.path == () for p in result.pending)

        agent = _case_23(await store.restart(), log, model)
        result = await agent.resume('r', answers={'B': ToolApproved(), 'C': ToolDenied('C is too important')})
        assert log == ['look', 'x']
        assert pending_ids(result) == ['D']
        assert len(model.requests) == 1, 'the model is not asked before everything is answered'

        agent = _case_23(await store.restart(), log, model)
        result = await agent.resume('r', answers={'D': ToolApproved()})
        assert log == ['look', 'x', 'y']
        assert result.output == 'done'
        told = [(p.tool_call_id, p.outcome, p.content) for p in answers_of(requests_of(model)[1])]
        assert told == [
            ('A', 'success', 'look done'),
            ('B', 'success', 'x is gone'),
            ('C', 'denied', 'C is too important'),
            ('D', 'success', 'y is gone'),
        ]
        assert result.usage.tool_calls == 3, 'what was denied was not called'
        await store.journal.aclose()

    go(main())


@pytest.mark.parametrize('order', list(permutations('BCD')), ids=''.join)
def test_one_answer_at_a_time_in_any_order(order: tuple[str, ...]) -> None:
    given = {'B': ToolApproved(), 'C': ToolDenied('no C'), 'D': ToolApproved()}

    async def main() -> None:
        journal, log, model = MemoryJournal(), Log(), ScriptedModel(CASE_23)
        result = await _case_23(journal, log, model).run('go', run_id='r')
        left = ['B', 'C', 'D']
        for key in order:
            assert pending_ids(result) == left
            result = await _case_23(journal, log, model).resume('r', answers={key: given[key]})
            left.remove(key)
        assert result.output == 'done'
        assert sorted(log) == ['look', 'x', 'y']
        assert [p.outcome for p in answers_of(result.messages)] == ['success', 'success', 'denied', 'success']

    go(main())


def test_a_denial_of_one_of_two_equal_calls_that_wait_is_only_for_that_one() -> None:
    async def main() -> None:
        log, model = Log(), ScriptedModel(CASE_23)
        agent = _case_23(MemoryJournal(), log, model)
        result = await agent.run('go', run_id='r')
        result = await agent.resume('r', answers={'C': ToolDenied('not C')})
        assert pending_ids(result) == ['B', 'D'], 'B was there before the denial; its own answer counts'
        result = await agent.resume('r', answers={'B': ToolApproved(), 'D': ToolDenied('nor D')})
        assert log == ['look', 'x']
        assert [p.content for p in answers_of(result.messages)] == ['look done', 'x is gone', 'not C', 'nor D']

    go(main())


def test_results_and_calls_keep_their_order_when_free_calls_are_slower_than_the_answers() -> None:
    async def main() -> None:
        log = Log()
        script = [[call('delete', {'path': 'x'}, 'B'), call('slow')], 'done']

        async def slow() -> str:
            await asyncio.sleep(0.02)
            log.append('slow')
            return 'slow done'

        agent = Agent(ScriptedModel(script), tools=[deleter(log), slow], journal=MemoryJournal())
        result = await agent.run('go')
        assert log == ['slow'], 'the pause waits for what runs'
        result = await agent.resume(result.run_id, answers=yes(result))
        assert [p.tool_call_id for p in answers_of(result.messages)] == ['B', 'slow']

    go(main())


def test_sequential_and_capped_calls_that_wait() -> None:
    async def main() -> None:
        log = Log()
        calls = [call('delete', {'path': str(n)}, f'c{n}') for n in range(4)]
        agent = Agent(
            ScriptedModel([[*calls, call('free')], 'done']),
            tools=[deleter(log, sequential=True), log.tool('free')],
            max_concurrency=2,
            journal=MemoryJournal(),
        )
        result = await agent.run('go')
        assert log == ['free']
        result = await agent.resume(result.run_id, answers=yes(result))
        assert log == ['free', '0', '1', '2', '3']

    go(main())


# --- override_args ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('way', ['approval', 'raised'])
def test_other_arguments(way: str, kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()

        async def delete(ctx: RunContext[None], path: str, force: bool = False) -> str:
            if way == 'raised' and not ctx.approved:
                raise ApprovalRequired
            log.append((path, force))
            return f'{path} is gone'

        tool = Tool(delete, requires_approval=way == 'approval')
        model = ScriptedModel([[call('delete', {'path': 'x'}, 'c1'), call('delete', {'path': 'x'}, 'c2')], 'done'])
        await Agent(model, tools=[tool], journal=store.journal).run('go', run_id='r')
        agent = Agent(model, tools=[tool], journal=await store.restart())
        result = await agent.resume('r', answers={'c1': ToolApproved(override_args={'path': 'other', 'force': True})})
        assert log == [('other', True)]
        assert pending_ids(result) == ['c2']
        result = await agent.resume('r', answers=yes(result))
        assert log == [('other', True), ('x', False)]
        await store.journal.aclose()

    go(main())


def test_no_arguments_as_other_arguments() -> None:
    async def main() -> None:
        log = Log()

        async def wipe(path: str = 'everything') -> str:
            log.append(path)
            return 'wiped'

        model = ScriptedModel([[call('wipe', {'path': 'a'})], 'done'])
        agent = Agent(model, tools=[Tool(wipe, requires_approval=True)], journal=MemoryJournal())
        result = await agent.run('go')
        await agent.resume(result.run_id, answers={'wipe': ToolApproved(override_args={})})
        assert log == ['everything']

    go(main())


@pytest.mark.parametrize('way', WAYS)
def test_every_way_to_run_pauses_alike(way: str) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = _case_23(journal, log, ScriptedModel(CASE_23))
        runner: Way = WAYS[way]
        result = await runner(agent, 'go', run_id='r')
        assert pending_ids(result) == ['B', 'C', 'D'] and result.output is None
        assert log == ['look']
        assert is_valid(result.messages)
        paused = (await entries_of(journal, 'r'))[-1]
        assert isinstance(paused, Paused) and paused.pending == result.pending
        assert (await journal.info('r')).status == 'paused'

    go(main())


# --- case 8, c -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('how', ['raised', 'declared', 'question'])
def test_case_8_c_one_call_waits_and_another_fails(how: str) -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        counter = [0]

        async def careful(ctx: RunContext[None]) -> str:
            if how == 'question':
                await ctx.ask('How?')
            if how == 'raised' and not ctx.approved:
                raise ApprovalRequired('Really?')
            log.append('careful')
            return 'done'

        async def broken() -> str:
            await asyncio.sleep(0.01)
            raise RuntimeError('tool 2 is broken')

        async def busy() -> str:
            try:
                while True:
                    counter[0] += 1
                    await asyncio.sleep(0.002)
            finally:
                await asyncio.sleep(0.01)
                log.append('cleaned')

        tools: list[Tool | Callable[..., Any]] = [Tool(careful, requires_approval=how == 'declared'), broken, busy]
        calls = [call('careful'), call('broken'), call('busy'), call('quick')]
        agent = Agent(ScriptedModel([calls, 'done']), tools=[*tools, log.tool('quick')], journal=journal)
        with pytest.raises(ToolFailed, match='tool 2 is broken') as caught:
            await agent.run('go', run_id='r')
        assert log == ['quick', 'cleaned'], 'the run ended before its tools had'
        count = counter[0]
        await asyncio.sleep(0.03)
        assert counter[0] == count
        assert is_valid(caught.value.messages)
        state = await stored_state(journal, 'r')
        assert state.finished['quick'].part.content == 'quick done'
        outcomes = {p.tool_call_id: p.outcome for p in answers_of(caught.value.messages)}
        assert outcomes['quick'] == 'success' and outcomes['careful'] != 'success'
        assert (await journal.info('r')).status == 'failed'
        after = await agent.resume('r')
        assert after.status == 'failed' and log == ['quick', 'cleaned']

    go(main())


def test_the_same_response_again_in_a_later_run_needs_a_new_yes() -> None:
    async def main() -> None:
        log = Log()
        model = ScriptedModel([[call('delete', {'path': 'x'}, 'c1')], 'done', [call('delete', {'path': 'x'}, 'c1')]])
        agent = Agent(model, tools=[deleter(log)], journal=MemoryJournal())
        first = await agent.run('go')
        first = await agent.resume(first.run_id, answers=yes(first))
        second = await agent.run('again', message_history=first.messages)
        assert second.status == 'paused' and log == ['x']
        assert by_id(second).keys() != {'c1'}, 'ids are unique within a conversation'

    go(main())
