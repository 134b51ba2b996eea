"""Tools at work: parallel, capped, sequential, timed, in threads; what they return, what they are told, when they are offered."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import BaseModel

from agent_graph import (
    Agent,
    AssistantMessage,
    ConfigError,
    CustomEvent,
    FilePart,
    FunctionToolResultEvent,
    MemoryJournal,
    ModelRetry,
    RunContext,
    TextPart,
    Tool,
    ToolDefinition,
    ToolFailed,
    ToolReturn,
    UnexpectedModelBehavior,
    Usage,
    UserMessage,
    tool,
)
from agent_graph.engine.state import fold
from agent_graph.testing import ScriptedModel
from tests.engine.kit import WAYS, Log, answers_of, call, go, outcome_of, requests_of


class Gauge:
    """How many are inside at a time, and what was inside together."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.most = 0
        self.together: set[frozenset[str]] = set()

    def tool(self, name: str, *, pause: float = 0.005, **options: Any) -> Tool:
        async def work() -> str:
            self.inside.append(name)
            self.most = max(self.most, len(self.inside))
            self.together.add(frozenset(self.inside))
            await asyncio.sleep(pause)
            self.inside.remove(name)
            return name

        return Tool(work, name=name, **options)


def test_parallel_and_stored_in_call_order() -> None:
    async def main() -> None:
        async def work(n: int) -> int:
            await asyncio.sleep(0.01 * (20 - n))
            return n

        calls = [call('work', {'n': n}, f'c{n}') for n in range(20)]
        agent = Agent(ScriptedModel([calls, 'done']), tools=[work])
        async with agent.run_stream('go') as s:
            ended = [e.part.content async for e in s.events() if isinstance(e, FunctionToolResultEvent)]
            result = await s.result()
        assert [p.content for p in answers_of(result.messages)] == list(range(20))
        assert sorted(map(str, ended)) == sorted(map(str, range(20))) and ended[0] == 19, (
            'results are shown as the calls finish'
        )

    go(main())


@pytest.mark.parametrize('cap', [1, 3, 50, None])
def test_max_concurrency(cap: int | None) -> None:
    async def main() -> None:
        gauge = Gauge()
        calls = [call('t', {}, f'c{n}') for n in range(10)]
        agent = Agent(ScriptedModel([calls, 'done']), tools=[gauge.tool('t')], max_concurrency=cap)
        result = await agent.run('go')
        assert gauge.most == min(cap or 10, 10) and result.usage.tool_calls == 10

    go(main())


def test_a_sequential_tool_is_a_barrier() -> None:
    async def main() -> None:
        gauge = Gauge()
        tools = [gauge.tool(n) for n in 'abde'] + [gauge.tool('C', sequential=True)]
        calls = [call(n) for n in ('a', 'b', 'C', 'd', 'e')]
        result = await Agent(ScriptedModel([calls, 'done']), tools=tools).run('go')
        assert frozenset('C') in gauge.together and not any('C' in s and len(s) > 1 for s in gauge.together)
        assert frozenset('ab') in gauge.together and frozenset('de') in gauge.together
        assert not any(s & set('ab') and s & set('de') for s in gauge.together)
        assert [p.content for p in answers_of(result.messages)] == ['a', 'b', 'C', 'd', 'e']

    go(main())


@pytest.mark.parametrize('order', ['CC', 'CaC', 'aCC', 'Ca', 'aC', 'C', 'CCCabC'])
@pytest.mark.parametrize('cap', [None, 2])
def test_sequential_tools_in_every_position(order: str, cap: int | None) -> None:
    async def main() -> None:
        gauge = Gauge()
        tools = [gauge.tool('a'), gauge.tool('b'), gauge.tool('C', sequential=True)]
        calls = [call(n, {}, f'{i}') for i, n in enumerate(order)]
        result = await Agent(ScriptedModel([calls, 'done']), tools=tools, max_concurrency=cap).run('go')
        assert [p.content for p in answers_of(result.messages)] == list(order)
        assert not any('C' in s and len(s) > 1 for s in gauge.together)

    go(main())


def test_a_cap_with_tools_of_very_different_speed() -> None:
    async def main() -> None:
        gauge = Gauge()
        tools = [gauge.tool('slow', pause=0.05), gauge.tool('fast', pause=0.001)]
        calls = [call('slow'), *(call('fast', {}, f'f{i}') for i in range(20))]
        begin = time.monotonic()
        await Agent(ScriptedModel([calls, 'done']), tools=tools, max_concurrency=2).run('go')
        assert gauge.most == 2 and time.monotonic() - begin < 0.5, 'a slow tool holds one place, not all'

    go(main())


def test_sync_tools_run_in_threads_at_the_same_time() -> None:
    async def main() -> None:
        barrier = threading.Barrier(5)
        names: set[str] = set()

        def work() -> str:
            barrier.wait(5)
            names.add(threading.current_thread().name)
            return 'ok'

        calls = [call('work', {}, f'{i}') for i in range(5)]
        result = await Agent(ScriptedModel([calls, 'done']), tools=[work]).run('go')
        assert [p.content for p in answers_of(result.messages)] == ['ok'] * 5 and len(names) == 5
        assert threading.main_thread().name not in names

    go(main())


@dataclass
class Point:
    x: int
    y: int


class Box(BaseModel):
    points: list[Any]


RETURNS: list[tuple[Any, Any]] = [
    ('text', 'text'),
    ('', ''),
    (5, 5),
    (2.5, 2.5),
    (True, True),
    (None, None),
    ([1, 'a', None], [1, 'a', None]),
    ((1, 2), [1, 2]),
    ({'a': {'b': [1]}}, {'a': {'b': [1]}}),
    ({1: 'x'}, {'1': 'x'}),
    (Point(1, 2), {'x': 1, 'y': 2}),
    ([Point(1, 2)], [{'x': 1, 'y': 2}]),
    (Box(points=[1]), {'points': [1]}),
    (float('inf'), 'Infinity'),
    (b'bytes', 'bytes'),
]


@pytest.mark.parametrize(('value', 'content'), RETURNS, ids=[repr(v)[:30] for v, _ in RETURNS])
@pytest.mark.parametrize('sync', [False, True])
def test_what_a_tool_may_return(value: Any, content: Any, sync: bool) -> None:
    async def main() -> None:
        def plain() -> Any:
            return value

        async def coroutine() -> Any:
            return value

        journal = MemoryJournal()
        agent = Agent(
            ScriptedModel([[call('t')], 'x']), tools=[Tool(plain if sync else coroutine, name='t')], journal=journal
        )
        result = await agent.run('go', run_id='r')
        (part,) = answers_of(result.messages)
        assert part.content == content and type(part.content) is type(content) and part.outcome == 'success'
        assert fold('r', await journal.load('r')) == result.state

    go(main())


@pytest.mark.parametrize(
    'value', [object(), lambda: 1, {'x': object()}, threading.Lock()], ids=lambda v: type(v).__name__
)
def test_what_has_no_json_form_fails_the_run_and_names_tool_and_value(value: Any) -> None:
    async def main() -> None:
        async def t() -> Any:
            return value

        done = await outcome_of(WAYS['run'], Agent(ScriptedModel([[call('t')]]), tools=[t]))
        assert isinstance(done.error, ToolFailed) and "'t'" in str(done.error) and 'JSON' in str(done.error)

    go(main())


IMAGE = FilePart.from_bytes(b'\x89PNG', 'image/png', name='a.png')
SOUND = FilePart.from_bytes(b'RIFF', 'audio/wav')


def test_tool_return_with_content_and_metadata() -> None:
    async def main() -> None:
        async def t() -> ToolReturn:
            return ToolReturn({'n': 1}, content=['look at this', IMAGE], metadata={'secret': 1})

        async def plain() -> ToolReturn:
            return ToolReturn('x', content='more text')

        journal = MemoryJournal()
        model = ScriptedModel([[call('t'), call('plain')], 'done'])
        result = await Agent(model, tools=[t, plain], journal=journal).run('go', run_id='r')
        first, second = answers_of(result.messages)
        assert first.content == {'n': 1} and first.extra_content == ('look at this', IMAGE)
        assert first.metadata == {'secret': 1} and second.extra_content == ('more text',)
        assert answers_of(requests_of(model)[1]) == [first, second]
        assert fold('r', await journal.load('r')) == result.state

    go(main())


@pytest.mark.parametrize(
    ('value', 'files'),
    [(IMAGE, (IMAGE,)), ([IMAGE, SOUND], (IMAGE, SOUND)), (ToolReturn(IMAGE, content='seen'), (IMAGE, 'seen'))],
)
def test_files_go_beside_the_answer(value: Any, files: tuple[Any, ...]) -> None:
    async def main() -> None:
        async def t() -> Any:
            return value

        result = await Agent(ScriptedModel([[call('t')], 'x']), tools=[t]).run('go')
        (part,) = answers_of(result.messages)
        assert part.extra_content == files and isinstance(part.content, str)

    go(main())


def test_model_retry_and_the_count_in_the_context() -> None:
    async def main() -> None:
        seen: list[tuple[int, int]] = []

        async def t(ctx: RunContext[None]) -> str:
            seen.append((ctx.retry, ctx.max_retries))
            if len(seen) < 3:
                raise ModelRetry(f'no {len(seen)}')
            return 'yes'

        model = ScriptedModel([[call('t', {}, f'{i}')] for i in range(3)] + ['done'])
        result = await Agent(model, tools=[Tool(t, retries=2)]).run('go')
        assert seen == [(0, 2), (1, 2), (2, 2)] and result.output == 'done'
        assert [(p.outcome, p.content) for p in answers_of(result.messages)] == [
            ('retry', 'no 1'),
            ('retry', 'no 2'),
            ('success', 'yes'),
        ]

    go(main())


@pytest.mark.parametrize(('own', 'agents', 'asked'), [(None, 0, 1), (None, 2, 3), (0, 5, 1), (3, 0, 4)])
def test_retries_per_tool(own: int | None, agents: int, asked: int) -> None:
    async def main() -> None:
        async def t() -> str:
            raise ModelRetry('never right')

        model = ScriptedModel([[call('t', {}, f'{i}')] for i in range(10)])
        done = await outcome_of(WAYS['run'], Agent(model, tools=[Tool(t, retries=own)], retries=agents))
        assert isinstance(done.error, UnexpectedModelBehavior) and 'never right' in str(done.error)
        assert len(model.requests) == asked

    go(main())


def test_retries_of_two_tools_are_counted_apart() -> None:
    async def main() -> None:
        failing = True

        async def a() -> str:
            raise ModelRetry('a')

        async def b() -> str:
            if failing:
                raise ModelRetry('b')
            return 'b'

        model = ScriptedModel([[call('a', {}, '1')], [call('b', {}, '2')], 'done'])
        assert (await Agent(model, tools=[a, b], retries=1).run('go')).output == 'done'

    go(main())


def test_all_the_fields_of_the_context() -> None:
    async def main() -> None:
        seen: list[RunContext[str]] = []

        async def t(ctx: RunContext[str], n: int) -> int:
            seen.append(ctx)
            assert ctx.deps == 'my deps' and ctx.run_id == 'r1' and ctx.agent_name == 'contextual'
            assert (ctx.tool_name, ctx.tool_call_id, ctx.retry, ctx.max_retries) == ('t', 'c1', 0, 4)
            assert ctx.step_number == 1 and ctx.metadata == {'k': 'v'} and not ctx.partial
            assert [m.kind for m in ctx.messages] == ['user', 'assistant'], 'the response being handled is included'
            assert ctx.usage.requests == 1 and ctx.usage.tool_calls == 1 and ctx.usage.input_tokens == 10
            assert ctx.idempotency_key == 'r1:c1'
            await ctx.emit('nobody watches')
            return n

        response = AssistantMessage([call('t', {'n': 1}, 'c1')], Usage(input_tokens=10))
        agent = Agent(ScriptedModel([response, 'x']), name='contextual', deps_type=str, tools=[t], retries=4)
        result = await agent.run('go', deps='my deps', run_id='r1', metadata={'k': 'v'})
        assert result.output == 'x' and len(seen) == 1 and result.metadata == {'k': 'v'}
        assert 'ctx' not in str(agent.graph)
        assert answers_of(result.messages)[0].outcome == 'success'

    go(main())


def test_the_context_never_reaches_the_schema() -> None:
    async def main() -> None:
        async def t(ctx: RunContext[None], n: int) -> int:
            return n

        model = ScriptedModel(['x'])
        await Agent(model, tools=[t]).run('go')
        (definition,) = model.requests[0].info.tools
        assert list(definition.parameters['properties']) == ['n'] and definition.name == 't'

    go(main())


@pytest.mark.parametrize('sync', [False, True])
def test_prepare_changes_or_drops_a_tool_for_each_request(sync: bool) -> None:
    async def main() -> None:
        asked: list[int] = []

        def plain(ctx: RunContext[None], definition: ToolDefinition) -> ToolDefinition | None:
            asked.append(ctx.step_number)
            return replace(definition, description=f'step {ctx.step_number}') if ctx.step_number != 2 else None

        async def coroutine(ctx: RunContext[None], definition: ToolDefinition) -> ToolDefinition | None:
            return plain(ctx, definition)

        log = Log()
        model = ScriptedModel(
            [[call('t', {}, '1')], [call('t', {}, '2'), call('other', {}, '3')], [call('t', {}, '4')], 'done']
        )
        tools = [log.tool('t', prepare=plain if sync else coroutine), log.tool('other')]
        result = await Agent(model, tools=tools, retries=5).run('go')
        offered = [{t.name: t.description for t in r.info.tools} for r in model.requests]
        assert offered == [
            {'t': 'step 1', 'other': 'other'},
            {'other': 'other'},
            {'t': 'step 3', 'other': 'other'},
            {'t': 'step 4', 'other': 'other'},
        ]
        assert log == ['t', 'other', 't'], 'a dropped tool is not run'
        assert 'Unknown tool' in str(answers_of(result.messages)[1].content) and asked == [1, 2, 3, 4]

    go(main())


def test_prepare_that_drops_everything_or_returns_nonsense() -> None:
    async def main() -> None:
        model = ScriptedModel(['x'])
        await Agent(model, tools=[Log().tool('t', prepare=lambda ctx, d: None)]).run('go')  # pyright: ignore
        assert model.requests[0].info.tools == ()
        for wrong in ('text', ToolDefinition('other name', '', {})):
            agent = Agent(ScriptedModel(['x']), tools=[Log().tool('t', prepare=lambda ctx, d, w=wrong: w)])  # pyright: ignore
            with pytest.raises(ConfigError, match="'t'"):
                await agent.run('go')

    go(main())


def test_the_tools_list_is_prepared_once_a_run() -> None:
    async def main() -> None:
        model = ScriptedModel([[call('t', {}, '1')], [call('t', {}, '2')], 'x'])
        await Agent(model, tools=[Log().tool('t')]).run('go')
        first = model.requests[0].info.tools
        assert all(r.info.tools is first for r in model.requests)
        assert all(r.info.scratch is model.requests[0].info.scratch for r in model.requests)

    go(main())


@pytest.mark.parametrize('value', ['text', 5, [1], Point(1, 2), None])
def test_stop_after(value: Any) -> None:
    async def main() -> None:
        for way in WAYS.values():
            log = Log()

            async def last() -> Any:
                return value

            model = ScriptedModel([[call('a'), call('last'), call('b')]])
            tools = [log.tool('a'), Tool(last, stop_after=True), log.tool('b')]
            agent: Agent[None, Any] = Agent(model, tools=tools)
            done = await outcome_of(way, agent)
            assert done.error is None and done.output == value and sorted(log) == ['a', 'b']
            assert len(model.requests) == 1 and done.messages[-1].kind == 'tool'
            again = ScriptedModel(['on'])
            assert (await Agent(again).run('go on', message_history=done.messages)).output == 'on'

    go(main())


def test_stop_after_only_on_success_and_the_first_in_call_order() -> None:
    async def main() -> None:
        tries = 0

        async def slow() -> str:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise ModelRetry('again')
            await asyncio.sleep(0.01)
            return 'slow'

        async def fast() -> str:
            return 'fast'

        tools = [Tool(slow, stop_after=True), Tool(fast, stop_after=True)]
        model = ScriptedModel([[call('slow', {}, '1')], [call('slow', {}, '2'), call('fast', {}, '3')]])
        assert (await Agent(model, tools=tools).run('go')).output == 'slow'

    go(main())


def test_an_async_generator_shows_values_and_the_last_is_the_result() -> None:
    async def main() -> None:
        closed: list[str] = []

        async def progress(ctx: RunContext[None], n: int) -> AsyncIterator[Any]:
            try:
                for i in range(n):
                    yield {'done': i}
            finally:
                closed.append(ctx.tool_call_id or '')

        async def special() -> AsyncIterator[Any]:
            yield 'seen'
            yield ToolReturn('result', content='extra', metadata=1)
            yield 'never reached'

        async def nothing() -> AsyncIterator[Any]:
            return
            yield

        calls = [call('progress', {'n': 3}, 'p'), call('special'), call('nothing')]
        agent = Agent(ScriptedModel([calls, 'x'] * 2), tools=[progress, special, nothing])
        async with agent.run_stream('go') as s:
            events = [e async for e in s.events() if isinstance(e, CustomEvent)]
            result = await s.result()
        assert [e.value for e in events if e.tool_call_id == 'p'] == [{'done': 0}, {'done': 1}, {'done': 2}]
        assert [e.value for e in events if e.tool_name == 'special'] == ['seen']
        first, second, third = answers_of(result.messages)
        assert first.content == {'done': 2} and closed == ['p']
        assert (second.content, second.extra_content, second.metadata) == ('result', ('extra',), 1)
        assert third.content is None
        plain = await agent.run('go')
        assert answers_of(plain.messages) == [first, second, third]

    go(main())


def test_a_generator_is_closed_when_it_times_out_or_the_run_is_cancelled() -> None:
    async def main() -> None:
        closed: list[str] = []

        async def endless(name: str) -> AsyncIterator[int]:
            try:
                while True:
                    yield 1
                    await asyncio.sleep(0.005)
            finally:
                closed.append(name)

        agent = Agent(ScriptedModel([[call('endless', {'name': 'late'})], 'x']), tools=[Tool(endless, timeout=0.03)])
        result = await agent.run('go')
        assert answers_of(result.messages)[0].outcome == 'interrupted' and closed == ['late']
        agent = Agent(ScriptedModel([[call('endless', {'name': 'left'})]]), tools=[endless])
        async with agent.run_stream('go') as s:
            async for event in s.events():
                if isinstance(event, CustomEvent):
                    break
        assert closed == ['late', 'left']

    go(main())


def test_emitted_values_may_be_anything_and_cost_nothing_unwatched() -> None:
    async def main() -> None:
        thing = object()

        async def t(ctx: RunContext[None]) -> str:
            await ctx.emit(thing)
            return 'ok'

        agent = Agent(ScriptedModel([[call('t')], 'x'] * 2), tools=[t], journal=MemoryJournal())
        events = [e async for e in agent.run_stream_events('go') if isinstance(e, CustomEvent)]
        assert [e.value for e in events] == [thing] and events[0].node == 'HandleResponse'
        await agent.run('go')

    go(main())


def test_tools_as_functions_decorated_objects_and_methods() -> None:
    async def main() -> None:
        class Service:
            def __init__(self, n: int) -> None:
                self.n = n

            async def method(self, x: int) -> int:
                return self.n + x

            def __call__(self, x: int) -> int:
                return self.n * x

        @tool(name='renamed', description='said otherwise')
        async def decorated(x: int) -> int:
            return -x

        service = Service(10)
        tools = [service.method, Tool(service, name='callable'), decorated, Tool(lambda x: x, name='untyped')]  # pyright: ignore
        calls = [
            call('method', {'x': 1}),
            call('callable', {'x': 2}),
            call('renamed', {'x': 3}),
            call('untyped', {'x': 'y'}),
        ]
        result = await Agent(ScriptedModel([calls, 'x']), tools=tools).run('go')
        assert [p.content for p in answers_of(result.messages)] == [11, 20, -3, 'y']

    go(main())


def test_a_tool_that_changes_its_arguments_does_not_change_the_history() -> None:
    async def main() -> None:
        async def t(items: list[int], opts: dict[str, Any]) -> int:
            items.append(99)
            opts['changed'] = True
            return len(items)

        args = {'items': [1], 'opts': {'a': 1}}
        agent = Agent(ScriptedModel([[call('t', args)], 'x']), tools=[t])
        result = await agent.run('go')
        response = result.messages[1]
        assert isinstance(response, AssistantMessage)
        assert response.parts[0].args == {'items': [1], 'opts': {'a': 1}} == args  # pyright: ignore
        assert answers_of(result.messages)[0].content == 2

    go(main())


def test_a_tool_that_changes_its_result_later_does_not_change_the_history() -> None:
    async def main() -> None:
        kept: list[int] = [1]

        async def t() -> list[int]:
            return kept

        result = await Agent(ScriptedModel([[call('t')], 'x']), tools=[t]).run('go')
        kept.append(2)
        assert answers_of(result.messages)[0].content == [1]

    go(main())


def test_text_beside_calls_is_kept() -> None:
    async def main() -> None:
        result = await Agent(ScriptedModel([[TextPart('I look'), call('t')], 'x']), tools=[Log().tool('t')]).run('go')
        response = result.messages[1]
        assert isinstance(response, AssistantMessage) and response.parts[0] == TextPart('I look')
        assert result.messages[0] == UserMessage('go')

    go(main())


@pytest.mark.parametrize('kind', ['sync', 'async', 'sync output function', 'sync with a timeout'])
def test_a_tool_that_raises_stop_iteration(kind: str) -> None:
    """`next(iterator)` in user code: asyncio cannot carry this exception, and a waiter for it would wait for ever."""

    async def main() -> None:
        def sync() -> str:
            return next(iter(list[str]()))

        async def coroutine() -> str:
            return sync()

        if kind == 'sync output function':
            agent: Agent[None, str] = Agent(ScriptedModel([[call('final_result')]]), output_type=sync)
        else:
            tool = Tool(coroutine if kind == 'async' else sync, name='t', timeout=5 if 'timeout' in kind else None)
            agent = Agent(ScriptedModel([[call('t')]]), tools=[tool])
        with pytest.raises(ToolFailed, match='StopIteration'):
            await asyncio.wait_for(agent.run('go'), 3)

    go(main())


def test_sync_code_that_makes_a_coroutine_and_partial_functions() -> None:
    from functools import partial

    async def main() -> None:
        async def add(a: int, b: int) -> int:
            return a + b

        def makes(n: int) -> Any:
            return add(n, n)

        model = ScriptedModel([[call('makes', {'n': 2}), call('add', {'b': 2})], 'x'])
        result = await Agent(model, tools=[makes, partial(add, 1)]).run('go')
        assert [p.content for p in answers_of(result.messages)] == [4, 3]

    go(main())
