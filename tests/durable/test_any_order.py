"""Random runs that wait, answered in random order by random people, killed at random writes: what must always hold.

`DURABLE_SEEDS=2000 pytest tests/durable/test_any_order.py` tries more of them.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from agent_graph import (
    Agent,
    Answer,
    ApprovalRequired,
    AssistantMessage,
    MemoryJournal,
    Pending,
    RunContext,
    RunResult,
    Tool,
    ToolApproved,
    ToolDenied,
    ToolReturn,
    UnknownRun,
    Usage,
)
from agent_graph.engine.state import call_key
from agent_graph.journal.entries import CallFinished, Entered
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel
from tests.durable.kit import Killed, Mortal, stored_state
from tests.engine.kit import answers_of, call, go

SEEDS = int(os.environ.get('DURABLE_SEEDS', '60'))
KINDS = ('free', 'gated', 'raised', 'external', 'asks', 'delegate')


class World:
    """A script, its agents, the people, and what really happened."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.effects: list[str] = []
        self.steps: list[str] = []
        self.deaths = 0
        self.denied: set[str] = set()
        self.allowed: set[str] = set()
        self.inner_calls = self._calls('i', self.random.randint(1, 2), KINDS[:-1])
        self.rounds = [self._calls(f'r{n}', self.random.randint(1, 4), KINDS) for n in range(self.random.randint(1, 3))]

    def _calls(self, prefix: str, count: int, kinds: tuple[str, ...]) -> list[Any]:
        pick = self.random
        return [call(pick.choice(kinds), {'n': pick.randint(0, 1)}, f'{prefix}{k}') for k in range(count)]

    def build(self, journal: Any) -> Agent[None, str]:
        """The agents, as a new process would make them."""
        inner = Agent(self._model([self.inner_calls]), name='inner', tools=self._tools())

        async def delegate(n: int) -> str:
            return (await inner.run(f'task {n}')).output

        tools = [*self._tools(), Tool(delegate, on_crash='retry')]
        return Agent(self._model(self.rounds), name='outer', tools=tools, journal=journal)

    def _model(self, rounds: list[list[Any]]) -> FunctionModel:
        def answer(messages: Any, info: Any) -> AssistantMessage:
            done = sum(isinstance(m, AssistantMessage) for m in messages)
            parts: list[Any] = rounds[done] if done < len(rounds) else ['all done']
            made = [p for p in parts if not isinstance(p, str)] or [_text('all done')]
            return AssistantMessage(made, Usage(input_tokens=1), finish_reason='stop')

        return FunctionModel(answer)

    def _tools(self) -> list[Tool]:
        async def work(ctx: RunContext[None], n: int) -> str:
            self.effects.append(ctx.idempotency_key)
            return f'{ctx.tool_call_id} {n}'

        async def raised(ctx: RunContext[None], n: int) -> str:
            if not ctx.approved:
                raise ApprovalRequired('Well?')
            return await work(ctx, n)

        async def asks(ctx: RunContext[None], n: int) -> str:
            first = await ctx.ask('First?')
            await ctx.step('effect', lambda: self.steps.append(ctx.idempotency_key))
            return f'{first} {await ctx.ask("Second?", schema=int)}'

        return [
            Tool(work, name='free'),
            Tool(work, name='gated', requires_approval=True),
            Tool(raised, name='raised'),
            Tool(work, name='external', external=True),
            Tool(asks, name='asks', on_crash='retry'),
        ]

    def reply(self, pending: Pending) -> Any:
        """What a person says; a call in flight is never repeated."""
        name = f'{pending.run_id}:{pending.tool_call_id}'
        if pending.reason == 'crash':
            return ToolReturn('somebody looked')
        if self.random.random() < 0.25:
            self.denied.add(name)
            return ToolDenied(f'no {pending.tool_call_id}')
        if pending.reason == 'external':
            return ToolReturn('from elsewhere')
        if pending.reason == 'question':
            return Answer('one' if pending.question == 'First?' else 2)
        self.allowed.add(name)
        return ToolApproved({'n': 9}) if self.random.random() < 0.2 else ToolApproved()


def _text(text: str) -> Any:
    from agent_graph import TextPart

    return TextPart(text)


async def _attempt(world: World, journal: MemoryJournal, result: RunResult[str] | None) -> RunResult[str] | None:
    """One process: it begins or goes on, perhaps with some answers, and perhaps dies."""
    dies = world.random.random() < 0.4
    at = world.random.randint(1, 12) if dies else None
    mortal: Any = Mortal(journal, at, committed=world.random.random() < 0.5)
    agent = world.build(mortal)
    answers: dict[Any, Any] | None = None
    kept = set(world.denied), set(world.allowed)
    if result is not None and result.pending:
        chosen = world.random.sample(result.pending, world.random.randint(0, len(result.pending)))
        answers = {p: world.reply(p) for p in chosen} or None
    try:
        try:
            await journal.info('r')
        except UnknownRun:
            return await agent.run('go', run_id='r')
        return await agent.resume('r', answers=answers)
    except Killed:
        world.deaths += 1
        await mortal.bury()
        if answers:
            await _forget(world, journal, answers, kept)
        return await world.build(journal).resume('r') if await journal.runs() else None


async def _forget(world: World, journal: MemoryJournal, answers: dict[Any, Any], kept: Any) -> None:
    """Answers that were not recorded were not given."""
    world.denied, world.allowed = kept
    for pending, given in answers.items():
        state = await stored_state(journal, pending.run_id)
        name = f'{pending.run_id}:{pending.tool_call_id}'
        waits = any(p.tool_call_id == pending.tool_call_id and p.question == pending.question for p in state.waiting)
        if waits and state.paused:
            continue
        if isinstance(given, ToolDenied) and pending.reason != 'crash':
            world.denied.add(name)
        if isinstance(given, ToolApproved):
            world.allowed.add(name)


async def _whole(world: World) -> None:
    journal = MemoryJournal()
    result: RunResult[str] | None = None
    for _ in range(80):
        result = await _attempt(world, journal, result)
        if result is not None and result.status == 'completed':
            break
    assert result is not None and result.output == 'all done', result
    assert len(world.effects) == len(set(world.effects)), 'an effect happened twice'
    # A step that was in flight when the process died is done again with its call, which was declared safe to repeat.
    assert len(world.steps) - len(set(world.steps)) <= world.deaths
    for info in await journal.runs():
        await _check(world, journal, info.run_id)
    assert is_valid(result.messages)
    before = [*world.effects, *world.steps]
    replayed = await world.build(journal).replay('r')
    assert replayed.messages == result.messages and [*world.effects, *world.steps] == before
    assert replayed.usage == result.usage


async def _check(world: World, journal: MemoryJournal, run_id: str) -> None:
    state = await stored_state(journal, run_id)
    records = await journal.load(run_id)
    finished = [r.entry.part.tool_call_id for r in records if isinstance(r.entry, CallFinished)]
    assert len(finished) == len(set(finished)), 'a call finished twice'
    responses = [r.entry.response for r in records if isinstance(r.entry, Entered) and r.entry.response]
    parts = {p.tool_call_id: p for m in responses for p in m.parts if p.kind == 'tool_call'}
    answered = answers_of(state.messages)
    assert [p.tool_call_id for p in answered] == list(parts), 'each call answered once, in order'
    for part in answered:
        name = f'{run_id}:{part.tool_call_id}'
        if part.outcome == 'denied':
            assert name not in world.effects
            assert _denied(world, run_id, part.tool_call_id, responses), 'nobody had said no'
        if part.tool_name in ('gated', 'raised') and name in world.effects:
            assert name in world.allowed, 'nobody had allowed it'
        if part.outcome == 'success' and part.tool_name in ('free', 'gated', 'raised'):
            assert name in world.effects or part.content == 'somebody looked'
        if name in world.denied:
            assert part.outcome == 'denied', 'a no is a no'
    assert not state.pending and not state.queued


def _denied(world: World, run_id: str, call_id: str, responses: list[AssistantMessage]) -> bool:
    """Whether this call was denied, or an equal one of an earlier response."""
    before: set[tuple[str, str]] = set()
    for response in responses:
        calls = [p for p in response.parts if p.kind == 'tool_call']
        for part in calls:
            if part.tool_call_id == call_id:
                return f'{run_id}:{call_id}' in world.denied or call_key(part.tool_name, part.args) in before
        before |= {call_key(p.tool_name, p.args) for p in calls if f'{run_id}:{p.tool_call_id}' in world.denied}
    return False


@pytest.mark.parametrize('block', range(6))
def test_whatever_happens(block: int) -> None:
    for seed in range(block, SEEDS, 6):
        try:
            go(_whole(World(seed)))
        except BaseException as error:
            error.add_note(f'seed {seed}')
            raise
