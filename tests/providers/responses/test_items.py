"""Messages -> input items: what goes back verbatim, and what a history from elsewhere becomes."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from agent_graph.errors import MessageError
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
from agent_graph.model import ModelSettings, ToolDefinition
from agent_graph_providers.responses import messages_from_responses
from agent_graph_providers.responses.items import Form, message_items
from tests.providers.loopback import Reply, in_thread
from tests.providers.responses.made import TOOL, answer, call, message, reasoning, response, sent

HI = UserMessage('hi')
PNG = 'iVBORw0KGgo='


def own(*items: dict[str, Any], **fields: Any) -> AssistantMessage:
    """The message these items become, as it is read from a journal."""
    got = answer(response(list(items), **fields))
    assert isinstance(got, AssistantMessage), got
    [loaded] = load_json(dump_json([got]))
    assert isinstance(loaded, AssistantMessage)
    return loaded


def back(*messages: Message, **kwargs: Any) -> list[dict[str, Any]]:
    return sent([HI, *messages, UserMessage('go on')], **kwargs)['input'][1:-1]


SEARCH: dict[str, Any] = {
    'type': 'web_search_call',
    'id': 'ws_1',
    'status': 'completed',
    'action': {'type': 'search', 'query': 'q'},
}
CODE: dict[str, Any] = {
    'type': 'code_interpreter_call',
    'id': 'ci_1',
    'status': 'completed',
    'code': 'print(1)',
    'container_id': 'c',
    'outputs': [{'type': 'logs', 'logs': '1'}],
}
IMAGE: dict[str, Any] = {
    'type': 'image_generation_call',
    'id': 'ig_1',
    'status': 'completed',
    'result': PNG,
    'revised_prompt': 'a cat',
}
MCP: dict[str, Any] = {
    'type': 'mcp_call',
    'id': 'mcp_1',
    'name': 'ask',
    'arguments': '{"q": 1}',
    'output': 'forty-two',
    'server_label': 's',
    'error': None,
    'approval_request_id': None,
}
LISTED: dict[str, Any] = {
    'type': 'mcp_list_tools',
    'id': 'mcpl_1',
    'server_label': 's',
    'tools': [{'name': 'ask', 'input_schema': {}}],
}
COMPACTED: dict[str, Any] = {'type': 'compaction', 'id': 'cmp_1', 'encrypted_content': 'sealed'}
NEWEST: dict[str, Any] = {'type': 'a_thing_of_next_year', 'id': 'x_1', 'what': {'ever': [1, None]}}
NOTE: dict[str, Any] = {
    'type': 'url_citation',
    'url': 'https://e.example',
    'title': 'E',
    'start_index': 0,
    'end_index': 2,
}
CITED: dict[str, Any] = {'type': 'output_text', 'text': 'so', 'annotations': [NOTE]}


@pytest.mark.parametrize(
    'items',
    [
        [reasoning(), message('hello')],
        [reasoning('one', 'two'), message('hello', phase='final_answer')],
        [reasoning(content=[{'type': 'reasoning_text', 'text': 'hm'}], status='completed'), message('hello')],
        [reasoning(), call('f', '{"x": 1}', namespace='n')],
        [
            reasoning(),
            call('f', '{"x":1}', 'a', ident='fc_1'),
            reasoning(ident='rs_2'),
            call('f', '{}', 'b', ident='fc_2'),
        ],
        [message('first', ident='msg_1'), message('second', ident='msg_2')],
        [message('one block', CITED)],
        [LISTED, reasoning(), MCP, reasoning(ident='rs_2'), SEARCH, CODE, IMAGE, COMPACTED, NEWEST, message('done')],
    ],
    ids=['sealed', 'summaries', 'texts', 'namespace', 'two calls', 'two messages', 'blocks', 'tools of the provider'],
)
def test_items_of_its_own_go_back_as_they_came(items: list[dict[str, Any]]) -> None:
    assert back(own(*items)) == items


def test_a_generated_image_is_a_file_and_is_kept_once() -> None:
    got = own(IMAGE)
    assert [p.kind for p in got.parts] == ['builtin_tool_call', 'file']
    file = got.parts[1]
    assert isinstance(file, FilePart)
    assert (file.media_type, file.url) == ('image/png', f'data:image/png;base64,{PNG}')
    assert dump_json([got]).count(PNG.encode()) == 1


def test_what_a_tool_of_the_provider_answered_is_a_part() -> None:
    got = own(CODE, MCP)
    assert [(p.kind, p.tool_name, p.tool_call_id) for p in got.parts] == [  # type: ignore[union-attr]
        ('builtin_tool_call', 'code_interpreter_call', 'ci_1'),
        ('builtin_tool_return', 'code_interpreter_call', 'ci_1'),
        ('builtin_tool_call', 'mcp_call', 'mcp_1'),
        ('builtin_tool_return', 'mcp_call', 'mcp_1'),
    ]
    asked, answered = got.parts[2:]
    assert isinstance(asked, BuiltinToolCallPart) and isinstance(answered, BuiltinToolReturnPart)
    assert (asked.args, answered.content) == ('{"q": 1}', 'forty-two')


def test_reasoning_that_nothing_follows_is_left_out() -> None:
    assert back(own(message('hello'), reasoning(ident='rs_2'))) == [message('hello')]
    assert back(own(reasoning(), reason='max_output_tokens')) == []


def test_reasoning_that_is_only_an_id_is_not_sent_when_nobody_keeps_it() -> None:
    bare = reasoning(seal=None)
    assert back(own(bare, message('hello'), store=True)) == [bare, message('hello')]
    assert back(own(bare, message('hello'), store=False)) == [message('hello')]


def test_where_reasoning_was_taken_out_the_rest_goes_without_its_ids() -> None:
    whole = own(reasoning(), SEARCH, message('hello'), call('f', '{}'))
    parts = [p for p in whole.parts if not isinstance(p, ThinkingPart)]
    stripped = AssistantMessage(parts, provider_name='openai', provider_details=whole.provider_details)
    assert back(stripped) == [
        {'role': 'assistant', 'content': 'hello'},
        {'type': 'function_call', 'call_id': 'call_1', 'name': 'f', 'arguments': '{}'},
    ]


def test_what_was_cut_off_goes_back_as_text() -> None:
    """Parts that were never settled carry no mark: their items are not known to the provider."""
    cut = AssistantMessage([ThinkingPart('hm', ''), TextPart('half')], provider_name='openai', interrupted=True)
    assert back(cut) == [{'role': 'assistant', 'content': 'half'}]


FOREIGN = AssistantMessage(
    [
        ThinkingPart('secret', 'seal-of-another', {'item': 5, 'field': 'reasoning'}),
        TextPart('Let me '),
        BuiltinToolCallPart('server_tool_use', {'q': 1}, 'srv_1', {'block': {'type': 'server_tool_use'}}),
        BuiltinToolReturnPart('web_search_tool_result', [], 'srv_1', {'block': {}}),
        TextPart('look.'),
        FilePart('image/png', data=b'x'),
        ToolCallPart('a.b', {'x': 1}, 'i' * 80, {'thought_signature': 'sealed'}),
        ToolCallPart('f', '{"x": ', 'short'),
    ],
    provider_name='anthropic',
)


def test_a_history_of_another_provider() -> None:
    tool = ToolDefinition('a.b', '', {'type': 'object', 'properties': {}})
    results = ToolMessage([ToolReturnPart('a.b', {'r': [1]}, 'i' * 80), ToolReturnPart('f', 'bad', 'short')])
    got = back(FOREIGN, results, tools=(tool,))
    assert got[0] == {'role': 'assistant', 'content': 'Let me look.'}
    first, second, one, two = got[1:]
    assert first['name'] == 'a_b' and first['arguments'] == '{"x":1}' and len(first['call_id']) <= 64
    assert second['arguments'] == '{"invalid_arguments":"{\\"x\\": "}'
    assert one == {'type': 'function_call_output', 'call_id': first['call_id'], 'output': '{"r":[1]}'}
    assert two['call_id'] == second['call_id'] == 'short'
    assert 'seal' not in str(got) and 'secret' not in str(got)


def test_its_own_items_are_not_sent_to_others() -> None:
    got = own(reasoning('hm'), SEARCH, message('hello'))
    assert back(got, model={'server': 'xai'}) == [{'role': 'assistant', 'content': 'hello'}]


@pytest.mark.parametrize(
    'empty',
    [
        AssistantMessage([], provider_name='x'),
        AssistantMessage([ThinkingPart('only')], provider_name='x'),
        AssistantMessage([TextPart(' \n')], provider_name='x'),
        UserMessage(''),
        UserMessage(['', CachePoint()]),
        SystemMessage(''),
    ],
)
def test_messages_with_nothing_in_them_are_left_out(empty: Message) -> None:
    assert back(empty) == []


def test_a_refusal_goes_back_as_text() -> None:
    refused = own(reasoning(), message({'type': 'refusal', 'refusal': 'No.'}))
    assert (refused.refusal, refused.finish_reason) == ('No.', 'refusal')
    assert back(refused)[-1] == {'role': 'assistant', 'content': 'No.'}


def test_instructions_are_what_comes_before_the_conversation() -> None:
    body = sent([SystemMessage('Be brief.'), SystemMessage('Be kind.'), HI, SystemMessage('Now be long.'), HI])
    assert body['instructions'] == 'Be brief.\n\nBe kind.'
    assert [i['role'] for i in body['input']] == ['user', 'system', 'user']
    body = sent([SystemMessage('Only this.')])
    assert 'instructions' not in body and body['input'] == [{'role': 'system', 'content': 'Only this.'}]
    body = sent([SystemMessage('Be brief.'), HI], model={'server': 'xai'})
    assert 'instructions' not in body and [i['role'] for i in body['input']] == ['system', 'user']


def test_files_of_a_person() -> None:
    files = (
        'look',
        FilePart('image/png', url='https://e.example/a.png', provider_details={'detail': 'low'}),
        FilePart('image/png', data=b'abc'),
        FilePart('image/*', file_id='file_1'),
        FilePart('application/pdf', data=b'%PDF', name='a.pdf'),
        FilePart('text/plain', data=b'x'),
        FilePart('application/pdf', url='https://e.example/a.pdf', name='a.pdf'),
        FilePart('application/pdf', file_id='file_2'),
        FilePart('audio/wav', data=b'RIFF'),
    )
    [item] = sent([UserMessage(files)])['input']
    assert item['content'] == [
        {'type': 'input_text', 'text': 'look'},
        {'type': 'input_image', 'image_url': 'https://e.example/a.png', 'detail': 'low'},
        {'type': 'input_image', 'image_url': 'data:image/png;base64,YWJj', 'detail': 'auto'},
        {'type': 'input_image', 'file_id': 'file_1', 'detail': 'auto'},
        {'type': 'input_file', 'file_data': 'data:application/pdf;base64,JVBERg==', 'filename': 'a.pdf'},
        {'type': 'input_file', 'file_data': 'data:text/plain;base64,eA==', 'filename': 'file.txt'},
        {'type': 'input_file', 'file_url': 'https://e.example/a.pdf'},
        {'type': 'input_file', 'file_id': 'file_2'},
        {'type': 'input_audio', 'input_audio': {'data': 'UklGRg==', 'format': 'wav'}},
    ]
    again = messages_from_responses({'input': [item]})
    assert sent(again)['input'] == [item]


@pytest.mark.parametrize(
    ('file', 'model', 'match'),
    [
        (FilePart('video/mp4', data=b'x'), {}, 'video'),
        (FilePart('image/png', data=b'x'), {'server': 'deepseek'}, 'takes no image'),
        (FilePart('application/pdf', data=b'x'), {'server': 'lmstudio'}, 'takes no document'),
    ],
)
def test_files_that_cannot_be_said(file: FilePart, model: dict[str, Any], match: str) -> None:
    with pytest.raises(MessageError, match=match):
        sent([UserMessage(['see', file])], model=model)


def test_cache_points_are_marks_only_where_the_model_takes_them() -> None:
    content = UserMessage(['long text', CachePoint(), 'question'])
    marked = {'type': 'input_text', 'text': 'long text', 'prompt_cache_breakpoint': {'mode': 'explicit'}}
    question = {'type': 'input_text', 'text': 'question'}
    assert sent([content], name='gpt-5.6-sol')['input'][0]['content'] == [marked, question]
    assert sent([content], name='gpt-5.5')['input'][0]['content'][0] == {'type': 'input_text', 'text': 'long text'}
    openrouter = sent([content], {'auto_cache': '1h'}, name='anthropic/claude', model={'server': 'openrouter'})
    assert openrouter['input'][0]['content'][0]['cache_control'] == {'type': 'ephemeral', 'ttl': '5m'}
    assert openrouter['cache_control'] == {'type': 'ephemeral', 'ttl': '1h'}
    again = messages_from_responses({'input': openrouter['input']})
    assert again == [content]
    assert sent([content], name='my-deployment')['input'][0]['content'][0] == {
        'type': 'input_text',
        'text': 'long text',
    }


def test_files_of_a_tool() -> None:
    part = ToolReturnPart('f', 'two pictures', 'a', extra_content=(FilePart('image/png', data=b'abc'), 'and a text'))
    history = [AssistantMessage([ToolCallPart('f', '{}', 'a')]), ToolMessage([part])]
    image = {'type': 'input_image', 'image_url': 'data:image/png;base64,YWJj', 'detail': 'auto'}
    texts = [{'type': 'input_text', 'text': t} for t in ('two pictures', 'and a text')]
    [_, output] = back(*history)
    assert output['output'] == [texts[0], image, texts[1]]
    [_, output, user] = back(*history, model={'server': 'lmstudio'})
    assert output['output'] == 'two pictures' and user == {'role': 'user', 'content': [image, texts[1]]}


def test_a_custom_tool() -> None:
    """Free text from the model is the one argument of the tool, and goes back as what it was."""
    tool = ToolDefinition('run.it', '', {'type': 'object', 'properties': {'code': {'type': 'string'}}})
    settings = ModelSettings(builtin_tools=[{'type': 'custom', 'name': 'run.it', 'description': 'Runs code.'}])
    body = sent([HI], settings, tools=(TOOL, tool))
    assert body['tools'][1] == {'type': 'custom', 'name': 'run_it', 'description': 'Runs code.'}
    assert [t['type'] for t in body['tools']] == ['function', 'custom']

    item = {
        'type': 'custom_tool_call',
        'id': 'ctc_1',
        'call_id': 'c',
        'name': 'run.it',
        'input': 'print("{}")',
        'status': 'completed',
    }
    raw = own(item)
    [part] = raw.parts
    assert isinstance(part, ToolCallPart) and part.args == 'print("{}")'  # nobody offered it: the text as it is
    made = AssistantMessage(
        [ToolCallPart('run.it', {'code': 'print("{}")'}, 'c', part.provider_details)], provider_name='openai'
    )
    for said in (raw, made):
        got = back(said, ToolMessage([ToolReturnPart('run.it', 'ok', 'c')]), settings=settings, tools=(TOOL, tool))
        assert got == [
            {**item, 'name': 'run_it'},
            {'type': 'custom_tool_call_output', 'call_id': 'c', 'output': 'ok'},
        ]


def test_calls_of_a_program_are_answered_to_it() -> None:
    program = {'type': 'program', 'id': 'cm_1', 'call_id': 'p', 'code': 'x', 'fingerprint': 'f'}
    caller = {'type': 'program', 'caller_id': 'p'}
    calling = call('f', '{}', 'a', caller=caller)
    got = back(own(program, calling), ToolMessage([ToolReturnPart('f', 'r', 'a')]))
    assert got == [program, calling, {'type': 'function_call_output', 'call_id': 'a', 'output': 'r', 'caller': caller}]


SHELL: dict[str, Any] = {
    'type': 'local_shell_call',
    'id': 'lsh_1',
    'call_id': 'c',
    'status': 'completed',
    'action': {'type': 'exec'},
}
APPROVAL: dict[str, Any] = {
    'type': 'mcp_approval_request',
    'id': 'mcpr_1',
    'arguments': '{}',
    'name': 'n',
    'server_label': 's',
}


@pytest.mark.parametrize(
    ('asked', 'answered'),
    [
        (SHELL, {'type': 'local_shell_call_output', 'id': 'c', 'output': 'done'}),
        (SHELL, {'type': 'local_shell_call_output', 'call_id': 'c', 'output': 'done'}),
        (APPROVAL, {'type': 'mcp_approval_response', 'approval_request_id': 'mcpr_1', 'approve': True}),
    ],
)
def test_what_the_client_has_to_answer(asked: dict[str, Any], answered: dict[str, Any]) -> None:
    """Without an answer the API would refuse the whole conversation, so the item is left out, and its reasoning too."""
    turn = own(message('first'), reasoning(ident='rs_2'), asked)
    assert back(turn) == [message('first')]
    given = AssistantMessage(
        [BuiltinToolReturnPart(answered['type'], None, '', {'item': answered})], provider_name='openai'
    )
    assert back(turn, given) == [message('first'), reasoning(ident='rs_2'), asked, answered]


def test_deepseek_wants_texts_before_calls() -> None:
    said = own(reasoning(), call('f', '{}', 'a', ident='fc_1'), message('and'), call('f', '{}', 'b', ident='fc_2'))
    said = AssistantMessage(said.parts, provider_name='deepseek')
    got = back(said, model={'server': 'deepseek'})
    assert [i['type'] for i in got] == ['reasoning', 'message', 'function_call', 'function_call']
    assert [i['type'] for i in back(AssistantMessage(said.parts, provider_name='openai'))][1:3] == [
        'function_call',
        'message',
    ]


def test_reading_puts_outputs_in_call_order_and_groups_turns() -> None:
    items: list[dict[str, Any]] = [
        {'role': 'developer', 'content': [{'type': 'input_text', 'text': 'rule'}]},
        {'role': 'user', 'content': 'hi'},
        call('f', '{}', 'a', ident='fc_1'),
        call('g', '{}', 'b', ident='fc_2'),
        {'type': 'function_call_output', 'call_id': 'b', 'output': 'B'},
        {'type': 'function_call_output', 'call_id': 'a', 'output': None},
        reasoning(),
        {'role': 'assistant', 'content': 'done'},
    ]
    got = messages_from_responses({'instructions': 'first', 'input': items})
    assert [m.kind for m in got] == ['system', 'system', 'user', 'assistant', 'tool', 'assistant']
    assert isinstance(got[4], ToolMessage)
    assert [(p.tool_name, p.content) for p in got[4].parts] == [('f', ''), ('g', 'B')]


UNREADABLE: list[Any] = [
    5,
    ['text'],
    [{'content': 'no role'}],
    [{'role': 'user', 'content': 7}],
    [{'role': 'robot', 'content': 'x'}],
    [{'type': ['x'], 'role': 'user'}],
    [{'role': 'system', 'content': [{'type': 'input_image', 'image_url': 'https://e.example'}]}],
    [{'type': 'function_call_output', 'output': 'x'}],
    [{'role': 'user', 'content': [{'type': 'input_image'}]}],
    [{'role': 'user', 'content': [{'type': 'input_audio', 'input_audio': {}}]}],
]


def test_a_type_that_need_not_be_said_may_be_null() -> None:
    said = {'role': 'user', 'content': 'hi'}
    reference = {'id': 'msg_1', 'type': 'item_reference'}
    wanted = messages_from_responses({'input': [reference, {'type': 'message', **said}]})
    assert messages_from_responses({'input': [{'id': 'msg_1', 'type': None}, {'type': None, **said}]})[-1] == wanted[-1]
    (kept, _) = messages_from_responses({'input': [{'id': 'msg_1'}, said]})
    assert isinstance(kept, AssistantMessage)
    assert [getattr(p, 'tool_name', '') for p in kept.parts] == ['item_reference']
    assert message_items(kept, {}, Form()) == [reference]


@pytest.mark.parametrize('given', UNREADABLE)
def test_what_cannot_be_read_says_where(given: Any) -> None:
    with pytest.raises(MessageError, match=r'item 0|input is'):
        messages_from_responses({'input': given})


PIXEL = b'\x89PNG\r\n\x1a\n' + b'\0' * 16


@pytest.mark.parametrize(('server', 'local'), [('openai', True), ('lmstudio', True), ('openai', False)])
def test_files_that_the_server_cannot_get_itself_are_fetched(server: str, local: bool) -> None:
    """An address on this machine, or a server that fetches nothing: the bytes are sent. Else the address is handed on."""
    with in_thread([Reply([PIXEL], headers={'content-type': 'image/png'})]) as files:
        file = FilePart.from_url(f'{files.url}/a.png', allow_local=local)
        [item] = sent([UserMessage(['see', file])], model={'server': server})['input']
    data = f'data:image/png;base64,{b64encode(PIXEL).decode()}'
    assert item['content'][1]['image_url'] == (data if local else file.url)
    assert len(files.requests) == int(local)


def test_a_local_address_is_not_fetched_without_leave() -> None:
    with in_thread([Reply([PIXEL])]) as files, pytest.raises(MessageError, match=r'127\.0\.0\.1'):
        sent([UserMessage([FilePart('image/png', url=f'{files.url}/a.png')])], model={'server': 'lmstudio'})
    assert files.requests == []
