"""The long round: `make crash`, or `python -m tests.acceptance --kills 1000 --seed 1`."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.acceptance.campaign import Campaign, every_place, random_chains, scratch
from tests.acceptance.points import BEFORE_WRITE
from tests.acceptance.rivals import Rivals
from tests.acceptance.scenarios import SCENARIOS
from tests.acceptance.server import ForkServer, fork_server

WRITES = 9
"""So many a run of three calls makes: its creation, one before each of four requests and three calls, its end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill runs at every place of every scenario and then at random, race for runs, stop drivers; print a report."""
    parser = argparse.ArgumentParser(prog='python -m tests.acceptance', description=main.__doc__)
    parser.add_argument('--kills', type=int, default=1000, help='in all, but at least one at every place')
    parser.add_argument('--races', type=int, default=100, help='of two processes for one run')
    parser.add_argument('--seed', type=int, default=random.randrange(1_000_000))
    parser.add_argument('--only', choices=list(SCENARIOS), action='append', help='this scenario alone')
    parser.add_argument(
        '--disk', action='store_true', help='journals on the disk, not in memory: slower, flushes count'
    )
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    _say(f'seed {given.seed}')
    with fork_server() as server, scratch(given.disk) as folder:
        failures = _kill(server, folder, given)
        failures += _contend(server, folder, given.races)
    _say(f'{time.monotonic() - begun:.0f} s, {failures} failures in all')
    return 1 if failures else 0


def _kill(server: ForkServer, folder: Path, given: argparse.Namespace) -> int:
    campaign, chance = Campaign(server, folder), random.Random(given.seed)
    names: list[str] = given.only or list(SCENARIOS)
    for scenario in names:
        every_place(campaign, chance, scenario)
        _say(f'{scenario}: killed at each of {campaign.count(scenario)} places')
    random_chains(campaign, chance, given.kills, names, _say)
    _say(str(campaign.report))
    return len(campaign.report.failures)


def _contend(server: ForkServer, folder: Path, races: int) -> int:
    rivals = Rivals(server, folder)
    wrong = [f'race {n}: {what}' for n in range(races) for what in rivals.race()]
    wrong += [f'race {n} with answers: {what}' for n in range(races) for what in rivals.race_to_answer()]
    _say(f'{races} races for one run, and {races} with the same answer, {len(wrong)} failures')
    stopped = [f'write {n}: {what}' for n in range(2, WRITES + 1) for what in rivals.stopped(n, BEFORE_WRITE)]
    _say(f'stopped before each of {WRITES - 1} writes for longer than the lease, {len(stopped)} failures')
    for what in [*wrong, *stopped]:
        _say(f'FAILED: {what}')
    return len(wrong) + len(stopped)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == '__main__':
    sys.exit(main())
