"""`ResponsesModel` under the public suite for models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agent_graph.messages import ThinkingPart, ToolCallPart
from agent_graph.model import Model
from agent_graph.testing.model_suite import HTTPModelSuite, Reply, Says, Seen
from agent_graph_providers.responses import ResponsesModel
from tests.providers.responses.made import events_of, response

__all__ = ['TestDeepSeek', 'TestOpenAI']


class TestOpenAI(HTTPModelSuite):
    cannot: ClassVar[Mapping[str, str]] = {}
    server: ClassVar[str] = 'openai'

    def model(self, url: str, key: str) -> Model:
        return ResponsesModel('model-1', server=self.server, base_url=url, api_key=key)

    def answer(self, says: Says, seen: Seen) -> Reply:
        told = _response(says)
        if not seen.json.get('stream'):
            return Reply.json(told)
        events = events_of(told)
        if says.error is not None:
            events = [*events[:-1], {'type': 'error', 'code': 'server_error', 'message': says.error, 'param': None}]
        return Reply.events(events)

    def names_in(self, seen: Seen) -> Sequence[str]:
        return [tool['name'] for tool in seen.json.get('tools', ())]

    def ids_in(self, seen: Seen) -> tuple[Sequence[str], Sequence[str]]:
        items = seen.json['input']
        called = [i['call_id'] for i in items if i.get('type') == 'function_call']
        return called, [i['call_id'] for i in items if i.get('type') == 'function_call_output']


class TestDeepSeek(TestOpenAI):
    server: ClassVar[str] = 'deepseek'


def _response(says: Says) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for number, part in enumerate(says.parts):
        if isinstance(part, ThinkingPart):
            summary = [{'type': 'summary_text', 'text': part.content}]
            items.append({'type': 'reasoning', 'id': f'rs_{number}', 'summary': summary, 'encrypted_content': 'sealed'})
        elif isinstance(part, ToolCallPart):
            args = part.args if isinstance(part.args, str) else json.dumps(part.args, ensure_ascii=False)
            call = {'call_id': part.tool_call_id, 'name': part.tool_name, 'arguments': args}
            items.append({'type': 'function_call', 'id': f'fc_{number}', 'status': 'completed', **call})
        else:
            block: dict[str, Any] = {'type': 'output_text', 'text': getattr(part, 'content', ''), 'annotations': []}
            message: dict[str, Any] = {'role': 'assistant', 'status': 'completed', 'content': [block]}
            items.append({'type': 'message', 'id': f'msg_{number}', **message})
    sent, received = says.usage.input_tokens, says.usage.output_tokens
    usage = {'input_tokens': sent, 'output_tokens': received, 'total_tokens': sent + received}
    reasons = {'length': 'max_output_tokens', 'content_filter': 'content_filter'}
    return response(items, reason=reasons.get(says.finish_reason), model='model-1-0925', usage=usage)
