"""Replay: the recorded way with the code of now, without any effect; every change is named where it first shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    Answer,
    ApprovalRequired,
    ConfigError,
    Journal,
    MemoryJournal,
    ModelRetry,
    ModelTimeout,
    RunContext,
    RunError,
    Tool,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
    ToolFailed,
    ToolMessage,
    ToolReturn,
    ToolReturnPart,
    UnexpectedModelBehavior,
    UnknownRun,
    Usage,
    UsageLimitExceeded,
    UsageLimits,
    UserMessage,
)
from agent_graph.errors import ReplayMismatch
from agent_graph.journal.entries import CallStarted, Ended, Entered
from agent_graph.messages import AssistantMessage, TextPart
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import KINDS, Killed, Mortal, Store, unchanged, yes
from tests.engine.kit import Log, call, go


def model() -> FunctionModel:
    """A bad call, a good one beside a gated and an asking one, a bad output, a good one."""

    def answer(messages: Any, info: Any) -> Any:
        last = messages[-1]
        usage = Usage(input_tokens=5)
        if not isinstance(last, ToolMessage):
            parts: list[Any] = [call('add', {'a': 1}, 'c1')]
        elif last.parts[0].tool_name == 'add' and last.parts[0].outcome == 'retry':
            parts = [call('add', {'a': 1, 'b': 2}, 'c2'), call('pay', {'euros': 5}, 'c3'), call('book', {}, 'c4')]
        elif last.parts[0].tool_name == 'final_result':
            parts = [call('final_result', {'response': 42}, 'o2')]
        else:
            parts = [call('final_result', {'response': 7}, 'o1')]
        return AssistantMessage(parts, usage, finish_reason='tool_calls')

    return FunctionModel(answer)


class Made:
    """An agent with everything that can change, and what it did."""

    def __init__(self, journal: Journal | None, **changes: Any) -> None:
        self.log = Log()
        log = self.log

        async def add(ctx: RunContext[str], a: int, b: int = 0) -> int:
            log.append('add')
            if not b:
                raise ModelRetry('b is missing')
            return a + b

        async def pay(euros: int) -> str:
            log.append('pay')
            return f'{euros} paid'

        async def book(ctx: RunContext[str]) -> str:
            await ctx.step('reserve', lambda: log.append('reserve'))
            log.append(await ctx.ask('Who?'))
            return 'booked'

        def greet(ctx: RunContext[str]) -> str:
            return f'Serve {ctx.deps}.'

        async def check(value: int) -> int:
            if value < 10:
                raise ModelRetry('too small')
            return value

        tools = changes.pop('tools', {'add': add, 'pay': Tool(pay, requires_approval=True), 'book': book})
        validator = changes.pop('validator', check)
        options: dict[str, Any] = {'instructions': ['Be exact.', greet], 'output_type': int, 'output_retries': 3}
        self.agent: Agent[str, Any] = Agent(
            model(), deps_type=str, tools=list(tools.values()), journal=journal, **{**options, **changes}
        )
        self.agent.output_validator(validator)


async def recorded(journal: Journal, kind: str = 'completed') -> None:
    """A run `r`: with retries, an approval, a question and a refused output."""
    made = Made(journal)
    await made.agent.run('go', run_id='r', deps='Ada')
    if kind == 'paused':
        return
    if kind == 'denied':
        await made.agent.resume('r', deps='Ada', answers={'c3': ToolDenied('no')})
    else:
        await made.agent.resume('r', deps='Ada', answers={'c3': ToolApproved({'euros': 6})})
    result = await made.agent.resume('r', deps='Ada', answers={'c4': Answer('Ada')})
    assert result.output == 42


@pytest.mark.parametrize('kind', ['completed', 'denied', 'paused'])
@pytest.mark.parametrize('store_kind', KINDS)
def test_the_same_code_goes_the_same_way_without_any_effect(store_kind: str, kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(store_kind, tmp_path)
        await recorded(store.journal, kind)
        records = await store.journal.load('r')
        made = Made(await store.restart())
        stored = await made.agent.resume('r', deps='Ada')
        with unchanged(made.log):
            for run in ('r', records):
                result = await made.agent.replay(run, deps='Ada')
                assert (result.output, result.status) == (stored.output, stored.status)
                assert [replace(p, run_id='r') for p in result.pending] == list(stored.pending)
                assert result.messages == stored.messages and result.usage == stored.usage
        assert await store.journal.load('r') == records
        assert [i.run_id for i in await store.journal.runs()] == ['r']
        await store.journal.aclose()

    go(main())


def test_an_agent_without_a_journal_replays_records_and_keeps_nothing() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await recorded(journal, 'paused')
        made = Made(None)
        result = await made.agent.replay(await journal.load('r'), deps='Ada')
        assert result.status == 'paused' and made.log == []
        with pytest.raises((ConfigError, UnknownRun)):
            await made.agent.resume(result.run_id, deps='Ada')

    go(main())


# --- what changed ----------------------------------------------------------------------------------------------------


def _validator(limit: int, message: str = 'too small') -> Callable[[int], Any]:
    async def check(value: int) -> int:
        if value < limit:
            raise ModelRetry(message)
        return value

    return check


async def _doubled(value: int) -> int:
    if value < 10:
        raise ModelRetry('too small')
    return 2 * value


def _without(name: str) -> dict[str, Any]:
    made = Made(None)
    return {tool.name: tool for tool in map(_as_tool, made.agent._tools) if tool.name != name}  # pyright: ignore


def _as_tool(given: Any) -> Tool:
    return given if isinstance(given, Tool) else Tool(given)


def _replaced(name: str, function: Any) -> dict[str, Any]:
    return {**_without(name), name: Tool(function, name=name)}


async def _add_strict(a: int, b: int) -> int:
    return a + b


async def _see() -> str:
    return 'seen'


CHANGES: dict[str, tuple[dict[str, Any], int, str, str, str]] = {
    # what is changed: (options, entry, field, recorded, now)
    'another instruction': (
        {'instructions': ['Be quick.', 'Serve Ada.']},
        3,
        'system[0].content',
        'Be exact.',
        'Be quick.',
    ),
    'an instruction less': ({'instructions': ['Be exact.']}, 3, 'system', 'Serve Ada.', ''),
    'an instruction more': ({'instructions': ['Be exact.', 'Serve Ada.', 'Now.']}, 3, 'system', '', 'Now.'),
    'no instructions': ({'instructions': None}, 3, 'system', 'Be exact.', 'None'),
    'a tool less': ({'tools': _without('book')}, 1, 'fingerprint', "tool 'book' is gone", ''),
    'a tool more': (
        {'tools': {**_without(''), 'see': Tool(_see, name='see')}},
        1,
        'fingerprint',
        "tool 'see' is new",
        '',
    ),
    'other arguments': ({'tools': _replaced('add', _add_strict)}, 1, 'fingerprint', "arguments of tool 'add'", ''),
    'another output': ({'output_type': float}, 1, 'fingerprint', 'output has changed', ''),
    'a stricter check': ({'validator': _validator(50)}, -1, 'kind', 'the end (completed)', 'ModelRequest'),
    'a laxer check': ({'validator': _validator(0)}, -3, 'kind', 'ModelRequest', 'the end (completed)'),
    'other words of a check': ({'validator': _validator(10, 'too little')}, -3, 'message', 'too small', 'too little'),
    'another value': ({'validator': _doubled}, -1, 'output', '42', '84'),
    'fewer retries': ({'output_retries': 0}, -3, 'kind', 'ModelRequest', 'UnexpectedModelBehavior'),
}


@pytest.mark.parametrize('name', CHANGES)
def test_a_change_is_named_where_it_first_shows(name: str) -> None:
    changes, seq, field, old, new = CHANGES[name]

    async def main() -> None:
        journal = MemoryJournal()
        await recorded(journal)
        records = await journal.load('r')
        made = Made(journal, **changes)
        with pytest.raises(ReplayMismatch) as caught:
            await made.agent.replay('r', deps='Ada')
        error = caught.value
        walk = [r.seq for r in records if isinstance(r.entry, Entered | Ended)]
        assert error.seq == (seq if seq > 0 else walk[seq]), str(error)
        text = str(error)
        assert text.startswith(f'entry {error.seq} ({records[error.seq - 1].entry.kind}) differs in ')
        assert field in text and old in text and new in text, text
        assert made.log == [] and await journal.load('r') == records
        if field != 'kind' and '.' not in field and field != 'fingerprint':
            assert repr(error.expected)[:40] in repr(getattr(records[error.seq - 1].entry, field))[:60]

    go(main())


def test_other_deps_show_where_they_are_used() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await recorded(journal)
        with pytest.raises(ReplayMismatch, match=r'Serve Ada.*Serve Bob') as caught:
            await Made(journal).agent.replay('r', deps='Bob')
        assert caught.value.seq == 3

    go(main())


def test_other_tools_may_be_let_pass() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await recorded(journal)
        made = Made(journal, tools={**_without('book'), 'see': Tool(_see, name='see')})
        result = await made.agent.replay('r', deps='Ada', on_change='continue')
        assert result.output == 42 and made.log == []
        with pytest.raises(ConfigError, match='on_change'):
            await made.agent.replay('r', deps='Ada', on_change='yes')  # pyright: ignore

    go(main())


def _offer(ctx: RunContext[None], definition: ToolDefinition) -> ToolDefinition | None:
    return definition


def _withhold(ctx: RunContext[None], definition: ToolDefinition) -> ToolDefinition | None:
    return None


def test_a_prepare_that_drops_a_tool_is_a_difference() -> None:
    async def main() -> None:
        journal = MemoryJournal()

        async def look() -> str:
            return 'seen'

        def agent(prepare: Any) -> Agent[None, str]:
            tools = [Tool(look, prepare=prepare), Tool(look, name='other')]
            return Agent(ScriptedModel([[call('look')], 'done']), tools=tools, journal=journal)

        await agent(_offer).run('go', run_id='r')
        with pytest.raises(ReplayMismatch, match='offered') as caught:
            await agent(_withhold).replay('r')
        assert caught.value.seq == 4

    go(main())


def test_the_text_that_differs_is_shown_where_it_differs() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        words = [f'word{n}' for n in range(2000)]
        await Agent(ScriptedModel(['done']), instructions=' '.join(words), journal=journal).run('go', run_id='r')
        words[1500] = 'changed'
        with pytest.raises(ReplayMismatch) as caught:
            await Agent(ScriptedModel([]), instructions=' '.join(words), journal=journal).replay('r')
        text = str(caught.value)
        assert 'word1500' in text and 'changed' in text and len(text) < 600

    go(main())


def test_instructions_that_name_the_run_are_no_difference() -> None:
    async def main() -> None:
        journal = MemoryJournal()

        def where(ctx: RunContext[None]) -> str:
            return f'You work in {ctx.run_id}.'

        agent = Agent(ScriptedModel(['done']), instructions=where, journal=journal)
        await agent.run('go', run_id='r')
        assert (await agent.replay('r')).output == 'done'

    go(main())


# --- runs that did not end well --------------------------------------------------------------------------------------


def failing(journal: Journal, log: Log, how: str, *, mended: bool = False) -> Agent[None, str]:
    """A run that ends with an error at its second step."""

    async def work(ctx: RunContext[None]) -> str:
        log.append('work')
        if how == 'tool' and not mended:
            raise OSError('the disk is gone')
        if how == 'rule':
            raise AssertionError
        return 'done'

    def rule(ctx: RunContext[None], args: dict[str, Any]) -> bool:
        if not mended:
            raise OSError('the rules are gone')
        return False

    async def check(value: str) -> str:
        if how == 'validator' and not mended:
            raise OSError('the list is gone')
        if how == 'retries' and not mended:
            raise ModelRetry('no')
        return value

    script: list[Any] = [[call('work')], ModelTimeout('no answer') if how == 'model' else 'text', 'text', 'text']
    if how == 'filtered':
        script[1] = AssistantMessage([TextPart('x')], finish_reason='content_filter')
    agent: Agent[None, str] = Agent(
        ScriptedModel(script),
        tools=[Tool(work, requires_approval=rule if how == 'rule' else False)],
        journal=journal,
    )
    agent.output_validator(check)
    return agent


@pytest.mark.parametrize('how', ['tool', 'model', 'validator', 'retries', 'filtered', 'rule', 'limit'])
def test_a_failed_run_fails_again_at_the_same_place(how: str) -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        limits = UsageLimits(request_limit=1) if how == 'limit' else None
        with pytest.raises(Exception, match=r'.') as first:
            await failing(journal, log, how).run('go', run_id='r', usage_limits=limits)
        records = await journal.load('r')
        assert isinstance(records[-1].entry, Ended) and records[-1].entry.status == 'failed'
        log.clear()
        result = await failing(journal, log, how).replay('r')
        assert result.status == 'failed' and result.output is None and log == []
        stored = await failing(journal, log, how).resume('r')
        assert result.messages == stored.messages and result.usage == stored.usage
        assert await journal.load('r') == records
        assert isinstance(first.value, RunError | OSError)
        _ = ToolFailed, UsageLimitExceeded

    go(main())


@pytest.mark.parametrize('how', ['validator', 'retries'])
def test_a_failure_of_the_code_that_has_been_mended_is_a_difference(how: str) -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        with pytest.raises(Exception, match=r'.'):
            await failing(journal, log, how).run('go', run_id='r')
        with pytest.raises(ReplayMismatch):
            await failing(journal, log, how, mended=True).replay('r')

    go(main())


def test_a_failure_of_another_kind_is_a_difference() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        with pytest.raises(Exception, match=r'.'):
            await failing(journal, log, 'retries').run('go', run_id='r')
        with pytest.raises(ReplayMismatch):
            await failing(journal, log, 'validator').replay('r')

    go(main())


@pytest.mark.parametrize('when', ['in a tool', 'while the model answers', 'while it waits', 'between'])
def test_a_cancelled_run(when: str) -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        reached = asyncio.Event()

        async def work() -> str:
            log.append('work')
            if when == 'in a tool':
                reached.set()
                await asyncio.sleep(60)
            return 'worked'

        async def answer(messages: Any, info: Any) -> Any:
            if len(messages) == 1:
                yield call('work')
            else:
                yield 'half an ans'
                reached.set()
                await asyncio.sleep(60)

        def agent() -> Agent[None, str]:
            return Agent(
                FunctionModel(answer), tools=[Tool(work, requires_approval=when == 'while it waits')], journal=journal
            )

        if when == 'while it waits':
            await agent().run('go', run_id='r')
            await agent().cancel('r')
        elif when == 'between':
            async with agent().iter('go', run_id='r') as run:
                for _ in range(3):
                    await run.next()
                await run.cancel()
        else:
            task = asyncio.create_task(agent().run('go', run_id='r'))
            await reached.wait()
            await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await journal.info('r')).status == 'cancelled'
        stored = await agent().resume('r')
        log.clear()
        result = await agent().replay('r')
        assert result.status == 'cancelled' and log == []
        assert result.messages == stored.messages

    go(main())


def test_a_run_that_was_resumed_after_crashes() -> None:
    """With calls that were in flight, made again, answered by hand, and left as interrupted."""

    async def main() -> None:
        journal, log = MemoryJournal(), Log()

        async def hang() -> str:
            log.append('hang')
            await asyncio.sleep(60 if dying else 0)
            return 'done'

        async def find_out(ctx: RunContext[None], part: Any) -> ToolReturn:
            return ToolReturn('found')

        def agent(store: Any) -> Agent[None, str]:
            rules: dict[str, Any] = {'again': 'retry', 'never': 'never', 'ask': 'ask', 'find': find_out}
            tools = [Tool(hang, name=name, on_crash=rule) for name, rule in rules.items()]
            calls = [call('again'), call('never'), call('ask'), call('find')]
            return Agent(FunctionModel(lambda m, i: 'done' if len(m) > 1 else calls), tools=tools, journal=store)

        dying = True
        mortal = Mortal(journal, 8)
        with pytest.raises(Killed):
            await agent(mortal).run('go', run_id='r')
        await mortal.bury()
        dying = False
        assert [type(r.entry) for r in await journal.load('r')].count(CallStarted) == 4
        result = await agent(journal).resume('r')
        assert [p.tool_call_id for p in result.pending] == ['ask']
        result = await agent(journal).resume('r', answers={'ask': ToolReturn('it did')})
        log.clear()
        replayed = await agent(journal).replay('r')
        assert replayed.output == 'done' and log == []
        assert replayed.messages == result.messages

    go(main())


def test_a_recording_that_stops_says_so() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await recorded(journal)
        records = await journal.load('r')
        for upto in range(1, len(records)):
            if records[upto - 1].entry.kind in ('paused', 'ended'):
                continue
            made = Made(journal)
            with pytest.raises((UnexpectedModelBehavior, ReplayMismatch), match='recording'):
                await made.agent.replay(records[:upto], deps='Ada')
            assert made.log == []

    go(main())


@pytest.mark.parametrize('records', [[], ['x'], 'r'], ids=['nothing', 'junk', 'unknown'])
def test_nothing_to_replay(records: Any) -> None:
    async def main() -> None:
        with pytest.raises((ConfigError, UnknownRun)):
            await Made(MemoryJournal()).agent.replay(records, deps='Ada')

    go(main())


# --- steering, forks, helpers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize('when', [0, 1, 2, 3])
def test_messages_that_were_enqueued(when: int) -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()

        def agent() -> Agent[None, str]:
            return Agent(ScriptedModel([[call('free')], 'done']), tools=[log.tool('free')], journal=journal)

        async with agent().iter('go', run_id='r') as run:
            for _ in range(when):
                await run.next()
            await run.enqueue('By the way.')
            await run.to_end()
        result = await agent().replay('r')
        assert result.output == 'done' and log == ['free']

    go(main())


def test_forks_that_were_edited() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await recorded(journal)
        made = Made(journal)

        def edit(state: Any) -> None:
            state.metadata = {'edited': True}

        for at in (1, 2, 3, 'HandleResponse', None):
            fork = await made.agent.fork('r', at=at, edit=edit)
            result = await made.agent.resume(fork, deps='Ada')
            while result.status == 'paused':
                answers: dict[Any, Any] = yes(result)
                answers |= {p: Answer('Ada') for p in result.pending if p.reason == 'question'}
                result = await made.agent.resume(fork, deps='Ada', answers=answers)
            with unchanged(made.log):
                replayed = await made.agent.replay(fork, deps='Ada')
            assert replayed.output == 42 and replayed.metadata == {'edited': True}, at

    go(main())


def test_a_response_put_in_by_hand_is_the_recorded_one() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await recorded(journal)
        made = Made(journal)
        fork = await made.agent.fork(
            'r', at='HandleResponse', replace=AssistantMessage([call('final_result', {'response': 99}, 'o2')])
        )
        result = await made.agent.resume(fork, deps='Ada')
        assert result.output == 99
        assert (await made.agent.replay(fork, deps='Ada')).output == 99

    go(main())


REPLACED: dict[str, tuple[int, Any]] = {
    'the prompt': (0, UserMessage('Oslo')),
    'the answers of tools by other answers': (1, ToolMessage([ToolReturnPart('look', 'rain', 'c1')])),
    'the answers of tools by something said': (1, UserMessage('never mind')),
}


@pytest.mark.parametrize('what', REPLACED)
@pytest.mark.parametrize('kind', KINDS)
def test_a_request_put_in_by_hand_is_the_recorded_one(kind: str, what: str, tmp_path: Path) -> None:
    async def main() -> None:
        store, log = Store(kind, tmp_path), Log()

        async def echo(messages: Any, info: Any) -> Any:
            last = messages[-1]
            if isinstance(last, ToolMessage):
                return f'told {last.parts[0].content}'
            return [call('look', {'city': last.content}, f'c{len(messages)}')]

        async def look(city: str) -> str:
            log.append(city)
            return f'{city} is nice'

        def agent(instructions: str) -> Agent[None, str]:
            return Agent(FunctionModel(echo), tools=[look], journal=store.journal, instructions=instructions)

        await agent('Look.').run('Rome', run_id='r')
        records = await store.journal.load('r')
        requests = [r.seq for r in records if isinstance(r.entry, Entered) and r.entry.node == 'ModelRequest']
        nth, message = REPLACED[what]
        fork = await agent('Look.').fork('r', at=requests[nth], replace=message)
        result = await agent('Look.').resume(fork)
        await store.restart()
        with unchanged(log):
            replayed = await agent('Look.').replay(fork)
            assert replayed.output == result.output and replayed.messages == result.messages
            # What the code itself brings is compared all the same.
            with pytest.raises(ReplayMismatch, match="differs in 'system"):
                await agent('Look twice.').replay(fork)
        await store.journal.aclose()

    go(main())


def test_answers_given_at_once_and_agents_inside() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()

        async def pay(ctx: RunContext[None]) -> str:
            if not ctx.approved:
                raise ApprovalRequired
            log.append('pay')
            return 'paid'

        def agent() -> Agent[None, str]:
            inner = Agent(FunctionModel(lambda m, i: 'inner' if len(m) > 1 else [call('pay', {}, 'p')]), tools=[pay])

            async def delegate() -> str:
                return (await inner.run('task')).output

            outer = FunctionModel(
                lambda m, i: 'done' if len(m) > 1 else [call('pay', {}, 'p'), call('delegate', {}, 'd')]
            )
            return Agent(outer, tools=[pay, delegate], journal=journal)

        result = await agent().run('go', run_id='r', on_pending=lambda p: ToolApproved())
        assert log == ['pay', 'pay']
        replayed = await agent().replay('r')
        assert replayed.output == 'done' and replayed.usage == result.usage and log == ['pay', 'pay']

    go(main())


def test_what_is_watched_in_a_replay_is_nothing() -> None:
    """No event, no key, no clock: only the comparison. Two replays of one recording may run at once."""

    async def main() -> None:
        journal = MemoryJournal()
        await recorded(journal)
        made = Made(journal)
        results = await asyncio.gather(*(made.agent.replay('r', deps='Ada') for _ in range(10)))
        assert {r.output for r in results} == {42} and made.log == []

    go(main())
