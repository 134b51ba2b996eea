"""A program that a test starts, and kills while it runs: `python -m tests.engine.child MODE JOURNAL LOG RUN_ID`.

Tools append one line to LOG when they start and one when they end, so what really ran is seen from outside.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_graph import Agent, AssistantMessage, Message, SQLiteJournal, ToolCallPart, ToolMessage, Usage, tool
from agent_graph.model import RequestInfo
from agent_graph.testing import FunctionModel

__all__ = ['make_agent', 'make_slow_output_agent']


async def answer(messages: Sequence[Message], info: RequestInfo) -> AssistantMessage | str:
    """Two tools in the first response, and then their results as text: a function of the history alone."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return ' and '.join(f'{p.outcome}: {p.content}' for p in last.parts)
    calls = [ToolCallPart('quick', {}, 'q'), ToolCallPart('slow', {}, 's')]
    return AssistantMessage(calls, Usage(input_tokens=10, output_tokens=5), finish_reason='tool_calls')


def make_agent(journal: SQLiteJournal, log: Path, *, on_crash: Any = 'never') -> Agent[None, str]:
    """The agent that is killed and resumed."""

    def note(line: str) -> None:
        with log.open('a') as file:
            file.write(f'{line}\n')

    @tool
    async def quick() -> str:
        note('quick')
        return 'quick done'

    @tool(on_crash=on_crash)
    async def slow() -> str:
        note('slow')
        await asyncio.sleep(float(os.environ.get('SLOW', '60')))
        note('slow ended')
        return 'slow done'

    return Agent(FunctionModel(answer), name='crashing', tools=[quick, slow], journal=journal)


def make_slow_output_agent(journal: SQLiteJournal, log: Path) -> Agent[None, str]:
    """An agent whose output function is in flight when the process dies."""

    async def deliver(text: str) -> str:
        with log.open('a') as file:
            file.write(f'deliver {text}\n')
        await asyncio.sleep(float(os.environ.get('SLOW', '60')))
        return f'delivered {text}'

    async def ask(messages: Sequence[Message], info: RequestInfo) -> list[ToolCallPart]:
        return [ToolCallPart('final_result', {'text': f'letter {len(messages)}'}, f'c{len(messages)}')]

    return Agent(FunctionModel(ask), output_type=deliver, journal=journal)


async def main(mode: str, path: str, log: str, run_id: str) -> None:
    """Run `mode` until somebody kills this process (or, in mode `suicide`, until it does so itself)."""
    journal = SQLiteJournal(path)
    if mode == 'output':
        await make_slow_output_agent(journal, Path(log)).run('deliver it', run_id=run_id)
    elif mode == 'step':
        async with make_agent(journal, Path(log)).iter('go', run_id=run_id) as run:
            await run.next()
            await run.next()
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # noqa: ASYNC251 (it is dead by then)
    else:
        await make_agent(journal, Path(log), on_crash=mode).run('go', run_id=run_id)


if __name__ == '__main__':
    asyncio.run(main(*sys.argv[1:5]))
