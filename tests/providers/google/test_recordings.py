"""Every recorded answer goes through the adapter over loopback HTTP and yields the facts computed from its bytes; every recorded
request says the same after it was read into our messages and written again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    TextPart,
    UserMessage,
    dump_json,
    load_json,
)
from agent_graph.model import ResponseBuilder
from agent_graph_providers.google import messages_from_google
from agent_graph_providers.google.answer import Answer
from agent_graph_providers.google.contents import UNSIGNED
from agent_graph_providers.wire.errors import Asked
from agent_graph_providers.wire.framing import JsonArray
from agent_graph_providers.wire.reading import read_answer
from tests.providers.google.kit import body_for
from tests.providers.google.recorded import API, GOOGLE, events, model_name
from tests.providers.recorded import each, kind_of, needs_recordings

pytestmark = needs_recordings(API)


def answered(record: dict[str, Any]) -> bool:
    return record['response']['status'] == 200


@each(API)
def test_answer(record: dict[str, Any], record_property: Callable[[str, object], None]) -> None:
    record_property('recording', (API, record['provider'], kind_of(record)))
    got = asyncio.run(GOOGLE.ask(record, watched=bool(record['stream'])))
    assert GOOGLE.problems(record, got) == []


class Pieces:
    """A response whose body comes in pieces of `size` bytes."""

    def __init__(self, record: dict[str, Any], size: int) -> None:
        response = record['response']
        self._body = (response.get('sse') or response['body']).encode()
        self._size = size
        self.headers = response['headers']

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        for at in range(0, len(self._body), self._size):
            yield self._body[at : at + self._size]

    async def aread(self) -> bytes:
        return self._body


def read(record: dict[str, Any], size: int = 1000, *, asked_for: bool | None = None) -> AssistantMessage:
    """A recorded answer without a network; `asked_for`: a stream was."""
    array = record['stream'] if asked_for is None else asked_for

    async def main() -> AssistantMessage:
        out = ResponseBuilder(provider_name=record['provider'].replace('_', '-'))
        asked = Asked('google', 'm', '', None, '')
        framings = {'application/json': JsonArray} if array else None
        await read_answer(Pieces(record, size), Answer(out, asked, back={}), asked, framings=framings)
        await out.finish()
        return out.build()

    return asyncio.run(main())


def short(record: dict[str, Any]) -> bool:
    response = record['response']
    return bool(record['stream']) and answered(record) and len(response.get('sse') or response['body']) < 40_000


@each(API, lambda r: bool(r['stream']) and answered(r))
@pytest.mark.parametrize('size', [3, 17, 256])
def test_answer_cut_otherwise(record: dict[str, Any], size: int) -> None:
    assert GOOGLE.problems(record, read(record, size)) == []


@each(API, answered)
def test_answer_to_whoever_did_not_ask_for_it(record: dict[str, Any]) -> None:
    """A stream where a plain answer was asked for, and the other way round."""
    assert GOOGLE.problems(record, read(record, asked_for=not record['stream'])) == []


@each(API, short)
def test_single_bytes(record: dict[str, Any]) -> None:
    assert GOOGLE.problems(record, read(record, size=1)) == []


@each(API, lambda r: bool(r['expected']['server_tools']))
def test_what_google_ran_itself(record: dict[str, Any]) -> None:
    names = [p.tool_name for p in read(record).parts if isinstance(p, BuiltinToolCallPart | BuiltinToolReturnPart)]
    assert names == record['expected']['server_tools']


@each(API, answered)
def test_an_answer_goes_back_as_it_came(record: dict[str, Any]) -> None:
    """Whatever stood beside a part goes back on it, also after the message was stored as JSON."""
    got = read(record)
    [_, stored, _] = load_json(dump_json([UserMessage('x'), got, UserMessage('y')]))
    assert stored == got
    body = body_for(model_name(record), [UserMessage('x'), stored, UserMessage('y')], provider=got.provider_name or '')
    sent = [part for content in body['contents'] if content['role'] == 'model' for part in content['parts']]
    came = [part for event in events(record) for part in parts_of(event)]
    if 'partialArgs' not in json.dumps(came):
        assert joined(sent) == joined(came)
    assert signatures(sent) == signatures(came)


def parts_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    candidates: list[Any] = event.get('candidates') or [{}]
    content: dict[str, Any] = candidates[0].get('content') or {}
    return content.get('parts') or []


def signatures(parts: list[dict[str, Any]]) -> list[str]:
    return [s for part in parts if (s := part.get('thoughtSignature')) not in (None, UNSIGNED)]


def joined(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts with unsigned pieces of a text in one."""
    out: list[dict[str, Any]] = []
    for part in parts:
        part = {k: v for k, v in part.items() if not (k == 'thoughtSignature' and v == UNSIGNED)}
        if 'functionCall' in part:
            part['functionCall'] = {'args': {}, **part['functionCall']}
        if part == {'text': ''}:
            continue
        if out and 'text' in part and part.keys() == out[-1].keys() and 'thoughtSignature' not in part:
            out[-1] = {**part, 'text': out[-1]['text'] + part['text']}
        else:
            out.append(part)
    return out


@each(API, lambda r: 'citations' in r['features'] and answered(r))
def test_citations_stand_where_google_says(record: dict[str, Any]) -> None:
    """Each supported segment is cited, and the characters of the citation are the segment's own text."""
    got = read(record)
    found: list[tuple[str, Any]] = [
        (part.content[citation.start : citation.end], citation.provider_details)
        for part in got.parts
        if isinstance(part, TextPart)
        for citation in part.citations
        if citation.start is not None
    ]
    wanted: list[tuple[str, Any]] = [
        (
            support['segment']['text'],
            {'groundingChunk': grounding['groundingChunks'][index], 'groundingSupport': support},
        )
        for event in events(record)
        if (grounding := event['candidates'][0].get('groundingMetadata'))
        for support in grounding.get('groundingSupports') or ()
        for index in support['groundingChunkIndices']
    ]
    assert found == wanted


@each(API, lambda r: answered(r) and bool(r['request']['body']))
def test_request(record: dict[str, Any]) -> None:
    """The recorded messages, read into ours and written again, say the same."""
    recorded = record['request']['body']
    body = body_for(model_name(record), messages_from_google(recorded), provider='google')
    assert meaning(body) == meaning(recorded)


def meaning(body: dict[str, Any]) -> list[Any]:
    """What a request says, in order; who says it, but not in how many turns; notation left out."""
    system: dict[str, Any] = body.get('systemInstruction') or {'parts': []}
    out: list[Any] = [('system', part['text']) for part in system['parts']]
    for content in body['contents']:
        out += [(content['role'], plain(part)) for part in content['parts'] if part != {'text': ''}]
    return out


def plain(value: Any, key: str = '') -> Any:
    """The value with names and results as this project writes them."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        if key == 'response' and list(fields) == ['output']:
            return fields['output']
        if key in ('response', 'args'):
            return fields
        named = {re.sub('_([a-z])', lambda m: m[1].upper(), k): v for k, v in fields.items() if v != UNSIGNED}
        return {k: plain(v, k) for k, v in named.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
