"""Placing boxes in layers, top to bottom, so that arrows and their labels do not lie on each other.

The usual four steps for small directed graphs: turn the links that close a cycle around, put every box two layers below
its lowest predecessor, order each layer by the middle of its neighbours, then move boxes sideways towards those. The
layer between two boxes holds the link itself, so two links between the same boxes run side by side, each with room for
its label. Sizes and places are in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

__all__ = ['Layout', 'Place', 'Point', 'Route', 'Wire', 'lay_out']

Point: TypeAlias = tuple[float, float]

_GAP_X = 28.0
_GAP_Y = 17.0
_PORT = 26.0
_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Wire:
    """A link to lay: from box to box, with the size its label needs."""

    source: str
    target: str
    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a box is: its middle and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """How a link runs, from its source to its target, and where the middle of its label is."""

    points: tuple[Point, ...]
    label: Point


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole picture: its size, each box's place by id, and one route for each wire in the order given."""

    width: float
    height: float
    places: dict[str, Place]
    routes: tuple[Route, ...]


@dataclass(slots=True, eq=False)
class _Cell:
    """A box, or the piece of a wire that crosses a layer."""

    layer: int
    width: float
    height: float
    above: list[_Cell] = field(default_factory=list['_Cell'])
    below: list[_Cell] = field(default_factory=list['_Cell'])
    x: float = 0.0
    y: float = 0.0


def lay_out(sizes: Mapping[str, tuple[float, float]], wires: Sequence[Wire]) -> Layout:
    """Place boxes of these sizes, the first at the top, and lay the wires between them."""
    turned = _closing(list(sizes), wires)
    directed = [(w.target, w.source) if i in turned else (w.source, w.target) for i, w in enumerate(wires)]
    layers = _layers(list(sizes), directed)
    cells = {name: _Cell(layers[name], *size) for name, size in sizes.items()}
    chains = [
        _chain(cells[a], cells[b], wire) if a != b else [cells[a]] for (a, b), wire in zip(directed, wires, strict=True)
    ]
    rows = _rows(cells.values(), chains)
    _order(rows)
    _spread(rows)
    _stack(rows)
    routes = [
        _loop(cells[wire.source], wire) if wire.source == wire.target else _route(chain, turn=i in turned)
        for i, (chain, wire) in enumerate(zip(chains, wires, strict=True))
    ]
    places = {name: Place(cell.x, cell.y, cell.width, cell.height) for name, cell in cells.items()}
    return _at_origin(places, routes, [cell for row in rows for cell in row], wires)


def _closing(names: Sequence[str], wires: Sequence[Wire]) -> set[int]:
    """The wires that lead back to a box still being walked through: turned around, no cycle is left."""
    leaving: dict[str, list[int]] = {name: [] for name in names}
    for i, wire in enumerate(wires):
        leaving[wire.source].append(i)
    state: dict[str, int] = {}  # 1 while its descendants are walked, 2 after
    closing: set[int] = set()
    for root in names:
        stack = [(root, iter(leaving[root]))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            name, rest = stack[-1]
            for i in rest:
                target = wires[i].target
                if state.get(target) == 1 and target != name:
                    closing.add(i)
                elif target not in state:
                    state[target] = 1
                    stack.append((target, iter(leaving[target])))
                    break
            else:
                state[name] = 2
                stack.pop()
    return closing


def _layers(names: Sequence[str], links: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Longest path from the top, counting two layers a link."""
    waits = dict.fromkeys(names, 0)
    after: dict[str, list[str]] = {name: [] for name in names}
    for source, target in links:
        if source != target:
            waits[target] += 1
            after[source].append(target)
    layer = dict.fromkeys(names, 0)
    ready = [name for name in names if not waits[name]]
    for name in ready:  # grows while it is walked
        for target in after[name]:
            layer[target] = max(layer[target], layer[name] + 2)
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    return layer


def _chain(top: _Cell, bottom: _Cell, wire: Wire) -> list[_Cell]:
    """The cells a wire runs through; the middle one has room for its label."""
    chain = [top, *(_Cell(layer, 2.0, 0.0) for layer in range(top.layer + 1, bottom.layer)), bottom]
    middle = chain[len(chain) // 2]
    middle.width, middle.height = max(wire.width, 2.0), wire.height
    for upper, lower in pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _rows(cells: Iterable[_Cell], chains: Sequence[Sequence[_Cell]]) -> list[list[_Cell]]:
    found = [*cells, *(cell for chain in chains for cell in chain[1:-1])]
    rows: list[list[_Cell]] = [[] for _ in range(max((cell.layer for cell in found), default=-1) + 1)]
    for cell in found:
        rows[cell.layer].append(cell)
    return rows


def _order(rows: Sequence[list[_Cell]]) -> None:
    """Sort each layer by the middle of its neighbours' positions, down and up in turn."""
    at: dict[_Cell, float] = {cell: float(i) for row in rows for i, cell in enumerate(row)}

    def middle(cell: _Cell, near: Sequence[_Cell]) -> float:
        return sum(at[n] for n in near) / len(near) if near else at[cell]

    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            row.sort(key=lambda cell: middle(cell, cell.above if down else cell.below))
            at.update((cell, float(i)) for i, cell in enumerate(row))


def _spread(rows: Sequence[Sequence[_Cell]]) -> None:
    """Give every cell its x: as near to its neighbours' middle as the cells beside it allow."""
    for row in rows:
        _push_apart(row, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted: list[float] = []
            for cell in row:
                near = (cell.above if sweep % 2 == 0 else cell.below) or [cell]
                wanted.append(sum(n.x for n in near) / len(near))
            _push_apart(row, wanted)


def _push_apart(row: Sequence[_Cell], wanted: Sequence[float]) -> None:
    """Put the cells at the places wanted, moved as far apart as they must be, by half to each side."""
    right: list[float] = []
    left: list[float] = []
    for i, cell in enumerate(row):
        least = right[-1] + _distance(row[i - 1], cell) if i else wanted[i]
        right.append(max(wanted[i], least))
    for i in range(len(row) - 1, -1, -1):
        most = left[-1] - _distance(row[i], row[i + 1]) if left else wanted[i]
        left.append(min(wanted[i], most))
    for cell, a, b in zip(row, right, reversed(left), strict=True):
        cell.x = (a + b) / 2


def _distance(left: _Cell, right: _Cell) -> float:
    return (left.width + right.width) / 2 + _GAP_X


def _stack(rows: Sequence[Sequence[_Cell]]) -> None:
    y = 0.0
    for row in rows:
        height = max(cell.height for cell in row)
        for cell in row:
            cell.y = y + height / 2
        y += height + _GAP_Y


def _route(chain: Sequence[_Cell], *, turn: bool) -> Route:
    top, *inner, bottom = chain
    first, last = (inner[0], inner[-1]) if inner else (bottom, top)
    points: list[Point] = [(_port(top, top.below, first), top.y + top.height / 2)]
    for cell in inner:
        points += [(cell.x, cell.y - cell.height / 2), (cell.x, cell.y + cell.height / 2)]
    points.append((_port(bottom, bottom.above, last), bottom.y - bottom.height / 2))
    middle = chain[len(chain) // 2]
    return Route(tuple(reversed(points)) if turn else tuple(points), (middle.x, middle.y))


def _port(cell: _Cell, side: Sequence[_Cell], neighbour: _Cell) -> float:
    """Where on a box's edge a link docks: the links of one side share it, in the order they arrive."""
    ordered = sorted(side, key=lambda n: n.x)
    step = min(_PORT, cell.width / (len(ordered) + 1))
    index = next(i for i, n in enumerate(ordered) if n is neighbour)
    return cell.x + (index - (len(ordered) - 1) / 2) * step


def _loop(cell: _Cell, wire: Wire) -> Route:
    """A link from a box to itself, at its right side."""
    right, out, half = cell.x + cell.width / 2, 34.0, min(10.0, cell.height / 3)
    points = (
        (right, cell.y - half),
        (right + out, cell.y - half),
        (right + out, cell.y + half),
        (right, cell.y + half),
    )
    return Route(points, (right + out + wire.width / 2, cell.y))


def _at_origin(
    places: Mapping[str, Place], routes: Sequence[Route], cells: Sequence[_Cell], wires: Sequence[Wire]
) -> Layout:
    """Move everything so that the picture begins at 0, 0."""
    lefts = [c.x - c.width / 2 for c in cells]
    rights = [c.x + c.width / 2 for c in cells]
    rights += [r.label[0] + w.width / 2 for r, w in zip(routes, wires, strict=True)]
    left, right = min(lefts, default=0.0), max(rights, default=0.0)
    bottom = max((c.y + c.height / 2 for c in cells), default=0.0)
    return Layout(
        right - left,
        bottom,
        {name: Place(p.x - left, p.y, p.width, p.height) for name, p in places.items()},
        tuple(Route(tuple((x - left, y) for x, y in r.points), (r.label[0] - left, r.label[1])) for r in routes),
    )
