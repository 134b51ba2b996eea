"""Settings and prompts of the wrong kind are refused before anything is asked, each by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent_graph import Agent, ConfigError
from agent_graph.messages import Message, UserMessage
from agent_graph.model import Model, ModelSettings, RequestInfo
from agent_graph.settings import SETTINGS, check_settings
from agent_graph.testing import FunctionModel, ScriptedModel, TestModel


@pytest.mark.parametrize(
    ('name', 'value'),
    [
        ('timeout', '5'),
        ('timeout', -1),
        ('event_timeout', 0),
        ('max_tokens', 'many'),
        ('max_tokens', True),
        ('temperature', 'hot'),
        ('stop_sequences', 'END'),
        ('builtin_tools', ['web_search']),
        ('builtin_tools', {'type': 'x'}),
        ('extra_body', [1]),
        ('extra_headers', {'x': 1}),
        ('auto_cache', '7m'),
        ('parallel_tool_calls', 'no'),
        ('reasoning_effort', 3),
    ],
)
def test_a_setting_of_the_wrong_kind_is_named(name: str, value: Any) -> None:
    model = ScriptedModel(['never'])
    for agent, given in ((Agent(model), {name: value}), (Agent(model, model_settings={name: value}), None)):  # pyright: ignore
        settings: Any = given
        with pytest.raises(ConfigError, match=f"the model setting '{name}' is "):
            agent.run_sync('go', model_settings=settings)
    assert model.requests == []


def test_settings_of_the_right_kind_pass() -> None:
    settings: Any = {
        'timeout': 5, 'max_tokens': 10, 'stop_sequences': ('a', 'b'), 'builtin_tools': [{'type': 'x'}], 'auto_cache': None,
        'extra_headers': {'a': 'b'}, 'tool_choice': 'auto', 'seed': None,
    }  # fmt: skip
    assert Agent(ScriptedModel(['ok'])).run_sync('go', model_settings=settings).output == 'ok'


def _answer(messages: Sequence[Message], info: RequestInfo) -> str:
    return 'x'


@pytest.mark.parametrize('model', [TestModel(), FunctionModel(_answer), ScriptedModel(['x'])])
def test_test_models_know_no_more_settings_than_others(model: Model) -> None:
    settings: Any = {'max_token': 5}
    with pytest.raises(
        ConfigError, match=r"no model setting 'max_token' \(did you mean 'max_tokens'\?\).*'max_tokens'"
    ):
        Agent(model).run_sync('go', model_settings=settings)
    settings = {'frobnicate': None}
    with pytest.raises(ConfigError, match="no model setting 'frobnicate';"):
        Agent(model).run_sync('go', model_settings=settings)


def test_the_names_are_those_of_model_settings() -> None:
    assert ModelSettings.__annotations__.keys() == SETTINGS


@pytest.mark.parametrize('settings', ['max_tokens', [('max_tokens', 5)], 7])
def test_settings_are_a_dict(settings: Any) -> None:
    with pytest.raises(ConfigError, match=r'the model settings are .* pass a dict'):
        check_settings(settings)


@pytest.mark.parametrize('prompt', ['', [], [''], ['', '']])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    model = ScriptedModel(['never'])
    with pytest.raises(ConfigError, match='the prompt is empty'):
        Agent(model).run_sync(prompt)
    with pytest.raises(ConfigError, match='the prompt is empty'):
        Agent(model).run_sync(prompt, message_history=[UserMessage('before')])
    assert model.requests == []
