"""`BedrockModel` under the public suite for models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_graph.messages import TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import Model
from agent_graph.testing.model_suite import Fails, HTTPModelSuite, Reply, Says, Seen
from agent_graph_providers.bedrock import BedrockModel
from tests.providers.bedrock.server import STREAM, events, exception, said

__all__ = ['TestBedrock', 'TestMistral']

_STOP = {'stop': 'end_turn', 'length': 'max_tokens', 'tool_calls': 'tool_use', 'content_filter': 'content_filtered'}


class TestBedrock(HTTPModelSuite):
    model_id = 'us.anthropic.claude-sonnet-4-6'

    def model(self, url: str, key: str) -> Model:
        return BedrockModel(self.model_id, base_url=url, api_key=key)

    def answer(self, says: Says, seen: Seen) -> Reply:
        return _streamed(says) if seen.path.endswith('/converse-stream') else _plain(says)

    def error(self, fails: Fails) -> Reply:
        return Reply.json({'message': fails.message}, headers={'x-amzn-errortype': 'ValidationException:http://x/'})

    def names_in(self, seen: Seen) -> Sequence[str]:
        config: dict[str, Any] = seen.json.get('toolConfig') or {}
        tools: list[dict[str, Any]] = config.get('tools', [])
        return [tool['toolSpec']['name'] for tool in tools if 'toolSpec' in tool]

    def ids_in(self, seen: Seen) -> tuple[Sequence[str], Sequence[str]]:
        blocks = [b for m in seen.json['messages'] for b in m['content']]
        called = [b['toolUse']['toolUseId'] for b in blocks if 'toolUse' in b]
        return called, [b['toolResult']['toolUseId'] for b in blocks if 'toolResult' in b]


class TestMistral(TestBedrock):
    """A family that wants tool results in turns of their own."""

    model_id = 'mistral.mistral-large-3'


def _plain(says: Says) -> Reply:
    content: list[dict[str, Any]] = []
    for part in says.parts:
        if isinstance(part, TextPart):
            content.append({'text': part.content})
        elif isinstance(part, ThinkingPart):
            reasoning = {'text': part.content, **({'signature': part.signature} if part.signature else {})}
            content.append({'reasoningContent': {'reasoningText': reasoning}})
        elif isinstance(part, ToolCallPart):
            call = {'toolUseId': part.tool_call_id, 'name': part.tool_name, 'input': part.args}
            content.append({'toolUse': call})
    output = {'message': {'role': 'assistant', 'content': content}}
    return Reply.json({'output': output, 'stopReason': _STOP[says.finish_reason], 'usage': _usage(says)})


def _streamed(says: Says) -> Reply:
    blocks = [_deltas(part) for part in says.parts]
    items = said(*blocks, stop=_STOP[says.finish_reason], usage=_usage(says))
    if says.error is not None:
        data = events(items[:-2]) + exception('modelStreamErrorException', message=says.error, originalStatusCode=503)
        return Reply(data, STREAM, stream=True)
    return Reply(events(items), STREAM, stream=True)


def _deltas(part: object) -> list[Mapping[str, Any]]:
    if isinstance(part, ThinkingPart):
        signature = [{'reasoningContent': {'signature': part.signature}}] if part.signature else []
        return [*({'reasoningContent': {'text': piece}} for piece in _pieces(part.content)), *signature]
    if isinstance(part, ToolCallPart):
        args = part.args if isinstance(part.args, str) else json.dumps(part.args, ensure_ascii=False)
        start = {'start': {'toolUse': {'toolUseId': part.tool_call_id, 'name': part.tool_name}}}
        return [start, *({'toolUse': {'input': piece}} for piece in _pieces(args))]
    assert isinstance(part, TextPart)
    return [{'text': piece} for piece in _pieces(part.content)]


def _pieces(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)]


def _usage(says: Says) -> dict[str, Any]:
    sent, received = says.usage.input_tokens, says.usage.output_tokens
    return {'inputTokens': sent, 'outputTokens': received, 'totalTokens': sent + received}
