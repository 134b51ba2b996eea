"""What failed tries used is priced by the model that used it, however models are wrapped and wherever a run goes on."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent, RunError, SQLiteJournal, UsageLimits
from agent_graph.errors import AllModelsFailed
from agent_graph.messages import ToolCallPart
from agent_graph.models import Backoff, FallbackModel, RetryingModel
from agent_graph.testing import ScriptedModel
from agent_graph.usage import Spend, Usage, cost_of
from tests.engine.kit import go
from tests.models.kit import Faulty, answer, broken

SMALL, LARGE = ('gpt-5-mini', 'openai'), ('claude-sonnet-4-5', 'anthropic')


def priced(who: tuple[str, str], **used: Any) -> Decimal:
    cost = cost_of([Spend(who[1], who[0], Usage(**used))])
    assert cost is not None
    return cost


def made(who: tuple[str, str], *steps: Any) -> Faulty:
    return Faulty(list(steps), name=who[0], provider=who[1])


def said(tokens: int) -> Any:
    return answer('Hi', usage=Usage(input_tokens=tokens))


def quick(model: Any) -> RetryingModel:
    return RetryingModel(model, backoff=Backoff(0, 1, 0), tries=3)


WAYS: dict[str, tuple[Any, int, int]] = {
    'fallback': (lambda: FallbackModel([made(LARGE, broken('a', tokens=1000)), made(SMALL, said(500))]), 500, 1000),
    'retried fallback': (
        lambda: quick(
            FallbackModel([
                made(LARGE, broken('a', tokens=1000), said(30)),
                made(SMALL, broken('b', tokens=200)),
            ])
        ),
        200,
        1030,
    ),
    'fallback of a fallback': (
        lambda: FallbackModel([
            FallbackModel([made(SMALL, broken('a', tokens=5)), made(LARGE, broken('b', tokens=70))]),
            made(SMALL, said(900)),
        ]),
        905,
        70,
    ),
    'fallback of retries': (
        lambda: FallbackModel([quick(made(LARGE, broken('a', tokens=100))), made(SMALL, said(9))]),
        9,
        300,
    ),
}  # fmt: skip


@pytest.mark.parametrize('way', WAYS)
def test_each_try_has_its_own_price(way: str, tmp_path: Path) -> None:
    make, small, large = WAYS[way]
    expected = priced(SMALL, input_tokens=small) + priced(LARGE, input_tokens=large)

    async def main() -> None:
        async with SQLiteJournal(tmp_path / 'runs.db') as journal:
            agent = Agent(make(), journal=journal)
            result = await agent.run('Hello', run_id='r1')
            assert result.cost == expected and result.usage.input_tokens == small + large

            outer = Agent(
                ScriptedModel([[ToolCallPart('ask_inside', {}, 'c1')], 'done'], name=SMALL[0], provider=SMALL[1]),
                journal=journal,
            )
            inner = Agent(make())

            @outer.tool
            async def ask_inside() -> str:
                return (await inner.run('Hello')).output

            around = await outer.run('go', run_id='r2')
            assert around.cost == expected and around.usage.input_tokens == small + large
            again = await outer.resume('r2')
            assert again.cost == expected, 'what the journal kept says the same'

        with pytest.raises(RunError, match='cost_limit'):
            await Agent(make()).run('Hello', usage_limits=UsageLimits(cost_limit=float(expected) * 0.99))

    go(main())


def test_a_run_in_which_all_failed() -> None:
    model = FallbackModel([made(LARGE, broken('a', tokens=1000)), made(SMALL, broken('b', tokens=500))])

    async def main() -> None:
        with pytest.raises(AllModelsFailed) as caught:
            await Agent(model).run('Hello')
        assert caught.value.usage is not None and caught.value.usage.input_tokens == 1500

    go(main())


@pytest.mark.parametrize(
    ('who', 'name', 'rate'),
    [
        (('claude-sonnet-4-5', 'anthropic'), 'ephemeral_1h_input_tokens', Decimal(6)),
        (('anthropic.claude-sonnet-4-5-20250929-v1:0', 'aws'), 'cache_write_1h', Decimal('6.6')),
    ],
)
def test_what_is_cached_for_an_hour_costs_more(who: tuple[str, str], name: str, rate: Decimal) -> None:
    short = priced(who, input_tokens=1000, cache_write_tokens=1000)
    long = priced(who, input_tokens=1000, cache_write_tokens=1000, details={name: 1000})
    assert long == rate / 1000 and short < long
    half = priced(who, input_tokens=1000, cache_write_tokens=1000, details={name: 500})
    assert half == (short + long) / 2
