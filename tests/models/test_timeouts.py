"""TimeoutModel: each bound, for any model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_graph.errors import ConfigError, ModelTimeout
from agent_graph.messages import TextPart
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.models import RetryingModel, TimeoutModel
from tests.engine.kit import go, settle
from tests.models.kit import HELLO, Faulty, Seen, Step, ask, text_of, watch


def slowly(*pauses: float, text: str = 'word ') -> Step:
    """Pushes a word after each pause."""

    async def step(out: ResponseBuilder) -> None:
        for pause in pauses:
            await asyncio.sleep(pause)
            await out.text(text)
        out.finish_reason = 'stop'

    return step


async def reached(model: Any, *, streamed: bool = True) -> str:
    with pytest.raises(ModelTimeout) as caught:
        await (watch(model) if streamed else ask(model))
    return str(caught.value)


def test_the_whole_answer() -> None:
    for streamed in (True, False):
        model = Faulty([slowly(*[0.02] * 500)])
        assert 'whole=0.1 s' in go(reached(TimeoutModel(model, whole=0.1), streamed=streamed))
        assert model.open == 0


def test_until_the_answer_begins() -> None:
    model = Faulty([slowly(60)])
    assert 'first_event=0.1 s' in go(reached(TimeoutModel(model, first_event=0.1, between=30, whole=60)))
    assert model.open == 0


def test_a_stream_that_stands_still() -> None:
    for bounds in ({'between': 0.1}, {'between': 0.1, 'first_event': 30, 'whole': 60}):
        model = Faulty([slowly(0, 0.01, 60)])
        began = asyncio.run(_timed(TimeoutModel(model, **bounds)))
        assert model.open == 0 and began < 20


async def _timed(model: Any) -> float:
    began = asyncio.get_running_loop().time()
    assert 'between=0.1 s' in await reached(model)
    return asyncio.get_running_loop().time() - began


def test_a_stream_that_goes_on_may_take_its_time() -> None:
    model = TimeoutModel(Faulty([slowly(*[0.02] * 25)]), first_event=0.4, between=0.4)
    message, _ = go(watch(model))
    assert text_of(message) == 'word ' * 25


def test_a_plain_answer_comes_all_at_once() -> None:
    model = TimeoutModel(Faulty([slowly(0.2)]), first_event=0.01, between=0.01)
    assert text_of(go(ask(model))) == 'word '


def test_every_kind_of_progress_counts() -> None:
    async def step(out: ResponseBuilder) -> None:
        for n in range(6):
            await asyncio.sleep(0.2)
            match n:
                case 0:
                    await out.thinking('hm')
                case 1:
                    await out.thinking('', signature='sealed')
                case 2 | 3:
                    await out.tool_call('a', name='look', args='{')
                case 4:
                    await out.tool_call('b', name='look', args='{}')
                case _:
                    await out.tool_call('a', args='}')

    message, _ = go(watch(TimeoutModel(Faulty([step]), between=0.7)))
    assert len(message.parts) == 3


def test_asked_again_inside_begins_anew() -> None:
    """A restart is progress: the next try gets its own time to begin."""
    model = Faulty([slowly(0.05, 60), slowly(0.05, 0.05)])
    inner = TimeoutModel(model, first_event=0.4, between=0.4)
    message, seen = go(watch(RetryingModel(inner, restart=True, sleep=_no_wait)))
    assert text_of(message) == 'word word ' == seen.text
    outer = TimeoutModel(RetryingModel(Faulty([slowly(0.05, 60), slowly(0, 0)]), restart=True), between=0.3)
    assert 'between' in go(reached(outer))  # around the retries it ends them as well


async def _no_wait(_: float) -> None: ...


def test_cancelled_from_outside() -> None:
    async def main() -> None:
        model = Faulty([slowly(60)])
        task = asyncio.create_task(ask(TimeoutModel(model, whole=60)))
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.open == 0

    go(main())


def test_a_timeout_of_somebody_else_is_theirs() -> None:
    model = Faulty([TimeoutError('mine')])
    with pytest.raises(TimeoutError, match='mine'):
        go(ask(TimeoutModel(model, whole=60)))

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ask(TimeoutModel(Faulty([slowly(60)]), whole=30))

    go(main())


def test_what_had_come_is_kept() -> None:
    async def main() -> None:
        seen = Seen()
        out = ResponseBuilder(seen)
        with pytest.raises(ModelTimeout):
            await TimeoutModel(Faulty([slowly(0, 60)]), between=0.05).respond(HELLO, RequestInfo(), out)
        assert seen.text == 'word ' and out.started

    go(main())


def test_no_bound_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r'has no bound; pass first_event='):
        TimeoutModel(Faulty(['Hi']))
    with pytest.raises(ConfigError):
        TimeoutModel(Faulty(['Hi']), between=0)
    assert (
        repr(TimeoutModel('openai:x', whole=3)) == "TimeoutModel('openai:x', first_event=None, between=None, whole=3)"
    )


def test_progress_is_another_value_each_time() -> None:
    async def main() -> None:
        out = ResponseBuilder()
        seen = [out.progress]
        for n in range(5000):  # more than a builder keeps apart
            await out.text('x', key='even' if n < 4500 else 'odd')
            seen.append(out.progress)
        await out.thinking('', signature='s')
        seen.append(out.progress)
        await out.part(TextPart('whole'))
        seen.append(out.progress)
        assert len(set(seen)) == len(seen)

    go(main())
