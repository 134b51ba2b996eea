"""What really happened, written down outside the engine: one line for every effect, on the disk before the effect ends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ['Ledger', 'Line', 'count']


class Line(NamedTuple):
    """`what` happened ('tool', 'step', 'model', 'verdict'), in which run (or for which agent), to which call."""

    what: str
    where: str
    key: str


class Ledger:
    """A file that lines are added to, by any number of processes at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, what: str, where: str, key: str) -> None:
        """Add a line; it is on the disk when this returns."""
        file = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        try:
            os.write(file, f'{json.dumps([what, where, key])}\n'.encode())
            os.fsync(file)
        finally:
            os.close(file)

    def lines(self) -> list[Line]:
        """All lines, oldest first."""
        if not self.path.exists():
            return []
        return [Line(*json.loads(line)) for line in self.path.read_text().splitlines()]


def count(lines: list[Line]) -> dict[Line, int]:
    """How often each line is there."""
    found: dict[Line, int] = {}
    for line in lines:
        found[line] = found.get(line, 0) + 1
    return found
