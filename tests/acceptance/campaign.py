"""Runs that are killed again and again, each judged at its end."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.acceptance.child import Order, Way
from tests.acceptance.ledger import Ledger
from tests.acceptance.scenarios import SCENARIOS
from tests.acceptance.server import ForkServer
from tests.acceptance.verdict import Evidence, faults

__all__ = ['AT_RANDOM', 'WAYS', 'Campaign', 'Kill', 'Report', 'every_place', 'random_chains', 'scratch']

AT_RANDOM = 'at a random time'
WAYS: Sequence[Way] = ('run', 'text', 'events', 'iter', 'inline')


@dataclass(frozen=True)
class Kill:
    """One death: at place `at` (of those that begin like `of`), or from outside, `after` seconds after the start."""

    at: int | None = None
    of: str = ''
    after: float | None = None
    delay: float = 0.0


@dataclass
class Report:
    """What a campaign did and found."""

    runs: int = 0
    resumes: int = 0
    kills: Counter[str] = field(default_factory=Counter[str])
    by_scenario: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        total = sum(self.kills.values())
        lines = [f'{self.runs} runs, {total} kills, {self.resumes} resumes, {len(self.failures)} failures']
        lines += [f'  {n:6} killed {phase}' for phase, n in sorted(self.kills.items())]
        lines += [f'  {n:6} kills in scenario {name!r}' for name, n in sorted(self.by_scenario.items())]
        return '\n'.join([*lines, *self.failures])


@contextmanager
def scratch(on_disk: bool = False) -> Generator[Path]:
    """A folder. In memory if possible: what a kill leaves behind is the same there, and a flush costs nothing."""
    memory = Path('/dev/shm')
    there = memory if not on_disk and os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix='kill-', dir=there))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Campaign:
    """Kills runs of the scenarios and judges each when it has come to its end."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self.report = Report()
        self._server = server
        self._folder = folder
        self._wholes: dict[str, tuple[dict[str, Any], float]] = {}

    def whole(self, scenario: str) -> tuple[dict[str, Any], float]:
        """The end of a run that is left alone, and how many seconds its process lived. All ways have to come to it."""
        known = self._wholes.get(scenario)
        if known is None:
            folder = self._new_folder()
            begun = time.monotonic()
            code = self._server.do(Order(scenario, str(folder)))
            assert code == 0, f'{scenario} failed without any kill'
            known = _read(folder / 'result'), time.monotonic() - begun
            self._wholes[scenario] = known
            shutil.rmtree(folder)
        return known

    def count(self, scenario: str, of: str = '') -> int:
        """How many places of these there are in a run that is left alone."""
        return sum(place.startswith(of) for place in self.whole(scenario)[0]['passed'])

    def chain(self, scenario: str, way: Way, kills: Sequence[Kill], *, resume_by: Way | None = None) -> None:
        """One run, killed in one process after the other, then left alone; `resume_by` drives all but the first."""
        folder = self._new_folder()
        code = self._live(folder, scenario, way, kills, resume_by or way)
        wrong = [f'exit code {code}'] if code else faults(self._evidence(folder, scenario))
        if wrong:
            name = f'{scenario!r} begun by {way!r}, resumed by {resume_by or way!r}, {list(kills)}'
            self.report.failures.append('\n'.join([f'FAILED: {name}', *(f'  {fault}' for fault in wrong)]))
        else:
            shutil.rmtree(folder)

    def evidence(self, scenario: str, way: Way, kills: Sequence[Kill]) -> Evidence:
        """What there is to judge after a chain, for those who judge themselves."""
        folder = self._new_folder()
        assert self._live(folder, scenario, way, kills, way) == 0
        return self._evidence(folder, scenario)

    def _live(self, folder: Path, scenario: str, way: Way, kills: Sequence[Kill], resume_by: Way) -> int:
        """The whole life of a run; returns how its last process ended."""
        order = Order(scenario, str(folder), way, limits=self._limits(scenario))
        code = 0
        for n, kill in enumerate([*kills, Kill()]):
            code = self._one(replace(order, at=kill.at, of=kill.of, delay=kill.delay), kill.after)
            self.report.resumes += n > 0
            if code != -signal.SIGKILL:
                break
            self.report.by_scenario[scenario] += 1
            order = replace(order, way=resume_by)
        self.report.runs += 1
        if (folder / 'deaths').exists():
            self.report.kills.update(line.split(':')[0] for line in (folder / 'deaths').read_text().splitlines())
        return code

    def _one(self, order: Order, after: float | None) -> int:
        if after is None:
            return self._server.do(order)
        pid = self._server.launch(order)
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
        code = self._server.wait(pid)
        self.report.kills[AT_RANDOM] += code == -signal.SIGKILL
        return code

    def _evidence(self, folder: Path, scenario: str) -> Evidence:
        found = [_read(path) for path in sorted(folder.glob('found.*'))]
        whole, _ = self.whole(scenario)
        lines = Ledger(folder / 'ledger').lines()
        return Evidence(found, _read(folder / 'result'), lines, whole, SCENARIOS[scenario].exact)

    def _limits(self, scenario: str) -> tuple[int, int, int] | None:
        """Exactly what an undisturbed run uses: counting anything twice after a crash would go past it."""
        if not SCENARIOS[scenario].exact:
            return None
        usage = self.whole(scenario)[0]['usage']
        return usage['requests'], usage['tool_calls'], usage['total_tokens']

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._folder))


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def every_place(campaign: Campaign, chance: random.Random, scenario: str) -> None:
    """Kill runs of a scenario at each place there is, one kill a run."""
    for place in range(1, campaign.count(scenario) + 1):
        campaign.chain(scenario, 'run', [Kill(at=place, delay=chance.uniform(0, 0.003))])


def random_kill(chance: random.Random, places: int, seconds: float) -> Kill:
    """A kill somewhere in the life of a process that passes so many places in so many seconds."""
    kind = chance.random()
    if kind < 0.1:  # while the file is made
        return Kill(after=chance.uniform(0, min(seconds, 0.03)))
    if kind < 0.4:
        return Kill(after=chance.uniform(0, seconds))
    return Kill(at=chance.randint(1, places), delay=chance.uniform(0, 0.003))


def random_chains(
    campaign: Campaign,
    chance: random.Random,
    kills: int,
    names: Sequence[str],
    say: Callable[[str], None] | None = None,
) -> None:
    """Kill random runs at random places and times until there were so many kills."""
    told = 0
    while (done := sum(campaign.report.kills.values())) < kills:
        scenario, way, resume_by = chance.choice(names), chance.choice(WAYS), chance.choice(WAYS)
        places, seconds = campaign.count(scenario), campaign.whole(scenario)[1]
        count = min(chance.choice((1, 1, 2, 3, 5)), kills - done)
        chain = [random_kill(chance, places, seconds) for _ in range(count)]
        campaign.chain(scenario, way, chain, resume_by=resume_by)
        if say is not None and done // 100 > told:
            told = done // 100
            say(f'{done} kills, {len(campaign.report.failures)} failures')
