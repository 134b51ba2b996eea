"""`OpenAIModel` under the public suite for models."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agent_graph.messages import ThinkingPart, ToolCallPart
from agent_graph.model import Model
from agent_graph.testing.model_suite import HTTPModelSuite, Reply, Says, Seen, pieces
from agent_graph_providers.openai import OpenAIModel

__all__ = ['TestDeepSeek', 'TestMistral', 'TestOpenAI']


class TestOpenAI(HTTPModelSuite):
    cannot: ClassVar[Mapping[str, str]] = {'test_thinking_before_a_text': 'OpenAI shows no reasoning in this API'}

    def model(self, url: str, key: str) -> Model:
        return OpenAIModel('model-1', base_url=url, api_key=key)

    def answer(self, says: Says, seen: Seen) -> Reply:
        return _streamed(says) if seen.json.get('stream') else _plain(says)

    def names_in(self, seen: Seen) -> Sequence[str]:
        return [tool['function']['name'] for tool in seen.json.get('tools', ())]

    def ids_in(self, seen: Seen) -> tuple[Sequence[str], Sequence[str]]:
        messages = seen.json['messages']
        called = [c['id'] for m in messages for c in m.get('tool_calls') or ()]
        return called, [m['tool_call_id'] for m in messages if m['role'] == 'tool']


class TestDeepSeek(TestOpenAI):
    """A server with reasoning of its own field, which has to come back."""

    cannot: ClassVar[Mapping[str, str]] = {}

    def model(self, url: str, key: str) -> Model:
        return OpenAIModel('model-1', server='deepseek', base_url=url, api_key=key)


class TestMistral(TestOpenAI):
    """A server that takes only ids of nine letters and digits."""

    def model(self, url: str, key: str) -> Model:
        return OpenAIModel('model-1', server='mistral', base_url=url, api_key=key)

    def ids_in(self, seen: Seen) -> tuple[Sequence[str], Sequence[str]]:
        called, answered = super().ids_in(seen)
        assert all(re.fullmatch('[A-Za-z0-9]{9}', i) for i in (*called, *answered)), f'Mistral refuses one of {called}'
        return called, answered


def _plain(says: Says) -> Reply:
    thoughts = ''.join(p.content for p in says.parts if isinstance(p, ThinkingPart))
    message: dict[str, Any] = {'role': 'assistant', 'content': says.text or None}
    if thoughts:
        message['reasoning_content'] = thoughts
    if says.calls:
        message['tool_calls'] = [_call(part) for part in says.calls]
    choice = {'index': 0, 'message': message, 'finish_reason': says.finish_reason}
    return Reply.json({'id': 'r1', 'model': 'model-1-0925', 'choices': [choice], 'usage': _usage(says)})


def _streamed(says: Says) -> Reply:
    deltas: list[dict[str, Any]] = [{'role': 'assistant', 'content': ''}]
    for part in says.parts:
        if isinstance(part, ToolCallPart):
            index, call = says.calls.index(part), _call(part)
            args = call['function']['arguments']
            call['function']['arguments'] = ''
            more = [{'function': {'arguments': piece}} for piece in pieces(args)]
            deltas += [{'tool_calls': [{'index': index, **piece}]} for piece in (call, *more)]
        else:
            name = 'reasoning_content' if isinstance(part, ThinkingPart) else 'content'
            deltas += [{name: piece} for piece in pieces(getattr(part, 'content', ''))]
    events: list[dict[str, Any]] = [_event(delta) for delta in deltas]
    if says.error is not None:
        return Reply.events([*events, {'error': {'message': says.error}}])
    usage: dict[str, Any] = {**_event({}), 'choices': [], 'usage': _usage(says)}
    return Reply.events([*events, _event({}, says.finish_reason), usage], done='[DONE]')


def _event(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {'id': 'r1', 'model': 'model-1-0925', 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]}


def _call(part: ToolCallPart) -> dict[str, Any]:
    args = part.args if isinstance(part.args, str) else json.dumps(part.args, ensure_ascii=False)
    return {'id': part.tool_call_id, 'type': 'function', 'function': {'name': part.tool_name, 'arguments': args}}


def _usage(says: Says) -> dict[str, Any]:
    sent, received = says.usage.input_tokens, says.usage.output_tokens
    return {'prompt_tokens': sent, 'completion_tokens': received, 'total_tokens': sent + received}
