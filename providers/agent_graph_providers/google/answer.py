"""One answer of Gemini -> pushes into a `ResponseBuilder`: `whole` for a plain one, `chunk` for each piece of a stream.

Pieces of a stream carry no numbers: text goes on in the text before it until something else comes. A part with a thought
signature is never joined to another one, since the signature has to go back on exactly that part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

from pydantic_core import to_json

from agent_graph.errors import ModelProtocolError
from agent_graph.messages import TextPart
from agent_graph.model import ResponseBuilder
from agent_graph_providers.google.grounding import Texts, citations_of, cited_sources
from agent_graph_providers.google.notes import Notes
from agent_graph_providers.google.partial import PartialCall
from agent_graph_providers.google.parts import SIGNATURE, beside, builtin_part, file_from_google, kind_of
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.jsontext import Halves, finite, storable_args
from agent_graph_providers.wire.model import Sent

__all__ = ['Answer']

_Saying: TypeAlias = Literal['', 'text', 'thinking']


class Answer:
    """Reads the answer to one request. `back` maps tools' names as sent to their own."""

    def __init__(self, out: ResponseBuilder, asked: Asked, *, back: Mapping[str, str]) -> None:
        self._out = out
        self._asked = asked
        self._back = back
        self._halves = Halves()
        self._edges = False
        self._plain = False
        self._saying: _Saying = ''
        self._number = 0
        self._texts: list[int] = []
        """The numbers of the visible texts, in order."""
        self._places: list[int] = []
        """Which of them each part of a plain answer is; -1 for none."""
        self._partial: PartialCall | None = None
        self._called = False
        self._answered = False
        self.notes = Notes(out)
        self.done = False

    async def whole(self, data: Any) -> None:
        """A plain answer, or all pieces of a stream at once."""
        if isinstance(data, list):
            await self.chunk(cast(list[Any], data))
            if not self.complete:
                raise self._asked.cut('the array ended without a finish reason')
        else:
            self._plain = True
            await self._take(data)
        await self.end()

    async def chunk(self, data: Any, edges: bool = False) -> None:
        """One event of a stream; `edges`: its texts may begin or end with half a surrogate pair."""
        self._edges = edges or bool(self._halves)
        if data.__class__ is list:
            for item in data:
                await self._take(item)
        else:
            await self._take(data)

    @property
    def complete(self) -> bool:
        """It has told why it stopped."""
        return self.notes.finished is not None or self.notes.blocked

    def settle(self) -> None:
        """Set the usage told so far."""
        self.notes.settle()

    def following(self) -> Sent | None:
        """One request gets the whole answer."""
        return None

    async def end(self) -> None:
        """The answer is whole: pass on what was held back, and set what is known only now."""
        await self._end_text()
        if self._partial is not None:
            await self._end_partial(self._partial)
        if not self._answered and not self.notes.blocked:
            raise self._asked.unreadable('it has no candidates', b'')
        self._cite()
        self.notes.end(called=self._called)

    # The candidate

    async def _take(self, data: Any) -> None:
        if data.__class__ is not dict:
            raise self._asked.unreadable('it is no JSON object', str(data).encode())
        fields: dict[str, Any] = data
        if fields.get('error'):
            raise self._asked.refused(fields)
        candidate = self._first(fields.get('candidates'))
        if candidate is not None:
            content: Any = candidate.get('content')
            if isinstance(content, dict) and (parts := cast(dict[str, Any], content).get('parts')):
                for part in self._list(parts):
                    await self._part(part)
            if len(candidate) > 1 + ('index' in candidate) or content is None:
                self.notes.beside_parts(candidate)
        self.notes.beside_candidates(fields)

    def _first(self, candidates: Any) -> dict[str, Any] | None:
        """The first candidate, the only one that is used."""
        if not candidates:
            return None
        for candidate in self._list(candidates):
            if candidate.__class__ is dict and not candidate.get('index'):
                self._answered = True
                return candidate
        return None

    async def _part(self, part: Any) -> None:
        if part.__class__ is not dict:
            raise self._asked.unreadable(f'{part!r} stands where a part should', b'')
        text = part.get('text')
        if text.__class__ is str:
            await self._text(text, part)
        elif kind := kind_of(part):
            await self._end_text()
            await self._other(part, kind)
        elif SIGNATURE in part:
            await self._text('', part)  # the signature of all that came before
        if self._plain:
            self._places.append(len(self._texts) - 1 if text and not part.get('thought') else -1)

    # Texts

    async def _text(self, text: str, part: dict[str, Any]) -> None:
        saying: _Saying = 'thinking' if part.get('thought') else 'text'
        if saying != self._saying:
            await self._end_text()
        extra = len(part) - ('text' in part) - ('thought' in part)
        if self._edges:
            text = self._halves.join(saying, text)
            if extra:
                text += self._halves.rest(saying)
        if extra:
            details = {key: value for key, value in part.items() if key != 'text' and key != 'thought'}
            await self._begin(saying, text, finite(details))
        elif text:
            if saying != self._saying:
                await self._begin(saying, text, None)
            elif saying == 'text':
                await self._out.text(text, key=self._number)
            else:
                await self._out.thinking(text, key=self._number)
        if extra or self._plain:
            self._saying = ''  # nothing is added to this part

    async def _begin(self, saying: _Saying, text: str, details: dict[str, Any] | None) -> None:
        """Begin a part of its own."""
        self._saying = saying
        self._number += 1
        if saying == 'text':
            self._texts.append(self._number)
            await self._out.text(text, key=self._number, details=details)
            return
        signature = details.pop(SIGNATURE, None) if details else None
        if signature is not None and not isinstance(signature, str):
            raise self._asked.unreadable(f'{signature!r} stands where a thought signature should', b'')
        await self._out.thinking(text, key=self._number, signature=signature, details=details or None)

    async def _end_text(self) -> None:
        """Something else begins: half a character that was held back will not be made whole any more."""
        if self._halves and self._saying and (rest := self._halves.rest(self._saying)):
            push = self._out.text if self._saying == 'text' else self._out.thinking
            await push(rest, key=self._number)
        self._saying = ''

    # Everything else

    async def _other(self, part: dict[str, Any], kind: str) -> None:
        if kind == 'functionCall':
            await self._call(part)
            return
        try:
            if kind in ('inlineData', 'fileData'):
                await self._out.part(file_from_google(finite(part), kind))
            else:
                await self._out.part(builtin_part(finite(part), kind))
        except ValueError as error:
            raise self._asked.unreadable(str(error), b'') from error

    async def _call(self, part: dict[str, Any]) -> None:
        call = part['functionCall']
        if call.__class__ is not dict:
            raise self._asked.unreadable(f'{call!r} stands where a function call should', b'')
        name, call_id = str(call.get('name') or ''), str(call.get('id') or '')
        extra = beside(part, 'functionCall') or {}
        if self._partial is None and name and not call.get('willContinue') and 'partialArgs' not in call:
            await self._show(name, call_id, call.get('args'), extra)
        elif call or self._partial is not None:
            await self._piece(call, name, call_id, extra)

    async def _piece(self, call: dict[str, Any], name: str, call_id: str, extra: dict[str, Any]) -> None:
        """A call that comes in pieces; it is shown when it is whole."""
        partial = self._partial
        if partial is None:
            if not name:
                raise self._asked.unreadable(f'a function call has no name: {call!r}', b'')
            partial = self._partial = PartialCall(name, call_id, extra)
        elif name and (name != partial.name or 'partialArgs' not in call):
            raise self._endless(partial)
        else:
            partial.id = partial.id or call_id
            partial.extra = {**partial.extra, **extra}
        try:
            partial.take(call.get('partialArgs'))
            partial.whole(call.get('args'))
        except ValueError as error:
            raise self._asked.unreadable(f'the arguments of {partial.name!r}: {error}', b'') from error
        if not call.get('willContinue'):
            self._partial = None
            await self._show(partial.name, partial.id, partial.args, partial.extra)

    async def _end_partial(self, partial: PartialCall) -> None:
        """The answer ended within a call: cut off by the limit, it is shown as far as it came and can never be run."""
        if self.notes.cut:
            text = to_json(partial.args).decode().removesuffix('}')
            await self._show(partial.name, partial.id, text, partial.extra)
        elif self.notes.finished in (None, 'STOP'):
            raise self._endless(partial)

    async def _show(self, name: str, call_id: str, args: Any, extra: dict[str, Any]) -> None:
        if args is None:
            args = dict[str, Any]()
        if not isinstance(args, dict | str):
            raise self._asked.unreadable(f'the arguments of {name!r} are {args!r}, no object', b'')
        if isinstance(args, dict):
            args = storable_args(cast(dict[str, Any], args))
        details = finite({'id': call_id, **extra} if call_id else extra)
        self._number += 1
        self._called = True
        await self._out.tool_call(
            self._number,
            name=self._back.get(name, name),
            args=args,
            tool_call_id=call_id,
            details=details or None,
        )

    def _endless(self, partial: PartialCall) -> ModelProtocolError:
        return self._asked.cut(f'the call of {partial.name!r} has no end')

    # The end

    def _cite(self) -> None:
        grounding = self.notes.grounding
        if not self._texts or not any(grounding.values()):
            return
        said = [p.content for p in self._out.build().parts if isinstance(p, TextPart)]
        texts = Texts(said[-len(self._texts) :], self._places)
        found = [c for metadata in grounding['groundingMetadata'] for c in citations_of(metadata, texts)]
        found += [c for metadata in grounding['citationMetadata'] for c in cited_sources(metadata, texts)]
        for text, citation in found:
            self._out.cite(citation, key=self._texts[text])

    def _list(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self._asked.unreadable(f'{value!r} stands where a list should', b'')
        return cast(list[Any], value)
