"""Whatever bytes come and however they are cut: a typed error or the right answer, never half a call, never a hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import ModelError
from agent_graph.messages import AssistantMessage, TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import ResponseBuilder
from agent_graph_providers.openai.answer import Answer
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.reading import read_answer
from tests.providers.loopback import sse_body
from tests.providers.openai.test_model import piece, plain

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

    async def aclose(self) -> None:
        """Nothing is open."""


def read(pieces: list[bytes], kind: str = 'text/event-stream', *, tags: bool = True) -> AssistantMessage | ModelError:
    async def main() -> AssistantMessage | ModelError:
        out = ResponseBuilder()
        answer = Answer(out, ASKED, back={}, known=frozenset({'f', 'g'}), think_tags=tags)
        try:
            await read_answer(Body(pieces, kind), answer, ASKED)
        except ModelError as error:
            return error
        await out.finish()
        return out.build()

    return asyncio.run(main())


TEXTS = st.text(max_size=12)
ARGS = st.dictionaries(st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=6), st.none()), max_size=3)


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[Any], AssistantMessage]:
    """The events of a stream, and the response they mean."""
    thinking, text = draw(TEXTS), draw(TEXTS)
    calls = [
        (f'c{i}', draw(st.sampled_from('fg')), json.dumps(a)) for i, a in enumerate(draw(st.lists(ARGS, max_size=3)))
    ]
    events: list[Any] = [piece({'role': 'assistant', 'content': ''})]
    events += [piece({'reasoning': p}) for p in chopped(draw, thinking)]
    events += [piece({'content': p}) for p in chopped(draw, text)]
    for index, (call_id, name, args) in enumerate(calls):
        head = {'index': index, 'id': call_id, 'function': {'name': name, 'arguments': ''}}
        events.append(piece({'tool_calls': [head]}))
        events += [piece({'tool_calls': [{'index': index, 'function': {'arguments': p}}]}) for p in chopped(draw, args)]
    events += [piece(finish='tool_calls' if calls else 'stop'), {'choices': [], 'usage': {'prompt_tokens': 3}}]
    parts = [ThinkingPart(thinking, None, {'field': 'reasoning'})] if thinking else []
    parts += [TextPart(text)] if text else []
    parts += [ToolCallPart(name, args, call_id) for call_id, name, args in calls]
    return events, AssistantMessage(parts)


def chopped(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def pieces_of(draw: Callable[[st.SearchStrategy[set[int]]], set[int]], body: bytes) -> list[bytes]:
    cuts = sorted(draw(st.sets(st.integers(0, len(body)), max_size=12)))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


@settings(deadline=None)
@given(answers(), st.data())
def test_any_cut_gives_the_answer(made: tuple[list[Any], AssistantMessage], data: st.DataObject) -> None:
    events, want = made
    got = read(pieces_of(data.draw, sse_body(events)), tags=False)
    assert isinstance(got, AssistantMessage), got
    assert got.parts == want.parts and got.usage.input_tokens == 3


@settings(deadline=None)
@given(answers(), st.data())
def test_a_stream_cut_short_is_whole_or_an_error(made: tuple[list[Any], AssistantMessage], data: st.DataObject) -> None:
    events, want = made
    body = sse_body(events)
    end = data.draw(st.integers(0, len(body) - 1))
    got = read(pieces_of(data.draw, body[:end]), tags=False)
    if isinstance(got, AssistantMessage):
        assert got.parts == want.parts
        assert b'"finish_reason": "' in body[:end]


@settings(deadline=None)
@given(answers(), st.data())
def test_a_damaged_stream_is_an_answer_or_an_error(
    made: tuple[list[Any], AssistantMessage], data: st.DataObject
) -> None:
    body = bytearray(sse_body(made[0]))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    read(pieces_of(data.draw, bytes(body)))


FIELDS = st.sampled_from(
    'choices delta message content tool_calls function name arguments index id error usage finish_reason reasoning '
    'reasoning_details logprobs refusal type text audio images x_groq prompt_tokens'.split()
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.lists(JSON, max_size=4), JSON, JSON)
def test_json_of_any_shape_is_an_answer_or_an_error(events: list[Any], field: Any, other: Any) -> None:
    odd = [piece({'content': field, 'tool_calls': other}), piece({'reasoning_details': field, 'audio': other})]
    read([sse_body([*events, *odd, piece(finish='stop')])])
    for body in (
        *events,
        plain({'content': field, 'tool_calls': other}),
        plain({'images': field, 'refusal': other}),
        {'choices': field},
    ):
        read([json.dumps(body).encode()], 'application/json')


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from(['text/event-stream', 'application/json', '']))
def test_bytes_of_any_kind_are_an_answer_or_an_error(body: bytes, kind: str) -> None:
    assert isinstance(read([body], kind), AssistantMessage | ModelError)
