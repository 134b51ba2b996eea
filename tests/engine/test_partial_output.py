"""`s.output()`: partial values while the output streams in: valid as far as they go, last one final, in linear time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from agent_graph import Agent, ModelRetry, NativeOutput, PromptedOutput, RunContext, TextOutput, TextPart
from agent_graph.testing import ScriptedModel
from tests.engine.kit import Log, call, go


class Item(BaseModel):
    name: str
    size: int = 0


class Basket(BaseModel):
    owner: str
    items: list[Item] = []


ARGS: dict[str, Any] = {'owner': 'Ada Lovelace', 'items': [{'name': f'item {n}', 'size': n} for n in range(20)]}


def _shout(text: str) -> str:
    return text.upper()


async def _outputs(agent: Agent[Any, Any]) -> tuple[list[Any], Any]:
    async with agent.run_stream('go') as s:
        seen = [o async for o in s.output()]
        return seen, (await s.result()).output


@pytest.mark.parametrize('kind', ['tool', 'native', 'prompted'])
@pytest.mark.parametrize('chunk', [1, 7, 100_000])
def test_a_structured_output_grows(kind: str, chunk: int) -> None:
    async def main() -> None:
        text = json.dumps(ARGS)
        output: Any = {'tool': Basket, 'native': NativeOutput(Basket), 'prompted': PromptedOutput(Basket)}[kind]
        answer: Any = [call('final_result', text)] if kind == 'tool' else text
        agent: Agent[None, Any] = Agent(ScriptedModel([answer], chunk=chunk), output_type=output)
        seen, final = await _outputs(agent)
        assert final == Basket.model_validate(ARGS) == seen[-1]
        assert all(isinstance(o, Basket) for o in seen)
        counts = [len(o.items) for o in seen]
        assert counts == sorted(counts)
        if chunk == 7:
            assert len(set(counts)) > 10, 'the value is seen growing'
        if chunk == 1:
            assert any(o.owner != 'Ada Lovelace' and 'Ada Lovelace'.startswith(o.owner) for o in seen)

    go(main())


@pytest.mark.parametrize('chunk', [1, 5, 1000])
def test_a_text_output_grows(chunk: int) -> None:
    async def main() -> None:
        text = 'the quick brown fox jumps over the lazy dog ' * 10
        seen, final = await _outputs(Agent(ScriptedModel([text], chunk=chunk)))
        assert seen[-1] == final == text
        assert all(text.startswith(o) for o in seen) and seen == sorted(seen, key=len)

    go(main())


def test_a_list_a_dict_and_a_scalar() -> None:
    async def main() -> None:
        for kind, args, value in (
            (list[int], {'response': list(range(30))}, list(range(30))),
            (dict[str, int], {f'k{n}': n for n in range(30)}, {f'k{n}': n for n in range(30)}),
            (int, {'response': 123456}, 123456),
        ):
            agent: Agent[None, Any] = Agent(ScriptedModel([[call('final_result', args)]], chunk=2), output_type=kind)
            seen, final = await _outputs(agent)
            assert seen[-1] == final == value

    go(main())


def test_what_is_not_shown_partially_is_shown_at_the_end() -> None:
    async def main() -> None:
        async def deliver(owner: str, items: list[Item]) -> str:
            return f'{owner}: {len(items)}'

        agent: Agent[None, Any] = Agent(ScriptedModel([[call('final_result', ARGS)]], chunk=3), output_type=deliver)
        assert await _outputs(agent) == (['Ada Lovelace: 20'], 'Ada Lovelace: 20')
        agent = Agent(ScriptedModel(['abc def'], chunk=2), output_type=TextOutput(_shout))
        assert await _outputs(agent) == (['ABC DEF'], 'ABC DEF')

    go(main())


def test_an_output_function_is_called_once_although_the_output_is_streamed() -> None:
    async def main() -> None:
        ran: list[str] = []

        async def deliver(text: str) -> str:
            ran.append(text)
            return text

        agent = Agent(ScriptedModel([[call('final_result', {'text': 'x' * 500})]], chunk=3), output_type=deliver)
        _, final = await _outputs(agent)
        assert ran == [final]

    go(main())


def test_validators_know_whether_the_value_is_partial() -> None:
    async def main() -> None:
        partial: list[bool] = []
        agent = Agent(ScriptedModel([[call('final_result', ARGS)]], chunk=10), output_type=Basket)

        @agent.output_validator
        def check(ctx: RunContext[None], value: Basket) -> Basket:
            partial.append(ctx.partial)
            if len(value.items) % 2:
                raise ModelRetry('an odd number')
            return value

        seen, final = await _outputs(agent)
        assert all(len(o.items) % 2 == 0 for o in seen) and len(final.items) == 20
        assert partial.count(False) == 1 and partial.count(True) > 5

    go(main())


def test_a_refused_output_is_followed_by_the_next_one() -> None:
    async def main() -> None:
        bad = {'owner': 'nobody', 'items': 'none'}
        script = [[call('final_result', bad, '1')], [call('final_result', ARGS, '2')]]
        seen, final = await _outputs(Agent(ScriptedModel(script, chunk=5), output_type=Basket))
        assert seen[-1] == final == Basket.model_validate(ARGS)

    go(main())


def test_text_and_tools_before_the_output() -> None:
    async def main() -> None:
        script = [[TextPart('let me see'), call('a')], [TextPart('here'), call('final_result', ARGS)]]
        agent = Agent(ScriptedModel(script, chunk=5), output_type=Basket, tools=[Log().tool('a')])
        seen, final = await _outputs(agent)
        assert all(isinstance(o, Basket) for o in seen) and seen[-1] == final

    go(main())


def test_two_output_calls_in_one_response_show_the_one_that_wins() -> None:
    async def main() -> None:
        one, two = {'owner': 'one'}, {'owner': 'two'}
        script = [[call('final_result', one, '1'), call('final_result', two, '2')]]
        seen, final = await _outputs(Agent(ScriptedModel(script, chunk=3), output_type=Basket))
        assert final.owner == 'one' == seen[-1].owner
        assert all('one'.startswith(o.owner) for o in seen)

    go(main())


def test_values_that_do_not_change_are_shown_once() -> None:
    async def main() -> None:
        text = '{"owner": "x"' + ' ' * 500 + '}'
        seen, _ = await _outputs(Agent(ScriptedModel([[call('final_result', text)]], chunk=1), output_type=Basket))
        assert seen in ([Basket(owner='x')], [Basket(owner=''), Basket(owner='x')])

    go(main())


def test_none_allowed() -> None:
    async def main() -> None:
        kinds: Any = [Basket, None]
        agent: Agent[None, Any] = Agent(ScriptedModel(['']), output_type=kinds)
        assert await _outputs(agent) == ([None], None)

    go(main())


def test_the_work_is_linear_in_the_text() -> None:
    """Every look at a partial value reads it from its start, so what counts is the sum of what was looked at."""

    async def main() -> None:
        async def work(n: int) -> float:
            looked: list[int] = []
            args = json.dumps({'owner': 'x' * n})
            agent = Agent(ScriptedModel([[call('final_result', args)]], chunk=40), output_type=Basket)

            @agent.output_validator
            def look(ctx: RunContext[None], value: Basket) -> Basket:
                looked.append(len(value.owner))
                return value

            await _outputs(agent)
            return sum(looked) / n

        small, large = await work(100_000), await work(400_000)
        assert large < small * 1.2, f'{small:.0f} and {large:.0f} times the text were looked at'

    go(main())
