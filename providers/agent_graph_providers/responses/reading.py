"""A request body of the Responses API -> messages: `messages_from_responses`. Writing them is in `items` and `body`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.messages.media import shown
from agent_graph_providers.responses.content import content_of
from agent_graph_providers.responses.parts import Reader, as_map, refusal_of

__all__ = ['messages_from_responses']

_OUTPUTS = frozenset({'function_call_output', 'custom_tool_call_output'})


def messages_from_responses(body: Mapping[str, Any]) -> list[Message]:
    """The conversation of a request: its `instructions` and its `input`, a text or a list of items.

    What a model says between two turns of others becomes one response; items nobody here knows are kept in it and go back
    as they are. The outputs of a response's calls become one `ToolMessage`, in call order. Raises `MessageError` naming the
    index and the value for anything that cannot be read.
    """
    instructions, given = body.get('instructions'), body.get('input')
    out: list[Message] = [SystemMessage(instructions)] if isinstance(instructions, str) and instructions else []
    if given is None:
        return out
    if isinstance(given, str):
        return [*out, UserMessage(given)]
    if not isinstance(given, list):
        raise MessageError(f'input is {shown(given)}; use a text or a list of items')
    return out + _Items().read(cast(list[Any], given))


class _Items:
    """Reads items one after the other into messages."""

    __slots__ = ('_answers', '_calls', '_out', '_parts', '_refusal')

    def __init__(self) -> None:
        self._out: list[Message] = []
        self._parts: list[AssistantPart] = []
        self._refusal = ''
        self._calls: list[ToolCallPart] = []
        """The calls of the last response."""
        self._answers: list[ToolReturnPart] = []

    def read(self, items: Sequence[Any]) -> list[Message]:
        for index, item in enumerate(items):
            if not isinstance(item, Mapping):
                raise MessageError(f'item {index} is {shown(item)}; use a dict')
            try:
                self._take(as_map(item))
            except MessageError as error:
                raise MessageError(f'item {index}: {error}') from error
        self._end_turn()
        return self._out

    def _take(self, item: Mapping[str, Any]) -> None:
        kind, role = item.get('type'), item.get('role')
        if kind is None:  # as the API has it, the type of these two need not be said
            kind = (
                'message'
                if 'role' in item
                else 'item_reference'
                if item.keys() <= {'type', 'id'} and item.get('id')
                else None
            )
        if not isinstance(kind, str):
            raise MessageError(f'{shown(dict(item))} has no type; give one, or a role')
        if kind in _OUTPUTS:
            self._end_response()
            self._answers.append(self._answer(item))
            return
        if kind == 'message' and role != 'assistant':
            self._end_turn()
            self._out += _said(item, role)
            return
        if self._answers:
            self._end_turn()
        if kind == 'message' and isinstance(content := item.get('content'), str):
            self._parts.append(TextPart(content))
            return
        self._refusal += refusal_of(item) if kind == 'message' else ''
        self._parts += Reader().parts({**item, 'type': kind})

    def _answer(self, item: Mapping[str, Any]) -> ToolReturnPart:
        call_id = item.get('call_id')
        if not isinstance(call_id, str):
            raise MessageError(f'{shown(dict(item))} has the call_id {call_id!r}; name the call it answers')
        name = next((c.tool_name for c in self._calls if c.tool_call_id == call_id), '')
        output = item.get('output')
        if isinstance(output, str) or output is None:
            return ToolReturnPart(name, output or '', call_id)
        content = content_of(output)
        texts = [c for c in content if isinstance(c, str)]
        files = tuple(c for c in content if isinstance(c, FilePart))
        if not files or (len(texts) == 1 and isinstance(content[0], str)):
            return ToolReturnPart(name, ''.join(texts), call_id, extra_content=files)
        extra = tuple(c for c in content if isinstance(c, str | FilePart))
        return ToolReturnPart(name, '', call_id, extra_content=extra)

    def _end_response(self) -> None:
        """What the model says ends here."""
        if self._parts or self._refusal:
            self._calls = [p for p in self._parts if isinstance(p, ToolCallPart)]
            self._out.append(AssistantMessage(tuple(self._parts), refusal=self._refusal or None))
            self._parts, self._refusal = [], ''

    def _end_turn(self) -> None:
        """So do the outputs of its calls: one message, in call order."""
        self._end_response()
        if self._answers:
            order = {call.tool_call_id: place for place, call in enumerate(self._calls)}
            self._answers.sort(key=lambda answer: order.get(answer.tool_call_id, len(order)))
            self._out.append(ToolMessage(tuple(self._answers)))
            self._answers = []


def _said(item: Mapping[str, Any], role: Any) -> Iterator[Message]:
    """What a person or the application says."""
    content = content_of(item.get('content'))
    if role == 'user':
        yield UserMessage(content)
    elif role in ('system', 'developer'):
        for text in [content] if isinstance(content, str) else content:
            if not isinstance(text, str):
                raise MessageError(f'{shown(text)} stands in a {role} message; only text can stand there')
            yield SystemMessage(text)
    else:
        raise MessageError(f'{shown(dict(item))} has the role {role!r}; use system, developer, user or assistant')
