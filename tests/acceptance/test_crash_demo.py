"""`make crash-demo` shows what it says it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform == 'win32', reason='the example kills with SIGKILL')
def test_crash_demo(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / 'examples' / 'crash_demo.py'
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, ''), done.stdout + done.stderr
    assert done.stdout.count('$ kill -9') == 2
    assert 'output: Order 17 is on its way.' in done.stdout
    assert 'usage:  4 requests, 5 tool calls' in done.stdout
    counters = re.findall(
        r'^ {5}(\w*) +(\d+) +(\d+)  ', f'{done.stdout.splitlines()[-1]}  \n{done.stdout}', re.MULTILINE
    )
    assert counters == [
        ('mail', '1', '1'),
        ('model', '4', '4'),
        ('charge', '1', '1'),
        ('pack', '3', '5'),
        ('', '3', '3'),
    ]
