"""The small readers: server-sent events, thinking tags, half surrogate pairs, and tool calls in pieces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import combinations
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_graph.errors import ModelProtocolError
from agent_graph_providers.openai.calls import CallPieces
from agent_graph_providers.openai.think import ThinkTags
from agent_graph_providers.wire.jsontext import Halves, decode, decode_piece, encode
from agent_graph_providers.wire.sse import SSE


def read(pieces: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    reader = SSE()
    events = [tuple(e) for p in pieces for e in reader.feed(p)]
    return [*events, *(tuple(e) for e in reader.end())]  # pyright: ignore[reportReturnType]


class TestSSE:
    STREAM: ClassVar = (
        b'\xef\xbb\xbfdata: first\n\n: a comment\r\n\r\nevent: error\ndata: a\ndata:b\nid: 7\nretry: 1\n\n'
        b'data\ndata:  two spaces\r\rdata: \xc3\xa9\n\n\n\nevent: empty\n\ndata: last'
    )
    EVENTS: ClassVar = [(b'first', b''), (b'a\nb', b'error'), (b' two spaces', b''), (b'\xc3\xa9', b''), (b'last', b'')]

    def test_whole(self) -> None:
        assert read([self.STREAM]) == self.EVENTS

    def test_cut_into_single_bytes(self) -> None:
        assert read([bytes([b]) for b in self.STREAM]) == self.EVENTS

    def test_cut_once_and_twice_anywhere(self) -> None:
        for a, b in combinations(range(len(self.STREAM)), 2):
            assert read([self.STREAM[:a], self.STREAM[a:b], b'', self.STREAM[b:]]) == self.EVENTS, (a, b)

    @given(
        st.lists(st.text(alphabet='ab:{} \u00e9', min_size=1).filter(lambda t: not t.startswith(' ')), max_size=5),
        st.sampled_from(['\n', '\r\n', '\r']),
        st.data(),
    )
    def test_any_line_ending_any_cut(self, texts: list[str], ending: str, data: st.DataObject) -> None:
        body = ''.join(f'data: {t}{ending}data: more{ending}{ending}' for t in texts).encode()
        cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=8)))
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        assert read(pieces) == [(f'{t}\nmore'.encode(), b'') for t in texts]

    def test_a_long_event_in_small_pieces_takes_linear_work(self) -> None:
        reader = SSE()
        for _ in range(50_000):
            assert reader.feed(b'0123456789') == []
        assert len(reader.feed(b'\n\ndata: x\n\n')) == 1


def spans(pieces: Iterable[str]) -> list[tuple[str, str]]:
    """The spans of a text cut into pieces, neighbours of one kind joined."""
    tags = ThinkTags()
    out: list[tuple[str, str]] = []
    for kind, text in [*(s for p in pieces for s in tags.feed(p)), *tags.end()]:
        if out and out[-1][0] == kind:
            out[-1] = (kind, out[-1][1] + text)
        else:
            out.append((kind, text))
    return out


TAGGED: dict[str, list[tuple[str, str]]] = {
    '<think>secret plan</think>\nHello': [('thinking', 'secret plan'), ('text', '\nHello')],
    '<think>a</think>x<think>b</think>y': [('thinking', 'a'), ('text', 'x'), ('thinking', 'b'), ('text', 'y')],
    'a < b and <thin ice, 1 <': [('text', 'a < b and <thin ice, 1 <')],
    '<think>never closed </thi': [('thinking', 'never closed </thi')],
    '<<think>x</think': [('text', '<'), ('thinking', 'x</think')],
    'no end tag</think> here': [('text', 'no end tag</think> here')],
    '<think></think>only': [('text', 'only')],
    '': [],
}


class TestThinkTags:
    @pytest.mark.parametrize('text', TAGGED)
    def test_every_cut(self, text: str) -> None:
        want = TAGGED[text]
        assert spans([text]) == want
        assert spans(text) == want
        for a, b in combinations(range(len(text) + 1), 2):
            assert spans([text[:a], text[a:b], text[b:]]) == want

    @given(st.lists(st.sampled_from(['<', 'think', '>', '</', '/', 'x', '<think>', '</think>'])), st.data())
    def test_nothing_is_lost(self, parts: list[str], data: st.DataObject) -> None:
        text = ''.join(parts)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=5)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert spans(pieces) == spans([text])
        block = re.compile(r'<think>(.*?)(?:</think>|\Z)')
        assert ''.join(t for k, t in spans(pieces) if k == 'text') == block.sub('', text)
        assert ''.join(t for k, t in spans(pieces) if k == 'thinking') == ''.join(block.findall(text))


class TestHalfPairs:
    def test_whole_documents(self) -> None:
        assert decode(b'{"a": "\\ud83c\\udf78 \\ud83c"}') == {'a': '\U0001f378 \ufffd'}
        assert decode(b'{"\\udc97": ["\\udc97"]}') == {'\ufffd': ['\ufffd']}
        assert decode(b'"\xff"') == '\ufffd'
        with pytest.raises(ValueError, match='Expecting value'):
            decode(b'{"a": ')
        with pytest.raises(ValueError, match='nested too deeply'):
            decode(b'[' * 100_000)

    def test_requests_can_always_be_written(self) -> None:
        assert json.loads(encode({'a': 'x\udc97', 'b': float('inf')})) == {'a': 'x\ufffd', 'b': None}

    @given(st.text(alphabet=st.sampled_from('a\U0001f378\ud83c\udf78')), st.data())
    def test_pieces_say_the_same_as_the_whole(self, text: str, data: st.DataObject) -> None:
        units = text.encode('utf-16-le', 'surrogatepass')
        cuts = sorted(data.draw(st.sets(st.integers(0, len(units) // 2), max_size=6)))
        halves, got = Halves(), ''
        for a, b in zip([0, *cuts], [*cuts, len(units) // 2], strict=True):
            piece = units[a * 2 : b * 2].decode('utf-16-le', 'surrogatepass')
            value, edges = decode_piece(json.dumps({'content': piece}).encode())
            got += halves.join('k', value['content']) if edges or halves else value['content']
        assert got + halves.rest('k') == units.decode('utf-16-le', 'replace')


Piece = tuple[int | None, str, str, str]


def assemble(pieces: Iterable[Piece], tools: set[str] | None = None) -> list[tuple[str, str, str]]:
    calls = CallPieces((tools or {'f', 'g', 'get', 'get_all'}).__contains__)
    for piece in pieces:
        calls.take(*piece)
    return [(c.id, c.name, ''.join(map(str, c.args))) for c in calls.calls]


F, G = ('A', 'f', '{"x": 1}'), ('B', 'g', '{"y": {}}')
TWO: dict[str, list[Piece]] = {
    'as the protocol says': [(0, 'A', 'f', ''), (0, '', '', '{"x"'), (0, '', '', ': 1}'), (1, 'B', 'g', ''), (1, '', '', '{"y": {}}')],
    'both index 0': [(0, 'A', 'f', ''), (0, '', '', '{"x": 1}'), (0, 'B', 'g', ''), (0, '', '', '{"y":'), (0, '', '', ' {}}')],
    'both index 0, whole calls': [(0, 'A', 'f', '{"x": 1}'), (0, 'B', 'g', '{"y": {}}')],
    'both index 0, interleaved by id': [(0, 'A', 'f', ''), (0, 'B', 'g', ''), (0, 'A', '', '{"x": 1}'), (0, 'B', '', '{"y": {}}')],
    'no index': [(None, 'A', 'f', ''), (None, '', '', '{"x": 1}'), (None, 'B', 'g', '{"y"'), (None, '', '', ': {}}')],
    'no index, whole calls': [(None, 'A', 'f', '{"x": 1}'), (None, 'B', 'g', '{"y": {}}')],
    'head 0, tail 1': [(0, 'A', 'f', ''), (0, '', '', '{"x": 1}'), (0, 'B', 'g', ''), (1, '', '', '{"y"'), (1, '', '', ': {}}')],
    'id and name in every piece': [(0, 'A', 'f', '{"x"'), (0, 'A', 'f', ': 1}'), (1, 'B', 'g', '{"y": '), (1, 'B', 'g', '{}}')],
    'id and name in every piece, no index': [(None, 'A', 'f', '{"x"'), (None, 'A', 'f', ': 1}'), (None, 'B', 'g', '{"y": '), (None, 'B', 'g', '{}}')],
    'interleaved': [(0, 'A', 'f', ''), (1, 'B', 'g', ''), (0, '', '', '{"x"'), (1, '', '', '{"y": '), (0, '', '', ': 1}'), (1, '', '', '{}}')],
    'id after arguments': [(0, '', 'f', '{"x"'), (0, 'A', '', ': 1}'), (1, '', 'g', '{"y": '), (1, 'B', '', '{}}')],
    'id after arguments, no index': [(None, '', 'f', '{"x"'), (None, 'A', '', ': 1}'), (None, '', 'g', '{"y": '), (None, 'B', '', '{}}')],
    'name after id': [(0, 'A', '', ''), (0, '', 'f', '{"x": 1}'), (1, 'B', '', ''), (1, '', 'g', '{"y": {}}')],
    'a new id in every piece': [(0, 'A', 'f', '{"x"'), (0, 'A2', '', ': 1}'), (1, 'B', 'g', '{"y": '), (1, 'B2', '', '{}}')],
    'empty pieces between': [(0, 'A', 'f', '{"x": 1}'), (0, '', '', ''), (None, '', '', ''), (1, 'B', 'g', '{"y": {}}'), (1, '', '', '')],
}  # fmt: skip


class TestCallPieces:
    @pytest.mark.parametrize('case', TWO)
    def test_two_calls(self, case: str) -> None:
        assert assemble(TWO[case]) == [F, G]

    @pytest.mark.parametrize(
        ('pieces', 'want'),
        [
            ([(0, '', 'f', '{"x": 1}'), (0, '', 'f', '{"x": 2}')], [('', 'f', '{"x": 1}'), ('', 'f', '{"x": 2}')]),
            (
                [(None, '', 'f', '{"x": 1}'), (None, '', 'f', '{"x": 2}')],
                [('', 'f', '{"x": 1}'), ('', 'f', '{"x": 2}')],
            ),
            ([(0, '', 'f', ''), (0, '', 'g', '{}')], [('', 'f', ''), ('', 'g', '{}')]),
            ([(0, 'A', 'f', '{}'), (1, 'A', 'f', '{}')], [('A', 'f', '{}'), ('A', 'f', '{}')]),
            (
                [(0, 'A', 'f', ''), (1, 'A', 'g', ''), (0, '', '', '{}'), (1, '', '', '{ }')],
                [('A', 'f', '{}'), ('A', 'g', '{ }')],
            ),
            (
                [(None, 'A', 'f', '{"x": 1}'), (None, 'A', 'f', '{"x": 2}')],
                [('A', 'f', '{"x": 1}'), ('A', 'f', '{"x": 2}')],
            ),
            ([(0, 'A', 'ge', ''), (0, '', 't_all', ''), (0, '', '', '{}')], [('A', 'get_all', '{}')]),
            ([(0, 'A', 'f', ''), (0, '', '', 'not {json')], [('A', 'f', 'not {json')]),
        ],
    )
    def test_repeated_ids_no_ids_and_names_in_pieces(self, pieces: list[Piece], want: list[Any]) -> None:
        assert assemble(pieces) == want

    @pytest.mark.parametrize(
        'pieces',
        [
            [(0, 'A', 'f', ''), (0, 'B', 'g', ''), (0, '', '', '{"x": 1}')],
            [(0, 'A', 'f', '{"x"'), (0, 'B', 'g', '{"y"'), (0, '', '', ': 1}')],
            [(None, 'A', 'f', '{"x"'), (None, 'B', 'g', '{"y"'), (None, '', '', ': 1}')],
            [(0, 'A', 'f', '{"x"'), (1, 'B', 'g', '{"y"'), (2, '', '', ': 1}')],
        ],
    )
    def test_what_could_belong_to_two_calls_is_an_error_that_names_them(self, pieces: list[Piece]) -> None:
        with pytest.raises(ModelProtocolError, match=r"'f' \(id 'A'\), 'g' \(id 'B'\)"):
            assemble(pieces)

    @given(st.data())
    def test_pieces_numbered_well_always_give_the_calls(self, data: st.DataObject) -> None:
        texts = data.draw(
            st.lists(st.dictionaries(st.text(max_size=3), st.integers(), max_size=3), min_size=1, max_size=4)
        )
        args = [json.dumps(t) for t in texts]
        queues: list[list[Piece]] = []
        for index, text in enumerate(args):
            cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4)))
            parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
            queues.append([(index, f'id{index}', 'f', ''), *((index, '', '', p) for p in parts)])
        pieces: list[Piece] = []
        started = 0
        while any(queues):
            ready = [i for i, q in enumerate(queues) if q and i <= started]
            chosen = data.draw(st.sampled_from(ready))
            pieces.append(queues[chosen].pop(0))
            started = max(started, chosen + 1)
        assert assemble(pieces) == [(f'id{i}', 'f', a) for i, a in enumerate(args)]
