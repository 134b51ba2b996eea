"""How a run ends: its last entry, the events that say so, and what an error carries away."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from agent_graph.engine.plan import RunDeps
from agent_graph.engine.response import normalise, salvage
from agent_graph.engine.state import is_sendable
from agent_graph.errors import JournalError, RunError
from agent_graph.events import FinalResultEvent, RunEnded
from agent_graph.journal.entries import Ended, Entered
from agent_graph.messages import AssistantMessage, ToolMessage
from agent_graph.messages.history import answer

__all__ = ['complete', 'fill', 'stop']


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
    if deps.sink is not None:
        await deps.sink(FinalResultEvent, output=output, tool_name=tool_name, tool_call_id=tool_call_id)
        await deps.sink(RunEnded, status='completed')
    if deps.tracing is not None:
        deps.tracing.end('completed', deps.state.usage, None)


async def stop(deps: RunDeps, status: Literal['failed', 'cancelled'], error: BaseException | None) -> None:
    """Record that the run failed or was cancelled, with what had arrived; a second call does nothing.

    The partial response is kept, marked as interrupted, and every open call is answered, so the history stays valid.
    """
    state = deps.state
    if state.ended is not None:
        return
    text = None if error is None else str(error) or type(error).__name__
    kind = None if error is None else type(error).__name__
    partial = _partial(deps)
    try:
        if partial is None:
            await deps.effects.record(Ended(status, None, state.closing(), error=text, error_type=kind))
        else:  # in one commit: no crash may leave a partial response as if it were to be handled
            ended = Ended(status, None, answer(partial, {}), error=text, error_type=kind)
            await deps.effects.record(Entered('HandleResponse', response=partial), ended)
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


def _partial(deps: RunDeps) -> AssistantMessage | None:
    """The response that was being received, as far as it can be kept."""
    builder, deps.builder = deps.builder, None
    if builder is None or not builder.started:
        return None
    partial = builder.build(interrupted=True)
    partial = normalise(replace(partial, parts=salvage(partial.parts)), deps.state)
    return partial if is_sendable(partial) else None


def fill(error: RunError, deps: RunDeps) -> None:
    """Give an error what every `RunError` carries; one that came from a run inside keeps its own."""
    if error.run_id:
        return
    error.run_id = deps.state.run_id
    error.messages = tuple(deps.state.valid_messages())
    error.usage = deps.state.usage
