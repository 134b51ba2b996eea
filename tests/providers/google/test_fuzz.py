"""Whatever bytes come and however they are cut: a typed error or the right answer, never half a call, never a hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import ModelError
from agent_graph.messages import AssistantMessage, TextPart, ThinkingPart, ToolCallPart, UserMessage, dump_json
from agent_graph.model import ResponseBuilder
from agent_graph_providers.google.answer import Answer
from agent_graph_providers.wire.framing import JsonArray
from agent_graph_providers.wire.reading import read_answer
from tests.providers.google.kit import answer, body_for, call
from tests.providers.google.test_answers import ASKED, Body
from tests.providers.loopback import sse_body

SSE, ARRAY, ONE = 'text/event-stream', 'application/json; array', 'application/json'


def read(pieces: list[bytes], kind: str = SSE) -> AssistantMessage | ModelError:
    async def main() -> AssistantMessage | ModelError:
        out = ResponseBuilder(provider_name='google')
        answer = Answer(out, ASKED, back={})
        framings = {'application/json': JsonArray} if kind == ARRAY else None
        try:
            async with asyncio.timeout(20):
                await read_answer(Body(pieces, kind), answer, ASKED, framings=framings)
        except ModelError as error:
            return error
        await out.finish()
        return out.build()

    return asyncio.run(main())


TEXTS = st.text(max_size=12)
VALUES = st.one_of(st.integers(), st.text(max_size=6), st.none(), st.booleans())
ARGS = st.dictionaries(st.text(st.characters(categories=['Lu', 'Ll']), min_size=1, max_size=4), VALUES, max_size=3)


def in_pieces(draw: st.DrawFn, name: str, args: dict[str, Any]) -> list[dict[str, Any]]:
    """A call whose arguments come in pieces."""
    parts: list[dict[str, Any]] = [{'functionCall': {'name': name, 'willContinue': True}}]
    for key, value in args.items():
        texts = chopped(draw, value) if isinstance(value, str) else [value]
        for index, text in enumerate(texts):
            kinds = {str: 'stringValue', bool: 'boolValue', int: 'numberValue'}
            piece: dict[str, Any] = {'jsonPath': f'$.{key}', kinds.get(type(text), 'nullValue'): text}
            if index < len(texts) - 1:
                piece['willContinue'] = True
            parts.append({'functionCall': {'partialArgs': [piece], 'willContinue': True}})
    return [*parts, {'functionCall': {}}]


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[Any], AssistantMessage]:
    """The events of a stream, and the response they mean."""
    thinking, text = draw(TEXTS), draw(TEXTS)
    calls: list[tuple[str, dict[str, Any], bool]] = [
        (draw(st.sampled_from('fg')), a, draw(st.booleans())) for a in draw(st.lists(ARGS, max_size=3))
    ]
    parts: list[dict[str, Any]] = [{'text': p, 'thought': True} for p in chopped(draw, thinking)]
    parts += [{'text': p} for p in chopped(draw, text)]
    for name, args, partial in calls:
        parts += in_pieces(draw, name, args) if partial else [call(name, args, thoughtSignature='S')]
    wanted: list[Any] = [ThinkingPart(thinking)] if thinking else []
    wanted += [TextPart(text)] if text else []
    wanted += [ToolCallPart(n, a, '', None if partial else {'thoughtSignature': 'S'}) for n, a, partial in calls]
    return [*(answer(part, finish=None) for part in parts), answer()], AssistantMessage(wanted)


def chopped(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def pieces_of(draw: Callable[[st.SearchStrategy[set[int]]], set[int]], body: bytes) -> list[bytes]:
    cuts = sorted(draw(st.sets(st.integers(0, len(body)), max_size=12)))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def body_of(events: list[Any], kind: str) -> bytes:
    return sse_body(events, done=False) if kind == SSE else ('[' + ',\n'.join(map(json.dumps, events)) + ']').encode()


KINDS = st.sampled_from([SSE, ARRAY])


@settings(deadline=None)
@given(answers(), KINDS, st.data())
def test_any_cut_gives_the_answer(made: tuple[list[Any], AssistantMessage], kind: str, data: st.DataObject) -> None:
    events, want = made
    got = read(pieces_of(data.draw, body_of(events, kind)), kind)
    assert isinstance(got, AssistantMessage), got
    assert got.parts == want.parts and got.usage.input_tokens == 3


@settings(deadline=None)
@given(answers(), KINDS, st.data())
def test_a_stream_cut_short_is_whole_or_an_error(
    made: tuple[list[Any], AssistantMessage], kind: str, data: st.DataObject
) -> None:
    events, want = made
    body = body_of(events, kind)
    end = data.draw(st.integers(0, len(body) - 1))
    got = read(pieces_of(data.draw, body[:end]), kind)
    if isinstance(got, AssistantMessage):
        assert got.parts == want.parts
        assert b'"finishReason": "' in body[:end]


@settings(deadline=None)
@given(answers(), KINDS, st.data())
def test_a_damaged_stream_is_an_answer_or_an_error(
    made: tuple[list[Any], AssistantMessage], kind: str, data: st.DataObject
) -> None:
    body = bytearray(body_of(made[0], kind))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    sendable(read(pieces_of(data.draw, bytes(body)), kind))


@settings(deadline=None)
@given(answers(), st.data())
def test_events_in_another_order_or_twice_never_make_half_a_call(
    made: tuple[list[Any], AssistantMessage], data: st.DataObject
) -> None:
    events, want = made
    order = data.draw(st.lists(st.integers(0, len(events) - 1), max_size=8))
    got = read([sse_body([*(events[i] for i in order), answer()], done=False)])
    sendable(got)
    if isinstance(got, AssistantMessage):
        known = {p.tool_name for p in want.parts if isinstance(p, ToolCallPart)}
        assert all(p.tool_name in known and isinstance(p.args, dict) for p in got.parts if isinstance(p, ToolCallPart))


def sendable(got: AssistantMessage | ModelError) -> None:
    """Whatever was made of it can be stored and sent."""
    if isinstance(got, AssistantMessage):
        dump_json([got])
        body_for('gemini-3-flash', [UserMessage('x'), got])


FIELDS = st.sampled_from(
    'candidates content parts text thought thoughtSignature functionCall name args id partialArgs jsonPath stringValue '
    'willContinue error code status usageMetadata promptTokenCount finishReason groundingMetadata groundingChunks web uri '
    'groundingSupports segment startIndex endIndex partIndex groundingChunkIndices citationMetadata citations inlineData '
    'data mimeType fileData fileUri executableCode toolCall promptFeedback blockReason logprobsResult index'.split()
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.lists(JSON, max_size=4), JSON, JSON, FIELDS)
def test_json_of_any_shape_is_an_answer_or_an_error(events: list[Any], field: Any, other: Any, key: str) -> None:
    odd: list[Any] = [
        answer({'text': field, 'thought': other}, finish=None),
        answer({key: field}, {'functionCall': other}, finish=None),
        answer(
            {'functionCall': {'name': 'f', 'partialArgs': [{'jsonPath': '$.a', key: field}], 'willContinue': other}}
        ),
        answer({'text': 'wörd'}, groundingMetadata=field, citationMetadata=other, logprobsResult=field, index=other),
        {'candidates': [{key: field, 'content': other}], 'usageMetadata': field, 'promptFeedback': other},
    ]
    for body in (*events, *odd):
        sendable(read([sse_body([body, answer()], done=False)]))
        sendable(read([json.dumps(body).encode()], ONE))
        sendable(read([json.dumps([body, answer()]).encode()], ARRAY))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 40), st.integers(-3, 40), st.text(max_size=3)), min_size=1, max_size=5), TEXTS
)
def test_segments_of_any_kind_stay_within_the_text(segments: list[tuple[int, int, str]], text: str) -> None:
    supports = [
        {
            'segment': {'startIndex': a, 'endIndex': b, 'text': t or None, 'partIndex': a},
            'groundingChunkIndices': [0, 7],
        }
        for a, b, t in segments
    ]
    grounding = {'groundingChunks': [{'web': {'uri': 'u'}}], 'groundingSupports': supports}
    got = read([json.dumps(answer({'text': text}, groundingMetadata=grounding)).encode()], ONE)
    assert isinstance(got, AssistantMessage)
    for part in got.parts:
        assert isinstance(part, TextPart) and len(part.citations) == len(segments)
        for citation in part.citations:
            if citation.start is not None and citation.end is not None:
                assert 0 <= citation.start < citation.end <= len(part.content)


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([SSE, ARRAY, ONE, '']))
def test_bytes_of_any_kind_are_an_answer_or_an_error(body: bytes, kind: str) -> None:
    assert isinstance(read([body], kind), AssistantMessage | ModelError)


def test_gigantic_fields() -> None:
    text = 'ä{"}\\' * 400_000
    one = json.dumps(answer({'text': text})).encode()
    cut = [one[at : at + 60_000] for at in range(0, len(one), 60_000)]
    for pieces, kind in (([one], ONE), ([b'[', *cut, b']'], ARRAY), ([b'data: ', *cut, b'\n\n'], SSE)):
        got = read(pieces, kind)
        assert isinstance(got, AssistantMessage) and got.parts == (TextPart(text),)
    deep = b'{"candidates": ' + b'[' * 200_000
    for kind in (ONE, ARRAY, SSE):
        assert isinstance(read([b'data: ' + deep if kind == SSE else deep], kind), ModelError)
