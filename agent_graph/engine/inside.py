"""The runs inside a tool call, or a node of a graph, as the journal has them: what they used, and how they are ended.

Such runs are numbered, and one that is begun anew has a plus behind its name.
"""

from __future__ import annotations

from agent_graph.engine.effects import RunStore
from agent_graph.engine.state import RunState, fold
from agent_graph.errors import UnknownRun
from agent_graph.journal.entries import Parent
from agent_graph.usage import NO_USAGE, Spend, Usage, Used

__all__ = ['open_scopes', 'runs_inside', 'sum_of', 'used_by', 'used_in_open_calls', 'used_inside']


async def runs_inside(journal: RunStore, run_id: str, scope: str) -> list[RunState]:
    """The runs that were begun in a call (or a node), in order."""
    found: list[RunState] = []
    number, name = 1, f'{run_id}:{scope}:1'
    while True:
        try:
            state = fold(name, await journal.load(name))
            if state.parent == Parent(run_id, scope):  # or else it is somebody's own run, that happens to have the name
                found.append(state)
            name += '+'
        except UnknownRun:
            if not name.endswith('+'):
                return found
            number += 1
            name = f'{run_id}:{scope}:{number}'


def open_scopes(state: RunState) -> list[str]:
    """Where runs may be inside that are not done with: the calls that have begun and not finished, or the graph's node."""
    scopes = [call_id for call_id in state.started if call_id not in state.finished]
    if state.at is not None and state.at.data is not None:
        scopes.append(state.scope)
    return scopes


async def used_by(journal: RunStore, state: RunState) -> Used:
    """What a run used, with what is inside its open calls; an end has that counted already."""
    own = Usage(requests=state.requests, tool_calls=state.tool_calls) + state.tokens
    more = await used_in_open_calls(journal, state) if state.ended is None else {}
    return sum_of([(own, tuple(state.spends)), *more.values()])


async def used_in_open_calls(journal: RunStore, state: RunState) -> dict[str, Used]:
    """What runs inside used, by open call (or node); those in which none used anything are left out."""
    found = {scope: await used_inside(journal, state.run_id, scope) for scope in open_scopes(state)}
    return {scope: used for scope, used in found.items() if used[0] != NO_USAGE}


async def used_inside(journal: RunStore, run_id: str, scope: str) -> Used:
    """What the runs begun in one call (or node) used."""
    return sum_of([await used_by(journal, inner) for inner in await runs_inside(journal, run_id, scope)])


def sum_of(used: list[Used]) -> Used:
    """Several runs' use together."""
    usage, spends = NO_USAGE, list[Spend]()
    for each, more in used:
        usage += each
        spends += more
    return usage, tuple(spends)
