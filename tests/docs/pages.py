"""The fenced examples of a Markdown page, and what the page says about running them.

A `python` block is run; all blocks of a page share one namespace and one folder, as if typed one after the other, and
`await` works at the top level. A block whose first line is a comment with a file name (`# weather.py`) is also written to
that file. In a `console` block the lines after `$ ` are run by a shell; the other lines are their output. An `output`
block is what the block before it prints; `...` in it stands for anything.

Comments of the page steer this: `<!-- replies: ["a text", {"name": "tool", "args": {}}] -->` is what the pretended
provider answers to the next requests of this page, `<!-- setup` ... `-->` is Python that the reader does not see, and
`<!-- not run: reason -->` excuses the next block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ['DATA', 'RUN', 'Block', 'blocks_of', 'pages']

ROOT = Path(__file__).parent.parent.parent

RUN = ('python', 'console')
"""Languages of examples that are run."""

DATA = (
    'output',
    'text',
    'toml',
    'yaml',
    'json',
    'jsonl',
    'mermaid',
    'sql',
    '{toctree}',
    '{eval-rst}',
    '{admonition}',
    '{note}',
)
"""Languages that show something and have nothing to run. Whatever is neither here nor in `RUN` is a mistake."""

_FENCE = re.compile(r'^(?P<indent> *)(?P<marks>`{3,}|:{3,})(?P<info>[^`]*)$')
_COMMENT = re.compile(r'<!--\s*(?P<kind>replies|not run|setup)(?P<colon>:?)(?P<body>.*?)-->', re.DOTALL)


@dataclass
class Block:
    """One example. `line` is the number of its first line in the page."""

    language: str
    text: str
    line: int
    output: str | None = None
    excuse: str | None = None
    replies: tuple[Any, ...] = ()


def pages() -> list[Path]:
    """README.md and every page of docs/."""
    return [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]


def blocks_of(page: str) -> list[Block]:
    """What is to be looked at on a page, in order; `setup` comments are `python` blocks too."""
    found: list[Block] = []
    replies: list[Any] = []
    excuse: str | None = None
    for kind, body, line in _items(page):
        if kind == '<replies':
            replies += json.loads(body)
        elif kind == '<not run':
            excuse = body.strip()
        elif kind == 'output' and found:
            found[-1].output = body
        elif kind == '<setup':
            found.append(Block('python', body, line))
        else:
            found.append(Block(kind, body, line, None, excuse, tuple(replies)))
            replies, excuse = [], None
    return found


def _items(page: str) -> Iterator[tuple[str, str, int]]:
    """Fences as (language, text, line) and comments as ('<' + kind, text, line)."""
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        if fence := _FENCE.match(lines[at]):
            end = _end_of(lines, at, fence['marks'])
            indent = len(fence['indent'])
            yield (
                (fence['info'].split() or [''])[0],
                '\n'.join(line[indent:] for line in lines[at + 1 : end]) + '\n',
                at + 2,
            )
            at = end + 1
        elif '<!--' in lines[at]:
            end = next((i for i in range(at, len(lines)) if '-->' in lines[i]), len(lines) - 1)
            if comment := _COMMENT.search('\n'.join(lines[at : end + 1])):
                yield f'<{comment["kind"]}', comment['body'], at + 1
            at = end + 1
        else:
            at += 1


def _end_of(lines: list[str], start: int, marks: str) -> int:
    for index in range(start + 1, len(lines)):
        if lines[index].strip() == marks:
            return index
    raise ValueError(f'line {start + 1}: the fence {lines[start]!r} is never closed')
