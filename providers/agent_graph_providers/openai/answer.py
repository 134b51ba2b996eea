"""One answer of a server -> pushes into a `ResponseBuilder`: `whole` for a plain one, `chunk` for each piece of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.errors import ModelProtocolError
from agent_graph.messages import FilePart
from agent_graph.model import ResponseBuilder
from agent_graph_providers.openai.calls import Args, Call, CallPieces
from agent_graph_providers.openai.notes import Notes, citation_of, mapping
from agent_graph_providers.openai.reasoning import Reasoning, detail_text
from agent_graph_providers.openai.think import ThinkTags
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.jsontext import Halves

__all__ = ['Answer']

_MESSAGE_DETAILS = ('annotations', 'executed_tools', 'extra_content')


class Answer:
    """Reads the answer to one request. `back` maps tools' names as sent to their own, `known` are all names as sent."""

    def __init__(
        self, out: ResponseBuilder, asked: Asked, *, back: Mapping[str, str], known: frozenset[str], think_tags: bool
    ) -> None:
        self._out = out
        self._asked = asked
        self._back = back
        self._known = known
        self._think = ThinkTags() if think_tags else None
        self._reasoning = Reasoning(out)
        self._calls = CallPieces(known.__contains__)
        self._shown = 0
        self._halves = Halves()
        self._edges = False
        self._audio: dict[str, str] = {}
        self._cited: list[Any] = []
        self.notes = Notes(out, asked)
        self.done = False
        self.choices = False
        """It has sent a choice: there is an answer, be it empty."""

    async def whole(self, data: Any) -> None:
        """A plain answer."""
        fields = self._fields(data)
        if (choice := self._first(fields)) is not None:
            await self._message(mapping(choice.get('message')))
            self.notes.beside_message(choice)
        self.notes.beside_choices(fields)
        await self.end()

    async def chunk(self, data: Any, edges: bool = False) -> None:
        """One event of a stream; `edges`: its texts may begin or end with half a surrogate pair."""
        fields = self._fields(data)
        choice = self._first(fields)
        self._edges = edges or bool(self._halves)
        if choice is not None:
            delta = choice.get('delta')
            if isinstance(delta, dict):
                await self._delta(cast(dict[str, Any], delta))
            elif not self._out.started and choice.get('message'):
                await self._message(mapping(choice['message']))  # a server that cannot stream puts it all in one event
            if choice.get('finish_reason') or choice.get('logprobs') or 'usage' in choice or 'error' in choice:
                self.notes.beside_message(choice)
        self.notes.beside_choices(fields, usual=choice is not None)

    @property
    def complete(self) -> bool:
        """It has told why it stopped."""
        return self.notes.finished is not None

    def settle(self) -> None:
        """Set the usage told so far."""
        self.notes.settle()

    async def end(self) -> None:
        """The answer is whole: pass on what was held back, and set what is known only now."""
        notes = self.notes
        if not self.choices and not notes.filtered:
            raise self._asked.unreadable('it has no choices', b'')
        await self._end_texts()
        await self._reasoning.settle()
        await self._show_calls(last=True)
        await self._end_audio()
        for note in self._cited:
            if (citation := citation_of(mapping(note))) is not None:
                self._out.cite(citation)
        notes.refusal += self._halves.rest('refusal')
        notes.end()

    # What every piece has in common

    def _fields(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self._asked.unreadable('it is no JSON object', str(data).encode())
        if _error_in(data):
            raise self._asked.refused(data)
        return cast(dict[str, Any], data)

    def _first(self, fields: dict[str, Any]) -> dict[str, Any] | None:
        """The first choice, the only one that is used."""
        choices = fields.get('choices')
        if not choices:
            return None
        if not isinstance(choices, list):
            raise self._asked.unreadable(f'choices is {choices!r}', b'')
        for choice in cast(list[Any], choices):
            if isinstance(choice, dict) and not cast(dict[str, Any], choice).get('index'):
                self.choices = True
                return cast(dict[str, Any], choice)
        return None

    # The message, whole or in pieces

    async def _message(self, message: Mapping[str, Any]) -> None:
        await self._reason(message)
        await self._content(message.get('content'))
        await self._end_texts()
        await self._rest(message)
        calls = message.get('tool_calls')
        if not calls and mapping(message.get('function_call')).get('name'):
            calls = [{'function': message['function_call']}]
        for index, piece in enumerate(self._list(calls)):
            await self._piece({**mapping(piece), 'index': index})

    async def _delta(self, delta: dict[str, Any]) -> None:
        content = delta.get('content')
        if content.__class__ is str and not self._edges and len(delta) - ('role' in delta) == 1:
            if content:
                await self._text(content)  # the usual piece: nothing else to look for
            return
        await self._reason(delta)
        if content:
            await self._content(content)
        await self._rest(delta)
        for piece in self._list(delta.get('tool_calls')):
            await self._piece(mapping(piece))
        if old := mapping(delta.get('function_call')):
            await self._piece({'index': 0, 'function': old})

    async def _content(self, content: Any) -> None:
        if isinstance(content, str):
            await self._text(self._joined('content', content))
            return
        for block in self._list(content):
            await self._block(mapping(block))

    async def _block(self, block: Mapping[str, Any]) -> None:
        kind = block.get('type')
        if kind == 'text':
            await self._text(self._joined('content', str(block.get('text') or '')))
        elif kind == 'thinking':
            inner = block.get('thinking')
            texts = [inner] if isinstance(inner, str) else [mapping(b).get('text') for b in self._list(inner)]
            for text in texts:
                await self._reasoning.text('thinking', self._joined('thinking', str(text or '')))
        elif kind == 'refusal':
            self.notes.refusal += str(block.get('refusal') or '')
        elif kind == 'image_url':
            await self._image(block)

    async def _text(self, text: str) -> None:
        if self._reasoning.open:
            await self._reasoning.settle()
        think = self._think
        if think is None or (think.plain and '<' not in text):
            await self._out.text(text)
            return
        for kind, span in think.feed(text):
            await (self._out.text(span) if kind == 'text' else self._out.thinking(span))

    async def _reason(self, message: Mapping[str, Any]) -> None:
        for name in ('reasoning_content', 'reasoning'):
            if text := message.get(name):
                await self._reasoning.text(name, self._joined(name, str(text)))
                break
        blocks = message.get('reasoning_details')
        if blocks:
            blocks = [dict(mapping(b)) for b in self._list(blocks)]
            if not message.get('reasoning') and (text := ''.join(map(detail_text, blocks))):
                await self._reasoning.text('', self._joined('reasoning_details', text))
            self._reasoning.add_blocks(blocks)

    async def _rest(self, message: Mapping[str, Any]) -> None:
        """The rarer fields of a message."""
        if refusal := message.get('refusal'):
            self.notes.refusal += self._joined('refusal', str(refusal))
        for key in _MESSAGE_DETAILS:
            if value := message.get(key):
                self.notes.details[key] = value
                if key == 'annotations' and isinstance(value, list):  # a stream may tell them again with each piece
                    self._cited += [note for note in cast(list[Any], value) if note not in self._cited]
        for image in self._list(message.get('images')):
            await self._image(mapping(image))
        for key, value in mapping(message.get('audio')).items():
            if isinstance(value, str) and value:
                self._audio[key] = self._audio.get(key, '') + value if key != 'id' else value

    async def _piece(self, piece: Mapping[str, Any]) -> None:
        """A tool call, or a piece of one."""
        function = mapping(piece.get('function'))
        raw: Any = function.get('arguments') or ''
        args = cast(Args, raw) if isinstance(raw, str | dict) else str(raw)
        name, call_id, index = function.get('name') or '', piece.get('id') or '', piece.get('index')
        if not (args or name or call_id):
            return
        if self._halves or (self._think is not None and self._think.holding):
            await self._end_texts()  # nothing spans a call
        if self._edges and isinstance(args, str):
            args = self._joined(('arguments', index), args)
        call = self._calls.take(index if isinstance(index, int) else None, str(call_id), str(name), args)
        if extra := piece.get('extra_content'):
            call.extra = extra
        if call.shown:
            await self._out.tool_call(call.number, args=args, tool_call_id=call.id, details=_details(call))
        else:
            await self._show_calls()

    async def _show_calls(self, *, last: bool = False) -> None:
        """Pass on, in order, the calls whose name is certain: a tool's, or one that something came after."""
        calls = self._calls.calls
        while self._shown < len(calls):
            call = calls[self._shown]
            if last and not call.name:
                raise self._nameless(call)
            if not call.name or not (last or call.args or call.name in self._known or call is not calls[-1]):
                return
            await self._show(call)

    async def _show(self, call: Call) -> None:
        if self._reasoning.open:
            await self._reasoning.settle()
        self._shown += 1
        call.shown = True
        whole = [a for a in call.args if isinstance(a, dict)]
        await self._out.tool_call(
            call.number,
            name=self._back.get(call.name, call.name),
            args=whole[0] if whole else ''.join(cast(list[str], call.args)),
            tool_call_id=call.id,
            details=_details(call),
        )

    async def _image(self, block: Mapping[str, Any]) -> None:
        inner = block.get('image_url')
        url = inner if isinstance(inner, str) else mapping(inner).get('url')
        if isinstance(url, str) and url:
            media_type = url[5:].partition(';')[0] if url.startswith('data:') else 'image/*'
            await self._out.part(FilePart(media_type or 'image/*', url=url))

    # The end

    async def _end_texts(self) -> None:
        for name in ('reasoning_content', 'reasoning', 'thinking'):
            if rest := self._halves.rest(name):
                await self._reasoning.text(name, rest)
        if rest := self._halves.rest('content'):
            await self._text(rest)
        if self._think is not None:
            for kind, span in self._think.end():
                await (self._out.text(span) if kind == 'text' else self._out.thinking(span))

    async def _end_audio(self) -> None:
        audio = self._audio
        if transcript := audio.get('transcript'):
            await self._out.text(transcript, key='transcript')
        if audio.get('id') and audio.get('data'):
            url = f'data:audio/*;base64,{audio["data"]}'
            await self._out.part(FilePart('audio/*', url=url, provider_details={'audio_id': audio['id']}))

    def _joined(self, key: Any, piece: str) -> str:
        return self._halves.join(key, piece) if self._edges else piece

    def _list(self, value: Any) -> list[Any]:
        if value is None or value == '':
            return []
        if not isinstance(value, list):
            raise self._asked.unreadable(f'{value!r} stands where a list should', b'')
        return cast(list[Any], value)

    def _nameless(self, call: Call) -> ModelProtocolError:
        return self._asked.unreadable(f'tool call {call.number + 1} {call} has no name', str(call.args).encode())


def _details(call: Call) -> dict[str, Any] | None:
    return {'extra_content': call.extra} if call.extra is not None else None


def _error_in(body: Any) -> bool:
    """True if this JSON is an error rather than an answer."""
    if not isinstance(body, dict):
        return False
    fields = cast(dict[str, Any], body)
    if fields.get('error'):
        return True
    return fields.get('choices') is None and (
        fields.get('object') == 'error' or bool(fields.get('message') or fields.get('detail'))
    )
