"""The servers of this process: one for each model file, started on first use, ended with the process.

llama.cpp runs in a process of its own (`serve.py`): loading holds the interpreter's lock, which would stop every event loop
for as long, and an abort in it would take the application along. The two are tied by a pipe, so the server ends when this
process does, even when it is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from agent_graph.errors import ConfigError

__all__ = ['Running', 'Serving', 'found', 'require_llama', 'running', 'stop_servers']


@dataclass(frozen=True, slots=True)
class Serving:
    """What to serve: a GGUF file, its context in tokens, and how many threads compute."""

    path: Path
    name: str
    context: int
    threads: int


@dataclass(slots=True, eq=False)
class Running:
    """A server that is up: its base URL, the key it wants, and its process. `guided`: it knows grammars of llguidance."""

    base_url: str
    key: str = field(repr=False)
    process: subprocess.Popen[str]
    guided: bool = False

    @property
    def alive(self) -> bool:
        """False once the process has ended."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End it; what it was answering is cut off."""
        _end(self.process)


class _Servers:
    """The servers of one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: dict[Serving, Running] = {}

    def forget(self) -> None:
        """In a forked child: the servers are the parent's, and this copy of their pipes must not keep them alive."""
        for server in self.running.values():
            server.process.returncode = 0  # not this process's child, so nothing to wait for or to warn of
        self.__init__()


_servers = _Servers()
os.register_at_fork(after_in_child=_servers.forget)


def found(serving: Serving) -> Running | None:
    """The server for `serving`, if it is up."""
    server = _servers.running.get(serving)
    return server if server is not None and server.alive else None


def running(serving: Serving) -> Running:
    """The server for `serving`, started now if it is not up: takes 0.7 s for the default weights, longer for larger ones.

    Blocks; safe from any thread. Raises `ConfigError` when llama.cpp is not installed or cannot load the file.
    """
    with _servers.lock:
        server = _servers.running.pop(serving, None)
        if server is not None and not server.alive:
            server.stop()
            server = None
        server = _servers.running[serving] = server or _start(serving)
        return server


@atexit.register
def stop_servers() -> None:
    """End every server of this process; the next request starts them anew."""
    with _servers.lock:
        while _servers.running:
            _servers.running.popitem()[1].stop()


def _start(serving: Serving) -> Running:
    key = secrets.token_urlsafe(24)
    with tempfile.TemporaryFile('w+', errors='replace') as errors:
        process = _spawn(errors)
        answer = _tell(process, {**_order(serving), 'key': key})
        if address := answer.get('address'):
            return Running(f'{address}/v1', key, process, bool(answer.get('guided')))
        code = _end(process)
        errors.seek(0)
        raise ConfigError(
            f'llama.cpp cannot load {str(serving.path)!r}: {_reason(errors.read()) or answer.get("error") or f"exit {code}"}; '
            'check the file, and whether the installed xllamacpp knows this kind of model'
        )


def _order(serving: Serving) -> dict[str, Any]:
    return {
        'path': str(serving.path),
        'name': serving.name,
        'context': serving.context,
        'threads': serving.threads,
    }


def _spawn(errors: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, '-P', str(Path(__file__).with_name('serve.py'))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,  # Ctrl-C is for the application, which cancels its runs and then ends this
    )


def _tell(process: subprocess.Popen[str], order: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(order) + '\n')
        process.stdin.flush()
        line = process.stdout.readline()
    except OSError:  # it ended before it read or wrote
        return {}
    return json.loads(line) if line else {}


def _end(process: subprocess.Popen[str]) -> int:
    """Close its input, which ends it, and wait; its exit code."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):  # what was written there may not have been read
        process.stdin.close()
    try:
        code = process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    process.stdout.close()
    return code


def _reason(errors: str) -> str:
    """The first error llama.cpp reported, without its time stamp; later ones only repeat that nothing was loaded."""
    lines = errors.strip().splitlines()
    return lines[0].split(' E ', 1)[-1] if lines else ''


def require_llama() -> None:
    """Raise `ConfigError` when the extra `local` is not installed."""
    from importlib.util import find_spec

    if find_spec('xllamacpp') is None:
        raise ConfigError('local models need llama.cpp, which is not installed; run: pip install "agent-graph[local]"')
