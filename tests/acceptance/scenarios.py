"""The agents that are killed. Each is built anew in every process, from the same code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_graph import (
    Agent,
    Answer,
    Message,
    Pending,
    RunContext,
    ToolApproved,
    ToolCallPart,
    ToolDenied,
    ToolOutput,
    ToolReturn,
)
from tests.acceptance.crowd import Crowd
from tests.acceptance.ledger import Line
from tests.acceptance.stage import Stage, answers, call, prompt_of, report, value
from tests.acceptance.workflow import Workflow

__all__ = ['CONTESTS', 'PROMPT', 'RUN_ID', 'SCENARIOS', 'Scenario', 'answer_for']

RUN_ID = 'run'
PROMPT = 'go'


@dataclass(frozen=True)
class Scenario:
    """An agent or something like one, and what a crash may change: `exact` ones end exactly as if there had been none."""

    make: Callable[[Stage], Any]
    exact: bool = True


def _steps(stage: Stage) -> Agent[Any, Any]:
    """Three steps, equal calls in one response and in the next, a sync tool."""
    turns = [
        [call('fetch', 1, 's1'), call('fetch', 1, 's2')],
        [call('fetch', 1, 's3')],
        [call('pack', 2, 's4')],
        report,
    ]
    tools = [stage.tool('fetch'), stage.sync_tool('pack')]
    return Agent(stage.model('steps', *turns), name='steps', tools=tools, journal=stage.journal)


def _parallel(stage: Stage) -> Agent[Any, Any]:
    """One response with a call for every rule."""
    calls = [call(name, n, f'p{n}') for n, name in enumerate(('fetch', 'post', 'pay', 'ship', 'pack'))]
    tools = [*(stage.tool(name) for name in ('fetch', 'post', 'pay', 'ship')), stage.sync_tool('pack')]
    return Agent(stage.model('parallel', calls, report), name='parallel', tools=tools, journal=stage.journal)


def _inner(stage: Stage, name: str, tools: Sequence[Any], *turns: Any, in_thread: bool = False) -> Any:
    """A tool, async or in a thread with a loop of its own, that has an agent answer, and gives what that says."""
    agent = Agent(stage.model(f'{name} agent', *turns), name=f'{name} agent', tools=tools)

    def ask_in_thread(ctx: RunContext, n: int) -> str:
        return agent.run_sync(f'{name} {n}').output

    async def ask(ctx: RunContext, n: int) -> str:
        return (await agent.run(f'{name} {n}')).output

    return stage.declare(name, ask_in_thread if in_thread else ask)


def _nested(stage: Stage) -> Agent[Any, Any]:
    """Two agents at once inside tools, with an agent inside a tool of each, which runs in a thread."""
    hire = _inner(stage, 'hire', [stage.tool('pay')], [call('pay', 3, 'd1')], report, in_thread=True)
    tools = [hire, stage.tool('fetch')]

    def hire_one(messages: Sequence[Message]) -> list[ToolCallPart]:
        n = int(prompt_of(messages).split()[1])  # another prompt for each, so that the ledger can tell them apart
        return [call('hire', n, 'c1'), call('fetch', 2, 'c2')]

    consult = _inner(stage, 'consult', tools, hire_one, report)
    calls = [call('consult', 1, 'n1'), call('consult', 2, 'n2')]
    return Agent(stage.model('nested', calls, report), name='nested', tools=[consult], journal=stage.journal)


def _output(stage: Stage) -> Agent[Any, Any]:
    """A tool, then an output function with an effect. One that is interrupted is asked for again, as another call."""

    async def deliver(ctx: RunContext, n: int) -> str:
        stage.effect('deliver', ctx.run_id, f'o{n}')
        return 'delivered'

    def ask(messages: Sequence[Message]) -> list[ToolCallPart]:
        n = len(answers(messages))
        return [call('deliver', n, f'o{n}')]

    model = stage.model('output', [call('fetch', 1, 'f1')], ask)
    output = ToolOutput(deliver, name='deliver', max_retries=100)
    return Agent(model, name='output', tools=[stage.tool('fetch')], output_type=output, journal=stage.journal)


def _gated(stage: Stage) -> Agent[Any, Any]:
    """People in the loop: approved, denied, asked from inside a tool, done by somebody else; and one that is free."""

    async def wonder(ctx: RunContext, n: int) -> str:
        which = await ctx.ask('Which one?', schema=int)
        stage.effect('wonder', ctx.run_id, str(ctx.tool_call_id))
        return value('wonder', n + which)

    tools = [
        stage.tool('fetch'),
        stage.tool('wire', requires_approval=True),
        stage.tool('send', requires_approval=True),
        stage.declare('wonder', wonder),
        stage.tool('ship', external=True),
    ]
    calls = [call(name, n, f'g{n}') for n, name in enumerate(('fetch', 'wire', 'send', 'wonder', 'ship'))]
    again = [call('send', 2, 'g5'), call('wire', 1, 'g6')]
    return Agent(stage.model('gated', calls, again, report), name='gated', tools=tools, journal=stage.journal)


def _gated_inside(stage: Stage) -> Agent[Any, Any]:
    """Two agents at once inside tools, each waiting for people twice."""
    tools = [stage.tool('wire', requires_approval=True), stage.tool('pay')]
    turns = [call('pay', 0, 'c0')], [call('wire', 1, 'c1')], [call('wire', 2, 'c2')]
    consult = _inner(stage, 'consult', tools, *turns, report)
    calls = [call('consult', 1, 'n1'), call('consult', 2, 'n2')]
    return Agent(stage.model('gated inside', calls, report), name='gated', tools=[consult], journal=stage.journal)


def _steps_inside(stage: Stage) -> Agent[Any, Any]:
    """Two calls at once of a tool that does two things, each of them once."""

    async def order(ctx: RunContext, n: int) -> str:
        for name in ('reserve', 'mail'):
            key = f'{ctx.tool_call_id}:{name}'

            def once(key: str = key) -> str:
                stage.effect('order', ctx.run_id, key, what='step')
                return key

            assert await ctx.step(name, once) == key
        return value('order', n)

    calls = [call('order', 1, 'i1'), call('order', 2, 'i2')]
    model = stage.model('steps inside', calls, report)
    return Agent(model, name='steps inside', tools=[stage.declare('order', order)], journal=stage.journal)


def _meeting(stage: Stage) -> Agent[Any, Any]:
    """A tool that waits until some other process has tried to resume the run: no race is decided by who is quicker."""

    async def meet(ctx: RunContext, n: int) -> str:
        stage.effect('meet', ctx.run_id, str(ctx.tool_call_id))
        async with asyncio.timeout(15):
            while not any(line.what == 'attempt' for line in stage.ledger.lines()):  # noqa: ASYNC110  in another process
                await asyncio.sleep(0.002)
        return value('meet', n)

    turns = [call('fetch', 1, 'm1')], [call('meet', 2, 'm2')], [call('fetch', 3, 'm3')]
    tools = [stage.tool('fetch'), stage.declare('meet', meet)]
    return Agent(stage.model('meeting', *turns, report), name='meeting', tools=tools, journal=stage.journal)


def _lingering(stage: Stage) -> Agent[Any, Any]:
    """A tool that never ends by itself, and notes when it is stopped."""

    async def linger(ctx: RunContext, n: int) -> str:
        stage.effect('linger', ctx.run_id, str(ctx.tool_call_id))
        try:
            await asyncio.sleep(600)
        finally:
            stage.ledger.add('stopped', ctx.run_id, str(ctx.tool_call_id))
        return value('linger', n)

    turns = [call('linger', 1, 'l1')], [call('fetch', 2, 'l2')]
    tools = [stage.tool('fetch'), stage.declare('linger', linger)]
    return Agent(stage.model('lingering', *turns, report), name='lingering', tools=tools, journal=stage.journal)


def _plain(stage: Stage) -> Agent[Any, Any]:
    """One call after the other: who is stopped before a write is not in the middle of another one, holding the file."""
    turns = [call('fetch', 1, 't1')], [call('ship', 2, 't2')], [call('fetch', 3, 't3')]
    tools = [stage.tool('fetch'), stage.tool('ship')]
    return Agent(stage.model('plain', *turns, report), name='plain', tools=tools, journal=stage.journal)


def _waiting(stage: Stage) -> Agent[Any, Any]:
    """A call that waits for somebody's yes."""
    tools = [stage.tool('wire', requires_approval=True), stage.tool('fetch')]
    turns = [call('wire', 1, 'w1')], [call('fetch', 2, 'w2')]
    return Agent(stage.model('waiting', *turns, report), name='waiting', tools=tools, journal=stage.journal)


SCENARIOS = {
    'steps': Scenario(_steps),
    'parallel': Scenario(_parallel),
    'nested': Scenario(_nested),
    'output': Scenario(_output, exact=False),
    'gated': Scenario(_gated),
    'gated inside': Scenario(_gated_inside),
    'steps inside': Scenario(_steps_inside),
    'workflow': Scenario(Workflow),
    'crowd': Scenario(Crowd),
}
"""By name: those that are killed anywhere."""

CONTESTS = {
    'meeting': Scenario(_meeting),
    'lingering': Scenario(_lingering),
    'waiting': Scenario(_waiting),
    'plain': Scenario(_plain),
}
"""By name: those that two processes want."""


def answer_for(stage: Stage, pending: Pending) -> Any:
    """What a person says who knows the ledger: honest about calls a crash interrupted, and no to every `send`."""
    n = int(str(pending.args['n'])) if isinstance(pending.args, dict) else 0
    stage.ledger.add('verdict', pending.run_id, f'{pending.tool_call_id} {pending.reason}')
    if pending.reason == 'crash':
        if pending.tool_name == 'hire':  # an agent inside goes on where it was
            return ToolApproved()
        done = Line('tool', pending.run_id, pending.tool_call_id) in stage.ledger.lines()
        n += 10 * (pending.tool_name == 'wonder')
        return ToolReturn(value(pending.tool_name, n)) if done else ToolApproved()
    if pending.reason == 'question':
        return Answer(10)
    if pending.reason == 'external':
        return ToolReturn(value(pending.tool_name, n))
    return ToolDenied('no') if pending.tool_name == 'send' else ToolApproved()
