"""The part of the model suite about what goes wrong between a model and its server."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agent_graph.errors import (
    AgentGraphError,
    ConfigError,
    ModelError,
    ModelHTTPError,
    ModelProtocolError,
    ModelTimeout,
    ModelUnreachable,
)
from agent_graph.messages import AssistantMessage, TextPart, ToolCallPart
from agent_graph.model import Model
from agent_graph.testing.model_kit import (
    HELLO,
    TOOLS,
    Fails,
    Garbles,
    ModelTest,
    RequestInfo,
    Says,
    Scene,
    Served,
    Unreachable,
    Watcher,
    args_of,
    ask,
    calls,
    check,
    failure,
    run,
    text,
)

__all__ = ['FailingTests']

_SHARES = (0.02, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
"""How much of an answer is sent before it is cut off. The last ones may lack only what follows the parts."""


class FailingTests(ModelTest):
    """What goes wrong is told by type, once, without the key, and nothing of half an answer is used."""

    def failing(self, scene: Scene, kind: type[Any], *, watched: bool = False, **settings: Any) -> Any:
        """The error that asking ends with; it says who was asked."""
        with self.serve([scene]) as served:
            asking = failure(kind, ask(served.model, watcher=Watcher() if watched else None, **settings))
            error = run(asyncio.wait_for(asking, 3))
            if isinstance(error, ModelError):
                assert (error.provider, error.model) == (served.model.provider, served.model.name)
        return error

    def ending(self, scene: Scene, kind: type[Any], **settings: Any) -> list[Any]:
        """The errors of a plain and of a streamed request."""
        return [self.failing(scene, kind, watched=watched, **settings) for watched in (False, True)]

    @check
    def test_errors_have_their_status(self) -> None:
        for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529):
            for error in self.ending(Fails(status), ModelHTTPError):
                assert error.status == status
                assert 'r-17' in str(error), f'the server gave a reason, and the error does not say it: {error}'

    @check
    def test_the_wait_a_server_asks_for_is_told(self) -> None:
        for error in self.ending(Fails(429, retry_after=7), ModelHTTPError):
            assert error.retry_after == 7
        for error in self.ending(Fails(503), ModelHTTPError):
            assert error.retry_after is None

    @check
    def test_nothing_is_tried_again(self) -> None:
        async def main(served: Served, scenes: Sequence[Scene]) -> None:
            for number, _ in enumerate(scenes, 1):
                await failure(ModelError, ask(served.model))
                assert len(served.seen) == number, 'a request was repeated; whoever calls decides that'

        scenes = [Fails(429, retry_after=0), Fails(500), Fails(503), text(upto=0, then='close')]
        with self.serve(scenes) as served:
            run(main(served, scenes))

    @check
    def test_an_error_that_is_no_json(self) -> None:
        for error in self.ending(Garbles(status=502), ModelHTTPError):
            assert error.status == 502
        for error in self.ending(Garbles(b'', status=500), ModelHTTPError):
            assert error.status == 500

    @check
    def test_an_answer_that_is_none(self) -> None:
        odd = (
            b'<html>Welcome to the hotel</html>',
            b'[]',
            b'null',
            b'{}',
            b'"text"',
            b'{"some": "thing"}',
            b'\xff\xfe\0',
        )
        for data in (b'', *odd, *(line + b'\n' for line in odd)):
            for kind in ('text/html', 'application/json'):
                self.ending(Garbles(data, content_type=kind), ModelError)

    @check
    def test_an_error_in_a_stream(self) -> None:
        error = self.failing(text('It is', error='overloaded, reason r-18'), ModelError, watched=True)
        assert isinstance(error, ModelHTTPError | ModelProtocolError)
        assert 'r-18' in str(error)

    @check
    def test_an_answer_cut_off_is_none(self) -> None:
        long = ' '.join(f'word{n}' for n in range(40))
        for says in (text(long), calls({'city': 'Rome'}, {'city': long}, before='I will look.')):
            for share in _SHARES:
                for then in ('close', 'end'):
                    self._cut(Says(says.parts, says.finish_reason, upto=share, then=then))

    def _cut(self, says: Says) -> None:
        async def main(model: Model) -> None:
            for watcher in (None, Watcher()):
                try:
                    found = await ask(model, HELLO, RequestInfo(tools=TOOLS), watcher=watcher)
                except ModelProtocolError:
                    continue
                assert says.upto > 0.6, f'{says.upto:.0%} of an answer was taken for all of it: {found.parts}'
                assert _content(found) == _said(says), f'{says.upto:.0%} of an answer gave a part of it'

        with self.serve([says]) as served:
            run(main(served.model))

    @check
    def test_no_half_call_is_executed(self) -> None:
        long = ' '.join(f'word{n}' for n in range(40))
        half = [calls({'city': 'Rome'}, {'city': long}, upto=share, then='close') for share in _SHARES[:4]]
        with self.serve(half) as served:
            for watched in (False, True):
                for _ in half[:2]:
                    assert run(_called(served.model, watched=watched, fails=True)) == []

    @check
    def test_arguments_cut_by_the_limit_are_not_executed(self) -> None:
        cut = Says((ToolCallPart('weather', '{"city": "Ro', 'callA0001'),), 'length')
        for watched in (False, True):
            with self.serve([cut, text('I was cut off.')]) as served:
                assert run(_called(served.model, watched=watched, fails=False)) == []

    @check
    def test_no_connection(self) -> None:
        self.ending(Unreachable(), ModelUnreachable)

    @check
    def test_a_connection_that_is_closed_without_an_answer(self) -> None:
        for error in self.ending(text(upto=0, then='close'), ModelError):
            assert isinstance(error, ModelUnreachable | ModelProtocolError)

    @check
    def test_a_server_that_never_answers(self) -> None:
        self.ending(text(upto=0, then='hang'), ModelTimeout, timeout=0.2)

    @check
    def test_a_stream_that_stands_still(self) -> None:
        long = ' '.join(f'word{n}' for n in range(40))
        self.failing(text(long, upto=0.5, then='hang'), ModelTimeout, watched=True, timeout=0.3)

    @check
    def test_the_finer_timeouts_are_kept_or_refused(self) -> None:
        long = ' '.join(f'word{n}' for n in range(40))
        for setting, scene in (
            ('first_event_timeout', text(upto=0, then='hang')),
            ('event_timeout', text(long, upto=0.5, then='hang')),
        ):
            error = self.failing(scene, AgentGraphError, watched=True, **{setting: 0.2, 'timeout': 2.0})
            assert isinstance(error, ModelTimeout | ConfigError)
            assert setting in str(error), f'the error does not say that it was {setting}: {error}'

    @check
    def test_the_key_is_never_shown(self) -> None:
        with self.serve([text()]) as served:
            key = served.secret
        if key is None:
            return
        quoting: list[Scene] = [
            Fails(401, f'Incorrect API key provided: {key}.'),
            Fails(400, f'{{"authorization": "Bearer {key}"}}'),
            Garbles(f'<html>{key}</html>'.encode()),
            Garbles(f'<html>{key}</html>'.encode(), status=502),
            text(upto=0.3, then='close'),
            text(upto=0, then='hang'),
        ]
        with self.serve(quoting) as served:
            run(_hidden(served.model, key, len(quoting)))
        with self.serve([Unreachable()]) as served:
            run(_hidden(served.model, key, 1))


async def _hidden(model: Model, key: str, times: int) -> None:
    assert key not in repr(model) and key not in str(model), 'the key is in the repr of the model'
    for _ in range(times):
        error = await failure(ModelError, ask(model, timeout=0.5))
        body = getattr(error, 'body', None)
        shown = [str(error), repr(error), repr(vars(error)), repr(body), *traceback.format_exception(error)]
        assert not any(key in words for words in shown), f'the key is in {type(error).__name__}'


async def _called(model: Model, *, watched: bool, fails: bool) -> list[str]:
    """The cities a whole agent looked up before its run ended."""
    from agent_graph.agent import Agent

    seen: list[str] = []

    def weather(city: str) -> str:
        """Tell the weather of a city."""
        seen.append(city)
        return 'sunny'

    agent = Agent(model, tools=[weather])

    async def go() -> None:
        if not watched:
            await agent.run('hello')
            return
        async with agent.run_stream('hello') as stream:
            await stream.result()

    if fails:
        await failure(ModelError, go())
    else:
        with suppress(AgentGraphError):
            await go()
    return seen


def _said(says: Says) -> list[Any]:
    return [p.content if isinstance(p, TextPart) else (p.tool_name, p.args) for p in (*_texts(says), *says.calls)]


def _texts(says: Says) -> list[TextPart]:
    return [p for p in says.parts if isinstance(p, TextPart)]


def _content(found: AssistantMessage) -> list[Any]:
    return [*(p.content for p in found.parts if isinstance(p, TextPart)), *args_of(found)]
