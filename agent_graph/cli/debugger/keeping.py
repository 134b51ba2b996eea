"""What would be lost when a run is left, or forked, between two nodes: a response that no node has taken up yet."""

from __future__ import annotations

from typing import Any

from agent_graph.engine.effects import now
from agent_graph.engine.forks import fork_run
from agent_graph.engine.lease import take
from agent_graph.engine.nodes import HandleResponse
from agent_graph.engine.response import normalise
from agent_graph.journal import Journal
from agent_graph.journal.entries import Entered, Record
from agent_graph.runner import AgentRun

__all__ = ['fork_here', 'keep']


async def keep(run: AgentRun[Any]) -> None:
    """Record the response the run stopped before, so that going on does not ask the model for it again."""
    entry = _held(run)
    if entry is not None:
        await run.ctx.deps.effects.record(entry)


async def fork_here(run: AgentRun[Any], journal: Journal) -> str:
    """Make a run with the past of this one and the node it stopped before, as that is now; returns its id."""
    last = (await journal.info(run.run_id)).last_seq
    made = await fork_run(journal, run.run_id, at=last, edit=None, replacement=None, new_id=None)
    entry = _held(run)
    if entry is not None:
        lease = await take(journal, made)
        await journal.append(made, [Record(last + 1, now(), entry)], epoch=lease.epoch)
        await journal.release(lease)
    return made


def _held(run: AgentRun[Any]) -> Entered | None:
    """The entry `HandleResponse` is about to make; other nodes follow from what is recorded already."""
    node, deps = run.next_node, run.ctx.deps
    if not isinstance(node, HandleResponse) or deps.entered or deps.state.ended is not None:
        return None
    response = node.response if node.response is deps.made else normalise(node.response, deps.state)
    offered = None if deps.offered is None or deps.offered is deps.plan.definitions else deps.offered_names
    return Entered('HandleResponse', response=response, offered=offered)
