"""Case 29: loading stored data builds registered data types and nothing else."""

from __future__ import annotations

import json
import pickle
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent, AgentGraphError, CodecError, SQLiteJournal, UserMessage
from agent_graph.engine.state import fold
from agent_graph.journal.codec import decode, decode_record, encode_record
from agent_graph.journal.jsonl import export_run, import_run
from agent_graph.messages import dump_json, load_json
from agent_graph.testing import ReplayModel, ScriptedModel
from tests.engine.kit import Log, call, go


class Trap:
    """Unpickling this leaves a mark."""

    mark: Path | None = None

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def _deep(n: int) -> str:
    return '[' * n + ']' * n


def _payloads() -> dict[str, bytes]:
    marker = {'py/object': 'os.system', 'py/reduce': ['id']}
    texts: dict[str, Any] = {
        'module and class': {'v': 1, 'messages': [{'module': 'os', 'class': 'system', 'args': ['id']}]},
        'type marker': {'v': 1, 'messages': [{'kind': 'os.system', 'content': 'id'}]},
        'jsonpickle': {'v': 1, 'messages': [marker]},
        'langchain': {'v': 1, 'messages': [{'lc': 2, 'type': 'constructor', 'id': ['os', 'system'], 'kwargs': {}}]},
        'extra field': {'v': 1, 'messages': [{'kind': 'user', 'content': 'x', '__class__': 'os.system'}]},
        'extra field above': {'v': 1, 'messages': [], 'import': 'os'},
        'part of no kind': {'v': 1, 'messages': [{'kind': 'assistant', 'parts': [{'kind': 'pickle', 'data': 'gASV'}]}]},
        'kind of another place': {'v': 1, 'messages': [{'kind': 'text', 'content': 'x'}]},
        'no kind': {'v': 1, 'messages': [{'content': 'x'}]},
        'version of tomorrow': {'v': 2, 'messages': []},
        'version as text': {'v': '1', 'messages': []},
        'version true': {'v': True, 'messages': []},
        'no version': {'messages': []},
        'a list': [1, 2],
        'null': None,
        'number for text': {'v': 1, 'messages': [{'kind': 'user', 'content': 5}]},
    }
    made = {name: json.dumps(value).encode() for name, value in texts.items()}
    made['pickle'] = pickle.dumps(Trap())
    made['pickle in base64'] = json.dumps(
        {'v': 1, 'messages': 'gASVHwAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg=='}
    ).encode()
    made['yaml'] = b'!!python/object/apply:os.system ["id"]'
    made['deep'] = f'{{"v": 1, "messages": {_deep(100_000)}}}'.encode()
    made['deep in tool content'] = (
        '{"v": 1, "messages": [{"kind": "tool", "parts": [{"kind": "tool_return", "tool_name": "t", '
        f'"tool_call_id": "1", "content": {_deep(5000)}}}]}}]}}'
    ).encode()
    made['NaN'] = b'{"v": 1, "messages": [{"kind": "user", "content": NaN}]}'
    made['not utf-8'] = b'{"v": 1, "messages": [{"kind": "user", "content": "\xff"}]}'
    made['cut'] = b'{"v": 1, "messages": [{"kind": "user", "cont'
    made['empty'] = b''
    made['two documents'] = b'{"v": 1, "messages": []}{"v": 1, "messages": []}'
    made['reference'] = b'{"v": 1, "messages": [{"$ref": "#/messages"}]}'
    return made


@pytest.mark.parametrize('name', _payloads())
def test_messages(name: str, tmp_path: Path) -> None:
    Trap.mark = tmp_path / 'mark'
    load_json(dump_json([UserMessage('x')]))  # the codec itself loads late
    before = set(sys.modules)
    with pytest.raises(CodecError):
        load_json(_payloads()[name])
    assert not Trap.mark.exists() and set(sys.modules) - before <= {'_strptime'}


def test_a_good_document_still_loads() -> None:
    messages = [UserMessage('x')]
    assert load_json(dump_json(messages)) == messages


ENTRIES: dict[str, Any] = {
    'module and class': {'v': 1, 'entry': {'module': 'os', 'class': 'system'}},
    'unknown kind': {'v': 1, 'entry': {'kind': 'snapshot', 'data': 'gASV'}},
    'unknown version': {'v': 99, 'entry': {'kind': 'started', 'agent': None}},
    'unknown field': {'v': 1, 'entry': {'kind': 'started', 'agent': None, 'on_load': 'os.system'}},
    'unknown message': {
        'v': 1,
        'entry': {'kind': 'entered', 'node': 'HandleResponse', 'response': {'kind': 'os.system'}},
    },
    'wrong type': {'v': 1, 'entry': {'kind': 'entered', 'node': 7}},
    'no entry': {'v': 1},
}


@pytest.mark.parametrize('name', ENTRIES)
def test_entries(name: str) -> None:
    with pytest.raises(CodecError):
        decode(json.dumps(ENTRIES[name]))
    with pytest.raises(CodecError):
        decode_record(json.dumps({'seq': 1, 'time': 0.0, **ENTRIES[name]}))


def _poison(path: Path, seq: int, entry: bytes) -> None:
    with sqlite3.connect(path) as db:
        db.execute('UPDATE records SET entry = ?, large = 0 WHERE seq = ?', (entry, seq))
    db.close()


def _evil_entries(tmp_path: Path) -> dict[str, bytes]:
    Trap.mark = tmp_path / 'mark'
    made = {name: json.dumps(value).encode() for name, value in ENTRIES.items()}
    made['pickle'] = pickle.dumps(Trap())
    made['deep'] = f'{{"v": 1, "entry": {{"kind": "entered", "node": "x", "data": {_deep(50_000)}}}}}'.encode()
    made['node of no graph'] = json.dumps(
        {'v': 1, 'entry': {'kind': 'entered', 'node': 'os.system', 'data': 'id'}}
    ).encode()
    return made


def test_a_poisoned_store(tmp_path: Path) -> None:
    async def main() -> None:
        for number, (name, evil) in enumerate(_evil_entries(tmp_path).items()):
            path = tmp_path / f'{number}.db'
            journal, log = SQLiteJournal(path), Log()
            agent = Agent(ScriptedModel([[call('a')], 'done'] * 2), tools=[log.tool('a')], journal=journal)
            async with agent.iter('go', run_id='r') as run:  # stops in HandleResponse, before the tool
                await run.next()
                await run.next()
                await run.next()
            assert log == ['a']
            last = len(await journal.load('r'))
            await journal.aclose()
            _poison(path, last, evil)
            journal = SQLiteJournal(path)
            agent.journal = journal
            before = set(sys.modules)
            with pytest.raises(AgentGraphError):
                await agent.resume('r')
            if name != 'node of no graph':
                with pytest.raises(CodecError):
                    await journal.load('r')
            assert [r.run_id for r in await journal.runs()] == ['r'], 'listing goes on'
            assert log == ['a'], 'nothing was executed'
            assert not (tmp_path / 'mark').exists() and not {'os.system', 'pickle5'} & (set(sys.modules) - before)
            await journal.aclose()

    go(main())


def test_the_text_form_of_a_run(tmp_path: Path) -> None:
    async def main() -> None:
        journal = SQLiteJournal(tmp_path / 'a.db')
        result = await Agent(ScriptedModel(['done']), journal=journal).run('go')
        records = await journal.load(result.run_id)
        text = export_run(records)
        assert import_run(text) == records
        assert fold(result.run_id, import_run(text)) == result.state
        ReplayModel(import_run(text))
        lines = text.splitlines()
        for evil in _evil_entries(tmp_path).values():
            if b'os.system", "data"' in evil or b'"node": "os.system"' in evil:
                continue  # data, as far as a reader of text can know
            bad = '\n'.join([lines[0], evil.decode('latin-1'), *lines[2:]])
            with pytest.raises(CodecError):
                import_run(bad)
        assert not (tmp_path / 'mark').exists()
        assert decode_record(encode_record(records[0])) == records[0]
        await journal.aclose()

    go(main())


def test_nothing_in_the_package_can_unpickle_or_run_stored_text() -> None:
    for file in (Path(__file__).parents[2] / 'agent_graph').rglob('*.py'):
        text = file.read_text()
        for word in ('import pickle', 'from pickle', 'import marshal', 'yaml', ' eval(', ' exec(', 'import shelve'):
            assert word not in text, f'{word!r} in {file.name}'


def test_what_cannot_be_stored_is_refused_with_a_type() -> None:
    from agent_graph import AssistantMessage, MessageError, TextPart

    class Custom:
        pass

    with pytest.raises(MessageError, match='message 1'):
        dump_json([UserMessage('x'), AssistantMessage([TextPart('x')], provider_details={'x': Custom()})])
