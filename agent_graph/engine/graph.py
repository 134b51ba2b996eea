"""The agent's graph, built once from the nodes' return annotations, and the edges of any graph made of `BaseNode`s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_graph import Decision, End, EndNode, Graph, GraphBuilder
from pydantic_graph.paths import DestinationMarker, Path
from pydantic_graph.step import NodeStep

from agent_graph.engine.nodes import FinalResult, HandleResponse, ModelRequest, UserPrompt
from agent_graph.engine.plan import RunDeps
from agent_graph.engine.state import RunState

__all__ = ['AGENT_EDGES', 'AGENT_GRAPH', 'Edges', 'edges_of']

Edges = Mapping[type, frozenset[type]]
"""Node class -> the classes it may return; `End` among them."""


def _build() -> Graph[RunState, RunDeps, UserPrompt, FinalResult]:
    builder = GraphBuilder(
        name='agent',
        state_type=RunState,
        deps_type=RunDeps,
        input_type=UserPrompt,
        output_type=FinalResult,
        auto_instrument=False,
    )
    builder.add(
        builder.edge_from(builder.start_node).to(UserPrompt),
        builder.node(UserPrompt),
        builder.node(ModelRequest),
        builder.node(HandleResponse),
    )
    return builder.build()


def edges_of(graph: Graph[Any, Any, Any, Any]) -> Edges:
    """The declared edges of a graph."""
    return {n.node_type: frozenset(_targets(graph, n.id)) for n in graph.nodes.values() if isinstance(n, NodeStep)}


def _targets(graph: Graph[Any, Any, Any, Any], source: Any) -> set[type]:
    return {t for path in graph.edges_by_source.get(source, ()) for t in _ends(graph, path)}


def _ends(graph: Graph[Any, Any, Any, Any], path: Path) -> set[type]:
    found: set[type] = set()
    for item in path.items:
        if not isinstance(item, DestinationMarker):
            continue
        node = graph.nodes[item.destination_id]
        if isinstance(node, Decision):
            for branch in node.branches:
                found |= _ends(graph, branch.path)
        elif isinstance(node, EndNode):
            found.add(End)
        elif isinstance(node, NodeStep):
            found.add(node.node_type)
        else:
            found |= _targets(graph, node.id)
    return found


AGENT_GRAPH = _build()
"""The graph every agent walks; `pydantic_graph`'s own `Graph.run` walks it too."""

AGENT_EDGES = edges_of(AGENT_GRAPH)
"""Its edges, for the runner to check each step against."""
