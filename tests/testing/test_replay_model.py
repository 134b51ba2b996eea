"""ReplayModel: a recorded run answers again, and the first difference is named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pydantic import BaseModel

from agent_graph import (
    Agent,
    AssistantMessage,
    ConfigError,
    MemoryJournal,
    Message,
    ModelRetry,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolReturn,
    UnexpectedModelBehavior,
    UserMessage,
)
from agent_graph.errors import ReplayMismatch
from agent_graph.journal import Record
from agent_graph.model import Model
from agent_graph.testing import ReplayModel, ScriptedModel


class City(BaseModel):
    name: str
    people: int


SCRIPT = [
    [ToolCallPart('count', {'city': 'Bern'}, 'c1'), ToolCallPart('count', {'city': 'Biel'}, 'c2')],
    [ToolCallPart('final_result', {'name': 'Bern', 'people': -1}, 'c3')],
    [ToolCallPart('final_result', {'name': 'Bern', 'people': 134000}, 'c4')],
]


def agent(instructions: str = 'Count people.', found: int = 134000) -> Agent[None, City]:
    made = Agent(instructions=instructions, output_type=City, journal=MemoryJournal(), name='counter')

    @made.tool
    def count(city: str) -> ToolReturn:
        return ToolReturn(found if city == 'Bern' else 55000, metadata={'source': f'page {id(city)}'})

    @made.output_validator
    def positive(city: City) -> City:
        if city.people < 0:
            raise ModelRetry('people cannot be negative')
        return city

    return made


async def recorded() -> tuple[list[Record], list[Message]]:
    counter = agent()
    result = await counter.run('How many live in Bern?', model=ScriptedModel(SCRIPT))
    assert counter.journal is not None
    return await counter.journal.load(result.run_id), result.messages


def run(model: Model, made: Agent[None, City] | None = None, prompt: str = 'How many live in Bern?') -> City:
    return asyncio.run((made or agent()).run(prompt, model=model)).output


RECORDS, MESSAGES = asyncio.run(recorded())


@pytest.mark.parametrize('recording', [RECORDS, MESSAGES], ids=['records', 'messages'])
def test_the_same_run_replays(recording: Sequence[Record] | Sequence[Message]) -> None:
    assert run(ReplayModel(recording)) == City(name='Bern', people=134000)


def test_a_replay_is_watched_like_any_run() -> None:
    async def main() -> str:
        text = ''
        async with agent().run_stream_events('How many live in Bern?', model=ReplayModel(RECORDS, chunk=4)) as events:
            async for event in events:
                if event.kind == 'part_delta' and event.delta.kind == 'tool_call':
                    text += event.delta.args_delta
        return text

    assert '{"city": "Bern"}' in asyncio.run(main())


def test_names_are_those_of_the_recorded_model() -> None:
    model = ReplayModel(RECORDS)
    assert (model.name, model.provider) == ('scripted', 'test')
    assert ReplayModel(RECORDS, name='old', provider='house').name == 'old'


def test_a_changed_tool_result_is_named() -> None:
    with pytest.raises(ReplayMismatch) as caught:
        run(ReplayModel(RECORDS), agent(found=1))
    error = caught.value
    record = next(r for r in RECORDS if r.seq == error.seq)
    assert record.entry.kind == 'entered' and isinstance(record.entry.message, ToolMessage)
    assert error.expected == record.entry.message or isinstance(error.expected, ToolMessage)
    assert f'request 2 differs from the recording at messages[3] (journal entry {error.seq})' in str(error)
    assert 'expected .parts[0].content 134000, found 1' in str(error)
    assert error.run_id and error.messages, 'it is a RunError of the replaying run'


def test_a_changed_prompt_is_named() -> None:
    with pytest.raises(
        ReplayMismatch, match=r"messages\[1\].*expected \.content 'How many live in Bern\?', found 'How many in Biel\?'"
    ):
        run(ReplayModel(MESSAGES), prompt='How many in Biel?')


def test_changed_instructions_are_named() -> None:
    with pytest.raises(
        ReplayMismatch, match=r"request 1 .* messages\[0\].*'Count people\.', found 'Count all people\.'"
    ):
        run(ReplayModel(RECORDS), agent('Count all people.'))


def test_a_message_more_or_less_is_named() -> None:
    with pytest.raises(ReplayMismatch, match=r'messages\[0\].*expected SystemMessage.*found UserMessage'):
        run(ReplayModel(RECORDS), agent(''))
    shorter = [m for m in MESSAGES if not isinstance(m, SystemMessage)]
    with pytest.raises(ReplayMismatch, match=r'messages\[0\].*expected UserMessage.*found SystemMessage'):
        run(ReplayModel(shorter))


def test_metadata_of_tools_may_differ() -> None:
    answers = [m for m in MESSAGES if isinstance(m, ToolMessage)]
    assert answers[0].parts[0].metadata is not None
    changed = [
        ToolMessage([replace(part, metadata='another') for part in m.parts]) if isinstance(m, ToolMessage) else m
        for m in MESSAGES
    ]
    assert run(ReplayModel(changed)).people == 134000


def test_one_request_too_many_is_a_difference() -> None:
    cut = MESSAGES[: next(i for i, m in enumerate(MESSAGES) if isinstance(m, AssistantMessage)) + 1]
    with pytest.raises(
        ReplayMismatch, match=r'request 2 .* the recorded run ended before it; found ToolMessage'
    ) as caught:
        run(ReplayModel(cut))
    assert caught.value.expected is None


def test_a_run_that_stopped_before_its_answer_says_so() -> None:
    last = max(r.seq for r in RECORDS if r.entry.kind == 'entered' and r.entry.node == 'ModelRequest')
    with pytest.raises(UnexpectedModelBehavior, match='stopped before request 3 was answered'):
        run(ReplayModel([r for r in RECORDS if r.seq <= last]))


def test_empty_answers_keep_the_numbering() -> None:
    """A response of nothing is not kept in the history; the request after it is still the next one."""

    async def main() -> None:
        journal = MemoryJournal()
        plain = Agent(journal=journal, retries=2)
        first = await plain.run('hi', model=ScriptedModel(['', 'hello']))
        again = await plain.run('hi', model=ReplayModel(await journal.load(first.run_id)))
        assert (first.output, again.output) == ('hello', 'hello')

    asyncio.run(main())


def test_a_replay_may_begin_in_the_middle_of_a_conversation() -> None:
    async def main() -> None:
        plain = Agent()
        one = await plain.run('one', model=ScriptedModel(['first']))
        two = await plain.run('two', model=ScriptedModel(['second']), message_history=one.messages)
        again = await plain.run('two', model=ReplayModel(two.messages), message_history=one.messages)
        assert again.output == 'second'

    asyncio.run(main())


@pytest.mark.parametrize('recording', [[], [UserMessage('hi')]])
def test_a_recording_without_a_response_is_refused(recording: list[Message]) -> None:
    with pytest.raises(ConfigError, match='holds no response'):
        ReplayModel(recording)


def test_something_else_than_a_recording_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'recording\[1\] is TextPart'):
        ReplayModel([UserMessage('hi'), TextPart('x')])  # type: ignore[list-item]
