"""Responses as a server makes them: the object, and the events that tell it piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from agent_graph.errors import ModelError
from agent_graph.messages import AssistantMessage, Message, UserMessage
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder, ToolDefinition
from agent_graph_providers.responses import ResponsesModel
from tests.providers.loopback import Loopback, Reply, Request, json_reply, sse_reply

__all__ = [
    'KEY',
    'TOOL',
    'answer',
    'ask',
    'call',
    'event_stream',
    'events_of',
    'message',
    'reasoning',
    'response',
    'sent',
    'text',
]

KEY = 'sk-marker-key-1234567890'
TOOL = ToolDefinition('f', 'Does f.', {'type': 'object', 'properties': {'x': {'type': 'integer'}}, 'required': ['x']})


async def ask(
    model: ResponsesModel, messages: Sequence[Message] = (UserMessage('hi'),), *, sink: Any = None, **info: Any
) -> AssistantMessage:
    """One request; `sink` watches it."""
    out = ResponseBuilder(sink)
    await model.respond(messages, RequestInfo(**info), out)
    await out.finish()
    return out.build()


def answer(whole: Any, *, watched: bool = False, split: int = 7, **model: Any) -> AssistantMessage | ModelError:
    """What the model makes of a response object (or of a list of events, when it is `watched`)."""

    async def drop(*_: Any, **__: Any) -> None:
        """Somebody watches, and looks away."""

    async def main() -> AssistantMessage | ModelError:
        events = cast(list[Any], whole) if isinstance(whole, list) else events_of(whole) if watched else []
        reply = sse_reply(events, split=split, done=False) if watched else json_reply(whole)
        async with Loopback([reply]) as server:
            try:
                return await ask(
                    ResponsesModel('gpt-5', base_url=server.url, api_key=KEY, **model), sink=drop if watched else None
                )
            except ModelError as error:
                return error

    return asyncio.run(main())


def sent(
    messages: Sequence[Message] = (UserMessage('hi'),),
    settings: ModelSettings | None = None,
    *,
    name: str = 'gpt-5',
    replies: Sequence[Reply | Callable[[Request], Reply]] = (),
    model: dict[str, Any] | None = None,
    **info: Any,
) -> dict[str, Any]:
    """The body of the request that is made of this."""

    async def main() -> dict[str, Any]:
        async with Loopback(replies or [json_reply(response([message('ok')]))]) as server:
            made = ResponsesModel(name, base_url=server.url, api_key=KEY, **(model or {}))
            await ask(made, messages, settings=settings or ModelSettings(), **info)
            return server.requests[0].json

    return asyncio.run(main())


def text(content: str, **fields: Any) -> dict[str, Any]:
    """A text block of a message."""
    return {'type': 'output_text', 'text': content, 'annotations': [], **fields}


def message(*blocks: dict[str, Any] | str, ident: str = 'msg_1', **fields: Any) -> dict[str, Any]:
    content = [text(block) if isinstance(block, str) else block for block in blocks]
    return {'type': 'message', 'id': ident, 'status': 'completed', 'role': 'assistant', 'content': content, **fields}


def reasoning(*summary: str, ident: str = 'rs_1', seal: str | None = 'sealed', **fields: Any) -> dict[str, Any]:
    texts = [{'type': 'summary_text', 'text': s} for s in summary]
    sealed = {'encrypted_content': seal} if seal is not None else {}
    return {'type': 'reasoning', 'id': ident, 'summary': texts, **sealed, **fields}


def call(name: str, arguments: str, call_id: str = 'call_1', *, ident: str = 'fc_1', **fields: Any) -> dict[str, Any]:
    return {
        'type': 'function_call',
        'id': ident,
        'call_id': call_id,
        'name': name,
        'arguments': arguments,
        'status': 'completed',
        **fields,
    }


def response(items: list[dict[str, Any]], *, reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """A response object; with a `reason` it is incomplete."""
    return {
        'id': 'resp_1',
        'object': 'response',
        'created_at': 1,
        'status': 'incomplete' if reason else 'completed',
        'error': None,
        'incomplete_details': {'reason': reason} if reason else None,
        'model': 'm-2025',
        'output': items,
        'store': False,
        'usage': {'input_tokens': 3, 'output_tokens': 2, 'total_tokens': 5},
        **fields,
    }


def events_of(whole: dict[str, Any], *, size: int = 5) -> list[dict[str, Any]]:
    """The events that tell this response, texts in pieces of `size` characters."""
    begun: dict[str, Any] = {**whole, 'status': 'in_progress', 'output': [], 'usage': None, 'incomplete_details': None}
    events: list[dict[str, Any]] = [
        {'type': f'response.{word}', 'response': begun} for word in ('created', 'in_progress')
    ]
    for index, item in enumerate(whole['output']):
        events += _item_events(item, index, size)
    events.append({'type': f'response.{whole["status"]}', 'response': whole})
    return [{**event, 'sequence_number': number} for number, event in enumerate(events)]


def event_stream(*items: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The events of a response with these items."""
    return events_of(response(list(items), **fields))


def _item_events(item: dict[str, Any], index: int, size: int) -> list[dict[str, Any]]:
    place = {'output_index': index, 'item_id': item.get('id')}
    empty: dict[str, Any] = {'content': [], 'summary': [], 'arguments': '', 'encrypted_content': '', 'input': ''}
    head: dict[str, Any] = {k: empty.get(k, v) for k, v in item.items()} | (
        {'status': 'in_progress'} if 'status' in item else {}
    )
    events: list[dict[str, Any]] = [{'type': 'response.output_item.added', 'output_index': index, 'item': head}]
    for number, block in enumerate(item.get('summary') or ()):
        at = {**place, 'summary_index': number}
        events += [
            {'type': 'response.reasoning_summary_part.added', 'part': {'type': 'summary_text', 'text': ''}, **at},
            *({'type': 'response.reasoning_summary_text.delta', 'delta': p, **at} for p in _cut(block['text'], size)),
            {'type': 'response.reasoning_summary_text.done', 'text': block['text'], **at},
        ]
    for number, block in enumerate(item.get('content') or ()):
        at, kind = {**place, 'content_index': number}, block['type']
        word = block.get('text', block.get('refusal', ''))
        events.append({'type': 'response.content_part.added', 'part': {**block, 'text': ''}, **at})
        events += [{'type': f'response.{kind}.delta', 'delta': p, **at} for p in _cut(word, size)]
        notes: list[Any] = block.get('annotations') or []
        word_of = 'response.output_text.annotation.added'
        for n in range(len(notes)):
            events.append({'type': word_of, 'annotation': notes[n], 'annotation_index': n, **at})
        events += [
            {'type': f'response.{kind}.done', 'text': word, **at},
            {'type': 'response.content_part.done', 'part': block, **at},
        ]
    if item['type'] == 'function_call':
        name = 'response.function_call_arguments'
        events += [{'type': f'{name}.delta', 'delta': p, **place} for p in _cut(item['arguments'], size)]
        events.append({'type': f'{name}.done', 'arguments': item['arguments'], **place})
    return [*events, {'type': 'response.output_item.done', 'output_index': index, 'item': item}]


def _cut(word: str, size: int) -> list[str]:
    return [word[at : at + size] for at in range(0, len(word), size)]
