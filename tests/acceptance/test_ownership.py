"""Case 21: one run, two processes. Exactly one drives it, whoever comes late, was stopped, or has been told to end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_graph import SQLiteJournal
from agent_graph.engine.state import fold
from agent_graph.journal import RunInfo
from agent_graph.messages import is_valid
from tests.acceptance.campaign import scratch
from tests.acceptance.child import Order, stage_for
from tests.acceptance.ledger import Ledger, Line
from tests.acceptance.points import AFTER_WRITE, BEFORE_WRITE
from tests.acceptance.rivals import Rivals, until
from tests.acceptance.scenarios import CONTESTS, RUN_ID
from tests.acceptance.server import ForkServer, fork_server

pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='stops processes and reads /proc')

RACES = 12
LINGERING = Line('tool', RUN_ID, 'l1')


@pytest.fixture(scope='module')
def server() -> Iterator[ForkServer]:
    with fork_server() as made:
        yield made


@pytest.fixture(scope='module')
def rivals(server: ForkServer) -> Iterator[Rivals]:
    with scratch() as folder:
        yield Rivals(server, folder)


@dataclass
class Driver:
    """A process in a tool that does not end by itself."""

    pid: int
    order: Order
    begun: float

    @property
    def folder(self) -> Path:
        return Path(self.order.folder)

    def ended(self) -> str:
        return json.loads((self.folder / self.order.name).read_text())['ended']


@pytest.fixture(scope='module')
def drivers(server: ForkServer, rivals: Rivals) -> Iterator[dict[str, Driver]]:
    """Begun together and early, since a driver looks after its lease only every five seconds."""
    made: dict[str, Driver] = {}
    for name, ttl in (('cancelled', None), ('stopped', 0.5), ('renewed', 8.0)):
        order = Order('lingering', str(rivals.new_folder()), ttl=ttl, attempt='begin', name=name)
        made[name] = Driver(server.launch(order), order, time.monotonic())
    for driver in made.values():
        until(lambda d=driver: LINGERING in Ledger(d.folder / 'ledger').lines())
    os.kill(made['stopped'].pid, signal.SIGSTOP)
    yield made
    for driver in made.values():
        with suppress(ProcessLookupError):
            os.kill(driver.pid, signal.SIGKILL)


@pytest.mark.usefixtures('drivers')
def test_two_resume_at_the_same_moment(rivals: Rivals) -> None:
    wrong = [f'race {n}: {what}' for n in range(RACES) for what in rivals.race()]
    assert not wrong


@pytest.mark.usefixtures('drivers')
def test_two_bring_the_same_answer_at_the_same_moment(rivals: Rivals) -> None:
    wrong = [f'race {n}: {what}' for n in range(RACES // 2) for what in rivals.race_to_answer()]
    assert not wrong


@pytest.mark.usefixtures('drivers')
def test_stopped_before_a_write_for_longer_than_the_lease(rivals: Rivals) -> None:
    """The stale one's write is refused, and it does nothing more."""
    # The first write makes the run: before that there is nothing to take.
    wrong = [f'write {n}: {what}' for n in range(2, 10) for what in rivals.stopped(n, BEFORE_WRITE)]
    assert not wrong


@pytest.mark.usefixtures('drivers')
def test_stopped_between_the_intent_and_the_call(rivals: Rivals) -> None:
    """The intent was recorded in time, the lease is over when the process goes on: the call must not be begun any more."""
    assert not rivals.stopped(3, f'{AFTER_WRITE}: CallStarted')


def test_cancelled_from_another_process(server: ForkServer, drivers: dict[str, Driver]) -> None:
    driver = drivers['cancelled']

    async def cancel() -> None:
        async with stage_for(driver.order) as stage:
            await CONTESTS['lingering'].make(stage).cancel(RUN_ID)
            state = fold(RUN_ID, await stage.journal.load(RUN_ID))
            assert state.ended is not None and state.ended.status == 'cancelled'
            assert is_valid(state.messages)

    asyncio.run(cancel())
    assert server.wait(driver.pid) == 0
    assert driver.ended() == 'RunCancelled'
    assert [line.what for line in Ledger(driver.folder / 'ledger').lines()] == ['model', 'tool', 'stopped', 'attempt']


def test_a_tool_is_stopped_when_its_run_has_another_owner(server: ForkServer, drivers: dict[str, Driver]) -> None:
    """The driver slept through its lease inside a tool; it notices by itself, without writing anything."""
    driver = drivers['stopped']
    other = Order('lingering', driver.order.folder, attempt='resume', name='other')
    until(lambda: server.do(other) == 0 and json.loads((driver.folder / 'other').read_text())['ended'] == 'completed')
    os.kill(driver.pid, signal.SIGCONT)
    assert server.wait(driver.pid) == 0
    assert driver.ended() == 'JournalConflict'
    lines = [line for line in Ledger(driver.folder / 'ledger').lines() if line.what in ('tool', 'stopped')]
    assert lines == [LINGERING, Line('tool', RUN_ID, 'l2'), Line('stopped', RUN_ID, 'l1')]


def test_a_lease_is_renewed_while_its_owner_lives(server: ForkServer, drivers: dict[str, Driver]) -> None:
    """Longer after its beginning than its lease of eight seconds, the run is still reserved for its driver."""
    driver = drivers['renewed']
    time.sleep(max(0.0, driver.begun + 8.5 - time.monotonic()))
    other = Order('lingering', driver.order.folder, attempt='resume', name='other')
    assert server.do(other) == 0
    assert json.loads((driver.folder / 'other').read_text())['ended'] == 'RunLocked'
    assert _info(driver).status == 'running'
    os.kill(driver.pid, signal.SIGKILL)
    assert server.wait(driver.pid) == -signal.SIGKILL
    assert server.do(other) == 0
    assert json.loads((driver.folder / 'other').read_text())['ended'] == 'completed', 'a dead owner is noticed at once'


def _info(driver: Driver) -> RunInfo:
    async def look() -> RunInfo:
        async with SQLiteJournal(driver.folder / 'runs.db') as journal:
            return await journal.info(RUN_ID)

    return asyncio.run(look())
