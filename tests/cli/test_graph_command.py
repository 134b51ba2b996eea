"""`agent-graph graph`: the picture of an agent's graph and of any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

Command = Callable[..., Any]

OWN = """
from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic_graph import BaseNode, Edge, End, GraphBuilder, GraphRunContext


@dataclass
class Draft(BaseNode[None, None, str]):
    async def run(self, ctx: GraphRunContext[None, None]) -> Annotated[End[str], Edge(label='sent')]:
        return End('x')


builder = GraphBuilder(name='letters', input_type=Draft, output_type=str)
builder.add(builder.edge_from(builder.start_node).to(Draft), builder.node(Draft))
letters = builder.build()
"""


def test_the_graph_of_an_agent_as_mermaid(command: Command) -> None:
    done = command('graph', 'agents.py:weather')
    assert (done.code, done.err) == (0, '')
    assert done.out.startswith('---\ntitle: "weather"\n---\nflowchart TD\n')
    for node in ('UserPrompt', 'ModelRequest', 'HandleResponse', 'End'):
        assert node in done.out
    assert 'HandleResponse -->|"output"| End' in done.out


def test_as_text_and_as_svg(command: Command) -> None:
    assert '-> ModelRequest' in command('graph', 'agents.py:weather', '--format', 'text').out
    ElementTree.fromstring(command('graph', 'agents.py:weather', '--format', 'svg').out)


def test_a_graph_of_ones_own(command: Command, folder: Path) -> None:
    (folder / 'own.py').write_text(OWN)
    done = command('graph', 'own.py:letters')
    assert 'title: "letters"' in done.out and 'Draft -->|"sent"| End' in done.out


def test_wrong_targets_and_formats(command: Command) -> None:
    done = command('graph', 'agents.py:number')
    assert done.code == 2 and 'is of type int, not an Agent or a pydantic-graph Graph' in done.err
    assert command('graph', 'agents.py:weather', '--format', 'pdf').code == 2
