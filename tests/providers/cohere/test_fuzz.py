"""Whatever bytes come and however they are cut: a typed error or the right answer, never half a call, never a hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import ModelError
from agent_graph.messages import AssistantMessage, TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import ResponseBuilder
from agent_graph_providers.cohere.answer import Answer
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.reading import read_answer
from tests.providers.loopback import sse_body

ASKED = Asked('p', 'm', 'http://127.0.0.1', None, '')
END = {'type': 'message-end', 'delta': {'finish_reason': 'COMPLETE', 'usage': {'tokens': {'input_tokens': 3}}}}


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
        out = ResponseBuilder()
        try:
            await read_answer(Body(pieces, kind), Answer(out, ASKED, back={}), ASKED)
        except ModelError as error:
            return error
        await out.finish()
        return out.build()

    return asyncio.run(main())


TEXTS = st.text(max_size=12)


def message(kind: str, index: int, **fields: Any) -> dict[str, Any]:
    return {'type': kind, 'index': index, 'delta': {'message': fields}}


def chopped(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[dict[str, Any]], AssistantMessage]:
    """The events of a stream, and the response they mean."""
    events: list[dict[str, Any]] = [{'type': 'message-start', 'id': 'r'}]
    parts: list[Any] = []
    for index, kind in enumerate(('thinking', 'text')):
        if text := draw(TEXTS):
            events += [message('content-delta', index, content={kind: piece}) for piece in chopped(draw, text)]
            parts.append(ThinkingPart(text) if kind == 'thinking' else TextPart(text))
    for number, value in enumerate(draw(st.lists(TEXTS, max_size=3))):
        args = json.dumps({f'k{number}': value})
        function = {'name': 'f', 'arguments': ''}
        events.append(message('tool-call-start', number, tool_calls={'id': f'c{number}', 'function': function}))
        pieces = [{'function': {'arguments': piece}} for piece in chopped(draw, args)]
        events += [message('tool-call-delta', number, tool_calls=piece) for piece in pieces]
        events.append({'type': 'tool-call-end', 'index': number})
        parts.append(ToolCallPart('f', args, f'c{number}'))
    return [*events, END], AssistantMessage(parts)


def pieces_of(data: st.DataObject, body: bytes) -> list[bytes]:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=12)))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


@settings(deadline=None, max_examples=60)
@given(answers(), st.data())
def test_any_cut_gives_the_answer(made: tuple[list[Any], AssistantMessage], data: st.DataObject) -> None:
    got = read(pieces_of(data, sse_body(made[0])))
    assert isinstance(got, AssistantMessage), got
    assert got.parts == made[1].parts and got.usage.input_tokens == 3


@settings(deadline=None, max_examples=60)
@given(answers(), st.data())
def test_a_stream_cut_short_is_whole_or_an_error(made: tuple[list[Any], AssistantMessage], data: st.DataObject) -> None:
    body = sse_body(made[0], done=False)
    got = read(pieces_of(data, body[: data.draw(st.integers(0, len(body) - 1))]))
    if isinstance(got, AssistantMessage):
        assert got.parts == made[1].parts


@settings(deadline=None, max_examples=60)
@given(answers(), st.data())
def test_a_damaged_stream_is_an_answer_or_an_error(
    made: tuple[list[Any], AssistantMessage], data: st.DataObject
) -> None:
    body = bytearray(sse_body(made[0]))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    read(pieces_of(data, bytes(body)))


@settings(deadline=None, max_examples=80)
@given(answers(), st.data())
def test_events_lost_repeated_or_out_of_order(made: tuple[list[Any], AssistantMessage], data: st.DataObject) -> None:
    """Whatever comes of it, no call has the arguments of another."""
    items = made[0]
    order = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=len(items) + 3))
    got = read([sse_body([*(items[i] for i in order), END])])
    if isinstance(got, AssistantMessage):
        for part in got.parts:
            if isinstance(part, ToolCallPart) and isinstance(part.args, str):
                others = {f'"k{n}"' for n in range(3)} - {f'"k{part.tool_call_id[1:]}"'}
                assert not any(other in part.args for other in others)


FIELDS = st.sampled_from(
    'type index delta message content text thinking tool_calls tool_plan function name arguments id citations sources '
    'start end finish_reason usage tokens error logprobs'.split()
)
TYPES = st.sampled_from(
    'message-start content-start content-delta tool-plan-delta tool-call-start tool-call-delta tool-call-end '
    'citation-start message-end debug'.split()
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | st.text(max_size=5) | TYPES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(TYPES, JSON, JSON), max_size=6), JSON)
def test_json_of_any_shape_is_an_answer_or_an_error(items: list[tuple[str, Any, Any]], body: Any) -> None:
    events = [{'type': kind, 'index': index, 'delta': {'message': delta}} for kind, index, delta in items]
    read([sse_body([*events, END])])
    read([sse_body([body, {'type': 'message-end', 'delta': body}])])
    for plain in (body, {'message': body}, {'message': {'content': [body], 'tool_calls': [body]}, 'usage': body}):
        read([json.dumps(plain).encode()], 'application/json')


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from(['text/event-stream', 'application/json', '']))
def test_bytes_of_any_kind_are_an_answer_or_an_error(body: bytes, kind: str) -> None:
    assert isinstance(read([body], kind), AssistantMessage | ModelError)
