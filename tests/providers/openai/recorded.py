"""Recorded Chat Completions traffic: loading it, sending it through the adapter, and comparing what came out.

    python -m tests.providers.openai.recorded        one line per record, then a table per provider

The folder is AGENT_GRAPH_RECORDINGS, by default ../shared/recordings beside the project.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_graph.errors import ModelError, ModelHTTPError
from agent_graph.messages import AssistantMessage, TextPart, ThinkingPart, ToolCallPart, UserMessage
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph_providers.openai import SERVERS, OpenAIModel
from tests.providers.loopback import Loopback, Reply, cut

__all__ = ['FOLDER', 'ask', 'problems', 'records', 'server_name', 'table']

FOLDER = Path(os.environ.get('AGENT_GRAPH_RECORDINGS') or Path(__file__).parents[4] / 'shared' / 'recordings')
_SERVERS = {'azure_openai': 'azure'}
_THINK = re.compile(r'<think>(.*?)(?:</think>|\Z)', re.DOTALL)


@lru_cache(maxsize=1)
def records() -> tuple[dict[str, Any], ...]:
    """Every chat record of the folder, in file order; empty where there is no such folder."""
    return tuple(_load())


def _load() -> Iterator[dict[str, Any]]:
    for path in sorted(FOLDER.glob('*.chat.jsonl')):
        with path.open(encoding='utf-8') as lines:
            for line in lines:
                yield json.loads(line)


def server_name(record: dict[str, Any]) -> str:
    """Our row for a record's provider; one we have no row for is asked like any server."""
    provider: str = record['provider']
    name = _SERVERS.get(provider, provider)
    return name if name in SERVERS else 'openai_compat'


async def ask(record: dict[str, Any], *, watched: bool, seed: int = 1) -> AssistantMessage | ModelError:
    """Play a record's answer over loopback HTTP, cut at random, and read it with the adapter."""
    async with Loopback([_reply(record, seed)]) as server:
        model = OpenAIModel('any', server=server_name(record), base_url=server.url, api_key='not-a-real-key')
        out = ResponseBuilder(_drop if watched else None)
        try:
            await model.respond([UserMessage('hi')], RequestInfo(), out)
        except ModelError as error:
            return error
        await out.finish()
        return out.build()


async def _drop(*_: Any, **__: Any) -> None:
    """Somebody watches, and looks away."""


def _reply(record: dict[str, Any], seed: int) -> Reply:
    response = record['response']
    body: bytes = (response.get('sse') or response.get('body') or '').encode()
    if 'body_b64' in response:
        body = b64decode(response['body_b64'])
    # Down to single bytes where the body is short enough for that to take no time.
    split = 1 if len(body) < 2_000 else 7 if len(body) < 20_000 else 200
    return Reply(cut(body, split, seed), response['status'], response['headers'])


def problems(record: dict[str, Any], got: AssistantMessage | ModelError) -> list[str]:
    """What differs from the record's expected facts."""
    expected: dict[str, Any] = record['expected']
    skipped: list[str] = expected.get('unasserted') or []
    if expected.get('error') or isinstance(got, ModelError):
        return _error_problems(expected.get('error'), got)
    assert isinstance(got, AssistantMessage)
    facts = _facts(got)
    wanted = _wanted(record)
    compared = [name for name in wanted if name.partition('.')[0] not in skipped]
    return [f'{n}: {facts[n]!r}, expected {wanted[n]!r}' for n in compared if facts[n] != wanted[n]]


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


def _facts(got: AssistantMessage) -> dict[str, Any]:
    usage, details = got.usage, got.provider_details or {}
    return {
        'text': ''.join(p.content for p in got.parts if isinstance(p, TextPart)),
        'thinking': ''.join(p.content for p in got.parts if isinstance(p, ThinkingPart)),
        'tool_calls': [(p.tool_call_id, p.tool_name, p.args) for p in got.parts if isinstance(p, ToolCallPart)],
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


def _wanted(record: dict[str, Any]) -> dict[str, Any]:
    """The expected facts in our terms. Four are read differently here than by the parser that computed them.

    Reasoning between `<think>` tags counts as reasoning where servers leave the tags in. An empty `function_call` without
    a name is no call. An absent number may still stand where that parser did not look, and so may reasoning that came in
    `reasoning_details` alone: neither is compared.
    """
    expected: dict[str, Any] = record['expected']
    text: str = expected['text']
    tags = SERVERS[server_name(record)].think_tags
    tagged: list[str] = _THINK.findall(text) if tags else []
    wanted: dict[str, Any] = {
        'text': _THINK.sub('', text) if tags else text,
        'tool_calls': [
            (c['id'] or '', c['name'], c['raw'] or c['args'] or '') for c in expected['tool_calls'] if c['name']
        ],
        'refusal': expected['refusal'] or '',
        'finish': expected['finish'],
        'id': expected['id'] or '',
        'model': expected['model'] or '',
    }
    if expected['thinking'] or 'reasoning_details' not in str(record['response']):
        wanted['thinking'] = expected['thinking'] + ''.join(tagged)
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


async def _main() -> int:
    results: list[tuple[str, str, bool]] = []
    for record in records():
        found = problems(record, await ask(record, watched=bool(record['stream'])))
        kind = 'SSE' if 'sse' in record['response'] else 'JSON'
        results.append((record['provider'], kind, not found))
        print('ok  ' if not found else 'FAIL', record['provider'], kind, record['id'], *found)
    print('\n'.join(table(results)))
    return 0 if results and all(passed for _, _, passed in results) else 1


if __name__ == '__main__':
    sys.exit(asyncio.run(_main()))
