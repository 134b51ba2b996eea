"""Messages -> input items. Pure, message by message; what spans several messages is in `finished`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from agent_graph.messages.media import parse_data_url, shown
from agent_graph.text import clean_json
from agent_graph_providers.responses.content import data_url, parts_of
from agent_graph_providers.responses.parts import RESULTS, as_map

__all__ = ['Form', 'finished', 'message_items']

_LONGEST_ID = 64
_NO_MARK: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Form:
    """How one server wants its items; most fields are those of `ResponsesServer`.

    `provider` is its name: the items of its own responses go back to it. `mark` is the field that says up to where the
    prompt is to be cached, if it has one. `refused` are the kinds of files it does not take.
    """

    provider: str | None = None
    file_outputs: bool = True
    texts_first: bool = False
    mark: str | None = None
    refused: frozenset[str] = frozenset()


def message_items(message: Message, names: Mapping[str, str], form: Form) -> list[dict[str, Any]]:
    """One message as the items it takes; `names`: tools' own names -> as sent, where they differ.

    Raises `MessageError` for content that cannot be said.
    """
    match message:
        case SystemMessage():
            return [{'role': 'system', 'content': message.content}] if message.content else []
        case UserMessage():
            return _user(message, form)
        case AssistantMessage():
            items = _Items(names, own=message.provider_name in (None, form.provider) and _is_whole(message))
            for part in message.parts:
                items.add(part)
            return items.end(message, texts_first=form.texts_first)
        case ToolMessage():
            return _outputs(message, form)


def finished(items: list[dict[str, Any]], before: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """The items of a history, made to fit together; the very list when nothing has to be done.

    The output of a custom tool is named as one, and that of a call made by a program says so; `before` are items that are
    not sent, for the provider has them. Items the client should have answered and did not are left out: the API refuses a
    call without its output.
    """
    calls: dict[str, Mapping[str, Any]] = {}
    asking = False
    for item in (*before, *items) if before else items:
        kind = item.get('type')
        if kind == 'custom_tool_call' or (kind == 'function_call' and item.get('caller')):
            calls[item['call_id']] = item
        elif kind in _ANSWERED_BY:
            asking = True
    if calls:
        items = [_fitted(item, calls) if item.get('type') == 'function_call_output' else item for item in items]
    return _without_unanswered(items) if asking else items


def _user(message: UserMessage, form: Form) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return [{'role': 'user', 'content': message.content}] if message.content else []
    blocks = parts_of(message.content, mark=form.mark, refused=form.refused)
    return [{'role': 'user', 'content': blocks}] if blocks else []


def _outputs(message: ToolMessage, form: Form) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    extra: list[dict[str, Any]] = []
    for part in message.parts:
        text = part.content if isinstance(part.content, str) else _json_text(part.content)
        blocks = parts_of(part.extra_content, refused=form.refused)
        output: str | list[dict[str, Any]] = text
        if blocks and form.file_outputs:
            output = [*parts_of([text]), *blocks]
        else:
            extra += blocks
        out.append({'type': 'function_call_output', 'call_id': _call_id(part.tool_call_id), 'output': output})
    return [*out, {'role': 'user', 'content': extra}] if extra else out


def _is_whole(message: AssistantMessage) -> bool:
    """No reasoning was taken out of it: what followed a reasoning item must not be sent back as that item without it."""
    told = (message.provider_details or {}).get('reasoning_items')
    if not isinstance(told, int):
        return True
    return told == len({str(_mark(p).get('id')) for p in message.parts if _mark(p).get('type') == 'reasoning'})


def _mark(part: AssistantPart) -> Mapping[str, Any]:
    """The item a part of ours belongs to; empty for parts of other protocols."""
    return as_map(as_map(part.provider_details).get('item'))


class _Items:
    """The items of one response: put together from our own parts, or made from what another provider's parts say."""

    __slots__ = ('_names', '_own', 'out')

    def __init__(self, names: Mapping[str, str], *, own: bool) -> None:
        self._names = names
        self._own = own
        self.out: list[dict[str, Any]] = []

    def add(self, part: AssistantPart) -> None:
        mark = _mark(part) if self._own else _NO_MARK
        if isinstance(part, TextPart):
            self._text(part, mark)
        elif isinstance(part, ToolCallPart):
            self._call(part, mark)
        elif not mark:
            return  # nothing another provider could read
        elif isinstance(part, ThinkingPart):
            self._thinking(part, mark)
        elif isinstance(part, BuiltinToolCallPart):
            self.out.append(dict(mark))
        else:
            self._result(part, mark)

    def end(self, message: AssistantMessage, *, texts_first: bool) -> list[dict[str, Any]]:
        out = self.out
        if message.refusal and not any(item.get('role') for item in out):
            out.append({'role': 'assistant', 'content': message.refusal})
        if texts_first:
            calls = [item for item in out if item.get('type') == 'function_call']
            first = next((i for i, item in enumerate(out) if item.get('type') == 'function_call'), len(out))
            if any(item.get('role') for item in out[first:]):
                out = [item for item in out if item.get('type') != 'function_call'] + calls
        while out and out[-1].get('type') == 'reasoning':
            out.pop()  # the API refuses reasoning that nothing follows
        return out

    def _text(self, part: TextPart, mark: Mapping[str, Any]) -> None:
        last = self.out[-1] if self.out else dict[str, Any]()
        if mark.get('type') != 'message':
            if not part.content.strip():
                return
            if last.get('role') and isinstance(last['content'], str):
                last['content'] += part.content
            else:
                self.out.append({'role': 'assistant', 'content': part.content})
            return
        notes = [c.provider_details for c in part.citations if c.provider_details is not None]
        block = {'type': 'output_text', 'text': part.content, 'annotations': notes}
        if last.get('id') and last['id'] == mark.get('id'):
            last['content'].append(block)
            last.update(mark)
        else:
            self.out.append({**mark, 'role': 'assistant', 'content': [block]})

    def _thinking(self, part: ThinkingPart, mark: Mapping[str, Any]) -> None:
        if mark.get('type') != 'reasoning':
            return
        item = self.out[-1] if self.out else dict[str, Any]()
        if item.get('type') != 'reasoning' or item.get('id') != mark.get('id'):
            item = dict[str, Any](summary=[])
            self.out.append(item)
        item.update(mark)
        place = as_map(part.provider_details).get('place')
        if place == 'summary':
            item['summary'].append({'type': 'summary_text', 'text': part.content})
        elif place == 'content':
            item.setdefault('content', []).append({'type': 'reasoning_text', 'text': part.content})
        if part.signature:
            item['encrypted_content'] = part.signature

    def _call(self, part: ToolCallPart, mark: Mapping[str, Any]) -> None:
        name = self._names.get(part.tool_name, part.tool_name)
        call: dict[str, Any] = {'type': 'function_call', **mark, 'call_id': _call_id(part.tool_call_id), 'name': name}
        if call['type'] == 'custom_tool_call':
            call['input'] = _free_text(part.args)
        else:
            call['type'] = 'function_call'
            call['arguments'] = _arguments(part.args)
        self.out.append(call)

    def _result(self, part: BuiltinToolReturnPart | FilePart, mark: Mapping[str, Any]) -> None:
        """What a tool of the provider answered goes back into its item, or is an item of its own."""
        kind, ident = mark.get('type', ''), mark.get('id')
        last = self.out[-1] if self.out else dict[str, Any]()
        if last.get('type') == kind and last.get('id') == ident and len(mark) == 2:
            if isinstance(part, FilePart):
                parsed = parse_data_url(data_url(part)) if part.file_id is None else None
                last['result'] = parsed[1] if parsed is not None else None
            elif kind in RESULTS:
                last[RESULTS[kind]] = part.content
        elif isinstance(part, BuiltinToolReturnPart) and len(mark) > 2:
            self.out.append(dict(mark))


_ANSWERED_BY: Mapping[str, str] = {
    'local_shell_call': 'call_id',
    'shell_call': 'call_id',
    'apply_patch_call': 'call_id',
    'computer_call': 'call_id',
    'tool_search_call': 'call_id',
    'mcp_approval_request': 'id',
}
"""Items that the client has to answer -> their field by which the answer names them."""

_ANSWERING = ('call_id', 'id', 'approval_request_id')
_OUTPUTS = ('_output', 'mcp_approval_response')


def _without_unanswered(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answers = [item for item in items if str(item.get('type')).endswith(_OUTPUTS)]
    answered = {item.get(key) for item in answers for key in _ANSWERING}
    out: list[dict[str, Any]] = []
    for item in items:
        field_name = _ANSWERED_BY.get(item.get('type', ''))
        by_server = item.get('type') == 'tool_search_call' and item.get('execution') == 'server'
        if field_name is None or by_server or item.get(field_name) in answered:
            out.append(item)
            continue
        while out and out[-1].get('type') == 'reasoning':
            out.pop()
    return out


def _fitted(item: dict[str, Any], calls: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    call = calls.get(item['call_id'])
    if call is None:
        return item
    caller = {'caller': call['caller']} if call.get('caller') else {}
    kind = 'custom_tool_call_output' if call['type'] == 'custom_tool_call' else 'function_call_output'
    return {**item, **caller, 'type': kind}


def _call_id(given: str) -> str:
    """An id the API takes; call and output are given the same."""
    if given and len(given) <= _LONGEST_ID:
        return given
    return f'call_{sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:32]}'


def _arguments(args: str | dict[str, Any]) -> str:
    """Argument text that is a JSON object, whatever the model wrote: servers refuse anything else."""
    if not isinstance(args, str):
        return _json_text(args)
    if not args.strip():
        return '{}'
    try:
        if isinstance(from_json(args), dict):
            return args
    except ValueError:
        pass
    return _json_text({'invalid_arguments': args})


def _free_text(args: str | dict[str, Any]) -> str:
    """The input of a custom tool: it was made the one argument of the tool."""
    if isinstance(args, str):
        return args
    only = list(args.values())
    return only[0] if len(only) == 1 and isinstance(only[0], str) else _json_text(args)


def _json_text(value: Any) -> str:
    try:
        return to_json(clean_json(value)).decode()
    except PydanticSerializationError as error:
        raise MessageError(f'{shown(value)} cannot be written as JSON ({error}); use JSON data') from error
