"""What was typed wrongly, or is missing from the set-up: which words say so, in which form, and with which exit code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
NewRun = Callable[..., str]
Spawn = Callable[..., subprocess.Popen[str]]


def test_the_version(command: Command) -> None:
    done = command('--version')
    assert done.code == 0 and done.out.startswith('agent-graph 0.') and 'Python 3.' in done.out


def test_an_unknown_option_lists_the_right_ones(command: Command) -> None:
    done = command('runs', 'resume', 'x', '--taget', 'y')
    assert done.code == 2 and done.out == ''
    usage, line = done.err.splitlines()
    assert usage.startswith('Usage: ') and usage.endswith('runs resume [OPTIONS] {ID}')
    assert line == (
        'agent-graph: No such option: --taget; did you mean --target? The options are --deps, --help, --journal, --json, '
        '--model, --no-stream, --on-change, --target, --traceback'
    )
    assert 'did you mean' not in command('runs', 'resume', 'x', '--zzzz').err


def test_an_unknown_command_lists_the_right_ones(command: Command) -> None:
    done = command('rns')
    assert done.code == 2
    assert (
        "No such command 'rns'; did you mean runs? The commands are doctor, graph, models, run, runs, step" in done.err
    )
    assert 'did you mean resume? The commands are answer, approve, cancel' in command('runs', 'resum').err


def test_other_misuse_says_where_it_is_explained(command: Command) -> None:
    done = command('run', 'agents.py:hello')
    assert done.code == 2 and "Missing argument 'PROMPT'; `" in done.err and 'run --help` explains it' in done.err
    done = command('runs', 'list', '--status', 'dead')
    assert done.code == 2 and "is not one of 'running', 'paused'" in done.err
    done = command('runs', 'list', '--limit', 'many')
    assert done.code == 2 and "Invalid value for '--limit'" in done.err


def test_no_command_shows_the_help(command: Command) -> None:
    for args in ([], ['runs']):
        done = command(*args)
        assert done.code == 2 and 'Usage: ' in done.out and 'Traceback' not in done.err


@pytest.mark.parametrize(
    ('args', 'words'),
    [
        (['run', 'agents.py:hello', '--json'], "Missing argument 'PROMPT'"),
        (['run', 'agents.py:hello', 'x', '--json', '--modl', 'y'], 'did you mean --model?'),
        (['run', 'nowhere.py:agent', 'x', '--json'], "there is no file 'nowhere.py'"),
        (['run', 'agents.py:needy', 'x', '--json'], 'the agent needs deps of type dict'),
        (['runs', 'list', '--json', '--journal', 'none.db'], "there is no journal 'none.db'"),
        (['runs', 'resume', 'x', '--json'], 'the code of a run is not in the journal'),
        (['--json'], 'No such option: --json'),
    ],
)
def test_errors_of_the_set_up_are_json_with_json(command: Command, args: list[str], words: str) -> None:
    done = command(*args)
    assert (done.code, done.err) == (2, '')
    (told,) = done.json()
    assert (told['kind'], told['exit_code']) == ('error', 2) and words in told['error']


def test_a_missing_key_is_a_matter_of_the_set_up(command: Command) -> None:
    for args in ([], ['--no-stream'], ['--json']):
        done = command('run', 'agents.py:keyless', 'x', *args)
        assert done.code == 2 and 'OPENAI_API_KEY' in done.out
    assert command('run', 'agents.py:broken', 'x').code == 1, 'a tool that fails is not'
    run_id = json.loads(done.out.splitlines()[-1])['run_id']
    assert command('runs', 'show', run_id, '--json').json()[0]['status'] == 'failed'


def test_a_missing_key_in_the_debugger(spawn: Spawn) -> None:
    process = spawn('step', 'agents.py:keyless', 'x', stdin=subprocess.PIPE)
    out, _ = process.communicate('continue\n', timeout=60)
    assert process.returncode == 2 and 'OPENAI_API_KEY' in out


class TestInput:
    """What comes from standard input."""

    @pytest.mark.parametrize('env', [{}, {'LC_ALL': 'C'}, {'PYTHONUTF8': '1'}])
    def test_bytes_that_are_no_text_are_named(self, spawn: Spawn, env: dict[str, str]) -> None:
        with Path('prompt.bin').open('wb') as file:
            file.write('grüße '.encode() + b'\xff\xfe')
        with Path('prompt.bin').open('rb') as file:
            process = spawn('run', 'agents.py:hello', '-', stdin=file, env=env)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 2 and out == ''
        assert err.startswith(
            'agent-graph: standard input, which is to be the prompt, is no text in UTF-8 (byte 0xff at 8'
        )
        assert 'Traceback' not in err and len(err.splitlines()) == 1

    def test_they_are_named_in_an_answer_too(self, spawn: Spawn, new_run: NewRun) -> None:
        run_id = new_run('staff.py:clerk')
        Path('answer.bin').write_bytes(b'\x80')
        with Path('answer.bin').open('rb') as file:
            process = spawn('runs', 'answer', run_id, 'c3', '-', '--json', stdin=file)
            out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (2, '')
        assert 'which is to be the answer, is no text' in json.loads(out)['error']

    def test_text_is_taken_as_it_is(self, spawn: Spawn) -> None:
        process = spawn('run', 'agents.py:hello', '-', '--json', '--no-stream', stdin=subprocess.PIPE)
        out, _ = process.communicate('grüße 🍸\r\nzwei', timeout=60)
        assert json.loads(out)['output'] == "You said 'grüße 🍸\\nzwei'."

    def test_a_closed_input_is_named(self, spawn: Spawn) -> None:
        process = spawn('run', 'agents.py:hello', '-', stdin=subprocess.DEVNULL, preexec_fn=_close_input)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 2 and 'there is no standard input to read the prompt from' in err


def _close_input() -> None:
    import os

    os.close(0)
