"""Messages, tools and settings -> the request body. Pure: nothing here touches the network."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from agent_graph.errors import ConfigError
from agent_graph.messages import Message
from agent_graph.messages.chat import ChatForm, message_to_openai
from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ToolDefinition
from agent_graph.settings import check_names
from agent_graph.tools import dialects
from agent_graph.tools.names import wire_names
from agent_graph_providers.openai.servers import Server
from agent_graph_providers.wire.ids import digest_of, made_of, paired
from agent_graph_providers.wire.offers import MapMessage, MapTool, Memory, Offer

__all__ = ['form_of', 'request_body', 'tool_form']

_FIELDS = {
    'max_tokens': 'max_tokens',
    'temperature': 'temperature',
    'top_p': 'top_p',
    'seed': 'seed',
    'stop_sequences': 'stop',
    'presence_penalty': 'presence_penalty',
    'frequency_penalty': 'frequency_penalty',
    'logit_bias': 'logit_bias',
    'logprobs': 'logprobs',
    'top_logprobs': 'top_logprobs',
    'parallel_tool_calls': 'parallel_tool_calls',
    'reasoning_effort': 'reasoning_effort',
    'service_tier': 'service_tier',
    'user': 'user',
    'top_k': 'top_k',
    'thinking_budget': 'thinking_budget',
}
"""The settings that are fields of the body, under their name there (a server may rename them)."""

_SHORT_ID = re.compile('[a-zA-Z0-9]{9}')

_NOT_FIELDS = frozenset(
    {
        'timeout',
        'connect_timeout',
        'first_event_timeout',
        'event_timeout',
        'extra_body',
        'extra_headers',
        'tool_choice',
        'builtin_tools',
        'auto_cache',  # the servers cache by themselves
    }
)

_RESPONSES = "use a model of 'openai-responses', or leave it out"
_INSTEAD = {'previous_response_id': _RESPONSES, 'background': _RESPONSES}
"""What to do about settings that only another protocol has words for."""


def form_of(server: Server) -> MapMessage:
    """How this server wants messages written."""
    form = ChatForm(
        provider=server.provider or server.name,
        thinking=server.thinking,
        extra_content=server.extra_content,
        refusal=server.refusal,
        strict=True,
        call_id=_call_ids(server),
        cache_control=server.cache_control,
    )
    latest: list[ChatForm] = []

    def map_message(message: Message, names: Mapping[str, str]) -> list[dict[str, Any]]:
        if not names:
            return message_to_openai(message, form)
        if not latest or latest[0].tool_names is not names:
            latest[:] = [replace(form, tool_names=names)]  # one run's names are one dict: the form is made once
        return message_to_openai(message, latest[0])

    return map_message


def _call_ids(server: Server) -> Callable[[str], str] | None:
    """Makes ids of other providers' calls such as this server takes; its own are left as they are."""
    if server.short_ids:
        return lambda given: given if _SHORT_ID.fullmatch(given) else _short_id(given)
    most = server.longest_id
    return None if most is None else lambda given: given if len(given) <= most else made_of(given)


def _short_id(given: str) -> str:
    return digest_of(given, 9)


def tool_form(server: Server) -> MapTool:
    """How this server wants tools written."""
    return lambda tool, name: _tool(tool, name, server)


def request_body(
    model: str,
    server: Server,
    memory: Memory,
    messages: Sequence[Message],
    info: RequestInfo,
    settings: ModelSettings,
    *,
    stream: bool,
) -> dict[str, Any]:
    """The JSON body of one request.

    Raises `ConfigError` for settings that do not exist or a schema the server cannot hold an answer to, `MessageError`
    for content that Chat Completions cannot say, `ToolDefinitionError` for tools that cannot be named.
    """
    offer = memory.take(info.tools)
    sent = paired(chain.from_iterable(memory.each(messages)), _short_id if server.short_ids else made_of)
    body: dict[str, Any] = {'model': model, 'messages': sent}
    if stream:
        body['stream'] = True
        if server.stream_usage:
            body['stream_options'] = {'include_usage': True}
    if offer.wire or settings.get('builtin_tools'):
        _add_tools(body, offer, info, settings)
    if info.output_schema is not None:
        body['response_format'] = _response_format(info.output_schema, server)
    _add_settings(body, settings, server)
    if server.cache_control and (ttl := settings.get('auto_cache')):
        body['cache_control'] = {'type': 'ephemeral', 'ttl': ttl}
    body.update(settings.get('extra_body') or {})
    return body


def _add_tools(body: dict[str, Any], offer: Offer, info: RequestInfo, settings: ModelSettings) -> None:
    choice = info.tool_choice
    tools = offer.chosen(choice) if isinstance(choice, tuple) else offer.wire
    body['tools'] = [*tools, *builtin] if (builtin := settings.get('builtin_tools')) else tools
    if isinstance(choice, tuple):
        if not info.allow_text:
            body['tool_choice'] = 'required'
    elif choice != 'auto':
        body['tool_choice'] = choice


def _tool(tool: ToolDefinition, name: str, server: Server) -> dict[str, Any]:
    function: dict[str, Any] = {'name': name}
    if tool.description:
        function['description'] = tool.description
    dialect = dialects.DIALECTS['strict' if tool.strict else server.dialect]
    function['parameters'] = dialect(tool.parameters, tool_name=tool.name)
    if tool.strict is not None:
        function['strict'] = tool.strict
    return {'type': 'function', 'function': function}


def _response_format(output: OutputSchema, server: Server) -> dict[str, Any]:
    if not server.json_schema:
        raise ConfigError(
            f'{server.name} cannot hold an answer to a JSON schema; use ToolOutput or PromptedOutput instead of NativeOutput'
        )
    dialect = dialects.DIALECTS['strict' if output.strict else server.dialect]
    schema: dict[str, Any] = {
        'name': wire_names([output.name])[output.name],
        'schema': dialect(output.schema, tool_name=output.name),
    }
    if output.description:
        schema['description'] = output.description
    if output.strict is not None:
        schema['strict'] = output.strict
    return {'type': 'json_schema', 'json_schema': schema}


def _add_settings(body: dict[str, Any], settings: ModelSettings, server: Server) -> None:
    check_names(settings, 'Chat Completions', _FIELDS, _NOT_FIELDS, instead=_INSTEAD)
    for key, value in settings.items():
        name = _FIELDS.get(key)
        if name is None:
            continue
        if value is None or (key == 'parallel_tool_calls' and 'tools' not in body):
            continue  # without tools OpenAI refuses the field
        _put(body, server.fields.get(name, name), value)


def _put(body: dict[str, Any], path: str, value: object) -> None:
    *outer, name = path.split('.')
    for key in outer:
        body = body.setdefault(key, {})
    body[name] = value
