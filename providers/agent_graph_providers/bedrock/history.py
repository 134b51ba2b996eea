"""One message of ours -> the entries it takes: `{'role': ..., 'content': [blocks]}`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    CachePoint,
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
from agent_graph_providers.bedrock.blocks import REDACTED
from agent_graph_providers.bedrock.families import Family, family_of
from agent_graph_providers.bedrock.media import block_of, kind_of
from agent_graph_providers.wire.ids import digest_of
from agent_graph_providers.wire.jsontext import decode, encode

__all__ = ['PROVIDER', 'entries_of', 'wire_id']

PROVIDER = 'aws'
"""As genai-prices calls it: what its responses are marked with."""

_FINE_ID = re.compile(r'[a-zA-Z0-9_.:-]{1,64}')


def entries_of(message: Message, names: Mapping[str, str], family: Family) -> list[dict[str, Any]]:
    """The entries of a message; none for one with nothing in it."""
    match message:
        case SystemMessage():
            return _entry('system', [{'text': message.content}] if message.content.strip() else [])
        case UserMessage():
            return _entry('user', _user(message.content, family))
        case AssistantMessage():
            return _entry('assistant', _assistant(message, names, family))
        case ToolMessage():
            return _results(message, family)


def wire_id(call_id: str) -> str:
    """An id Converse takes: this one if it may be, else one made of it."""
    if _FINE_ID.fullmatch(call_id):
        return call_id
    return f'call_{digest_of(call_id)}'


def _entry(role: str, content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{'role': role, 'content': content}] if content else []


def _user(content: str | Sequence[UserContent], family: Family) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for item in (content,) if isinstance(content, str) else content:
        if isinstance(item, str):
            if item.strip():
                blocks.append({'text': item})
        elif isinstance(item, CachePoint):
            if family.can.prompt_cache:
                ttl = {'ttl': '1h'} if item.ttl == '1h' and family.cache_ttl else {}
                blocks.append({'cachePoint': {'type': 'default', **ttl}})
        else:
            blocks.append(block_of(item))
    return blocks


def _assistant(message: AssistantMessage, names: Mapping[str, str], family: Family) -> list[dict[str, Any]]:
    own = message.provider_name in (None, PROVIDER)
    if own and message.model_name and message.provider_name:
        own = family_of(message.model_name).maker == family.maker
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        blocks += _part(part, names, own=own)
    if message.refusal and not any('text' in block for block in blocks):
        blocks.append({'text': message.refusal})
    return blocks


def _part(part: AssistantPart, names: Mapping[str, str], *, own: bool) -> list[dict[str, Any]]:
    match part:
        case TextPart():
            return _text(part, own=own)
        case ThinkingPart():
            return _thinking(part) if own else []
        case ToolCallPart():
            return [_call(part, names)]
        case BuiltinToolCallPart() | BuiltinToolReturnPart():
            return _verbatim(part.provider_details) if own else []
        case FilePart():
            return []  # only users may send files


def _text(part: TextPart, *, own: bool) -> list[dict[str, Any]]:
    if not part.content.strip():
        return []
    citations = [c.provider_details for c in part.citations if c.provider_details] if own else []
    if citations:
        return [{'citationsContent': {'content': [{'text': part.content}], 'citations': citations}}]
    return [{'text': part.content}]


def _thinking(part: ThinkingPart) -> list[dict[str, Any]]:
    """Sealed reasoning goes back; models that show theirs without a seal do not take it back."""
    data = (part.provider_details or {}).get(REDACTED)
    if isinstance(data, str):
        return [{'reasoningContent': {REDACTED: data}}]
    if part.signature is None:
        return []
    return [{'reasoningContent': {'reasoningText': {'text': part.content, 'signature': part.signature}}}]


def _verbatim(details: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """A call or a result of a tool that the provider ran, as it came."""
    return (
        [{key: details[key]} for key in ('toolUse', 'toolResult') if isinstance(details.get(key), dict)]
        if details
        else []
    )


def _call(part: ToolCallPart, names: Mapping[str, str]) -> dict[str, Any]:
    name = names.get(part.tool_name, part.tool_name)
    return {'toolUse': {'toolUseId': wire_id(part.tool_call_id), 'name': name, 'input': _arguments(part.args)}}


def _arguments(args: str | dict[str, Any]) -> dict[str, Any]:
    """The arguments as the object Converse wants; text that is none is quoted in one."""
    if isinstance(args, dict):
        return args
    if not args.strip():
        return {}
    try:
        value = decode(args.encode('utf-8', 'surrogatepass'))
    except ValueError:
        value = None
    return cast(dict[str, Any], value) if isinstance(value, dict) else {'invalid_arguments': args}


def _results(message: ToolMessage, family: Family) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    beside: list[dict[str, Any]] = []
    for part in message.parts:
        content = _result_content(part, beside)
        result: dict[str, Any] = {'toolUseId': wire_id(part.tool_call_id), 'content': content}
        if family.result_status:
            result['status'] = 'success' if part.outcome == 'success' else 'error'
        results.append({'toolResult': result})
    return _entry('user', results) + _entry('user', beside)


def _result_content(part: ToolReturnPart, beside: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a tool returned. Sounds cannot stand in a result, so they go `beside` it."""
    content, blocks = part.content, list[dict[str, Any]]()
    if isinstance(content, dict) and content:
        blocks.append({'json': content})
    elif not isinstance(content, str):
        blocks.append({'text': encode(content).decode()})
    elif content.strip():
        blocks.append({'text': content})
    for item in part.extra_content:
        if isinstance(item, str):
            blocks += [{'text': item}] if item.strip() else []
        elif kind_of(item.media_type) == 'audio':
            beside.append(block_of(item))
        else:
            blocks.append(block_of(item))
    return blocks or [{'text': encode(content).decode()}]
