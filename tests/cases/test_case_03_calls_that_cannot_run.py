"""Case 3: a call the engine cannot run still gets an answer, and the run goes on."""

from __future__ import annotations

import pytest

from agent_graph import Agent, ToolCallPart, UnexpectedModelBehavior
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import WAYS, Log, Way, answers_of, call, go, outcome_of, requests_of

WRONG = [
    call('known', {}, 'ok'),
    call('made_up', {'x': 1}, 'unknown'),
    ToolCallPart('with_args', '{"n": 1', 'broken'),
    call('known tool', {}, 'spaced'),
]


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
def test_every_call_is_answered_and_the_run_goes_on(way: Way) -> None:
    async def main() -> None:
        log = Log()

        def with_args(n: int) -> int:
            log.append('with_args')
            return n

        model = ScriptedModel([WRONG, 'sorry'])
        agent = Agent(model, tools=[log.tool('known'), with_args])
        done = await outcome_of(way, agent)
        assert done.output == 'sorry' and log == ['known']
        parts = answers_of(done.messages)
        assert [p.tool_call_id for p in parts] == ['ok', 'unknown', 'broken', 'spaced']
        assert [p.outcome for p in parts] == ['success', 'retry', 'retry', 'retry']
        assert "'made_up'" in str(parts[1].content) and "'with_args'" in str(parts[1].content)
        assert "'known tool'" in str(parts[3].content) and "'known'" in str(parts[3].content)
        assert 'JSON' in str(parts[2].content)
        assert requests_of(model)[1] == tuple(done.messages[:-1])

    go(main())


def test_no_tools_at_all() -> None:
    async def main() -> None:
        done = await outcome_of(WAYS['run'], Agent(ScriptedModel([[call('any')], 'sorry'])))
        assert done.output == 'sorry' and answers_of(done.messages)[0].outcome == 'retry'

    go(main())


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
@pytest.mark.parametrize('retries', [0, 1, 3])
def test_a_repeated_mistake_ends_with_a_typed_error(way: Way, retries: int) -> None:
    async def main() -> None:
        script = [[call('made_up', {}, f'c{i}')] for i in range(10)]
        model = ScriptedModel(script)
        done = await outcome_of(way, Agent(model, tools=[Log().tool('known')], retries=retries))
        assert isinstance(done.error, UnexpectedModelBehavior)
        assert len(requests_of(model)) == retries + 1
        assert "'made_up'" in str(done.error)

    go(main())


@pytest.mark.parametrize('args', ['{"n": 1', '[1]', 'null', '"x"', '{"n": "one"}', '{}', '\x00', '{"n": 1} {"n": 2}'])
def test_arguments_that_cannot_be_read_never_reach_the_tool(args: str) -> None:
    async def main() -> None:
        log = Log()

        def add(n: int) -> int:
            log.append(n)
            return n

        done = await outcome_of(
            WAYS['run'], Agent(ScriptedModel([[ToolCallPart('add', args, 'a')], 'ok']), tools=[add])
        )
        assert done.output == 'ok' and log == []
        assert answers_of(done.messages)[0].outcome == 'retry'

    go(main())


def test_a_success_in_between_starts_the_count_anew() -> None:
    async def main() -> None:
        def add(n: int) -> int:
            return n

        script = [[call('add', {'n': 'x'}, '1')], [call('add', {'n': 1}, '2')], [call('add', {'n': 'x'}, '3')], 'end']
        done = await outcome_of(WAYS['run'], Agent(ScriptedModel(script), tools=[add], retries=1))
        assert done.output == 'end'

    go(main())


def test_several_wrong_calls_of_one_response_count_once() -> None:
    async def main() -> None:
        def add(n: int) -> int:
            return n

        wrong = [call('add', {'n': 'x'}, str(i)) for i in range(5)]
        done = await outcome_of(WAYS['run'], Agent(ScriptedModel([wrong, 'end']), tools=[add], retries=1))
        assert done.output == 'end'

    go(main())


def test_a_new_made_up_name_each_time_is_the_same_mistake() -> None:
    async def main() -> None:
        asked = 0

        async def invent(_: object, info: object) -> list[ToolCallPart] | str:
            nonlocal asked
            asked += 1
            return [call(f'tool_{asked}')] if asked < 30 else 'gave up by itself'

        done = await outcome_of(WAYS['run'], Agent(FunctionModel(invent), tools=[Log().tool('known')], retries=1))
        assert isinstance(done.error, UnexpectedModelBehavior), f'{asked} requests were made'
        assert asked <= 5

    go(main())


def test_the_messages_after_a_spent_budget_start_another_run() -> None:
    async def main() -> None:
        done = await outcome_of(WAYS['run'], Agent(ScriptedModel([[call('x', call_id='1')], [call('x', call_id='2')]])))
        assert done.error is not None
        model = ScriptedModel(['fine'])
        result = await Agent(model).run('again', message_history=done.messages)
        assert result.output == 'fine' and is_valid(requests_of(model)[0])

    go(main())
