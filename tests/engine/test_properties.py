"""Random scripts, tools and interruptions: what must hold for every run there is."""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_graph import (
    Agent,
    AssistantMessage,
    MemoryJournal,
    Message,
    ModelRetry,
    RunError,
    RunResult,
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
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import WAYS, Way

SETTINGS = settings(max_examples=int(os.environ.get('AGENT_GRAPH_EXAMPLES', '60')), deadline=None)

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
        assert is_valid(error.messages) and error.run_id == 'r'  # noqa: PT017
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
def test_interrupted_anywhere(plan: Plan, after: int, how: str) -> None:  # noqa: C901
    """Cancelled after so many turns of the loop (or events): the history is valid, the store agrees, nothing is left."""

    async def main() -> None:  # noqa: C901
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
            assert is_valid(error.messages)  # noqa: PT017
        after = fold('r', await journal.load('r'))
        assert is_valid(after.messages) and after.ended is not None
        assert after.usage.tool_calls == len(ran) + before.usage.tool_calls, 'each call is counted once'
        assert after.usage.requests <= max(whole.state.usage.requests, len(plan.script) + 1)
        if plan.limits is not None and plan.limits.request_limit is not None:
            assert after.usage.requests <= plan.limits.request_limit

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
                elif i % 10 == 3:
                    await other.run('go', output_type=[str, None])
                else:
                    await agent.run('go')

        await some(200)
        gc.collect()
        tracemalloc.start()
        try:
            await some(300)
            gc.collect()
            first = tracemalloc.get_traced_memory()[0]
            await some(2700)
            gc.collect()
            last = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        per_run = (last - first) / 2700
        assert per_run < 20, f'{per_run:.0f} bytes stay behind for every run'

    asyncio.run(main())
