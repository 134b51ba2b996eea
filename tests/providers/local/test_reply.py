"""The JSON a model was held to, read while it arrives: the same parts however it is cut into pieces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_graph.messages import AssistantPart, TextPart, ToolCallPart
from agent_graph.model import OutputSchema, ResponseBuilder, ToolDefinition
from agent_graph_providers.local.prompt import Task
from agent_graph_providers.local.reply import Reply

LOOK = ToolDefinition('look_up', '', {'type': 'object', 'properties': {}})
CHOICE = Task('choice', (LOOK, LOOK))


def received(task: Task, pieces: Sequence[str], seen: list[str] | None = None) -> Sequence[AssistantPart]:
    async def receive() -> Sequence[AssistantPart]:
        async def sink(event: type[Any], **fields: Any) -> None:
            piece = fields.get('delta') or (fields['part'] if event.__name__ == 'PartStartEvent' else None)
            if seen is not None and piece is not None:
                seen.append(piece.content_delta if hasattr(piece, 'content_delta') else piece.content)

        out = ResponseBuilder(sink if seen is not None else None)
        reply = Reply(task, out)
        for piece in pieces:
            await reply.text(piece)
        await reply.end()
        await out.finish()
        return out.build().parts

    return asyncio.run(receive())


@pytest.mark.parametrize('size', [1, 3, 1000])
@pytest.mark.parametrize(
    ('task', 'text', 'part'),
    [
        (Task('text'), '{"not": "read"}', TextPart('{"not": "read"}')),
        (Task('value', output=OutputSchema('o', {})), ' {"a": 1}', TextPart(' {"a": 1}')),
        (Task('call', (LOOK,)), '{\n "city": "Bern"}', ToolCallPart('look_up', '{\n "city": "Bern"}')),
        (CHOICE, '{ "tool" : "look_up", "arguments": {"a": "}"} }', ToolCallPart('look_up', '{"a": "}"}')),
        (CHOICE, '{"answer": "It is \\"4\\",\\n caf\\u00e9 \\ud83c\\udf78 { }"}', TextPart('It is "4",\n café 🍸 { }')),
        (CHOICE, '\n{\n  "answer"\n : "a\tb" }\n', TextPart('a\tb')),
        (
            Task('choice', (LOOK,), output=OutputSchema('o', {})),
            '{"answer": {"a": [1, "é"]}}',
            TextPart('{"a": [1, "é"]}'),
        ),
    ],
)
def test_whole_replies(task: Task, text: str, part: AssistantPart, size: int) -> None:
    assert received(task, [text[i : i + size] for i in range(0, len(text), size)]) == (part,)


@pytest.mark.parametrize(
    ('text', 'parts'),
    [
        ('', ()),
        ('{"to', (TextPart('{"to'),)),
        ('{"tool": "look_up"', (ToolCallPart('look_up', ''),)),
        ('{"tool": "look_up", "arguments": {"a": "b', (ToolCallPart('look_up', '{"a": "b'),)),
        ('{"answer": "The heig', (TextPart('The heig'),)),
        ('{"answer": "half \\ud83', (TextPart('half '),)),
        ('{"answer": "', ()),
        ('["no choice"]', (TextPart('["no choice"]'),)),
        ('{"tool": ["look_up"], "arguments": {}}', (TextPart('{"tool": ["look_up"], "arguments": {}}'),)),
        ('7', (TextPart('7'),)),
    ],
)
def test_replies_that_were_cut_off_keep_what_there_is(text: str, parts: Sequence[AssistantPart]) -> None:
    assert tuple(received(CHOICE, list(text))) == parts


@given(st.text(), st.booleans(), st.lists(st.integers(1, 7), min_size=1))
def test_an_answer_is_its_text_however_it_is_written_and_cut(answer: str, ascii_only: bool, sizes: list[int]) -> None:
    text = json.dumps({'answer': answer}, ensure_ascii=ascii_only)
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    assert tuple(received(CHOICE, pieces)) == ((TextPart(answer),) if answer else ())


def test_an_answer_is_shown_while_it_comes() -> None:
    seen: list[str] = []
    received(CHOICE, ['{"answer":', ' "one', ' two', ' thr', 'ee"', '}'], seen)
    assert seen == ['one', ' two', ' thr', 'ee']
