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
from agent_graph_providers.bedrock.answer import Answer
from agent_graph_providers.bedrock.eventstream import EventStream
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.reading import read_answer
from tests.providers.bedrock.server import STREAM, events, said

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


def read(pieces: list[bytes], kind: str = STREAM) -> AssistantMessage | ModelError:
    async def main() -> AssistantMessage | ModelError:
        out = ResponseBuilder()
        try:
            await read_answer(
                Body(pieces, kind), Answer(out, ASKED, back={}), ASKED, framings={'eventstream': EventStream}
            )
        except ModelError as error:
            return error
        await out.finish()
        return out.build()

    return asyncio.run(main())


TEXTS = st.text(max_size=12)
ARGS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=6), st.none()), max_size=3
)


def chopped(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[dict[str, Any]], AssistantMessage]:
    """The events of a stream, and the response they mean."""
    blocks: list[list[dict[str, Any]]] = []
    parts: list[Any] = []
    if thinking := draw(TEXTS):
        seal = draw(st.text('abc=', min_size=1, max_size=5))
        deltas: list[dict[str, Any]] = [{'reasoningContent': {'text': p}} for p in chopped(draw, thinking)]
        blocks.append([*deltas, {'reasoningContent': {'signature': seal}}])
        parts.append(ThinkingPart(thinking, seal))
    if text := draw(TEXTS):
        blocks.append([{'text': p} for p in chopped(draw, text)])
        parts.append(TextPart(text))
    for number, args in enumerate(draw(st.lists(ARGS, max_size=3))):
        start = {'start': {'toolUse': {'toolUseId': f'c{number}', 'name': 'f'}}}
        blocks.append([start, *({'toolUse': {'input': p}} for p in chopped(draw, json.dumps(args)))])
        parts.append(ToolCallPart('f', args, f'c{number}'))
    return said(*blocks), AssistantMessage(parts)


def pieces_of(data: st.DataObject, body: bytes) -> list[bytes]:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=12)))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


@settings(deadline=None, max_examples=60)
@given(answers(), st.data())
def test_any_cut_gives_the_answer(made: tuple[list[Any], AssistantMessage], data: st.DataObject) -> None:
    items, want = made
    got = read(pieces_of(data, events(items)))
    assert isinstance(got, AssistantMessage), got
    assert got.parts == want.parts and got.usage.input_tokens == 3


@settings(deadline=None, max_examples=60)
@given(answers(), st.data())
def test_a_stream_cut_short_is_whole_or_an_error(made: tuple[list[Any], AssistantMessage], data: st.DataObject) -> None:
    items, want = made
    body = events(items)
    got = read(pieces_of(data, body[: data.draw(st.integers(0, len(body) - 1))]))
    if isinstance(got, AssistantMessage):
        assert got.parts == want.parts


@settings(deadline=None, max_examples=80)
@given(answers(), st.data())
def test_a_damaged_stream_is_an_error(made: tuple[list[Any], AssistantMessage], data: st.DataObject) -> None:
    """Every byte is under a checksum, so no damage passes unseen before the end mark."""
    body = bytearray(events(made[0]))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    got = read(pieces_of(data, bytes(body)))
    if isinstance(got, AssistantMessage):
        assert at >= len(events(made[0][:-1])) and got.parts == made[1].parts


@settings(deadline=None, max_examples=100)
@given(st.lists(TEXTS, min_size=1, max_size=3), st.data())
def test_events_lost_repeated_or_out_of_order(values: list[str], data: st.DataObject) -> None:
    """Whatever comes of it, no call has the arguments of another."""
    blocks: list[list[dict[str, Any]]] = []
    for number, value in enumerate(values):
        args = json.dumps({f'k{number}': value})
        cut = data.draw(st.integers(0, len(args)))
        start = {'start': {'toolUse': {'toolUseId': f'c{number}', 'name': 'f'}}}
        blocks.append([start, {'toolUse': {'input': args[:cut]}}, {'toolUse': {'input': args[cut:]}}])
    items = said(*blocks)
    order = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=len(items) + 3))
    got = read([events([items[i] for i in (*order, len(items) - 2)])])
    if isinstance(got, AssistantMessage):
        for part in got.parts:
            assert isinstance(part, ToolCallPart)
            if isinstance(part.args, dict):
                assert set(part.args) <= {f'k{part.tool_call_id[1:]}'}


KEYS = st.sampled_from(
    'output message content text toolUse toolResult reasoningContent reasoningText citationsContent citations image '
    'source bytes start delta contentBlockIndex input name toolUseId type usage inputTokens stopReason trace'.split()
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
KINDS = st.sampled_from(
    'messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop metadata exception xException'.split()
)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.dictionaries(KINDS, JSON, min_size=1, max_size=1), max_size=6), JSON)
def test_json_of_any_shape_is_an_answer_or_an_error(items: list[dict[str, Any]], body: Any) -> None:
    read([events(items)])
    read([events([*items, {'messageStop': {'stopReason': 'end_turn'}}, {'metadata': body}])])
    for plain in (body, {'output': body}, {'output': {'message': {'content': [body, {'text': body}]}}}):
        read([json.dumps(plain).encode()], 'application/json')


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([STREAM, 'application/json', '']))
def test_bytes_of_any_kind_are_an_answer_or_an_error(body: bytes, kind: str) -> None:
    assert isinstance(read([body], kind), AssistantMessage | ModelError)
