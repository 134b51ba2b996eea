"""A file of agents for the command line to find, and ways to call it: in this process, and as a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
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
    """An empty folder to work in, with `agents.py` in it."""
    (tmp_path / 'agents.py').write_text(AGENTS)
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
        for name in ('agents', 'agent_graph_target_agents'):
            sys.modules.pop(name, None)  # each command is a process of its own
        out, err = capsys.readouterr()
        return Done(int(caught.value.code or 0), out, err)

    return call


@pytest.fixture
def spawn(folder: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start `agent-graph` as a process of its own."""

    def start(*args: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, '-m', 'agent_graph.cli', *args],
            stdout=options.pop('stdout', subprocess.PIPE),
            stderr=options.pop('stderr', subprocess.PIPE),
            text=True,
            env={**os.environ, **options.pop('env', {})},
            **options,
        )

    return start
