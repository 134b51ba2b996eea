"""The body of a Messages request -> our messages: the way back of the mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    CachePoint,
    FilePart,
    Message,
    SystemMessage,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserContent,
    UserMessage,
)
from agent_graph.messages.media import shown
from agent_graph_providers.anthropic.files import file_of_block
from agent_graph_providers.anthropic.parts import part_of

__all__ = ['messages_from_anthropic']


def messages_from_anthropic(body: Mapping[str, Any], *, provider: str = 'anthropic') -> list[Message]:
    """The messages of a request, its `system` field included. `provider` made the assistant's, which go back unchanged.

    Cache marks become `CachePoint`s after what they mark (one within a tool result after the result), but for one on an assistant's block before tool results, which has
    no place. Tools, settings and marks on tools are not messages. Raises `MessageError` naming the message that is at fault.
    """
    reader = _Reader(provider)
    reader.system(body.get('system'), '`system`')
    messages: Any = body.get('messages')
    if not isinstance(messages, list):
        raise MessageError(f"a request of the Messages API has a list 'messages', not {shown(messages)}")
    for index, message in enumerate(cast(list[Any], messages)):
        reader.message(message, index)
    return reader.out


class _Reader:
    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.out: list[Message] = []
        self.names: dict[str, str] = {}
        """The tools of calls, by call id: results do not repeat them."""
        self.points: list[CachePoint] = []
        """Marks on an assistant's blocks: they stand at the beginning of the user message after it."""

    def message(self, message: Any, index: int) -> None:
        fields: Mapping[str, Any] = cast(Mapping[str, Any], message) if isinstance(message, Mapping) else {}
        role, content = fields.get('role'), fields.get('content')
        try:
            if role == 'user':
                self.user(content)
            elif role == 'assistant':
                self.assistant(content)
            elif role == 'system':
                self.system(content, 'a system message')
            else:
                raise ValueError(f'its role is {role!r}; use user, assistant or system')
        except (ValueError, MessageError) as error:
            raise MessageError(f'message {index} {shown(cast(object, message))} cannot be read: {error}') from error

    def system(self, content: Any, what: str) -> None:
        if content is None:
            return
        for block in _blocks(content):
            if block.get('type') != 'text' or not isinstance(text := block.get('text'), str):
                raise MessageError(f'{what} holds {shown(block)}; it takes texts only')
            self.out.append(SystemMessage(text))
            if point := _point(block):
                self.out.append(UserMessage(point))

    def user(self, content: Any) -> None:
        items: list[UserContent] = [*self.points]
        results: list[ToolReturnPart] = []
        self.points = []
        for block in _blocks(content):
            kind = block.get('type')
            if kind == 'tool_result':
                self._end_user(items)
                results.append(self.result(block))
            else:
                self._end_results(results)
                items.append(_text(block) if kind == 'text' else file_of_block(block))
            if point := _point(block) or _point_within(block):
                self._end_results(results)
                items += point
        self._end_results(results)
        self._end_user(items)

    def result(self, block: Mapping[str, Any]) -> ToolReturnPart:
        call_id, content = str(block.get('tool_use_id') or ''), block.get('content')
        pieces = [_text(b) if b.get('type') == 'text' else file_of_block(b) for b in _blocks(content or [])]
        text, extra = '', tuple(pieces)
        if pieces and isinstance(pieces[0], str):
            text, extra = pieces[0], tuple(pieces[1:])
        outcome = 'failed' if block.get('is_error') else 'success'
        return ToolReturnPart(self.names.get(call_id, ''), text, call_id, outcome, extra)

    def assistant(self, content: Any) -> None:
        blocks = list(_blocks(content))
        parts = [part_of({k: v for k, v in block.items() if k != 'cache_control'}) for block in blocks]
        self.names.update((part.tool_call_id, part.tool_name) for part in parts if isinstance(part, ToolCallPart))
        self.out.append(AssistantMessage(parts, provider_name=self.provider))
        if blocks and not any(isinstance(part, ToolCallPart) for part in parts):
            self.points = _point(blocks[-1])

    def _end_user(self, items: list[UserContent]) -> None:
        if items:
            only = items[0]
            self.out.append(UserMessage(only if len(items) == 1 and isinstance(only, str) else tuple(items)))
            items.clear()

    def _end_results(self, results: list[ToolReturnPart]) -> None:
        if results:
            self.out.append(ToolMessage(tuple(results)))
            results.clear()


def _blocks(content: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(content, str):
        content = [{'type': 'text', 'text': content}]
    if not isinstance(content, Sequence):
        raise ValueError(f'its content is {shown(content)}; use a text or a list of blocks')
    for block in cast(Sequence[Any], content):
        if not isinstance(block, Mapping):
            raise ValueError(f'its content holds {shown(block)}; use objects with a type')
        yield cast(Mapping[str, Any], block)


def _text(block: Mapping[str, Any]) -> str | FilePart:
    """The text of a block; one that comes with more than that is kept whole."""
    text = block.get('text')
    if not isinstance(text, str):
        raise ValueError(f'a text is {shown(text)}')
    return file_of_block(block) if block.get('citations') else text


def _point_within(block: Mapping[str, Any]) -> list[CachePoint]:
    """The mark on a piece of a result, which has no place of its own: it goes on the result."""
    content = block.get('content')
    if block.get('type') != 'tool_result' or not isinstance(content, list):
        return []
    return next((point for inner in reversed(list(_blocks(content))) if (point := _point(inner))), list[CachePoint]())


def _point(block: Mapping[str, Any]) -> list[CachePoint]:
    control = block.get('cache_control')
    if not isinstance(control, Mapping):
        return []
    return [CachePoint('1h' if cast(Mapping[str, Any], control).get('ttl') == '1h' else '5m')]
