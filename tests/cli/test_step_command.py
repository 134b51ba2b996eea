"""`agent-graph step`: a run node by node, told from a pipe and typed at a pseudo-terminal."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_graph.cli.debugger.commands import Answer, Break, Clear, Edit, Fork, Go, Help, Quit, Show, parse
from agent_graph.cli.exits import CommandError
from agent_graph.engine.state import fold
from agent_graph.journal.entries import Record
from agent_graph.journal.sqlite import SQLiteJournal
from agent_graph.messages import AssistantMessage, ToolCallPart

Command = Callable[..., Any]
Terminal = Callable[..., Any]
Piped = Callable[..., Any]


@pytest.fixture
def piped(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Piped:
    """`agent-graph step` with a script as its standard input, in this process: what was shown."""

    def run(target: str, *args: str, script: str, code: int) -> str:
        (folder / 'script').write_text(script)
        with (folder / 'script').open() as stdin:
            monkeypatch.setattr(sys, 'stdin', stdin)
            done = command('step', target, *args)
        assert done.code == code, done.out + done.err
        return done.out + done.err

    return run


def load(run_id: str) -> list[Record]:
    async def read() -> list[Record]:
        async with SQLiteJournal('agent_graph.db') as journal:
            return await journal.load(run_id)

    return asyncio.run(read())


def stops(out: str) -> list[str]:
    return re.findall(r'^stopped before (\w+)', out, re.M)


def run_of(out: str) -> str:
    found = re.search(r'--resume (\S+)', out)
    assert found is not None, out
    return found[1]


@pytest.mark.parametrize(
    ('line', 'command'),
    [
        ('next', Go(on=False)),
        ('  n  ', Go(on=False)),
        ('C', Go(on=True)),
        ('b ModelRequest', Break('node', 'ModelRequest')),
        ('break node ModelRequest', Break('node', 'ModelRequest')),
        ('break tool look up', Break('tool', 'look up')),
        ('break', Break('node', '')),
        ('clear tool x', Clear('tool', 'x')),
        ('edit args c1 {"a": {"b": " c "}}', Edit('c1', {'a': {'b': ' c '}})),
        ('show', Show('state')),
        ('s m', Show('messages')),
        ('approve c1', Answer('approve', 'c1', '')),
        ('deny c1 not  now', Answer('deny', 'c1', 'not  now')),
        ('answer c1 {"a": 1}', Answer('answer', 'c1', '{"a": 1}')),
        ('fork here', Fork()),
        ('q', Quit()),
        ('help', Help()),
        ('', None),
        ('# a comment', None),
    ],
)
def test_what_can_be_typed(line: str, command: object) -> None:
    assert parse(line) == command


@pytest.mark.parametrize(
    ('line', 'error'),
    [
        ('nxet', "'nxet' is not a command; did you mean 'next'"),
        ('jump', 'there are: next, continue'),
        ('edit c1 {}', 'write: edit args CALL'),
        ('edit args c1', 'write: edit args CALL'),
        ('edit args c1 {', 'are not JSON'),
        ('edit args c1 []', 'are not a JSON object'),
        ('show all', "'all' cannot be shown"),
        ('fork there', 'runs fork ID --at N'),
        ('approve', 'which call'),
        ('answer c1', 'and the answer'),
        ('break tool', 'which tool'),
    ],
)
def test_what_cannot(line: str, error: str) -> None:
    with pytest.raises(CommandError, match=re.escape(error)):
        parse(line)


def test_it_stops_before_each_node_and_shows_what_it_holds(piped: Piped) -> None:
    out = piped('agents.py:weather', 'Bern?', script='next\n' * 5, code=0)
    assert stops(out) == ['UserPrompt', 'ModelRequest', 'HandleResponse', 'ModelRequest', 'HandleResponse']
    assert 'stopped before UserPrompt\n  prompt: Bern?\n(step) next\n' in out
    assert 'stopped before ModelRequest 1\n  user: Bern?\n' in out
    assert (
        'stopped before HandleResponse\n  thinking: Which city?\n  text: I look it up.\n'
        "  call c1: look(city='Bern')\n  tokens: 1,200 + 40 tokens\n(step) next\n"
    ) in out
    assert "stopped before ModelRequest 2\n  result c1: look → {'sky': 'clear'}\n" in out
    assert '  · look: looking at Bern\n' in out  # what happens in a node is shown as it happens
    assert 'status   completed' in out and 'output:\n{\n  "city": "Bern"' in out


def test_it_is_the_same_run_as_without(piped: Piped, command: Command) -> None:
    piped('agents.py:weather', 'Bern?', script='n\n' * 5, code=0)
    command('run', 'agents.py:weather', 'Bern?')
    one, two = (run['run_id'] for run in command('runs', 'list', '--json').json())
    assert command('runs', 'diff', one, two).code == 0


def test_continue_runs_to_a_breakpoint(piped: Piped) -> None:
    script = 'break tool final_result\nbreak userprompt\nbreak\nc\nbreak HandelResponse\nclear\nbreak\ncontinue\n'
    out = piped('agents.py:weather', 'Bern?', script=script, code=0)
    assert stops(out) == ['UserPrompt', 'HandleResponse']
    assert 'stopped before HandleResponse  breakpoint tool final_result\n  call c2: final_result(' in out
    assert 'breakpoints: UserPrompt, tool final_result\n' in out and out.count('no breakpoints\n') == 2
    assert "there is no node 'HandelResponse'; did you mean 'HandleResponse'?" in out
    out = piped('agents.py:weather', 'Bern?', script='break ModelRequest\nbreak tool loook\nc\nc\nc\n', code=0)
    assert stops(out) == ['UserPrompt', 'ModelRequest', 'ModelRequest']
    assert "there is no tool 'loook'; did you mean 'look'?" in out


def test_arguments_are_changed_before_the_node_runs(piped: Piped, folder: Path) -> None:
    script = (
        'edit args c1 {"a": 5}\nbreak HandleResponse\nc\nedit args c9 {"a": 5}\nedit args c1 {"a": "x"}\n'
        'edit args c1 {"a": 5, "b": 6}\nnext\nquit\n'
    )
    out = piped('staff.py:free', 'go', script=script, code=3)
    assert 'UserPrompt holds no calls; stop before HandleResponse to edit them' in out
    assert "there is no call 'c9' in this response; its calls: 'c1'" in out
    assert 'changed; add will refuse this: ' in out
    assert 'changed\n  call c1: add(a=5, b=6)\n' in out and re.search(r'result \S+: add → 11', out)
    run_id = run_of(out)
    message = fold(run_id, load(run_id)).messages[1]
    assert isinstance(message, AssistantMessage) and isinstance(message.parts[0], ToolCallPart)
    assert message.parts[0].args == {'a': 5, 'b': 6}  # what ran is what is recorded


def test_what_can_be_shown(piped: Piped) -> None:
    script = 'show\nshow messages\nn\nn\nshow node\nn\nshow messages\nshow usage\nshow state\nhelp\nnonsense\n'
    out = piped('agents.py:weather', 'Bern?', script=script, code=3)
    assert re.search(r'\(step\) show\n  run: \S+\n  agent: weather\n  next: UserPrompt\n', out)
    assert '(step) show messages\n  no messages yet\n' in out
    assert "(step) show node\n  thinking: Which city?\n  text: I look it up.\n  call c1: look(city='Bern')\n" in out
    assert (
        "  0 user: Bern?\n  1 thinking: Which city?\n  1 text: I look it up.\n  1 call c1: look(city='Bern')\n" in out
    )
    assert '  requests: 1\n  calls: 1\n  tokens: 1,200 + 40 tokens\n  cost: $0.00038\n' in out
    assert 'edit args CALL JSON  change the arguments of a call before it runs\n' in out
    assert "'nonsense' is not a command" in out


def test_leaving_keeps_the_response_that_was_paid_for(piped: Piped, command: Command) -> None:
    out = piped('staff.py:free', 'go', script='n\nn\nquit\n', code=3)
    run_id = run_of(out)
    assert f'agent-graph step staff.py:free --resume {run_id}\n' in out
    assert f'agent-graph runs resume {run_id} --target staff.py:free\n' in out
    assert [r.entry.kind for r in load(run_id)][-1] == 'entered' and len(load(run_id)) == 4
    out = piped('staff.py:free', '--resume', run_id[:25], script='show node\nn\n', code=3)
    assert stops(out) == ['HandleResponse', 'ModelRequest']
    assert 'stopped before HandleResponse (entered before the run stopped)\n  call c1: add(a=1, b=2)\n' in out
    assert command('runs', 'resume', run_id, '--target', 'staff.py:free').code == 0
    assert sum(r.entry.kind == 'entered' and r.entry.node == 'ModelRequest' for r in load(run_id)) == 2
    out = piped('staff.py:free', '--resume', run_id, script='', code=0)  # it has ended: shown
    assert stops(out) == [] and 'output:\nadd=3 (success)\n' in out


def test_leaving_keeps_what_was_changed(piped: Piped, command: Command) -> None:
    run_id = run_of(piped('staff.py:free', 'go', script='n\nn\nedit args c1 {"a": 5, "b": 6}\nquit\n', code=3))
    done = command('runs', 'resume', run_id, '--target', 'staff.py:free')
    assert done.code == 0 and 'add=11 (success)' in done.out
    run_id = run_of(piped('staff.py:free', 'go', script='n\nn\n', code=3))
    out = piped('staff.py:free', '--resume', run_id, script='edit args c1 {"a": 7, "b": 6}\nc\n', code=0)
    assert 'add=13 (success)' in out


def test_what_was_decided_is_not_changed(piped: Piped, command: Command, folder: Path) -> None:
    run_id = run_of(piped('staff.py:payer', 'go', script='c\nedit args c1 {"euros": 1}\n', code=3))
    command('runs', 'approve', run_id, 'c1')
    out = piped('staff.py:payer', '--resume', run_id, script='edit args c1 {"euros": 1}\nc\n', code=0)
    assert 'something has been done about this response already' in out
    assert (folder / 'paid.txt').read_text() == '40\n'


def test_a_fork_begins_with_what_the_run_stopped_before(piped: Piped, command: Command) -> None:
    script = 'fork here\nn\nn\nedit args c1 {"a": 5, "b": 6}\nfork here\nedit args c1 {"a": 0, "b": 0}\ncontinue\n'
    out = piped('staff.py:free', 'go', script=script, code=0)
    first, second = re.findall(r'^forked as run (\S+);', out, re.M)
    assert 'add=0 (success)' in out
    done = command('runs', 'resume', first, '--target', 'staff.py:free')
    assert done.code == 0 and 'add=3 (success)' in done.out
    done = command('runs', 'resume', second, '--target', 'staff.py:free')
    assert done.code == 0 and 'add=11 (success)' in done.out
    assert sum(r.entry.kind == 'entered' and r.entry.node == 'ModelRequest' for r in load(second)) == 2


def test_a_pause_is_answered_there(piped: Piped, folder: Path) -> None:
    script = (
        'approve c1\nc\nedit args c1 {}\nnext\napprove c9\napprove c1 {"euros": "x"}\napprove c1 {"euros": 5}\n'
        'answer c2 seven\nanswer c2 7\ndeny c3 no stamps\nnext\nanswer c2 red\nnext\nnext\nnext\n'
    )
    out = piped('staff.py:clerk', 'go', script=script, code=0)
    assert 'nothing waits for an answer here; approve is for a run that is paused' in out
    assert '  waits c1: pay(euros=40) waits for approval\n' in out
    assert "no call 'c9' waits in this run" in out and 'it should be a valid integer' in out
    assert 'the run waits for an answer: approve, deny or answer a call first, or quit' in out
    assert '  waits c2: colour() waits for an answer: Which colour?\n' in out
    assert 'pay=paid 5 (success); colour=7 x red (success); post=no stamps (denied)' in out
    assert stops(out) == ['UserPrompt', 'ModelRequest', 'HandleResponse']
    assert (folder / 'paid.txt').read_text() == '5\n'


def test_leaving_a_pause_leaves_a_run_that_waits(piped: Piped, command: Command) -> None:
    out = piped('staff.py:payer', 'go', script='c\n', code=3)
    assert command('runs', 'approve', run_of(out), 'c1', '--target', 'staff.py:payer').code == 0


def test_a_node_that_fails_ends_the_run_and_can_be_tried_again(piped: Piped, command: Command, folder: Path) -> None:
    out = piped('staff.py:fragile', 'go', script='c\n', code=1)
    assert 'failed: ToolFailed: ' in out and 'to try the node it failed in once more:\n' in out
    forked = re.search(r'agent-graph (runs fork \S+ --at \d+)', out)
    assert forked is not None
    assert command(*forked[1].split(), '--as', 'again').code == 0
    (folder / 'mended').write_text('stands')
    assert 'fall=stands (success)' in piped('staff.py:fragile', '--resume', 'again', script='c\n', code=0)


def test_it_needs_a_prompt_or_a_run(command: Command) -> None:
    for words in ([], ['go', '--resume', 'x']):
        done = command('step', 'staff.py:free', *words)
        assert done.code == 2 and 'pass either a PROMPT for a new run, or --resume ID' in done.err


def test_a_run_that_is_not_there(piped: Piped) -> None:
    assert "there is no journal 'agent_graph.db'" in piped('staff.py:free', '--resume', 'x', script='', code=2)
    piped('staff.py:free', 'go', script='', code=3)
    assert "there is no run 'zzz'" in piped('staff.py:free', '--resume', 'zzz', script='', code=2)


def test_a_real_pipe(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    process = spawn('step', 'staff.py:free', 'go', stdin=subprocess.PIPE, bufsize=1)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write('next\nne')  # half a command is none
    process.stdin.flush()
    while 'stopped before ModelRequest' not in process.stdout.readline():
        pass
    out, err = process.communicate('xt\n\n# and no more', timeout=60)
    assert (process.returncode, err) == (3, '') and stops(out) == ['HandleResponse'] and '(step) # and no more\n' in out


def test_at_a_terminal(terminal: Terminal) -> None:
    screen = terminal(
        'step',
        'agents.py:weather',
        'Bern?',
        script=[
            ('(step) ', 'break tool look\n'),
            ('(step) ', 'c\n'),
            ('breakpoint tool look', ''),
            ('(step) ', 'edit args c1 {"city": "Rome"}\n'),
            ('(step) ', 'n\n'),
            ('(step) ', 'show messages\n'),
            ('(step) ', '\x04'),
        ],
    )
    text = re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', screen.text).replace('\r\n', '\n')
    assert screen.code == 3 and '\x1b[' in screen.text
    assert text.count('(step) n\n') == 1  # typed once, shown once
    assert "→ look(city='Rome')" in text and '  · look: looking at Rome\n' in text
    assert re.search(r"  1 call \S+: look\(city='Rome'\)\n", text) and 'left run ' in text


def test_signals(terminal: Terminal, command: Command) -> None:
    screen = terminal('step', 'staff.py:free', 'go', script=[('(step) ', signal.SIGINT)])
    assert screen.code == 130 and 'left run ' in screen.text
    screen = terminal('step', 'staff.py:free', 'go', script=[('(step) ', signal.SIGTERM)])
    assert screen.code == 143 and 'left run ' in screen.text
    script = [('(step) ', 'c\n'), ('wait()', signal.SIGINT), ('once more cancels', signal.SIGINT)]
    screen = terminal('step', 'staff.py:slow', 'go', script=script)
    assert screen.code == 130 and 'status   cancelled' in screen.text
    statuses = [run['status'] for run in command('runs', 'list', '--json').json()]
    assert statuses == ['cancelled', 'running', 'running']


def test_ctrl_c_while_a_node_runs_stops_before_the_next_one(terminal: Terminal, folder: Path) -> None:
    script = [
        ('(step) ', 'c\n'),
        ('wait()', signal.SIGINT),
        ('once more cancels the run', (folder / 'go').touch),
        ('stopped before ModelRequest', ''),
        ('(step) ', 'c\n'),
    ]
    screen = terminal('step', 'staff.py:slow', 'go', script=script)
    assert screen.code == 0 and 'wait=waited (success)' in screen.text


def test_somebody_else_answers_first(terminal: Terminal, command: Command, folder: Path) -> None:
    def deny() -> None:
        (run,) = command('runs', 'list', '--json').json()
        assert command('runs', 'deny', run['run_id'], 'c1', 'too much').code == 0

    screen = terminal(
        'step',
        'staff.py:payer',
        'go',
        script=[
            ('(step) ', 'continue\n'),
            ('the run waits', ''),
            ('(step) ', deny),
            ('', 'approve c1\n'),
            ('recorded when the run goes on', ''),
            ('(step) ', 'next\n'),
            ('somebody else has answered meanwhile: your answers have not been recorded', ''),
            ('stopped before HandleResponse (entered before the run stopped)', ''),
            ('(step) ', 'continue\n'),
            ('pay=too much (denied)', ''),
        ],
    )
    assert screen.code == 0 and not (folder / 'paid.txt').exists()


def test_a_run_that_has_ended_is_shown(piped: Piped, command: Command) -> None:
    piped('staff.py:free', 'go', '--journal', 'runs.db', script='continue\n', code=0)
    (run,) = command('runs', 'list', '--json', '--journal', 'runs.db').json()
    again = piped('staff.py:free', '--resume', run['run_id'], '--journal', 'runs.db', script='next\n', code=0)
    assert again.startswith(f'run {run["run_id"]} has ended before; nothing is done\n')
    assert 'output:\nadd=3 (success)\n' in again and 'stopped before' not in again


def test_the_run_of_another_agent_is_refused(piped: Piped, command: Command) -> None:
    run_id = run_of(piped('staff.py:free', 'go', script='next\n', code=3))
    said = piped('staff.py:payer', '--resume', run_id, script='next\n', code=2)
    assert f"run '{run_id}' is one of the agent 'free', and staff.py:payer is 'payer'; pass the right one" in said
