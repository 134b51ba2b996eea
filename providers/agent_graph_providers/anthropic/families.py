"""What the families of Claude models can do and how each is told to think, by line and version in their names.

No list of models: `claude-opus-4-7` is read as line `opus`, version 4.7, and later versions are taken to be like the latest
known one. A name that cannot be read so gets the record of the newest family.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agent_graph.capabilities import Capabilities

__all__ = ['NEWEST', 'Family', 'capabilities_of_name', 'family_of']

_LOW_TO_HIGH = ('low', 'medium', 'high')
_LARGE = frozenset({'fable', 'mythos'})
"""The lines above Opus; each of their features came with an earlier number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How requests to these models are written.

    `output`: the most tokens of one answer. `thinking`: it is told a number of tokens (`budget`), decides itself
    (`adaptive`), takes `both`, or does not think (`none`). `off`: the `thinking.type` that turns thinking off: `''` where
    it is off unless asked for, `None` where it is always on. `efforts`: the words for `output_config.effort`, in order.
    `native_output`: it holds an answer to a JSON schema. `forced`: it can be made to call a tool; `forced_thinking`: also while
    it decides itself how to think. `system_inside`: system messages may stand among the others. `bound`: its thinking is tied to everything before it in the conversation.
    """

    output: int
    thinking: Literal['none', 'budget', 'both', 'adaptive']
    off: str | None = ''
    efforts: tuple[str, ...] = ()
    native_output: bool = True
    forced: bool = True
    forced_thinking: bool = False
    system_inside: bool = False
    bound: bool = False


NEWEST = Family(
    output=128_000,
    thinking='adaptive',
    off=None,
    efforts=(*_LOW_TO_HIGH, 'xhigh'),
    forced=False,
    system_inside=True,
)
"""What is assumed of a name that says nothing; that thinking is tied to what is before it is not, as it needs a beta."""


@lru_cache(maxsize=256)
def family_of(name: str) -> Family:
    """The family a model's name belongs to."""
    line, version = _read(name)
    if not version:
        return NEWEST
    return Family(
        output=_output(line, version),
        thinking=_thinking(version),
        off=_off(line, version),
        efforts=_efforts(line, version),
        native_output=version >= ((4, 1) if line == 'opus' else (4, 5)),
        forced=line == 'haiku' or version < _from(line, large=(5, 1), other=(5, 5)),
        forced_thinking=version >= (4, 8),
        system_inside=version >= ((4, 8) if line == 'opus' else _from(line, large=(5, 0), other=(5, 5))),
        bound=version >= _from(line, large=(5, 1), other=(5, 5)),
    )


def capabilities_of_name(name: str) -> Capabilities:
    """The engine's record of what a model can do."""
    family = family_of(name)
    return Capabilities(
        tool_choice=family.forced,
        native_output=family.native_output,
        native_output_with_tools=family.native_output,
        documents=True,
        thinking=family.thinking != 'none',
        prompt_cache=True,
        count_tokens=True,
    )


_Version = tuple[int, ...]


def _read(name: str) -> tuple[str, _Version]:
    """Line and version, from `claude-opus-4-7`, `claude-3-5-haiku-latest`, `claude-sonnet-4-5@20250929` and the like."""
    words = re.split(r'[^a-z0-9]+', name.lower().rpartition('claude')[2])
    line = next((word for word in words if word.isalpha()), '')
    numbers = [int(word) for word in words if word.isdecimal() and len(word) <= 2][:2]
    if not numbers or 'claude' not in name.lower():
        return line, ()
    return line, (*numbers, 0)[:2]


def _from(line: str, *, large: _Version, other: _Version) -> _Version:
    return large if line in _LARGE else other


def _output(line: str, version: _Version) -> int:
    if version < (3, 7):
        return 4_096 if version < (3, 5) else 8_192
    if version < (4, 6):
        return 32_000 if line == 'opus' and version < (4, 5) else 64_000
    return 128_000


def _thinking(version: _Version) -> Literal['none', 'budget', 'both', 'adaptive']:
    if version < (4, 6):
        return 'budget' if version >= (3, 7) else 'none'
    return 'both' if version == (4, 6) else 'adaptive'


def _off(line: str, version: _Version) -> str | None:
    if line in _LARGE:
        return None
    if version < (5, 0):
        return ''
    if version < (5, 5) or line == 'haiku':
        return 'disabled'
    return 'between_tools' if line == 'sonnet' else None


def _efforts(line: str, version: _Version) -> tuple[str, ...]:
    if version >= (4, 7):
        return (*_LOW_TO_HIGH, 'xhigh')
    return _LOW_TO_HIGH if version == (4, 6) or (line == 'opus' and version == (4, 5)) else ()
