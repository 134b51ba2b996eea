"""Public tools for testing agents, models and journals: models that need no network, and suites for the contracts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_graph.testing.answers import AnswerFunction, ModelAnswer
from agent_graph.testing.exercise import TestModel
from agent_graph.testing.replay import ReplayModel
from agent_graph.testing.scripted import FunctionModel, Request, ScriptedModel, ScriptItem

if TYPE_CHECKING:
    from agent_graph.testing.cassettes import CassetteMismatch, check_replay, replay_cassette
    from agent_graph.testing.journal_suite import DurableJournalSuite, JournalSuite
    from agent_graph.testing.model_suite import HTTPModelSuite, ModelSuite

__all__ = [
    'AnswerFunction',
    'CassetteMismatch',
    'DurableJournalSuite',
    'FunctionModel',
    'HTTPModelSuite',
    'JournalSuite',
    'ModelAnswer',
    'ModelSuite',
    'ReplayModel',
    'Request',
    'ScriptItem',
    'ScriptedModel',
    'TestModel',
    'check_replay',
    'replay_cassette',
]


def __getattr__(name: str) -> Any:
    """Load what is heavier when asked for; pytest can rewrite the asserts of the suites only before they are imported."""
    if name in ('DurableJournalSuite', 'JournalSuite'):
        from agent_graph.testing import journal_suite

        return getattr(journal_suite, name)
    if name in ('HTTPModelSuite', 'ModelSuite'):
        from agent_graph.testing import model_suite

        return getattr(model_suite, name)
    if name in ('CassetteMismatch', 'check_replay', 'replay_cassette'):
        from agent_graph.testing import cassettes

        return getattr(cassettes, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
