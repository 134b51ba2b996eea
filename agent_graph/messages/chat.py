"""Chat Completions message lists, the field's common tongue, both ways.

`to_openai` and `from_openai` keep everything Chat Completions can say: texts, files, tool calls and their answers,
refusals, and the reasoning fields many servers add (`reasoning_content`, `reasoning`, `reasoning_details`), each written
back in the field it came in. Not kept: participants' `name`, the difference between `developer` and `system`, vendors'
extra keys such as `cache_control`, and on the way out what only we know (`outcome`, `metadata`, usage, signatures).
The deprecated `function_call` is read as a tool call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from agent_graph.errors import MessageError
from agent_graph.messages.chat_reading import THINKING_FIELDS, from_openai
from agent_graph.messages.media import file_to_openai, shown
from agent_graph.messages.parts import (
    AssistantMessage,
    AssistantPart,
    CachePoint,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    UserContent,
    UserMessage,
)
from agent_graph.text import clean_json

__all__ = ['ChatForm', 'from_openai', 'message_to_openai', 'to_openai']


@dataclass(frozen=True, slots=True)
class ChatForm:
    """How one server wants its messages; the default is the plain form of `to_openai`, which leaves nothing out.

    `tool_names` maps tools' names to the names sent. `provider` is the server's name: reasoning and other sealed data
    of another provider's responses are not sent to it. `thinking` holds the reasoning fields it takes back (`None`: all);
    `extra_content` and `refusal` say whether it knows those fields (a refusal is sent as text otherwise). `strict` leaves
    out messages with nothing in them, sends an assistant's texts as one string, and arguments that are no JSON object
    wrapped in one, as servers refuse those. `call_id` makes ids of calls such as the server takes. `cache_control`: the part
    before a `CachePoint` is marked as worth caching.
    """

    tool_names: Mapping[str, str] = field(default_factory=dict[str, str])
    provider: str | None = None
    thinking: frozenset[str] | None = None
    extra_content: bool = True
    refusal: bool = True
    strict: bool = False
    call_id: Callable[[str], str] | None = None
    cache_control: bool = False


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


def _user(content: str | Sequence[UserContent], form: ChatForm) -> list[dict[str, Any]]:
    if form.strict and not content:
        return []
    if isinstance(content, str):
        return [{'role': 'user', 'content': content}]
    parts: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, str):
            parts.append({'type': 'text', 'text': part})
        elif not isinstance(part, CachePoint):
            parts.append(file_to_openai(part))
        elif form.cache_control and parts:  # other servers cache by themselves
            parts[-1]['cache_control'] = {'type': 'ephemeral', 'ttl': part.ttl}
    return [{'role': 'user', 'content': parts}] if parts or not form.strict else []


def _tool(message: ToolMessage, form: ChatForm) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    extra: list[str | FilePart] = []
    for part in message.parts:
        content = part.content if isinstance(part.content, str) else _json_text(part.content)
        call_id = form.call_id(part.tool_call_id) if form.call_id is not None else part.tool_call_id
        out.append({'role': 'tool', 'tool_call_id': call_id, 'content': content})
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
        if name in THINKING_FIELDS and _takes(form, name):
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
    args = part.args if isinstance(part.args, str) else _json_text(part.args)
    if form.strict:
        args = _object_text(args)
    name = form.tool_names.get(part.tool_name, part.tool_name)
    call_id = form.call_id(part.tool_call_id) if form.call_id is not None else part.tool_call_id
    out: dict[str, Any] = {'id': call_id, 'type': 'function', 'function': {'name': name, 'arguments': args}}
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
    return _json_text({'invalid_arguments': args})


def _json_text(value: Any) -> str:
    """JSON text, characters that cannot be encoded replaced."""
    try:
        return to_json(clean_json(value)).decode()
    except PydanticSerializationError as error:
        raise MessageError(f'{shown(value)} cannot be written as JSON ({error}); use JSON data') from error
