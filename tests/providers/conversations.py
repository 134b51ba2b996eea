"""Recorded conversations: each runs through an `Agent` against the recordings' own replay server to its recorded end.

A protocol's tests give a `Dialect`: how its requests are read. The tools answer as they did, each request offers what it
offered, and the run goes on until every recorded answer has been used.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import pytest

from agent_graph import Agent, RunContext, Tool
from agent_graph.errors import ModelHTTPError
from agent_graph.messages import Message
from agent_graph.model import Model, ModelSettings, ToolDefinition
from tests.providers.recorded import FOLDER, records

__all__ = ['Dialect', 'Result', 'conversations', 'each_conversation', 'play']

Result = tuple[str, str, Any]
"""(call id or '', tool name or '', content) of one tool result in a request."""


@dataclass(frozen=True)
class Dialect:
    """How the requests of one API are read.

    `make_model(record, url)` is the model asked; `history(body)` the messages of a request in ours (system text included);
    `offered(body)` its function tools as {name: (description, JSON schema)}; `results(body)` all tool results in it.
    `settings(body)` are settings to ask with, for what decides the way a conversation goes.
    """

    api: str
    make_model: Callable[[dict[str, Any], str], Model]
    history: Callable[[dict[str, Any]], list[Message]]
    offered: Callable[[dict[str, Any]], dict[str, tuple[str | None, dict[str, Any]]]]
    results: Callable[[dict[str, Any]], Iterable[Result]]
    settings: Callable[[dict[str, Any]], ModelSettings] = lambda _: ModelSettings()


@cache
def conversations(api: str) -> tuple[dict[str, Any], ...]:
    """The conversations of one API; none where there is no such folder."""
    path = FOLDER / 'conversations.json'
    if not path.exists() or not (FOLDER / 'replay_server.py').exists():
        return ()
    return tuple(c for c in json.loads(path.read_text(encoding='utf-8')) if c['api'] == api)


def each_conversation(api: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test's parameter `conversation`: every one of this API; skipped where there are none."""
    found = conversations(api)
    names = [f'{c["provider"]}-{c["conversation"]}' for c in found]
    skip = pytest.mark.skipif(not found, reason=f'no conversations.json in {FOLDER}; set AGENT_GRAPH_RECORDINGS')
    each = pytest.mark.parametrize('conversation', found, ids=names)
    return lambda test: skip(each(test))


@lru_cache(maxsize=1)
def _replay_module() -> Any:
    """The recordings' own server, which also checks what it is sent."""
    spec = importlib.util.spec_from_file_location('replay_server', FOLDER / 'replay_server.py')
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Script:
    """The tools of a conversation: what each request offered, and what each call returned."""

    def __init__(self, dialect: Dialect, recs: list[dict[str, Any]]) -> None:
        self.dialect = dialect
        self.recs = recs
        self.results: dict[str, Any] = {}
        self.unnamed: list[tuple[str, Any]] = []
        for record in recs[1:]:
            seen: list[tuple[str, Any]] = []
            for call_id, name, content in dialect.results(record['request']['body']):
                if call_id:
                    self.results.setdefault(call_id, content)
                else:
                    seen.append((name, content))
            self.unnamed += seen[len(self.unnamed) :]  # every request repeats the ones before

    def offered(self, index: int) -> dict[str, tuple[str | None, dict[str, Any]]]:
        """The function tools of a request by name; past the end, of the last one."""
        return self.dialect.offered(self.recs[min(index, len(self.recs) - 1)]['request']['body'])

    def result(self, call_id: str, name: str) -> Any:
        if call_id in self.results:
            return self.results[call_id]
        for index, (of, content) in enumerate(self.unnamed):
            if of in ('', name):
                del self.unnamed[index]
                return content
        return 'done'

    def tools(self, replay: Any) -> list[Tool]:
        """All tools of all requests; each request drops those it did not offer."""
        last = _last_calls(self.recs)
        every = {name: tool for index in range(len(self.recs)) for name, tool in self.offered(index).items()}
        return [self._tool(name, *tool, replay, stop=name in last) for name, tool in every.items()]

    def _tool(self, name: str, description: str | None, schema: dict[str, Any], replay: Any, *, stop: bool) -> Tool:
        async def call(ctx: RunContext[Any], **_: Any) -> Any:
            return self.result(ctx.tool_call_id or '', name)

        def prepare(_: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
            return definition if definition.name in self.offered(replay.k) else None

        return Tool.from_schema(
            name,
            description,
            schema or {'type': 'object'},
            call,
            takes_context=True,
            prepare=prepare,
            # Where the recording ends in a call, so does the run.
            stop_after=stop,
        )


async def play(dialect: Dialect, conversation: dict[str, Any]) -> None:
    """Run a conversation and compare its end with the recorded one."""
    by_id = {r['id']: r for r in records(dialect.api)}
    recs = [by_id[i] for i in conversation['record_ids']]
    with _replay_module().Replay(recs) as replay:
        end = await _converse(dialect, recs, replay)
        # The engine answers a call to a tool that nobody offers; where a recording ends in one, its answer comes too late.
        late = not _last_calls(recs) <= {name for r in recs for name in dialect.offered(r['request']['body'])}
        assert [m for m in replay.mismatches if not late or m['request'] < len(recs)] == []
        assert replay.k == len(recs) + late
    expected = recs[-1]['expected']
    if expected.get('error'):
        assert isinstance(end, ModelHTTPError) and end.status == recs[-1]['response']['status']
    elif expected['text'] and not expected['tool_calls']:  # where the last word is a call, the run ends with its result
        assert end == expected['text']
        assert end.startswith(conversation['final_text'])  # which is cut at 300 characters


def _last_calls(recs: list[dict[str, Any]]) -> set[str]:
    return {c['name'] for c in recs[-1]['expected']['tool_calls'] if c['name']}


async def _converse(dialect: Dialect, recs: list[dict[str, Any]], replay: Any) -> Any:
    """Run until every answer is used up: each run goes on from the messages its first request had."""
    script = _Script(dialect, recs)
    end: Any = None
    while replay.k < len(recs):
        served: int = replay.k
        record = recs[served]
        body: dict[str, Any] = record['request']['body']
        agent = Agent(dialect.make_model(record, replay.url), tools=script.tools(replay))
        history, settings = dialect.history(body), dialect.settings(body)
        try:
            if record['stream']:
                async with agent.run_stream(None, message_history=history, model_settings=settings) as stream:
                    end = (await stream.result()).output
            else:
                end = (await agent.run(None, message_history=history, model_settings=settings)).output
        except ModelHTTPError as error:
            return error
    return end
