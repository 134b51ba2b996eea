"""The part of the model suite about leaving a model early, and about using one from several places."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

from agent_graph.errors import ModelError
from agent_graph.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.model import Model
from agent_graph.testing.model_kit import (
    HELLO,
    TOOLS,
    ModelTest,
    RequestInfo,
    Says,
    Served,
    Watcher,
    ask,
    calls,
    check,
    failure,
    run,
    text,
    until,
)

__all__ = ['LeavingTests', 'SharingTests']

_LONG = ' '.join(f'word{n}' for n in range(200))


class _Left(Exception):
    """What a reader raises."""


async def _closed(served: Served) -> None:
    """The server notices that nobody waits for the rest."""
    busy = served.busy
    if busy is not None:
        assert await until(lambda: not busy()), 'the connection is still open'


class LeavingTests(ModelTest):
    """Whoever leaves early is let go at once, and the connection is closed."""

    @check
    def test_cancelled_while_nothing_has_come(self) -> None:
        self._cancelled(text(upto=0, then='hang'), watched=False)

    @check
    def test_cancelled_within_an_answer(self) -> None:
        for watched in (False, True):
            self._cancelled(text(_LONG, upto=0.5, then='hang'), watched=watched)

    def _cancelled(self, scene: Says, *, watched: bool) -> None:
        async def main(served: Served) -> None:
            watcher = Watcher() if watched else None
            asking = asyncio.create_task(ask(served.model, watcher=watcher))
            await until(lambda: watcher.events if watcher is not None else served.requests, 0.5)
            await asyncio.sleep(0.02)
            asking.cancel()
            done, _ = await asyncio.wait([asking], timeout=5)
            assert done, 'cancellation took more than five seconds'
            assert asking.cancelled(), f'cancellation was swallowed: {asking.exception() or asking.result()!r}'
            await _closed(served)
            answer = await ask(served.model, watcher=Watcher())
            assert [p.content for p in answer.parts if isinstance(p, TextPart)] == ['again']

        with self.serve([scene, text('again')]) as served:
            run(main(served))

    @check
    def test_a_deadline_from_outside_stays_one(self) -> None:
        async def main(served: Served) -> None:
            for watcher in (None, Watcher()):
                try:
                    async with asyncio.timeout(0.15):
                        await ask(served.model, watcher=watcher)
                except TimeoutError:
                    pass
                except ModelError as error:
                    raise AssertionError(f'the deadline of the caller became {error!r}') from error
                else:
                    raise AssertionError('the deadline of the caller was swallowed')
                await _closed(served)

        with self.serve([text(_LONG, upto=0.5, then='hang')]) as served:
            run(main(served))

    @check
    def test_a_reader_that_raises(self) -> None:
        async def main(served: Served) -> None:
            left = _Left('the reader has seen enough')
            assert await failure(_Left, ask(served.model, watcher=Watcher(left))) is left
            await _closed(served)

        with self.serve([text(_LONG, upto=0.9, then='hang')]) as served:
            run(main(served))

    @check
    def test_it_can_be_asked_again_after_an_error(self) -> None:
        async def main(model: Model) -> None:
            for _ in range(2):
                await failure(ModelError, ask(model, watcher=Watcher(), timeout=5.0))
            for watcher in (None, Watcher()):
                parts = (await ask(model, watcher=watcher)).parts
                assert [(p.kind, getattr(p, 'content', '')) for p in parts] == [('text', 'again')]

        with self.serve([text(_LONG, upto=0.5, then='close')] * 2 + [text('again')]) as served:
            run(main(served.model))


class SharingTests(ModelTest):
    """One model object serves many requests, tasks, threads and event loops."""

    @check
    def test_many_requests_at_once(self) -> None:
        with self.serve([text(f'answer {n}') for n in range(30)]) as served:
            found = run(_asked(served.model, range(30)))
        assert sorted(found) == sorted(f'answer {n}' for n in range(30))

    @check
    def test_one_event_loop_after_the_other(self) -> None:
        with self.serve([text()]) as served:
            for _ in range(3):
                assert run(_asked(served.model, range(3))) == ['hello'] * 3

    @check
    def test_two_event_loops_at_once(self) -> None:
        with self.serve([text(f'answer {n}') for n in range(20)]) as served:
            found = _in_threads([lambda: run(_asked(served.model, range(10)))] * 2)
        assert sorted(answer for part in found for answer in part) == sorted(f'answer {n}' for n in range(20))

    @check
    def test_a_run_is_asked_the_same_with_and_without_its_scratch(self) -> None:
        """What is kept in `info.scratch` saves work and changes nothing, whatever has changed since."""
        with self.serve([text()]) as served:
            run(_with_scratch(served, served.model))

    @check
    def test_two_models_share_a_scratch(self) -> None:
        async def main(first: Served, second: Served) -> None:
            scratch: dict[Any, Any] = {}
            for served in (first, second, first):
                info = RequestInfo(tools=TOOLS, scratch=scratch)
                await ask(served.model, _history(), info)
                await ask(served.model, _history(), RequestInfo(tools=TOOLS))
                assert served.seen[-1].asked == served.seen[-2].asked

        with self.serve([text()]) as first, self.serve([text()]) as second:
            run(main(first, second))

    @check
    def test_the_same_request_is_the_same(self) -> None:
        """Prompt caches of providers know a request by its beginning."""

        async def main(served: Served) -> None:
            for _ in range(2):
                await ask(served.model, _history(), RequestInfo(tools=TOOLS))
            assert served.seen[0].asked == served.seen[1].asked

        with self.serve([text()]) as served:
            run(main(served))


async def _asked(model: Model, numbers: Sequence[int]) -> list[str]:
    """What many requests at once are answered, every other one streamed."""

    async def one(number: int) -> str:
        answer = await ask(model, [UserMessage(f'question {number}')], watcher=Watcher() if number % 2 else None)
        return ''.join(p.content for p in answer.parts if isinstance(p, TextPart))

    return list(await asyncio.gather(*map(one, numbers)))


async def _with_scratch(served: Served, model: Model) -> None:
    scratch: dict[Any, Any] = {}
    history = _history()
    steps: list[tuple[list[Message], Any]] = [
        (history[:2], TOOLS),
        (history, TOOLS),
        (history, TOOLS[:1]),  # a tool is withdrawn
        ([*history[:1], UserMessage('edited'), *history[2:]], TOOLS),  # history was edited in its middle
        (history[:2], ()),
    ]
    for messages, tools in steps:
        for kept in (scratch, {}):
            await ask(model, messages, RequestInfo(tools=tools, scratch=kept))
        assert served.seen[-2].asked == served.seen[-1].asked, 'the scratch space changed what is asked'


def _history() -> list[Message]:
    call = calls({'city': 'Rome'}).parts
    return [
        SystemMessage('Be brief.'),
        *HELLO,
        AssistantMessage(call, finish_reason='tool_calls'),
        ToolMessage([ToolReturnPart('weather', {'sky': 'clear'}, 'callA0001')]),
        UserMessage('And now?'),
    ]


def _in_threads(work: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each gives, all run at once; the first error is raised here."""
    found: list[Any] = []
    failed: list[BaseException] = []

    def one(call: Callable[[], Any]) -> None:
        try:
            found.append(call())
        except BaseException as error:  # carried to the test's own thread
            failed.append(error)

    threads = [Thread(target=one, args=(call,)) for call in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return found
