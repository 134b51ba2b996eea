"""A function's docstring as a tool's description and its parameters' descriptions: Google, NumPy and Sphinx style.

The description is the text of the docstring without its sections, byte for byte apart from the indentation; what a
`Returns` section says is kept at its end, since a model can use it. Other sections (raises, examples, notes) are for
people and left out. A docstring without sections is taken whole.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from griffe import DocstringSection

__all__ = ['Documentation', 'read_docstring']

_WORDS = (
    'args|arguments|params|parameters|keyword args|keyword arguments|keyword parameters|other args|other arguments'
    '|other parameters|returns?|yields?|raises|examples?'
)
_FIELDS = 'param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?|except|exception'

_STYLES = {
    'sphinx': re.compile(rf'^[ \t]*:(?:{_FIELDS})\b[^:\n]*:', re.MULTILINE),
    'numpy': re.compile(rf'^[ \t]*(?:{_WORDS})[ \t]*\n[ \t]*-{{3,}}[ \t]*$', re.IGNORECASE | re.MULTILINE),
    'google': re.compile(rf'^[ \t]*(?:{_WORDS})[ \t]*:[ \t]*$', re.IGNORECASE | re.MULTILINE),
}
"""How a docstring of each style shows; most have no sections at all, and then no parser is loaded."""


@dataclass(frozen=True, slots=True)
class Documentation:
    """What a docstring says: `description` of the whole, `parameters` by name."""

    description: str = ''
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str | None) -> Documentation:
    """Read a docstring in any of the three styles; `None` and blank text give an empty description."""
    if not text or not text.strip():
        return Documentation()
    text = inspect.cleandoc(text)
    for style, shows in _STYLES.items():
        if shows.search(text):
            return _read_sections(text, style)
    return Documentation(text)


def _read_sections(text: str, style: str) -> Documentation:
    from griffe import Docstring, DocstringSectionKind, Parser, parse  # only needed for docstrings with sections

    kinds = DocstringSectionKind
    prose: list[str] = []
    parameters: dict[str, str] = {}
    for section in parse(Docstring(text, lineno=1), Parser(style), warnings=False):
        if section.kind is kinds.text:
            prose.append(section.value)
        elif section.kind in (kinds.parameters, kinds.other_parameters):
            parameters.update(_parameter_texts(section))
        elif section.kind is kinds.returns:
            returned = '; '.join(item.description.strip() for item in section.value if item.description.strip())
            prose += [f'Returns: {returned}'] if returned else []
    return Documentation('\n\n'.join(part.strip('\n') for part in prose if part.strip()), parameters)


def _parameter_texts(section: DocstringSection) -> Iterable[tuple[str, str]]:
    for item in section.value:
        description = inspect.cleandoc(item.description)
        for name in str(item.name).split(','):  # NumPy style documents several in one entry: `x, y : int`
            if description:
                yield name.strip().lstrip('*'), description
