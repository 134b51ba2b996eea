"""Counting tokens: the provider's own count, tiktoken's where it has its data, else a guess that says so."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Any

import pytest

from agent_graph import Agent
from agent_graph.errors import ConfigError, InputTooLong, ModelUnreachable
from agent_graph.messages import (
    AssistantMessage,
    FilePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserMessage,
)
from agent_graph.model import OutputSchema, RequestInfo, ToolDefinition
from agent_graph.models import CountingModel, LimitedModel, RetryingModel, TokenCount, count_tokens
from agent_graph.models.counting import estimated
from agent_graph.models.estimate import text_tokens
from agent_graph.models.tiktokens import Missing, cached_data, encoder_for
from agent_graph.models.wrapper import per_message
from tests.engine.kit import go
from tests.models.kit import HELLO, Faulty, ask, text_of

TOOL = ToolDefinition('look', 'Look somewhere.', {'type': 'object', 'properties': {'where': {'type': 'string'}}})


class Counting(Faulty):
    """A model that counts for itself."""

    counted: int | Exception | None = 1234
    asked: tuple[Sequence[Message], RequestInfo] | None = None

    async def count_tokens(self, messages: Sequence[Message], info: RequestInfo) -> int | None:
        self.asked = messages, info
        if isinstance(self.counted, Exception):
            raise self.counted
        return self.counted


def test_the_provider_counts() -> None:
    model = Counting(['Hi'])
    for wrapped in (model, RetryingModel(model), LimitedModel(CountingModel(model), concurrency=1)):
        assert go(count_tokens(wrapped, HELLO, [TOOL])) == TokenCount(1234, 'provider')
        assert model.asked is not None and model.asked[1].tools == (TOOL,)
    assert go(CountingModel(model).count(HELLO, [TOOL])).tokens == 1234
    assert model.requests == []


def test_a_model_without_a_count_of_its_own() -> None:
    for model in (Faulty(['Hi']), RetryingModel(Faulty(['Hi']))):
        assert not hasattr(model, 'count_tokens')
        found = go(count_tokens(model, HELLO))
        assert found.source == 'estimate' and 5 <= found.tokens <= 8 and 'faulty' in found.reason


@pytest.mark.parametrize('counted', [None, ModelUnreachable('no connection'), ConfigError('no key')])
def test_a_count_that_fails_is_no_error(counted: Any) -> None:
    model = Counting(['Hi'])
    model.counted = counted
    found = go(count_tokens(model, HELLO))
    assert found.source == 'estimate'
    assert (counted is None) == ('did not count' not in found.reason)


@pytest.mark.parametrize('name', ['claude-sonnet-4-5', 'anthropic/claude-opus-4-6', 'gemini-3-flash', 'oracle-8b'])
def test_tiktoken_is_no_reason_where_it_could_not_count(name: str) -> None:
    bare = go(count_tokens(Faulty(['Hi'], name=name, provider='someone'), HELLO))
    assert bare.source == 'estimate' and 'tiktoken' not in bare.reason
    assert bare.reason == f'someone offers no count of the tokens of {name!r} before it answers'
    counts = Counting(['Hi'], name=name)
    counts.counted = ConfigError('no key')
    assert go(count_tokens(counts, HELLO)).reason == 'the provider did not count: ConfigError: no key'


@pytest.mark.parametrize('name', ['gpt-4o', 'openai/gpt-5-mini', 'o3', 'ft:gpt-4o:me', 'chatgpt-4o-latest'])
def test_tiktoken_counts_for_models_of_openai(name: str) -> None:
    found = go(count_tokens(Faulty(['Hi'], name=name), HELLO))
    assert found.source == 'tiktoken' or 'tiktoken' in found.reason


def test_counted_before_it_is_sent() -> None:
    model = Counting(['Hi'])
    message = go(ask(CountingModel(model)))
    assert message.provider_details == {'input_tokens_counted': {'tokens': 1234, 'source': 'provider'}}
    message = go(ask(CountingModel(Faulty(['Hi']))))
    assert (message.provider_details or {})['input_tokens_counted']['source'] == 'estimate'


def test_too_long_is_not_sent() -> None:
    model = Counting(['Hi'])
    assert text_of(go(ask(CountingModel(model, max_input_tokens=1234)))) == 'Hi'
    with pytest.raises(InputTooLong) as caught:
        go(ask(CountingModel(model, max_input_tokens=1233)))
    assert len(model.requests) == 1
    error = caught.value
    assert (error.tokens, error.limit, error.model) == (1234, 1233, 'faulty')
    assert 'max_input_tokens=1233' in str(error)
    with pytest.raises(ConfigError):
        CountingModel(model, max_input_tokens=0)


def test_too_long_in_a_run() -> None:
    async def main() -> None:
        agent = Agent(CountingModel(Faulty(['Hi']), max_input_tokens=50))
        assert (await agent.run('Hello')).output == 'Hi'
        with pytest.raises(InputTooLong, match='about') as caught:
            await agent.run('word ' * 100)
        assert [m.kind for m in caught.value.messages] == ['user']

    go(main())


# The estimate


def guess(*messages: Message, **info: Any) -> int:
    return estimated(messages, RequestInfo(**info))


def test_everything_that_is_sent_is_part_of_the_guess() -> None:
    small = guess(UserMessage('Hello'))
    more: list[Any] = [
        UserMessage('Hello and much more of it than that'),
        UserMessage(['Hello', FilePart('image/png', data=b'x')]),
        SystemMessage('You are a helpful assistant and answer in rhymes.'),
        AssistantMessage([TextPart('It is sunny, and has been for days.')]),
        AssistantMessage([ToolCallPart('look', {'where': 'in the garden behind the house'}, 'c')]),
        ToolMessage([ToolReturnPart('look', {'found': ['a', 'b', 'c', 'd', 'e']}, 'c')]),
        ToolMessage([ToolReturnPart('look', 'x', 'c', extra_content=('and a lot of other text here',))]),
    ]
    for message in more:
        assert guess(message) > small, message
    assert guess(UserMessage('Hello'), tools=(TOOL,)) > small + 10
    assert guess(UserMessage('Hello'), output_schema=OutputSchema('o', TOOL.parameters)) > small
    assert guess(AssistantMessage([ThinkingPart('a long thought ' * 50)])) < 10  # providers do not count it again


def test_every_message_is_looked_at_once_a_run() -> None:
    looked: list[Message] = []
    info = RequestInfo()
    messages = [UserMessage(f'{n}') for n in range(5)]
    for count in (1, 3, 5, 5):
        assert per_message(info, 'test', messages[:count], lambda m: (looked.append(m), m)[1]) == messages[:count]
    assert looked == messages
    per_message(info, 'other', messages, looked.append)
    assert len(looked) == 10


@pytest.mark.parametrize(
    ('text', 'least', 'most'),
    [
        ('', 0, 0),
        ('The quick brown fox jumps over the lazy dog.', 9, 13),
        ('1234567890', 3, 5),
        ('{"name": "value", "list": [1, 2, 3]}', 12, 24),
        ('def f(x):\n    return x + 1\n', 8, 16),
        ('今日はいい天気ですね。', 6, 14),
        ('Сегодня хорошая погода', 4, 14),
        ('\U0001f31e\U0001f31e\U0001f31e', 3, 9),
        (' ' * 1000, 0, 20),
        ('a' * 3000, 300, 1500),
    ],
)
def test_texts(text: str, least: int, most: int) -> None:
    """Bounds: what the tokenizers in use make of such a text, and some room."""
    assert least <= text_tokens(text) <= most


# tiktoken


def test_nothing_is_downloaded(tmp_path: Path) -> None:
    folder = {'TIKTOKEN_CACHE_DIR': str(tmp_path)}
    with pytest.raises(Missing, match='has no data'):
        cached_data('o200k_base', folder)
    with pytest.raises(Missing, match='turned off'):
        cached_data('o200k_base', {'TIKTOKEN_CACHE_DIR': ''})
    with pytest.raises(Missing, match='not known'):
        cached_data('p50k_base', folder)
    with pytest.raises(Missing, match='has no data'):
        cached_data('cl100k_base', {'DATA_GYM_CACHE_DIR': str(tmp_path)})


def test_damaged_data_is_left_where_it_is(tmp_path: Path) -> None:
    """tiktoken itself would remove the file and fetch another one."""
    address = b'https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken'
    file = tmp_path / hashlib.sha1(address, usedforsecurity=False).hexdigest()
    file.write_bytes(b'damaged')
    with pytest.raises(Missing, match='is damaged'):
        cached_data('o200k_harmony', {'TIKTOKEN_CACHE_DIR': str(tmp_path)})
    assert file.read_bytes() == b'damaged'


def test_where_tiktoken_looks() -> None:
    """The names and hashes are those of the installed tiktoken."""
    pytest.importorskip('tiktoken', reason='tiktoken is not installed')
    source: Any = import_module('tiktoken_ext.openai_public')

    from agent_graph.models.tiktokens import _ADDRESS, _DATA  # pyright: ignore[reportPrivateUsage]

    assert {'o200k_base', 'o200k_harmony', 'cl100k_base'} == set(_DATA)
    for name in ('o200k_base', 'cl100k_base'):
        text = getsource(getattr(source, name))
        assert f'{_ADDRESS}{name}.tiktoken' in text and _DATA[name][1] in text
    assert 'o200k_base()' in getsource(source.o200k_harmony)


OFFLINE = """
import asyncio, socket, sys

def refuse(*_, **__):
    raise AssertionError('a connection was tried')

socket.socket.connect = refuse
socket.getaddrinfo = refuse
from agent_graph.messages import UserMessage
from agent_graph.models import count_tokens
from agent_graph.testing import FunctionModel

model = FunctionModel(lambda messages, info: 'x', name='gpt-5-mini')
found = asyncio.run(count_tokens(model, [UserMessage('Hello')]))
print(found.source, found.reason)

import tiktoken
from tiktoken import registry

registry.ENCODINGS['o200k_base'] = tiktoken.Encoding(
    'o200k_base', pat_str='.', mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={'<|x|>': 256}
)
for name in ('gpt-5-mini', 'openai/gpt-5-mini', 'ft:gpt-4o:mine'):
    model = FunctionModel(lambda messages, info: 'x', name=name)
    found = asyncio.run(count_tokens(model, [UserMessage('Hello<|x|>')]))
    print(found.source, found.tokens, found.reason)
from agent_graph.messages import FilePart
found = asyncio.run(count_tokens(model, [UserMessage([FilePart('image/png', data=b'x')])]))
print(found.source, found.reason)
"""


def test_tiktoken_is_used_without_a_network(tmp_path: Path) -> None:
    pytest.importorskip('tiktoken', reason='tiktoken is not installed')
    done = subprocess.run(
        [sys.executable, '-c', OFFLINE],
        capture_output=True,
        text=True,
        env={'TIKTOKEN_CACHE_DIR': str(tmp_path), 'PATH': ''},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *exact, files = done.stdout.splitlines()
    assert first.startswith('estimate tiktoken has no data')
    assert exact == ['tiktoken 14 '] * 3  # 10 characters, and 4 for the frame; a mark in a text is a text
    assert files == 'estimate tiktoken counts no files'
    assert list(tmp_path.iterdir()) == []


def test_models_that_tiktoken_does_not_know() -> None:
    with pytest.raises(Missing, match=r'knows no encoding|is not installed'):
        encoder_for('claude-opus-4-5')
