"""What readers of a run see when a response is asked for again from its start, and what a streamed piece costs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_graph import (
    Agent,
    ModelRequest,
    NativeOutput,
    RequestRetried,
    ResponseRestarted,
    ToolCallPart,
    ToolOutput,
)
from agent_graph.errors import ModelProtocolError
from agent_graph.messages import Message
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.models import (
    CachedModel,
    CountingModel,
    FallbackModel,
    LimitedModel,
    RetryingModel,
    TimeoutModel,
)
from tests.engine.kit import go
from tests.models.kit import HELLO, Faulty, Step, broken


async def no_wait(_: float) -> None: ...


def retrying(model: Any) -> RetryingModel:
    return RetryingModel(model, restart=True, sleep=no_wait)


def test_text_so_far() -> None:
    async def main() -> None:
        agent = Agent(retrying(Faulty([broken('Once upon'), 'The end'])))
        async with agent.run_stream('Tell me.') as stream:
            texts = [text async for text in stream.text()]
        assert texts == ['Once ', 'Once upon ', '', 'The ', 'The end ']

    go(main())


def test_pieces_come_again() -> None:
    async def main() -> None:
        agent = Agent(retrying(Faulty([broken('Once upon'), 'The end'])))
        async with agent.run_stream('Tell me.') as stream:
            pieces = [text async for text in stream.text(delta=True)]
        assert pieces == ['Once ', 'upon ', 'The ', 'end ']
        assert [m.kind for m in stream.messages] == ['user', 'assistant']

    go(main())


def test_events() -> None:
    async def main() -> None:
        agent = Agent(retrying(Faulty([broken('Once upon'), 'The end'])))
        events = [e async for e in agent.run_stream_events('Tell me.')]
        kinds = [e.kind for e in events]
        restart = kinds.index('response_restarted')
        assert kinds.index('request_retried') < restart
        assert kinds[restart + 1] == 'part_start' and events[restart + 1].index == 0  # pyright: ignore
        assert isinstance(events[restart], ResponseRestarted) and events[restart].node == 'ModelRequest'
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        (retried,) = [e for e in events if isinstance(e, RequestRetried)]
        assert (retried.attempt, retried.model, retried.provider) == (2, 'faulty', 'test')

    go(main())


def json_pieces(text: str, *, fail: bool = False) -> Step:
    async def step(out: ResponseBuilder) -> None:
        for char in text:
            await out.text(char)
        if fail:
            raise ModelProtocolError('cut off')
        out.finish_reason = 'stop'

    return step


def call_pieces(args: str, *, fail: bool = False) -> Step:
    async def step(out: ResponseBuilder) -> None:
        await out.tool_call(0, name='final_result', tool_call_id='c')
        for char in args:
            await out.tool_call(0, args=char)
        if fail:
            raise ModelProtocolError('cut off')
        out.finish_reason = 'tool_calls'

    return step


@pytest.mark.parametrize('pieces', [json_pieces, call_pieces])
def test_partial_outputs_begin_anew(pieces: Any) -> None:
    """What came of the first try is no part of the output: it would be `[1, 2, 9]`, or no JSON at all."""
    kind: Any = NativeOutput if pieces is json_pieces else ToolOutput
    steps = [pieces('{"response": [1, 2', fail=True), pieces('{"response": [9, 8, 7]}')]

    async def main() -> None:
        agent = Agent(retrying(Faulty(steps)), output_type=kind(list[int]))
        async with agent.run_stream('Numbers.') as stream:
            seen = [list(value) async for value in stream.output()]
            result = await stream.result()
        assert result.output == [9, 8, 7] and seen[-1] == [9, 8, 7]
        assert [9, 8] in seen and all(value in ([1], [1, 2], [], [9], [9, 8], [9, 8, 7]) for value in seen), seen

    go(main())


def test_the_stream_of_one_request() -> None:
    async def main() -> None:
        agent = Agent(retrying(Faulty([broken('Once upon'), 'The end'])))
        async with agent.iter('Tell me.') as run:
            node = await run.next(run.next_node)  # pyright: ignore
            assert isinstance(node, ModelRequest)
            async with node.stream(run.ctx) as stream:
                texts = [text async for text in stream.text()]
            assert texts[-1] == 'The end '
            assert [p.content for p in stream.response.parts] == ['The end ']  # pyright: ignore

    go(main())


def test_a_call_of_the_first_try_is_never_run() -> None:
    ran: list[str] = []

    def look(where: str) -> str:
        """Look somewhere."""
        ran.append(where)
        return 'sun'

    async def half(out: ResponseBuilder) -> None:
        await out.part(ToolCallPart('look', {'where': 'first'}, 'c1'))
        raise ModelProtocolError('cut off')

    async def full(out: ResponseBuilder) -> None:
        await out.part(ToolCallPart('look', {'where': 'second'}, 'c1'))
        out.finish_reason = 'tool_calls'

    async def main() -> None:
        agent = Agent(retrying(Faulty([half, full, 'Sunny.'])), tools=[look])
        async with agent.run_stream('How is it?') as stream:
            assert (await stream.result()).output.strip() == 'Sunny.'
        assert ran == ['second']

    go(main())


class Many:
    """A model that streams many words."""

    name, provider = 'many', 'test'

    def __init__(self, words: int) -> None:
        self.words = words

    async def respond(self, messages: Sequence[Message], info: RequestInfo, out: ResponseBuilder) -> None:
        for _ in range(self.words):
            await out.text('word ')
        out.finish_reason = 'stop'


def calls_of(model: Any) -> int:
    """Python and C calls of one streamed request."""

    async def unseen(*_: Any, **__: Any) -> None: ...

    async def main() -> int:
        count = 0

        def profile(*_: Any) -> None:
            nonlocal count
            count += 1

        out = ResponseBuilder(unseen)
        sys.setprofile(profile)
        try:
            await model.respond(HELLO, RequestInfo(), out)
        finally:
            sys.setprofile(None)
        return count

    return go(main())


def test_a_streamed_piece_costs_nothing_more(path: Path) -> None:
    def around(model: Any) -> list[Any]:
        return [
            RetryingModel(model),
            FallbackModel([model]),
            LimitedModel(model, concurrency=1),
            CountingModel(model),
            TimeoutModel(model, between=30),
            CachedModel(model, path, mode='refresh'),
        ]

    bare = calls_of(Many(1100)) - calls_of(Many(100))
    for few, many in zip(around(Many(100)), around(Many(1100)), strict=True):
        calls_of(few)  # the first request makes what is kept
        more = calls_of(many) - calls_of(few)
        assert more <= bare + 500, (many, more, bare)
