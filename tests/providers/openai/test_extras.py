"""Chat Completions beyond the common tongue: citations, marks for caching, ids of calls, settings of another API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_graph.errors import ConfigError
from agent_graph.messages import (
    AssistantMessage,
    CachePoint,
    Citation,
    Message,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph_providers.openai import OpenAIModel
from tests.providers.loopback import Loopback, Reply, json_reply, sse_reply
from tests.providers.openai.test_model import KEY, piece, plain

NOTE: dict[str, Any] = {
    'type': 'url_citation',
    'url_citation': {'url': 'https://e.example', 'title': 'E', 'start_index': 0, 'end_index': 5},
}
OTHER: dict[str, Any] = {
    'type': 'url_citation',
    'url_citation': {'url': 'https://o.example', 'content': 'what it says'},
}
FILE: dict[str, Any] = {'type': 'file', 'file': {'hash': 'h', 'name': 'a.pdf'}}
CITATIONS = (
    Citation('https://e.example', 'E', None, 0, 5, NOTE),
    Citation('https://o.example', None, 'what it says', None, None, OTHER),
)


def read(reply: Reply, *, watched: bool = False) -> AssistantMessage:
    async def drop(*_: Any, **__: Any) -> None:
        """Somebody watches, and looks away."""

    async def main() -> AssistantMessage:
        async with Loopback([reply]) as server:
            out = ResponseBuilder(drop if watched else None)
            await OpenAIModel('m', base_url=server.url, api_key=KEY).respond([UserMessage('x')], RequestInfo(), out)
            await out.finish()
            return out.build()

    return asyncio.run(main())


def body(messages: list[Message], server: str = 'openai', settings: ModelSettings | None = None) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with Loopback([json_reply(plain({'content': 'ok'}))]) as loopback:
            model = OpenAIModel('m', server=server, base_url=loopback.url, api_key=KEY)
            await model.respond(messages, RequestInfo(settings=settings or ModelSettings()), ResponseBuilder())
            return loopback.requests[0].json

    return asyncio.run(main())


def test_citations_of_an_answer() -> None:
    got = read(json_reply(plain({'content': 'Hello.', 'annotations': [NOTE, OTHER, FILE]})))
    assert got.parts == (TextPart('Hello.', None, CITATIONS),)
    assert (got.provider_details or {})['annotations'] == [NOTE, OTHER, FILE]


@pytest.mark.parametrize(
    'told',
    [
        [{'content': 'Hello.'}, {'annotations': [NOTE, OTHER]}],
        [{'content': 'Hello.', 'annotations': [NOTE]}, {'annotations': [NOTE, OTHER]}],
        [{'annotations': [NOTE]}, {'content': 'Hel'}, {'content': 'lo.', 'annotations': [OTHER]}],
    ],
    ids=['after', 'repeated', 'before'],
)
def test_citations_of_a_stream(told: list[dict[str, Any]]) -> None:
    got = read(sse_reply([*map(piece, told), piece(finish='stop')]), watched=True)
    assert got.parts == (TextPart('Hello.', None, CITATIONS),)


@pytest.mark.parametrize('notes', [{'a': 1}, 'text', [5, None, {}, {'type': 'url_citation', 'url_citation': 5}]])
def test_annotations_of_other_shapes_do_no_harm(notes: Any) -> None:
    got = read(json_reply(plain({'content': 'Hello.', 'annotations': notes})))
    assert isinstance(got.parts[0], TextPart) and got.parts[0].content == 'Hello.'
    assert (got.provider_details or {})['annotations'] == notes


def test_citations_are_not_sent_back() -> None:
    [_, said, _] = body([UserMessage('x'), AssistantMessage([TextPart('Hello.', None, CITATIONS)]), UserMessage('y')])[
        'messages'
    ]
    assert said == {'role': 'assistant', 'content': 'Hello.'}


def test_cache_points_are_marks_where_the_server_takes_them() -> None:
    content = UserMessage([CachePoint(), 'long text', CachePoint('1h'), 'question'])
    plain_parts = [{'type': 'text', 'text': 'long text'}, {'type': 'text', 'text': 'question'}]
    assert body([content])['messages'][0]['content'] == plain_parts
    marked = {**plain_parts[0], 'cache_control': {'type': 'ephemeral', 'ttl': '1h'}}
    assert body([content], 'openrouter')['messages'][0]['content'] == [marked, plain_parts[1]]


def test_caching_everything_is_a_hint() -> None:
    assert body([UserMessage('x')], 'openrouter', {'auto_cache': '5m'})['cache_control'] == {
        'type': 'ephemeral',
        'ttl': '5m',
    }
    assert body([UserMessage('x')], 'openrouter', {'auto_cache': None}) == body([UserMessage('x')], 'openrouter')
    assert body([UserMessage('x')], settings={'auto_cache': '5m'}) == body([UserMessage('x')])


def test_tools_of_the_provider_stand_beside_the_others() -> None:
    assert body([UserMessage('x')], settings={'builtin_tools': [{'type': 'web_search'}]})['tools'] == [
        {'type': 'web_search'}
    ]


@pytest.mark.parametrize(('name', 'value'), [('previous_response_id', 'auto'), ('background', True)])
def test_settings_of_the_responses_api_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f'Chat Completions has no model setting {name!r}.*openai-responses'):
        body([UserMessage('x')], settings={name: value})  # type: ignore[misc]
    assert body([UserMessage('x')], settings={name: None}) == body([UserMessage('x')])  # type: ignore[misc]


def calls_and_answers(ids: list[str], server: str) -> tuple[list[str], list[str]]:
    calls = AssistantMessage([ToolCallPart('f', '{}', i) for i in ids], provider_name='anthropic')
    results = ToolMessage([ToolReturnPart('f', 'r', i) for i in ids])
    messages = body([UserMessage('x'), calls, results], server)['messages']
    return [c['id'] for c in messages[1]['tool_calls']], [m['tool_call_id'] for m in messages[2:]]


@pytest.mark.parametrize(('server', 'form'), [('openai', 40), ('azure', 40), ('mistral', 9), ('groq', None)])
def test_ids_of_other_providers_calls(server: str, form: int | None) -> None:
    ids = ['a' * 64, 'a' * 63 + 'b', 'toolu_01', 'D681PevKs']
    called, answered = calls_and_answers(ids, server)
    assert called == answered and len(set(called)) == len(ids)
    if form is None:
        assert called == ids
    elif form == 9:
        assert all(len(i) == 9 and i.isalnum() for i in called) and called[3] == ids[3]
    else:
        assert all(len(i) <= form for i in called) and called[2:] == ids[2:]
