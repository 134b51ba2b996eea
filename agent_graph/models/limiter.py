"""`Limiter`: places, requests and tokens shared by all runs of a process, given out in the order they were asked for.

The lock is held for a few instructions and never across an `await`, so one limiter serves any number of threads and event
loops. Nobody serves it: whoever waits, and whoever leaves, lets in those who are next. In each event loop the first in line
keeps an eye on the clock, so no loop depends on another one going on.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from agent_graph.models.bounds import check, check_callable, is_number, is_whole

__all__ = ['Limiter', 'Place']


@dataclass(slots=True, eq=False)
class Place:
    """One request that was let in: `tokens` it is counted with since `since`; keep it for `leave`."""

    tokens: int
    since: float = 0.0
    counted: bool = False


@dataclass(slots=True, eq=False)
class _Waiter:
    """Somebody in line. `bell` is what it waits for now; `state` changes once."""

    place: Place
    loop: asyncio.AbstractEventLoop
    bell: asyncio.Future[None] | None = None
    state: Literal['waiting', 'inside', 'lost'] = 'waiting'


@dataclass(slots=True)
class _Window:
    """What began within the last `minute`, oldest first."""

    minute: float
    places: deque[Place] = field(default_factory=deque[Place])
    tokens: int = 0

    def forget(self, now: float) -> None:
        places = self.places
        while places and now - places[0].since >= self.minute:
            old = places.popleft()
            old.counted = False
            self.tokens -= old.tokens

    def add(self, place: Place) -> None:
        place.counted = True
        self.places.append(place)
        self.tokens += place.tokens

    def correct(self, place: Place, tokens: int) -> None:
        """The place came to these tokens instead; nothing to do once it is forgotten."""
        if place.counted:
            self.tokens += tokens - place.tokens
            place.tokens = tokens

    def take_back(self, place: Place) -> None:
        """The place was not used after all."""
        if place.counted:
            self.places.remove(place)
            self.tokens -= place.tokens
            place.counted = False


class Limiter:
    """Bounds that several models may share: pass it as `LimitedModel(model, limiter=...)`.

    `concurrency` requests at once; `per_minute` of them begun, and `tokens_per_minute`, within any 60 seconds. `None` is no
    bound. A request of more tokens than `tokens_per_minute` is let in when nothing else was within the last minute.
    `minute` is how many seconds a minute has, `clock` tells the time: both for tests.
    """

    def __init__(
        self,
        *,
        concurrency: int | None = None,
        per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        minute: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        bounds = {'concurrency': concurrency, 'per_minute': per_minute, 'tokens_per_minute': tokens_per_minute}
        for name, bound in bounds.items():
            good = bound is None or (is_whole(bound) and bound >= 1)
            check(good, name, bound, 'lets nothing through; pass a whole number from 1 on, or None for no bound')
        check(is_number(minute) and minute > 0, 'minute', minute, 'is no time; pass seconds, more than 0')
        check_callable(clock=clock)
        self.concurrency = concurrency
        self.per_minute = per_minute
        self.tokens_per_minute = tokens_per_minute
        self._clock = clock
        self._window = _Window(minute)
        self._line: deque[_Waiter] = deque()
        self._loops: dict[asyncio.AbstractEventLoop, int] = {}
        """How many of the line wait in each loop."""
        self._inside = 0
        # Reentrant, as the collector may close a forgotten coroutine, which then leaves, in the middle of anything.
        self._lock = threading.RLock()

    @property
    def waiting(self) -> int:
        """How many are in line."""
        return len(self._line)

    @property
    def inside(self) -> int:
        """How many were let in and have not left."""
        return self._inside

    def __repr__(self) -> str:
        names = ('concurrency', 'per_minute', 'tokens_per_minute')
        bounds = ', '.join(f'{n}={getattr(self, n)}' for n in names if getattr(self, n) is not None)
        return f'Limiter({bounds})'

    async def enter(self, tokens: int = 0) -> Place:
        """Wait in line until there is room for a request of about `tokens` tokens; cancelling gives the place in line back."""
        place = Place(tokens)
        with self._lock:
            if not self._line and self._has_room(place):
                self._let_in(place)
                return place
            waiter = _Waiter(place, asyncio.get_running_loop())
            self._line.append(waiter)
            self._loops[waiter.loop] = self._loops.get(waiter.loop, 0) + 1
        try:
            await self._wait(waiter)
        except BaseException:
            with self._lock:
                if waiter.state == 'inside':
                    self._turn_out(place)
                elif waiter.state == 'waiting':
                    self._line.remove(waiter)
                    self._forget(waiter)
                self._let_next_in()
                self._wake_firsts()
            raise
        return place

    def leave(self, place: Place, tokens: int | None = None) -> None:
        """The request is over; `tokens` is what it really came to, where that is known."""
        with self._lock:
            self._inside -= 1
            if tokens is not None:
                self._window.correct(place, tokens)
            self._let_next_in()
            self._wake_firsts()

    async def _wait(self, waiter: _Waiter) -> None:
        loop = waiter.loop
        while True:
            with self._lock:
                if self._let_next_in():
                    self._wake_firsts()
                if waiter.state == 'inside':
                    return
                # Without a pause only a place that is left makes room, and whoever leaves wakes the first.
                first = next(w for w in self._line if w.loop is loop) is waiter
                pause = self._pause(self._line[0].place) if first else 0.0
                waiter.bell = bell = loop.create_future()
            alarm = loop.call_later(pause, _ring, bell) if pause else None
            try:
                await bell
            finally:
                if alarm is not None:
                    alarm.cancel()

    # Everything below is called with the lock held.

    def _let_next_in(self) -> bool:
        """Let in who is next for as long as there is room; true if anybody was."""
        line, moved = self._line, False
        while line and self._has_room(line[0].place):
            waiter = line.popleft()
            self._forget(waiter)
            self._let_in(waiter.place)
            waiter.state, moved = 'inside', True
            if not self._wake(waiter):  # its loop was closed over it: nobody will ever leave in its name
                self._turn_out(waiter.place)
                waiter.state = 'lost'
        return moved

    def _wake_firsts(self) -> None:
        """Have the first in line of each loop look at the clock again: how long to wait may have changed."""
        if len(self._loops) == 1:
            self._wake(self._line[0])
            return
        seen: set[asyncio.AbstractEventLoop] = set()
        for waiter in tuple(self._line):
            if waiter.loop not in seen:
                seen.add(waiter.loop)
                self._wake(waiter)

    def _forget(self, waiter: _Waiter) -> None:
        """It is no longer in line."""
        count = self._loops[waiter.loop] - 1
        if count:
            self._loops[waiter.loop] = count
        else:
            del self._loops[waiter.loop]

    def _wake(self, waiter: _Waiter) -> bool:
        """Let a waiter look again; false if its loop is closed."""
        bell = waiter.bell
        if bell is None:  # it has not begun to wait, and looks before it does
            return not waiter.loop.is_closed()
        try:
            waiter.loop.call_soon_threadsafe(_ring, bell)
        except RuntimeError:
            return False
        return True

    def _has_room(self, place: Place) -> bool:
        if self.concurrency is not None and self._inside >= self.concurrency:
            return False
        return self._pause(place) == 0.0

    def _let_in(self, place: Place) -> None:
        place.since = self._clock()
        self._inside += 1
        if self.per_minute is not None or self.tokens_per_minute is not None:
            self._window.add(place)

    def _turn_out(self, place: Place) -> None:
        self._inside -= 1
        self._window.take_back(place)

    def _pause(self, place: Place) -> float:
        """Seconds until the bounds by the minute have room for `place`."""
        now, window = self._clock(), self._window
        window.forget(now)
        places = window.places
        until = 0.0
        if self.per_minute is not None and len(places) >= self.per_minute:
            until = places[len(places) - self.per_minute].since + window.minute
        if self.tokens_per_minute is not None and places:
            until = max(until, self._tokens_free(place.tokens, self.tokens_per_minute))
        return max(until - now, 0.0)

    def _tokens_free(self, tokens: int, bound: int) -> float:
        """The moment at which so many tokens are free, or all of them; 0 if they are."""
        window = self._window
        over = window.tokens + tokens - bound
        moment = 0.0
        for old in window.places:
            if over <= 0:
                break
            over -= old.tokens
            moment = old.since + window.minute
        return moment


def _ring(bell: asyncio.Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)
