"""agent_graph. Also fits another harness of the same interface, whose `common` module then is the workload."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from agent_graph import (
    Agent,
    AssistantMessage,
    MemoryJournal,
    Message,
    NativeOutput,
    RequestInfo,
    ResponseBuilder,
    TextPart,
    ToolCallPart,
    UserMessage,
)
from agent_graph_providers.openai import OpenAIModel

from ._report import Report

__all__ = [
    'DISTS',
    'IMPORT',
    'NAME',
    'SIZE_VENV',
    'VENV',
    'fake',
    'history',
    'http',
    'json_agent',
    'make_agent',
    'make_agent_shared',
    'run_fake',
    'run_http',
    'stream_http',
    'stream_json',
]

NAME = 'agent_graph'
VENV = 'agent_graph'
SIZE_VENV = 'agent_graph'
IMPORT = 'import agent_graph'
DISTS = ['agent-graph', 'pydantic-graph', 'pydantic']

work: Any = sys.modules.get('common') or importlib.import_module('benchmarks.workload')


class Fake:
    """The in-process model: it answers what the workload's script says."""

    name = 'fake'
    provider = 'fake'

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        index, calls = await work.model_step()
        if calls:
            made = [ToolCallPart('get_weather', work.ARGS, f'call_{index}_{k}') for k in range(calls)]
            await out.message(AssistantMessage(made))
        else:
            await out.message(AssistantMessage([TextPart(work.FINAL)]))


def _agent(model: Any, **options: Any) -> Agent[None, Any]:
    return Agent(model, instructions=work.INSTRUCTIONS, **options)


def make_agent() -> Agent[None, Any]:
    return _agent(OpenAIModel('gpt-4o'), tools=[work.get_weather])


_SHARED = OpenAIModel('gpt-4o')


def make_agent_shared() -> Agent[None, Any]:
    return _agent(_SHARED, tools=[work.get_weather])


def fake(journal: MemoryJournal | None = None) -> Agent[None, Any]:
    return _agent(Fake(), tools=[work.get_weather], journal=journal)


def history(n: int) -> list[Message]:
    return [UserMessage(work.PROMPT) if i % 2 == 0 else AssistantMessage([TextPart(work.FINAL)]) for i in range(n)]


async def run_fake(h: Agent[None, Any], hist: list[Message] | None) -> str:
    return (await h.run(work.PROMPT, message_history=hist)).output


def _model(url: str, model: str) -> OpenAIModel:
    return OpenAIModel(model, base_url=url, api_key='x')


def http(url: str, model: str) -> Agent[None, Any]:
    return _agent(_model(url, model), tools=[work.get_weather])


async def run_http(h: Agent[None, Any]) -> str:
    return (await h.run(work.PROMPT)).output


async def stream_http(h: Agent[None, Any]) -> int:
    pieces = 0
    async with h.run_stream(work.PROMPT) as stream:
        async for _ in stream.text(delta=True):
            pieces += 1
    return pieces


def json_agent(url: str, model: str) -> Agent[None, Any]:
    return _agent(_model(url, model), output_type=NativeOutput(Report))


async def stream_json(h: Agent[None, Any], partial: bool) -> tuple[int, int]:
    updates = 0
    async with h.run_stream(work.PROMPT) as stream:
        if partial:
            async for _ in stream.output():
                updates += 1
        result = await stream.result()
    return updates, len(result.output.items)
