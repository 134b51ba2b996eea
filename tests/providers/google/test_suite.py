"""`GoogleModel` and `GoogleVertexModel` under the public suite for models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_graph.messages import TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import Model
from agent_graph.testing.model_suite import Fails, HTTPModelSuite, Reply, Says, Seen, pieces
from agent_graph_providers.google import GoogleModel, GoogleVertexModel

__all__ = ['TestGoogle', 'TestVertex']

_FINISH = {'stop': 'STOP', 'tool_calls': 'STOP', 'length': 'MAX_TOKENS', 'content_filter': 'SAFETY'}


class TestGoogle(HTTPModelSuite):
    def model(self, url: str, key: str) -> Model:
        return GoogleModel('gemini-3-flash', base_url=url, api_key=key)

    def answer(self, says: Says, seen: Seen) -> Reply:
        parts = [part for parts in map(_parts, says.parts) for part in parts]
        if 'streamGenerateContent' not in seen.path:
            whole = [_whole(part) for part in says.parts]
            return Reply.json(_piece(whole, says, _FINISH[says.finish_reason]))
        events = [_piece([part], says) for part in parts]
        if says.error is not None:
            return Reply.events([*events, {'error': {'code': 500, 'message': says.error, 'status': 'INTERNAL'}}])
        return Reply.events([*events, _piece([], says, _FINISH[says.finish_reason])])

    def error(self, fails: Fails) -> Reply:
        return Reply.json({'error': {'code': fails.status, 'message': fails.message, 'status': 'SOME_ERROR'}})

    def names_in(self, seen: Seen) -> Sequence[str]:
        return [f['name'] for tool in seen.json.get('tools', ()) for f in tool.get('functionDeclarations', ())]

    def ids_in(self, seen: Seen) -> tuple[Sequence[str], Sequence[str]]:
        parts = [part for content in seen.json['contents'] for part in content['parts']]
        called = [part['functionCall'] for part in parts if 'functionCall' in part]
        results = [part['functionResponse'] for part in parts if 'functionResponse' in part]
        return [_key(c, n) for n, c in enumerate(called)], [_key(r, n) for n, r in enumerate(results)]


class TestVertex(TestGoogle):
    def model(self, url: str, key: str) -> Model:
        return GoogleVertexModel('gemini-3-flash', base_url=url, api_key=key)


def _key(call: dict[str, Any], number: int) -> str:
    """The id the API gave, else what pairs a call with its result: its name and its place."""
    return call.get('id') or f'{call["name"]}-{number}'


def _whole(part: Any) -> dict[str, Any]:
    match part:
        case TextPart(content=text):
            return {'text': text}
        case ThinkingPart(content=text, signature=signature):
            return {'text': text, 'thought': True, **({'thoughtSignature': signature} if signature else {})}
        case ToolCallPart():
            given = {'id': part.tool_call_id} if part.tool_call_id else {}
            return {'functionCall': {**given, 'name': part.tool_name, 'args': part.args}}
        case _:
            raise AssertionError(f'{part!r} was not asked for')


def _parts(part: Any) -> list[dict[str, Any]]:
    """A part as the pieces of a stream."""
    whole = _whole(part)
    return [{**whole, 'text': piece} for piece in pieces(whole['text'])] if list(whole) == ['text'] else [whole]


def _piece(parts: list[dict[str, Any]], says: Says, finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {'content': {'role': 'model', 'parts': parts}, 'index': 0}
    sent, received = says.usage.input_tokens, says.usage.output_tokens
    usage = {'promptTokenCount': sent, 'candidatesTokenCount': received, 'totalTokenCount': sent + received}
    told = {'candidates': [{**candidate, 'finishReason': finish} if finish else candidate], 'usageMetadata': usage}
    return {**told, 'modelVersion': 'gemini-3-flash-001', 'responseId': 'r1'}
