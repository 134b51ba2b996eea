"""How much a model is to think: levels for Gemini 3 and later, a number of tokens before that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_graph.errors import ConfigError
from agent_graph.model import ModelSettings
from agent_graph_providers.google.family import Family

__all__ = ['thinking_config']

_LEVELS: Mapping[str, str] = {
    'none': 'MINIMAL',
    'minimal': 'MINIMAL',
    'low': 'LOW',
    'medium': 'MEDIUM',
    'high': 'HIGH',
    'xhigh': 'HIGH',
}
_BUDGETS: Mapping[str, int] = {
    'none': 0,
    'minimal': 1024,
    'low': 1024,
    'medium': 8192,
    'high': 24576,
    'xhigh': 24576,
}
"""Tokens for each effort, as Google's own OpenAI-compatible endpoint has them."""

_LEAST_PRO = 128
_MOST_PRO = 32768


def thinking_config(settings: ModelSettings, family: Family) -> dict[str, Any]:
    """The `thinkingConfig` for `thinking_budget`, or for `reasoning_effort` where there is none; empty for neither.

    The models called pro cannot stop thinking: they are asked for the least there is. What they think is shown whenever
    they were asked to think. Raises `ConfigError` for an effort that is none.
    """
    budget, effort = settings.get('thinking_budget'), settings.get('reasoning_effort')
    if not family.thinks and (budget == 0 or (budget is None and effort == 'none')):
        return {}  # it does not anyway, and may not know the field
    if budget is not None:
        return {'thinkingBudget': budget, 'includeThoughts': True} if budget else {'thinkingBudget': 0}
    if effort is None:
        return {}
    if effort not in _LEVELS:
        raise ConfigError(f'reasoning_effort={effort!r} is none of {list(_LEVELS)!r}; use one of them')
    shown = {'includeThoughts': True} if effort != 'none' else {}
    if family.levels:
        level = _LEVELS[effort]
        return {'thinkingLevel': 'LOW' if family.pro and level == 'MINIMAL' else level, **shown}
    return {'thinkingBudget': _budget(effort, family), **shown}


def _budget(effort: str, family: Family) -> int:
    if family.pro and effort == 'none':
        return _LEAST_PRO
    return _MOST_PRO if family.pro and effort == 'xhigh' else _BUDGETS[effort]
