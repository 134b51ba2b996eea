"""Gemini's token counts -> `Usage`.

`promptTokenCount` leaves out what the provider's own tools brought in, `candidatesTokenCount` leaves out thinking; both are
paid for, so both are in our numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from agent_graph.usage import Usage

__all__ = ['usage_of']

_BY_KIND = (
    ('promptTokensDetails', 'input'),
    ('candidatesTokensDetails', 'output'),
    ('cacheTokensDetails', 'cache'),
)


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """The counts of a `usageMetadata`; what it does not state is 0. Tokens that are no text are counted in `details`."""
    thoughts, tools = _count(raw, 'thoughtsTokenCount'), _count(raw, 'toolUsePromptTokenCount')
    details: dict[str, int] = {'tool_use_prompt_tokens': tools} if tools else {}
    for key, prefix in _BY_KIND:
        for kind, count in _kinds(raw.get(key)):
            name = f'{prefix}_{kind}_tokens'
            details[name] = details.get(name, 0) + count
    return Usage(
        input_tokens=_count(raw, 'promptTokenCount') + tools,
        output_tokens=_count(raw, 'candidatesTokenCount') + thoughts,
        total_tokens=_count(raw, 'totalTokenCount'),
        cache_read_tokens=_count(raw, 'cachedContentTokenCount'),
        reasoning_tokens=thoughts,
        details=details,
    )


def _kinds(details: Any) -> Iterator[tuple[str, int]]:
    """(kind, tokens) of everything but text."""
    for entry in cast(list[Any], details) if isinstance(details, list) else ():
        if isinstance(entry, dict):
            fields = cast(dict[str, Any], entry)
            kind, count = fields.get('modality'), _count(fields, 'tokenCount')
            if isinstance(kind, str) and kind != 'TEXT' and count:
                yield kind.lower(), count


def _count(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    if type(value) is int:
        return max(value, 0)
    return max(int(value), 0) if isinstance(value, float) and value.is_integer() else 0
