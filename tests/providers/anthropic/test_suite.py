"""`AnthropicModel` under the public suite for models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic_core import from_json

from agent_graph.messages import AssistantPart, FinishReason, TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import Model
from agent_graph.testing.model_suite import HTTPModelSuite, Reply, Says, Seen
from agent_graph_providers.anthropic import AnthropicModel
from tests.providers.anthropic.made import events, plain

__all__ = ['TestAnthropic']

_WORDS: Mapping[str | None, str] = {
    'stop': 'end_turn',
    'length': 'max_tokens',
    'tool_calls': 'tool_use',
    'refusal': 'refusal',
}


class TestAnthropic(HTTPModelSuite):
    finish_reasons: ClassVar[Sequence[FinishReason]] = ('stop', 'length', 'refusal')

    def model(self, url: str, key: str) -> Model:
        return AnthropicModel('claude-sonnet-4-5', base_url=url, api_key=key)

    def answer(self, says: Says, seen: Seen) -> Reply:
        blocks = [_block(part) for part in says.parts]
        stop = _WORDS.get(says.finish_reason, 'end_turn')
        usage = {'input_tokens': says.usage.input_tokens, 'output_tokens': says.usage.output_tokens}
        if not seen.json.get('stream'):
            return Reply.json(plain(*blocks, stop=stop, usage=usage))
        made = events(*blocks, stop=stop, size=7)
        made[-2]['usage'] = usage
        if says.error is not None:
            made[-2:] = [{'type': 'error', 'error': {'type': 'api_error', 'message': says.error}}]
        return Reply.events(made, named=[one['type'] for one in made])

    def names_in(self, seen: Seen) -> Sequence[str]:
        return [tool['name'] for tool in seen.json.get('tools', ())]

    def ids_in(self, seen: Seen) -> tuple[Sequence[str], Sequence[str]]:
        blocks: list[Any] = [b for m in seen.json['messages'] for b in m['content']]
        called = [b['id'] for b in blocks if b['type'] == 'tool_use']
        return called, [b['tool_use_id'] for b in blocks if b['type'] == 'tool_result']


def _block(part: AssistantPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {'type': 'text', 'text': part.content}
    if isinstance(part, ThinkingPart):
        return {'type': 'thinking', 'thinking': part.content, 'signature': part.signature or 'sealed=='}
    assert isinstance(part, ToolCallPart)
    args = part.args if isinstance(part.args, dict) else from_json(part.args or '{}', allow_partial='trailing-strings')
    return {'type': 'tool_use', 'id': part.tool_call_id, 'name': part.tool_name, 'input': args}
