"""Messages -> `system` and `messages`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent_graph.messages import (
    AssistantMessage,
    BuiltinToolCallPart,
    BuiltinToolReturnPart,
    CachePoint,
    Citation,
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
from agent_graph.model import RequestInfo, ToolDefinition
from agent_graph_providers.anthropic import AnthropicModel, messages_from_anthropic
from agent_graph_providers.anthropic.blocks import wire_id
from tests.providers.anthropic.asked import body_of
from tests.providers.anthropic.made import text
from tests.providers.anthropic.test_answer import CITED, FOUND, SEARCH

HI = UserMessage('hi')
TTL = {'type': 'ephemeral', 'ttl': '5m'}
HOUR = {'type': 'ephemeral', 'ttl': '1h'}


def own(*parts: Any, **fields: Any) -> AssistantMessage:
    return AssistantMessage(parts, provider_name='anthropic', **fields)


def sent(
    *messages: Message, name: str = 'claude-sonnet-4-5', **settings: Any
) -> list[tuple[str, list[dict[str, Any]]]]:
    """(role, content) of each message."""
    return [(m['role'], m['content']) for m in body_of([*messages], settings=settings or None, name=name)['messages']]  # pyright: ignore


def returned(call_id: str = 'toolu_1', content: Any = 'done', **fields: Any) -> ToolReturnPart:
    return ToolReturnPart('f', content, call_id, **fields)


class TestOrder:
    def test_neighbours_of_a_role_become_one_message(self) -> None:
        got = sent(HI, UserMessage(['a', 'b']), own(TextPart('c')), own(TextPart('d')), UserMessage('e'))
        assert got == [
            ('user', [text('hi'), text('a'), text('b')]),
            ('assistant', [text('c'), text('d')]),
            ('user', [text('e')]),
        ]

    def test_what_has_nothing_in_it_is_left_out(self) -> None:
        got = sent(HI, own(TextPart(' \n')), own(), UserMessage(''), UserMessage([' ', CachePoint()]), UserMessage('x'))
        assert got == [('user', [{**text('hi'), 'cache_control': TTL}, text('x')])]

    def test_results_come_first(self) -> None:
        late = ToolMessage([returned()])
        got = sent(HI, own(ToolCallPart('f', '', 'toolu_1')), UserMessage('and?'), late)
        assert [b['type'] for b in got[2][1]] == ['tool_result', 'text']

    def test_an_answer_at_the_beginning_has_something_before_it(self) -> None:
        got = sent(own(TextPart('hello')), HI)
        assert [role for role, _ in got] == ['user', 'assistant', 'user'] and got[0][1][0]['text']

    def test_an_answer_to_go_on_with_ends_in_no_white_space(self) -> None:
        assert sent(HI, own(TextPart('so \n')))[1] == ('assistant', [text('so')])

    @pytest.mark.parametrize('messages', [[], [UserMessage('')], [SystemMessage('x')], [UserMessage([CachePoint()])]])
    def test_with_nothing_to_send_there_is_still_a_message(self, messages: list[Message]) -> None:
        assert sent(*messages) == [('user', [text('(no message)')])]

    def test_nothing_is_changed_in_place(self) -> None:
        """The blocks of earlier messages are kept and sent again in the next step."""
        memory_of_run: list[Message] = [HI, own(TextPart('a \n')), UserMessage(['b', CachePoint()])]
        first = body_of(memory_of_run, settings={'auto_cache': '5m'})
        assert body_of(memory_of_run, settings={'auto_cache': '5m'}) == first


class TestSystem:
    def test_at_the_beginning(self) -> None:
        body = body_of([SystemMessage('a'), SystemMessage(''), SystemMessage('b'), HI])
        assert body['system'] == [text('a'), text('b')]
        assert 'system' not in body_of([HI])

    def test_later_ones_stand_after_the_users_turn_where_the_model_knows_that(self) -> None:
        history = [HI, SystemMessage('s'), UserMessage('x'), own(TextPart('a')), UserMessage('y'), SystemMessage('t')]
        assert sent(*history, name='claude-opus-4-8') == [
            ('user', [text('hi'), text('x')]),
            ('system', [text('s')]),
            ('assistant', [text('a')]),
            ('user', [text('y')]),
            ('system', [text('t')]),
        ]

    def test_else_they_join_the_others(self) -> None:
        body = body_of([SystemMessage('a'), HI, SystemMessage('b'), own(TextPart('c')), UserMessage('d')])
        assert body['system'] == [text('a'), text('b')]
        assert [m['role'] for m in body['messages']] == ['user', 'assistant', 'user']

    @pytest.mark.parametrize('name', ['claude-opus-4-8', 'claude-sonnet-4-5'])
    def test_where_no_user_message_is_next_to_them_they_become_one(self, name: str) -> None:
        got = sent(HI, own(TextPart('a')), SystemMessage('b'), name=name)
        assert got[2] == ('user', [text('<system>\nb\n</system>')])

    def test_results_count_as_the_users(self) -> None:
        history = [HI, own(ToolCallPart('f', '', 'toolu_1')), ToolMessage([returned()]), SystemMessage('s')]
        assert [role for role, _ in sent(*history, name='claude-opus-5')] == ['user', 'assistant', 'user', 'system']


class TestAnswers:
    PARTS = (
        ThinkingPart('hm', 'sealed/+=='),
        ThinkingPart('', 'only=='),
        ThinkingPart('', None, {'type': 'redacted_thinking', 'data': 'Em=='}),
        BuiltinToolCallPart('server_tool_use', {'query': 'x'}, 'srvtoolu_1', SEARCH),
        BuiltinToolReturnPart('web_search_tool_result', FOUND['content'], 'srvtoolu_1', FOUND),
        TextPart('cited', None, (Citation('https://a.test', 'A', 'said', provider_details=CITED),)),
        FilePart('application/octet-stream', file_id='file_1', provider_details={'type': 'container_upload'}),
        ToolCallPart('f', '{"x": 1}', 'toolu_1', {'caller': {'type': 'direct'}}),
    )

    def test_what_anthropic_made_goes_back_unchanged(self) -> None:
        (message,) = load_json(dump_json([own(*self.PARTS)]))
        assert sent(HI, message)[1][1] == [
            {'type': 'thinking', 'thinking': 'hm', 'signature': 'sealed/+=='},
            {'type': 'thinking', 'thinking': '', 'signature': 'only=='},
            {'type': 'redacted_thinking', 'data': 'Em=='},
            SEARCH,
            FOUND,
            text('cited', citations=[CITED]),
            {'type': 'container_upload'},
            {'type': 'tool_use', 'id': 'toolu_1', 'name': 'f', 'input': {'x': 1}, 'caller': {'type': 'direct'}},
        ]

    @pytest.mark.parametrize('provider', [None, 'openai', 'aws'])
    def test_what_others_made_goes_without_their_seals_and_tools(self, provider: str | None) -> None:
        message = replace(own(*self.PARTS), provider_name=provider)
        assert sent(HI, message)[1][1] == [
            text('cited'),
            {'type': 'tool_use', 'id': 'toolu_1', 'name': 'f', 'input': {'x': 1}},
        ]

    def test_an_answer_cannot_end_in_thinking(self) -> None:
        thoughts = ThinkingPart('t', 's=='), ThinkingPart('', None, {'type': 'redacted_thinking', 'data': 'E=='})
        assert sent(HI, own(TextPart('x'), *thoughts), HI)[1] == ('assistant', [text('x')])
        assert sent(HI, own(*thoughts), UserMessage('?')) == [('user', [text('hi'), text('?')])]
        assert sent(HI, own(*thoughts)) == [('user', [text('hi')])]
        together = sent(HI, own(*thoughts), own(TextPart('x')))[1][1]
        assert [b['type'] for b in together] == ['thinking', 'redacted_thinking', 'text']

    def test_thinking_without_a_seal_cannot_go_back(self) -> None:
        assert sent(HI, own(ThinkingPart('cut of'), TextPart('x')))[1][1] == [text('x')]

    def test_the_providers_own_tool_that_a_cut_left_unanswered(self) -> None:
        called = BuiltinToolCallPart('server_tool_use', {}, 'srvtoolu_1', SEARCH)
        assert sent(HI, own(called, TextPart('x'), interrupted=True))[1][1] == [text('x')]
        assert sent(HI, own(called, TextPart('x')))[1][1] == [SEARCH, text('x')]
        half = BuiltinToolCallPart('server_tool_use', '{"que', 'srvtoolu_1')
        assert sent(HI, own(half, TextPart('x')))[1][1] == [text('x')]

    @pytest.mark.parametrize(
        ('args', 'sent_as'),
        [
            ('', {}),
            ({}, {}),
            ('{"a": [1.5, null]}', {'a': [1.5, None]}),
            ({'a': 1}, {'a': 1}),
            ('[1]', {'invalid_arguments': '[1]'}),
            ('{"a": ', {'invalid_arguments': '{"a": '}),
        ],
    )
    def test_arguments_are_always_an_object(self, args: Any, sent_as: Any) -> None:
        assert sent(HI, own(ToolCallPart('f', args, 'toolu_1')))[1][1][0]['input'] == sent_as

    def test_a_refusal_of_another_model_is_told_as_text(self) -> None:
        assert sent(HI, AssistantMessage((), refusal='I will not'), HI)[1] == ('assistant', [text('I will not')])


class TestIds:
    @pytest.mark.parametrize('call_id', ['', 'call:1|fc_2', 'x' * 65, 'a b', '\u00fc', '\ud800'])
    def test_ids_that_anthropic_refuses(self, call_id: str) -> None:
        history = [HI, AssistantMessage([ToolCallPart('f', '', call_id)]), ToolMessage([returned(call_id)])]
        got = sent(*history)
        sent_id = got[1][1][0]['id']
        assert got[2][1][0]['tool_use_id'] == sent_id
        assert 0 < len(sent_id) <= 64 and sent_id.isascii() and sent_id.replace('_', '').replace('-', '').isalnum()

    def test_they_stay_different(self) -> None:
        assert len({wire_id(i) for i in ('a b', 'a.b', 'a:b', 'a_b', '')}) == 5
        assert wire_id('toolu_01A-b') == 'toolu_01A-b'

    def test_names_of_tools(self) -> None:
        tools = (ToolDefinition('a.b', 'x', {'type': 'object'}), ToolDefinition('a_b', '', {'type': 'object'}))
        parts = [ToolCallPart(n, '', n) for n in ('a.b', 'a_b', 'gone!', '')]
        body = body_of([HI, AssistantMessage(parts)], RequestInfo(tools))
        offered = [t['name'] for t in body['tools']]
        called = [b['name'] for b in body['messages'][1]['content']]
        assert called[:2] == offered and len(set(called)) == 4
        assert all(name.replace('_', '').isalnum() or name == 'unnamed' for name in called)


class TestResults:
    def result(self, part: ToolReturnPart) -> dict[str, Any]:
        return sent(HI, own(ToolCallPart('f', '', 'toolu_1')), ToolMessage([part]))[2][1][0]

    @pytest.mark.parametrize(
        ('content', 'said'),
        [('done', 'done'), ({'a': ['ü']}, '{"a":["ü"]}'), (None, 'null'), (True, 'true'), (1.5, '1.5')],
    )
    def test_content(self, content: Any, said: str) -> None:
        block = {'type': 'tool_result', 'tool_use_id': 'toolu_1', 'content': said}
        assert self.result(returned(content=content)) == block

    @pytest.mark.parametrize('content', ['', ' \n'])
    def test_nothing_to_say(self, content: str) -> None:
        assert self.result(returned(content=content)) == {'type': 'tool_result', 'tool_use_id': 'toolu_1'}

    @pytest.mark.parametrize('outcome', ['retry', 'failed', 'denied', 'interrupted', 'skipped'])
    def test_what_did_not_work(self, outcome: Any) -> None:
        assert self.result(returned(outcome=outcome))['is_error'] is True

    def test_files_beside_it(self) -> None:
        extra = ('look:', FilePart.from_bytes(b'PNG', 'image/png'))
        got = self.result(returned(content='a picture', extra_content=extra))
        image = {'type': 'base64', 'media_type': 'image/png', 'data': 'UE5H'}
        assert got['content'] == [text('a picture'), text('look:'), {'type': 'image', 'source': image}]


class TestCaches:
    def marks(self, body: dict[str, Any]) -> list[str]:
        """The texts of marked blocks and the names of marked tools, in order, an hour's with a star."""
        out: list[str] = []
        every = [*body.get('tools', ()), *body.get('system', ()), *(b for m in body['messages'] for b in m['content'])]
        for block in every:
            if control := block.get('cache_control'):
                name = block.get('text') or block.get('name') or block['type']
                out.append(name + ('*' if control['ttl'] == '1h' else ''))
        return out

    TOOLS = RequestInfo((ToolDefinition('f', '', {'type': 'object'}), ToolDefinition('g', '', {'type': 'object'})))

    def test_a_point_marks_what_is_before_it(self) -> None:
        body = body_of([SystemMessage('s'), UserMessage(['a', CachePoint('1h'), 'b'])])
        assert self.marks(body) == ['a*']

    def test_at_the_beginning_it_marks_what_was_said_before(self) -> None:
        point = UserMessage([CachePoint()])
        assert self.marks(body_of([SystemMessage('s'), point, HI])) == ['s']
        assert self.marks(body_of([HI, own(TextPart('a')), point, UserMessage('b')])) == ['a']
        called = own(ToolCallPart('f', '', 'toolu_1'))
        assert self.marks(body_of([HI, called, ToolMessage([returned()]), point])) == ['tool_result']
        assert self.marks(body_of([point, HI])) == []

    def test_thinking_cannot_be_marked(self) -> None:
        answer = own(TextPart('a'), ThinkingPart('t', 'sealed'))
        assert self.marks(body_of([HI, answer, UserMessage([CachePoint(), 'b'])])) == ['a']

    def test_auto(self) -> None:
        body = body_of([SystemMessage('s'), SystemMessage('t'), HI], self.TOOLS, {'auto_cache': '5m'})
        assert self.marks(body) == ['g', 't', 'hi']
        assert self.marks(body_of([HI], self.TOOLS, {'auto_cache': None})) == []
        assert self.marks(body_of([HI], settings={'auto_cache': '1h'})) == ['hi*']

    def test_a_tool_that_is_searched_for_cannot_be_marked(self) -> None:
        more: list[Any] = [{'name': 'g', 'defer_loading': True}]
        body = body_of([HI], self.TOOLS, {'auto_cache': '5m', 'builtin_tools': more})
        assert self.marks(body) == ['f', 'hi']

    def test_at_most_four_and_the_last_ones_stay(self) -> None:
        points = [UserMessage([f'p{i}', CachePoint()]) for i in range(6)]
        assert self.marks(body_of([SystemMessage('s'), *points, HI])) == ['p2', 'p3', 'p4', 'p5']
        auto = body_of([SystemMessage('s'), *points, HI], self.TOOLS, {'auto_cache': '5m'})
        assert self.marks(auto) == ['s', 'p4', 'p5', 'hi']
        assert self.marks(body_of([*points, HI], self.TOOLS, {'auto_cache': '5m'})) == ['g', 'p4', 'p5', 'hi']

    def test_marks_a_user_put_on_tools_count(self) -> None:
        builtin: list[Any] = [
            {'type': f't{i}', 'name': f'b{i}', 'cache_control': {'type': 'ephemeral', 'ttl': '5m'}} for i in range(5)
        ]
        assert self.marks(body_of([HI], settings={'builtin_tools': builtin, 'auto_cache': '5m'})) == [
            'b2',
            'b3',
            'b4',
            'hi',
        ]

    def test_what_is_before_an_hour_is_kept_an_hour(self) -> None:
        body = body_of([SystemMessage('s'), UserMessage(['a', CachePoint('1h'), 'b'])], settings={'auto_cache': '5m'})
        assert self.marks(body) == ['s*', 'a*', 'b']


def test_making_a_model_reads_nothing() -> None:
    model = AnthropicModel('claude-x')
    assert (model.name, model.provider, repr(model)) == ('claude-x', 'anthropic', "AnthropicModel('claude-x')")


def test_a_mark_within_a_result_goes_on_the_result() -> None:
    marked = {**text('x'), 'cache_control': {'type': 'ephemeral', 'ttl': '1h'}}
    result = {'type': 'tool_result', 'tool_use_id': 'toolu_1', 'content': [marked, text('y')]}
    call: dict[str, Any] = {'type': 'tool_use', 'id': 'toolu_1', 'name': 'f', 'input': {}}
    body = {'messages': [{'role': 'assistant', 'content': [call]}, {'role': 'user', 'content': [result]}]}
    (block,) = sent(*messages_from_anthropic(body))[-1][1]
    assert block['cache_control'] == {'type': 'ephemeral', 'ttl': '1h'}
    assert block['content'] == [text('x'), text('y')]
