"""Several processes use one cache file at once, also when it is new, damaged, or one of them is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.models.kit import stored

CHILD = """
import asyncio, json, sys
from agent_graph.messages import UserMessage
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.models import CachedModel
from agent_graph.testing import FunctionModel

path, rounds, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
asked = []

def reply(messages, info):
    asked.append(messages[-1].content)
    return messages[-1].content + 'x' * size

async def main():
    cache = CachedModel(FunctionModel(reply), path, max_entries=30)
    print('ready', flush=True)
    sys.stdin.readline()
    for n in range(rounds):
        out = ResponseBuilder()
        await cache.respond([UserMessage(f'{n % 40}')], RequestInfo(), out)
        text = out.build().parts[0].content
        assert text == f'{n % 40}' + 'x' * size, text[:50]
    await cache.close()
    print(json.dumps([len(asked), cache.hits]))

asyncio.run(main())
"""


def start(path: Path, rounds: int = 100, size: int = 1000) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, '-c', CHILD, str(path), str(rounds), str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == 'ready\n'
    return process


def release(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write('\n')
        process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> Any:
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return json.loads(output), errors


@pytest.mark.parametrize('before', ['nothing', 'damage'])
def test_all_begin_at_the_same_moment(path: Path, before: str) -> None:
    if before == 'damage':
        head = b'SQLite format 3\0' + os.urandom(52) + (0x61676D63).to_bytes(4)
        path.write_bytes(head + os.urandom(50_000))
    processes = [start(path) for _ in range(3)]
    release(processes)
    results = [finish(process) for process in processes]
    assert all(asked + hits == 100 for (asked, hits), _ in results)
    assert sum(hits for (_, hits), _ in results) > 0
    assert 'Traceback' not in ''.join(errors for _, errors in results)
    assert 20 <= stored(path) <= 30


def test_one_is_killed(path: Path) -> None:
    """What a killed process was writing is not there, or there as a whole; the others go on."""
    for _ in range(2):
        victim, survivor = start(path, 100_000, 20_000), start(path, 100, 20_000)
        release([victim, survivor])
        time.sleep(0.1)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        (asked, hits), errors = finish(survivor)
        assert asked + hits == 100 and errors == ''
    assert 0 < stored(path) <= 30


def test_after_a_fork(path: Path) -> None:
    """A child uses a connection of its own; the parent's goes on."""
    code = f"""
import asyncio, os
from agent_graph.messages import UserMessage
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.models import CachedModel
from agent_graph.testing import FunctionModel

cache = CachedModel(FunctionModel(lambda messages, info: messages[-1].content), {str(path)!r})

async def ask(text):
    out = ResponseBuilder()
    await cache.respond([UserMessage(text)], RequestInfo(), out)
    assert out.build().parts[0].content == text

asyncio.run(ask('a'))
child = os.fork()
asyncio.run(ask('a'))
asyncio.run(ask('child' if child == 0 else 'parent'))
assert cache.hits == 1, cache.hits
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(ask('child'))
assert cache.hits == 2
"""
    done = subprocess.run(
        [sys.executable, '-W', 'ignore::DeprecationWarning', '-c', code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert stored(path) == 3
