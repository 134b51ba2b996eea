"""A durable graph of the kit's own, dressed like an agent so that it can be killed like one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_graph import End, Graph, GraphBuilder

from agent_graph import Agent, GraphContext, GraphNode, Message, resume_graph, run_graph
from agent_graph.usage import Usage
from tests.acceptance.stage import Stage, call, report

__all__ = ['KitResult', 'KitState', 'Workflow']

ROUNDS = 2


@dataclass
class Notes:
    """The graph's state."""

    lines: list[str] = field(default_factory=list[str])


@dataclass
class Work(GraphNode[Notes, Stage, str]):
    """Two effects that must not be repeated, and an agent with tools."""

    round: int

    async def run(self, ctx: GraphContext[Notes, Stage]) -> Decide:
        for name in ('reserve', 'mail'):
            key = f'{ctx.scope}:{name}'

            def once(key: str = key) -> str:
                ctx.deps.effect('step', ctx.run_id, key, what='step')
                return key

            ctx.state.lines.append(await ctx.step(name, once))
        said = (await _clerk(ctx.deps).run(f'round {self.round}')).output
        return Decide(self.round, said)


@dataclass
class Decide(GraphNode[Notes, Stage, str]):
    """A person says how to go on."""

    round: int
    said: str

    async def run(self, ctx: GraphContext[Notes, Stage]) -> Work | End[str]:
        more = await ctx.ask(f'{self.said}. More?', schema=int)
        ctx.state.lines.append(f'{self.said}, {more} more')
        if self.round < ROUNDS:
            return Work(self.round + 1)
        return End('; '.join(ctx.state.lines))


def _clerk(stage: Stage) -> Agent[None, str]:
    model = stage.model('clerk', [call('fetch', 1, 'k1'), call('pay', 2, 'k2')], report)
    return Agent(model, name='clerk', tools=[stage.tool('fetch'), stage.tool('pay')])


def _build() -> Graph[Notes, Stage, Work, str]:
    builder = GraphBuilder(name='workflow', state_type=Notes, deps_type=Stage, input_type=Work, output_type=str)
    start = builder.edge_from(builder.start_node).to(Work)
    builder.add(start, builder.node(Work), builder.node(Decide))
    return builder.build()


GRAPH = _build()


@dataclass(frozen=True)
class KitState:
    """How far a run came."""

    step: int


@dataclass(frozen=True)
class KitResult:
    """What `agent_graph.RunResult` has, as far as the kit looks at it."""

    output: Any
    status: str
    run_id: str
    usage: Usage | None
    pending: tuple[Any, ...]
    state: KitState
    messages: Sequence[Message] = ()


@dataclass(frozen=True)
class Workflow:
    """The graph with what it needs."""

    stage: Stage

    async def run(self, prompt: str, *, run_id: str, **options: Any) -> KitResult:
        journal = self.stage.journal
        given: Any = {'state': Notes(), 'deps': self.stage, 'journal': journal, 'run_id': run_id, **options}
        return _result(await run_graph(GRAPH, Work(1), **given))

    async def resume(self, run_id: str, **options: Any) -> KitResult:
        return _result(await resume_graph(GRAPH, run_id, journal=self.stage.journal, deps=self.stage, **options))


def _result(done: Any) -> KitResult:
    steps = len(done.state.lines)
    return KitResult(done.output, done.status, done.run_id, done.usage, done.pending, KitState(steps))
