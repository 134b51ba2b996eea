"""Walking node by node: `iter`, `next` with the node, a changed one or another one, edges, and any other graph."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic_graph import BaseNode, GraphBuilder, GraphRunContext

from agent_graph import (
    Agent,
    AgentGraphError,
    AssistantMessage,
    End,
    GraphError,
    GraphRun,
    HandleResponse,
    MemoryJournal,
    ModelRequest,
    RunCancelled,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
    UserPrompt,
)
from agent_graph.engine.graph import AGENT_GRAPH
from agent_graph.engine.state import fold
from agent_graph.messages import is_valid
from agent_graph.testing import ScriptedModel
from tests.engine.kit import Log, answers_of, call, go, requests_of


def _two_steps(log: Log | None = None, **options: Any) -> tuple[Agent[None, str], ScriptedModel]:
    model = ScriptedModel([[call('a')], 'done', 'spare', 'spare'])
    return Agent(model, tools=[(log if log is not None else Log()).tool('a')], **options), model


def test_the_walk_is_the_documented_one() -> None:
    async def main() -> None:
        agent, _ = _two_steps()
        async with agent.iter('go') as run:
            nodes = [node async for node in run]
            assert [type(n) for n in nodes] == [
                UserPrompt,
                ModelRequest,
                HandleResponse,
                ModelRequest,
                HandleResponse,
                End,
            ]
            assert isinstance(nodes[0], UserPrompt) and nodes[0].prompt == 'go'
            assert isinstance(nodes[1], ModelRequest) and nodes[1].message == UserMessage('go')
            assert isinstance(nodes[2], HandleResponse) and nodes[2].response.parts[0].kind == 'tool_call'
            assert isinstance(nodes[3], ModelRequest) and isinstance(nodes[3].message, ToolMessage)
            assert run.result is not None and run.result.output == 'done' and run.next_node is nodes[-1]
            assert run.result.messages == run.messages and run.usage.requests == 2

    go(main())


def test_each_node_is_shown_before_it_runs() -> None:
    async def main() -> None:
        log = Log()
        agent, model = _two_steps(log)
        async with agent.iter('go') as run:
            async for node in run:
                if isinstance(node, ModelRequest):
                    log.append(f'before request {len(model.requests) + 1}')
                elif isinstance(node, HandleResponse):
                    log.append('before handling')
                assert run.next_node is node
        assert log == ['before request 1', 'before handling', 'a', 'before request 2', 'before handling']

    go(main())


def test_next_by_hand_is_the_same_run() -> None:
    async def main() -> None:
        agent, model = _two_steps()
        plain = await agent.run('go')
        agent, model = _two_steps()
        async with agent.iter('go') as run:
            assert run.result is None
            node: Any = run.next_node
            while not isinstance(node, End):
                node = await run.next(node)
            assert run.result is not None
            assert (run.result.output, run.result.messages, run.result.usage) == (
                plain.output,
                plain.messages,
                plain.usage,
            )
        assert len(model.requests) == 2

    go(main())


def test_next_without_a_node_and_a_mix_of_both() -> None:
    async def main() -> None:
        agent, _ = _two_steps()
        async with agent.iter('go') as run:
            await run.next()
            seen = 0
            async for node in run:
                seen += 1
                if seen == 1:
                    assert isinstance(node, ModelRequest)
                    await run.next(node)
            assert run.result is not None and run.result.output == 'done'
            assert [m.kind for m in run.messages] == ['user', 'assistant', 'tool', 'assistant']

    go(main())


def test_after_the_end_there_is_no_next() -> None:
    async def main() -> None:
        agent, model = _two_steps()
        async with agent.iter('go') as run:
            await run.to_end()
            with pytest.raises(GraphError, match='ended'):
                await run.next()
            with pytest.raises(GraphError, match='ended'):
                await run.next(ModelRequest(UserMessage('more')))
            assert [n async for n in run] == [run.next_node]
        assert len(model.requests) == 2

    go(main())


def test_a_changed_request() -> None:
    async def main() -> None:
        agent, model = _two_steps()
        journal = agent.journal = MemoryJournal()
        async with agent.iter('go', run_id='r') as run:
            node = await run.next()
            assert isinstance(node, ModelRequest)
            node.message = UserMessage('something else')
            await run.next(node)
            await run.to_end()
            assert run.result is not None and run.result.output == 'done'
            assert requests_of(model)[0] == (UserMessage('something else'),)
            assert run.messages[0] == UserMessage('something else')
            assert fold('r', await journal.load('r')) == run.state, 'what was really done is what is recorded'

    go(main())


def test_a_changed_response() -> None:
    async def main() -> None:
        log = Log()
        agent, model = _two_steps(log)
        async with agent.iter('go') as run:
            await run.next()
            node = await run.next()
            assert isinstance(node, HandleResponse)
            changed = replace(node.response, parts=(TextPart('I answer in its place'),))
            end = await run.next(HandleResponse(changed))
            assert isinstance(end, End) and run.result is not None
            assert run.result.output == 'I answer in its place' and log == []
            assert run.messages[-1] == changed and len(model.requests) == 1

    go(main())


def test_another_node_in_place_of_the_one_that_is_next() -> None:
    async def main() -> None:
        agent, model = _two_steps()
        async with agent.iter('go') as run:
            await run.next()
            made = AssistantMessage([ToolCallPart('a', {}, 'mine')])
            node = await run.next(HandleResponse(made))
            assert isinstance(node, ModelRequest)
            await run.next(node)
            (request,) = requests_of(model)
            assert [p.tool_call_id for p in answers_of(request)] == ['mine']
            assert is_valid(run.messages)

    go(main())


@pytest.mark.parametrize('ids', [('', ''), ('x', 'x'), ('a', 'a')])
def test_calls_of_a_response_made_by_hand_get_ids_of_their_own(ids: tuple[str, str]) -> None:
    async def main() -> None:
        seen: list[int] = []

        def add(n: int) -> int:
            seen.append(n)
            return n * 10

        model = ScriptedModel(['done'])
        async with Agent(model, tools=[add]).iter('go') as run:
            await run.next()
            calls = [ToolCallPart('add', {'n': 1}, ids[0]), ToolCallPart('add', {'n': 2}, ids[1])]
            node: Any = await run.next(HandleResponse(AssistantMessage(calls)))
            await run.next(node)
            (request,) = requests_of(model)
            parts = answers_of(request)
            assert [p.content for p in parts] == [10, 20] and len({p.tool_call_id for p in parts}) == 2
            assert sorted(seen) == [1, 2] and '' not in {p.tool_call_id for p in parts}

    go(main())


def test_skipping_the_tools_answers_does_not_send_an_invalid_history() -> None:
    async def main() -> None:
        agent, model = _two_steps()
        async with agent.iter('go') as run:
            for _ in range(3):
                await run.next()
            with suppress(AgentGraphError):  # refusing is as good
                await run.next(ModelRequest(UserMessage('never mind the tool')))
            requests_of(model)
            assert is_valid(run.messages)

    go(main())


def test_answers_nobody_asked_for_do_not_make_an_invalid_history() -> None:
    async def main() -> None:
        from agent_graph import ToolReturnPart

        agent, model = _two_steps()
        async with agent.iter('go') as run:
            await run.next()
            with suppress(AgentGraphError):
                await run.next(ModelRequest(ToolMessage([ToolReturnPart('a', 'x', 'nobody')])))
            requests_of(model)
            assert is_valid(run.messages)

    go(main())


def test_the_same_node_twice() -> None:
    async def main() -> None:
        log = Log()
        agent, model = _two_steps(log)
        async with agent.iter('go') as run:
            await run.next()
            node: Any = await run.next()
            await run.next(node)
            try:
                again: Any = await run.next(node)
                await run.next(again)
            except AgentGraphError:
                pass
            requests_of(model)
            assert log.count('a') <= 2 and is_valid(run.messages)

    go(main())


def test_a_second_response_while_the_first_is_not_handled() -> None:
    async def main() -> None:
        agent, model = _two_steps()
        async with agent.iter('go') as run:
            request: Any = await run.next()
            await run.next(request)
            try:
                again: Any = await run.next(ModelRequest(UserMessage('ask once more')))
                await run.next(again)
            except AgentGraphError:
                pass
            requests_of(model)
            assert is_valid(run.messages)

    go(main())


@dataclass
class Stranger(BaseNode[Any, Any, Any]):
    """A node of no agent's graph."""

    async def run(self, ctx: GraphRunContext[Any, Any]) -> End[None]:
        return End(None)


@dataclass
class Liar(ModelRequest):
    """Returns what its annotation does not say."""

    async def run(self, ctx: Any) -> Any:
        return Stranger()


def test_a_node_of_another_graph_is_refused() -> None:
    async def main() -> None:
        agent, _ = _two_steps()
        async with agent.iter('go') as run:
            with pytest.raises(GraphError, match=r'Stranger.*ModelRequest'):
                await run.next(Stranger())  # pyright: ignore[reportArgumentType]
            await run.to_end()
            assert run.result is not None and run.result.output == 'done', 'the run was not harmed'

    go(main())


def test_a_run_cancelled_between_two_nodes() -> None:
    async def main() -> None:
        agent, model = _two_steps()
        journal = agent.journal = MemoryJournal()
        async with agent.iter('go', run_id='r') as run:
            async for node in run:
                if isinstance(node, HandleResponse):
                    await run.cancel()
                    await run.cancel()
            assert run.result is not None and run.result.status == 'cancelled' and run.result.output is None
            with pytest.raises(RunCancelled):
                await run.next()
        assert len(model.requests) == 1 and (await journal.info('r')).status == 'cancelled'
        assert is_valid(run.messages)

    go(main())


def test_leaving_the_block_early_leaves_the_run_resumable() -> None:
    async def main() -> None:
        log = Log()
        agent, model = _two_steps(log)
        journal = agent.journal = MemoryJournal()
        async with agent.iter('go', run_id='r') as run:
            for _ in range(3):
                await run.next()
        assert (await journal.info('r')).status == 'running' and run.result is None
        result = await agent.resume('r')
        assert result.output == 'done' and log == ['a'] and len(model.requests) == 2

    go(main())


def test_pydantic_graphs_own_runner_is_the_reference() -> None:
    async def main() -> None:
        ours = await _two_steps()[0].run('go')
        agent, model = _two_steps()
        async with agent.iter('go') as run:
            assert isinstance(run.next_node, UserPrompt)
            final = await AGENT_GRAPH.run(state=run.state, deps=run.ctx.deps, inputs=run.next_node)
            assert final.output == 'done' == ours.output
            assert run.messages == ours.messages and run.usage == ours.usage
            assert len(model.requests) == 2

    go(main())


def test_the_graph_is_one_and_has_the_three_nodes() -> None:
    text = Agent('x:y').graph.render()
    for name in ('UserPrompt', 'ModelRequest', 'HandleResponse'):
        assert name in text
    names = {node.get_node_id() for node in (UserPrompt, ModelRequest, HandleResponse)}
    assert names == {'UserPrompt', 'ModelRequest', 'HandleResponse'}
    assert names <= {str(key) for key in AGENT_GRAPH.nodes}


# A graph of the user's own


@dataclass
class Count:
    n: int = 0


@dataclass
class Add(BaseNode[Count, int, int]):
    by: int

    async def run(self, ctx: GraphRunContext[Count, int]) -> Again | End[int]:
        ctx.state.n += self.by
        return Again() if ctx.state.n < ctx.deps else End(ctx.state.n)


@dataclass
class Again(BaseNode[Count, int, int]):
    async def run(self, ctx: GraphRunContext[Count, int]) -> Add:
        return Add(2)


@dataclass
class Astray(Again):
    """Says that it returns an `Add`, and ends."""

    async def run(self, ctx: GraphRunContext[Count, int]) -> Add:
        return End(0)  # pyright: ignore[reportReturnType]


def _graph(first: type[BaseNode[Count, int, int]], *others: type[BaseNode[Count, int, int]]) -> Any:
    builder = GraphBuilder(state_type=Count, deps_type=int, input_type=first, output_type=int)
    builder.add(builder.edge_from(builder.start_node).to(first), *(builder.node(n) for n in (first, *others)))
    return builder.build()


def test_any_graph_of_base_nodes_can_be_driven() -> None:
    async def main() -> None:
        run: GraphRun[Count, int, int] = GraphRun(_graph(Add, Again), Add(1), GraphRunContext(state=Count(), deps=6))
        names = [type(node).__name__ async for node in run]
        assert names == ['Add', 'Again', 'Add', 'Again', 'Add', 'Again', 'Add', 'End']
        assert run.state.n == 7
        run = GraphRun(_graph(Add, Again), Add(1), GraphRunContext(state=Count(), deps=6))
        assert await run.to_end() == 7
        reference = await _graph(Add, Again).run(state=Count(), deps=6, inputs=Add(1))
        assert reference == 7

    go(main())


def test_an_edge_nobody_declared() -> None:
    async def main() -> None:
        run: GraphRun[Count, int, int] = GraphRun(
            _graph(Astray, Add, Again), Astray(), GraphRunContext(state=Count(), deps=6)
        )
        with pytest.raises(GraphError, match=r'Astray.run returned End.*Add'):
            await run.next()
        with pytest.raises(GraphError, match=r'Stranger.*Add, Again, Astray'):
            await run.next(Stranger())

    go(main())


def test_an_undeclared_edge_in_an_agents_run_ends_it_as_failed() -> None:
    async def main() -> None:
        agent, _ = _two_steps()
        journal = agent.journal = MemoryJournal()

        class Broken(ScriptedModel):
            """Only here to have a run; the node is what is wrong."""

        async with agent.iter('go', run_id='r', model=Broken(['x'])) as run:
            await run.next()
            with pytest.raises(GraphError):
                await run.next(Liar(UserMessage('x')))
        assert (await journal.info('r')).status in ('running', 'failed')
        assert is_valid(run.messages)

    go(main())
