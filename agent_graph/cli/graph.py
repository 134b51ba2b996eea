"""`agent-graph graph`: the picture of a graph."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from agent_graph.agent import Agent
from agent_graph.cli.targets import TARGET_HELP, load_graph
from agent_graph.render import Picture

__all__ = ['graph']


def graph(
    target: Annotated[str, typer.Argument(metavar='TARGET', help=TARGET_HELP, show_default=False)],
    output: Annotated[
        Literal['mermaid', 'text', 'svg'],
        typer.Option('--format', help='mermaid for Markdown, plain text, or an SVG picture.'),
    ] = 'mermaid',
) -> None:
    """Print the graph of an agent, or of a pydantic-graph Graph, with the labels of its edges.

    Exit codes: 0 printed; 2 wrong arguments, or a target that cannot be loaded.
    """
    found = load_graph(target)
    picture = found.graph if isinstance(found, Agent) else Picture(found, title=found.name)
    forms = {'mermaid': picture.render, 'text': picture.__str__, 'svg': picture.svg}
    print(forms[output]().rstrip('\n'))
