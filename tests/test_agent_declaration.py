"""An `Agent` is a declaration: cheap to make, frozen by its first run, shared freely, overridden in tests."""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import threading
from pathlib import Path
from typing import Any

import pytest

import agent_graph
from agent_graph import (
    Agent,
    ConfigError,
    MemoryJournal,
    Message,
    RunContext,
    Tool,
    ToolApproved,
    ToolDefinitionError,
    UnknownRun,
    UserMessage,
)
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import WAYS, Log, call, go


async def _echo(messages: Any, info: Any) -> str:
    return f'{messages[-1].content}!'


NAMES = """Agent, RunContext, Tool, tool, ToolReturn, ModelRetry, RunResult, AgentRun, UserPrompt, ModelRequest, HandleResponse, End,
SystemMessage, UserMessage, AssistantMessage, ToolMessage, TextPart, ThinkingPart, ToolCallPart, ToolReturnPart, FilePart, Usage,
UsageLimits, ModelSettings, MemoryJournal, SQLiteJournal, capture_run_messages, RunStarted, NodeStarted, PartStartEvent,
PartDeltaEvent, PartEndEvent, FunctionToolCallEvent, FunctionToolResultEvent, OutputToolCallEvent, OutputToolResultEvent,
CustomEvent, FinalResultEvent, RunPaused, RunEnded, ToolOutput, NativeOutput, PromptedOutput, TextOutput, AgentGraphError,
ConfigError, RunError, UsageLimitExceeded, UnexpectedModelBehavior, ContentFiltered, ToolFailed, RunCancelled, ModelError,
ModelHTTPError, ModelTimeout, ModelUnreachable, JournalError"""


def test_public_names() -> None:
    for name in NAMES.replace('\n', ' ').split(', '):
        assert name.strip() in agent_graph.__all__ and hasattr(agent_graph, name.strip()), name
    assert sorted(agent_graph.__all__) == list(agent_graph.__all__)
    from agent_graph.testing import FunctionModel, ReplayModel, ScriptedModel, TestModel

    assert all([ScriptedModel, FunctionModel, TestModel, ReplayModel])


def test_constructing_is_cheap_and_builds_nothing() -> None:
    def tool(n: int) -> int:
        return n

    profile = cProfile.Profile()
    profile.enable()
    Agent('openai:gpt-5-mini', name='x', instructions='be brief', tools=[tool], output_type=dict[str, int])
    profile.disable()
    total: int = vars(pstats.Stats(profile))['total_calls']
    assert total <= 20


def test_a_model_without_key_or_extra_fails_when_it_runs_and_says_what_to_do() -> None:
    agents = [Agent('nosuchprovider:model'), Agent('no-colon'), Agent(None)]
    for agent in agents:
        with pytest.raises(ConfigError):
            agent.run_sync('go')


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
def test_the_first_run_freezes_it(way: Any) -> None:
    async def main() -> None:
        agent: Agent[None, str] = Agent(FunctionModel(_echo))
        register = agent.tool(retries=2)

        @agent.tool
        async def before(n: int) -> int:
            return n

        await way(agent, 'go')

        async def late(n: int) -> int:
            return n

        for change in (agent.tool, agent.instructions, agent.output_validator, register):
            with pytest.raises(ConfigError, match='first run'):
                change(late)
        with pytest.raises(ConfigError, match='first run'):
            agent.tool(retries=2)

    go(main())


def test_a_run_with_overridden_tools_freezes_it_too() -> None:
    async def main() -> None:
        agent = Agent(FunctionModel(_echo))
        with agent.override(tools=[]):
            await agent.run('go')

        async def late(n: int) -> int:
            return n

        with pytest.raises(ConfigError, match='first run'):
            agent.tool(late)

    go(main())


def test_registering_returns_the_function_itself() -> None:
    agent: Agent[None, str] = Agent(FunctionModel(_echo))

    @agent.tool
    def one(n: int) -> int:
        return n

    @agent.tool(name='other', retries=3, timeout=2)
    def two(ctx: RunContext[None], n: int) -> int:
        return n

    @agent.instructions
    def three() -> str:
        return 'x'

    assert one(5) == 5 and two.__name__ == 'two' and three() == 'x'


def test_a_bad_tool_is_reported_where_it_is_registered() -> None:
    agent = Agent(FunctionModel(_echo))
    with pytest.raises(ToolDefinitionError, match='bad'):

        @agent.tool
        def bad(x: threading.Thread) -> int:  # pyright: ignore[reportUnusedFunction]
            return 1


def test_two_tools_of_one_name() -> None:
    with pytest.raises(ConfigError, match="'a'"):
        Agent(FunctionModel(_echo), tools=[Log().tool('a'), Log().tool('a')]).run_sync('go')


def test_run_sync_and_a_running_loop() -> None:
    agent = Agent(FunctionModel(_echo))
    assert agent.run_sync('hi').output == 'hi!'
    assert [agent.run_sync(str(i)).output for i in range(3)] == ['0!', '1!', '2!']

    async def main() -> None:
        with pytest.raises(ConfigError, match='await'):
            agent.run_sync('hi')

    go(main())


def test_shared_between_runs_threads_and_loops() -> None:
    agent = Agent(FunctionModel(_echo), tools=[Log().tool('a')], instructions=lambda: 'x', output_type=str)
    wrong: list[str] = []

    def work(t: int) -> None:
        async def main() -> None:
            results = await asyncio.gather(*(agent.run(f'{t}-{i}') for i in range(20)))
            wrong.extend(r.output for i, r in enumerate(results) if r.output != f'{t}-{i}!')

        asyncio.run(main())

    threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not wrong


def test_a_shared_journal_between_threads_and_loops(tmp_path: Path) -> None:
    from agent_graph import SQLiteJournal

    journal = SQLiteJournal(tmp_path / 'r.db')
    agent = Agent(FunctionModel(_echo), journal=journal)

    def work(t: int) -> None:
        async def main() -> None:
            await asyncio.gather(*(agent.run('go', run_id=f'{t}-{i}') for i in range(5)))

        asyncio.run(main())

    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    async def check() -> None:
        infos = await journal.runs()
        assert len(infos) == 20 and {i.status for i in infos} == {'completed'}
        await journal.aclose()

    go(check())


def test_override() -> None:
    async def main() -> None:
        seen: list[Any] = []

        async def real(ctx: RunContext[str]) -> str:
            seen.append(('real', ctx.deps))
            return 'real'

        async def fake(ctx: RunContext[str]) -> str:
            seen.append(('fake', ctx.deps))
            return 'fake'

        agent = Agent(ScriptedModel([]), deps_type=str, tools=[Tool(real, name='t')])
        script = [[call('t')], 'done']
        with agent.override(model=ScriptedModel(script), tools=[Tool(fake, name='t')], deps='test deps'):
            assert (await agent.run('go', deps='real deps')).output == 'done'
            with agent.override(model=ScriptedModel(script)):
                await agent.run('go', model=ScriptedModel(['not this']))
        with agent.override(model=ScriptedModel(script)):
            async with agent.run_stream('go', deps='real deps') as s:
                await s.result()
        assert seen == [('fake', 'test deps')] * 2 + [('real', 'real deps')]
        other = Agent(FunctionModel(_echo))
        with agent.override(model=ScriptedModel([])):
            assert (await other.run('hi')).output == 'hi!', 'another agent is not concerned'
        agent.model = FunctionModel(_echo)
        assert (await agent.run('hi')).output == 'hi!', 'nothing of it is left'

    go(main())


def test_override_of_the_journal() -> None:
    async def main() -> None:
        own, other = MemoryJournal(), MemoryJournal()
        tool = Tool(lambda: 'done', name='delete', description='Delete.', requires_approval=True)
        script = [[call('delete', {}, 'c1')], 'done']
        agent = Agent(ScriptedModel(script), tools=[tool], journal=own)
        with agent.override(journal=other):
            result = await agent.run('go', run_id='r')
            assert result.status == 'paused' and (await other.info('r')).status == 'paused'
            assert (await agent.resume('r', answers={result.pending[0]: ToolApproved()})).output == 'done'
            assert (await agent.replay('r')).output == 'done'
            assert await agent.fork('r') in {i.run_id for i in await other.runs()}
        with pytest.raises(UnknownRun):
            await agent.resume('r')
        assert await own.runs() == []
        agent.model = ScriptedModel(script)
        with agent.override(journal=None):
            result = await agent.run('go', run_id='r')
            assert (await agent.resume('r', answers={result.pending[0]: ToolApproved()})).output == 'done'
        assert await own.runs() == []
        with pytest.raises(ConfigError, match=r"SQLiteJournal\('runs.db'\)"), agent.override(journal='runs.db'):  # pyright: ignore
            pass

    go(main())


def test_override_reaches_a_nested_agent_and_not_another_task() -> None:
    async def main() -> None:
        inner = Agent(ScriptedModel([]))

        async def delegate() -> str:
            return (await inner.run('x')).output

        outer = Agent(ScriptedModel([[call('delegate')], 'done']), tools=[delegate])
        started = asyncio.Event()

        async def elsewhere() -> str:
            await started.wait()
            return str((await Agent(FunctionModel(_echo)).run('hi')).output)

        task = asyncio.create_task(elsewhere())
        with inner.override(model=FunctionModel(_echo)):
            started.set()
            result = await outer.run('go')
            assert await task == 'hi!'
        assert 'x!' in str(result.messages)

    go(main())


def test_deps_and_model_of_the_run() -> None:
    async def main() -> None:
        async def t(ctx: RunContext[int]) -> int:
            return ctx.deps * 2

        agent = Agent(None, deps_type=int, tools=[t])
        result = await agent.run('go', deps=21, model=ScriptedModel([[call('t')], 'done']))
        assert '42' in str(result.messages)

    go(main())


def test_model_settings_are_merged_key_by_key() -> None:
    async def main() -> None:
        model = ScriptedModel(['x'] * 3)
        agent = Agent(model, model_settings={'temperature': 0.5, 'max_tokens': 10, 'extra_body': {'a': 1}})
        await agent.run('go', model_settings={'max_tokens': 20, 'seed': 1})
        await agent.run('go')
        assert model.requests[0].info.settings == {
            'temperature': 0.5,
            'max_tokens': 20,
            'seed': 1,
            'extra_body': {'a': 1},
        }
        assert model.requests[1].info.settings == {'temperature': 0.5, 'max_tokens': 10, 'extra_body': {'a': 1}}

    go(main())


def _choose_b(ctx: RunContext[None]) -> list[str]:
    return ['b']


@pytest.mark.parametrize(
    ('choice', 'resolved'),
    [('auto', 'auto'), ('required', 'required'), ('none', 'none'), (['a'], ('a',)), (_choose_b, ('b',))],
)
def test_tool_choice(choice: Any, resolved: Any) -> None:
    async def main() -> None:
        model = ScriptedModel(['x'])
        await Agent(model, tools=[Log().tool('a'), Log().tool('b')]).run('go', model_settings={'tool_choice': choice})
        info = model.requests[0].info
        assert info.tool_choice == resolved and 'tool_choice' not in info.settings

    go(main())


@pytest.mark.parametrize('choice', [['nobody'], 'sometimes', 5, []])
def test_a_tool_choice_that_cannot_be(choice: Any) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError):
            await Agent(ScriptedModel(['x']), tools=[Log().tool('a')]).run('go', model_settings={'tool_choice': choice})

    go(main())


def test_tool_choice_as_a_function_is_asked_before_every_request() -> None:
    async def main() -> None:
        async def choose(ctx: RunContext[None]) -> Any:
            return ['a'] if len(ctx.messages) == 1 else 'none'

        model = ScriptedModel([[call('a')], 'done'])
        await Agent(model, tools=[Log().tool('a')]).run('go', model_settings={'tool_choice': choose})  # pyright: ignore
        assert [r.info.tool_choice for r in model.requests] == [('a',), 'none']

    go(main())


def test_metadata_of_agent_and_run() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        agent = Agent(FunctionModel(_echo), name='n', metadata={'a': 1, 'b': 1}, journal=journal)
        result = await agent.run('go', metadata={'b': 2})
        assert result.metadata == {'a': 1, 'b': 2} and agent.metadata == {'a': 1, 'b': 1}
        info = await journal.info(result.run_id)
        assert info.agent == 'n' and info.status == 'completed'

    go(main())


def test_metadata_changed_afterwards_changes_no_record() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        given: dict[str, Any] = {'a': [1]}
        result = await Agent(FunctionModel(_echo), journal=journal).run('go', metadata=given, run_id='r')
        given['a'].append(2)
        given['b'] = []
        assert result.metadata == {'a': [1]}
        assert (await journal.load('r'))[0].entry.metadata == {'a': [1]}  # pyright: ignore

    go(main())


def test_history_given_is_never_changed() -> None:
    async def main() -> None:
        history: list[Message] = [UserMessage('before')]
        result = await Agent(FunctionModel(_echo), instructions='i').run('go', message_history=history)
        assert history == [UserMessage('before')] and len(result.messages) == 4
        copy = list(result.messages)
        result.messages.append(UserMessage('mine'))
        assert result.messages == copy

    go(main())


def test_resume_without_a_journal_and_of_an_unknown_run() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError):
            await Agent(FunctionModel(_echo)).resume('r')
        with pytest.raises(UnknownRun):
            await Agent(FunctionModel(_echo), journal=MemoryJournal()).resume('r')

    go(main())


def test_repr_shows_no_prompt_and_no_key() -> None:
    text = repr(Agent('openai:gpt-5-mini', name='x', instructions='secret instructions'))
    assert 'secret' not in text and 'x' in text
