"""The part of the model suite about what is asked: every history is taken, and nothing of a request is lost silently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from unittest import SkipTest

from agent_graph.errors import ConfigError, MessageError
from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    CachePoint,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
    dump_json,
    load_json,
)
from agent_graph.model import OutputSchema, ToolDefinition
from agent_graph.testing.model_kit import (
    HELLO,
    TOOLS,
    ModelTest,
    RequestInfo,
    Says,
    Seen,
    Served,
    Watcher,
    args_of,
    ask,
    calls,
    check,
    failure,
    run,
    text,
)

__all__ = ['SETTINGS', 'RequestTests']

_PNG = bytes.fromhex(
    '89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000'
    '0500017a5eab3f0000000049454e44ae426082'
)
_FILES = (
    FilePart.from_bytes(_PNG, 'image/png', name='dot.png'),
    FilePart.from_bytes(b'RIFF$\0\0\0WAVEfmt ', 'audio/wav', name='sound.wav'),
    FilePart.from_bytes(b'%PDF-1.4 a page', 'application/pdf', name='page.pdf'),
    FilePart.from_bytes(b'plain words', 'text/plain', name='words.txt'),
)

SETTINGS: dict[str, Any] = {
    'max_tokens': 77,
    'temperature': 0.5,
    'top_p': 0.5,
    'seed': 77,
    'stop_sequences': ['STOP'],
    'presence_penalty': 0.5,
    'frequency_penalty': 0.5,
    'logit_bias': {'77': 5},
    'logprobs': True,
    'top_logprobs': 3,
    'parallel_tool_calls': False,
    'reasoning_effort': 'low',
    'service_tier': 'flex',
    'user': 'user-77',
    'top_k': 7,
    'thinking_budget': 1025,
    'builtin_tools': [{'type': 'web_search'}],
    'auto_cache': '5m',
    'previous_response_id': 'resp_77',
    'background': True,
}
"""One value for each setting that is about the answer."""

_LONG_ID = 'call:' + 'x' * 70
_CALL_IDS = ('callA0001', f'{_LONG_ID}.1', f'{_LONG_ID}.2', 'call one/ü|2', '1')
_NAMES = ('a.b', 'a-b', 'a_b', 'Box[int]', f'{"long_" * 18}one', f'{"long_" * 18}two', 'größe', 'plain')


class RequestTests(ModelTest):
    """What the engine asks for is in the request, or is refused by name."""

    hints: ClassVar[frozenset[str]] = frozenset({'auto_cache', 'parallel_tool_calls'})
    """Settings that this model may leave out of the request without a word; its documentation says so."""

    def names_in(self, seen: Seen) -> Sequence[str] | None:
        """The names of the tools a request offers, in order; `None` where that is not looked at."""
        return None

    def ids_in(self, seen: Seen) -> tuple[Sequence[str], Sequence[str]] | None:
        """The ids of all calls in a request's history, and of all results, in order; `None`: not looked at."""
        return None

    def request(self, messages: Sequence[Message] = HELLO, info: RequestInfo | None = None, **settings: Any) -> Seen:
        """The request that these messages make."""
        with self.serve([text()]) as served:
            run(ask(served.model, messages, info, **settings))
            return served.seen[-1]

    def outcome(
        self, messages: Sequence[Message] = HELLO, info: RequestInfo | None = None, **settings: Any
    ) -> Seen | ConfigError | MessageError:
        """That request, or the error it was refused with as something that cannot be said."""
        try:
            return self.request(messages, info, **settings)
        except (ConfigError, MessageError) as error:
            return error

    def asked(self, messages: Sequence[Message] = HELLO, info: RequestInfo | None = None) -> Any:
        """What makes that request the same as another; `None` if it was refused."""
        found = self.outcome(messages, info)
        return found.asked if isinstance(found, Seen) else None

    @check
    def test_everything_said_is_in_the_request(self) -> None:
        found = self.request(_conversation(), RequestInfo(tools=TOOLS)).text
        places = {n: found.find(f'marker{n:02}') for n in range(1, 13)}
        assert -1 not in places.values(), f'lost from the request: {[n for n, at in places.items() if at < 0]}'
        order = [places[n] for n in (2, 3, 4, 6, 7, 8, 9, 10, 11, 12)]  # instructions may be moved
        assert order == sorted(order), 'messages are in another order than they were said in'

    @check
    def test_every_history_is_taken(self) -> None:
        async def main(served: Served) -> None:
            for number, history in enumerate(_histories()):
                for watcher in (None, Watcher()):
                    try:
                        await ask(served.model, history, RequestInfo(tools=TOOLS), watcher=watcher)
                    except Exception as error:
                        raise AssertionError(f'history {number} was not taken: {history}') from error

        with self.serve([text()]) as served:
            run(main(served))

    @check
    def test_a_cache_point_is_no_text(self) -> None:
        found = self.request([UserMessage(['marker01', CachePoint('1h'), 'marker02'])]).text
        assert found.find('marker01') < found.find('marker02')
        assert 'CachePoint' not in found

    @check
    def test_what_another_provider_sealed_is_not_sent(self) -> None:
        foreign = AssistantMessage(
            [
                ThinkingPart('foreign-thoughts', 'foreign-seal', {'field': 'foreign-field', 'data': 'foreign-data'}),
                BuiltinToolCallPart('web_search', {'q': 'foreign-query'}, 'foreign-id', {'item': 'foreign-item'}),
                BuiltinToolReturnPart('web_search', 'foreign-result', 'foreign-id', {'item': 'foreign-item'}),
                TextPart('their answer', {'id': 'foreign-text'}),
            ],
            finish_reason='stop',
            provider_name='somebody-else',
            provider_response_id='foreign-response',
            provider_details={'detail': 'foreign-detail'},
        )
        found = self.request([*HELLO, foreign, UserMessage('go on')]).text
        assert 'their answer' in found
        assert 'foreign-' not in found, found

    @check
    def test_an_answer_goes_back_as_it_came(self) -> None:
        """Also after it was stored: what the provider needs is in the message and nowhere else."""
        thinking = Says((ThinkingPart('Hm.', 'c2VhbC0x'), *calls({'city': 'Rome'}).parts), 'tool_calls')
        told = calls({'city': 'Rome'}, {'city': 'Oslo'}, before='I will look.')
        for says in (text('It is sunny.'), told, thinking):
            if says is not thinking or 'test_thinking_before_a_text' not in self.cannot:
                for watcher in (None, Watcher()):
                    self._goes_back(says, watcher)

    def _goes_back(self, says: Says, watcher: Watcher | None) -> None:
        async def main(served: Served) -> None:
            first = await ask(served.model, HELLO, RequestInfo(tools=TOOLS), watcher=watcher)
            found = [p for p in first.parts if isinstance(p, ToolCallPart)]
            results = [ToolReturnPart(p.tool_name, 'result', p.tool_call_id) for p in found]
            history = [*HELLO, first, *([ToolMessage(results)] if results else []), UserMessage('go on')]
            for messages in (history, load_json(dump_json(history))):
                await ask(served.model, messages, RequestInfo(tools=TOOLS))
            seals = [p.signature for p in first.parts if isinstance(p, ThinkingPart) and p.signature]
            if served.requests is not None:
                assert served.seen[1].asked == served.seen[2].asked, 'a stored answer goes back as another'
                assert all(seal in served.seen[1].text for seal in seals), 'the seal on the thinking is lost'

        with self.serve([says, text()]) as served:
            run(main(served))

    @check
    def test_files_are_sent_or_refused(self) -> None:
        without = self.asked([UserMessage(['look'])])
        for file in _FILES:
            assert self.asked([UserMessage(['look', file])]) != without, f'{file.name} was silently left out'

    @check
    def test_files_of_tools_are_sent_or_refused(self) -> None:
        call = AssistantMessage(calls({'city': 'Rome'}).parts, finish_reason='tool_calls')
        without = self.asked([*HELLO, call, ToolMessage([ToolReturnPart('weather', 'seen', 'callA0001')])])
        for extra in (*_FILES, 'beside it'):
            part = ToolReturnPart('weather', 'seen', 'callA0001', extra_content=(extra,))
            assert self.asked([*HELLO, call, ToolMessage([part])]) != without, f'{extra!r} was silently left out'

    @check
    def test_tools_are_offered_whole(self) -> None:
        found = self.request(HELLO, RequestInfo(tools=TOOLS)).text
        for tool in TOOLS:
            for word in (tool.name, tool.description, *tool.parameters['properties']):
                assert word in found, f'{word!r} of the tool {tool.name!r} is not in the request'
        assert 'weather' not in self.request(HELLO, RequestInfo(tools=TOOLS[1:])).text

    @check
    def test_tool_choice_is_sent_or_refused(self) -> None:
        choices: list[Any] = ['auto', 'required', 'none', ('weather',), ('clock',)]
        found = [self.asked(HELLO, RequestInfo(tools=TOOLS, tool_choice=choice)) for choice in choices]
        for number, choice in enumerate(choices):
            if found[number] is not None:
                assert found.index(found[number]) == number, f'tool_choice={choice!r} changes nothing in the request'
        assert found[0] is not None

    @check
    def test_an_output_schema_is_sent_or_refused(self) -> None:
        properties = {'marker01': {'type': 'string'}}
        schema = {'type': 'object', 'properties': properties, 'required': ['marker01'], 'additionalProperties': False}
        found = self.outcome(HELLO, RequestInfo(output_schema=OutputSchema('answer', schema)))
        assert not isinstance(found, Seen) or 'marker01' in found.text, 'the output schema was silently left out'

    @check
    def test_every_setting_is_sent_or_refused(self) -> None:
        without = self.asked(HELLO, RequestInfo(tools=TOOLS))
        lost: list[str] = []
        for name, value in SETTINGS.items():
            settings: Any = {name: value}
            found = self.outcome(HELLO, RequestInfo(tools=TOOLS, settings=settings))
            if not isinstance(found, Seen):
                assert name in str(found), f'the refusal of {name!r} does not name it: {found}'
            elif found.asked == without and name not in self.hints:
                lost.append(name)
        assert not lost, f'these settings change nothing and are not refused: {lost}'

    @check
    def test_unknown_settings_are_refused(self) -> None:
        settings: Any = {'temprature': 1}
        with self.serve([text()]) as served:
            for watcher in (None, Watcher()):
                asking = ask(served.model, HELLO, RequestInfo(settings=settings), watcher=watcher)
                assert 'temprature' in str(run(failure(ConfigError, asking)))
            assert not served.requests

    @check
    def test_extra_fields_and_headers_are_sent_or_refused(self) -> None:
        found = self.outcome(extra_body={'x_extra': 'marker01'})
        word = 'marker01' if isinstance(found, Seen) else 'extra_body'
        assert word in (found.text if isinstance(found, Seen) else str(found)), 'extra_body was silently left out'
        found = self.outcome(extra_headers={'x-extra': 'marker02'})
        if not isinstance(found, Seen):
            assert 'extra_headers' in str(found)
        elif found.headers:
            assert found.headers.get('x-extra') == 'marker02', 'extra_headers was silently left out'

    @check
    def test_names_are_sent_so_that_calls_find_back(self) -> None:
        tools = tuple(ToolDefinition(name, 'A tool.', {'type': 'object', 'properties': {}}) for name in _NAMES)
        info = RequestInfo(tools=tools)
        sent = self.names_in(self.request(HELLO, info))
        if sent is None:
            raise SkipTest('give names_in() to have the names of tools looked at')
        assert len(sent) == len(set(sent)) == len(_NAMES), f'two tools are offered by one name: {sent}'
        says = Says(tuple(ToolCallPart(name, {}, f'callA000{n}') for n, name in enumerate(sent, 1)), 'tool_calls')
        with self.serve([says]) as served:
            for watcher in (None, Watcher()):
                found = run(ask(served.model, HELLO, info, watcher=watcher))
                assert [name for name, _ in args_of(found)] == list(_NAMES)

    @check
    def test_calls_and_results_stay_paired(self) -> None:
        for provider in (None, 'somebody-else'):
            seen = self.request(_calls_of(provider), RequestInfo(tools=TOOLS))
            found = self.ids_in(seen)
            if found is None:
                raise SkipTest('give ids_in() to have the pairing of calls and results looked at')
            called, answered = found
            assert list(called) == list(answered), 'results belong to other calls than before'
            assert len(set(called)) == len(_CALL_IDS), f'two calls go out under one id: {called}'


def _calls_of(provider: str | None) -> list[Message]:
    """A history with calls of many ids, in one response and in several."""
    out: list[Message] = [*HELLO]
    for ids in (_CALL_IDS[:1], _CALL_IDS[1:]):
        parts = [ToolCallPart('weather', {'city': i}, i) for i in ids]
        out.append(AssistantMessage(parts, finish_reason='tool_calls', provider_name=provider))
        out.append(ToolMessage([ToolReturnPart('weather', 'fine', i) for i in ids]))
    return [*out, UserMessage('go on')]


def _conversation() -> list[Message]:
    """One of everything that is said in words, each with a mark of its own."""
    calling = [TextPart('marker03'), *calls({'city': 'marker04'}).parts]
    return [
        SystemMessage('marker01'),
        UserMessage('marker02'),
        AssistantMessage(calling, finish_reason='tool_calls'),
        ToolMessage([ToolReturnPart('weather', {'sky': 'marker06'}, 'callA0001', extra_content=('marker07',))]),
        SystemMessage('marker05'),
        UserMessage('marker08'),
        UserMessage(['marker09', CachePoint(), 'marker10']),
        AssistantMessage([TextPart('marker11')], interrupted=True),
        UserMessage('marker12'),
    ]


def _histories() -> list[list[Message]]:
    """Histories that callers really have, each valid by the one rule of a history."""
    call = AssistantMessage(calls({'city': 'Rome'}).parts, finish_reason='tool_calls')
    odd = AssistantMessage(
        [
            ToolCallPart('weather', '{"city": "Ro', 'a'),
            ToolCallPart('no such tool', '', 'b'),
            ToolCallPart('clock', '[1]', 'c'),
        ]
    )
    told = [
        ToolReturnPart('weather', 'That is no JSON.', 'a', 'retry'),
        ToolReturnPart('no such tool', 'There is none.', 'b', 'retry'),
        ToolReturnPart('clock', None, 'c', 'interrupted'),
    ]
    values: list[Any] = ['', None, 0, False, [], {}, [1, {'a': None}], 'text', '{"json": "text"}']
    return [
        _conversation(),
        [UserMessage('')],
        [UserMessage([])],
        [UserMessage(['', CachePoint(), ''])],
        [UserMessage('one'), UserMessage('two'), UserMessage('three')],
        [SystemMessage(''), UserMessage('go')],
        [SystemMessage('one'), SystemMessage('two'), UserMessage('go'), SystemMessage('three')],
        [UserMessage('go'), SystemMessage('in the middle'), UserMessage('on')],
        [AssistantMessage([TextPart('I begin.')]), UserMessage('go on')],
        [*HELLO, AssistantMessage([]), UserMessage('go on')],
        [*HELLO, AssistantMessage([TextPart('')]), UserMessage('go on')],
        [*HELLO, AssistantMessage([TextPart(' \n')]), UserMessage('go on')],
        [*HELLO, AssistantMessage([ThinkingPart('only thoughts')], interrupted=True), UserMessage('go on')],
        [*HELLO, AssistantMessage([TextPart('half')], interrupted=True), UserMessage('go on')],
        [*HELLO, AssistantMessage([TextPart('one'), TextPart('two')]), AssistantMessage([TextPart('three')])],
        [*HELLO, AssistantMessage([], refusal='I will not.', finish_reason='refusal'), UserMessage('why?')],
        *([*HELLO, call, ToolMessage([ToolReturnPart('weather', value, 'callA0001')])] for value in values),
        [*HELLO, call, ToolMessage([ToolReturnPart('weather', 'fine', 'callA0001')]), UserMessage('and?'), *HELLO],
        [*HELLO, odd, ToolMessage(told)],
        _calls_of(None),
        _calls_of('somebody-else'),
    ]
