"""One message of ours -> the entries of Ollama's `messages`. Pure."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
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
from agent_graph_providers.wire.ids import UniqueIds, renaming
from agent_graph_providers.wire.jsontext import decode, encode

__all__ = ['PROVIDER', 'entries_of', 'history_of', 'wants_bytes']

PROVIDER = 'ollama'
_NOTHING = '.'
"""Stands where a model needs somebody's word and nobody said anything."""

_TEXTUAL = frozenset({'application/json', 'application/xml', 'application/yaml', 'application/x-yaml'})


def wants_bytes(file: FilePart) -> bool:
    """Ollama fetches nothing."""
    return file.url is not None and not file.url.startswith('data:')


def entries_of(message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The entries of a message; none for one with nothing in it."""
    match message:
        case SystemMessage():
            return [{'role': 'system', 'content': message.content}] if message.content.strip() else []
        case UserMessage():
            content = (message.content,) if isinstance(message.content, str) else message.content
            return _user(content)
        case AssistantMessage():
            return _assistant(message, names)
        case ToolMessage():
            return _results(message, names)


def history_of(entries: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The messages of a request: ids of calls are there once, where there are any. Nothing given is changed."""
    messages: list[dict[str, Any]] = []
    unique, rename = UniqueIds(), renaming((), ())
    for group in entries:
        for entry in group:
            if 'tool_calls' in entry:
                ids = [call.get('id', '') for call in entry['tool_calls']]
                fresh = unique.take(ids) if any(ids) else ids  # old servers give none and want none
                rename = renaming(ids, fresh)
                if fresh != ids:
                    calls = [{**call, 'id': new} for call, new in zip(entry['tool_calls'], fresh, strict=True)]
                    entry = {**entry, 'tool_calls': calls}
            elif entry['role'] == 'tool' and (call_id := rename(entry.get('tool_call_id', ''))):
                entry = {**entry, 'tool_call_id': call_id}
            messages.append(entry)
    if all(entry['role'] == 'system' for entry in messages):
        messages.append({'role': 'user', 'content': _NOTHING})
    return messages


def _user(content: Sequence[UserContent]) -> list[dict[str, Any]]:
    """Texts are one text here, and images stand beside it."""
    texts: list[str] = []
    images: list[str] = []
    for item in content:
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, FilePart):
            _add_file(item, texts, images)
    text = '\n\n'.join(text for text in texts if text.strip())
    if not text and not images:
        return []
    return [{'role': 'user', 'content': text, **({'images': images} if images else {})}]


def _add_file(file: FilePart, texts: list[str], images: list[str]) -> None:
    media_type = file.media_type.partition(';')[0]
    if media_type.startswith('image/'):
        images.append(_base64(file))
    elif media_type.startswith('text/') or media_type in _TEXTUAL:
        name = f'{file.name}:\n' if file.name else ''
        texts.append(name + _bytes(file).decode('utf-8', 'replace'))
    else:
        raise MessageError(f'Ollama takes no file of type {file.media_type!r}; pass an image or a text')


def _assistant(message: AssistantMessage, names: Mapping[str, str]) -> list[dict[str, Any]]:
    own = message.provider_name in (None, PROVIDER)
    text = ''.join(part.content for part in message.parts if isinstance(part, TextPart)) or message.refusal or ''
    calls = [_call(part, names) for part in message.parts if isinstance(part, ToolCallPart)]
    if not text.strip() and not calls:
        return []
    out: dict[str, Any] = {'role': 'assistant', 'content': text if text.strip() else ''}
    thinking = ''.join(part.content for part in message.parts if isinstance(part, ThinkingPart))
    if own and thinking:
        out['thinking'] = thinking
    if calls:
        out['tool_calls'] = calls
    return [out]


def _call(part: ToolCallPart, names: Mapping[str, str]) -> dict[str, Any]:
    function = {'name': names.get(part.tool_name, part.tool_name), 'arguments': _arguments(part.args)}
    return {**({'id': part.tool_call_id} if part.tool_call_id else {}), 'function': function}


def _arguments(args: str | dict[str, Any]) -> dict[str, Any]:
    """The arguments as the object Ollama wants; text that is none is quoted in one."""
    if isinstance(args, dict):
        return args
    if not args.strip():
        return {}
    try:
        value = decode(args.encode('utf-8', 'surrogatepass'))
    except ValueError:
        value = None
    return cast(dict[str, Any], value) if isinstance(value, dict) else {'invalid_arguments': args}


def _results(message: ToolMessage, names: Mapping[str, str]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    images: list[str] = []
    for part in message.parts:
        entry: dict[str, Any] = {'role': 'tool', 'content': _result(part, images)}
        if part.tool_name:
            entry['tool_name'] = names.get(part.tool_name, part.tool_name)
        if part.tool_call_id:
            entry['tool_call_id'] = part.tool_call_id
        out.append(entry)
    return [*out, {'role': 'user', 'content': '', 'images': images}] if images else out


def _result(part: ToolReturnPart, images: list[str]) -> str:
    """What a tool returned, as one text. Images cannot stand there, so they go after the results."""
    content = part.content
    texts = [content if isinstance(content, str) else encode(content).decode()]
    for item in part.extra_content:
        if isinstance(item, str):
            texts.append(item)
        else:
            _add_file(item, texts, images)
    return texts[0] if len(texts) == 1 else '\n\n'.join(text for text in texts if text.strip())


def _base64(file: FilePart) -> str:
    """The base64 text of a file, as it stands in a `data:` address."""
    head, _, data = (file.url or '').partition(',')
    if file.data is None and head.startswith('data:') and head.endswith(';base64'):
        return data
    return b2a_base64(_bytes(file), newline=False).decode()


def _bytes(file: FilePart) -> bytes:
    if file.data is not None:
        return file.data
    if file.url is None or not file.url.startswith('data:'):
        raise MessageError(f'the file {file.file_id or file.url!r} is not at hand; pass its bytes')
    from agent_graph_providers.fetch.data_url import read_data_url

    return read_data_url(file.url)
