"""A run that was killed or given up in the middle of a wait goes on where it was, with its journal on disk."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent, AllModelsFailed, Message, RequestInfo, SQLiteJournal, ToolCallPart
from agent_graph.model import ResponseBuilder
from agent_graph.models import Backoff, CachedModel, FallbackModel, RetryingModel
from agent_graph.testing import FunctionModel
from tests.engine.kit import go, settle
from tests.models.kit import busy

PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.models.test_resuming import Overloaded, make_agent
from agent_graph import SQLiteJournal

folder = Path(sys.argv[1])

async def main():
    async with SQLiteJournal(folder / 'runs.db') as journal:
        agent = make_agent(journal, folder, Overloaded(folder / 'asked'))
        await agent.run('How is it?', run_id='r')

asyncio.run(main())
"""


def note(file: Path, line: str) -> None:
    with file.open('a') as log:
        log.write(f'{line}\n')


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


class Overloaded:
    """A model that calls a tool, and then is overloaded for good; it writes down when it is asked."""

    name, provider = 'overloaded', 'test'

    def __init__(self, asked: Path) -> None:
        self.asked = asked

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        note(self.asked, str(len(messages)))
        if len(messages) > 1:
            raise busy(529)
        await out.part(ToolCallPart('look', {}, 'c1'))
        out.finish_reason = 'tool_calls'


def make_agent(journal: SQLiteJournal, folder: Path, model: Any, **options: Any) -> Agent[None, str]:
    """An agent that waits for a minute after the first failure, and says so."""

    async def sleep(seconds: float) -> None:
        note(folder / 'waits', 'waiting')
        await asyncio.sleep(60)

    def look() -> str:
        """Look out of the window."""
        note(folder / 'ran', 'look')
        return 'sun'

    options = {'backoff': Backoff(jitter=0), 'sleep': sleep, **options}
    cached = CachedModel(model, folder / 'cache.db')
    return Agent(RetryingModel(FallbackModel([cached]), **options), name='kept', tools=[look], journal=journal)


def reply(messages: Sequence[Message], info: RequestInfo) -> str:
    return f'It is {messages[-1].parts[0].content}.'  # pyright: ignore


async def until_it_waits(folder: Path, child: subprocess.Popen[str] | None = None) -> None:
    for _ in range(3000):
        if lines(folder / 'waits'):
            return
        assert child is None or child.poll() is None, child.stderr and child.stderr.read()
        await asyncio.sleep(0.01)
    raise AssertionError('it did not come to its wait')


async def resumed(folder: Path) -> Any:
    async with SQLiteJournal(folder / 'runs.db') as journal:
        agent = make_agent(journal, folder, FunctionModel(reply))
        return await agent.resume('r')


def test_killed_while_it_waits(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, '-c', PROGRAM, str(tmp_path)], stderr=subprocess.PIPE, text=True)

    asyncio.run(until_it_waits(tmp_path, child))
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert lines(tmp_path / 'asked') == ['1', '3']

    result = go(resumed(tmp_path))
    assert result.output == 'It is sun.'
    assert lines(tmp_path / 'ran') == ['look']  # the tool had finished, so it is not run again
    assert [m.kind for m in result.messages] == ['user', 'assistant', 'tool', 'assistant']
    assert result.usage.requests == 2  # the request is the one that was begun before the kill


def test_given_up_while_it_waits(tmp_path: Path) -> None:
    """A process that ends in good order cancels its runs: such a run has ended, and its history goes on."""

    async def main() -> None:
        async with SQLiteJournal(tmp_path / 'runs.db') as journal:
            agent = make_agent(journal, tmp_path, Overloaded(tmp_path / 'asked'))
            task = asyncio.create_task(agent.run('How is it?', run_id='r'))
            await until_it_waits(tmp_path)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            stored = await journal.info('r')
            assert stored.status == 'cancelled'

    go(main())


def test_out_of_tries_and_then_resumed_from_its_messages(tmp_path: Path) -> None:
    async def main() -> None:
        async with SQLiteJournal(tmp_path / 'runs.db') as journal:

            async def no_wait(_: float) -> None:
                await settle(1)

            agent = make_agent(journal, tmp_path, Overloaded(tmp_path / 'asked'), tries=3, sleep=no_wait)
            with pytest.raises(AllModelsFailed) as caught:
                await agent.run('How is it?', run_id='r')
            history = caught.value.messages
            assert len(caught.value.tried) == 2 and [m.kind for m in history] == ['user', 'assistant', 'tool']
            agent = make_agent(journal, tmp_path, FunctionModel(reply))
            assert (await agent.run(message_history=history)).output == 'It is sun.'
            assert lines(tmp_path / 'ran') == ['look']

    go(main())
