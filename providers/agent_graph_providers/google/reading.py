"""A request body of `generateContent` -> messages: the way back of `agent_graph_providers.google.contents`.

Reads what other programs sent as well: fields in camelCase or in snake_case, calls without ids, results in several turns.
"""

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
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserContent,
    UserMessage,
)
from agent_graph_providers.google.parts import SIGNATURE, beside, builtin_part, file_from_google, kind_of

__all__ = ['messages_from_google']

_FREE = frozenset({'args', 'response', 'partMetadata'})
"""Fields whose content is the user's: its names stay as they are."""


def messages_from_google(body: Mapping[str, Any], *, provider: str = 'google') -> list[Message]:
    """The messages of a request body, the system instruction first; `provider` is who gave the model's turns.

    Calls without an id get one of ours, and results without one are given to the first open call of their name. Raises
    `MessageError` naming the content that cannot be read.
    """
    messages: list[Message] = list(_system(body.get('systemInstruction', body.get('system_instruction'))))
    calls = _Calls()
    for index, content in enumerate(_list(body.get('contents'), 'contents')):
        try:
            messages += _content(_fields(content), calls, provider)
        except (ValueError, KeyError, TypeError) as error:
            raise MessageError(f'contents[{index}] cannot be read: {error}') from error
    return messages


def _system(instruction: Any) -> Iterator[Message]:
    if isinstance(instruction, str):
        yield SystemMessage(instruction)
        return
    for part in _list(_fields(instruction).get('parts'), 'parts') if instruction is not None else ():
        yield SystemMessage(str(_fields(part).get('text') or ''))


def _content(content: Mapping[str, Any], calls: _Calls, provider: str) -> Iterator[Message]:
    parts = [_camel(_said(part)) for part in _list(content.get('parts'), 'parts')]
    role = content.get('role') or ('model' if any('functionCall' in part for part in parts) else 'user')
    if role == 'model':
        if parts:
            yield AssistantMessage([_model_part(part, calls) for part in parts], provider_name=provider)
    elif role in ('user', 'function'):
        yield from _user(parts, calls)
    else:
        raise ValueError(f'its role is {role!r}, neither user nor model')


def _user(parts: Sequence[dict[str, Any]], calls: _Calls) -> Iterator[Message]:
    results = [_result(part['functionResponse'], calls) for part in parts if 'functionResponse' in part]
    if results:
        yield ToolMessage(results)
    said = [_user_part(part) for part in parts if 'functionResponse' not in part]
    if len(said) == 1 and isinstance(said[0], str):
        yield UserMessage(said[0])
    elif said:
        yield UserMessage(said)


def _user_part(part: dict[str, Any]) -> UserContent:
    if 'text' in part:
        return str(part['text'])
    kind = kind_of(part)
    if kind not in ('inlineData', 'fileData'):
        raise ValueError(f'a user said a part of the kind {kind!r}')
    return _file(part, kind)


def _model_part(part: dict[str, Any], calls: _Calls) -> AssistantPart:
    kind = kind_of(part)
    if kind in ('text', ''):
        details = {key: value for key, value in part.items() if key not in ('text', 'thought')}
        text = str(part.get('text') or '')
        if not part.get('thought'):
            return TextPart(text, details or None)
        signature = details.pop(SIGNATURE, None)
        return ThinkingPart(text, signature, details or None)
    if kind == 'functionCall':
        return _call(_fields(part[kind]), beside(part, kind) or {}, calls)
    if kind in ('inlineData', 'fileData'):
        return _file(part, kind)
    return builtin_part(part, kind)


def _call(call: Mapping[str, Any], extra: dict[str, Any], calls: _Calls) -> ToolCallPart:
    name = call.get('name')
    if not isinstance(name, str) or not name:
        raise ValueError(f'a function call has the name {name!r}')
    given = call.get('id')
    details = {'id': given, **extra} if given else extra
    return ToolCallPart(name, _fields(call.get('args') or {}), calls.new(name, given), details or None)


def _result(response: Any, calls: _Calls) -> ToolReturnPart:
    fields = _fields(response)
    name = str(fields.get('name') or '')
    said = _fields(fields.get('response') or {})
    only = next(iter(said)) if len(said) == 1 else ''
    content = said[only] if only in ('output', 'error') else said
    outcome = 'retry' if only == 'error' else 'success'
    files = [_camel(_said(part)) for part in _list(fields.get('parts'), 'parts')]
    extra = [_file(part, kind_of(part)) for part in files]
    return ToolReturnPart(name, content, calls.answered(name, fields.get('id')), outcome, tuple(extra))


def _file(part: dict[str, Any], kind: str) -> FilePart:
    """A file; inline data stay in a `data:` address, so nothing is decoded and nothing changes on the way back."""
    inner = _fields(part[kind])
    if kind == 'fileData':
        return file_from_google(part, kind)
    media_type = str(inner.get('mimeType') or 'application/octet-stream')
    url = f'data:{media_type};base64,{inner.get("data") or ""}'
    name = inner.get('displayName')
    return FilePart(media_type, url=url, name=name, provider_details=beside(part, kind))


class _Calls:
    """Which call a result answers."""

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []
        self._made = 0

    def new(self, name: str, given: Any) -> str:
        """The id of a call: the given one, else one of ours."""
        call_id = str(given) if given else self._id()
        self._open.append((name, call_id))
        return call_id

    def answered(self, name: str, given: Any) -> str:
        """The id of the call that a result answers."""
        for index, (of, call_id) in enumerate(self._open):
            if call_id == given or (not given and name in ('', of)):
                del self._open[index]
                return call_id
        return str(given) if given else self._id()

    def _id(self) -> str:
        self._made += 1
        return f'call_{self._made}'


def _camel(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Field names as the API's own documents write them; the user's own names stay."""
    named = {_camel_name(key): value for key, value in fields.items()}
    return {key: value if key in _FREE else _camel_value(value) for key, value in named.items()}


def _camel_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _camel(cast(dict[str, Any], value))
    return [_camel_value(item) for item in cast(list[Any], value)] if isinstance(value, list) else value


def _camel_name(name: str) -> str:
    head, *rest = name.split('_')
    return head + ''.join(word[:1].upper() + word[1:] for word in rest)


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f'{value!r} stands where an object should')
    return cast(dict[str, Any], value)


def _said(part: Any) -> dict[str, Any]:
    """A part without the fields that say nothing: some programs write all there are."""
    return {key: value for key, value in _fields(part).items() if value is not None}


def _list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, dict):  # one, as some programs send it
        return [value]
    if not isinstance(value, list):
        raise MessageError(f'{name} is {value!r}; give a list')
    return cast(list[Any], value)
