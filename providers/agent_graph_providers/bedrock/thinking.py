"""How much a model is to think, said the way its family wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent_graph.errors import ConfigError
from agent_graph.model import ModelSettings
from agent_graph_providers.bedrock.families import Family

__all__ = ['thinking_fields', 'thinks']

_BUDGETS = {'minimal': 1024, 'low': 2048, 'medium': 8192, 'high': 16384, 'xhigh': 32768}
"""Tokens of reasoning for an effort, where a model is told a number."""

_LEAST_BUDGET = 1024
_ROOM = 4096
"""Tokens for the answer itself, where a budget would not leave any of a model's default."""

_THREE = {'minimal': 'low', 'xhigh': 'high'}
"""Efforts of models that know three."""


def thinks(body: Mapping[str, Any]) -> bool:
    """This request has a Claude model think, which forbids it to be made to call a tool."""
    fields = body.get('additionalModelRequestFields')
    thinking = cast(Mapping[str, Any], fields).get('thinking') if isinstance(fields, Mapping) else None
    return isinstance(thinking, Mapping) and cast(Mapping[str, Any], thinking).get('type') in ('enabled', 'adaptive')


def thinking_fields(settings: ModelSettings, family: Family) -> tuple[dict[str, Any], str | None, int]:
    """(additional fields, effort of the output, least `maxTokens` where none is set) for the settings about reasoning.

    Raises `ConfigError` for a family that cannot be told.
    """
    effort, budget = settings.get('reasoning_effort'), settings.get('thinking_budget')
    if effort is None and budget is None:
        return {}, None, 0
    off = budget == 0 or (budget is None and effort == 'none')
    match family.thinking:
        case 'budget' | 'adaptive':
            return _claude(effort, budget, family, off=off)
        case 'none':
            if off:
                return {}, None, 0
            raise _cannot('reasoning_effort' if budget is None else 'thinking_budget', family)
        case _:
            if budget is not None and not off:
                raise _cannot('thinking_budget', family)
            return _by_effort('none' if off else effort or 'none', family), None, 0


def _claude(
    effort: str | None, budget: int | None, family: Family, *, off: bool
) -> tuple[dict[str, Any], str | None, int]:
    if off:
        return {'thinking': {'type': 'disabled'}}, None, 0
    if family.thinking == 'adaptive' and budget is None:
        return {'thinking': {'type': 'adaptive'}}, {'minimal': 'low'}.get(effort or '', effort), 0
    tokens = max(_BUDGETS.get(effort or '', _LEAST_BUDGET) if budget is None else budget, _LEAST_BUDGET)
    least = tokens + _ROOM if tokens >= _ROOM else 0
    return {'thinking': {'type': 'enabled', 'budget_tokens': tokens}}, None, least


def _by_effort(effort: str, family: Family) -> dict[str, Any]:
    known = _THREE.get(effort, effort)
    if family.thinking == 'nova':
        if effort == 'none':
            return {'reasoningConfig': {'type': 'disabled'}}
        return {'reasoningConfig': {'type': 'enabled', 'maxReasoningEffort': known}}
    if family.thinking == 'effort':
        return {'reasoning_effort': effort}
    return {} if effort == 'none' else {'reasoning_config': known}


def _cannot(key: str, family: Family) -> ConfigError:
    return ConfigError(f'models of {family.maker} on Bedrock cannot be told {key}; leave it out')
