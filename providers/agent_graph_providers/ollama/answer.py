"""One answer of `/api/chat` -> pushes into a `ResponseBuilder`: one object, or several, each with a piece of the message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.messages import FilePart, FinishReason
from agent_graph.model import ResponseBuilder
from agent_graph.usage import Usage
from agent_graph_providers.openai.think import ThinkTags
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.jsontext import Halves, encode, finite, storable_args

__all__ = ['Answer', 'mapping']

_FINISH: Mapping[str, FinishReason] = {'stop': 'stop', 'length': 'length'}
_DURATIONS = ('total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration')


class Answer:
    """Reads the answer to one request. `back` maps tools' names as sent to their own."""

    def __init__(self, out: ResponseBuilder, asked: Asked, *, back: Mapping[str, str]) -> None:
        self._out = out
        self._asked = asked
        self._back = back
        self._think = ThinkTags()
        self._halves = Halves()
        self._calls = 0
        self._logprobs: list[Any] = []
        self._last: Mapping[str, Any] = {}
        """The object that ended the answer: it has the counts."""
        self.done = False

    async def whole(self, data: Any) -> None:
        """A plain answer."""
        await self.chunk(data, edges=True)
        self._last = self._last or mapping(data)
        await self.end()

    async def chunk(self, data: Any, edges: bool = False) -> None:
        """One object of a stream; `edges`: its texts may begin or end with half a surrogate pair."""
        fields = mapping(data)
        if 'error' in fields:
            raise self._asked.refused(dict(fields))
        message = mapping(fields.get('message'))
        if not message and not fields.get('done'):
            raise self._asked.unreadable('it has no message', str(data).encode())
        edges = edges or bool(self._halves)
        if thinking := message.get('thinking'):
            await self._out.thinking(self._joined('thinking', str(thinking), edges))
        if content := message.get('content'):
            await self._text(self._joined('content', str(content), edges))
        if message.get('tool_calls') or message.get('images'):
            await self._rest(message)
        if logprobs := fields.get('logprobs'):
            self._logprobs += self._list(logprobs)
        if fields.get('done'):
            self._last = fields
            self.done = True

    @property
    def complete(self) -> bool:
        """It has said that it is done."""
        return self.done

    def settle(self) -> None:
        """Set the usage told so far."""
        sent, received = _count(self._last, 'prompt_eval_count'), _count(self._last, 'eval_count')
        if sent or received:
            self._out.usage = Usage(input_tokens=sent, output_tokens=received)

    async def end(self) -> None:
        """The answer is whole."""
        await self._end_texts()
        out, last = self._out, self._last
        details: dict[str, Any] = {}
        if name := last.get('model'):
            out.model_name = str(name)
        if (word := last.get('done_reason')) is not None:
            details['finish_reason'] = str(word)
        reason = _FINISH.get(str(word), 'other') if word is not None else 'stop' if self.done else None
        # Ollama says that it stopped, whatever for.
        out.finish_reason = 'tool_calls' if reason == 'stop' and self._calls else reason
        if timings := {name: last[name] for name in _DURATIONS if name in last}:
            details['timings'] = timings
        if self._logprobs:
            details['logprobs'] = {'content': self._logprobs}
        out.provider_details = finite(details) or None
        self.settle()

    def following(self) -> None:
        """One request is enough."""
        return

    async def _text(self, text: str) -> None:
        think = self._think
        if think.plain and '<' not in text:
            await self._out.text(text)
            return
        for kind, span in think.feed(text):
            await (self._out.text(span) if kind == 'text' else self._out.thinking(span))

    async def _end_texts(self) -> None:
        if rest := self._halves.rest('thinking'):
            await self._out.thinking(rest)
        if rest := self._halves.rest('content'):
            await self._text(rest)
        for kind, span in self._think.end():
            await (self._out.text(span) if kind == 'text' else self._out.thinking(span))

    async def _rest(self, message: Mapping[str, Any]) -> None:
        """The rarer fields of a message: calls come whole, each in one object."""
        await self._end_texts()  # nothing spans a call
        for call in map(mapping, self._list(message.get('tool_calls'))):
            function = mapping(call.get('function'))
            name, args = str(function.get('name') or ''), function.get('arguments')
            if not name:
                raise self._asked.unreadable(f'tool call {self._calls + 1} has no name', str(dict(call)).encode())
            await self._out.tool_call(
                self._calls,
                name=self._back.get(name, name),
                args=_arguments(args),
                tool_call_id=str(call.get('id') or ''),
            )
            self._calls += 1
        for image in self._list(message.get('images')):
            if isinstance(image, str) and image:
                await self._out.part(FilePart('image/*', url=f'data:image/*;base64,{image}'))

    def _joined(self, key: str, piece: str, edges: bool) -> str:
        return self._halves.join(key, piece) if edges else piece

    def _list(self, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._asked.unreadable(f'{value!r} stands where a list should', b'')
        return cast(list[Any], value)


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _arguments(value: Any) -> dict[str, Any] | str:
    """The object, or what stands in its place as text."""
    if isinstance(value, dict):
        return storable_args(cast(dict[str, Any], value))
    return value if isinstance(value, str) else '' if value is None else encode(value).decode()


def _count(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    return value if type(value) is int and value > 0 else 0
