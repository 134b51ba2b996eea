"""A question -> the body of a request to `/api/chat`. Pure: nothing here touches the network."""

from __future__ import annotations

from typing import Any

from agent_graph.errors import ConfigError
from agent_graph.model import ModelSettings, ToolDefinition
from agent_graph.settings import check_names
from agent_graph.tools import dialects
from agent_graph_providers.ollama.history import history_of
from agent_graph_providers.wire.model import Question

__all__ = ['request_body', 'tool_form']

_OPTIONS = {
    'max_tokens': 'num_predict',
    'temperature': 'temperature',
    'top_p': 'top_p',
    'top_k': 'top_k',
    'seed': 'seed',
    'stop_sequences': 'stop',
    'presence_penalty': 'presence_penalty',
    'frequency_penalty': 'frequency_penalty',
}
"""The settings that are `options` of a request, under their name there."""

_FIELDS = frozenset({'logprobs', 'top_logprobs'})
_ELSEWHERE = frozenset(
    {
        'reasoning_effort',
        'thinking_budget',
        'auto_cache',  # a hint: Ollama keeps what it has read
        'parallel_tool_calls',  # a hint: Ollama cannot be told
        'timeout',
        'connect_timeout',
        'first_event_timeout',
        'event_timeout',
        'extra_body',
        'extra_headers',
        'tool_choice',
    }
)
_LEVELS = {'minimal': 'low', 'low': 'low', 'medium': 'medium', 'high': 'high', 'xhigh': 'high'}


def tool_form(tool: ToolDefinition, name: str) -> dict[str, Any]:
    """A tool as Ollama is offered it."""
    parameters = dialects.plain(tool.parameters, tool_name=tool.name)
    return {'type': 'function', 'function': {'name': name, 'description': tool.description, 'parameters': parameters}}


def request_body(question: Question) -> dict[str, Any]:
    """The JSON body of one request, without `extra_body`.

    Raises `ConfigError` for settings that Ollama has not, `MessageError` for files it does not take, `ToolDefinitionError`
    for tools that cannot be named.
    """
    info, settings = question.info, question.settings
    question.memory.take(info.tools)
    messages = history_of(question.memory.each(question.messages))
    body: dict[str, Any] = {'model': question.name, 'messages': messages, 'stream': question.stream}
    if tools := _tools(question):
        body['tools'] = tools
    if info.output_schema is not None:
        body['format'] = dialects.plain(info.output_schema.schema, tool_name=info.output_schema.name)
    _add_settings(body, settings)
    think = _think(settings, question.name)
    if think is not None:
        body['think'] = think
    return body


def _tools(question: Question) -> list[dict[str, Any]]:
    info, offer = question.info, question.memory.offer
    choice = info.tool_choice
    if choice == 'none':
        return []
    if choice == 'required' and info.allow_text:
        raise ConfigError("Ollama cannot make a model call a tool; leave out tool_choice='required'")
    return offer.chosen(choice) if isinstance(choice, tuple) else offer.wire


def _add_settings(body: dict[str, Any], settings: ModelSettings) -> None:
    options: dict[str, Any] = {}
    check_names(settings, 'Ollama', _OPTIONS, _FIELDS, _ELSEWHERE, remedy='use extra_body for other fields and options')
    for key, value in settings.items():
        if value is None:
            continue
        if key in _OPTIONS:
            options[_OPTIONS[key]] = value
        elif key in _FIELDS:
            body[key] = value
    if options:
        body['options'] = options


def _think(settings: ModelSettings, model: str) -> bool | str | None:
    """Whether to think: most models can only be told yes or no, gpt-oss how much."""
    effort, budget = settings.get('reasoning_effort'), settings.get('thinking_budget')
    if budget is not None and budget != 0:
        raise ConfigError(
            f'Ollama cannot be told thinking_budget={budget!r}; use reasoning_effort, or thinking_budget=0 for none'
        )
    if budget == 0 or effort == 'none':
        return False
    if effort is None:
        return None
    return _LEVELS.get(effort, effort) if 'gpt-oss' in model else True
