"""What an answer rests on, as citations of its texts: grounding in searches and files, and recited sources.

Segments are told in bytes of UTF-8, usually counted over all visible text, now and then within one part. A segment also says
its text, so each reading is checked against that, and where none fits, the text is looked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias, cast

from agent_graph.messages import Citation
from agent_graph_providers.wire.jsontext import finite

__all__ = ['Cited', 'Texts', 'citations_of', 'cited_sources']

Cited: TypeAlias = tuple[int, Citation]
"""(which text, what is said about it)."""

_MOST_SEARCHES = 200
"""Segments that are looked for in the text; each costs time that grows with the text."""

_URLS = ('uri', 'sourceUri', 'imageUri', 'url')


class _Span(NamedTuple):
    start: int
    end: int


class Texts:
    """The visible texts of one answer, in order. `parts`: which of them each part of a plain answer is (-1: none)."""

    def __init__(self, texts: Sequence[str], parts: Sequence[int] = ()) -> None:
        self._texts = texts
        self._parts = parts
        self._whole = ''.join(texts)
        self._ends = list(accumulate(map(len, texts)))
        self._bytes: list[int] | None = None
        self._searches = 0

    def place(self, segment: Mapping[str, Any]) -> tuple[int, int | None, int | None]:
        """(text, first character in it, the one after the last) of a segment; `None` where it cannot be found."""
        said = segment.get('text')
        said = said if isinstance(said, str) and said else None
        for span in self._readings(segment):
            if span.start < span.end and said in (None, self._whole[span.start : span.end]):
                return self._within(span)
        if said is not None and self._searches < _MOST_SEARCHES:
            self._searches += 1
            found = self._whole.find(said)
            if found >= 0:
                return self._within(_Span(found, found + len(said)))
        return len(self._texts) - 1, None, None

    def _readings(self, segment: Mapping[str, Any]) -> Iterator[_Span]:
        start, end = segment.get('startIndex', 0), segment.get('endIndex')
        if type(start) is not int or type(end) is not int or not 0 <= start < end:
            return
        part = segment.get('partIndex')
        if type(part) is int and 0 <= part < len(self._parts) and (text := self._parts[part]) >= 0:
            before = self._byte(self._ends[text] - len(self._texts[text]))
            yield self._span(before + start, before + end)
        yield self._span(start, end)

    def _span(self, start: int, end: int) -> _Span:
        """The characters of these bytes, and no more than there are."""
        if self._whole.isascii():
            return _Span(min(start, len(self._whole)), min(end, len(self._whole)))
        offsets = self._offsets()
        last = len(self._whole)
        return _Span(min(bisect_right(offsets, start) - 1, last), min(bisect_left(offsets, end), last))

    def _byte(self, char: int) -> int:
        return char if self._whole.isascii() else self._offsets()[char]

    def _offsets(self) -> list[int]:
        """The byte each character begins at, and where the last one ends."""
        if self._bytes is None:
            sizes = (1 if c < '\x80' else 2 if c < '\u0800' else 3 if c < '\U00010000' else 4 for c in self._whole)
            self._bytes = list(accumulate(sizes, initial=0))
        return self._bytes

    def _within(self, span: _Span) -> tuple[int, int | None, int | None]:
        text = min(bisect_right(self._ends, span.start), len(self._ends) - 1)
        before = self._ends[text] - len(self._texts[text])
        end = min(span.end - before, len(self._texts[text]))
        return text, span.start - before, end


def citations_of(grounding: Mapping[str, Any], texts: Texts) -> Iterator[Cited]:
    """One citation for each source of each supported segment; sources nothing is said about are cited as a whole."""
    chunks = [_fields(chunk) for chunk in _list(grounding.get('groundingChunks'))]
    supports = [_fields(support) for support in _list(grounding.get('groundingSupports'))]
    for support in supports:
        text, start, end = texts.place(_fields(support.get('segment')))
        for index in _list(support.get('groundingChunkIndices')):
            if type(index) is int and 0 <= index < len(chunks):
                yield text, _citation(chunks[index], start, end, {'groundingSupport': support})
    if not supports:
        last, _, _ = texts.place({})
        for chunk in chunks:
            yield last, _citation(chunk, None, None, {})


def cited_sources(metadata: Mapping[str, Any], texts: Texts) -> Iterator[Cited]:
    """The sources an answer recites, by either name the APIs have for them."""
    for source in _list(metadata.get('citations') or metadata.get('citationSources')):
        fields = _fields(source)
        text, start, end = texts.place({**fields, 'text': None})
        yield text, Citation(_text(fields.get('uri')), _text(fields.get('title')), None, start, end, finite(fields))


def _citation(chunk: dict[str, Any], start: int | None, end: int | None, beside: dict[str, Any]) -> Citation:
    source = next((_fields(value) for value in chunk.values() if isinstance(value, dict)), dict[str, Any]())
    url = next((u for key in _URLS if (u := _text(source.get(key)))), None)
    title = _text(source.get('title')) or _text(source.get('domain'))
    details = finite({'groundingChunk': chunk, **beside})
    return Citation(url, title, _text(source.get('text')), start, end, details)


def _text(value: Any) -> str | None:
    return finite(value) if isinstance(value, str) and value else None


def _fields(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []
