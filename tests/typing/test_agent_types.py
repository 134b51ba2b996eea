"""What a type checker knows about agents. The asserts are read by pyright; running them only shows that the code works."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_type

from agent_graph import (
    Agent,
    AgentRun,
    AssistantMessage,
    End,
    FilePart,
    HandleResponse,
    Message,
    ModelRequest,
    NativeOutput,
    PromptedOutput,
    RunContext,
    RunEvent,
    RunResult,
    RunStream,
    TextOutput,
    Tool,
    ToolOutput,
    Usage,
    UsageLimits,
    tool,
)
from agent_graph.engine.nodes import FinalResult
from agent_graph.testing import ScriptedModel


@dataclass
class Deps:
    tenant: str


@dataclass
class City:
    name: str


def count(text: str) -> int:
    return len(text)


async def shout(text: str) -> str:
    return text.upper()


async def deliver(ctx: RunContext[Deps], text: str) -> City:
    assert_type(ctx.deps, Deps)
    return City(text)


def test_the_two_parameters_of_an_agent() -> None:
    model = ScriptedModel([])
    assert_type(Agent(model), Agent[None, str])
    assert_type(Agent('openai:gpt-5-mini', output_type=int), Agent[None, int])
    assert_type(Agent(model, deps_type=Deps), Agent[Deps, str])
    assert_type(Agent(model, deps_type=Deps, output_type=City), Agent[Deps, City])
    assert_type(Agent(model, output_type=list[City]), Agent[None, list[City]])
    assert_type(Agent(model, output_type=ToolOutput(City, name='city')), Agent[None, City])
    assert_type(Agent(model, output_type=NativeOutput(City)), Agent[None, City])
    assert_type(Agent(model, output_type=PromptedOutput(City)), Agent[None, City])
    assert_type(Agent(model, output_type=count), Agent[None, int])
    assert_type(Agent(model, deps_type=Deps, output_type=deliver), Agent[Deps, City])
    assert_type(Agent(model, output_type=ToolOutput(shout)), Agent[None, str])
    assert_type(Agent(model, output_type=TextOutput(count)), Agent[None, int])


def test_what_a_run_gives() -> None:
    async def main() -> None:
        agent = Agent(ScriptedModel([]), deps_type=Deps, output_type=City)
        answer = ScriptedModel(['hello'])
        text = Agent(answer)
        result = await text.run('go')
        assert_type(result, RunResult[str])
        assert_type(result.output, str)
        assert_type(result.messages, list[Message])
        assert_type(result.usage, Usage)
        assert_type(result.run_id, str)

        async def never() -> None:
            assert_type(await agent.run('go', deps=Deps('x')), RunResult[City])
            assert_type(agent.run_sync('go', deps=Deps('x')), RunResult[City])
            assert_type(agent.run_stream('go'), RunStream[City])
            assert_type(await agent.resume('r'), RunResult[City])
            async with agent.iter('go') as run:
                assert_type(run, AgentRun[City])
                assert_type(run.result, RunResult[City] | None)
                async for node in run:
                    if isinstance(node, ModelRequest):
                        async with node.stream(run.ctx) as stream:
                            async for piece in stream.text(delta=True):
                                assert_type(piece, str)
                            assert_type(stream.response, AssistantMessage)
                    elif isinstance(node, HandleResponse):
                        async with node.stream(run.ctx) as events:
                            async for event in events:
                                assert_type(event, RunEvent)
                    elif isinstance(node, End):
                        assert_type(node, End[FinalResult])
            async with agent.run_stream('go') as s:
                async for output in s.output():
                    assert_type(output, City)
                assert_type((await s.result()).output, City)
            async for event in agent.run_stream_events('go'):
                assert_type(event, RunEvent)

        assert never is not None

    asyncio.run(main())


def test_decorators_keep_the_functions_type() -> None:
    agent = Agent(ScriptedModel([]), deps_type=Deps)

    @agent.tool
    async def plain(ctx: RunContext[Deps], n: int) -> str:
        assert_type(ctx.deps.tenant, str)
        return str(n)

    @agent.tool(retries=2, timeout=1.0)
    def optioned(n: int) -> int:
        return n

    @agent.instructions
    def instructions(ctx: RunContext[Deps]) -> str:
        return ctx.deps.tenant

    @agent.output_validator
    def check(ctx: RunContext[Deps], value: str) -> str:
        return value

    @tool
    def alone(n: int) -> int:
        return n

    assert_type(optioned(1), int)
    assert instructions is not None
    assert_type(alone, Tool)
    assert plain is not None and check is not None


def test_prompts_and_limits() -> None:
    agent = Agent(ScriptedModel(['x']), usage_limits=UsageLimits(request_limit=3))
    prompt: Sequence[str | FilePart] = ['look', FilePart.from_bytes(b'', 'image/png')]
    assert agent.run_sync(prompt).output == 'x'
