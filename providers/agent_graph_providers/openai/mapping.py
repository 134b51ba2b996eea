"""Messages, tools and settings -> the request body. Pure: nothing here touches the network.

What is sent again and again is made once. `Offers` lives with the model and keeps the wire form of tools, told by identity:
an agent's tools are the same tuple in all its runs. `Memory` lives in a run's scratch space and keeps every message already
mapped, also told by identity: a run of n steps maps n messages, not n * n.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

from agent_graph.errors import ConfigError
from agent_graph.messages import AssistantMessage, Message, ToolCallPart
from agent_graph.messages.chat import ChatForm, message_to_openai
from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ToolDefinition
from agent_graph.tools import dialects
from agent_graph.tools.names import wire_names
from agent_graph_providers.openai.servers import Server

__all__ = ['Memory', 'Offer', 'Offers', 'memory_of', 'request_body']

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
}
"""The settings that are fields of the body, under their name there (a server may rename them)."""

_NOT_FIELDS = frozenset({'timeout', 'extra_body', 'extra_headers', 'tool_choice'})
_MOST_OFFERS = 16
_FINE_NAME = re.compile(r'[a-zA-Z0-9_-]{1,64}')


@dataclass(frozen=True, slots=True)
class Offer:
    """Tools as they are offered to a server."""

    tools: tuple[ToolDefinition, ...]
    wire: list[dict[str, Any]]
    names: dict[str, str]
    """The tools' own names -> names as sent, where they differ."""
    back: dict[str, str]
    """The other way round."""
    known: frozenset[str]
    """All names as sent."""


class Offers:
    """The wire forms of tools for one server, made on first use."""

    __slots__ = ('_made', '_server')

    def __init__(self, server: Server) -> None:
        self._server = server
        self._made: dict[int, Offer] = {}

    def of(self, tools: tuple[ToolDefinition, ...]) -> Offer:
        """The offer for these tools; the same object for as long as they are the same object."""
        offer = self._made.get(id(tools))
        if offer is None or offer.tools is not tools:  # the id may be that of a tuple which is gone
            if len(self._made) >= _MOST_OFFERS:
                self._made = {}  # tools that change from step to step leave one after the other behind
            offer = self._made[id(tools)] = self._make(tools)
        return offer

    def _make(self, tools: tuple[ToolDefinition, ...]) -> Offer:
        sent = wire_names([t.name for t in tools])
        names = {name: wire for name, wire in sent.items() if name != wire}
        wire = [_tool(t, sent[t.name], self._server) for t in tools]
        return Offer(tools, wire, names, {wire: name for name, wire in names.items()}, frozenset(sent.values()))


class Memory:
    """What one run has already mapped for one server."""

    __slots__ = ('_form', '_names', '_offers', '_sent', '_sources', 'offer', 'server')

    def __init__(self, server: Server, offers: Offers | None = None) -> None:
        self.server = server
        self._offers = offers or Offers(server)
        self._names: dict[str, str] = {}
        self._form = self._new_form({})
        self._sources: list[Message] = []
        self._sent: list[list[dict[str, Any]]] = []
        self.offer = self._offers.of(())

    def take(self, tools: tuple[ToolDefinition, ...]) -> Offer:
        """Offer these tools from now on."""
        if tools is not self.offer.tools:
            self.offer = offer = self._offers.of(tools)
            if offer.names != self._names:
                self._names, self._form = offer.names, self._new_form(offer.names)
                self._sources, self._sent = [], []  # they were written under the names before
        return self.offer

    def messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The wire form of a history; messages seen before at their place are not mapped again."""
        sources, sent = self._sources, self._sent
        known = len(sources)
        for index, message in enumerate(messages):
            if index < known:
                if sources[index] is not message:
                    sources[index], sent[index] = message, self._map(message)
            else:
                sources.append(message)
                sent.append(self._map(message))
        del sources[len(messages) :], sent[len(messages) :]
        return list(chain.from_iterable(sent))

    def _map(self, message: Message) -> list[dict[str, Any]]:
        if isinstance(message, AssistantMessage):
            for part in message.parts:
                if isinstance(part, ToolCallPart) and not _FINE_NAME.fullmatch(part.tool_name):
                    self._name_unknown(part.tool_name)
        return message_to_openai(message, self._form)

    def _name_unknown(self, name: str) -> None:
        """A call to something that is no tool (any more) goes back under a name the server takes."""
        names = cast(dict[str, str], self._form.tool_names)
        if name not in names:
            names[name] = wire_names([name])[name] if name.strip() else 'unnamed'

    def _new_form(self, names: Mapping[str, str]) -> ChatForm:
        server = self.server
        return ChatForm(
            tool_names=dict(names),
            provider=server.provider or server.name,
            thinking=server.thinking,
            extra_content=server.extra_content,
            refusal=server.refusal,
            strict=True,
        )


def memory_of(scratch: dict[Any, Any], server: Server, offers: Offers) -> Memory:
    """This run's memory for this server, made when it is missing."""
    key = (Memory, server.name)
    memory = scratch.get(key)
    if not isinstance(memory, Memory) or memory.server is not server:
        memory = scratch[key] = Memory(server, offers)
    return memory


def request_body(
    model: str,
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
    server = memory.server
    tools = memory.take(info.tools).wire
    body: dict[str, Any] = {'model': model, 'messages': memory.messages(messages)}
    if stream:
        body['stream'] = True
        if server.stream_usage:
            body['stream_options'] = {'include_usage': True}
    if tools:
        _add_tools(body, tools, info)
    if info.output_schema is not None:
        body['response_format'] = _response_format(info.output_schema, server)
    _add_settings(body, settings, server)
    body.update(settings.get('extra_body') or {})
    return body


def _add_tools(body: dict[str, Any], tools: list[dict[str, Any]], info: RequestInfo) -> None:
    choice = info.tool_choice
    if isinstance(choice, tuple):
        offered = [wire for wire, tool in zip(tools, info.tools, strict=True) if tool.name in choice]
        body['tools'] = offered
        if not info.allow_text:
            body['tool_choice'] = 'required'
        return
    body['tools'] = tools
    if choice != 'auto':
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
    for key, value in settings.items():
        name = _FIELDS.get(key)
        if name is None:
            if key in _NOT_FIELDS:
                continue
            raise ConfigError(
                f'there is no model setting {key!r}; use {sorted(_FIELDS)!r}, or extra_body for other fields'
            )
        if value is None or (key == 'parallel_tool_calls' and 'tools' not in body):
            continue  # without tools OpenAI refuses the field
        _put(body, server.fields.get(name, name), value)


def _put(body: dict[str, Any], path: str, value: object) -> None:
    *outer, name = path.split('.')
    for key in outer:
        body = body.setdefault(key, {})
    body[name] = value
