"""The one rule of a history: every tool call is answered once, in the very next message, with its id, in call order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_graph.messages.parts import (
    AssistantMessage,
    Message,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
)

__all__ = ['INTERRUPTED', 'answer', 'calls_of', 'is_valid', 'repair']

INTERRUPTED = 'This tool call was interrupted before it finished; its effects are unknown.'
"""What the model is told about a call that was stopped. Written by the engine (`outcome='interrupted'`)."""


def calls_of(message: AssistantMessage) -> list[ToolCallPart]:
    """The tool calls of a response, in order."""
    return [p for p in message.parts if p.kind == 'tool_call']


def answer(message: AssistantMessage, answers: Mapping[str, ToolReturnPart]) -> ToolMessage | None:
    """One `ToolMessage` answering every call of `message`: from `answers` by id, the others as interrupted."""
    parts = tuple(
        answers.get(c.tool_call_id) or ToolReturnPart(c.tool_name, INTERRUPTED, c.tool_call_id, 'interrupted')
        for c in calls_of(message)
    )
    return ToolMessage(parts) if parts else None


def is_valid(messages: Sequence[Message]) -> bool:
    """True if every call is answered exactly once, in the next message, in call order, and no answer lacks a call."""
    open_ids: list[str] = []
    for message in messages:  # no call per message but for tool calls: this is walked at every start
        if message.kind == 'tool':
            if [p.tool_call_id for p in message.parts] != open_ids or not open_ids:
                return False
            open_ids = []
        elif open_ids:
            return False
        elif message.kind == 'assistant':
            for part in message.parts:
                if part.kind == 'tool_call':
                    open_ids.append(part.tool_call_id)
    return not open_ids


def repair(messages: Sequence[Message]) -> Sequence[Message]:
    """A valid history with everything that can be kept; `messages` itself when it is valid already.

    Missing answers are added as interrupted, answers are put in call order, answers without a call and second answers
    are dropped. Messages are never changed otherwise.
    """
    return messages if is_valid(messages) else _repaired(messages)


def _repaired(messages: Sequence[Message]) -> Sequence[Message]:
    out: list[Message] = []
    changed = False
    waiting: AssistantMessage | None = None
    for message in messages:
        cls = message.__class__
        if waiting is None and cls is not ToolMessage:
            out.append(message)
        else:
            found = message if isinstance(message, ToolMessage) else None
            fixed = _paired(waiting, found)
            changed = changed or fixed != found
            if fixed is not None:
                out.append(fixed)
            if found is None:
                out.append(message)
        waiting = message if isinstance(message, AssistantMessage) and _has_calls(message) else None
    if waiting is not None and (fixed := answer(waiting, {})) is not None:
        out.append(fixed)
        changed = True
    return out if changed else messages


def _has_calls(message: AssistantMessage) -> bool:
    return any(part.kind == 'tool_call' for part in message.parts)


def _paired(waiting: AssistantMessage | None, found: ToolMessage | None) -> ToolMessage | None:
    if waiting is None:
        return None
    answers: dict[str, ToolReturnPart] = {}
    for part in found.parts if found is not None else ():
        answers.setdefault(part.tool_call_id, part)
    return answer(waiting, answers)
