"""Files of agents for the command line to find, and ways to call it: in this process, as a real one, at a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_graph.cli import main

AGENTS = '''
from __future__ import annotations

import asyncio

from pydantic import BaseModel

from agent_graph import Agent, AssistantMessage, RunContext, TextPart, ThinkingPart, ToolCallPart, Usage
from agent_graph import ModelHTTPError, ModelUnreachable
from agent_graph.models import Backoff, RetryingModel
from agent_graph.testing import FunctionModel, ScriptedModel


class Weather(BaseModel):
    city: str
    sky: str


def script():
    return [
        AssistantMessage(
            [ThinkingPart('Which city?'), TextPart('I look it up.'), ToolCallPart('look', {'city': 'Bern'}, 'c1')],
            Usage(input_tokens=1200, output_tokens=40),
            'gpt-5-mini',
            provider_name='openai',
            finish_reason='tool_calls',
        ),
        AssistantMessage(
            [ToolCallPart('final_result', {'city': 'Bern', 'sky': 'clear'}, 'c2')],
            Usage(input_tokens=1300, output_tokens=10),
            'gpt-5-mini',
            provider_name='openai',
            finish_reason='tool_calls',
        ),
    ]


weather = Agent(ScriptedModel(script()), name='weather', output_type=Weather)


@weather.tool
async def look(ctx: RunContext[None], city: str) -> dict[str, str]:
    """Look at the sky."""
    await ctx.emit(f'looking at {city}')
    return {'sky': 'clear'}


async def echo(messages, info):
    return f'You said {messages[-1].content!r}.'


hello = Agent(FunctionModel(echo), name='hello')
broken = Agent(ScriptedModel([[ToolCallPart('boom', {}, 'c1')]]), name='broken')
nasty = Agent(ScriptedModel(['red \\x1b[31m\\x07 alert\\x9b2J']), name='nasty')
slow = Agent(ScriptedModel([[ToolCallPart('wait', {}, 'c1')], 'never']), name='slow')
keyless = Agent('openai:gpt-5-mini', name='keyless')
broken_line = [ModelUnreachable('the line is dead'), ModelHTTPError('slow down', status=429, retry_after=0.01), 'There.']
again = Agent(RetryingModel(ScriptedModel(broken_line), backoff=Backoff(first=0.01)), name='again')
number = 3


@broken.tool
def boom() -> str:
    raise RuntimeError('the disk\\nis full')


@slow.tool
async def wait() -> str:
    """Wait for a long time."""
    await asyncio.sleep(600)
    return 'done'


payer = Agent(ScriptedModel([[ToolCallPart('pay', {'euros': 40}, 'c1')], 'paid']), name='payer')


@payer.tool(requires_approval=True)
def pay(euros: int) -> str:
    raise AssertionError('nobody has allowed this')


needy = Agent(FunctionModel(echo), name='needy', deps_type=dict)


@needy.instructions
def who(ctx: RunContext[dict]) -> str:
    return f'You serve {ctx.deps["name"]}.'


def people():
    return {'name': 'Ada'}


inner = Agent(ScriptedModel(['from inside']), name='inner')
outer = Agent(ScriptedModel([[ToolCallPart('ask', {}, 'c1')], 'from outside']), name='outer')


@outer.tool
async def ask() -> str:
    """Ask another agent."""
    return (await inner.run('what?')).output
'''


STAFF = '''
from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from pydantic_graph import BaseNode, End, Graph, GraphBuilder, GraphRunContext

from agent_graph import Agent, RunContext, ToolCallPart, ToolMessage
from agent_graph.testing import FunctionModel


def calls(*asked):
    """A model without a memory of its own: it asks for these calls, and then tells what came back."""

    async def answer(messages, info):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            return '; '.join(f'{p.tool_name}={p.content} ({p.outcome})' for p in last.parts)
        return [ToolCallPart(name, args, f'c{i}') for i, (name, args) in enumerate(asked, 1)]

    return FunctionModel(answer)


clerk = Agent(calls(('pay', {'euros': 40}), ('colour', {}), ('post', {'text': 'hi'})), name='clerk')


@clerk.tool(requires_approval=True)
def pay(euros: int) -> str:
    """Pay somebody."""
    with Path('paid.txt').open('a') as file:
        print(euros, file=file)
    return f'paid {euros}'


@clerk.tool
async def colour(ctx: RunContext[None]) -> str:
    """Ask for a number and a colour."""
    number = await ctx.ask('How many?', schema=int)
    name = await ctx.ask('Which colour?')
    return f'{number} x {name}'


@clerk.tool(external=True)
def post(text: str) -> str:
    """Post a letter."""
    raise AssertionError('somebody else does this')


payer = Agent(calls(('pay', {'euros': 40})), name='payer', tools=clerk._tools[:1])
boss = Agent(calls(('delegate', {})), name='boss')


@boss.tool
async def delegate() -> str:
    """Let the payer do it."""
    return (await payer.run('pay')).output


free = Agent(calls(('add', {'a': 1, 'b': 2})), name='free')


@free.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


slow = Agent(calls(('wait', {})), name='slow')


@slow.tool
async def wait() -> str:
    """Wait until told to go on."""
    Path('waiting').touch()
    while not Path('go').exists():
        await asyncio.sleep(0.02)
    return 'waited'


fragile = Agent(calls(('fall', {})), name='fragile')


@fragile.tool
def fall() -> str:
    """Work only where a file is."""
    return Path('mended').read_text()


EVIL = 'red \\x1b[31m\\x07 \\x9b2J \\u202e\\r\\n\\x00'


async def nasty_model(messages, info):
    if isinstance(messages[-1], ToolMessage):
        return EVIL
    return [ToolCallPart('say', {'text': EVIL}, EVIL), ToolCallPart(EVIL, {}, 'c2')]


nasty = Agent(FunctionModel(nasty_model, name=EVIL), name=EVIL)


@nasty.tool
async def say(ctx: RunContext[None], text: str) -> str:
    """Say something."""
    return text + await ctx.ask(EVIL)


@dataclass
class Draft(BaseNode[None, None, str]):
    text: str

    async def run(self, ctx: GraphRunContext[None, None]) -> Review:
        return Review(self.text + '!')


@dataclass
class Review(BaseNode[None, None, str]):
    text: str

    async def run(self, ctx: GraphRunContext[None, None]) -> End[str]:
        verdict = await ctx.ask(f'Send {self.text}?')
        return End(f'{self.text} {verdict}')


builder = GraphBuilder(name='letters', input_type=Draft, output_type=str)
builder.add(builder.edge_from(builder.start_node).to(Draft), builder.node(Draft), builder.node(Review))
letters = builder.build()
'''


@dataclass
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with `agents.py` and `staff.py` in it."""
    (tmp_path / 'agents.py').write_text(AGENTS)
    (tmp_path / 'staff.py').write_text(STAFF)
    monkeypatch.chdir(tmp_path)
    for name in ('AGENT_GRAPH_JOURNAL', 'NO_COLOR', 'OPENAI_API_KEY'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, 'path', [*sys.path])
    return tmp_path


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Call `agent-graph` in this process."""

    def call(*args: str) -> Done:
        with pytest.raises(SystemExit) as caught:
            main(args)
        for name in [one for one in sys.modules if one == 'agents' or one.startswith('agent_graph_target_')]:
            sys.modules.pop(name)  # each command is a process of its own
        out, err = capsys.readouterr()
        return Done(int(caught.value.code or 0), out, err)

    return call


@pytest.fixture
def spawn(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `agent-graph` as a process of its own; none outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, '-m', 'agent_graph.cli', *args],
            stdout=options.pop('stdout', subprocess.PIPE),
            stderr=options.pop('stderr', subprocess.PIPE),
            text=True,
            env={**os.environ, **options.pop('env', {})},
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@dataclass
class Screen:
    """What a person saw at a terminal, and how the command ended."""

    text: str
    code: int


Deed = str | int | Callable[[], object]
"""What is done at a terminal: a text is typed, a signal is sent, anything else happens elsewhere."""

Script = Sequence[tuple[str, Deed]]
"""What to wait for on the screen, and what to do then."""


@pytest.fixture
def terminal(folder: Path) -> Callable[..., Screen]:
    """Run `agent-graph` at a pseudo-terminal, with somebody who types."""

    def run(*args: str, script: Script, env: dict[str, str] | None = None) -> Screen:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, '-m', 'agent_graph.cli', *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, 'TERM': 'xterm-256color', 'COLUMNS': '200', **(env or {})},
            start_new_session=True,
        )
        os.close(theirs)
        try:
            text = _converse(ours, process, list(script))
            return Screen(text, process.wait(20))
        finally:
            process.kill()
            process.wait()
            os.close(ours)

    return run


def _converse(fd: int, process: subprocess.Popen[bytes], script: list[tuple[str, Deed]]) -> str:
    data, seen, until = b'', 0, time.monotonic() + 40
    while time.monotonic() < until:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                piece = os.read(fd, 65536)
            except OSError:  # the other side is closed
                piece = b''
            if not piece:
                break
            data += piece
        if script and (found := data.find(script[0][0].encode(), seen)) >= 0:
            seen = found + len(script[0][0].encode())
            what = script.pop(0)[1]
            if isinstance(what, int):
                process.send_signal(what)
            elif isinstance(what, str):
                os.write(fd, what.encode())
            else:
                what()
    text = data.decode()
    assert not script, f'never saw {script[0][0]!r} on the screen:\n{text}'
    return text


@pytest.fixture
def new_run(command: Command) -> Callable[..., str]:
    """Run an agent to its end or to a pause, and return the run's id."""

    def run(target: str, prompt: str = 'go', *options: str) -> str:
        done = command('run', target, prompt, '--no-stream', '--json', *options)
        assert done.code in (0, 1, 3), done.err
        return done.json()[-1]['run_id']

    return run
