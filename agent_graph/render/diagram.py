"""A picture before it is drawn: boxes and arrows, the one form that mermaid and SVG are written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ['Box', 'Diagram', 'Link', 'Mark', 'Shape']

Shape: TypeAlias = Literal['step', 'start', 'end', 'tool', 'other']
"""What a box stands for; `start` is drawn as a dot."""

Mark: TypeAlias = Literal['', 'current', 'failed', 'stopped']
"""How a box is highlighted: where the run is, what failed, what was cancelled, interrupted, denied or skipped."""


@dataclass(frozen=True, slots=True)
class Box:
    """One box: `id` is unique in its diagram, `lines` is its text from top to bottom."""

    id: str
    lines: tuple[str, ...] = ()
    shape: Shape = 'step'
    mark: Mark = ''


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow between two boxes, by their ids."""

    source: str
    target: str
    label: str = ''
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Diagram:
    """Boxes in drawing order, the first at the top, and the arrows between them."""

    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    title: str = ''
