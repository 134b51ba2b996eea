"""Settings and prompts of the wrong kind are refused before anything is asked, each by name."""

from __future__ import annotations

from typing import Any

import pytest

from agent_graph import Agent, ConfigError
from agent_graph.messages import UserMessage
from agent_graph.testing import ScriptedModel


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
        'extra_headers': {'a': 'b'}, 'something_else': object(), 'seed': None,
    }  # fmt: skip
    assert Agent(ScriptedModel(['ok'])).run_sync('go', model_settings=settings).output == 'ok'


@pytest.mark.parametrize('prompt', ['', [], [''], ['', '']])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    model = ScriptedModel(['never'])
    with pytest.raises(ConfigError, match='the prompt is empty'):
        Agent(model).run_sync(prompt)
    with pytest.raises(ConfigError, match='the prompt is empty'):
        Agent(model).run_sync(prompt, message_history=[UserMessage('before')])
    assert model.requests == []
