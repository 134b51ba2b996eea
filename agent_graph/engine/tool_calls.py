"""Function tool calls of one response: in parallel with `asyncio.wait`, answers in call order.

Before anything starts, every call is looked at: unknown tools and bad arguments are answered at once, and the rest is
reserved against the limits. A call's intent is committed before its function starts and its answer before the run goes
on. When one call fails, or the run is cancelled, the others are stopped and waited for before this returns, and what had
finished is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agent_graph.engine.budget import ActiveCall
from agent_graph.engine.effects import ToolTimeout
from agent_graph.engine.ending import FROM_OUTSIDE, is_left
from agent_graph.engine.plan import RunDeps, active_call
from agent_graph.engine.results import ToolAnswer, to_answer
from agent_graph.errors import (
    ArgumentsError,
    JournalConflict,
    JournalError,
    ModelRetry,
    RunCancelled,
    ToolFailed,
    UsageLimitExceeded,
)
from agent_graph.events import CustomEvent, FunctionToolCallEvent, FunctionToolResultEvent
from agent_graph.journal.entries import CallFinished, CallStarted
from agent_graph.messages import JsonValue, ToolCallPart, ToolReturnPart
from agent_graph.messages.history import INTERRUPTED
from agent_graph.pending import ApprovalRequired, PauseSignal, Pending
from agent_graph.telemetry import TOOL_CALL_ID, within
from agent_graph.text import clean_text
from agent_graph.tools import RunContext, Tool, ToolReturn

if TYPE_CHECKING:
    from agent_graph.tools.schema import FunctionSchema

__all__ = ['Call', 'failure', 'inside', 'leaves', 'look_at', 'reserve', 'run_all', 'show_refused', 'tool_context']

T = TypeVar('T')

OVER_LIMIT = 'Not executed: the limit of tool calls is reached. Answer with what is known.'
CANCELLED_ITSELF = 'The tool raised CancelledError and the run was stopped.'
LIMIT_INSIDE = 'Stopped: a usage limit was reached while this tool ran. Answer with what is known.'


@dataclass(slots=True)
class Call:
    """A call that is going to run."""

    part: ToolCallPart
    tool: Tool
    schema: FunctionSchema
    sent: str | dict[str, JsonValue]
    arguments: dict[str, Any]
    attempt: int = 1
    active: ActiveCall | None = None


def look_at(
    deps: RunDeps, calls: Sequence[ToolCallPart], answers: dict[str, ToolReturnPart], *, hold: bool
) -> list[Call]:
    """The calls that can run, reserved against the limits; the others get their answer in `answers`.

    Calls answered there already are left alone. With `hold` nothing is reserved yet: some may have to wait.
    """
    ready: list[Call] = []
    for part in calls:
        if part.tool_call_id in answers:
            continue
        looked = _look(deps, part)
        if looked.__class__ is Call:
            ready.append(looked)  # pyright: ignore[reportArgumentType]
        else:
            answers[part.tool_call_id] = looked  # pyright: ignore[reportArgumentType]
    return reserve(deps, ready, answers) if ready and not hold else ready


def reserve(deps: RunDeps, ready: list[Call], answers: dict[str, ToolReturnPart]) -> list[Call]:
    """Reserve the calls against the limits; those that do not fit are answered, or `UsageLimitExceeded` is raised."""
    if not deps.budget.bounded:
        return ready
    new = 0
    for call in ready:
        new += call.attempt == 1
    granted = deps.budget.reserve_calls(new)
    if granted < new:
        ready = _over_limit(deps, ready, granted, answers)
    return ready


def _known(part: ToolReturnPart) -> ToolReturnPart:
    """A recorded answer; one that says the tool failed ends the run now as it would have without the crash."""
    if part.outcome == 'failed':
        raise ToolFailed(str(part.content), tool_name=part.tool_name, tool_call_id=part.tool_call_id)
    return part


async def show_refused(deps: RunDeps, calls: Sequence[ToolCallPart], answers: dict[str, ToolReturnPart]) -> None:
    """Show the calls that were answered without running, unless that was before a crash."""
    sink = deps.sink
    for part in calls:
        answer = answers.get(part.tool_call_id)
        if answer is not None and sink is not None and part.tool_call_id not in deps.state.finished:
            await sink(FunctionToolCallEvent, part=part)
            await sink(FunctionToolResultEvent, part=answer)


def _look(deps: RunDeps, part: ToolCallPart) -> Call | ToolReturnPart:
    """A call that can run, or the answer to one that cannot or need not."""
    call_id, name, state = part.tool_call_id, part.tool_name, deps.state
    if call_id in state.finished:
        return _known(state.finished[call_id].part)
    tools, offered = deps.plan.tools, deps.offered_names
    tool = tools[name] if name in tools else None
    if tool is None or (offered is not None and name not in offered):
        known = (*deps.plan.tools, *deps.plan.output.tools)
        names = ', '.join(repr(n) for n in known if offered is None or n in offered) or 'none'
        return ToolReturnPart(
            part.tool_name, f'Unknown tool {part.tool_name!r}. Available tools: {names}.', part.tool_call_id, 'retry'
        )
    started = state.started[call_id] if call_id in state.started else None
    try:
        schema = tool.schema
        sent = part.args if started is None else cast('str | dict[str, JsonValue]', started.args)
        arguments = schema.validate(sent)
    except ArgumentsError as error:
        return ToolReturnPart(part.tool_name, error.message, part.tool_call_id, 'retry')
    return Call(part, tool, schema, sent, arguments, 1 if started is None else started.attempt + 1)


def _over_limit(deps: RunDeps, ready: list[Call], granted: int, answers: dict[str, ToolReturnPart]) -> list[Call]:
    """Not all calls fit: start none and raise or, when the run is to answer at a limit, keep as many as fit."""
    limits = deps.state.limits
    if limits is None or limits.on_limit == 'raise':
        deps.budget.give_back(granted)
        raise UsageLimitExceeded(
            f'the response asks for {len(ready)} tool calls, and tool_calls_limit allows {granted} more; none of them was '
            'started. Raise the limit, or set on_limit="final_answer"',
            limit='tool_calls_limit',
            budget=deps.budget,
        )
    kept: list[Call] = []
    for call in ready:
        if call.attempt > 1 or granted > 0:  # a call resumed after a crash was counted when it first started
            granted -= call.attempt == 1
            kept.append(call)
            continue
        answer = ToolReturnPart(call.part.tool_name, OVER_LIMIT, call.part.tool_call_id, 'skipped')
        answers[call.part.tool_call_id] = answer
    return kept


async def run_all(deps: RunDeps, ready: Sequence[Call], answers: dict[str, ToolReturnPart]) -> None:
    """Run the calls and put their answers into `answers`.

    Start what may run together, wait for the first to finish, start more; a sequential tool is a barrier.
    """
    if not ready[1:]:
        await _run_alone(deps, ready[0], answers)
        return
    effects = deps.effects
    cap = deps.plan.max_concurrency or len(ready)
    waiting = list(reversed(ready))
    order: dict[asyncio.Task[ToolReturnPart | None], Call] = {}
    pending: set[asyncio.Task[ToolReturnPart | None]] = set()
    alone = False
    try:
        while waiting or pending:
            while waiting and len(pending) < cap and not alone:
                if waiting[-1].tool.sequential:
                    if pending:
                        break
                    alone = True
                call = waiting.pop()
                task = effects.task(_one(deps, call))
                order[task] = call
                pending.add(task)
            done, pending = await effects.wait(pending)
            alone = alone and bool(pending)
            for task in order if len(done) > 1 else done:  # in call order, whatever order the set has
                if task in done and (answer := _result(task, order[task])) is not None:
                    answers[answer.tool_call_id] = answer
    except BaseException as error:
        _give_back(deps, ready)
        await _stop(deps, order, pending, error)
        raise


async def _run_alone(deps: RunDeps, call: Call, answers: dict[str, ToolReturnPart]) -> None:
    """Run the one call there is: still in a task of its own, but waited for without the machinery for many."""
    task = deps.effects.task(_one(deps, call, last=True))
    try:
        await deps.effects.until(task)
        answer = _result(task, call)
    except BaseException as error:
        _give_back(deps, (call,))
        await _stop(deps, {task: call}, {task}, error)
        raise
    if answer is not None:
        answers[answer.tool_call_id] = answer


def _result(task: asyncio.Task[ToolReturnPart | None], call: Call) -> ToolReturnPart | None:
    if task.cancelled():  # nobody here cancelled it: its own code did, and that is not the run's cancellation
        raise ToolFailed(
            f'tool {call.part.tool_name!r} was cancelled from inside (asyncio.CancelledError)',
            tool_name=call.part.tool_name,
            tool_call_id=call.part.tool_call_id,
        )
    return task.result()


def _give_back(deps: RunDeps, ready: Sequence[Call]) -> None:
    """Calls that were reserved and will not start count against no limit of the runs around, which may go on."""
    if deps.budget.bounded:
        started = deps.state.started
        deps.budget.give_back(sum(c.attempt == 1 and c.part.tool_call_id not in started for c in ready))


async def _stop(
    deps: RunDeps,
    order: dict[asyncio.Task[ToolReturnPart | None], Call],
    pending: set[Any],
    error: BaseException,
) -> None:
    """Stop the calls still running and record that they were; their nested runs' usage is not lost.

    In a run that is left they stay in flight, and their tools' `on_crash` rules say what becomes of them.
    """
    if isinstance(error, FROM_OUTSIDE):
        is_left(deps)  # before the runs inside are stopped, which follow
    by_itself = [task for task in order if task.cancelled()]
    for task in pending:
        if (active := order[task].active) is not None:
            active.stopped = True
    try:
        await deps.effects.stop(set(pending))
    finally:
        for task in order:
            if not task.cancelled():
                task.exception()  # looked at, so that asyncio does not report it as forgotten
        broken = [e for t in order if not t.cancelled() and isinstance(e := t.exception(), JournalError)]
        if broken:  # nothing more can be written; the first fault says why, the others only that there is a gap
            raise next((e for e in broken if not isinstance(e, JournalConflict)), broken[0])
        for task, call in () if deps.leaving else order.items():
            if call.part.tool_call_id in deps.state.finished or call.part.tool_call_id not in deps.state.started:
                continue
            answer = ToolReturnPart(call.part.tool_name, INTERRUPTED, call.part.tool_call_id, 'interrupted')
            if task in by_itself:
                answer = ToolReturnPart(call.part.tool_name, CANCELLED_ITSELF, call.part.tool_call_id, 'failed')
            deps.left.pop(call.part.tool_call_id, None)
            await deps.effects.record(_finished(call, answer))


async def _one(deps: RunDeps, call: Call, *, last: bool = False) -> ToolReturnPart | None:
    """One call, in a task of its own: intent, effect, answer. `last`: no other call is still running or to come."""
    part, tool = call.part, call.tool
    call_id = part.tool_call_id
    started = deps.effects.record(CallStarted(call_id, part.tool_name, call.sent, call.attempt))
    if deps.around is not None and call.attempt == 1:
        deps.around.count_calls(1)
    await started
    if deps.sink is not None:
        await deps.sink(FunctionToolCallEvent, part=part)
    if deps.attempts:
        deps.attempts.pop(call_id, None)
    call.active = active = ActiveCall(deps, call_id, deps.around)
    if deps.left and call_id in deps.left:
        active.take_up(deps.left.pop(call_id))
    active_call.set(active)
    if deps.tracing is None:
        answer = await _answer(deps, call)
    else:
        span = deps.tracing.child('tool', part.tool_name, {TOOL_CALL_ID: call_id})
        answer = await within(span, lambda: _answer(deps, call))
    if isinstance(answer, tuple):
        deps.waiting.extend(answer)
        if (inside := active.usage()) is not None:
            deps.left[call_id] = inside, tuple(active.spends)
        return None
    finished = _finished(call, answer.part, answer)
    if last and deps.effects.batches and deps.may_hold:
        deps.effects.hold(finished)
    else:
        await deps.effects.record(finished)
    if tool.stop_after and answer.part.outcome == 'success':
        deps.stop_values[call_id] = answer.value
    if deps.sink is not None:
        await deps.sink(FunctionToolResultEvent, part=answer.part, show=tool.show_result)
    return answer.part


def _finished(call: Call, part: ToolReturnPart, answer: ToolAnswer | None = None) -> CallFinished:
    active = call.active
    usage = active.usage() if active is not None and (active.requests or active.tool_calls) else None
    spends = tuple(call.active.spends) if call.active is not None and call.active.spends else ()
    if answer is not None and call.tool.stop_after and part.outcome == 'success':
        return CallFinished(part, usage, spends, answer.stored, True)
    return CallFinished(part, usage, spends)


async def _answer(deps: RunDeps, call: Call) -> ToolAnswer | tuple[Pending, ...]:
    """Run the function and turn what comes of it into an answer, or into what it waits for.

    Anything but a retry, a wait or a timeout ends the run.
    """
    part = call.part
    call_id = part.tool_call_id
    try:
        return to_answer(part, await _invoke(deps, call))
    except ModelRetry as error:
        return ToolAnswer(ToolReturnPart(part.tool_name, clean_text(error.message), part.tool_call_id, 'retry'))
    except PauseSignal as signal:
        return _below(deps, call_id, _waits(call, signal.pending))
    except BaseExceptionGroup as group:  # two waits side by side in an asyncio.TaskGroup
        waits, others = group.split(PauseSignal)
        if waits is None or others is not None:
            await _record_failure(deps, call, group)
            raise failure(deps, f'tool {part.tool_name!r}', part, group) from group
        return _below(deps, call_id, _waits(call, tuple(p for signal in leaves(waits) for p in signal.pending)))
    except ApprovalRequired as error:
        if not (call_id in deps.state.approved or deps.state.confirm == 'never'):
            asked, nth = error.question, deps.state.answered.count(call_id)
            return (
                Pending(deps.run_id, call_id, part.tool_name, part.args, question=asked, attempt=call.attempt, nth=nth),
            )
        await _record_failure(deps, call, error)
        raise failure(deps, f'tool {part.tool_name!r}', part, error) from error
    except ToolTimeout as error:
        if call.active is not None:
            call.active.stopped = True
        text = f'The tool timed out after {error.seconds:g} s; its effects are unknown.'
        return ToolAnswer(ToolReturnPart(part.tool_name, text, part.tool_call_id, 'interrupted'))
    except Exception as error:
        if (stopped := _limit_around(deps, call, error)) is not None:
            return stopped
        await _record_failure(deps, call, error)
        raise failure(deps, f'tool {part.tool_name!r}', part, error) from error


def _waits(call: Call, pending: tuple[Pending, ...]) -> tuple[Pending, ...]:
    return pending if call.active is None else call.active.all_waits(pending)


def _below(deps: RunDeps, call_id: str, pending: Sequence[Pending]) -> tuple[Pending, ...]:
    """What a call waits for, seen from this run; of several questions of its own the first, for answers come in order."""
    own = [p for p in pending if p.run_id == deps.run_id][:1]
    inner = [replace(p, path=(call_id, *p.path)) for p in pending if p.run_id != deps.run_id]
    return (*own, *inner)


def leaves(group: BaseExceptionGroup[PauseSignal]) -> list[PauseSignal]:
    """The waits in a group of nothing but waits, as several tasks side by side give them."""
    found: list[PauseSignal] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def failure(deps: RunDeps, what: str, part: ToolCallPart, error: BaseException) -> Exception:
    """The error a run ends with because user code in a call raised `error`."""
    if isinstance(error, UsageLimitExceeded) and any(b is error.budget for b in deps.budget.chain()):
        return UsageLimitExceeded(str(error), limit=error.limit, budget=error.budget)
    if isinstance(error, RunCancelled):
        return RunCancelled(f'{what} ended with a cancelled run inside it')
    return ToolFailed(
        f'{what} raised {type(error).__name__}: {error}. Raise ModelRetry in it to let the model try again instead',
        tool_name=part.tool_name,
        tool_call_id=part.tool_call_id,
    )


def _limit_around(deps: RunDeps, call: Call, error: Exception) -> ToolAnswer | None:
    """A run inside hit a limit of this run, which is to answer rather than to raise: the call is answered instead."""
    limits = deps.state.limits
    if not isinstance(error, UsageLimitExceeded) or error.budget is not deps.budget:
        return None
    if limits is None or limits.on_limit != 'final_answer':
        return None
    return ToolAnswer(ToolReturnPart(call.part.tool_name, LIMIT_INSIDE, call.part.tool_call_id, 'interrupted'))


async def _record_failure(deps: RunDeps, call: Call, error: BaseException) -> None:
    if deps.leaving:  # it was stopped, and says so in its own way: the call stays in flight
        return
    text = f'The tool raised {type(error).__name__} and the run was stopped.'
    await deps.effects.record(
        _finished(call, ToolReturnPart(call.part.tool_name, text, call.part.tool_call_id, 'failed'))
    )


def _invoke(deps: RunDeps, call: Call) -> Awaitable[Any]:
    tool, schema = call.tool, call.schema
    args, kwargs = schema.bind(call.arguments)
    if schema.takes_context:
        args = (tool_context(deps, call), *args)
    timeout = deps.plan.tool_timeout if tool.timeout is None else tool.timeout
    function = schema.function
    if schema.is_generator:
        function, args, kwargs = _drain, (deps, call, args, kwargs), {}
    is_async = schema.is_async or schema.is_generator
    return deps.effects.call(function, args, kwargs, is_async=is_async, timeout=timeout)


def tool_context(deps: RunDeps, call: Call) -> RunContext[Any]:
    """The run as the function of this call sees it."""
    name, tool = call.part.tool_name, call.tool
    retries = deps.plan.retries if tool.retries is None else tool.retries
    state, call_id = deps.state, call.part.tool_call_id
    approved = call_id in state.approved or state.confirm == 'never'
    return RunContext(deps.user_deps, deps, name, call_id, state.retries.get(name, 0), retries, approved=approved)


async def _drain(deps: RunDeps, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an async generator: each value is shown as it comes, the last one (or a `ToolReturn`) is the result."""
    result: Any = None
    generator = call.schema.function(*args, **kwargs)
    try:
        async for value in generator:
            result = value
            if isinstance(value, ToolReturn):
                break
            if deps.sink is not None:
                await deps.sink(
                    CustomEvent, value=value, tool_name=call.part.tool_name, tool_call_id=call.part.tool_call_id
                )
    finally:
        await generator.aclose()
    return result


async def inside(active: ActiveCall, work: Awaitable[T]) -> T:
    """Do `work` as part of a call, in a task of its own: runs started in it are counted there."""
    active_call.set(active)
    return await work
