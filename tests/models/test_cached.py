"""CachedModel: the same answer for the same request, plain and streamed, for as long as it is wanted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ModelError
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    Citation,
    FilePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserMessage,
)
from agent_graph.model import ModelSettings, RequestInfo, ResponseBuilder
from agent_graph.models import CachedModel
from agent_graph.testing import FunctionModel
from agent_graph.usage import NO_USAGE, Usage
from tests.engine.kit import WAYS, Way, go
from tests.models.kit import Faulty, answer, ask, broken, busy, by_prompt, cached, stored, text_of, watch

EVERYTHING = AssistantMessage(
    [
        ThinkingPart('let me ' * 40, signature='sealed==', provider_details={'field': 'reasoning'}),
        ThinkingPart('', signature='sealed'),
        TextPart('It is sunny. ' * 30, {'index': 1}, (Citation('https://x.example', 'X', start=0, end=5),)),
        TextPart('And warm. \U0001f31e'),
        TextPart(''),
        FilePart('image/png', data=bytes(range(256))),
        ToolCallPart('look', '{"where": "outside", "how": "' + 'long' * 50 + '"}', 'c1', {'extra_content': {'a': [1]}}),
        ToolCallPart('look', {'where': 'inside'}, 'c2'),
        ToolCallPart('look', '', 'c3'),
        BuiltinToolCallPart('web_search', {'q': 'sun'}, 's1', {'raw': True}),
        BuiltinToolReturnPart('web_search', [1, {'two': None}], 's1'),
    ],
    Usage(input_tokens=70, output_tokens=30, cache_read_tokens=10, details={'x': 1}),
    'gpt-5-2025',
    'resp_1',
    'tool_calls',
    {'finish_reason': 'tool_calls', 'logprobs': {'content': [{'token': 'a', 'logprob': -0.5}]}},
    'openai',
)


def without_notes(message: AssistantMessage) -> AssistantMessage:
    details = {k: v for k, v in (message.provider_details or {}).items() if not k.startswith('cached')}
    return replace(message, usage=NO_USAGE, provider_details=details or None)


def test_the_second_time_nobody_is_asked(path: Path) -> None:
    model = Faulty(['Hi', 'Something else'])
    first, second = cached(model, path)
    assert len(model.requests) == 1 and text_of(second) == 'Hi'
    assert first.provider_details is None and first.usage.total_tokens == 10
    assert second.usage == NO_USAGE
    details = second.provider_details or {}
    assert details['cached'] is True and details['cached_at'] > 1e9
    assert details['cached_usage'] == {'input_tokens': 7, 'output_tokens': 3, 'total_tokens': 10}


class Exact(Faulty):
    """Answers with EVERYTHING, exactly."""

    async def respond(self, messages: Any, info: RequestInfo, out: ResponseBuilder) -> None:
        self.requests.append(tuple(messages))
        await out.message(EVERYTHING)


@pytest.mark.parametrize('streamed_first', [False, True])
def test_plain_and_streamed_are_one(path: Path, streamed_first: bool) -> None:
    """Whatever a response is made of comes back the same, whichever way it was first asked and is asked now."""

    async def main() -> None:
        model = Exact([])
        async with CachedModel(model, path) as cache:
            first = (await watch(cache))[0] if streamed_first else await ask(cache)
            plain = await ask(cache)
            streamed, seen = await watch(cache)
        assert len(model.requests) == 1 and first == EVERYTHING
        assert without_notes(plain) == without_notes(EVERYTHING) and plain == streamed
        assert seen.text == ''.join(p.content for p in EVERYTHING.parts if isinstance(p, TextPart))
        assert seen.names.count('PartDeltaEvent') > 10
        assert seen.names.count('PartStartEvent') == seen.names.count('PartEndEvent') == len(EVERYTHING.parts)

    go(main())


def test_a_request_that_cannot_be_written_is_not_cached(path: Path) -> None:
    async def main() -> None:
        model = Faulty(['Hi'])
        async with CachedModel(model, path) as cache:
            for _ in range(2):
                await ask(cache, settings={'extra_body': {'x': object()}})
        assert len(model.requests) == 2

    go(main())


def test_a_namespace_sets_answers_apart(path: Path) -> None:
    model = Faulty(['Hi'])
    for namespace in ('', 'v2', 'v2'):
        cached(model, path, requests=1, namespace=namespace)
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    'bad',
    [
        answer('x', refusal='No.'),
        answer('x', finish_reason='content_filter'),
        answer('x', finish_reason='refusal'),
        answer('x', finish_reason='error'),
        answer('x', finish_reason='other'),
        answer(''),
        answer(' \n'),
        AssistantMessage([ThinkingPart('hm')], finish_reason='stop'),
        AssistantMessage([], finish_reason='stop'),
        answer('x', provider_details={'odd': object()}),
    ],
    ids=['refusal', 'content filter', 'refused', 'error', 'other', 'empty', 'blank', 'thinking', 'nothing', 'no data'],
)
def test_what_is_no_whole_answer_is_asked_again(path: Path, bad: AssistantMessage) -> None:
    model = Faulty([bad, 'Good'])
    first, second = cached(model, path)
    assert first.parts == bad.parts and text_of(second) == 'Good'


def test_errors_are_not_kept(path: Path) -> None:
    async def main() -> None:
        model = Faulty([busy(), broken('half'), 'Good'])
        async with CachedModel(model, path) as cache:
            for _ in range(2):
                with pytest.raises(ModelError, match=r'busy|cut off'):
                    await ask(cache)
            assert await cache.count() == 0
            assert text_of(await ask(cache)) == 'Good'

    go(main())


def test_what_was_cancelled_is_not_kept(path: Path) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def hang(out: ResponseBuilder) -> None:
            await out.text('half an ans')
            begun.set()
            await asyncio.sleep(60)

        model = Faulty([hang, 'Good'])
        async with CachedModel(model, path) as cache:
            task = asyncio.create_task(ask(cache))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert text_of(await ask(cache)) == 'Good'

    go(main())


def test_broken_characters_are_mended_as_the_run_does(path: Path) -> None:
    model = Faulty([AssistantMessage([ToolCallPart('look', '{"a": "\ud83c"}', 'c')], finish_reason='tool_calls')])
    cached(model, path)
    assert len(model.requests) == 1


def test_answers_grow_old(path: Path) -> None:
    now = 1_000_000.0
    model = Faulty(['one', 'two', 'three'])
    for later, expected in ((0, 'one'), (59, 'one'), (61, 'two'), (100, 'two'), (121.5, 'three')):
        (message,) = cached(model, path, requests=1, ttl=60, clock=lambda later=later: now + later)
        assert text_of(message) == expected
    assert stored(path) == 1


def test_each_cache_has_its_own_idea_of_old(path: Path) -> None:
    now = 1_000_000.0
    model = Faulty(['one', 'two'])
    cached(model, path, requests=1, clock=lambda: now)
    assert text_of(cached(model, path, requests=1, clock=lambda: now + 99)[0]) == 'one'
    assert text_of(cached(model, path, requests=1, ttl=60, clock=lambda: now + 99)[0]) == 'two'
    model = Faulty(['three'])
    assert text_of(cached(model, path, requests=1, clock=lambda: now + 200)[0]) == 'three'  # as it was stored


def test_a_clock_that_was_wrong(path: Path) -> None:
    model = Faulty(['one', 'two'])
    cached(model, path, requests=1, ttl=60, clock=lambda: 9e9)
    assert text_of(cached(model, path, requests=1, ttl=60, clock=lambda: 1e9)[0]) == 'two'


def test_at_most_so_many(path: Path) -> None:
    model, asked = by_prompt()
    now = [1e9]

    async def main() -> None:
        async with CachedModel(model, path, max_entries=2, clock=lambda: now[0]) as cache:
            for prompt in 'abacab':  # b was used longest ago when c came
                now[0] += 100
                await ask(cache, [UserMessage(prompt)])
            assert await cache.count() == 2

    go(main())
    assert asked == ['a', 'b', 'c', 'b']


def test_at_most_so_much(path: Path) -> None:
    model, asked = by_prompt(1000)

    async def main() -> None:
        async with CachedModel(model, path, max_bytes=5000) as cache:
            for n in range(20):
                await ask(cache, [UserMessage(f'{n}')])
            assert 2 <= await cache.count() <= 4
            await ask(cache, [UserMessage('19')])
            await ask(cache, [UserMessage('0')])

    go(main())
    assert asked[-1] == '0' and len(asked) == 21

    large, asked = by_prompt(10_000)
    before = stored(path)
    cached(large, path, max_bytes=5000)
    assert len(asked) == 2 and stored(path) == before  # it would push everything out, and itself


def test_clear(path: Path) -> None:
    async def main() -> None:
        model, asked = by_prompt()
        async with CachedModel(model, path) as cache:
            for prompt in 'abc':
                await ask(cache, [UserMessage(prompt)])
            assert await cache.clear() == 3 and await cache.count() == 0
            await ask(cache, [UserMessage('a')])
        assert len(asked) == 4

    go(main())


def test_bypass_and_refresh(path: Path) -> None:
    async def main() -> None:
        model = Faulty(['one', 'two', 'three', 'four'])
        async with CachedModel(model, path) as cache:
            assert text_of(await ask(cache)) == 'one'
            with cache.bypass():
                assert text_of(await ask(cache)) == 'two'
            assert text_of(await ask(cache)) == 'one'
            with cache.refresh():
                assert text_of(await ask(cache)) == 'three'
                with cache.bypass():
                    assert text_of(await ask(cache)) == 'four'
            assert text_of(await ask(cache)) == 'three'
            assert (cache.hits, cache.misses) == (2, 2)

    go(main())


def test_modes_are_of_one_cache_and_one_task(path: Path) -> None:
    async def main() -> None:
        model = Faulty(['one', 'two'])
        async with CachedModel(model, path) as cache, CachedModel(model, path) as other:
            await ask(cache)
            with cache.refresh():
                assert text_of(await ask(other)) == 'one'

            async def beside() -> None:
                with cache.bypass():
                    await asyncio.sleep(0.05)

            task = asyncio.create_task(beside())
            await asyncio.sleep(0.01)
            assert text_of(await ask(cache)) == 'one'
            await task

    go(main())


def test_a_mode_of_its_own(path: Path) -> None:
    model = Faulty(['one', 'two', 'three', 'four'])
    assert [text_of(m) for m in cached(model, path, mode='refresh')] == ['one', 'two']
    assert [text_of(m) for m in cached(model, path, mode='bypass')] == ['three', 'four']
    assert text_of(cached(model, path, requests=1)[0]) == 'two'


@pytest.mark.parametrize('way', list(WAYS.values()), ids=list(WAYS))
def test_a_run_is_the_same_the_second_time(path: Path, way: Way) -> None:
    """Every request of a run that repeats another is a hit, however it is run: tools run again, nobody is asked."""
    ran: list[str] = []

    def look(where: str) -> str:
        """Look somewhere."""
        ran.append(where)
        return f'sun {where}'

    async def reply(messages: Any, info: RequestInfo) -> Any:
        asked.append(len(messages))
        if len(messages) < 4:
            return AssistantMessage(
                [ThinkingPart('hm', 's'), ToolCallPart('look', {'where': f'w{len(messages)}'}, '')],
                Usage(input_tokens=5),
                finish_reason='tool_calls',
            )
        return 'It is sunny.'

    asked: list[int] = []

    async def main() -> None:
        async with CachedModel(FunctionModel(reply), path) as cache:
            agent = Agent(cache, tools=[look])
            first = await agent.run('How is it?')
            second = await way(agent, 'How is it?')
        assert first.output == second.output == 'It is sunny.'
        assert len(asked) == 3 and ran == ['w1', 'w3'] * 2
        assert (first.usage.input_tokens, second.usage.input_tokens) == (10, 0)
        assert first.usage.requests == second.usage.requests == 3

    go(main())


def test_no_secret_is_in_the_file(path: Path) -> None:
    secret = 'sk-secret-marker'
    settings = ModelSettings(extra_headers={'authorization': secret, 'x-other': secret}, user=secret)

    async def main() -> None:
        async with CachedModel(Faulty(['Hi']), path) as cache:
            await ask(cache, settings=settings)
            assert secret not in repr(cache)

    go(main())
    for file in path.parent.iterdir():
        assert secret.encode() not in file.read_bytes()
