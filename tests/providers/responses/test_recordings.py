"""Every recorded answer goes through the adapter over loopback HTTP and yields the facts computed from its bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest

from agent_graph.errors import MessageError
from agent_graph.events import ResponseRestarted
from agent_graph.messages import AssistantMessage, dump_json, load_json
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.responses import SERVERS, messages_from_responses
from agent_graph_providers.responses.answer import Answer
from agent_graph_providers.responses.body import request_body, tool_form
from agent_graph_providers.responses.items import Form, finished, message_items
from agent_graph_providers.responses.notes import Reading
from agent_graph_providers.responses.parts import Reader
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.model import Question
from agent_graph_providers.wire.offers import Memory, Offers
from agent_graph_providers.wire.reading import read_answer
from tests.providers.recorded import each, kind_of, needs_recordings
from tests.providers.responses.recorded import RESPONSES, UNFINISHED, server_name

pytestmark = needs_recordings('responses')

TEXT = ('assistant', 'text')
_ENDS = ('response.completed', 'response.incomplete')
ASKED = Asked('p', 'm', '', None, '')


@each('responses')
def test_answer(record: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    record_property('recording', ('responses', record['provider'], kind_of(record)))
    got = asyncio.run(RESPONSES.ask(record, watched=bool(record['stream'])))
    assert RESPONSES.problems(record, got) == []


class Bytes:
    """A response whose body comes in pieces of this size."""

    def __init__(self, body: bytes, size: int, kind: str) -> None:
        self._body = body
        self._size = size
        self.headers = {'content-type': kind}

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        for at in range(0, len(self._body), self._size):
            yield self._body[at : at + self._size]

    async def aread(self) -> bytes:
        return self._body


def is_answer(record: dict[str, Any]) -> bool:
    return not record['expected']['error'] and record['expected']['finish'] not in UNFINISHED


def read(record: dict[str, Any], size: int, restarts: list[str] | None = None) -> AssistantMessage:
    """The answer of a record without HTTP; `restarts` collects why it had to begin again."""
    server = SERVERS[server_name(record)]
    body: str = record['response'].get('sse') or record['response']['body']

    async def sink(event: Any, **fields: Any) -> None:
        if event is ResponseRestarted and restarts is not None:
            restarts.append(fields['reason'])

    async def main() -> AssistantMessage:
        out = ResponseBuilder(None if restarts is None else sink, provider_name=server.provider)
        reading = Reading(Reader(runs_customs=server.runs_customs), 'responses', '/responses')
        kind = 'text/event-stream' if 'sse' in record['response'] else 'application/json'
        await read_answer(Bytes(body.encode(), size, kind), Answer(out, ASKED, reading), ASKED)
        await out.finish()
        return out.build()

    return asyncio.run(main())


@each('responses', lambda r: is_answer(r) and 'sse' in r['response'] and len(r['response']['sse']) < 25_000)
def test_single_bytes(record: dict[str, Any]) -> None:
    assert RESPONSES.problems(record, read(record, 1)) == []


@each('responses', lambda r: is_answer(r) and 'sse' in r['response'])
def test_pieces_never_have_to_be_taken_back(record: dict[str, Any]) -> None:
    restarts: list[str] = []
    got = read(record, 1000, restarts)
    assert restarts == []
    if output := output_of(record):  # what was shown in pieces is what the whole says
        assert said(got.parts) == said(parts_of(output, record))


def parts_of(output: list[Any], record: dict[str, Any]) -> list[Any]:
    stored = final(record).get('store') is not False
    reader = Reader(runs_customs=SERVERS[server_name(record)].runs_customs, stored=stored)
    return [part for item in output for part in reader.parts(item)]


def said(parts: Any) -> list[tuple[Any, ...]]:
    return [(p.kind, getattr(p, 'content', ''), getattr(p, 'args', ''), getattr(p, 'citations', ())) for p in parts]


def final(record: dict[str, Any]) -> dict[str, Any]:
    """The response object of a record."""
    if 'sse' not in record['response']:
        return json.loads(record['response']['body'])
    events = [line[5:] for line in record['response']['sse'].splitlines() if line.startswith('data:')]
    found = [json.loads(e) for e in events if e.strip() != '[DONE]']
    ends: list[dict[str, Any]] = [e['response'] for e in found if e.get('type') in _ENDS]
    return ends[0] if ends else {}


def output_of(record: dict[str, Any]) -> list[Any]:
    return final(record).get('output') or []


@each('responses', lambda r: is_answer(r) and bool(output_of(r)))
def test_output_goes_back_verbatim(record: dict[str, Any]) -> None:
    """Response -> our message -> JSON -> our message -> input items: what came, byte for byte."""
    message = read(record, 100_000)
    [loaded] = load_json(dump_json([message]))
    assert loaded == message
    form = Form(provider=SERVERS[server_name(record)].provider)
    sent = message_items(loaded, {}, form)
    stored = final(record).get('store') is not False
    assert [plain(item) for item in sent] == kept([plain(item) for item in items_of(record)], stored=stored)
    assert finished(sent) == sent or any(
        '_call' in str(i.get('type')) or 'approval' in str(i.get('type')) for i in sent
    )


def items_of(record: dict[str, Any]) -> list[Any]:
    """The items as they came whole: a stream's final list seals reasoning a second time."""
    if 'sse' not in record['response']:
        return output_of(record)
    lines = [line[5:] for line in record['response']['sse'].splitlines() if line.startswith('data:')]
    events = [json.loads(line) for line in lines if line.strip() != '[DONE]']
    done = {e['output_index']: e['item'] for e in events if e.get('type') == 'response.output_item.done'}
    return [done[index] for index in sorted(done)]


def plain(item: dict[str, Any]) -> dict[str, Any]:
    """An item without what says nothing: log probabilities, an empty list of reasoning texts, a seal that is null."""
    out = {
        k: v
        for k, v in item.items()
        if not (k == 'content' and v == []) and not (k == 'encrypted_content' and v is None)
    }
    if item.get('type') == 'message':
        out['content'] = [{k: v for k, v in block.items() if k != 'logprobs'} for block in item['content']]
    return out


def kept(items: list[dict[str, Any]], *, stored: bool) -> list[dict[str, Any]]:
    """What of a response may go back: no empty message, no reasoning that is only the id of what nobody keeps, and none at
    the end."""
    out: list[dict[str, Any]] = []
    for item in items:
        empty = item['type'] == 'message' and not any(block.get('text') for block in item['content'])
        lost = item['type'] == 'reasoning' and not (stored or item.get('encrypted_content') or item.get('content'))
        if not (empty or lost):
            out.append(item)
    while out and out[-1]['type'] == 'reasoning':
        out.pop()
    return out


def has_request(record: dict[str, Any]) -> bool:
    """A request the server took: what it refused may be no valid list at all."""
    return isinstance(record['request']['body'], dict) and record['response']['status'] == 200


@each('responses', has_request)
def test_request(record: dict[str, Any]) -> None:
    """The recorded messages, read into ours and written again for that server, say the same."""
    recorded = record['request']['body']
    server = SERVERS[server_name(record)]
    form = Form(provider=server.provider, file_outputs=True, mark='prompt_cache_breakpoint')
    memory = Memory(
        Offers(lambda tool, name: tool_form(server, tool, name)), lambda m, names: message_items(m, names, form)
    )
    messages = messages_from_responses(recorded)
    messages = load_json(dump_json(messages))
    question = Question('m', messages, RequestInfo(), ModelSettings(), memory, False)
    body = request_body(server, question, encrypted=False)
    assert meaning(body) == meaning(recorded)


def test_refused_lists_are_refused_here_too() -> None:
    with pytest.raises(MessageError, match='item 1'):
        messages_from_responses({'input': [{'role': 'user', 'content': 'hi'}, {'role': 'user', 'content': [{'x': 1}]}]})


def meaning(body: dict[str, Any]) -> list[Any]:
    """A conversation reduced to what it says; notation and what says nothing left out. Reasoning, calls, outputs and items
    of the provider's own tools are compared field by field."""
    given = body.get('input')
    out: list[Any] = [('system', 'text', body['instructions'])] if body.get('instructions') else []
    if isinstance(given, str):
        return [*out, ('user', 'text', given)]
    for item in given or ():
        role = {'developer': 'system'}.get(item.get('role'), item.get('role'))
        if role is None or item.get('id'):
            out.append(fields(item))
            continue
        content = item['content']
        blocks = [{'type': 'text', 'text': content}] if isinstance(content, str) else content
        for block in blocks:
            if block['type'].endswith('text'):
                mark = block.get('prompt_cache_breakpoint')
                out.append((role, 'text', block['text'], *([mark] if mark else [])))
            else:
                out.append((role, *sorted(fields(block).items())))
    return joined(out)


def fields(item: dict[str, Any]) -> dict[str, Any]:
    """An item's fields but for nulls, empty lists and what is said by default."""
    out = {
        k: v
        for k, v in item.items()
        if v is not None and v != [] and (k, v) not in (('detail', 'auto'), ('type', 'message'))
    }
    content: Any = item.get('content')
    if isinstance(content, list) and content:
        out['content'] = [fields(block) for block in cast(list[Any], content)]
    if isinstance(item.get('output'), list) and item['type'].endswith('call_output'):
        out['output'] = [fields(block) for block in item['output']]
    return out


def joined(said: list[Any]) -> list[Any]:
    """Texts of the model that stand side by side are one."""
    out: list[Any] = []
    for entry in said:
        if out and not isinstance(entry, dict) and not isinstance(out[-1], dict) and entry[:2] == out[-1][:2] == TEXT:
            out[-1] = (*TEXT, out[-1][2] + entry[2])
        else:
            out.append(entry)
    return out
