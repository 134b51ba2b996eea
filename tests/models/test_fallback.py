"""FallbackModel: the next model is asked, and what was tried is told."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from agent_graph import Agent, RequestRetried
from agent_graph.capabilities import Capabilities
from agent_graph.errors import (
    AllModelsFailed,
    ConfigError,
    ContentFiltered,
    InputTooLong,
    ModelError,
    ModelHTTPError,
    ModelProtocolError,
    ModelTimeout,
    ModelUnreachable,
)
from agent_graph.messages import AssistantMessage, ThinkingPart
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.models import CountingModel, FallbackModel, refused
from agent_graph.usage import Usage
from tests.engine.kit import WAYS, Way, go, settle
from tests.models.kit import HELLO, Faulty, Seen, answer, ask, broken, busy, text_of, watch

REFUSAL = AssistantMessage([], Usage(input_tokens=4), finish_reason='refusal', refusal='I would rather not.')


def two(first: list[Any], second: list[Any]) -> tuple[Faulty, Faulty]:
    return Faulty(first, name='a', provider='one'), Faulty(second, name='b', provider='two')


def test_the_next_one_answers() -> None:
    a, b = two([busy(401)], ['Hi'])
    message = go(ask(FallbackModel([a, b])))
    assert text_of(message) == 'Hi'
    assert (message.model_name, message.provider_name) == ('b', 'two')
    assert message.provider_details == {
        'fallback': [{'model': 'a', 'provider': 'one', 'error': 'ModelHTTPError: busy (401)'}]
    }


def test_the_first_one_answers_for_itself() -> None:
    a, b = two(['Hi'], ['no'])
    message = go(ask(FallbackModel([a, b])))
    assert (message.model_name, message.provider_details, b.requests) == ('a', None, [])


def test_all_fail() -> None:
    a, b = two([busy(503, retry_after=9)], [busy(429, retry_after=4)])
    with pytest.raises(AllModelsFailed) as caught:
        go(ask(FallbackModel([a, b])))
    error = caught.value
    assert error.errors == (a.steps[0], b.steps[0]) and error.__cause__ is b.steps[0]
    assert 'one:a: ModelHTTPError: busy (503)' in str(error) and 'two:b: ModelHTTPError: busy (429)' in str(error)
    assert (error.provider, error.model, error.retry_after) == ('one', 'a', 4)


def test_only_what_is_asked_for_falls() -> None:
    error = MemoryError('not a model error')
    a, b = two([error], ['Hi'])
    with pytest.raises(MemoryError):
        go(ask(FallbackModel([a, b])))
    rules: list[Any] = [(ModelTimeout, ModelUnreachable), ModelTimeout, lambda e: isinstance(e, ModelTimeout)]  # pyright: ignore
    for on in rules:
        a, b = two([ModelTimeout('late')], ['Hi'])
        assert text_of(go(ask(FallbackModel([a, b], on=on)))) == 'Hi'
        a, b = two([busy()], ['Hi'])
        with pytest.raises(ModelHTTPError):
            go(ask(FallbackModel([a, b], on=on)))
        assert b.requests == []


def test_a_stream_falls_over_before_it_was_seen_only() -> None:
    a, b = two([broken('Once upon')], ['Hi'])
    seen = Seen()
    with pytest.raises(ModelProtocolError):
        go(FallbackModel([a, b]).respond(HELLO, RequestInfo(), ResponseBuilder(seen)))
    assert seen.text == 'Once upon ' and b.requests == []

    a, b = two([busy()], ['Hi there'])
    message, seen = go(watch(FallbackModel([a, b])))
    assert text_of(message) == 'Hi there ' == seen.text
    assert seen.events[0] == (
        RequestRetried,
        {'attempt': 2, 'delay': 0.0, 'error': 'ModelHTTPError: busy (429)', 'model': 'b', 'provider': 'two'},
    )
    assert 'ResponseRestarted' not in seen.names


def test_what_nobody_saw_is_dropped_and_counted() -> None:
    a, b = two([broken('Once upon', tokens=6)], ['Hi'])
    message = go(ask(FallbackModel([a, b])))
    assert text_of(message) == 'Hi' and message.usage.input_tokens == 13


def test_a_response_can_be_a_failure() -> None:
    a, b = two([REFUSAL], ['Hi'])
    message = go(ask(FallbackModel([a, b], on_response=refused)))
    assert text_of(message) == 'Hi' and message.usage.input_tokens == 11 and message.refusal is None
    assert message.provider_details is not None
    assert message.provider_details['fallback'][0]['error'].endswith('I would rather not.')

    a, b = two([REFUSAL], [REFUSAL])
    message = go(ask(FallbackModel([a, b], on_response=refused)))
    assert message.refusal and message.model_name == 'b'  # the last one's is the answer

    a, b = two([REFUSAL], [busy()])
    with pytest.raises(AllModelsFailed) as caught:
        go(ask(FallbackModel([a, b], on_response=refused)))
    assert [type(e).__name__ for e in caught.value.errors] == ['UnexpectedModelBehavior', 'ModelHTTPError']

    a, b = two([AssistantMessage([ThinkingPart('hm')], refusal='No.')], ['Hi'])
    message, _ = go(watch(FallbackModel([a, b], on_response=refused)))
    assert message.refusal == 'No.' and b.requests == []  # its reasoning was seen


def test_in_a_run() -> None:
    async def main() -> None:
        with pytest.raises(ContentFiltered):
            await Agent(FallbackModel(two([REFUSAL], ['Hi']))).run('Hello')
        result = await Agent(FallbackModel(two([REFUSAL], ['Hi']), on_response=refused)).run('Hello')
        assert result.output == 'Hi'

    go(main())


@pytest.mark.parametrize('way', list(WAYS.values()), ids=list(WAYS))
def test_every_way_to_run(way: Way) -> None:
    async def main() -> None:
        result = await way(Agent(FallbackModel(two([busy()], ['Hi there']))))
        assert result.output.strip() == 'Hi there' and result.usage.requests == 1
        assert result.messages[-1].provider_name == 'two'  # pyright: ignore

    go(main())


def test_inside_each_other() -> None:
    a, b = two([busy()], [ModelTimeout('late')])
    c = Faulty(['Hi'], name='c', provider='three')
    outer = FallbackModel([FallbackModel([a, b]), c]), FallbackModel([a, FallbackModel([b, c])])
    for model, tried in zip(outer, (['a'], ['a', 'b']), strict=True):
        message = go(ask(model))
        assert message.model_name == 'c' and message.provider_details is not None
        assert [t['model'] for t in message.provider_details['fallback']] == tried
    inner = FallbackModel([a, b])
    with pytest.raises(AllModelsFailed, match=r'none of 2 models answered: 1\. one:a: AllModelsFailed'):
        go(ask(FallbackModel([inner, b])))


def test_a_model_that_takes_more() -> None:
    a, b = two(['no'], ['Hi'])
    message = go(ask(FallbackModel([CountingModel(a, max_input_tokens=1), b])))
    assert text_of(message) == 'Hi' and a.requests == []
    assert issubclass(InputTooLong, ModelError)


def test_cancelled() -> None:
    async def main() -> None:
        async def hang(_: ResponseBuilder) -> None:
            await asyncio.sleep(60)

        a, b = two([hang], ['Hi'])
        task = asyncio.create_task(ask(FallbackModel([a, b], on=lambda _: True)))
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert b.requests == [] and a.open == 0

    go(main())


def test_what_they_can_all_do() -> None:
    a, b = two(['x'], ['y'])
    a.capabilities = Capabilities(audio=True, video=True, thinking=True)  # pyright: ignore
    b.capabilities = Capabilities(audio=True, tool_choice=False)  # pyright: ignore
    assert FallbackModel([a, b]).capabilities == Capabilities(audio=True, tool_choice=False)


def test_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, 'agent_graph.models')
    go(ask(FallbackModel(two([busy()], ['Hi']))))
    assert [r.getMessage() for r in caplog.records] == ['two:b is asked instead, after ModelHTTPError: busy (429)']


def test_names_and_wrong_lists() -> None:
    a, b = two(['x'], ['y'])
    model = FallbackModel([a, b])
    assert (model.name, model.provider, model.models) == ('a', 'one', (a, b))
    assert 'openai:gpt-5-mini' in repr(FallbackModel(['openai:gpt-5-mini', b]))
    for wrong in ([], 'openai:gpt-5-mini', [a, 3]):
        with pytest.raises(ConfigError):
            FallbackModel(wrong)  # pyright: ignore
    assert answer('x').finish_reason == 'stop'


def test_a_name_is_looked_up_when_it_is_needed() -> None:
    a, _ = two(['Hi'], [])
    assert text_of(go(ask(FallbackModel([a, 'nobody:knows'])))) == 'Hi'
    a, _ = two([busy()], [])
    with pytest.raises(ConfigError, match='nobody'):
        go(ask(FallbackModel([a, 'nobody:knows'])))
