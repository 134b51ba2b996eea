"""Recorded provider traffic: loading it, playing it over loopback HTTP, and comparing what an adapter made of it.

The folder is AGENT_GRAPH_RECORDINGS, by default ../shared/recordings beside the project. Each protocol's tests say how a
model is made for a record, and where the expected facts are read differently (`Traffic`).
"""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_graph.errors import ModelError, ModelHTTPError
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserMessage,
)
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from tests.providers.loopback import Loopback, Reply, cut

__all__ = [
    'FOLDER',
    'Traffic',
    'each',
    'expected_facts',
    'facts',
    'kind_of',
    'main',
    'needs_recordings',
    'records',
    'table',
]

FOLDER = Path(os.environ.get('AGENT_GRAPH_RECORDINGS') or Path(__file__).parents[3] / 'shared' / 'recordings')


@cache
def records(api: str) -> tuple[dict[str, Any], ...]:
    """Every record of one API, in file order; empty where there is no such folder."""
    return tuple(_load(api))


def _load(api: str) -> Iterator[dict[str, Any]]:
    for path in sorted(FOLDER.glob(f'*.{api}.jsonl')):
        with path.open(encoding='utf-8') as lines:
            for line in lines:
                yield json.loads(line)


def each(api: str, keep: Callable[[dict[str, Any]], bool] = lambda _: True) -> pytest.MarkDecorator:
    """A test's parameter `record`: every record of this API that is kept."""
    chosen = [r for r in records(api) if keep(r)]
    return pytest.mark.parametrize('record', chosen, ids=[f'{r["provider"]}-{r["id"]}' for r in chosen])


def needs_recordings(api: str) -> pytest.MarkDecorator:
    """Skips where there are none of this API."""
    reason = f'no *.{api}.jsonl in {FOLDER}; set AGENT_GRAPH_RECORDINGS to a folder of recordings'
    return pytest.mark.skipif(not records(api), reason=reason)


@dataclass(frozen=True)
class Traffic:
    """How the records of one API are played.

    `make_model(record, url)` is the model asked. `wanted(record)` are the expected facts in our terms, by the names of
    `facts`; `expected_facts` unless the protocol's tests have a reason to read one differently.
    """

    api: str
    make_model: Callable[[dict[str, Any], str], Model]
    wanted: Callable[[dict[str, Any]], dict[str, Any]]

    async def ask(
        self, record: dict[str, Any], *, watched: bool, split: int = 0, seed: int = 1
    ) -> AssistantMessage | ModelError:
        """Play a record's answer over loopback HTTP, cut at random (`split` 1: in single bytes), and read it."""
        async with Loopback([_reply(record, seed, split)]) as server:
            out = ResponseBuilder(_drop if watched else None)
            try:
                await self.make_model(record, server.url).respond([UserMessage('hi')], RequestInfo(), out)
            except ModelError as error:
                return error
            await out.finish()
            return out.build()

    def problems(self, record: dict[str, Any], got: AssistantMessage | ModelError) -> list[str]:
        """What differs from the record's expected facts."""
        expected: dict[str, Any] = record['expected']
        skipped: list[str] = expected.get('unasserted') or []
        if expected.get('error') or isinstance(got, ModelError):
            return _error_problems(expected.get('error'), got)
        got_facts, wanted = facts(got), self.wanted(record)
        compared = [name for name in wanted if name.partition('.')[0] not in skipped]
        return [f'{n}: {got_facts[n]!r}, expected {wanted[n]!r}' for n in compared if got_facts[n] != wanted[n]]


async def _drop(*_: Any, **__: Any) -> None:
    """Somebody watches, and looks away."""


def _reply(record: dict[str, Any], seed: int, split: int = 0) -> Reply:
    response = record['response']
    body: bytes = (response.get('sse') or response.get('body') or '').encode()
    if 'body_b64' in response:
        body = b64decode(response['body_b64'])
    # Down to single bytes where the body is short enough for that to take no time.
    split = split or (1 if len(body) < 2_000 else 7 if len(body) < 20_000 else 200)
    return Reply(cut(body, split, seed), response['status'], response['headers'])


def _error_problems(expected: dict[str, Any] | None, got: AssistantMessage | ModelError) -> list[str]:
    if expected is None:
        return [f'{type(got).__name__}: {got}']
    if not isinstance(got, ModelHTTPError):
        return [f'{got!r}, expected a ModelHTTPError for {expected!r}']
    code = str(expected['code']) if expected['code'] is not None else None
    out: list[str] = []
    kind = str(expected['type']) if expected['type'] is not None else None
    if (got.code, got.type) != (code, kind):
        out.append(f'code {got.code!r} type {got.type!r}, expected {expected!r}')
    if expected['status'] and expected['status'] >= 400 and got.status != expected['status']:
        out.append(f'status {got.status}, expected {expected["status"]}')
    message: str = expected['message'] or ''
    if message not in str(got):
        out.append(f'{got} does not say {message!r}')
    return out


def facts(got: AssistantMessage) -> dict[str, Any]:
    """What an answer says, by the names the expected facts have."""
    usage, details = got.usage, got.provider_details or {}
    return {
        'text': ''.join(p.content for p in got.parts if isinstance(p, TextPart)),
        'thinking': ''.join(p.content for p in got.parts if isinstance(p, ThinkingPart)),
        'tool_calls': [(p.tool_call_id, p.tool_name, p.args) for p in got.parts if isinstance(p, ToolCallPart)],
        'server_tools': [p.tool_name for p in got.parts if isinstance(p, BuiltinToolCallPart)],
        'refusal': got.refusal or '',
        'finish': details.get('finish_reason'),
        'id': got.provider_response_id or '',
        'model': got.model_name or '',
        'usage.input': usage.input_tokens,
        'usage.output': usage.output_tokens,
        'usage.total': usage.total_tokens,
        'usage.cached_input': usage.cache_read_tokens,
        'usage.cache_write': usage.cache_write_tokens,
        'usage.reasoning': usage.reasoning_tokens,
    }


def expected_facts(record: dict[str, Any]) -> dict[str, Any]:
    """The expected facts in our terms. An absent number is not compared: it may stand where that parser did not look."""
    expected: dict[str, Any] = record['expected']
    wanted: dict[str, Any] = {
        'text': expected['text'],
        'thinking': expected['thinking'] or '',
        'tool_calls': [
            (c['id'] or '', c['name'], c['args'] if c['raw'] is None else c['raw']) for c in expected['tool_calls']
        ],
        'server_tools': list(expected['server_tools'] or ()),
        'refusal': expected['refusal'] or '',
        'finish': expected['finish'],
        'id': expected['id'] or '',
        'model': expected['model'] or '',
    }
    usage: dict[str, int | None] = expected['usage'] or {}
    return wanted | {f'usage.{name}': value for name, value in usage.items() if value is not None}


def table(results: list[tuple[str, str, bool]]) -> list[str]:
    """Lines of a table of (provider, 'JSON' or 'SSE', passed)."""
    good = Counter((provider, kind) for provider, kind, passed in results if passed)
    every = Counter((provider, kind) for provider, kind, _ in results)
    lines = [f'{"provider":24}{"JSON":>10}{"SSE":>10}']
    for provider in sorted({provider for provider, _ in every}):
        cells = [f'{good[provider, k]}/{every[provider, k]}' if every[provider, k] else '-' for k in ('JSON', 'SSE')]
        lines.append(f'{provider:24}{cells[0]:>10}{cells[1]:>10}')
    total = [
        f'{sum(g for (_, k), g in good.items() if k == kind)}/{sum(n for (_, k), n in every.items() if k == kind)}'
        for kind in ('JSON', 'SSE')
    ]
    return [*lines, f'{"all":24}{total[0]:>10}{total[1]:>10}']


def main(traffic: Traffic) -> int:
    """One line per record, then the table; 0 if all passed."""

    async def play() -> list[tuple[str, str, bool]]:
        results: list[tuple[str, str, bool]] = []
        for record in records(traffic.api):
            found = traffic.problems(record, await traffic.ask(record, watched=bool(record['stream'])))
            results.append((record['provider'], kind_of(record), not found))
            print('FAIL' if found else 'ok  ', record['provider'], kind_of(record), record['id'], *found)
        return results

    results = asyncio.run(play())
    print('\n'.join(table(results)))
    return 0 if results and all(passed for _, _, passed in results) else 1


def kind_of(record: dict[str, Any]) -> str:
    """`'SSE'` for any kind of stream, else `'JSON'`."""
    return 'SSE' if record['stream'] else 'JSON'
