"""How a run stands that has not ended: driven, waiting, answered, left, or its process dead."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_graph.journal import Lease
from agent_graph.journal.sqlite import SQLiteJournal

Command = Callable[..., Any]
NewRun = Callable[..., str]
Spawn = Callable[..., subprocess.Popen[str]]

BEGIN = """
import asyncio
from agent_graph import SQLiteJournal, run_graph
from staff import Draft, letters

async def main():
    async with SQLiteJournal('agent_graph.db') as journal:
        await run_graph(letters, Draft('Dear'), state=None, journal=journal, run_id='letter')

asyncio.run(main())
"""


def states(command: Command, *options: str) -> dict[str, str]:
    """How each run stands, by what a program is told; what people see has to be the same."""
    told = {run['run_id']: run['state'] for run in command('runs', 'list', '--json', *options).json()}
    lines = command('runs', 'list', *options).out.splitlines()
    for run_id, state in told.items():
        (row,) = (line for line in lines if line.startswith(f'{run_id} '))
        assert f' {state} ' in row
    return told


def test_answered_in_part_and_then_in_full(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:clerk')
    assert states(command) == {run_id: 'paused'}
    command('runs', 'answer', run_id, 'c2', '7')
    command('runs', 'approve', run_id, 'c1')
    (told,) = command('runs', 'list', '--json').json()
    assert (told['status'], told['state']) == ('running', 'paused')  # a call waits still
    assert states(command, '--status', 'paused') == {run_id: 'paused'}
    command('runs', 'answer', run_id, 'c3', 'posted')
    assert states(command) == {run_id: 'answered'}
    shown = command('runs', 'show', run_id)
    assert 'status   answered\n' in shown.out
    assert shown.out.endswith(
        'everything the run waited for is answered; to go on with it:\n'
        f'  agent-graph runs resume {run_id} --target module:variable\n'
    )
    assert command('runs', 'show', run_id, '--json').json()[0]['state'] == 'answered'
    hint = 'answered: to go on, agent-graph runs resume ID --target module:variable\n'
    assert command('runs', 'list').out.endswith(hint)
    assert command('runs', 'resume', run_id, '--target', 'staff.py:clerk').code == 3
    assert states(command) == {run_id: 'paused'}  # it asks a second question
    assert hint not in command('runs', 'list').out


def test_the_result_of_a_call_is_an_answer_too(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:clerk')
    for words in (['deny', run_id, 'c1'], ['answer', run_id, 'c2', '7'], ['answer', run_id, 'c3', 'posted']):
        assert command('runs', *words).code == 0
    assert json.loads(command('runs', 'export', run_id).out.splitlines()[-1])['entry']['kind'] == 'call_finished'
    assert states(command) == {run_id: 'answered'}


def test_what_is_answered_inside_a_call(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:boss')
    inner = f'{run_id}:c1:1'
    assert states(command) == {run_id: 'paused', inner: 'paused'}
    command('runs', 'approve', run_id, 'c1/c1')
    assert states(command) == {run_id: 'answered', inner: 'answered'}
    assert states(command, '--status', 'paused') == {}
    command('runs', 'resume', run_id, '--target', 'staff.py:boss')
    assert states(command) == {run_id: 'completed', inner: 'completed'}


def test_driven_and_then_dead(spawn: Spawn, command: Command, folder: Path) -> None:
    process = spawn('run', 'staff.py:slow', 'go', '--json')
    assert process.stdout is not None
    run_id = json.loads(process.stdout.readline())['run_id']
    wait_for(folder / 'waiting')
    assert states(command) == {run_id: 'running'} == states(command, '--status', 'running')
    process.kill()
    process.communicate(timeout=30)
    assert states(command) == {run_id: 'died'} == states(command, '--status', 'died')
    assert states(command, '--status', 'running') == {}
    assert 'the process that drove the run is gone; to go on with it:\n' in command('runs', 'show', run_id).out
    command('runs', 'resume', run_id, '--target', 'staff.py:slow')
    assert states(command) == {run_id: 'paused'}  # a call was in flight: somebody has to say what became of it


@pytest.mark.parametrize(('left', 'state'), [(60.0, 'running'), (-1.0, 'died'), (None, 'stopped')])
def test_a_driver_on_another_machine_is_believed_as_long_as_its_lease(
    command: Command, new_run: NewRun, left: float | None, state: str
) -> None:
    run_id = new_run('staff.py:payer')
    command('runs', 'fork', run_id, '--at', '3', '--as', 'elsewhere')

    async def drive() -> Lease:
        async with SQLiteJournal('agent_graph.db') as journal:
            lease = await journal.acquire('elsewhere', owner='other-boot.1/77/123/abc', ttl=60.0)
            if left is None:
                await journal.release(lease)
            return lease

    asyncio.run(drive())
    if left is not None:
        with sqlite3.connect('agent_graph.db') as db:
            db.execute("UPDATE runs SET expires = ? WHERE run_id = 'elsewhere'", (time.time() + left,))
        db.close()
    assert states(command, '--limit', '1') == {'elsewhere': state}


def test_left_forked_and_imported_runs_have_stopped(
    command: Command, new_run: NewRun, spawn: Spawn, folder: Path
) -> None:
    left = spawn('step', 'staff.py:free', 'go', stdin=subprocess.PIPE)
    left.communicate('next\nnext\nquit\n', timeout=60)
    (run,) = command('runs', 'list', '--json').json()
    run_id = run['run_id']
    assert states(command) == {run_id: 'stopped'}
    told = command('runs', 'fork', run_id, '--at', '2', '--as', 'a-fork', '--json').json()[0]
    assert (told['status'], told['state']) == ('running', 'stopped')
    command('runs', 'export', run_id, 'moved.jsonl')
    assert command('runs', 'import', 'moved.jsonl').out.endswith(', stopped\n')
    assert states(command, '--status', 'stopped') == {'moved': 'stopped', 'a-fork': 'stopped', run_id: 'stopped'}
    assert states(command, '--status', 'stopped', '--limit', '2') == {'moved': 'stopped', 'a-fork': 'stopped'}
    assert 'nobody drives it; to go on with it:\n' in command('runs', 'show', 'moved').out


def test_a_past_entry_says_nothing_of_now(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:payer')
    command('runs', 'approve', run_id, 'c1')
    told = command('runs', 'show', run_id, '--at', '3', '--json').json()[0]
    assert (told['status'], told['state']) == ('running', 'running')
    assert 'to go on with it' not in command('runs', 'show', run_id, '--at', '3').out


def test_a_damaged_entry_does_not_hide_the_others(command: Command, new_run: NewRun) -> None:
    damaged, other = new_run('staff.py:payer'), new_run('staff.py:free')
    command('runs', 'approve', damaged, 'c1')
    with sqlite3.connect('agent_graph.db') as db:
        db.execute("UPDATE records SET entry = x'00' WHERE seq = 6 AND run = 1")
    db.close()
    assert states(command) == {other: 'completed', damaged: 'stopped'}


def test_a_graph_of_ones_own(command: Command, folder: Path) -> None:
    subprocess.run([sys.executable, '-c', BEGIN], check=True, timeout=30)
    assert states(command) == {'letter': 'paused'}
    shown = command('runs', 'show', 'letter').out
    assert 'graph    letters\n' in shown and 'no model answered' not in shown
    assert 'model    none, it is a graph without agents so far\n' in shown and 'cost     none\n' in shown
    call = command('runs', 'show', 'letter', '--json').json()[0]['pending'][0]['tool_call_id']
    command('runs', 'answer', 'letter', call, 'yes')
    assert states(command) == {'letter': 'answered'}
    done = command('runs', 'resume', 'letter', '--target', 'staff.py:letters')
    assert done.code == 0 and 'no model answered' not in done.out
    again = command('runs', 'resume', 'letter', '--target', 'staff.py:letters')
    assert again.code == 0 and again.out.startswith('run letter has ended before; nothing is done\n')


TEAM = """
from __future__ import annotations

from dataclasses import dataclass

from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext

from agent_graph import Agent, AssistantMessage, TextPart, Usage
from agent_graph.testing import ScriptedModel

reply = AssistantMessage([TextPart('Dear Sir')], Usage(input_tokens=100, output_tokens=10), 'gpt-5-mini', provider_name='openai')
writer = Agent(ScriptedModel([reply]), name='writer')
asker = Agent(ScriptedModel([reply]), name='asker')


@dataclass
class Write(BaseNode[None, None, str]):
    async def run(self, ctx: GraphRunContext[None, None]) -> Check:
        return Check((await writer.run('write')).output)


@dataclass
class Check(BaseNode[None, None, str]):
    text: str

    async def run(self, ctx: GraphRunContext[None, None]) -> End[str]:
        return End(f'{self.text} {await ctx.ask("Good?")}')


builder = GraphBuilder(name='team', input_type=Write, output_type=str)
builder.add(builder.edge_from(builder.start_node).to(Write), builder.node(Write), builder.node(Check))
team = builder.build()
"""


def test_a_graph_tells_which_models_its_agents_used(command: Command, folder: Path) -> None:
    (folder / 'team.py').write_text(TEAM)
    begin = BEGIN.replace('staff', 'team').replace('Draft, letters', 'Write, team')
    begin = begin.replace("letters, Draft('Dear')", 'team, Write()')
    subprocess.run([sys.executable, '-c', begin], check=True, timeout=30)
    shown = command('runs', 'show', 'letter')
    assert 'graph    team\n' in shown.out and 'model    openai:gpt-5-mini\n' in shown.out
    assert 'usage    1 request, 0 tool calls · 100 + 10 tokens\n' in shown.out and 'cost     $0.0000' in shown.out
    assert command('runs', 'show', 'letter', '--json').json()[0]['models'] == ['openai:gpt-5-mini']


def wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, f'{path} never appeared'
        time.sleep(0.02)
