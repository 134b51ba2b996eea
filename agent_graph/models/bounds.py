"""The arguments of models that wrap others: refused when they are made, by name, where nothing could work with them."""

from __future__ import annotations

from typing import Any, cast

from agent_graph.errors import ConfigError

__all__ = ['check', 'check_callable', 'check_flags', 'check_on', 'is_number', 'is_whole']


def is_number(value: Any) -> bool:
    """A number that can be compared: no text, no truth value, not NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def is_whole(value: Any) -> bool:
    """A whole number, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def check(good: bool, name: str, value: Any, told: str) -> None:
    """Raises `ConfigError` naming the argument; `told` says what is wrong with it and what to pass."""
    if not good:
        raise ConfigError(f'{name}={value!r} {told}')


def check_callable(**given: Any) -> None:
    """Raises `ConfigError` for an argument that is no function."""
    for name, value in given.items():
        check(callable(value), name, value, 'cannot be called; pass a function, or leave it out')


def check_flags(**given: Any) -> None:
    """Raises `ConfigError` for an argument that is neither `True` nor `False`."""
    for name, value in given.items():
        check(isinstance(value, bool), name, value, 'says neither yes nor no; pass True or False')


def check_on(on: Any) -> None:
    """Raises `ConfigError` for what does not say which errors are meant: exception types, or a function of the exception."""
    if isinstance(on, tuple):
        kinds = cast('tuple[Any, ...]', on)
        good = bool(kinds) and all(map(_is_kind, kinds))
    else:
        good = _is_kind(on) if isinstance(on, type) else callable(on)
    check(good, 'on', on, 'says no errors; pass exception types, or a function that takes the exception')


def _is_kind(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)
