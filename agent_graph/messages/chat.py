"""Chat Completions message lists, the field's common tongue, both ways.

`to_openai` and `from_openai` keep everything Chat Completions can say: texts, files, tool calls and their answers,
refusals, and the reasoning fields many servers add (`reasoning_content`, `reasoning`, `reasoning_details`), each written
back in the field it came in. Not kept: participants' `name`, the difference between `developer` and `system`, vendors'
extra keys such as `cache_control`, and on the way out what only we know (`outcome`, `metadata`, usage, signatures).
The deprecated `function_call` is read as a tool call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_core import from_json, to_json

from agent_graph.errors import MessageError
from agent_graph.messages.media import FILE_TYPES, file_from_openai, file_to_openai, shown
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

__all__ = ['ChatForm', 'from_openai', 'message_to_openai', 'to_openai']

_THINKING_FIELDS = ('reasoning_content', 'reasoning')
"""The fields that hold reasoning text. Where a server fills both, they say the same, so the first one counts."""


@dataclass(frozen=True, slots=True)
class ChatForm:
    """How one server wants its messages; the default is the plain form of `to_openai`, which leaves nothing out.

    `tool_names` maps tools' names to the names sent. `provider` is the server's name: reasoning and other sealed data
    of another provider's responses are not sent to it. `thinking` holds the reasoning fields it takes back (`None`: all);
    `extra_content` and `refusal` say whether it knows those fields (a refusal is sent as text otherwise). `strict` leaves
    out messages with nothing in them, sends an assistant's texts as one string, and arguments that are no JSON object
    wrapped in one, as servers refuse those.
    """

    tool_names: Mapping[str, str] = field(default_factory=dict[str, str])
    provider: str | None = None
    thinking: frozenset[str] | None = None
    extra_content: bool = True
    refusal: bool = True
    strict: bool = False


_PLAIN = ChatForm()


def to_openai(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as a Chat Completions `messages` list of new dicts. Raises `MessageError` for what it cannot say."""
    out: list[dict[str, Any]] = []
    for message in messages:
        out += message_to_openai(message)
    return out


def message_to_openai(message: Message, form: ChatForm = _PLAIN) -> list[dict[str, Any]]:
    """One message as the list entries it takes: none, one, or for tool results one each."""
    match message:
        case SystemMessage():
            return [{'role': 'system', 'content': message.content}]
        case UserMessage():
            return _user(message.content, form)
        case AssistantMessage():
            return _assistant(message, form)
        case ToolMessage():
            return _tool(message, form)


def _user(content: str | Sequence[str | FilePart], form: ChatForm) -> list[dict[str, Any]]:
    if form.strict and not content:
        return []
    if isinstance(content, str):
        return [{'role': 'user', 'content': content}]
    parts = [{'type': 'text', 'text': p} if isinstance(p, str) else file_to_openai(p) for p in content]
    return [{'role': 'user', 'content': parts}]


def _tool(message: ToolMessage, form: ChatForm) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    extra: list[str | FilePart] = []
    for part in message.parts:
        content = part.content if isinstance(part.content, str) else to_json(part.content).decode()
        out.append({'role': 'tool', 'tool_call_id': part.tool_call_id, 'content': content})
        extra += part.extra_content
    return out + _user(tuple(extra), form) if extra else out


def _assistant(message: AssistantMessage, form: ChatForm) -> list[dict[str, Any]]:
    own = form.provider is None or message.provider_name in (None, form.provider)
    out: dict[str, Any] = {'role': 'assistant', 'content': _assistant_content(message, form, own)}
    if message.refusal is not None:
        if form.refusal:
            out['refusal'] = message.refusal
        else:
            out['content'] = out['content'] or message.refusal
    if own:
        _add_thinking(out, message.parts, form)
        details = message.provider_details
        if form.extra_content and details is not None and 'extra_content' in details:
            out['extra_content'] = details['extra_content']
    if calls := [_call(p, form, own) for p in message.parts if isinstance(p, ToolCallPart)]:
        out['tool_calls'] = calls
    for part in message.parts:
        if own and isinstance(part, FilePart) and (audio_id := _audio_id(part)) is not None:
            out['audio'] = {'id': audio_id}
    if form.strict and len(out) == 2 and not out['content']:
        return []
    return [out]


def _assistant_content(message: AssistantMessage, form: ChatForm, own: bool) -> str | list[dict[str, Any]] | None:
    """A string, or a list of blocks where the texts are several or the reasoning came as a block."""
    blocks: list[dict[str, Any]] = []
    plain = True
    for part in message.parts:
        if isinstance(part, TextPart):
            blocks.append({'type': 'text', 'text': part.content})
        elif own and isinstance(part, ThinkingPart) and _field(part) == 'thinking' and _takes(form, 'thinking'):
            blocks.append({'type': 'thinking', 'thinking': [{'type': 'text', 'text': part.content}]})
            plain = False
    if plain and (form.strict or len(blocks) < 2):
        text = ''.join(b['text'] for b in blocks)
        return text if text.strip() or (blocks and not form.strict) else None
    return blocks


def _add_thinking(out: dict[str, Any], parts: Sequence[AssistantPart], form: ChatForm) -> None:
    blocks: list[Any] = []
    texts: dict[str, str] = {}
    for part in parts:
        if not isinstance(part, ThinkingPart) or part.provider_details is None:
            continue
        details = part.provider_details.get('reasoning_details')
        if isinstance(details, list) and _takes(form, 'reasoning_details'):
            blocks += details
        name = _field(part)
        if name in _THINKING_FIELDS and _takes(form, name):
            texts[name] = texts.get(name, '') + part.content
    if blocks:
        out['reasoning_details'] = blocks
        if form.strict:
            return  # the blocks hold the same text, and the seal on it
    out.update(texts)


def _audio_id(part: FilePart) -> str | None:
    """The id under which a provider keeps a sound its model spoke: all that can be sent back of it."""
    audio_id = (part.provider_details or {}).get('audio_id')
    return audio_id if isinstance(audio_id, str) else None


def _field(part: ThinkingPart) -> str:
    name = (part.provider_details or {}).get('field')
    return name if isinstance(name, str) else ''


def _takes(form: ChatForm, name: str) -> bool:
    return form.thinking is None or name in form.thinking


def _call(part: ToolCallPart, form: ChatForm, own: bool) -> dict[str, Any]:
    args = part.args if isinstance(part.args, str) else to_json(part.args).decode()
    if form.strict:
        args = _object_text(args)
    name = form.tool_names.get(part.tool_name, part.tool_name)
    out: dict[str, Any] = {'id': part.tool_call_id, 'type': 'function', 'function': {'name': name, 'arguments': args}}
    details = part.provider_details
    if own and form.extra_content and details is not None and 'extra_content' in details:
        out['extra_content'] = details['extra_content']
    return out


def _object_text(args: str) -> str:
    """The argument text if it is a JSON object, `{}` for none, else an object that quotes it."""
    if not args.strip():
        return '{}'
    try:
        if isinstance(from_json(args), dict):
            return args
    except ValueError:
        pass
    return to_json({'invalid_arguments': args}).decode()


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


def _role(message: object) -> str:
    role = cast(Mapping[str, Any], message).get('role') if isinstance(message, Mapping) else None
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
        fits = call.tool_name == name if message['role'] == 'function' else call.tool_call_id == call_id
        if fits and position not in answers:
            content = _result(message.get('content'))
            return position, ToolReturnPart(call.tool_name, content, call.tool_call_id)
    known = [c.tool_call_id for c in calls if c.tool_call_id]
    raise MessageError(
        f'the result for call {call_id if call_id is not None else name!r} answers no open call of the message before it '
        f'(its calls: {known!r}); put each result once, right after the assistant message that made the call'
    )


def _result(content: Any) -> str:
    return content if isinstance(content, str) else ''.join(_texts(content))


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
            raise MessageError(f'content part {shown(part)} is not a dict; use {{"type": "text", "text": ...}} or a file')
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
    for name in _THINKING_FIELDS:
        if isinstance(text := message.get(name), str) and text:
            details = {'field': name, 'reasoning_details': blocks} if blocks else {'field': name}
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
    raise MessageError(f'content part {shown(part)} has the type {kind!r}; an assistant message holds text or a refusal')


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls: Any = message.get('tool_calls') or []
    if not isinstance(calls, list):
        raise MessageError(f'tool_calls is {shown(calls)}; use a list')
    if not calls and isinstance(old := message.get('function_call'), Mapping):
        return [{'function': old}]
    return cast(list[Mapping[str, Any]], calls)


def _read_call(call: object, spare_id: str) -> ToolCallPart:
    fields = cast(Mapping[str, Any], call) if isinstance(call, Mapping) else {}
    function = fields.get('function')
    inner = cast(Mapping[str, Any], function) if isinstance(function, Mapping) else {}
    name, args = inner.get('name'), inner.get('arguments')
    if not isinstance(name, str) or not isinstance(args, str | dict | None):
        raise MessageError(f'tool call {shown(call)} has no function with a name and arguments; add them')
    extra = fields.get('extra_content')
    details = {'extra_content': extra} if extra is not None else None
    call_id = fields.get('id')
    arguments = cast('str | dict[str, Any]', args if args is not None else '')
    return ToolCallPart(name, arguments, call_id if isinstance(call_id, str) else spare_id, details)
