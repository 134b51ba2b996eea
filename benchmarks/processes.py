"""The processes of a benchmark, as the program that asks them sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ['Engine', 'cold_import', 'environment', 'running_engines', 'running_server']

ROOT = Path(__file__).resolve().parent.parent

_PROXIES = ('HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY')

_COLD = (
    'import sys, time\n'
    'sys.modules["logfire"] = None  # measured as installed without it: importing it costs more than all the rest\n'
    'start = time.process_time()\n'
    '{statement}\n'
    'print(time.process_time() - start, len([m for m in sys.modules.values() if m is not None]))\n'
)


def environment() -> dict[str, str]:
    """The environment of every process: no proxies, no tracing, a key for the SDK."""
    env = {k: v for k, v in os.environ.items() if k.upper() not in _PROXIES}
    return env | {'NO_PROXY': '127.0.0.1', 'OPENAI_API_KEY': 'x', 'PYDANTIC_DISABLE_PLUGINS': 'logfire-plugin'}


@contextmanager
def running_server() -> Generator[str]:
    """The stand-in for a model's server; gives the base URL."""
    server = subprocess.Popen(
        [sys.executable, '-m', 'benchmarks.server'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
    )
    try:
        assert server.stdout is not None
        yield f'http://127.0.0.1:{int(server.stdout.readline())}/v1'
    finally:
        server.terminate()
        server.communicate()


class Engine:
    """A worker process: its adapter's name, import statement, distributions, and the rows it can run."""

    def __init__(self, module: str, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, '-m', 'benchmarks.worker', module, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(),
        )
        info = self.ask(op='info')
        self.name: str = info['name']
        self.statement: str = info['statement']
        self.dists: list[str] = info['dists']
        self.rows: list[str] = info['rows']

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; `error` in it says why there is no other."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + '\n')
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        return json.loads(line) if line else {'error': 'its process died'}

    def stop(self) -> None:
        """End the process; it ends by itself when its input does."""
        self._process.communicate()


@contextmanager
def running_engines(modules: list[str], url: str) -> Generator[list[Engine]]:
    """A process for each adapter, all idle until asked."""
    engines: list[Engine] = []
    try:
        engines.extend(Engine(module, url) for module in modules)  # those that started are stopped if one does not
        yield engines
    finally:
        for engine in engines:
            engine.stop()


def cold_import(statement: str) -> tuple[float, int]:
    """(seconds of CPU, modules loaded in all) of an import in a fresh process that has no logfire."""
    done = subprocess.run(
        [sys.executable, '-c', _COLD.format(statement=statement)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=True,
    )
    seconds, modules = done.stdout.split()
    return float(seconds), int(modules)
