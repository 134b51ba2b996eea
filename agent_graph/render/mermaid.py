"""Writing a diagram as a mermaid flowchart.

Whatever text a name or a label holds (quotes, brackets, line breaks, HTML, mermaid's own words), the result stays one
valid flowchart that shows that text: ids are taken over only when they cannot be misread, and labels are quoted with
everything special as a numbered entity.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from agent_graph.render.diagram import Box, Diagram, Link

__all__ = ['Direction', 'escape', 'flowchart']

Direction: TypeAlias = Literal['TD', 'TB', 'LR', 'BT', 'RL']
"""Which way the arrows run: top down (also `TB`), left to right, bottom up, right to left."""

_PLAIN_ID = re.compile(r'[A-Z][A-Za-z0-9_]*\Z')
"""Mermaid's own words are lower case, and an id beginning with `o` or `x` can be read as the head of an arrow."""

# What mermaid, its markdown, its icons and formulas or HTML would read in a quoted label; `#` itself begins an entity.
# Names such as `get_weather` keep their underscores, which are no emphasis inside a word: the source stays readable.
_SPECIAL = re.compile(
    r'["#<>&`*~\\]|%(?=[%{])|\$(?=\$)|(?<![^\W_])_|_(?![^\W_])|:(?=fa-)'
    r'|[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]'
)
# A line that would begin a markdown list, heading or quote.
_LIST_HEAD = re.compile(r'^(\s*)(\d+)([.)])(?=\s)|^(\s*)([-+])(?=\s)')

_SHAPES = {
    'step': ('["', '"]'),
    'start': ('(("', '"))'),
    'end': ('(["', '"])'),
    'tool': ('("', '")'),
    'other': ('{{"', '"}}'),
}

_CLASSES = {
    'tool': 'classDef tool fill:#f1f5f9,stroke:#94a3b8,color:#0f172a',
    'current': 'classDef current fill:#fef9c3,stroke:#ca8a04,stroke-width:3px,color:#0f172a',
    'failed': 'classDef failed fill:#fee2e2,stroke:#dc2626,stroke-width:3px,color:#0f172a',
    'stopped': 'classDef stopped fill:#f5f5f4,stroke:#78716c,stroke-dasharray:4 3,color:#0f172a',
}


def flowchart(diagram: Diagram, *, direction: Direction = 'TD') -> str:
    """`diagram` as a mermaid flowchart; ends with a line break."""
    ids = _safe_ids(diagram)
    lines = [f'flowchart {direction}']
    if diagram.title:
        lines = ['---', f'title: "{_title(diagram.title)}"', '---', *lines]
    lines += [f'    {_box(box, ids)}' for box in diagram.boxes]
    lines += [f'    {_link(link, ids)}' for link in diagram.links]
    lines += [f'    {line}' for line in _styles(diagram, ids)]
    return '\n'.join(lines) + '\n'


def escape(text: str) -> str:
    """`text` so that a quoted mermaid label shows it as it is; line breaks become `<br/>`."""
    return '<br/>'.join(_escape_line(line) for line in text.splitlines())


def _escape_line(line: str) -> str:
    line = _SPECIAL.sub(lambda m: _entity(m.group()), line)
    return _LIST_HEAD.sub(_list_head, line)


def _list_head(match: re.Match[str]) -> str:
    space, digits, dot, space2, sign = match.groups()
    return f'{space}{digits}{_entity(dot)}' if dot else f'{space2}{_entity(sign)}'


def _entity(char: str) -> str:
    code = ord(char)
    if char == '\t':
        return ' '
    if code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029) or 0xD800 <= code <= 0xDFFF:
        return '\N{REPLACEMENT CHARACTER}'  # neither SVG nor a terminal can show these
    return f'#{code};'


def _title(title: str) -> str:
    """The title is YAML in a quoted string, not a label."""
    flat = ' '.join(title.split())
    return ''.join(
        '\N{REPLACEMENT CHARACTER}' if not c.isprintable() else c
        for c in flat.replace('\\', '\\\\').replace('"', '\\"')
    )


def _safe_ids(diagram: Diagram) -> dict[str, str]:
    taken = {box.id for box in diagram.boxes if _PLAIN_ID.match(box.id)}
    ids: dict[str, str] = {}
    for index, box in enumerate(diagram.boxes):
        name = box.shape.title() if box.shape in ('start', 'end') else ''
        if _PLAIN_ID.match(box.id):
            ids[box.id] = box.id
        elif name and name not in taken:
            ids[box.id] = name
            taken.add(name)
        else:
            ids[box.id] = f'n{index}'
    return ids


def _box(box: Box, ids: dict[str, str]) -> str:
    opening, closing = _SHAPES[box.shape]
    label = '<br/>'.join(escape(line) for line in box.lines) or ' '
    return f'{ids[box.id]}{opening}{label}{closing}'


def _link(link: Link, ids: dict[str, str]) -> str:
    arrow = '-.->' if link.dashed else '-->'
    label = f'|"{escape(link.label)}"|' if link.label else ''
    return f'{ids[link.source]} {arrow}{label} {ids[link.target]}'


def _styles(diagram: Diagram, ids: dict[str, str]) -> list[str]:
    members: dict[str, list[str]] = {}
    for box in diagram.boxes:
        style = box.mark or ('tool' if box.shape == 'tool' else '')
        if style:
            members.setdefault(style, []).append(ids[box.id])
    lines: list[str] = []
    for style, names in members.items():
        lines += [_CLASSES[style], f'class {",".join(names)} {style}']
    return lines
