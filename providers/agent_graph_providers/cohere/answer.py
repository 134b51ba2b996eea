"""One answer of `/v2/chat` -> pushes into a `ResponseBuilder`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.messages import Citation, FinishReason
from agent_graph.model import ResponseBuilder
from agent_graph_providers.cohere.calls import Calls
from agent_graph_providers.cohere.usage import usage_of
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.jsontext import Halves, finite, storable_args

__all__ = ['Answer', 'citation_of', 'mapping']

_FINISH: Mapping[str, FinishReason] = {
    'COMPLETE': 'stop',
    'STOP_SEQUENCE': 'stop',
    'MAX_TOKENS': 'length',
    'TOOL_CALL': 'tool_calls',
    'ERROR_TOXIC': 'content_filter',
    'ERROR_LIMIT': 'length',
}
_FAILED = frozenset({'ERROR', 'TIMEOUT'})
"""Finish words that say the server gave up: what came is no answer."""


class Answer:
    """Reads the answer to one request. `back` maps tools' names as sent to their own."""

    def __init__(self, out: ResponseBuilder, asked: Asked, *, back: Mapping[str, str]) -> None:
        self._out = out
        self._asked = asked
        self._back = back
        self._calls = Calls()
        self._streamed = False
        self._plan: list[str] = []
        self._citations: list[dict[str, Any]] = []
        self._texts: list[Any] = []
        """The keys of the text blocks, in order."""
        self._logprobs: list[Any] = []
        self._usage: Mapping[str, Any] | None = None
        self._halves = Halves()
        self._edges = False
        self._finished: str | None = None
        self._details: dict[str, Any] = {}
        self.done = False

    async def whole(self, data: Any) -> None:
        """A plain answer."""
        fields = mapping(data)
        if 'message' not in fields or isinstance(fields['message'], str):
            raise self._not_an_answer(data)
        self._begin(fields)
        message = mapping(fields['message'])
        self._add_plan(message.get('tool_plan'))
        content: Any = message.get('content')
        blocks = [{'type': 'text', 'text': content}] if isinstance(content, str) else self._list(content)
        for index, block in enumerate(blocks):
            await self._block(index, mapping(block))
        for index, call in enumerate(self._list(message.get('tool_calls'))):
            await self._start_call(index, mapping(call))
        self._citations += [dict(mapping(c)) for c in self._list(message.get('citations'))]
        self._logprobs += self._list(fields.get('logprobs'))
        self._finish(fields)
        await self.end()

    async def chunk(self, data: Any, edges: bool = False) -> None:
        """One event of a stream; `edges`: its texts may begin or end with half a surrogate pair."""
        self._streamed = True
        self._edges = edges or bool(self._halves)
        event = mapping(data)
        message = mapping(mapping(event.get('delta')).get('message'))
        match event.get('type'):
            case 'content-delta' | 'content-start':
                await self._block(_index(event) or 0, mapping(message.get('content')))
                if logprobs := event.get('logprobs'):
                    self._logprobs.append(logprobs)
            case 'tool-call-start':
                await self._start_call(_index(event), mapping(message.get('tool_calls')))
            case 'tool-call-delta':
                await self._add_arguments(_index(event), mapping(message.get('tool_calls')))
            case 'tool-call-end':
                self._calls.end(_index(event))
            case 'tool-plan-delta':
                self._add_plan(message.get('tool_plan'))
            case 'citation-start':
                found: Any = message.get('citations')
                for citation in cast(list[Any], found) if isinstance(found, list) else [found]:
                    self._citations.append(dict(mapping(citation)))
            case 'message-start':
                self._begin(event)
            case 'message-end':
                self._finish(mapping(event.get('delta')))
                self.done = self.complete
            case None:
                raise self._not_an_answer(data)
            case _:
                pass  # ends of parts, debugging, and events to come

    @property
    def complete(self) -> bool:
        """It has told why it stopped."""
        return self._finished is not None

    def settle(self) -> None:
        """Set the usage told so far."""
        if self._usage is not None:
            self._out.usage = usage_of(self._usage)

    async def end(self) -> None:
        """The answer is whole."""
        if self._streamed and not self.complete:
            raise self._asked.cut('the stream ended without a finish reason')
        for key in (*self._texts, 'thinking'):
            if rest := self._halves.rest(key):
                await (self._out.text(rest, key=key) if key != 'thinking' else self._out.thinking(rest))
        self._cite()
        out, details = self._out, self._details
        if self._finished is not None:
            details['finish_reason'] = self._finished
            out.finish_reason = _FINISH.get(self._finished, 'other')
        if plan := ''.join(self._plan):
            details['tool_plan'] = plan
        if self._logprobs:
            details['logprobs'] = self._logprobs
        out.provider_details = finite(details) or None
        self.settle()

    def following(self) -> None:
        """One request is enough."""
        return

    def _begin(self, fields: Mapping[str, Any]) -> None:
        if answer_id := fields.get('id'):
            self._out.provider_response_id = str(answer_id)

    def _finish(self, fields: Mapping[str, Any]) -> None:
        if usage := mapping(fields.get('usage')):
            self._usage = usage
        word = fields.get('finish_reason')
        error = fields.get('error')
        if error or (isinstance(word, str) and word in _FAILED):
            message = error or f'the server stopped with {word!r}'
            raise self._asked.refused(
                {'message': message, 'code': word} if isinstance(message, str) else {'error': message}
            )
        if word is not None:
            self._finished = str(word)

    async def _block(self, index: int, block: Mapping[str, Any]) -> None:
        text, thinking = block.get('text'), block.get('thinking')
        key = ('text', index)
        if isinstance(text, str) and text:
            if key not in self._texts:
                self._texts.append(key)
            await self._out.text(self._halves.join(key, text) if self._edges else text, key=key)
        if isinstance(thinking, str) and thinking:
            await self._out.thinking(self._halves.join('thinking', thinking) if self._edges else thinking)

    def _add_plan(self, plan: Any) -> None:
        if isinstance(plan, str):
            self._plan.append(plan)

    # Tool calls

    async def _start_call(self, index: int | None, call: Mapping[str, Any]) -> None:
        function = mapping(call.get('function'))
        name, call_id = str(function.get('name') or ''), str(call.get('id') or '')
        if not name:
            raise self._asked.unreadable(f'tool call {call_id!r} has no name', str(dict(call)).encode())
        number = self._calls.start(index, name, call_id, str(function.get('arguments') or ''))
        args = self._arguments(number, function)
        await self._out.tool_call(number, name=self._back.get(name, name), args=args, tool_call_id=call_id)

    async def _add_arguments(self, index: int | None, call: Mapping[str, Any]) -> None:
        function = mapping(call.get('function'))
        if args := function.get('arguments'):
            number = self._calls.piece(index, str(args))
            await self._out.tool_call(number, args=self._arguments(number, function))

    def _arguments(self, number: int, function: Mapping[str, Any]) -> Any:
        args: Any = function.get('arguments')
        if isinstance(args, dict):
            return storable_args(cast(dict[str, Any], args))
        text = args if isinstance(args, str) else ''
        return self._halves.join(('arguments', number), text) if self._edges else text

    # What is known only at the end

    def _cite(self) -> None:
        """Put each citation on the text it is about; those of plans and thoughts are kept beside."""
        others: list[dict[str, Any]] = []
        for raw in self._citations:
            index = raw.get('content_index')
            key = ('text', index) if ('text', index) in self._texts else self._texts[-1] if self._texts else None
            if key is None or raw.get('type') not in (None, 'TEXT_CONTENT'):
                others.append(raw)
            else:
                self._out.cite(citation_of(raw), key=key)
        if others:
            self._details['citations'] = others

    def _list(self, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._asked.unreadable(f'{value!r} stands where a list should', b'')
        return cast(list[Any], value)

    def _not_an_answer(self, data: Any) -> Exception:
        fields = mapping(data)
        if isinstance(fields.get('message'), str) or fields.get('error') or fields.get('detail'):
            return self._asked.refused(dict(fields))
        return self._asked.unreadable('it has no message', str(data).encode())


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _index(event: Mapping[str, Any]) -> int | None:
    index = event.get('index')
    return index if type(index) is int else None


def citation_of(raw: dict[str, Any]) -> Citation:
    """One of Cohere's citations in common words: the first source counts, its own object has them all."""
    raw = finite(raw)
    sources: Any = raw.get('sources')
    first = mapping(sources[0]) if isinstance(sources, list) and sources else mapping(None)
    found = mapping(first.get('document')) or mapping(first.get('tool_output'))
    texts = [found.get(name) for name in ('text', 'snippet', 'content')]
    start, end = raw.get('start'), raw.get('end')
    return Citation(
        url=_text(found.get('url')),
        title=_text(found.get('title')) or _text(first.get('id')),
        cited_text=next((text for text in texts if isinstance(text, str) and text), None),
        start=start if type(start) is int else None,
        end=end if type(end) is int else None,
        provider_details=raw,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
