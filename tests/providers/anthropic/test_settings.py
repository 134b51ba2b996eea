"""Settings, tools, tool choice and output schemas -> the fields of the body; what families of models differ in."""

from __future__ import annotations

from typing import Any, ClassVar, get_type_hints

import pytest

from agent_graph.errors import ConfigError, ToolDefinitionError
from agent_graph.messages import (
    AssistantMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.model import ModelSettings, OutputSchema, RequestInfo, ToolDefinition
from agent_graph.usage import Spend, cost_of
from agent_graph_providers.anthropic import AnthropicModel, family_of
from agent_graph_providers.anthropic.families import NEWEST
from agent_graph_providers.anthropic.mapping import BINDING
from agent_graph_providers.anthropic.model import MessagesWire
from agent_graph_providers.wire.endpoints import joined
from agent_graph_providers.wire.model import Question, with_extra
from agent_graph_providers.wire.offers import Memory, Offers
from tests.providers.anthropic.asked import body_of
from tests.providers.anthropic.made import plain, read, text

HI = UserMessage('hi')
F = ToolDefinition('f', 'does f', {'type': 'object', 'properties': {'x': {'type': 'integer'}}})
G = ToolDefinition('g', '', {'type': 'object'})


def fields(name: str = 'claude-sonnet-4-5', info: RequestInfo | None = None, /, **settings: Any) -> dict[str, Any]:
    """The body without its conversation."""
    body = body_of([HI], info, settings, name=name)  # pyright: ignore
    return {key: value for key, value in body.items() if key not in ('model', 'messages')}


class TestFields:
    def test_plain_ones(self) -> None:
        got = fields(
            max_tokens=9, temperature=0.5, top_p=0.1, top_k=5, stop_sequences=['a'], service_tier='auto', user='u1'
        )
        assert got == {
            'max_tokens': 9,
            'temperature': 0.5,
            'top_p': 0.1,
            'top_k': 5,
            'stop_sequences': ['a'],
            'service_tier': 'auto',
            'metadata': {'user_id': 'u1'},
        }

    @pytest.mark.parametrize(
        ('key', 'value'),
        [
            ('seed', 1),
            ('presence_penalty', 0.1),
            ('frequency_penalty', 0.1),
            ('logit_bias', {'1': 2}),
            ('logprobs', True),
            ('top_logprobs', 2),
            ('previous_response_id', 'x'),
            ('background', True),
        ],
    )
    def test_what_the_api_cannot_say(self, key: str, value: Any) -> None:
        with pytest.raises(ConfigError, match=f'the Messages API has no model setting {key!r}'):
            fields(**{key: value})
        assert fields(**{key: None}) == fields()

    def test_a_setting_that_does_not_exist(self) -> None:
        with pytest.raises(ConfigError, match="no model setting 'temprature'"):
            fields(temprature=1)

    def test_how_long_to_keep_a_cache(self) -> None:
        with pytest.raises(ConfigError, match="auto_cache is '2h'"):
            fields(auto_cache='2h')

    def test_every_setting_is_known(self) -> None:
        """Mapped, used elsewhere, or refused by name: none is lost."""
        for key in get_type_hints(ModelSettings):
            try:
                fields(**{key: None})
            except ConfigError as error:
                raise AssertionError(key) from error

    def test_streams_are_asked_for(self) -> None:
        assert body_of([HI], stream=True)['stream'] is True
        assert 'stream' not in body_of([HI])


class TestMostTokens:
    @pytest.mark.parametrize(
        ('name', 'most'),
        [
            ('claude-3-opus-20240229', 4_096),
            ('claude-3-5-haiku-latest', 8_192),
            ('claude-opus-4-1', 32_000),
            ('claude-sonnet-4-5-20250929', 32_000),
            ('claude-opus-5-5', 32_000),
            ('something-else', 32_000),
        ],
    )
    def test_default(self, name: str, most: int) -> None:
        assert fields(name)['max_tokens'] == most

    def test_thinking_has_room_of_its_own(self) -> None:
        assert fields(thinking_budget=10_000)['max_tokens'] == 42_000
        assert fields('claude-opus-4-1', thinking_budget=10_000)['max_tokens'] == 32_000
        told: Any = {'thinking': {'type': 'enabled', 'budget_tokens': 5_000}}
        assert fields(extra_body=told)['max_tokens'] == 37_000


class TestThinking:
    @pytest.mark.parametrize(
        ('name', 'settings', 'thinking', 'effort'),
        [
            ('claude-sonnet-4-5', {}, None, None),
            ('claude-sonnet-4-5', {'thinking_budget': 2048}, ('enabled', 2048), None),
            ('claude-sonnet-4-5', {'thinking_budget': 0}, None, None),
            ('claude-sonnet-4-5', {'reasoning_effort': 'minimal'}, ('enabled', 1024), None),
            ('claude-sonnet-4-5', {'reasoning_effort': 'high'}, ('enabled', 16_384), None),
            ('claude-sonnet-4-5', {'reasoning_effort': 'high', 'max_tokens': 8_000}, ('enabled', 4_000), None),
            ('claude-sonnet-4-5', {'reasoning_effort': 'low', 'max_tokens': 1_500}, ('enabled', 1_024), None),
            ('claude-sonnet-4-5', {'reasoning_effort': 'low', 'thinking_budget': 9_000}, ('enabled', 9_000), None),
            ('claude-sonnet-4-5', {'reasoning_effort': 'none'}, None, None),
            ('claude-opus-4-5', {'reasoning_effort': 'xhigh'}, ('enabled', 31_999), 'high'),
            ('claude-opus-4-6', {'reasoning_effort': 'xhigh'}, ('adaptive', None), 'high'),
            ('claude-opus-4-6', {'thinking_budget': 2048}, ('enabled', 2048), None),
            ('claude-opus-4-8', {'reasoning_effort': 'xhigh'}, ('adaptive', None), 'xhigh'),
            ('claude-opus-4-8', {'reasoning_effort': 'none'}, None, None),
            ('claude-opus-5', {'reasoning_effort': 'none'}, ('disabled', None), None),
            ('claude-opus-5', {'reasoning_effort': 'minimal'}, ('adaptive', None), 'low'),
            ('claude-opus-5', {'reasoning_effort': 'low', 'thinking_budget': 0}, ('disabled', None), 'low'),
            ('claude-sonnet-5-5', {'thinking_budget': 0}, ('between_tools', None), None),
            ('claude-haiku-5-5', {'thinking_budget': 0}, ('disabled', None), None),
            ('claude-3-5-haiku-latest', {'thinking_budget': 0}, None, None),
            ('claude-3-5-haiku-latest', {'reasoning_effort': 'none'}, None, None),
        ],
    )
    def test_what_is_said(self, name: str, settings: Any, thinking: Any, effort: Any) -> None:
        got = fields(name, **settings)
        said = got.get('thinking')
        assert (said and (said['type'], said.get('budget_tokens'))) == thinking
        assert got.get('output_config', {}).get('effort') == effort

    @pytest.mark.parametrize(
        ('name', 'settings', 'why'),
        [
            ('claude-opus-5-5', {'thinking_budget': 0}, 'always thinks'),
            ('claude-fable-5', {'reasoning_effort': 'none'}, 'always thinks'),
            ('claude-opus-5', {'thinking_budget': 4000}, 'not told a number'),
            ('claude-sonnet-4-5', {'thinking_budget': 500}, 'less than Claude takes'),
            ('claude-sonnet-4-5', {'reasoning_effort': 'low', 'max_tokens': 1024}, 'no room to think'),
            ('claude-3-5-haiku-latest', {'reasoning_effort': 'low'}, 'does not think'),
            ('claude-3-5-haiku-latest', {'thinking_budget': 2000}, 'does not think'),
            ('claude-opus-5', {'reasoning_effort': 'enormous'}, "reasoning_effort is 'enormous'"),
        ],
    )
    def test_what_cannot_be(self, name: str, settings: Any, why: str) -> None:
        with pytest.raises(ConfigError, match=why):
            fields(name, **settings)


class TestBoundThinking:
    """The newest families refuse thinking when something before it has changed, unless they are told to drop it."""

    HISTORY = (HI, AssistantMessage([ThinkingPart('t', 's=='), TextPart('x')], provider_name='anthropic'), HI)

    @pytest.mark.parametrize('name', ['claude-opus-5-5', 'claude-fable-5-1', 'claude-haiku-5-5'])
    def test_it_is_dropped(self, name: str) -> None:
        thinking = body_of([*self.HISTORY], name=name)['thinking']
        assert thinking == {'type': 'adaptive', 'block_binding': {'prefix_mismatch_behavior': 'drop_block'}}

    def test_only_where_there_is_some_and_the_family_minds(self) -> None:
        assert 'thinking' not in body_of([HI], name='claude-opus-5-5')
        for name in ('claude-opus-5', 'claude-sonnet-4-5', 'something-else'):
            assert 'thinking' not in body_of([*self.HISTORY], name=name)
        off = body_of([*self.HISTORY], settings={'thinking_budget': 0}, name='claude-haiku-5-5')
        assert off['thinking'] == {'type': 'disabled'}

    def test_the_beta_is_asked_for(self) -> None:
        wire = MessagesWire('anthropic')
        memory = Memory(Offers(wire.map_tool), wire.map_message)
        for messages, beta in (([*self.HISTORY], BINDING), ([HI], None)):
            sent = wire.request(Question('claude-opus-5-5', messages, RequestInfo(), {}, memory, False))
            assert sent.headers.get('anthropic-beta') == beta


class TestTools:
    def test_how_they_are_offered(self) -> None:
        strict = ToolDefinition('h', '', {'type': 'object', 'properties': {'x': {'type': 'integer'}}}, strict=True)
        assert fields('claude-sonnet-4-5', RequestInfo((F, strict)))['tools'] == [
            {'name': 'f', 'description': 'does f', 'input_schema': F.parameters},
            {
                'name': 'h',
                'input_schema': {
                    'type': 'object',
                    'properties': {'x': {'type': 'integer'}},
                    'required': [],
                    'additionalProperties': False,
                },
                'strict': True,
            },
        ]

    def test_the_providers_own(self) -> None:
        search: Any = {'type': 'web_search_20250305', 'name': 'web_search', 'max_uses': 2}
        got = fields('claude-sonnet-4-5', RequestInfo((F,)), builtin_tools=[search])
        assert [t['name'] for t in got['tools']] == ['f', 'web_search'] and got['tools'][1] == search
        assert fields(builtin_tools=[search])['tools'] == [search]

    def test_fields_for_a_tool_of_ours(self) -> None:
        dotted = ToolDefinition('a.b', '', {'type': 'object'})
        more: Any = [{'name': 'a.b', 'defer_loading': True}, {'name': 'elsewhere', 'input_schema': {}}]
        first, second = fields('claude-sonnet-4-5', RequestInfo((dotted,)), builtin_tools=more)['tools']
        assert (first['name'], first['defer_loading']) == ('a_b', True)
        assert second == {'name': 'elsewhere', 'input_schema': {}}

    @pytest.mark.parametrize(
        ('choice', 'allow_text', 'how', 'names'),
        [
            ('auto', True, None, ['f', 'g']),
            ('required', False, {'type': 'any'}, ['f', 'g']),
            ('required', True, {'type': 'any'}, ['f', 'g']),
            ('none', True, {'type': 'none'}, ['f', 'g']),
            (('g',), True, None, ['g']),
            (('g',), False, {'type': 'tool', 'name': 'g'}, ['g']),
            (('f', 'g'), False, {'type': 'any'}, ['f', 'g']),
        ],
    )
    def test_choice(self, choice: Any, allow_text: bool, how: Any, names: list[str]) -> None:
        got = fields('claude-sonnet-4-5', RequestInfo((F, G), tool_choice=choice, allow_text=allow_text))
        assert (got.get('tool_choice'), [t['name'] for t in got['tools']]) == (how, names)

    def test_one_call_at_a_time(self) -> None:
        choices: tuple[Any, ...] = (('auto', 'auto'), ('required', 'any'))
        for choice, kind in choices:
            got = fields('claude-sonnet-4-5', RequestInfo((F,), tool_choice=choice), parallel_tool_calls=False)
            assert got['tool_choice'] == {'type': kind, 'disable_parallel_tool_use': True}
        assert 'tool_choice' not in fields(parallel_tool_calls=False)
        assert 'tool_choice' not in fields('claude-sonnet-4-5', RequestInfo((F,)), parallel_tool_calls=True)
        none = fields('claude-sonnet-4-5', RequestInfo((F,), tool_choice='none'), parallel_tool_calls=False)
        assert none['tool_choice'] == {'type': 'none'}

    @pytest.mark.parametrize(
        ('name', 'settings'),
        [
            ('claude-opus-5-5', {}),
            ('claude-sonnet-5-5', {}),
            ('something-else', {}),
            ('claude-sonnet-4-5', {'thinking_budget': 2000}),
            ('claude-opus-4-6', {'reasoning_effort': 'high'}),
            ('claude-opus-4-7', {'extra_body': {'thinking': {'type': 'adaptive'}}}),
        ],
    )
    def test_where_a_call_cannot_be_forced_the_choice_is_left(self, name: str, settings: Any) -> None:
        got = fields(name, RequestInfo((F,), tool_choice='required', allow_text=False), **settings)
        assert 'tool_choice' not in got and got['tools']

    def test_where_it_can(self) -> None:
        info = RequestInfo((F,), tool_choice='required')
        assert fields('claude-haiku-5-5', info, thinking_budget=0)['tool_choice'] == {'type': 'any'}
        assert fields('claude-opus-5', info)['tool_choice'] == {'type': 'any'}
        assert fields('claude-opus-4-8', info, reasoning_effort='high')['tool_choice'] == {'type': 'any'}

    def test_the_container_whose_code_waits_for_the_answers(self) -> None:
        def history(caller: str, provider: str = 'anthropic') -> list[Any]:
            called = ToolCallPart('f', '', 'a', {'caller': {'type': caller}})
            answer = AssistantMessage([called], provider_name=provider, provider_details={'container': {'id': 'c1'}})
            return [HI, answer, ToolMessage([ToolReturnPart('f', 'x', 'a')])]

        assert body_of(history('code_execution_20260120'))['container'] == 'c1'
        assert 'container' not in body_of(history('direct'))
        assert 'container' not in body_of(history('code_execution_20260120', 'other'))


class TestOutputSchemas:
    SCHEMA: ClassVar[dict[str, Any]] = {
        'type': 'object',
        'properties': {'city': {'type': 'string'}, 'size': {'type': 'integer', 'default': 1}},
        'required': ['city'],
    }

    def test_it_is_closed(self) -> None:
        info = RequestInfo(output_schema=OutputSchema('city', self.SCHEMA, 'A city.'))
        form = fields('claude-opus-4-6', info, reasoning_effort='low')['output_config']
        assert form['effort'] == 'low' and form['format']['type'] == 'json_schema'
        schema = form['format']['schema']
        assert (schema['additionalProperties'], schema['required'], schema['description']) == (
            False,
            ['city'],
            'A city.',
        )

    def test_bounds_it_does_not_know_are_said_in_words(self) -> None:
        size = {'type': 'integer', 'minimum': 0, 'description': 'How big.', 'default': 1}
        day = {'type': 'string', 'format': 'date', 'pattern': '^2'}
        schema = {'type': 'object', 'properties': {'size': size, 'day': day}, 'required': ['day']}
        form = fields('claude-sonnet-4-5', RequestInfo(output_schema=OutputSchema('x', schema)))
        assert form['output_config']['format']['schema']['properties'] == {
            'size': {'type': 'integer', 'default': 1, 'description': 'How big.\n\nminimum: 0'},
            'day': {'type': 'string', 'format': 'date', 'description': 'pattern: "^2"'},
        }

    def test_unless_it_is_said_to_be_so(self) -> None:
        info = RequestInfo(output_schema=OutputSchema('city', self.SCHEMA, strict=False))
        assert fields('claude-sonnet-4-5', info)['output_config']['format']['schema'] == self.SCHEMA

    def test_families_that_cannot(self) -> None:
        info = RequestInfo(output_schema=OutputSchema('city', self.SCHEMA))
        with pytest.raises(ConfigError, match='use ToolOutput or PromptedOutput'):
            fields('claude-sonnet-4-0', info)

    def test_a_free_form_object(self) -> None:
        schema = {'type': 'object', 'properties': {'any': {'type': 'object'}}, 'required': ['any']}
        with pytest.raises(ToolDefinitionError, match='not listed'):
            fields('claude-sonnet-4-5', RequestInfo(output_schema=OutputSchema('x', schema)))


class TestFamilies:
    def test_unknown_names_are_like_the_newest(self) -> None:
        for name in ('something-else', 'claude', 'claude-latest', 'claude-opus', 'my-claude-model'):
            assert family_of(name) == NEWEST

    @pytest.mark.parametrize(
        'names',
        [
            ('claude-sonnet-4-5', 'claude-sonnet-4-5-20250929', 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'),
            ('claude-opus-4-0', 'claude-opus-4-20250514', 'claude-opus-4@20250514', 'claude-4-opus-20250514'),
            ('claude-3-7-sonnet-latest', 'claude-3-7-sonnet-20250219'),
            ('claude-opus-5-5', 'claude-opus-6', 'claude-opus-7-1'),
        ],
    )
    def test_names_of_one_family(self, names: tuple[str, ...]) -> None:
        assert len({family_of(name) for name in names}) == 1

    def test_capabilities(self) -> None:
        new, old = (
            AnthropicModel('claude-opus-5-5').capabilities,
            AnthropicModel('claude-3-5-haiku-latest').capabilities,
        )
        assert (new.tool_choice, new.native_output, new.thinking, new.count_tokens) == (False, True, True, True)
        assert (old.tool_choice, old.native_output, old.thinking, old.prompt_cache) == (True, False, False, True)
        assert new.documents and new.images and not new.audio


def test_prices_take_the_cache_into_account() -> None:
    """What was read from the cache costs a tenth, what was written to it a quarter more."""

    def price(**counts: int) -> float:
        got = read(plain(text('x'), usage={'output_tokens': 0, **counts}))
        assert isinstance(got, AssistantMessage)
        found = cost_of([Spend('anthropic', 'claude-sonnet-4-5', got.usage)])
        assert found is not None
        return float(found)

    million = price(input_tokens=100_000)
    assert price(cache_read_input_tokens=100_000) == pytest.approx(million / 10)
    assert price(cache_creation_input_tokens=100_000) == pytest.approx(million * 1.25)


class TestSharedPlumbing:
    @pytest.mark.parametrize(
        ('address', 'path', 'url'),
        [
            ('https://a.test', '/v1/messages', 'https://a.test/v1/messages'),
            ('https://a.test/v1', '/v1/messages', 'https://a.test/v1/messages'),
            ('https://a.test/x/v1', '/v1/messages', 'https://a.test/x/v1/messages'),
            ('https://a.test/v2', '/v1/messages', 'https://a.test/v2/v1/messages'),
            ('https://a.test/chat', '/chat/completions', 'https://a.test/chat/chat/completions'),
            ('https://a.test', '/one', 'https://a.test/one'),
        ],
    )
    def test_joined(self, address: str, path: str, url: str) -> None:
        assert joined(address, path) == url

    def test_extra_headers(self) -> None:
        ours = {'anthropic-version': '1', 'anthropic-beta': 'a,b'}
        got = with_extra(ours, {'Anthropic-Version': '2', 'Anthropic-Beta': 'b, c', 'x': 'y'})
        assert dict(got) == {'Anthropic-Version': '2', 'Anthropic-Beta': 'a,b,c', 'x': 'y'}
        assert dict(with_extra(ours, None)) == ours
