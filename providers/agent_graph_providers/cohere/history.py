"""One message of ours -> the entries of Cohere's `messages`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from agent_graph.messages import (
    AssistantMessage,
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
from agent_graph_providers.cohere.documents import document_of, image_of, is_image
from agent_graph_providers.wire.ids import paired
from agent_graph_providers.wire.jsontext import decode, encode

__all__ = ['DOCUMENTS', 'PROVIDER', 'entries_of', 'history_of']

PROVIDER = 'cohere'
DOCUMENTS = 'documents'
"""In an entry of a user: what goes beside the messages."""

_NOTHING = '.'
"""Stands where Cohere insists on a message and nobody said anything."""

_BESIDE_DOCUMENTS = 'See the documents.'


def entries_of(message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The entries of a message; none for one with nothing in it."""
    match message:
        case SystemMessage():
            return [{'role': 'system', 'content': message.content}] if message.content.strip() else []
        case UserMessage():
            return _user(message.content)
        case AssistantMessage():
            return _assistant(message, names)
        case ToolMessage():
            return _results(message)


def history_of(entries: Iterable[list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """(messages, documents) of a request: ids of calls are there once. Nothing given is changed."""
    messages: list[dict[str, Any]] = []
    documents: list[Any] = []
    for entry in chain.from_iterable(entries):
        if DOCUMENTS in entry:
            documents += entry[DOCUMENTS]
            entry = {key: value for key, value in entry.items() if key != DOCUMENTS}
        messages.append(entry)
    if not any(entry['role'] in ('user', 'tool') for entry in messages):
        messages.append({'role': 'user', 'content': _NOTHING})
    return paired(messages), documents


def _user(content: str | Sequence[UserContent]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{'role': 'user', 'content': content}] if content.strip() else []
    blocks: list[dict[str, Any]] = []
    documents: list[Any] = []
    for item in content:
        if isinstance(item, str):
            blocks += [{'type': 'text', 'text': item}] if item.strip() else []
        elif isinstance(item, CachePoint):
            continue  # Cohere caches by itself
        elif is_image(item):
            blocks.append(image_of(item))
        else:
            documents.append(document_of(item))
    if documents:
        return [{'role': 'user', 'content': blocks or _BESIDE_DOCUMENTS, DOCUMENTS: documents}]
    return [{'role': 'user', 'content': blocks}] if blocks else []


def _assistant(message: AssistantMessage, names: Mapping[str, str]) -> list[dict[str, Any]]:
    own = message.provider_name in (None, PROVIDER)
    out: dict[str, Any] = {'role': 'assistant'}
    if content := _content(message, own=own):
        out['content'] = content
    if calls := [_call(part, names) for part in message.parts if isinstance(part, ToolCallPart)]:
        out['tool_calls'] = calls
    details = message.provider_details or {}
    if own and calls and isinstance(plan := details.get('tool_plan'), str):
        out['tool_plan'] = plan
    if own and (citations := _citations(message)):
        out['citations'] = citations
    return [out] if 'content' in out or calls else []


def _content(message: AssistantMessage, *, own: bool) -> str | list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.content.strip():
            blocks.append({'type': 'text', 'text': part.content})
        elif isinstance(part, ThinkingPart) and own and part.content:
            blocks.append({'type': 'thinking', 'thinking': part.content})
    texts = [block for block in blocks if block['type'] == 'text']
    if not texts and message.refusal:
        blocks.append({'type': 'text', 'text': message.refusal})
    elif not texts and not any(isinstance(part, ToolCallPart) for part in message.parts):
        return []  # thoughts alone are no message
    return blocks[0]['text'] if len(blocks) == 1 and 'text' in blocks[0] else blocks


def _citations(message: AssistantMessage) -> list[Any]:
    cited = [c.provider_details for part in message.parts if isinstance(part, TextPart) for c in part.citations]
    others = (message.provider_details or {}).get('citations')
    return [c for c in cited if c] + (others if isinstance(others, list) else [])


def _call(part: ToolCallPart, names: Mapping[str, str]) -> dict[str, Any]:
    function = {'name': names.get(part.tool_name, part.tool_name), 'arguments': _arguments(part.args)}
    return {'id': part.tool_call_id, 'type': 'function', 'function': function}


def _arguments(args: str | dict[str, Any]) -> str:
    """The arguments as JSON text of an object; Cohere itself writes `null` for none."""
    if isinstance(args, dict):
        return encode(args).decode()
    if not args.strip():
        return '{}'
    try:
        value = decode(args.encode('utf-8', 'surrogatepass'))
    except ValueError:
        return encode({'invalid_arguments': args}).decode()
    if value is None:
        return '{}'
    return args if isinstance(value, dict) else encode({'invalid_arguments': args}).decode()


def _results(message: ToolMessage) -> list[dict[str, Any]]:
    images: list[dict[str, Any]] = []
    out = [
        {'role': 'tool', 'tool_call_id': part.tool_call_id, 'content': _result(part, images)} for part in message.parts
    ]
    return [*out, {'role': 'user', 'content': images}] if images else out


def _result(part: ToolReturnPart, images: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """What a tool returned. Images cannot stand there, so they go after the results."""
    content = part.content
    text = content if isinstance(content, str) and content.strip() else encode(content).decode()
    blocks: list[dict[str, Any]] = []
    for item in part.extra_content:
        if isinstance(item, FilePart):
            if is_image(item):
                images.append(image_of(item))
            else:
                document = document_of(item)
                blocks.append(
                    {
                        'type': 'document',
                        'document': document if isinstance(document, dict) else {'data': {'text': document}},
                    }
                )
        elif item.strip():
            blocks.append({'type': 'text', 'text': item})
    if not blocks:
        return text
    first = [] if content == '' else [{'type': 'text', 'text': text}]
    return [*first, *blocks]
