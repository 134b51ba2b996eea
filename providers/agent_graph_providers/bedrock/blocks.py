"""One content block of an answer -> a part, whether it came whole or in pieces (`Pieces`)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, cast

from agent_graph.messages import BuiltinToolCallPart, BuiltinToolReturnPart, Citation, FilePart
from agent_graph.model import ResponseBuilder
from agent_graph_providers.bedrock.media import type_of
from agent_graph_providers.bedrock.notes import mapping
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.jsontext import decode, encode, finite, storable_args

__all__ = ['REDACTED', 'SERVER_CALL', 'Blocks', 'Pieces', 'citation_of']

REDACTED = 'redactedContent'
SERVER_CALL = 'server_tool_use'
"""The type of a call that the provider runs itself."""


class Pieces:
    """What has come of one block of a stream."""

    __slots__ = ('citations', 'head', 'kind', 'list', 'text')

    def __init__(self, kind: str, head: dict[str, Any]) -> None:
        self.kind = kind
        self.head = head
        """What the block began with."""
        self.text: list[str] = []
        self.list: list[Any] = []
        self.citations: list[dict[str, Any]] = []


class Blocks:
    """Pushes the blocks of one answer. `back` maps tools' names as sent to their own."""

    __slots__ = ('_asked', '_back', '_out', 'unknown')

    def __init__(self, out: ResponseBuilder, asked: Asked, back: Mapping[str, str]) -> None:
        self._out = out
        self._asked = asked
        self._back = back
        self.unknown: list[dict[str, Any]] = []
        """Blocks of kinds not known here, verbatim."""

    async def whole(self, index: int, block: Mapping[str, Any]) -> None:
        """A block of a plain answer."""
        for key, value in block.items():
            if value is None:
                continue  # the kinds of block it is not, as some write them
            if key == 'text' and isinstance(value, str):
                await self._out.text(value, key=index)
            elif key == 'toolUse':
                await self.call(index, mapping(value))
            elif key == 'reasoningContent':
                await self._reasoning(index, mapping(value))
            elif key == 'citationsContent':
                await self._cited(index, mapping(value))
            elif key == 'toolResult':
                await self.server_result(mapping(value))
            elif key in ('image', 'audio', 'video', 'document'):
                await self.file(key, mapping(value))
            else:
                self.unknown.append(dict(block))

    async def call(self, index: int, block: Mapping[str, Any]) -> None:
        """A tool call: ours to run, or one the provider has run."""
        if block.get('type') == SERVER_CALL:
            await self.server_call(block)
            return
        await self.begin_call(index, block)
        await self._out.tool_call(index, args=_arguments(block.get('input')))

    async def begin_call(self, index: int, block: Mapping[str, Any]) -> None:
        name = str(block.get('name') or '')
        if not name:
            raise self._asked.unreadable(f'the tool call in block {index} has no name', str(dict(block)).encode())
        await self._out.tool_call(
            index, name=self._back.get(name, name), tool_call_id=str(block.get('toolUseId') or '')
        )

    async def end_call(self, index: int, text: str) -> None:
        """The argument text of a streamed call is whole: Converse means an object by it, as in a plain answer."""
        args = _arguments(_parsed(text))
        if isinstance(args, dict):  # else it stays as it came, for the check of arguments to say what is wrong
            await self._out.tool_call(index, args=args)

    async def server_call(self, block: Mapping[str, Any]) -> None:
        await self._out.part(
            BuiltinToolCallPart(
                SERVER_CALL,
                _arguments(block.get('input')),
                str(block.get('toolUseId') or ''),
                {'toolUse': finite(dict(block))},
            )
        )

    async def server_result(self, block: Mapping[str, Any]) -> None:
        name = str(block.get('type') or 'toolResult')
        call_id = str(block.get('toolUseId') or '')
        content: Any = finite(block.get('content'))
        await self._out.part(BuiltinToolReturnPart(name, content, call_id, {'toolResult': finite(dict(block))}))

    async def redacted(self, index: int, data: str) -> None:
        await self._out.thinking('', key=index, details={REDACTED: data})

    async def cite(self, index: int, citations: list[dict[str, Any]]) -> None:
        for raw in citations:
            self._out.cite(citation_of(raw), key=index)

    async def file(self, kind: str, block: Mapping[str, Any]) -> None:
        """A file the model made."""
        source = mapping(block.get('source'))
        media_type = type_of(kind, str(block.get('format') or ''))
        name = block.get('name')
        name = name if isinstance(name, str) else None
        location = mapping(source.get('s3Location')).get('uri')
        if isinstance(location, str):
            await self._out.part(FilePart(media_type, file_id=location, name=name))
        elif (data := _bytes(source.get('bytes'))) is not None:
            await self._out.part(FilePart(media_type, data=data, name=name))
        else:
            self.unknown.append({kind: dict(block)})

    async def _reasoning(self, index: int, block: Mapping[str, Any]) -> None:
        if isinstance(data := block.get(REDACTED), str):
            await self.redacted(index, data)
            return
        inner = mapping(block.get('reasoningText'))
        signature = inner.get('signature')
        signature = signature if isinstance(signature, str) else None
        await self._out.thinking(str(inner.get('text') or ''), key=index, signature=signature)

    async def _cited(self, index: int, block: Mapping[str, Any]) -> None:
        content: Any = block.get('content')
        for piece in cast(list[Any], content) if isinstance(content, list) else []:
            await self._out.text(str(mapping(piece).get('text') or ''), key=index)
        citations: Any = block.get('citations')
        found = cast(list[Any], citations) if isinstance(citations, list) else []
        await self.cite(index, [dict(mapping(c)) for c in found])

    # Blocks of a stream

    async def end(self, index: int, pieces: Pieces) -> None:
        """A streamed block is whole."""
        match pieces.kind:
            case 'call':
                await self.end_call(index, ''.join(pieces.text))
            case 'server_call':
                text = ''.join(pieces.text)
                await self.server_call({**pieces.head, 'input': _parsed(text)})
            case 'server_result':
                await self.server_result({**pieces.head, 'content': pieces.list})
            case 'image':
                data = b''.join(_bytes(p) or b'' for p in pieces.text)
                await self.file('image', {**pieces.head, 'source': {'bytes': b64encode(data).decode()}})
            case _ if pieces.text:
                await self.redacted(index, _joined(pieces.text))
            case _:
                await self.cite(index, pieces.citations)


def citation_of(raw: dict[str, Any]) -> Citation:
    """One of Converse's citations in common words, its own object beside."""
    raw = finite(raw)
    texts: Any = raw.get('sourceContent')
    pieces = [str(mapping(t).get('text') or '') for t in cast(list[Any], texts if isinstance(texts, list) else [])]
    web = mapping(mapping(raw.get('location')).get('web'))
    title, source = raw.get('title'), raw.get('source')
    url = web.get('url') or (source if isinstance(source, str) and source.startswith(('http://', 'https://')) else None)
    return Citation(
        url=str(url) if url else None,
        title=str(title) if title else None,
        cited_text=''.join(pieces) or None,
        provider_details=raw,
    )


def _joined(pieces: list[str]) -> str:
    """Base64 data that came in pieces, each of them base64; a single one stays as it is."""
    if len(pieces) == 1:
        return pieces[0]
    return b64encode(b''.join(_bytes(p) or b'' for p in pieces)).decode()


def _bytes(text: Any) -> bytes | None:
    if not isinstance(text, str) or not text:
        return None
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        return None


def _arguments(value: Any) -> dict[str, Any] | str:
    """The object, or what stands in its place as text."""
    if isinstance(value, dict):
        return storable_args(cast(dict[str, Any], value))
    return value if isinstance(value, str) else '' if value is None else encode(value).decode()


def _parsed(text: str) -> Any:
    """The value of JSON text, `{}` for none; the text itself where it is no JSON."""
    try:
        return decode(text.encode()) if text.strip() else {}
    except ValueError:
        return text
