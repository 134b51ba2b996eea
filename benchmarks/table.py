"""Numbers -> the text that is printed: Markdown tables whose ratios are to the first column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ['Cells', 'cell', 'table']

Cells = Mapping[str, float]
"""Column -> number; a column that is missing is empty."""


def table(title: str, columns: Sequence[str], rows: Sequence[tuple[str, Cells]]) -> str:
    """A table with a line for each (title, numbers); every column but the first also shows its ratio to that one."""
    lines = [_line([title, *columns]), _line(['---'] + ['---:'] * len(columns))]
    for name, cells in rows:
        first = cells.get(columns[0])
        lines.append(_line([name, *(cell(cells.get(c), first if c != columns[0] else None) for c in columns)]))
    return '\n'.join(lines)


def cell(number: float | None, first: float | None) -> str:
    """A number, with its ratio to `first` where there is one."""
    if number is None:
        return '–'
    text = f'{number:,.0f}' if number >= 100 else f'{number:.3g}'
    return f'{text} ({number / first:.3g}x)' if first else text


def _line(cells: Sequence[str]) -> str:
    return '| ' + ' | '.join(cells) + ' |'
