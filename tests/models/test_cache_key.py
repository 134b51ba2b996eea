"""What is the same request to a cache, and what is another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent_graph.messages import (
    AssistantMessage,
    FilePart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ToolDefinition
from agent_graph.models import FallbackModel, RetryingModel
from agent_graph.models.cache_key import request_key
from agent_graph.models.wrapper import identity_of
from agent_graph.usage import NO_USAGE, Usage
from tests.models.kit import HELLO, Faulty

TOOL = ToolDefinition('look', 'Look.', {'type': 'object', 'properties': {'a': {'type': 'integer'}, 'b': {}}})
BASE = RequestInfo((TOOL,), ModelSettings(temperature=0.5), run_id='r1', step=1)
CHANGES: dict[str, RequestInfo] = {
    'no tools': replace(BASE, tools=()),
    'another description': replace(BASE, tools=(replace(TOOL, description='See.'),)),
    'another schema': replace(BASE, tools=(replace(TOOL, parameters={'type': 'object'}),)),
    'another order of properties': replace(
        BASE,
        tools=(replace(TOOL, parameters={'type': 'object', 'properties': {'b': {}, 'a': {'type': 'integer'}}}),),
    ),
    'strict': replace(BASE, tools=(replace(TOOL, strict=True),)),
    'two tools': replace(BASE, tools=(TOOL, replace(TOOL, name='see'))),
    'settings': replace(BASE, settings=ModelSettings(temperature=0.6)),
    'more settings': replace(BASE, settings=ModelSettings(temperature=0.5, seed=1)),
    'body': replace(BASE, settings=ModelSettings(temperature=0.5, extra_body={'x': 1})),
    'a header that matters': replace(
        BASE, settings=ModelSettings(temperature=0.5, extra_headers={'anthropic-beta': 'thing'})
    ),
    'tool choice': replace(BASE, tool_choice='required'),
    'tool names': replace(BASE, tool_choice=('look',)),
    'output schema': replace(BASE, output_schema=OutputSchema('out', {'type': 'object'})),
    'no text': replace(BASE, allow_text=False),
    'nothing': replace(BASE, allow_empty=True),
}
SAME: dict[str, RequestInfo] = {
    'another run': replace(BASE, run_id='r2', step=5, scratch={'x': 1}),
    'timeouts': replace(
        BASE,
        settings=ModelSettings(
            temperature=0.5, timeout=3, connect_timeout=1, first_event_timeout=2, event_timeout=9, tool_choice='auto'
        ),
    ),
    'who asks': replace(
        BASE,
        settings=ModelSettings(
            temperature=0.5, extra_headers={'Authorization': 'Bearer x', 'x-api-key': 'k', 'traceparent': '00-1'}
        ),
    ),
    'equal tools': replace(BASE, tools=(replace(TOOL),)),
}
SETTINGS = replace(BASE, settings=ModelSettings(seed=1, temperature=0.5))


def key(info: RequestInfo = BASE, messages: Any = HELLO, identity: Any = 'm') -> str:
    found = request_key(messages, replace(info, scratch={}), identity)
    assert found is not None
    return found


def test_every_change_that_matters_is_another_key() -> None:
    keys = {name: key(info) for name, info in CHANGES.items()} | {'base': key()}
    assert len(set(keys.values())) == len(keys)
    assert {name for name, info in SAME.items() if key(info) != key()} == set()
    assert key(SETTINGS) == key(CHANGES['more settings'])  # settings have no order


def test_every_message_is_part_of_the_key() -> None:
    call = ToolCallPart('look', {'a': 1}, 'c1')
    lists: list[Any] = [
        [],
        [UserMessage('Hello')],
        [UserMessage('Hello'), UserMessage('Hello')],
        [SystemMessage('Hello')],
        [UserMessage(['Hello'])],
        [UserMessage(['Hel', 'lo'])],
        [UserMessage([FilePart('image/png', data=b'a')])],
        [UserMessage([FilePart('image/png', data=b'b')])],
        [UserMessage([FilePart('image/jpeg', data=b'a')])],
        [UserMessage([FilePart('image/png', data=b'\xff\xfe')])],
        [UserMessage('Hello'), AssistantMessage([call]), ToolMessage([ToolReturnPart('look', 1, 'c1')])],
        [UserMessage('Hello'), AssistantMessage([call]), ToolMessage([ToolReturnPart('look', '1', 'c1')])],
        [UserMessage('Hello'), AssistantMessage([call]), ToolMessage([ToolReturnPart('look', True, 'c1')])],
        [UserMessage('Hello'), AssistantMessage([ThinkingPart('x', 'sealed')])],
        [UserMessage('Hello'), AssistantMessage([ThinkingPart('x', 'other seal')])],
        [UserMessage('Hello'), AssistantMessage([TextPart('x')], provider_name='a')],
        [UserMessage('Hello'), AssistantMessage([TextPart('x')], provider_name='b')],
        [UserMessage('Hello\x00')],
        [UserMessage('Hello\ud83c')],
    ]
    keys = [request_key(messages, RequestInfo(), 'm') for messages in lists]
    assert len(set(keys)) == len(lists)
    assert keys[-1] is None  # it cannot be written, so it is not cached


def test_who_answers_is_part_of_the_key() -> None:
    class Settled(Faulty):
        settings: dict[str, Any]
        identity: dict[str, Any]

    one, two, three = (Settled(['x']) for _ in range(3))
    two.settings = {'temperature': 1}
    three.identity = {'address': 'https://elsewhere.example'}
    others = [
        Faulty(['x'], name='b'),
        Faulty(['x'], provider='b'),
        FallbackModel([one, two]),
        FallbackModel([two, one]),
    ]
    keys = {key(identity=identity_of(model)) for model in [one, two, three, *others]}
    assert len(keys) == 7
    assert identity_of(RetryingModel(one)) == identity_of(one)  # what keeps a call alive changes no answer


def test_what_was_noted_about_an_answer_is_not_sent_so_it_does_not_count() -> None:
    asked = AssistantMessage([TextPart('x')], Usage(input_tokens=5), provider_details={'a': 1})
    again = replace(
        asked, usage=NO_USAGE, provider_details={'a': 1, 'cached': True, 'cached_usage': {}, 'fallback': []}
    )
    assert key(messages=[*HELLO, asked]) == key(messages=[*HELLO, again])
    other = replace(asked, provider_details={'a': 2})
    assert key(messages=[*HELLO, asked]) != key(messages=[*HELLO, other])
