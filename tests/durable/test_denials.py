"""A denial is part of the run: the same call is not executed later, whoever asks and in whatever spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    Answer,
    ApprovalRequired,
    Journal,
    MemoryJournal,
    RunContext,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolReturn,
)
from agent_graph.journal.entries import CallStarted
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import KINDS, Killed, Mortal, Store, entries_of, pending_ids
from tests.engine.kit import Log, answers_of, call, go


def copier(log: Log, *, raised: bool = False, rule: Any = True, name: str = 'copy') -> Tool:
    """A tool with two arguments."""

    async def copy(ctx: RunContext[None], source: str, options: dict[str, Any] | None = None) -> str:
        if raised and not ctx.approved:
            raise ApprovalRequired('Copy?')
        log.append((source, options))
        return 'copied'

    return Tool(copy, name=name, requires_approval=False if raised else rule)


ARGS = {'source': 'a', 'options': {'deep': True, 'mode': 'x'}}
SAME: dict[str, Any] = {
    'the same': ARGS,
    'keys in another order': {'options': {'mode': 'x', 'deep': True}, 'source': 'a'},
    'as text': '{"source": "a", "options": {"deep": true, "mode": "x"}}',
    'as text, other order and spacing': '{ "options":{"mode":"x",  "deep":true},"source":"a"}\n',
    'as text with escapes': '{"source": "\\u0061", "options": {"deep": true, "mode": "x"}}',
}
OTHER: dict[str, Any] = {
    'another value': {'source': 'b', 'options': {'deep': True, 'mode': 'x'}},
    'another inner value': {'source': 'a', 'options': {'deep': False, 'mode': 'x'}},
    'one more key': {'source': 'a', 'options': {'deep': True, 'mode': 'x', 'more': 1}},
    'a list in another order': {'source': 'a', 'options': {'deep': [True, 'x']}},
}


@pytest.mark.parametrize('raised', [False, True], ids=['declared', 'raised'])
@pytest.mark.parametrize('spelled', SAME)
def test_the_same_call_again_is_not_executed_and_the_model_is_told(spelled: str, raised: bool) -> None:
    async def main() -> None:
        log = Log()
        script = [[call('copy', ARGS, 'c1')], [call('copy', SAME[spelled], 'c2'), call('free')], 'done']
        agent = Agent(
            ScriptedModel(script), tools=[copier(log, raised=raised), log.tool('free')], journal=MemoryJournal()
        )
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers={'c1': ToolDenied('not this one')})
        assert result.output == 'done', 'nobody is asked a second time'
        assert log == ['free']
        first, second, _ = answers_of(result.messages)
        assert (first.outcome, first.content) == ('denied', 'not this one')
        assert second.outcome == 'denied' and 'denied before' in str(second.content)

    go(main())


@pytest.mark.parametrize('spelled', OTHER)
def test_another_call_is_another_question(spelled: str) -> None:
    async def main() -> None:
        log = Log()
        script = [[call('copy', ARGS, 'c1')], [call('copy', OTHER[spelled], 'c2')], 'done']
        agent = Agent(ScriptedModel(script), tools=[copier(log)], journal=MemoryJournal())
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers={'c1': ToolDenied()})
        assert pending_ids(result) == ['c2'] and log == []
        result = await agent.resume(result.run_id, answers={'c2': ToolApproved()})
        assert result.output == 'done' and len(log) == 1

    go(main())


def test_the_same_arguments_for_another_tool_are_another_question() -> None:
    async def main() -> None:
        log = Log()
        script = [[call('copy', ARGS, 'c1')], [call('move', ARGS, 'c2')], 'done']
        agent = Agent(ScriptedModel(script), tools=[copier(log), copier(log, name='move')], journal=MemoryJournal())
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers={'c1': ToolDenied()})
        assert pending_ids(result) == ['c2']

    go(main())


@pytest.mark.parametrize('kind', KINDS)
def test_a_denial_holds_after_a_restart_and_for_the_rest_of_the_run(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()
        script: list[Any] = [[call('copy', ARGS, 'c1'), call('copy', {'source': 'b'}, 'c2')]]
        script += [[call('copy', ARGS, f'd{n}')] for n in range(3)]
        model = ScriptedModel([*script, 'done'])

        def agent() -> Agent[None, str]:
            return Agent(model, tools=[copier(log)], journal=store.journal)

        await agent().run('go', run_id='r')
        await store.restart()
        await agent().resume('r', answers={'c1': ToolDenied()})
        await store.restart()
        result = await agent().resume('r', answers={'c2': ToolApproved()})
        assert result.output == 'done' and log == [('b', None)]
        assert [p.outcome for p in answers_of(result.messages)] == ['denied', 'success', 'denied', 'denied', 'denied']
        started = [e.tool_call_id for e in await entries_of(store.journal, 'r') if isinstance(e, CallStarted)]
        assert started == ['c2']
        await store.journal.aclose()

    go(main())


def test_a_rule_that_has_changed_its_mind_does_not_undo_a_denial() -> None:
    async def main() -> None:
        log, strict = Log(), [True]

        def rule(ctx: RunContext[None], args: dict[str, Any]) -> bool:
            return strict[0]

        script = [[call('copy', ARGS, 'c1')], [call('copy', ARGS, 'c2')], 'done']
        agent = Agent(ScriptedModel(script), tools=[copier(log, rule=rule)], journal=MemoryJournal())
        result = await agent.run('go')
        strict[0] = False
        result = await agent.resume(result.run_id, answers={'c1': ToolDenied()})
        assert result.output == 'done' and log == []

    go(main())


def test_a_denial_beside_an_equal_call_in_the_same_response() -> None:
    """Two equal calls wait; the one denied first does not take the other's answer away (see case 23)."""

    async def main() -> None:
        log = Log()
        agent = Agent(
            ScriptedModel([[call('copy', ARGS, 'c1'), call('copy', ARGS, 'c2')], 'done']),
            tools=[copier(log)],
            journal=MemoryJournal(),
        )
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers={'c1': ToolDenied('no'), 'c2': ToolApproved()})
        assert [p.outcome for p in answers_of(result.messages)] == ['denied', 'success'] and len(log) == 1

    go(main())


def test_a_denial_of_an_equal_call_does_not_reach_one_that_has_begun() -> None:
    """Both ask; one is denied, and the answer of the other one still counts."""

    async def main() -> None:
        log = Log()

        async def book(ctx: RunContext[None], city: str) -> str:
            log.append(await ctx.ask('Who?'))
            return await ctx.ask('Sure?')

        def agent(journal: Any) -> Agent[None, str]:
            calls = [call('book', {'city': 'Rome'}, 'c1'), call('book', {'city': 'Rome'}, 'c2')]
            return Agent(FunctionModel(lambda m, i: 'done' if len(m) > 1 else calls), tools=[book], journal=journal)

        journal = MemoryJournal()
        await agent(journal).run('go', run_id='r')
        result = await agent(journal).resume('r', answers={'c1': ToolDenied('no'), 'c2': Answer('Ada')})
        assert [p.question for p in result.pending] == ['Sure?'] and log == ['Ada']
        result = await agent(journal).resume('r', answers={result.pending[0]: Answer('yes')})
        assert [p.outcome for p in answers_of(result.messages)] == ['denied', 'success']

    go(main())


def test_a_crash_of_an_approved_call_beside_a_denied_equal_one_is_asked_about() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        calls = [call('copy', ARGS, 'c1'), call('copy', ARGS, 'c2')]

        def agent(store: Any) -> Agent[None, str]:
            return Agent(
                FunctionModel(lambda m, i: 'done' if len(m) > 1 else calls), tools=[copier(log)], journal=store
            )

        await agent(journal).run('go', run_id='r')
        mortal = Mortal(journal, 3, committed=False)  # the answers, the start, and not the result
        with pytest.raises(Killed):
            await agent(mortal).resume('r', answers={'c1': ToolApproved(), 'c2': ToolDenied('no')})
        await mortal.bury()
        assert len(log) == 1
        result = await agent(journal).resume('r')
        assert [(p.tool_call_id, p.reason) for p in result.pending] == [('c1', 'crash')]
        result = await agent(journal).resume('r', answers={'c1': ToolReturn('it was copied')})
        assert [p.content for p in answers_of(result.messages)] == ['it was copied', 'no'] and len(log) == 1

    go(main())


def test_a_denied_external_call_is_not_offered_again_either() -> None:
    async def main() -> None:
        async def sign(document: str) -> str:
            raise NotImplementedError

        script = [[call('sign', {'document': 'a'}, 'c1')], [call('sign', {'document': 'a'}, 'c2')], 'done']
        agent = Agent(ScriptedModel(script), tools=[Tool(sign, external=True)], journal=MemoryJournal())
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers={'c1': ToolDenied('no')})
        assert result.output == 'done'
        assert [p.outcome for p in answers_of(result.messages)] == ['denied', 'denied']

    go(main())


def test_what_was_approved_once_is_asked_again() -> None:
    async def main() -> None:
        log = Log()
        script = [[call('copy', ARGS, 'c1')], [call('copy', ARGS, 'c2')], 'done']
        agent = Agent(ScriptedModel(script), tools=[copier(log)], journal=MemoryJournal())
        result = await agent.run('go')
        result = await agent.resume(result.run_id, answers={'c1': ToolApproved()})
        assert pending_ids(result) == ['c2'], 'the person allowed one exact call'

    go(main())


def _with_inner(log: Log, journal: Journal, inner_script: Any, outer_script: list[Any]) -> Agent[None, str]:
    inner = Agent(FunctionModel(inner_script), name='inner', tools=[copier(log)])

    async def delegate(task: str) -> str:
        return (await inner.run(task)).output

    return Agent(ScriptedModel(outer_script), name='outer', tools=[delegate], journal=journal)


def test_a_denial_in_a_run_inside_a_tool() -> None:
    """The inner model asks again for what was denied: in its own run, it is not executed and nobody is asked."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        def inner(messages: Any, info: Any) -> Any:
            asked = (len(messages) - 1) // 2
            args = [ARGS, SAME['keys in another order'], SAME['as text']]
            return [call('copy', args[asked], f'c{asked}')] if asked < 3 else 'inner done'

        agent = _with_inner(log, journal, inner, [[call('delegate', {'task': 'x'}, 'd1')], 'done'])
        result = await agent.run('go', run_id='r')
        result = await agent.resume('r', answers={('d1', 'c0'): ToolDenied('no')})
        assert result.output == 'done' and log == []
        inner_run = next(info.run_id for info in await journal.runs(agent='inner'))
        assert all(not isinstance(e, CallStarted) for e in await entries_of(journal, inner_run))

    go(main())


def test_a_denial_inside_holds_when_the_same_agent_is_asked_again_in_the_same_run() -> None:
    """The outer model sends its helper once more: a new inner run, in the same outer run, for the same call."""

    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        def inner(messages: Any, info: Any) -> Any:
            return 'inner done' if len(messages) > 1 else [call('copy', ARGS, 'c1')]

        script = [[call('delegate', {'task': 'x'}, 'd1')], [call('delegate', {'task': 'again'}, 'd2')], 'done']
        agent = _with_inner(log, journal, inner, script)
        await agent.run('go', run_id='r')
        result = await agent.resume('r', answers={('d1', 'c1'): ToolDenied('no')})
        assert log == []
        if result.status == 'paused':  # asked anew is safe; run without being asked would not be
            result = await agent.resume('r', answers={('d2', 'c1'): ToolDenied('still no')})
        assert result.output == 'done' and log == []

    go(main())


def test_a_no_after_a_crash_says_what_is_known_and_nothing_more() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()

        async def pay() -> str:
            log.append('pay')
            return 'paid'

        agent = Agent(
            ScriptedModel([[call('pay', {}, 'c1')], [call('pay', {}, 'c2')], 'done']), tools=[pay], journal=journal
        )
        await agent.run('go', run_id='r')
        records = await journal.load('r')
        started = next(r.seq for r in records if isinstance(r.entry, CallStarted))
        log.clear()
        agent = Agent(ScriptedModel([[call('pay', {}, 'c2')], 'done']), tools=[pay], journal=journal)
        fork = await agent.fork('r', at=started)
        result = await agent.resume(fork)
        assert [p.reason for p in result.pending] == ['crash'] and log == []
        result = await agent.resume(fork, answers={'c1': ToolDenied('leave it')})
        first, second = answers_of(result.messages)
        assert first.outcome == 'interrupted', 'nobody knows whether it took effect'
        assert second.outcome == 'success' and log == ['pay'], 'and it was no denial of the call as such'

    go(main())


def test_a_result_handed_in_after_a_crash() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        agent = Agent(ScriptedModel([[call('pay', {}, 'c1')], 'done']), tools=[log.tool('pay')], journal=journal)
        await agent.run('go', run_id='r')
        started = next(r.seq for r in await journal.load('r') if isinstance(r.entry, CallStarted))
        agent = Agent(ScriptedModel(['done']), tools=[log.tool('pay')], journal=journal)
        fork = await agent.fork('r', at=started)
        await agent.resume(fork)
        result = await agent.resume(fork, answers={'c1': ToolReturn('it was paid')})
        assert answers_of(result.messages)[0].content == 'it was paid' and log == ['pay']

    go(main())
