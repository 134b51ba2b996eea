"""How long to wait before a model is asked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent_graph.errors import ConfigError
from agent_graph.models.bounds import is_number

__all__ = ['Backoff']


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow: `first` seconds before the second try, `factor` times as much before each further one, `most` at most.

    `jitter` is the share of each wait that is random, so that many runs that failed together do not come back together:
    1 waits anything from nothing to the whole, 0 exactly the whole.
    """

    first: float = 0.5
    factor: float = 2.0
    most: float = 30.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        numbers = all(map(is_number, (self.first, self.factor, self.most, self.jitter)))
        if not (numbers and self.first >= 0 and self.factor >= 1 and self.most >= 0 and 0 <= self.jitter <= 1):
            raise ConfigError(
                f'{self!r} is no way to wait; first and most are seconds, factor >= 1, jitter from 0 to 1'
            )

    def wait(self, tries: int, random: Callable[[], float]) -> float:
        """Seconds to wait after `tries` failures; `random` gives numbers from 0 to 1."""
        try:
            whole = min(self.first * self.factor ** (tries - 1), self.most)
        except OverflowError:
            whole = self.most
        return whole * (1 - self.jitter + self.jitter * random())
