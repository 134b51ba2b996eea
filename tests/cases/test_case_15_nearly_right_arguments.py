"""Case 15: arguments that are nearly right, by the documented rules, the same streamed and plain, through an agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_graph import Agent, Tool, ToolCallPart
from agent_graph.testing import ScriptedModel
from tests.engine.kit import WAYS, Way, answers_of, go, outcome_of

GOOD: dict[str, Any] = {'n': 1, 'items': [1], 'opts': {}}

ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    'plain': ('{"n": 3, "items": [1, 2], "opts": {"a": 1}}', {'n': 3, 'items': [1, 2], 'opts': {'a': 1}}),
    'whole float': ('{"n": 3.0, "items": [1], "opts": {}}', {'n': 3}),
    'whole floats inside': ('{"n": 1, "items": [1.0, 2.0], "opts": {}}', {'items': [1, 2]}),
    'list in a string': ('{"n": 1, "items": "[1,2]", "opts": {}}', {'items': [1, 2]}),
    'object in a string': ('{"n": 1, "items": [], "opts": "{}"}', {'opts': {}}),
    'integer in a string': ('{"n": "3", "items": [], "opts": {}}', {'n': 3}),
    'null flag': ('{"n": 1, "items": [], "opts": {}, "flag": null}', {'flag': False}),
    'null note': ('{"n": 1, "items": [], "opts": {}, "note": null}', {'note': 'x'}),
    'string that looks like a list': ('{"n": 1, "items": [], "opts": {}, "note": "[1]"}', {'note': '[1]'}),
    'string that looks like a number': ('{"n": 1, "items": [], "opts": {}, "note": "3.0"}', {'note': '3.0'}),
    'huge integer': ('{"n": 100000000000000000000000000000001, "items": [], "opts": {}}', {'n': 10**32 + 1}),
    'everything in a string': (json.dumps(json.dumps(GOOD)), {'n': 1}),
}

REFUSED: dict[str, tuple[str, str]] = {
    'fraction': ('{"n": 3.5, "items": [], "opts": {}}', 'n'),
    'overflow': ('{"n": 1e400, "items": [], "opts": {}}', 'finite'),
    'overflow inside': ('{"n": 1, "items": [1e400], "opts": {}}', 'items'),
    'boolean': ('{"n": true, "items": [], "opts": {}}', 'n'),
    'cut list in a string': ('{"n": 1, "items": "[1,2", "opts": {}}', 'items'),
    'text for a boolean': ('{"n": 1, "items": [], "opts": {}, "flag": "yes"}', 'flag'),
    'null for a required one': ('{"n": null, "items": [], "opts": {}}', 'n'),
    'missing': ('{"items": [], "opts": {}}', 'n'),
    'extra key': ('{"n": 1, "items": [], "opts": {}, "nonsense": 1}', 'nonsense'),
    'NaN': ('{"n": NaN, "items": [], "opts": {}}', 'n'),
    'number for a string': ('{"n": 1, "items": [], "opts": {}, "note": 5}', 'note'),
}


def _tool(seen: list[dict[str, Any]]) -> Tool:
    def f(n: int, items: list[int], opts: dict[str, Any], flag: bool = False, note: str = 'x') -> str:
        seen.append({'n': n, 'items': items, 'opts': opts, 'flag': flag, 'note': note})
        return 'ok'

    return Tool(f)


@pytest.mark.parametrize('way', [WAYS['run'], WAYS['run_stream']], ids=['run', 'run_stream'])
@pytest.mark.parametrize('as_object', [False, True], ids=['text', 'object'])
@pytest.mark.parametrize('name', ACCEPTED)
def test_accepted(name: str, as_object: bool, way: Way) -> None:
    async def main() -> None:
        text, expected = ACCEPTED[name]
        args = json.loads(text) if as_object else text
        seen: list[dict[str, Any]] = []
        model = ScriptedModel([[ToolCallPart('f', args, '1')], 'end'], chunk=3)
        done = await outcome_of(way, Agent(model, tools=[_tool(seen)]))
        assert done.output == 'end' and len(seen) == 1, answers_of(done.messages)
        for key, value in expected.items():
            assert seen[0][key] == value and type(seen[0][key]) is type(value), seen

    go(main())


@pytest.mark.parametrize('way', [WAYS['run'], WAYS['run_stream']], ids=['run', 'run_stream'])
@pytest.mark.parametrize('name', REFUSED)
def test_refused_with_a_message_the_model_can_act_on(name: str, way: Way) -> None:
    async def main() -> None:
        text, word = REFUSED[name]
        seen: list[dict[str, Any]] = []
        script = [[ToolCallPart('f', text, '1')], [ToolCallPart('f', GOOD, '2')], 'end']
        done = await outcome_of(way, Agent(ScriptedModel(script, chunk=3), tools=[_tool(seen)]))
        assert done.output == 'end' and len(seen) == 1, 'only the corrected call ran'
        first, second = answers_of(done.messages)
        assert (first.outcome, second.outcome) == ('retry', 'success')
        assert word in str(first.content), first.content

    go(main())


def test_the_same_rules_hold_for_a_schema_from_elsewhere() -> None:
    async def main() -> None:
        seen: list[dict[str, Any]] = []

        def f(**arguments: Any) -> str:
            seen.append(arguments)
            return 'ok'

        schema = {
            'type': 'object',
            'properties': {'n': {'type': 'integer'}, 'items': {'type': 'array', 'items': {'type': 'integer'}}},
            'required': ['n', 'items'],
        }
        script = [
            [ToolCallPart('f', '{"n": 3.0, "items": "[1,2]"}', '1')],
            [ToolCallPart('f', '{"n": 3.5, "items": []}', '2')],
            'end',
        ]
        done = await outcome_of(
            WAYS['run'], Agent(ScriptedModel(script), tools=[Tool.from_schema('f', 'f', schema, f)])
        )
        assert done.output == 'end' and seen == [{'n': 3, 'items': [1, 2]}]

    go(main())


def test_the_same_rules_hold_for_an_output_tool() -> None:
    from dataclasses import dataclass

    @dataclass
    class Answer:
        n: int
        items: list[int]
        note: str = 'x'

    async def main() -> None:
        script = [
            [ToolCallPart('final_result', '{"n": 3.5, "items": []}', '1')],
            [ToolCallPart('final_result', '{"n": 3.0, "items": "[1]", "note": null}', '2')],
        ]
        for way in WAYS.values():
            done = await outcome_of(way, Agent(ScriptedModel(script, chunk=3), output_type=Answer))
            assert done.output == Answer(3, [1], 'x')

    go(main())


@pytest.mark.parametrize('args', ['', ' ', {}, '{}', 'null'])
def test_no_arguments_at_all(args: Any) -> None:
    async def main() -> None:
        def ping() -> str:
            return 'pong'

        done = await outcome_of(
            WAYS['run'], Agent(ScriptedModel([[ToolCallPart('ping', args, '1')], 'x']), tools=[ping])
        )
        if args == 'null':
            assert answers_of(done.messages)[0].outcome == 'retry'
        else:
            assert answers_of(done.messages)[0].content == 'pong'

    go(main())
