"""The cost of the engine as exact call counts: the same on every machine, so a step that grows it fails here.

Times are measured by `make bench`, never here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from agent_graph import (
    AssistantMessage,
    MemoryJournal,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from benchmarks.adapters import agent_graph_
from benchmarks.cases import fake_case
from benchmarks.gates import GATES, Gate, count_row
from benchmarks.measure import count_calls
from benchmarks.processes import running_server
from benchmarks.rows import ROWS
from benchmarks.workload import SCRIPT, Script

IN_MEMORY = [key for key, gate in GATES.items() if ROWS[gate.row].kind == 'fake']


@pytest.fixture(scope='module')
def calls() -> Iterator[dict[str, int]]:
    """The calls of every row that some gate looks at."""
    keys = {key for gate in GATES.values() for key in (gate.row, gate.beyond, gate.per) if isinstance(key, str)}
    with running_server() as url:
        yield {key: asyncio.run(count_row(agent_graph_, key, url)) for key in sorted(keys)}


@pytest.fixture(scope='module')
def kept_calls() -> dict[str, int]:
    """The same for the rows without a server, all runs being kept in one MemoryJournal."""
    agent = agent_graph_.fake(MemoryJournal())

    async def count(key: str) -> int:
        return await count_calls(fake_case(agent_graph_, ROWS[key], agent))

    return {key: asyncio.run(count(key)) for key, row in ROWS.items() if row.kind == 'fake'}


@pytest.mark.parametrize('gate', GATES.values(), ids=GATES)
def test_gate(gate: Gate, calls: dict[str, int]):
    assert gate.holds(calls), f'{gate.title}: {gate.value(calls):g} calls, at most {gate.limit:g} are allowed'


@pytest.mark.parametrize('key', IN_MEMORY)
def test_gate_with_a_journal_that_is_kept(key: str, kept_calls: dict[str, int]):
    """Without `journal=` a run has a journal of its own; with one of the user's it must fit under the same gates."""
    gate = GATES[key]
    assert gate.holds(kept_calls), f'{gate.title}: {gate.value(kept_calls):g} calls, at most {gate.limit:g} are allowed'


HISTORIES: dict[str, list[Message]] = {
    'other scripts': [UserMessage('Grüße'), AssistantMessage([TextPart('Здравствуйте')])],
    'several parts': [UserMessage(['Look', 'here']), AssistantMessage([ThinkingPart('Hm'), TextPart('Yes')])],
    'tool calls': [
        UserMessage('And now?'),
        AssistantMessage([ToolCallPart('get_weather', '{"city":"Bern"}', 'c')]),
        ToolMessage([ToolReturnPart('get_weather', 'dry', 'c')]),
        AssistantMessage([TextPart('Dry.')]),
    ],
    'structured calls': [
        UserMessage('And now?'),
        AssistantMessage([ToolCallPart('get_weather', {'city': 'Bern'}, 'c')]),
        ToolMessage([ToolReturnPart('get_weather', {'sky': 'dry'}, 'c')]),
        AssistantMessage([TextPart('Dry.')]),
    ],
}


@pytest.mark.parametrize('messages', HISTORIES.values(), ids=HISTORIES)
def test_history_of_any_kind_costs_next_to_nothing(messages: list[Message]):
    """The gate's history is of plain ASCII texts; a real one must not fall off a cliff."""
    agent = agent_graph_.fake()

    async def count(times: int) -> int:
        async def run() -> None:
            SCRIPT.set(Script())
            await agent_graph_.run_fake(agent, messages * times)

        return await count_calls(run)

    few, many = asyncio.run(count(10)), asyncio.run(count(110))
    assert (many - few) / (100 * len(messages)) <= 2


def test_counts_are_exact():
    first, second = (asyncio.run(count_row(agent_graph_, 'tool')) for _ in range(2))
    assert first == second


def test_every_call_is_counted():
    class Chain:
        def __init__(self, depth: int) -> None:
            self.inner = Chain(depth - 1) if depth else None

    async def run() -> None:
        Chain(0)
        Chain(9)

    async def none() -> None: ...

    async def difference() -> int:
        return await count_calls(run) - await count_calls(none)

    assert asyncio.run(difference()) == 11
