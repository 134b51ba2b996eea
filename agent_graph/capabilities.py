"""What a model can do, as a record: a provider fills it per model family, a user may override it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ['UNKNOWN', 'Capabilities', 'capabilities_of']


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What one model can do, as far as the engine and its providers ask.

    `tools`: it can be offered tools. `tool_choice`: it can be made to call one. `native_output`: it can hold its answer to
    a JSON schema; `native_output_with_tools`: also while tools are offered. `images`, `audio`, `video`, `documents`: kinds
    of files it takes. `thinking`: it shows or takes back reasoning. `prompt_cache`: `CachePoint` and `auto_cache` have an
    effect. `count_tokens`: its provider can count tokens without answering.
    """

    tools: bool = True
    tool_choice: bool = True
    native_output: bool = True
    native_output_with_tools: bool = True
    images: bool = True
    audio: bool = False
    video: bool = False
    documents: bool = False
    thinking: bool = False
    prompt_cache: bool = False
    count_tokens: bool = False


UNKNOWN = Capabilities()
"""What is assumed of a model that says nothing about itself."""


def capabilities_of(model: Any) -> Capabilities:
    """A model's own record (its attribute `capabilities`), or `UNKNOWN`."""
    found = getattr(model, 'capabilities', None)
    return found if isinstance(found, Capabilities) else UNKNOWN
