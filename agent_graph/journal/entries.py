"""The entries of a journal: the path a run took, each entry exactly the new data it brings.

`Started`, then for every node `Entered` with the data the node carries, for every tool call `CallStarted` before and
`CallFinished` after its effect, at last `Ended`. The state of a run is the fold of its entries
(`agent_graph.engine.state`); no entry repeats what an earlier one holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias


from agent_graph.messages import AssistantMessage, FilePart, JsonValue, Message, Tagged, SystemMessage, ToolMessage, ToolReturnPart, UserMessage
from agent_graph.usage import Spend, Usage, UsageLimits

__all__ = [
    'CallFinished',
    'CallStarted',
    'Ended',
    'Entered',
    'Entry',
    'Parent',
    'Record',
    'RunInfo',
    'RunStatus',
    'Started',
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
    prompt: str | tuple[str | FilePart, ...] | None = None
    history: tuple[Message, ...] = ()
    metadata: dict[str, JsonValue] | None = None
    limits: UsageLimits | None = None
    parent: Parent | None = None
    fingerprint: dict[str, JsonValue] | None = None
    kind: Literal['started'] = field(default='started', kw_only=True)


@dataclass(frozen=True, slots=True)
class Entered:
    """A node was entered, with the new data it carries; only the fields of that node are set.

    `UserPrompt`: `prompt`. `ModelRequest`: `message` (the one new message), `system` (the instructions, in a run's
    first request), `retry` (the message asks for another output), `final` (a limit withdrew the function tools).
    `HandleResponse`: `response`. `data` is for nodes of other graphs.
    """

    node: str
    prompt: str | tuple[str | FilePart, ...] | None = None
    message: UserMessage | ToolMessage | None = None
    system: tuple[SystemMessage, ...] | None = None
    retry: bool = False
    final: bool = False
    response: AssistantMessage | None = None
    data: JsonValue = None
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

    `output_stored` is false when the output has no JSON form and so is not in `output`.
    """

    status: Literal['completed', 'failed', 'cancelled']
    output: JsonValue = None
    message: ToolMessage | None = None
    tool_name: str | None = None
    error: str | None = None
    error_type: str | None = None
    output_stored: bool = True
    kind: Literal['ended'] = field(default='ended', kw_only=True)


Entry: TypeAlias = Annotated[Started | Entered | CallStarted | CallFinished | Ended, Tagged()]
"""Anything a journal holds."""


@dataclass(frozen=True, slots=True)
class Record:
    """An entry in its place: `seq` counts from 1 within a run, `time` is in Unix seconds."""

    seq: int
    time: float
    entry: Entry


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as a list shows it. Times are Unix seconds; `last_seq` is its newest entry."""

    run_id: str
    agent: str | None
    status: RunStatus
    created: float
    updated: float
    last_seq: int
    parent: Parent | None = None
    forked_from: tuple[str, int] | None = None
