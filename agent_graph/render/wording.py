"""Putting numbers, calls and values into the few words a picture has room for."""

from __future__ import annotations

from decimal import Decimal

from agent_graph.messages import JsonValue
from agent_graph.pending import Pending, PendingKind
from agent_graph.usage import Usage

__all__ = [
    'call_text',
    'cost_text',
    'fields_text',
    'seconds_text',
    'short',
    'tokens_text',
    'value_text',
    'waiting_text',
]

_WAITS: dict[PendingKind, str] = {
    'approval': 'waits for approval',
    'external': 'waits for its result',
    'question': 'waits for an answer',
    'crash': 'was cut off by a crash; waits for a decision',
}


def short(text: str, limit: int = 60) -> str:
    """`text` on one line, of `limit` characters at most."""
    flat = ' '.join(text[: 8 * limit].split())  # a text of megabytes is not walked to its end
    return flat if len(flat) <= limit and len(text) <= 8 * limit else flat[: limit - 1].rstrip() + '…'


def value_text(value: JsonValue, limit: int = 60) -> str:
    """A JSON value as it reads best: texts bare, everything else as Python writes it."""
    return short(value if isinstance(value, str) else repr(value), limit)


def call_text(name: str, args: JsonValue, limit: int = 72) -> str:
    """A tool call as code: `lookup(city='Paris', days=3)`."""
    if isinstance(args, dict):
        return short(f'{name}({fields_text(args, 8 * limit)})', limit)
    return short(f'{name}({"" if args in (None, "") else value_text(args, limit)})', limit)


def fields_text(fields: dict[str, JsonValue], limit: int = 60) -> str:
    """Named values as in a call: `city='Paris', days=3`."""
    return short(', '.join(f'{key}={_argument(value)}' for key, value in fields.items()), limit)


def waiting_text(pending: Pending, limit: int = 40) -> str:
    """What a call waits for: `waits for approval: Really?`."""
    question = f': {short(pending.question, limit)}' if pending.question else ''
    return f'{_WAITS[pending.reason]}{question}'


def seconds_text(seconds: float) -> str:
    """A duration: `0.4 ms`, `12 ms`, `1.24 s`, `3 min 5 s`."""
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f'{minutes} min {rest} s'
    if seconds >= 0.9995:
        return f'{seconds:.2f} s'
    return f'{seconds * 1000:.0f} ms' if seconds >= 0.00995 else f'{seconds * 1000:.1f} ms'


def tokens_text(usage: Usage) -> str:
    """Tokens in and out: `120 + 30 tokens`; empty when the model reported none."""
    if not usage.input_tokens and not usage.output_tokens:
        return f'{usage.total_tokens} tokens' if usage.total_tokens else ''
    return f'{usage.input_tokens:,} + {usage.output_tokens:,} tokens'


def cost_text(cost: Decimal | None) -> str:
    """A price in USD: `$1.23`, `$0.00042` (two figures when small); empty when unknown."""
    if cost is None:
        return ''
    if cost == 0 or cost >= Decimal('0.1'):
        return f'${cost:.2f}'
    places = 1 - cost.adjusted()
    return f'${cost:.{places}f}'


def _argument(value: JsonValue) -> str:
    return repr(value[:200]) if isinstance(value, str) else repr(value)
