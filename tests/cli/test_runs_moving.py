"""`agent-graph runs fork`, `diff`, `export`, `import`, `delete`, `vacuum` and `cancel`."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_graph.journal.entries import Record
from agent_graph.journal.sqlite import SQLiteJournal

Command = Callable[..., Any]
NewRun = Callable[..., str]


def load(run_id: str, path: str = 'agent_graph.db') -> list[Record]:
    async def read() -> list[Record]:
        async with SQLiteJournal(path) as journal:
            return await journal.load(run_id)

    return asyncio.run(read())


def ids(command: Command) -> list[str]:
    return [run['run_id'] for run in command('runs', 'list', '--json').json()]


# fork


def test_a_fork_shares_the_past_and_goes_its_own_way(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:free')
    before = load(run_id)
    done = command('runs', 'fork', run_id, '--at', '3', '--as', 'other')
    assert done.code == 0 and f'forked {run_id} after entry 3\n' in done.out
    assert 'agent-graph runs resume other --target module:variable\n' in done.out
    assert load('other') == before[:3]
    done = command('runs', 'resume', 'other', '--target', 'staff.py:free')
    assert done.code == 0 and 'add=3 (success)' in done.out and load(run_id) == before
    assert f'fork of {run_id} at 3' in command('runs', 'list').out


def test_a_fork_of_a_run_that_waits_is_answered_itself(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:payer')
    before = load(run_id)
    command('runs', 'fork', run_id, '--as', 'other')
    done = command('runs', 'deny', 'other', 'c1', 'no', '--target', 'staff.py:payer')
    assert done.code == 0 and 'pay=no (denied)' in done.out and load(run_id) == before


def test_a_fork_is_made_at_an_entry_a_node_or_the_newest(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:free')
    at = [
        command('runs', 'fork', run_id, *o, '--json').json()[0]['forked_from'] for o in ([], ['--at', 'ModelRequest'])
    ]
    assert at == [{'run_id': run_id, 'at': 8}, {'run_id': run_id, 'at': 7}]
    assert 'has no entry 99' in command('runs', 'fork', run_id, '--at', '99').err
    assert 'entry 9 ends run' in command('runs', 'fork', run_id, '--at', '9').err
    done = command('runs', 'fork', run_id, '--at', 'Nowhere')
    assert done.code == 2 and 'it entered: UserPrompt, ModelRequest, HandleResponse' in done.err
    done = command('runs', 'fork', run_id, '--as', run_id)
    assert done.code == 2 and 'RunExists' in done.err


def test_a_fork_may_be_given_another_past(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:free')
    state = command('runs', 'show', run_id, '--at', '3', '--json').out
    (folder / 'state.json').write_text(state.replace('"content": "go"', '"content": "another prompt"'))
    (folder / 'list.json').write_text('[{"kind": "user", "content": "from a list"}]')
    (folder / 'meta.json').write_text('{"metadata": {"why": "a test"}}')
    made = {
        name: command('runs', 'fork', run_id, '--at', '3', '--edit', f'{name}.json', '--json').json()[0]['run_id']
        for name in ('state', 'list', 'meta')
    }
    shown = {name: command('runs', 'show', made[name], '--json').json()[0] for name in made}
    assert [m['content'] for m in shown['state']['messages']] == ['another prompt']
    assert [m['content'] for m in shown['list']['messages']] == ['from a list']
    assert shown['meta']['metadata'] == {'why': 'a test'} and shown['meta']['messages'][0]['content'] == 'go'
    assert 'edited   at entry 4\n' in command('runs', 'show', made['state']).out
    assert command('runs', 'resume', made['state'], '--target', 'staff.py:free').code == 0


@pytest.mark.parametrize(
    ('content', 'error'),
    [
        ('{"mesages": []}', "has a field 'mesages' that is not known; did you mean 'messages'?"),
        ('{}', 'changes nothing: it has neither messages nor metadata'),
        ('3', 'holds neither a list of messages nor an object'),
        ('{', 'cannot be read'),
        ('[{"kind": "nobody"}]', "'nobody'"),
        ('{"messages": [], "v": 99}', 'of format 99'),
        ('{"metadata": [1]}', 'metadata is [1], expected an object or null'),
    ],
)
def test_an_edit_that_is_none_is_one_line(
    command: Command, new_run: NewRun, folder: Path, content: str, error: str
) -> None:
    run_id = new_run('staff.py:free')
    (folder / 'edit.json').write_text(content)
    done = command('runs', 'fork', run_id, '--edit', 'edit.json')
    assert done.code == 2 and len(done.err.splitlines()) == 1 and error in done.err
    assert ids(command) == [run_id]


# diff


def test_the_same_but_for_times_and_ids(command: Command, new_run: NewRun) -> None:
    for target in ('staff.py:free', 'staff.py:clerk'):  # the second waits, and names its own id in what it waits for
        done = command('runs', 'diff', new_run(target), new_run(target))
        assert done.code == 0 and done.out.startswith('the same: ')


def test_ids_of_calls_and_responses_are_no_difference_but_what_was_written_is(
    command: Command, new_run: NewRun, folder: Path
) -> None:
    run_id = new_run('staff.py:payer')
    text = command('runs', 'export', run_id).out
    (folder / 'other.jsonl').write_text(text.replace('"c1"', '"call_9"'))
    (folder / 'dearer.jsonl').write_text(text.replace('40', '41'))
    for name in ('other', 'dearer'):
        assert command('runs', 'import', f'{name}.jsonl', '--as', name).code == 0
    assert command('runs', 'diff', run_id, 'other').code == 0
    assert command('runs', 'diff', run_id, 'dearer').code == 1


def test_the_first_entry_that_differs_and_then_the_paths(command: Command, new_run: NewRun) -> None:
    a, b = new_run('staff.py:payer'), new_run('staff.py:payer', 'go', '--confirm', 'never')
    done = command('runs', 'diff', a, b)
    assert done.code == 1
    assert done.out.startswith('the first difference is in entry 1 (started), confirm:\n')
    a, b = new_run('staff.py:payer'), new_run('staff.py:payer')
    command('runs', 'approve', a, 'c1', '--target', 'staff.py:payer')
    command('runs', 'deny', b, 'c1', 'no money', '--target', 'staff.py:payer')
    done = command('runs', 'diff', a, b)
    lines = done.out.splitlines()
    assert lines[0] == 'the first difference is in entry 6 (answered), decision:'
    assert lines[1:5] == [f'  a  {a}', '     approved', f'  b  {b}', '     denied']
    assert '-    pay(euros=40)  → paid 40' in lines and '+    pay(euros=40)  denied: no money' in lines
    (data,) = command('runs', 'diff', a, b, '--json').json()
    assert data['first'] == {
        'seq': 6,
        'kind': ['answered', 'answered'],
        'path': 'decision',
        'a': 'approved',
        'b': 'denied',
    }
    assert not data['same'] and data['diff'] == lines[6:]


def test_one_that_goes_on_longer(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:free')
    command('runs', 'fork', run_id, '--as', 'short')
    done = command('runs', 'diff', run_id, 'short')
    assert done.code == 1 and 'the first difference is in entry 9 (ended and no entry):' in done.out
    assert '     there is none, the run has 8 entries' in done.out
    assert command('runs', 'diff', run_id, 'nothing').code == 2


# export and import


def test_export_and_import_round_trip_exactly(command: Command, new_run: NewRun, folder: Path) -> None:
    for target in ('agents.py:weather', 'agents.py:broken', 'staff.py:clerk', 'agents.py:nasty'):
        run_id = new_run(target, 'Bern? \u20ac')
        file = f'{run_id}.jsonl'
        assert command('runs', 'export', run_id, file, '--json').json() == [
            {'run_id': run_id, 'file': file, 'entries': len(load(run_id))}
        ]
        before = load(run_id)
        command('runs', 'delete', run_id)
        done = command('runs', 'import', file)
        assert done.code == 0 and done.out.startswith(f'imported as run {run_id}: {len(before)} entries, ')
        assert load(run_id) == before
        command('runs', 'export', run_id, 'again.jsonl')
        assert (folder / 'again.jsonl').read_bytes() == (folder / file).read_bytes()


def test_export_to_standard_output_is_the_file(
    command: Command, new_run: NewRun, spawn: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    run_id = new_run('staff.py:free')
    command('runs', 'export', run_id, 'file.jsonl')
    with (folder / 'out.jsonl').open('wb') as out:
        process = spawn('runs', 'export', run_id, stdout=out)
        assert process.communicate(timeout=30)[1] == '' and process.returncode == 0
    assert (folder / 'out.jsonl').read_bytes() == (folder / 'file.jsonl').read_bytes()
    process = spawn('runs', 'import', '-', '--as', 'piped', stdin=subprocess.PIPE)
    process.communicate((folder / 'out.jsonl').read_text(), timeout=30)
    assert process.returncode == 0 and load('piped') == load(run_id)


def test_an_id_that_is_taken_is_refused(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:free')
    file = f'{run_id}.jsonl'
    command('runs', 'export', run_id, file)
    done = command('runs', 'import', file)
    assert done.code == 2 and f"run '{run_id}' is in this journal already; pass --as NEWID" in done.err
    (data,) = command('runs', 'import', file, '--as', 'copy', '--json').json()
    assert data['run_id'] == 'copy' and data['status'] == 'completed' and load('copy') == load(run_id)
    assert command('runs', 'import', file, '--as', 'bad\nid').code == 2
    assert command('runs', 'import', file, '--journal', 'new.db').code == 0 and load(run_id, 'new.db') == load(run_id)


def test_a_run_imported_under_another_id_is_answered_itself(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:payer')
    before = load(run_id)
    command('runs', 'export', run_id, 'file.jsonl')
    command('runs', 'import', 'file.jsonl', '--as', 'copy')
    assert load('copy') == before and command('runs', 'diff', run_id, 'copy').code == 0
    done = command('runs', 'approve', 'copy', 'c1', '--target', 'staff.py:payer')
    assert done.code == 0 and 'pay=paid 40 (success)' in done.out and load(run_id) == before


@pytest.mark.parametrize('content', [b'', b'{}\n', b'nonsense\n', b'\xff\xfe', b'[1]\n'])
def test_what_is_no_export_is_one_line(command: Command, folder: Path, content: bytes) -> None:
    (folder / 'file.jsonl').write_bytes(content)
    done = command('runs', 'import', 'file.jsonl')
    assert done.code == 2 and len(done.err.splitlines()) == 1 and "'file.jsonl'" in done.err
    assert command('runs', 'import', 'missing.jsonl').code == 2
    assert 'pass --as NEWID' in command('runs', 'import', '-').err
    assert not (folder / 'agent_graph.db').exists()


def test_half_an_export_is_refused_and_a_beginning_is_a_run(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:free')
    lines = command('runs', 'export', run_id).out.splitlines(keepends=True)
    (folder / 'hole.jsonl').write_text(''.join(lines[:2] + lines[3:]))
    done = command('runs', 'import', 'hole.jsonl')
    assert done.code == 2 and 'records are missing or out of order' in done.err and ids(command) == [run_id]
    (folder / 'begin.jsonl').write_text(''.join(lines[:4]))
    assert command('runs', 'import', 'begin.jsonl').code == 0
    assert command('runs', 'resume', 'begin', '--target', 'staff.py:free').code == 0


def test_a_file_that_cannot_be_written(command: Command, new_run: NewRun) -> None:
    done = command('runs', 'export', new_run('staff.py:free'), 'no/such/folder.jsonl')
    assert done.code == 2 and 'cannot be written' in done.err and len(done.err.splitlines()) == 1


# delete, vacuum, cancel


def test_delete_takes_the_runs_inside_along(command: Command, new_run: NewRun) -> None:
    outer, free = new_run('agents.py:outer'), new_run('staff.py:free')
    assert len(ids(command)) == 3
    done = command('runs', 'delete', outer[:-1], 'nothing')
    assert done.code == 2 and len(ids(command)) == 3  # all are found, or nothing is deleted
    assert command('runs', 'delete', outer, '--json').json() == [{'deleted': [outer, f'{outer}:c1:1']}]
    assert ids(command) == [free]
    assert command('runs', 'delete', free).out == f'deleted {free}\n'


def test_a_fork_outlives_what_it_was_made_from(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:free')
    before = load(run_id)
    command('runs', 'fork', run_id, '--at', '4', '--as', 'other')
    command('runs', 'delete', run_id)
    assert load('other') == before[:4]


def test_vacuum_gives_the_space_back(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('agents.py:hello', ' '.join(str(n) for n in range(50_000)))
    command('runs', 'delete', run_id)
    (data,) = command('runs', 'vacuum', '--json').json()
    after = (folder / 'agent_graph.db').stat().st_size
    assert data['after'] == after < data['before'] / 4  # the write-ahead log counts before: it may hold nearly all
    assert 'bytes before' in command('runs', 'vacuum').out


def test_cancel_stops_another_process(
    command: Command, spawn: Callable[..., subprocess.Popen[str]], new_run: NewRun
) -> None:
    process = spawn('run', 'staff.py:slow', 'go', '--json')
    assert process.stdout is not None
    run_id = json.loads(process.stdout.readline())['run_id']
    done = command('runs', 'cancel', run_id)
    assert (done.code, done.out) == (0, f'run {run_id} is cancelled\n')
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert 'had ended before: cancelled' in command('runs', 'cancel', run_id).out
    paused = new_run('staff.py:payer')
    assert command('runs', 'cancel', paused, '--json').json()[0]['status'] == 'cancelled'
    assert command('runs', 'approve', paused, 'c1').code == 2


def test_a_signal_while_nothing_goes_on_needs_no_traceback(
    spawn: Callable[..., subprocess.Popen[str]], new_run: NewRun
) -> None:
    process = spawn('runs', 'tail', new_run('staff.py:payer'), '--json')
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (143, '')


def test_an_id_that_was_forgotten_is_refused(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:free')
    command('runs', 'export', run_id, 'run.jsonl')
    for words in (['fork', run_id], ['import', 'run.jsonl']):
        done = command('runs', *words, '--as', '')
        assert done.code == 2 and done.err == "agent-graph: --as '' is no id; leave it out, or name the run\n"
    assert len(command('runs', 'list', '--json').json()) == 1


def test_a_file_is_named_once(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:free')
    for words, error in (
        (['import', 'no.jsonl'], "'no.jsonl' cannot be read: No such file or directory"),
        (['export', run_id, 'no/run.jsonl'], "'no/run.jsonl' cannot be written: No such file or directory"),
        (['fork', run_id, '--edit', 'no.json'], "--edit 'no.json' cannot be read: No such file or directory"),
    ):
        done = command('runs', *words)
        assert (done.code, done.err) == (2, f'agent-graph: {error}\n')
