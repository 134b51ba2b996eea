"""ScriptedModel and FunctionModel against the Model contract, without an engine."""

from __future__ import annotations

import asyncio
import cProfile
import pstats
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph.errors import ConfigError, ModelTimeout, UnexpectedModelBehavior
from agent_graph.messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserMessage,
)
from agent_graph.model import Model, RequestInfo, ResponseBuilder
from agent_graph.testing.scripted import FunctionModel, ScriptedModel, ScriptItem
from agent_graph.usage import Usage

ASK: list[Message] = [UserMessage('hello')]
INFO = RequestInfo()

PARTS: list[AssistantPart] = [
    ThinkingPart('let me think about it', signature='sig', provider_details={'n': 1}),
    TextPart('first text, long enough for pieces'),
    TextPart('a second text beside it', provider_details={'cited': True}),
    ToolCallPart('add', {'a': 1, 'b': 'ünï'}, 'c1'),
    ToolCallPart('add', '{"a": 1, "b": 2}', 'c2', {'x': 'y'}),
    ToolCallPart('noop', '', 'c3'),
    TextPart(''),
    ThinkingPart(''),
    FilePart('image/png', data=b'123'),
    TextPart('bye'),
]


class Watcher:
    """A sink that keeps what it is shown."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    async def __call__(self, event: type[Any], **fields: Any) -> None:
        self.events.append(event(run_id='r', seq=len(self.events), **fields))

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


async def answer_of(model: Model, sink: Watcher | None = None, messages: Sequence[Message] = ASK) -> AssistantMessage:
    out = ResponseBuilder(sink, model_name=model.name, provider_name=model.provider)
    await model.respond(messages, INFO, out)
    await out.finish()
    return out.build()


def ask(model: Model, sink: Watcher | None = None) -> AssistantMessage:
    return asyncio.run(answer_of(model, sink))


def test_items_are_given_in_order() -> None:
    model = ScriptedModel(['one', [ToolCallPart('f', {}, 'c')], AssistantMessage([TextPart('three')])])
    first, second, third = ask(model), ask(model), ask(model)
    assert (first.parts, first.finish_reason) == ((TextPart('one'),), 'stop')
    assert (second.parts, second.finish_reason) == ((ToolCallPart('f', {}, 'c'),), 'tool_calls')
    assert third.parts == (TextPart('three'),)
    assert first.usage == Usage(), 'usage is never made up'
    assert (first.model_name, first.provider_name) == ('scripted', 'test')


def test_everything_a_whole_message_says_is_kept() -> None:
    message = AssistantMessage(
        PARTS, Usage(input_tokens=3, output_tokens=4), 'm-2', 'resp_1', 'length', {'k': 'v'}, 'p', 'no'
    )
    model = ScriptedModel([message, message])
    assert ask(model) == message
    assert ask(model, Watcher()) == message


@pytest.mark.parametrize('chunk', [1, 3, 8, 1000])
def test_the_answer_is_the_same_watched_or_not(chunk: int) -> None:
    model = ScriptedModel([PARTS, PARTS], chunk=chunk)
    watched, plain = ask(model, Watcher()), ask(model)
    assert watched == plain
    assert watched.parts == tuple(PARTS)


part = st.one_of(
    st.builds(TextPart, st.text(max_size=20), st.none() | st.just({'d': 1})),
    st.builds(ThinkingPart, st.text(max_size=20), st.none() | st.text(min_size=1, max_size=3)),
    st.builds(
        ToolCallPart,
        st.sampled_from(['f', 'g']),
        st.text(max_size=9) | st.just({'a': [1]}),
        st.sampled_from(['', 'c1']),
    ),
)


@given(st.lists(part, max_size=6), st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_any_parts_arrive_whole(parts: list[AssistantPart], chunk: int) -> None:
    assert ask(ScriptedModel([parts], chunk=chunk), Watcher()).parts == tuple(parts)


def test_pieces_add_up_to_the_parts() -> None:
    sink = Watcher()
    ask(ScriptedModel([PARTS], chunk=4), sink)
    texts = {e.index: e.part.content for e in sink.events if e.kind == 'part_start' and e.part.kind == 'text'}
    for event in sink.events:
        if event.kind == 'part_delta' and event.delta.kind == 'text':
            texts[event.index] += event.delta.content_delta
    assert [t for t in texts.values() if t] == [p.content for p in PARTS if isinstance(p, TextPart) and p.content]
    assert sink.kinds.count('part_start') == sink.kinds.count('part_end') == len(PARTS)
    assert sink.kinds.count('part_delta') > 10


def test_tool_arguments_stream_as_text_also_when_given_as_an_object() -> None:
    sink = Watcher()
    ask(ScriptedModel([[ToolCallPart('add', {'a': 1, 'b': 'x'}, 'c1')]], chunk=5), sink)
    deltas = ''.join(e.delta.args_delta for e in sink.events if e.kind == 'part_delta')
    assert deltas == '{"a": 1, "b": "x"}'
    assert sink.events[0].part == ToolCallPart('add', '', 'c1')
    assert sink.events[-1].part == ToolCallPart('add', {'a': 1, 'b': 'x'}, 'c1')


def test_exceptions_are_raised_and_the_script_goes_on() -> None:
    model = ScriptedModel([ModelTimeout('too slow'), TimeoutError, 'fine'])
    with pytest.raises(ModelTimeout, match='too slow'):
        ask(model)
    with pytest.raises(TimeoutError):
        ask(model)
    assert ask(model).parts == (TextPart('fine'),)


def test_functions_see_the_request() -> None:
    async def echo(messages: Sequence[Message], info: RequestInfo) -> AssistantMessage:
        last = messages[-1]
        assert isinstance(last, UserMessage)
        return AssistantMessage([TextPart(f'{last.content} {info.step}')], finish_reason='length')

    def plain(messages: Sequence[Message], info: RequestInfo) -> str:
        return f'{len(messages)} messages'

    async def fails(messages: Sequence[Message], info: RequestInfo) -> Any:
        return ModelTimeout('late')

    model = ScriptedModel([echo, plain, fails])
    assert ask(model) == AssistantMessage(
        [TextPart('hello 0')], finish_reason='length', model_name='scripted', provider_name='test'
    )
    assert ask(model).parts == (TextPart('1 messages'),)
    with pytest.raises(ModelTimeout, match='late'):
        ask(model)


def test_an_async_generator_streams_what_it_yields() -> None:
    async def talk(
        messages: Sequence[Message], info: RequestInfo
    ) -> AsyncIterator[str | AssistantPart | AssistantMessage]:
        yield 'Hel'
        yield 'lo'
        yield ToolCallPart('f', {'x': 1}, 'c1')
        yield 'bye'

    sink = Watcher()
    answer = ask(ScriptedModel([talk]), sink)
    assert answer.parts == (TextPart('Hello'), ToolCallPart('f', {'x': 1}, 'c1'), TextPart('bye'))
    assert answer.finish_reason == 'tool_calls'
    assert [e.delta.content_delta for e in sink.events if e.kind == 'part_delta'] == ['lo']


def test_a_generator_is_closed_when_the_run_is_cancelled() -> None:
    closed: list[bool] = []

    async def talk(messages: Sequence[Message], info: RequestInfo) -> AsyncIterator[str]:
        try:
            yield 'begin'
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    async def main() -> ResponseBuilder:
        out = ResponseBuilder()
        task = asyncio.create_task(ScriptedModel([talk]).respond(ASK, INFO, out))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return out

    assert asyncio.run(main()).build(interrupted=True).parts == (TextPart('begin'),)
    assert closed == [True]


def test_cancellation_lands_between_pieces() -> None:
    async def main() -> ResponseBuilder:
        out = ResponseBuilder(Watcher())
        task = asyncio.create_task(ScriptedModel(['x' * 1000], chunk=10).respond(ASK, INFO, out))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return out

    (text,) = asyncio.run(main()).build(interrupted=True).parts
    assert isinstance(text, TextPart) and 0 < len(text.content) < 1000


def test_requests_are_recorded_as_they_were() -> None:
    model = ScriptedModel(['a', 'b'])
    messages = list(ASK)
    asyncio.run(answer_of(model, None, messages))
    messages.append(UserMessage('more'))
    asyncio.run(answer_of(model, None, messages))
    assert [len(request.messages) for request in model.requests] == [1, 2]
    assert model.requests[0].info is INFO


def test_a_script_that_is_too_short_says_so() -> None:
    model = ScriptedModel(['a'])
    ask(model)
    with pytest.raises(UnexpectedModelBehavior, match=r"'scripted' was asked 2 times, but its script has 1 answers"):
        ask(model)


def test_runs_that_share_a_script_take_one_item_each() -> None:
    async def main() -> list[AssistantMessage]:
        model = ScriptedModel([f'answer {i}' for i in range(20)])
        return await asyncio.gather(*(answer_of(model, Watcher()) for _ in range(20)))

    texts = [message.parts[0] for message in asyncio.run(main())]
    assert texts == [TextPart(f'answer {i}') for i in range(20)]


@pytest.mark.parametrize('item', [None, 3, ['a text in a list'], [UserMessage('x')], int])
def test_an_item_no_model_can_answer_is_refused_at_once(item: Any) -> None:
    with pytest.raises(ConfigError, match=r'script\[1\] is .*AssistantMessage'):
        ScriptedModel(['fine', item])


def test_a_bare_text_is_no_script() -> None:
    with pytest.raises(ConfigError, match=r"pass a list: \['hello'\]"):
        ScriptedModel('hello')


def test_a_function_that_returns_nonsense_is_named() -> None:
    async def wrong(messages: Sequence[Message], info: RequestInfo) -> Any:
        return 42

    async def yields_wrong(messages: Sequence[Message], info: RequestInfo) -> AsyncIterator[Any]:
        yield 42

    with pytest.raises(ConfigError, match=r'wrong returned is 42'):
        ask(FunctionModel(wrong))
    with pytest.raises(ConfigError, match=r'yielded 42'):
        ask(FunctionModel(yields_wrong))


@pytest.mark.parametrize(
    'make', [lambda: ScriptedModel(['a'], chunk=0), lambda: FunctionModel(lambda m, i: 'a', chunk=-1)]
)
def test_a_chunk_has_at_least_one_character(make: Any) -> None:
    with pytest.raises(ConfigError, match='chunk='):
        make()


def test_function_model_answers_every_request() -> None:
    async def reply(messages: Sequence[Message], info: RequestInfo) -> list[AssistantPart]:
        return [TextPart('one'), TextPart('two')]

    model = FunctionModel(reply, name='mine', provider='house')
    assert isinstance(model, Model)
    for sink in (None, Watcher()):
        answer = ask(model, sink)
        assert answer.parts == (TextPart('one'), TextPart('two'))
        assert (answer.model_name, answer.provider_name, answer.finish_reason) == ('mine', 'house', 'stop')


def test_an_unwatched_answer_costs_few_calls() -> None:
    script: list[ScriptItem] = [AssistantMessage([TextPart('x' * 5000)])] * 2
    model = ScriptedModel(script)

    async def main() -> int:
        await model.respond(ASK, INFO, ResponseBuilder())
        profile = cProfile.Profile()
        out = ResponseBuilder()
        profile.enable()
        await model.respond(ASK, INFO, out)
        profile.disable()
        return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]

    assert asyncio.run(main()) <= 25
