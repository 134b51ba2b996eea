"""A question -> the request body. Pure: nothing here touches the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_graph.messages import AssistantMessage, Message, ToolCallPart
from agent_graph.model import ModelSettings
from agent_graph_providers.anthropic.asking import (
    check_settings,
    output_format,
    plain_fields,
    thinking_fields,
    tool_fields,
)
from agent_graph_providers.anthropic.assembly import assemble, mark_caches
from agent_graph_providers.anthropic.families import Family, family_of
from agent_graph_providers.wire.model import Question

__all__ = ['BINDING', 'COUNTED', 'request_body']

BINDING = 'thinking-binding-controls-2026-08-01'
"""The beta that lets thinking be dropped, instead of refused, when something before it has changed."""

COUNTED = frozenset({'model', 'messages', 'system', 'tools', 'tool_choice', 'thinking', 'output_config'})
"""The fields that the counting of tokens takes."""


def request_body(question: Question, provider: str) -> dict[str, Any]:
    """The JSON body of one request.

    Raises `ConfigError` for settings the API cannot say and for a schema the model's family cannot hold an answer to,
    `MessageError` for content Claude does not take, `ToolDefinitionError` for tools that cannot be offered.
    """
    info, settings, family = question.info, question.settings, family_of(question.name)
    check_settings(settings)
    offer = question.memory.take(info.tools)
    talk = assemble(question.memory.each(question.messages), system_inside=family.system_inside)
    thinking, effort = thinking_fields(settings, family, question.name)
    told = _told(settings, thinking)
    body: dict[str, Any] = {'model': question.name, **plain_fields(settings, family, told)}
    body['messages'] = talk.messages
    tools = tool_fields(offer, info, settings, forced=_can_force(family, told))
    auto = settings.get('auto_cache')
    if auto is not None or talk.marked:
        mark_caches(tools.get('tools', []), talk, auto)
    if talk.system:
        body['system'] = talk.system
    body.update(tools)
    if family.bound and (told is None or told.get('type') == 'adaptive') and _holds_thinking(talk.messages):
        thinking = _dropping(thinking)
    if thinking is not None:
        body['thinking'] = thinking
    output: dict[str, Any] = {} if effort is None else {'effort': effort}
    if info.output_schema is not None:
        output['format'] = output_format(info.output_schema, family, question.name)
    if output:
        body['output_config'] = output
    if (container := _container(question.messages, provider)) is not None:
        body['container'] = container
    if question.stream:
        body['stream'] = True
    return body


def _can_force(family: Family, told: Mapping[str, Any] | None) -> bool:
    """A call can be forced although the request says this about thinking."""
    kind = told.get('type') if told is not None else None
    return family.forced and kind != 'enabled' and (kind != 'adaptive' or family.forced_thinking)


def _told(settings: ModelSettings, thinking: dict[str, Any] | None) -> Mapping[str, Any] | None:
    """What the request says about thinking in the end: `extra_body` has the last word."""
    extra = (settings.get('extra_body') or {}).get('thinking')
    return {**(thinking or {}), **cast(Mapping[str, Any], extra)} if isinstance(extra, Mapping) else thinking


def _holds_thinking(messages: Sequence[Mapping[str, Any]]) -> bool:
    return any(
        block['type'] == 'thinking' or block['type'] == 'redacted_thinking'
        for message in messages
        if message['role'] == 'assistant'
        for block in message['content']
    )


def _dropping(thinking: dict[str, Any] | None) -> dict[str, Any]:
    """Thinking that no longer fits what is before it (other tools, other instructions) is left out, not refused."""
    return {**(thinking or {'type': 'adaptive'}), 'block_binding': {'prefix_mismatch_behavior': 'drop_block'}}


def _container(messages: Sequence[Message], provider: str) -> str | None:
    """The container whose code waits for the answers to the last calls, if it was code that made them."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            details = message.provider_details
            if message.provider_name != provider or details is None or 'container' not in details:
                return None
            by_code = any(isinstance(p, ToolCallPart) and _by_code(p.provider_details) for p in message.parts)
            return _id(details['container']) if by_code else None
    return None


def _by_code(details: Mapping[str, Any] | None) -> bool:
    caller = (details or {}).get('caller')
    return isinstance(caller, Mapping) and cast(Mapping[str, Any], caller).get('type') not in (None, 'direct')


def _id(container: Any) -> str | None:
    found = cast(Mapping[str, Any], container).get('id') if isinstance(container, Mapping) else None
    return found if isinstance(found, str) else None
