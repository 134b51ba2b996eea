"""What a model that knows no tools is asked."""

from __future__ import annotations

from typing import Any

import pytest

from agent_graph.errors import MessageError
from agent_graph.messages import (
    AssistantMessage,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.model import OutputSchema, RequestInfo, ToolDefinition
from agent_graph_providers.local.prompt import Task, chat, task_of
from agent_graph_providers.local.schemas import arguments_of, choice_of

CITY = {'type': 'object', 'properties': {'city': {'enum': ['Quito', 'Denver']}}, 'required': ['city']}
FEET = {'type': 'object', 'properties': {'metres': {'type': 'number'}}, 'required': ['metres']}
LOOK = ToolDefinition('look_up', 'Look up a city.', CITY)
CONVERT = ToolDefinition('to_feet', 'Convert metres.', FEET)
DONE = ToolDefinition('final_result', '', FEET, kind='output')
OUTPUT = OutputSchema('height', FEET)


@pytest.mark.parametrize(
    ('info', 'task'),
    [
        (RequestInfo(), Task('text')),
        (RequestInfo(output_schema=OUTPUT), Task('value', output=OUTPUT)),
        (RequestInfo((LOOK,), tool_choice='none'), Task('text')),
        (RequestInfo((LOOK,), tool_choice='none', output_schema=OUTPUT), Task('value', output=OUTPUT)),
        (RequestInfo((LOOK,)), Task('choice', (LOOK,))),
        (RequestInfo((LOOK,), output_schema=OUTPUT), Task('choice', (LOOK,), output=OUTPUT)),
        (RequestInfo((LOOK,), tool_choice='required'), Task('call', (LOOK,))),
        (RequestInfo((DONE,), allow_text=False), Task('call', (DONE,))),
        (RequestInfo((LOOK, DONE), allow_text=False), Task('choice', (LOOK, DONE), may_answer=False)),
        (RequestInfo((LOOK, CONVERT, DONE), tool_choice=('to_feet',)), Task('call', (CONVERT,))),
        (
            RequestInfo((LOOK, CONVERT), tool_choice=('look_up', 'to_feet')),
            Task('choice', (LOOK, CONVERT), may_answer=False),
        ),
    ],
)
def test_what_a_request_asks_for(info: RequestInfo, task: Task) -> None:
    assert task_of(info) == task


HISTORY: list[Message] = [
    SystemMessage('Be brief.'),
    SystemMessage('Use tools.'),
    UserMessage('How high is Quito?'),
    AssistantMessage([ThinkingPart('hm'), ToolCallPart('look_up', {'city': 'Quito'}, 'c1')]),
    ToolMessage([ToolReturnPart('look_up', {'metres': 2850}, 'c1')]),
]


def turns(messages: list[Message]) -> list[tuple[str, Any]]:
    return [
        (
            m.kind,
            ''.join(p.content for p in m.parts if isinstance(p, TextPart))
            if isinstance(m, AssistantMessage)
            else m.content,
        )
        for m in messages
        if not isinstance(m, ToolMessage)
    ]


def test_the_last_turn_names_the_tool_and_earlier_ones_look_the_same() -> None:
    assert turns(chat(HISTORY, Task('call', (CONVERT,)), (LOOK, CONVERT))) == [
        ('system', 'Be brief.\n\nUse tools.'),
        ('user', 'How high is Quito?\nNow call look_up: Look up a city. Arguments: city'),
        ('assistant', '{"city": "Quito"}'),
        ('user', 'Result of look_up: {"metres": 2850}\nNow call to_feet: Convert metres. Arguments: metres'),
    ]


def test_a_choice_lists_the_tools() -> None:
    assert turns(chat(HISTORY, Task('choice', (LOOK, DONE)), (LOOK, DONE)))[1:] == [
        ('user', 'How high is Quito?'),
        ('assistant', '{"tool": "look_up", "arguments": {"city": "Quito"}}'),
        (
            'user',
            (
                'Result of look_up: {"metres": 2850}\nTools:\n- look_up: Look up a city. Arguments: city\n'
                '- final_result: Arguments: metres\n'
                'Call a tool: {"tool": name, "arguments": {...}}. Or, when nothing is left to call, answer: {"answer": ...}.'
            ),
        ),
    ]
    last = turns(chat(HISTORY, Task('choice', (LOOK, DONE), may_answer=False), ()))[-1][1]
    assert 'answer' not in last


def test_results_that_are_none_say_so() -> None:
    history: list[Message] = [
        UserMessage(['a', 'b']),
        AssistantMessage(
            [TextPart('I look.'), ToolCallPart('look_up', '{"city": "X"}', 'c1'), ToolCallPart('gone', '', 'c2')]
        ),
        ToolMessage(
            [
                ToolReturnPart('look_up', 'no such city', 'c1', 'retry'),
                ToolReturnPart('gone', 3, 'c2', extra_content=('see also',)),
            ]
        ),
    ]
    results = 'Problem with look_up: no such city\nResult of gone: 3\nsee also'
    assert turns(chat(history, Task('value', output=OUTPUT), ())) == [
        ('user', 'a\nb'),
        ('assistant', 'I look.\n{"tool": "look_up", "arguments": {"city": "X"}}\n{"tool": "gone", "arguments": {}}'),
        ('user', results),
    ]
    assert turns(chat(history, Task('text'), ())) == [
        ('user', 'a\nb'),
        ('assistant', 'I look.'),
        ('user', f'{results}\nNow answer.'),
    ]


def test_words_are_asked_for_without_showing_calls() -> None:
    assert turns(chat(HISTORY, Task('text'), ()))[1:] == [
        ('user', 'How high is Quito?\nResult of look_up: {"metres": 2850}\nNow answer.')
    ]
    assert turns(chat([UserMessage('Hi')], Task('text'), (LOOK,))) == [('user', 'Hi')]


def test_files_are_refused() -> None:
    picture = FilePart('image/png', data=b'x')
    with pytest.raises(MessageError, match=r"reads text only, not 'image/png'"):
        chat([UserMessage(['look', picture])], Task('text'), ())


def test_references_follow_their_schema() -> None:
    tree = ToolDefinition(
        'plant',
        '',
        {
            'type': 'object',
            'properties': {
                'root': {'$ref': '#/$defs/Node'},
                'again': {'$ref': '#'},
                '$ref': {'type': 'string', 'default': '#/x'},
                'const': {'$ref': '#/properties/root'},
                'list': {'items': [{'$ref': '#/$defs/Node'}], 'enum': [{'$ref': '#/kept'}]},
            },
            '$defs': {'Node': {'properties': {'next': {'$ref': '#/$defs/Node'}}}},
        },
    )
    moved = choice_of([LOOK, tree], {'type': 'string'})
    assert [branch['properties'] for branch in moved['anyOf']] == [
        {'tool': {'const': 'look_up'}, 'arguments': {'$ref': '#/$defs/t0'}},
        {'tool': {'const': 'plant'}, 'arguments': {'$ref': '#/$defs/t1'}},
        {'answer': {'$ref': '#/$defs/a'}},
    ]
    properties = moved['$defs']['t1']['properties']
    assert properties['root'] == {'$ref': '#/$defs/t1/$defs/Node'}
    assert properties['again'] == {'$ref': '#/$defs/t1'}
    assert properties['$ref'] == {'type': 'string', 'default': '#/x'}
    assert properties['const'] == {'$ref': '#/$defs/t1/properties/root'}
    assert properties['list'] == {'items': [{'$ref': '#/$defs/t1/$defs/Node'}], 'enum': [{'$ref': '#/kept'}]}
    assert moved['$defs']['t1']['$defs']['Node'] == {'properties': {'next': {'$ref': '#/$defs/t1/$defs/Node'}}}
    assert arguments_of(tree) == tree.parameters


def test_patterns_llama_cannot_follow_are_left_out() -> None:
    properties = {
        'a': {'pattern': '^[A-Z]{2}$'},
        'b': {'pattern': 'x'},
        'c': {'pattern': '^(?=y)z$'},
        'pattern': {'type': 'string'},
    }
    tool = ToolDefinition('f', '', {'type': 'object', 'properties': properties})
    assert arguments_of(tool)['properties'] == {
        'a': {'pattern': '^[A-Z]{2}$'},
        'b': {},
        'c': {},
        'pattern': {'type': 'string'},
    }
