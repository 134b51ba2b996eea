"""Every recorded chat conversation runs through an Agent against the replay server to its recorded end."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from functools import lru_cache
from typing import Any

import pytest

from agent_graph import Agent, RunContext, Tool
from agent_graph.errors import ModelHTTPError
from agent_graph.messages import from_openai
from agent_graph.model import ToolDefinition
from agent_graph_providers.openai import OpenAIModel
from tests.providers.openai.recorded import FOLDER, records, server_name


@lru_cache(maxsize=1)
def conversations() -> tuple[dict[str, Any], ...]:
    path = FOLDER / 'conversations.json'
    if not path.exists() or not (FOLDER / 'replay_server.py').exists():
        return ()
    return tuple(c for c in json.loads(path.read_text(encoding='utf-8')) if c['api'] == 'chat')


@lru_cache(maxsize=1)
def replay_module() -> Any:
    """The recordings' own server, which also checks what it is sent."""
    spec = importlib.util.spec_from_file_location('replay_server', FOLDER / 'replay_server.py')
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Script:
    """The tools of a conversation: what each request offered, and what each call returned."""

    def __init__(self, recs: list[dict[str, Any]]) -> None:
        self.recs = recs
        self.results: dict[str, str] = {}
        self.unnamed: list[str] = []
        for record in recs[1:]:
            for message in record['request']['body']['messages']:
                if message['role'] in ('tool', 'function') and message.get('tool_call_id'):
                    self.results[message['tool_call_id']] = message['content']
                elif message['role'] in ('tool', 'function'):
                    self.unnamed.append(message['content'])

    def offered(self, index: int) -> dict[str, Any]:
        """The function tools of a request by name; past the end, of the last one."""
        body = self.recs[min(index, len(self.recs) - 1)]['request']['body']
        functions = [t['function'] for t in body.get('tools') or () if 'function' in t]
        return {f['name']: f for f in [*functions, *(body.get('functions') or ())]}

    def result(self, call_id: str) -> str:
        return self.results[call_id] if call_id in self.results else self.unnamed.pop(0) if self.unnamed else 'done'

    def tools(self, replay: Any) -> list[Tool]:
        """All tools of all requests; each request drops those it did not offer."""
        last = {c['name'] for c in self.recs[-1]['expected']['tool_calls']}
        every = {name: f for index in range(len(self.recs)) for name, f in self.offered(index).items()}
        return [self._tool(function, replay, stop=name in last) for name, function in every.items()]

    def _tool(self, function: dict[str, Any], replay: Any, *, stop: bool) -> Tool:
        async def call(ctx: RunContext[Any], **_: Any) -> str:
            return self.result(ctx.tool_call_id or '')

        def prepare(_: RunContext[Any], definition: ToolDefinition) -> ToolDefinition | None:
            return definition if definition.name in self.offered(replay.k) else None

        return Tool.from_schema(
            function['name'],
            function.get('description'),
            function.get('parameters') or {'type': 'object'},
            call,
            takes_context=True,
            prepare=prepare,
            # Where the recording ends in a call, so does the run.
            stop_after=stop,
        )


@pytest.mark.skipif(not conversations(), reason=f'no conversations.json in {FOLDER}; set AGENT_GRAPH_RECORDINGS')
@pytest.mark.parametrize(
    'conversation', conversations(), ids=[f'{c["provider"]}-{c["conversation"]}' for c in conversations()]
)
def test_conversation(conversation: dict[str, Any]) -> None:
    by_id = {r['id']: r for r in records()}
    recs = [by_id[i] for i in conversation['record_ids']]
    with replay_module().Replay(recs) as replay:
        end = asyncio.run(converse(recs, replay))
        assert replay.mismatches == []
        assert replay.k == len(recs)
    if recs[-1]['expected'].get('error'):
        assert isinstance(end, ModelHTTPError) and end.status == recs[-1]['response']['status']
    elif recs[-1]['expected']['text']:
        assert end == recs[-1]['expected']['text']
        assert end.startswith(conversation['final_text'])  # which is cut at 300 characters


async def converse(recs: list[dict[str, Any]], replay: Any) -> Any:
    """Run until every answer is used up: each run goes on from the messages its first request had."""
    script = Script(recs)
    end: Any = None
    while replay.k < len(recs):
        served: int = replay.k
        record = recs[served]
        body: dict[str, Any] = record['request']['body']
        model = OpenAIModel(
            body.get('model') or 'any', server=server_name(record), base_url=replay.url, api_key='not-a-key'
        )
        agent = Agent(model, tools=script.tools(replay))
        history = from_openai(body['messages'])
        try:
            if body.get('stream'):
                async with agent.run_stream(None, message_history=history) as stream:
                    end = (await stream.result()).output
            else:
                end = (await agent.run(None, message_history=history)).output
        except ModelHTTPError as error:
            return error
    return end
