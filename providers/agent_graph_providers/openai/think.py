"""Reasoning written into the text between `<think>` and `</think>`, told apart whatever the cuts between pieces."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ['Span', 'ThinkTags']

_OPEN, _CLOSE = '<think>', '</think>'

Span: TypeAlias = tuple[Literal['text', 'thinking'], str]
"""A piece of visible text or of reasoning."""


class ThinkTags:
    """Splits a streamed text. What might be the beginning of a tag is held until it is one or is not.

    Pieces carry no meaning: the spans of a text are the same however it is cut. Tags do not nest. Text that ends inside a
    tag is reasoning to its end.
    """

    __slots__ = ('_held', '_inside')

    def __init__(self) -> None:
        self._held = ''
        self._inside = False

    @property
    def plain(self) -> bool:
        """Outside a tag and holding nothing: a piece without `<` needs no look."""
        return not self._held and not self._inside

    @property
    def holding(self) -> bool:
        """Something is held that may be the beginning of a tag."""
        return bool(self._held)

    def feed(self, piece: str) -> list[Span]:
        """The spans that are certain now."""
        text = self._held + piece
        spans: list[Span] = []
        while True:
            tag = _CLOSE if self._inside else _OPEN
            before, found, after = text.partition(tag)
            if not found:
                break
            self._add(spans, before)
            self._inside = not self._inside
            text = after
        keep = _beginning(text, tag)
        self._held = text[len(text) - keep :]
        self._add(spans, text[: len(text) - keep])
        return spans

    def end(self) -> list[Span]:
        """What was held: it was no tag."""
        spans: list[Span] = []
        self._add(spans, self._held)
        self._held = ''
        return spans

    def _add(self, spans: list[Span], text: str) -> None:
        if text:
            spans.append(('thinking' if self._inside else 'text', text))


def _beginning(text: str, tag: str) -> int:
    """How many characters at the end of `text` might begin `tag`."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return size
    return 0
