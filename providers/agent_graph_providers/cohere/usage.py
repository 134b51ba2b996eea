"""Cohere's counts -> `Usage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.usage import Usage

__all__ = ['usage_of']


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """The counts of a `usage` object: all tokens the model saw and made, those from the cache among them.

    Cohere bills fewer, since what it adds to a prompt itself is free: `details` has these as `billed_...`, and prices go by
    them.
    """
    tokens, billed = _mapping(raw.get('tokens')), _mapping(raw.get('billed_units'))
    counted = tokens or billed
    details = {f'billed_{name}': number for name in billed if (number := _count(billed, name))}
    return Usage(
        input_tokens=_count(counted, 'input_tokens'),
        output_tokens=_count(counted, 'output_tokens'),
        cache_read_tokens=_count(raw, 'cached_tokens'),
        details=details,
    )


def _count(raw: Mapping[str, Any], key: str) -> int:
    """A count, which Cohere may write as `13.0`."""
    value = raw.get(key)
    if type(value) is int and value > 0:
        return value
    return int(value) if isinstance(value, float) and value.is_integer() and value > 0 else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}
