"""Messages -> the entries they take in `messages`: a role and content blocks each. Pure.

Two things are left open for `assembly`, which sees the whole conversation: where system texts go, and what a cache point
marks (`CACHE_POINT` blocks).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

from pydantic_core import from_json

from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    CachePoint,
    Citation,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserContent,
    UserMessage,
)
from agent_graph_providers.anthropic.files import block_of_file
from agent_graph_providers.wire.jsontext import encoded

__all__ = ['CACHE_POINT', 'assistant_blocks', 'entries_of', 'wire_id']

CACHE_POINT = '(cache point)'
"""The type of a block that is none: what is before it is worth keeping in the cache."""

_FINE_ID = re.compile(r'[a-zA-Z0-9_-]{1,64}')


def entries_of(message: Message, names: Mapping[str, str], provider: str) -> list[dict[str, Any]]:
    """The entries of one message: one or none. `names` maps tools' names to names as sent, where they differ.

    Raises `MessageError` for files Claude does not take.
    """
    match message:
        case UserMessage():
            role, blocks = 'user', _user(message.content)
        case AssistantMessage():
            role, blocks = 'assistant', assistant_blocks(message, names, provider)
        case ToolMessage():
            role, blocks = 'user', [_result(part) for part in message.parts]
        case SystemMessage():
            role, blocks = 'system', _text(message.content)
    return [{'role': role, 'content': blocks}] if blocks else []


def assistant_blocks(message: AssistantMessage, names: Mapping[str, str], provider: str) -> list[dict[str, Any]]:
    """The blocks of an answer. What `provider` did not make itself is told without thinking and without its own tools."""
    own = message.provider_name == provider
    unfinished = _unfinished(message) if own and message.interrupted else frozenset[str]()
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            blocks += _answer_text(part, own)
        elif isinstance(part, ToolCallPart):
            blocks.append(_call(part, names, own))
        elif own and isinstance(part, ThinkingPart):
            blocks += _thinking(part)
        elif own and not (isinstance(part, BuiltinToolCallPart) and part.tool_call_id in unfinished):
            blocks += _verbatim(part.provider_details)
    if not blocks and message.refusal:
        blocks = _text(message.refusal)
    return blocks


def wire_id(call_id: str) -> str:
    """A call id Anthropic takes: the same if it is one, else a readable beginning and a hash."""
    if _FINE_ID.fullmatch(call_id):
        return call_id
    begin = re.sub(r'[^a-zA-Z0-9_-]+', '_', call_id)[:40]
    return f'{begin or "call"}_{sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]}'


def _text(text: str) -> list[dict[str, Any]]:
    """A text block; none for a text without anything to read, which Anthropic refuses."""
    return [{'type': 'text', 'text': text}] if text and not text.isspace() else []


def _user(content: str | Sequence[UserContent]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return _text(content)
    blocks: list[dict[str, Any]] = []
    for item in content:
        if isinstance(item, str):
            blocks += _text(item)
        elif isinstance(item, CachePoint):
            blocks.append({'type': CACHE_POINT, 'ttl': item.ttl})
        else:
            blocks.append(block_of_file(item))
    return blocks


def _result(part: ToolReturnPart) -> dict[str, Any]:
    block: dict[str, Any] = {'type': 'tool_result', 'tool_use_id': wire_id(part.tool_call_id)}
    text = part.content if isinstance(part.content, str) else encoded(part.content).decode()
    if part.extra_content:
        content = _text(text)
        for item in part.extra_content:
            content += [block_of_file(item)] if isinstance(item, FilePart) else _text(item)
        if content:
            block['content'] = content
    elif text and not text.isspace():
        block['content'] = text
    if part.outcome != 'success':
        block['is_error'] = True
    return block


def _answer_text(part: TextPart, own: bool) -> list[dict[str, Any]]:
    if not own:
        return _text(part.content)
    blocks = _text(part.content)
    for block in blocks:
        if cited := [raw for c in part.citations if (raw := _raw(c)) is not None]:
            block['citations'] = cited
        if part.provider_details:
            block.update(part.provider_details)
    return blocks


def _verbatim(details: dict[str, Any] | None) -> list[dict[str, Any]]:
    return [details] if details is not None and 'type' in details else []


def _raw(citation: Citation) -> Mapping[str, Any] | None:
    details = citation.provider_details
    return details if details is not None and 'type' in details else None


def _thinking(part: ThinkingPart) -> list[dict[str, Any]]:
    """Sealed thinking; what has no seal (an answer that was cut short) would be refused."""
    details = part.provider_details or {}
    if details.get('type') == 'redacted_thinking':
        return [details]
    if part.signature is None:
        return []
    return [{'type': 'thinking', 'thinking': part.content, 'signature': part.signature, **details}]


def _call(part: ToolCallPart, names: Mapping[str, str], own: bool) -> dict[str, Any]:
    block = {
        'type': 'tool_use',
        'id': wire_id(part.tool_call_id),
        'name': names.get(part.tool_name, part.tool_name),
        'input': _input(part.args),
    }
    return {**block, **part.provider_details} if own and part.provider_details else block


def _input(args: str | dict[str, Any]) -> dict[str, Any]:
    """The arguments as the object they have to be; text that is none is quoted in one."""
    if isinstance(args, dict):
        return args
    if not args.strip():
        return {}
    try:
        value: Any = from_json(args)
    except ValueError:
        value = None
    return cast(dict[str, Any], value) if isinstance(value, dict) else {'invalid_arguments': args}


def _unfinished(message: AssistantMessage) -> frozenset[str]:
    """The provider's own tools that had not answered when a response was cut short."""
    answered = {p.tool_call_id for p in message.parts if isinstance(p, BuiltinToolReturnPart)}
    called = {p.tool_call_id for p in message.parts if isinstance(p, BuiltinToolCallPart)}
    return frozenset(called - answered)
