"""RetryingModel: which failures, how long, how often, and what the reader and the caller get to know."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from agent_graph import Agent, RequestRetried, ResponseRestarted
from agent_graph.errors import (
    AllModelsFailed,
    ConfigError,
    MessageError,
    ModelError,
    ModelHTTPError,
    ModelProtocolError,
    ModelTimeout,
    ModelUnreachable,
    RunError,
)
from agent_graph.messages import TextPart
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.models import Backoff, RetryingModel, retryable
from agent_graph.usage import Usage, UsageLimits
from tests.engine.kit import WAYS, Way, go, settle
from tests.models.kit import HELLO, Clock, Faulty, Seen, answer, ask, broken, busy, text_of, watch


def retrying(model: Any, clock: Clock | None = None, **options: Any) -> RetryingModel:
    """A wrapper whose waits take no time and have no jitter."""
    clock = clock or Clock()
    options = {'backoff': Backoff(first=1, factor=2, most=30, jitter=0), **options}
    return RetryingModel(model, sleep=clock.sleep, clock=clock, **options)


PASSING = [
    ModelUnreachable('no connection'),
    ModelTimeout('too late'),
    ModelProtocolError('cut off'),
    *(busy(status) for status in (408, 409, 425, 429, 500, 502, 503, 504, 520, 529)),
    busy(0, type='overloaded_error'),
    busy(0, type='api_error'),
    busy(0, code='server_error'),
    busy(0, code='rate_limit_exceeded'),
    busy(200, code='UNAVAILABLE'),
    busy(0, code='internalServerException'),
    busy(0, type='modelStreamErrorException'),
    busy(400, type='ThrottlingException'),
    AllModelsFailed('none', errors=[busy(401), busy(503)]),
]
LASTING = [
    *(busy(status) for status in (400, 401, 402, 403, 404, 413, 422)),
    busy(429, code='insufficient_quota'),
    busy(429, type='insufficient_quota'),
    busy(429, code='billing_hard_limit_reached'),
    busy(0, code='insufficient_quota'),
    busy(400, type='invalid_request_error'),
    busy(400, type='error'),
    busy(413, code='rate_limit_exceeded'),
    busy(0, type='invalid_request_error'),
    busy(0),
    AllModelsFailed('none', errors=[busy(401), busy(404)]),
    MessageError('cannot be said'),
    ConfigError('no key'),
    RuntimeError('a bug'),
]


@pytest.mark.parametrize('error', PASSING, ids=str)
def test_what_passes_is_asked_again(error: Exception) -> None:
    assert retryable(error)
    model = Faulty([error, error, 'Hi'])
    assert text_of(go(ask(retrying(model)))) == 'Hi'
    assert len(model.requests) == 3


@pytest.mark.parametrize('error', LASTING, ids=str)
def test_what_lasts_is_raised_at_once(error: Exception) -> None:
    assert not retryable(error)
    model, clock = Faulty([error, 'Hi']), Clock()
    with pytest.raises(type(error)) as caught:
        go(ask(retrying(model, clock)))
    assert caught.value is error
    assert len(model.requests) == 1 and clock.slept == []


def test_waits_grow_up_to_the_most_there_is() -> None:
    clock = Clock()
    model = Faulty([busy()] * 7 + ['Hi'])
    go(ask(retrying(model, clock, tries=8, backoff=Backoff(first=1, factor=3, most=20, jitter=0))))
    assert clock.slept == [1, 3, 9, 20, 20, 20, 20]


def test_jitter_is_drawn_from_the_whole_wait() -> None:
    drawn = iter([0.0, 0.25, 1.0])
    clock = Clock()
    model = Faulty([busy()] * 3 + ['Hi'])
    go(ask(retrying(model, clock, backoff=Backoff(first=4, factor=2), random=lambda: next(drawn))))
    assert clock.slept == [2, 16]  # the first wait is nothing at all
    half = Backoff(first=8, jitter=0.5)
    assert (half.wait(1, lambda: 0.0), half.wait(1, lambda: 1.0)) == (4, 8)
    assert Backoff(most=30).wait(100_000, lambda: 1.0) == 30


def test_what_the_server_asks_for_is_waited() -> None:
    clock = Clock()
    model = Faulty([busy(retry_after=17.5), busy(503, retry_after=0.0), busy(retry_after=0.2), 'Hi'])
    go(ask(retrying(model, clock)))
    assert clock.slept == [17.5, 2, 4]  # never less than our own wait


def test_a_wait_beyond_the_budget_is_not_begun() -> None:
    clock = Clock()
    model = Faulty([busy(retry_after=5), busy(retry_after=56), 'Hi'])
    with pytest.raises(ModelHTTPError) as caught:
        go(ask(retrying(model, clock, seconds=60)))
    assert clock.slept == [5] and len(model.requests) == 2
    assert 'a wait of 56 s would go past seconds=60' in ''.join(caught.value.__notes__)
    assert text_of(go(ask(retrying(Faulty([busy(retry_after=900), 'Hi']), seconds=None)))) == 'Hi'


def test_time_in_requests_counts_as_well() -> None:
    clock = Clock()

    async def slow(_: ResponseBuilder) -> None:
        clock.now += 40
        raise busy()

    model = Faulty([slow])
    with pytest.raises(ModelHTTPError):
        go(ask(retrying(model, clock, tries=100, seconds=100, backoff=Backoff(first=5, factor=1, jitter=0))))
    assert len(model.requests) == 3  # 40 + 5 + 40 + 5 + 40 > 100


def test_the_last_error_says_what_was_tried() -> None:
    cause = OSError('the cable')
    last = ModelUnreachable('no connection at last')
    last.__cause__ = cause
    model = Faulty([busy(503), ModelTimeout('too late'), last])
    with pytest.raises(ModelUnreachable) as caught:
        go(ask(retrying(model, tries=3)))
    error = caught.value
    assert error is last and error.__cause__ is cause
    assert error.tried == ('ModelHTTPError: busy (503)', 'ModelTimeout: too late')
    assert '3 times' in error.__notes__[0] and '1. ModelHTTPError: busy (503)' in error.__notes__[0]


def test_an_error_of_a_first_try_is_left_alone() -> None:
    error = busy(404)
    with pytest.raises(ModelHTTPError):
        go(ask(retrying(Faulty([error]))))
    assert error.tried == () and not hasattr(error, '__notes__')


def odd(error: Exception) -> bool:
    return isinstance(error, KeyError)


def test_own_rule() -> None:
    model = Faulty([KeyError('odd'), 'Hi'])
    wrapped = retrying(model, on=odd)
    assert text_of(go(ask(wrapped))) == 'Hi'
    with pytest.raises(ModelHTTPError):
        go(ask(retrying(Faulty([busy(), 'Hi']), on=odd)))


def test_each_wait_is_an_event_and_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, 'agent_graph.models')
    model = Faulty([busy(), busy(503), 'Hi there'], name='gpt', provider='openai')
    message, seen = go(watch(retrying(model)))
    assert text_of(message) == 'Hi there ' == seen.text
    retried = [fields for make, fields in seen.events if make is RequestRetried]
    assert retried == [
        {'attempt': 2, 'delay': 1.0, 'error': 'ModelHTTPError: busy (429)', 'model': 'gpt', 'provider': 'openai'},
        {'attempt': 3, 'delay': 2.0, 'error': 'ModelHTTPError: busy (503)', 'model': 'gpt', 'provider': 'openai'},
    ]
    assert seen.names[:3] == ['RequestRetried', 'RequestRetried', 'PartStartEvent']
    assert [r.getMessage() for r in caplog.records] == [
        'openai:gpt: try 2 of 4 in 1 s, after ModelHTTPError: busy (429)',
        'openai:gpt: try 3 of 4 in 2 s, after ModelHTTPError: busy (503)',
    ]


def test_a_stream_that_was_seen_is_not_asked_for_again() -> None:
    model = Faulty([broken('Once upon'), 'Hi'])
    seen = Seen()
    out = ResponseBuilder(seen)
    with pytest.raises(ModelProtocolError):
        go(retrying(model).respond(HELLO, RequestInfo(), out))
    assert len(model.requests) == 1 and seen.text == 'Once upon '
    assert out.started  # what had come is kept for the history


def test_a_stream_begins_again_when_its_reader_asked_for_that() -> None:
    model = Faulty([broken('Once upon', tokens=5), busy(), broken('Twice', tokens=6), 'The end'])
    message, seen = go(watch(retrying(model, restart=True)))
    assert text_of(message) == 'The end ' == seen.text
    assert seen.names.count('ResponseRestarted') == 2  # nothing had been seen of the second
    assert message.usage == Usage(input_tokens=18, output_tokens=3)
    starts = [fields['index'] for make, fields in seen.events if make.__name__ == 'PartStartEvent']
    assert starts == [0, 0, 0]
    reasons = [fields['reason'] for make, fields in seen.events if make is ResponseRestarted]
    assert reasons == ['ModelProtocolError: the answer was cut off'] * 2


def test_what_nobody_saw_is_dropped() -> None:
    model = Faulty([broken('Once upon', tokens=5), 'The end'])
    message = go(ask(retrying(model)))
    assert message.parts == (TextPart('The end'),)
    assert message.usage == Usage(input_tokens=12, output_tokens=3)


def test_usage_of_failed_tries_is_kept_when_all_fail() -> None:
    out = ResponseBuilder()
    with pytest.raises(ModelProtocolError):
        go(retrying(Faulty([broken('a', tokens=5), broken('b', tokens=6)]), tries=3).respond(HELLO, RequestInfo(), out))
    assert out.usage.input_tokens == 17  # 5 + 6 + 6


@pytest.mark.parametrize('way', list(WAYS.values()), ids=list(WAYS))
def test_every_way_to_run(way: Way) -> None:
    async def main() -> None:
        model = Faulty([busy(), ModelTimeout('late'), 'Hi there'])
        result = await way(Agent(retrying(model)))
        assert result.output.strip() == 'Hi there'
        assert result.usage.requests == 1  # the tries are the wrapper's own
        assert result.usage.total_tokens == 10

    go(main())


def test_limits_see_the_tokens_of_failed_tries() -> None:
    model = Faulty([broken('a', tokens=500), 'Hi'])

    async def main() -> None:
        with pytest.raises(RunError, match='input_tokens_limit') as caught:
            await Agent(retrying(model)).run('Hello', usage_limits=UsageLimits(input_tokens_limit=100))
        assert caught.value.usage is not None and caught.value.usage.input_tokens == 507

    go(main())


def test_cost_and_the_request_limit() -> None:
    async def main() -> None:
        model = Faulty([broken('a', tokens=1000), answer('Hi', usage=Usage(input_tokens=1000))])
        model.name, model.provider = 'gpt-5-mini', 'openai'
        result = await Agent(retrying(model)).run('Hello', usage_limits=UsageLimits(request_limit=1))
        once = await Agent(
            Faulty([answer('Hi', usage=Usage(input_tokens=1000))], name='gpt-5-mini', provider='openai')
        ).run('go')
        assert result.cost is not None and once.cost is not None
        assert result.cost == 2 * once.cost > 0
        model.requests.clear()
        with pytest.raises(RunError, match='cost_limit'):
            await Agent(retrying(model)).run('Hello', usage_limits=UsageLimits(cost_limit=float(once.cost) * 1.5))

    go(main())


def test_a_failed_run_counts_what_was_reported() -> None:
    async def silent(out: ResponseBuilder) -> None:
        out.usage = Usage(input_tokens=11)
        raise busy()

    async def main() -> None:
        with pytest.raises(ModelHTTPError) as caught:
            await Agent(retrying(Faulty([silent]), tries=3)).run('Hello')
        error = caught.value
        assert error.usage is not None and error.usage.input_tokens == 33
        assert [m.kind for m in error.messages] == ['user']

    go(main())


def test_cancelled_while_it_waits() -> None:
    model = Faulty([broken('Once', tokens=5), 'Hi'])

    async def main() -> None:
        waiting = asyncio.Event()

        async def sleep(_: float) -> None:
            waiting.set()
            await asyncio.sleep(60)

        out = ResponseBuilder()
        task = asyncio.create_task(RetryingModel(model, sleep=sleep).respond(HELLO, RequestInfo(), out))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert out.usage.input_tokens == 5
        assert len(model.requests) == 1 and model.open == 0

    go(main())


def test_cancelled_while_the_model_answers() -> None:
    async def main() -> None:
        async def hang(_: ResponseBuilder) -> None:
            await asyncio.sleep(60)

        model = Faulty([busy(), hang])
        task = asyncio.create_task(ask(retrying(model)))
        while len(model.requests) < 2:
            await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.open == 0

    go(main())


def any_error(error: Exception) -> bool:
    return True


def test_a_cancellation_is_no_failure_to_retry() -> None:
    model = Faulty([asyncio.CancelledError(), 'Hi'])

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await retrying(model, on=any_error).respond(HELLO, RequestInfo(), ResponseBuilder())
        assert len(model.requests) == 1

    go(main())


def test_names_are_those_of_the_wrapped_model() -> None:
    wrapped = retrying(Faulty(['x'], name='gpt', provider='openai'))
    assert (wrapped.name, wrapped.provider) == ('gpt', 'openai')
    assert repr(retrying(retrying('openai:gpt-5-mini'))) == (
        "RetryingModel(RetryingModel('openai:gpt-5-mini', tries=4, seconds=120.0), tries=4, seconds=120.0)"
    )


@pytest.mark.parametrize(
    'wrong',
    [
        {'tries': 0},
        {'seconds': -1},
        {'seconds': float('nan')},
    ],
)
def test_wrong_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        RetryingModel(Faulty(['x']), **wrong)


@pytest.mark.parametrize(
    'wrong', [{'first': -1}, {'factor': 0.5}, {'most': -1}, {'jitter': 1.5}, {'first': float('nan')}]
)
def test_wrong_waits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Backoff(**wrong)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ConfigError, match='is no model'):
        RetryingModel(42)  # pyright: ignore[reportArgumentType]


def test_one_wrapper_serves_many_runs() -> None:
    """Runs in one loop, and loops in several threads, share a wrapper without sharing their budgets."""

    async def one(out: ResponseBuilder) -> None:
        await out.message(answer('Hi'))

    calls: dict[int, int] = {}

    class Flaky:
        name, provider = 'flaky', 'test'

        async def respond(self, messages: Any, info: Any, out: ResponseBuilder) -> None:
            mine = calls[id(out)] = calls.get(id(out), 0) + 1
            await asyncio.sleep(0)
            if mine < 3:
                raise busy()
            await one(out)

    wrapped = RetryingModel(Flaky(), tries=3, backoff=Backoff(first=0.001))
    results: list[str] = []

    def thread() -> None:
        async def main() -> None:
            results.extend(text_of(m) for m in await asyncio.gather(*(ask(wrapped) for _ in range(20))))

        asyncio.run(main())

    threads = [threading.Thread(target=thread) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == ['Hi'] * 80


def test_an_error_of_another_kind_is_still_one_of_ours() -> None:
    assert issubclass(AllModelsFailed, ModelError)
