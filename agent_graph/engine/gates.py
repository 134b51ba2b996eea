"""Before a call runs: does it wait for a person, for somebody else's result, or for a word on what a crash left?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_graph.engine.answers import entry_for
from agent_graph.engine.plan import RunDeps
from agent_graph.engine.results import to_answer
from agent_graph.engine.state import call_key
from agent_graph.engine.tool_calls import Call, look_at, tool_context
from agent_graph.errors import ArgumentsError, ToolFailed
from agent_graph.events import FunctionToolCallEvent, FunctionToolResultEvent
from agent_graph.journal.entries import Answered, CallFinished
from agent_graph.messages import ToolCallPart, ToolReturnPart
from agent_graph.messages.history import INTERRUPTED
from agent_graph.pending import Pending, PendingKind
from agent_graph.tools import Retry, ToolReturn

__all__ = ['answered', 'sort_out']

DENIED_BEFORE = 'The same call was denied before in this run and is not executed. Do not ask for it again.'


async def sort_out(deps: RunDeps, calls: list[Call], answers: dict[str, ToolReturnPart]) -> list[Call]:
    """The calls that may run now. Others are answered in `answers`, or wait: those are put into `deps.waiting`."""
    run: list[Call] = []
    for call in calls:
        while True:
            settled = await _settle(deps, call)
            if not isinstance(settled, Pending) or settled.path or not await _answered_inline(deps, settled):
                break
        if isinstance(settled, Call):
            run.append(settled)
        elif isinstance(settled, Pending):
            still = deps.state.pending.get(call.part.tool_call_id, ())
            deps.waiting.extend(still if settled in still else (settled,))
        else:
            answers[call.part.tool_call_id] = settled
            if call.part.tool_call_id in deps.state.started:
                await _let_go(deps, call.part, settled)
    return run


async def _let_go(deps: RunDeps, call: ToolCallPart, answer: ToolReturnPart) -> None:
    """A call that had begun is not gone on with; what the runs inside it have used is counted."""
    call_id = call.tool_call_id
    await deps.let_go(call_id)
    if call_id in deps.state.finished or call_id not in deps.left:
        return
    await deps.effects.record(CallFinished(answer, *deps.left.pop(call_id)))
    if deps.sink is not None:
        await deps.sink(FunctionToolCallEvent, part=call)
        await deps.sink(FunctionToolResultEvent, part=answer)


async def answered(
    deps: RunDeps, before: int, parts: Sequence[ToolCallPart], answers: dict[str, ToolReturnPart]
) -> list[Call]:
    """The calls that said they wait while they ran, from `deps.waiting[before:]`, and have their answer now."""
    state, calls = deps.state, {p.tool_call_id: p for p in parts}
    new, deps.waiting = deps.waiting[before:], deps.waiting[:before]
    run: list[Call] = []
    for pending in new:
        call_id = pending.tool_call_id
        asks = not pending.path and pending.reason == 'approval' and call_id not in state.approved
        if not pending.path and (call_id in state.decided or (asks and await _answered_inline(deps, pending))):
            run += await sort_out(deps, look_at(deps, [calls[call_id]], answers, hold=True), answers)
        else:
            deps.waiting.append(pending)
    return run


async def _answered_inline(deps: RunDeps, pending: Pending) -> bool:
    """Have the caller's function answer at once; false if there is none, or if it has no answer now."""
    if deps.on_pending is None:
        return False
    from agent_graph.engine.questions import given_now  # brings pydantic's adapters along

    try:
        given = await given_now(deps, pending)
    except Exception as error:
        raise ToolFailed(
            f'on_pending, asked about {pending.tool_name!r}, raised {type(error).__name__}: {error}',
            tool_name=pending.tool_name,
            tool_call_id=pending.tool_call_id,
        ) from error
    if given is None:
        return False
    await deps.effects.record(entry_for(pending, given, deps.plan))
    return True


async def _settle(deps: RunDeps, call: Call) -> Call | ToolReturnPart | Pending:
    """What becomes of one call now."""
    state, call_id, name = deps.state, call.part.tool_call_id, call.part.tool_name
    if call_id in state.finished:
        return state.finished[call_id].part
    decided = state.decided.get(call_id)
    if decided is not None and decided.decision == 'denied':
        if decided.tool_name is None:  # after a crash: the call stays as it is
            return ToolReturnPart(name, INTERRUPTED, call_id, 'interrupted')
        return ToolReturnPart(name, decided.message or '', call_id, 'denied')
    if decided is not None:
        return _with_args(deps, call, decided)
    still = state.pending.get(call_id)
    if still and call_id not in deps.woken:
        return still[0]
    # A call that has begun was allowed itself, whatever became of an equal one beside it.
    if call_id not in state.started and call_key(name, call.part.args) in state.denied:
        return ToolReturnPart(name, DENIED_BEFORE, call_id, 'denied')
    if call_id in state.started and call_id not in state.idle:
        return await _after_crash(deps, call)
    if call.tool.external:
        return _pending(deps, call, 'external', None)
    if call_id not in state.started and await _needs_approval(deps, call):
        return _pending(deps, call, 'approval', None)
    return call


def _with_args(deps: RunDeps, call: Call, decided: Answered) -> Call | Pending:
    """The approved call, with the arguments a person put in; those that do not fit are asked for again."""
    args = decided.args
    if not isinstance(args, dict):
        return call
    try:
        arguments = call.schema.validate(args)
    except ArgumentsError as error:
        return _pending(deps, call, 'approval', f'The arguments given do not fit: {error.message}')
    return replace(call, sent=args, arguments=arguments)


async def _needs_approval(deps: RunDeps, call: Call) -> bool:
    confirm = deps.state.confirm
    if confirm != 'per_tool':
        return confirm == 'always'
    rule = call.tool.requires_approval
    if not callable(rule):
        return rule
    return bool(await deps.effects.consult(rule, tool_context(deps, call), call.arguments))


async def _after_crash(deps: RunDeps, call: Call) -> Call | ToolReturnPart | Pending:
    """The call was in flight when the process died: its tool's rule says what now."""
    part, rule = call.part, call.tool.on_crash
    if rule == 'retry':
        return call
    if rule == 'never':
        return ToolReturnPart(part.tool_name, INTERRUPTED, part.tool_call_id, 'interrupted')
    if rule == 'ask':
        question = f'The process died while {part.tool_name} ran (attempt {call.attempt - 1}); did it take effect?'
        return _pending(deps, call, 'crash', question)
    try:
        found: Any = await deps.effects.inquire(rule, tool_context(deps, call), part)
    except Exception as error:  # it could not find out: then a person has to
        return _pending(deps, call, 'crash', f'on_crash of {part.tool_name} raised {type(error).__name__}: {error}')
    if isinstance(found, Retry):
        return call
    if not isinstance(found, ToolReturn):
        wrong = f'on_crash of {part.tool_name} returned {found!r}, neither ToolReturn(value) nor Retry()'
        return _pending(deps, call, 'crash', wrong)
    try:
        answer = to_answer(part, found)
    except TypeError as error:
        return _pending(
            deps, call, 'crash', f'on_crash of {part.tool_name} found something that cannot be kept: {error}'
        )
    await deps.effects.record(CallFinished(answer.part, *deps.left.pop(part.tool_call_id, (None, ()))))
    return answer.part


def _pending(deps: RunDeps, call: Call, reason: PendingKind, question: str | None) -> Pending:
    part = call.part
    call_id, nth = part.tool_call_id, deps.state.answered.count(part.tool_call_id)
    return Pending(deps.run_id, call_id, part.tool_name, part.args, reason, question, attempt=call.attempt - 1, nth=nth)
