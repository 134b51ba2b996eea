"""A question -> the body of a Converse request. Pure: nothing here touches the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_graph.errors import ConfigError, ToolDefinitionError
from agent_graph.model import ModelSettings, OutputSchema, ToolDefinition
from agent_graph.settings import check_names
from agent_graph.tools import dialects
from agent_graph.tools.names import wire_names
from agent_graph_providers.bedrock.caching import place_points
from agent_graph_providers.bedrock.families import Family
from agent_graph_providers.bedrock.thinking import thinking_fields, thinks
from agent_graph_providers.bedrock.turns import turns_of
from agent_graph_providers.wire.model import Question, merged
from agent_graph_providers.wire.offers import Offer

__all__ = ['request_body', 'tool_spec']

_INFERENCE = {
    'max_tokens': 'maxTokens',
    'temperature': 'temperature',
    'top_p': 'topP',
    'stop_sequences': 'stopSequences',
}
_ELSEWHERE = frozenset(
    {
        'top_k',
        'reasoning_effort',
        'thinking_budget',
        'builtin_tools',
        'auto_cache',
        'parallel_tool_calls',  # a hint: Converse cannot say it
        'timeout',
        'connect_timeout',
        'first_event_timeout',
        'event_timeout',
        'extra_body',
        'extra_headers',
        'tool_choice',
        'service_tier',
        'user',
    }
)
_REMEDY = "write what the model itself takes into extra_body={'additionalModelRequestFields': {...}}"


def tool_spec(tool: ToolDefinition, name: str, family: Family) -> dict[str, Any]:
    """A tool as Converse is offered it."""
    strict = bool(tool.strict) and family.strict
    dialect = dialects.DIALECTS['strict' if strict else family.dialect]
    spec: dict[str, Any] = {'name': name}
    if tool.description.strip():
        spec['description'] = tool.description
    spec['inputSchema'] = {'json': dialect(tool.parameters, tool_name=tool.name)}
    if strict:
        spec['strict'] = True
    return {'toolSpec': spec}


def request_body(question: Question, family: Family) -> dict[str, Any]:
    """The JSON body of one request, without `extra_body`.

    Raises `ConfigError` for settings that Converse or the family cannot say, `MessageError` for files it does not take,
    `ToolDefinitionError` for tools that cannot be named.
    """
    info, settings = question.info, question.settings
    offer = question.memory.take(info.tools)
    system, turns = turns_of(question.memory.each(question.messages), family)
    body: dict[str, Any] = {'messages': turns}
    _add_settings(body, settings, family)
    if info.output_schema is not None:
        text_format = _text_format(info.output_schema, family, question.name)
        body['outputConfig'] = {**body.get('outputConfig', {}), 'textFormat': text_format}
    tools, choice = _tools(question, offer, family, forced=not thinks(merged(body, settings.get('extra_body'))))
    tools = tools or _tools_spoken_of(turns, offer)
    system, tools = place_points(system, tools, turns, settings.get('auto_cache'), family)
    if system:
        body['system'] = system
    if tools:
        body['toolConfig'] = {'tools': tools, **({'toolChoice': choice} if choice else {})}
    return body


def _tools(
    question: Question, offer: Offer, family: Family, *, forced: bool
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """(tools, toolChoice). `forced`: the model can be made to call one, which thinking forbids."""
    info, builtin = question.info, question.settings.get('builtin_tools') or []
    choice = info.tool_choice
    if choice == 'none':
        return [], None
    if choice == 'auto' or not offer.wire:
        return [*offer.wire, *builtin], None
    if choice == 'required' and info.allow_text and not family.can.tool_choice:
        raise ConfigError(
            f"{question.name!r} cannot be made to call a tool; leave out tool_choice='required', or name the tools to offer"
        )
    forced = forced and family.can.tool_choice
    if isinstance(choice, tuple):
        if len(choice) == 1 and forced and not info.allow_text:
            # All tools stay, so that what the cache holds of them can be used.
            return [*offer.wire, *builtin], {'tool': {'name': offer.names.get(choice[0], choice[0])}}
        tools = [*offer.chosen(choice), *builtin]
        return tools, {'any': {}} if forced and not info.allow_text else None
    return [*offer.wire, *builtin], {'any': {}} if forced else None


def _tools_spoken_of(turns: list[dict[str, Any]], offer: Offer) -> list[dict[str, Any]]:
    """Converse refuses calls in a history without tools: the offered ones, else the names of those that were called."""
    called = {
        block['toolUse']['name']: None
        for turn in turns
        for block in turn['content']
        if 'toolUse' in block and 'type' not in block['toolUse']
    }
    if not called or offer.wire:
        return list(offer.wire) if called else []
    schema: dict[str, Any] = {'json': {'type': 'object', 'properties': {}}}
    note = 'No longer available; do not call it.'
    return [{'toolSpec': {'name': name, 'description': note, 'inputSchema': schema}} for name in called]


def _text_format(output: OutputSchema, family: Family, model: str) -> dict[str, Any]:
    if not family.can.native_output:
        raise ConfigError(
            f'{model!r} cannot hold an answer to a JSON schema; use ToolOutput or PromptedOutput instead of NativeOutput'
        )
    from agent_graph_providers.wire.jsontext import encode

    schema: dict[str, Any] = {'schema': encode(_output_schema(output)).decode()}
    schema['name'] = wire_names([output.name])[output.name]
    if output.description:
        schema['description'] = output.description
    return {'type': 'json_schema', 'structure': {'jsonSchema': schema}}


def _output_schema(output: OutputSchema) -> Mapping[str, Any]:
    """Closed objects are wanted here, so the schema is written strictly where that can be."""
    if output.strict is not False:
        try:
            return dialects.strict(output.schema, tool_name=output.name)
        except ToolDefinitionError:
            if output.strict:
                raise
    return dialects.openai(output.schema, tool_name=output.name)


def _add_settings(body: dict[str, Any], settings: ModelSettings, family: Family) -> None:
    inference: dict[str, Any] = {}
    check_names(settings, 'Bedrock', _INFERENCE, _ELSEWHERE, remedy=_REMEDY)
    for key, value in settings.items():
        if value is None:
            continue
        if key in _INFERENCE:
            inference[_INFERENCE[key]] = value
        elif key == 'service_tier':
            body['serviceTier'] = {'type': value}
        elif key == 'user':
            body['requestMetadata'] = {'user': value}
    additional, effort, least = thinking_fields(settings, family)
    if least and 'maxTokens' not in inference:
        inference['maxTokens'] = least
    if (top_k := settings.get('top_k')) is not None:
        additional = merged(additional, _top_k(top_k, family))
    if inference:
        body['inferenceConfig'] = inference
    if additional:
        body['additionalModelRequestFields'] = additional
    if effort:
        body['outputConfig'] = {'effort': effort}


def _top_k(value: int, family: Family) -> dict[str, Any]:
    if not family.top_k:
        raise ConfigError(f'models of {family.maker} have no setting top_k; leave it out')
    *outer, name = family.top_k
    out: dict[str, Any] = {name: value}
    for key in reversed(outer):
        out = {key: out}
    return out
