"""Pictures in all their forms, mermaid, SVG and text, which notebooks show on their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pydantic_graph import Graph

from agent_graph.journal.entries import Record
from agent_graph.render import graphs
from agent_graph.render.diagram import Diagram
from agent_graph.render.mermaid import Direction, flowchart
from agent_graph.render.path import path_diagram, path_tree
from agent_graph.render.svg import svg
from agent_graph.render.walk import read

__all__ = ['Drawing', 'Picture', 'RunPicture']


class Drawing:
    """A diagram and the same as text. `print(drawing)` shows the text; a notebook shows the best form it knows."""

    def __init__(self, diagram: Diagram, text: str) -> None:
        self.diagram = diagram
        self.text = text

    def render(self, *, title: str | None = None, direction: Direction = 'TD') -> str:
        """A mermaid flowchart, for Markdown files and mermaid viewers."""
        return flowchart(self._titled(title), direction=direction)

    def svg(self, *, title: str | None = None) -> str:
        """An SVG that stands alone, without script, fonts or pictures from elsewhere."""
        return svg(self._titled(title))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f'{type(self).__name__}({self.diagram.title!r}, {len(self.diagram.boxes)} boxes)'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What IPython's display protocol asks for; the notebook picks a form."""
        return {'text/plain': self.text, 'text/vnd.mermaid': self.render(), 'image/svg+xml': self.svg()}

    def _titled(self, title: str | None) -> Diagram:
        return self.diagram if title is None else replace(self.diagram, title=title)


class Picture(Drawing):
    """A graph's nodes and labelled edges; any pydantic-graph `Graph` will do."""

    def __init__(self, graph: Graph[Any, Any, Any, Any], *, title: str | None = None) -> None:
        super().__init__(graphs.diagram(graph, title=title or ''), graphs.text(graph))


class RunPicture(Drawing):
    """The path a run took, from the records `journal.load(run_id)` gives; the title is the agent's name if not given.

    Steps are numbered and show their time, tokens and cost; tool calls stand between the response that asked for them
    and the request that carries their results. The node the run is in, or failed in, is highlighted.
    """

    def __init__(self, records: Iterable[Record], *, title: str | None = None) -> None:
        walk = read(records)
        super().__init__(path_diagram(walk, title=title or ''), path_tree(walk, title=title or ''))
