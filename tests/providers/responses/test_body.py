"""Settings, tools and stored responses -> the request body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent_graph.capabilities import Capabilities
from agent_graph.errors import ConfigError
from agent_graph.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.model import ModelSettings, OutputSchema, ToolDefinition
from agent_graph_providers.responses import SERVERS, ResponsesModel, ResponsesServer
from tests.providers.loopback import Loopback, json_reply
from tests.providers.responses.made import KEY, TOOL, ask, message, response, sent

HI = UserMessage('hi')
SETTINGS: dict[str, tuple[Any, dict[str, Any] | None]] = {
    'max_tokens': (9, {'max_output_tokens': 9}),
    'temperature': (0.5, {'temperature': 0.5}),
    'top_p': (0.5, {'top_p': 0.5}),
    'logprobs': (True, {'include': ['reasoning.encrypted_content', 'message.output_text.logprobs']}),
    'top_logprobs': (3, {'top_logprobs': 3}),
    'parallel_tool_calls': (False, {'parallel_tool_calls': False}),
    'reasoning_effort': ('low', {'reasoning': {'effort': 'low'}}),
    'service_tier': ('flex', {'service_tier': 'flex'}),
    'user': ('u', {'user': 'u'}),
    'previous_response_id': ('resp_0', {'previous_response_id': 'resp_0', 'store': True}),
    'extra_body': ({'reasoning': {'summary': 'auto'}}, {'reasoning': {'summary': 'auto'}}),
    'builtin_tools': ([{'type': 'web_search'}], None),
    'background': (True, None),
    'tool_choice': ('required', {}),  # the engine takes it out of the settings
    'auto_cache': ('1h', {}),  # a hint
    'timeout': (9, {}),
    'connect_timeout': (9, {}),
    'first_event_timeout': (9, {}),
    'event_timeout': (9, {}),
    'extra_headers': ({'x': 'y'}, {}),
}
REFUSED = {
    'seed': 1,
    'stop_sequences': ['x'],
    'presence_penalty': 0.1,
    'frequency_penalty': 0.1,
    'logit_bias': {'1': 1},
    'top_k': 3,
    'thinking_budget': 100,
}


def test_every_setting_is_mapped_or_refused() -> None:
    assert SETTINGS.keys() | REFUSED.keys() == ModelSettings.__annotations__.keys()


@pytest.mark.parametrize('name', SETTINGS)
def test_settings(name: str) -> None:
    value, wanted = SETTINGS[name]
    plain = sent([HI], tools=(TOOL,))
    body = sent([HI], {name: value}, tools=(TOOL,))  # type: ignore[misc]
    if wanted is not None:
        assert body == {**plain, **wanted}


@pytest.mark.parametrize('name', REFUSED)
def test_settings_the_api_has_no_word_for(name: str) -> None:
    with pytest.raises(ConfigError, match=f'has no model setting {name!r}'):
        sent([HI], {name: REFUSED[name]})  # type: ignore[misc]
    assert sent([HI], {name: None}) == sent([HI])  # type: ignore[misc]


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="no model setting 'temprature'"):
        sent([HI], {'temprature': 1})  # type: ignore[typeddict-unknown-key]


def test_a_row_may_name_fields_of_its_own() -> None:
    server = ResponsesServer(name='mine-responses', fields={'top_k': 'sampling.top_k'})
    assert sent([HI], {'top_k': 3}, model={'server': server})['sampling'] == {'top_k': 3}


def test_the_usual_body() -> None:
    body = sent([SystemMessage('Be brief.'), HI], tools=(TOOL,))
    assert body == {
        'model': 'gpt-5',
        'store': False,
        'instructions': 'Be brief.',
        'input': [{'role': 'user', 'content': 'hi'}],
        'include': ['reasoning.encrypted_content'],
        'tools': [
            {
                'type': 'function',
                'name': 'f',
                'description': 'Does f.',
                'strict': False,
                'parameters': {'type': 'object', 'properties': {'x': {'type': 'integer'}}, 'required': ['x']},
            }
        ],
    }


@pytest.mark.parametrize(
    ('name', 'server', 'asked'),
    [
        ('gpt-5', 'openai', True),
        ('o4-mini', 'openai', True),
        ('gpt-7-not-made-yet', 'openai', True),
        ('gpt-4o', 'openai', False),  # it answers 400 to the wish
        ('ft:gpt-4.1-mini:org', 'openai', False),
        ('gpt-5-chat-latest', 'openai', False),
        ('openai.gpt-5.5', 'bedrock_mantle', True),
        ('grok-4', 'xai', True),
        ('grok-4-fast-non-reasoning', 'xai', False),
        ('deepseek-v4-flash', 'deepseek', False),
    ],
)
def test_sealed_reasoning_is_asked_for_where_there_can_be_any(name: str, server: str, asked: bool) -> None:
    assert ('include' in sent([HI], name=name, model={'server': server})) is asked


def test_what_is_known_of_a_deployment_can_be_said() -> None:
    able = Capabilities(thinking=False, images=False)
    assert 'include' not in sent([HI], name='of-mine', model={'server': 'azure', 'capabilities': able})
    assert ResponsesModel('of-mine', server='azure', capabilities=able).capabilities is able


def test_what_a_user_wants_included_comes_beside_what_is_needed() -> None:
    extra = {'extra_body': {'include': ['web_search_call.action.sources', 'reasoning.encrypted_content']}}
    body = sent([HI], extra)  # type: ignore[arg-type]
    assert body['include'] == ['reasoning.encrypted_content', 'web_search_call.action.sources']
    assert sent([HI], extra, name='gpt-4o')['include'] == extra['extra_body']['include']  # type: ignore[arg-type]


def test_extra_fields_are_merged_into_ours() -> None:
    body = sent([HI], {'reasoning_effort': 'low', 'extra_body': {'reasoning': {'summary': 'auto'}, 'store': True}})
    assert body['reasoning'] == {'effort': 'low', 'summary': 'auto'} and body['store'] is True


# Tools


@pytest.mark.parametrize(
    ('choice', 'allow_text', 'wanted'),
    [
        ('auto', True, None),
        ('required', True, 'required'),
        ('none', True, 'none'),
        (('f',), True, None),
        (('f',), False, 'required'),
        (('f', 'g'), False, 'required'),
    ],
)
def test_tool_choice(choice: Any, allow_text: bool, wanted: Any) -> None:
    tools = (TOOL, ToolDefinition('g', '', {}))
    body = sent([HI], tools=tools, tool_choice=choice, allow_text=allow_text)
    assert body.get('tool_choice') == wanted
    assert [t['name'] for t in body['tools']] == [n for n in 'fg' if isinstance(choice, str) or n in choice]


def test_tools_of_the_provider() -> None:
    search = {'type': 'web_search', 'search_context_size': 'low'}
    assert sent([HI], {'builtin_tools': [search]})['tools'] == [search]  # type: ignore[list-item]
    body = sent([HI], {'builtin_tools': [search]}, tools=(TOOL,), tool_choice=('f',), allow_text=False)  # type: ignore
    assert body['tool_choice'] == {'type': 'function', 'name': 'f'} and body['tools'][1] == search


def test_a_custom_tool_follows_the_choice_and_has_one_argument() -> None:
    tool = ToolDefinition('run', '', {'type': 'object', 'properties': {'code': {'type': 'string'}}})
    custom = {'type': 'custom', 'name': 'run'}
    grammar = {'type': 'custom', 'name': 'of_mine'}
    settings: Any = {'builtin_tools': [custom, grammar]}
    assert sent([HI], settings, tools=(TOOL, tool))['tools'][1:] == [custom, grammar]
    assert [t['name'] for t in sent([HI], settings, tools=(TOOL, tool), tool_choice=('f',))['tools']] == [
        'f',
        'of_mine',
    ]
    body = sent([HI], settings, tools=(TOOL, tool), tool_choice=('run',), allow_text=False)
    assert body['tool_choice'] == custom
    with pytest.raises(ConfigError, match=r"has the arguments \['a', 'b'\]"):
        sent([HI], settings, tools=(ToolDefinition('run', '', {'properties': {'a': {}, 'b': {}}}),))


def test_without_tools_nothing_is_said_of_them() -> None:
    body = sent([HI], {'parallel_tool_calls': False})
    assert 'parallel_tool_calls' not in body and 'tools' not in body and 'tool_choice' not in body


def test_strict_schemas() -> None:
    tool = ToolDefinition('f', '', {'type': 'object', 'properties': {'x': {'type': 'integer'}}}, strict=True)
    [made] = sent([HI], tools=(tool,))['tools']
    assert made['strict'] is True and made['parameters']['required'] == ['x']
    schema = OutputSchema('My Out', {'type': 'object', 'properties': {'x': {'type': 'integer'}}}, 'It.', True)
    assert sent([HI], output_schema=schema)['text']['format'] == {
        'type': 'json_schema',
        'name': 'My_Out',
        'description': 'It.',
        'strict': True,
        'schema': {
            'type': 'object',
            'properties': {'x': {'type': ['integer', 'null']}},
            'required': ['x'],
            'additionalProperties': False,
        },
    }
    with pytest.raises(ConfigError, match='deepseek-responses cannot hold an answer to a JSON schema'):
        sent([HI], output_schema=schema, model={'server': 'deepseek'})


# Stored responses


def turn(ident: str, content: str, provider: str = 'openai', **fields: Any) -> AssistantMessage:
    details = {'api': 'responses', 'finish_reason': 'completed'}
    return AssistantMessage(
        [TextPart(content)], provider_response_id=ident, provider_name=provider, provider_details=details, **fields
    )


CALLING = AssistantMessage(
    [ToolCallPart('f', '{"x": 1}', 'a')],
    provider_response_id='resp_2',
    provider_name='openai',
    provider_details={'api': 'responses'},
)
HISTORY: list[Message] = [
    SystemMessage('Be brief.'),
    UserMessage('one'),
    turn('resp_1', 'One.'),
    UserMessage('two'),
    CALLING,
    ToolMessage([ToolReturnPart('f', 'r', 'a')]),
]
OUTPUT = {'type': 'function_call_output', 'call_id': 'a', 'output': 'r'}


def test_going_on_from_the_last_response() -> None:
    body = sent(HISTORY, {'previous_response_id': 'auto'})
    assert (body['previous_response_id'], body['store']) == ('resp_2', True)
    assert body['input'] == [OUTPUT] and body['instructions'] == 'Be brief.'


def test_going_on_from_a_response_named() -> None:
    body = sent(HISTORY, {'previous_response_id': 'resp_1'})
    assert body['previous_response_id'] == 'resp_1'
    assert [i.get('role') or i['type'] for i in body['input']] == ['user', 'function_call', 'function_call_output']
    body = sent(HISTORY, {'previous_response_id': 'resp_of_another_conversation'})
    assert len(body['input']) == 5 and body['previous_response_id'] == 'resp_of_another_conversation'


@pytest.mark.parametrize(
    'last',
    [
        turn('resp_x', 'Other.', provider='azure'),
        turn('resp_x', 'Half.', interrupted=True),
        AssistantMessage([TextPart('By Chat.')], provider_response_id='chatcmpl-1', provider_name='openai'),
        AssistantMessage([TextPart('By hand.')]),
    ],
    ids=['another provider', 'cut off', 'another API', 'no provider'],
)
def test_responses_the_provider_cannot_go_on_from_are_sent(last: AssistantMessage) -> None:
    body = sent([*HISTORY[:4], last, UserMessage('go')], {'previous_response_id': 'auto'})
    assert body['previous_response_id'] == 'resp_1'
    assert [i['role'] for i in body['input']] == ['user', 'assistant', 'user']


def test_with_no_response_to_go_on_from_everything_is_sent() -> None:
    for history in ([HI], [SystemMessage('s'), HI, turn('resp_1', 'One.')]):
        body = sent(history, {'previous_response_id': 'auto'})
        assert 'previous_response_id' not in body and body['store'] is True
        assert len(body['input']) == len([m for m in history if m.kind != 'system'])


def test_instructions_that_stand_in_the_input_are_kept_with_it() -> None:
    """xAI refuses `instructions` beside a previous response, and has them from the first request."""
    history = [m if not isinstance(m, AssistantMessage) else turn('r', 'x', 'x-ai') for m in HISTORY[:4]]
    body = sent(history, {'previous_response_id': 'auto'}, model={'server': 'xai'})
    assert body['input'] == [{'role': 'user', 'content': 'two'}] and 'instructions' not in body


@pytest.mark.parametrize('setting', [{'previous_response_id': 'auto'}, {'background': True}])
@pytest.mark.parametrize('server', ['deepseek', 'openrouter'])
def test_servers_that_keep_nothing(server: str, setting: Any) -> None:
    with pytest.raises(ConfigError, match=f'{server}-responses keeps no responses.*{next(iter(setting))}'):
        sent([HI], setting, model={'server': server})
    assert 'store' not in sent([HI], model={'server': server})


def test_the_output_of_a_custom_tool_is_named_when_its_call_is_only_stored() -> None:
    mark: Any = {'item': {'type': 'custom_tool_call', 'id': 'ctc_1'}}
    calling = AssistantMessage(
        [ToolCallPart('run', {'code': 'x'}, 'a', mark)],
        provider_response_id='resp_1',
        provider_name='openai',
        provider_details={'api': 'responses'},
    )
    body = sent([HI, calling, ToolMessage([ToolReturnPart('run', 'r', 'a')])], {'previous_response_id': 'auto'})
    assert body['input'] == [{'type': 'custom_tool_call_output', 'call_id': 'a', 'output': 'r'}]


# Where it goes and who asks


def request_to(model: Callable[[str], ResponsesModel], **env: str) -> Any:
    async def main() -> Any:
        async with Loopback([json_reply(response([message('ok')]))]) as server:
            await ask(model(server.url))
            return server.requests[0]

    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        return asyncio.run(main())


def test_azure() -> None:
    """Its address has no path, and its key a header of its own."""

    def model(url: str) -> ResponsesModel:
        return ResponsesModel('deployed', server='azure', base_url=url.removesuffix('/v1'), api_key=KEY)

    got = request_to(model)
    assert got.path == '/openai/v1/responses' and got.headers['api-key'] == KEY and 'authorization' not in got.headers

    async def token() -> str:
        return 'a-token-of-the-minute'

    def signed_in(url: str) -> ResponsesModel:
        return ResponsesModel('deployed', server='azure', base_url=url, token=token)

    got = request_to(signed_in)
    assert got.path == '/v1/responses' and got.headers['authorization'] == 'Bearer a-token-of-the-minute'


def test_the_account_at_openai() -> None:
    env = {'OPENAI_ORG_ID': 'org-1', 'OPENAI_PROJECT_ID': 'proj-1'}
    got = request_to(lambda url: ResponsesModel('m', base_url=url, api_key=KEY), **env)
    assert (got.headers['openai-organization'], got.headers['openai-project']) == ('org-1', 'proj-1')
    got = request_to(lambda url: ResponsesModel('m', server='xai', base_url=url, api_key=KEY), **env)
    assert 'openai-organization' not in got.headers and got.headers['authorization'] == f'Bearer {KEY}'


@pytest.mark.parametrize(
    ('name', 'path'), [('openai.gpt-5.5', '/openai/v1/responses'), ('openai.gpt-oss-120b', '/v1/responses')]
)
def test_amazon_has_two_paths(name: str, path: str) -> None:
    def model(url: str) -> ResponsesModel:
        return ResponsesModel(name, server='bedrock_mantle', base_url=url.removesuffix('/v1'), api_key=KEY)

    assert request_to(model).path == path


def test_rows() -> None:
    assert SERVERS['lmstudio'].model('m').provider == 'lmstudio'
    with pytest.raises(ConfigError, match="no server is called 'nobody'"):
        ResponsesModel('m', server='nobody')
    with pytest.raises(ConfigError, match='"openai-responses:" names no model'):
        SERVERS['openai'].model('')
    assert repr(ResponsesModel('m', base_url='https://user:pw@e.example/v1', api_key=KEY)) == (
        "ResponsesModel('m', server='openai', base_url='https://***@e.example/v1')"
    )


def test_counting_tokens() -> None:
    async def main() -> tuple[int | None, Any, int | None]:
        async with Loopback([json_reply({'object': 'response.input_tokens', 'input_tokens': 42})]) as server:
            from agent_graph.model import RequestInfo

            settings: Any = {'reasoning_effort': 'low', 'max_tokens': 5, 'extra_body': {'metadata': {}}}
            info = RequestInfo(tools=(TOOL,), settings=settings)
            counted = await ResponsesModel('m', base_url=server.url, api_key=KEY).count_tokens(HISTORY, info)
            none = await ResponsesModel('m', server='xai', base_url=server.url, api_key=KEY).count_tokens(HISTORY, info)
            return counted, server.requests[0], none

    counted, request, none = asyncio.run(main())
    assert (counted, none) == (42, None)
    assert request.path == '/v1/responses/input_tokens'
    assert request.json.keys() == {'model', 'instructions', 'input', 'tools', 'reasoning'}
