"""Case 18: arguments cut off by the output limit: never executed, said so, bounded."""

from __future__ import annotations

from typing import Any

import pytest

from agent_graph import Agent, AssistantMessage, TextPart, ThinkingPart, ToolCallPart, UnexpectedModelBehavior
from agent_graph.messages import AssistantPart, FinishReason
from agent_graph.testing import ScriptedModel
from tests.engine.kit import WAYS, Way, answers_of, go, outcome_of, requests_of

EACH_WAY = pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)


def _cut(*parts: AssistantPart, reason: FinishReason = 'length') -> AssistantMessage:
    return AssistantMessage(parts, finish_reason=reason)


def _agent(script: list[Any], ran: list[dict[str, Any]], **options: Any) -> tuple[Agent[None, str], ScriptedModel]:
    def write(path: str, content: str) -> str:
        ran.append({'path': path, 'content': content})
        return f'wrote {len(content)}'

    model = ScriptedModel(script, chunk=5)
    return Agent(model, tools=[write], **options), model


@EACH_WAY
@pytest.mark.parametrize(
    'args',
    ['{"path": "a", "content": "half', '{"path": "a"}', '{"path": "a", "content": "looks whole"}', '', '{'],
    ids=['a broken JSON', 'b lacks a key', 'looks whole', 'nothing yet', 'a brace'],
)
def test_a_b_a_cut_call_is_not_run_and_the_model_is_told(args: str, way: Way) -> None:
    async def main() -> None:
        ran: list[dict[str, Any]] = []
        agent, _ = _agent([_cut(ToolCallPart('write', args, '1')), 'sorry'], ran)
        done = await outcome_of(way, agent)
        assert done.output == 'sorry' and ran == []
        (part,) = answers_of(done.messages)
        assert part.outcome == 'retry' and 'output limit' in str(part.content)

    go(main())


@EACH_WAY
def test_c_complete_earlier_calls_run_the_cut_last_one_does_not(way: Way) -> None:
    async def main() -> None:
        ran: list[dict[str, Any]] = []
        whole = ToolCallPart('write', '{"path": "a", "content": "whole"}', '1')
        cut = ToolCallPart('write', '{"path": "b", "content": "ha', '2')
        agent, _ = _agent([_cut(whole, cut), 'sorry'], ran)
        done = await outcome_of(way, agent)
        assert ran == [{'path': 'a', 'content': 'whole'}]
        first, second = answers_of(done.messages)
        assert (first.outcome, second.outcome) == ('success', 'retry')
        assert 'output limit' in str(second.content) and done.output == 'sorry'

    go(main())


@EACH_WAY
def test_d_the_reason_says_tool_calls_although_the_json_is_cut(way: Way) -> None:
    async def main() -> None:
        ran: list[dict[str, Any]] = []
        cut = ToolCallPart('write', '{"path": "b", "content": "ha', '1')
        agent, _ = _agent([_cut(cut, reason='tool_calls'), 'sorry'], ran)
        done = await outcome_of(way, agent)
        (part,) = answers_of(done.messages)
        assert ran == [] and part.outcome == 'retry' and done.output == 'sorry'
        assert 'limit' in str(part.content) or 'cut' in str(part.content) or 'incomplete' in str(part.content)

    go(main())


@EACH_WAY
def test_the_budget_bounds_it(way: Way) -> None:
    async def main() -> None:
        ran: list[dict[str, Any]] = []
        script = [_cut(ToolCallPart('write', '{"path": "a", "content": "h', f'{i}')) for i in range(10)]
        agent, model = _agent(script, ran, retries=2)
        done = await outcome_of(way, agent)
        assert isinstance(done.error, UnexpectedModelBehavior) and 'output limit' in str(done.error)
        assert ran == [] and len(requests_of(model)) == 3

    go(main())


def test_a_cut_off_reasoning_or_text_after_calls_leaves_the_calls_whole() -> None:
    async def main() -> None:
        ran: list[dict[str, Any]] = []
        whole = ToolCallPart('write', '{"path": "a", "content": "whole"}', '1')
        agent, _ = _agent([_cut(whole, TextPart('and now I wi')), 'done'], ran)
        assert (await outcome_of(WAYS['run'], agent)).output == 'done' and len(ran) == 1

    go(main())


@pytest.mark.parametrize(
    'tail', [TextPart(''), ThinkingPart(''), TextPart('\n')], ids=['text', 'reasoning', 'white space']
)
def test_an_empty_part_after_the_cut_call_does_not_make_it_whole(tail: AssistantPart) -> None:
    async def main() -> None:
        ran: list[dict[str, Any]] = []
        looks_whole = ToolCallPart('write', '{"path": "a", "content": "looks whole"}', '1')
        agent, _ = _agent([_cut(looks_whole, tail), 'sorry'], ran)
        done = await outcome_of(WAYS['run'], agent)
        assert ran == [] and answers_of(done.messages)[0].outcome == 'retry'

    go(main())


@EACH_WAY
def test_a_cut_output_call(way: Way) -> None:
    async def main() -> None:
        script = [
            _cut(ToolCallPart('final_result', '{"response": [1, 2', '1')),
            _cut(ToolCallPart('final_result', '{"response": [1, 2]}', '2')),
            _cut(ToolCallPart('final_result', '{"response": [1, 2, 3]}', '3'), reason='tool_calls'),
        ]
        agent: Agent[None, list[int]] = Agent(ScriptedModel(script, chunk=4), output_type=list[int], output_retries=2)
        done = await outcome_of(way, agent)
        assert done.output == [1, 2, 3]
        assert [p.outcome for p in answers_of(done.messages)] == ['retry', 'retry', 'success']
        assert 'output limit' in str(answers_of(done.messages)[1].content)

    go(main())


def test_a_cut_output_call_beside_a_whole_one() -> None:
    async def main() -> None:
        script = [
            _cut(
                ToolCallPart('final_result', '{"response": [1]}', '1'),
                ToolCallPart('final_result', '{"response": [1, 2', '2'),
            )
        ]
        agent: Agent[None, list[int]] = Agent(ScriptedModel(script), output_type=list[int])
        done = await outcome_of(WAYS['run'], agent)
        assert done.output == [1] and [p.tool_call_id for p in answers_of(done.messages)] == ['1', '2']

    go(main())


def test_a_cut_output_function_is_not_called() -> None:
    async def main() -> None:
        sent: list[str] = []

        async def send(text: str) -> str:
            sent.append(text)
            return text

        script = [
            _cut(ToolCallPart('final_result', '{"text": "half"}', '1')),
            [ToolCallPart('final_result', '{"text": "all"}', '2')],
        ]
        done = await outcome_of(WAYS['run'], Agent(ScriptedModel(script), output_type=send))
        assert done.output == 'all' and sent == ['all']

    go(main())


def test_a_cut_structured_text_is_refused_and_the_reason_named() -> None:
    from agent_graph import NativeOutput

    async def main() -> None:
        script = [_cut(TextPart('{"response": [1, 2')), '{"response": [1, 2, 3]}']
        model = ScriptedModel(script)
        agent: Agent[None, list[int]] = Agent(model, output_type=NativeOutput(list[int]))
        done = await outcome_of(WAYS['run'], agent)
        assert done.output == [1, 2, 3]
        assert 'output limit' in str(requests_of(model)[1][-1])

    go(main())
