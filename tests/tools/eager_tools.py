"""The same tools as in `future_tools`, with annotations that are objects."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

from pydantic import BaseModel, Field

from agent_graph.tools.context import RunContext


class Place(BaseModel):
    """A place on the map."""

    name: str
    zip: int = 0


@dataclass
class Box:
    width: int
    inner: Optional['Box'] = None


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
