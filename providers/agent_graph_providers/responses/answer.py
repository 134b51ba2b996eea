"""One answer of a server -> pushes into a `ResponseBuilder`: `whole` for a plain one, `chunk` for each event of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.errors import ModelProtocolError, ModelTimeout
from agent_graph.model import ResponseBuilder
from agent_graph_providers.responses.events import Event, Events
from agent_graph_providers.responses.notes import UNFINISHED, Notes, Reading
from agent_graph_providers.responses.parts import as_list, as_map
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.model import Sent

__all__ = ['Answer']

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 10.0
"""Seconds between two looks at a response that is made in the background; each wait is half as long again."""


class Answer:
    """Reads the answer to one request."""

    def __init__(self, out: ResponseBuilder, asked: Asked, reading: Reading) -> None:
        self._out = out
        self._asked = asked
        self._reading = reading
        self._notes = Notes(out, reading)
        self._events = Events(out, asked, self._notes, reading.reader.back)
        self._pending: str | None = None
        self._wait = _FIRST_WAIT
        self._began: float | None = None
        self.complete = False
        """It has said how it ended."""
        self.done = False

    async def whole(self, data: Any) -> None:
        """A plain answer, or how far one has come that is made in the background."""
        response = self._checked(as_map(data))
        self._pending = None
        self._notes.take(response)
        if self._notes.status in UNFINISHED:
            self._pending = self._unfinished()
            return
        await self._push(response)
        self._end()

    async def chunk(self, data: Any, edges: bool = False) -> None:
        """One event of a stream; `edges`: its texts may begin or end with half a surrogate pair."""
        if not isinstance(data, dict):
            raise self._asked.unreadable('an event is no JSON object', str(data).encode())
        event, events = cast(Event, data), self._events
        if await events.take(event, edges):
            if events.last is not None:
                await self._ended(self._checked(events.last))
        elif event.get('error'):
            raise self._asked.refused(event)
        elif event.get('object') == 'response' and event.get('status') not in UNFINISHED:
            await self.whole(data)  # a server that cannot stream puts it all in one event

    async def end(self) -> None:
        """Everything has come."""
        if not self.complete:
            raise self._asked.cut('the stream ended before the response did')

    def settle(self) -> None:
        """Set the usage told so far."""
        self._notes.settle()

    def following(self) -> Sent | None:
        """The next look at a response that is made in the background. Raises `ModelTimeout` once that took too long."""
        if self._pending is None:
            return None
        import asyncio

        now, limit = asyncio.get_running_loop().time(), self._reading.timeout
        self._began = now if self._began is None else self._began
        if limit is not None and now - self._began >= limit:
            raise ModelTimeout(
                f'the response {self._pending!r} was still {self._notes.status} after {limit:g} s; '
                'raise the setting timeout',
                provider=self._asked.provider,
                model=self._asked.model,
            )
        wait, self._wait = self._wait, min(self._wait * 1.5, _LONGEST_WAIT)
        return Sent(f'{self._reading.path}/{self._pending}', None, method='GET', wait=wait)

    def _checked(self, response: Mapping[str, Any]) -> Mapping[str, Any]:
        """A response object that is an answer, or is going to be one."""
        status = response.get('status')
        if response.get('error') or status in ('failed', 'cancelled'):
            raise self._asked.refused(_failure(response))
        if isinstance(response.get('output'), list) or status in UNFINISHED:
            for item in as_list(response.get('output')):
                if not isinstance(as_map(item).get('type'), str):
                    raise self._asked.unreadable('an item of its output has no type', str(item).encode())
            return response
        if any(response.get(key) for key in ('message', 'detail', 'msg')):
            raise self._asked.refused(response)
        raise self._asked.unreadable('it is no response', str(dict(response)).encode())

    def _unfinished(self) -> str:
        """The id under which to ask for a response that is not made yet."""
        ident = self._out.provider_response_id
        if self._reading.background and ident:
            return ident
        raise ModelProtocolError(
            f'{self._asked.url} has put the response {ident!r} on its list ({self._notes.status}) and not made it; '
            'set background to wait for it',
            provider=self._asked.provider,
            model=self._asked.model,
        )

    async def _ended(self, response: Mapping[str, Any]) -> None:
        """A stream is over, and its response object has the last word."""
        self._notes.take(response)
        output = as_list(response.get('output'))
        doubt = await self._events.settle_rest(output, cut=self._notes.status == 'incomplete')
        if doubt is not None:
            if not output:
                raise self._asked.unreadable(doubt, b'')
            await self._out.restart(doubt)
            self._notes = Notes(self._out, self._reading)
            self._notes.take(response)
            await self._push(response)
        self._end()

    async def _push(self, response: Mapping[str, Any]) -> None:
        for item in as_list(response.get('output')):
            for part in self._notes.read(as_map(item)):
                await self._out.part(part)

    def _end(self) -> None:
        self.complete = self.done = True
        self._notes.end()


def _failure(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """An error the server did not explain gets its state for a reason."""
    if response.get('error'):
        return response
    status = response.get('status')
    return {**response, 'error': {'code': status, 'message': f'the response is {status}'}}
