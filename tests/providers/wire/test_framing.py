"""Streams framed as JSON lines and as one JSON array, cut anywhere."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph_providers.wire.framing import Framing, JsonArray, JsonLines, framing_of
from agent_graph_providers.wire.sse import SSE
from tests.providers.loopback import cut

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=5)


def read(framing: Framing, body: bytes, split: int, seed: int) -> list[Any]:
    events = [event for piece in cut(body, split, seed) for event in framing.feed(piece)]
    return [json.loads(event.data) for event in [*events, *framing.end()]]


@settings(max_examples=150, deadline=None)
@given(objects=OBJECTS, split=st.integers(0, 9), seed=st.integers(0, 99), ascii_only=st.booleans())
def test_every_cut_gives_the_same_events(objects: list[Any], split: int, seed: int, ascii_only: bool) -> None:
    texts = [json.dumps(o, ensure_ascii=ascii_only) for o in objects]
    assert read(JsonLines(), '\n'.join(texts).encode('utf-8', 'replace'), split, seed) == objects
    array = '[' + ',\r\n'.join(texts) + '\n]'
    assert read(JsonArray(), array.encode('utf-8', 'replace'), split, seed) == objects


def test_an_object_is_there_as_soon_as_it_is_whole() -> None:
    framing = JsonArray()
    assert framing.feed(b'[{"a": "}"') == []
    assert [e.data for e in framing.feed(b', "b": {}}')] == [b'{"a": "}", "b": {}}']
    assert framing.feed(b',\n{"c"') == []
    assert [e.data for e in framing.end()] == [b'{"c"']


def test_what_ends_within_a_line_is_given_at_the_end() -> None:
    framing = JsonLines()
    assert [e.data for e in framing.feed(b'{"a": 1}\n{"b"')] == [b'{"a": 1}']
    assert [e.data for e in framing.end()] == [b'{"b"']


def test_the_content_type_says_how() -> None:
    assert isinstance(framing_of('text/event-stream; charset=utf-8'), SSE)
    assert isinstance(framing_of('application/x-ndjson'), JsonLines)
    assert framing_of('application/json') is None
    assert isinstance(framing_of('application/json', {'json': JsonArray}), JsonArray)
