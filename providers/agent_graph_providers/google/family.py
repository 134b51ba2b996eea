"""What a model can do, by its name: the family it belongs to and the version of that.

No name is ever looked up in a list. One that says nothing counts as the newest model there is, so new models work as soon as
they exist; what is assumed wrongly is put right with `capabilities=`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from agent_graph.capabilities import Capabilities

__all__ = ['Family', 'family_of']

_GEMINI = re.compile(r'gemini-(?:live-)?(\d{1,2})(?:\.(\d{1,2}))?(?![\d.])')
_GEMMA = re.compile(r'gemma-?(\d{1,2})')
_NEWEST = (99, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family, as far as requests differ.

    `version` of Gemini; `gemma`, the version of Gemma, is 0 for everything else. `pro`: it cannot do without thinking.
    `draws` and `speaks`: it answers with pictures or sound and takes no tools.
    """

    version: tuple[int, int] = _NEWEST
    gemma: int = 0
    pro: bool = False
    draws: bool = False
    speaks: bool = False

    @property
    def instructed(self) -> bool:
        """It takes a system instruction; otherwise that opens the first user message."""
        return not 0 < self.gemma < 4

    @property
    def thinks(self) -> bool:
        """It can be told how much to think."""
        return not self.gemma and self.version >= (2, 5) and not self.speaks

    @property
    def levels(self) -> bool:
        """Thinking is told as a level, not as a number of tokens."""
        return not self.gemma and self.version >= (3, 0)

    @property
    def signed(self) -> bool:
        """It refuses a history whose function calls bear no thought signature."""
        return not self.gemma and self.version >= (3, 0)

    @property
    def files_in_results(self) -> bool:
        """A function response may hold pictures and documents."""
        return not self.gemma and self.version >= (3, 0)

    @property
    def shows_server_tools(self) -> bool:
        """It can be asked to show what its own tools did, which it has to when there are functions beside them."""
        return not self.gemma and self.version >= (3, 0)

    @property
    def fetches(self) -> bool:
        """The Gemini API fetches pictures and documents at public addresses for it."""
        return not self.gemma and self.version >= (2, 5)

    def capabilities(self) -> Capabilities:
        """The record of this family."""
        modern = self.gemma >= 4 if self.gemma else True
        plain = modern and not self.speaks and not self.draws
        heard = not self.gemma
        return Capabilities(
            tools=plain,
            tool_choice=plain,
            native_output=plain,
            native_output_with_tools=plain and not self.gemma and self.version >= (3, 0),
            images=not self.speaks,
            audio=heard and not self.speaks,
            video=heard and not self.speaks,
            documents=heard and not self.speaks,
            thinking=self.thinks,
            prompt_cache=False,
            count_tokens=True,
        )


@lru_cache(maxsize=256)
def family_of(name: str) -> Family:
    """The family of a model's name, whatever stands before or after it."""
    name = name.lower()
    if (gemma := _GEMMA.search(name)) is not None:
        return Family(version=(0, 0), gemma=int(gemma[1]))
    gemini = _GEMINI.search(name)
    version = (int(gemini[1]), int(gemini[2] or 0)) if gemini is not None else _NEWEST
    words = set(re.split(r'[^a-z]+', name))
    return Family(version=version, pro='pro' in words, draws='image' in words, speaks='tts' in words)
