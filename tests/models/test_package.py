"""The package is loaded by whoever wants it, and by nothing else."""

from __future__ import annotations

import subprocess
import sys

import agent_graph.models


def test_it_is_not_part_of_the_engine() -> None:
    code = 'import sys, agent_graph; print([m for m in sys.modules if m.startswith("agent_graph.models")])'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout == '[]\n'


def test_it_loads_no_sdk() -> None:
    code = 'import sys, agent_graph.models; print({"openai", "httpx", "httpx2", "tiktoken"} & set(sys.modules))'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout == 'set()\n'


def test_what_it_offers() -> None:
    names = agent_graph.models.__all__
    assert list(names) == sorted(names) and all(hasattr(agent_graph.models, name) for name in names)
