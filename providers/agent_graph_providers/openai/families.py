"""What a model behind Chat Completions can do, told from its server's row and from pieces of its name."""

from __future__ import annotations

import re

from agent_graph.capabilities import Capabilities
from agent_graph_providers.openai.servers import Server

__all__ = ['capabilities_for']

_NO_SCHEMA = re.compile(r'gpt-3\.5|gpt-4(-turbo|-\d{4}|$)|gpt-4o-2024-05')
_NO_IMAGES = re.compile(
    r'gpt-3\.5|gpt-4(-\d{4}|$)|o1-mini|o3-mini|gpt-oss|deepseek|codestral|sonar|-coder|kimi-k2(?!\.)'
)


def capabilities_for(server: Server, name: str) -> Capabilities:
    """The record of the family `name` belongs to; a name nobody knows counts as of the newest one."""
    name = name.lower()
    schema = server.json_schema and not _NO_SCHEMA.search(name)
    return Capabilities(
        tools=server.tools,
        tool_choice=server.tools,
        native_output=schema,
        native_output_with_tools=schema,
        images=not _NO_IMAGES.search(name),
        audio='audio' in name or 'voxtral' in name,
        documents=server.documents,
        thinking=bool(server.thinking),
    )
