"""What the scenarios are made of: tools with an effect outside the engine, and models that keep no state at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agent_graph import (
    AssistantMessage,
    Message,
    Retry,
    RunContext,
    TextPart,
    Tool,
    ToolCallPart,
    ToolMessage,
    ToolReturn,
    ToolReturnPart,
    Usage,
    UserMessage,
)
from agent_graph.journal import Journal
from agent_graph.model import RequestInfo
from agent_graph.testing import FunctionModel
from tests.acceptance.ledger import Ledger, Line
from tests.acceptance.points import AT_MODEL, IN_TOOL, Points

__all__ = ['RULES', 'Stage', 'answers', 'call', 'prompt_of', 'report', 'value']

Turn: TypeAlias = Sequence[ToolCallPart] | Callable[[Sequence[Message]], str | Sequence[ToolCallPart]]
"""What a model answers: calls, or a function of what it was sent."""

RULES = {
    'fetch': 'retry',
    'pack': 'retry',
    'post': 'never',
    'pay': 'ask',
    'ship': 'verify',
    'wire': 'retry',
    'send': 'retry',
    'wonder': 'ask',
    'order': 'retry',
    'consult': 'retry',
    'hire': 'ask',
    'meet': 'retry',
    'linger': 'never',
}
"""What is to become of a call of each tool that was in flight; `verify` looks at the ledger."""


def value(tool_name: str, n: int) -> str:
    """What a tool returns."""
    return f'{tool_name} {n} done'


def call(tool_name: str, n: int, call_id: str) -> ToolCallPart:
    """A call of a tool of the kit."""
    return ToolCallPart(tool_name, {'n': n}, call_id)


def prompt_of(messages: Sequence[Message]) -> str:
    """The text of the first user message: what tells runs of one agent apart for its model."""
    return next(m.content for m in messages if isinstance(m, UserMessage) and isinstance(m.content, str))


def answers(messages: Sequence[Message]) -> list[ToolReturnPart]:
    """Every answer to a tool call, in order."""
    return [part for m in messages if isinstance(m, ToolMessage) for part in m.parts]


def report(messages: Sequence[Message]) -> str:
    """A last answer: what every tool gave, except the one whose calls may be lost."""
    return '; '.join(f'{p.outcome}: {p.content}' for p in answers(messages) if p.tool_name != 'post')


@dataclass
class Stage:
    """What one process has to work with."""

    journal: Journal
    ledger: Ledger
    points: Points

    def effect(self, tool_name: str, run_id: str, key: str, *, what: str = 'tool') -> None:
        """Do what the tool is for, outside the engine, with a place to die at before and after it."""
        self.points.reach(IN_TOOL, f'{tool_name}, before its effect')
        self.ledger.add(what, run_id, key)
        self.points.reach(IN_TOOL, f'{tool_name}, after its effect')

    def tool(self, name: str, **options: Any) -> Tool:
        """An async tool that has its effect and returns its value."""

        async def function(ctx: RunContext, n: int) -> str:
            self.effect(name, ctx.run_id, str(ctx.tool_call_id))
            return value(name, n)

        return self.declare(name, function, **options)

    def sync_tool(self, name: str) -> Tool:
        """The same as a sync function, which runs in a thread."""

        def function(ctx: RunContext, n: int) -> str:
            self.effect(name, ctx.run_id, str(ctx.tool_call_id))
            return value(name, n)

        return self.declare(name, function)

    def declare(self, name: str, function: Callable[..., Any], **options: Any) -> Tool:
        """A tool with the crash rule of its name."""
        rule: Any = self.look if RULES[name] == 'verify' else RULES[name]
        return Tool(function, name=name, description=name, on_crash=rule, **options)

    async def look(self, ctx: RunContext, part: ToolCallPart) -> ToolReturn | Retry:
        """Find out from the ledger what became of a call."""
        self.points.reach(IN_TOOL, f'{part.tool_name}, looked for')
        if Line('tool', ctx.run_id, part.tool_call_id) in self.ledger.lines():
            assert isinstance(part.args, dict)
            return ToolReturn(value(part.tool_name, int(str(part.args['n']))))
        return Retry()

    def model(self, name: str, *turns: Turn) -> FunctionModel:
        """A model that gives turn n in answer to a conversation with n answers in it, in two pieces."""

        async def respond(messages: Sequence[Message], info: RequestInfo) -> AsyncIterator[Any]:
            said = sum(isinstance(m, AssistantMessage) for m in messages)
            self.points.reach(AT_MODEL, f'{name} is asked')
            self.ledger.add('model', f'{name}|{prompt_of(messages)}', str(said))
            turn = turns[min(said, len(turns) - 1)]
            made = turn(messages) if callable(turn) else turn
            parts = [TextPart(made)] if isinstance(made, str) else list(made)
            yield parts[0]
            self.points.reach(AT_MODEL, f'{name} has said a part')
            for part in parts[1:]:
                yield part
            usage = Usage(input_tokens=10 * len(messages), output_tokens=5 * len(parts))
            yield AssistantMessage([], usage, finish_reason='stop' if isinstance(made, str) else 'tool_calls')

        return FunctionModel(respond, name=name)
