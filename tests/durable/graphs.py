"""A graph of our own that loops, for the tests of durable graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic_graph import BaseNode, End, Graph, GraphBuilder, GraphRunContext

from agent_graph import Journal, run_graph
from tests.durable.kit import Killed, Mortal

__all__ = ['Check', 'Count', 'Tally', 'counting', 'run_counting']


@dataclass
class Tally:
    """How far it has come, and what was noted on the way."""

    count: int = 0
    notes: list[str] = field(default_factory=list[str])


@dataclass
class Count(BaseNode[Tally, Any, str]):
    """Adds one."""

    by: int = 1

    async def run(self, ctx: GraphRunContext[Tally, Any]) -> Check:
        ctx.state.count += self.by
        return Check(ctx.state.count >= 5)


@dataclass
class Check(BaseNode[Tally, Any, str]):
    """Goes round again until it is enough."""

    enough: bool

    async def run(self, ctx: GraphRunContext[Tally, Any]) -> Count | End[str]:
        return End(f'counted to {ctx.state.count}') if self.enough else Count()


def build(name: str, state_type: type[Any], output_type: Any, *nodes: Any) -> Graph[Any, Any, Any, Any]:
    """A graph that begins with the first node."""
    builder: Any = GraphBuilder(name=name, state_type=state_type, input_type=nodes[0], output_type=output_type)
    builder.add(builder.edge_from(builder.start_node).to(nodes[0]), *(builder.node(node) for node in nodes))
    return builder.build()


counting = build('counting', Tally, str, Count, Check)


async def run_counting(journal: Journal, run_id: str, *, stop_at: int) -> None:
    """Run it, and die at a write."""
    mortal: Any = Mortal(journal, stop_at)
    try:
        await run_graph(counting, Count(), state=Tally(), journal=mortal, run_id=run_id)
    except Killed:
        await mortal.bury()
