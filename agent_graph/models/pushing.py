"""Pushing a whole response as a stream would have brought it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from agent_graph.messages import AssistantMessage, AssistantPart, TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import ResponseBuilder

__all__ = ['push']

PIECE = 64
"""Characters at a time."""


async def push(message: AssistantMessage, out: ResponseBuilder) -> None:
    """Push `message` into `out`: at once when nobody watches, else in pieces. The response is the same either way."""
    if out.watched:
        for index, part in enumerate(message.parts):
            await _push_part(part, (push, index), out)
        message = replace(message, parts=())
    await out.message(message)


async def _push_part(part: AssistantPart, key: Hashable, out: ResponseBuilder) -> None:
    if isinstance(part, TextPart) and part.content:
        for piece in _pieces(part.content):
            await out.text(piece, key=key, details=part.provider_details)
        for citation in part.citations:
            out.cite(citation, key=key)
    elif isinstance(part, ThinkingPart) and part.content and part.signature != '':
        for piece in _pieces(part.content):
            await out.thinking(piece, key=key, details=part.provider_details)
        if part.signature is not None:
            await out.thinking('', key=key, signature=part.signature)
    elif isinstance(part, ToolCallPart) and isinstance(part.args, str):
        await out.tool_call(key, name=part.tool_name, tool_call_id=part.tool_call_id, details=part.provider_details)
        for piece in _pieces(part.args):
            await out.tool_call(key, args=piece)
    else:
        await out.part(part)


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))
