"""Anthropic's token counts -> `Usage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.usage import Usage

__all__ = ['usage_of']

_DETAILS = ('cache_creation', 'server_tool_use')
"""Objects of counts; what they count goes to `Usage.details` under its own name."""


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """The counts of a `usage` object. Its `input_tokens` leave out what the cache read and wrote; ours take it in."""
    read, written = _count(raw, 'cache_read_input_tokens'), _count(raw, 'cache_creation_input_tokens')
    details: dict[str, int] = {}
    for key in _DETAILS:
        counts = _object(raw.get(key)).items()
        details.update({name: value for name, value in counts if type(value) is int and value})
    return Usage(
        input_tokens=_count(raw, 'input_tokens') + read + written,
        output_tokens=_count(raw, 'output_tokens'),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_count(_object(raw.get('output_tokens_details')), 'thinking_tokens'),
        details=details,
    )


def _object(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _count(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    if type(value) is int:
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else 0
