"""An order is taken, its process is killed with `kill -9` twice, and it is finished all the same.

    python examples/crash_demo.py          (or: make crash-demo)

Three processes work on one run, one after the other; the first two are killed in the middle of their tools. A ledger on
disk, outside the engine, counts what really happened: nothing that had finished happens twice, and what was in flight
follows the rule of its tool. The model is a function of the conversation, so no network is needed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent_graph import (
    Agent,
    AssistantMessage,
    Message,
    RequestInfo,
    Retry,
    RunContext,
    SQLiteJournal,
    ToolCallPart,
    ToolReturn,
)
from agent_graph.testing import FunctionModel

RUN_ID = 'order-17'
TURNS = [
    [ToolCallPart('charge', {'euros': 40})],
    [ToolCallPart('pack', {'parcel': n}) for n in (1, 2, 3)],
    [ToolCallPart('mail', {'text': 'On its way.'})],
]


def make_agent(folder: Path) -> Agent:
    """The same agent in every process; its journal is a file."""
    ledger = folder / 'ledger.txt'

    def note(line: str) -> None:
        with ledger.open('a') as file:
            file.write(f'{line}\n')
        print(f'     process {os.getpid()}: {line}', flush=True)

    async def clerk(messages: Sequence[Message], info: RequestInfo) -> list[ToolCallPart] | str:
        """Stands in for a model: what it says depends on the conversation alone."""
        turn = sum(isinstance(m, AssistantMessage) for m in messages)
        note(f'model answers request {turn + 1}')
        return TURNS[turn] if turn < len(TURNS) else 'Order 17 is on its way.'

    async def look_up(ctx: RunContext, call: ToolCallPart) -> ToolReturn | Retry:
        """The bank knows whether it was charged; here the ledger does."""
        found = 'charge: 40 euros' in ledger.read_text()
        print(
            f'     process {os.getpid()}: was it charged? {"yes: not again" if found else "no: once more"}', flush=True
        )
        return ToolReturn('charged') if found else Retry()

    agent = Agent(FunctionModel(clerk), name='shop', journal=SQLiteJournal(folder / 'orders.db'))

    @agent.tool(on_crash=look_up)
    async def charge(euros: int) -> str:
        """Charge the customer. Must not happen twice."""
        note(f'charge: {euros} euros')
        await asyncio.sleep(0.5)
        return 'charged'

    @agent.tool(on_crash='retry')
    async def pack(parcel: int) -> str:
        """Pack a parcel. Packing it again does no harm."""
        note(f'pack: parcel {parcel} begun')
        await asyncio.sleep(0.3 if parcel == 1 else 1.2)
        note(f'pack: parcel {parcel} done')
        return f'parcel {parcel} packed'

    @agent.tool(on_crash='never')
    async def mail(text: str) -> str:
        """Send a mail. Better none than two."""
        note(f'mail: {text}')
        return 'sent'

    return agent


async def work(folder: Path, begin: bool) -> None:
    """What each process does: begin the run, or go on with it."""
    agent = make_agent(folder)
    result = await (agent.run('Order 17, please.', run_id=RUN_ID) if begin else agent.resume(RUN_ID))
    print(f'     output: {result.output}')
    print(f'     usage:  {result.usage.requests} requests, {result.usage.tool_calls} tool calls')


def run_and_kill(folder: Path, step: str, after: str, pause: float) -> None:
    """Start a process and kill it `pause` seconds after it has noted `after`."""
    ledger = folder / 'ledger.txt'
    worker = subprocess.Popen([sys.executable, __file__, step, str(folder)])
    while not (ledger.exists() and after in ledger.read_text()):
        if worker.poll() is not None:
            raise SystemExit(f'process {worker.pid} ended before it came to {after!r}')
        time.sleep(0.01)
    time.sleep(pause)
    print(f'   $ kill -9 {worker.pid}', flush=True)
    worker.send_signal(signal.SIGKILL)
    worker.wait()


def show_counters(ledger: str) -> None:
    """What the model asked for, and what happened."""
    asked = {name: sum(c.tool_name == name for turn in TURNS for c in turn) for name in ('charge', 'pack', 'mail')}
    rows = [('model', len(TURNS) + 1, ledger.count('model answers'), 'no answer was asked for again')]
    rows.append(('charge', asked['charge'], ledger.count('charge:'), 'was in flight at the first kill: looked up'))
    rows.append(('pack', asked['pack'], ledger.count('begun'), 'two were in flight at the second kill: repeated'))
    rows.append(('', asked['pack'], ledger.count('done'), 'parcel 1 had finished: not packed again'))
    rows.append(('mail', asked['mail'], ledger.count('mail:'), ''))
    print('               wanted   happened')
    for name, wanted, happened, remark in rows:
        print(f'     {name:8} {wanted:8} {happened:10}   {remark}'.rstrip())


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print('1. An order is taken. The process is killed while the customer is being charged.')
        run_and_kill(folder, 'begin', 'charge:', 0.1)
        print('2. Another process resumes the run, and is killed while it packs: one parcel is done, two are not.')
        run_and_kill(folder, 'resume', 'parcel 1 done', 0.3)
        print('3. A third process resumes it, and is left alone.')
        subprocess.run([sys.executable, __file__, 'resume', name], check=True)
        print('4. What happened, counted outside the engine:')
        show_counters((folder / 'ledger.txt').read_text())


if __name__ == '__main__':
    if len(sys.argv) == 3:
        asyncio.run(work(Path(sys.argv[2]), sys.argv[1] == 'begin'))
    else:
        main()
