"""One limiter for event loops in several threads, also when one of them stands still or is gone."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent_graph.models import Limiter
from tests.engine.kit import go, settle
from tests.models.kit import Gauge, ask


def most_within(times: list[float], seconds: float) -> int:
    times = sorted(times)
    return max(sum(t <= other < t + seconds for other in times) for t in times)


def in_threads(count: int, work: Callable[[int], Any]) -> None:
    errors: list[BaseException] = []

    def run(n: int) -> None:
        try:
            work(n)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), 'somebody waits for ever'
    assert not errors, errors


@pytest.mark.parametrize('bounds', [{'concurrency': 2}, {'concurrency': 4, 'per_minute': 40, 'minute': 0.05}])
def test_loops_in_several_threads(bounds: dict[str, Any]) -> None:
    limiter, gauge = Limiter(**bounds), Gauge(0.001)
    places: list[tuple[int, int, float]] = []

    async def one(thread: int, number: int) -> None:
        place = await limiter.enter()
        places.append((thread, number, place.since))
        try:
            await ask(gauge)
        finally:
            limiter.leave(place)

    def work(thread: int) -> None:
        async def main() -> None:
            await asyncio.gather(*(one(thread, number) for number in range(25)))

        asyncio.run(main())

    in_threads(6, work)
    assert gauge.most <= bounds['concurrency'] and len(gauge.order) == 150
    if 'per_minute' in bounds:
        assert most_within([since for _, _, since in places], 0.0499) <= 40
    for thread in range(6):  # within a loop nobody overtakes
        mine = sorted((number, since) for t, number, since in places if t == thread)
        assert [since for _, since in mine] == sorted(since for _, since in mine)
    assert (limiter.inside, limiter.waiting) == (0, 0)


def test_a_loop_that_is_busy_does_not_hold_up_the_others() -> None:
    """Its runs are first in line for the clock; the other loop keeps an eye on it as well."""
    limiter = Limiter(per_minute=1, minute=0.1)
    waiting, done = threading.Event(), threading.Event()

    def first(n: int) -> None:
        async def main() -> None:
            limiter.leave(await limiter.enter())
            task = asyncio.create_task(limiter.enter())
            await settle()
            waiting.set()
            done.wait(10)  # the loop stands still
            limiter.leave(await task)

        asyncio.run(main())

    def second(n: int) -> None:
        waiting.wait(10)
        asyncio.run(other())

    async def other() -> None:
        limiter.leave(await asyncio.wait_for(limiter.enter(), 5))
        done.set()

    in_threads(2, lambda n: (first, second)[n](n))


def test_a_loop_that_is_gone_holds_nobody_up() -> None:
    limiter = Limiter(concurrency=1)

    async def hold() -> Any:
        return await limiter.enter()

    place = asyncio.run(hold())
    loop = asyncio.new_event_loop()
    forgotten = loop.create_task(limiter.enter())
    loop.run_until_complete(settle())
    assert limiter.waiting == 1
    loop.close()  # in bad order: the task was not cancelled
    limiter.leave(place)
    assert (limiter.inside, limiter.waiting) == (0, 0)

    async def main() -> None:
        limiter.leave(await asyncio.wait_for(limiter.enter(), 5))

    go(main())
    forgotten._log_destroy_pending = False  # pyright: ignore
    del forgotten
    gc.collect()
    assert (limiter.inside, limiter.waiting) == (0, 0)
