"""The wrappers combine in any order: same answer plain and streamed, nothing left behind, whenever it is cancelled."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph import Agent
from agent_graph.errors import ModelError, ModelTimeout, ModelUnreachable
from agent_graph.messages import AssistantMessage
from agent_graph.model import Model
from agent_graph.models import (
    Backoff,
    CachedModel,
    CountingModel,
    FallbackModel,
    LimitedModel,
    Limiter,
    RetryingModel,
    TimeoutModel,
)
from tests.engine.kit import WAYS, go
from tests.models.kit import Faulty, ask, broken, busy, text_of, watch

LAYERS = ('retry', 'fallback', 'limit', 'cache', 'count', 'timeout')
ORDERS = list(itertools.permutations(LAYERS))


@dataclass
class Tower:
    """A model with every wrapper around it, the first layer innermost."""

    layers: tuple[str, ...]
    model: Faulty
    folder: Path
    other: Faulty = field(default_factory=lambda: Faulty(['the other one'], name='other'))
    limiter: Limiter = field(default_factory=lambda: Limiter(concurrency=2, per_minute=10_000, tokens_per_minute=10**9))
    caches: list[CachedModel] = field(default_factory=list[CachedModel])

    def build(self) -> Model:
        made: Model = self.model
        for layer in self.layers:
            made = self.wrap(layer, made)
        return made

    def wrap(self, layer: str, inner: Model) -> Model:
        match layer:
            case 'retry':
                return RetryingModel(inner, tries=4, backoff=Backoff(first=0.0001), restart=True)
            case 'fallback':
                return FallbackModel([inner, self.other])
            case 'limit':
                return LimitedModel(inner, limiter=self.limiter)
            case 'cache':
                self.caches.append(cache := CachedModel(inner, self.folder / 'cache.db'))
                return cache
            case 'count':
                return CountingModel(inner, max_input_tokens=1000)
            case _:
                return TimeoutModel(inner, first_event=20, between=20, whole=30)

    def expected(self, faults: int) -> str:
        """Whose answer it must be: retries around the fallback never see the first model's failure."""
        if faults == 0 or self.layers.index('retry') < self.layers.index('fallback'):
            return 'the first one'
        return 'the other one'

    async def close(self) -> None:
        for cache in self.caches:
            await cache.close()
        assert self.model.open == self.other.open == 0
        assert (self.limiter.inside, self.limiter.waiting) == (0, 0)


def in_tower(layers: tuple[str, ...], steps: list[Any], work: Callable[[Tower, Model], Awaitable[None]]) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            tower = Tower(layers, Faulty(steps), Path(folder))
            try:
                await work(tower, tower.build())
            finally:
                await tower.close()

    go(main(), seconds=60)


FAULTS: list[Any] = [
    busy(),
    busy(503),
    ModelTimeout('late'),
    ModelUnreachable('gone'),
    busy(0, type='overloaded_error'),
]


@settings(max_examples=60)
@given(st.sampled_from(ORDERS), st.lists(st.sampled_from(FAULTS), max_size=3), st.booleans())
def test_any_order(layers: tuple[str, ...], faults: list[Any], streamed: bool) -> None:
    async def work(tower: Tower, model: Model) -> None:
        assert (model.name, model.provider) == ('faulty', 'test')
        message = await asked(model, streamed)
        assert text_of(message).strip() == tower.expected(len(faults))
        assert message.usage.total_tokens == 10
        details = message.provider_details or {}
        assert ('fallback' in details) == (text_of(message).strip() == 'the other one')
        before = len(tower.model.requests) + len(tower.other.requests)

        again = await asked(model, not streamed)
        assert text_of(again).strip() == text_of(message).strip() or faults
        if 'fallback' not in details:
            assert len(tower.model.requests) + len(tower.other.requests) == before
            assert (again.provider_details or {})['cached'] is True and again.usage.total_tokens == 0

    in_tower(layers, [*faults, 'the first one'], work)


async def asked(model: Model, streamed: bool) -> AssistantMessage:
    if not streamed:
        return await ask(model)
    message, seen = await watch(model)
    assert seen.text == text_of(message)
    return message


@settings(max_examples=40)
@given(st.sampled_from(ORDERS), st.integers(1, 3), st.booleans())
def test_streams_that_break_off(layers: tuple[str, ...], breaks: int, streamed: bool) -> None:
    """Seen by a reader, a broken stream is no matter for the fallback, only for the retries, which start it again."""

    async def work(tower: Tower, model: Model) -> None:
        message = await asked(model, streamed)
        expected = 'the first one' if streamed else tower.expected(breaks)
        assert text_of(message).strip() == expected
        tries = breaks if expected == 'the first one' else 1
        assert message.usage.total_tokens == 10 + 4 * tries

    in_tower(layers, [broken('half an answer', tokens=4)] * breaks + ['the first one'], work)


@settings(max_examples=40)
@given(st.sampled_from(ORDERS), st.booleans())
def test_nobody_answers(layers: tuple[str, ...], streamed: bool) -> None:
    async def work(tower: Tower, model: Model) -> None:
        tower.other.steps = [busy(400)]
        with pytest.raises(ModelError):
            await asked(model, streamed)
        inner_retries = layers.index('retry') < layers.index('fallback')
        assert len(tower.model.requests) == 4  # around both, since one of the two failures may pass
        assert len(tower.other.requests) == (1 if inner_retries else 4)

    in_tower(layers, [busy()], work)


@settings(max_examples=40)
@given(st.sampled_from(ORDERS), st.floats(0, 0.03), st.booleans())
def test_cancelled_at_any_moment(layers: tuple[str, ...], moment: float, streamed: bool) -> None:
    async def work(tower: Tower, model: Model) -> None:
        tasks = [asyncio.create_task(asked(model, streamed)) for _ in range(5)]
        await asyncio.sleep(moment)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            assert task.cancelled() or text_of(task.result()).strip() in ('the first one', 'the other one')
        assert text_of(await ask(model)).strip() in ('the first one', 'the other one')

    in_tower(layers, [busy(), busy(503), 'the first one'], work)


@pytest.mark.parametrize('way', list(WAYS.values()), ids=list(WAYS))
@pytest.mark.parametrize('layers', [LAYERS, LAYERS[::-1]], ids=['one way', 'the other'])
def test_in_runs(way: Any, layers: tuple[str, ...]) -> None:
    async def work(tower: Tower, model: Model) -> None:
        agent = Agent(model)
        results = await asyncio.gather(*(way(agent, f'Hello {n}') for n in range(4)))
        assert {r.output.strip() for r in results} <= {'the first one', 'the other one'}
        assert all(r.usage.requests == 1 and r.usage.total_tokens == 10 for r in results)
        again = await way(agent, 'Hello 3')
        assert again.usage.requests == 1

    in_tower(layers, [busy(), 'the first one'], work)


def test_secrets_are_not_shown() -> None:
    class Keyed(Faulty):
        def __repr__(self) -> str:
            return 'Keyed(***)'

    with tempfile.TemporaryDirectory() as folder:
        for layers in (LAYERS, LAYERS[::-1]):
            tower = Tower(layers, Keyed(['x']), Path(folder))
            assert 'Keyed(***)' in repr(tower.build())
