"""Messages, tools and settings -> the request body. Pure: nothing here touches the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from agent_graph.errors import ConfigError
from agent_graph.messages import AssistantMessage, Message, SystemMessage
from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ToolDefinition
from agent_graph.settings import check_names
from agent_graph.tools import dialects
from agent_graph.tools.names import wire_names
from agent_graph_providers.responses.items import finished
from agent_graph_providers.responses.parts import as_list, as_map
from agent_graph_providers.responses.servers import ResponsesServer
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Offer

__all__ = ['API', 'custom_arguments', 'included', 'request_body', 'tool_form']

API = 'responses'
"""What `AssistantMessage.provider_details['api']` says of a response that came through here."""

_ENCRYPTED = 'reasoning.encrypted_content'
_LOGPROBS = 'message.output_text.logprobs'

_FIELDS = {
    'max_tokens': 'max_output_tokens',
    'temperature': 'temperature',
    'top_p': 'top_p',
    'top_logprobs': 'top_logprobs',
    'parallel_tool_calls': 'parallel_tool_calls',
    'reasoning_effort': 'reasoning.effort',
    'service_tier': 'service_tier',
    'user': 'user',
}
"""The settings that are fields of the body, under their name there; a server may add to them (a dot goes one object down)."""

_ELSEWHERE = frozenset(
    {
        'timeout',
        'connect_timeout',
        'first_event_timeout',
        'event_timeout',
        'extra_body',
        'extra_headers',
        'tool_choice',
        'builtin_tools',
        'previous_response_id',
        'background',
        'logprobs',
        'auto_cache',  # a hint: servers without a mark for it cache by themselves
    }
)


def request_body(server: ResponsesServer, question: Question, *, encrypted: bool) -> dict[str, Any]:
    """The JSON body of one request; `encrypted` asks for reasoning that can be sent back.

    Raises `ConfigError` for settings that the server cannot follow, `MessageError` for content it cannot be told,
    `ToolDefinitionError` for tools that cannot be named.
    """
    info, settings = question.info, question.settings
    offer = question.memory.take(info.tools)
    body: dict[str, Any] = {'model': question.name, 'input': [], **_kept(server, settings)}
    _add_messages(body, server, question)
    if include := included(settings, encrypted=encrypted):
        body['include'] = include
    if question.stream and not settings.get('background'):
        body['stream'] = True
    if offer.wire or settings.get('builtin_tools'):
        _add_tools(body, offer, info, settings)
    if info.output_schema is not None:
        body['text'] = {'format': _format(info.output_schema, server)}
    _add_settings(body, settings, server)
    if server.cache_control and (ttl := settings.get('auto_cache')):
        body['cache_control'] = {'type': 'ephemeral', 'ttl': ttl}
    return body


def included(settings: ModelSettings, *, encrypted: bool) -> list[str]:
    """What the answer has to include beyond the usual: what is needed here, and what `extra_body` asks for."""
    ours = [_ENCRYPTED] if encrypted else []
    if settings.get('logprobs'):
        ours.append(_LOGPROBS)
    extra = (settings.get('extra_body') or {}).get('include')
    return list(dict.fromkeys([*ours, *map(str, as_list(extra))]))


def tool_form(server: ResponsesServer, tool: ToolDefinition, name: str) -> dict[str, Any]:
    """A tool as it is offered. `strict` is always said: servers hold the model to a schema when it is not."""
    dialect = dialects.DIALECTS['strict' if tool.strict else server.dialect]
    out: dict[str, Any] = {'type': 'function', 'name': name, 'strict': bool(tool.strict)}
    if tool.description:
        out['description'] = tool.description
    out['parameters'] = dialect(tool.parameters, tool_name=tool.name)
    return out


def custom_arguments(question: Question) -> dict[str, str]:
    """The tools offered as `custom` ones, by their names as sent -> their one argument.

    An entry `{'type': 'custom', 'name': ...}` of `builtin_tools` that has the name of a tool takes that tool's place: the
    model writes free text, which becomes the tool's argument. Raises `ConfigError` for a tool that has several.
    """
    out: dict[str, str] = {}
    tools = {tool.name: tool for tool in question.info.tools}
    for entry in question.settings.get('builtin_tools') or ():
        tool = tools.get(str(entry.get('name'))) if entry.get('type') == 'custom' else None
        if tool is None:
            continue
        arguments = list(as_map(tool.parameters.get('properties')))
        if len(arguments) != 1:
            raise ConfigError(
                f'the tool {tool.name!r} is offered as a custom tool but has the arguments {arguments!r}; '
                'give it one argument, of type str'
            )
        out[question.memory.offer.names.get(tool.name, tool.name)] = arguments[0]
    return out


def _kept(server: ResponsesServer, settings: ModelSettings) -> dict[str, Any]:
    """Whether the provider is to keep the response: only where something needs that, for the history has it all."""
    needed = [name for name in ('previous_response_id', 'background') if settings.get(name)]
    if needed and not server.stateful:
        raise ConfigError(f'{server.name} keeps no responses, so the setting {needed[0]!r} cannot be followed; drop it')
    fields: dict[str, Any] = {'background': True} if settings.get('background') else {}
    return {**fields, 'store': bool(needed)} if server.stateful else fields


def _add_messages(body: dict[str, Any], server: ResponsesServer, question: Question) -> None:
    messages = question.messages
    each = question.memory.each(messages)
    start, previous = _start(messages, each, question.settings.get('previous_response_id'), server)
    leading = next((i for i, m in enumerate(messages) if not isinstance(m, SystemMessage)), len(messages))
    instructions = [m.content for m in messages[:leading] if isinstance(m, SystemMessage) and m.content]
    if previous is not None:
        body['previous_response_id'] = previous
    first = start
    # The provider keeps the input with a response, but no instructions: they are said again each time.
    if server.instructions and instructions and (previous is not None or any(each[leading:])):
        body['instructions'] = '\n\n'.join(instructions)
        first = max(start, leading)
    body['input'] = finished(_flat(each[first:]), _flat(each[:first]) if first else ())


def _start(
    messages: Sequence[Message], each: Sequence[list[dict[str, Any]]], wanted: str | None, server: ResponsesServer
) -> tuple[int, str | None]:
    """Where the messages begin that have to be sent, and the response they come after."""
    if not wanted:
        return 0, None
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage) and _is_kept(message, server, wanted):
            if any(each[index + 1 :]):
                return index + 1, message.provider_response_id
            break  # nothing new is said after it
    return 0, None if wanted == 'auto' else wanted


def _is_kept(message: AssistantMessage, server: ResponsesServer, wanted: str) -> bool:
    """It is a response one can go on from."""
    if not message.provider_response_id or message.interrupted:
        return False
    if wanted != 'auto':
        return message.provider_response_id == wanted
    ours = message.provider_name == (server.provider or server.name)
    return ours and (message.provider_details or {}).get('api') == API


def _flat(each: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return list(chain.from_iterable(each))


def _add_tools(body: dict[str, Any], offer: Offer, info: RequestInfo, settings: ModelSettings) -> None:
    choice = info.tool_choice
    tools = offer.chosen(choice) if isinstance(choice, tuple) else offer.wire
    builtin = [_named(entry, offer) for entry in settings.get('builtin_tools') or ()]
    if builtin:
        places = {tool['name']: place for place, tool in enumerate(tools)}
        tools = list[Mapping[str, Any]](tools)
        for entry in builtin:
            if entry.get('type') != 'custom' or entry.get('name') not in offer.known:
                tools.append(entry)
            elif (place := places.get(entry['name'])) is not None:
                tools[place] = entry
    body['tools'] = tools
    if isinstance(choice, tuple):
        if not info.allow_text:
            # Beside tools of the provider `required` would leave the model a way out.
            named = builtin and len(choice) == 1
            body['tool_choice'] = {k: tools[0].get(k) for k in ('type', 'name')} if named else 'required'
    elif choice != 'auto':
        body['tool_choice'] = choice


def _named(entry: Mapping[str, Any], offer: Offer) -> Mapping[str, Any]:
    """A custom tool under the name that the tool it stands for is sent by."""
    name = str(entry.get('name'))
    return {**entry, 'name': offer.names[name]} if entry.get('type') == 'custom' and name in offer.names else entry


def _format(output: OutputSchema, server: ResponsesServer) -> dict[str, Any]:
    if not server.json_schema:
        raise ConfigError(
            f'{server.name} cannot hold an answer to a JSON schema; use ToolOutput or PromptedOutput instead of NativeOutput'
        )
    dialect = dialects.DIALECTS['strict' if output.strict else server.dialect]
    out: dict[str, Any] = {
        'type': 'json_schema',
        'name': wire_names([output.name])[output.name],
        'schema': dialect(output.schema, tool_name=output.name),
    }
    if output.description:
        out['description'] = output.description
    if output.strict is not None:
        out['strict'] = output.strict
    return out


def _add_settings(body: dict[str, Any], settings: ModelSettings, server: ResponsesServer) -> None:
    check_names(settings, f'the Responses API of {server.name}', _FIELDS, server.fields, _ELSEWHERE)
    for key, value in settings.items():
        path = server.fields.get(key) or _FIELDS.get(key)
        if path is None:
            continue
        if value is None or (key == 'parallel_tool_calls' and 'tools' not in body):
            continue  # without tools OpenAI refuses the field
        *outer, name = path.split('.')
        inner = body
        for step in outer:
            inner = inner.setdefault(step, {})
        inner[name] = value
