"""Case 19: an empty response, a refusal, a content filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AssistantMessage,
    ContentFiltered,
    MemoryJournal,
    PromptedOutput,
    TextPart,
    ThinkingPart,
    UnexpectedModelBehavior,
    Usage,
    UserMessage,
)
from agent_graph.messages import AssistantPart, Message
from agent_graph.testing import ScriptedModel
from tests.engine.kit import WAYS, Log, Way, call, go, outcome_of, requests_of


@dataclass
class Result:
    n: int


EMPTY: dict[str, list[AssistantPart]] = {
    'no parts': [],
    'empty text': [TextPart('')],
    'white space': [TextPart(' \n\t')],
    'reasoning only': [ThinkingPart('hm', signature='seal')],
    'reasoning and empty text': [ThinkingPart('hm'), TextPart('')],
}
EACH_WAY = pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)


def _no_empty_message(model: ScriptedModel) -> None:
    """Providers refuse a request that holds a message of nothing."""
    for messages in requests_of(model):
        for message in messages:
            if isinstance(message, AssistantMessage):
                texts = [p.content for p in message.parts if isinstance(p, TextPart)]
                assert any(p.kind == 'tool_call' for p in message.parts) or ''.join(texts).strip(), message
            elif isinstance(message, UserMessage):
                assert message.content


@EACH_WAY
@pytest.mark.parametrize('name', EMPTY)
def test_emptiness_is_asked_again_once_and_never_sent_back(name: str, way: Way) -> None:
    async def main() -> None:
        model = ScriptedModel([EMPTY[name], 'here it is'])
        done = await outcome_of(way, Agent(model))
        assert done.output == 'here it is' and len(model.requests) == 2
        _no_empty_message(model)

    go(main())


@EACH_WAY
@pytest.mark.parametrize('output', [str, Result, PromptedOutput(Result)], ids=['str', 'type', 'prompted'])
@pytest.mark.parametrize('name', EMPTY)
def test_emptiness_is_bounded(name: str, output: Any, way: Way) -> None:
    async def main() -> None:
        model = ScriptedModel([EMPTY[name]] * 10)
        agent: Agent[None, Any] = Agent(model, output_type=output, output_retries=2)
        done = await outcome_of(way, agent)
        assert isinstance(done.error, UnexpectedModelBehavior) and len(model.requests) == 3
        _no_empty_message(model)
        again = ScriptedModel(['fine'])
        assert (await Agent(again).run('more', message_history=done.messages)).output == 'fine'
        _no_empty_message(again)

    go(main())


@EACH_WAY
@pytest.mark.parametrize('output', [[str, None], [Result, None], Result | None], ids=['str', 'type', 'union'])
@pytest.mark.parametrize('name', EMPTY)
def test_emptiness_is_an_answer_where_none_is_allowed(name: str, output: Any, way: Way) -> None:
    async def main() -> None:
        model = ScriptedModel([EMPTY[name]])
        agent: Agent[None, Any] = Agent(model, output_type=output)
        done = await outcome_of(way, agent)
        assert done.error is None and done.output is None and len(model.requests) == 1

    go(main())


@EACH_WAY
@pytest.mark.parametrize('name', EMPTY)
def test_emptiness_right_after_a_tool_result(name: str, way: Way) -> None:
    async def main() -> None:
        log = Log()
        model = ScriptedModel([[call('a')], EMPTY[name], 'here it is'])
        done = await outcome_of(way, Agent(model, tools=[log.tool('a')]))
        assert done.output == 'here it is' and log == ['a']
        _no_empty_message(model)

    go(main())


REFUSALS: dict[str, AssistantMessage] = {
    'refusal field': AssistantMessage([], Usage(output_tokens=3), refusal='I cannot help with that'),
    'refusal field and reason': AssistantMessage([], finish_reason='refusal', refusal='I cannot help with that'),
    'reason and text': AssistantMessage([TextPart('I cannot help with that')], finish_reason='refusal'),
}
FILTERS: dict[str, AssistantMessage] = {
    'no candidates': AssistantMessage([], finish_reason='content_filter', provider_details={'finish_reason': 'SAFETY'}),
    'half a text': AssistantMessage(
        [TextPart('First you')], finish_reason='content_filter', provider_details={'finish_reason': 'SAFETY'}
    ),
}


@EACH_WAY
@pytest.mark.parametrize('output', [str, Result, [str, None]], ids=['str', 'type', 'none allowed'])
@pytest.mark.parametrize('name', [*REFUSALS, *FILTERS])
def test_a_refusal_or_a_filter_is_an_error_at_once(name: str, output: Any, way: Way) -> None:
    async def main() -> None:
        response = {**REFUSALS, **FILTERS}[name]
        model = ScriptedModel([response, 'never asked'])
        agent: Agent[None, Any] = Agent(model, output_type=output, output_retries=5)
        done = await outcome_of(way, agent, 'do something bad')
        assert isinstance(done.error, ContentFiltered)
        assert len(model.requests) == 1, 'asking again costs money and hides the cause'
        assert done.error.reason == ('I cannot help with that' if name in REFUSALS else 'SAFETY')
        assert done.error.run_id and done.usage.requests == 1
        assert done.messages[0] == UserMessage('do something bad')
        again = ScriptedModel(['fine'])
        assert (await Agent(again).run('something good', message_history=done.messages)).output == 'fine'
        _no_empty_message(again)

    go(main())


@EACH_WAY
def test_a_filtered_response_with_a_call_does_not_run_it(way: Way) -> None:
    async def main() -> None:
        log = Log()
        response = AssistantMessage([TextPart('ok'), call('a')], finish_reason='content_filter')
        done = await outcome_of(way, Agent(ScriptedModel([response]), tools=[log.tool('a')]))
        assert isinstance(done.error, ContentFiltered) and log == []

    go(main())


def test_a_filter_after_tools_keeps_what_was_done() -> None:
    async def main() -> None:
        log, journal = Log(), MemoryJournal()
        model = ScriptedModel([[call('a')], FILTERS['no candidates']])
        done = await outcome_of(WAYS['run'], Agent(model, tools=[log.tool('a')], journal=journal), run_id='r')
        messages: list[Message] = done.messages
        assert [m.kind for m in messages] == ['user', 'assistant', 'tool'] and log == ['a']
        assert (await journal.info('r')).status == 'failed'

    go(main())
