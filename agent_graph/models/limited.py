"""`LimitedModel`: waits until a request may be made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from agent_graph.errors import ConfigError
from agent_graph.messages import Message
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from agent_graph.models.counting import count_tokens, estimated
from agent_graph.models.limiter import Limiter
from agent_graph.models.wrapper import WrapperModel

__all__ = ['LimitedModel']


class LimitedModel(WrapperModel):
    """A model whose requests wait for each other: first come, first served, over all runs, threads and event loops.

    `concurrency` requests at once, `per_minute` begun and `tokens_per_minute` used within any 60 seconds; or a `limiter`
    that several models share. Tokens are estimated before a request (its input, and `max_tokens` where that is set) and
    corrected to what the response says it used. With `count='model'` the input is counted as `count_tokens` does it, which
    may be a request of its own.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        concurrency: int | None = None,
        per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        limiter: Limiter | None = None,
        count: Literal['estimate', 'model'] = 'estimate',
    ) -> None:
        super().__init__(model)
        bounds = concurrency, per_minute, tokens_per_minute
        if (limiter is None) == (bounds == (None, None, None)):
            raise ConfigError(
                f'LimitedModel got the bounds {bounds!r} and limiter={limiter!r}; '
                'pass concurrency=, per_minute= or tokens_per_minute=, or a limiter that has them'
            )
        given: Any = limiter
        if given is not None and not isinstance(given, Limiter):
            raise ConfigError(f'limiter={given!r} is none; pass a Limiter(...)')
        if count not in ('estimate', 'model'):
            raise ConfigError(f"count={count!r} is unknown; use 'estimate' or 'model'")
        self.limiter = limiter or Limiter(
            concurrency=concurrency, per_minute=per_minute, tokens_per_minute=tokens_per_minute
        )
        self._count = count

    def __repr__(self) -> str:
        return f'LimitedModel({self._wrapped!r}, limiter={self.limiter!r})'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        """Wait in line, then ask."""
        tokens = await self._expected(messages, info) if self.limiter.tokens_per_minute is not None else 0
        place = await self.limiter.enter(tokens)
        before = out.usage.total_tokens
        try:
            await self.wrapped.respond(messages, info, out)
        finally:
            used = out.usage.total_tokens - before
            self.limiter.leave(place, used if used > 0 else None)

    async def _expected(self, messages: Sequence[Message], info: RequestInfo) -> int:
        if self._count == 'model':
            tokens = (await count_tokens(self.wrapped, messages, info=info)).tokens
        else:
            tokens = estimated(messages, info)
        return tokens + (info.settings.get('max_tokens') or 0)
