"""Messages, tools and settings -> the request body. Pure: nothing here touches the network."""

from __future__ import annotations

from typing import Any

from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ToolDefinition
from agent_graph.settings import check_names
from agent_graph.tools import dialects
from agent_graph_providers.google.contents import Assembled, assembled
from agent_graph_providers.google.family import Family
from agent_graph_providers.google.thinking import thinking_config
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Offer

__all__ = ['request_body', 'tool_to_google']

_FIELDS = {
    'max_tokens': 'maxOutputTokens',
    'temperature': 'temperature',
    'top_p': 'topP',
    'top_k': 'topK',
    'seed': 'seed',
    'stop_sequences': 'stopSequences',
    'presence_penalty': 'presencePenalty',
    'frequency_penalty': 'frequencyPenalty',
    'logprobs': 'responseLogprobs',
    'top_logprobs': 'logprobs',
}
"""The settings that are fields of `generationConfig`, under their name there."""

_ELSEWHERE = frozenset(
    {
        'service_tier',
        'reasoning_effort',
        'thinking_budget',
        'tool_choice',
        'builtin_tools',
        'extra_body',
        'extra_headers',
        'timeout',
        'connect_timeout',
        'first_event_timeout',
        'event_timeout',
    }
)
_HINTS = frozenset({'auto_cache', 'parallel_tool_calls'})
"""Settings that Gemini has no word for and that ask for no more than it does anyway: it caches by itself, and calls
several functions at once as it sees fit."""

_IN_CACHE = ('systemInstruction', 'tools', 'toolConfig')
"""What a cached content holds, and a request that names one must not."""

_SHOWN = frozenset({'googleSearch', 'urlContext', 'fileSearch', 'googleMaps'})
"""Google's own tools that can be asked to show their calls."""


def request_body(question: Question, *, provider: str, family: Family, cloud: bool) -> dict[str, Any]:
    """The JSON body of one request; `cloud`: for Vertex, which differs in a few fields.

    Raises `ConfigError` for settings that cannot be said, `MessageError` for such content, `ToolDefinitionError` for tools
    that cannot be named or whose schema cannot be written.
    """
    info, settings = question.info, question.settings
    offer = question.memory.take(info.tools)
    messages = assembled(question.messages, question.memory.each(question.messages), provider=provider)
    body: dict[str, Any] = {'contents': messages.contents}
    _add_system(body, messages, family)
    if offer.wire or settings.get('builtin_tools'):
        _add_tools(body, offer, info, settings, show=family.shows_server_tools and not cloud)
    if config := _generation_config(info, settings, family):
        body['generationConfig'] = config
    if tier := settings.get('service_tier'):
        body['serviceTier'] = tier
    if (settings.get('extra_body') or {}).get('cachedContent'):
        for key in _IN_CACHE:
            body.pop(key, None)
    return body


def tool_to_google(tool: ToolDefinition, name: str) -> dict[str, Any]:
    """A function as it is declared; one without parameters has no schema."""
    schema = dialects.google(tool.parameters, tool_name=tool.name)
    declared: dict[str, Any] = {'name': name, 'description': tool.description}
    return {**declared, 'parameters': schema} if schema.get('properties') else declared


def _add_system(body: dict[str, Any], messages: Assembled, family: Family) -> None:
    if not messages.system:
        return
    if family.instructed:
        body['systemInstruction'] = {'parts': messages.system}
        return
    first, *rest = messages.contents
    if first['role'] == 'user' and 'functionResponse' not in first['parts'][0]:
        body['contents'] = [{'role': 'user', 'parts': [*messages.system, *first['parts']]}, *rest]
    else:
        body['contents'] = [{'role': 'user', 'parts': messages.system}, first, *rest]


def _add_tools(body: dict[str, Any], offer: Offer, info: RequestInfo, settings: ModelSettings, *, show: bool) -> None:
    builtin = settings.get('builtin_tools') or []
    choice = info.tool_choice
    declared = offer.wire
    config: dict[str, Any] = {}
    if isinstance(choice, tuple) and info.allow_text:
        declared = offer.chosen(choice)
    if declared:
        calling = _calling(offer, info)
        config = {'functionCallingConfig': calling} if calling else {}
    if show and any(_SHOWN & tool.keys() for tool in builtin):
        config['includeServerSideToolInvocations'] = True
    if tools := [*([{'functionDeclarations': declared}] if declared else []), *builtin]:
        body['tools'] = tools
    if config:
        body['toolConfig'] = config


def _calling(offer: Offer, info: RequestInfo) -> dict[str, Any]:
    choice = info.tool_choice
    if choice == 'none':
        return {'mode': 'NONE'}
    if choice == 'required':
        return {'mode': 'ANY'}
    if choice != 'auto' and not info.allow_text:
        return {'mode': 'ANY', 'allowedFunctionNames': [offer.names.get(name, name) for name in choice]}
    return {'mode': 'VALIDATED'} if any(tool.strict for tool in offer.tools) else {}


def _generation_config(info: RequestInfo, settings: ModelSettings, family: Family) -> dict[str, Any]:
    check_names(settings, 'Gemini', _FIELDS, _ELSEWHERE, _HINTS)
    config: dict[str, Any] = {}
    for key, value in settings.items():
        name = _FIELDS.get(key)
        if name is not None and value is not None:
            config[name] = value
    if 'logprobs' in config:
        config['responseLogprobs'] = True  # without it their number is refused
    if thinking := thinking_config(settings, family):
        config['thinkingConfig'] = thinking
    if info.output_schema is not None:
        config.update(_response_format(info.output_schema))
    return config


def _response_format(output: OutputSchema) -> dict[str, Any]:
    schema = dialects.google(output.schema, tool_name=output.name)
    if output.description and 'description' not in schema:
        schema = {**schema, 'description': output.description}
    return {'responseMimeType': 'application/json', 'responseSchema': schema}
