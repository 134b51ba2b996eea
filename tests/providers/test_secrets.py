"""A key, passed or found in a variable, is told nowhere: for every provider that is installed, whatever its server sends.

A server here quotes the key it was sent. It is then looked for in everything a run leaves behind: representations, errors
with all that caused them, the log, the bytes of the journal and of the answers kept, an exported run, and spans.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent, SQLiteJournal, telemetry
from agent_graph.errors import ModelError
from agent_graph.journal.jsonl import export_run
from agent_graph.models import CachedModel
from tests.providers.bedrock import server as bedrock
from tests.providers.loopback import Loopback, Reply, Request, event, json_reply, sse_reply

sdk = pytest.importorskip('opentelemetry.sdk.trace')
memory = pytest.importorskip('opentelemetry.sdk.trace.export.in_memory_span_exporter')
export = pytest.importorskip('opentelemetry.sdk.trace.export')

KEY = 'marker-key-5d0c7be1f2'
NAME = 'some-model'
ENTRIES = {entry.name: entry for entry in entry_points(group='agent_graph.providers')}
KEYLESS = {'local': 'runs in a process of its own and is asked with no key'}
"""Providers that take no key, and why."""


def site_of(entry: EntryPoint) -> Any:
    make = entry.load()
    return getattr(make, 'site', None) or make.__self__


def ways() -> Iterator[Any]:
    """Every provider, with its key as an argument and in each variable it may stand in.

    How a key is hidden is no matter of where it was found, so a variable is tried with some of the replies only.
    """
    for name, entry in sorted(ENTRIES.items()):
        if name in KEYLESS:
            continue
        site = site_of(entry)
        for way in ('api_key=', *filter(None, (site.key_env, *site.other_key_envs))):
            yield pytest.param(entry, way, REPLIES[:: 1 if way == 'api_key=' else 9], id=f'{name}-{way}')


def made(entry: EntryPoint, way: str, url: str) -> Any:
    """The model the entry point makes, at another address and with the key."""
    make = entry.load()
    row = {'server': make.__self__} if hasattr(make, '__self__') else {}
    key = {'api_key': KEY} if way == 'api_key=' else {}
    return type(make(NAME))(NAME, base_url=url, **row, **key)


# What a server may send

ERRORS: list[Any] = [
    {'error': {'message': f'no such key: {KEY}', 'type': KEY, 'code': KEY, 'param': [KEY], KEY: {'a': KEY}}},
    {'type': 'error', 'error': {'type': KEY, 'message': KEY}},
    {'error': KEY},
    {'message': KEY, 'detail': [{'msg': KEY}], '__type': KEY},
    [{'error': {'code': 401, 'message': KEY, 'status': KEY}}],
    KEY,
]
BROKEN = [f'{{"text": "{KEY}', f'<html>{KEY}</html>', f'["{KEY}"]', f'{{"choices": "{KEY}", "output": ["{KEY}"]}}']
NDJSON = {'content-type': 'application/x-ndjson'}


def streams() -> Iterator[Reply]:
    failed: dict[str, Any] = {
        'type': 'response.failed',
        'response': {'status': 'failed', 'error': {'code': KEY, 'message': KEY}},
    }
    for body in (*ERRORS, failed):
        yield sse_reply(event(body, 'error'))
        yield sse_reply(event(body))
    yield sse_reply(f'data: {{"{KEY}\n\n'.encode())
    yield sse_reply(f'event: error\ndata: {KEY}\n\n'.encode())
    yield Reply([f'{{"error": "{KEY}"}}\n'.encode()], 200, NDJSON)
    yield Reply([f'{KEY}\n'.encode()], 200, NDJSON)
    yield bedrock.stream(bedrock.exception('validationException', message=KEY))
    yield bedrock.stream(bedrock.message({'message': KEY}, message_type='error', error_code=KEY, error_message=KEY))
    yield bedrock.stream(KEY.encode() * 5)


REPLIES = [
    *(json_reply(body, status=status) for body, status in zip(ERRORS, (401, 429, 500, 401, 403, 400), strict=True)),
    *(json_reply(body) for body in (*ERRORS, *BROKEN)),
    *streams(),
]

# What it leaves behind


class Log(logging.Handler):
    """All records of the library, as text."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [self.format(record), repr(record.__dict__)]


@pytest.fixture
def log() -> Iterator[Log]:
    handler = Log()
    loggers = [logging.getLogger(name) for name in ('agent_graph', 'agent_graph_providers')]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    yield handler
    for logger in loggers:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


@pytest.fixture
def spans() -> Iterator[Callable[[], str]]:
    exporter, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    telemetry.instrument(provider)
    yield lambda: ''.join(span.to_json() for span in exporter.get_finished_spans())
    telemetry.uninstrument()


def told(error: BaseException) -> str:
    """All that an error tells, with what caused it."""
    out = ''.join(traceback.format_exception(error))
    seen: BaseException | None = error
    while seen is not None:
        fields = {name: getattr(seen, name, None) for name in dir(seen) if not name.startswith('__')}
        out += f'{seen} {seen!r} {seen.args!r} {fields!r}'
        seen = seen.__cause__ or seen.__context__
    return out


async def failing(agent: Agent[Any, Any], run_id: str, *, streamed: bool) -> str:
    """What a run that fails tells."""
    out = ''
    try:
        if streamed:
            async for one in agent.run_stream_events('hi', run_id=run_id):
                out += repr(one)
        else:
            await agent.run('hi', run_id=run_id)
    except ModelError as error:
        return out + told(error) + pickle.dumps(error).decode('latin-1')
    raise AssertionError(f'{run_id} did not fail')


@pytest.mark.parametrize(('entry', 'way', 'replies'), [*ways()])
def test_a_key_is_told_nowhere(
    entry: EntryPoint,
    way: str,
    replies: list[Reply],
    tmp_path: Path,
    log: Log,
    spans: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if way != 'api_key=':
        monkeypatch.setenv(way, KEY)

    async def main() -> list[Request]:
        async with Loopback(replies) as server:
            model = made(entry, way, server.url)
            cache, journal = CachedModel(model, tmp_path / 'answers.db'), SQLiteJournal(tmp_path / 'runs.db')
            agent = Agent(cache, journal=journal)
            for number, reply in enumerate(replies):
                text = await failing(agent, f'run {number}', streamed=number % 2 == 1)
                text += export_run(await journal.load(f'run {number}'))
                assert KEY not in text, f'{reply}: ...{text[max(0, text.find(KEY) - 400) :][:500]}'
            shown = f'{agent!r} {cache!r} {model!r} {model.identity!r} {vars(model)!r}'
            assert KEY not in shown
            await cache.close()
            await journal.aclose()
            return server.requests

    asked = asyncio.run(main())
    assert len(asked) == len(replies)
    assert all(KEY in f'{request.headers} {request.path}' for request in asked), 'the key was not even sent'
    assert KEY not in '\n'.join(log.lines)
    assert KEY not in spans()
    files = [path for path in tmp_path.rglob('*') if path.is_file()]
    assert {path.name for path in files} >= {'answers.db', 'runs.db'}
    assert all(KEY.encode() not in path.read_bytes() for path in files)


def test_every_provider_is_looked_at() -> None:
    """One that takes no key is named, and takes none indeed."""
    assert ENTRIES and ENTRIES.keys() >= KEYLESS.keys()
    for name in KEYLESS:
        assert site_of(ENTRIES[name]).key_env is None
        with pytest.raises(TypeError):
            type(ENTRIES[name].load()(NAME))(NAME, api_key=KEY)
