"""A question -> the body of a request to `/v2/chat`. Pure: nothing here touches the network."""

from __future__ import annotations

from typing import Any

from agent_graph.model import ModelSettings, ToolDefinition
from agent_graph.settings import check_names
from agent_graph.tools import dialects
from agent_graph_providers.cohere.history import history_of
from agent_graph_providers.wire.model import Question

__all__ = ['request_body', 'tool_form']

_FIELDS = {
    'max_tokens': 'max_tokens',
    'temperature': 'temperature',
    'top_p': 'p',
    'top_k': 'k',
    'seed': 'seed',
    'stop_sequences': 'stop_sequences',
    'presence_penalty': 'presence_penalty',
    'frequency_penalty': 'frequency_penalty',
    'logprobs': 'logprobs',
}
_ELSEWHERE = frozenset(
    {
        'reasoning_effort',
        'thinking_budget',
        'auto_cache',  # a hint: Cohere caches by itself
        'parallel_tool_calls',  # a hint: Cohere cannot be told
        'timeout',
        'connect_timeout',
        'first_event_timeout',
        'event_timeout',
        'extra_body',
        'extra_headers',
        'tool_choice',
    }
)
_BUDGETS = {'minimal': 512, 'low': 1024, 'medium': 4096}
"""Tokens of reasoning for an effort; more is left to the model."""


def tool_form(tool: ToolDefinition, name: str) -> dict[str, Any]:
    """A tool as Cohere is offered it."""
    parameters = dialects.plain(tool.parameters, tool_name=tool.name)
    return {'type': 'function', 'function': {'name': name, 'description': tool.description, 'parameters': parameters}}


def request_body(question: Question) -> dict[str, Any]:
    """The JSON body of one request, without `extra_body`.

    Raises `ConfigError` for settings that Cohere has not, `MessageError` for files it does not take, `ToolDefinitionError`
    for tools that cannot be named.
    """
    info, settings = question.info, question.settings
    question.memory.take(info.tools)
    messages, documents = history_of(question.memory.each(question.messages))
    body: dict[str, Any] = {'model': question.name, 'messages': messages, 'stream': question.stream}
    if documents:
        body['documents'] = documents
    if info.tools:
        _add_tools(body, question)
    if info.output_schema is not None:
        schema = dialects.plain(info.output_schema.schema, tool_name=info.output_schema.name)
        body['response_format'] = {'type': 'json_object', 'json_schema': schema}
    _add_settings(body, settings)
    return body


def _add_tools(body: dict[str, Any], question: Question) -> None:
    info, offer = question.info, question.memory.offer
    choice = info.tool_choice
    body['tools'] = offer.chosen(choice) if isinstance(choice, tuple) else offer.wire
    if choice == 'none':
        body['tool_choice'] = 'NONE'
    elif choice == 'required' or (isinstance(choice, tuple) and not info.allow_text):
        body['tool_choice'] = 'REQUIRED'
    if all(tool.strict for tool in info.tools):
        body['strict_tools'] = True


def _add_settings(body: dict[str, Any], settings: ModelSettings) -> None:
    check_names(settings, 'Cohere', _FIELDS, _ELSEWHERE)
    for key, value in settings.items():
        if key in _FIELDS and value is not None:
            body[_FIELDS[key]] = value
    effort, budget = settings.get('reasoning_effort'), settings.get('thinking_budget')
    if budget == 0 or (budget is None and effort == 'none'):
        body['thinking'] = {'type': 'disabled'}
    elif budget is not None or effort is not None:
        tokens = _BUDGETS.get(effort or '') if budget is None else budget
        body['thinking'] = {'type': 'enabled', **({'token_budget': tokens} if tokens else {})}
