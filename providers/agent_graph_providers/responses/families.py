"""What a model of a family can do, told from pieces of its name; an unknown name counts as of the newest family."""

from __future__ import annotations

import re

from agent_graph.capabilities import Capabilities
from agent_graph_providers.responses.servers import ResponsesServer

__all__ = ['capabilities_for']

_NO_REASONING = re.compile(r'gpt-(3\.5|4)|chatgpt|-chat(-|$)|grok-(2|3(?!-mini))|non-reasoning')
_NO_SCHEMA = re.compile(r'gpt-3\.5|gpt-4(-turbo|-\d{4}|$)|gpt-4o-2024-05')
_NO_IMAGES = re.compile(r'gpt-3\.5|gpt-4(-\d{4}|$)|o1-mini|o3-mini|gpt-oss|deepseek')
_NUMBERED = re.compile(r'gpt-(\d+)(?:\.(\d+))?')
_FIRST_WITH_BREAKPOINTS = (5, 6)


def capabilities_for(server: ResponsesServer, name: str) -> Capabilities:
    """The record of the family that `name` belongs to, on this server."""
    name = name.lower()
    images = server.images and not _NO_IMAGES.search(name)
    return Capabilities(
        native_output=server.json_schema and not _NO_SCHEMA.search(name),
        native_output_with_tools=server.json_schema and not _NO_SCHEMA.search(name),
        images=images,
        audio=False,
        documents=images and server.documents,
        thinking=not _NO_REASONING.search(name),
        prompt_cache=server.cache_control or _breaks_caching(name),
        count_tokens=server.counts,
    )


def _breaks_caching(name: str) -> bool:
    """The model takes marks in the prompt up to which it is to be cached. Only names that say so: others refuse them."""
    found = _NUMBERED.search(name.lower())
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _FIRST_WITH_BREAKPOINTS
