"""Drawing a diagram as a small SVG that stands alone: no script, no font or picture from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from unicodedata import east_asian_width

from agent_graph.render.diagram import Box, Diagram, Link
from agent_graph.render.layout import Layout, Place, Point, Route, Wire, lay_out

__all__ = ['svg']

_MARGIN = 16.0
_LINE = 18.0
_SIZE = 13
_SMALL = 12
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"

# fill, border, width of the border
_STYLES = {
    'step': ('#eef2ff', '#6366f1', '1.5'),
    'start': ('#334155', '#334155', '1.5'),
    'end': ('#ecfdf5', '#059669', '1.5'),
    'tool': ('#f8fafc', '#94a3b8', '1.5'),
    'other': ('#f5f3ff', '#8b5cf6', '1.5'),
    'current': ('#fef9c3', '#ca8a04', '3'),
    'failed': ('#fee2e2', '#dc2626', '3'),
    'stopped': ('#f5f5f4', '#78716c', '1.5'),
}

_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{w:.0f}" height="{h:.0f}" viewBox="0 0 {w:.0f} {h:.0f}" '
    'font-family="{font}" font-size="{size}" role="img">'
)
_ARROW = (
    '<defs><marker id="agent-graph-arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0.5L8 4L0 7.5z" fill="#475569"/></marker></defs>'
)
# XML 1.0 has no place for these, not even as entities.
_UNPRINTABLE = re.compile('[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]')


def svg(diagram: Diagram) -> str:
    """`diagram` as SVG text, on a light card so that it can be read on any background."""
    layout = lay_out(
        {box.id: _box_size(box) for box in diagram.boxes},
        [Wire(link.source, link.target, *_label_size(link)) for link in diagram.links],
    )
    top = _MARGIN + (_LINE + 8 if diagram.title else 0)
    width = max(layout.width, _text_width(diagram.title, _SIZE)) + 2 * _MARGIN
    height = layout.height + top + _MARGIN
    shift = (width - layout.width) / 2
    lines = [
        _HEAD.format(w=width, h=height, font=escape(_FONT), size=_SIZE),
        f'<title>{_text(diagram.title or "graph")}</title>',
        _ARROW,
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#ffffff"/>',
    ]
    if diagram.title:
        lines.append(_label(diagram.title, (width / 2, _MARGIN + _LINE / 2), weight='600'))
    lines.append(f'<g transform="translate({shift:.1f} {top:.1f})">')
    lines += _links(diagram.links, layout)
    lines += [_box(box, layout.places[box.id]) for box in diagram.boxes]
    lines += ['</g>', '</svg>']
    return '\n'.join(lines) + '\n'


def _links(links: Sequence[Link], layout: Layout) -> list[str]:
    """All arrows first, then all labels, so that no arrow crosses a text."""
    arrows = [_arrow(link, route) for link, route in zip(links, layout.routes, strict=True)]
    return arrows + [_link_label(link, route) for link, route in zip(links, layout.routes, strict=True) if link.label]


def _arrow(link: Link, route: Route) -> str:
    dash = ' stroke-dasharray="5 4"' if link.dashed else ''
    path = _loop_path(route.points) if link.source == link.target else _path(route.points)
    return (
        f'<path d="{path}" fill="none" stroke="#475569" stroke-width="1.3"{dash} marker-end="url(#agent-graph-arrow)"/>'
    )


def _path(points: Sequence[Point]) -> str:
    (x, y), *rest = points
    parts = [f'M{x:.1f} {y:.1f}']
    for nx, ny in rest:
        if nx == x:
            parts.append(f'L{nx:.1f} {ny:.1f}')
        else:
            middle = (y + ny) / 2
            parts.append(f'C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}')
        x, y = nx, ny
    return ''.join(parts)


def _loop_path(points: Sequence[Point]) -> str:
    start, *curve = points
    return f'M{start[0]:.1f} {start[1]:.1f}C' + ' '.join(f'{x:.1f} {y:.1f}' for x, y in curve)


def _link_label(link: Link, route: Route) -> str:
    width, height = _label_size(link)
    x, y = route.label
    left, top = x - width / 2, y - height / 2
    back = f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="#ffffff"/>'
    return back + _label(' '.join(link.label.split()), (x, y), size=_SMALL, color='#475569')


def _box(box: Box, place: Place) -> str:
    fill, border, stroke = _STYLES[box.mark or box.shape]
    style = f'fill="{fill}" stroke="{border}" stroke-width="{stroke}"'
    if box.mark == 'stopped':
        style += ' stroke-dasharray="4 3"'
    if box.shape == 'start' and not box.lines:
        return f'<circle cx="{place.x:.1f}" cy="{place.y:.1f}" r="{place.width / 2:.1f}" {style}/>'
    radius = {'step': 6.0, 'end': place.height / 2, 'start': place.height / 2}.get(box.shape, 12.0)
    left, top = place.x - place.width / 2, place.y - place.height / 2
    frame = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" '
        f'rx="{min(radius, 18.0):.1f}" {style}/>'
    )
    first = place.y - (len(box.lines) - 1) * _LINE / 2
    return frame + ''.join(_box_line(box, i, (place.x, first + i * _LINE)) for i in range(len(box.lines)))


def _box_line(box: Box, index: int, at: Point) -> str:
    line = box.lines[index]
    if index == 0 and box.shape != 'tool':
        return _label(line, at, weight='600' if len(box.lines) > 1 else '400')
    return _label(line, at, size=_SIZE if index == 0 else _SMALL, color='#0f172a' if index == 0 else '#475569')


def _label(text: str, at: Point, *, size: int = _SIZE, color: str = '#0f172a', weight: str = '400') -> str:
    return (
        f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="{size}" font-weight="{weight}" fill="{color}" '
        f'text-anchor="middle" dy="0.35em">{_text(text)}</text>'
    )


def _text(text: str) -> str:
    return escape(_UNPRINTABLE.sub('\N{REPLACEMENT CHARACTER}', text))


def _box_size(box: Box) -> tuple[float, float]:
    if box.shape == 'start' and not box.lines:
        return 14.0, 14.0
    wide = max((_text_width(line, _SIZE) for line in box.lines), default=0.0)
    return wide + 28, max(1, len(box.lines)) * _LINE + 14


def _label_size(link: Link) -> tuple[float, float]:
    label = ' '.join(link.label.split())
    return (_text_width(label, _SMALL) + 8, _LINE) if label else (0.0, 0.0)


def _text_width(text: str, size: float) -> float:
    """About what a sans-serif font needs; a little too much rather than too little."""
    return sum(size * _char_width(char) for char in text)


def _char_width(char: str) -> float:
    if char in "ilj.,:;'|!()[]{}tfrI ":
        return 0.4
    if char in 'mwMW@%&':
        return 0.95
    if char.isupper():
        return 0.72
    return 1.05 if east_asian_width(char) in 'WF' else 0.62
