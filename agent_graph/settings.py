"""Are these model settings of the kinds they have to be, and does the model know them? Kinds are asked before a run begins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from agent_graph.errors import ConfigError

__all__ = ['SETTINGS', 'check_names', 'check_settings', 'nearest']


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _seconds(value: Any) -> bool:
    return _number(value) and value > 0


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _list_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(isinstance(v, kind) for v in cast('list[Any]', value))


def _texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(k, str) and isinstance(v, str) for k, v in cast('Mapping[Any, Any]', value).items()
    )


_Rule = tuple[str, Callable[[Any], bool]]

_SECONDS: _Rule = 'seconds above 0', _seconds
_NUMBER: _Rule = 'a number', _number
_WHOLE: _Rule = 'a whole number', _whole
_FLAG: _Rule = 'True or False', lambda value: isinstance(value, bool)
_TEXT: _Rule = 'a text', lambda value: isinstance(value, str)
_OBJECT: _Rule = 'a dict', lambda value: isinstance(value, Mapping)

_RULES: Mapping[str, _Rule] = {
    'max_tokens': ('a whole number from 1 on', lambda value: _whole(value) and value >= 1),
    'thinking_budget': _WHOLE,
    'top_k': _WHOLE,
    'seed': _WHOLE,
    'top_logprobs': _WHOLE,
    'temperature': _NUMBER,
    'top_p': _NUMBER,
    'presence_penalty': _NUMBER,
    'frequency_penalty': _NUMBER,
    'logprobs': _FLAG,
    'parallel_tool_calls': _FLAG,
    'background': _FLAG,
    'stop_sequences': ('a list of texts', _list_of(str)),
    'builtin_tools': ("a list of dicts, each a tool as the provider's API writes it", _list_of(dict)),
    'logit_bias': _OBJECT,
    'extra_body': _OBJECT,
    'extra_headers': ('a dict of texts', _texts),
    'reasoning_effort': _TEXT,
    'service_tier': _TEXT,
    'user': _TEXT,
    'previous_response_id': _TEXT,
    'auto_cache': ("'5m', '1h' or None", lambda value: value in ('5m', '1h')),
    'timeout': _SECONDS,
    'connect_timeout': _SECONDS,
    'first_event_timeout': _SECONDS,
    'event_timeout': _SECONDS,
}


SETTINGS = frozenset({*_RULES, 'tool_choice'})
"""The names of all settings there are: the keys of `ModelSettings`."""


def check_settings(settings: Any) -> None:
    """Raises `ConfigError` naming the setting whose value is of the wrong kind; `None` stands for not set.

    Keys without a rule are left to the model: it knows what it takes.
    """
    if not isinstance(settings, Mapping):
        raise ConfigError(f"the model settings are {settings!r}; pass a dict such as {{'temperature': 0.5}}, or None")
    for name, value in cast('Mapping[str, Any]', settings).items():
        rule = _RULES.get(name)
        if rule is not None and value is not None and not rule[1](value):
            raise ConfigError(f'the model setting {name!r} is {value!r}; pass {rule[0]}')


def check_names(
    settings: Mapping[str, Any],
    who: str,
    *taken: Collection[str],
    instead: Mapping[str, str] | None = None,
    remedy: str = 'use extra_body for other fields',
) -> None:
    """Raises `ConfigError` for a setting that does not exist, or that `who` cannot follow and that asks for something.

    `taken` are the names `who` takes. `instead` says of some others what to do; `remedy` is what to do about the rest.
    """
    for name, value in settings.items():
        if any(name in names for names in taken):
            continue
        if name not in SETTINGS:
            known = sorted(set[str]().union(*taken))
            raise ConfigError(
                f'there is no model setting {name!r}{nearest(name, known)}; {who} takes {known!r}; {remedy}'
            )
        if not _is_unset(value):
            do = (instead or {}).get(name, f'leave it out, or {remedy}')
            raise ConfigError(f'{who} has no model setting {name!r} ({value!r} was set); {do}')


def nearest(name: str, known: Collection[str]) -> str:
    """` (did you mean 'max_tokens'?)` for what is nearly one of the `known` names, else nothing."""
    from difflib import get_close_matches  # not before there is an error

    near = get_close_matches(name.lower(), known, n=1)
    return f' (did you mean {near[0]!r}?)' if near else ''


def _is_unset(value: Any) -> bool:
    """It asks for nothing: the default of whatever setting it is."""
    return value is None or value is False or (isinstance(value, str | list | tuple | dict) and not value)
