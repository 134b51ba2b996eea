"""Random scripts, tools and interruptions: what must hold for every run there is."""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph import (
    Agent,
    AssistantMessage,
    MemoryJournal,
    Message,
    ModelRetry,
    ModelTimeout,
    RunError,
    RunResult,
    SQLiteJournal,
    SystemMessage,
    TextPart,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolFailed,
    ToolMessage,
    ToolReturn,
    ToolReturnPart,
    Usage,
    UsageLimits,
    UserMessage,
)
from agent_graph.engine.state import RunState, fold
from agent_graph.journal.entries import Record
from agent_graph.journal.jsonl import export_run, import_run
from agent_graph.messages import AssistantPart, FilePart, is_valid
from agent_graph.testing import FunctionModel, ReplayModel, ScriptedModel
from tests.engine.kit import WAYS, Way

SETTINGS = settings(max_examples=int(os.environ.get('AGENT_GRAPH_EXAMPLES', '25')), deadline=None)

texts = st.text(st.characters(codec=None), max_size=12)  # lone surrogates too
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
ids = st.sampled_from(['', 'x', 'y', 'z', 'call_1'])
NO_ARGS: dict[str, Any] = {}
args = st.one_of(
    st.just(NO_ARGS),
    st.fixed_dictionaries({'n': st.integers(-3, 3)}),
    st.sampled_from(
        ['', '{}', '{"n": 1}', '{"n": 1', '{"n": "x"}', 'null', '{"n": 2.0}', '{"response": 5}', '{"response": "x"}']
    ),
    st.fixed_dictionaries({'response': st.integers(0, 9)}),
    st.dictionaries(texts, json_values, max_size=2),
)
TOOLS = ['fine', 'takes', 'retries', 'fails', 'slow', 'alone', 'emits', 'rich', 'made_up', 'final_result', '']
wild = st.builds(ToolCallPart, st.sampled_from(TOOLS), args, ids)
good = st.one_of(
    st.builds(
        ToolCallPart, st.sampled_from(['fine', 'slow', 'alone', 'emits', 'rich', 'retries']), st.just(NO_ARGS), ids
    ),
    st.builds(ToolCallPart, st.just('takes'), st.fixed_dictionaries({'n': st.integers(-3, 3)}), ids),
    st.builds(ToolCallPart, st.just('final_result'), st.fixed_dictionaries({'response': st.integers(0, 9)}), ids),
)
parts: st.SearchStrategy[AssistantPart] = st.one_of(
    good,
    good,
    good,
    wild,
    st.builds(TextPart, texts),
    st.builds(ThinkingPart, texts, st.none() | st.just('seal')),
    st.just(FilePart('image/png', data=b'x')),
)
usages = st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))
responses = st.builds(
    AssistantMessage,
    st.lists(parts, max_size=5),
    usages,
    finish_reason=st.sampled_from(
        [None, 'stop', 'tool_calls', 'stop', 'tool_calls', None] * 3 + ['length', 'other', 'content_filter', 'refusal']
    ),
)
last = st.sampled_from(
    [
        AssistantMessage([TextPart('done')], finish_reason='stop'),
        AssistantMessage([ToolCallPart('final_result', {'response': 7}, 'last')], finish_reason='tool_calls'),
    ]
)
scripts = st.tuples(st.lists(responses, max_size=5), last).map(lambda pair: [*pair[0], pair[1], pair[1]])
limits = (
    st.none()
    | st.none()
    | st.builds(
        UsageLimits,
        request_limit=st.none() | st.integers(0, 5),
        tool_calls_limit=st.none() | st.integers(0, 6),
        output_tokens_limit=st.none() | st.integers(0, 30),
        on_limit=st.sampled_from(['raise', 'final_answer']),
    )
)
histories = st.lists(
    st.one_of(
        st.builds(UserMessage, texts),
        st.builds(SystemMessage, texts, st.booleans()),
        st.builds(AssistantMessage, st.lists(parts, max_size=3)),
        st.builds(
            ToolMessage, st.lists(st.builds(ToolReturnPart, st.sampled_from(TOOLS), json_values, ids), max_size=3)
        ),
    ),
    max_size=5,
)


@dataclass
class Plan:
    """One random run."""

    script: list[AssistantMessage]
    strategy: Literal['early', 'graceful', 'exhaustive'] = 'graceful'
    output: Any = str
    limits: UsageLimits | None = None
    retries: int = 1
    cap: int | None = None
    history: list[Message] = field(default_factory=list[Message])


plans = st.builds(
    Plan,
    scripts,
    st.sampled_from(['early', 'graceful', 'exhaustive']),
    st.sampled_from([str, int, None]).map(lambda o: [int, None] if o is None else o),
    limits,
    st.integers(0, 3),
    st.sampled_from([None, 1, 2]),
    histories,
)


def _tools(ran: list[str]) -> list[Tool]:
    async def fine() -> str:
        ran.append('fine')
        return 'fine'

    def takes(n: int) -> dict[str, int]:
        ran.append('takes')
        return {'n': n}

    async def retries() -> str:
        ran.append('retries')
        raise ModelRetry('try \udc97 again')

    async def fails() -> str:
        ran.append('fails')
        raise RuntimeError('broken \udc97')

    async def slow() -> str:
        ran.append('slow')
        for _ in range(5):
            await asyncio.sleep(0)
        return 'slow'

    async def alone() -> int:
        ran.append('alone')
        return 1

    async def emits() -> Any:
        ran.append('emits')
        yield 1
        yield 'two'

    async def rich() -> ToolReturn:
        ran.append('rich')
        return ToolReturn([1.5, None], content=['\ud83c', FilePart('image/png', data=b'1')], metadata={'k': 1})

    plain = [Tool(f, on_crash='never') for f in (fine, takes, retries, fails, slow, emits, rich)]
    return [*plain, Tool(alone, sequential=True, on_crash='never')]


@dataclass
class Seen:
    """What one way to run a plan came to."""

    told: Any
    state: RunState
    records: list[Record]
    ran: list[str]
    requests: list[Sequence[Message]]


async def _play(plan: Plan, way: Way) -> Seen:
    journal, ran = MemoryJournal(), list[str]()
    model = ScriptedModel(plan.script, chunk=2)
    agent: Agent[None, Any] = Agent(
        model,
        tools=_tools(ran),
        output_type=plan.output,
        end_strategy=plan.strategy,
        usage_limits=plan.limits,
        retries=plan.retries,
        max_concurrency=plan.cap,
        journal=journal,
        instructions='be {brief}',
    )
    result: RunResult[Any] | None = None
    try:
        result = await way(agent, 'go', run_id='r', message_history=plan.history)
        told: Any = ('completed', result.output, result.messages, result.usage)
    except RunError as error:
        told = (type(error), str(error), list(error.messages), error.usage)
        assert is_valid(error.messages) and error.run_id == 'r'  # noqa: PT017 (both endings are looked at)
    records = await journal.load('r')
    state = fold('r', records)
    if result is not None:
        assert result.state == state, 'the live state and the fold of what was written'
    assert list(told[2]) == state.messages and told[3] == state.usage
    return Seen(told, state, records, ran, [r.messages for r in model.requests])


def _check(plan: Plan, seen: Seen) -> None:
    state = seen.state
    assert is_valid(state.messages), state.messages
    for messages in seen.requests:
        assert is_valid(messages), messages
    assert state.ended is not None
    assert state.usage.requests == len(seen.requests)
    if seen.told[0] is ToolFailed:  # a sync function that was stopped before its thread took it had begun all the same
        assert state.usage.tool_calls >= len(seen.ran)
    else:
        assert state.usage.tool_calls == len(seen.ran)
    ids_seen = [
        p.tool_call_id
        for m in state.messages
        if isinstance(m, AssistantMessage)
        for p in m.parts
        if isinstance(p, ToolCallPart)
    ]
    new = [i for i in ids_seen if i]
    assert len(ids_seen) == len(new) or plan.history, 'every new call has an id'
    if plan.limits is not None and plan.limits.request_limit is not None:
        assert state.usage.requests <= plan.limits.request_limit
    if plan.limits is not None and plan.limits.tool_calls_limit is not None:
        assert state.usage.tool_calls <= plan.limits.tool_calls_limit
    assert [r.seq for r in seen.records] == list(range(1, len(seen.records) + 1))
    assert [r.entry.kind for r in seen.records].count('ended') == 1 and seen.records[-1].entry.kind == 'ended'
    assert import_run(export_run(seen.records)) == seen.records, 'what was written can be read back exactly'


@SETTINGS
@given(plans)
def test_every_run_by_every_way(plan: Plan) -> None:
    async def main() -> None:
        told: dict[str, Seen] = {}
        for name in ('run', 'run_stream', 'run_stream output', 'iter and node.stream'):
            told[name] = await _play(plan, WAYS[name])
            _check(plan, told[name])
        plain = told['run']
        for name, other in told.items():
            assert other.told[0] == plain.told[0], name
            if plain.told[0] is ToolFailed:
                continue  # which siblings had begun, and which had finished, when one fails is a matter of time
            assert other.told[1:] == plain.told[1:], name
            assert sorted(other.ran) == sorted(plain.ran), name
            assert other.requests == plain.requests, name

    asyncio.run(main())


@SETTINGS
@given(plans, st.integers(0, 60), st.sampled_from(['task', 'reader', 'node', 'run']))
def test_interrupted_anywhere(plan: Plan, after: int, how: str) -> None:  # noqa: C901 (one story)
    """Cancelled after so many turns of the loop (or events): the history is valid, the store agrees, nothing is left."""

    async def main() -> None:  # noqa: C901 (one story)
        journal, ran = MemoryJournal(), list[str]()
        agent: Agent[None, Any] = Agent(
            ScriptedModel(plan.script, chunk=2),
            tools=_tools(ran),
            output_type=plan.output,
            end_strategy=plan.strategy,
            journal=journal,
        )
        try:
            if how == 'task':
                task = asyncio.create_task(agent.run('go', run_id='r'))
                for _ in range(after + 1):
                    await asyncio.sleep(0)
                task.cancel()
                await task
            elif how == 'reader':
                async with agent.run_stream('go', run_id='r') as s:
                    n = 0
                    async for _ in s.events():
                        n += 1
                        if n > after:
                            break
            elif how == 'node':
                async with agent.iter('go', run_id='r') as run:
                    n = 0
                    while run.result is None:
                        node: Any = run.next_node
                        if hasattr(node, 'stream'):
                            async with node.stream(run.ctx) as stream:
                                async for _ in stream:
                                    n += 1
                                    if n > after:
                                        await stream.cancel()
                        await run.next(node)
            else:
                async with agent.iter('go', run_id='r') as run:
                    task = asyncio.create_task(run.to_end())
                    for _ in range(after + 1):
                        await asyncio.sleep(0)
                    await run.cancel()
                    await task
        except (RunError, asyncio.CancelledError):
            pass
        for _ in range(3):
            await asyncio.sleep(0)
        count = len(ran)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        infos = await journal.runs()
        if not infos:
            return  # cancelled before it began
        records = await journal.load('r')
        state = fold('r', records)
        assert is_valid(state.valid_messages()), state.valid_messages()
        assert state.ended is not None, how
        assert import_run(export_run(records)) == records
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(ran) == count and len(await journal.load('r')) == len(records)

    asyncio.run(main())


@SETTINGS
@given(plans, st.integers(1, 40))
def test_resumed_from_anywhere(plan: Plan, cut: int) -> None:
    """Stopped after any entry and resumed: finished calls are not run again, and the history stays valid."""

    async def main() -> None:
        whole = await _play(plan, WAYS['run'])
        records = whole.records[: min(cut, len(whole.records) - 1)]
        journal, ran = MemoryJournal(), list[str]()
        lease = await journal.create('r', records[:1], owner='gone', ttl=60)
        if records[1:]:
            await journal.append('r', records[1:], epoch=lease.epoch)
        await journal.release(lease)
        before = fold('r', records)
        rest = plan.script[sum(1 for r in records if r.entry.kind == 'entered' and r.entry.response is not None) :]
        agent: Agent[None, Any] = Agent(
            ScriptedModel(rest, chunk=2),
            tools=_tools(ran),
            output_type=plan.output,
            end_strategy=plan.strategy,
            retries=plan.retries,
            max_concurrency=plan.cap,
            journal=journal,
            instructions='be {brief}',
        )
        try:
            result = await agent.resume('r')
            assert result.state == fold('r', await journal.load('r'))
        except RunError as error:
            assert is_valid(error.messages)  # noqa: PT017 (both endings are looked at)
        after = fold('r', await journal.load('r'))
        assert is_valid(after.messages) and after.ended is not None
        assert after.usage.tool_calls == len(ran) + before.usage.tool_calls, 'each call is counted once'
        assert after.usage.requests <= max(whole.state.usage.requests, len(plan.script) + 1)
        if plan.limits is not None and plan.limits.request_limit is not None:
            assert after.usage.requests <= plan.limits.request_limit

    asyncio.run(main())


@SETTINGS
@given(plans)
def test_at_every_moment_the_conversation_can_be_taken_over(plan: Plan) -> None:
    """Whatever has been seen so far: `messages` is a valid history, usage only grows, and events are numbered."""

    async def main() -> None:
        agent: Agent[None, Any] = Agent(
            ScriptedModel(plan.script, chunk=3),
            tools=_tools([]),
            output_type=plan.output,
            end_strategy=plan.strategy,
            usage_limits=plan.limits,
            retries=plan.retries,
        )
        kinds: list[str] = []
        requests = tool_calls = 0
        with suppress(RunError):
            async with agent.run_stream('go', message_history=plan.history) as s:
                async for event in s.events():
                    kinds.append(event.kind)
                    assert event.seq == len(kinds)
                    assert is_valid(s.messages), s.messages
                    assert s.usage.requests >= requests and s.usage.tool_calls >= tool_calls
                    requests, tool_calls = s.usage.requests, s.usage.tool_calls
        assert kinds[0] == 'run_started' and kinds[-1] == 'run_ended' and kinds.count('run_ended') == 1
        assert kinds.count('function_tool_call') >= kinds.count('function_tool_result')

    asyncio.run(main())


@SETTINGS
@given(plans)
def test_the_live_state_is_the_fold_after_every_node(plan: Plan) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent: Agent[None, Any] = Agent(
            ScriptedModel(plan.script),
            tools=_tools([]),
            output_type=plan.output,
            end_strategy=plan.strategy,
            usage_limits=plan.limits,
            retries=plan.retries,
            journal=journal,
            instructions='be brief',
        )
        async with agent.iter('go', run_id='r', message_history=plan.history) as run:
            while run.result is None:
                assert run.state == fold('r', await journal.load('r'))
                with suppress(RunError):
                    await run.next()
            assert run.state == fold('r', await journal.load('r'))
            assert run.result.messages == run.messages and is_valid(run.messages)

    asyncio.run(main())


@SETTINGS
@given(plans)
def test_a_recorded_run_can_be_replayed(plan: Plan) -> None:
    """The same code against the recorded answers comes to the same, without a model."""

    async def main() -> None:
        seen = await _play(plan, WAYS['run'])
        answered = any(r.entry.kind == 'entered' and r.entry.response is not None for r in seen.records)
        if not answered or 'but its script has' in str(seen.told[1]):
            return
        ran: list[str] = []
        agent: Agent[None, Any] = Agent(
            ReplayModel(seen.records),
            tools=_tools(ran),
            output_type=plan.output,
            end_strategy=plan.strategy,
            usage_limits=plan.limits,
            retries=plan.retries,
            max_concurrency=plan.cap,
            instructions='be {brief}',
        )
        try:
            result = await agent.run('go', message_history=plan.history)
            told: Any = ('completed', result.output, result.messages)
        except RunError as error:
            told = (type(error), str(error), list(error.messages))
        assert told[0] == seen.told[0]
        if told[0] is not ToolFailed:
            assert told[1:] == seen.told[1:3] and sorted(ran) == sorted(seen.ran)

    asyncio.run(main())


@dataclass
class Tree:
    """An agent that calls its children as tools, each some times."""

    children: list[Tree]
    fails: bool = False
    forgiving: bool = False


trees = st.recursive(
    st.builds(Tree, st.just(list[Tree]()), st.sampled_from([False, False, False, True])),
    lambda inner: st.builds(Tree, st.lists(inner, max_size=3), st.just(False), st.booleans()),
    max_leaves=8,
)


@SETTINGS
@given(trees, limits, st.sampled_from([None, 1, 2]), st.booleans())
def test_trees_of_agents_share_one_budget_and_are_counted_once(
    tree: Tree, bound: UsageLimits | None, cap: int | None, watched: bool
) -> None:
    async def main() -> None:
        asked: list[AssistantMessage] = []
        ran: list[str] = []

        def build(node: Tree) -> Agent[None, Any]:
            async def answer(messages: Any, info: Any) -> AssistantMessage:
                usage = Usage(input_tokens=1, output_tokens=2)
                if node.children and info.tools and messages[-1].kind == 'user':
                    calls = [ToolCallPart(f'child_{i}', {}, f'c{i}') for i in range(len(node.children))]
                    made = AssistantMessage(calls, usage)
                else:
                    made = AssistantMessage([TextPart('done')], usage)
                asked.append(made)
                await asyncio.sleep(0)
                if node.fails:
                    raise ModelTimeout('no answer')
                return made

            tools = [_child(build(child), i, ran, node.forgiving) for i, child in enumerate(node.children)]
            return Agent(FunctionModel(answer), tools=tools, max_concurrency=cap)

        agent = build(tree)
        try:
            if watched:
                async with agent.run_stream('go', usage_limits=bound) as s:
                    usage = (await s.result()).usage
            else:
                usage = (await agent.run('go', usage_limits=bound)).usage
        except RunError as error:
            assert is_valid(error.messages) and error.usage is not None  # noqa: PT017 (both endings are looked at)
            usage = error.usage
        assert usage.requests == len(asked), 'every request, also of those that failed or were stopped, is counted once'
        assert usage.tool_calls == len(ran)
        if bound is not None and bound.request_limit is not None:
            assert len(asked) <= bound.request_limit
        if bound is not None and bound.tool_calls_limit is not None:
            assert len(ran) <= bound.tool_calls_limit
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def _child(agent: Agent[None, Any], i: int, ran: list[str], forgiving: bool) -> Tool:
    async def call_it() -> str:
        ran.append(f'child_{i}')
        try:
            return str((await agent.run('sub-task')).output)
        except ModelTimeout:
            if forgiving:
                return 'it did not answer'
            raise

    return Tool(call_it, name=f'child_{i}')


def test_cancelled_at_any_time_with_a_store_on_disk(tmp_path: Path) -> None:
    """Writes take real time here, so cancelling falls into them."""

    async def main() -> None:
        journal = SQLiteJournal(tmp_path / 'r.db', synchronous='NORMAL')
        ran: list[int] = []

        async def slow(n: int) -> int:
            ran.append(n)
            await asyncio.sleep(0.001 * n)
            return n

        async def answer(messages: Any, info: Any) -> Any:
            return (
                [ToolCallPart('slow', {'n': n}, f'{len(messages)}-{n}') for n in range(3)]
                if len(messages) < 6
                else 'done'
            )

        agent = Agent(FunctionModel(answer), tools=[slow], journal=journal)

        async def one(i: int) -> None:
            task = asyncio.create_task(agent.run('go', run_id=f'r{i}'))
            await asyncio.sleep(0.002 * i)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        await agent.run('go')
        await asyncio.gather(*(one(i) for i in range(60)))
        count = len(ran)
        seen: set[str] = set()
        for info in await journal.runs():
            records = await journal.load(info.run_id)
            state = fold(info.run_id, records)
            assert state.ended is not None, f'{info.run_id} looks as if it were still going'
            assert is_valid(state.messages) and info.status == state.ended.status
            seen.add(info.status)
        assert 'cancelled' in seen
        await asyncio.sleep(0.02)
        assert len(ran) == count
        await journal.aclose()

    asyncio.run(main())


def test_memory_stays_flat_over_many_runs() -> None:
    """The default journal lives and dies with its run, whatever way it ends."""

    async def main() -> None:
        async def answer(messages: Any, info: Any) -> Any:
            return 'done' if messages[-1].kind == 'tool' else [ToolCallPart('fine', {}, 'c')]

        async def fine() -> str:
            return 'x' * 500

        agent = Agent(FunctionModel(answer), tools=[fine], instructions='i')
        other: Agent[None, Any] = Agent(FunctionModel(answer), tools=[fine])

        async def some(n: int) -> None:
            for i in range(n):
                if i % 10 == 0:
                    async with agent.run_stream('go') as s:
                        async for _ in s.events():
                            break
                elif i % 10 == 1:
                    async with agent.iter('go') as run:
                        await run.next()
                elif i % 10 == 2:
                    with suppress(RunError):
                        await agent.run('go', usage_limits=UsageLimits(request_limit=1))
                elif i % 50 == 3:
                    await other.run('go', output_type=[str, None])
                else:
                    await agent.run('go')

        await some(100)
        gc.collect()
        tracemalloc.start()
        try:
            await some(400)
            gc.collect()
            first = tracemalloc.get_traced_memory()[0]
            await some(2500)
            gc.collect()
            last = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        per_run = (last - first) / 2500
        assert per_run < 30, f'{per_run:.0f} bytes stay behind for every run'

    asyncio.run(main())
