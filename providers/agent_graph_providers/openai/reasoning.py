"""Reasoning of a response: its text as it comes, and the sealed blocks that go back to the server with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_graph.model import ResponseBuilder
from agent_graph.text import clean_json

__all__ = ['Reasoning', 'detail_text']

_JOINED = ('text', 'summary', 'data', 'signature')
"""Fields of a block that a stream sends in pieces."""


def detail_text(block: Mapping[str, Any]) -> str:
    """The visible text of one of `reasoning_details`."""
    text = block.get('text') or block.get('summary')
    return text if isinstance(text, str) else ''


class Reasoning:
    """One thinking part at a time. `open` while there is something to settle before anything else is pushed."""

    __slots__ = ('_blocks', '_field', '_out', 'open')

    def __init__(self, out: ResponseBuilder) -> None:
        self._out = out
        self._field = ''
        self._blocks: list[dict[str, Any]] = []
        self.open = False

    async def text(self, name: str, text: str) -> None:
        """Reasoning text that came in the field `name` (`''`: only in the blocks)."""
        if not text:
            return
        if self.open or not name:
            await self._out.thinking(text)
        else:
            await self._out.thinking(text, details={'field': name})
        self._field = self._field or name
        self.open = True

    def add_blocks(self, blocks: Sequence[dict[str, Any]]) -> None:
        """Take over `reasoning_details`; a piece is joined to the block it goes on with."""
        self.open = True
        for block in blocks:
            last = self._blocks[-1] if self._blocks else None
            if last is None or not _continues(last, block):
                self._blocks.append(block)
                continue
            for key, value in block.items():
                if key in _JOINED and isinstance(value, str) and isinstance(before := last.get(key), str):
                    last[key] = before + value
                elif value is not None:
                    last[key] = value

    async def settle(self) -> None:
        """The part is whole: put the seal and the blocks on it."""
        if self._blocks:
            details: dict[str, Any] = {'field': self._field} if self._field else {}
            # Pieces joined here may have brought two halves of a character together.
            details['reasoning_details'] = clean_json(self._blocks)
            seals = [b.get('signature') or b.get('data') for b in self._blocks]
            seal = next((s for s in reversed(seals) if isinstance(s, str) and s), None)
            await self._out.thinking('', signature=seal, details=details)
        self._blocks, self._field, self.open = [], '', False


def _continues(last: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    if last.get('type') != block.get('type') or last.get('type') == 'reasoning.encrypted':
        return False
    if last.get('index') != block.get('index') or last.get('signature'):
        return False
    return block.get('id') in (None, last.get('id'))
