"""`agent-graph runs approve`, `deny`, `answer` and `resume`: people answer a stored run, and it goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
NewRun = Callable[..., str]
Spawn = Callable[..., subprocess.Popen[str]]


def pending(command: Command, run_id: str) -> list[str]:
    return [p['tool_call_id'] for p in command('runs', 'show', run_id, '--json').json()[0]['pending']]


def test_an_answer_is_recorded_and_a_later_resume_goes_on(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:payer')
    done = command('runs', 'approve', run_id[:30], 'c1')
    assert (done.code, done.err) == (0, '')
    assert done.out.splitlines() == [
        'approved: pay(euros=40)  (call c1)',
        'go on with:',
        f'  agent-graph runs resume {run_id} --target module:variable',
    ]
    assert not (folder / 'paid.txt').exists()  # recorded only
    done = command('runs', 'resume', run_id, '--target', 'staff.py:payer')
    assert done.code == 0 and 'output:\npay=paid 40 (success)\n' in done.out
    assert (folder / 'paid.txt').read_text() == '40\n'
    done = command('runs', 'resume', run_id, '--target', 'staff.py:payer')  # it has ended: shown, nothing is done
    assert done.code == 0 and 'output:\npay=paid 40 (success)\n' in done.out
    assert (folder / 'paid.txt').read_text() == '40\n'


def test_an_answer_is_taken_once(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:payer')
    assert command('runs', 'deny', run_id, 'c1', 'too much').code == 0
    for verb in ('approve', 'deny'):
        done = command('runs', verb, run_id, 'c1')
        assert done.code == 2 and "call 'c1' has been answered already; waiting: nothing" in done.err
    done = command('runs', 'resume', run_id, '--target', 'staff.py:payer')
    assert done.code == 0 and 'pay=too much (denied)' in done.out


def test_answers_of_all_kinds(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:clerk')
    assert "post(text='hi') waits for its result  (call c3)" in command('runs', 'approve', run_id, 'c1').out
    done = command('runs', 'answer', run_id, 'c2', '7', '--json')
    (told,) = done.json()
    assert (told['run_id'], told['tool_call_id'], told['answer']) == (run_id, 'c2', 'answer')
    assert [p['tool_call_id'] for p in told['pending']] == ['c3']
    assert command('runs', 'answer', run_id, 'c3', '{"stamp": 1}').code == 0
    done = command('runs', 'resume', run_id, '--target', 'staff.py:clerk')
    assert done.code == 3 and pending(command, run_id) == ['c2']  # it asks a second question
    done = command('runs', 'answer', run_id, 'c2', '7')  # it may be the answer of before, sent twice
    assert done.code == 2 and "'c2' has named something else in this run before" in done.err
    (asked,) = command('runs', 'show', run_id, '--json').json()[0]['pending']
    assert asked['token'] in done.err and asked['token'] in command('runs', 'show', run_id).out
    done = command(
        'runs', 'answer', run_id, asked['token'], '12', '--target', 'staff.py:clerk'
    )  # a text is wanted, and 12 is one
    assert done.code == 0
    assert "pay=paid 40 (success); colour=7 x 12 (success); post={'stamp': 1} (success)" in done.out


@pytest.mark.parametrize(
    ('words', 'error'),
    [
        (['approve', 'c9'], "no call 'c9' waits in this run; waiting: 'c1', 'c2', 'c3'"),
        (['approve', 'c2'], 'colour (call c2) waits for an answer: How many?; use runs answer or runs deny'),
        (['approve', 'c3'], 'post (call c3) waits for its result; use runs answer or runs deny'),
        (['answer', 'c1', 'yes'], 'pay (call c1) waits for approval; use runs approve or runs deny'),
        (['answer', 'c2', 'seven'], "'seven' does not answer 'How many?': got \"seven\", expected a whole number"),
        (['approve', 'c1', '--args', '{"euros": 1}'], 'pass --target module:variable too'),
        (['approve', 'c1', '--args', '{"euros": ', '--target', 'staff.py:clerk'], 'are not JSON'),
        (['approve', 'c1', '--args', '[1]', '--target', 'staff.py:clerk'], 'are not a JSON object'),
        (['approve', 'c1', '--args', '{"euros": "x"}', '--target', 'staff.py:clerk'], 'it should be a valid integer'),
        (['approve', 'c1', '--target', 'staff.py:nobody'], "there is no variable 'nobody'"),
        (['approve', 'c1', '--target', 'staff.py:free'], "is one of the agent 'clerk', and staff.py:free is 'free'"),
    ],
)
def test_doubt_means_no_and_nothing_is_recorded(
    command: Command, new_run: NewRun, words: list[str], error: str
) -> None:
    run_id = new_run('staff.py:clerk')
    before = command('runs', 'export', run_id).out
    done = command('runs', words[0], run_id, *words[1:])
    assert done.code == 2 and len(done.err.splitlines()) == 1 and error in done.err, done.err
    assert command('runs', 'export', run_id).out == before


def test_new_arguments_are_checked_by_the_tool_and_used(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:payer')
    done = command('runs', 'approve', run_id, 'c1', '--args', '{"euros": 5}', '--target', 'staff.py:payer')
    assert done.code == 0 and (folder / 'paid.txt').read_text() == '5\n'


def test_a_call_of_a_run_inside_a_tool(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:boss')
    done = command('runs', 'show', run_id)
    assert f'agent-graph runs approve {run_id} c1/c1\n' in done.out
    assert command('runs', 'approve', run_id, 'c1/c1').code == 0
    assert pending(command, run_id) == []
    assert command('runs', 'approve', run_id, 'c1/c1').code == 2
    done = command('runs', 'resume', run_id, '--target', 'staff.py:boss')
    assert done.code == 0 and 'delegate=pay=paid 40 (success) (success)' in done.out
    assert (folder / 'paid.txt').read_text() == '40\n'


def test_the_answer_may_come_from_standard_input(spawn: Spawn, new_run: NewRun, command: Command) -> None:
    run_id = new_run('staff.py:clerk')
    process = spawn('runs', 'answer', run_id, 'c3', '-', stdin=subprocess.PIPE)
    process.communicate('two\nlines', timeout=30)
    assert process.returncode == 0 and pending(command, run_id) == ['c1', 'c2']


def test_resume_needs_to_know_the_agent(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:payer')
    done = command('runs', 'resume', run_id)
    assert done.code == 2 and 'the code of a run is not in the journal: pass --target' in done.err
    done = command('runs', 'resume', run_id, '--target', 'staff.py:free')
    assert done.code == 2 and f"run '{run_id}' is one of the agent 'payer', and staff.py:free is 'free'" in done.err
    done = command('runs', 'resume', 'nothing', '--target', 'staff.py:payer')
    assert done.code == 2 and "there is no run 'nothing'" in done.err


@pytest.mark.parametrize('ended', ['completed', 'failed', 'cancelled'])
def test_resume_of_a_run_that_has_ended_shows_how(command: Command, new_run: NewRun, ended: str) -> None:
    name = 'fragile' if ended == 'failed' else 'payer'
    run_id = new_run(f'staff.py:{name}')
    if ended == 'completed':
        assert command('runs', 'deny', run_id, 'c1', 'no', '--target', 'staff.py:payer').code == 0
    elif ended == 'cancelled':
        assert command('runs', 'cancel', run_id).code == 0
    before = command('runs', 'export', run_id).out
    done = command('runs', 'resume', run_id, '--target', f'staff.py:{name}')
    assert done.code == (0 if ended == 'completed' else 1) and done.err == ''
    assert done.out.startswith(f'run {run_id} has ended before; nothing is done\n') and 'goes on' not in done.out
    assert f'status   {ended} in ' in done.out
    assert ('output:\npay=no (denied)\n' in done.out) == (ended == 'completed')
    assert ('mended.txt' in done.out or 'No such file' in done.out) == (ended == 'failed')
    (report,) = command('runs', 'resume', run_id, '--target', f'staff.py:{name}', '--json').json()
    assert (report['kind'], report['status']) == ('report', ended)
    assert command('runs', 'export', run_id).out == before


@pytest.mark.parametrize(
    ('target', 'error'),
    [
        ('staff.py:nobody', "there is no variable 'nobody' in staff.py"),
        ('nowhere.py:agent', "there is no file 'nowhere.py'"),
        ('nowhere:agent', "there is no module 'nowhere'"),
        ('staff.py:free', "is one of the agent 'payer', and staff.py:free is 'free'; pass the right one"),
        ('staff.py:letters', "is one of the agent 'payer', and staff.py:letters is a graph; pass that agent"),
    ],
)
@pytest.mark.parametrize('ended', [False, True])
def test_resume_checks_its_target(command: Command, new_run: NewRun, *, ended: bool, target: str, error: str) -> None:
    run_id = new_run('staff.py:payer')
    if ended:
        command('runs', 'deny', run_id, 'c1', '--target', 'staff.py:payer')
    done = command('runs', 'resume', run_id, '--target', target)
    assert done.code == 2 and error in done.err and len(done.err.splitlines()) == 1 and done.out == ''


def test_a_renamed_agent_may_go_on_if_that_is_said(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:payer')
    command('runs', 'approve', run_id, 'c1')
    (folder / 'renamed.py').write_text((folder / 'staff.py').read_text().replace("name='payer'", "name='cashier'"))
    assert command('runs', 'resume', run_id, '--target', 'renamed.py:payer').code == 2
    done = command('runs', 'resume', run_id, '--target', 'renamed.py:payer', '--on-change', 'continue')
    assert done.code == 0 and 'output:\npay=paid 40 (success)\n' in done.out


def test_agents_without_a_name_are_told_apart(command: Command, new_run: NewRun, folder: Path) -> None:
    text = (folder / 'staff.py').read_text()
    (folder / 'nameless.py').write_text(text.replace(", name='payer'", ''))
    ours, theirs = new_run('nameless.py:payer'), new_run('staff.py:payer')
    assert command('runs', 'resume', ours, '--target', 'nameless.py:payer').code == 3
    err = command('runs', 'resume', ours, '--target', 'staff.py:payer').err
    assert "is one of the agent without a name, and staff.py:payer is 'payer'; pass the right one" in err
    err = command('runs', 'resume', theirs, '--target', 'nameless.py:payer').err
    assert "is one of the agent 'payer', and nameless.py:payer is without a name; pass the right one" in err


def test_an_agent_that_has_changed_is_refused_by_name(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:payer')
    changed = (folder / 'staff.py').read_text().replace('tools=clerk._tools[:1]', 'tools=[]')
    (folder / 'changed.py').write_text(changed)
    done = command('runs', 'resume', run_id, '--target', 'changed.py:payer')
    assert done.code == 2 and "was begun by another version of payer: tool 'pay' is gone" in done.err


def test_the_deps_are_not_made_for_a_run_that_has_ended(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('agents.py:needy', 'go', '--deps', 'agents.py:people')
    done = command('runs', 'resume', run_id, '--target', 'agents.py:needy')  # without --deps
    assert done.code == 0 and "output:\nYou said 'go'.\n" in done.out


READ_ONLY = """
from agent_graph.errors import JournalUnavailable
from agent_graph.journal.sqlite import SQLiteJournal
from staff import payer as agent


class ReadOnly(SQLiteJournal):
    async def acquire(self, run_id, **options):
        raise JournalUnavailable('the journal is read-only')


agent.journal = ReadOnly('agent_graph.db')
"""


def test_a_run_that_cannot_be_taken_is_refused_in_one_line(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:payer')
    command('runs', 'approve', run_id, 'c1')
    (folder / 'read_only.py').write_text(READ_ONLY)
    done = command('runs', 'resume', run_id, '--target', 'read_only.py:agent')
    assert (done.code, done.out) == (2, '')
    assert done.err == 'agent-graph: JournalUnavailable: the journal is read-only\n'


def test_resume_of_a_run_that_waits_changes_nothing(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:payer')
    before = command('runs', 'export', run_id).out
    done = command('runs', 'resume', run_id, '--target', 'staff.py:payer')
    assert done.code == 3 and f'agent-graph runs approve {run_id} c1\n' in done.out
    assert f'agent-graph runs resume {run_id} --target staff.py:payer\n' in done.out
    assert command('runs', 'export', run_id).out == before
    report = command('runs', 'resume', run_id, '--target', 'staff.py:payer', '--json').json()[-1]
    assert report['status'] == 'paused' and report['pending'][0]['tool_call_id'] == 'c1'


def test_a_killed_run_goes_on_as_its_tool_says(spawn: Spawn, command: Command, folder: Path) -> None:
    process = spawn('run', 'staff.py:slow', 'go', '--json')
    assert process.stdout is not None
    run_id = json.loads(process.stdout.readline())['run_id']
    wait_for(folder / 'waiting')
    locked = command('runs', 'resume', run_id, '--target', 'staff.py:slow')
    assert locked.code == 2 and 'RunLocked' in locked.err
    assert command('runs', 'delete', run_id).code == 2
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert '(call c1)' in command('runs', 'tail', run_id, '--no-follow').out.splitlines()[-1]
    done = command('runs', 'resume', run_id, '--target', 'staff.py:slow')
    assert done.code == 3 and 'wait() was cut off by a crash; waits for a decision' in done.out
    assert f'agent-graph runs approve {run_id} c1   # run it again\n' in done.out
    (folder / 'go').touch()
    done = command('runs', 'approve', run_id, 'c1', '--target', 'staff.py:slow')
    assert done.code == 0 and 'output:\nwait=waited (success)\n' in done.out


def test_a_failed_run_goes_on_from_a_fork_of_it(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:fragile')
    (folder / 'mended').write_text('stands')
    done = command('runs', 'resume', run_id, '--target', 'staff.py:fragile')
    assert done.code == 1 and 'status   failed' in done.out  # it has ended
    done = command('runs', 'fork', run_id, '--at', 'HandleResponse', '--as', 'again')
    assert done.code == 0
    done = command('runs', 'resume', 'again', '--target', 'staff.py:fragile')
    assert done.code == 0 and 'fall=stands (success)' in done.out


BEGIN = """
import asyncio
from staff import Draft, letters
from agent_graph import SQLiteJournal, run_graph
asyncio.run(run_graph(letters, Draft('Dear'), journal=SQLiteJournal('agent_graph.db'), run_id='letter'))
"""


def test_a_graph_that_has_changed_goes_on_when_told_to(command: Command, folder: Path) -> None:
    subprocess.run([sys.executable, '-c', BEGIN], check=True, timeout=30)
    call = command('runs', 'show', 'letter', '--json').json()[0]['pending'][0]['tool_call_id']
    assert command('runs', 'answer', 'letter', call, 'yes').code == 0
    source = (folder / 'staff.py').read_text()
    draft = 'class Draft(BaseNode[None, None, str]):\n    text: str\n'
    assert source.count(draft) == 1
    (folder / 'staff.py').write_text(source.replace(draft, draft + "    tone: str = 'kind'\n"))
    done = command('runs', 'resume', 'letter', '--target', 'staff.py:letters')
    assert done.code == 2 and 'letters' in done.err and "'Draft'" in done.err
    done = command('runs', 'resume', 'letter', '--target', 'staff.py:letters', '--on-change', 'continue')
    assert done.code == 0 and 'output:\nDear! yes\n' in done.out


def test_a_graph_of_ones_own_goes_on(command: Command, folder: Path) -> None:
    subprocess.run([sys.executable, '-c', BEGIN], check=True, timeout=30)
    done = command('runs', 'show', 'letter')
    assert 'Review' in done.out and 'waits for an answer: Send Dear!?' in done.out
    call = command('runs', 'show', 'letter', '--json').json()[0]['pending'][0]['tool_call_id']
    wrong = command('runs', 'resume', 'letter', '--target', 'staff.py:payer')
    assert wrong.code == 2 and len(wrong.err.splitlines()) == 1
    assert command('runs', 'answer', 'letter', call, 'yes').code == 0
    done = command('runs', 'resume', 'letter', '--target', 'staff.py:letters')
    assert done.code == 0 and 'output:\nDear! yes\n' in done.out


def test_a_graph_does_not_go_on_with_a_run_of_an_agent(command: Command, new_run: NewRun) -> None:
    done = command('runs', 'resume', new_run('staff.py:payer'), '--target', 'staff.py:letters')
    assert (
        done.code == 2 and "is one of the agent 'payer', and staff.py:letters is a graph; pass that agent" in done.err
    )


def wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, f'{path} never appeared'
        time.sleep(0.02)
