"""A journal that fails in the middle (a full disk): a typed error, nothing lost, nothing done twice, no complaint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from agent_graph import (
    Agent,
    AgentGraphError,
    Answer,
    Journal,
    MemoryJournal,
    RunResult,
    ToolApproved,
    ToolReturn,
    UnknownRun,
    resume_graph,
    run_graph,
)
from agent_graph.errors import JournalError, JournalUnavailable
from agent_graph.testing import FunctionModel
from tests.durable.graphs import Count, Tally, counting
from tests.durable.kit import Mortal, at_every_write, entries_of, stored_state
from tests.durable.test_sloppy_answers import SCRIPT, make_agent
from tests.engine.kit import Log, go

T = TypeVar('T')


class Full(Mortal):
    """Refuses its `at`-th write, or that and all later ones."""

    def __init__(self, inner: Journal, at: int | None, *, lasting: bool) -> None:
        super().__init__(inner, None)
        self.full_at = at
        self.lasting = lasting
        self.refused = 0

    async def _write(self, write: Callable[[], Awaitable[T]]) -> T:
        self.writes += 1
        if self.full_at is not None and (self.writes == self.full_at or (self.lasting and self.writes > self.full_at)):
            self.refused += 1
            raise JournalUnavailable('the disk is full; make room')
        return await write()


def _reply(pending: Any) -> Any:
    if pending.reason == 'crash' or pending.reason == 'external':
        return ToolReturn('by hand')
    return Answer(2) if pending.reason == 'question' else ToolApproved()


async def _or_failure(work: Awaitable[RunResult[str]]) -> RunResult[str] | None:
    try:
        return await work
    except JournalError:
        return None
    except AgentGraphError as error:
        if not isinstance(error.__cause__, JournalError):
            raise
        return None


@pytest.mark.parametrize('lasting', [False, True], ids=['once', 'from then on'])
def test_at_every_write_of_a_run_that_waits(lasting: bool) -> None:
    async def main(at: int) -> bool:
        journal, log = MemoryJournal(), Log()
        model = FunctionModel(lambda m, i: SCRIPT[len(m) > 1])
        full = Full(journal, at, lasting=lasting)
        result: RunResult[str] | None = None
        for attempt in range(12):
            store: Any = full if attempt == 0 or (not lasting and not full.refused) else journal
            agent: Agent[None, str] = make_agent(store, log, model)
            answers = {p: _reply(p) for p in result.pending} if result is not None and result.pending else None
            result = None
            try:
                await journal.info('r')
            except UnknownRun:
                work = agent.run('go', run_id='r')
            else:
                work = agent.resume('r', answers=answers)
            result = await _or_failure(work)
            if result is None:
                continue
            if result.status != 'paused':
                break
        assert log.count(('delete', 'x')) <= 1 and log.count(('book', 2)) <= 1 and log.count('free') <= 1
        state = await stored_state(journal, 'r')
        if result is not None and result.status == 'completed':
            assert result.output == 'done'
        else:  # the failure itself could be written down
            assert state.ended is not None and state.ended.status == 'failed'
        entries = await entries_of(journal, 'r')
        assert [e.kind for e in entries].count('ended') == 1
        return full.refused > 0

    assert at_every_write(main) > 5


@pytest.mark.parametrize('lasting', [False, True], ids=['once', 'from then on'])
def test_at_every_write_of_a_graph(lasting: bool) -> None:
    async def main(at: int) -> bool:
        journal = MemoryJournal()
        full: Any = Full(journal, at, lasting=lasting)
        try:
            result = await run_graph(counting, Count(), state=Tally(), journal=full, run_id='g')
        except JournalUnavailable:
            if await journal.runs():
                result = await resume_graph(counting, 'g', journal=journal)
                assert result.output == 'counted to 5' if lasting else result.status in ('failed', 'completed')
            return True
        assert result.output == 'counted to 5'
        return False

    assert at_every_write(main) == 12


def test_an_answer_that_could_not_be_written_was_not_given() -> None:
    async def main() -> None:
        journal, log = MemoryJournal(), Log()
        model = FunctionModel(lambda m, i: SCRIPT[len(m) > 1])
        result = await make_agent(journal, log, model).run('go', run_id='r')
        answers = {p: _reply(p) for p in result.pending}
        full: Any = Full(journal, 1, lasting=True)
        with pytest.raises(JournalUnavailable):
            await make_agent(full, log, model).resume('r', answers=answers)
        assert log == ['free']
        again = await make_agent(journal, log, model).resume('r')
        assert again.pending == result.pending
        assert (await make_agent(journal, log, model).resume('r', answers=answers)).output == 'done'

    go(main())
