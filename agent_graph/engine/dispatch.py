"""Response -> calls | retry | output.

Which functions of one response run, beside an output call that turns out valid:

| `end_strategy` | function tools        | output calls after the first valid one |
|----------------|-----------------------|----------------------------------------|
| `'early'`      | skipped               | skipped                                |
| `'graceful'`   | run                   | skipped                                |
| `'exhaustive'` | run                   | run, their values dropped              |

Output calls are checked first, one after the other in response order; the first valid one wins, whatever finishes when.
While none is valid, the function tools run under every strategy and the model is asked again. Text beside calls is never
the output. Every call gets one answer, in call order; a skipped one says so.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_graph.engine import tool_calls
from agent_graph.engine.budget import ActiveCall
from agent_graph.engine.plan import RunDeps
from agent_graph.engine.response import cut_call, is_empty, refused, text_of
from agent_graph.engine.validators import run_validators, takes_context
from agent_graph.errors import ArgumentsError, ModelRetry, ToolFailed, UnexpectedModelBehavior
from agent_graph.events import OutputToolCallEvent, OutputToolResultEvent
from agent_graph.journal.entries import CallFinished, CallStarted
from agent_graph.messages import AssistantMessage, JsonValue, ToolCallPart, ToolMessage, ToolReturnPart, UserMessage
from agent_graph.messages.history import INTERRUPTED
from agent_graph.pending import Pending
from agent_graph.text import clean_text
from agent_graph.tools import RunContext

if TYPE_CHECKING:
    from agent_graph.output_plan import OutputTool

__all__ = ['Again', 'Done', 'Wait', 'handle']

ACCEPTED = 'Final result processed.'
NOT_NEEDED = 'Not executed: a final result was already given.'
NOT_USED = 'Valid, but not used: a final result was already given.'
CUT_OFF = (
    'Not executed: the response was cut off by the output limit inside this call. Answer in smaller pieces, for example '
    'one call at a time with less content.'
)
EMPTY = 'The response was empty. Please answer.'


@dataclass(frozen=True, slots=True)
class Again:
    """The model is asked again, with this message; `retry` counts it against the output's retries."""

    message: UserMessage | ToolMessage
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Everything that could run has run; the rest waits."""

    pending: tuple[Pending, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The run has its output."""

    output: Any
    stored: JsonValue = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    message: ToolMessage | None = None


def handle(deps: RunDeps, response: AssistantMessage) -> Coroutine[Any, Any, Again | Done | Wait]:
    """Handle one response to its end."""
    if response.refusal is not None or response.finish_reason in ('refusal', 'content_filter'):
        raise refused(response)
    calls = [p for p in response.parts if p.kind == 'tool_call']
    return _handle_calls(deps, response, calls) if calls else _handle_text(deps, response)


async def _handle_text(deps: RunDeps, response: AssistantMessage) -> Again | Done:
    output = deps.plan.output
    text = text_of(response)
    if is_empty(response):
        return Done(None) if output.allow_none else _again(deps, response, EMPTY)
    if output.text == 'none':
        names = ', '.join(output.tools)
        ask = f'Please answer by calling one of these tools: {names}.' if names else 'Please answer with nothing.'
        return _again(deps, response, f'A text is not a valid answer here. {ask}')
    try:
        value = output.check_text(text)
        if output.text_function is not None:
            value = await _call_text_function(deps, text)
        if deps.plan.validators:
            value = await run_validators(deps, value)
    except (ArgumentsError, ModelRetry) as error:
        return _again(deps, response, _with_limit_note(response, error.message))
    return Done(value)


async def _call_text_function(deps: RunDeps, text: str) -> Any:
    function = deps.plan.output.text_function
    assert function is not None
    ctx = deps.context(retry=deps.state.output_retries, max_retries=deps.plan.output_retries)
    args = (ctx, text) if takes_context(function) else (text,)
    try:
        return await deps.effects.consult(function, *args)
    except (ModelRetry, ArgumentsError):
        raise
    except Exception as error:
        raise tool_calls.failure(deps, 'the text output function', ToolCallPart(''), error) from error


def _with_limit_note(response: AssistantMessage, message: str) -> str:
    if response.finish_reason != 'length':
        return message
    return f'{message}\nThe response was cut off by the output limit; answer more briefly.'


def _again(deps: RunDeps, response: AssistantMessage, message: str) -> Again:
    allowed = deps.plan.output_retries
    if deps.state.output_retries >= allowed:
        limit = ' (its output limit was reached)' if response.finish_reason == 'length' else ''
        raise UnexpectedModelBehavior(
            f'the model gave no valid output in {allowed + 1} attempts{limit}; the last problem: {message} '
            'Raise output_retries, or look at the last response in error.messages'
        )
    return Again(UserMessage(clean_text(message)), retry=True)


async def _handle_calls(
    deps: RunDeps, response: AssistantMessage, calls: Sequence[ToolCallPart]
) -> Again | Done | Wait:
    plan = deps.plan
    answers: dict[str, ToolReturnPart] = {}
    cut = cut_call(response) if response.finish_reason == 'length' else None
    if cut is not None:
        answers[cut.tool_call_id] = ToolReturnPart(cut.tool_name, CUT_OFF, cut.tool_call_id, 'retry')
    outputs: Sequence[ToolCallPart] = ()
    functions = calls
    if plan.output.tools:
        outputs = [c for c in calls if c.tool_name in plan.output.tools]
        functions = [c for c in calls if c.tool_name not in plan.output.tools]
    winner = await _check_outputs(deps, outputs, answers) if outputs else None
    skip = winner is not None and plan.end_strategy == 'early'
    if skip:
        await _skip(deps, functions, answers)
        await tool_calls.show_refused(deps, functions, answers)
    elif functions:
        state = deps.state
        # A call may wait if its tool says so; one that was started, answered or denied before comes back after a stop.
        gated = plan.gated or state.started or state.pending or state.denied or state.confirm == 'always'
        ready = tool_calls.look_at(deps, functions, answers, hold=bool(gated))
        deps.waiting = []
        if gated and ready:
            ready = await _sort_out(deps, ready, answers)
        if deps.sink is not None:
            await tool_calls.show_refused(deps, functions, answers)
        while ready:
            before = len(deps.waiting) if deps.waiting else 0
            await tool_calls.run_all(deps, ready, answers)
            asked = deps.waiting[before:] and deps.on_pending is not None
            ready = await _answered(deps, before, functions, answers) if asked else []
        if deps.waiting and winner is not None:
            await _skip(deps, functions, answers)
        if deps.waiting:
            return Wait(_in_call_order(deps, calls))
    message = ToolMessage(tuple([answers[c.tool_call_id] for c in calls]))
    if winner is not None:
        return Done(winner.output, winner.stored, winner.tool_name, winner.tool_call_id, message)
    return _next(deps, functions, outputs, answers, message)


def _next(
    deps: RunDeps,
    functions: Sequence[ToolCallPart],
    outputs: Sequence[ToolCallPart],
    answers: dict[str, ToolReturnPart],
    message: ToolMessage,
) -> Again | Done:
    """Without an output: a tool may have ended the run, or the model is asked again if it may be."""
    finished_calls = deps.state.finished
    for call in functions:
        finished = finished_calls[call.tool_call_id] if call.tool_call_id in finished_calls else None
        if finished is not None and finished.stop:
            value = deps.stop_values.get(call.tool_call_id, finished.output)
            return Done(value, finished.output, call.tool_name, call.tool_call_id, message)
    for part in message.parts:
        if part.outcome == 'retry':
            _check_budget(deps, part)
    return Again(message, retry=bool(outputs) and any(answers[c.tool_call_id].outcome == 'retry' for c in outputs))


async def _skip(deps: RunDeps, functions: Sequence[ToolCallPart], answers: dict[str, ToolReturnPart]) -> None:
    """Beside a settled output nothing starts or waits: such calls are skipped, and one that had begun says so."""
    state = deps.state
    waiting = (*deps.waiting, *state.waiting)
    # A tool that asks to be approved says that it has done nothing yet.
    idle = {p.tool_call_id for p in waiting if not p.path and p.reason == 'approval'}
    for call in functions:
        call_id, name = call.tool_call_id, call.tool_name
        if call_id in answers:
            continue
        if call_id in state.finished:
            answers[call_id] = state.finished[call_id].part
        elif call_id in state.started and call_id not in idle:
            answers[call_id] = ToolReturnPart(name, INTERRUPTED, call_id, 'interrupted')
            await deps.let_go(call_id)
        else:
            answers[call_id] = ToolReturnPart(name, NOT_NEEDED, call_id, 'skipped')
        if call_id in deps.left:
            await deps.effects.record(CallFinished(answers[call_id], *deps.left.pop(call_id)))
    deps.waiting = []


async def _sort_out(
    deps: RunDeps, ready: list[tool_calls.Call], answers: dict[str, ToolReturnPart]
) -> list[tool_calls.Call]:
    from agent_graph.engine.gates import sort_out  # the usual run needs none of it

    ready = await sort_out(deps, ready, answers)
    return tool_calls.reserve(deps, ready, answers) if ready else ready


async def _answered(
    deps: RunDeps, before: int, functions: Sequence[ToolCallPart], answers: dict[str, ToolReturnPart]
) -> list[tool_calls.Call]:
    from agent_graph.engine.gates import answered

    return await answered(deps, before, functions, answers)


def _in_call_order(deps: RunDeps, calls: Sequence[ToolCallPart]) -> tuple[Pending, ...]:
    place = {c.tool_call_id: i for i, c in enumerate(calls)}
    return tuple(sorted(deps.waiting, key=lambda p: place[p.path[0] if p.path else p.tool_call_id]))


def _check_budget(deps: RunDeps, part: ToolReturnPart) -> None:
    """Raise if this tool, or the output, has been sent back to the model as often as it may be."""
    plan, state, name = deps.plan, deps.state, part.tool_name
    output_tool = plan.output.tools.get(name)
    if output_tool is not None:
        allowed = plan.output_retries if output_tool.max_retries is None else output_tool.max_retries
        used = state.output_retries
    elif name in plan.tools:
        tool = plan.tools[name]
        allowed = plan.retries if tool.retries is None else tool.retries
        used = state.retries.get(name, 0)
    else:
        allowed, used = plan.retries, _unknown_before(deps)
    if used >= allowed:
        raise UnexpectedModelBehavior(
            f'tool {name!r} could not be called in {allowed + 1} attempts; the last problem: {part.content} '
            'Raise retries, or look at the last response in error.messages'
        )


def _unknown_before(deps: RunDeps) -> int:
    """How many responses in a row have called tools that do not exist, whatever names they made up."""
    plan, count = deps.plan, 0
    for message in reversed(deps.state.messages[:-1]):
        if message.kind == 'tool':
            if not any(p.outcome == 'retry' and p.tool_name not in plan.tools for p in message.parts):
                break
            count += 1
        elif message.kind != 'assistant':
            break
    return count


async def _check_outputs(
    deps: RunDeps, calls: Sequence[ToolCallPart], answers: dict[str, ToolReturnPart]
) -> Done | None:
    winner: Done | None = None
    for call in calls:
        if call.tool_call_id in answers:  # cut off
            if deps.sink is not None:
                await deps.sink(OutputToolCallEvent, part=call)
                await deps.sink(OutputToolResultEvent, part=answers[call.tool_call_id])
            continue
        if winner is not None and deps.plan.end_strategy != 'exhaustive':
            part = ToolReturnPart(call.tool_name, NOT_NEEDED, call.tool_call_id, 'skipped')
            answers[call.tool_call_id] = part
            if deps.sink is not None:
                await deps.sink(OutputToolCallEvent, part=call)
                await deps.sink(OutputToolResultEvent, part=part)
            continue
        done = await _check_output(deps, call, answers, first=winner is None)
        winner = winner or done
    return winner


async def _check_output(
    deps: RunDeps, call: ToolCallPart, answers: dict[str, ToolReturnPart], *, first: bool
) -> Done | None:
    """Check one output call; its answer goes into `answers`."""
    tool = deps.plan.output.tools[call.tool_name]
    if deps.sink is not None:
        await deps.sink(OutputToolCallEvent, part=call)
    value: Any = None
    stored: JsonValue = None
    try:
        value, stored = await _output_value(deps, tool, call)
        part = ToolReturnPart(call.tool_name, ACCEPTED if first else NOT_USED, call.tool_call_id)
    except (ArgumentsError, ModelRetry) as error:
        part = ToolReturnPart(call.tool_name, clean_text(error.message), call.tool_call_id, 'retry')
    answers[call.tool_call_id] = part
    if deps.sink is not None:
        await deps.sink(OutputToolResultEvent, part=part)
    if part.outcome != 'success':
        return None
    return Done(value, stored, call.tool_name, call.tool_call_id)


async def _output_value(deps: RunDeps, tool: OutputTool, call: ToolCallPart) -> tuple[Any, JsonValue]:
    """The output of one call and its stored form; an output function runs like a tool, once."""
    plan = deps.plan
    value = tool.check(call.args)
    if tool.schema is None:
        return await run_validators(deps, value), None
    finished = deps.state.finished.get(call.tool_call_id)
    if finished is not None:
        if finished.part.outcome == 'failed':
            raise ToolFailed(str(finished.part.content), tool_name=call.tool_name, tool_call_id=call.tool_call_id)
        if finished.part.outcome == 'retry':
            raise ModelRetry(str(finished.part.content))
        value = plan.output.load(finished.output, call.tool_name)
        return await run_validators(deps, value), finished.output
    if call.tool_call_id in deps.state.started:  # in flight when the process died: never run twice
        await deps.let_go(call.tool_call_id)
        part = ToolReturnPart(call.tool_name, INTERRUPTED, call.tool_call_id, 'retry')
        await deps.effects.record(CallFinished(part, *deps.left.pop(call.tool_call_id, (None, ()))))
        raise ModelRetry(INTERRUPTED)
    await deps.effects.record(CallStarted(call.tool_call_id, call.tool_name, call.args, output=True))
    active = ActiveCall(deps, call.tool_call_id, deps.around)
    try:
        value = await _call_output_function(deps, tool, active, value)
    except ModelRetry as error:
        part = ToolReturnPart(call.tool_name, clean_text(error.message), call.tool_call_id, 'retry')
        await deps.effects.record(CallFinished(part, active.usage(), tuple(active.spends)))
        raise
    except Exception as error:
        text = f'The output function raised {type(error).__name__} and the run was stopped.'
        part = ToolReturnPart(call.tool_name, text, call.tool_call_id, 'failed')
        await deps.effects.record(CallFinished(part, active.usage(), tuple(active.spends)))
        raise tool_calls.failure(deps, f'output function {call.tool_name!r}', call, error) from error
    _, stored = plan.output.dump(value)
    part = ToolReturnPart(call.tool_name, ACCEPTED, call.tool_call_id)
    await deps.effects.record(CallFinished(part, active.usage(), tuple(active.spends), stored))
    return await run_validators(deps, value), stored


async def _call_output_function(deps: RunDeps, tool: OutputTool, active: ActiveCall, arguments: dict[str, Any]) -> Any:
    schema = tool.schema
    assert schema is not None
    args, kwargs = schema.bind(arguments)
    if schema.takes_context:
        name, call_id = tool.definition.name, active.tool_call_id
        used, most = deps.state.output_retries, deps.plan.output_retries
        args = (RunContext(deps.user_deps, deps, name, call_id, used, most), *args)
    work = deps.effects.call(schema.function, args, kwargs, is_async=schema.is_async)
    value: Any = await deps.effects.task(tool_calls.inside(active, work))
    return value
