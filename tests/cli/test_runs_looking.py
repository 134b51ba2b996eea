"""`agent-graph runs list`, `show`, `steps`, `graph` and `tail`: what is in a journal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from agent_graph.engine.state import fold
from agent_graph.journal.entries import Record
from agent_graph.journal.sqlite import SQLiteJournal
from agent_graph.messages import dump_json

Command = Callable[..., Any]
NewRun = Callable[..., str]


def load(run_id: str, path: str = 'agent_graph.db') -> list[Record]:
    async def read() -> list[Record]:
        async with SQLiteJournal(path) as journal:
            return await journal.load(run_id)

    return asyncio.run(read())


def test_list_shows_runs_the_newest_first(command: Command, new_run: NewRun) -> None:
    first, second = new_run('staff.py:free'), new_run('staff.py:payer')
    lines = command('runs', 'list').out.splitlines()
    assert lines[0].split() == ['run', 'agent', 'status', 'began', 'entries']
    assert re.fullmatch(rf'{second}  payer  paused     \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  5', lines[1])
    assert re.fullmatch(rf'{first}  free   completed  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  9', lines[2])


def test_list_as_json_is_one_run_a_line(command: Command, new_run: NewRun) -> None:
    run_id = new_run('agents.py:outer')
    inner, outer = command('runs', 'list', '--json').json()
    assert outer['run_id'] == run_id and outer['status'] == 'completed' and outer['agent'] == 'outer'
    assert outer['parent'] is None and outer['forked_from'] is None and outer['entries'] == len(load(run_id))
    assert time.time() - 60 < outer['created'] <= outer['updated'] <= time.time()
    assert inner['parent'] == {'run_id': run_id, 'tool_call_id': 'c1'}
    assert f'inside {run_id}, call c1' in command('runs', 'list').out
    for limit in ('0', '1'):
        (only,) = command('runs', 'list', '--json', '--outermost', '--limit', limit).json()
        assert only == outer


def test_list_filters(command: Command, new_run: NewRun) -> None:
    free, payer = new_run('staff.py:free'), new_run('staff.py:payer')

    def ids(*options: str) -> list[str]:
        return [run['run_id'] for run in command('runs', 'list', '--json', *options).json()]

    assert ids() == [payer, free]
    assert ids('--status', 'paused') == [payer]
    assert ids('--agent', 'free') == [free]
    assert ids('--limit', '1') == [payer] and ids('--limit', '0') == [payer, free]
    assert ids('--since', '1h') == [payer, free] and ids('--since', '2000-01-01') == [payer, free]
    assert ids('--since', '2999-01-01T00:00') == []
    assert '--limit 2 shows more' in command('runs', 'list', '--limit', '1').out
    assert command('runs', 'list', '--status', 'failed').out == 'no runs\n'
    assert command('runs', 'list', '--since', 'yesterday').code == 2


def test_a_journal_that_is_not_there_is_not_made(command: Command, folder: Path) -> None:
    done = command('runs', 'list')
    assert done.code == 2 and done.out == ''
    assert done.err.startswith("agent-graph: there is no journal 'agent_graph.db'; pass --journal PATH")
    assert not (folder / 'agent_graph.db').exists()


def test_another_journal_in_the_folder_is_suggested(command: Command, new_run: NewRun, folder: Path) -> None:
    run_id = new_run('staff.py:free', 'go', '--journal', 'runs.db')
    (folder / 'other.db').write_text('no journal at all')
    with sqlite3.connect('foreign.db') as db:
        db.execute('CREATE TABLE things (name TEXT)')
    db.close()
    os.mkfifo('pipe.db')  # opening it would wait for ever
    for words in (['list'], ['show', run_id], ['resume', run_id, '--target', 'staff.py:free']):
        done = command('runs', *words)
        assert done.code == 2 and done.err == (
            "agent-graph: there is no journal 'agent_graph.db'; there is 'runs.db': pass --journal runs.db, or set "
            'AGENT_GRAPH_JOURNAL, to say where the runs are\n'
        )
    (folder / 'sub').mkdir()
    new_run('staff.py:free', 'go', '--journal', 'sub/a.db')
    assert "there is 'sub/a.db': pass --journal sub/a.db" in command('runs', 'list', '--journal', 'sub/b.db').err
    new_run('staff.py:free', 'go', '--journal', 'more.db')
    assert "there are 'more.db', 'runs.db': pass --journal PATH" in command('runs', 'list').err


def test_an_empty_journal_tells_of_the_other_one(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:free', 'go', '--journal', 'runs.db')
    deleted = new_run('staff.py:free')
    command('runs', 'delete', deleted)
    assert command('runs', 'list').out == "no runs; there is 'runs.db', see --journal\n"
    assert command('runs', 'list', '--status', 'failed').out == 'no runs\n'  # of this kind
    assert command('runs', 'list', '--json').out == ''
    err = command('runs', 'show', run_id).err
    assert err.endswith("in journal 'agent_graph.db'; it holds no runs; there is 'runs.db', see --journal\n")


def test_the_journal_may_be_named(
    command: Command, new_run: NewRun, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = new_run('staff.py:payer', 'go', '--journal', 'sub.db')
    done = command('runs', 'show', run_id, '--journal', 'sub.db')
    assert f'agent-graph runs approve {run_id} c1 --journal sub.db' in done.out
    monkeypatch.setenv('AGENT_GRAPH_JOURNAL', 'sub.db')
    done = command('runs', 'show', run_id)
    assert f'agent-graph runs approve {run_id} c1\n' in done.out  # the setting is there the next time too


@pytest.mark.parametrize('content', [b'no database at all, but text', b'SQLite format 3\x00' + b'\xff' * 200])
def test_a_file_that_is_no_journal_is_one_line(command: Command, folder: Path, content: bytes) -> None:
    (folder / 'agent_graph.db').write_bytes(content)
    done = command('runs', 'list')
    assert done.code == 2 and re.fullmatch('agent-graph: JournalUnavailable: .*\n', done.err)


def test_an_id_may_be_shortened(command: Command, new_run: NewRun) -> None:
    run_id = new_run('agents.py:outer')  # the run inside has an id that begins the same
    assert command('runs', 'show', run_id[:20], '--json').json()[0]['run_id'] == run_id
    inner = command('runs', 'show', f'{run_id}:', '--json').json()[0]
    assert inner['run_id'] == f'{run_id}:c1:1'


def test_a_bad_id_gives_one_line_and_the_nearest_ids(command: Command, new_run: NewRun) -> None:
    done = command('runs', 'show', 'x')
    assert done.code == 2  # no journal yet
    first, second = new_run('staff.py:free'), new_run('staff.py:free')
    for command_line in (['show'], ['steps'], ['graph'], ['tail'], ['export'], ['fork'], ['delete'], ['cancel']):
        done = command('runs', *command_line, first[:-3] + 'zzz')
        assert done.code == 2 and done.out == ''
        assert re.fullmatch(
            f"agent-graph: there is no run '{first[:-3]}zzz' .*; did you mean .*'{first}'.*\n", done.err
        )
    slip = 'z' + second[1:12]
    hint = re.search(rf"there is no run '{slip}'.*did you mean (.*)", command('runs', 'show', slip).err)
    assert hint is not None and second in hint[1]
    both = command('runs', 'show', first[:5])
    assert both.code == 2 and f"'{first[:5]}' begins 2 run ids: '{second}', '{first}'; give more of it" in both.err
    assert "the newest: '" in command('runs', 'show', '').err


def test_show_tells_how_a_run_stands(command: Command, new_run: NewRun) -> None:
    out = command('runs', 'show', new_run('agents.py:weather', 'Bern?')).out
    for line in (
        'agent    weather',
        'status   completed',
        'entries  9',
        'prompt   Bern?',
        'model    openai:gpt-5-mini',
    ):
        assert f'{line}\n' in out
    assert re.search(r'^usage    2 requests, 1 tool call · 2,500 \+ 50 tokens$', out, re.M)
    assert re.search(r"^│  └─ look\(city='Bern'\)  → {'sky': 'clear'}", out, re.M)
    assert out.endswith('output:\n{\n  "city": "Bern",\n  "sky": "clear"\n}\n')
    failed = command('runs', 'show', new_run('agents.py:broken')).out
    assert re.search(r'^failed: ToolFailed: .*the disk is full', failed, re.M)


def test_show_tells_what_a_run_waits_for_and_what_to_type(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:clerk')
    done = command('runs', 'show', run_id)
    for words in ('approve {} c1', "deny {} c1 'why'", "answer {} c2 'the answer'", "answer {} c3 'the result'"):
        assert f'agent-graph runs {words.format(run_id)}\n' in done.out
    assert done.out.endswith(f'agent-graph runs resume {run_id} --target module:variable\n')
    (data,) = command('runs', 'show', run_id, '--json').json()
    assert [(p['tool_call_id'], p['reason']) for p in data['pending']] == [
        ('c1', 'approval'),
        ('c2', 'question'),
        ('c3', 'external'),
    ]


def test_show_as_json_holds_the_conversation(command: Command, new_run: NewRun) -> None:
    run_id = new_run('agents.py:weather', 'Bern?')
    (data,) = command('runs', 'show', run_id, '--json').json()
    state = fold(run_id, load(run_id))
    assert {'v': data['v'], 'messages': data['messages']} == json.loads(dump_json(state.messages))
    assert data['output'] == {'city': 'Bern', 'sky': 'clear'} and data['usage']['requests'] == 2
    assert float(data['cost']) > 0 and data['error'] is None and data['at'] == 9
    (early,) = command('runs', 'show', run_id, '--at', '4', '--json').json()
    assert early['at'] == 4 and early['status'] == 'running' and len(early['messages']) == 2
    assert 'entries  the first 4 of 9' in command('runs', 'show', run_id, '--at', '4').out
    assert command('runs', 'show', run_id, '--at', '10').code == 2
    text = command('runs', 'show', run_id, '--messages').out
    assert (
        "  0 user: Bern?\n  1 thinking: Which city?\n  1 text: I look it up.\n  1 call c1: look(city='Bern')\n" in text
    )


def test_steps_number_the_entries(command: Command, new_run: NewRun) -> None:
    run_id = new_run('agents.py:weather', 'Bern?')
    lines = command('runs', 'steps', run_id).out.splitlines()
    assert [re.sub(r'  [\d.]+ m?s.*', '', line) for line in lines] == [
        '   2  1 UserPrompt  Bern?',
        '   3  2 ModelRequest  Bern?',
        '   4  3 HandleResponse  I look it up. · 1 tool call',
        "        look(city='Bern')  → {'sky': 'clear'}",
        '   7  4 ModelRequest  1 tool result',
        '   8  5 HandleResponse  1 tool call',
        "        final_result(city='Bern', sky='clear')  → Final result processed.  (call c2)",
        "   9  End  completed: {'city': 'Bern', 'sky': 'clear'}",
    ]
    steps = command('runs', 'steps', run_id, '--json').json()
    nodes = [r for r in load(run_id) if r.entry.kind == 'entered']
    assert [s['seq'] for s in steps] == [r.seq for r in nodes]
    assert steps[2]['calls'][0]['result'] == {'sky': 'clear'} and steps[1]['usage']['input_tokens'] == 1200
    assert len(command('runs', 'steps', run_id, '--at', '3', '--json').json()) == 2


def test_graph_in_all_its_forms(command: Command, new_run: NewRun) -> None:
    run_id = new_run('staff.py:payer')
    mermaid = command('runs', 'graph', run_id).out
    assert mermaid.startswith('---\ntitle: "payer"\n---\nflowchart TD\n') and 'class S3,S3C1 current' in mermaid
    assert '└─ 3 HandleResponse' in command('runs', 'graph', run_id, '--format', 'text').out
    ElementTree.fromstring(command('runs', 'graph', run_id, '--format', 'svg').out)
    (data,) = command('runs', 'graph', run_id, '--json').json()
    assert data['boxes'][-1]['mark'] == 'current' and data['links'][0] == {
        'source': 'S1',
        'target': 'S2',
        'label': '',
        'dashed': False,
    }
    assert data['mermaid'].rstrip() == mermaid.rstrip()


def test_tail_shows_every_entry(command: Command, new_run: NewRun) -> None:
    run_id = new_run('agents.py:weather', 'Bern?')
    done = command('runs', 'tail', run_id)
    rows = [re.fullmatch(r' *(\d+)  \d\d:\d\d:\d\d\.\d{3}  (\S+) *(.*)', line) for line in done.out.splitlines()]
    assert done.code == 0 and [int(row[1]) for row in rows if row] == list(range(1, 10))
    assert [row[2] for row in rows if row] == [r.entry.kind for r in load(run_id)]
    assert rows[3] and rows[3][3] == "HandleResponse · I look it up. · look(city='Bern')"
    exported = command('runs', 'export', run_id)
    assert command('runs', 'tail', run_id, '--json').json() == [json.loads(line) for line in exported.out.splitlines()]
    later = command('runs', 'tail', run_id, '--after', '7', '--json').json()
    assert [line['seq'] for line in later] == [8, 9]
    assert command('runs', 'tail', run_id, '--after', '9').out == ''


def test_tail_does_not_wait_if_told_so(command: Command, new_run: NewRun) -> None:
    done = command('runs', 'tail', new_run('staff.py:payer'), '--no-follow')
    assert done.code == 0 and done.out.splitlines()[-1].endswith('paused        pay waits for approval  (call c1)')


def test_tail_follows_another_process_to_the_end(spawn: Callable[..., subprocess.Popen[str]], folder: Path) -> None:
    running = spawn('run', 'staff.py:slow', 'go', '--json')
    assert running.stdout is not None
    run_id = json.loads(running.stdout.readline())['run_id']
    wait_for(folder / 'waiting')
    tail = spawn('runs', 'tail', run_id, '--json')
    assert tail.stdout is not None
    seen = [json.loads(tail.stdout.readline()) for _ in range(5)]
    assert seen[-1]['entry']['kind'] == 'call_started'  # and more is to come
    (folder / 'go').touch()
    rest, err = tail.communicate(timeout=30)
    running.communicate(timeout=30)
    kinds = [json.loads(line)['entry']['kind'] for line in rest.splitlines()]
    assert (tail.returncode, err) == (0, '') and kinds[0] == 'call_finished' and kinds[-1] == 'ended'


def test_tail_is_left_with_ctrl_c(spawn: Callable[..., subprocess.Popen[str]], new_run: NewRun) -> None:
    tail = spawn('runs', 'tail', new_run('staff.py:payer'))
    assert tail.stdout is not None
    while 'paused' not in tail.stdout.readline():
        pass
    tail.send_signal(signal.SIGINT)
    _, err = tail.communicate(timeout=30)
    assert (tail.returncode, err) == (130, '')


def wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, f'{path} never appeared'
        time.sleep(0.02)
