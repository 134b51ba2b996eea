"""The three nodes of an agent run: `UserPrompt -> ModelRequest -> HandleResponse -> (ModelRequest | End)`.

A node's fields are exactly the new data it brings, and entering it is one journal entry with that data. The edges of the
graph are the return annotations below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic_graph import BaseNode, Edge, End, GraphRunContext

from agent_graph.engine import dispatch, request, response
from agent_graph.engine.plan import RunDeps
from agent_graph.engine.state import RunState
from agent_graph.engine.stream import NodeStream, RequestStream
from agent_graph.errors import ConfigError
from agent_graph.events import NodeStarted
from agent_graph.journal.entries import Entered
from agent_graph.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserContent,
    UserMessage,
)
from agent_graph.model import RequestInfo, ResponseBuilder
from agent_graph.pending import Pending
from agent_graph.telemetry import (
    FINISH_REASONS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    PROVIDER,
    RESPONSE_ID,
    RESPONSE_MODEL,
    within,
)
from agent_graph.usage import NO_USAGE

__all__ = ['FinalResult', 'HandleResponse', 'ModelRequest', 'UserPrompt', 'enter']

Ctx = GraphRunContext[RunState, RunDeps]


@dataclass(slots=True)
class FinalResult:
    """What a run ended with: the output, the output tool that gave it, and the answers to the last response's calls.

    With `pending` the walk ends here only for now: the run waits for these.
    """

    output: Any
    tool_name: str | None = None
    tool_call_id: str | None = None
    message: ToolMessage | None = None
    pending: tuple[Pending, ...] = ()


@dataclass
class UserPrompt(BaseNode[RunState, RunDeps, FinalResult]):
    """The run begins: the prompt is taken up and the instructions are evaluated."""

    prompt: str | Sequence[UserContent] | None = None

    async def run(self, ctx: Ctx) -> Annotated[ModelRequest, Edge(label='instructions and prompt')]:
        deps = ctx.deps
        if deps.entered:  # resumed
            deps.entered = False
        elif deps.effects.batches and deps.may_hold:
            deps.effects.hold(Entered('UserPrompt'))
            deps.events.node = 'UserPrompt'
        else:
            await enter(deps, Entered('UserPrompt'))
        system = await request.system_messages(deps)
        message = request.first_message(ctx.state)
        if message is None and not system and not ctx.state.messages:
            raise ConfigError(
                'there is nothing to send: pass a prompt or message_history, or give the agent instructions'
            )
        return ModelRequest(message, system or None)


@dataclass
class ModelRequest(BaseNode[RunState, RunDeps, FinalResult]):
    """The model is asked, with one new message after all that was said before.

    `system` are the instructions, in a run's first request. `retry` marks a message that asks for another output.
    """

    message: UserMessage | ToolMessage | None
    system: tuple[SystemMessage, ...] | None = None
    retry: bool = False

    async def run(self, ctx: Ctx) -> Annotated[HandleResponse, Edge(label='the response')]:
        deps, state = ctx.deps, ctx.state
        final = state.limits is not None and request.is_final(deps)
        deps.builder = None
        if deps.entered:  # resumed: the request was counted when it was first made
            deps.entered = False
        else:
            again = state.at is not None and state.at.node == 'ModelRequest' and state.at.message is self.message
            if deps.budget.bounded:
                deps.budget.reserve_request(beyond_tokens=final and not state.final_asked)
            message = None if again else self.message  # the same node run again by hand brings nothing new
            entry = Entered('ModelRequest', None, message, self.system, self.retry, final, state.queued)
            if deps.around is not None:
                deps.around.count_request()
            await enter(deps, entry)
        info = await request.prepare_request(deps, final=final or state.final_asked)
        model = deps.model
        deps.builder = out = ResponseBuilder(deps.sink, model_name=model.name, provider_name=model.provider)
        if deps.tracing is None:
            await deps.effects.ask(model, tuple(state.messages), info, out)
        else:
            await _ask_traced(deps, tuple(state.messages), info, out)
        made = response.normalise(out.build(), state)
        deps.builder = None
        await _received(deps, made)
        at = state.at  # a replay may find there that the response was edited before it was handled
        return HandleResponse(made if at is None or at.response is None else at.response)

    def stream(self, ctx: Ctx) -> RequestStream:
        """Run this node and read the response as it arrives: `async with node.stream(run.ctx) as stream`.

        Leaving the block normally finishes the node; leaving it by an exception, or `stream.cancel()`, closes the
        connection at once and ends the run as cancelled, keeping the partial response.
        """
        return RequestStream(self, ctx)


@dataclass
class HandleResponse(BaseNode[RunState, RunDeps, FinalResult]):
    """The response is handled: tools are called, an output is checked, or the model is asked again."""

    response: AssistantMessage

    async def run(
        self, ctx: Ctx
    ) -> (
        Annotated[ModelRequest, Edge(label='tool results, or try again')]
        | Annotated[End[FinalResult], Edge(label='output')]
    ):
        deps, state = ctx.deps, ctx.state
        made = self.response
        deps.entered = False
        known = None if state.at is None else state.at.response
        if known is not made and known != made:  # a node made by hand
            if known is not None and not state.started and not state.finished:
                made = replace(made, usage=NO_USAGE)  # in place of a response whose usage has been counted
            else:
                known = None
            self.response = made = response.normalise(made, state, instead_of=known)
            await _received(deps, made)
        deps.events.node = 'HandleResponse'
        if deps.sink is not None:
            await deps.sink(NodeStarted, step=state.step)
        outcome = await dispatch.handle(deps, made)
        match outcome:
            case dispatch.Again():
                return ModelRequest(outcome.message, None, outcome.retry)
            case dispatch.Wait():
                return End(FinalResult(None, pending=outcome.pending))
            case dispatch.Done():
                return End(FinalResult(outcome.output, outcome.tool_name, outcome.tool_call_id, outcome.message))

    def stream(self, ctx: Ctx) -> NodeStream:
        """Run this node and read its tool events: `async with node.stream(run.ctx) as stream: async for event in stream`."""
        return NodeStream(self, ctx)


async def _ask_traced(deps: RunDeps, messages: tuple[Message, ...], info: RequestInfo, out: ResponseBuilder) -> None:
    """Ask in a task of its own, with a span for it; cancelling this cancels that."""
    assert deps.tracing is not None
    span = deps.tracing.child('model', deps.model.name, {PROVIDER: deps.model.provider})

    async def ask() -> None:
        await deps.effects.ask(deps.model, messages, info, out)
        span.set_attribute(INPUT_TOKENS, out.usage.input_tokens)
        span.set_attribute(OUTPUT_TOKENS, out.usage.output_tokens)
        described = (RESPONSE_MODEL, out.model_name), (RESPONSE_ID, out.provider_response_id)
        span.set_attributes({name: value for name, value in described if value})
        if out.finish_reason:
            span.set_attribute(FINISH_REASONS, (out.finish_reason,))

    await within(span, ask)


async def _received(deps: RunDeps, made: AssistantMessage) -> None:
    """Commit a response, and that it is to be handled, before anything else happens: it is never asked for again."""
    offered = None if deps.offered is None or deps.offered is deps.plan.definitions else deps.offered_names
    entry = Entered('HandleResponse', response=made, offered=offered)
    recorded = None
    if deps.effects.batches and deps.may_hold:
        deps.effects.hold(entry)
    else:
        recorded = deps.effects.record(entry)
    if deps.around is not None or deps.budget.bounded:
        deps.count_response()  # before anything can come in between: it has been used, whatever becomes of the record
    if recorded is not None:
        await recorded
    if deps.budget.bounded:
        deps.budget.check()


async def enter(deps: RunDeps, entry: Entered) -> None:
    """Commit that a node was entered, and show it."""
    await deps.effects.record(entry)
    deps.events.node = entry.node
    if deps.sink is not None:
        await deps.sink(NodeStarted, step=deps.state.step)
