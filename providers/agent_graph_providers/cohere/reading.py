"""The way back: the messages of a request to `/v2/chat` in ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    JsonValue,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.messages.media import file_from_openai, shown
from agent_graph_providers.cohere.answer import citation_of, mapping
from agent_graph_providers.cohere.documents import document_file

__all__ = ['messages_from_cohere']


def messages_from_cohere(body: Mapping[str, Any]) -> list[Message]:
    """The `messages` of a request to Cohere's chat; its `documents` become files of the last user message.

    Raises `MessageError` naming the index and the value for what cannot be read.
    """
    out: list[Message] = []
    names: dict[str, str] = {}
    for index, message in enumerate(_list(body.get('messages'))):
        try:
            _add(out, mapping(message), names)
        except MessageError as error:
            raise MessageError(f'message {index}: {error}') from error
    if documents := _list(body.get('documents')):
        _attach(out, [document_file(document) for document in documents])
    return out


def _add(out: list[Message], message: Mapping[str, Any], names: dict[str, str]) -> None:
    role, content = message.get('role'), message.get('content')
    if role == 'tool':
        result = _result(message, names)
        last = out[-1] if out else None
        if isinstance(last, ToolMessage):
            out[-1] = ToolMessage((*last.parts, result))
        else:
            out.append(ToolMessage([result]))
    elif role == 'assistant':
        answer = _assistant(message)
        names.update({p.tool_call_id: p.tool_name for p in answer.parts if isinstance(p, ToolCallPart)})
        out.append(answer)
    elif role == 'system':
        out.append(SystemMessage(content if isinstance(content, str) else ''.join(_texts(content))))
    elif role == 'user':
        out.append(UserMessage(content if isinstance(content, str) else [_user_item(b) for b in _list(content)]))
    else:
        raise MessageError(f'{shown(dict(message))} has the role {role!r}; use user, assistant, system or tool')


def _user_item(block: Any) -> str | FilePart:
    fields = mapping(block)
    if isinstance(text := fields.get('text'), str):
        return text
    if fields.get('type') == 'image_url':
        return file_from_openai(fields)
    raise MessageError(f'content block {shown(block)} cannot be read; use a text or an image_url')


def _assistant(message: Mapping[str, Any]) -> AssistantMessage:
    content = message.get('content')
    citations: list[dict[str, Any]] = [dict(mapping(c)) for c in _list(message.get('citations'))]
    cited = [c for c in citations if c.get('type') in (None, 'TEXT_CONTENT')]
    blocks = [{'text': content}] if isinstance(content, str) else _list(content)
    parts: list[AssistantPart] = []
    for block in map(mapping, blocks):
        if isinstance(text := block.get('text'), str):
            parts.append(TextPart(text, citations=tuple(map(citation_of, cited))))
            cited = []
        elif isinstance(thinking := block.get('thinking'), str):
            parts.append(ThinkingPart(thinking))
    for call in map(mapping, _list(message.get('tool_calls'))):
        function = mapping(call.get('function'))
        args: Any = function.get('arguments')
        args = cast(dict[str, JsonValue], args) if isinstance(args, dict) else str(args or '')
        parts.append(ToolCallPart(str(function.get('name') or ''), args, str(call.get('id') or '')))
    details: dict[str, Any] = {}
    if isinstance(plan := message.get('tool_plan'), str):
        details['tool_plan'] = plan
    if others := [c for c in citations if c.get('type') not in (None, 'TEXT_CONTENT')]:
        details['citations'] = others
    return AssistantMessage(parts, provider_details=details or None)


def _result(message: Mapping[str, Any], names: Mapping[str, str]) -> ToolReturnPart:
    call_id, content = str(message.get('tool_call_id') or ''), message.get('content')
    name = names.get(call_id, '')
    if isinstance(content, str):
        return ToolReturnPart(name, content, call_id)
    items: list[str | FilePart] = []
    for block in map(mapping, _list(content)):
        if block.get('type') == 'document':
            items.append(document_file(block.get('document')))
        elif isinstance(text := block.get('text'), str):
            items.append(text)
        else:
            raise MessageError(f'content block {shown(dict(block))} of a tool cannot be read; use a text or a document')
    if items and isinstance(items[0], str):
        return ToolReturnPart(name, items[0], call_id, extra_content=tuple(items[1:]))
    return ToolReturnPart(name, '', call_id, extra_content=tuple(items))


def _attach(out: list[Message], files: list[FilePart]) -> None:
    for index in range(len(out) - 1, -1, -1):
        message = out[index]
        if isinstance(message, UserMessage):
            content = (message.content,) if isinstance(message.content, str) else message.content
            out[index] = UserMessage((*content, *files))
            return
    out.append(UserMessage(files))


def _texts(content: Any) -> list[str]:
    return [str(mapping(block).get('text') or '') for block in _list(content)]


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MessageError(f'{shown(value)} stands where a list should; give a list')
    return cast(list[Any], value)
