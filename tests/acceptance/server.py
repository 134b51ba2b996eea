"""A process that does nothing but fork: each child carries out one order, without the cost of importing anything.

Orders and answers are lines of JSON: `{"launch": order}` gives the child's process id, `{"wait": pid}` how it ended
(as `subprocess` tells it: an exit code, or minus a signal).
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent_graph import MemoryJournal, engine, journal
from agent_graph.journal.codec import decode, encode
from tests.acceptance.child import Order, live
from tests.acceptance.ledger import Ledger
from tests.acceptance.points import MarkedJournal, Points
from tests.acceptance.scenarios import SCENARIOS
from tests.acceptance.stage import Stage

__all__ = ['ForkServer', 'fork_server']

PATIENCE = 100
"""Seconds after which a child that hangs is ended, which is a failure."""


class ForkServer:
    """The parent's end of it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def launch(self, order: Order) -> int:
        """Start a child; returns its process id."""
        return self._ask({'launch': asdict(order)})

    def wait(self, pid: int) -> int:
        """Wait for a child's end."""
        return self._ask({'wait': pid})

    def do(self, order: Order) -> int:
        """Start a child and wait for its end."""
        return self.wait(self.launch(order))

    def _ask(self, what: dict[str, Any]) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f'{json.dumps(what)}\n')
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, 'the fork server has ended'
        return int(line)


@contextmanager
def fork_server() -> Generator[ForkServer]:
    """A server for as long as the block lasts."""
    root = Path(__file__).parents[2]
    command = [sys.executable, '-m', 'tests.acceptance.server']
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield ForkServer(process)
        assert process.stdin is not None
        process.stdin.close()


def _serve() -> None:
    _warm_up()
    for line in sys.stdin:
        what: dict[str, Any] = json.loads(line)
        print(_launch(what['launch']) if 'launch' in what else _wait(what['wait']), flush=True)


def _warm_up() -> None:
    """Import and prepare whatever the children would each have to, but start no thread and open no file."""
    for package in (engine, journal):
        for module in pkgutil.iter_modules(package.__path__, f'{package.__name__}.'):
            importlib.import_module(module.name)

    async def rehearse(folder: Path) -> None:
        kept = MemoryJournal()
        stage = Stage(MarkedJournal(kept, Points()), Ledger(folder / 'ledger'), Points())
        await SCENARIOS['steps inside'].make(stage).run('go', run_id='r')
        for record in await kept.load('r'):
            decode(encode(record.entry))

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(rehearse(Path(folder)))
    gc.collect()
    gc.freeze()


def _launch(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(2, 1)
        _end_with_parent()
        signal.alarm(PATIENCE)
        asyncio.run(live(Order(**order)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end_with_parent() -> None:
    """Have this process killed when the server ends, also while it is stopped (prctl, PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == '__main__':
    _serve()
