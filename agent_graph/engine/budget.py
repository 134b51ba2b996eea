"""Limits: reserved before the effect, shared by a run and every run inside its tools.

A run inside a tool draws on its own budget and on those of all runs around it. Every check and the count that belongs to
it happen without an await in between, so parallel calls cannot overshoot.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextvars import ContextVar, Token
from dataclasses import replace

from agent_graph.errors import UsageLimitExceeded
from agent_graph.pending import Pending
from agent_graph.usage import NO_USAGE, Spend, Usage, UsageLimits, Used, cost_of

__all__ = ['ActiveCall', 'Budget']

_TOKEN_LIMITS = (
    ('input_tokens_limit', 'input_tokens'),
    ('output_tokens_limit', 'output_tokens'),
    ('total_tokens_limit', 'total_tokens'),
)


_lock = threading.Lock()
"""Runs in worker threads share budgets with runs in the loop's thread; held only between a check and its count."""


class Budget:
    """What one run may still use: its limits, and the live counts of the run with everything inside it.

    Without any limit in the chain (`bounded` is false) nobody looks at the counts, and nothing needs to be reserved.
    """

    __slots__ = ('around', 'bounded', 'limits', 'requests', 'spends', 'tokens', 'tool_calls')

    def __init__(
        self,
        limits: UsageLimits | None,
        around: Budget | None,
        *,
        requests: int = 0,
        tool_calls: int = 0,
        tokens: Usage = NO_USAGE,
        spends: list[Spend] | None = None,
    ) -> None:
        self.limits = limits
        self.around = around
        self.bounded: bool = limits is not None or (around is not None and around.bounded)
        self.requests = requests
        self.tool_calls = tool_calls
        self.tokens = tokens
        self.spends: list[Spend] = spends if spends is not None else []

    def reserve_request(self, *, beyond_tokens: bool = False) -> None:
        """Count one request, or raise `UsageLimitExceeded` without counting.

        `beyond_tokens` lets the last request of a run with `on_limit='final_answer'` through its own token bounds.
        """
        with _lock:
            self._reserve_request(beyond_tokens)

    def _reserve_request(self, beyond_tokens: bool) -> None:
        budget: Budget | None = self
        while budget is not None:
            if budget.limits is not None:
                mine = budget is self
                budget.check_request(budget.limits, beyond_tokens=beyond_tokens and mine, inside=not mine)
            budget = budget.around
        budget = self
        while budget is not None:
            budget.requests += 1
            budget = budget.around

    def check_request(self, limits: UsageLimits, *, beyond_tokens: bool = False, inside: bool = False) -> None:
        """Raise if no further request may start under `limits`.

        A run `inside` may not take the last request of one that is to give a final answer with it.
        """
        kept = 1 if inside and limits.on_limit == 'final_answer' else 0
        if limits.request_limit is not None and self.requests + kept >= limits.request_limit:
            raise self._exceeded('request_limit', limits.request_limit, self.requests)
        if beyond_tokens:
            return
        for name, count in _TOKEN_LIMITS:
            bound = getattr(limits, name)
            if bound is not None and getattr(self.tokens, count) >= bound:
                raise self._exceeded(name, bound, getattr(self.tokens, count))
        self._check_cost(limits, reached=True)

    def has_request(self) -> bool:
        """Whether a further request may start now; nothing is counted."""
        try:
            for budget in self.chain():
                if budget.limits is not None:
                    budget.check_request(budget.limits, inside=budget is not self)
        except UsageLimitExceeded:
            return False
        return True

    def reserve_calls(self, count: int) -> int:
        """Count up to `count` tool calls and return how many were granted; the rest must not start."""
        with _lock:
            return self._reserve_calls(count)

    def _reserve_calls(self, count: int) -> int:
        granted = count
        budget: Budget | None = self
        while budget is not None:
            if budget.limits is not None and budget.limits.tool_calls_limit is not None:
                granted = min(granted, max(0, budget.limits.tool_calls_limit - budget.tool_calls))
            budget = budget.around
        budget = self
        while budget is not None:
            budget.tool_calls += granted
            budget = budget.around
        return granted

    def take_up(self, used: Used, *, around: bool = False) -> None:
        """Count what runs inside used before; with `around` for the runs around this one as well."""
        usage, spends = used
        for budget in self.chain() if around else (self,):
            budget.requests += usage.requests
            budget.tool_calls += usage.tool_calls
            budget.tokens = budget.tokens + replace(usage, requests=0, tool_calls=0)
            if budget.limits is not None and budget.limits.cost_limit is not None:
                budget.spends.extend(spends)

    def give_back(self, count: int) -> None:
        """Return calls that were reserved and not started."""
        for budget in self.chain():
            budget.tool_calls -= count

    def spent(self, spend: Spend) -> None:
        """Count a response, here and for all runs around."""
        with _lock:
            for budget in self.chain():
                budget.tokens = spend.usage if budget.tokens is NO_USAGE else budget.tokens + spend.usage
                if budget.limits is not None and budget.limits.cost_limit is not None:
                    budget.spends.append(spend)

    def check(self) -> None:
        """Raise if a response went past a bound, here or of a run around."""
        for budget in self.chain():
            if budget.limits is not None and budget.limits.on_limit == 'raise':
                budget.check_spent(budget.limits)

    def check_spent(self, limits: UsageLimits) -> None:
        """Raise if the counts are past `limits`."""
        for name, count in _TOKEN_LIMITS:
            bound = getattr(limits, name)
            if bound is not None and getattr(self.tokens, count) > bound:
                raise self._exceeded(name, bound, getattr(self.tokens, count))
        self._check_cost(limits, reached=False)

    def last_request(self) -> bool:
        """True if the next request is the last one that some `request_limit` allows."""
        for budget in self.chain():
            limits = budget.limits
            if limits is not None and limits.request_limit is not None and budget.requests + 1 >= limits.request_limit:
                return True
        return False

    def calls_spent(self) -> bool:
        """True if some `tool_calls_limit` is used up."""
        for budget in self.chain():
            limits = budget.limits
            if (
                limits is not None
                and limits.tool_calls_limit is not None
                and budget.tool_calls >= limits.tool_calls_limit
            ):
                return True
        return False

    def chain(self) -> Iterator[Budget]:
        """This budget and those of the runs around it, innermost first."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.around

    def _check_cost(self, limits: UsageLimits, *, reached: bool) -> None:
        bound = limits.cost_limit
        if bound is None or not self.spends:
            return
        cost = cost_of(self.spends)
        if cost is None:
            unknown = next(s for s in self.spends if cost_of([s]) is None)
            raise UsageLimitExceeded(
                f'cost_limit={bound!r} cannot be kept: no price is known for provider {unknown.provider!r}, model '
                f'{unknown.model!r}; limit tokens or requests instead, or remove cost_limit',
                limit='cost_limit',
                budget=self,
            )
        if cost > bound or (reached and cost == bound):
            raise self._exceeded('cost_limit', bound, cost)

    def _exceeded(self, name: str, bound: object, used: object) -> UsageLimitExceeded:
        return UsageLimitExceeded(
            f'{name}={bound} is reached ({used} used); raise the limit, or set on_limit="final_answer" to get an answer '
            'from what is known',
            limit=name,
            budget=self,
        )


class ActiveCall:
    """A tool call that is running: what the runs started inside it are a part of, and where their usage is counted."""

    __slots__ = (
        'around',
        'busy',
        'children',
        'owner',
        'requests',
        'spends',
        'stopped',
        'tokens',
        'tool_call_id',
        'tool_calls',
        'waiters',
        'waits',
    )

    def __init__(self, owner: object, tool_call_id: str, around: ActiveCall | None) -> None:
        self.owner = owner
        self.tool_call_id = tool_call_id
        self.around = around
        self.children = 0
        self.stopped = False
        self.requests = 0
        self.tool_calls = 0
        self.tokens: Usage | None = None
        self.spends: list[Spend] = []
        self.busy = 0
        self.waits: tuple[Pending, ...] = ()
        self.waiters: tuple[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]], ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether this call, or one around it, was stopped: runs inside may be in threads, which nobody can stop."""
        call: ActiveCall | None = self
        while call is not None and not call.stopped:
            call = call.around
        return call is not None

    def begin(self) -> Token[tuple[ActiveCall, ...]]:
        """A run inside is driven from here on; give the token to `leave`."""
        with _lock:
            self.busy += 1
        return _driven.set((*_driven.get(), self))

    def leave(self, token: Token[tuple[ActiveCall, ...]]) -> None:
        """The run inside has ended, or waits, or is left."""
        _driven.reset(token)
        with _lock:
            self.busy -= 1
            waiters, self.waiters = self.waiters, ()
        for loop, waiter in waiters:
            loop.call_soon_threadsafe(_wake, waiter)

    def all_waits(self, pending: tuple[Pending, ...]) -> tuple[Pending, ...]:
        """What this code waits for, with what other code of the same call has been found to wait for."""
        with _lock:
            self.waits = (*self.waits, *(p for p in pending if p not in self.waits))
        return self.waits

    async def quiet(self) -> None:
        """Wait until no other run inside is driven: a wait that leaves the call now would stop those beside it.

        Runs that this code itself is a part of do not count.
        """
        mine = _driven.get().count(self)
        await asyncio.sleep(0)  # tasks that were made together with this one may not have begun yet
        while True:
            with _lock:
                if self.busy <= mine:
                    return
                loop = asyncio.get_running_loop()
                waiter: asyncio.Future[None] = loop.create_future()
                self.waiters = (*self.waiters, (loop, waiter))
            await waiter

    def count_request(self) -> None:
        """A run inside asked a model."""
        call: ActiveCall | None = self
        while call is not None:
            call.requests += 1
            call = call.around

    def count_calls(self, count: int) -> None:
        """A run inside started tool calls."""
        call: ActiveCall | None = self
        while call is not None:
            call.tool_calls += count
            call = call.around

    def count_response(self, spend: Spend) -> None:
        """A run inside got a response."""
        with _lock:
            call: ActiveCall | None = self
            while call is not None:
                call.tokens = spend.usage if call.tokens is None else call.tokens + spend.usage
                call.spends.append(spend)
                call = call.around

    def take_up(self, used: Used, *, around: bool = False) -> None:
        """Count what runs inside used in earlier attempts; with `around` for the calls around this one as well."""
        usage, spends = used
        call: ActiveCall | None = self
        while call is not None:
            tokens = replace(usage, requests=0, tool_calls=0)
            call.requests += usage.requests
            call.tool_calls += usage.tool_calls
            call.tokens = tokens if call.tokens is None else call.tokens + tokens
            call.spends.extend(spends)
            call = call.around if around else None

    def usage(self) -> Usage | None:
        """What the runs inside used; `None` if there were none."""
        if not self.requests and not self.tool_calls:
            return None
        return Usage(requests=self.requests, tool_calls=self.tool_calls) + (self.tokens or Usage())


_driven: ContextVar[tuple[ActiveCall, ...]] = ContextVar('agent_graph_driven', default=())
"""The calls inside which the current code is part of a run that is being driven."""


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
