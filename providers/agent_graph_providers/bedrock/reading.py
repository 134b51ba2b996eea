"""The way back: the messages of a Converse request in ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    CachePoint,
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
from agent_graph_providers.bedrock.blocks import REDACTED, SERVER_CALL, citation_of
from agent_graph_providers.bedrock.media import BLOCK, EXTRAS, type_of
from agent_graph_providers.bedrock.notes import mapping

__all__ = ['messages_from_converse']

_FILES = ('image', 'document', 'video', 'audio')


def messages_from_converse(body: Mapping[str, Any]) -> list[Message]:
    """The `system` and `messages` of a request to Converse or ConverseStream, in order.

    Cache points of `system` have no place here and are left out; see the setting `auto_cache`. Blocks that are no common
    thing (`guardContent`, `searchResult`) become files of plain text whose details hold them. Raises `MessageError` naming
    the index and the value for what cannot be read.
    """
    out: list[Message] = [SystemMessage(t) for t in _system(body.get('system'))]
    names: dict[str, str] = {}
    for index, message in enumerate(_list(body.get('messages'))):
        try:
            out += _message(mapping(message), names)
        except MessageError as error:
            raise MessageError(f'message {index}: {error}') from error
    return out


def _system(blocks: Any) -> Iterator[str]:
    for block in _list(blocks):
        fields = mapping(block)
        guarded = mapping(mapping(fields.get('guardContent')).get('text')).get('text')
        text = fields.get('text', guarded)
        if isinstance(text, str):
            yield text


def _message(message: Mapping[str, Any], names: dict[str, str]) -> list[Message]:
    role, content = message.get('role'), [mapping(b) for b in _list(message.get('content'))]
    if role == 'assistant':
        parts = [part for block in content for part in _assistant_part(block)]
        names.update({p.tool_call_id: p.tool_name for p in parts if isinstance(p, ToolCallPart)})
        return [AssistantMessage(parts)]
    if role not in ('user', 'system'):
        raise MessageError(f'{shown(dict(message))} has the role {role!r}; use user or assistant')
    if role == 'system':
        return [SystemMessage(t) for t in _system(message.get('content'))]
    results = [_result(mapping(b['toolResult']), names) for b in content if 'toolResult' in b]
    items = [_user_item(b) for b in content if 'toolResult' not in b]
    out: list[Message] = [ToolMessage(results)] if results else []
    if items:
        out.append(UserMessage(items[0] if len(items) == 1 and isinstance(items[0], str) else items))
    return out


def _user_item(block: Mapping[str, Any]) -> str | FilePart | CachePoint:
    if isinstance(text := block.get('text'), str):
        return text
    if 'cachePoint' in block:
        return CachePoint('1h' if mapping(block['cachePoint']).get('ttl') == '1h' else '5m')
    return _file(block)


def _file(block: Mapping[str, Any]) -> FilePart:
    for kind in _FILES:
        if kind in block:
            return _media(kind, mapping(block[kind])) or _own_block(block)
    if not block:
        raise MessageError('a content block is empty; give it a text, a file, a call or a result')
    return _own_block(block)


def _own_block(block: Mapping[str, Any]) -> FilePart:
    """A block that is no file: its text for whoever cannot use it, and itself."""
    text = '\n'.join(_texts(block))
    return FilePart('text/plain', data=text.encode('utf-8', 'replace'), provider_details={BLOCK: dict(block)})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in cast(Mapping[str, Any], value).items():
            if key == 'text' and isinstance(inner, str):
                yield inner
            else:
                yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast(list[Any], value):
            yield from _texts(inner)


def _media(kind: str, block: Mapping[str, Any]) -> FilePart | None:
    if 'format' not in block:
        return None  # a document need not say what it is; then nobody else can
    source, name = mapping(block.get('source')), block.get('name')
    media_type = type_of(kind, str(block.get('format') or ''))
    details: dict[str, Any] = {}
    if extras := {k: v for k, v in block.items() if k not in ('format', 'name', 'source')}:
        details[EXTRAS] = extras
    location = mapping(source.get('s3Location'))
    name = name if isinstance(name, str) else None
    if isinstance(uri := location.get('uri'), str):
        if 'bucketOwner' in location:
            details['bucketOwner'] = location['bucketOwner']
        return FilePart(media_type, file_id=uri, name=name, provider_details=details or None)
    if isinstance(data := source.get('bytes'), str):
        url = f'data:{media_type};base64,{data}'
        return FilePart(media_type, url=url, name=name, provider_details=details or None)
    return None


def _result(block: Mapping[str, Any], names: Mapping[str, str]) -> ToolReturnPart:
    call_id = str(block.get('toolUseId') or '')
    content: Any = None
    given = False
    extra: list[str | FilePart] = []
    for inner in map(mapping, _list(block.get('content'))):
        value: Any = inner.get('json', inner.get('text'))
        if value is None:
            extra.append(_file(inner))
        elif not given and not extra:
            content, given = value, True
        else:
            extra.append(value if isinstance(value, str) else _json(value))
    failed = block.get('status') == 'error'
    return ToolReturnPart(
        names.get(call_id, ''), content if given else '', call_id, 'retry' if failed else 'success', tuple(extra)
    )


def _json(value: Any) -> str:
    from agent_graph_providers.wire.jsontext import encode

    return encode(value).decode()


def _assistant_part(block: Mapping[str, Any]) -> Iterator[AssistantPart]:
    for key, value in block.items():
        fields = mapping(value)
        if key == 'text':
            yield TextPart(str(value))
        elif key == 'toolUse':
            yield _call(fields)
        elif key == 'reasoningContent':
            yield _reasoning(fields)
        elif key == 'citationsContent':
            text = ''.join(str(mapping(c).get('text') or '') for c in _list(fields.get('content')))
            cited = [citation_of(dict(mapping(c))) for c in _list(fields.get('citations'))]
            yield TextPart(text, citations=tuple(cited))
        elif key == 'toolResult':
            name, call_id = str(fields.get('type') or 'toolResult'), str(fields.get('toolUseId') or '')
            yield BuiltinToolReturnPart(name, fields.get('content'), call_id, {'toolResult': dict(fields)})
        elif key in _FILES and (file := _media(key, fields)) is not None:
            yield file


def _call(fields: Mapping[str, Any]) -> ToolCallPart | BuiltinToolCallPart:
    name, call_id, args = str(fields.get('name') or ''), str(fields.get('toolUseId') or ''), fields.get('input')
    given: dict[str, Any] | str = cast(dict[str, Any], args) if isinstance(args, dict) else ''
    if fields.get('type') == SERVER_CALL:
        return BuiltinToolCallPart(SERVER_CALL, given, call_id, {'toolUse': dict(fields)})
    return ToolCallPart(name, given, call_id)


def _reasoning(fields: Mapping[str, Any]) -> ThinkingPart:
    if isinstance(data := fields.get(REDACTED), str):
        return ThinkingPart('', provider_details={REDACTED: data})
    inner = mapping(fields.get('reasoningText'))
    signature = inner.get('signature')
    return ThinkingPart(str(inner.get('text') or ''), signature if isinstance(signature, str) else None)


def _list(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise MessageError(f'{shown(value)} stands where a list should; give a list')
    return cast(list[Any], value)
