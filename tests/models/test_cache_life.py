"""How a cache is opened, shared by loops and threads, closed and dropped."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ConfigError
from agent_graph.messages import (
    UserMessage,
)
from agent_graph.model import RequestInfo
from agent_graph.models import CachedModel
from agent_graph.testing import FunctionModel
from tests.engine.kit import go
from tests.models.kit import Faulty, ask, by_prompt, stored, text_of


def test_used_again_after_it_was_closed(path: Path) -> None:
    async def main() -> None:
        model = Faulty(['Hi'])
        cache = CachedModel(model, path)
        for _ in range(3):
            assert text_of(await ask(cache)) == 'Hi'
            await cache.close()
        assert len(model.requests) == 1

    go(main())


def test_several_loops_and_threads(path: Path) -> None:
    model, asked = by_prompt()
    cache = CachedModel(model, path)
    found: list[str] = []

    def run() -> None:
        async def main() -> None:
            found.extend([text_of(await ask(cache, [UserMessage(f'{n}')])) for n in range(20)])

        asyncio.run(main())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f'{n}' for n in range(20) for _ in range(4))
    go(cache.close())
    assert 20 <= len(asked) <= 80


def test_constructing_touches_nothing(path: Path) -> None:
    CachedModel('openai:gpt-5-mini', path)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize('wrong', [{'ttl': 0}, {'max_entries': 0}, {'max_bytes': -1}, {'mode': 'maybe'}])
def test_wrong_options_are_refused(path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CachedModel(Faulty(['x']), path, **wrong)


def test_an_answer_that_is_being_streamed_is_stored(path: Path) -> None:
    async def words(messages: Any, info: RequestInfo) -> AsyncIterator[str]:
        for word in ('It ', 'is ', 'sunny.'):
            yield word

    async def main() -> None:
        async with CachedModel(FunctionModel(words), path) as cache:
            async with Agent(cache).run_stream('Hello') as stream:
                assert [piece async for piece in stream.text(delta=True)] == ['It ', 'is ', 'sunny.']
            async with Agent(cache).run_stream('Hello') as stream:
                assert ''.join([piece async for piece in stream.text(delta=True)]) == 'It is sunny.'
            assert (cache.hits, cache.misses) == (1, 1)

    go(main())


def test_a_cache_that_is_dropped_ends_its_thread(path: Path) -> None:
    def threads() -> int:
        return sum(t.name == 'agent-graph-cache' for t in threading.enumerate())

    before = threads()
    cache = CachedModel(Faulty(['Hi']), path)
    go(ask(cache))
    assert threads() == before + 1
    del cache
    gc.collect()
    for _ in range(500):
        if threads() == before:
            break
        time.sleep(0.01)
    assert threads() == before


def test_closed_while_it_is_used(path: Path) -> None:
    async def main() -> None:
        model, _ = by_prompt()
        cache = CachedModel(model, path)

        async def use(n: int) -> None:
            for m in range(10):
                assert text_of(await ask(cache, [UserMessage(f'{n}.{m}')])) == f'{n}.{m}'

        async def close() -> None:
            for _ in range(20):
                await cache.close()
                await asyncio.sleep(0.001)

        await asyncio.gather(close(), *(use(n) for n in range(5)))
        await cache.close()

    go(main())
    assert stored(path) == 50
