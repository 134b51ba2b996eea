"""Whatever bytes come and however they are cut: a typed error or the right answer, never half a call, never a hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import ModelError
from agent_graph.messages import AssistantMessage, UserMessage
from agent_graph.model import ResponseBuilder
from agent_graph_providers.responses import messages_from_responses
from agent_graph_providers.responses.answer import Answer
from agent_graph_providers.responses.items import Form, finished, message_items
from agent_graph_providers.responses.notes import Reading
from agent_graph_providers.responses.parts import Reader
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.reading import read_answer
from tests.providers.loopback import sse_body
from tests.providers.responses.made import call, events_of, message, reasoning, response, text

ASKED = Asked('p', 'm', 'http://127.0.0.1', None, '')


class Body:
    """A response with prepared pieces."""

    def __init__(self, pieces: list[bytes], kind: str) -> None:
        self._pieces = pieces
        self.headers = {'content-type': kind}

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        for one in self._pieces:
            yield one

    async def aread(self) -> bytes:
        return b''.join(self._pieces)


def read(pieces: list[bytes], kind: str = 'text/event-stream') -> AssistantMessage | ModelError:
    async def main() -> AssistantMessage | ModelError:
        out = ResponseBuilder(provider_name='p')
        try:
            await read_answer(
                Body(pieces, kind), Answer(out, ASKED, Reading(Reader(), 'responses', '/responses')), ASKED
            )
        except ModelError as error:
            return error
        await out.finish()
        return out.build()

    return asyncio.run(main())


TEXTS = st.text(max_size=12)
ARGS = st.dictionaries(st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=6), st.none()), max_size=3)
NOTES = st.lists(
    st.just({'type': 'url_citation', 'url': 'https://e.example', 'start_index': 0, 'end_index': 1}), max_size=2
)


@st.composite
def responses(draw: st.DrawFn) -> dict[str, Any]:
    """A response with some items of the usual kinds."""
    items: list[dict[str, Any]] = []
    for n, kind in enumerate(draw(st.lists(st.sampled_from(['message', 'reasoning', 'call', 'search']), max_size=5))):
        if kind == 'message':
            blocks = [text(t, annotations=draw(NOTES)) for t in draw(st.lists(TEXTS, max_size=2))]
            items.append(message(*blocks, ident=f'msg_{n}'))
        elif kind == 'reasoning':
            items.append(reasoning(*draw(st.lists(TEXTS, max_size=2)), ident=f'rs_{n}'))
        elif kind == 'call':
            args = json.dumps(draw(ARGS), ensure_ascii=draw(st.booleans()))
            items.append(call(draw(st.sampled_from('fg')), args, f'c{n}', ident=f'fc_{n}'))
        else:
            items.append({'type': 'web_search_call', 'id': f'ws_{n}', 'action': {'query': draw(TEXTS)}})
    return response(items, reason=draw(st.sampled_from([None, None, 'max_output_tokens'])))


def pieces_of(draw: Callable[[st.SearchStrategy[set[int]]], set[int]], body: bytes) -> list[bytes]:
    cuts = sorted(draw(st.sets(st.integers(0, len(body)), max_size=12)))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def plainly(whole: dict[str, Any]) -> AssistantMessage:
    got = read([json.dumps(whole).encode()], 'application/json')
    assert isinstance(got, AssistantMessage), got
    return got


@settings(deadline=None)
@given(responses(), st.integers(1, 7), st.data())
def test_any_cut_gives_the_answer(whole: dict[str, Any], size: int, data: st.DataObject) -> None:
    assert read(pieces_of(data.draw, sse_body(events_of(whole, size=size), done=False))) == plainly(whole)


@settings(deadline=None)
@given(responses(), st.data())
def test_a_stream_cut_short_is_an_error(whole: dict[str, Any], data: st.DataObject) -> None:
    body = sse_body(events_of(whole), done=False)
    end = data.draw(st.integers(0, len(body) - 1))
    got = read(pieces_of(data.draw, body[:end]))
    if isinstance(got, AssistantMessage):
        assert got == plainly(whole)  # only the line ends were missing
        assert len(body) - end <= 2
    del got


@settings(deadline=None)
@given(responses(), st.data())
def test_events_repeated_lost_or_out_of_order(whole: dict[str, Any], data: st.DataObject) -> None:
    """Whatever happened on the way: the answer the response's end tells, or an error."""
    *events, end = events_of(whole, size=3)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(events) - 1, 0)))
        change = data.draw(st.sampled_from(['repeat', 'lose', 'move']))
        if not events:
            break
        event = events[at] if change == 'repeat' else events.pop(at)
        if change != 'lose':
            events.insert(data.draw(st.integers(0, len(events))), event)
    got = read([sse_body([*events, end], done=False)])
    if isinstance(got, AssistantMessage):
        assert got == plainly(whole)


@settings(deadline=None)
@given(responses(), st.data())
def test_a_damaged_stream_is_an_answer_or_an_error(whole: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(sse_body(events_of(whole)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    read(pieces_of(data.draw, bytes(body)))


FIELDS = st.sampled_from(
    'type output_index content_index summary_index item item_id delta id call_id name arguments response output status '
    'error content text annotations summary encrypted_content usage model role incomplete_details reason result input '
    'input_tokens input_tokens_details refusal part store'.split()
)
KINDS = st.sampled_from(
    'response.created response.output_item.added response.output_item.done response.output_text.delta error '
    'response.function_call_arguments.delta response.function_call_arguments.done response.completed response.failed '
    'response.incomplete response.reasoning_summary_text.delta message reasoning function_call custom_tool_call '
    'image_generation_call mcp_call output_text completed queued'.split()
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def typed(kind: Any, fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, 'type': kind}


EVENTS = st.builds(typed, KINDS, st.dictionaries(FIELDS, JSON, max_size=5))
ITEMS = st.builds(typed, KINDS | JSON, st.dictionaries(FIELDS, JSON, max_size=5))


@settings(deadline=None)
@given(st.lists(EVENTS | JSON, max_size=6), st.lists(ITEMS, max_size=3))
def test_json_of_any_shape_is_an_answer_or_an_error(events: list[Any], items: list[Any]) -> None:
    end = {'type': 'response.completed', 'response': response(items)}
    read([sse_body([*events, end])])
    got = read([json.dumps(response(items)).encode()], 'application/json')
    if isinstance(got, AssistantMessage):
        form = Form(provider='p')
        sent = [*message_items(UserMessage('x'), {}, form), *message_items(got, {}, form)]
        json.dumps(finished(sent))
    for event in events:
        read([json.dumps(event).encode()], 'application/json')


@settings(deadline=None)
@given(st.lists(ITEMS | JSON, max_size=4))
def test_input_of_any_shape_is_read_or_refused(items: list[Any]) -> None:
    from agent_graph.errors import MessageError

    try:
        messages = messages_from_responses({'input': items})
        json.dumps(finished([item for m in messages for item in message_items(m, {}, Form())]))
    except MessageError:
        pass


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from(['text/event-stream', 'application/json', '']))
def test_bytes_of_any_kind_are_an_answer_or_an_error(body: bytes, kind: str) -> None:
    assert isinstance(read([body], kind), AssistantMessage | ModelError)
