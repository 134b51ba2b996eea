"""What a failing run leaves: typed errors with run id, messages and usage; a stored end; `capture_run_messages`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_graph import (
    Agent,
    AgentGraphError,
    AssistantMessage,
    CodecError,
    Journal,
    JournalUnavailable,
    MemoryJournal,
    ModelHTTPError,
    ModelProtocolError,
    ModelTimeout,
    ModelUnreachable,
    RunError,
    RunExists,
    SQLiteJournal,
    TextPart,
    ToolFailed,
    UnexpectedModelBehavior,
    Usage,
    UserMessage,
    capture_run_messages,
)
from agent_graph.engine.state import fold
from agent_graph.journal.entries import Record
from agent_graph.messages import is_valid
from agent_graph.testing import FunctionModel, ScriptedModel
from tests.engine.kit import WAYS, Log, Way, call, go, outcome_of

EACH_WAY = pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)

MODEL_ERRORS: list[RunError] = [
    ModelHTTPError('too many requests', status=429, provider='test', model='m', retry_after=3),
    ModelTimeout('no answer'),
    ModelUnreachable('no connection'),
    ModelProtocolError('cut off'),
]


@EACH_WAY
@pytest.mark.parametrize('error', MODEL_ERRORS, ids=lambda e: type(e).__name__)
def test_a_model_error_carries_the_run(error: RunError, way: Way) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        script = [AssistantMessage([call('a')], Usage(input_tokens=5)), error]
        done = await outcome_of(way, Agent(ScriptedModel(script), tools=[Log().tool('a')], journal=journal), run_id='r')
        assert done.error is error and error.run_id == 'r'
        assert [m.kind for m in done.messages] == ['user', 'assistant', 'tool'] and done.usage.input_tokens == 5
        assert done.usage.requests == 2
        state = fold('r', await journal.load('r'))
        assert state.ended is not None and (state.ended.status, state.ended.error_type) == (
            'failed',
            type(error).__name__,
        )
        assert state.ended.error == str(error) and state.messages == done.messages
        for one in MODEL_ERRORS:
            one.run_id, one.messages, one.usage = '', (), None

    go(main())


def test_the_same_error_object_in_two_runs() -> None:
    async def main() -> None:
        error = ModelTimeout('no answer')
        agent = Agent(ScriptedModel([error, error]))
        for prompt in ('first', 'second'):
            with pytest.raises(ModelTimeout) as caught:
                await agent.run(prompt, run_id=prompt)
            assert caught.value.run_id == prompt
            assert list(caught.value.messages) == [UserMessage(prompt)]

    go(main())


@EACH_WAY
def test_an_error_of_no_known_type_in_the_model(way: Way) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        with pytest.raises(ZeroDivisionError):
            await way(Agent(ScriptedModel([ZeroDivisionError('bug in the model')]), journal=journal), 'go', run_id='r')
        assert (await journal.info('r')).status == 'failed'

    go(main())


def test_a_model_that_fails_half_way_keeps_what_had_come() -> None:
    async def main() -> None:
        async def half(messages: Any, info: Any) -> Any:
            yield 'First, '
            yield call('a', {'n': 1}, 'whole')
            raise ModelProtocolError('cut off')

        for way in WAYS.values():
            log = Log()
            done = await outcome_of(way, Agent(FunctionModel(half), tools=[log.tool('a')]))
            assert isinstance(done.error, ModelProtocolError) and log == []
            last = next(m for m in reversed(done.messages) if isinstance(m, AssistantMessage))
            assert last.interrupted and last.parts[0] == TextPart('First, ')
            assert len(done.messages) in (2, 3)

    go(main())


def test_an_interrupted_response_of_nothing_is_not_kept() -> None:
    async def main() -> None:
        async def nothing(messages: Any, info: Any) -> Any:
            yield '  '
            raise ModelTimeout('no answer')

        done = await outcome_of(WAYS['run'], Agent(FunctionModel(nothing)))
        assert done.messages == [UserMessage('go')]

    go(main())


def test_nested_errors_keep_both_runs_apart() -> None:
    async def main() -> None:
        inner = Agent(ScriptedModel([[call('bad')]]), tools=[_bad], name='inner')

        async def delegate() -> str:
            return (await inner.run('inner prompt', run_id='inner-run')).output

        outer = Agent(ScriptedModel([[call('delegate')]]), tools=[delegate])
        done = await outcome_of(WAYS['run'], outer, 'outer prompt', run_id='outer-run')
        assert isinstance(done.error, ToolFailed) and done.error.run_id == 'outer-run'
        assert done.messages[0] == UserMessage('outer prompt')
        cause = done.error.__cause__
        assert isinstance(cause, ToolFailed) and cause.run_id == 'inner-run'
        assert cause.messages[0] == UserMessage('inner prompt') and is_valid(cause.messages)
        assert isinstance(cause.__cause__, RuntimeError)

    go(main())


async def _bad() -> str:
    raise RuntimeError('bad')


_bad.__name__ = 'bad'


@EACH_WAY
def test_captured_messages_of_a_failing_run(way: Way) -> None:
    async def main() -> None:
        agent = Agent(ScriptedModel([[call('bad')]]), tools=[_bad])
        with capture_run_messages() as messages, pytest.raises(ToolFailed) as caught:
            await way(agent, 'go')
        assert messages == list(caught.value.messages) and is_valid(messages)

    go(main())


def test_captured_messages_are_those_of_the_first_run_only() -> None:
    async def main() -> None:
        agent = Agent(ScriptedModel(['one', 'two']))
        with capture_run_messages() as messages:
            first = await agent.run('first')
            await agent.run('second')
        assert messages == first.messages
        with capture_run_messages() as nothing:
            pass
        assert nothing == []

    go(main())


def test_captured_messages_of_nested_runs_and_blocks() -> None:
    async def main() -> None:
        inner = Agent(ScriptedModel(['inner'] * 2))

        async def delegate() -> str:
            with capture_run_messages() as mine:
                output = (await inner.run('inner prompt')).output
            assert mine[0] == UserMessage('inner prompt') and len(mine) == 2
            return output

        agent = Agent(ScriptedModel([[call('delegate')], 'done']), tools=[delegate])
        with capture_run_messages() as messages:
            result = await agent.run('go')
        assert messages == result.messages

    go(main())


def test_two_streams_inside_one_capture() -> None:
    async def main() -> None:
        agent = Agent(ScriptedModel(['one', 'two']))
        with capture_run_messages() as messages:
            first = agent.run_stream('first')
            second = agent.run_stream('second')
            await first.result()
            await second.result()
        assert messages == first.messages

    go(main())


class Refusing:
    """A journal that works until told otherwise."""

    def __init__(self, after: int, error: Exception) -> None:
        self.inner = MemoryJournal()
        self.after = after
        self.error = error
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def append(self, run_id: str, records: list[Record], *, epoch: int) -> None:
        self.writes += 1
        if self.writes > self.after:
            raise self.error
        await self.inner.append(run_id, records, epoch=epoch)


@pytest.mark.parametrize('after', range(8))
@pytest.mark.parametrize('way', [WAYS['run'], WAYS['run_stream']], ids=['run', 'run_stream'])
def test_a_journal_that_stops_working_at_every_write(after: int, way: Way) -> None:
    async def main() -> None:
        log = Log()
        journal: Any = Refusing(after, JournalUnavailable('disk full'))
        agent = Agent(
            ScriptedModel([[call('a'), call('b')], 'done']), tools=[log.tool('a'), log.tool('b')], journal=journal
        )
        with pytest.raises(JournalUnavailable, match='disk full'):
            await way(agent, 'go', run_id='r')
        records = await journal.load('r')
        assert len(records) == after + 1
        started = [r for r in records if r.entry.kind == 'call_started']
        assert len(log) <= len(started), 'no tool runs before its intent is recorded'
        fold('r', records)

    go(main())


def test_no_final_event_before_the_end_is_recorded() -> None:
    async def main() -> None:
        journal: Any = Refusing(3, JournalUnavailable('disk full'))
        kinds: list[str] = []
        with pytest.raises(JournalUnavailable):  # noqa: PT012 (the loop is what raises)
            async for event in Agent(ScriptedModel(['done']), journal=journal).run_stream_events('go', run_id='r'):
                kinds.append(event.kind)  # noqa: PERF401 (what came before the error is kept)
        assert 'final_result' not in kinds and len(await journal.load('r')) == 4
        journal.after = 100
        result = await Agent(ScriptedModel([]), journal=journal).resume('r')
        assert result.output == 'done'

    go(main())


def test_what_the_journal_cannot_hold_ends_the_run_as_failed(tmp_path: Any) -> None:
    async def main() -> None:
        journal = SQLiteJournal(tmp_path / 'r.db')
        response = AssistantMessage([TextPart('x')], provider_details={'when': object()})
        with pytest.raises(CodecError):
            await Agent(ScriptedModel([response]), journal=journal).run('go', run_id='r')
        assert (await journal.info('r')).status == 'failed', 'the run must not look as if it were still going'
        state = fold('r', await journal.load('r'))
        assert is_valid(state.messages) and state.ended is not None and state.ended.error_type == 'CodecError'
        await journal.aclose()

    go(main())


def test_a_run_id_that_is_taken() -> None:
    async def main() -> None:
        model = ScriptedModel(['x', 'y'])
        agent = Agent(model, journal=MemoryJournal())
        await agent.run('go', run_id='r')
        for way in WAYS.values():
            with pytest.raises(RunExists):
                await way(agent, 'go', run_id='r')
        assert len(model.requests) == 1

    go(main())


@pytest.mark.parametrize('run_id', ['', 'a\nb', '\x00'])
def test_a_run_id_that_cannot_be(run_id: str) -> None:
    async def main() -> None:
        model = ScriptedModel(['x'])
        try:
            result = await Agent(model, journal=MemoryJournal()).run('go', run_id=run_id)
            assert not run_id and result.run_id, 'an empty one may count as none'
        except AgentGraphError:
            assert model.requests == []

    go(main())


def test_run_ids_are_uuids_of_version_7_in_order() -> None:
    async def main() -> None:
        import uuid

        agent = Agent(FunctionModel(_ok))
        ids: list[str] = []
        for _ in range(5):
            ids.append((await agent.run('go')).run_id)
            await asyncio.sleep(0.002)
        assert [uuid.UUID(i).version for i in ids] == [7] * 5
        assert {uuid.UUID(i).variant for i in ids} == {uuid.RFC_4122} and ids == sorted(ids) and len(set(ids)) == 5

    go(main())


async def _ok(messages: Any, info: Any) -> str:
    return 'ok'


def test_the_protocol_is_fulfilled_by_both_journals() -> None:
    assert isinstance(MemoryJournal(), Journal)


def test_a_failing_run_can_be_caught_by_its_root() -> None:
    async def main() -> None:
        with pytest.raises(AgentGraphError):
            await Agent(ScriptedModel([[call('x', {}, '1')], [call('x', {}, '2')]])).run('go')
        assert issubclass(UnexpectedModelBehavior, RunError)

    go(main())
