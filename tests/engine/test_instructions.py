"""Instructions: static and from functions, in order, asked anew each run, never doubled when history is passed on."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from agent_graph import Agent, ConfigError, Message, RunContext, SystemMessage, TextPart, UserMessage
from agent_graph.messages import AssistantMessage, FilePart
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import WAYS, Log, call, go, requests_of


def _system(messages: Any) -> list[str]:
    return [m.content for m in messages if isinstance(m, SystemMessage)]


def test_static_and_functions_in_order() -> None:
    async def main() -> None:
        def plain() -> str:
            return 'plain'

        async def coroutine(ctx: RunContext[str]) -> str:
            return f'for {ctx.deps} in {ctx.run_id}'

        def nothing() -> None:
            return None

        model = ScriptedModel(['x'])
        agent = Agent(model, instructions=['first', plain, coroutine, nothing, ''], deps_type=str)

        @agent.instructions
        def last(ctx: RunContext[str]) -> str:
            return 'last'

        for _, way in itertools.islice(WAYS.items(), 3):
            agent.model = model = ScriptedModel(['x'])
            result = await way(agent, 'go', deps='Ada', run_id=None)
            (request,) = requests_of(model)
            assert _system(request) == ['first', 'plain', f'for Ada in {result.run_id}', 'last']
            assert request[-1] == UserMessage('go') and [m.kind for m in request] == ['system'] * 4 + ['user']

    go(main())


def test_a_single_text_or_function() -> None:
    async def main() -> None:
        for one in ('only', lambda: 'only'):
            model = ScriptedModel(['x'])
            await Agent(model, instructions=one).run('go')
            assert _system(requests_of(model)[0]) == ['only']

    go(main())


def test_asked_once_a_run_and_anew_each_run() -> None:
    async def main() -> None:
        asked: list[int] = []

        def count() -> str:
            asked.append(1)
            return f'number {len(asked)}'

        script = [[call('a', {}, '1')], [call('a', {}, '2')], 'x']
        model = ScriptedModel(script + script)
        agent = Agent(model, instructions=count, tools=[Log().tool('a')])
        first = await agent.run('go')
        assert asked == [1] and [_system(r) for r in requests_of(model)] == [['number 1']] * 3
        second = await agent.run('more', message_history=first.messages)
        assert [_system(r) for r in requests_of(model)[3:]] == [['number 2']] * 3, 'replaced, not repeated'
        assert _system(second.messages) == ['number 2']

    go(main())


def test_history_of_many_turns_does_not_pile_up_instructions() -> None:
    async def main() -> None:
        messages: list[Message] = []
        for turn in range(5):
            model = ScriptedModel([f'turn {turn}'])
            result = await Agent(model, instructions='be brief').run(f'question {turn}', message_history=messages)
            messages = result.messages
            assert _system(requests_of(model)[0]) == ['be brief']
        assert [m.kind for m in messages] == ['system'] + ['user', 'assistant'] * 5

    go(main())


def test_the_system_messages_somebody_else_wrote_are_kept() -> None:
    async def main() -> None:
        history: list[Message] = [
            SystemMessage('from the application'),
            UserMessage('hi'),
            AssistantMessage([TextPart('hi')]),
        ]
        model = ScriptedModel(['x'])
        result = await Agent(model, instructions='be brief').run('go', message_history=history)
        assert _system(requests_of(model)[0]) == ['be brief', 'from the application']
        model = ScriptedModel(['x'])
        await Agent(model).run('go', message_history=result.messages)
        assert _system(requests_of(model)[0]) == ['from the application'], 'another agent brings its own instructions'

    go(main())


def test_new_messages_are_what_this_run_added() -> None:
    async def main() -> None:
        first = await Agent(ScriptedModel(['one']), instructions='i').run('a')
        assert [m.kind for m in first.new_messages] == ['user', 'assistant']
        second = await Agent(ScriptedModel(['two']), instructions='i').run('b', message_history=first.messages)
        assert second.new_messages == [UserMessage('b'), second.messages[-1]]
        assert second.messages == [first.messages[0], *first.new_messages, *second.new_messages]

    go(main())


def test_without_a_prompt() -> None:
    async def main() -> None:
        model = ScriptedModel(['x'] * 2)
        await Agent(model, instructions='speak').run()
        assert requests_of(model)[0] == (SystemMessage('speak', True),)
        await Agent(model).run(message_history=[UserMessage('asked before')])
        assert requests_of(model)[1] == (UserMessage('asked before'),)
        with pytest.raises(ConfigError):
            await Agent(ScriptedModel(['x'])).run()

    go(main())


def test_prompts_of_texts_and_files() -> None:
    async def main() -> None:
        image = FilePart.from_bytes(b'x', 'image/png')
        model = ScriptedModel(['x'])
        await Agent(model).run(['look', image, 'well?'])
        assert requests_of(model)[0] == (UserMessage(('look', image, 'well?')),)

    go(main())


@pytest.mark.parametrize('wrong', [5, ['text'], object()])
def test_a_function_that_returns_something_else(wrong: Any) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError):
            await Agent(ScriptedModel(['x']), instructions=lambda: wrong).run('go')

    go(main())


def test_a_function_that_fails_ends_the_run_as_failed() -> None:
    async def main() -> None:
        from agent_graph import MemoryJournal

        def broken() -> str:
            raise KeyError('no such tenant')

        journal = MemoryJournal()
        with pytest.raises(KeyError):
            await Agent(ScriptedModel(['x']), instructions=broken, journal=journal).run('go', run_id='r')
        assert (await journal.info('r')).status == 'failed'

    go(main())


def test_the_context_of_an_instruction_function() -> None:
    async def main() -> None:
        seen: list[Any] = []

        def about(ctx: RunContext[None]) -> str:
            seen.append((ctx.agent_name, ctx.tool_name, ctx.tool_call_id, ctx.metadata, ctx.usage.requests))
            seen.append([m.kind for m in ctx.messages])
            return 'x'

        history: list[Message] = [UserMessage('hi'), AssistantMessage([TextPart('hi')])]
        agent = Agent(ScriptedModel(['x']), name='named', instructions=about)
        await agent.run('go', message_history=history, metadata={'k': 1})
        assert seen == [('named', None, None, {'k': 1}, 0), ['user', 'assistant']]

    go(main())


def test_a_history_that_ends_with_open_calls_is_mended_and_nothing_is_run() -> None:
    async def main() -> None:
        log = Log()
        history: list[Message] = [UserMessage('hi'), AssistantMessage([call('a', {}, '1'), call('a', {}, '2')])]
        for prompt in ('go on', None):
            model = ScriptedModel(['fine'])
            result = await Agent(model, tools=[log.tool('a')]).run(prompt, message_history=history)
            (request,) = requests_of(model)
            assert result.output == 'fine' and log == []
            assert [m.kind for m in request] == ['user', 'assistant', 'tool'] + (['user'] if prompt else [])

    go(main())


def test_a_thousand_runs_at_once() -> None:
    async def main() -> None:
        async def slow(messages: Any, info: Any) -> str:
            await asyncio.sleep(0.05)
            return f'{messages[-1].content}!'

        agent = Agent(FunctionModel(slow))
        results = await asyncio.gather(*(agent.run(str(i)) for i in range(1000)))
        assert [r.output for r in results] == [f'{i}!' for i in range(1000)]
        assert len({r.run_id for r in results}) == 1000

    go(main())
