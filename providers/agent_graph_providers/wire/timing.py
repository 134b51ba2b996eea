"""The bounds of one request: until its answer begins, between two events, and for the whole of it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from agent_graph.model import ModelSettings

__all__ = ['CONNECT', 'SILENCE', 'Watch']

CONNECT = 30.0
"""Seconds to connect when nothing is set: a thousand requests may start in one event loop."""

SILENCE = 600.0
"""Seconds without any event when nothing is set: reasoning models think long, but no connection is waited for for ever."""


class Watch:
    """A time limit that moves on while events arrive: `async with Watch(settings) as watch: ... watch.alive()`.

    Raises `TimeoutError` that says which setting it was.
    """

    __slots__ = ('_began', '_between', '_first', '_loop', '_moved', '_scope', '_seen', '_whole')

    def __init__(self, settings: ModelSettings) -> None:
        self._whole = settings.get('timeout')
        self._first = settings.get('first_event_timeout') or SILENCE
        self._between = settings.get('event_timeout') or SILENCE
        self._loop = asyncio.get_running_loop()
        self._began = self._moved = self._loop.time()
        self._seen = False
        self._scope = asyncio.timeout_at(self._bounded(self._began + self._first))

    async def __aenter__(self) -> Self:
        await self._scope.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError:
            raise TimeoutError(self._reason()) from None

    def alive(self) -> None:
        """An event has arrived."""
        now = self._loop.time()
        if self._seen and now - self._moved < self._between / 20:
            return  # moving the limit costs more than looking at the clock
        self._seen, self._moved = True, now
        self._scope.reschedule(self._bounded(now + self._between))

    def _bounded(self, at: float) -> float:
        return at if self._whole is None else min(at, self._began + self._whole)

    def _reason(self) -> str:
        if self._whole is not None and self._loop.time() >= self._began + self._whole:
            return f'it took longer than {self._whole:g} s; raise the setting timeout'
        if self._seen:
            return f'no event for {self._between:g} s; raise the setting event_timeout'
        return f'nothing came for {self._first:g} s; raise the setting first_event_timeout'
