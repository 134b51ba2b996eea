"""What tries that failed used: counted with the response that came in the end, and priced by whoever was asked then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

from agent_graph.messages import JsonValue
from agent_graph.model import ResponseBuilder
from agent_graph.usage import NO_USAGE, Usage

__all__ = ['Spent']

_NOTED = 'spent_by_others'
"""In `provider_details`: `[{'provider', 'model', 'usage': {field: count}}]`, tokens in the usage that other models used."""


class Spent:
    """Collects what failed tries of one request used. `take` it from each, `leave` it with the response."""

    __slots__ = ('_noted', '_usage')

    def __init__(self) -> None:
        self._usage = NO_USAGE
        self._noted: list[dict[str, JsonValue]] = []

    def take(self, out: ResponseBuilder) -> None:
        """A try has failed: remember what it used and who was asked, before the builder forgets it."""
        usage = out.usage
        if usage is NO_USAGE:
            return
        inner = _noted_in(out)
        own = _as_data(usage)
        for entry in inner:
            _subtract(own, cast('Mapping[str, Any]', entry['usage']))
        self._usage = self._usage + usage
        asked: dict[str, JsonValue] = {'provider': out.provider_name, 'model': out.model_name, 'usage': own}
        self._noted += [*inner, asked]

    def leave(self, out: ResponseBuilder) -> None:
        """Add it to the response, saying which of it another model used."""
        if self._usage is NO_USAGE:
            return
        out.usage = self._usage + out.usage
        asked = out.provider_name, out.model_name
        noted = [entry for entry in self._noted if (entry['provider'], entry['model']) != asked]
        if noted:
            out.provider_details = {**(out.provider_details or {}), _NOTED: [*noted, *_noted_in(out)]}


def _noted_in(out: ResponseBuilder) -> list[dict[str, JsonValue]]:
    return [*(out.provider_details or {}).get(_NOTED, ())]


def _as_data(usage: Usage) -> dict[str, JsonValue]:
    return {f.name: value for f in fields(usage) if (value := getattr(usage, f.name))}


def _subtract(own: dict[str, JsonValue], inner: Mapping[str, Any]) -> None:
    for name, value in inner.items():
        before: Any = own.get(name, {} if name == 'details' else 0)
        if name == 'details':
            own[name] = {k: v - value.get(k, 0) for k, v in before.items()}
        else:
            own[name] = before - value
