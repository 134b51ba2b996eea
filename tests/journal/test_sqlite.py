"""What only the SQLite journal promises: one file, group commit, large values once, typed errors for every fault."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import shutil
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, Literal

import pytest

from agent_graph.errors import (
    CodecError,
    ConfigError,
    JournalConflict,
    JournalError,
    JournalUnavailable,
    RunExists,
    RunLocked,
    UnknownRun,
)
from agent_graph.journal import CallFinished, Ended, Entered, Lease, Record, Started
from agent_graph.journal.database import Database
from agent_graph.journal.sqlite import SQLiteJournal
from agent_graph.messages import ToolMessage, ToolReturnPart

TTL = 60.0
MEGABYTE = 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'runs.db'


def first(agent: str = 'agent') -> list[Record]:
    return [Record(1, 1.0, Started(agent))]


def step(seq: int, size: int = 1000) -> list[Record]:
    return [Record(seq, float(seq), Entered('N', data='x' * size))]


def drive(
    path: Path,
    test: Callable[[SQLiteJournal], Coroutine[Any, Any, None]],
    *,
    timeout: float = 10.0,
    synchronous: Literal['FULL', 'NORMAL'] = 'FULL',
) -> None:
    async def main() -> None:
        async with SQLiteJournal(path, timeout=timeout, synchronous=synchronous) as journal:
            await test(journal)

    asyncio.run(main())


def fill(path: Path, runs: int = 1, steps: int = 3) -> None:
    """Runs `r0`, `r1`, ... of one start and `steps` records of 1 KB, written one after the other."""

    async def write(journal: SQLiteJournal) -> None:
        for n in range(runs):
            lease = await journal.create(f'r{n}', first(), owner='me', ttl=0)
            for seq in range(2, steps + 2):
                await journal.append(f'r{n}', step(seq), epoch=lease.epoch)

    drive(path, write, synchronous='NORMAL')


def tamper(path: Path, statement: str, *values: object) -> None:
    db = sqlite3.connect(path)
    with db:
        db.execute(statement, values)
    db.close()


def count(path: Path, table: str) -> int:
    db = sqlite3.connect(path)
    found = db.execute(f'SELECT count(*) FROM {table}').fetchone()[0]
    db.close()
    return found


# -- opening and closing ---------------------------------------------------------------------------------------------


def test_nothing_is_opened_before_it_is_used(path: Path) -> None:
    threads = threading.active_count()
    asyncio.run(SQLiteJournal(path).aclose())
    assert not path.exists()
    assert threading.active_count() == threads


def test_closing_ends_the_threads_and_leaves_one_file(path: Path) -> None:
    threads = threading.active_count()
    fill(path)
    assert threading.active_count() == threads
    assert [file.name for file in path.parent.iterdir()] == ['runs.db']


def test_a_journal_that_is_dropped_ends_its_threads(path: Path) -> None:
    threads = threading.active_count()
    journal = SQLiteJournal(path)
    asyncio.run(journal.create('r', first(), owner='me', ttl=TTL))
    assert threading.active_count() > threads
    del journal
    gc.collect()
    until = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == threads


def test_what_was_sent_before_closing_is_written(path: Path) -> None:
    async def main() -> None:
        journal = SQLiteJournal(path)
        await journal.create('r', first(), owner='me', ttl=TTL)
        writes = [asyncio.ensure_future(journal.append('r', step(n), epoch=1)) for n in range(2, 30)]
        await asyncio.sleep(0)
        await journal.aclose()
        await asyncio.gather(*writes)
        async with SQLiteJournal(path) as again:
            assert (await again.info('r')).last_seq == 29

    asyncio.run(main())


@pytest.mark.parametrize(
    'bad', [{'path': ':memory:'}, {'path': ''}, {'path': 'x', 'synchronous': 'OFF'}, {'path': 'x', 'lease': 0.5}]
)
def test_bad_settings(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        SQLiteJournal(**bad)


def test_the_path_stays_the_same_when_the_folder_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = SQLiteJournal('runs.db')
    (tmp_path / 'below').mkdir()
    monkeypatch.chdir(tmp_path / 'below')

    async def main() -> None:
        await journal.create('r', first(), owner='me', ttl=TTL)
        await journal.aclose()

    asyncio.run(main())
    assert (tmp_path / 'runs.db').exists()


def test_a_name_with_signs_that_mean_something_in_addresses(tmp_path: Path) -> None:
    path = tmp_path / 'a b?mode=memory#%41&ü.db'
    fill(path)

    async def main(journal: SQLiteJournal) -> None:
        assert len(await journal.load('r0')) == 4

    drive(path, main)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_many_processes_may_open_a_new_file_at_once(path: Path) -> None:
    async def main() -> None:
        journals = [SQLiteJournal(path) for _ in range(8)]
        await asyncio.gather(*(j.create(f'r{n}', first(), owner='me', ttl=TTL) for n, j in enumerate(journals)))
        assert len(await journals[0].runs()) == 8
        for journal in journals:
            await journal.aclose()

    asyncio.run(main())


def test_importing_the_journal_does_not_import_sqlite() -> None:
    code = 'import sys, agent_graph.journal.sqlite; sys.exit("sqlite3" in sys.modules or "_sqlite3" in sys.modules)'
    root = str(Path(__file__).parents[2])
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, [root, os.environ.get('PYTHONPATH')]))}
    assert subprocess.run([sys.executable, '-c', code], env=env, check=False).returncode == 0


@pytest.mark.parametrize(('synchronous', 'number'), [('FULL', 2), ('NORMAL', 1)])
def test_how_the_writer_flushes(path: Path, synchronous: str, number: int) -> None:
    db = Database(path, synchronous, 1.0).open_writer()
    assert db.execute('PRAGMA synchronous').fetchone() == (number,)
    assert db.execute('PRAGMA journal_mode').fetchone() == ('wal',)
    db.close()


def test_a_reader_cannot_write(path: Path) -> None:
    db = Database(path, 'FULL', 1.0).open_reader()
    with pytest.raises(sqlite3.OperationalError, match='readonly'):
        db.execute('DELETE FROM runs')
    db.close()


# -- groups ----------------------------------------------------------------------------------------------------------


def commits(path: Path) -> int:
    """Transactions in the write-ahead log: its frames whose second number is not zero."""
    log = Path(f'{path}-wal').read_bytes()
    (page,) = struct.unpack('>I', log[8:12])
    frames = range(32, len(log), 24 + page)
    return sum(struct.unpack('>I', log[frame + 4 : frame + 8])[0] != 0 for frame in frames)


def test_waiting_writes_are_committed_together(path: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        await journal.create('r', first(), owner='me', ttl=TTL)
        before = commits(path)
        await asyncio.gather(*(journal.create(f'r{n}', first(), owner='me', ttl=TTL) for n in range(100)))
        assert commits(path) - before <= 20
        before = commits(path)
        await asyncio.gather(*(journal.append(f'r{n}', step(2, 10), epoch=1) for n in range(100)))
        assert commits(path) - before <= 20
        await journal.append('r0', step(3, 10), epoch=1)
        assert sum(run.last_seq for run in await journal.runs()) == 202

    drive(path, main)


def test_writes_of_one_run_in_one_group(path: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        end, more = [Record(2, 2.0, Ended('completed'))], step(3)
        lease, *results = await asyncio.gather(
            journal.create('r', first(), owner='me', ttl=TTL),
            journal.append('r', end, epoch=1),
            journal.append('r', end, epoch=1),
            journal.append('r', more, epoch=1),
            journal.create('r', first(), owner='you', ttl=TTL),
            return_exceptions=True,
        )
        assert isinstance(lease, Lease)
        assert [type(result) for result in results] == [type(None), JournalConflict, type(None), RunExists]
        assert await journal.load('r') == [*first(), *end, *more]
        assert (await journal.info('r')).status == 'running'

    drive(path, main)


@pytest.mark.parametrize('how', ['ABORT', 'ROLLBACK', 'FAIL'])
def test_a_write_that_fails_in_the_database_fails_alone(path: Path, how: str) -> None:
    fill(path)
    tamper(
        path,
        f"CREATE TRIGGER bad BEFORE INSERT ON records WHEN NEW.seq = 3 BEGIN SELECT RAISE({how}, 'not this one'); END",
    )

    async def main(journal: SQLiteJournal) -> None:
        creates = [journal.create(f's{n}', first(), owner='me', ttl=TTL) for n in range(30)]
        await asyncio.gather(*creates)
        writes = [journal.append(f's{n}', step(2) + (step(3) if n % 10 == 0 else []), epoch=1) for n in range(30)]
        results = await asyncio.gather(*writes, return_exceptions=True)
        for n, result in enumerate(results):
            if n % 10 == 0:
                assert isinstance(result, JournalUnavailable)
                assert 'not this one' in str(result)
                assert (await journal.info(f's{n}')).last_seq == 1
            else:
                assert result is None
                assert (await journal.info(f's{n}')).last_seq == 2

    drive(path, main)


# -- size ------------------------------------------------------------------------------------------------------------


def files_size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir())


def test_a_large_value_is_kept_once(path: Path) -> None:
    part = ToolReturnPart('fetch', {'page': 'ü' * MEGABYTE}, 'id')

    async def main(journal: SQLiteJournal) -> None:
        for name in ('a', 'b'):
            await journal.create(name, first(), owner='me', ttl=TTL)
            await journal.append(name, [Record(2, 1.0, CallFinished(part))], epoch=1)
            await journal.append(name, [Record(3, 1.0, Entered('M', message=ToolMessage([part])))], epoch=1)
        entry = (await journal.load('b'))[2].entry
        assert isinstance(entry, Entered)
        assert entry.message == ToolMessage([part])
        await journal.fork('b', 'c', at=2, owner='me', ttl=TTL)
        await journal.delete('a')
        await journal.delete('b')
        assert count(path, 'blobs') == 1
        found = (await journal.load('c'))[1].entry
        assert isinstance(found, CallFinished)
        assert found.part == part
        await journal.delete('c')
        assert count(path, 'blobs') == count(path, 'pieces') == count(path, 'records') == count(path, 'runs') == 0
        await journal.vacuum()

    drive(path, main)
    assert path.stat().st_size < MEGABYTE / 10


def test_space_of_one_large_value(path: Path) -> None:
    part = ToolReturnPart('fetch', 'x' * 5 * MEGABYTE, 'id')

    async def main(journal: SQLiteJournal) -> None:
        await journal.create('r', first(), owner='me', ttl=TTL)
        await journal.append('r', [Record(2, 1.0, CallFinished(part))], epoch=1)
        await journal.append('r', [Record(3, 1.0, Entered('M', message=ToolMessage([part])))], epoch=1)
        for seq in range(4, 50):
            await journal.append('r', step(seq), epoch=1)

    drive(path, main)
    assert files_size(path) < 5.3 * MEGABYTE


def test_growth_is_linear(tmp_path: Path) -> None:
    sizes = {}
    for steps in (50, 200, 800):
        (tmp_path / str(steps)).mkdir()
        fill(tmp_path / str(steps) / 'runs.db', steps=steps)
        sizes[steps] = files_size(tmp_path / str(steps) / 'runs.db')
    assert sizes[800] - sizes[200] < 4.4 * (sizes[200] - sizes[50])
    assert sizes[800] < 800 * 1500 + 100_000


def test_deleting_frees_what_no_fork_needs(path: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        await journal.create('a', first(), owner='me', ttl=TTL)
        for seq in range(2, 11):
            await journal.append('a', step(seq), epoch=1)
        await journal.fork('a', 'b', at=7, owner='me', ttl=TTL)
        await journal.append('b', step(8), epoch=1)
        await journal.fork('b', 'c', at=4, owner='me', ttl=TTL)
        await journal.delete('a')
        assert count(path, 'records') == 8
        await journal.delete('b')
        assert count(path, 'records') == 4
        await journal.delete('c')
        assert count(path, 'records') == count(path, 'runs') == 0

    drive(path, main)


def test_a_long_line_of_forks(path: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        await journal.create('f0', first(), owner='me', ttl=TTL)
        for n in range(1, 300):
            await journal.fork(f'f{n - 1}', f'f{n}', at=n, owner='me', ttl=TTL)
            await journal.append(f'f{n}', step(n + 1, 1), epoch=1)
        assert [record.seq for record in await journal.load('f299')] == list(range(1, 301))
        for n in range(300):
            await journal.delete(f'f{n}')
        assert count(path, 'records') == count(path, 'runs') == 0

    drive(path, main, synchronous='NORMAL')


# -- faults ----------------------------------------------------------------------------------------------------------


def refused(path: Path, words: str, *, timeout: float = 10.0) -> None:
    """Reading and writing raise `JournalUnavailable` with these words."""

    async def main(journal: SQLiteJournal) -> None:
        for call in (
            journal.load('r0'),
            journal.create('new', first(), owner='me', ttl=TTL),
            journal.append('r0', step(5), epoch=1),
            anext(journal.follow('r0')),
        ):
            with pytest.raises(JournalUnavailable, match=words):
                await call

    drive(path, main, timeout=timeout)


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_bytes(b'To whom it may concern\n' * 500)
    refused(path, 'damaged, or no journal')


def test_a_database_of_another_application(path: Path) -> None:
    tamper(path, 'CREATE TABLE theirs (x)')
    refused(path, 'another application')
    assert count(path, 'sqlite_master') == 1


def test_a_file_of_a_newer_version(path: Path) -> None:
    fill(path)
    tamper(path, 'PRAGMA user_version = 2')
    refused(path, 'newer agent_graph')


def test_a_folder_that_is_not_there(path: Path) -> None:
    refused(path.parent / 'no' / 'runs.db', 'folder exists')


def test_a_folder_in_the_files_place(path: Path) -> None:
    path.mkdir()
    refused(path, 'cannot be opened')


def test_tables_that_are_missing(path: Path) -> None:
    fill(path)
    tamper(path, 'DROP TABLE records')
    refused(path, 'not those of a journal')


def test_a_file_held_by_another_process_for_too_long(path: Path) -> None:
    fill(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute('BEGIN IMMEDIATE')

    async def main(journal: SQLiteJournal) -> None:
        started = time.monotonic()
        writes = [journal.append('r0', step(5), epoch=1), journal.create('new', first(), owner='me', ttl=TTL)]
        for result in await asyncio.gather(*writes, return_exceptions=True):
            assert isinstance(result, JournalUnavailable)
            assert 'another process has held it for 0.3 s' in str(result)
        assert time.monotonic() - started < 5
        assert len(await journal.load('r0')) == 4
        other.execute('ROLLBACK')
        await journal.append('r0', step(5), epoch=1)

    drive(path, main, timeout=0.3)
    other.close()


def test_a_file_that_is_moved_away_while_open(path: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        await journal.create('r', first(), owner='me', ttl=TTL)
        path.rename(path.with_suffix('.old'))  # noqa: ASYNC240
        with pytest.raises(JournalUnavailable, match='moved, deleted or replaced'):
            await journal.append('r', step(2), epoch=1)
        path.with_suffix('.old').rename(path)
        await journal.append('r', step(2), epoch=1)

    drive(path, main)


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    folder = tmp_path / 'small'
    folder.mkdir()
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', str(folder)]
    if shutil.which('mount') is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip('needs the right to mount a small file system')
    yield folder
    subprocess.run(['umount', str(folder)], check=True)


async def refused_as_full(journal: SQLiteJournal, seq: int) -> bool:
    try:
        await journal.append('r', step(seq, 30_000), epoch=1)
    except JournalUnavailable as error:
        return 'disk is full' in str(error)
    return False


def test_a_full_disk(small_disk: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        await journal.create('r', first(), owner='me', ttl=TTL)
        written = 1
        while not await refused_as_full(journal, written + 1):
            written += 1
        assert [record.seq for record in await journal.load('r')] == list(range(1, written + 1))
        with pytest.raises(JournalUnavailable, match='disk is full'):
            await journal.append('r', step(written + 1, MEGABYTE), epoch=1)
        (small_disk / 'ballast').unlink()
        await journal.append('r', step(written + 1, 30_000), epoch=1)

    (small_disk / 'ballast').write_bytes(bytes(500_000))
    drive(small_disk / 'runs.db', main)


def test_a_half_written_last_page(path: Path) -> None:
    async def write() -> None:
        journal = SQLiteJournal(path)
        await journal.create('r', first(), owner='me', ttl=0)
        for seq in range(2, 21):
            await journal.append('r', step(seq), epoch=1)
        for suffix in ('', '-wal'):
            shutil.copy(f'{path}{suffix}', f'{path}.copy{suffix}')
        await journal.aclose()

    async def check(journal: SQLiteJournal) -> None:
        assert await journal.load('r') == first() + [record for n in range(2, 20) for record in step(n)]
        lease = await journal.acquire('r', owner='me', ttl=TTL)
        await journal.append('r', step(20), epoch=lease.epoch)

    asyncio.run(write())
    log = Path(f'{path}.copy-wal')
    log.write_bytes(log.read_bytes()[:-1000])
    drive(Path(f'{path}.copy'), check)


def test_a_damaged_page_takes_only_what_was_on_it(path: Path) -> None:
    fill(path, runs=8, steps=40)
    data = bytearray(path.read_bytes())
    page = data.index(b'x' * 900, len(data) * 2 // 5) // 4096 * 4096
    data[page : page + 4096] = b'\xa5' * 4096
    path.write_bytes(data)

    async def main(journal: SQLiteJournal) -> None:
        loads = [journal.load(f'r{n}') for n in range(8)]
        results = await asyncio.gather(*loads, return_exceptions=True)
        lost = [n for n, result in enumerate(results) if isinstance(result, JournalError)]
        assert len(lost) == 1
        assert all(len(result) == 41 for result in results if not isinstance(result, BaseException))
        assert len(await journal.load(f'r{lost[0]}', upto=2)) == 2
        assert len(await journal.runs()) == 8
        await journal.create('new', first(), owner='me', ttl=TTL)

    drive(path, main)


@pytest.mark.parametrize(
    'stored',
    [
        pickle.dumps(Started('x')),
        b'{"v":1,"entry":{"kind":"os.system","command":"true"}}',
        b'{"v":9,"entry":{"kind":"started","agent":null}}',
        b'{"v":1,"entry":' + b'[' * 100_000,
        b'',
        'text',
        17,
        1.5,
    ],
    ids=['pickle', 'kind', 'version', 'nesting', 'nothing', 'text', 'int', 'float'],
)
def test_a_foreign_entry_is_refused_and_the_others_stay(path: Path, stored: object) -> None:
    fill(path, runs=2)
    tamper(path, 'UPDATE records SET entry = ? WHERE run = 1 AND seq = 3', stored)

    async def main(journal: SQLiteJournal) -> None:
        with pytest.raises(CodecError, match=r"record 3 of run 'r0'.*load\(upto=2\)"):
            await journal.load('r0')
        with pytest.raises(CodecError):
            await journal.fork('r0', 'f', at=3, owner='me', ttl=TTL)
        assert len(await journal.load('r0', upto=2)) == 2
        assert len(await journal.load('r1')) == 4
        assert [run.run_id for run in await journal.runs()] == ['r1', 'r0']

    drive(path, main)


def test_a_large_value_that_is_gone(path: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        await journal.create('r', [*first(), *step(2, MEGABYTE)], owner='me', ttl=TTL)
        tamper(path, 'DELETE FROM blobs')
        with pytest.raises(CodecError, match='missing'):
            await journal.load('r')
        assert await journal.load('r', upto=1) == first()

    drive(path, main)


def test_what_cannot_be_stored_is_refused_before_it_is_sent(path: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        await journal.create('r', first(), owner='me', ttl=TTL)
        with pytest.raises(CodecError, match=r"entry\.data\['x'\] is {1}"):
            await journal.append('r', [Record(2, 1.0, Entered('N', data={'x': {1}}))], epoch=1)  # pyright: ignore[reportArgumentType]
        await journal.append('r', step(2), epoch=1)

    drive(path, main)


def test_a_refusal_says_where_and_by_whom(path: Path) -> None:
    async def test(journal: SQLiteJournal) -> None:
        for work in (journal.load('r'), journal.append('r', step(1), epoch=1), journal.delete('r'), journal.info('r')):
            with pytest.raises(UnknownRun, match=f"no run 'r' in the journal '{path}'"):
                await work
        await journal.create('r', first(), owner='d90915e6-8525-4241-9816-3.4026531836/12207/14874/52d31e8b', ttl=TTL)
        with pytest.raises(RunLocked, match="driven by process 12207 on machine 'd90915e6', for ") as caught:
            await journal.acquire('r', owner='me', ttl=TTL)
        assert caught.value.owner.startswith('d90915e6-8525')
        await journal.create('s', first(), owner='my own name', ttl=TTL)
        with pytest.raises(RunLocked, match="driven by 'my own name', for "):
            await journal.acquire('s', owner='me', ttl=TTL)

    drive(path, test)


def test_a_refusal_names_both_epochs(path: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        lease = await journal.create('r', first(), owner='me', ttl=0)
        await journal.acquire('r', owner='you', ttl=TTL)
        with pytest.raises(JournalConflict, match='epoch 2, the write came with epoch 1'):
            await journal.append('r', [Record(2, 1.0, Ended('completed'))], epoch=lease.epoch)

    drive(path, main)


# -- speed: wide bounds, a slow disk must pass and a quadratic cost must not -----------------------------------------


def test_many_runs_share_their_commits(path: Path) -> None:
    async def one(journal: SQLiteJournal, run_id: str) -> None:
        await journal.create(run_id, first(), owner='me', ttl=TTL)
        for seq in range(2, 6):
            await journal.append(run_id, step(seq), epoch=1)

    async def main(journal: SQLiteJournal) -> None:
        started = time.perf_counter()
        await asyncio.gather(*(one(journal, f'r{n}') for n in range(1000)))
        assert time.perf_counter() - started < 10
        assert sum(run.last_seq for run in await journal.runs()) == 5000

    drive(path, main)


def test_loading_a_long_run_is_quick(path: Path) -> None:
    async def main(journal: SQLiteJournal) -> None:
        records = first() + [record for n in range(2, 801) for record in step(n)]
        await journal.create('r', records, owner='me', ttl=TTL)
        started = time.perf_counter()
        assert await journal.load('r') == records
        assert time.perf_counter() - started < 1

    drive(path, main)
