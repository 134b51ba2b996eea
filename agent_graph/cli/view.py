"""What a run looks like as it goes and when it has ended: for people (`LiveView`) and for programs (`JsonView`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from agent_graph.cli.entries import parsed
from agent_graph.cli.facts import (
    NOWHERE,
    Place,
    cost_fact,
    how_to_answer,
    model_fact,
    model_names,
    output_text,
    usage_fact,
)
from agent_graph.cli.machine import pending_data, plain, write_json
from agent_graph.cli.terminal import Terminal
from agent_graph.events import (
    CustomEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    NodeStarted,
    OutputToolCallEvent,
    OutputToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    RequestRetried,
    ResponseRestarted,
    RunEnded,
    RunEvent,
    RunPaused,
    RunStarted,
    TextPartDelta,
    ThinkingPartDelta,
    ToolCallPartDelta,
)
from agent_graph.journal.entries import Record, RunStatus
from agent_graph.messages import FilePart, TextPart, ThinkingPart, ToolCallPart, ToolReturnPart
from agent_graph.pending import Pending
from agent_graph.render import RunPicture
from agent_graph.render.walk import read
from agent_graph.render.wording import call_text, seconds_text, value_text, waiting_text

__all__ = ['JsonView', 'LiveView', 'Report', 'View']

_THINKING = 'dim italic'
_WIDE = 160


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended, or what it waits for, for the closing lines. `place` is where its records are.

    With `ended_before` nothing was done: it had ended when it was to be gone on with.
    """

    run_id: str
    status: RunStatus
    records: Sequence[Record]
    output: Any = None
    error: str | None = None
    place: Place = NOWHERE
    pending: Sequence[Pending] = ()
    ended_before: bool = False


class View(Protocol):
    """Shows a run."""

    def begin(self, agent: str, model: str, prompt: str) -> None:
        """Show what is about to run."""
        ...

    def show(self, event: RunEvent) -> None:
        """Show one event."""
        ...

    def finish(self, report: Report) -> None:
        """Show how the run ended."""
        ...

    def close(self) -> None:
        """Nothing more will be shown."""
        ...


class JsonView:
    """One JSON object a line: every event as it comes, at last the report (`kind` is `report`)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def begin(self, agent: str, model: str, prompt: str) -> None:
        pass

    def show(self, event: RunEvent) -> None:
        write_json(event, self._stream)

    def finish(self, report: Report) -> None:
        walk = read(report.records)
        cost = walk.cost
        write_json(
            {
                'kind': 'report',
                'run_id': report.run_id,
                'status': report.status,
                'output': report.output,
                'error': report.error,
                'usage': walk.usage,
                'cost': None if cost is None else str(cost),
                'models': model_names(report.records),
                'journal': report.place.journal,
                'pending': pending_data(report.pending),
                'mermaid': RunPicture(report.records).render(),
            },
            self._stream,
        )

    def close(self) -> None:
        pass


class LiveView:
    """Nodes, text, tool calls and results as they come, each run inside a tool indented under its call."""

    def __init__(self, terminal: Terminal) -> None:
        self._out = terminal
        self._called: dict[str, float] = {}
        self._asked: dict[tuple[str, ...], float] = {}
        self._coming: dict[int, str] = {}

    def begin(self, agent: str, model: str, prompt: str) -> None:
        self._out.line(agent, 'bold', note=f' on {model}')
        self._out.line(f'> {prompt}')

    def show(self, event: RunEvent) -> None:
        depth = 4 * len(event.path)
        match event:
            case RunStarted():
                self._started(event, depth)
            case NodeStarted():
                self._node(event, depth)
            case PartStartEvent() | PartDeltaEvent() | PartEndEvent():
                self._part(event, depth + 2)
            case FunctionToolCallEvent() | OutputToolCallEvent():
                self._call(event.part, event.time, depth + 2)
            case FunctionToolResultEvent() | OutputToolResultEvent():
                self._result(event.part, event.time, depth + 2)
            case CustomEvent():
                name = f'{event.tool_name}: ' if event.tool_name else ''
                value = plain(event.value)
                self._out.line(f'· {name}{value_text(value, _WIDE)}', 'magenta', indent=depth + 2)
            case RequestRetried() | ResponseRestarted():
                self._again(event, depth + 2)
            case RunPaused():
                self._paused(event, depth + 2)
            case RunEnded():
                self._ended(event, depth)
            case _:  # the final result is shown by the report
                return

    def finish(self, report: Report) -> None:
        walk = read(report.records)
        out = self._out
        if report.ended_before:
            out.line(f'run {report.run_id} has ended before; nothing is done', 'dim')
        out.line('')
        if report.status == 'completed' and not report.error:
            out.block('output', output_text(report.output))
        elif report.error:
            out.line(f'{report.status}: {report.error}', 'bold red')
        self._fact('status', f'{report.status} in {seconds_text(walk.seconds)}')
        self._fact('model', model_fact(walk))
        self._fact('usage', usage_fact(walk))
        self._fact('cost', cost_fact(walk))
        self._fact('run id', report.run_id)
        if report.place.journal:
            self._fact('journal', report.place.journal)
        out.line('')
        out.line('the path taken, as mermaid:', 'bold')
        out.line(RunPicture(report.records).render().rstrip('\n'), 'dim')
        if report.status == 'paused':
            self._waits(report)

    def _waits(self, report: Report) -> None:
        self._out.line('')
        self._out.line('the run waits; answer each call with one of its commands, then resume:', 'bold yellow')
        for line in how_to_answer(report.place, report.run_id, report.pending):
            self._out.line(line, indent=2)

    def close(self) -> None:
        self._out.close()

    def _fact(self, name: str, value: str) -> None:
        self._out.line(f'{name:8} {value}')

    def _started(self, event: RunStarted, depth: int) -> None:
        agent = f' of {event.agent}' if event.agent else ''
        word = 'goes on' if event.resumed else 'begins'
        self._out.line(f'run {event.run_id}{agent} {word}', 'dim', indent=depth)

    def _node(self, event: NodeStarted, depth: int) -> None:
        note = ''
        if event.node == 'ModelRequest':
            note = f' {event.step}'
            self._asked[event.path] = event.time
        elif event.path in self._asked:
            note = f'  (the model took {seconds_text(max(0.0, event.time - self._asked.pop(event.path)))})'
        self._out.line(f'● {event.node}', 'bold cyan', indent=depth, note=note)
        if event.node == 'ModelRequest' and not event.path:
            self._out.wait('waiting for the model')

    def _again(self, event: RequestRetried | ResponseRestarted, indent: int) -> None:
        self._out.end_piece()
        self._coming.clear()
        if isinstance(event, ResponseRestarted):
            self._out.line(f'↻ the answer so far is void ({event.reason}); it begins again', 'yellow', indent=indent)
            return
        when = f'in {seconds_text(event.delay)}' if event.delay else 'now'
        self._out.line(f'↻ {event.error}', 'yellow', indent=indent)
        self._out.line(f'asking {event.model} {when} (try {event.attempt})', 'dim', indent=indent + 2)

    def _part(self, event: PartStartEvent | PartDeltaEvent | PartEndEvent, indent: int) -> None:
        """Text as it comes; that of runs inside tools in whole parts, since several may talk at once."""
        if isinstance(event, PartEndEvent):
            if event.path and isinstance(event.part, TextPart | ThinkingPart) and event.part.content:
                self._out.line(event.part.content, _style(event.part), indent=indent)
            elif isinstance(event.part, FilePart):
                self._out.line(f'[{event.part.name or event.part.media_type}]', indent=indent)
            elif not event.path:
                self._out.end_piece()
        elif not event.path:
            text, style = _piece(event)
            if text:
                self._out.piece(text, style, indent=indent)
            elif call := self._growing(event):
                self._out.wait(call)

    def _growing(self, event: PartStartEvent | PartDeltaEvent) -> str:
        """A tool call that is coming in, as far as it has come."""
        if isinstance(event, PartStartEvent) and isinstance(event.part, ToolCallPart):
            args = event.part.args if isinstance(event.part.args, str) else ''
            self._coming[event.index] = f'{event.part.tool_name} {args}'
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, ToolCallPartDelta):
            self._coming[event.index] = self._coming.get(event.index, '')[:_WIDE] + event.delta.args_delta
        else:
            return ''
        return ' '.join(self._coming[event.index].split())

    def _call(self, part: ToolCallPart, time: float, indent: int) -> None:
        self._called[part.tool_call_id] = time
        self._out.line(f'→ {call_text(part.tool_name, parsed(part.args), _WIDE)}', 'yellow', indent=indent)

    def _result(self, part: ToolReturnPart, time: float, indent: int) -> None:
        began = self._called.pop(part.tool_call_id, None)
        took = f'  ({seconds_text(max(0.0, time - began))})' if began is not None else ''
        text = value_text(part.content, _WIDE)
        if part.outcome == 'success':
            self._out.line(f'✓ {part.tool_name}: {text}', 'green', indent=indent, note=took)
        else:
            self._out.line(f'✗ {part.tool_name} {part.outcome}: {text}', 'red', indent=indent, note=took)

    def _paused(self, event: RunPaused, indent: int) -> None:
        for pending in event.pending:
            text = f'{call_text(pending.tool_name, pending.args, _WIDE)} {waiting_text(pending, _WIDE)}'
            self._out.line(f'‖ {text}', 'bold yellow', indent=indent, note=f'  (call {pending.tool_call_id})')

    def _ended(self, event: RunEnded, depth: int) -> None:
        if event.path:
            error = f': {event.error}' if event.error else ''
            self._out.line(f'run {event.run_id} {event.status}{error}', 'dim', indent=depth)


def _piece(event: PartStartEvent | PartDeltaEvent) -> tuple[str, str]:
    if isinstance(event, PartStartEvent):
        part = event.part
        return (part.content, _style(part)) if isinstance(part, TextPart | ThinkingPart) else ('', '')
    if isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta, ''
    return (event.delta.content_delta, _THINKING) if isinstance(event.delta, ThinkingPartDelta) else ('', '')


def _style(part: TextPart | ThinkingPart) -> str:
    return _THINKING if isinstance(part, ThinkingPart) else ''
