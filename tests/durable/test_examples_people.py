"""The examples of runs that wait: each in processes of its own, as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / 'examples'


def run(name: str, folder: Path) -> list[str]:
    """What the example prints, one text for each of its processes."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=folder,
        env={**os.environ, 'NO_COLOR': '1'},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ''
    return done.stdout.split('-- ')[1:]


def test_approval(tmp_path: Path) -> None:
    start, decide = run('approval.py', tmp_path)
    assert 'status: paused' in start
    lines = decide.splitlines()
    assert [line for line in lines if line.startswith('waits:')] == [
        "waits: pay {'invoice': 'server', 'euros': 900}",
        "waits: pay {'invoice': 'yacht', 'euros': 70000}",
    ]
    assert "refused: 'yes' is no answer to the approval of 'pay'" in decide
    assert 'status: completed' in decide
    assert decide.count('denied: ') == 2 and 'denied before in this run' in decide
    assert lines[-1] == 'ledger: paper 20, server 850', 'what was allowed, as it was allowed, and nothing else'


@pytest.mark.skipif(sys.platform == 'win32', reason='the example kills itself with SIGKILL')
def test_workflow(tmp_path: Path) -> None:
    start, resume, no, yes = run('workflow.py', tmp_path)
    assert 'killed' in start
    assert 'question: Graphs are easy. (3 words are enough.) Publish?' in resume and 'status: paused' in resume
    assert 'question: Graphs are hard. (3 words are enough.) Publish?' in no and 'status: paused' in no
    assert 'output: Graphs are hard. (no. 17)' in yes
    ledger = next(line for line in yes.splitlines() if line.startswith('ledger: ')).removeprefix('ledger: ')
    assert ledger.split(', ') == [
        'writer asked to be easy',
        'reviewer asked',  # killed here
        'reviewer asked',
        'writer asked to be hard',
        'reviewer asked',
        'printed',
    ], 'the writer was not asked again, nothing was printed twice'
    picture = yes[yes.index('flowchart') :]
    for step in ('1 · Write', '2 · Review', '3 · Decide', '4 · Write', '5 · Review', '6 · Decide', 'End'):
        assert step in picture
    assert picture.index('1 · Write') < picture.index('6 · Decide')
