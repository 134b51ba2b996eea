"""A provider's own count of a request's tokens: what a wire has to say for it, and the reading of the number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agent_graph_providers.wire.errors import Asked

if TYPE_CHECKING:
    from agent_graph_providers.wire.model import Question, Sent

__all__ = ['Count', 'Counting']


@runtime_checkable
class Counting(Protocol):
    """A wire whose provider counts: asked only for models whose `capabilities.count_tokens` is true."""

    def count_request(self, question: Question) -> Sent:
        """The request that asks for the number of input tokens of `question`."""
        ...

    def counted(self, data: Any) -> int | None:
        """The number in the answer, `None` if there is none."""
        ...


class Count:
    """The answer to such a request."""

    __slots__ = ('_asked', '_wire', 'complete', 'done', 'tokens')

    def __init__(self, wire: Counting, asked: Asked) -> None:
        self._wire = wire
        self._asked = asked
        self.tokens = 0
        self.complete = self.done = False

    async def whole(self, data: Any) -> None:
        tokens = self._wire.counted(data)
        if tokens is None:
            raise self._asked.unreadable('it has no number of tokens', str(data).encode())
        self.tokens = tokens
        self.complete = self.done = True

    async def chunk(self, data: Any, edges: bool = False) -> None:
        await self.whole(data)

    async def end(self) -> None:
        """The number has come with the only event."""

    def settle(self) -> None:
        """Counting uses nothing."""
