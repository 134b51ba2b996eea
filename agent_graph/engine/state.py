"""The state of a run: the fold of its journal entries. All data, no handles.

`apply` is the only code that changes a `RunState`: a running engine applies each entry as it records it, a resumed one
applies the stored ones, so both are the same by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from agent_graph.journal.entries import (
    Answered,
    CallFinished,
    CallStarted,
    Edited,
    Ended,
    Enqueued,
    Entered,
    Entry,
    Parent,
    Paused,
    Record,
    Started,
    StepDone,
)
from agent_graph.messages import (
    AssistantMessage,
    JsonValue,
    Message,
    ToolMessage,
    UserContent,
    UserMessage,
)
from agent_graph.messages.history import answer, repair
from agent_graph.pending import Confirm, Pending, PendingKind
from agent_graph.usage import NO_USAGE, Spend, Usage, UsageLimits

__all__ = ['APPLY', 'GraphPosition', 'RunState', 'apply', 'call_key', 'fold', 'is_sendable', 'take_data']


@dataclass(slots=True)
class RunState:
    """Everything a run is, up to now.

    `messages` is what a model is sent; `new_from` is where this run's own messages begin (instructions apart). `step`
    counts model requests. `at` is the node the run is in and `visit` counts
    the nodes entered, `started` and `finished` the calls of the response being
    handled. `retries` counts, per tool, the answers in a row that asked the model to try again. `pending` is what is
    waited for, by the call of this run that waits; `inside` and `inside_spends` are what runs
    inside the waiting calls have used so far; `idle` are calls that were started and then set aside to wait, as
    opposed to those a crash interrupted; `decided` (until the call starts), `approved`,
    `asked` and `denied` hold what people answered, `answered` whose calls these were, once for each answer; `shown` is
    what was waited for: the path of call ids, why, and the token. `steps` are the
    effects inside calls that are done, by scope and name. `data` is the state of a graph that is no agent's, as it was
    recorded last.
    """

    run_id: str
    agent: str | None = None
    messages: list[Message] = field(default_factory=list[Message])
    new_from: int = 0
    prompt: str | tuple[UserContent, ...] | None = None
    metadata: dict[str, JsonValue] | None = None
    limits: UsageLimits | None = None
    parent: Parent | None = None
    fingerprint: dict[str, JsonValue] | None = None
    step: int = 0
    requests: int = 0
    tool_calls: int = 0
    tokens: Usage = NO_USAGE
    spends: list[Spend] = field(default_factory=list[Spend])
    retries: dict[str, int] = field(default_factory=dict[str, int])
    output_retries: int = 0
    call_ids: dict[str, None] = field(default_factory=dict[str, None])
    at: Entered | None = None
    visit: int = 0
    offered: tuple[str, ...] | None = None
    started: dict[str, CallStarted] = field(default_factory=dict[str, CallStarted])
    finished: dict[str, CallFinished] = field(default_factory=dict[str, CallFinished])
    final_asked: bool = False
    confirm: Confirm = 'per_tool'
    paused: bool = False
    inside: Usage | None = None
    inside_spends: tuple[Spend, ...] = ()
    pending: dict[str, tuple[Pending, ...]] = field(default_factory=dict[str, tuple[Pending, ...]])
    idle: frozenset[str] = frozenset()
    approved: frozenset[str] = frozenset()
    decided: dict[str, Answered] = field(default_factory=dict[str, Answered])
    asked: dict[str, list[Answered]] = field(default_factory=dict[str, list[Answered]])
    denied: frozenset[tuple[str, str]] = frozenset()
    answered: tuple[str, ...] = ()
    shown: frozenset[tuple[tuple[str, ...], PendingKind, str]] = frozenset()
    queued: tuple[UserMessage, ...] = ()
    steps: dict[tuple[str, str], JsonValue] = field(default_factory=dict[tuple[str, str], JsonValue])
    ended: Ended | None = None
    data: JsonValue = None
    renamed: str | None = None

    @property
    def scope(self) -> str:
        """What belongs to this visit to the node of a graph is known under this name, also if the node has another one now."""
        return self.renamed or f'{self.at.node if self.at is not None else ""}#{self.visit}'

    @property
    def waiting(self) -> tuple[Pending, ...]:
        """Everything the run waits for, in call order."""
        return tuple(p for group in self.pending.values() for p in group)

    @property
    def usage(self) -> Usage:
        """What the run has used, agents run inside its tools included, those that wait as well."""
        used = Usage(requests=self.requests, tool_calls=self.tool_calls) + self.tokens
        return used if self.inside is None else used + self.inside

    @property
    def all_spends(self) -> tuple[Spend, ...]:
        """The same, response by response."""
        return (*self.spends, *(self.inside_spends if self.inside is not None else ()))

    def valid_messages(self) -> list[Message]:
        """The history as another run could take it over: calls not answered yet are answered as interrupted."""
        messages = list(self.messages)
        if (closing := self.closing()) is not None:
            messages.append(closing)
        return messages

    def closing(self) -> ToolMessage | None:
        """The message that answers the last response's calls, if they are still open."""
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, AssistantMessage):
            return None
        return answer(last, {k: f.part for k, f in self.finished.items()})


@dataclass(slots=True)
class GraphPosition:
    """Where the stored run of a graph is, as JSON data: the name and the fields of its node, and the graph's state."""

    node: str
    fields: dict[str, Any]
    state: JsonValue


def fold(run_id: str, records: Iterable[Record]) -> RunState:
    """The state these records lead to."""
    state = RunState(run_id)
    for record in records:
        apply(state, record.entry)
    return state


def apply(state: RunState, entry: Entry) -> None:
    """Bring `state` forward by one entry."""
    APPLY[entry.__class__](state, entry)


def is_sendable(response: AssistantMessage) -> bool:
    """Providers refuse a message of nothing, of white space or of reasoning alone: such a response is not kept."""
    for part in response.parts:
        if part.kind == 'text':
            if part.content.strip():
                return True
        elif part.kind != 'thinking':
            return True
    return False


def _started(state: RunState, entry: Started) -> None:
    state.agent = entry.agent
    state.prompt = entry.prompt
    state.metadata = entry.metadata
    state.limits = entry.limits
    state.parent = entry.parent
    state.fingerprint = entry.fingerprint
    state.confirm = entry.confirm
    history = repair(entry.history)
    replaced = False
    for message in history:  # no call per message: long histories are usual
        if message.kind == 'system':
            replaced = replaced or message.from_instructions
        elif message.kind == 'assistant':
            for part in message.parts:
                if part.kind == 'tool_call':
                    state.call_ids[part.tool_call_id] = None
    if replaced:
        history = [m for m in history if not (m.kind == 'system' and m.from_instructions)]
    state.messages.extend(history)
    state.new_from = len(state.messages)


def _entered(state: RunState, entry: Entered) -> None:
    before, state.at = state.at, entry
    state.visit += 1
    state.inside = None
    if entry.data is not None:
        state.renamed = None
        take_data(state, entry.data)
    if entry.usage is not None:
        _count(state, entry.usage, entry.spends)
    if entry.node == 'ModelRequest':
        _entered_request(state, entry)
    elif entry.response is not None:
        state.offered = entry.offered
        if before is not None and before.response is not None and not state.started and not state.finished:
            _take_back(state, before.response)
        _entered_response(state, entry.response)


def _entered_request(state: RunState, entry: Entered) -> None:
    if entry.queued:
        state.queued = ()
    if entry.system:
        state.messages[0:0] = entry.system
        state.new_from += len(entry.system)
    message = entry.message
    last = state.messages[-1] if state.messages else None
    answers = message.parts if message is not None and message.kind == 'tool' else ()
    count, paired = 0, True
    for part in last.parts if last is not None and last.kind == 'assistant' else ():
        if part.kind == 'tool_call':
            paired = paired and answers[count : count + 1] != () and answers[count].tool_call_id == part.tool_call_id
            count += 1
    if not paired or answers[count:]:
        message = _repaired(state, message)
    if message is not None:
        state.messages.append(message)
    if entry.queued:
        state.messages.extend(entry.queued)
    state.step += 1
    state.requests += 1
    if entry.retry:
        state.output_retries += 1
    if entry.final:
        state.final_asked = True
    if message is not None and message.kind == 'tool':
        _count_retries(state.retries, message)
    if state.started or state.finished:
        state.started = {}
        state.finished = {}


def _repaired(state: RunState, message: UserMessage | ToolMessage | None) -> UserMessage | ToolMessage | None:
    """The message as it may follow the last response: calls answered first, whatever a node made by hand brings."""
    given = message.parts if message is not None and message.kind == 'tool' else ()
    known = {k: f.part for k, f in state.finished.items()} | {p.tool_call_id: p for p in given}
    last = state.messages[-1] if state.messages else None
    closing = answer(last, known) if isinstance(last, AssistantMessage) else None
    if closing is not None:
        state.messages.append(closing)
    return None if message is not None and message.kind == 'tool' else message


def _take_back(state: RunState, response: AssistantMessage) -> None:
    """A node made by hand brings another response, before anything was done about the one that came."""
    if state.messages and state.messages[-1] is response:
        state.messages.pop()


def _entered_response(state: RunState, response: AssistantMessage) -> None:
    if is_sendable(response):
        if state.messages and state.messages[-1].kind == 'assistant' and (closing := state.closing()) is not None:
            state.messages.append(closing)
        state.messages.append(response)
    usage = response.usage
    state.tokens = state.tokens + usage if state.tokens is not NO_USAGE else usage
    details = response.provider_details
    others = () if details is None or 'spent_by_others' not in details else _others(details['spent_by_others'])
    state.spends.append(Spend(response.provider_name or '', response.model_name or '', usage, others))
    for part in response.parts:
        if part.kind == 'tool_call':
            state.call_ids[part.tool_call_id] = None


def _others(noted: Any) -> tuple[Spend, ...]:
    """What of a response's usage tries of other models used, as a model that asks several notes it."""
    return tuple([Spend(e['provider'] or '', e['model'] or '', Usage(**e['usage'])) for e in noted])


def _count_retries(retries: dict[str, int], message: ToolMessage) -> None:
    """One count a response and tool, however many calls of it went wrong; a success starts anew."""
    if not retries:
        for part in message.parts:
            if part.outcome == 'retry':
                break
        else:
            return
    for name in dict.fromkeys(p.tool_name for p in message.parts if p.outcome == 'success'):
        retries.pop(name, None)
    for name in dict.fromkeys(p.tool_name for p in message.parts if p.outcome == 'retry'):
        retries[name] = retries.get(name, 0) + 1


def _call_started(state: RunState, entry: CallStarted) -> None:
    state.started[entry.tool_call_id] = entry
    if state.pending or state.paused:
        state.paused = False
        state.inside = None
        state.pending.pop(entry.tool_call_id, None)
    if state.idle or state.decided:
        state.idle -= {entry.tool_call_id}
        state.decided.pop(entry.tool_call_id, None)
    if not entry.output and entry.attempt == 1:
        state.tool_calls += 1


def _call_finished(state: RunState, entry: CallFinished) -> None:
    state.finished[entry.part.tool_call_id] = entry
    if state.paused or state.pending:
        state.paused = False
        state.pending.pop(entry.part.tool_call_id, None)
    if entry.usage is not None:
        _count(state, entry.usage, entry.spends)


def _count(state: RunState, usage: Usage, spends: tuple[Spend, ...]) -> None:
    """What agents run inside a call or a node used."""
    state.requests += usage.requests
    state.tool_calls += usage.tool_calls
    state.tokens = state.tokens + replace(usage, requests=0, tool_calls=0)
    state.spends.extend(spends)


def _paused(state: RunState, entry: Paused) -> None:
    state.pending = {}
    for pending in entry.pending:
        own = pending.path[0] if pending.path else pending.tool_call_id
        state.decided.pop(own, None)
        if own in state.started and (pending.path or pending.reason != 'crash'):
            state.idle |= {own}
        if not pending.path:
            pending = replace(pending, run_id=state.run_id)  # a fork's own, though the original wrote the entry
        elif not pending.run_id.startswith(f'{state.run_id}:'):
            continue  # waits inside the run this one was forked from: here the call is made again
        state.pending[own] = (*state.pending.get(own, ()), pending)
        waited: tuple[tuple[str, ...], PendingKind, str] = (
            (*pending.path, pending.tool_call_id),
            pending.reason,
            pending.token,
        )
        state.shown |= {waited}
    state.paused = bool(state.pending)
    state.inside, state.inside_spends = entry.usage, entry.spends


def _answered(state: RunState, entry: Answered) -> None:
    call_id = entry.tool_call_id
    state.pending.pop(call_id, None)
    state.paused = False
    state.answered = (*state.answered, call_id)
    if entry.decision == 'answer':
        state.asked[call_id] = [*state.asked.get(call_id, ()), entry]
        return
    state.decided[call_id] = entry
    if entry.decision == 'approved':
        state.approved |= {call_id}
    elif entry.tool_name is not None:
        state.denied |= {call_key(entry.tool_name, entry.args)}


def call_key(tool_name: str, args: JsonValue) -> tuple[str, str]:
    """What makes two calls the same call: the tool, and the arguments as JSON whatever their order and spacing."""
    import json

    if isinstance(args, str):
        try:
            args = json.loads(args)
        except ValueError:
            return tool_name, str(args)
    return tool_name, json.dumps(args, sort_keys=True)


def _enqueued(state: RunState, entry: Enqueued) -> None:
    state.queued = (*state.queued, entry.message)


def take_data(state: RunState, data: JsonValue) -> None:
    """The state of a graph is recorded where it has changed."""
    if isinstance(data, dict) and 'state' in data:
        state.data = data['state']


def _edited(state: RunState, entry: Edited) -> None:
    from agent_graph.engine.editing import edit  # few runs are given another past

    edit(state, entry)


def _step_done(state: RunState, entry: StepDone) -> None:
    state.steps[entry.scope, entry.name] = entry.value


def _ended(state: RunState, entry: Ended) -> None:
    state.ended = entry
    state.inside = None
    if entry.data is not None:
        take_data(state, entry.data)
    if entry.usage is not None:
        _count(state, entry.usage, entry.spends)
    if entry.message is not None:
        state.messages.append(entry.message)


APPLY: dict[type, Callable[[RunState, Any], None]] = {
    Started: _started,
    Entered: _entered,
    CallStarted: _call_started,
    CallFinished: _call_finished,
    Paused: _paused,
    Answered: _answered,
    Enqueued: _enqueued,
    Edited: _edited,
    StepDone: _step_done,
    Ended: _ended,
}
"""Entry class -> what it does to the state."""
