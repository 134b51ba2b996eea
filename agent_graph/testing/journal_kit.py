"""What the journal suites are made of: records to write, and a test method made of a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Thread
from typing import Any, TypeAlias, TypeVar

from agent_graph.errors import JournalError
from agent_graph.journal import Journal
from agent_graph.journal.entries import (
    Answered,
    CallFinished,
    CallStarted,
    Edited,
    Ended,
    Enqueued,
    Entered,
    Entry,
    Parent,
    Paused,
    Record,
    Started,
    StepDone,
)
from agent_graph.messages import (
    AssistantMessage,
    FilePart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.pending import Pending
from agent_graph.usage import Spend, Usage, UsageLimits

__all__ = [
    'TTL',
    'JournalTest',
    'check',
    'collect',
    'first',
    'in_threads',
    'last',
    'pause',
    'raises',
    'sample_entries',
    'sample_records',
    'seqs',
    'soon',
    'steps',
]

TTL = 60.0
_Check: TypeAlias = Callable[[Any, Journal], Awaitable[None]]
E = TypeVar('E', bound=JournalError)
T = TypeVar('T')


def sample_entries() -> list[Entry]:
    """One of everything a journal holds, with the values that stores get wrong: None, bytes, empty and odd text."""
    part = ToolReturnPart('search', {'rows': [None, 1, 1.5, True, 'ü\u2028\n'], 'none': None}, 'call-1')
    return [
        Started(
            'sample',
            prompt=('look', FilePart('image/png', data=bytes(range(256)))),
            history=(SystemMessage('be brief', True), UserMessage('hello'), UserMessage(('see', 'this'))),
            metadata={'tags': ['a', None], 'empty': {}},
            limits=UsageLimits(request_limit=3, cost_limit=0.25, on_limit='final_answer'),
            parent=Parent('outer', 'call-0'),
            fingerprint={'tools': {}},
        ),
        Entered('ModelRequest', message=UserMessage('hello'), system=(SystemMessage('be brief', True),)),
        Entered(
            'HandleResponse',
            response=AssistantMessage(
                [ThinkingPart('hm', 'seal'), TextPart(''), ToolCallPart('search', {'q': None}, 'call-1')],
                Usage(input_tokens=5, output_tokens=2, details={'audio': 1}),
                'model-1',
                'resp-1',
                'tool_calls',
                {'logprobs': [[-0.5, None]], 'deep': {'er': []}},
            ),
        ),
        CallStarted('call-1', 'search', {'q': None}, attempt=2),
        CallFinished(part, Usage(requests=1), (Spend('openai', 'model-1', Usage(requests=1)),), stop=True),
        CallFinished(ToolReturnPart('nothing', None, 'call-2', 'interrupted', metadata=[0])),
        Entered('ModelRequest', message=ToolMessage([part]), retry=True),
        Paused(
            (Pending('outer', 'call-3', 'pay', {'sum': 1}, 'question', 'how?', {'type': 'object'}, ('call-0',), 1),)
        ),
        Answered('call-3', 'approved', {'sum': 2}, 'pay', 'ok', [None]),
        Enqueued(UserMessage('and this')),
        Edited((UserMessage('instead'),), {'tags': []}, UsageLimits(time_limit=1.5)),
        StepDone('call-3', 'charge', {'paid': None}),
        Entered('TheirNode', data={'any': ['json', 1, None]}, usage=Usage(requests=1)),
        Ended('completed', output={'answer': None}, tool_name='final'),
    ]


def sample_records() -> list[Record]:
    """`sample_entries` as the records of one run, a quarter of a second apart."""
    return [Record(n, 1_700_000_000.0 + n / 4, entry) for n, entry in enumerate(sample_entries(), 1)]


def first(agent: str | None = 'agent', time: float = 1_000.0) -> list[Record]:
    return [Record(1, time, Started(agent))]


def steps(*seqs: int) -> list[Record]:
    return [Record(n, 1_000.0 + n, Entered('Node', data=n)) for n in seqs]


def pause(seq: int) -> list[Record]:
    return [Record(seq, 1_000.0 + seq, Paused((Pending('r', 'call', 'tool', None),)))]


def last(seq: int) -> list[Record]:
    return [Record(seq, 1_000.0 + seq, Ended('completed'))]


def seqs(records: Sequence[Record]) -> list[int]:
    return [record.seq for record in records]


@contextmanager
def raises(kind: type[E]) -> Generator[list[E]]:
    """Expect an error of this kind; it is put into the list."""
    found: list[E] = []
    try:
        yield found
    except kind as error:
        found.append(error)
        return
    raise AssertionError(f'expected {kind.__name__}, nothing was raised')


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, 20)


async def collect(records: AsyncIterator[Record]) -> list[Record]:
    return [record async for record in records]


def check(test: _Check) -> Callable[[Any], None]:
    """Make a plain test method of a coroutine that takes a journal."""

    def run(self: JournalTest) -> None:
        self.drive(partial(test, self))

    # Not functools.wraps: pytest would look through it and ask for a fixture `journal`.
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


class JournalTest:
    """Runs its checks on the journals that `make` gives."""

    def make(self) -> Journal:
        """A journal to test, empty the first time in a test."""
        raise NotImplementedError('give make() in the subclass: it returns a Journal to test')

    def drive(self, test: Callable[[Journal], Awaitable[None]]) -> None:
        """Run one test in a loop of its own with a journal that is closed after it."""

        async def main() -> None:
            journal = self.make()
            try:
                await asyncio.wait_for(test(journal), 60)
            finally:
                await journal.aclose()

        asyncio.run(main())


def in_threads(calls: Sequence[Callable[[], object]]) -> None:
    """Run all at the same moment, each in a thread; fail with the first that fails."""
    start = Barrier(len(calls))
    failed: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        start.wait()
        try:
            call()
        except BaseException as error:  # carried to the test's own thread
            failed.append(error)

    threads = [Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
