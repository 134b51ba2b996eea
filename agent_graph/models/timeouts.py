"""`TimeoutModel`: bounds on how long any model may take, also one whose provider knows no timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from agent_graph.errors import ConfigError, ModelTimeout
from agent_graph.messages import Message
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from agent_graph.models.bounds import check, is_number
from agent_graph.models.wrapper import WrapperModel

__all__ = ['TimeoutModel']

_LOOKS = 8
"""How often a pause is looked at while it lasts: it is noticed late by an eighth of its bound at most."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    first_event: float | None
    between: float | None
    whole: float | None


class TimeoutModel(WrapperModel):
    """A model that may take no longer than this many seconds; `ModelTimeout` says which bound was reached.

    `whole` is from the request to the end of its answer. `first_event` is until an answer begins, `between` how long a
    streamed answer may stand still; both hold for streamed answers only, since a plain one comes all at once. They include
    whatever the wrapped model does meanwhile, such as waiting in line or before it asks again. The model's own settings
    (`timeout`, `first_event_timeout`, `event_timeout`, `connect_timeout`) see more: what only keeps a connection alive, for
    one. A streamed chunk costs nothing more.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        first_event: float | None = None,
        between: float | None = None,
        whole: float | None = None,
    ) -> None:
        super().__init__(model)
        self._bounds = _Bounds(first_event, between, whole)
        for name in ('first_event', 'between', 'whole'):
            bound = getattr(self._bounds, name)
            good = bound is None or (is_number(bound) and bound > 0)
            check(good, name, bound, 'is no time to wait; pass seconds, more than 0, or None')
        if first_event is None and between is None and whole is None:
            raise ConfigError(f'TimeoutModel({model!r}) has no bound; pass first_event=, between= or whole= in seconds')

    def __repr__(self) -> str:
        bounds = self._bounds
        return (
            f'TimeoutModel({self._wrapped!r}, first_event={bounds.first_event}, between={bounds.between}, '
            f'whole={bounds.whole})'
        )

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask, and stop asking when a bound is reached."""
        scope = asyncio.timeout(None)
        guard = _Guard(self._bounds, out, scope)
        try:
            async with scope:
                try:
                    guard.look()
                    await self.wrapped.respond(messages, info, out)
                finally:
                    guard.stop()
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise ModelTimeout(
                f'{self.provider}:{self.name} did not answer in time: {guard.reached}; raise that bound, or ask for less',
                provider=self.provider,
                model=self.name,
            ) from error


class _Guard:
    """Looks at a response now and then while it grows, and ends the scope when it takes too long."""

    def __init__(self, bounds: _Bounds, out: ResponseBuilder, scope: asyncio.Timeout) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._bounds = bounds
        self._out = out
        self._scope = scope
        self._began = self._moved = loop.time()
        self._seen: tuple[int, int] = out.progress
        self._alarm: asyncio.TimerHandle | None = None
        self.reached = ''

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def look(self) -> None:
        """Whether a bound is reached, and when to look again."""
        now = self._loop.time()
        if self._out.progress != self._seen:
            self._seen, self._moved = self._out.progress, now
        bounds, streamed = self._bounds, self._out.watched
        ends = [('whole', bounds.whole, self._began)]
        if streamed:
            name, bound = ('between', bounds.between) if self._out.started else ('first_event', bounds.first_event)
            ends.append((name, bound, self._moved))
        next_look: list[float] = []
        for name, bound, since in ends:
            if bound is None:
                continue
            if now >= since + bound:
                self.reached = f'{name}={bound:g} s'
                self._scope.reschedule(now)
                return
            next_look.append(since + bound)
        if streamed and bounds.between is not None:
            next_look.append(now + bounds.between / _LOOKS)
        if next_look:
            self._alarm = self._loop.call_at(min(next_look), self.look)
