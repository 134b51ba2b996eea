"""What a run inside a tool used counts in the runs around it, whatever way it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    Answer,
    ApprovalRequired,
    AssistantMessage,
    CodecError,
    Journal,
    MemoryJournal,
    Message,
    ModelTimeout,
    Pending,
    RequestInfo,
    ResponseBuilder,
    RunCancelled,
    RunContext,
    RunError,
    SQLiteJournal,
    TextPart,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolFailed,
    ToolReturn,
    Usage,
    UsageLimitExceeded,
    UsageLimits,
)
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.durable.kit import KINDS, Killed, Mortal, Store, stored_state, yes
from tests.engine.kit import WAYS, Way, call, go, outcome_of

EACH_WAY = pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
USED = Usage(input_tokens=100, output_tokens=7)
PRICED: dict[str, Any] = {'provider_name': 'openai', 'model_name': 'gpt-4o-mini'}


class Breaks:
    """A model whose answer breaks off, or stands still, after its tokens were counted."""

    name = 'breaks'
    provider = 'test'

    def __init__(self, *, hangs: bool = False) -> None:
        self.hangs = hangs
        self.begun = asyncio.Event()

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        out.usage = USED
        await out.text('half an')
        self.begun.set()
        if self.hangs:
            await asyncio.sleep(30)
        raise ModelTimeout('the answer broke off')


def _said(*parts: Any, tokens: int = 10, **more: Any) -> AssistantMessage:
    return AssistantMessage(parts or (TextPart('ok'),), Usage(input_tokens=tokens), **more)


def _around(inner: Callable[[RunContext], Awaitable[str]], journal: Journal | None = None, **options: Any) -> Any:
    async def delegate(ctx: RunContext) -> str:
        return await inner(ctx)

    model = FunctionModel(lambda messages, info: 'end' if len(messages) > 1 else [call('delegate')])
    return Agent(model, tools=[Tool(delegate, **options)], journal=journal)


@EACH_WAY
@pytest.mark.parametrize('kept', [False, True])
def test_an_answer_that_breaks_off(way: Way, kept: bool) -> None:
    async def main() -> None:
        agent = _around(lambda ctx: _output(Agent(Breaks())), MemoryJournal() if kept else None)
        done = await outcome_of(way, agent)
        assert isinstance(done.error, ToolFailed) and isinstance(done.error.__cause__, ModelTimeout)
        assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.requests) == (100, 7, 2)

    go(main())


async def _output(agent: Agent[Any, str], prompt: str = 'go on', **options: Any) -> str:
    return (await agent.run(prompt, **options)).output


async def _caught(agent: Agent[Any, str]) -> str:
    try:
        return await _output(agent)
    except RunError as error:
        return f'{error.usage} for nothing'


@EACH_WAY
def test_it_counts_against_the_limits_around(way: Way) -> None:
    async def main() -> None:
        agent = _around(lambda ctx: _caught(Agent(Breaks())))
        done = await outcome_of(way, agent, usage_limits=UsageLimits(total_tokens_limit=107))
        assert isinstance(done.error, UsageLimitExceeded), 'the bound is reached: no further request'
        assert done.usage.total_tokens == 107
        done = await outcome_of(way, agent, usage_limits=UsageLimits(total_tokens_limit=108))
        assert done.output == 'end' and done.usage.requests == 3

    go(main())


def test_three_levels() -> None:
    async def main() -> None:
        middle = _around(lambda ctx: _caught(Agent(Breaks())))
        result = await _around(lambda ctx: _output(middle)).run('go')
        assert (result.usage.requests, result.usage.tool_calls, result.usage.input_tokens) == (5, 2, 100)

    go(main())


def test_a_timeout_stops_the_answer() -> None:
    async def main() -> None:
        agent = _around(lambda ctx: _output(Agent(Breaks(hangs=True))), timeout=0.05)
        result = await agent.run('go')
        assert result.output == 'end' and result.usage.input_tokens == 100
        with pytest.raises(UsageLimitExceeded):
            await agent.run('go', usage_limits=UsageLimits(input_tokens_limit=100))

    go(main())


@pytest.mark.parametrize('kept', [False, True])
def test_a_cancel_stops_the_answer(kept: bool) -> None:
    async def main() -> None:
        model = Breaks(hangs=True)
        agent = _around(lambda ctx: _output(Agent(model)), MemoryJournal() if kept else None)
        async with agent.iter('go') as run:
            walk = asyncio.create_task(run.to_end())
            await model.begun.wait()
            await run.cancel()
            with pytest.raises(RunCancelled) as caught:
                await walk
        assert caught.value.usage == run.usage and run.usage.input_tokens == 100

    go(main())


def test_a_response_that_cannot_be_stored(tmp_path: Path) -> None:
    async def main() -> None:
        unfit = _said(TextPart('x', {'odd': float('nan')}), tokens=40)

        async def inner(ctx: RunContext) -> str:
            with pytest.raises(CodecError):
                await _output(Agent(ScriptedModel([unfit])))
            return 'for nothing'

        agent = _around(inner, SQLiteJournal(tmp_path / 'runs.db'))
        result = await agent.run('go', run_id='r')
        assert result.usage.input_tokens == 40 and result.usage.requests == 3
        inside = (await stored_state(agent.journal, 'r:delegate:1')).usage
        assert (inside.input_tokens, inside.requests) == (40, 1)
        await agent.journal.aclose()

    go(main())


@pytest.mark.parametrize('kind', KINDS)
def test_a_run_inside_that_failed_before_the_call_waited(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = Store(kind, tmp_path)
        models: list[Any] = [Breaks(), ScriptedModel([_said(tokens=5)])]

        async def inner(ctx: RunContext) -> str:
            found = await _caught(Agent(models.pop(0)))
            return f'{found}, {await ctx.ask("And now?")}'

        agent = _around(inner, store.journal)
        result = await agent.run('go', run_id='r')
        assert (result.usage.requests, result.usage.input_tokens) == (2, 100)
        again = _around(inner, await store.restart())
        result = await again.resume('r', answers={result.pending[0]: Answer('go on')})
        assert result.status == 'completed'
        assert (result.usage.requests, result.usage.input_tokens) == (4, 105), 'the one that failed was asked as well'
        await store.journal.aclose()

    go(main())


async def _stopped_in_a_tool(journal: MemoryJournal, rule: Any, **options: Any) -> Any:
    """A run whose process died while an agent inside had been answered once, and a tool of that was at work."""
    mortal, at_work = Mortal(journal), asyncio.Event()

    async def work() -> str:
        at_work.set()
        await asyncio.sleep(30)
        return 'never'

    answers = FunctionModel(lambda messages, info: _said(call('work'), tokens=50, **PRICED))
    inner = Agent(answers, tools=[Tool(work, on_crash='never')], name='inner')
    agent = _around(lambda ctx: _output(inner), mortal, on_crash=rule)
    task = asyncio.create_task(agent.run('go', run_id='r', **options))
    await at_work.wait()
    mortal.dead = True
    task.cancel()
    with pytest.raises((Killed, asyncio.CancelledError)):
        await task
    await mortal.bury()
    ends = Agent(ScriptedModel([_said(tokens=1)] * 2), tools=[Tool(work, on_crash='never')], name='inner')
    return _around(lambda ctx: _output(ends), journal, on_crash=rule)


async def _looked_up(ctx: RunContext, call: Any) -> ToolReturn:
    return ToolReturn('it was done')


@pytest.mark.parametrize(('rule', 'answer'), [('never', None), (_looked_up, None), ('ask', ToolReturn('done'))])
def test_a_call_that_a_crash_left_and_nobody_goes_on_with(rule: Any, answer: Any) -> None:
    async def main() -> None:
        agent = await _stopped_in_a_tool(MemoryJournal(), rule)
        result = await agent.resume('r')
        if answer is not None:
            assert result.status == 'paused' and result.usage.input_tokens == 50
            result = await agent.resume('r', answers={result.pending[0]: answer})
        assert result.status == 'completed' and result.output == 'end'
        assert (result.usage.requests, result.usage.tool_calls, result.usage.input_tokens) == (3, 2, 50)
        assert len([s for s in result.state.spends if s.usage.input_tokens == 50]) == 1
        assert (await stored_state(agent.journal, 'r')).usage == result.usage
        assert (await agent.replay('r')).usage == result.usage

    go(main())


def test_a_crash_that_somebody_says_no_to() -> None:
    async def main() -> None:
        agent = await _stopped_in_a_tool(MemoryJournal(), 'ask')
        result = await agent.resume('r')
        result = await agent.resume('r', answers={result.pending[0]: ToolDenied('no')})
        assert result.status == 'completed' and result.usage.input_tokens == 50

    go(main())


def test_a_crash_after_which_the_call_is_made_again() -> None:
    async def main() -> None:
        agent = await _stopped_in_a_tool(MemoryJournal(), 'retry')
        result = await agent.resume('r')
        assert result.status == 'completed'
        assert (result.usage.requests, result.usage.tool_calls, result.usage.input_tokens) == (4, 2, 51)

    go(main())


def test_a_crash_after_which_the_tool_does_something_else() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        await _stopped_in_a_tool(journal, 'retry')

        async def nothing(ctx: RunContext) -> str:
            return 'nothing'

        result = await _around(nothing, journal, on_crash='retry').resume('r')
        assert (result.usage.requests, result.usage.input_tokens) == (3, 50)

    go(main())


def test_a_limit_holds_from_where_the_crash_left_it() -> None:
    async def main() -> None:
        agent = await _stopped_in_a_tool(MemoryJournal(), 'never', usage_limits=UsageLimits(input_tokens_limit=50))
        with pytest.raises(UsageLimitExceeded):
            await agent.resume('r')

    go(main())


def _asking(journal: Journal, waits: int = 1, **more: Any) -> Any:
    """A run whose calls each run an agent that waits to be allowed something."""

    def answer(messages: Sequence[Message], info: RequestInfo) -> Any:
        return _said(call('may'), tokens=50, **PRICED) if len(messages) == 1 else _said(tokens=3, **PRICED)

    async def may() -> str:
        return 'done'

    inner = Agent(FunctionModel(answer), tools=[Tool(may, requires_approval=True)], name='inner')

    async def delegate(n: int) -> str:
        return await _output(inner, f'part {n}')

    calls = [call('delegate', {'n': n}, f'd{n}') for n in range(waits)]
    model = FunctionModel(lambda messages, info: _said(*([] if len(messages) > 1 else calls), **PRICED))
    return Agent(model, tools=[Tool(delegate), *more.pop('tools', ())], journal=journal, **more)


def test_a_paused_run_that_is_cancelled() -> None:
    async def main() -> None:
        agent = _asking(MemoryJournal())
        result = await agent.run('go', run_id='r')
        assert result.status == 'paused' and result.usage.input_tokens == 60 and len(result.state.all_spends) == 2
        cost = result.cost
        await agent.cancel('r')
        result = await agent.resume('r')
        assert result.status == 'cancelled' and result.usage.input_tokens == 60 and result.usage.requests == 2
        assert result.cost == cost is not None

    go(main())


def test_what_a_paused_run_costs() -> None:
    async def main() -> None:
        result = await _asking(MemoryJournal()).run('go')
        alone = await Agent(ScriptedModel([_said(tokens=60, **PRICED)])).run('go')
        assert result.cost == alone.cost is not None

    go(main())


def test_the_answered_and_the_unanswered_half() -> None:
    async def main() -> None:
        agent = _asking(MemoryJournal(), waits=2)
        result = await agent.run('go', run_id='r')
        assert result.usage.input_tokens == 110
        result = await agent.resume('r', answers={result.pending[1]: ToolApproved()})
        assert result.status == 'paused' and result.usage.input_tokens == 113, 'those of the one that waits as well'
        result = await agent.resume('r', answers=yes(result))
        assert result.status == 'completed'
        assert (result.usage.input_tokens, result.usage.requests, result.usage.tool_calls) == (126, 6, 4)

    go(main())


def test_limits_hold_while_a_part_waits() -> None:
    async def main() -> None:
        agent = _asking(MemoryJournal(), waits=2)
        result = await agent.run('go', run_id='r', usage_limits=UsageLimits(input_tokens_limit=111))
        assert result.usage.input_tokens == 110
        with pytest.raises(UsageLimitExceeded) as caught:
            await agent.resume('r', answers={result.pending[0]: ToolApproved()})
        stored = await stored_state(agent.journal, 'r')
        assert caught.value.usage == stored.usage and stored.usage.input_tokens == 113

    go(main())


def _allow(pending: Pending) -> ToolApproved:
    return ToolApproved()


def test_a_call_that_is_made_again_at_once_counts_once() -> None:
    async def main() -> None:
        inner = Agent(ScriptedModel([_said(tokens=50)]), name='inner')

        async def twice(ctx: RunContext) -> str:
            found = await _output(inner)
            if not ctx.approved:
                raise ApprovalRequired('Really?')
            return found

        agent = _around(twice, MemoryJournal())
        limits = UsageLimits(input_tokens_limit=60)
        result = await agent.run('go', on_pending=_allow, usage_limits=limits)
        assert result.output == 'end' and result.usage.input_tokens == 50 and result.usage.requests == 3

    go(main())


def test_a_run_inside_with_a_name_of_its_own_counts_once() -> None:
    async def main() -> None:
        journal = MemoryJournal()

        async def named(ctx: RunContext) -> str:
            inner = Agent(ScriptedModel([_said(tokens=50)]), name='inner')
            return await _output(inner, run_id='mine') + await ctx.ask('And?')

        agent = _around(named, journal)
        result = await agent.run('go', run_id='r', usage_limits=UsageLimits(input_tokens_limit=60))
        assert result.usage.input_tokens == 50
        result = await agent.resume('r', answers={result.pending[0]: Answer('so')})
        assert result.status == 'completed' and (result.usage.input_tokens, result.usage.requests) == (50, 3)

    go(main())


def test_calls_that_never_began_are_given_back() -> None:
    async def main() -> None:
        async def bad() -> str:
            raise ValueError('no')

        script = [[call('bad', {}, f'b{n}') for n in range(4)]]
        inner = Agent(ScriptedModel(script), tools=[bad], max_concurrency=1)
        seen: list[str] = []

        async def note() -> str:
            seen.append('noted')
            return 'noted'

        async def delegate() -> str:
            return await _caught(inner)

        model = ScriptedModel([[call('delegate')], [call('note', {}, 'n1'), call('note', {}, 'n2')], 'end'])
        agent = Agent(model, tools=[delegate, note])
        result = await agent.run('go', usage_limits=UsageLimits(tool_calls_limit=5))
        assert result.output == 'end' and len(seen) == 2 and result.usage.tool_calls == 4

    go(main())
