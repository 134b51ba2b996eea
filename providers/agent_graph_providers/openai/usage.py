"""The provider's token counts -> `Usage`, wherever a server puts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.usage import Usage

__all__ = ['usage_of']

_CACHED = ('prompt_cache_hit_tokens', 'cached_tokens', 'num_cached_tokens')
"""Where servers without `prompt_tokens_details` count tokens read from a cache."""

_COMMON = frozenset({'cached_tokens', 'cache_write_tokens', 'reasoning_tokens'})


def usage_of(raw: Mapping[str, Any], sent: str = 'prompt_tokens', received: str = 'completion_tokens') -> Usage:
    """The counts of a `usage` object; what it does not state is 0. Other counts of tokens go to `details`.

    `sent` and `received` are its names for the two sides, with `_details` at their end where the details are.
    """
    prompt, completion = _inner(raw, f'{sent}_details'), _inner(raw, f'{received}_details')
    cached = _count(prompt, 'cached_tokens')
    for name in _CACHED:
        cached = cached or _count(raw, name)
    details: dict[str, int] = {}
    for prefix, group in (('input', prompt), ('output', completion)):
        for name, value in group.items():
            if name not in _COMMON and type(value) is int and value:
                details[f'{prefix}_{name}'] = value
    return Usage(
        input_tokens=_count(raw, sent),
        output_tokens=_count(raw, received),
        total_tokens=_count(raw, 'total_tokens'),
        cache_read_tokens=cached,
        cache_write_tokens=_count(prompt, 'cache_write_tokens'),
        reasoning_tokens=_count(completion, 'reasoning_tokens') or _count(raw, 'reasoning_tokens'),
        details=details,
    )


def _inner(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _count(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else 0
