"""Converse's token counts -> `Usage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.usage import Usage

__all__ = ['usage_of']


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """The counts of a `usage` object. Its `inputTokens` leaves out what the cache gave or took; ours includes both."""
    read, write = _count(raw, 'cacheReadInputTokens'), _count(raw, 'cacheWriteInputTokens')
    details: dict[str, int] = {}
    for entry in _list(raw.get('cacheDetails')):
        fields = _mapping(entry)
        if tokens := _count(fields, 'inputTokens'):
            details[f'cache_write_{fields.get("ttl")}'] = tokens
    for name, value in _mapping(raw.get('serverToolUsage')).items():
        if type(value) is int and value:
            details[f'server_tool_{name}'] = value
    return Usage(
        input_tokens=_count(raw, 'inputTokens') + read + write,
        output_tokens=_count(raw, 'outputTokens'),
        total_tokens=_count(raw, 'totalTokens'),
        cache_read_tokens=read,
        cache_write_tokens=write,
        details=details,
    )


def _count(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    return value if type(value) is int and value > 0 else 0


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}
