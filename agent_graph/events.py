"""What an observer of a run sees, in order: the `RunEvent` union.

Every event carries the run it belongs to, a number that grows by one from event to event of that run, the node it
happened in, the path of tool call ids from the outermost run to this one (empty for the outermost), and the time.
No event is built when nobody watches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agent_graph.messages import AssistantPart, ToolCallPart, ToolReturnPart
from agent_graph.pending import Pending

__all__ = [
    'CustomEvent',
    'Event',
    'FinalResultEvent',
    'FunctionToolCallEvent',
    'FunctionToolResultEvent',
    'NodeStarted',
    'OutputToolCallEvent',
    'OutputToolResultEvent',
    'PartDelta',
    'PartDeltaEvent',
    'PartEndEvent',
    'PartStartEvent',
    'RequestRetried',
    'ResponseRestarted',
    'RunEnded',
    'RunEvent',
    'RunPaused',
    'RunStarted',
    'TextPartDelta',
    'ThinkingPartDelta',
    'ToolCallPartDelta',
]


@dataclass(frozen=True, slots=True)
class TextPartDelta:
    """More text."""

    content_delta: str
    kind: Literal['text'] = field(default='text', kw_only=True)


@dataclass(frozen=True, slots=True)
class ThinkingPartDelta:
    """More reasoning, or its signature."""

    content_delta: str
    signature_delta: str | None = None
    kind: Literal['thinking'] = field(default='thinking', kw_only=True)


@dataclass(frozen=True, slots=True)
class ToolCallPartDelta:
    """More of a tool call: argument text, and a piece of the name where a server splits that."""

    args_delta: str
    tool_name_delta: str = ''
    tool_call_id: str = ''
    kind: Literal['tool_call'] = field(default='tool_call', kw_only=True)


PartDelta: TypeAlias = TextPartDelta | ThinkingPartDelta | ToolCallPartDelta
"""What a `PartDeltaEvent` brings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have in common. `time` is in Unix seconds."""

    run_id: str
    seq: int
    node: str = ''
    path: tuple[str, ...] = ()
    time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The run began, or goes on after a stop (`resumed`)."""

    agent: str | None = None
    resumed: bool = False
    kind: Literal['run_started'] = 'run_started'


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(Event):
    """The node named by `node` was entered; `step` counts model requests, from 1."""

    step: int = 0
    kind: Literal['node_started'] = 'node_started'


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStartEvent(Event):
    """A part of the response at `index` began; `part` is its first piece."""

    index: int
    part: AssistantPart
    kind: Literal['part_start'] = 'part_start'


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDeltaEvent(Event):
    """The part at `index` goes on."""

    index: int
    delta: PartDelta
    kind: Literal['part_delta'] = 'part_delta'


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEndEvent(Event):
    """The part at `index` is complete."""

    index: int
    part: AssistantPart
    kind: Literal['part_end'] = 'part_end'


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRetried(Event):
    """A request to a model failed and another follows after `delay` seconds: the same model again, or the next one.

    `attempt` is the number of the one that follows, from 2 on; `error` is the text of what stopped the last one;
    `model` and `provider` are who is asked next.
    """

    attempt: int
    delay: float
    error: str
    model: str
    provider: str
    kind: Literal['request_retried'] = 'request_retried'


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRestarted(Event):
    """What was shown of this response so far is void: it begins again with the next part, at index 0."""

    reason: str
    kind: Literal['response_restarted'] = 'response_restarted'


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionToolCallEvent(Event):
    """A function tool is about to be called."""

    part: ToolCallPart
    kind: Literal['function_tool_call'] = 'function_tool_call'

    @property
    def tool_call_id(self) -> str:
        return self.part.tool_call_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionToolResultEvent(Event):
    """A function tool call was answered; these come in the order the calls finish. `show` marks `show_result` tools."""

    part: ToolReturnPart
    show: bool = False
    kind: Literal['function_tool_result'] = 'function_tool_result'

    @property
    def tool_call_id(self) -> str:
        return self.part.tool_call_id


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputToolCallEvent(Event):
    """The model called an output tool: its arguments are a candidate for the run's output."""

    part: ToolCallPart
    kind: Literal['output_tool_call'] = 'output_tool_call'


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputToolResultEvent(Event):
    """An output tool call was accepted, refused or skipped."""

    part: ToolReturnPart
    kind: Literal['output_tool_result'] = 'output_tool_result'


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomEvent(Event):
    """Something a tool wanted seen: from `ctx.emit(value)`, or yielded by a tool that is an async generator."""

    value: Any
    tool_name: str | None = None
    tool_call_id: str | None = None
    kind: Literal['custom'] = 'custom'


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalResultEvent(Event):
    """The run's output is settled and cannot be taken back. `tool_name` is the output tool that gave it, if any."""

    output: Any
    tool_name: str | None = None
    tool_call_id: str | None = None
    kind: Literal['final_result'] = 'final_result'


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPaused(Event):
    """The run waits for people or other systems; `pending` says for what."""

    pending: tuple[Pending, ...] = ()
    kind: Literal['run_paused'] = 'run_paused'


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """The last event of a run: `status` is how it ended, `error` the text of what stopped it.

    `stopped`: it was left before its end and can be resumed.
    """

    status: Literal['completed', 'failed', 'cancelled', 'paused', 'stopped']
    error: str | None = None
    kind: Literal['run_ended'] = 'run_ended'


RunEvent: TypeAlias = (
    RunStarted
    | NodeStarted
    | PartStartEvent
    | PartDeltaEvent
    | PartEndEvent
    | RequestRetried
    | ResponseRestarted
    | FunctionToolCallEvent
    | FunctionToolResultEvent
    | OutputToolCallEvent
    | OutputToolResultEvent
    | CustomEvent
    | FinalResultEvent
    | RunPaused
    | RunEnded
)
"""Any event of a run; tell them apart with `match` or by `kind`."""
