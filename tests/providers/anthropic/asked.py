"""Recorded request bodies read into what a model is asked, and request bodies reduced to what they say."""

from __future__ import annotations

import json
from typing import Any, cast

from agent_graph.messages import Message
from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ToolDefinition
from agent_graph_providers.anthropic import messages_from_anthropic
from agent_graph_providers.anthropic.mapping import request_body
from agent_graph_providers.anthropic.model import MessagesWire
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Memory, Offers

__all__ = ['body_of', 'meaning', 'own_tools', 'question_of']

WIRE = MessagesWire('anthropic')

Body = dict[str, Any]


def body_of(
    messages: list[Message],
    info: RequestInfo | None = None,
    settings: ModelSettings | None = None,
    *,
    name: str = 'claude-sonnet-4-5',
    stream: bool = False,
) -> Body:
    """The body of one request, as it is made before `extra_body` is merged in."""
    memory = Memory(Offers(WIRE.map_tool), WIRE.map_message)
    return request_body(Question(name, messages, info or RequestInfo(), settings or {}, memory, stream), 'anthropic')


def own_tools(body: Body) -> list[ToolDefinition]:
    """The function tools a body offers; all others are the provider's."""
    return [
        ToolDefinition(t['name'], t.get('description') or '', t['input_schema'], t.get('strict'))
        for t in body.get('tools') or ()
        if is_function(t)
    ]


def is_function(tool: Body) -> bool:
    return tool.get('type') in (None, 'custom')


def builtin_tools(body: Body) -> list[Body]:
    """The provider's tools, and what function tools say beyond what ours can."""
    ours = ('type', 'description', 'input_schema', 'strict')
    tools: list[Body] = body.get('tools') or []
    more = [{key: value for key, value in tool.items() if key not in ours} for tool in tools if is_function(tool)]
    return [*(t for t in tools if not is_function(t)), *(entry for entry in more if len(entry) > 1)]


_SETTINGS = ('max_tokens', 'temperature', 'top_p', 'top_k', 'stop_sequences', 'service_tier')
_READ = ('model', 'messages', 'system', 'tools', 'tool_choice', 'stream')


def question_of(body: Body) -> tuple[list[Message], RequestInfo, ModelSettings]:
    """What has to be asked for such a body to be sent. Fields nothing stands for here are `extra_body`."""
    settings: Body = {key: body[key] for key in _SETTINGS if key in body}
    extra: Body = {key: value for key, value in body.items() if key not in (*_SETTINGS, *_READ)}
    if builtin := builtin_tools(body):
        settings['builtin_tools'] = builtin
    thinking: Body = dict(extra.pop('thinking', {}))
    if 'budget_tokens' in thinking:
        settings['thinking_budget'] = thinking.pop('budget_tokens')
        del thinking['type']
    if thinking:
        extra['thinking'] = thinking
    output: Body = dict(extra.pop('output_config', {}))
    form: Body | None = output.pop('format', None)
    if output:
        extra['output_config'] = output
    if extra:
        settings['extra_body'] = extra
    choice: Body = body.get('tool_choice', {})
    kinds: Body = {'any': 'required', 'none': 'none', 'tool': (choice.get('name'),)}
    kind = kinds.get(choice.get('type', ''), 'auto')
    if 'disable_parallel_tool_use' in choice:
        settings['parallel_tool_calls'] = not choice['disable_parallel_tool_use']
    schema = OutputSchema('answer', form['schema']) if form else None
    free = kind in ('auto', 'none')
    info = RequestInfo(tuple(own_tools(body)), tool_choice=kind, output_schema=schema, allow_text=free)
    return messages_from_anthropic(body), info, cast(ModelSettings, settings)


def meaning(body: Body) -> Body:
    """A body reduced to what it says: one notation for texts, neighbours of a role together, defaults left out."""
    out = {key: value for key, value in body.items() if key not in ('messages', 'system', 'tools', 'tool_choice')}
    messages: list[tuple[str, list[Body]]] = []
    for message in body['messages']:
        content = blocks(message['content'])
        if messages and messages[-1][0] == message['role']:
            messages[-1][1].extend(content)
        elif content:
            messages.append((message['role'], content))
    choice: Body | None = body.get('tool_choice')
    return {
        **out,
        'stream': bool(body.get('stream')),
        'system': blocks(body.get('system') or []),
        'messages': messages,
        'tools': sorted(json.dumps(tool_meaning(t), sort_keys=True) for t in body.get('tools') or ()),
        'tool_choice': None if choice == {'type': 'auto'} else choice,
    }


def blocks(content: Any) -> list[Body]:
    if isinstance(content, str):
        content = [{'type': 'text', 'text': content}]
    out: list[Body] = []
    for raw in content:
        block = {key: value for key, value in raw.items() if value is not None and (key, value) != ('is_error', False)}
        if 'cache_control' in block:
            block['cache_control'] = {'ttl': '5m', **block['cache_control']}
        if 'content' in block and block['type'] == 'tool_result':
            block['content'] = blocks(block['content'])
        if block['type'] != 'text' or block['text'].strip():
            out.append(block)
    return out


def tool_meaning(tool: Body) -> Body:
    kept = {key: value for key, value in tool.items() if (key, value) != ('type', 'custom')}
    out = {key: value for key, value in kept.items() if value not in (None, '', False)}
    if 'input_schema' in out:
        out['input_schema'] = {'properties': {}, **out['input_schema']}
    return out
