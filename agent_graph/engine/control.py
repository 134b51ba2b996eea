"""What is done to a stored run from outside: answering it, cancelling it, checking that its agent is still the same."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agent_graph.engine.answers import Resolved, resolve
from agent_graph.engine.effects import lease_seconds, now
from agent_graph.engine.inside import open_scopes, runs_inside, sum_of, used_in_open_calls, used_inside
from agent_graph.engine.lease import new_owner, take
from agent_graph.engine.migration import migration, moved_on
from agent_graph.engine.options import OnChange
from agent_graph.engine.plan import Plan
from agent_graph.engine.state import RunState, fold
from agent_graph.errors import AnswerError, ConfigError, JournalError, RunLocked
from agent_graph.journal import Journal, Lease
from agent_graph.journal.entries import CallFinished, Edited, Ended, Entry, Record
from agent_graph.usage import NO_USAGE

__all__ = ['answer_and_hold', 'cancel_inside', 'cancel_run', 'check_change', 'record_answers']


async def check_change(state: RunState, plan: Plan, on_change: OnChange) -> Edited | None:
    """What to record so that a run goes on with an agent that has changed; `ConfigError` if it may not."""
    if state.at is not None and state.at.data is not None:
        raise ConfigError(f'run {state.run_id} is a run of the graph {state.agent!r}; go on with it by resume_graph')
    return await migration(state, plan.fingerprint(), on_change)


async def record_answers(
    state: RunState, plan: Plan | None, journal: Journal, answers: Mapping[Any, Any], change: Edited | None = None
) -> None:
    """Check all answers, then record each in the run its call belongs to.

    With a `change` that the run will go on with, they are checked against the calls as they will be.
    """
    lease = await answer_and_hold(state, plan, journal, answers, change)
    if lease is not None:
        await journal.release(lease)


async def answer_and_hold(
    state: RunState, plan: Plan | None, journal: Journal, answers: Mapping[Any, Any], change: Edited | None = None
) -> Lease | None:
    """The same, by somebody who goes on with the run, and keeps its lease for that; `None` if nothing was answered.

    Whoever answers takes the outermost run first: of two who do that at once, one is refused and has touched nothing.
    """
    by_run: dict[str, list[Resolved]] = {}
    after = moved_on(state, change) if change is not None else state
    for resolved in resolve(state, plan, answers, after):
        by_run.setdefault(resolved.pending.run_id, []).append(resolved)
    if not by_run:
        return None
    held = await take(journal, state.run_id)
    try:
        # Inner runs first: when the outer one is woken, what it goes on to find is already there.
        for run_id in sorted(by_run, key=lambda r: r == state.run_id):
            lease = held if run_id == state.run_id else await take(journal, run_id)
            try:
                await _record(journal, lease, by_run[run_id])
            finally:
                if lease is not held:
                    await journal.release(lease)
    except BaseException:
        with suppress(JournalError):
            await journal.release(held)
        raise
    return held


async def _record(journal: Journal, lease: Lease, answers: list[Resolved]) -> None:
    records = await journal.load(lease.run_id)
    _check_still_pending(fold(lease.run_id, records), answers)
    await _append(journal, lease, records, [await _with_usage(r, journal) for r in answers])
    for resolved in answers:
        if resolved.pending.reason == 'crash' and isinstance(resolved.entry, CallFinished):
            await cancel_inside(journal, lease.run_id, resolved.pending.tool_call_id)


async def _with_usage(resolved: Resolved, journal: Journal) -> Entry:
    """The entry; where it ends a call that a crash has left, with what the runs inside used."""
    entry, pending = resolved.entry, resolved.pending
    if pending.reason != 'crash' or not isinstance(entry, CallFinished):
        return entry
    usage, spends = await used_inside(journal, pending.run_id, pending.tool_call_id)
    return entry if usage == NO_USAGE else replace(entry, usage=usage, spends=spends)


def _check_still_pending(state: RunState, resolved: list[Resolved]) -> None:
    """Between the look and the lease somebody else may have answered, and the call may wait for something else now."""
    for answer in resolved:
        call_id = answer.pending.tool_call_id
        own = replace(answer.pending, path=())
        if state.ended is not None or own not in state.pending.get(call_id, ()):
            raise AnswerError(f'{call_id!r} has been answered already')


async def cancel_run(journal: Journal, run_id: str) -> None:
    """Take the run from whoever drives it, and end it as cancelled; so are the runs inside its calls that are still open."""
    state = fold(run_id, await journal.load(run_id))
    if state.ended is None:
        state = await _end_as_cancelled(journal, run_id)
    if state.ended is not None and state.ended.status != 'cancelled':
        return
    for scope in open_scopes(state):
        await cancel_inside(journal, run_id, scope)


async def cancel_inside(journal: Journal, run_id: str, scope: str) -> None:
    """End the runs that were started in a call (or a node) and have not ended: nobody will go on with them."""
    for inner in await runs_inside(journal, run_id, scope):
        await cancel_run(journal, inner.run_id)


async def _end_as_cancelled(journal: Journal, run_id: str) -> RunState:
    owner = new_owner()
    try:
        lease = await journal.acquire(run_id, owner=owner, ttl=lease_seconds(journal))
    except RunLocked as error:
        lease = await journal.acquire(run_id, owner=owner, ttl=lease_seconds(journal), over=error.owner)
    records = await journal.load(run_id)
    state = fold(run_id, records)
    if state.ended is None:
        usage, spends = sum_of(list((await used_in_open_calls(journal, state)).values()))
        ended = Ended('cancelled', None, state.closing(), error_type='RunCancelled', usage=usage, spends=spends)
        await _append(journal, lease, records, [ended if usage != NO_USAGE else replace(ended, usage=None)])
    await journal.release(lease)
    return state


async def _append(journal: Journal, lease: Lease, records: list[Record], entries: list[Entry]) -> None:
    at, seq = now(), records[-1].seq
    new = [Record(seq + i, at, entry) for i, entry in enumerate(entries, 1)]
    await journal.append(lease.run_id, new, epoch=lease.epoch)
