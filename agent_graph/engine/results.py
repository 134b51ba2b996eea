"""What a tool returned -> the answer the model gets: JSON data, mended text, files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from agent_graph.messages import FilePart, JsonValue, ToolCallPart, ToolReturnPart
from agent_graph.text import clean_text, json_form
from agent_graph.tools import ToolReturn

__all__ = ['ToolAnswer', 'to_answer']


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """An answer, with the value behind it: as it was, and as it is stored."""

    part: ToolReturnPart
    value: Any = None
    stored: JsonValue = None


def to_answer(call: ToolCallPart, returned: Any) -> ToolAnswer:
    """Make the answer to `call` of what its function returned.

    A file, or a list of files, goes beside the answer; everything else must have a JSON form (pydantic's rules).
    Raises `TypeError` if it has none.
    """
    if returned.__class__ is str:
        text = returned if returned.isascii() else clean_text(returned)
        return ToolAnswer(ToolReturnPart(call.tool_name, text, call.tool_call_id), returned, text)
    extra: tuple[str | FilePart, ...] = ()
    metadata: JsonValue = None
    value = returned
    if isinstance(returned, ToolReturn):
        value = returned.value
        extra = _extra(returned.content)
        metadata = _jsonable(call, returned.metadata)
    files = _files(value)
    if files:
        extra = (*files, *extra)
        stored: JsonValue = 'The result is attached.'
    else:
        stored = _jsonable(call, value)
    part = ToolReturnPart(call.tool_name, stored, call.tool_call_id, 'success', extra, metadata)
    return ToolAnswer(part, value, stored)


def _jsonable(call: ToolCallPart, value: Any) -> JsonValue:
    try:
        return json_form(value)
    except ValueError as error:
        raise TypeError(
            f'{value!r} of type {type(value).__name__}, returned by tool {call.tool_name!r}, has no JSON form: {error}; '
            'return text, JSON data, a pydantic model or a dataclass'
        ) from error


def _extra(content: str | FilePart | Sequence[str | FilePart] | None) -> tuple[str | FilePart, ...]:
    if content is None:
        return ()
    items = (content,) if isinstance(content, str | FilePart) else content
    return tuple(clean_text(c) if isinstance(c, str) else c for c in items)


def _files(value: Any) -> tuple[FilePart, ...]:
    if isinstance(value, FilePart):
        return (value,)
    if isinstance(value, list | tuple) and value and all(isinstance(v, FilePart) for v in cast(Sequence[Any], value)):
        return tuple(cast(Sequence[FilePart], value))
    return ()
