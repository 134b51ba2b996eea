"""`agent-graph run` and `runs resume` where somebody can be asked: at a pseudo-terminal."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

Command = Callable[..., Any]
Terminal = Callable[..., Any]


def plain(screen: Any) -> str:
    return re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', screen.text)


def test_calls_that_wait_are_asked_about_one_by_one(terminal: Terminal, folder: Path) -> None:
    screen = terminal(
        'run',
        'staff.py:clerk',
        'go',
        script=[
            ('[l]ater: ', 'perhaps\n'),  # doubt means no: asked again
            ('[l]ater: ', 'e\n'),
            ('arguments as JSON: ', '{"euros": \n'),
            ('[l]ater: ', 'edit\n'),
            ('arguments as JSON: ', '{"euros": 5}\n'),
            ('[l]ater: ', 'a\n'),
            ('text or JSON: ', 'seven\n'),  # a number is wanted
            ('[l]ater: ', 'a\n'),
            ('text or JSON: ', '7\n'),
            ('[l]ater: ', 'd\n'),
            ('may be empty): ', 'no stamps\n'),
            ('Which colour?', ''),
            ('[l]ater: ', 'a\n'),
            ('text or JSON: ', 'red\n'),
        ],
    )
    assert screen.code == 0, screen.text
    text = plain(screen)
    assert "'perhaps' is not one of the choices" in text and 'are not JSON' in text
    assert "wanted: {'type': 'integer'}" in text and "'seven' does not answer 'How many?'" in text
    assert 'pay=paid 5 (success); colour=7 x red (success); post=no stamps (denied)' in text
    assert (folder / 'paid.txt').read_text() == '5\n'


def test_arguments_the_tool_refuses_are_asked_for_again(terminal: Terminal, folder: Path) -> None:
    screen = terminal(
        'run',
        'staff.py:payer',
        'go',
        script=[
            ('[l]ater: ', 'e\n'),
            ('arguments as JSON: ', '{"euros": "many"}\n'),
            ('it should be a valid integer', ''),
            ('[l]ater: ', 'y\n'),
        ],
        env={'NO_COLOR': '1'},
    )
    assert screen.code == 0 and 'pay=paid 40 (success)' in screen.text and '\x1b' not in screen.text


def test_somebody_else_answers_first(terminal: Terminal, command: Command, folder: Path) -> None:
    def deny() -> None:
        (run,) = command('runs', 'list', '--json').json()
        assert command('runs', 'deny', run['run_id'], 'c1', 'too much').code == 0

    script = [('[l]ater: ', deny), ('', 'a\n'), ('somebody else has answered meanwhile', '')]
    screen = terminal('run', 'staff.py:payer', 'go', script=script)
    assert screen.code == 0 and 'pay=too much (denied)' in screen.text and not (folder / 'paid.txt').exists()


def test_what_is_left_for_later_stays_in_the_journal(terminal: Terminal, command: Command) -> None:
    screen = terminal(
        'run', 'staff.py:clerk', 'go', script=[('[l]ater: ', 'a\n'), ('[l]ater: ', 'l\n'), ('[l]ater: ', '\x04')]
    )
    assert screen.code == 3
    run_id = re.search(r'^run id   (\S+)\r$', plain(screen), re.M)
    assert run_id is not None
    (data,) = command('runs', 'show', run_id[1], '--json').json()
    assert [p['tool_call_id'] for p in data['pending']] == ['c2', 'c3']
    assert f'agent-graph runs resume {run_id[1]} --target staff.py:clerk\r\n' in plain(screen)


def test_resume_asks_too(terminal: Terminal, command: Command) -> None:
    (report,) = command('run', 'staff.py:boss', 'go', '--json', '--no-stream').json()
    screen = terminal('runs', 'resume', report['run_id'], '--target', 'staff.py:boss', script=[('(call c1/c1)', 'y\n')])
    assert screen.code == 0 and 'delegate=pay=paid 40 (success) (success)' in plain(screen)


def test_confirm_decides_who_asks(terminal: Terminal, command: Command, folder: Path) -> None:
    assert command('run', 'staff.py:payer', 'go', '--confirm', 'never').code == 0
    assert (folder / 'paid.txt').read_text() == '40\n'
    assert command('run', 'staff.py:free', 'go', '--confirm', 'always').code == 3
    screen = terminal('run', 'staff.py:free', 'go', '--confirm', 'always', script=[('[l]ater: ', 'a\n')])
    assert screen.code == 0 and 'add=3 (success)' in plain(screen)
    assert command('run', 'staff.py:free', 'go', '--confirm', 'perhaps').code == 2


def test_ctrl_c_at_the_question_leaves_a_run_that_waits(terminal: Terminal, command: Command) -> None:
    screen = terminal('run', 'staff.py:payer', 'go', script=[('[l]ater: ', signal.SIGINT)])
    assert screen.code == 130 and 'status   paused' in plain(screen)
    assert command('runs', 'list', '--status', 'paused', '--json').json()[0]['agent'] == 'payer'


def test_json_asks_nobody(terminal: Terminal) -> None:
    screen = terminal('run', 'staff.py:payer', 'go', '--json', script=[])
    assert screen.code == 3 and '"kind": "report"' in screen.text and '[l]ater' not in screen.text


def test_a_call_cut_off_by_a_crash(
    terminal: Terminal, spawn: Callable[..., Any], command: Command, folder: Path
) -> None:
    process = spawn('run', 'staff.py:slow', 'go', '--json')
    while not (folder / 'waiting').exists():
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=30)
    (run,) = command('runs', 'list', '--json').json()
    screen = terminal(
        'runs',
        'resume',
        run['run_id'],
        '--target',
        'staff.py:slow',
        script=[('did it take effect?', ''), ('[l]ater: ', 'a\n'), ('text or JSON: ', 'it did\n')],
    )
    assert screen.code == 0 and 'wait=it did (success)' in plain(screen)
