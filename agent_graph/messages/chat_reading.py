"""Reading Chat Completions message lists: `from_openai`. Writing them is in `agent_graph.messages.chat`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages.media import FILE_TYPES, file_from_openai, shown
from agent_graph.messages.parts import (
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

__all__ = ['THINKING_FIELDS', 'from_openai']

THINKING_FIELDS = ('reasoning_content', 'reasoning')
"""The fields that hold reasoning text. Where a server fills both, they say the same, so the first one counts."""


def from_openai(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Read a Chat Completions `messages` list; consecutive tool results become the one `ToolMessage` of their response.

    Raises `MessageError` naming the index and the value for anything that cannot be read: an unknown role or content
    type, a missing field, a result that answers no call of the response before it.
    """
    return list(_read(messages))


def _read(messages: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    last: AssistantMessage | None = None
    answers: dict[int, ToolReturnPart] = {}
    for index, message in enumerate(messages):
        try:
            role = _role(message)
            if role in ('tool', 'function'):
                position, answer = _answer(message, last, answers)
                answers[position] = answer
                continue
            if answers:
                yield _answered(answers)
                answers = {}
            last = None
            if role in ('system', 'developer'):
                yield from (SystemMessage(t) for t in _texts(message.get('content')))
            elif role == 'user':
                yield UserMessage(_user_content(message.get('content')))
            else:
                last = _assistant_message(message, index)
                yield last
        except MessageError as error:
            raise MessageError(f'message {index}: {error}') from error
    if answers:
        yield _answered(answers)


def _answered(answers: dict[int, ToolReturnPart]) -> ToolMessage:
    return ToolMessage(tuple(answers[position] for position in sorted(answers)))


def _role(message: Any) -> str:
    role = _mapping(message).get('role')
    if role in ('system', 'developer', 'user', 'assistant', 'tool', 'function'):
        return cast(str, role)
    raise MessageError(
        f'{shown(message)} has the role {role!r}; use a dict whose role is system, developer, user, assistant or tool'
    )


def _answer(
    message: Mapping[str, Any], last: AssistantMessage | None, answers: Mapping[int, ToolReturnPart]
) -> tuple[int, ToolReturnPart]:
    """Which call of the last response this result answers, and the result."""
    call_id, name = message.get('tool_call_id'), message.get('name')
    calls = [p for p in last.parts if isinstance(p, ToolCallPart)] if last is not None else []
    for position, call in enumerate(calls):
        # Results without an id (functions of old, servers that give none) go by their name.
        fits = call.tool_call_id == call_id if isinstance(call_id, str) else call.tool_name == name
        if fits and position not in answers:
            content = _result(message.get('content'))
            return position, ToolReturnPart(call.tool_name, content, call.tool_call_id)
    known = [c.tool_call_id for c in calls if c.tool_call_id]
    raise MessageError(
        f'the result for call {call_id if call_id is not None else name!r} answers no open call of the message before it '
        f'(its calls: {known!r}); put each result once, right after the assistant message that made the call'
    )


def _result(content: Any) -> str:
    return '' if content is None else ''.join(_texts(content))


def _texts(content: Any) -> list[str]:
    """A text, or the texts of a list of text parts."""
    if isinstance(content, str):
        return [content]
    out: list[str] = []
    for part in _blocks(content):
        if part.get('type') != 'text':
            raise MessageError(f'content part {shown(part)} is not of type text; only text can stand here')
        out.append(_text_of(part))
    return out


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    if not isinstance(content, list):
        raise MessageError(f'content is {shown(content)}; use a text or a list of content parts')
    for part in cast(list[Any], content):
        if not isinstance(part, Mapping):
            raise MessageError(
                f'content part {shown(part)} is not a dict; use {{"type": "text", "text": ...}} or a file'
            )
    return cast(list[Mapping[str, Any]], content)


def _text_of(part: Mapping[str, Any], key: str = 'text') -> str:
    text = part.get(key)
    if not isinstance(text, str):
        raise MessageError(f'{key!r} of content part {shown(part)} is {text!r}; give a text')
    return text


def _user_content(content: Any) -> str | tuple[str | FilePart, ...]:
    if isinstance(content, str):
        return content
    out: list[str | FilePart] = []
    for part in _blocks(content):
        kind = part.get('type')
        if kind == 'text':
            out.append(_text_of(part))
        elif kind in FILE_TYPES:
            out.append(file_from_openai(part))
        else:
            raise MessageError(f'content part {shown(part)} has the type {kind!r}; use text or {sorted(FILE_TYPES)!r}')
    return tuple(out)


def _assistant_message(message: Mapping[str, Any], index: int) -> AssistantMessage:
    parts: list[AssistantPart] = [*_thinking(message)]
    refusal = message.get('refusal')
    content = message.get('content')
    if isinstance(content, str):
        parts.append(TextPart(content))
    elif content is not None:
        for part in _blocks(content):
            if part.get('type') == 'refusal':
                refusal = _text_of(part, 'refusal')
            else:
                parts.append(_assistant_block(part))
    if isinstance(audio := message.get('audio'), Mapping) and isinstance(
        audio_id := cast(Mapping[str, Any], audio).get('id'), str
    ):
        parts.append(FilePart('audio/*', file_id=audio_id, provider_details={'audio_id': audio_id}))
    for position, call in enumerate(_calls(message)):
        parts.append(_read_call(call, f'call_{index}_{position}'))
    extra = message.get('extra_content')
    details = {'extra_content': extra} if extra is not None else None
    return AssistantMessage(tuple(parts), refusal=refusal or None, provider_details=details)


def _thinking(message: Mapping[str, Any]) -> Iterator[ThinkingPart]:
    blocks = message.get('reasoning_details')
    for name in THINKING_FIELDS:
        if isinstance(text := message.get(name), str) and text:
            details: dict[str, Any] = {'field': name}
            if blocks:
                details['reasoning_details'] = blocks
            yield ThinkingPart(text, provider_details=details)
            return
    if blocks:
        yield ThinkingPart('', provider_details={'reasoning_details': blocks})


def _assistant_block(part: Mapping[str, Any]) -> TextPart | ThinkingPart:
    kind = part.get('type')
    if kind == 'text':
        return TextPart(_text_of(part))
    if kind == 'thinking':
        inner = part.get('thinking')
        text = inner if isinstance(inner, str) else ''.join(_texts(inner))
        return ThinkingPart(text, provider_details={'field': 'thinking'})
    raise MessageError(
        f'content part {shown(part)} has the type {kind!r}; an assistant message holds text or a refusal'
    )


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls: Any = message.get('tool_calls') or []
    if not isinstance(calls, list):
        raise MessageError(f'tool_calls is {shown(calls)}; use a list')
    if not calls and isinstance(old := message.get('function_call'), Mapping):
        return [{'function': old}]
    return cast(list[Mapping[str, Any]], calls)


def _read_call(call: Any, spare_id: str) -> ToolCallPart:
    fields = _mapping(call)
    inner = _mapping(fields.get('function'))
    name, args = inner.get('name'), inner.get('arguments')
    if not isinstance(name, str) or not isinstance(args, str | dict | None):
        raise MessageError(f'tool call {shown(call)} has no function with a name and arguments; add them')
    extra = fields.get('extra_content')
    details = {'extra_content': extra} if extra is not None else None
    call_id = fields.get('id')
    arguments = cast('str | dict[str, Any]', args if args is not None else '')
    return ToolCallPart(name, arguments, call_id if isinstance(call_id, str) else spare_id, details)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}
