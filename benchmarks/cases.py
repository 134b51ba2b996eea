"""A row and an adapter -> a coroutine function that does one run and checks that the work was really done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from benchmarks.rows import Row
from benchmarks.workload import FINAL, SCRIPT, Counter, Script

__all__ = ['Adapter', 'can_run', 'case_of', 'fake_case']

Case = Callable[[], Awaitable[None]]


class Adapter(Protocol):
    """What the module of an engine must have. A function it lacks leaves its cells empty.

    `NAME` heads its column, `IMPORT` is the statement whose cost is measured, `DISTS` are shown with their versions.
    """

    @property
    def NAME(self) -> str: ...  # noqa: N802 - the names are those of module constants
    @property
    def IMPORT(self) -> str: ...  # noqa: N802
    @property
    def DISTS(self) -> list[str]: ...  # noqa: N802

    def make_agent(self) -> Any:
        """An agent with the tool `get_weather` and a model object of its own."""
        ...

    def make_agent_shared(self) -> Any:
        """The same with a model object that all share."""
        ...

    def fake(self) -> Any:
        """An agent whose in-process model asks `model_step()` once a request and answers what it says."""
        ...

    def history(self, n: int) -> Any:
        """`n` messages, of user and assistant in turn."""
        ...

    async def run_fake(self, h: Any, hist: Any) -> str:
        """One run of what `fake` made, after what `history` made or `None`: the final text."""
        ...

    def http(self, url: str, model: str) -> Any:
        """The same agent on a Chat Completions server."""
        ...

    async def run_http(self, h: Any) -> str:
        """One run: the final text."""
        ...

    async def stream_http(self, h: Any) -> int:
        """One run, streamed: how many pieces of text its user sees."""
        ...

    def json_agent(self, url: str, model: str) -> Any:
        """An agent that answers with a `Report`."""
        ...

    async def stream_json(self, h: Any, partial: bool) -> tuple[int, int]:
        """One run, streamed: (partial objects its user sees, entries of the final one)."""
        ...


_NEEDS = {
    'make': 'make_agent',
    'make_shared': 'make_agent_shared',
    'fake': 'run_fake',
    'http': 'run_http',
    'stream': 'stream_http',
    'json': 'stream_json',
    'json_partial': 'stream_json',
}


def can_run(adapter: Adapter, row: Row) -> bool:
    """Whether the adapter has what this kind of row calls."""
    return hasattr(adapter, _NEEDS[row.kind])


def case_of(adapter: Adapter, row: Row, url: str) -> Case:
    """One run of `row`; it raises `AssertionError` if the run did not do what the row says."""
    match row.kind:
        case 'make':
            return _making(adapter.make_agent)
        case 'make_shared':
            return _making(adapter.make_agent_shared)
        case 'fake':
            return fake_case(adapter, row, adapter.fake())
        case 'http':
            return _http(adapter, row, url)
        case 'stream':
            return _stream(adapter, row, url)
        case 'json' | 'json_partial':
            return _json(adapter, row, url)


def _making(make: Callable[[], Any]) -> Case:
    async def run() -> None:
        make()

    return run


def fake_case(adapter: Adapter, row: Row, agent: Any, delay: float = 0.0) -> Case:
    """One run of `agent` (made by `fake`) with a model that takes `delay` seconds a request.

    With a delay many runs may be under way at once, so the tool's counter, which they share, is not looked at.
    """
    history = adapter.history(row.history) if row.history else None

    async def run() -> None:
        SCRIPT.set(Script(row.turns, row.par, delay))
        before = Counter.n
        text = await adapter.run_fake(agent, history)
        _expect(text == FINAL, text)
        _expect(bool(delay) or Counter.n - before == row.turns * row.par, Counter.n - before)

    return run


def _http(adapter: Adapter, row: Row, url: str) -> Case:
    agent = adapter.http(url, row.model)

    async def run() -> None:
        before = Counter.n
        text = await adapter.run_http(agent)
        _expect(text == FINAL, text)
        _expect(Counter.n - before == row.turns * row.par, Counter.n - before)

    return run


def _stream(adapter: Adapter, row: Row, url: str) -> Case:
    agent = adapter.http(url, row.model)

    async def run() -> None:
        pieces = await adapter.stream_http(agent)
        _expect(pieces >= row.pieces, pieces)

    return run


def _json(adapter: Adapter, row: Row, url: str) -> Case:
    agent = adapter.json_agent(url, row.model)
    partial = row.kind == 'json_partial'

    async def run() -> None:
        updates, items = await adapter.stream_json(agent, partial)
        _expect(items >= row.items, items)
        _expect(not partial or updates > 1, updates)

    return run


def _expect(done: bool, found: object) -> None:
    if not done:
        raise AssertionError(f'the run did not do its work: {found!r}')
