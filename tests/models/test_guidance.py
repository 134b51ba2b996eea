"""Faults that a model can mend when it is told: asked again once, with a message that no history keeps."""

from __future__ import annotations

from typing import Any

import pytest

from agent_graph import Agent, RequestRetried
from agent_graph.errors import ModelHTTPError, UnexpectedModelBehavior
from agent_graph.messages import AssistantMessage, FilePart, TextPart, ThinkingPart, ToolCallPart, UserMessage
from agent_graph.model import ToolDefinition
from agent_graph.models import RetryingModel
from agent_graph.usage import Usage
from tests.engine.kit import WAYS, Way, go
from tests.models.kit import HELLO, Faulty, answer, ask, busy, text_of, watch

LOOK = ToolDefinition('look', 'Look.', {'type': 'object', 'properties': {}})


def finished(word: str, *parts: Any) -> AssistantMessage:
    return AssistantMessage(parts, Usage(input_tokens=5), None, None, 'other', {'finish_reason': word})


REFUSED_CALL = ModelHTTPError(
    'groq answered 400',
    status=400,
    code='tool_use_failed',
    type='invalid_request_error',
    body={
        'error': {
            'code': 'tool_use_failed',
            'message': 'parameters for tool look did not match schema: missing properties: name',
            'failed_generation': '{"name": "look", "arguments": {"foo": "bar"}}',
        }
    },
)
EMPTY = AssistantMessage([], Usage(input_tokens=5), finish_reason='stop')

FAULTS = {
    'malformed call (Gemini)': finished('MALFORMED_FUNCTION_CALL'),
    'unexpected call (Gemini)': finished('UNEXPECTED_TOOL_CALL', ToolCallPart('list_files', {}, 'c')),
    'malformed call (Bedrock)': finished('malformed_tool_use'),
    'refused call (Groq)': REFUSED_CALL,
    'empty': EMPTY,
    'white space': answer(' \n'),
    'reasoning only': AssistantMessage([ThinkingPart('hm')], finish_reason='stop'),
}
FINE = {
    'text': answer('Hi'),
    'a call that can be made': finished('UNEXPECTED_TOOL_CALL', ToolCallPart('look', {}, 'c')),
    'a file': AssistantMessage([FilePart('image/png', data=b'x')], finish_reason='stop'),
    'cut off by its length': AssistantMessage([], finish_reason='length'),
    'filtered': AssistantMessage([], finish_reason='content_filter'),
    'refused': AssistantMessage([], finish_reason='refusal', refusal='No.'),
    'another word': finished('SOMETHING_ELSE', TextPart('Hi')),
}


@pytest.mark.parametrize('fault', FAULTS.values(), ids=FAULTS)
def test_a_fault_is_asked_again_once(fault: Any) -> None:
    model = Faulty([fault, 'Better'])
    message = go(ask(RetryingModel(model), tools=(LOOK,)))
    assert text_of(message) == 'Better'
    assert model.requests[0] == HELLO
    first, advice = model.requests[1]
    assert first is HELLO[0] and isinstance(advice, UserMessage) and isinstance(advice.content, str)
    assert 'look' in advice.content
    spent = fault.usage.input_tokens if isinstance(fault, AssistantMessage) else 0
    assert message.usage.input_tokens == 7 + spent


@pytest.mark.parametrize('fine', FINE.values(), ids=FINE)
def test_what_is_no_such_fault_is_the_answer(fine: AssistantMessage) -> None:
    model = Faulty([fine, 'Better'])
    assert go(ask(RetryingModel(model), tools=(LOOK,))).parts == fine.parts
    assert len(model.requests) == 1


def test_the_model_is_told_what_was_wrong() -> None:
    model = Faulty([REFUSED_CALL, 'Better'])
    go(ask(RetryingModel(model), tools=(LOOK,)))
    advice = str(model.requests[1][-1].content)  # pyright: ignore
    assert 'missing properties: name' in advice and '"foo": "bar"' in advice


def test_nothing_may_be_a_legal_answer() -> None:
    model = Faulty([EMPTY, 'Better'])
    assert go(ask(RetryingModel(model), allow_empty=True)).parts == ()
    assert len(model.requests) == 1


@pytest.mark.parametrize('fault', [EMPTY, REFUSED_CALL], ids=['empty', 'refused call'])
def test_only_once(fault: Any) -> None:
    model = Faulty([fault])
    try:
        assert go(ask(RetryingModel(model))).parts == ()
    except ModelHTTPError as error:
        assert error.status == 400 and len(error.tried) == 1  # noqa: PT017
    assert len(model.requests) == 2


def test_it_is_one_of_the_tries_and_can_be_turned_off() -> None:
    one, off = Faulty([EMPTY, 'Better']), Faulty([EMPTY, 'Better'])
    for wrapped in (RetryingModel(one, tries=1), RetryingModel(off, guidance=False)):
        assert go(ask(wrapped)).parts == ()
    assert len(one.requests) == len(off.requests) == 1


def test_the_advice_stays_through_other_failures() -> None:
    model = Faulty([EMPTY, busy(retry_after=0), 'Better'])

    async def no_wait(_: float) -> None: ...

    assert text_of(go(ask(RetryingModel(model, sleep=no_wait)))) == 'Better'
    assert [len(r) for r in model.requests] == [1, 2, 2]


def test_what_was_seen_is_not_taken_back() -> None:
    thought = AssistantMessage([ThinkingPart('hm')], finish_reason='stop')
    model = Faulty([thought, 'Better'])
    message, seen = go(watch(RetryingModel(model)))
    assert message.parts == thought.parts and len(model.requests) == 1

    model = Faulty([thought, 'Better'])
    message, seen = go(watch(RetryingModel(model, restart=True)))
    assert text_of(message) == 'Better ' == seen.text
    assert seen.names[:4] == ['PartStartEvent', 'PartEndEvent', 'RequestRetried', 'ResponseRestarted']

    model = Faulty([EMPTY, 'Better'])
    message, seen = go(watch(RetryingModel(model)))
    assert text_of(message) == 'Better ' and seen.events[0][0] is RequestRetried
    assert seen.events[0][1]['delay'] == 0


def test_what_the_model_remembers_is_not_of_the_advice() -> None:
    scratch: dict[Any, Any] = {}
    model = Faulty([EMPTY, 'Better'])
    go(ask(RetryingModel(model), scratch=scratch))
    assert model.infos[0].scratch is scratch and model.infos[1].scratch is not scratch


@pytest.mark.parametrize('way', list(WAYS.values()), ids=list(WAYS))
def test_no_history_keeps_it(way: Way) -> None:
    async def main() -> None:
        model = Faulty([EMPTY, answer('Better', usage=Usage(input_tokens=9))])
        result = await way(Agent(RetryingModel(model)), 'Hello')
        assert [m.kind for m in result.messages] == ['user', 'assistant']
        assert result.usage.requests == 1 and result.usage.input_tokens == 14
        assert result.output.strip() == 'Better'

    go(main())


def test_the_run_goes_on_with_its_own_retries() -> None:
    """A model that stays empty is the run's business: it asks again with a message that is kept."""

    async def main() -> None:
        model = Faulty([EMPTY])
        with pytest.raises(UnexpectedModelBehavior):
            await Agent(RetryingModel(model), output_retries=1).run('Hello')
        assert [len(r) for r in model.requests] == [1, 2, 2, 3]

    go(main())


def test_an_odd_body_does_no_harm() -> None:
    bodies: list[Any] = [None, 'text', [], {'error': 'text'}, {'error': {'message': 3, 'failed_generation': 4}}]
    for body in bodies:
        model = Faulty([ModelHTTPError('no', status=400, code='tool_use_failed', body=body), 'Better'])
        assert text_of(go(ask(RetryingModel(model)))) == 'Better'


def test_half_a_character_in_what_the_server_quotes() -> None:
    body = {'error': {'message': 'bad \ud83c', 'failed_generation': '\udc00' * 3}}
    model = Faulty([ModelHTTPError('no', status=400, code='tool_use_failed', body=body), 'Better'])
    go(ask(RetryingModel(model)))
    str(model.requests[1][-1].content).encode()  # pyright: ignore
