"""What a type checker knows about output types, options of runs and tools, questions, steps and answers.

The asserts and the `pyright: ignore`s with a rule are read by pyright, in strict mode: an ignore that nothing needs is an
error too. What is inside a `never` function is not run.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Literal, assert_type, get_type_hints

from typing_extensions import Unpack

from agent_graph import (
    Agent,
    AgentRun,
    Answer,
    GraphContext,
    NativeOutput,
    Pending,
    PromptedOutput,
    RunContext,
    RunEvent,
    RunOptions,
    RunResult,
    RunState,
    RunStream,
    TextOutput,
    Tool,
    ToolApproved,
    ToolOptions,
    ToolOutput,
    tool,
)
from agent_graph.engine.options import Answers
from agent_graph.testing import ScriptedModel, TestModel


@dataclass
class Deps:
    tenant: str


@dataclass
class Trip:
    city: str


def count(text: str) -> int:
    return len(text)


async def later(text: str) -> bytes:
    return text.encode()


def test_several_output_types() -> None:
    model = ScriptedModel([])
    assert_type(Agent(model, output_type=[Trip, str]), Agent[None, Trip | str])
    assert_type(Agent(model, output_type=[Trip, None]), Agent[None, Trip | None])
    assert_type(Agent(model, deps_type=Deps, output_type=[Trip, str, None]), Agent[Deps, Trip | str | None])
    assert_type(Agent(model, output_type=[ToolOutput(Trip), TextOutput(count)]), Agent[None, Trip | int])
    assert_type(Agent(model, output_type=(ToolOutput(Trip), ToolOutput(later))), Agent[None, Trip | bytes])
    assert_type(Agent(model, output_type=[NativeOutput(Trip), None]), Agent[None, Trip | None])
    assert_type(Agent(model, output_type=[count, Trip]), Agent[None, int | Trip])
    several = [Trip, str]
    assert_type(Agent(model, output_type=several), Agent[None, Trip | str])


def test_types_that_are_no_classes() -> None:
    model = ScriptedModel([])
    assert_type(Agent(model, output_type=Trip | str), Agent[None, Trip | str])
    assert_type(Agent(model, output_type=Trip | None), Agent[None, Trip | None])
    assert_type(Agent(model, output_type=Literal['a', 'b']), Agent[None, Literal['a', 'b']])
    assert_type(Agent(model, output_type=Annotated[int, 'above 3']), Agent[None, int])
    assert_type(Agent(model, output_type=ToolOutput(Trip | int)), Agent[None, Trip | int])
    assert_type(Agent(model, output_type=PromptedOutput(list[Trip] | None)), Agent[None, list[Trip] | None])


def test_what_is_no_output_type() -> None:
    def never() -> None:
        Agent('m', output_type=3)  # pyright: ignore[reportArgumentType]
        Agent('m', output_type='Trip?')  # pyright: ignore[reportArgumentType]
        Agent('m', output_type=[Trip, 3])  # pyright: ignore[reportArgumentType]

    assert callable(never)


def test_an_output_type_of_one_run() -> None:
    agent = Agent(TestModel(), deps_type=Deps)
    assert_type(agent.run_sync('go', output_type=int), RunResult[int])
    assert isinstance(agent.run_sync('go', output_type=int).output, int)
    assert isinstance(agent.run_sync('go', output_type=None).output, str)

    async def never(**options: Unpack[RunOptions[Deps]]) -> None:
        assert_type(await agent.run('go', deps=Deps('x')), RunResult[str])
        assert_type(await agent.run('go', output_type=None), RunResult[str])
        assert_type((await agent.run('go', output_type=int, deps=Deps('x'))).output, int)
        assert_type((await agent.run('go', output_type=[Trip, str])).output, Trip | str)
        assert_type(await agent.run('go', output_type=Trip | None), RunResult[Trip | None])
        assert_type(await agent.run('go', **options), RunResult[Any])
        assert_type(agent.run_stream('go', output_type=int), RunStream[int])
        async with agent.iter('go', output_type=Trip) as run:
            assert_type(run, AgentRun[Trip])
        async with agent.run_stream_events('go', output_type=count) as events:
            assert_type(await events.finish(), RunResult[int])
            async for event in events:
                assert_type(event, RunEvent)
        assert_type(await agent.resume('r'), RunResult[str])
        assert_type(await agent.resume('r', output_type=int), RunResult[int])
        assert_type(agent.resume_stream('r', output_type=int), RunStream[int])
        async with agent.resume_iter('r', output_type=int) as again:
            assert_type(again, AgentRun[int])
        assert_type(await agent.replay('r', output_type=int), RunResult[int])
        assert_type(await agent.replay('r'), RunResult[str])
        await agent.run('go', promt='x')  # pyright: ignore[reportCallIssue]
        await agent.run('go', deps=3)  # pyright: ignore[reportArgumentType, reportCallIssue]

    assert callable(never)


def test_options_of_tools_are_those_of_tool() -> None:
    keywords = {
        name: parameter.annotation
        for name, parameter in inspect.signature(Tool.__init__).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert get_type_hints(ToolOptions).keys() == keywords.keys()
    assert get_type_hints(ToolOptions) == {k: v for k, v in get_type_hints(Tool.__init__).items() if k in keywords}


def test_misspelt_options_of_tools() -> None:
    agent = Agent(ScriptedModel([]))

    def never() -> None:
        agent.tool(retrys=2)  # pyright: ignore[reportCallIssue]
        agent.tool(retries='2')  # pyright: ignore[reportArgumentType]
        tool(retrys=2)  # pyright: ignore[reportCallIssue]
        Tool.from_schema('t', None, {}, count, retrys=2)  # pyright: ignore[reportCallIssue]

    assert_type(agent.tool(retries=2, on_crash='retry')(count)('four'), int)
    assert callable(never)


async def questions_and_steps(ctx: RunContext[Deps] | GraphContext[None, Deps]) -> None:
    assert_type(await ctx.ask('Why?'), str)
    assert_type(await ctx.ask('How many?', schema=int), int)
    assert_type(await ctx.ask('Which?', schema=Literal['a', 'b']), Literal['a', 'b'])
    assert_type(await ctx.ask('Where?', schema=Trip | None), Trip | None)
    assert_type(await ctx.step('sync', lambda: 17), int)
    assert_type(await ctx.step('async', numbers), list[int])
    assert_type(await ctx.step('table', lambda: {'a': [1.5, None]}), dict[str, list[float | None]])
    assert_type(await ctx.step('nothing', lambda: None), None)
    # What is recorded, and given back, is the JSON data of these, which is something else.
    assert_type(await ctx.step('an object', lambda: Trip('Rome')), Any)
    assert_type(await ctx.step('objects', lambda: [Trip('Rome')]), Any)
    assert_type(await ctx.step('a tuple', lambda: (1, 2)), Any)
    assert_type(await ctx.step('keys', lambda: {1: 'a'}), Any)


async def numbers() -> list[int]:
    return [1, 2]


def test_questions_and_steps() -> None:
    assert callable(questions_and_steps)


def test_edits_and_answers() -> None:
    agent = Agent(ScriptedModel([]))

    def shorten(state: RunState) -> None:
        del state.messages[1:]

    async def other(state: RunState) -> RunState:
        return state

    async def never(pending: Pending) -> None:
        assert_type(await agent.fork('r', edit=shorten), str)
        await agent.fork('r', edit=other)
        await agent.fork('r', edit=count)  # pyright: ignore[reportArgumentType]
        await agent.resume('r', answers={pending: Answer(3), 'id': ToolApproved(), ('a', 'b'): Answer(None)})
        mine: dict[Pending, ToolApproved] = {}
        await agent.resume('r', answers=mine)
        await agent.resume('r', answers={pending: True})  # pyright: ignore[reportArgumentType, reportCallIssue]

    empty: Answers = {}
    assert callable(never) and not empty
