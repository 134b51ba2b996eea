"""Changing what a node holds before it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent_graph.cli.exits import CommandError
from agent_graph.engine.nodes import HandleResponse
from agent_graph.engine.plan import Plan
from agent_graph.errors import ArgumentsError
from agent_graph.messages import ToolCallPart
from agent_graph.messages.history import calls_of
from agent_graph.runner import AgentRun

__all__ = ['edit_call']


def edit_call(run: AgentRun[Any], call_id: str, args: dict[str, Any]) -> str:
    """Give a call of the response that is to be handled other arguments; returns what to say about it."""
    node = run.next_node
    if not isinstance(node, HandleResponse):
        raise CommandError(f'{type(node).__name__} holds no calls; stop before HandleResponse to edit them')
    state = run.ctx.state
    if state.started or state.finished or state.decided or state.asked:
        raise CommandError('something has been done about this response already, so it is not changed any more')
    calls = calls_of(node.response)
    found = next((call for call in calls if call.tool_call_id == call_id), None)
    if found is None:
        ids = ', '.join(repr(call.tool_call_id) for call in calls) or 'none'
        raise CommandError(f'there is no call {call_id!r} in this response; its calls: {ids}')
    parts = tuple(
        replace(p, args=args) if isinstance(p, ToolCallPart) and p.tool_call_id == call_id else p
        for p in node.response.parts
    )
    node.response = replace(node.response, parts=parts)
    problem = _problem(run.ctx.deps.plan, found.tool_name, args)
    return f'changed; {found.tool_name} will refuse this: {problem}' if problem else 'changed'


def _problem(plan: Plan, name: str, args: dict[str, Any]) -> str:
    """What the tool has against these arguments; the run would tell the model."""
    try:
        if name in plan.tools:
            plan.tools[name].schema.validate(args)
        elif name in plan.output.tools:
            plan.output.tools[name].check(args)
    except ArgumentsError as error:
        return ' '.join(error.message.split())
    return ''
