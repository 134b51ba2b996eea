"""What would not come back from the store as it was: found when it is stored, not after a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

from pydantic import BaseModel

__all__ = ['loss']


def loss(before: Any, after: Any, path: str) -> str | None:
    """Where `after`, read from what was stored of `before`, is of another type, in words; `None` if nothing is lost.

    Values that are equal, and lists and tuples of the same items, count as the same: a type may well ask for either.
    """
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return _items(cast('Sequence[Any]', before), cast('Sequence[Any]', after), path)
    return _other(before, after, path)


def _other(before: Any, after: Any, path: str) -> str | None:
    if type(before) is not type(after):
        if _equal(before, after):
            return None
        return f'{path} is {_named(before)}, and would come back as {_named(after)}'
    if isinstance(before, Mapping):
        was, now = cast('Mapping[Any, Any]', before), cast('Mapping[Any, Any]', after)
        if len(was) != len(now) or any(key not in now for key in was):
            return f'{path} has the keys {list(was)!r}, and would come back with {list(now)!r}'
        return _first(loss(value, now[key], f'{path}[{key!r}]') for key, value in was.items())
    names = _names(before)
    return _first(loss(getattr(before, n), getattr(after, n, None), f'{path}.{n}') for n in names)


def _items(before: Sequence[Any], after: Sequence[Any], path: str) -> str | None:
    if len(before) != len(after):
        return f'{path} has {len(before)} items, and would come back with {len(after)}'
    return _first(loss(b, a, f'{path}[{i}]') for i, (b, a) in enumerate(zip(before, after, strict=True)))


def _names(value: Any) -> list[str]:
    if isinstance(value, BaseModel):
        return list(type(value).model_fields)
    return [f.name for f in fields(value)] if is_dataclass(value) and not isinstance(value, type) else []


def _first(found: Any) -> str | None:
    return next((each for each in found if each is not None), None)


def _equal(before: Any, after: Any) -> bool:
    try:
        return bool(before == after)
    except Exception:  # a user's own comparison may do anything
        return False


def _named(value: Any) -> str:
    text = repr(value)
    return f'{type(value).__name__} {text if len(text) <= 80 else text[:80] + "…"}'
