"""The debugger in the terminal, `agent-graph step`: it stops before each node of a run, and takes commands."""

from __future__ import annotations

from agent_graph.cli.debugger.stepping import Debugger

__all__ = ['Debugger']
