"""Reading a pydantic-graph `Graph`: its nodes and edges as a diagram, and as text.

Edges are read off the built graph. Their labels are what the graph's builder was told, and `Edge(label=...)` in the
return annotation of a node's `run`, which pydantic-graph (2.68) keeps but does not draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from pydantic_graph import BaseNode, Decision, Edge, End, EndNode, Graph, StartNode, Step
from pydantic_graph.paths import DestinationMarker, LabelMarker, Path
from pydantic_graph.step import NodeStep

from agent_graph.render.diagram import Box, Diagram, Link

__all__ = ['diagram', 'text']

AnyGraph = Graph[Any, Any, Any, Any]


def diagram(graph: AnyGraph, *, title: str = '') -> Diagram:
    """The boxes and labelled arrows of `graph`, from its start on; nodes nothing leads to come last."""
    links: list[Link] = []
    order: dict[str, None] = {str(StartNode.id): None}
    waiting = list(order)
    while waiting:
        source = waiting.pop(0)
        for link in _links_from(graph, source):
            if link not in links:
                links.append(link)
            if link.target not in order:
                order[link.target] = None
                waiting.append(link.target)
    order |= {str(i): None for i, node in graph.nodes.items() if not isinstance(node, Decision)}
    return Diagram(tuple(_box(graph, i) for i in order), tuple(links), title)


def text(graph: AnyGraph) -> str:
    """The graph as plain lines: every node, then where it can go and when."""
    drawn = diagram(graph)
    names = {box.id: ' '.join(box.lines) or 'start' for box in drawn.boxes}
    wide = max((len(names[link.target]) for link in drawn.links), default=0)
    lines: list[str] = []
    for box in drawn.boxes:
        if box.shape != 'end':
            lines.append(names[box.id])
            out = [link for link in drawn.links if link.source == box.id]
            lines += [f'  -> {names[link.target]:{wide}}  {link.label}'.rstrip() for link in out]
    return '\n'.join(lines)


def _box(graph: AnyGraph, node_id: str) -> Box:
    node = _node(graph, node_id)
    if isinstance(node, StartNode):
        return Box(node_id, (), 'start')
    if isinstance(node, EndNode):
        return Box(node_id, ('End',), 'end')
    label = str(getattr(cast(Any, node), 'label', None) or node_id)
    return Box(node_id, (label,), 'step' if isinstance(node, Step) else 'other')


def _node(graph: AnyGraph, node_id: str) -> object:
    return graph.nodes[cast(Any, node_id)]


def _links_from(graph: AnyGraph, source: str) -> Iterator[Link]:
    node = _node(graph, source)
    hints = _hint_labels(graph, cast(Any, node).node_type) if isinstance(node, NodeStep) else {}
    paths: Sequence[Path] = graph.edges_by_source.get(cast(Any, source), ())
    for path in paths:
        for target, label in _targets(graph, path, ''):
            yield Link(source, target, label or hints.get(target, ''))


def _targets(graph: AnyGraph, path: Path, label: str) -> Iterator[tuple[str, str]]:
    """Where a path leads, through the decisions pydantic-graph puts where a node has several return types."""
    for item in path.items:
        if isinstance(item, LabelMarker):
            label = item.label
        elif isinstance(item, DestinationMarker):
            node: Any = graph.nodes[item.destination_id]
            if isinstance(node, Decision):
                for branch in node.branches:
                    yield from _targets(graph, branch.path, label)
            else:
                yield str(item.destination_id), label


def _hint_labels(graph: AnyGraph, node_type: type[BaseNode[Any, Any, Any]]) -> dict[str, str]:
    """Target id -> label, from `Annotated[Node, Edge(label=...)]` in the return annotation of `node_type.run`."""
    known = {n.node_type.__name__: n.node_type for n in graph.nodes.values() if isinstance(n, NodeStep)}
    try:
        hints = get_type_hints(node_type.run, localns=known, include_extras=True)
    except (NameError, TypeError):
        return {}  # names of a function's own scope are out of reach here: the edge is drawn without its label
    return dict(_labels(hints.get('return'), ''))


def _labels(hint: Any, label: str) -> Iterator[tuple[str, str]]:
    origin = get_origin(hint)
    if origin is Annotated:
        found = [str(a.label) for a in hint.__metadata__ if isinstance(a, Edge) and a.label]
        yield from _labels(hint.__origin__, found[0] if found else label)
    elif origin is Union or origin is UnionType:
        for member in get_args(hint):
            yield from _labels(member, label)
    elif hasattr(hint, '__value__'):  # a `type X = ...` alias
        yield from _labels(hint.__value__, label)
    elif label:
        target: Any = origin or hint
        if target is End:
            yield str(EndNode.id), label
        elif isinstance(target, type) and issubclass(target, BaseNode):
            yield target.get_node_id(), label
