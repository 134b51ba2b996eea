"""Some calls need a person's yes: the run pauses, its process ends, and another one answers later.

    python examples/approval.py

Three invoices are to be paid. A small one is paid at once; the others wait, because the rule says so. The first process
ends there. The second one lists what waits, allows one payment with another amount, and denies the other. The model asks
for the denied one again and is told that it will not happen. The model is a function, so the example needs no network.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from agent_graph import (
    Agent,
    AnswerError,
    Message,
    RunContext,
    SQLiteJournal,
    ToolApproved,
    ToolCallPart,
    ToolDenied,
    ToolMessage,
    ToolReturnPart,
)
from agent_graph.model import RequestInfo
from agent_graph.testing import FunctionModel

RUN_ID = 'invoices-may'
INVOICES = {'paper': 20, 'server': 900, 'yacht': 70_000}


async def bookkeeper(messages: Sequence[Message], info: RequestInfo) -> list[ToolCallPart] | str:
    """Stands in for a model: pays everything at once, tries again what was denied, then reports."""
    answered = [part for message in messages if isinstance(message, ToolMessage) for part in message.parts]
    if not answered:
        return [pay_call(name, euros) for name, euros in INVOICES.items()]
    denied = [part for part in answered if part.outcome == 'denied']
    if len(denied) == 1:
        return [pay_call('yacht', INVOICES['yacht'])]
    return report(answered)


def pay_call(name: str, euros: int) -> ToolCallPart:
    return ToolCallPart('pay', {'invoice': name, 'euros': euros})


def report(answered: list[ToolReturnPart]) -> str:
    return '; '.join(f'{part.outcome}: {part.content}' for part in answered)


def above_100(ctx: RunContext[Path], arguments: dict[str, Any]) -> bool:
    return arguments['euros'] > 100


def make_agent(folder: Path) -> Agent[Path, str]:
    agent = Agent(
        FunctionModel(bookkeeper), name='bookkeeper', deps_type=Path, journal=SQLiteJournal(folder / 'runs.db')
    )

    @agent.tool(requires_approval=above_100)
    async def pay(ctx: RunContext[Path], invoice: str, euros: int) -> str:
        """Pay an invoice."""
        with ctx.deps.open('a') as ledger:
            ledger.write(f'{invoice} {euros}\n')
        return f'{invoice} paid, {euros} euros'

    return agent


async def start(folder: Path) -> None:
    result = await make_agent(folder).run('Pay the invoices.', deps=folder / 'ledger.txt', run_id=RUN_ID)
    print('status:', result.status)


async def decide(folder: Path) -> None:
    agent, ledger = make_agent(folder), folder / 'ledger.txt'
    waiting = (await agent.resume(RUN_ID, deps=ledger)).pending
    for pending in waiting:
        print('waits:', pending.tool_name, pending.args)
    server, yacht = waiting
    try:
        await agent.resume(RUN_ID, deps=ledger, answers={server: cast('Any', 'yes')})
    except AnswerError as error:
        print('refused:', error)
    correct = ToolApproved(override_args={'invoice': 'server', 'euros': 850})
    answers = {server: correct, yacht: ToolDenied('We do not own a yacht.')}
    result = await agent.resume(RUN_ID, deps=ledger, answers=answers)
    print('status:', result.status)
    print('output:', result.output)
    print('ledger:', ledger.read_text().strip().replace('\n', ', '))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for step in ('start', 'decide'):
            print(f'-- {step} in a process of its own', flush=True)
            subprocess.run([sys.executable, __file__, step, name], check=True)


if __name__ == '__main__':
    if len(sys.argv) == 3:
        asyncio.run({'start': start, 'decide': decide}[sys.argv[1]](Path(sys.argv[2])))
    else:
        main()
