"""Case 11: a context variable set by the caller is seen in all user code of its run, and changes do not leak."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from agent_graph import Agent, RunContext
from agent_graph.messages import Message
from agent_graph.model import RequestInfo
from agent_graph.testing import FunctionModel
from tests.engine.kit import WAYS, Way, answers_of, call, go

tenant: ContextVar[str] = ContextVar('tenant', default='nobody')


async def _script(messages: list[Message], info: RequestInfo) -> object:
    if messages[-1].kind == 'tool':
        return f'output for {tenant.get()}'
    return [call('in_async'), call('in_sync'), call('in_nested'), call('in_generator')]


def _make() -> tuple[Agent[None, str], list[tuple[str, str, str]]]:
    """An agent that notes (place, tenant seen there, run) everywhere user code is called."""
    seen: list[tuple[str, str, str]] = []

    def note(place: str, ctx: RunContext[None]) -> str:
        value = tenant.get()
        seen.append((place, value, ctx.run_id))
        tenant.set(f'changed in {place}')
        return value

    async def leaf(ctx: RunContext[None]) -> str:
        return note('tool of a nested agent', ctx)

    async def nested_script(messages: list[Message], info: RequestInfo) -> object:
        return [call('leaf')] if messages[-1].kind == 'user' else str(answers_of(messages)[0].content)

    nested = Agent(FunctionModel(nested_script), tools=[leaf])  # pyright: ignore[reportArgumentType]
    agent: Agent[None, str] = Agent(FunctionModel(_script))  # pyright: ignore[reportArgumentType]

    @agent.instructions
    def instructions(ctx: RunContext[None]) -> str:
        return f'serve {note("instructions", ctx)}'

    @agent.instructions
    async def more(ctx: RunContext[None]) -> str:
        return f'again {note("async instructions", ctx)}'

    @agent.tool
    async def in_async(ctx: RunContext[None]) -> str:
        return note('async tool', ctx)

    @agent.tool
    def in_sync(ctx: RunContext[None]) -> str:
        return note('sync tool', ctx)

    @agent.tool
    async def in_generator(ctx: RunContext[None]):
        yield note('generator', ctx)

    @agent.tool
    async def in_nested(ctx: RunContext[None]) -> str:
        return (await nested.run('inner')).output

    @agent.output_validator
    def check(ctx: RunContext[None], value: str) -> str:
        note('validator', ctx)
        return value

    return agent, seen


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
def test_a_hundred_runs_at_once_each_see_their_own(way: Way) -> None:
    async def main() -> None:
        agent, seen = _make()

        async def one(i: int) -> None:
            tenant.set(f'tenant {i}')
            result = await way(agent, 'go')
            assert result.output == f'output for tenant {i}'
            assert {str(p.content) for p in answers_of(result.messages)} == {f'tenant {i}'}
            assert tenant.get() == f'tenant {i}', 'a change made in a tool leaked to the caller'

        await asyncio.gather(*(one(i) for i in range(100 if way is WAYS['run'] else 10)))
        assert not [s for s in seen if not s[1].startswith('tenant ')]
        by_run: dict[str, set[str]] = {}
        for _, value, run_id in seen:
            by_run.setdefault(run_id, set()).add(value)
        assert all(len(values) == 1 for values in by_run.values())
        assert tenant.get() == 'nobody'

    go(main())


def test_run_sync() -> None:
    agent, seen = _make()
    token = tenant.set('sync')
    try:
        assert agent.run_sync('go').output == 'output for sync'
        assert {value for _, value, _ in seen} == {'sync'} and tenant.get() == 'sync'
    finally:
        tenant.reset(token)


def test_output_functions_and_text_functions() -> None:
    async def main() -> None:
        from agent_graph import TextOutput

        def text(value: str) -> str:
            seen = tenant.get()
            tenant.set('changed')
            return seen

        async def deliver(x: int) -> str:
            return text('')

        async def ask(messages: list[Message], info: RequestInfo) -> object:
            return [call('final_result', {'x': 1})] if info.tools else 'x'

        tenant.set('mine')
        model = FunctionModel(ask)  # pyright: ignore[reportArgumentType]
        assert (await Agent(model, output_type=deliver).run('go')).output == 'mine'
        assert (await Agent(model, output_type=TextOutput(text)).run('go')).output == 'mine'
        assert tenant.get() == 'mine'

    go(main())
