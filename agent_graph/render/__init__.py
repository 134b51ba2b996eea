"""Pictures of a graph and of a run.

Of any pydantic-graph `Graph` of nodes, with the labels of its edges (`Edge(label=...)` in the return annotations):
`mermaid(graph)`, `text(graph)`, `svg(graph)`. Of the path a run actually took, from its journal records: `run(records)`
(mermaid) and `tree(records)` (text). `Picture(graph)` and `RunPicture(records)` hold all forms at once and show
themselves in a notebook. Nothing is fetched, and every name and label is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_graph import Graph

from agent_graph.journal.entries import Record
from agent_graph.render import graphs
from agent_graph.render.mermaid import Direction
from agent_graph.render.path import path_tree
from agent_graph.render.picture import Picture, RunPicture
from agent_graph.render.walk import read

__all__ = ['Direction', 'Picture', 'RunPicture', 'mermaid', 'run', 'svg', 'text', 'tree']


def mermaid(graph: Graph[Any, Any, Any, Any], *, title: str | None = None, direction: Direction = 'TD') -> str:
    """A graph's nodes and labelled edges as a mermaid flowchart."""
    return Picture(graph, title=title).render(direction=direction)


def text(graph: Graph[Any, Any, Any, Any]) -> str:
    """A graph as plain lines: every node, then where it can go and when."""
    return graphs.text(graph)


def svg(graph: Graph[Any, Any, Any, Any], *, title: str | None = None) -> str:
    """A graph as an SVG that stands alone."""
    return Picture(graph, title=title).svg()


def run(records: Iterable[Record], *, title: str | None = None, direction: Direction = 'TD') -> str:
    """The path a run took as a mermaid flowchart; see `RunPicture`."""
    return RunPicture(records, title=title).render(direction=direction)


def tree(records: Iterable[Record], *, title: str | None = None, width: int = 100) -> str:
    """The path a run took as a text tree with lines of about `width` characters; see `RunPicture`."""
    return path_tree(read(records), title=title or '', width=width)
