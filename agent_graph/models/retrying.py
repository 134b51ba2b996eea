"""`RetryingModel`: asks again when asking again makes sense."""

from __future__ import annotations

import asyncio
import random as random_numbers
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_graph.errors import ModelError
from agent_graph.events import RequestRetried
from agent_graph.messages import Message, UserMessage
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from agent_graph.models.backoff import Backoff
from agent_graph.models.bounds import check, check_callable, check_flags, check_on, is_number, is_whole
from agent_graph.models.failures import retryable
from agent_graph.models.guidance import advice_on_error, advice_on_response
from agent_graph.models.spending import Spent
from agent_graph.models.wrapper import LOG, WrapperModel, is_free, line, title

__all__ = ['RetryingModel']


@dataclass(slots=True)
class _Asking:
    """One request on its way: what is asked now, and what went wrong before."""

    messages: Sequence[Message]
    info: RequestInfo
    began: float
    guided: bool = False
    tried: list[str] = field(default_factory=list[str])
    spent: Spent = field(default_factory=Spent)

    def guide(self, advice: str) -> None:
        """From now on with a word of advice, which only this request holds."""
        self.guided = True
        self.messages = (*self.messages, UserMessage(advice))
        # What models remember there belongs to the conversation, and the advice is none of it.
        self.info = replace(self.info, scratch={})


class RetryingModel(WrapperModel):
    """A model that is asked again after failures that pass by themselves; see `retryable`.

    At most `tries` requests are made, and none is begun later than `seconds` after the first (`None`: no such bound). The
    wait between two is what `backoff` says, or longer if the server asked for that (`error.retry_after`); where it would go
    past `seconds`, the error is raised at once. `on` says which errors are worth it: exception types or a function of
    the exception.

    A streamed answer is asked for again only before its reader has seen any of it, or, with `restart=True`, from its start:
    the reader gets a `ResponseRestarted`. When nobody watches, what had come is dropped.

    With `guidance`, an answer that the model got wrong (a malformed call the provider reports, an empty answer) is asked
    for once more with a message that says so; that message is in no history. It is one of the `tries`.

    Each further request is told as a `RequestRetried` event and a line in the log `agent_graph.models`. Tokens that failed
    tries reported are part of the response's usage. The last error has a line for each earlier one in `tried`, and as a
    note. `sleep`, `random` and `clock` are there for tests.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        tries: int = 4,
        seconds: float | None = 120.0,
        backoff: Backoff = Backoff(),  # noqa: B008 (frozen)
        on: type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool] = retryable,
        restart: bool = False,
        guidance: bool = True,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random_numbers.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(model)
        good = is_whole(tries) and tries >= 1
        check(good, 'tries', tries, 'is no number of tries; pass how often to ask at most, a whole number from 1 on')
        good = seconds is None or (is_number(seconds) and seconds >= 0)
        check(good, 'seconds', seconds, 'is no time; pass a number from 0 on, or None for no bound')
        given: Any = backoff
        check(isinstance(given, Backoff), 'backoff', given, 'is no way to wait; pass a Backoff(...)')
        check_on(on)
        check_flags(restart=restart, guidance=guidance)
        check_callable(sleep=sleep, random=random, clock=clock)
        self._tries = tries
        self._seconds = seconds
        self._backoff = backoff
        self._on: Any = on
        self._restart = restart
        self._guidance = guidance
        self._sleep = sleep
        self._random = random
        self._clock = clock

    def _is_worth_it(self, error: Exception) -> bool:
        on: Any = self._on
        return isinstance(error, on) if isinstance(on, type | tuple) else bool(on(error))

    def __repr__(self) -> str:
        return f'RetryingModel({self._wrapped!r}, tries={self._tries}, seconds={self._seconds})'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Ask, and ask again while that is worth it and allowed."""
        asking = _Asking(messages, info, self._clock())
        try:
            while not await self._ask(asking, out):
                pass
        finally:
            asking.spent.leave(out)

    async def _ask(self, asking: _Asking, out: ResponseBuilder) -> bool:
        """Ask once; false if the answer has to be asked for again."""
        try:
            await self.wrapped.respond(asking.messages, asking.info, out)
        except Exception as error:
            wait = self._wait(asking, error, out)
            if wait is None:
                _tell(error, asking.tried, self._clock() - asking.began)
                raise
            await self._prepare(asking, line(error), wait, out)
            return False
        advice = self._advice(asking, out)
        if advice is None:
            return True
        asking.guide(advice)
        await self._prepare(asking, line(advice), 0.0, out)
        return False

    def _advice(self, asking: _Asking, out: ResponseBuilder) -> str | None:
        if not self._guidance or asking.guided or not self._may_ask(asking, out):
            return None
        return advice_on_response(out.build(), asking.info)

    def _may_ask(self, asking: _Asking, out: ResponseBuilder) -> bool:
        return len(asking.tried) + 1 < self._tries and (self._restart or is_free(out))

    def _wait(self, asking: _Asking, error: Exception, out: ResponseBuilder) -> float | None:
        """Seconds to wait before asking again; `None` if that must not be."""
        if not self._may_ask(asking, out):
            return None
        if self._guidance and not asking.guided and (advice := advice_on_error(error)) is not None:
            asking.guide(advice)
            return 0.0
        if not self._is_worth_it(error):
            return None
        wait = self._backoff.wait(len(asking.tried) + 1, self._random)
        wait = max(wait, getattr(error, 'retry_after', None) or 0.0)
        if self._seconds is not None and self._clock() - asking.began + wait > self._seconds:
            error.add_note(f'a wait of {wait:.3g} s would go past seconds={self._seconds:g}, so it was not asked again')
            return None
        return wait

    async def _prepare(self, asking: _Asking, reason: str, wait: float, out: ResponseBuilder) -> None:
        """Tell of what went wrong, wait, and drop what had come of the answer."""
        asking.tried.append(reason)
        attempt = len(asking.tried) + 1
        model = self.wrapped
        LOG.info('%s: try %d of %d in %.3g s, after %s', title(model), attempt, self._tries, wait, reason)
        await out.notice(
            RequestRetried, attempt=attempt, delay=wait, error=reason, model=model.name, provider=model.provider
        )
        if wait:
            await self._sleep(wait)
        asking.spent.take(out)
        await out.restart(reason)


def _tell(error: Exception, tried: list[str], seconds: float) -> None:
    """Leave what was tried before with the error that ends it."""
    if not tried:
        return
    if isinstance(error, ModelError):
        error.tried = (*error.tried, *tried)
    lines = ''.join(f'\n  {index}. {text}' for index, text in enumerate(tried, 1))
    error.add_note(f'asked {len(tried) + 1} times in {seconds:.3g} s; before this:{lines}')
