"""What a run used, what that cost, and what it may use at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, TypeAlias

from agent_graph.errors import ConfigError

if TYPE_CHECKING:
    from decimal import Decimal

__all__ = ['NO_USAGE', 'Spend', 'Usage', 'UsageLimits', 'Used', 'cost_of']


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of one response or of a whole run; `+` adds two.

    Tokens are the provider's own numbers. `input_tokens` includes `cache_read_tokens` and `cache_write_tokens`;
    `output_tokens` includes `reasoning_tokens`. `total_tokens` is the provider's own total where it states one, else
    input plus output. `requests` (to models) and `tool_calls` (function tools started) are counted by the engine.
    """

    requests: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    details: dict[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        if not self.total_tokens and (self.input_tokens or self.output_tokens):
            object.__setattr__(self, 'total_tokens', self.input_tokens + self.output_tokens)

    def __add__(self, other: Usage) -> Usage:
        details = self.details
        if other.details:
            details = {k: details.get(k, 0) + other.details.get(k, 0) for k in {**details, **other.details}}
        return Usage(
            self.requests + other.requests,
            self.tool_calls + other.tool_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            details,
        )


NO_USAGE = Usage()
"""Nothing used."""


@dataclass(frozen=True, slots=True)
class Spend:
    """One response's usage and who served it: what a price is looked up by.

    `others` are parts of that usage which other models used, in tries that failed.
    """

    provider: str
    model: str
    usage: Usage
    others: tuple[Spend, ...] = ()


Used: TypeAlias = tuple[Usage, tuple[Spend, ...]]
"""What some runs used together, and response by response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimits:
    """Bounds of a run, together with every agent run inside its tools. `None` means no bound.

    Requests and tool calls are reserved before they start, so parallel calls never overshoot. Tokens and cost are known
    only after a response: no request starts once a bound is reached. `cost_limit` is in USD and needs known prices; with
    an unknown one the run stops rather than guess. `time_limit` is in seconds of wall time.

    `on_limit='final_answer'` withdraws the function tools and asks once more for the answer instead of raising (within
    `request_limit`: its last request is that one). `time_limit` always raises.
    """

    request_limit: int | None = None
    tool_calls_limit: int | None = None
    input_tokens_limit: int | None = None
    output_tokens_limit: int | None = None
    total_tokens_limit: int | None = None
    cost_limit: float | None = None
    time_limit: float | None = None
    on_limit: Literal['raise', 'final_answer'] = 'raise'

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            bound = getattr(self, name)
            if name != 'on_limit' and bound is not None and not (isinstance(bound, int | float) and bound >= 0):
                raise ConfigError(f'{name}={bound!r} must be a number from 0 on, or None for no bound')
        if self.on_limit not in ('raise', 'final_answer'):
            raise ConfigError(f"on_limit={self.on_limit!r} is unknown; use 'raise' or 'final_answer'")


_FOR_AN_HOUR = ('ephemeral_1h_input_tokens', 'cache_write_1h')
"""Where `details` count the tokens written to a cache for an hour, which cost more: Anthropic's name, and Bedrock's."""


def cost_of(spends: Iterable[Spend]) -> Decimal | None:
    """The price of these responses in USD from genai-prices' offline data; `None` if any price is unknown.

    Source: the data in the installed `genai-prices` wheel; nothing is fetched. No responses cost `Decimal(0)`.
    """
    from decimal import Decimal

    total = Decimal(0)
    for part in (part for spend in spends for part in _parts(spend)):
        price = _price(part)
        if price is None:
            return None
        total += price
    return total


def _parts(spend: Spend) -> Iterable[Spend]:
    """What each model used by itself."""
    if not spend.others:
        return (spend,)
    usage = spend.usage
    for other in spend.others:
        usage = _without(usage, other.usage)
    return (Spend(spend.provider, spend.model, usage), *spend.others)


def _without(usage: Usage, part: Usage) -> Usage:
    counts = {
        f.name: max(getattr(usage, f.name) - getattr(part, f.name), 0) for f in fields(usage) if f.name != 'details'
    }
    details = {name: max(count - part.details.get(name, 0), 0) for name, count in usage.details.items()}
    return Usage(**counts, details=details)


def _price(spend: Spend) -> Decimal | None:
    if not spend.provider or not spend.model:
        return None
    # Imported late: the price table costs about a quarter of a second of CPU, and most runs are never asked their cost.
    import genai_prices

    usage = spend.usage
    written = min(max(map(usage.details.get, _FOR_AN_HOUR, (0, 0))), usage.cache_write_tokens)
    billed = usage.details.get('billed_input_tokens')  # a provider that counts more than it bills says both
    try:
        return genai_prices.calc_price(
            genai_prices.Usage(
                input_tokens=usage.input_tokens if billed is None else billed,
                output_tokens=usage.details.get('billed_output_tokens', usage.output_tokens),
                cache_read_tokens=(usage.cache_read_tokens if billed is None else 0) or None,
                cache_write_tokens=usage.cache_write_tokens or None,
                cache_write_1h_tokens=written or None,
            ),
            spend.model,
            provider_id=spend.provider,
        ).total_price
    except (LookupError, ValueError):
        return None
