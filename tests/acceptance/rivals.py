"""Two processes that want one run: at the same moment, or one that was stopped and goes on after the other took over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.acceptance.child import Order
from tests.acceptance.ledger import Ledger, Line, count
from tests.acceptance.points import AT_MODEL, BEFORE_WRITE, IN_TOOL
from tests.acceptance.server import ForkServer

__all__ = ['Rivals', 'until']


def until(what: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f'waited {seconds} s in vain'
        time.sleep(0.005)


class Rivals:
    """Stages the contests, each in a folder of its own, and says what was wrong."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._left: Path | None = None

    def race(self) -> list[str]:
        """Two fresh processes resume the run a killed one left, at the same moment."""
        folder = self._folder_of_a_killed_run()
        ends = self._both(Order('meeting', str(folder), attempt='resume'))
        wrong = _wrong_with_race(ends, Ledger(folder / 'ledger').lines())
        shutil.rmtree(folder)
        return wrong

    def race_to_answer(self) -> list[str]:
        """Two fresh processes bring the same answer to a waiting run, at the same moment."""
        folder = self.new_folder()
        assert self._server.do(Order('waiting', str(folder), attempt='begin')) == 0
        ends = self._both(Order('waiting', str(folder), attempt='approve'))
        told = sorted(end['ended'] for end in ends.values())
        wrong = [] if told[0] in ('AnswerError', 'RunLocked') else [f'they ended with {told}']
        if told[1] != 'completed':  # the one that came too late was in the way of the other; nobody has done anything
            assert self._server.do(Order('waiting', str(folder), attempt='resume', name='c')) == 0
            told.append(json.loads((folder / 'c').read_text())['ended'])
        effects = [line.key for line in Ledger(folder / 'ledger').lines() if line.what == 'tool']
        if effects != ['w1', 'w2'] or told[-1] != 'completed':
            wrong.append(f'they ended with {told}, effects {effects}')
        shutil.rmtree(folder)
        return wrong

    def _both(self, order: Order) -> dict[str, Any]:
        """What two processes with the same order told."""
        order = replace(order, moment=time.monotonic() + 0.08)
        pids = [self._server.launch(replace(order, name=name)) for name in 'ab']
        codes = [self._server.wait(pid) for pid in pids]
        assert codes == [0, 0], f'exit codes {codes}'
        return {name: json.loads((Path(order.folder) / name).read_text()) for name in 'ab'}

    def _folder_of_a_killed_run(self) -> Path:
        """A run whose first tool call was killed before its effect."""
        if self._left is None:
            self._left = self.new_folder()
            order = Order('meeting', str(self._left), at=1, of=IN_TOOL)
            assert self._server.do(order) == -signal.SIGKILL
        copy = self.new_folder()
        shutil.copytree(self._left, copy, dirs_exist_ok=True)
        return copy

    def stopped(self, at: int, of: str) -> list[str]:
        """A driver is stopped (SIGSTOP) for longer than its lease; another finishes the run; then the first goes on."""
        folder = self.new_folder()
        order = Order('plain', str(folder), at=at, of=of, stop=True, ttl=0.2, attempt='begin', name='stopped')
        pid = self._server.launch(order)
        until(lambda: _state_of(pid) == 'T')
        until(lambda: self._taken_over(order))
        before = Ledger(folder / 'ledger').lines()
        os.kill(pid, signal.SIGCONT)
        if code := self._server.wait(pid):
            return [f'exit code {code}']
        ends = {name: json.loads((folder / name).read_text()) for name in ('stopped', 'other')}
        wrong = _wrong_with_takeover(ends, before, Ledger(folder / 'ledger').lines())
        shutil.rmtree(folder)
        return wrong

    def _taken_over(self, order: Order) -> bool:
        """Whether another process could finish the run: true as soon as the lease is over."""
        other = Order(order.scenario, order.folder, attempt='resume', name='other')
        assert self._server.do(other) == 0
        ended = json.loads((Path(order.folder) / 'other').read_text())['ended']
        assert ended in ('completed', 'RunLocked'), ended
        return ended == 'completed'

    def new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._folder))


def _wrong_with_race(ends: dict[str, Any], lines: list[Line]) -> list[str]:
    told = sorted(end['ended'] for end in ends.values())
    if told != ['RunLocked', 'completed']:
        return [f'they ended with {told}']
    loser = next(end for end in ends.values() if end['ended'] == 'RunLocked')
    wrong = [f'the loser came to {p}' for p in loser['passed'] if p.startswith((IN_TOOL, AT_MODEL))]
    wrong += [f'the loser wrote {p}' for p in loser['passed'] if p.startswith(BEFORE_WRITE) and 'acquire' not in p]
    tools = {line.key: n for line, n in count(lines).items() if line.what == 'tool'}
    if tools != {'m1': 1, 'm2': 1, 'm3': 1}:
        wrong.append(f'effects: {tools}')
    return wrong


def _wrong_with_takeover(ends: dict[str, Any], before: list[Line], after: list[Line]) -> list[str]:
    """`before` and `after` are the effects when the stopped one went on, and when it had ended."""
    found = ends['other']['found']
    finished = [i for run in found['runs'].values() for i in run['finished']]
    others = before[found['lines'] :]
    wrong = [f'{line}: was finished, and the other ran it again' for line in others if line.key in finished]
    wrong += [f'{line}: done by the one that was stopped' for line in after[len(before) :] if line.what != 'attempt']
    if ends['stopped']['ended'] != 'JournalConflict':
        wrong.append(f'the one that was stopped ended with {ends["stopped"]["ended"]}')
    return wrong


def _state_of(pid: int) -> str:
    """What a process does, as the kernel says: `T` is stopped."""
    return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
