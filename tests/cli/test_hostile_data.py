"""Names, ids and values from models and files: nothing in them reaches the terminal as something it acts on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
NewRun = Callable[..., str]

CONTROL = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]')


def screens(command: Command, run_id: str) -> list[Any]:
    """Everything that can be asked about a run."""
    forms = (['show'], ['show', '--messages'], ['steps'], ['tail', '--no-follow'])
    asked = [command('runs', verb[0], run_id, *verb[1:]) for verb in forms]
    asked += [command('runs', 'graph', run_id, '--format', form) for form in ('mermaid', 'text', 'svg')]
    asked += [command('runs', *verb, '--json') for verb in (['show', run_id], ['steps', run_id], ['graph', run_id])]
    asked += [command('runs', 'tail', run_id, '--no-follow', '--json'), command('runs', 'list')]
    return [*asked, command('runs', 'list', '--json'), command('runs', 'show', '\x1b[2J\u202e')]


def test_whatever_a_model_says_is_shown_harmlessly(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:nasty')
    shown = screens(command, run_id)
    for done in shown:
        assert not CONTROL.search(done.out + done.err), (done.out, done.err)
        assert done.code == 0 or done is shown[-1]
    for line in command('runs', 'tail', run_id, '--no-follow').out.splitlines():
        assert re.match(r' +\d+  \d\d:', line)  # no text begins a line of its own
    assert len(command('runs', 'list').out.splitlines()) == 2
    for done in (
        command('run', 'staff.py:nasty', 'go'),
        command('runs', 'resume', run_id, '--target', 'staff.py:nasty'),
    ):
        assert done.code == 3 and not CONTROL.search(done.out + done.err)


def test_answering_a_call_with_a_wild_id(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:nasty')
    (waiting,) = command('runs', 'show', run_id, '--json').json()[0]['pending']
    done = command('runs', 'approve', run_id, waiting['tool_call_id'])
    assert done.code == 2 and not CONTROL.search(done.err) and len(done.err.splitlines()) == 1
    done = command('runs', 'answer', run_id, waiting['tool_call_id'], 'fine', '--target', 'staff.py:nasty')
    assert done.code == 0 and not CONTROL.search(done.out + done.err)
    done = command('runs', 'diff', run_id, new_run('staff.py:nasty'))
    assert done.code == 1 and not CONTROL.search(done.out + done.err)


@pytest.mark.parametrize('no_color', ['', '1'])
def test_on_a_terminal_too(
    command: Command, new_run: NewRun, terminal: Callable[..., Any], no_color: str, folder: Path
) -> None:
    run_id = new_run('staff.py:nasty')
    env = {'NO_COLOR': no_color}
    shown, exported = (
        terminal('runs', *words, script=[], env=env) for words in (['show', run_id, '--messages'], ['export', run_id])
    )
    for screen in (shown, exported):
        assert screen.code == 0
        plain = re.sub(
            r'\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\r\n', '', screen.text
        )  # what rich itself writes: colours, cursor
        assert not CONTROL.search(plain), plain
    command('runs', 'export', run_id, 'file.jsonl')
    stored = (folder / 'file.jsonl').read_text().split('\n')
    lines = exported.text.split('\r\n')
    assert [json.loads(line) for line in lines if line] == [json.loads(line) for line in stored if line]
