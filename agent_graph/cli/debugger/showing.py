"""What the debugger shows: the node it stopped before, the state, the conversation, the usage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_graph.cli.entries import content_text, message_lines
from agent_graph.cli.terminal import Terminal
from agent_graph.engine.nodes import HandleResponse, ModelRequest, UserPrompt
from agent_graph.engine.state import RunState
from agent_graph.pending import Pending
from agent_graph.render.wording import call_text, cost_text, tokens_text, value_text, waiting_text
from agent_graph.runner import AgentRun
from agent_graph.usage import cost_of

__all__ = ['node_name', 'show_messages', 'show_node', 'show_state', 'show_usage', 'show_waiting']

SHORT = 160
"""Characters of a value at a stop."""
LONG = 20_000
"""Characters of a value where it was asked for."""


def node_name(run: AgentRun[Any], node: object) -> str:
    """A node with its number: `ModelRequest 2`."""
    name = type(node).__name__
    entered = run.ctx.deps.entered
    if isinstance(node, ModelRequest):
        return f'{name} {run.ctx.state.step + (not entered)}'
    return name


def show_node(out: Terminal, run: AgentRun[Any], node: object, *, limit: int = SHORT) -> None:
    """What a node holds: the new data it brings."""
    for who, text in _held(run, node, limit):
        _row(out, who, text)


def _held(run: AgentRun[Any], node: object, limit: int) -> Iterator[tuple[str, str]]:
    match node:
        case UserPrompt(prompt=prompt):
            yield 'prompt', content_text(prompt, limit) or '(none: it goes on from the history)'
        case ModelRequest():
            for message in (*(node.system or ()), *((node.message,) if node.message is not None else ())):
                yield from message_lines(message, limit)
            for queued in run.ctx.state.queued:
                yield 'queued', content_text(queued.content, limit)
            if node.retry:
                yield 'note', 'it asks for another output'
        case HandleResponse(response=response):
            yield from message_lines(response, limit)
            if tokens := tokens_text(response.usage):
                yield 'tokens', tokens
            if response.finish_reason not in (None, 'stop', 'tool_calls'):
                yield 'note', f'finish reason {response.finish_reason}'
        case _:
            yield 'node', repr(node)


def show_state(out: Terminal, run: AgentRun[Any]) -> None:
    """The run as a whole."""
    state = run.ctx.state
    _row(out, 'run', state.run_id)
    _row(out, 'agent', state.agent or '-')
    _row(out, 'next', node_name(run, run.next_node))
    _row(out, 'messages', str(len(state.messages)))
    _row(out, 'retries', _retries(state))
    if state.limits is not None:
        _row(out, 'limits', repr(state.limits))
    if state.metadata:
        _row(out, 'metadata', value_text(state.metadata, LONG))
    for call_id, finished in state.finished.items():
        _row(out, f'done {call_id}', f'{finished.part.tool_name} {value_text(finished.part.content, SHORT)}')
    show_waiting(out, state.waiting)
    show_usage(out, run)


def _retries(state: RunState) -> str:
    per_tool = ', '.join(f'{name} {count}' for name, count in state.retries.items())
    return f'output {state.output_retries}{f", {per_tool}" if per_tool else ""}'


def show_usage(out: Terminal, run: AgentRun[Any]) -> None:
    """What the run has used up to here, and what it cost."""
    state = run.ctx.state
    _row(out, 'requests', str(state.requests))
    _row(out, 'calls', str(state.tool_calls))
    _row(out, 'tokens', tokens_text(state.usage) or 'none reported')
    cost = cost_text(cost_of(state.spends)) if state.spends else '$0'
    _row(out, 'cost', cost or 'unknown (no price is known for this model)')


def show_messages(out: Terminal, run: AgentRun[Any]) -> None:
    """The conversation, every message with its place."""
    messages = run.ctx.state.messages
    if not messages:
        out.line('no messages yet', indent=2)
    for number, message in enumerate(messages):
        for who, text in message_lines(message, LONG):
            _row(out, f'{number} {who}', text)


def show_waiting(out: Terminal, waiting: tuple[Pending, ...]) -> None:
    """The calls that wait for people."""
    for pending in waiting:
        text = f'{call_text(pending.tool_name, pending.args, SHORT)} {waiting_text(pending, SHORT)}'
        _row(out, f'waits {"/".join((*pending.path, pending.tool_call_id))}', text)


def _row(out: Terminal, name: str, text: str) -> None:
    out.line(f'{name}: {text}'.replace('\n', ' '), indent=2)
