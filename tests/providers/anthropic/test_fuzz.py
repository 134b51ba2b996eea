"""Whatever bytes come and however they are cut: a typed error or the right answer, never half a call, never a hang."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import ModelError
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    BuiltinToolCallPart,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
    dump_json,
    load_json,
)
from agent_graph.messages.parts import CachePoint
from agent_graph_providers.anthropic import messages_from_anthropic
from agent_graph_providers.anthropic.blocks import assistant_blocks
from tests.providers.anthropic.asked import blocks, body_of, meaning
from tests.providers.anthropic.made import body, events, plain, read, text, thinking

TEXTS = st.text(max_size=12)
ARGS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=6), st.none()), max_size=3
)
IDS = st.integers(0, 9).map('toolu_{}'.format)


@st.composite
def answers(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The blocks of an answer."""
    out: list[dict[str, Any]] = []
    for kind in draw(st.lists(st.sampled_from(['text', 'thinking', 'call', 'server', 'sealed', 'cited']), max_size=5)):
        if kind == 'text':
            out.append(text(draw(TEXTS.filter(bool))))
        elif kind == 'cited':
            out.append(text(draw(TEXTS.filter(bool)), citations=[{'type': 'char_location', 'cited_text': draw(TEXTS)}]))
        elif kind == 'thinking':
            out.append(thinking(draw(TEXTS)))
        elif kind == 'sealed':
            out.append({'type': 'redacted_thinking', 'data': 'E=='})
        elif kind == 'call':
            out.append({'type': 'tool_use', 'id': f'toolu_{len(out)}', 'name': 'f', 'input': draw(ARGS)})
        else:
            block = {'type': 'server_tool_use', 'id': f's{len(out)}', 'name': 'web_search', 'input': draw(ARGS)}
            out += [block, {'type': 'web_search_tool_result', 'tool_use_id': block['id'], 'content': []}]
    return out


def pieces_of(draw: Callable[[st.SearchStrategy[set[int]]], set[int]], data: bytes) -> list[bytes]:
    cuts = sorted(draw(st.sets(st.integers(0, len(data)), max_size=12)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def verbatim(got: AssistantMessage) -> list[dict[str, Any]]:
    """The blocks it goes back as, after a round trip through JSON."""
    (message,) = load_json(dump_json([AssistantMessage(got.parts, provider_name='anthropic')]))
    assert isinstance(message, AssistantMessage)
    return assistant_blocks(message, {}, 'anthropic')


@settings(deadline=None)
@given(answers(), st.integers(1, 9), st.data())
def test_any_cut_gives_the_answer(made: list[dict[str, Any]], size: int, data: st.DataObject) -> None:
    got = read(pieces_of(data.draw, body(events(*made, size=size))))
    assert isinstance(got, AssistantMessage), got
    assert blocks(verbatim(got)) == blocks(made)
    assert (got.usage.input_tokens, got.usage.output_tokens) == (3, 5)


@settings(deadline=None)
@given(answers())
def test_a_plain_answer_says_the_same(made: list[dict[str, Any]]) -> None:
    got = read(plain(*made))
    assert isinstance(got, AssistantMessage)
    assert blocks(verbatim(got)) == blocks(made)


@settings(deadline=None)
@given(answers(), st.data())
def test_a_stream_cut_short_is_whole_or_an_error(made: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = body(events(*made))
    end = data.draw(st.integers(0, len(whole) - 1))
    got = read(pieces_of(data.draw, whole[:end]))
    if isinstance(got, AssistantMessage):
        assert blocks(verbatim(got)) == blocks(made)
        assert b'"stop_reason": "' in whole[:end]


@settings(deadline=None)
@given(answers(), st.data())
def test_a_damaged_stream_is_an_answer_or_an_error(made: list[dict[str, Any]], data: st.DataObject) -> None:
    damaged = bytearray(body(events(*made)))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    read(pieces_of(data.draw, bytes(damaged)))


@settings(deadline=None)
@given(answers(), st.data())
def test_events_lost_doubled_or_moved_never_mix_two_calls(made: list[dict[str, Any]], data: st.DataObject) -> None:
    """Pieces are put to the block whose index they have, or refused: no call gets a piece of another."""
    calls = [b for b in made if b['type'] == 'tool_use']
    for block in calls:
        block['input'] = {'mark': block['id'] * 3}
    found = events(*made, size=4)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(found) - 1))
        match data.draw(st.sampled_from(['lose', 'double', 'move'])):
            case 'lose':
                found.pop(at)
            case 'double':
                found.insert(at, found[at])
            case _:
                found.insert(data.draw(st.integers(0, len(found) - 1)), found.pop(at))
        if not found:
            return
    got = read(found)
    if isinstance(got, AssistantMessage):
        for part in got.parts:
            if isinstance(part, ToolCallPart):
                other = [b['id'] for b in calls if b['id'] != part.tool_call_id]
                assert not any(name in str(part.args) for name in other)


FIELDS = st.sampled_from(
    'type index content_block delta message text thinking signature citations citation partial_json input id name usage '
    'stop_reason content tool_use_id input_tokens output_tokens error data stop_details container model'.split()
)
WORDS = st.sampled_from(
    'message_start content_block_start content_block_delta content_block_stop message_delta message_stop ping error text '
    'thinking tool_use server_tool_use web_search_tool_result redacted_thinking text_delta thinking_delta signature_delta '
    'input_json_delta citations_delta end_turn pause_turn max_tokens'.split()
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(max_size=4), inner, max_size=5),
    max_leaves=14,
)


@settings(deadline=None)
@given(st.lists(JSON, max_size=4), st.lists(st.tuples(st.integers(0, 9), FIELDS, JSON), min_size=1, max_size=4))
def test_json_of_any_shape_is_an_answer_or_an_error(odd: list[Any], swaps: list[tuple[int, str, Any]]) -> None:
    made = json.loads(
        json.dumps(events(thinking('t'), text('x'), {'type': 'tool_use', 'id': 'a', 'name': 'f', 'input': {}}))
    )
    for at, field, value in swaps:
        one = made[at % len(made)]
        inner = next((one[k] for k in ('content_block', 'delta', 'message') if isinstance(one.get(k), dict)), one)
        (inner if at % 2 else one)[field] = value
    read([*(json.dumps(o).join(['data: ', '\n\n']).encode() for o in [*odd, *made])])
    for value in odd:
        read([json.dumps(value).encode()], 'application/json')
        read({**plain(text('x')), 'content': [value]})
        read({**plain(text('x')), 'content': value})


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from(['text/event-stream', 'application/json', '']))
def test_bytes_of_any_kind_are_an_answer_or_an_error(data: bytes, kind: str) -> None:
    assert isinstance(read([data], kind or 'text/plain'), AssistantMessage | ModelError)


def test_gigantic_fields() -> None:
    """A megabyte in one field, and nesting beyond any reader."""
    made = events(text('x' * 1_000_000), size=300_000)
    got = read([body(made)])
    assert isinstance(got, AssistantMessage) and isinstance(part := got.parts[0], TextPart)
    assert len(part.content) == 1_000_000
    deep = '[' * 100_000 + ']' * 100_000
    for data in (f'data: {deep}\n\n', 'data: {"type":"content_block_start","content_block":' + deep + '}\n\n'):
        assert isinstance(read([data.encode()]), ModelError)
    args = '{"x": ' + deep + '}'
    nested = events({'type': 'tool_use', 'id': 'a', 'name': 'f', 'input': {}})
    nested[3]['delta']['partial_json'] = args
    read(nested)


PARTS: st.SearchStrategy[AssistantPart] = st.one_of(
    TEXTS.map(TextPart),
    st.builds(ThinkingPart, TEXTS, st.none() | st.just('s==')),
    st.builds(ToolCallPart, st.text(max_size=5), TEXTS | ARGS, IDS | TEXTS),
    st.builds(BuiltinToolCallPart, st.just('server_tool_use'), ARGS, IDS),
    st.just(FilePart('image/png', data=b'x')),
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    TEXTS.map(SystemMessage),
    st.builds(UserMessage, TEXTS | st.lists(TEXTS | st.just(CachePoint()) | st.just(CachePoint('1h')), max_size=3)),
    st.builds(
        AssistantMessage, st.lists(PARTS, max_size=3), provider_name=st.sampled_from(['anthropic', 'openai', None])
    ),
    st.builds(ToolMessage, st.lists(st.builds(ToolReturnPart, st.just('f'), TEXTS, IDS | TEXTS), max_size=2)),
)
NAMES = st.sampled_from(['claude-3-5-haiku-latest', 'claude-sonnet-4-5', 'claude-opus-4-8', 'claude-opus-5-5', 'any'])


@settings(deadline=None)
@given(st.lists(MESSAGES, max_size=8), NAMES, st.sampled_from([None, '5m', '1h']))
def test_any_history_is_a_request_of_the_right_form(history: list[Message], name: str, auto: Any) -> None:
    made = body_of(history, settings={'auto_cache': auto}, name=name)
    roles = [m['role'] for m in made['messages']]
    assert roles[0] == 'user' and all(a != b for a, b in pairwise(roles))
    marks = [b['cache_control']['ttl'] for b in all_blocks(made) if 'cache_control' in b]
    assert len(marks) <= 4 and marks == sorted(marks)  # '1h' is before '5m'
    for message in made['messages']:
        kinds = [b['type'] == 'tool_result' for b in message['content']]
        assert kinds == sorted(kinds, reverse=True) and message['content']
        assert message['role'] != 'assistant' or message['content'][-1]['type'] not in ('thinking', 'redacted_thinking')
        if message['role'] == 'system':
            assert name in ('claude-opus-4-8', 'claude-opus-5-5', 'any')
    for block in all_blocks(made):
        assert block['type'] != 'text' or block['text'].strip()
        assert block['type'] != 'tool_use' or isinstance(block['input'], dict)
        assert block['type'] not in ('thinking', 'redacted_thinking') or 'cache_control' not in block
    again = body_of(messages_from_anthropic(made), name=name)
    assert meaning(unmarked(again)) == meaning(unmarked(made))


def all_blocks(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [*made.get('system', ()), *(b for m in made['messages'] for b in m['content'])]


def unmarked(made: dict[str, Any]) -> dict[str, Any]:
    for block in all_blocks(made):
        block.pop('cache_control', None)
    return made
