"""A journal file between processes: races, kills, stops, forks."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from agent_graph.errors import RunLocked
from agent_graph.journal import Entered, Lease, Record, Started
from agent_graph.journal.sqlite import SQLiteJournal

CHILDREN = Path(__file__).parent / 'children'


def child(name: str, *args: object) -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get('PYTHONPATH')]))
    return subprocess.Popen(
        [sys.executable, str(CHILDREN / name), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, 'PYTHONPATH': path},
    )


def finish(process: subprocess.Popen[str], *, say: str = '', code: int = 0) -> list[str]:
    """What a child still prints until it ends."""
    # Not communicate(): it loses what `line` has read ahead.
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        if say:
            tell(process, say)
        process.stdin.close()
        lines = process.stdout.read().split('\n')
    assert process.returncode == code
    assert lines.pop() == ''
    return lines


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], what: object) -> None:
    assert process.stdin is not None
    process.stdin.write(f'{what}\n')
    process.stdin.flush()


def first() -> list[Record]:
    return [Record(1, 1.0, Started('agent'))]


def test_one_of_two_processes_gets_each_run(tmp_path: Path) -> None:
    path, count = tmp_path / 'runs.db', 100

    async def prepare() -> None:
        async with SQLiteJournal(path) as journal:
            await asyncio.gather(*(journal.create(f'r{n}', first(), owner='dead', ttl=0) for n in range(count)))

    async def check() -> None:
        async with SQLiteJournal(path) as journal:
            for n, (one, other) in enumerate(zip(*results, strict=True)):
                assert sorted([one, other]) == [f'r{n} lost', f'r{n} won']
                winner = 'a' if one.endswith('won') else 'b'
                assert [record.entry for record in await journal.load(f'r{n}', after=1)] == [Entered(winner)]

    asyncio.run(prepare())
    racers = [child('racer.py', path, name, count) for name in 'ab']
    assert [line(racer) for racer in racers] == ['ready', 'ready']
    start = time.time() + 0.1
    for racer in racers:
        tell(racer, start)
    results = [finish(racer) for racer in racers]
    asyncio.run(check())


def test_what_was_acknowledged_survives_kills(tmp_path: Path) -> None:
    path, chance = tmp_path / 'runs.db', random.Random(7)
    acknowledged: dict[str, int] = {}

    async def check() -> None:
        async with SQLiteJournal(path) as journal:
            for run_id, seq in acknowledged.items():
                records = await journal.load(run_id)
                assert [record.seq for record in records] == list(range(1, len(records) + 1))
                assert len(records) >= seq
                assert records[1:] == [
                    Record(r.seq, r.time, Entered('N', data='x' * (r.seq * 137 % 3000))) for r in records[1:]
                ]

    for _ in range(4):
        writer = child('appender.py', path)
        begun = line(writer)
        time.sleep(chance.random() * 0.3)
        writer.kill()
        for found in [begun, *finish(writer, code=-signal.SIGKILL)]:
            run_id, seq = found.split()
            acknowledged[run_id] = int(seq)
        asyncio.run(check())
    assert len(acknowledged) == 5


def test_a_stopped_owner_is_refused_when_it_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with SQLiteJournal(tmp_path / 'runs.db') as journal:
            lease = await journal.create('r', first(), owner='me', ttl=60)
            await journal.release(lease)
            sleeper = child('sleeper.py', tmp_path / 'runs.db')
            assert line(sleeper) == 'taken'
            sleeper.send_signal(signal.SIGSTOP)
            lease = await taken(journal)
            await journal.append('r', [Record(2, 1.0, Entered('Fresh'))], epoch=lease.epoch)
            sleeper.send_signal(signal.SIGCONT)
            assert finish(sleeper, say='go on') == ['refused', 'refused']
            assert await journal.load('r', after=1) == [Record(2, 1.0, Entered('Fresh'))]

    async def taken(journal: SQLiteJournal) -> Lease:
        while True:
            try:
                return await journal.acquire('r', owner='me', ttl=60)
            except RunLocked:
                await asyncio.sleep(0.02)

    asyncio.run(main())


def test_following_a_run_of_another_process(tmp_path: Path) -> None:
    async def main() -> list[int]:
        async with SQLiteJournal(tmp_path / 'runs.db') as journal:
            return [record.seq async for record in journal.follow('r')]

    teller = child('teller.py', tmp_path / 'runs.db', 60)
    assert line(teller) == 'begun'
    assert asyncio.run(main()) == list(range(1, 61))
    finish(teller)


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='this system has no fork()')
def test_a_journal_after_fork(tmp_path: Path) -> None:
    forks = 4
    finish(child('forker.py', tmp_path / 'runs.db', forks))

    async def main() -> None:
        async with SQLiteJournal(tmp_path / 'runs.db') as journal:
            found = {run.run_id: run.last_seq for run in await journal.runs() if not run.run_id.startswith('busy')}
            names = [f'{name} {n}' for name in ('parent', 'child') for n in range(forks)]
            assert found == dict.fromkeys(['before', 'after', *names], 20)

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, 'getuid'), reason='this system has no such rights')
@pytest.mark.parametrize('with_wal', [False, True])
def test_a_file_that_may_only_be_read(with_wal: bool) -> None:
    async def prepare() -> None:
        journal = SQLiteJournal(folder / 'runs.db')
        await journal.create('r', [*first(), Record(2, 1.0, Entered('N'))], owner='me', ttl=60)
        if not with_wal:
            await journal.aclose()

    # Not tmp_path: an ordinary user, which the child becomes, may not enter the folders above it.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(prepare())
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        lines = finish(child('reader.py', folder / 'runs.db'))
        folder.chmod(0o755)
    assert lines[:2] == ['[1, 2]', '1']
    assert 'read-only' in lines[2]
