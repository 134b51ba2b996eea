"""How long a server asks to wait before the next request: from its headers, and from the body of its error. Pure.

Besides `retry-after`, servers tell when each of their limits is free again, every one in its own way: as a duration
(`6m0s`, `20ms`), as seconds, as a time (ISO 8601, or Unix seconds or milliseconds). Such headers come with every answer, so
they count only for a request that a limit stopped, and only those of the limit that is used up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, cast

__all__ = ['wait_in', 'wait_told']

_LIMITED = frozenset({429, 503, 529})
"""Statuses that speak of limits."""

_RESET = re.compile(r'(?=.*rate-?limit)(?=.*(?<![a-z])reset(?![a-z]))')
"""`x-ratelimit-reset-requests`, `anthropic-ratelimit-input-tokens-reset`, `ratelimit-reset`, ..."""

_DURATION = re.compile(r'(?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h|d))+')
_STEP = re.compile(r'(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h|d)')
_SECONDS = {'ns': 1e-9, 'us': 1e-6, 'µs': 1e-6, 'ms': 1e-3, 's': 1.0, 'm': 60.0, 'h': 3600.0, 'd': 86400.0}

_UNIX = 1e8
"""Numbers from here on are moments, not durations: three years from now, or 1973."""

_UNIX_MS = 1e11

_IN_WORDS = re.compile(
    r'(?:try again|retry)\s+(?:in|after)\s+(\d+(?:\.\d+)?(?:ms|[smh])?(?:\d+(?:\.\d+)?(?:s|ms))?)\s*'
    r'(milliseconds?|seconds?|minutes?|hours?)?',
    re.IGNORECASE,
)
_WORDS = {'milli': 1e-3, 'secon': 1.0, 'minut': 60.0, 'hours': 3600.0, 'hour': 3600.0}


def wait_told(headers: Mapping[str, str], now: float, status: int = 429) -> float | None:
    """Seconds to wait that the headers of an error tell, at `now` in Unix seconds; `None` if they tell nothing.

    `retry-after-ms` and `retry-after` (seconds or a date) come first. Else, when `status` says that a limit was reached, the
    time until the limits that are used up are free again; where none says that it is used up, a request refused with 429 was
    too large for what is left of one that is not about requests.
    """
    told = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (('retry-after-ms', 1e-3), ('retry-after', 1.0)):
        wait = _after(told.get(name, ''), unit, now)
        if wait is not None:
            return wait
    return _until_reset(told, now, too_large=status == 429) if status in _LIMITED else None


def wait_in(body: Any) -> float | None:
    """Seconds to wait that the body of an error tells: Google's `retryDelay`, or words such as "try again in 1.2s"."""
    for fields in _objects(body):
        delay = fields.get('retryDelay')
        if isinstance(delay, str) and (wait := _duration(delay)) is not None:
            return wait
    for fields in _objects(body):
        message = fields.get('message')
        if isinstance(message, str) and (wait := _in_words(message[:2000])) is not None:
            return wait
    return _in_words(body[:2000]) if isinstance(body, str) else None


def _after(value: str, unit: float, now: float) -> float | None:
    number = _number(value)
    if number is not None:
        return max(number * unit, 0.0)
    return _until(_date(value), now)


def _until_reset(headers: Mapping[str, str], now: float, *, too_large: bool) -> float | None:
    used_up: list[float] = []
    others: list[float] = []
    for name, value in headers.items():
        if not _RESET.match(name) or (wait := _reset(value, now)) is None:
            continue
        left = _number(headers.get(name.replace('reset', 'remaining'), ''))
        if left is not None and left <= 0:
            used_up.append(wait)
        elif left is None or 'request' not in name:
            others.append(wait)
    return max(used_up or (others if too_large else ()), default=None)


def _reset(value: str, now: float) -> float | None:
    """Seconds until a limit is free again, however it is told."""
    number = _number(value)
    if number is None:
        wait = _duration(value)
        return wait if wait is not None else _until(_date(value), now)
    if number >= _UNIX_MS:
        return _until(number / 1000, now)
    return _until(number, now) if number >= _UNIX else max(number, 0.0)


def _until(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(moment - now, 0.0)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _duration(value: str) -> float | None:
    """`1s`, `6m0s`, `2m59.56s`, `20ms`: as Go writes durations."""
    if not _DURATION.fullmatch(value):
        return None
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _STEP.findall(value))
    return seconds if isfinite(seconds) else None


def _date(value: str) -> float | None:
    """Unix seconds of an ISO time, or of a date as HTTP writes it; without a zone it is UTC."""
    if not value[:1].isalnum():
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        from email.utils import parsedate_to_datetime  # seldom needed

        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, IndexError):
            return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, ValueError):
        return None


def _objects(body: Any, depth: int = 6) -> Iterator[Mapping[str, Any]]:
    """Every JSON object in an error, the outer ones first."""
    if depth and isinstance(body, Mapping):
        fields = cast(Mapping[str, Any], body)
        yield fields
        for value in fields.values():
            yield from _objects(value, depth - 1)
    elif depth and isinstance(body, Sequence) and not isinstance(body, str | bytes):
        for value in cast(Sequence[Any], body):
            yield from _objects(value, depth - 1)


def _in_words(message: str) -> float | None:
    found = _IN_WORDS.search(message)
    if found is None:
        return None
    amount, word = found.groups()
    number = _number(amount)
    if number is None:
        return _duration(amount)
    return number * _WORDS[word.lower()[:5]] if word else None
