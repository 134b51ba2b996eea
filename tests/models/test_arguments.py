"""What models that wrap others are made with: each argument of the wrong kind is refused at once, by name and value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_graph.errors import ConfigError
from agent_graph.models import (
    Backoff,
    CachedModel,
    CountingModel,
    FallbackModel,
    LimitedModel,
    Limiter,
    RetryingModel,
    TimeoutModel,
    WrapperModel,
)
from agent_graph.testing import ScriptedModel

ONE = ScriptedModel(['x'])
Make = Callable[..., Any]


def a(make: Any, name: str, *values: Any) -> list[tuple[Make, str, Any]]:
    return [(make, name, value) for value in values]


def cached(model: Any, **given: Any) -> Any:
    return CachedModel(model, 'answers.db', **given)


NO_WHOLE = ('3', 2.5, True, 0, -1, b'1', [1])
NO_TIME = ('x', -1, True, float('nan'), b'1', [1])
CASES = [
    *(case for name in ('concurrency', 'per_minute', 'tokens_per_minute') for case in a(LimitedModel, name, *NO_WHOLE)),
    *a(LimitedModel, 'limiter', 7, 'x', Limiter),
    *a(RetryingModel, 'tries', *NO_WHOLE, None),
    *a(RetryingModel, 'seconds', *NO_TIME),
    *a(RetryingModel, 'backoff', 1.0, None, Backoff),
    *a(RetryingModel, 'on', 'all', None, int, (), (ValueError, 'x'), [ValueError]),
    *a(RetryingModel, 'restart', 'no', None),
    *a(RetryingModel, 'guidance', 'no', 1),
    *a(RetryingModel, 'sleep', 1, None),
    *(case for name in ('first_event', 'between', 'whole') for case in a(TimeoutModel, name, *NO_TIME, 0)),
    *a(CountingModel, 'max_input_tokens', *NO_WHOLE),
    *a(cached, 'ttl', *NO_TIME, 0),
    *a(cached, 'max_entries', *NO_WHOLE),
    *a(cached, 'max_bytes', *NO_WHOLE),
    *a(cached, 'timeout', *NO_TIME, None),
    *a(cached, 'mode', 'always', None),
    *a(cached, 'namespace', 7, None),
    *a(cached, 'clock', 7, None),
]


@pytest.mark.parametrize(('make', 'name', 'value'), CASES)
def test_an_argument_of_the_wrong_kind(make: Make, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r'; (pass|use) ') as told:
        make(ONE, **{name: value})
    assert f'{name}={value!r}' in str(told.value)


@pytest.mark.parametrize('field', ['first', 'factor', 'most', 'jitter'])
@pytest.mark.parametrize('value', ['1', None, float('nan'), -1, True])
def test_a_wait_of_the_wrong_kind(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match='is no way to wait'):
        Backoff(**{field: value})


@pytest.mark.parametrize(('name', 'value'), [('minute', 0), ('minute', '60'), ('clock', None)])
def test_a_limiter(name: str, value: Any) -> None:
    given: Any = {name: value}
    with pytest.raises(ConfigError, match=f'{name}='):
        Limiter(per_minute=1, **given)


@pytest.mark.parametrize('make', [WrapperModel, RetryingModel, CountingModel, cached])
@pytest.mark.parametrize('model', [None, 7, '', 'gpt-5', ':gpt-5', b'openai:x', ScriptedModel, object(), [ONE]])
def test_a_model_that_is_none(make: Make, model: Any) -> None:
    with pytest.raises(ConfigError, match='is no model; pass a Model, or a text') as told:
        make(model)
    assert repr(model) in str(told.value)


@pytest.mark.parametrize('path', [None, 7, b'x', '', '  ', ':memory:'])
def test_a_path_that_is_none(path: Any) -> None:
    with pytest.raises(ConfigError, match=r'a cache needs a file, got .*; pass a path'):
        CachedModel(ONE, path)


@pytest.mark.parametrize('models', [None, 'openai:x', [], ONE, {ONE: 1}, 7])
def test_models_that_are_no_list(models: Any) -> None:
    with pytest.raises(ConfigError, match=r'got no list of models; pass them as a list'):
        FallbackModel(models)


def test_models_one_by_one() -> None:
    make: Any = FallbackModel
    with pytest.raises(ConfigError, match=r"FallbackModel\('openai:a', 'openai:b'\) got no list of models"):
        make('openai:a', 'openai:b')
    with pytest.raises(ConfigError, match='None is no model'):
        make([ONE, None])
    with pytest.raises(ConfigError, match=r"on='x' says no errors"):
        make([ONE, ONE], on='x')
    with pytest.raises(ConfigError, match=r'on_response=True cannot be called'):
        make([ONE, ONE], on_response=True)


def test_what_is_right_passes() -> None:
    RetryingModel(ONE, tries=1, seconds=0, on=(ValueError, OSError))
    RetryingModel('openai:x', seconds=None, on=KeyError)
    TimeoutModel('openai:x', whole=0.5)
    LimitedModel(ONE, limiter=Limiter(concurrency=1, minute=0.5))
    FallbackModel((ONE, 'openai:x'), on=lambda error: True)
    CachedModel(ONE, 'a.db', ttl=0.5, max_entries=1, max_bytes=1, timeout=0)
