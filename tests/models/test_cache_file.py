"""Whatever is wrong with a cache's file, no run fails for it, and nothing but registered data is built from it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agent_graph.errors import ConfigError
from agent_graph.messages import (
    UserMessage,
)
from agent_graph.models import CachedModel
from tests.engine.kit import go
from tests.models.kit import Faulty, ask, by_prompt, cached, text_of


def damage_all(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:100] + b'\0' * (len(data) - 100))


def damage_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[200:] = os.urandom(len(data) - 200)
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize('damage', [damage_all, damage_middle, cut])
def test_a_damaged_file_is_moved_aside(path: Path, damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    cached(Faulty(['a' * 20_000]), path)
    damage(path)
    model = Faulty(['new'])
    assert [text_of(m) for m in cached(model, path)] == ['new', 'new']
    assert len(model.requests) == 1
    aside = [f.name for f in path.parent.iterdir() if 'damaged' in f.name]
    assert len(aside) == 1 and 'was damaged' in caplog.text and aside[0] in caplog.text


def test_a_file_that_is_damaged_while_it_is_used(path: Path) -> None:
    async def main() -> None:
        model, asked = by_prompt(20_000)
        async with CachedModel(model, path) as cache:
            for prompt in 'abc':
                await ask(cache, [UserMessage(prompt)])
            with sqlite3.connect(path) as db:
                db.execute('PRAGMA wal_checkpoint(TRUNCATE)')
            db.close()
            damage_middle(path)
            for prompt in 'abcabc':
                assert text_of(await ask(cache, [UserMessage(prompt)]))[0] == prompt
            assert len(asked) <= 6 + 3
            assert await cache.count() == 3

    go(main())


def test_a_file_that_is_removed_while_it_is_used(path: Path) -> None:
    async def main() -> None:
        model, _ = by_prompt()
        async with CachedModel(model, path) as cache:
            await ask(cache, [UserMessage('a')])
            for file in list(path.parent.iterdir()):
                file.unlink()
            for prompt in 'abab':
                assert text_of(await ask(cache, [UserMessage(prompt)])) == prompt

    go(main())


def change(path: Path, statement: str, *values: Any) -> None:
    db = sqlite3.connect(path)
    db.execute(statement, values)
    db.commit()
    db.close()


PICKLE = b"\x80\x04cos\nsystem\n(S'touch /tmp/owned'\ntR."


@pytest.mark.parametrize(
    'stored_bytes',
    [
        b'',
        b'null',
        b'[]',
        b'{"v": 1}',
        b'{"v": 2, "response": {"kind": "assistant", "parts": []}}',
        b'{"v": 1, "response": {"kind": "user", "content": "x"}}',
        b'{"v": 1, "response": {"kind": "assistant", "parts": [{"kind": "os.system", "args": "x"}]}}',
        b'{"v": 1, "response": {"kind": "assistant", "parts": [], "__class__": "os.system"}}',
        b'{"v": 1, "response": {"kind": "assistant", "parts": [], "usage": {"input_tokens": "7"}}}',
        b'[' * 100_000,
        b'{"v": 1, "response": {"kind": "assistant", "parts": [{"kind": "text", "content": "Hi"}',
        b'!!python/object/apply:os.system ["x"]',
        PICKLE,
        b'\xff\xfe',
    ],
    ids=lambda b: b[:30].decode('latin-1'),
)
def test_an_answer_that_is_none_is_a_miss(path: Path, stored_bytes: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Case 29: only registered data is ever built from what is stored, and anything else is asked for again."""
    cached(Faulty(['old']), path, requests=1)
    change(path, 'UPDATE answers SET answer = ?', stored_bytes)
    model = Faulty(['new'])
    assert [text_of(m) for m in cached(model, path)] == ['new', 'new']
    assert len(model.requests) == 1 and 'is damaged and is asked for again' in caplog.text
    assert not Path('/tmp/owned').exists()


def test_a_table_of_another_shape_is_a_miss(path: Path) -> None:
    cached(Faulty(['old']), path, requests=1)
    db = sqlite3.connect(path)
    db.executescript(
        'ALTER TABLE answers RENAME TO hidden; CREATE TABLE answers (key, answer, stored, used, expires);'
        "INSERT INTO answers SELECT key, 'a text', 'soon', NULL, x'00' FROM hidden"
    )
    db.close()
    assert text_of(cached(Faulty(['new']), path, requests=1)[0]) == 'new'
    change(path, 'DROP TABLE answers')
    model = Faulty(['newer'])
    assert [text_of(m) for m in cached(model, path)] == ['newer', 'newer']


def test_somebody_elses_database_is_left_alone(path: Path, tmp_path: Path) -> None:
    mine = tmp_path / 'mine.db'
    change(mine, 'CREATE TABLE precious (x)')
    before = mine.read_bytes()
    with pytest.raises(ConfigError, match='another application'):
        cached(Faulty(['x']), mine)
    assert mine.read_bytes() == before

    cached(Faulty(['x']), path)
    change(path, 'PRAGMA user_version = 99')
    with pytest.raises(ConfigError, match='newer agent_graph'):
        cached(Faulty(['x']), path)


@pytest.mark.parametrize(
    'content',
    [
        b'this is no database, whatever it is called' * 100,
        b'x',
        b'\0' * 5000,
        b'SQLite format 3\0' + bytes(84) + b'damaged, and made by somebody else' * 100,
    ],
    ids=['text', 'short', 'zeros', 'damaged'],
)
def test_a_file_that_was_never_a_cache_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    model = Faulty(['x'])
    for _ in range(2):
        with pytest.raises(ConfigError, match=r'cache.db is .*no cache; it was left as it is: name another file'):
            cached(model, path)
    assert path.read_bytes() == content and [f.name for f in path.parent.iterdir()] == ['cache.db']
    assert not model.requests


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no folder '.*nowhere' for the cache; make it"):
        cached(Faulty(['x']), tmp_path / 'nowhere' / 'cache.db')
    assert not (tmp_path / 'nowhere').exists()


def test_a_folder_that_is_removed_while_it_is_used(path: Path) -> None:
    async def main() -> None:
        async with CachedModel(Faulty(['new', 'new']), path) as cache:
            assert text_of(await ask(cache)) == 'new'
        shutil.rmtree(path.parent)
        assert text_of(await ask(cache)) == 'new', 'a run goes on'
        await cache.close()

    go(main())


def test_a_folder_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / 'file').write_text('in the way')
    model = Faulty(['Hi'])
    assert [text_of(m) for m in cached(model, tmp_path / 'file' / 'cache.db', requests=3)] == ['Hi'] * 3
    assert len(caplog.records) == 1, 'it is told once'
    (tmp_path / 'folder').mkdir()
    assert text_of(cached(model, tmp_path / 'folder', requests=1)[0]) == 'Hi'


def test_a_file_that_another_holds(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cached(Faulty(['old']), path, requests=1)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute('BEGIN IMMEDIATE')
    model = Faulty(['new'])

    async def main() -> None:
        async with CachedModel(model, path, timeout=0.05) as cache:
            assert text_of(await ask(cache)) == 'old'  # readers do not wait for writers
            assert text_of(await ask(cache, [UserMessage('other')])) == 'new'  # it could not be stored
            assert text_of(await ask(cache, [UserMessage('other')])) == 'new'

    go(main())
    db.close()
    assert len(model.requests) == 2 and 'locked' in caplog.text
