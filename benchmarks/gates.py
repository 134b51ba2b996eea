"""The bounds the engine must keep: exact calls per run, and the wall time of many runs at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.cases import Adapter, case_of
from benchmarks.measure import count_calls
from benchmarks.rows import ROWS

__all__ = ['BURST_LIMIT', 'GATES', 'Gate', 'count_row']

BURST_LIMIT = 3.0
"""Concurrent runs may take so many times what their model's delays alone take."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A bound on calls: those of `row` beyond those of `beyond`, divided by `per` (a number, or another row's calls)."""

    title: str
    limit: float
    row: str
    per: int | str = 1
    beyond: str | None = None

    def value(self, calls: Mapping[str, int]) -> float:
        """What was counted, in the gate's own unit."""
        found = calls[self.row] - (calls[self.beyond] if self.beyond else 0)
        return found / (calls[self.per] if isinstance(self.per, str) else self.per)

    def holds(self, calls: Mapping[str, int]) -> bool:
        return self.value(calls) <= self.limit


GATES: dict[str, Gate] = {
    'make': Gate('construct an agent', 20, 'make'),
    'text': Gate('text', 200, 'text'),
    'tool': Gate('1 tool call, then text', 400, 'tool'),
    'turns10': Gate('10 turns of 1 tool call', 2_500, 'turns10'),
    'turns50': Gate('50 turns, in times of 10 turns', 5.1, 'turns50', per='turns10'),
    'par100': Gate('100 parallel tool calls', 15_000, 'par100'),
    'history': Gate('each prior message', 1, 'history', per=1_000, beyond='text'),
    'stream': Gate('each piece streamed over HTTP', 350, 'stream', per=2_000),
}
"""By key; the limits are this project's own promise."""


async def count_row(adapter: Adapter, key: str, url: str = '') -> int:
    """The exact calls of one warm run of a row."""
    return await count_calls(case_of(adapter, ROWS[key], url))
