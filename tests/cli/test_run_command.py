"""`agent-graph run`: what is shown, in which form, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_graph.journal.entries import Ended
from agent_graph.journal.sqlite import SQLiteJournal

Command = Callable[..., Any]

Spawn = Callable[..., subprocess.Popen[str]]


def test_a_run_is_shown_as_it_goes_in_plain_lines(command: Command) -> None:
    done = command('run', 'agents.py:weather', 'What is the weather in Bern?')
    assert (done.code, done.err) == (0, '')
    lines = done.out.splitlines()
    assert lines[:2] == ['weather on test:scripted', '> What is the weather in Bern?']
    assert re.fullmatch(r'run [0-9a-f-]{36} of weather begins', lines[2])
    wanted = [
        '● UserPrompt',
        '● ModelRequest 1',
        '  Which city?',
        '  I look it up.',
        '● HandleResponse',
        "  → look(city='Bern')",
        '  · look: looking at Bern',
        "  ✓ look: {'sky': 'clear'}",
        '● ModelRequest 2',
        '● HandleResponse',
        "  → final_result(city='Bern', sky='clear')",
    ]
    assert [re.sub(r'  \((the model took )?[\d.]+ m?s\)$', '', line) for line in lines[3 : 3 + len(wanted)]] == wanted


def test_then_come_output_usage_cost_run_id_and_path(command: Command) -> None:
    done = command('run', 'agents.py:weather', 'Bern?')
    head, _, mermaid = done.out.partition('the path taken, as mermaid:\n')
    assert 'output:\n{\n  "city": "Bern",\n  "sky": "clear"\n}\n' in head
    assert re.search(r'^status   completed in [\d.]+ m?s$', head, re.M)
    assert re.search(r'^model    openai:gpt-5-mini$', head, re.M)
    assert re.search(r'^usage    2 requests, 1 tool call · 2,500 \+ 50 tokens$', head, re.M)
    assert re.search(r'^cost     \$0\.00\d+$', head, re.M)
    assert re.search(r'^run id   [0-9a-f-]{36}$', head, re.M)
    assert re.search(r'^journal  agent_graph\.db$', head, re.M)
    assert 'flowchart TD' in mermaid and "look(city='Bern')" in mermaid


def test_json_is_one_event_a_line_and_then_a_report(command: Command) -> None:
    done = command('run', 'agents.py:weather', 'Bern?', '--json')
    assert done.code == 0
    events = done.json()
    kinds = [event['kind'] for event in events]
    assert kinds[:3] == ['run_started', 'node_started', 'node_started']
    assert kinds[-3:] == ['final_result', 'run_ended', 'report']
    assert [event['seq'] for event in events[:-1]] == sorted(event['seq'] for event in events[:-1])
    report = events[-1]
    assert report['output'] == {'city': 'Bern', 'sky': 'clear'} and report['status'] == 'completed'
    assert report['usage']['requests'] == 2 and float(report['cost']) > 0 and report['models'] == ['openai:gpt-5-mini']
    assert report['run_id'] == events[0]['run_id'] and report['mermaid'].startswith('---')


def test_no_stream_shows_only_how_it_ended(command: Command) -> None:
    done = command('run', 'agents.py:weather', 'Bern?', '--no-stream')
    assert done.code == 0 and '●' not in done.out and 'output:' in done.out
    (report,) = command('run', 'agents.py:hello', 'hi', '--no-stream', '--json').json()
    assert report['output'] == "You said 'hi'."


def test_the_run_is_in_the_journal(command: Command, folder: Path) -> None:
    (report,) = command('run', 'agents.py:hello', 'hi', '--no-stream', '--json', '--journal', 'mine.db').json()
    assert report['journal'] == 'mine.db' and not (folder / 'agent_graph.db').exists()

    async def status() -> str:
        journal = SQLiteJournal(folder / 'mine.db')
        info = await journal.info(report['run_id'])
        await journal.aclose()
        return info.status

    assert asyncio.run(status()) == 'completed'


def test_the_journal_comes_from_the_environment_too(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('AGENT_GRAPH_JOURNAL', 'env.db')
    assert command('run', 'agents.py:hello', 'hi').code == 0
    assert (folder / 'env.db').exists()


def test_a_module_is_a_target_too(command: Command) -> None:
    assert "You said 'hi'." in command('run', 'agents:hello', 'hi').out


def test_the_prompt_may_come_from_standard_input(spawn: Spawn) -> None:
    process = spawn('run', 'agents.py:hello', '-', '--json', '--no-stream', stdin=subprocess.PIPE)
    out, _ = process.communicate('from a pipe', timeout=60)
    assert json.loads(out)['output'] == "You said 'from a pipe'."


def test_deps_are_a_target_too(command: Command) -> None:
    done = command('run', 'agents.py:needy', 'hi', '--deps', 'agents.py:people')
    assert done.code == 0, done.out + done.err
    assert "You said 'hi'." in done.out


def test_the_command_to_go_on_names_what_the_run_was_given(command: Command) -> None:
    done = command('run', 'agents.py:payer', 'pay', '--deps', 'agents.py:people')
    assert done.code == 3
    (line,) = [line.strip() for line in done.out.splitlines() if 'runs resume' in line]
    run_id = line.split()[3]
    command('runs', 'deny', run_id, 'c1')
    assert command(*line.split()[1:]).code == 0


def test_runs_inside_tools_are_indented(command: Command) -> None:
    out = command('run', 'agents.py:outer', 'go').out
    assert '    ● ModelRequest 1\n      from inside\n' in out
    assert re.search(r'^    run \S+ of inner begins$', out, re.M)
    assert re.search(r'^    run \S+ completed$', out, re.M)


def test_a_run_that_waits_for_people_says_for_what_and_exits_with_3(command: Command) -> None:
    done = command('run', 'agents.py:payer', 'go')
    assert done.code == 3
    assert '  ‖ pay(euros=40) waits for approval  (call c1)\n' in done.out
    assert re.search(r'^status   paused in', done.out, re.M)
    assert 'class S3,S3C1 current' in done.out


def test_tries_are_shown(command: Command) -> None:
    done = command('run', 'agents.py:again', 'go')
    assert done.code == 0
    assert re.search(r'↻ .*the line is dead\n +asking \S+ (in .*|now) \(try 2\)', done.out)
    assert re.search(r'↻ .*slow down\n +asking \S+ in .* \(try 3\)', done.out)
    assert 'There.' in done.out


def test_a_failed_run_says_why_and_exits_with_1(command: Command) -> None:
    done = command('run', 'agents.py:broken', 'go')
    assert done.code == 1
    assert re.search(r'^failed: ToolFailed: .*the disk is full', done.out, re.M)
    assert 'run id' in done.out and 'class S3,S3C1,End failed' in done.out
    assert 'Traceback' not in done.out + done.err
    assert 'RuntimeError' in command('run', 'agents.py:broken', 'go', '--traceback').err


def test_what_a_model_sends_cannot_steer_the_terminal(command: Command) -> None:
    out = command('run', 'agents.py:nasty', 'go').out
    assert not re.search('[\x00-\x08\x0b-\x1f\x7f-\x9f]', out)
    assert 'red \ufffd[31m\ufffd alert\ufffd2J' in out


@pytest.mark.parametrize(
    ('args', 'error'),
    [
        (['agents.py:wether', 'x'], r'no variable .wether. in agents.py; did you mean agents.py:weather\?'),
        (['agents.py:zzz', 'x'], r'it has agents.py:weather, agents.py:hello'),
        (['agents.py', 'x'], r'does not say which variable; it has agents.py:weather'),
        (['agents.py:number', 'x'], r'is of type int, not an Agent; agents.py has'),
        (['agents.py:Weather', 'x'], r'is the class Weather, not an Agent'),
        (['missing.py:agent', 'x'], r"there is no file 'missing.py'"),
        (['nothing_here:agent', 'x'], r"there is no module 'nothing_here' here or on the Python path"),
        (['9:x', 'x'], r"'9' is neither a module name nor a path"),
        (['bad.py:agent', 'x'], r'cannot be imported: ZeroDivisionError: division by zero \(bad.py, line 2\)'),
        (['syntax.py:agent', 'x'], r'cannot be imported: SyntaxError: .*\(syntax.py, line 1\)'),
        (['lacks.py:agent', 'x'], r"cannot be imported: ModuleNotFoundError: No module named 'not_installed'"),
        (['agents.py:needy', 'x'], r'needs deps of type dict; pass --deps module:variable'),
        (['agents.py:needy', 'x', '--deps', 'agents.py:Weather'], r'could not be called: ValidationError'),
        (['agents.py:hello', 'x', '--model', 'nobody:model'], r'nobody'),
        (['agents.py:hello', 'x', '--journal', '.'], r'JournalUnavailable'),
    ],
)
def test_what_the_user_can_mend_is_one_line(command: Command, folder: Path, args: list[str], error: str) -> None:
    (folder / 'bad.py').write_text('x = 1\n1 / 0\n')
    (folder / 'syntax.py').write_text('def (\n')
    (folder / 'lacks.py').write_text('import not_installed\n')
    done = command('run', *args)
    assert done.code in (1, 2) and done.out == ''
    assert len(done.err.splitlines()) == 1 and done.err.startswith('agent-graph: '), done.err
    assert re.search(error, done.err), done.err


def test_a_model_without_its_key_says_what_is_missing(command: Command) -> None:
    done = command('run', 'agents.py:keyless', 'x')
    assert done.code == 2 and 'OPENAI_API_KEY' in done.out + done.err  # found out in the first request
    assert 'Traceback' not in done.out + done.err
    done = command('run', 'agents.py:keyless', 'x', '--json')
    assert done.code == 2 and 'OPENAI_API_KEY' in done.json()[-1]['error']


def test_wrong_usage_exits_with_2(command: Command) -> None:
    assert command('run', 'agents.py:hello').code == 2
    assert command('run', 'agents.py:hello', 'x', '--nope').code == 2


def test_help_documents_the_exit_codes(command: Command) -> None:
    done = command('run', '--help')
    text = ' '.join(done.out.split())
    assert done.code == 0 and '130 cancelled with Ctrl-C' in text and '--journal' in text


@pytest.mark.parametrize(('number', 'code'), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_run_and_records_it(spawn: Spawn, folder: Path, number: int, code: int) -> None:
    process = spawn('run', 'agents.py:slow', 'go', bufsize=1)
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if 'wait()' in line:
            break
    process.send_signal(number)
    rest, err = process.communicate(timeout=30)
    out = ''.join(seen) + rest
    assert process.returncode == code, out + err
    assert err == '' and 'status   cancelled' in out
    run_id = re.search(r'^run id   (\S+)$', out, re.M)
    assert run_id is not None

    async def last() -> object:
        journal = SQLiteJournal(folder / 'agent_graph.db')
        records = await journal.load(run_id[1])
        await journal.aclose()
        return records[-1].entry

    entry = asyncio.run(last())
    assert isinstance(entry, Ended) and entry.status == 'cancelled'
    assert entry.message is not None and entry.message.parts[0].outcome == 'interrupted'


def read_all(fd: int) -> str:
    data = b''
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # the other side is closed
            return data.decode()
        if not piece:
            return data.decode()
        data += piece


@pytest.mark.parametrize('no_color', ['', '1'])
def test_a_terminal_gets_colours_unless_told_otherwise(spawn: Spawn, no_color: str) -> None:
    ours, theirs = pty.openpty()
    process = spawn(
        'run',
        'agents.py:weather',
        'Bern?',
        stdout=theirs,
        stderr=theirs,
        env={'TERM': 'xterm-256color', 'NO_COLOR': no_color},
    )
    os.close(theirs)
    out = read_all(ours)
    os.close(ours)
    assert process.wait(30) == 0, out
    assert ('\x1b[' in out) is not bool(no_color)
    plain = re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', out)
    assert 'I look it up.' in plain and 'flowchart TD' in plain and "→ look(city='Bern')" in plain


def test_an_empty_prompt_is_refused_before_anything_is_recorded(command: Command, spawn: Spawn, folder: Path) -> None:
    for name in ('run', 'step'):
        done = command(name, 'agents.py:hello', '')
        assert (done.code, done.err) == (2, 'agent-graph: the prompt is empty; say what to ask\n')
    process = spawn('run', 'agents.py:hello', '-', stdin=subprocess.DEVNULL)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (
        2,
        'agent-graph: standard input, which is to be the prompt, is empty; say what to ask\n',
    )
    assert not (folder / 'agent_graph.db').exists()
