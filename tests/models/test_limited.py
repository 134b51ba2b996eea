"""LimitedModel: never more than the bounds, first come first served, across loops and threads, also when cancelled."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ConfigError, ModelHTTPError
from agent_graph.messages import Message, UserMessage
from agent_graph.model import RequestInfo
from agent_graph.models import LimitedModel, Limiter
from agent_graph.usage import Usage
from tests.engine.kit import go, settle
from tests.models.kit import Faulty, Gauge, answer, ask, busy, text_of


def said(what: object) -> list[Message]:
    return [UserMessage(str(what))]


def test_never_more_at_once() -> None:
    gauge = Gauge(0.002)
    model = LimitedModel(gauge, concurrency=3)

    async def main() -> None:
        await asyncio.gather(*(ask(model, said(n)) for n in range(50)))

    go(main())
    assert gauge.most == 3 and len(gauge.order) == 50
    assert (model.limiter.inside, model.limiter.waiting) == (0, 0)


def test_first_come_first_served() -> None:
    gauge = Gauge(0.001)
    model = LimitedModel(gauge, concurrency=1)

    async def main() -> None:
        tasks = [asyncio.create_task(ask(model, said(n))) for n in range(30)]
        await asyncio.gather(*tasks)

    go(main())
    assert gauge.order == [str(n) for n in range(30)]


def test_a_place_is_given_back_whatever_happens() -> None:
    failing = Faulty([busy()])
    model = LimitedModel(failing, concurrency=1)

    async def main() -> None:
        for _ in range(3):
            with pytest.raises(ModelHTTPError):
                await ask(model)

    go(main())
    assert model.limiter.inside == 0


def test_cancelled_in_line() -> None:
    gauge = Gauge(0.01)
    model = LimitedModel(gauge, concurrency=1)

    async def main() -> None:
        tasks = [asyncio.create_task(ask(model, said(n))) for n in range(6)]
        await settle()
        assert model.limiter.waiting == 5
        for n in (1, 3, 5):
            tasks[n].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [t.cancelled() for t in tasks] == [False, True, False, True, False, True]

    go(main())
    assert gauge.order == ['0', '2', '4']
    assert (model.limiter.inside, model.limiter.waiting) == (0, 0)


def test_cancelled_at_the_moment_it_is_let_in() -> None:
    limiter = Limiter(concurrency=1)

    async def main() -> None:
        place = await limiter.enter()
        second = asyncio.create_task(limiter.enter())
        third = asyncio.create_task(limiter.enter())
        await settle()
        limiter.leave(place)  # lets the second in; it has not run yet
        second.cancel()
        limiter.leave(await third)
        assert second.cancelled()

    go(main())
    assert (limiter.inside, limiter.waiting) == (0, 0)


def test_a_cancelled_request_is_not_counted() -> None:
    limiter = Limiter(concurrency=1, per_minute=2, minute=60)

    async def main() -> None:
        place = await limiter.enter()
        second = asyncio.create_task(limiter.enter())
        await settle()
        limiter.leave(place)  # lets the second in
        second.cancel()
        await settle()
        limiter.leave(await asyncio.wait_for(limiter.enter(), 5))

    go(main())


def test_the_next_one_looks_at_the_clock_when_the_first_is_cancelled() -> None:
    limiter = Limiter(per_minute=1, minute=0.1)

    async def main() -> None:
        limiter.leave(await limiter.enter())
        first, second = asyncio.create_task(limiter.enter()), asyncio.create_task(limiter.enter())
        await settle()
        first.cancel()
        limiter.leave(await asyncio.wait_for(second, 5))

    go(main())


def test_any_moment_of_cancelling() -> None:
    """Hundreds of requests, each cancelled at some moment or not: nothing is lost and nobody waits for ever."""
    rng = random.Random(7)
    gauge = Gauge(0.001)
    model = LimitedModel(gauge, limiter=Limiter(concurrency=3, per_minute=20, tokens_per_minute=400, minute=0.02))

    async def main() -> None:
        async def one(n: int) -> None:
            await asyncio.sleep(rng.random() * 0.1)
            task = asyncio.create_task(ask(model, said(n)))
            if rng.random() < 0.5:
                await asyncio.sleep(rng.random() * 0.02)
                task.cancel()
            await asyncio.wait([task])

        await asyncio.gather(*(one(n) for n in range(300)))

    go(main())
    assert gauge.most <= 3
    assert (model.limiter.inside, model.limiter.waiting) == (0, 0)


def most_within(times: list[float], seconds: float) -> int:
    times = sorted(times)
    return max(sum(t <= other < t + seconds for other in times) for t in times)


def test_requests_by_the_minute() -> None:
    limiter = Limiter(per_minute=5, minute=0.1)
    model = LimitedModel(gauge := Gauge(), limiter=limiter)
    times: list[float] = []

    async def one() -> None:
        place = await limiter.enter()
        times.append(place.since)
        limiter.leave(place)

    async def main() -> None:
        await asyncio.gather(*(one() for _ in range(18)))
        assert times == sorted(times) and times[-1] - times[0] >= 0.3  # 5 at once, and 5 more each tenth of a second
        assert most_within(times, 0.0999) <= 5
        await asyncio.gather(*(ask(model, said(n)) for n in range(12)))

    go(main())
    assert gauge.order == [str(n) for n in range(12)]


def test_tokens_by_the_minute_are_corrected() -> None:
    """What is thought to be small and turns out large holds up the next; and the other way round."""
    limiter = Limiter(tokens_per_minute=100, minute=0.2)

    async def main() -> None:
        began = time.monotonic()
        limiter.leave(await limiter.enter(10), 95)
        limiter.leave(await limiter.enter(10), 10)
        assert time.monotonic() - began >= 0.2
        longer = Limiter(tokens_per_minute=100, minute=60)
        longer.leave(await longer.enter(100), 1)
        longer.leave(await asyncio.wait_for(longer.enter(99), 5), 1)

    go(main())


def test_a_correction_while_others_wait() -> None:
    """Whoever waits for a place has to look at the clock when the one who leaves used more than it seemed."""
    limiter = Limiter(concurrency=1, tokens_per_minute=100, minute=0.1)

    async def main() -> None:
        place = await limiter.enter(10)
        waiting = asyncio.create_task(limiter.enter(50))
        await settle()
        limiter.leave(place, 1000)
        limiter.leave(await asyncio.wait_for(waiting, 5))

    go(main())


def test_a_request_beyond_the_bound_is_let_in_alone() -> None:
    limiter = Limiter(tokens_per_minute=100, minute=0.1)

    async def main() -> None:
        first, second = await limiter.enter(10_000), await limiter.enter(10_000)
        assert second.since - first.since >= 0.1

    go(main())


def test_a_small_one_does_not_overtake_a_large_one() -> None:
    limiter = Limiter(tokens_per_minute=100, minute=0.1)
    order: list[str] = []

    async def one(name: str, tokens: int) -> None:
        place = await limiter.enter(tokens)
        order.append(name)
        limiter.leave(place)

    async def main() -> None:
        await one('first', 60)
        await asyncio.gather(one('large', 90), one('small', 10))

    go(main())
    assert order == ['first', 'large', 'small']


def test_models_may_share_bounds() -> None:
    limiter = Limiter(concurrency=2)
    total = Gauge(0.002)
    models = [LimitedModel(total, limiter=limiter) for _ in range(2)]

    async def main() -> None:
        await asyncio.gather(*(ask(models[n % 2], said(n)) for n in range(20)))

    go(main())
    assert total.most == 2


def test_what_a_request_is_expected_to_use() -> None:
    limiter = Limiter(tokens_per_minute=1000, minute=60)
    model = LimitedModel(Faulty([answer('Hi', usage=Usage(input_tokens=5, output_tokens=2))]), limiter=limiter)

    async def main() -> None:
        assert text_of(await ask(model, said('word ' * 100), settings={'max_tokens': 500})) == 'Hi'
        counted = [place.tokens for place in limiter._window.places]  # pyright: ignore
        assert counted == [7]

    go(main())

    class Counting(Faulty):
        async def count_tokens(self, messages: Sequence[Message], info: RequestInfo) -> int:
            return 640

    model = LimitedModel(Counting([busy()]), limiter=Limiter(tokens_per_minute=1000), count='model')

    async def failing() -> None:
        with pytest.raises(ModelHTTPError):
            await ask(model)
        assert [place.tokens for place in model.limiter._window.places] == [640]  # pyright: ignore

    go(failing())


def test_in_runs() -> None:
    gauge = Gauge(0.001)
    agent = Agent(LimitedModel(gauge, concurrency=2))

    async def main() -> None:
        results = await asyncio.gather(*(agent.run(str(n)) for n in range(20)))
        assert [r.output for r in results] == ['Hi'] * 20

    go(main())
    assert gauge.most == 2


def test_many_in_line_are_cheap() -> None:
    model = LimitedModel(Gauge(), concurrency=1)

    async def main() -> None:
        await asyncio.gather(*(ask(model, said(n)) for n in range(3000)))

    began = time.process_time()
    go(main(), seconds=60)
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    'wrong',
    [
        {},
        {'concurrency': 0},
        {'per_minute': -1},
        {'concurrency': 1, 'limiter': Limiter(concurrency=1)},
        {'concurrency': 1, 'count': 'guess'},
    ],
)
def test_wrong_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        LimitedModel(Faulty(['x']), **wrong)


def test_shown() -> None:
    assert repr(LimitedModel('openai:x', concurrency=3, tokens_per_minute=50)) == (
        "LimitedModel('openai:x', limiter=Limiter(concurrency=3, tokens_per_minute=50))"
    )
