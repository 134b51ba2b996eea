"""Nobody reads the output any more, as behind `| head -1`; or it cannot be written, or was never there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
NewRun = Callable[..., str]
Spawn = Callable[..., subprocess.Popen[str]]


def closed(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Close the output of a command, and wait for its end; how it exits, and what it says on standard error."""
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    return process.wait(60), err


@pytest.mark.parametrize('command_line', [['list'], ['show', 'ID'], ['export', 'ID'], ['tail', 'ID', '--no-follow']])
def test_a_command_that_shows_something_is_done(spawn: Spawn, new_run: NewRun, command_line: list[str]) -> None:
    run_id = new_run('staff.py:payer')
    words = [run_id if word == 'ID' else word for word in command_line]
    assert closed(spawn('runs', *words)) == (0, '')


def test_the_exit_code_is_the_same_as_if_it_was_read(spawn: Spawn, new_run: NewRun) -> None:
    one, two = new_run('staff.py:payer'), new_run('staff.py:free')
    assert closed(spawn('runs', 'diff', one, two)) == (1, '')
    assert closed(spawn('runs', 'show', 'nothing', '--json')) == (2, '')


def test_a_long_output_may_be_left_in_the_middle(spawn: Spawn, command: Command, new_run: NewRun) -> None:
    text = command('runs', 'export', new_run('staff.py:free', 'x' * 300_000)).out
    assert len(text) > 300_000  # more than a pipe holds
    run_id = command('runs', 'list', '--json').json()[0]['run_id']
    process = spawn('runs', 'export', run_id)
    assert process.stdout is not None
    assert process.stdout.read(10) == text[:10]
    assert closed(process) == (0, '')


@pytest.mark.parametrize('options', [['--json'], [], ['--no-stream']])
def test_a_run_goes_on_to_its_end(spawn: Spawn, command: Command, folder: Path, options: list[str]) -> None:
    process = spawn('run', 'staff.py:slow', 'go', *options)
    assert process.stdout is not None
    wait_for(folder / 'waiting')
    process.stdout.close()
    (folder / 'go').touch()
    assert process.wait(60) == 0
    assert process.stderr is not None and process.stderr.read() == ''
    (run,) = command('runs', 'list', '--json').json()
    assert run['status'] == 'completed'


def test_a_tool_may_print_all_the_same(spawn: Spawn, command: Command, folder: Path) -> None:
    (folder / 'chatty.py').write_text(
        'import subprocess, sys\nfrom agent_graph import Agent\nfrom agent_graph.testing import TestModel\n'
        "agent = Agent(TestModel(), name='chatty')\n\n"
        '@agent.tool\ndef say() -> int:\n    """Say something."""\n    print("x" * 100_000)\n    sys.stdout.flush()\n'
        '    return subprocess.run([sys.executable, "-c", "print(1)"], check=True).returncode\n'
    )
    assert closed(spawn('run', 'chatty.py:agent', 'go')) == (0, '')
    assert command('runs', 'list', '--json').json()[0]['status'] == 'completed'


def test_ctrl_c_still_cancels_a_run_nobody_watches(spawn: Spawn, command: Command, folder: Path) -> None:
    process = spawn('run', 'staff.py:slow', 'go')
    assert process.stdout is not None
    wait_for(folder / 'waiting')
    process.stdout.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert command('runs', 'list', '--json').json()[0]['status'] == 'cancelled'


def test_tail_ends_though_nothing_is_written(spawn: Spawn, new_run: NewRun) -> None:
    tail = spawn('runs', 'tail', new_run('staff.py:payer'))  # it waits for people: there is no more to come
    assert tail.stdout is not None
    while 'paused' not in tail.stdout.readline():
        pass
    assert closed(tail) == (0, '')


def test_an_output_that_cannot_be_written_is_told(spawn: Spawn, new_run: NewRun) -> None:
    new_run('staff.py:free')
    with Path('/dev/full').open('w') as full:
        process = spawn('runs', 'list', stdout=full)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, 'agent-graph: the output could not be written: No space left on device\n')


def test_a_run_does_not_fail_for_a_full_disk_behind_its_output(spawn: Spawn, command: Command) -> None:
    with Path('/dev/full').open('w') as full:
        process = spawn('run', 'staff.py:free', 'go', '--json', stdout=full)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and err.startswith('agent-graph: the output could not be written')
    assert command('runs', 'list', '--json').json()[0]['status'] == 'completed'


def test_there_need_be_no_output_at_all(spawn: Spawn, command: Command) -> None:
    process = spawn('run', 'staff.py:free', 'go', stdout=None, stderr=None, preexec_fn=_close_all)
    assert process.wait(60) == 0
    assert command('runs', 'list', '--json').json()[0]['status'] == 'completed'


def _close_all() -> None:
    for fd in (0, 1, 2):
        os.close(fd)


@pytest.mark.parametrize('module', ['typer', 'slow_target'])
def test_ctrl_c_while_it_loads_is_quiet(spawn: Spawn, folder: Path, module: str) -> None:
    """Before any command has begun, and while the user's own code is imported."""
    (folder / 'path').mkdir()
    press = 'import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n'
    (folder / 'path' / f'{module}.py').write_text(f'{press}raise AssertionError("nobody pressed Ctrl-C")\n')
    process = spawn('graph', 'slow_target:agent', env={'PYTHONPATH': str(folder / 'path')})
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, '')


def test_a_report_is_whole_for_a_slow_reader(spawn: Spawn) -> None:
    process = spawn('run', 'staff.py:free', 'go', '--json')
    time.sleep(0.5)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out.splitlines()[-1])['kind'] == 'report'


def wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, f'{path} never appeared'
        time.sleep(0.02)
