"""One answer of the Messages API -> pushes into a `ResponseBuilder`: `whole` for a plain one, `chunk` for each event.

An answer may take several requests: one that ends in `pause_turn` is sent back as it is, and goes on (`following`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from agent_graph.messages import AssistantMessage, AssistantPart, TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import ResponseBuilder
from agent_graph_providers.anthropic.notes import Notes
from agent_graph_providers.anthropic.parts import part_of
from agent_graph_providers.anthropic.pieces import Pieces
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.model import Sent

__all__ = ['Answer']

_MOST_PAUSES = 20
"""How often one answer may pause: each time its provider has run some ten of its own tools."""

_STATUS = {
    'invalid_request_error': 400,
    'authentication_error': 401,
    'billing_error': 402,
    'permission_error': 403,
    'not_found_error': 404,
    'request_too_large': 413,
    'rate_limit_error': 429,
    'api_error': 500,
    'timeout_error': 504,
    'overloaded_error': 529,
}
"""The HTTP status each type of error has; within a stream only the type is told."""


class Answer:
    """Reads the answer to one question. `back` maps tools' names as sent to their own.

    `again` makes the request once more, `as_blocks` writes what has come as the blocks of a message: both are needed to go
    on after a pause.
    """

    def __init__(
        self,
        out: ResponseBuilder,
        asked: Asked,
        *,
        back: Mapping[str, str],
        again: Callable[[], Sent] | None = None,
        as_blocks: Callable[[AssistantMessage], list[dict[str, Any]]] | None = None,
    ) -> None:
        self._out = out
        self._asked = asked
        self._back = back
        self._again = again
        self._as_blocks = as_blocks
        self._pieces = Pieces(out, asked, back)
        self._pauses = 0
        self.notes = Notes(out)
        self.done = False

    @property
    def complete(self) -> bool:
        """It has told why it stopped."""
        return self.notes.stop is not None

    async def whole(self, data: Any) -> None:
        """A plain answer."""
        message = self._object(data)
        content = message.get('content')
        if not isinstance(content, list):
            raise self._asked.unreadable(f'its content is {content!r}', str(data).encode())
        self.notes.message(message)
        for block in cast(list[Any], content):
            await self._block(block)
        self.done = True
        self.notes.end()

    async def chunk(self, data: Any, edges: bool = False) -> None:
        """One event of a stream; `edges`: its texts may begin or end with half a surrogate pair."""
        if data.__class__ is not dict:
            data = self._object(data)
        kind = data.get('type')
        if kind == 'content_block_delta':
            await self._pieces.delta(data, edges)
        elif kind == 'content_block_start':
            await self._pieces.start(data)
            self.notes.block(data['content_block'])
        elif kind == 'content_block_stop':
            await self._pieces.stop(data)
        elif kind == 'message_start':
            self.notes.message(self._object(data.get('message')))
        elif kind == 'message_delta':
            self.notes.delta(data)
        elif kind == 'message_stop':
            self.done = True
        else:
            # Raises for an error; the rest are pings, and kinds of events that came later than this.
            self._object(data)

    async def end(self) -> None:
        """The stream is whole: finish what was left open."""
        if self.notes.stop is None:
            raise self._asked.cut('it has no stop_reason')
        await self._pieces.end(cut=self.notes.cut)
        self.notes.end()

    def settle(self) -> None:
        """Set the usage told so far."""
        self.notes.settle()

    def following(self) -> Sent | None:
        """The request that lets a paused answer go on: the same, with what has come as the last message."""
        if self.notes.stop != 'pause_turn' or self._again is None or self._as_blocks is None:
            return None
        self._pauses += 1
        blocks = self._as_blocks(self._out.build())
        if self._pauses > _MOST_PAUSES or not blocks:
            raise self._asked.cut(f'it paused for the {self._pauses}. time without an end (stop_reason pause_turn)')
        sent = self._again()
        body = dict(sent.body or {})
        body['messages'] = [*body['messages'], {'role': 'assistant', 'content': blocks}]
        if (container := self.notes.container) is not None:
            body['container'] = container
        self.notes.go_on()
        self._pieces.go_on()
        self.done = False
        return replace(sent, body=body)

    async def _block(self, block: Any) -> None:
        """A block of a plain answer."""
        try:
            part = part_of(self._object(block))
        except ValueError as error:
            raise self._asked.unreadable(str(error), str(block).encode()) from error
        if isinstance(part, ToolCallPart) and part.tool_name in self._back:
            part = replace(part, tool_name=self._back[part.tool_name])
        if not _is_nothing(part):
            await self._out.part(part)
        self.notes.block(cast(Mapping[str, Any], block))

    def _object(self, data: Any) -> dict[str, Any]:
        """A JSON object that is no error."""
        if not isinstance(data, dict):
            raise self._asked.unreadable('it is no JSON object', str(data).encode())
        fields = cast(dict[str, Any], data)
        if fields.get('type') == 'error' or ('error' in fields and 'type' not in fields):
            error = fields.get('error')
            kind = cast(Mapping[str, Any], error).get('type') if isinstance(error, Mapping) else None
            raise self._asked.refused(fields, status=_STATUS.get(str(kind), 0))
        return fields


def _is_nothing(part: AssistantPart) -> bool:
    """A text or thinking with nothing in it at all, of which a stream would show no piece."""
    if isinstance(part, TextPart):
        return not (part.content or part.citations or part.provider_details)
    return isinstance(part, ThinkingPart) and not (part.content or part.signature or part.provider_details)
