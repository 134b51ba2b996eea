"""How a node, and a run, ends: in time or not, cancelled, failed, paused or complete, and what an error carries away."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Literal, cast

from agent_graph.engine.plan import Handles, RunDeps
from agent_graph.engine.response import normalise, salvage
from agent_graph.engine.state import RunState, fold, is_sendable
from agent_graph.errors import CodecError, JournalConflict, JournalError, RunCancelled, RunError, UsageLimitExceeded
from agent_graph.events import FinalResultEvent, RunEnded, RunPaused
from agent_graph.journal import Journal
from agent_graph.journal.entries import CallFinished, Ended, Entered, Paused
from agent_graph.messages import AssistantMessage, ToolMessage
from agent_graph.messages.history import answer
from agent_graph.pending import Pending
from agent_graph.text import clean_text
from agent_graph.usage import NO_USAGE, Spend, Usage

__all__ = [
    'FROM_OUTSIDE',
    'cancelled',
    'complete',
    'failed',
    'fill',
    'in_time',
    'is_left',
    'keep',
    'leave',
    'left_over',
    'lost',
    'pause',
    'show_standing',
    'stop',
]


FROM_OUTSIDE = (asyncio.CancelledError, KeyboardInterrupt, SystemExit)
"""What stops a run that has done nothing to deserve it."""


async def in_time(deps: RunDeps, node: Any, ctx: Any, deadline: float) -> Any:
    """Run a node, but not past the run's deadline (Unix seconds)."""
    left = deadline - deps.effects.now()
    if left <= 0:
        raise _late(deps)
    deps.timeout = scope = asyncio.timeout(left)
    try:
        async with scope:
            return await node.run(ctx)
    except TimeoutError:
        if not scope.expired():
            raise
        raise _late(deps) from None


def _late(deps: RunDeps) -> UsageLimitExceeded:
    bound = deps.state.limits.time_limit if deps.state.limits is not None else None
    return UsageLimitExceeded(
        f'time_limit={bound} s is over; raise it, or give the run less to do', limit='time_limit', budget=deps.budget
    )


async def cancelled(deps: RunDeps) -> Exception | None:
    """The task driving a node was cancelled: record that, and return the error to raise instead, if it was ours to cancel.

    `None` means that the cancellation came from outside and must go on.
    """
    if deps.events.queue is not None:
        deps.events.queue.hurry()
    task = asyncio.current_task()
    if deps.keeper is not None and deps.keeper.lost:
        if task is not None:
            task.uncancel()
        return await lost(deps)
    if not deps.cancel_asked:
        await (leave(deps) if is_left(deps) else stop(deps, 'cancelled', None))
        return None
    deps.leaving = False
    if task is not None:
        task.uncancel()
    error = RunCancelled(f'run {deps.run_id} was cancelled; its messages are in error.messages')
    await stop(deps, 'cancelled', error)
    fill(error, deps)
    return error


def is_left(deps: Handles) -> bool:
    """Whether a cancellation leaves the run as it is: one from outside, if that was asked for.

    A run inside another follows that: what only its own call, its tool's timeout, say, has stopped is ended with it.
    """
    if deps.leaving or deps.cancel_asked or (deps.keeper is not None and deps.keeper.lost):
        return deps.leaving
    if deps.around is not None:
        deps.leaving = cast('Handles', deps.around.owner).leaving
    else:
        late = deps.timeout is not None and deps.timeout.expired()
        deps.leaving = deps.on_cancel == 'leave' and not late
    return deps.leaving


async def leave(deps: Handles) -> None:
    """Give the run free where it is, as after a crash, but with everything recorded that was done."""
    if deps.keeper is not None:
        deps.keeper.stop()
    with suppress(JournalError):  # the cancellation goes on, whatever the journal says
        await deps.effects.flush()
    with suppress(JournalError):
        if deps.state.ended is None and not deps.state.paused:
            await deps.effects.release()
    if deps.tracing is not None:
        deps.tracing.end('left', deps.state.usage, None)
    if deps.sink is not None:
        await deps.sink(RunEnded, status='stopped')


async def left_over(deps: RunDeps) -> RunCancelled:
    """The call that this run is inside of was stopped, and this one goes on in a thread: end it, and return what to raise."""
    error = RunCancelled(f'run {deps.run_id} was inside a tool call that has been stopped')
    if is_left(deps):
        await leave(deps)
        fill(error, deps)
    else:
        await stop(deps, 'cancelled', error)
    return error


async def failed(deps: RunDeps, error: Exception) -> Exception:
    """A node raised `error`: record that, and return what to raise."""
    if isinstance(error, JournalConflict) and deps.state.ended is None:
        return await lost(deps, error)
    if isinstance(error, JournalError) and not isinstance(error, CodecError):
        await _abandon(deps, error)
    else:
        await stop(deps, 'failed', error)
    return error


async def _abandon(deps: RunDeps, error: JournalError) -> None:
    """The journal failed: nothing more can be written; leave the run where the store has it, free to be resumed."""
    if deps.keeper is not None:
        deps.keeper.stop()
    try:
        await deps.effects.release()
    except JournalError as failure:
        error.add_note(f'and the run could not be released: {failure}')
    if deps.tracing is not None:
        deps.tracing.end('failed', deps.state.usage, error)
    if deps.sink is not None:
        await deps.sink(RunEnded, status='failed', error=str(error))


async def lost(deps: Handles, error: JournalConflict | None = None) -> Exception:
    """The run has another owner: nothing more may be written. The error says whether that one cancelled it."""
    deps.sink = None
    if deps.keeper is not None:
        deps.keeper.stop()
    status = await _status_now(deps)
    if status == 'cancelled':
        made = RunCancelled(f'run {deps.run_id} was cancelled by another process')
        fill(made, deps)
        return made
    return error or JournalConflict(f'run {deps.run_id} was taken over by another process; this one has stopped')


async def _status_now(deps: Handles) -> str:
    """How a run stands that was lost; whoever cancels a run takes it first, and writes its end a moment later."""
    journal = cast('Journal', deps.effects.journal)  # only a journal that others can reach loses a run
    for _ in range(20):
        try:
            status = (await journal.info(deps.run_id)).status
        except JournalError:
            break
        if status != 'running':
            return status
        await asyncio.sleep(0.02)
    return 'running'


async def complete(
    deps: RunDeps,
    output: object,
    *,
    message: ToolMessage | None,
    tool_name: str | None = None,
    tool_call_id: str | None = None,
) -> None:
    """Record that the run is complete, and show its output, which can no longer be taken back."""
    stored, value = deps.plan.output.dump(output)
    await deps.effects.record(Ended('completed', value, message, tool_name, output_stored=stored))
    if deps.keeper is not None:
        deps.keeper.stop()
    if deps.sink is not None:
        await deps.sink(FinalResultEvent, output=output, tool_name=tool_name, tool_call_id=tool_call_id)
        await deps.sink(RunEnded, status='completed')
    if deps.tracing is not None:
        deps.tracing.end('completed', deps.state.usage, None)


async def pause(deps: RunDeps, pending: tuple[Pending, ...]) -> None:
    """Record what the run waits for, and give it free: no process has to stay."""
    await deps.effects.record(Paused(pending, *_used_in_open_calls(deps)))
    if deps.keep is not None:
        await keep(deps)
    if deps.keeper is not None:
        deps.keeper.stop()
    await deps.effects.release()
    if deps.sink is not None:
        await deps.sink(RunPaused, pending=pending)
        await deps.sink(RunEnded, status='paused')
    if deps.tracing is not None:
        deps.tracing.end('paused', deps.state.usage, None)


def _used_in_open_calls(deps: RunDeps) -> tuple[Usage | None, tuple[Spend, ...]]:
    if not deps.left:
        return None, ()
    from agent_graph.engine.inside import sum_of

    return sum_of(list(deps.left.values()))


async def keep(deps: Handles) -> None:
    """Hand over a run that has no journal, with the runs made inside its tools: it can be resumed in this process."""
    if deps.keep is None:
        return
    for inner in deps.inner:
        await keep(inner)
    await deps.keep(deps.run_id, await deps.effects.journal.load(deps.run_id))


async def show_standing(deps: RunDeps) -> None:
    """Tell a reader how a run stands that has nothing to do: it waits, or has ended."""
    if deps.sink is None:
        return
    ended = deps.state.ended
    if ended is None:
        await deps.sink(RunPaused, pending=deps.state.waiting)
    await deps.sink(RunEnded, status='paused' if ended is None else ended.status, error=ended and ended.error)


async def stop(deps: RunDeps, status: Literal['failed', 'cancelled'], error: BaseException | None) -> None:
    """Record that the run failed or was cancelled, with what had arrived; a second call does nothing.

    The partial response is kept, marked as interrupted, and every open call is answered, so the history stays valid.
    """
    state, unfit = deps.state, isinstance(error, CodecError)
    if state.ended is not None and not unfit:  # with an entry that cannot be stored an end was not stored either
        return
    if deps.keeper is not None:
        deps.keeper.stop()
    try:
        if unfit:
            await _resync(deps)
            if state.ended is not None:
                return
        await _record_end(deps, state, status, error)
        for call_id in [c for c in state.started if c not in state.finished or _is_open(state.finished[c])]:
            await deps.let_go(call_id)
    except JournalError as failure:
        if error is None:
            raise
        error.add_note(f'and the journal could not record this: {failure}')
    if isinstance(error, RunError):
        fill(error, deps)
    if deps.tracing is not None:
        deps.tracing.end(status, state.usage, error)
    if deps.sink is not None:
        await deps.sink(RunEnded, status=status, error=None if error is None else str(error))


async def _resync(deps: RunDeps) -> None:
    """An entry was refused because it cannot be stored: go back to what the store has, and go on from there."""
    records = await deps.effects.journal.load(deps.run_id)
    stored, before = fold(deps.run_id, records), deps.state
    # What was used is told all the same: an entry carried it that nobody will see.
    lost = _beyond(before.usage, stored.usage), tuple(before.spends[len(stored.spends) :])
    for field in fields(RunState):
        setattr(deps.state, field.name, getattr(stored, field.name))
    deps.effects.next_seq, deps.effects.held = records[-1].seq + 1, ()
    deps.builder = None
    if lost[0] != NO_USAGE:
        deps.left[''] = lost


def _beyond(usage: Usage, known: Usage) -> Usage:
    counts = {f.name: getattr(usage, f.name) - getattr(known, f.name) for f in fields(Usage) if f.name != 'details'}
    details = {name: count - known.details.get(name, 0) for name, count in usage.details.items()}
    return Usage(**counts, details={name: count for name, count in details.items() if count})


async def _record_end(
    deps: RunDeps, state: RunState, status: Literal['failed', 'cancelled'], error: BaseException | None
) -> None:
    text = None if error is None else clean_text(str(error) or type(error).__name__)
    kind = None if error is None else type(error).__name__
    usage, spends = _used_in_open_calls(deps)
    partial = _partial(deps)
    if partial is None:
        ended = Ended(status, None, state.closing(), error=text, error_type=kind, usage=usage, spends=spends)
        await deps.effects.record(ended)
        return
    # In one commit: no crash may leave a partial response as if it were to be handled.
    ended = Ended(status, None, answer(partial, {}), error=text, error_type=kind, usage=usage, spends=spends)
    recorded = deps.effects.record(Entered('HandleResponse', response=partial), ended)
    deps.count_response()
    await recorded


def _is_open(finished: CallFinished) -> bool:
    """Whether what was begun in the call may not have ended with it."""
    return finished.part.outcome in ('interrupted', 'failed')


def _partial(deps: RunDeps) -> AssistantMessage | None:
    """The response that was being received, as far as it can be kept; one without anything to keep still tells its usage."""
    builder, deps.builder = deps.builder, None
    if builder is None or not (builder.started or builder.usage is not NO_USAGE):
        return None
    partial = builder.build(interrupted=True)
    partial = normalise(replace(partial, parts=salvage(partial.parts)), deps.state)
    return partial if is_sendable(partial) or partial.usage != NO_USAGE else None


def fill(error: RunError, deps: Handles) -> None:
    """Give an error what every `RunError` carries: the run it leaves, its messages and its usage."""
    error.run_id = deps.state.run_id
    error.messages = tuple(deps.state.valid_messages())
    error.usage = deps.state.usage
