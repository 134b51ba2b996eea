"""Where the debugger stops by itself: before nodes, and before tools are called."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Literal

from agent_graph.cli.exits import CommandError
from agent_graph.engine.nodes import HandleResponse
from agent_graph.messages.history import calls_of

__all__ = ['Breakpoints']

_NODES = ('UserPrompt', 'ModelRequest', 'HandleResponse')


class Breakpoints:
    """Names of nodes and tools. `tools` are those the agent has."""

    def __init__(self, tools: Collection[str]) -> None:
        self._known = tools
        self._nodes: dict[str, None] = {}
        self._tools: dict[str, None] = {}

    def add(self, what: Literal['node', 'tool'], name: str) -> str:
        """Stop there from now on; returns what to say. Raises `CommandError` for a name there is not."""
        if what == 'tool':
            self._tools[_known(name, self._known, 'tool')] = None
            return f'stops before {name} is called'
        node = _known(name, _NODES, 'node')
        self._nodes[node] = None
        return f'stops before every {node}'

    def remove(self, what: Literal['node', 'tool'], name: str) -> str:
        """Stop there no more; without a name, nowhere any more."""
        if not name:
            self._nodes.clear()
            self._tools.clear()
            return 'no breakpoints'
        held = self._tools if what == 'tool' else self._nodes
        found = _known(name, held, 'breakpoint')
        del held[found]
        return f'stops before {found} no more'

    def listed(self) -> str:
        """All of them in words."""
        names = [*self._nodes, *(f'tool {name}' for name in self._tools)]
        return f'breakpoints: {", ".join(names)}' if names else 'no breakpoints'

    def hit(self, node: object) -> str:
        """Why to stop before this node; empty if there is no reason."""
        name = type(node).__name__
        if name in self._nodes:
            return f'breakpoint {name}'
        calls = calls_of(node.response) if isinstance(node, HandleResponse) else ()
        called = next((call.tool_name for call in calls if call.tool_name in self._tools), '')
        return f'breakpoint tool {called}' if called else ''


def _known(name: str, names: Iterable[str], what: str) -> str:
    """The name as it is written, whatever its case."""
    known = {one.casefold(): one for one in names}
    found = known.get(name.casefold())
    if found is not None:
        return found
    near = get_close_matches(name.casefold(), known, 1)
    hint = f'did you mean {known[near[0]]!r}?' if near else f'there are: {", ".join(known.values()) or "none"}'
    raise CommandError(f'there is no {what} {name!r}; {hint}')
