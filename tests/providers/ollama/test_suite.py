"""`OllamaModel` under the public suite for models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agent_graph.messages import FinishReason, TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import Model
from agent_graph.testing.model_suite import Fails, HTTPModelSuite, Reply, Says, Seen
from agent_graph_providers.ollama import OllamaModel

__all__ = ['TestOllama']


class TestOllama(HTTPModelSuite):
    finish_reasons: ClassVar[Sequence[FinishReason]] = ('stop', 'length')

    def model(self, url: str, key: str) -> Model:
        return OllamaModel('qwen3', base_url=url, api_key=key)

    def answer(self, says: Says, seen: Seen) -> Reply:
        return _streamed(says) if seen.json['stream'] else _plain(says)

    def error(self, fails: Fails) -> Reply:
        return Reply.json({'error': fails.message})

    def names_in(self, seen: Seen) -> Sequence[str]:
        return [tool['function']['name'] for tool in seen.json.get('tools', ())]

    def ids_in(self, seen: Seen) -> tuple[Sequence[str], Sequence[str]]:
        messages = seen.json['messages']
        called = [c.get('id', '') for m in messages for c in m.get('tool_calls', ())]
        return called, [m.get('tool_call_id', '') for m in messages if m['role'] == 'tool']


def _plain(says: Says) -> Reply:
    message: dict[str, Any] = {'role': 'assistant', 'content': says.text}
    if thoughts := ''.join(p.content for p in says.parts if isinstance(p, ThinkingPart)):
        message['thinking'] = thoughts
    if says.calls:
        message['tool_calls'] = [_call(part) for part in says.calls]
    return Reply.json({**_head(message), **_end(says)})


def _streamed(says: Says) -> Reply:
    items: list[Mapping[str, Any]] = []
    for part in says.parts:
        if isinstance(part, ToolCallPart):
            items.append(_head({'role': 'assistant', 'content': '', 'tool_calls': [_call(part)]}))
        elif isinstance(part, ThinkingPart):
            items += [_head({'role': 'assistant', 'content': '', 'thinking': p}) for p in _pieces(part.content)]
        elif isinstance(part, TextPart):
            items += [_head({'role': 'assistant', 'content': p}) for p in _pieces(part.content)]
    end = {**_head({'role': 'assistant', 'content': ''}), **_end(says)}
    return Reply.lines([*items, end if says.error is None else {'error': says.error}])


def _head(message: dict[str, Any]) -> dict[str, Any]:
    return {'model': 'qwen3', 'created_at': '2026-01-01T00:00:00Z', 'message': message, 'done': False}


def _end(says: Says) -> dict[str, Any]:
    reason = 'length' if says.finish_reason == 'length' else 'stop'
    counts = {'prompt_eval_count': says.usage.input_tokens, 'eval_count': says.usage.output_tokens}
    return {'done': True, 'done_reason': reason, **counts}


def _call(part: ToolCallPart) -> dict[str, Any]:
    return {'id': part.tool_call_id, 'function': {'name': part.tool_name, 'arguments': part.args}}


def _pieces(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)]
