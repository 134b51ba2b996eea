"""A pretended provider on loopback, so that examples with `'openai:...'` run as they stand.

Asked by a page, it gives the page's `replies` in order. Without any left it behaves as a willing model: it calls each
function tool once, then the output tool, with the smallest arguments the schemas allow, or else answers in words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

from agent_graph.tools.sample import sample_arguments
from tests.providers.loopback import Reply, Request, in_thread, json_reply, sse_reply

__all__ = ['Provider', 'pretended']

WORDS = 'Here is a short answer.'


class Provider:
    """`url` is where it is; `replies` are given before it thinks for itself; `requests` is what it was asked."""

    def __init__(self) -> None:
        self.url = ''
        self.replies: list[Any] = []
        self.requests: list[dict[str, Any]] = []

    def answer(self, request: Request) -> Reply:
        body = request.json
        self.requests.append(body)
        message = _message(self.replies.pop(0) if self.replies else _own(body), len(self.requests))
        if body.get('stream'):
            return sse_reply(_chunks(body['model'], message))
        return json_reply(_whole(body['model'], message))


@contextmanager
def pretended() -> Generator[Provider]:
    provider = Provider()
    answer: Callable[[Request], Reply] = provider.answer
    with in_thread([answer]) as server:
        provider.url = server.url
        yield provider


def _own(body: dict[str, Any]) -> Any:
    tools = [tool['function'] for tool in body.get('tools') or () if body.get('tool_choice') != 'none']
    called = {call['function']['name'] for message in body['messages'] for call in message.get('tool_calls') or ()}
    for tool in sorted(tools, key=lambda t: t['name'].startswith('final_result')):
        if tool['name'] not in called or tool['name'].startswith('final_result'):
            return {'name': tool['name'], 'args': sample_arguments(tool['parameters'])}
    if schema := body.get('response_format', {}).get('json_schema', {}).get('schema'):
        return json.dumps(sample_arguments(schema))
    return WORDS


def _message(reply: Any, number: int) -> dict[str, Any]:
    if isinstance(reply, str):
        return {'role': 'assistant', 'content': reply}
    calls = cast('list[Any]', reply if isinstance(reply, list) else [reply])
    return {
        'role': 'assistant',
        'content': None,
        'tool_calls': [
            {
                'id': f'call_{number}_{index}',
                'type': 'function',
                'function': {'name': call['name'], 'arguments': json.dumps(call['args'])},
            }
            for index, call in enumerate(calls)
        ],
    }


def _finish(message: dict[str, Any]) -> str:
    return 'tool_calls' if message.get('tool_calls') else 'stop'


_USAGE = {'prompt_tokens': 20, 'completion_tokens': 10, 'total_tokens': 30}


def _whole(model: str, message: dict[str, Any]) -> dict[str, Any]:
    choice = {'index': 0, 'message': message, 'finish_reason': _finish(message)}
    return {
        'id': 'chatcmpl-1',
        'object': 'chat.completion',
        'created': 0,
        'model': model,
        'choices': [choice],
        'usage': _USAGE,
    }


def _chunks(model: str, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {'index': 0, 'delta': delta, 'finish_reason': finish}
        return {
            'id': 'chatcmpl-1',
            'object': 'chat.completion.chunk',
            'created': 0,
            'model': model,
            'choices': [choice],
        }

    text = message['content'] or ''
    for start in range(0, len(text), 6):
        yield chunk({'content': text[start : start + 6]})
    for index, call in enumerate(message.get('tool_calls') or ()):
        yield chunk({'tool_calls': [{'index': index, **call}]})
    yield chunk({}, _finish(message))
    yield {**chunk({}), 'choices': [], 'usage': _USAGE}
