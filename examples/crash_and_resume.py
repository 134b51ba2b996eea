"""A process is killed while two tools run, one of them finished; another process goes on with the run.

    python examples/crash_and_resume.py

`charge` finished before the kill: its result is in the journal, so it is not run again. `ship` was in flight and is
declared safe to repeat (`on_crash='retry'`), so it is. A ledger on disk, outside the engine, counts what really
happened. The model is a function, so the example needs no network.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agent_graph import Agent, AssistantMessage, Message, SQLiteJournal, TextPart, ToolCallPart, ToolMessage, render
from agent_graph.model import RequestInfo
from agent_graph.testing import FunctionModel

RUN_ID = 'order-17'


async def shop(messages: Sequence[Message], info: RequestInfo) -> AssistantMessage:
    """Stands in for a model: calls both tools at once, then reports."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return AssistantMessage([TextPart('; '.join(str(part.content) for part in last.parts))])
    return AssistantMessage([ToolCallPart('charge', {'euros': 40}), ToolCallPart('ship', {'parcels': 1})])


def make_agent(folder: Path) -> Agent:
    agent = Agent(FunctionModel(shop), name='shop', journal=SQLiteJournal(folder / 'runs.db'))
    ledger = folder / 'ledger.txt'

    def note(line: str) -> int:
        with ledger.open('a') as file:
            file.write(f'{line}\n')
        return ledger.read_text().splitlines().count(line)

    @agent.tool
    async def charge(euros: int) -> str:
        """Charge the customer. Must not happen twice."""
        note('charge')
        return f'charged {euros} euros'

    @agent.tool(on_crash='retry')
    async def ship(parcels: int) -> str:
        """Ship parcels."""
        if note('ship') == 1:
            await asyncio.sleep(0.3)  # by then, the result of charge is in the journal
            os.kill(os.getpid(), signal.SIGKILL)
        return f'shipped {parcels} parcel'

    return agent


async def start(folder: Path) -> None:
    await make_agent(folder).run('Order 17, please.', run_id=RUN_ID)


async def resume(folder: Path) -> None:
    agent = make_agent(folder)
    result = await agent.resume(RUN_ID)
    print('output:', result.output)


async def show(folder: Path) -> None:
    journal = SQLiteJournal(folder / 'runs.db')
    print(render.tree(await journal.load(RUN_ID)))
    print('ledger:', ', '.join((folder / 'ledger.txt').read_text().split()))
    await journal.aclose()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for step in ('start', 'resume'):
            print(f'-- {step} in a process of its own')
            code = subprocess.run([sys.executable, __file__, step, name], check=False).returncode
            print('killed' if code == -signal.SIGKILL else f'exit code {code}')
            asyncio.run(show(Path(name)))


if __name__ == '__main__':
    if len(sys.argv) == 3:
        asyncio.run({'start': start, 'resume': resume}[sys.argv[1]](Path(sys.argv[2])))
    else:
        main()
