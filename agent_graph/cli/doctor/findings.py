"""What looking at a machine's set-up brings to light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ['Finding', 'Level', 'fine', 'note', 'problem']

Level = Literal['ok', 'note', 'problem']


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `about` is a word or two, `text` what was seen, `remedy` what to do."""

    level: Level
    about: str
    text: str
    remedy: str = ''


def fine(about: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding('ok', about, text)


def note(about: str, text: str, remedy: str = '') -> Finding:
    """Worth knowing; nothing is broken by it."""
    return Finding('note', about, text, remedy)


def problem(about: str, text: str, remedy: str) -> Finding:
    """Something will fail until it is mended."""
    return Finding('problem', about, text, remedy)
