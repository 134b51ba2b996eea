"""Doubt means no: an answer is for the question that was asked, and a run does not go on without what its tools need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_graph import End, GraphBuilder

from agent_graph import (
    Agent,
    Answer,
    AnswerError,
    ConfigError,
    GraphContext,
    GraphNode,
    MemoryJournal,
    RunContext,
    ToolApproved,
    ToolCallPart,
    resume_graph,
    run_graph,
)
from agent_graph.testing import ScriptedModel
from tests.engine.kit import go


class Code:
    """What a tool or node asks, in order: what a new version of the code changes."""

    def __init__(self, *questions: str) -> None:
        self.questions = list(questions)
        self.heard: dict[str, Any] = {}

    async def ask_all(self, ctx: Any) -> str:
        self.heard = {}
        for nth, question in enumerate(self.questions):
            self.heard[f'{nth} {question}'] = await ctx.ask(question, schema=bool)
        return 'asked'


def asking(code: Code, journal: MemoryJournal) -> Agent[None, str]:
    async def decide(ctx: RunContext) -> str:
        return await code.ask_all(ctx)

    return Agent(ScriptedModel([[ToolCallPart('decide', {}, 'c')], 'end']), tools=[decide], journal=journal)


def test_an_answer_does_not_go_to_another_question() -> None:
    async def main() -> None:
        code, journal = Code('Publish?'), MemoryJournal()
        agent = asking(code, journal)
        (pending,) = (await agent.run('go', run_id='r')).pending
        code.questions = ['Delete the customer?']
        result = await agent.resume('r', answers={pending: Answer(True)})
        (other,) = result.pending
        assert other.question == 'Delete the customer?' and code.heard == {}
        result = await agent.resume('r', answers={other: Answer(False)})
        assert result.output == 'end' and code.heard == {'0 Delete the customer?': False}

    go(main())


def test_answers_follow_their_questions_when_these_change_places() -> None:
    async def main() -> None:
        code, journal = Code('A?', 'B?'), MemoryJournal()
        agent = asking(code, journal)
        (a,) = (await agent.run('go', run_id='r')).pending
        (b,) = (await agent.resume('r', answers={a: Answer(True)})).pending
        code.questions = ['B?', 'A?']
        result = await agent.resume('r', answers={b: Answer(False)})
        assert result.output == 'end' and code.heard == {'0 B?': False, '1 A?': True}

    go(main())


def test_the_same_question_twice_has_two_answers() -> None:
    async def main() -> None:
        code, journal = Code('More?', 'More?'), MemoryJournal()
        agent = asking(code, journal)
        (first,) = (await agent.run('go', run_id='r')).pending
        (second,) = (await agent.resume('r', answers={first: Answer(True)})).pending
        result = await agent.resume('r', answers={second: Answer(False)})
        assert result.output == 'end' and code.heard == {'0 More?': True, '1 More?': False}

    go(main())


def test_another_schema_is_another_question() -> None:
    async def main() -> None:
        journal, heard = MemoryJournal(), list[Any]()
        schemas: list[type[int | float]] = [int]

        async def decide(ctx: RunContext) -> str:
            heard.append(await ctx.ask('How many?', schema=schemas[0]))
            return 'asked'

        model = ScriptedModel([[ToolCallPart('decide', {}, 'c')], 'end'])
        agent = Agent(model, tools=[decide], journal=journal)
        (pending,) = (await agent.run('go', run_id='r')).pending
        schemas[:] = [float]
        result = await agent.resume('r', answers={pending: Answer(3)})
        assert result.status == 'paused' and heard == []

    go(main())


@dataclass
class Decide(GraphNode[None, Code, str]):
    async def run(self, ctx: GraphContext[None, Code]) -> End[str]:
        return End(await ctx.deps.ask_all(ctx))


builder = GraphBuilder(name='decide', deps_type=Code, input_type=Decide, output_type=str)
builder.add(builder.edge_from(builder.start_node).to(Decide), builder.node(Decide))
deciding = builder.build()


def test_in_a_node_too() -> None:
    async def main() -> None:
        code, journal = Code('Publish?'), MemoryJournal()
        (pending,) = (await run_graph(deciding, Decide(), deps=code, journal=journal, run_id='g')).pending
        code.questions = ['Delete the customer?']
        result = await resume_graph(deciding, 'g', deps=code, journal=journal, answers={pending: Answer(True)})
        assert result.pending[0].question == 'Delete the customer?' and code.heard == {}

    go(main())


def needy(journal: MemoryJournal, deps_type: Any = dict) -> Agent[Any, str]:
    agent: Agent[Any, str] = Agent(
        ScriptedModel([[ToolCallPart('pay', {}, 'c')], 'end']), deps_type=deps_type, journal=journal
    )

    @agent.tool(requires_approval=True)
    def pay(ctx: RunContext[Any]) -> str:  # pyright: ignore[reportUnusedFunction]
        return ctx.deps['purse']

    return agent


def test_a_run_does_not_go_on_without_the_deps_its_agent_declares() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = needy(journal)
        (pending,) = (await agent.run('go', run_id='r', deps={'purse': 'mine'})).pending
        before = await journal.load('r')
        with pytest.raises(ConfigError, match="run 'r' cannot go on without deps of type dict"):
            await agent.resume('r', answers={pending: ToolApproved()})
        with pytest.raises(ConfigError, match='deps'):
            await agent.resume_stream('r', answers={pending: ToolApproved()}).result()
        with pytest.raises(ConfigError, match='deps'):
            async with agent.resume_iter('r', answers={pending: ToolApproved()}):
                raise AssertionError
        assert await journal.load('r') == before
        with agent.override(deps={'purse': 'other'}):
            assert (await agent.resume('r', answers={pending: ToolApproved()})).output == 'end'
        assert (await agent.resume('r')).output == 'end', 'what has ended needs nothing'

    go(main())


@pytest.mark.parametrize('deps_type', [dict[str, str], dict | list, Code])
def test_whatever_the_form_of_the_type(deps_type: Any) -> None:
    async def main() -> None:
        agent = needy(MemoryJournal(), deps_type)
        await agent.run('go', run_id='r', deps={'purse': 'mine'})
        with pytest.raises(ConfigError, match='is the deps_type of its agent'):
            await agent.resume('r')

    go(main())


@pytest.mark.parametrize('deps_type', [None, type(None), dict | None, object, Any])
def test_deps_that_may_be_left_out(deps_type: Any) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = Agent(ScriptedModel(['end']), deps_type=deps_type, journal=journal)
        async with agent.iter('go', run_id='r') as run:
            await run.next()
        assert (await agent.resume('r')).output == 'end'

    go(main())


def test_another_agent_does_not_take_the_run() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        a: Agent[None, str] = Agent(ScriptedModel(['end', 'end']), name='a', journal=journal)
        b: Agent[None, str] = Agent(ScriptedModel(['end']), name='b', journal=journal)
        await a.run('go', run_id='done')
        async with a.iter('go', run_id='open') as run:
            await run.next()
        for run_id in ('done', 'open'):
            with pytest.raises(ConfigError, match=f"run '{run_id}' is one of the agent 'a', and this is 'b'"):
                await b.resume(run_id)
            assert (await b.resume(run_id, on_change='continue')).output == 'end', 'it was renamed'

    go(main())


def test_an_agent_does_not_take_the_run_of_a_graph() -> None:
    async def main() -> None:
        code, journal = Code(), MemoryJournal()
        assert (await run_graph(deciding, Decide(), deps=code, journal=journal, run_id='g')).output == 'asked'
        with pytest.raises(ConfigError, match="run 'g' is one of the graph 'decide'; go on with it by resume_graph"):
            await Agent(ScriptedModel(['end']), journal=journal).resume('g')

    go(main())


def test_a_pending_that_was_answered_before_is_named_by_its_path() -> None:
    async def main() -> None:
        code, journal = Code('A?', 'B?'), MemoryJournal()
        agent = asking(code, journal)
        (a,) = (await agent.run('go', run_id='r')).pending
        await agent.resume('r', answers={a: Answer(True)})
        with pytest.raises(AnswerError, match=r"^'c' has been answered already"):
            await agent.resume('r', answers={a: Answer(True)})

    go(main())


def test_inside_another_agent_too() -> None:
    async def main() -> None:
        code, journal = Code('Publish?'), MemoryJournal()
        inner = asking(code, journal)

        async def delegate() -> str:
            return (await inner.run('inside')).output

        model = ScriptedModel([[ToolCallPart('delegate', {}, 'd')], 'outer end'])
        outer = Agent(model, tools=[delegate], journal=journal)
        (pending,) = (await outer.run('go', run_id='r')).pending
        code.questions = ['Delete the customer?']
        (other,) = (await outer.resume('r', answers={pending: Answer(True)})).pending
        assert other.question == 'Delete the customer?' and code.heard == {}
        assert (await outer.resume('r', answers={other: Answer(False)})).output == 'outer end'
        assert code.heard == {'0 Delete the customer?': False}

    go(main())
