"""One output item -> the parts it means. What has to go back to the provider verbatim is kept in their details.

Every part of an item carries `provider_details['item']`: the item's own fields but for what the part itself holds. By that
mark `agent_graph_providers.responses.items` knows its own parts and puts the item together again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agent_graph.messages import (
    AssistantPart,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    Citation,
    FilePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

__all__ = ['RESULTS', 'Reader', 'as_list', 'as_map', 'call_id', 'logprobs_of', 'refusal_of']

RESULTS: Mapping[str, str] = {
    'code_interpreter_call': 'outputs',
    'file_search_call': 'results',
    'mcp_call': 'output',
}
"""Items of tools the provider runs -> the field that holds what the tool answered; it becomes a part of its own."""

_ASKED = ('arguments', 'action', 'actions', 'queries', 'code', 'operation', 'input', 'prompt', 'revised_prompt')
"""Where such an item says what its tool was asked, the first one found being it."""

_TEXT_TYPES = ('output_text', 'text', 'input_text')
_IMAGE_TYPES = {'iVBORw': 'image/png', '/9j/': 'image/jpeg', 'UklGR': 'image/webp', 'R0lGOD': 'image/gif'}
"""How the base64 text of an image begins."""


def as_map(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> Sequence[Any]:
    """The value if it is a JSON array, else an empty one."""
    return cast(list[Any], value) if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True)
class Reader:
    """How the items of one answer are read.

    `back` maps tools' names as sent to their own. `customs` maps the tools offered as `custom` ones, by their names as sent,
    to the argument that takes the free text. `runs_customs`: the server runs custom tools nobody offered itself. `stored`:
    the provider keeps the response, so an item may go back that is no more than its id.
    """

    back: Mapping[str, str] = field(default_factory=dict[str, str])
    customs: Mapping[str, str] = field(default_factory=dict[str, str])
    runs_customs: bool = False
    stored: bool = True

    def parts(self, item: Mapping[str, Any]) -> list[AssistantPart]:
        """The parts of an item, in order; a message without text has none."""
        read = _READERS.get(item.get('type', ''))
        return _builtin(item) if read is None else read(self, item)

    def message(self, item: Mapping[str, Any]) -> list[AssistantPart]:
        mark = _mark(item, 'role', 'content')
        out: list[AssistantPart] = []
        for block in as_list(item.get('content')):
            block = as_map(block)
            text, notes = block.get('text'), tuple(map(_citation, as_list(block.get('annotations'))))
            if block.get('type') in _TEXT_TYPES and isinstance(text, str) and (text or notes):
                out.append(TextPart(text, mark, notes))
        return out

    def reasoning(self, item: Mapping[str, Any]) -> list[AssistantPart]:
        """One part for each text; the last one carries the seal. Without any text, one part that is only the seal."""
        texts = [('summary', text) for text in _texts(item.get('summary'))]
        texts += [('content', text) for text in _texts(item.get('content'))]
        seal = item.get('encrypted_content')
        seal = seal if isinstance(seal, str) and seal else None
        if not (seal or self.stored or any(place == 'content' for place, _ in texts)):
            return [ThinkingPart(text) for _, text in texts or [('', '')]]  # it could not be sent back
        mark = _mark(item, 'summary', 'content', 'encrypted_content')
        brief = {key: mark['item'][key] for key in ('id', 'type') if key in mark['item']}
        out: list[AssistantPart] = [ThinkingPart(text, None, {'item': brief, 'place': place}) for place, text in texts]
        place, text = texts[-1] if texts else ('', '')
        return [*out[:-1], ThinkingPart(text, seal, {**mark, 'place': place} if place else mark)]

    def function_call(self, item: Mapping[str, Any]) -> list[AssistantPart]:
        name, args = str(item.get('name') or ''), item.get('arguments')
        args = cast('str | dict[str, Any]', args) if isinstance(args, str | dict) else ''
        mark = _mark(item, 'name', 'arguments', 'call_id')
        return [ToolCallPart(self.back.get(name, name), args, call_id(item), mark)]

    def custom_tool_call(self, item: Mapping[str, Any]) -> list[AssistantPart]:
        """A call whose input is free text: the one argument of the tool it was offered for, or the text as it is."""
        name, text = str(item.get('name') or ''), item.get('input')
        text = text if isinstance(text, str) else ''
        argument = self.customs.get(name)
        if argument is None and self.runs_customs:
            return _builtin(item)
        mark = _mark(item, 'name', 'input', 'call_id')
        args: str | dict[str, Any] = text if argument is None else {argument: text}
        return [ToolCallPart(self.back.get(name, name), args, call_id(item), mark)]


_READERS: Mapping[str, Callable[[Reader, Mapping[str, Any]], list[AssistantPart]]] = {
    'message': Reader.message,
    'reasoning': Reader.reasoning,
    'function_call': Reader.function_call,
    'custom_tool_call': Reader.custom_tool_call,
}


def call_id(item: Mapping[str, Any]) -> str:
    """The id a call is answered under."""
    return str(item.get('call_id') or item.get('id') or '')


def refusal_of(item: Mapping[str, Any]) -> str:
    """What the model said in place of an answer, `''` if nothing."""
    blocks = map(as_map, as_list(item.get('content')))
    return ''.join(str(b.get('refusal') or '') for b in blocks if b.get('type') == 'refusal')


def logprobs_of(item: Mapping[str, Any]) -> list[Any]:
    """The log probabilities of a message's tokens."""
    return [token for block in as_list(item.get('content')) for token in as_list(as_map(block).get('logprobs'))]


def _builtin(item: Mapping[str, Any]) -> list[AssistantPart]:
    """An item of a tool the provider runs, or of any kind nobody here knows, and what its tool answered."""
    kind, ident = str(item.get('type') or 'unknown'), str(item.get('id') or item.get('call_id') or '')
    asked: Any = next((item[key] for key in _ASKED if isinstance(item.get(key), str | dict | list) and item[key]), '')
    args: str | dict[str, Any] = asked if isinstance(asked, str) else dict(as_map(asked)) or {'asked': asked}
    image = item.get('result') if kind == 'image_generation_call' else None
    if isinstance(image, str) and image:
        media_type = _image_type(image, item.get('output_format'))
        file = FilePart(
            media_type, url=f'data:{media_type};base64,{image}', provider_details={'item': {'id': ident, 'type': kind}}
        )
        return [BuiltinToolCallPart(kind, args, ident, _mark(item, 'result')), file]
    field_name = RESULTS.get(kind, '')
    if item.get(field_name) is None:
        return [BuiltinToolCallPart(kind, args, ident, _mark(item))]
    answer = BuiltinToolReturnPart(kind, item[field_name], ident, {'item': {'id': ident, 'type': kind}})
    return [BuiltinToolCallPart(kind, args, ident, _mark(item, field_name)), answer]


def _mark(item: Mapping[str, Any], *without: str) -> dict[str, Any]:
    return {'item': {key: value for key, value in item.items() if key not in without}}


def _texts(blocks: Any) -> list[str]:
    texts = [as_map(block).get('text') for block in as_list(blocks)]
    return [text for text in texts if isinstance(text, str)]


def _citation(annotation: Any) -> Citation:
    note = as_map(annotation)
    url, title, start, end = (note.get(key) for key in ('url', 'title', 'start_index', 'end_index'))
    title = title or note.get('filename')
    return Citation(
        url if isinstance(url, str) else None,
        title if isinstance(title, str) else None,
        None,
        start if type(start) is int else None,
        end if type(end) is int else None,
        dict(note),
    )


def _image_type(data: str, said: Any) -> str:
    for begin, media_type in _IMAGE_TYPES.items():
        if data.startswith(begin):
            return media_type
    return f'image/{said}' if isinstance(said, str) and said else 'image/png'
