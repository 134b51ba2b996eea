"""`CohereModel` under the public suite for models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_graph.messages import TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import Model
from agent_graph.testing.model_suite import Fails, HTTPModelSuite, Reply, Says, Seen
from agent_graph_providers.cohere import CohereModel

__all__ = ['TestCohere']

_FINISH = {'stop': 'COMPLETE', 'length': 'MAX_TOKENS', 'tool_calls': 'TOOL_CALL', 'content_filter': 'ERROR_TOXIC'}


class TestCohere(HTTPModelSuite):
    def model(self, url: str, key: str) -> Model:
        return CohereModel('command-a-plus', base_url=url, api_key=key)

    def answer(self, says: Says, seen: Seen) -> Reply:
        return _streamed(says) if seen.json['stream'] else _plain(says)

    def error(self, fails: Fails) -> Reply:
        return Reply.json({'id': 'r1', 'message': fails.message})

    def names_in(self, seen: Seen) -> Sequence[str]:
        return [tool['function']['name'] for tool in seen.json.get('tools', ())]

    def ids_in(self, seen: Seen) -> tuple[Sequence[str], Sequence[str]]:
        messages = seen.json['messages']
        called = [c['id'] for m in messages for c in m.get('tool_calls', ())]
        return called, [m['tool_call_id'] for m in messages if m['role'] == 'tool']


def _plain(says: Says) -> Reply:
    content: list[dict[str, Any]] = []
    for part in says.parts:
        if isinstance(part, TextPart):
            content.append({'type': 'text', 'text': part.content})
        elif isinstance(part, ThinkingPart):
            content.append({'type': 'thinking', 'thinking': part.content})
    message: dict[str, Any] = {'role': 'assistant', 'content': content}
    if says.calls:
        message['tool_calls'] = [_call(part) for part in says.calls]
    reason = _FINISH[says.finish_reason]
    return Reply.json({'id': 'r1', 'finish_reason': reason, 'message': message, 'usage': _usage(says)})


def _streamed(says: Says) -> Reply:
    events: list[dict[str, Any]] = [{'type': 'message-start', 'id': 'r1', 'delta': {'message': {'role': 'assistant'}}}]
    for index, part in enumerate(says.parts):
        if isinstance(part, ToolCallPart):
            call = _call(part)
            args = call['function']['arguments']
            call['function']['arguments'] = ''
            events.append(_event('tool-call-start', index, {'tool_calls': call}))
            pieces: list[dict[str, Any]] = [
                {'tool_calls': {'function': {'arguments': piece}}} for piece in _pieces(args)
            ]
            events += [_event('tool-call-delta', index, piece) for piece in pieces]
            events.append({'type': 'tool-call-end', 'index': index})
            continue
        kind = 'thinking' if isinstance(part, ThinkingPart) else 'text'
        events.append(_event('content-start', index, {'content': {'type': kind, kind: ''}}))
        pieces = [{'content': {kind: piece}} for piece in _pieces(getattr(part, 'content', ''))]
        events += [_event('content-delta', index, piece) for piece in pieces]
        events.append({'type': 'content-end', 'index': index})
    end = {'finish_reason': _FINISH[says.finish_reason], 'usage': _usage(says)}
    if says.error is not None:
        end = {'finish_reason': 'ERROR', 'error': says.error}
    events.append({'type': 'message-end', 'delta': end})
    return Reply.events(events, named=[event['type'] for event in events], done='[DONE]')


def _event(kind: str, index: int, message: dict[str, Any]) -> dict[str, Any]:
    return {'type': kind, 'index': index, 'delta': {'message': message}}


def _call(part: ToolCallPart) -> dict[str, Any]:
    args = part.args if isinstance(part.args, str) else json.dumps(part.args, ensure_ascii=False)
    return {'id': part.tool_call_id, 'type': 'function', 'function': {'name': part.tool_name, 'arguments': args}}


def _pieces(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)]


def _usage(says: Says) -> dict[str, Any]:
    tokens = {'input_tokens': says.usage.input_tokens, 'output_tokens': says.usage.output_tokens}
    return {'tokens': tokens, 'billed_units': {'input_tokens': 1, 'output_tokens': 1}}
