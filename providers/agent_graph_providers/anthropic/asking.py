"""Settings, tools and output schema -> the fields of the body beside the conversation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_graph.errors import ConfigError
from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ToolDefinition
from agent_graph.settings import check_names
from agent_graph.tools import dialects
from agent_graph.tools.rewrite import Rewriter
from agent_graph.tools.strict import StrictForm, to_strict
from agent_graph_providers.anthropic.families import Family
from agent_graph_providers.wire.offers import Offer

__all__ = ['check_settings', 'output_format', 'plain_fields', 'thinking_fields', 'tool_fields', 'tool_form']

_FIELDS = {
    'max_tokens': 'max_tokens',
    'temperature': 'temperature',
    'top_p': 'top_p',
    'top_k': 'top_k',
    'stop_sequences': 'stop_sequences',
    'service_tier': 'service_tier',
}
"""The settings that are fields of the body, under their name there."""

_ELSEWHERE = frozenset(
    {
        'tool_choice',
        'parallel_tool_calls',
        'reasoning_effort',
        'thinking_budget',
        'user',
        'builtin_tools',
        'auto_cache',
        'timeout',
        'connect_timeout',
        'first_event_timeout',
        'event_timeout',
        'extra_body',
        'extra_headers',
    }
)
"""The settings that are used in another way."""

_MOST_ASKED = 32_000
"""The most tokens of output asked for when nothing is set, if the family gives so many."""

_LEAST_BUDGET = 1_024
_BUDGETS = {'minimal': 1_024, 'low': 4_096, 'medium': 8_192, 'high': 16_384, 'xhigh': 31_999}
"""What `reasoning_effort` means in tokens to families that are told a number."""

_CLOSED = StrictForm(
    kept=frozenset({'type', 'description', 'title', 'enum', 'const', 'default'}),
    said=tuple(
        'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern minItems maxItems '
        'uniqueItems minProperties maxProperties format'.split()
    ),
    formats=frozenset('date-time time date duration email hostname uri ipv4 ipv6 uuid'.split()),
    optional=True,
)
"""The schemas Anthropic can hold an answer or a call to."""

_EFFORTS = ('low', 'medium', 'high', 'xhigh')


def check_settings(settings: ModelSettings) -> None:
    """Raises `ConfigError` for a setting that does not exist, or that the Messages API cannot say."""
    if (auto := settings.get('auto_cache')) not in (None, '5m', '1h'):
        raise ConfigError(f"auto_cache is {auto!r}; use '5m', '1h' or None")
    check_names(settings, 'the Messages API', _FIELDS, _ELSEWHERE)


def plain_fields(settings: ModelSettings, family: Family, thinking: Mapping[str, Any] | None) -> dict[str, Any]:
    """`max_tokens`, which the API insists on, and the settings that are fields as they stand."""
    budget = thinking.get('budget_tokens') if thinking else None
    room = _MOST_ASKED + (budget if isinstance(budget, int) else 0)
    body: dict[str, Any] = {'max_tokens': min(room, family.output)}
    for key, name in _FIELDS.items():
        value = settings.get(key)
        if value is not None:
            body[name] = value
    if (user := settings.get('user')) is not None:
        body['metadata'] = {'user_id': user}
    return body


def thinking_fields(settings: ModelSettings, family: Family, model: str) -> tuple[dict[str, Any] | None, str | None]:
    """`thinking` and `output_config.effort`, `None` where nothing is said."""
    effort, budget = settings.get('reasoning_effort'), settings.get('thinking_budget')
    if effort is None and budget is None:
        return None, None
    if effort is not None and effort not in ('none', *_BUDGETS):
        raise ConfigError(f'reasoning_effort is {effort!r}; use one of {["none", *_BUDGETS]!r}')
    word = _effort(effort, family) if effort is not None and effort != 'none' else None
    if budget == 0 or (effort == 'none' and budget is None):
        return _off(family, model), word
    if family.thinking == 'none':
        raise ConfigError(f'{model!r} does not think; leave reasoning_effort and thinking_budget out')
    if budget is not None:
        return _told(budget, family, model), word
    if family.thinking == 'budget':
        return _told(_budget(cast(str, effort), settings), family, model), word
    return {'type': 'adaptive'}, word


def _effort(effort: str, family: Family) -> str | None:
    """The level itself, or the next one below that the family has; `None` where it has none."""
    if not family.efforts:
        return None
    wanted = _EFFORTS.index(effort) if effort in _EFFORTS else 0
    return next(level for level in reversed(_EFFORTS[: wanted + 1]) if level in family.efforts or level == 'low')


def _off(family: Family, model: str) -> dict[str, Any] | None:
    if family.off is None:
        raise ConfigError(f'{model!r} always thinks; set a lower reasoning_effort instead of turning it off')
    return {'type': family.off} if family.off else None


def _told(budget: int, family: Family, model: str) -> dict[str, Any]:
    if family.thinking == 'adaptive':
        raise ConfigError(f'{model!r} is not told a number of tokens for thinking; set reasoning_effort instead')
    if budget < _LEAST_BUDGET:
        raise ConfigError(
            f'thinking_budget={budget!r} is less than Claude takes, {_LEAST_BUDGET}; 0 turns thinking off'
        )
    return {'type': 'enabled', 'budget_tokens': budget}


def _budget(effort: str, settings: ModelSettings) -> int:
    """The tokens an effort stands for, at most half of what the answer may have."""
    budget, most = _BUDGETS[effort], settings.get('max_tokens')
    if most is None:
        return budget
    if most <= _LEAST_BUDGET:
        raise ConfigError(f'max_tokens={most!r} leaves no room to think; raise it above {_LEAST_BUDGET}')
    return max(_LEAST_BUDGET, min(budget, most // 2))


def tool_form(tool: ToolDefinition, name: str) -> dict[str, Any]:
    """A tool as it is offered."""
    out: dict[str, Any] = {'name': name}
    if tool.description:
        out['description'] = tool.description
    out['input_schema'] = _schema(tool.parameters, tool.name, closed=bool(tool.strict))
    if tool.strict:
        out['strict'] = True
    return out


def _schema(schema: Mapping[str, Any], name: str, *, closed: bool) -> dict[str, Any]:
    if closed:
        return to_strict(Rewriter(schema, name), _CLOSED)
    return dialects.openai(schema, tool_name=name)


def tool_fields(offer: Offer, info: RequestInfo, settings: ModelSettings, *, forced: bool) -> dict[str, Any]:
    """`tools` and `tool_choice`. Where a call cannot be `forced`, the model is left the choice; the run asks again then."""
    choice = info.tool_choice
    named = isinstance(choice, tuple)
    tools = [*(offer.chosen(choice) if named else offer.wire)]
    tools = _with_builtin(tools, offer, settings.get('builtin_tools') or ())
    if not tools:
        return {}
    how: dict[str, Any] = {'type': 'auto'}
    if choice == 'none':
        how = {'type': 'none'}
    elif (choice == 'required' or (named and not info.allow_text)) and forced:
        how = {'type': 'tool', 'name': tools[0]['name']} if named and len(choice) == 1 else {'type': 'any'}
    if settings.get('parallel_tool_calls') is False and choice != 'none':
        how['disable_parallel_tool_use'] = True
    return {'tools': tools} if how == {'type': 'auto'} else {'tools': tools, 'tool_choice': how}


def _with_builtin(
    tools: list[dict[str, Any]], offer: Offer, builtin: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The provider's tools beside ours. One without a type, named like a tool of ours, adds fields to that (`defer_loading`)."""
    ours = {tool['name']: index for index, tool in enumerate(tools)}
    out = [*tools]
    for entry in builtin:
        name = entry.get('name')
        name = offer.names.get(name, name) if isinstance(name, str) else ''
        if 'type' in entry or name not in offer.known:
            out.append(dict(entry))
        elif name in ours:
            out[ours[name]] = {**out[ours[name]], **entry, 'name': name}
    return out


def output_format(output: OutputSchema, family: Family, model: str) -> dict[str, Any]:
    """`output_config.format`. Raises `ConfigError` for a family that cannot hold an answer to a schema.

    Anthropic wants every object closed, so that form is sent unless `strict=False` says that the schema is so already.
    """
    if not family.native_output:
        raise ConfigError(
            f'{model!r} cannot hold an answer to a JSON schema; use ToolOutput or PromptedOutput instead of NativeOutput'
        )
    schema = _schema(output.schema, output.name, closed=output.strict is not False)
    if output.description and 'description' not in schema:
        schema['description'] = output.description
    return {'type': 'json_schema', 'schema': schema}
