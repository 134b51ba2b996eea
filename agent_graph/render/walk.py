"""Reading a run's journal records as the walk they are: its steps, what each did, how long it took and what it cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

from agent_graph.journal.checks import status_of
from agent_graph.journal.entries import (
    Answered,
    CallFinished,
    CallStarted,
    Edited,
    Ended,
    Enqueued,
    Entered,
    Entry,
    Paused,
    Record,
    RunStatus,
    Started,
    StepDone,
)
from agent_graph.messages import (
    AssistantMessage,
    JsonValue,
    Outcome,
    ToolCallPart,
    ToolMessage,
    ToolReturnPart,
    UserContent,
)
from agent_graph.pending import Pending
from agent_graph.usage import Spend, Usage, cost_of

__all__ = ['Call', 'Step', 'StepState', 'Walk', 'read']

StepState: TypeAlias = Literal['done', 'current', 'failed', 'cancelled']
"""How a step stands: `current` is the last step of a run that has not ended."""


@dataclass(slots=True)
class Call:
    """One tool call of a response, or what a node of a graph asked or recorded (`ctx.ask`, `ctx.step`).

    `outcome` is `None` until it is answered, `seconds` until it has run; `waiting` says what a paused run waits for.
    """

    tool_call_id: str
    tool_name: str
    args: JsonValue
    outcome: Outcome | None = None
    result: JsonValue = None
    started: float | None = None
    seconds: float | None = None
    attempt: int = 0
    waiting: Pending | None = None
    usage: Usage | None = None
    spends: tuple[Spend, ...] = ()

    @property
    def cost(self) -> Decimal | None:
        """What agents run inside the call cost, in USD; `None` when nothing did or a price is unknown."""
        return cost_of(self.spends) if self.spends else None


@dataclass(slots=True)
class Step:
    """One node entered. `number` counts from 1, `seq` is its journal entry; `seconds` is `None` while it lasts.

    `prompt` is what a `UserPrompt` took up, `reply` the response a `ModelRequest` got. `inside` and `spends` are what agents
    run in the node of a graph used.
    """

    number: int
    seq: int
    node: str
    entry: Entered
    started: float
    seconds: float | None = None
    state: StepState = 'done'
    calls: list[Call] = field(default_factory=list[Call])
    prompt: str | tuple[UserContent, ...] | None = None
    reply: AssistantMessage | None = None
    inside: Usage | None = None
    spends: tuple[Spend, ...] = ()

    @property
    def usage(self) -> Usage | None:
        """The tokens of this step's own model response, or of agents run in it."""
        return self.reply.usage if self.reply is not None else self.inside

    @property
    def cost(self) -> Decimal | None:
        """The price of this step's own model response, or of agents run in it, in USD; `None` when unknown."""
        spends = [_spend(self.reply)] if self.reply is not None else self.spends
        return cost_of(spends) if spends else None


@dataclass(slots=True)
class Walk:
    """A whole run as its journal tells it. `seconds` counts to the newest record, which is `last`."""

    last: Entry | None = None
    started: Started | None = None
    ended: Ended | None = None
    steps: list[Step] = field(default_factory=list[Step])
    seconds: float = 0.0

    @property
    def status(self) -> RunStatus:
        return status_of(self.last) if self.last is not None else 'running'

    @property
    def of_graph(self) -> bool:
        """Whether this is a run of a graph of one's own, not of an agent."""
        return any(step.entry.data is not None for step in self.steps)

    @property
    def usage(self) -> Usage:
        """Everything the run used, agents run inside its tools included."""
        total = Usage(
            requests=sum(step.node == 'ModelRequest' for step in self.steps),
            tool_calls=sum(call.attempt > 0 for step in self.steps for call in step.calls),
        )
        for step in self.steps:
            if step.usage is not None:
                total = total + step.usage
            for call in step.calls:
                if call.usage is not None:
                    total = total + call.usage
        return total

    @property
    def cost(self) -> Decimal | None:
        """The price of all responses in USD, agents run inside tools included; `None` if any is unknown."""
        if any(step.inside is not None and step.inside.total_tokens and not step.spends for step in self.steps):
            return None  # agents inside that wait still: their responses are counted when the node is left
        replies = [_spend(step.reply) for step in self.steps if step.reply is not None]
        inside = [s for step in self.steps for s in step.spends]
        return cost_of([*replies, *inside, *(s for step in self.steps for call in step.calls for s in call.spends)])


def read(records: Iterable[Record]) -> Walk:
    """The walk these records of one run describe; they may end anywhere."""
    walk = Walk()
    first = last = None
    for record in records:
        first = record.time if first is None else first
        last = record.time
        _take(walk, record)
    if first is not None and last is not None:
        walk.seconds = max(0.0, last - first)
    if walk.steps and walk.ended is None:
        walk.steps[-1].state = 'current'
    return walk


def _take(walk: Walk, record: Record) -> None:
    walk.last = entry = record.entry
    match entry:
        case Started():
            walk.started = entry
        case Entered():
            _enter(walk, record, entry)
        case CallStarted():
            call = _find(walk, entry.tool_call_id, entry.tool_name)
            call.args, call.started, call.attempt = _parsed(entry.args), record.time, entry.attempt
            call.waiting = None
        case CallFinished():
            call = _find(walk, entry.part.tool_call_id, entry.part.tool_name)
            call.seconds = max(0.0, record.time - call.started) if call.started is not None else None
            call.usage, call.spends = entry.usage, entry.spends
            _answer(call, entry.part)
        case Ended():
            _end(walk, record, entry)
        case Paused():
            _pause(walk, entry)
        case Answered():
            _answered(walk, entry)
        case StepDone():
            _step_done(walk, entry)
        case Enqueued() | Edited():  # seen again in what follows
            return


def _pause(walk: Walk, entry: Paused) -> None:
    step = walk.steps[-1] if walk.steps else None
    if step is not None and step.entry.data is not None:  # the node is run again for each answer, and waits anew
        step.calls = [call for call in step.calls if call.waiting is None]
        step.calls += [_waiting(pending) for pending in entry.pending]
        step.inside = entry.usage
        return
    for pending in entry.pending:
        own = pending.path[0] if pending.path else pending.tool_call_id
        _find(walk, own, pending.tool_name).waiting = pending


def _waiting(pending: Pending) -> Call:
    """What a node of a graph waits for: its own question, or a call of an agent run in it."""
    if pending.path:
        return Call(pending.token, pending.tool_name, pending.args, waiting=pending)
    return Call(pending.token, 'ask', None, waiting=pending)


def _answered(walk: Walk, entry: Answered) -> None:
    step = walk.steps[-1] if walk.steps else None
    if step is None or step.entry.data is None:
        _find(walk, entry.tool_call_id, entry.tool_name or '').waiting = None
        return
    for call in step.calls:
        asked = call.waiting
        if asked is not None and not asked.path:
            break
    else:  # answered at once, by `on_pending`: what was asked is not recorded
        call, asked = Call(f'{entry.tool_call_id}:{len(step.calls)}', 'ask', None), None
        step.calls.append(call)
    call.args, call.waiting = asked.question if asked is not None else None, None
    denied = entry.decision == 'denied'
    call.outcome, call.result = ('denied', entry.message) if denied else ('success', entry.value)


def _leave(step: Step, time: float, inside: Usage | None, spends: tuple[Spend, ...], *, done: bool) -> None:
    """A node has come to its end; what waited inside an agent run in it has its end in the journal of that run."""
    step.seconds = max(0.0, time - step.started)
    if step.entry.data is None:
        return
    step.inside, step.spends = inside, spends
    if done:
        step.calls = [call for call in step.calls if call.waiting is None]
    for call in step.calls:
        if call.waiting is not None:
            call.args = call.waiting.args if call.waiting.path else call.waiting.question
            call.waiting, call.outcome, call.result = None, 'interrupted', 'never answered'


def _enter(walk: Walk, record: Record, entry: Entered) -> None:
    if walk.steps:
        before = walk.steps[-1]
        _leave(before, record.time, entry.usage, entry.spends, done=True)
        if before.node == 'ModelRequest' and entry.response is not None:
            before.reply = entry.response
        if isinstance(entry.message, ToolMessage):
            _answer_all(before, entry.message.parts)
    step = Step(len(walk.steps) + 1, record.seq, entry.node, entry, record.time)
    if entry.node == 'UserPrompt':
        step.prompt = entry.prompt or (walk.started.prompt if walk.started is not None else None)
    if entry.response is not None:
        step.calls = [_asked(part) for part in entry.response.parts if isinstance(part, ToolCallPart)]
    walk.steps.append(step)


def _end(walk: Walk, record: Record, entry: Ended) -> None:
    walk.ended = entry
    if not walk.steps:
        return
    last = walk.steps[-1]
    _leave(last, record.time, entry.usage, entry.spends, done=entry.status == 'completed')
    if entry.message is not None:
        _answer_all(last, entry.message.parts)
    if entry.status != 'completed':
        last.state = 'failed' if entry.status == 'failed' else 'cancelled'


def _step_done(walk: Walk, entry: StepDone) -> None:
    """An effect of a node itself is shown like a call; one inside a tool call is part of that."""
    if walk.steps and all(call.tool_call_id != entry.scope for call in walk.steps[-1].calls):
        walk.steps[-1].calls.append(Call(f'{entry.scope}:{entry.name}', entry.name, None, 'success', entry.value))


def _asked(part: ToolCallPart) -> Call:
    return Call(part.tool_call_id, part.tool_name, _parsed(part.args))


def _parsed(args: JsonValue) -> JsonValue:
    if not isinstance(args, str):
        return args
    try:
        return json.loads(args)
    except ValueError:
        return args


def _find(walk: Walk, tool_call_id: str, tool_name: str) -> Call:
    """The call of the newest step; one its response does not name is kept all the same, so that nothing is hidden."""
    calls = walk.steps[-1].calls if walk.steps else []
    for call in calls:
        if call.tool_call_id == tool_call_id:
            return call
    call = Call(tool_call_id, tool_name, None)
    calls.append(call)
    return call


def _answer(call: Call, part: ToolReturnPart) -> None:
    call.outcome, call.result, call.waiting = part.outcome, part.content, None


def _answer_all(step: Step, parts: Sequence[ToolReturnPart]) -> None:
    found = {part.tool_call_id: part for part in parts}
    for call in step.calls:
        if (part := found.get(call.tool_call_id)) is not None:
            _answer(call, part)


def _spend(reply: AssistantMessage) -> Spend:
    return Spend(reply.provider_name or '', reply.model_name or '', reply.usage)
