"""The entries of a journal: the path a run took, each entry exactly the new data it brings.

`Started`, then for every node `Entered` with the data the node carries, for every tool call `CallStarted` before and
`CallFinished` after its effect, at last `Ended`. The state of a run is the fold of its entries
(`agent_graph.engine.state`); no entry repeats what an earlier one holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from agent_graph.messages import (
    AssistantMessage,
    JsonValue,
    Message,
    SystemMessage,
    Tagged,
    ToolMessage,
    ToolReturnPart,
    UserContent,
    UserMessage,
)
from agent_graph.pending import Confirm, Pending
from agent_graph.usage import Spend, Usage, UsageLimits

__all__ = [
    'Answered',
    'CallFinished',
    'CallStarted',
    'Edited',
    'Ended',
    'Enqueued',
    'Entered',
    'Entry',
    'Parent',
    'Paused',
    'Record',
    'RunInfo',
    'RunStatus',
    'Started',
    'StepDone',
]

RunStatus: TypeAlias = Literal['running', 'paused', 'completed', 'failed', 'cancelled']
"""`running` also describes a run whose process died: nothing has ended it."""


@dataclass(frozen=True, slots=True)
class Parent:
    """The tool call another run was started from."""

    run_id: str
    tool_call_id: str


@dataclass(frozen=True, slots=True)
class Started:
    """The run began: for which agent, with what was said before, and under which limits."""

    agent: str | None
    prompt: str | tuple[UserContent, ...] | None = None
    history: tuple[Message, ...] = ()
    metadata: dict[str, JsonValue] | None = None
    limits: UsageLimits | None = None
    parent: Parent | None = None
    fingerprint: dict[str, JsonValue] | None = None
    confirm: Confirm = 'per_tool'
    kind: Literal['started'] = field(default='started', kw_only=True)


@dataclass(frozen=True, slots=True)
class Entered:
    """A node was entered, with the new data it carries; only the fields of that node are set.

    `UserPrompt`: `prompt`. `ModelRequest`: `message` (the one new message), `system` (the instructions, in a run's
    first request), `retry` (the message asks for another output), `final` (a limit withdrew the function tools),
    `queued` (messages given to the running run).
    `HandleResponse`: `response`, `offered` (the tools the model had been shown, when not all). `data` is for nodes of other
    graphs, `usage` and `spends` for what agents run in the node before used. `by_hand` marks a message that a person put in
    place of the one the code brought.
    """

    node: str
    prompt: str | tuple[UserContent, ...] | None = None
    message: UserMessage | ToolMessage | None = None
    system: tuple[SystemMessage, ...] | None = None
    retry: bool = False
    final: bool = False
    queued: tuple[UserMessage, ...] = ()
    offered: tuple[str, ...] | None = None
    response: AssistantMessage | None = None
    data: JsonValue = None
    usage: Usage | None = None
    spends: tuple[Spend, ...] = ()
    by_hand: bool = False
    kind: Literal['entered'] = field(default='entered', kw_only=True)


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The intent to run a tool call, committed before its function starts. `output` marks an output function."""

    tool_call_id: str
    tool_name: str
    args: JsonValue
    attempt: int = 1
    output: bool = False
    kind: Literal['call_started'] = field(default='call_started', kw_only=True)


@dataclass(frozen=True, slots=True)
class CallFinished:
    """The answer to a tool call, committed before the run goes on.

    `usage` and `spends` are what agents run inside the call used. `output` is the value an output function gave;
    `stop` marks an answer that ends the run.
    """

    part: ToolReturnPart
    usage: Usage | None = None
    spends: tuple[Spend, ...] = ()
    output: JsonValue = None
    stop: bool = False
    kind: Literal['call_finished'] = field(default='call_finished', kw_only=True)


@dataclass(frozen=True, slots=True)
class Ended:
    """The run ended. `message` answers the last response's tool calls, so that the history is valid.

    `output_stored` is false when the output has no JSON form and so is not in `output`. `usage` and `spends` are what
    agents run in the last node of another graph used, `data` what its state was at the end.
    """

    status: Literal['completed', 'failed', 'cancelled']
    output: JsonValue = None
    message: ToolMessage | None = None
    tool_name: str | None = None
    error: str | None = None
    error_type: str | None = None
    output_stored: bool = True
    usage: Usage | None = None
    spends: tuple[Spend, ...] = ()
    data: JsonValue = None
    kind: Literal['ended'] = field(default='ended', kw_only=True)


@dataclass(frozen=True, slots=True)
class Paused:
    """The run waits for people or other systems, and everything that could run has run.

    `usage` and `spends` are what agents inside the waiting calls have used so far; it is counted for good when such a call
    finishes.
    """

    pending: tuple[Pending, ...]
    usage: Usage | None = None
    spends: tuple[Spend, ...] = ()
    kind: Literal['paused'] = field(default='paused', kw_only=True)


@dataclass(frozen=True, slots=True)
class Answered:
    """What a pending call was waiting for; consumed once.

    `approved`: run it, with `args` instead of the model's if set. `denied`: the model is told `message`, and the call of
    `tool_name` with `args` is not run later either (not set after a crash). `answer`: `value` answers the tool's question,
    and no other one: `question` is its mark (`Pending.mark`; not set in older journals).
    """

    tool_call_id: str
    decision: Literal['approved', 'denied', 'answer']
    args: JsonValue = None
    tool_name: str | None = None
    message: str | None = None
    value: JsonValue = None
    question: str | None = None
    kind: Literal['answered'] = field(default='answered', kw_only=True)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A message to be sent along with the next request."""

    message: UserMessage
    kind: Literal['enqueued'] = field(default='enqueued', kw_only=True)


@dataclass(frozen=True, slots=True)
class Edited:
    """A run was given another past: the conversation, metadata or limits as they are from here on.

    In a fork, or when the agent had changed: then `fingerprint` says what it is now. Where a response is about to be
    handled and the conversation ends with another one, that is handled instead. `data` is for other graphs: the node with
    its fields, or the state, where they are others.
    """

    messages: tuple[Message, ...] | None = None
    metadata: dict[str, JsonValue] | None = None
    limits: UsageLimits | None = None
    fingerprint: dict[str, JsonValue] | None = None
    data: JsonValue = None
    kind: Literal['edited'] = field(default='edited', kw_only=True)


@dataclass(frozen=True, slots=True)
class StepDone:
    """An effect inside a tool call or a node that must not be repeated, with what it returned. `scope` is the call's id,
    or names the node."""

    scope: str
    name: str
    value: JsonValue = None
    kind: Literal['step_done'] = field(default='step_done', kw_only=True)


Entry: TypeAlias = Annotated[
    Started | Entered | CallStarted | CallFinished | Paused | Answered | Enqueued | Edited | StepDone | Ended, Tagged()
]
"""Anything a journal holds."""


@dataclass(frozen=True, slots=True)
class Record:
    """An entry in its place: `seq` counts from 1 within a run, `time` is in Unix seconds."""

    seq: int
    time: float
    entry: Entry


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as a list shows it. Times are Unix seconds; `last_seq` is its newest entry.

    `owner` is who drove it last, `None` where the store does not tell; `expires` is when that lease runs out, 0 once the
    run was given free. Whether a process that has not given its run free still lives is another question.
    """

    run_id: str
    agent: str | None
    status: RunStatus
    created: float
    updated: float
    last_seq: int
    parent: Parent | None = None
    forked_from: tuple[str, int] | None = None
    owner: str | None = None
    expires: float = 0.0
