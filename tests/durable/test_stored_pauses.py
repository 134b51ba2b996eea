"""Case 29 where runs wait: what people answered, what a graph holds and what a recording says builds no objects."""

from __future__ import annotations

import json
import pickle
import sqlite3
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic_graph import End

from agent_graph import (
    Agent,
    AgentGraphError,
    Answer,
    AnswerError,
    CodecError,
    GraphContext,
    GraphNode,
    RunContext,
    SQLiteJournal,
    Tool,
    ToolApproved,
    resume_graph,
    run_graph,
)
from agent_graph.journal.entries import Entry
from agent_graph.testing import ScriptedModel, check_replay
from tests.durable.graphs import build
from tests.durable.kit import Killed, Mortal
from tests.engine.kit import Log, call, go


class Trap:
    """Unpickling this leaves a mark."""

    mark: Path | None = None

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def edit(path: Path, seq: int, change: Any) -> None:
    """Change a stored entry, as somebody who can write to the file could."""
    with sqlite3.connect(path) as db:
        (stored,) = db.execute('SELECT entry FROM records WHERE seq = ?', (seq,)).fetchone()
        entry = change if isinstance(change, bytes) else json.dumps(change(json.loads(stored))).encode()
        db.execute('UPDATE records SET entry = ? WHERE seq = ?', (entry, seq))
    db.close()


def _set(**changes: Any) -> Any:
    def change(document: Any) -> Any:
        document['entry'].update(changes)
        return document

    return change


def deep(n: int) -> Any:
    """A list in a list, and so on."""
    made: Any = []
    for _ in range(n):
        made = [made]
    return made


MARKERS: list[Any] = [
    {'py/object': 'os.system', 'py/reduce': ['id']},
    {'__class__': 'subprocess.Popen', 'args': ['id']},
    {'lc': 2, 'type': 'constructor', 'id': ['os', 'system'], 'kwargs': {}},
    '!!python/object/apply:os.system ["id"]',
]


def make_agent(journal: Any, log: Log) -> Agent[None, str]:
    async def pay(euros: int) -> str:
        log.append(euros)
        return 'paid'

    async def form(ctx: RunContext[None]) -> str:
        log.append(await ctx.ask('What?', schema=Any))
        return 'done'

    script = [[call('pay', {'euros': 5}, 'c1'), call('form', {}, 'c2')], 'done']
    return Agent(ScriptedModel(script), tools=[Tool(pay, requires_approval=True), form], journal=journal)


async def _paused(path: Path) -> list[Entry]:
    async with SQLiteJournal(path) as journal:
        await make_agent(journal, Log()).run('go', run_id='r')
        return [r.entry for r in await journal.load('r')]


def _place(entries: list[Entry], kind: str) -> int:
    return max(i for i, e in enumerate(entries, 1) if e.kind == kind)


PAUSES: dict[str, Any] = {
    'pickle': lambda: pickle.dumps(Trap()),
    'another kind of thing that waits': lambda: _set(pending=[{'kind': 'os.system', 'tool_call_id': 'c1'}]),
    'an unknown field': lambda: _pending(on_load='os.system'),
    'an unknown reason': lambda: _pending(reason='always_allow'),
    'a path that is no list of ids': lambda: _pending(path={'a': 1}),
    'a call id that is a number': lambda: _pending(tool_call_id=1),
    'deep arguments': lambda: _pending(args=deep(400)),
    'a schema that is text': lambda: _pending(schema='os.system'),
    'nothing': lambda: b'',
    'a list': lambda: b'[]',
}


def _pending(**changes: Any) -> Any:
    def change(document: Any) -> Any:
        document['entry']['pending'][0].update(changes)
        return document

    return change


@pytest.mark.parametrize('name', PAUSES)
def test_what_waits(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        path, log = tmp_path / 'runs.db', Log()
        Trap.mark = tmp_path / 'mark'
        entries = await _paused(path)
        edit(path, _place(entries, 'paused'), PAUSES[name]())
        async with SQLiteJournal(path) as journal:
            for answers in (None, {'c1': ToolApproved()}):
                with pytest.raises(CodecError):
                    await make_agent(journal, log).resume('r', answers=answers)
            assert [info.run_id for info in await journal.runs()] == ['r'], 'it can still be listed'
        assert log == [] and not Trap.mark.exists()

    go(main())


def test_an_answer_forged_in_the_file_is_still_checked_against_the_tool(tmp_path: Path) -> None:
    """Whoever can write the file can write a yes; what it brings is checked like any arguments."""

    async def main() -> None:
        path, log = tmp_path / 'runs.db', Log()
        await _paused(path)
        async with SQLiteJournal(path) as journal:
            await make_agent(Mortal(journal, 1), log).resume('r', answers={'c1': ToolApproved({'euros': 6})})

    with pytest.raises(Killed):
        go(main())

    async def later() -> None:
        path, log = tmp_path / 'runs.db', Log()
        async with SQLiteJournal(path) as journal:
            place = len(await journal.load('r'))
        edit(path, place, _set(args={'euros': 'many'}))
        async with SQLiteJournal(path) as journal:
            try:
                result = await make_agent(journal, log).resume('r')
            except AgentGraphError:
                pass
            else:
                assert result.status == 'paused'
        assert log == []

    go(later())


@pytest.mark.parametrize('marker', MARKERS, ids=repr)
def test_markers_in_answers_and_arguments_are_only_data(marker: Any, tmp_path: Path) -> None:
    async def main() -> None:
        path, log = tmp_path / 'runs.db', Log()
        await _paused(path)
        before = set(sys.modules)
        async with SQLiteJournal(path) as journal:
            agent = make_agent(journal, log)
            with pytest.raises(AnswerError):
                await agent.resume('r', answers={'c1': marker})
            await agent.resume('r', answers={'c2': Answer(marker)})
        async with SQLiteJournal(path) as journal:
            await make_agent(journal, log).resume('r', answers={'c1': ToolApproved()})
        assert log == [marker, 5]
        assert not {m for m in set(sys.modules) - before if not m.startswith(('agent_graph', 'pydantic'))}

    go(main())


# --- graphs ----------------------------------------------------------------------------------------------------------


@dataclass
class Notes:
    text: str = ''
    more: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Ask(GraphNode[Notes, Log, str]):
    topic: Any

    async def run(self, ctx: GraphContext[Notes, Log]) -> End[str]:
        ctx.deps.append(self.topic)
        return End(await ctx.ask('What?'))


asking = build('asking', Notes, str, Ask)

GRAPHS: dict[str, Any] = {
    'pickle': lambda: pickle.dumps(Trap()),
    'a node by its path': lambda: _set(node='os.system'),
    'a node of no graph': lambda: _set(node='Nobody'),
    'a state of another type': lambda: _set(data={'node': {'topic': 'x'}, 'state': ['os.system']}),
    'a state with a wrong field': lambda: _set(data={'node': {'topic': 'x'}, 'state': {'text': {'py/object': 'os'}}}),
    'no node': lambda: _set(data={'state': {}}),
    'data that is text': lambda: _set(data='os.system'),
    'data that is nothing': lambda: _set(data=None),
    'a node that is text': lambda: _set(data={'node': 'os.system', 'state': {}}),
    'deep data': lambda: _set(data={'node': {'topic': deep(500)}, 'state': {}}),
}


@pytest.mark.parametrize('name', GRAPHS)
def test_what_a_graph_holds(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        path, log = tmp_path / 'runs.db', Log()
        Trap.mark = tmp_path / 'mark'
        async with SQLiteJournal(path) as journal:
            await run_graph(asking, Ask('x'), state=Notes(), deps=log, journal=journal, run_id='g')
        log.clear()
        edit(path, 2, GRAPHS[name]())
        async with SQLiteJournal(path) as journal:
            for answers in (None, {'Ask#1': Answer('y')}):
                with pytest.raises((CodecError, AnswerError)):
                    await resume_graph(asking, 'g', journal=journal, deps=log, answers=answers)
        assert log == [] and not Trap.mark.exists()

    go(main())


@pytest.mark.parametrize('marker', MARKERS, ids=repr)
def test_markers_in_nodes_and_state_are_only_data(marker: Any, tmp_path: Path) -> None:
    async def main() -> None:
        path, log = tmp_path / 'runs.db', Log()
        async with SQLiteJournal(path) as journal:
            await run_graph(asking, Ask(marker), state=Notes(more={'a': marker}), deps=log, journal=journal, run_id='g')
        async with SQLiteJournal(path) as journal:
            result = await resume_graph(asking, 'g', journal=journal, deps=log, answers={'Ask#1': Answer('y')})
        assert result.output == 'y' and result.state.more == {'a': marker} and log == [marker, marker]

    go(main())


# --- recordings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', ['pickle', 'kind', 'field', 'deep'])
def test_cassettes(name: str, tmp_path: Path) -> None:
    Trap.mark = tmp_path / 'mark'
    good = {'v': 1, 'seq': 1, 'time': 0.0, 'entry': {'kind': 'started', 'agent': None}}
    lines: dict[str, bytes] = {
        'pickle': pickle.dumps(Trap()),
        'kind': json.dumps({**good, 'entry': {'kind': 'os.system'}}).encode(),
        'field': json.dumps({**good, 'entry': {**good['entry'], '__reduce__': 'os.system'}}).encode(),  # pyright: ignore
        'deep': json.dumps({**good, 'entry': {**good['entry'], 'metadata': {'a': deep(400)}}}).encode(),  # pyright: ignore
    }
    path = tmp_path / 'cassette.jsonl'
    path.write_bytes(lines[name])
    with pytest.raises(AgentGraphError, match='cassette'):
        check_replay(make_agent(None, Log()), path)
    assert not Trap.mark.exists()
