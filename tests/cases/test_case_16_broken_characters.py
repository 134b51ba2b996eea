"""Case 16: halves of surrogate pairs, wherever text comes in: run on, store, reload, trace; nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AssistantMessage,
    FilePart,
    Message,
    ModelRetry,
    RunError,
    SQLiteJournal,
    SystemMessage,
    TextOutput,
    TextPart,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolReturn,
    UserMessage,
)
from agent_graph.engine.state import fold
from agent_graph.messages import dump_json, is_valid, load_json, to_openai
from agent_graph.testing import ScriptedModel
from tests.engine.kit import WAYS, Way, answers_of, call, go, outcome_of

LONE = '\ud83c'
GOOD = 'zażółć 👩\u200d👩\u200d👧 \u202eabc\u202c e\u0301 \ufeff'
"""Emoji joined by zero-width joiners, right-to-left marks, a combining accent, a byte order mark."""


async def _two_more_turns(journal: SQLiteJournal, messages: list[Message]) -> None:
    """The conversation goes on, is stored, and is the same after reloading."""
    for turn in range(2):
        model = ScriptedModel([f'turn {turn}'])
        result = await Agent(model, journal=journal).run(f'more {turn}', message_history=messages)
        messages = result.messages
        stored = fold(result.run_id, await journal.load(result.run_id))
        assert stored.messages == messages
    assert load_json(dump_json(messages)) == messages
    json.dumps(to_openai(messages), ensure_ascii=False).encode()
    assert '\ud83c' not in repr(messages).encode('utf-8', 'surrogatepass').decode('utf-8', 'surrogatepass')


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'runs.db'


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
@pytest.mark.parametrize('chunk', [1, 12, 15, 18, 100])
def test_a_a_pair_of_escapes_is_one_character(way: Way, chunk: int, path: Path) -> None:
    async def main() -> None:
        seen: list[str] = []

        def drink(name: str) -> str:
            seen.append(name)
            return name

        journal = SQLiteJournal(path)
        model = ScriptedModel([[ToolCallPart('drink', '{"name": "\\ud83c\\udf78!"}', '1')], 'cheers'], chunk=chunk)
        done = await outcome_of(way, Agent(model, tools=[drink], journal=journal))
        assert done.output == 'cheers' and seen == ['🍸!']
        assert answers_of(done.messages)[0].content == '🍸!'
        await _two_more_turns(journal, done.messages)
        await journal.aclose()

    go(main())


@pytest.mark.parametrize('args', ['{"name": "a \\ud83c b"}', {'name': 'a \ud83c b'}, '{"name": "a \ud83c b"}'])
def test_b_a_lone_half_in_arguments(args: Any, path: Path) -> None:
    async def main() -> None:
        seen: list[str] = []

        def drink(name: str) -> str:
            seen.append(name)
            return f'had {name}'

        journal = SQLiteJournal(path)
        agent = Agent(ScriptedModel([[ToolCallPart('drink', args, '1')], 'cheers']), tools=[drink], journal=journal)
        result = await agent.run('go')
        assert seen == ['a \ufffd b'] and result.output == 'cheers'
        await _two_more_turns(journal, result.messages)
        await journal.aclose()

    go(main())


def _returning(value: Any) -> Callable[[], Awaitable[Any]]:
    async def tool() -> Any:
        return value

    return tool


def _raising(error: Exception) -> Callable[[], Awaitable[Any]]:
    async def tool() -> Any:
        raise error

    return tool


RETURNED: dict[str, tuple[Any, str]] = {
    'text': ('a \udc97 b', 'a \ufffd b'),
    'pair in two halves': ('\ud83c\udf78', '🍸'),
    'deep inside': ({'k': ['\udc97'], 'n': 1}, '\ufffd'),
    'a key': ({'\udc97': 1}, '\ufffd'),
    'ToolReturn': (ToolReturn('\udc97', content='see \udc97', metadata={'m': '\udc97'}), '\ufffd'),
    'extra content beside a file': (ToolReturn('x', content=['\udc97', FilePart('image/png', data=b'1')]), 'x'),
}


@pytest.mark.parametrize('name', RETURNED)
def test_c_what_a_tool_returns(name: str, path: Path) -> None:
    async def main() -> None:
        value, expected = RETURNED[name]
        journal = SQLiteJournal(path)
        model = ScriptedModel([[call('tool')], 'fine'])
        result = await Agent(model, tools=[_returning(value)], journal=journal).run('go')
        assert expected in json.dumps(answers_of(result.messages)[0].content, ensure_ascii=False)
        await _two_more_turns(journal, result.messages)
        await journal.aclose()

    go(main())


def test_c_what_a_tool_says_when_it_asks_to_retry(path: Path) -> None:
    async def main() -> None:
        journal = SQLiteJournal(path)
        agent = Agent(
            ScriptedModel([[call('tool')], 'fine']), tools=[_raising(ModelRetry('bad \udc97'))], journal=journal
        )
        result = await agent.run('go')
        assert answers_of(result.messages)[0].content == 'bad \ufffd'
        await _two_more_turns(journal, result.messages)
        await journal.aclose()

    go(main())


def test_c_what_a_tool_says_when_it_fails(path: Path) -> None:
    async def main() -> None:
        journal = SQLiteJournal(path)
        agent = Agent(ScriptedModel([[call('tool')]]), tools=[_raising(ValueError('bad \udc97'))], journal=journal)
        with pytest.raises(RunError) as caught:
            await agent.run('go', run_id='r')
        assert (await journal.info('r')).status == 'failed', 'the end of the run is recorded'
        await _two_more_turns(journal, list(caught.value.messages))
        await journal.aclose()

    go(main())


RESPONSES: dict[str, AssistantMessage] = {
    'text': AssistantMessage([TextPart(f'a {LONE} b')]),
    'reasoning': AssistantMessage([ThinkingPart(LONE), TextPart('x')]),
    'details of a part': AssistantMessage([TextPart('x', {'k': [LONE]})]),
    'details of the response': AssistantMessage([TextPart('x')], provider_details={'k': LONE}),
    'name of the model': AssistantMessage([TextPart('x')], model_name=f'model {LONE}'),
    'id of the response': AssistantMessage([TextPart('x')], provider_response_id=LONE),
    'id of a call': AssistantMessage([ToolCallPart('tool', {}, f'c{LONE}')]),
    'name of a call': AssistantMessage([ToolCallPart(f'tool{LONE}', {}, 'c')]),
    'signature': AssistantMessage([ThinkingPart('x', signature=LONE), TextPart('x')]),
}


@pytest.mark.parametrize('name', RESPONSES)
@pytest.mark.parametrize('way', [WAYS['run'], WAYS['run_stream']], ids=['run', 'run_stream'])
def test_what_a_model_sends(name: str, way: Way, path: Path) -> None:
    async def main() -> None:
        journal = SQLiteJournal(path)
        model = ScriptedModel([RESPONSES[name], 'fine'])
        done = await outcome_of(way, Agent(model, tools=[_returning('ok')], journal=journal))
        assert done.error is None
        await _two_more_turns(journal, done.messages)
        await journal.aclose()

    go(main())


def test_a_refusal_with_a_lone_half(path: Path) -> None:
    async def main() -> None:
        journal = SQLiteJournal(path)
        agent = Agent(ScriptedModel([AssistantMessage([], refusal=f'no {LONE}')]), journal=journal)
        with pytest.raises(RunError, match='refused'):
            await agent.run('go', run_id='r')
        assert (await journal.info('r')).status == 'failed'
        await journal.aclose()

    go(main())


def test_streamed_text_is_the_text_that_is_stored() -> None:
    async def main() -> None:
        for text in (f'a {LONE} b', 'a \ud83c\udf78 b', GOOD):
            for chunk in (1, 3, 100):
                async with Agent(ScriptedModel([text], chunk=chunk)).run_stream('go') as s:
                    whole = [t async for t in s.text()][-1]
                    output = (await s.result()).output
                async with Agent(ScriptedModel([text], chunk=chunk)).run_stream('go') as s:
                    pieces = ''.join([t async for t in s.text(delta=True)])
                assert whole == output == pieces, (whole, output, pieces)
                whole.encode()

    go(main())


PROMPTS: dict[str, Any] = {
    'text': f'hi {LONE}',
    'texts and files': [f'hi {LONE}', FilePart('image/png', data=b'1', name=f'a{LONE}.png')],
}


@pytest.mark.parametrize('name', PROMPTS)
def test_what_the_user_says(name: str, path: Path) -> None:
    async def main() -> None:
        journal = SQLiteJournal(path)
        result = await Agent(ScriptedModel(['fine']), journal=journal).run(PROMPTS[name])
        state = fold(result.run_id, await journal.load(result.run_id))
        assert state == result.state
        await _two_more_turns(journal, result.messages)
        await journal.aclose()

    go(main())


def test_an_old_history_and_metadata(path: Path) -> None:
    async def main() -> None:
        journal = SQLiteJournal(path)
        old: list[Message] = [
            SystemMessage(f's {LONE}'),
            UserMessage(f'u {LONE}'),
            AssistantMessage([TextPart(f'a {LONE}')]),
        ]
        agent = Agent(ScriptedModel(['fine']), journal=journal, metadata={'agent': LONE})
        result = await agent.run('go', message_history=old, metadata={'tenant': LONE})
        assert result.output == 'fine' and is_valid(result.messages)
        await _two_more_turns(journal, result.messages)
        await journal.aclose()

    go(main())


def test_what_user_code_gives(path: Path) -> None:
    async def main() -> None:
        def text(value: str) -> str:
            return f'{value} {LONE}'

        async def deliver(x: int) -> str:
            return LONE

        def explain() -> str:
            return f'be {LONE}'

        journal = SQLiteJournal(path)
        for output_type, item in (
            (str, 'fine'),
            (TextOutput(text), 'fine'),
            (deliver, [call('final_result', {'x': 1})]),
        ):
            model = ScriptedModel([item])
            agent: Agent[None, Any] = Agent(
                model, instructions=[f'i {LONE}', explain], output_type=output_type, journal=journal
            )
            result = await agent.run('go')
            assert (await journal.info(result.run_id)).status == 'completed'
            system = [m.content for m in model.requests[0].messages if isinstance(m, SystemMessage)]
            assert system == ['i \ufffd', 'be \ufffd']
        await journal.aclose()

    go(main())


def test_d_valid_text_is_not_changed(path: Path) -> None:
    async def main() -> None:
        seen: list[str] = []

        def echo(text: str) -> str:
            seen.append(text)
            return text

        journal = SQLiteJournal(path)
        model = ScriptedModel([[ThinkingPart(GOOD), TextPart(GOOD), call('echo', {'text': GOOD})], GOOD])
        agent = Agent(model, instructions=GOOD, tools=[Tool(echo, description=GOOD)], journal=journal)
        result = await agent.run(GOOD)
        assert result.output == GOOD and seen == [GOOD]
        assert answers_of(result.messages)[0].content == GOOD
        assert model.requests[0].messages == (SystemMessage(GOOD, True), UserMessage(GOOD))
        assert model.requests[0].info.tools[0].description == GOOD
        assert fold(result.run_id, await journal.load(result.run_id)).messages == result.messages
        await _two_more_turns(journal, result.messages)
        await journal.aclose()

    go(main())
