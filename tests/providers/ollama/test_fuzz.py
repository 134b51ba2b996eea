"""Whatever bytes come and however they are cut: a typed error or the right answer, never half a call, never a hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import ModelError, ModelProtocolError
from agent_graph.messages import (
    AssistantMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from agent_graph.model import ResponseBuilder
from agent_graph_providers.ollama.answer import Answer
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import JsonLines
from agent_graph_providers.wire.reading import read_answer
from tests.providers.ollama.server import call, end, piece


class Body:
    """A response with prepared pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.headers = {'content-type': 'application/x-ndjson'}

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        for one in self._pieces:
            yield one

    async def aread(self) -> bytes:
        return b''.join(self._pieces)


ASKED = Asked('p', 'm', 'http://127.0.0.1', None, '')


def read(pieces: list[bytes]) -> AssistantMessage | ModelError:
    async def main() -> AssistantMessage | ModelError:
        out = ResponseBuilder()
        try:
            await read_answer(Body(pieces), Answer(out, ASKED, back={}), ASKED, framings={'json': JsonLines})
        except ModelError as error:
            return error
        await out.finish()
        return out.build()

    return asyncio.run(main())


TEXTS = st.lists(st.text(max_size=6).filter(lambda text: '<' not in text), max_size=4)
FIELDS = st.sampled_from(
    'message content thinking tool_calls function name arguments done done_reason error images'.split()
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


class TestFuzz:
    """Whatever bytes come and however they are cut: a typed error or the right answer."""

    @settings(deadline=None, max_examples=80)
    @given(TEXTS, TEXTS, st.data())
    def test_any_cut_of_a_whole_or_a_shortened_stream(
        self, thoughts: list[str], texts: list[str], data: st.DataObject
    ) -> None:
        items = [
            *(piece(thinking=t) for t in thoughts),
            *(piece(content=t) for t in texts),
            piece(tool_calls=[call('f', {'x': 1})]),
        ]
        raw = ''.join(json.dumps(item) + '\n' for item in [*items, end()]).encode()
        upto = data.draw(st.integers(0, len(raw)))
        cuts = sorted(data.draw(st.sets(st.integers(0, upto), max_size=8)))
        found = read([raw[a:b] for a, b in zip([0, *cuts], [*cuts, upto], strict=True)])
        if upto >= len(raw) - 1:
            assert isinstance(found, AssistantMessage), found
            parts = [ThinkingPart(''.join(thoughts)), TextPart(''.join(texts))]
            assert found.parts == (*(p for p in parts if p.content), ToolCallPart('f', {'x': 1}, ''))
        else:
            assert isinstance(found, ModelProtocolError)

    @settings(deadline=None, max_examples=80)
    @given(st.lists(JSON, max_size=4), JSON, st.binary(max_size=40))
    def test_anything_is_an_answer_or_an_error(self, items: list[Any], field: Any, junk: bytes) -> None:
        odd = [{'message': field}, piece(tool_calls=field), piece(content=field, images=field), *items]
        for tried in (items, odd, [field, end()], [*odd, end(done_reason=field, eval_count=field)]):
            raw = ''.join(json.dumps(item) + '\n' for item in tried).encode()
            read([raw, junk])
            read([raw])
