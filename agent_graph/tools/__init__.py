"""Tools: what a model may call (`tool`), how functions become schemas (`schema`), and how wires want them (`dialects`)."""

from agent_graph.tools.context import RunContext
from agent_graph.tools.tool import Retry, Tool, ToolOptions, ToolReturn, tool

__all__ = ['Retry', 'RunContext', 'Tool', 'ToolOptions', 'ToolReturn', 'tool']
