"""The contract of a `Model` as tests that any model can be put under.

    from agent_graph.testing.model_suite import HTTPModelSuite, Reply

    class TestMyModel(HTTPModelSuite):
        def model(self, url, key):
            return MyModel('model-1', base_url=url, api_key=key)

        def answer(self, says, seen):
            return Reply.json({'text': says.text})

`HTTPModelSuite` is for models that speak to a server over HTTP: it runs the server, and asks only for the bytes that mean
what the server is to say. `ModelSuite` is for any other: it asks for a model and whatever stands in for its server. Nothing
here needs pytest or a plug-in: each test is a plain method that runs an event loop of its own; skipping is
`unittest.SkipTest`, which pytest knows. For detailed failures call
`pytest.register_assert_rewrite('agent_graph.testing.model_suite')` (and `model_requests`, `model_sharing`, `model_failing`)
before importing it.
"""

from __future__ import annotations

import asyncio
import copy
from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from agent_graph.capabilities import Capabilities
from agent_graph.messages import AssistantMessage, FinishReason, TextPart, ThinkingPart, ToolCallPart
from agent_graph.model import Model, ResponseBuilder
from agent_graph.testing.model_failing import FailingTests
from agent_graph.testing.model_kit import (
    HELLO,
    TOOLS,
    Fails,
    Garbles,
    ModelTest,
    RequestInfo,
    Says,
    Scene,
    Seen,
    Served,
    Unreachable,
    Watcher,
    args_of,
    ask,
    calls,
    check,
    ids_of,
    pieces,
    run,
    text,
    until,
)
from agent_graph.testing.model_requests import RequestTests
from agent_graph.testing.model_server import ModelServer, Reply, playing
from agent_graph.testing.model_sharing import LeavingTests, SharingTests

__all__ = [
    'AnswerTests',
    'FailingTests',
    'Fails',
    'Garbles',
    'HTTPModelSuite',
    'LeavingTests',
    'ModelSuite',
    'ModelTest',
    'Reply',
    'RequestTests',
    'Says',
    'Scene',
    'Seen',
    'Served',
    'SharingTests',
    'Unreachable',
    'pieces',
]

_ODD = (
    'Grüße \U0001f378 \u4f60\u597d\u2028two\u2029three\u0085 {braces} "quotes" \\back\\ \t\r\n\r\ndata: [DONE]\n end '
)
"""What careless readers cut or change: characters beyond the first plane, every kind of line end, marks of protocols."""


class AnswerTests(ModelTest):
    """What the server says is what the model answers, streamed or not."""

    finish_reasons: ClassVar[Sequence[FinishReason]] = ('stop', 'length', 'content_filter')
    """Ends of a text that this protocol can tell."""

    def both(self, says: Says, *, tools: bool = False) -> AssistantMessage:
        """The answer, asked for plainly and as a stream: both have to be the same."""

        async def main(model: Model) -> tuple[AssistantMessage, AssistantMessage]:
            info = RequestInfo(tools=TOOLS if tools else ())
            return await ask(model, HELLO, info), await ask(model, HELLO, info, watcher=Watcher())

        with self.serve([says]) as served:
            plain, streamed = run(main(served.model))
        for name in ('parts', 'usage', 'finish_reason', 'refusal', 'model_name', 'provider_name'):
            assert _told(streamed, name) == _told(plain, name), f'{name} of a stream differs from the plain answer'
        return plain

    @check
    def test_it_says_what_it_is(self) -> None:
        with self.serve([text()]) as served:
            model = served.model
            assert isinstance(model, Model), f'{model!r} lacks name, provider or respond'
            assert isinstance(model.name, str) and model.name
            assert isinstance(model.provider, str) and model.provider
            assert isinstance(getattr(model, 'capabilities', Capabilities()), Capabilities)

    @check
    def test_a_text(self) -> None:
        found = self.both(text('It is sunny in Rome.'))
        assert [p.content for p in found.parts if isinstance(p, TextPart)] == ['It is sunny in Rome.']
        assert len(found.parts) == 1
        assert found.finish_reason == 'stop'
        assert not found.interrupted

    @check
    def test_usage_is_told(self) -> None:
        usage = self.both(text()).usage
        assert (usage.input_tokens, usage.output_tokens) == (11, 7)

    @check
    def test_who_answered_is_told(self) -> None:
        with self.serve([text()]) as served:
            found = run(ask(served.model))
            assert found.provider_name == served.model.provider
            assert found.model_name

    @check
    def test_characters_come_through_unchanged(self) -> None:
        (part,) = self.both(text(_ODD)).parts
        assert isinstance(part, TextPart)
        assert part.content == _ODD

    @check
    def test_a_long_text(self) -> None:
        long = ' '.join(f'word{n}' for n in range(2_000))
        (part,) = self.both(text(long)).parts
        assert isinstance(part, TextPart)
        assert part.content == long

    @check
    def test_a_tool_call(self) -> None:
        found = self.both(calls({'city': 'Rome', 'days': [1, 2.5], 'deep': {'none': None, 'yes': True}}), tools=True)
        args = {'city': 'Rome', 'days': [1, 2.5], 'deep': {'none': None, 'yes': True}}
        assert args_of(found) == [('weather', args)]
        assert found.finish_reason == 'tool_calls'

    @check
    def test_calls_keep_the_ids_the_server_gave(self) -> None:
        assert ids_of(self.both(calls({'city': 'Rome'}, {'city': 'Oslo'}), tools=True)) == ['callA0001', 'callA0002']

    @check
    def test_parallel_calls_keep_their_order(self) -> None:
        cities = [{'city': name} for name in ('Rome', 'Oslo', 'Rome', _ODD)]
        assert args_of(self.both(calls(*cities), tools=True)) == [('weather', city) for city in cities]

    @check
    def test_a_call_without_arguments(self) -> None:
        says = Says((ToolCallPart('clock', {}, 'callA0001'),), 'tool_calls')
        assert args_of(self.both(says, tools=True)) == [('clock', {})]

    @check
    def test_a_text_before_calls(self) -> None:
        found = self.both(calls({'city': 'Rome'}, {'city': 'Oslo'}, before='I will look.'), tools=True)
        assert [p.kind for p in found.parts] == ['text', 'tool_call', 'tool_call']
        assert [p.content for p in found.parts if isinstance(p, TextPart)] == ['I will look.']

    @check
    def test_thinking_before_a_text(self) -> None:
        found = self.both(Says((ThinkingPart('Let me see.', 'c2VhbC0x'), TextPart('Sunny.'))))
        assert [(p.kind, p.content) for p in found.parts if isinstance(p, ThinkingPart | TextPart)] == [
            ('thinking', 'Let me see.'),
            ('text', 'Sunny.'),
        ]

    @check
    def test_why_it_ended_is_told(self) -> None:
        for reason in self.finish_reasons:
            found = self.both(text('As far as it', finish_reason=reason))
            assert found.finish_reason == reason

    @check
    def test_an_empty_answer(self) -> None:
        found = self.both(Says(()))
        assert not any(getattr(part, 'content', 'something') for part in found.parts)

    @check
    def test_pieces_come_as_they_are_sent(self) -> None:
        async def main(model: Model) -> None:
            watcher = Watcher()
            asking = asyncio.create_task(ask(model, watcher=watcher))
            assert await until(lambda: watcher.events), 'half of a stream was sent, and nothing of it was shown'
            assert not asking.done()
            asking.cancel()
            await asyncio.wait([asking])

        long = ' '.join(f'word{n}' for n in range(200))
        with self.serve([text(long, upto=0.5, then='hang')]) as served:
            run(main(served.model))

    @check
    def test_nothing_comes_after_the_end(self) -> None:
        async def main(model: Model) -> None:
            for says in (HELLO, HELLO):
                watcher = Watcher()
                out = ResponseBuilder(watcher)
                await model.respond(says, RequestInfo(tools=TOOLS), out)
                seen, built = len(watcher.events), out.build()
                others = asyncio.all_tasks() - {asyncio.current_task()}
                await asyncio.sleep(0.05)
                assert len(watcher.events) == seen, 'something was pushed after respond() had returned'
                assert out.build() == built
                assert len(others) <= 1, f'tasks were left behind: {others}'  # one is this test's own

        with self.serve([text(), calls({'city': 'Rome'}, before='Wait.')]) as served:
            run(main(served.model))

    @check
    def test_what_is_given_is_not_changed(self) -> None:
        messages, info = list(HELLO), RequestInfo(tools=TOOLS, settings={'timeout': 20.0})
        before = copy.deepcopy((messages, info.tools, info.settings))
        with self.serve([text()]) as served:
            for watcher in (None, Watcher()):
                run(ask(served.model, messages, info, watcher=watcher))
        assert (messages, info.tools, info.settings) == before


def _told(message: AssistantMessage, name: str) -> Any:
    """A field to compare. Arguments count as what they say: some plain answers hold objects where a stream has their text."""
    if name != 'parts':
        return getattr(message, name)
    args = iter(args_of(message))
    return [replace(p, args=next(args)[1]) if isinstance(p, ToolCallPart) else p for p in message.parts]


class ModelSuite(AnswerTests, FailingTests, LeavingTests, SharingTests, RequestTests):
    """The whole contract. Subclass it in a test file under a name beginning with `Test` and give `serve`."""


class HTTPModelSuite(ModelSuite):
    """The whole contract for a model that speaks to a server over HTTP; the suite runs the server.

    Give `model` and `answer`; `error` where errors are not `{"error": {"message": ...}}`; `names_in` and `ids_in` to have
    tool names and the pairing of calls and results looked at; and `cannot` for what your protocol has no words for.
    """

    secret: ClassVar[str] = 'sk-secret-0123456789-never-shown'
    """The key that `model` is given; no error and no `repr` may have it."""

    @abstractmethod
    def model(self, url: str, key: str) -> Model:
        """A new model whose server is at `url` (`http://127.0.0.1:port`) and takes `key`."""
        raise NotImplementedError('give model() in the subclass: it returns your model for a server at this address')

    @abstractmethod
    def answer(self, says: Says, seen: Seen) -> Reply:
        """The whole answer as the server sends it. `seen` is the request, which says whether a stream is wanted.

        Write `says.parts`, `says.finish_reason` and `says.usage`; with `says.error`, which only streams are asked for, that
        error in place of an ending. Cutting it off and letting it hang is done by the suite.
        """
        raise NotImplementedError('give answer() in the subclass: it returns what the server would send')

    def error(self, fails: Fails) -> Reply:
        """The body of an error; status and `retry-after` are added by the suite."""
        return Reply.json({'error': {'message': fails.message, 'type': 'some_error'}})

    @contextmanager
    def serve(self, scenes: Sequence[Scene]) -> Generator[Served]:
        """The model of `model()` and a server on this machine."""
        server = ModelServer(scenes, self.answer, self.error)
        with playing(server, reachable=Unreachable() not in scenes) as url:
            yield Served(self.model(url, self.secret), server.requests, lambda: server.busy, self.secret)
