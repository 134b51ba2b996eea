"""What would be lost when a run is left, or forked, between two nodes: a change of the node it stopped before."""

from __future__ import annotations

from typing import Any

from agent_graph.engine.forks import fork_run
from agent_graph.engine.nodes import HandleResponse
from agent_graph.engine.response import normalise
from agent_graph.journal import Journal
from agent_graph.journal.entries import Entered
from agent_graph.messages import AssistantMessage
from agent_graph.runner import AgentRun

__all__ = ['fork_here', 'keep']


async def keep(run: AgentRun[Any]) -> None:
    """Record a changed response, as running its node would have done."""
    changed, deps = _changed(run), run.ctx.deps
    if changed is None:
        return
    offered = None if deps.offered is None or deps.offered is deps.plan.definitions else deps.offered_names
    entry = Entered('HandleResponse', response=normalise(changed, deps.state), offered=offered)
    await deps.effects.record(entry)


async def fork_here(run: AgentRun[Any], journal: Journal) -> str:
    """Make a run with the past of this one and the node it stopped before, as that is now; returns its id."""
    last = (await journal.info(run.run_id)).last_seq
    return await fork_run(journal, run.run_id, at=last, edit=None, replacement=_changed(run), new_id=None)


def _changed(run: AgentRun[Any]) -> AssistantMessage | None:
    """The response that is to be handled, if it is not the recorded one."""
    node, state = run.next_node, run.ctx.state
    recorded = state.at.response if state.at is not None else None
    if not isinstance(node, HandleResponse) or state.ended is not None or node.response is recorded:
        return None
    return node.response
