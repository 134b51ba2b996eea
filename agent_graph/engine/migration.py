"""Going on with a run whose code has changed since: refused, allowed, or with its past brought up to date."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from agent_graph.engine.fingerprint import changes
from agent_graph.engine.forks import edits
from agent_graph.engine.options import OnChange
from agent_graph.engine.state import RunState, apply
from agent_graph.engine.validators import takes_context
from agent_graph.errors import ConfigError
from agent_graph.journal.entries import Edited
from agent_graph.messages import JsonValue

__all__ = ['migration', 'migration_of', 'moved_on']

Past = TypeVar('Past')


async def migration(state: RunState, now: Mapping[str, JsonValue], on_change: OnChange) -> Edited | None:
    """What to record so that an agent's run may go on under the fingerprint `now`; `None` if nothing has changed.

    Raises `ConfigError` if it may not: the caller did not allow it, or its function said no.
    """
    return await migration_of(state, now, on_change, state, lambda after: edits(state, after))


async def migration_of(
    run: RunState, now: Mapping[str, JsonValue], on_change: Any, past: Past, difference: Callable[[Past], Edited | None]
) -> Edited | None:
    """The same for any graph's run: the caller's function is given a copy of `past`, and `difference` says what it did."""
    if not callable(on_change) and on_change not in ('refuse', 'continue'):
        raise ConfigError(
            f"on_change={on_change!r} is unknown; use 'refuse', 'continue', or a function (changes, state) that returns "
            'the state to go on with'
        )
    found = changes(run.fingerprint, now)
    if not found:
        return None
    made: Edited | None = Edited() if on_change == 'continue' else None
    if callable(on_change):
        after = await _asked(found, past, on_change)
        made = None if after is None else difference(after) or Edited()
    if made is None:
        raise ConfigError(
            f'run {run.run_id} was begun by another version of {run.agent or "the agent"}: {"; ".join(found)}. Pass '
            'on_change="continue" to go on all the same, or a function (changes, state) that returns the state to go on with'
        )
    return replace(made, fingerprint=dict(now))


async def _asked(found: list[str], past: Past, decide: Callable[..., Any]) -> Past | None:
    """What the caller's function made of the past; `None` for a no, which is everything but such a past and `True`."""
    copied = copy.deepcopy(past)  # a journal in memory holds these very objects
    given = decide(list(found), copied) if takes_context(decide) else decide(list(found))
    if inspect.isawaitable(given):
        given = await given
    if given is True:
        return copied
    return given if isinstance(given, type(past)) else None


def moved_on(state: RunState, change: Edited) -> RunState:
    """A copy of the state as it will be, to check answers against."""
    copied = copy.deepcopy(state)
    apply(copied, change)
    return copied
