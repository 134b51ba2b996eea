"""Ids of calls as a server takes them: mapped stably, there once, results with their calls."""

from __future__ import annotations

from typing import Any

import pytest

from agent_graph.messages import AssistantMessage, Message, ToolCallPart, ToolMessage, ToolReturnPart, UserMessage
from agent_graph.model import RequestInfo
from agent_graph_providers.openai import SERVERS
from agent_graph_providers.openai.mapping import form_of, request_body, tool_form
from agent_graph_providers.wire.offers import Memory, Offers

LONG = 'toolu_' + 'x' * 60


def sent(server: str, groups: list[list[str]]) -> tuple[list[str], list[str]]:
    """The ids of calls and of results in the request for a history with these ids, each group one response."""
    history: list[Message] = [UserMessage('go')]
    for ids in groups:
        history.append(AssistantMessage([ToolCallPart('f', {'n': n}, i) for n, i in enumerate(ids)]))
        history.append(ToolMessage([ToolReturnPart('f', f'result {n}', i) for n, i in enumerate(ids)]))
    row = SERVERS[server]
    memory = Memory(Offers(tool_form(row)), form_of(row))
    bodies = [request_body('m', row, memory, history, RequestInfo(), {}, stream=False) for _ in range(2)]
    assert bodies[0] == bodies[1]
    messages: list[Any] = bodies[0]['messages']
    results = [m for m in messages if m['role'] == 'tool']
    assert [m['content'] for m in results] == [f'result {n}' for ids in groups for n in range(len(ids))]
    return [c['id'] for m in messages for c in m.get('tool_calls', ())], [m['tool_call_id'] for m in results]


@pytest.mark.parametrize('server', ['mistral', 'openai', 'groq'])
@pytest.mark.parametrize(
    'groups', [[['', '']], [['a', 'a'], ['a']], [[LONG, LONG + 'y'], [LONG]], [['call:1', 'call.1', 'call 1']]]
)
def test_ids_are_there_once_and_paired(server: str, groups: list[list[str]]) -> None:
    called, answered = sent(server, groups)
    assert called == answered and all(called) and len(set(called)) == len(called)
    if server == 'mistral':
        assert all(len(i) == 9 and i.isalnum() for i in called)
    if server == 'openai':
        assert all(len(i) <= 40 for i in called)


@pytest.mark.parametrize('server', ['mistral', 'openai', 'groq'])
def test_ids_that_will_do_stay(server: str) -> None:
    assert sent(server, [['D681PevKs', 'abcdef123'], ['xyz456789']])[0] == ['D681PevKs', 'abcdef123', 'xyz456789']


def test_the_same_id_is_mapped_to_the_same() -> None:
    """Whatever stands before it: a server that caches sees the same beginning."""
    assert sent('mistral', [['call_1'], ['call_2']])[0][0] == sent('mistral', [['call_1']])[0][0]
