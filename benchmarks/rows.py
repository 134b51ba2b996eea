"""What is measured: one row of the table each. A worker and the program that asks it both know a row by its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ['BURST', 'IDEAL_SECONDS', 'ROWS', 'Row']

Kind = Literal['make', 'make_shared', 'fake', 'http', 'stream', 'json', 'json_partial']


@dataclass(frozen=True, slots=True)
class Row:
    """One thing to run. `kind` is how; `model` names the server's behaviour for the rows over HTTP.

    `turns` responses of `par` tool calls precede the answer; `history` messages were said before. `pieces` is in how many
    pieces the answer is streamed, `items` how many entries a structured one has at least.
    """

    title: str
    kind: Kind
    turns: int = 0
    par: int = 1
    history: int = 0
    model: str = ''
    pieces: int = 0
    items: int = 0


ROWS: dict[str, Row] = {
    'make': Row('instantiate an agent with 1 tool and its own model', 'make'),
    'make_shared': Row('instantiate an agent with 1 tool, model shared', 'make_shared'),
    'text': Row('text', 'fake'),
    'tool': Row('1 tool call, then text', 'fake', turns=1),
    'turns10': Row('10 turns of 1 tool call', 'fake', turns=10),
    'turns50': Row('50 turns of 1 tool call', 'fake', turns=50),
    'par100': Row('100 parallel tool calls', 'fake', turns=1, par=100),
    'history': Row('text after 1,000 messages', 'fake', history=1000),
    'http': Row('HTTP: 1 tool call, then text', 'http', turns=1, model='tools-1-1'),
    'stream': Row('HTTP: text streamed in 2,000 pieces', 'stream', model='stream-2000', pieces=2000),
    'json': Row('HTTP: 20 KB of JSON in 1,000 pieces', 'json', model='json-1000-20000', pieces=1000, items=100),
    'json_partial': Row(
        'HTTP: the same, partial objects shown as it grows',
        'json_partial',
        model='json-1000-20000',
        pieces=1000,
        items=100,
    ),
}
"""Every row that is timed by its CPU time, by key."""

BURST = 1000
"""How many runs go on at once in the row of concurrent runs."""

IDEAL_SECONDS = 0.1
"""What such a run takes at least: two requests of a model that needs 50 ms."""
