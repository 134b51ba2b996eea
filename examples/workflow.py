"""A workflow of one's own: two agents and a human decision, killed in the middle, resumed, and drawn.

    python examples/workflow.py

`Write` and `Review` run an agent each. `Decide` asks a person: publish, or write it anew? The first process is killed
while the reviewer is at work. The second one goes on there, without asking the writer again, until it needs the person.
Two more bring the decisions. What each process really did is in a ledger outside the engine; at the end the path is shown
as mermaid. The models are functions, so the example needs no network.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic_graph import End, GraphBuilder

from agent_graph import (
    Agent,
    Answer,
    GraphContext,
    GraphNode,
    GraphResult,
    Message,
    SQLiteJournal,
    UserMessage,
    render,
    resume_graph,
    run_graph,
)
from agent_graph.model import RequestInfo
from agent_graph.testing import FunctionModel

RUN_ID = 'issue-1'


@dataclass
class Desk:
    """The handles of this process; they are never stored."""

    ledger: Path
    dies: bool = False

    def note(self, line: str) -> None:
        with self.ledger.open('a') as file:
            file.write(f'{line}\n')


@dataclass
class Notes:
    """What is stored with the run: the remarks so far."""

    remarks: list[str] = field(default_factory=list[str])


def asked(messages: Sequence[Message]) -> str:
    first = messages[0]
    assert isinstance(first, UserMessage)
    return str(first.content)


async def write(messages: Sequence[Message], info: RequestInfo) -> str:
    return f'Graphs are {asked(messages)}.'


async def review(messages: Sequence[Message], info: RequestInfo) -> str:
    return f'{len(asked(messages).split())} words are enough.'


writer = Agent(FunctionModel(write), name='writer')
reviewer = Agent(FunctionModel(review), name='reviewer')


@dataclass
class Write(GraphNode[Notes, Desk, str]):
    angle: str

    async def run(self, ctx: GraphContext[Notes, Desk]) -> Review:
        ctx.deps.note(f'writer asked to be {self.angle}')
        return Review((await writer.run(self.angle)).output)


@dataclass
class Review(GraphNode[Notes, Desk, str]):
    text: str

    async def run(self, ctx: GraphContext[Notes, Desk]) -> Decide:
        ctx.deps.note('reviewer asked')
        if ctx.deps.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        ctx.state.remarks.append((await reviewer.run(self.text)).output)
        return Decide(self.text)


@dataclass
class Decide(GraphNode[Notes, Desk, str]):
    text: str

    async def run(self, ctx: GraphContext[Notes, Desk]) -> Write | End[str]:
        question = f'{self.text} ({ctx.state.remarks[-1]}) Publish?'
        if not await ctx.ask(question, schema=bool):
            return Write('hard')
        number = await ctx.step('print', lambda: print_it(ctx.deps))
        return End(f'{self.text} (no. {number})')


def print_it(desk: Desk) -> int:
    desk.note('printed')
    return 17


builder = GraphBuilder(name='newsroom', state_type=Notes, deps_type=Desk, input_type=Write, output_type=str)
builder.add(
    builder.edge_from(builder.start_node).to(Write),
    builder.node(Write),
    builder.node(Review),
    builder.node(Decide),
)
newsroom = builder.build()


def show(result: GraphResult[str, Notes]) -> None:
    for pending in result.pending:
        print('question:', pending.question)
    print('status:', result.status)
    if result.output:
        print('output:', result.output)
        print('remarks:', result.state.remarks)


async def go_on(step: str, folder: Path) -> None:
    """One process's work: begin, go on after the crash, or bring a decision."""
    desk = Desk(folder / 'ledger.txt', dies=step == 'start')
    async with SQLiteJournal(folder / 'runs.db') as journal:
        if step == 'start':
            await run_graph(newsroom, Write('easy'), state=Notes(), deps=desk, journal=journal, run_id=RUN_ID)
            return
        waiting = await resume_graph(newsroom, RUN_ID, journal=journal, deps=desk)
        if step in ('no', 'yes'):
            answers = {pending: Answer(step == 'yes') for pending in waiting.pending}
            waiting = await resume_graph(newsroom, RUN_ID, journal=journal, deps=desk, answers=answers)
        show(waiting)
        if waiting.status == 'completed':
            print('ledger:', desk.ledger.read_text().strip().replace('\n', ', '))
            print(render.run(await journal.load(RUN_ID)))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for step in ('start', 'resume', 'no', 'yes'):
            print(f'-- {step}, in a process of its own', flush=True)
            done = subprocess.run([sys.executable, __file__, step, name], check=False)
            if step == 'start':
                print('killed' if done.returncode == -signal.SIGKILL else f'exit code {done.returncode}', flush=True)


if __name__ == '__main__':
    if len(sys.argv) == 3:
        asyncio.run(go_on(sys.argv[1], Path(sys.argv[2])))
    else:
        main()
