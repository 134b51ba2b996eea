"""Case 5: text, then tool calls, in one response: streamed and plain runs are the same run."""

from __future__ import annotations

import itertools
from typing import Literal

import pytest

from agent_graph import Agent, AssistantMessage, FinalResultEvent, TextPart, ThinkingPart, ToolCallPart, Usage
from agent_graph.messages import AssistantPart
from agent_graph.testing import ScriptedModel
from tests.engine.kit import WAYS, Log, Way, answers_of, call, go, outcome_of, requests_of

LEADS: dict[str, list[AssistantPart]] = {
    'text': [TextPart('I will look that up')],
    'white space': [TextPart('\n\n')],
    'empty': [TextPart('')],
    'reasoning': [ThinkingPart('hm', signature='seal')],
    'reasoning and text': [ThinkingPart('hm'), TextPart('so')],
    'nothing': [],
}
STRATEGIES: list[Literal['early', 'graceful', 'exhaustive']] = ['early', 'graceful', 'exhaustive']
TEXT = 'text between'


def _response(lead: list[AssistantPart], between: str) -> AssistantMessage:
    a: ToolCallPart = call('a', {}, '1')
    parts: list[AssistantPart] = [*lead, a, call('b', {}, '2')]
    if between:
        parts.insert(len(lead) + 1, TextPart(between))
    return AssistantMessage(parts, Usage(input_tokens=3, output_tokens=4), finish_reason='tool_calls')


@pytest.mark.parametrize(
    ('lead', 'between', 'strategy'),
    list(itertools.product(LEADS, ['', TEXT], STRATEGIES)),
)
def test_every_way_is_the_same_run(
    lead: str, between: str, strategy: Literal['early', 'graceful', 'exhaustive']
) -> None:
    async def main() -> None:
        told: dict[str, object] = {}
        for name, way in WAYS.items():
            log = Log()
            model = ScriptedModel([_response(LEADS[lead], between), 'Done'], chunk=3)
            agent = Agent(model, tools=[log.tool('a'), log.tool('b')], end_strategy=strategy)
            done = await outcome_of(way, agent)
            assert done.output == 'Done' and sorted(log) == ['a', 'b']
            assert [p.outcome for p in answers_of(done.messages)] == ['success', 'success']
            told[name] = done.told, requests_of(model)
        assert all(t == told['run'] for t in told.values()), told

    go(main())


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
def test_parts_are_stored_as_they_came(way: Way) -> None:
    async def main() -> None:
        response = _response([ThinkingPart('hm', 'seal', {'n': 1}), TextPart('look', {'cited': True})], TEXT)
        model = ScriptedModel([response, 'Done'], chunk=2)
        done = await outcome_of(way, Agent(model, tools=[Log().tool('a'), Log().tool('b')]))
        assert isinstance(stored := done.messages[1], AssistantMessage)
        assert stored.parts == response.parts and stored.usage == response.usage

    go(main())


def test_the_final_event_comes_once_and_last() -> None:
    async def main() -> None:
        model = ScriptedModel([_response([TextPart('I will look that up')], ''), 'Done'])
        agent = Agent(model, tools=[Log().tool('a'), Log().tool('b')])
        kinds = [(e.kind, getattr(e, 'output', None)) async for e in agent.run_stream_events('go')]
        assert [k for k in kinds if k[0] == 'final_result'] == [('final_result', 'Done')]
        assert kinds.index(('final_result', 'Done')) == len(kinds) - 2, 'only the end of the run comes after it'

    go(main())


def test_no_final_event_when_a_validator_refuses_the_first_text() -> None:
    async def main() -> None:
        from agent_graph import ModelRetry

        agent = Agent(ScriptedModel(['no', 'yes']))

        @agent.output_validator
        def check(text: str) -> str:
            if text == 'no':
                raise ModelRetry('say yes')
            return text

        events = [e async for e in agent.run_stream_events('go')]
        finals = [e for e in events if isinstance(e, FinalResultEvent)]
        assert [f.output for f in finals] == ['yes']

    go(main())


def test_text_of_both_responses_is_streamed_and_the_last_is_the_output() -> None:
    async def main() -> None:
        model = ScriptedModel([_response([TextPart('I will look that up')], ''), 'Done'], chunk=4)
        agent = Agent(model, tools=[Log().tool('a'), Log().tool('b')])
        async with agent.run_stream('go') as s:
            texts = [t async for t in s.text()]
            assert 'I will look that up' in texts and texts[-1] == 'Done' == (await s.result()).output

    go(main())
