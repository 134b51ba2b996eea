"""The way back: the messages of a request to `/api/chat` in ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.messages.media import shown
from agent_graph_providers.ollama.answer import mapping

__all__ = ['messages_from_ollama']


def messages_from_ollama(body: Mapping[str, Any]) -> list[Message]:
    """The `messages` of a request to Ollama's chat.

    A result without an id answers the next call before it that has none yet. Raises `MessageError` naming the index and the
    value for what cannot be read.
    """
    out: list[Message] = []
    for index, message in enumerate(_list(body.get('messages'))):
        try:
            _add(out, mapping(message))
        except MessageError as error:
            raise MessageError(f'message {index}: {error}') from error
    return out


def _add(out: list[Message], message: Mapping[str, Any]) -> None:
    role, content = message.get('role'), message.get('content')
    text = content if isinstance(content, str) else ''
    if role == 'tool':
        given: tuple[ToolReturnPart, ...] = ()
        if out and isinstance(last := out[-1], ToolMessage):
            given = tuple(last.parts)
            del out[-1]
        call = _call_answered(message, out[-1] if out else None, len(given))
        name = str(message.get('tool_name') or (call.tool_name if call else ''))
        call_id = str(message.get('tool_call_id') or (call.tool_call_id if call else ''))
        out.append(ToolMessage((*given, ToolReturnPart(name, text, call_id))))
    elif role == 'assistant':
        out.append(AssistantMessage(list(_parts(message))))
    elif role == 'system':
        out.append(SystemMessage(text))
    elif role == 'user':
        images = [_image(image) for image in _list(message.get('images'))]
        out.append(UserMessage((*([text] if text else ()), *images) if images else text))
    else:
        raise MessageError(f'{shown(dict(message))} has the role {role!r}; use user, assistant, system or tool')


def _call_answered(message: Mapping[str, Any], last: Message | None, number: int) -> ToolCallPart | None:
    calls = [p for p in last.parts if isinstance(p, ToolCallPart)] if isinstance(last, AssistantMessage) else []
    if call_id := message.get('tool_call_id'):
        return next((call for call in calls if call.tool_call_id == call_id), None)
    return calls[number] if number < len(calls) else None


def _parts(message: Mapping[str, Any]) -> Iterator[AssistantPart]:
    if isinstance(thinking := message.get('thinking'), str) and thinking:
        yield ThinkingPart(thinking)
    if isinstance(text := message.get('content'), str) and text:
        yield TextPart(text)
    for call in map(mapping, _list(message.get('tool_calls'))):
        function = mapping(call.get('function'))
        args = function.get('arguments')
        given: Any = cast(dict[str, Any], args) if isinstance(args, dict) else str(args or '')
        yield ToolCallPart(str(function.get('name') or ''), given, str(call.get('id') or ''))


def _image(image: Any) -> FilePart:
    if not isinstance(image, str):
        raise MessageError(f'{shown(image)} is no image; give its bytes as base64 text')
    return FilePart('image/*', url=f'data:image/*;base64,{image}')


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MessageError(f'{shown(value)} stands where a list should; give a list')
    return cast(list[Any], value)
