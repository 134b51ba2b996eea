"""Spans of runs, model requests and tool calls, and the one table of their names.

Off until `instrument()` is called; without it nothing here costs a run anything and OpenTelemetry is never imported.
Names follow the OpenTelemetry semantic conventions for generative AI (`gen_ai.*`). No message text is
recorded.

A span is never held open across a `yield`, and no context is attached where it would have to be detached later: a run's
span is passed on as an object, and a model request or a tool call gets its own task, whose context ends with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from agent_graph.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from agent_graph.usage import Usage

__all__ = ['SPANS', 'RunTracing', 'Tracing', 'attach', 'finish', 'instrument', 'start_run', 'uninstrument', 'within']

T = TypeVar('T')

SPANS = {
    'run': ('invoke_agent', 'gen_ai.agent.name'),
    'model': ('chat', 'gen_ai.request.model'),
    'tool': ('execute_tool', 'gen_ai.tool.name'),
}
"""Kind of span -> (`gen_ai.operation.name`, the attribute that holds what its name ends with)."""

OPERATION = 'gen_ai.operation.name'
PROVIDER = 'gen_ai.provider.name'
RESPONSE_MODEL = 'gen_ai.response.model'
RESPONSE_ID = 'gen_ai.response.id'
FINISH_REASONS = 'gen_ai.response.finish_reasons'
INPUT_TOKENS = 'gen_ai.usage.input_tokens'
OUTPUT_TOKENS = 'gen_ai.usage.output_tokens'
TOOL_CALL_ID = 'gen_ai.tool.call.id'
RUN_ID = 'agent_graph.run_id'
STATUS = 'agent_graph.status'


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where spans go."""

    tracer: Tracer


@dataclass(slots=True)
class RunTracing:
    """The open span of one run; spans of its requests and tools are its children."""

    tracer: Tracer
    span: Span
    context: Context
    ended: bool = False

    def child(self, kind: str, name: str, attributes: Mapping[str, Any]) -> Span:
        """Start a span of `kind` for `name` below the run's span."""
        return _start(self.tracer, kind, name, attributes, self.context)

    def end(self, status: str, usage: Usage, error: BaseException | None) -> None:
        """End the run's span, once."""
        if self.ended:
            return
        self.ended = True
        self.span.set_attribute(STATUS, status)
        self.span.set_attribute(INPUT_TOKENS, usage.input_tokens)
        self.span.set_attribute(OUTPUT_TOKENS, usage.output_tokens)
        finish(self.span, error)


_tracing: Tracing | None = None


def instrument(tracer_provider: TracerProvider | None = None) -> None:
    """Record spans from now on, with `tracer_provider` or the process's own (the one `logfire.configure()` sets).

    Raises `ConfigError` if OpenTelemetry is not installed.
    """
    global _tracing
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise ConfigError(
            'tracing needs OpenTelemetry, which is not installed: pip install "agent-graph[logfire]"'
        ) from error
    _tracing = Tracing((tracer_provider or trace.get_tracer_provider()).get_tracer('agent_graph'))


def uninstrument() -> None:
    """Record no further spans."""
    global _tracing
    _tracing = None


def start_run(agent: str | None, run_id: str) -> RunTracing | None:
    """Start the span of a run below the caller's current span; `None` when tracing is off."""
    tracing = _tracing
    if tracing is None:
        return None
    from opentelemetry import context, trace

    span = _start(tracing.tracer, 'run', agent or 'agent', {RUN_ID: run_id}, context.get_current())
    return RunTracing(tracing.tracer, span, trace.set_span_in_context(span))


def attach(span: Span) -> None:
    """Make `span` current in the running task, for as long as that task lives: only for tasks made for the span."""
    from opentelemetry import context, trace

    context.attach(trace.set_span_in_context(span))


def finish(span: Span, error: BaseException | None) -> None:
    """End a span, with the status `error` gives it."""
    from opentelemetry.trace import Status, StatusCode

    if error is not None:
        span.set_status(Status(StatusCode.ERROR, f'{type(error).__name__}: {error}'))
    span.end()


async def within(span: Span, work: Callable[[], Awaitable[T]]) -> T:
    """Do `work` with `span` current, in a task of its own, and end the span with how that went.

    Cancelling this cancels the work; the span also ends when the task is cancelled before it has begun.
    """
    begun = False

    async def inside() -> T:
        nonlocal begun
        begun = True
        attach(span)
        try:
            result = await work()
        except BaseException as error:
            finish(span, error)
            raise
        finish(span, None)
        return result

    try:
        return await asyncio.create_task(inside())
    except BaseException as error:
        if not begun:
            finish(span, error)
        raise


def _start(tracer: Tracer, kind: str, name: str, attributes: Mapping[str, Any], parent: Context) -> Span:
    operation, name_attribute = SPANS[kind]
    return tracer.start_span(
        f'{operation} {name}', context=parent, attributes={OPERATION: operation, name_attribute: name, **attributes}
    )
