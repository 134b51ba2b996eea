"""Content blocks of an answer -> our parts. What has to go back unchanged stays whole in `provider_details`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.messages import (
    AssistantPart,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    Citation,
    FilePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

__all__ = ['KNOWN', 'citation_of', 'extras', 'part_of']

KNOWN: Mapping[str, frozenset[str]] = {
    'text': frozenset({'type', 'text', 'citations'}),
    'thinking': frozenset({'type', 'thinking', 'signature'}),
    'tool_use': frozenset({'type', 'id', 'name', 'input'}),
}
"""The fields that have a place in our parts, by type of block; all others are kept in `provider_details`."""


def part_of(block: Mapping[str, Any]) -> AssistantPart:
    """The part a whole block is. Raises `ValueError` saying what is wrong with it.

    Blocks that tell of the provider's own doings (tools it ran, a model that stood in, a summary of what was before) are
    `BuiltinToolCallPart` and `BuiltinToolReturnPart`, named by their type.
    """
    kind = _text(block, 'type')
    if kind == 'text':
        citations = tuple(map(citation_of, _objects(block, 'citations')))
        return TextPart(_text(block, 'text'), extras(block), citations)
    if kind == 'thinking':
        return ThinkingPart(_text(block, 'thinking'), _text(block, 'signature') or None, extras(block))
    if kind == 'redacted_thinking':
        return ThinkingPart('', provider_details=dict(block))
    if kind == 'tool_use':
        if not _text(block, 'name'):
            raise ValueError(f'tool call {block.get("id")!r} has no name')
        return ToolCallPart(_text(block, 'name'), _input(block), _text(block, 'id'), extras(block))
    if kind == 'container_upload':
        return FilePart('application/octet-stream', file_id=_text(block, 'file_id'), provider_details=dict(block))
    if 'tool_use_id' in block:
        return BuiltinToolReturnPart(kind, block.get('content'), _text(block, 'tool_use_id'), dict(block))
    return BuiltinToolCallPart(kind, _input(block), _text(block, 'id'), dict(block))


def citation_of(raw: Mapping[str, Any]) -> Citation:
    """A citation in common words, the provider's own object within.

    `start` and `end` stay empty: the places it names are in the document, not in the text that cites it.
    """
    url, source = raw.get('url'), raw.get('source')
    if not isinstance(url, str) and isinstance(source, str) and source.startswith(('https://', 'http://')):
        url = source
    title = raw.get('title') or raw.get('document_title')
    cited = raw.get('cited_text')
    return Citation(
        url if isinstance(url, str) else None,
        title if isinstance(title, str) else None,
        cited if isinstance(cited, str) else None,
        provider_details=dict(raw),
    )


def extras(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of a block that have no place of their own; `None` if there are none."""
    known = KNOWN[block['type']]
    return {name: value for name, value in block.items() if name not in known} or None


def _text(block: Mapping[str, Any], key: str) -> str:
    value = block.get(key)
    if value is None and key != 'type':
        return ''
    if not isinstance(value, str):
        raise ValueError(f'{key!r} of a content block is {value!r}, not a text')
    return value


def _input(block: Mapping[str, Any]) -> dict[str, Any]:
    value = block.get('input')
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"'input' of a content block is {value!r}, not an object")
    return cast(dict[str, Any], value)


def _objects(block: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = block.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in cast(list[Any], value)):
        raise ValueError(f'{key!r} of a content block is {value!r}, not a list of objects')
    return cast(list[Mapping[str, Any]], value)
