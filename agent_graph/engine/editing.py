"""A run with another past: what `Edited` does to its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent_graph.engine.state import RunState, call_key, take_data
from agent_graph.journal.entries import Edited
from agent_graph.messages import AssistantMessage, JsonValue, Message, ToolCallPart

__all__ = ['edit']


def edit(state: RunState, entry: Edited) -> None:
    """Give a run the past that `entry` says."""
    if entry.messages is not None:
        _renamed(state, entry.messages)
        state.messages[:] = entry.messages
        state.new_from = min(state.new_from, len(state.messages))
    if entry.metadata is not None:
        state.metadata = entry.metadata
    if entry.limits is not None:
        state.limits = entry.limits
    if entry.fingerprint is not None:
        state.fingerprint = entry.fingerprint
    if entry.data is not None:
        _moved(state, entry.data)


def _moved(state: RunState, data: JsonValue) -> None:
    """A graph is in another node now, or its node has other fields."""
    take_data(state, data)
    at = state.at
    if at is None or not isinstance(data, dict) or not isinstance(at.data, dict) or 'node' not in data:
        return
    state.renamed = state.scope
    name = data.get('name')
    state.at = replace(at, node=name if isinstance(name, str) else at.node, data={**at.data, 'node': data['node']})


def _renamed(state: RunState, messages: Sequence[Message]) -> None:
    """Calls that are other calls in the new past, under the same id: what is known of them is known of those."""
    before, after = _calls(state.messages), _calls(messages)
    changed = [(before[i], part) for i, part in after.items() if i in before and before[i] != part]
    for old, new in changed:
        if call_key(old.tool_name, old.args) in state.denied:
            state.denied |= {call_key(new.tool_name, new.args)}
    handled = state.at.response if state.at is not None else None
    last = messages[-1] if messages else None
    if handled is None or not isinstance(last, AssistantMessage) or state.messages[-1:] != [handled]:
        return
    assert state.at is not None
    state.at = replace(state.at, response=last)
    for old, new in changed:
        _call_renamed(state, old, new)


def _calls(messages: Sequence[Message]) -> dict[str, ToolCallPart]:
    parts = [p for m in messages if m.kind == 'assistant' for p in m.parts if p.kind == 'tool_call']
    return {p.tool_call_id: p for p in parts}


def _call_renamed(state: RunState, old: ToolCallPart, new: ToolCallPart) -> None:
    call_id, name = new.tool_call_id, new.tool_name
    if (started := state.started.get(call_id)) is not None:
        args = new.args if started.args == old.args else started.args  # a person may have given others
        state.started[call_id] = replace(started, tool_name=name, args=args)
    if (finished := state.finished.get(call_id)) is not None:
        state.finished[call_id] = replace(finished, part=replace(finished.part, tool_name=name))
    if call_id in state.pending:
        own = [p if p.path else replace(p, tool_name=name, args=new.args) for p in state.pending[call_id]]
        state.pending[call_id] = tuple(own)
    if state.offered is not None:
        state.offered = tuple(name if n == old.tool_name else n for n in state.offered)
