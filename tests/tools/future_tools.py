"""Tools as people write them under `from __future__ import annotations`: every annotation here is a string."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

from pydantic import BaseModel, Field

import agent_graph.tools.context as contexts
from agent_graph.tools.context import RunContext as Ctx

if TYPE_CHECKING:
    from decimal import Decimal as Money

    from agent_graph.tools.context import RunContext


class Place(BaseModel):
    """A place on the map."""

    name: str
    zip: int = 0


@dataclass
class Box:
    width: int
    inner: Optional[Box] = None  # noqa: UP045 (people still write it)


def everything(
    ctx: RunContext[dict[str, int]],
    place: Place,
    box: Box,
    path: Path,
    unit: Literal['km', 'mi'] = 'km',
    limit: Optional[int] = None,  # noqa: UP045
    level: Annotated[int, Field(ge=1, le=5)] = 1,
) -> tuple[Any, ...]:
    """Uses every kind of annotation."""
    return ctx, place, box, path, unit, limit, level


def by_module(ctx: contexts.RunContext[Any], n: int) -> int:
    return n


def by_alias(ctx: Ctx[Any], n: int) -> int:
    return n


def by_alias_of_unknown_deps(ctx: Ctx[Money], n: int) -> int:
    return n


def quoted(ctx: 'RunContext[Money]', n: 'int') -> int:  # noqa: UP037 (people quote as well)
    return n


def optional(ctx: RunContext[Money] | None, n: int) -> int:
    return n


def not_first(n: int, ctx: RunContext[Any]) -> int:
    return n


def lost(amount: Money) -> None:
    """Its type exists for type checkers only."""


class Service:
    class Options(BaseModel):
        depth: int

    def search(self, ctx: RunContext[Any], options: Options) -> Options:
        return options


def uses_later(item: Later, ctx_free: int = 0) -> Later:
    return item


NAME_SEEN_EARLY: list[str | None] = []


def note_unresolved(find: Callable[[Callable[..., Any]], str | None]) -> None:
    """Asked while the module is still being read, as a decorator would."""
    NAME_SEEN_EARLY.append(find(uses_later))


from agent_graph.tools.schema import unresolved_name  # noqa: E402 (it has to be asked before Later exists)

note_unresolved(unresolved_name)


class Later(BaseModel):
    value: int
    parts: list[Later] = []


NAME_SEEN_LATE = unresolved_name(uses_later)
