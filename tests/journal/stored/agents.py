"""The agents and the graph whose runs are kept here. They stay as they are: a change would make them other agents."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from pydantic_graph import BaseNode, End, Graph, GraphBuilder

from agent_graph import (
    Agent,
    AssistantMessage,
    FilePart,
    GraphContext,
    Journal,
    ModelRetry,
    RunContext,
    TextPart,
    ThinkingPart,
    Tool,
    ToolCallPart,
    ToolMessage,
    ToolReturn,
    Usage,
)
from agent_graph.testing import FunctionModel

__all__ = ['LARGE', 'Notes', 'Report', 'Write', 'archivist', 'clerk', 'gatekeeper', 'miller', 'newsroom']

LARGE = 'flour ' * 11_000
"""A text long enough to be kept beside the entries."""


class Report(BaseModel):
    """What the clerk hands in."""

    title: str
    pages: int


def _said(messages: Any, *parts: Any, tokens: int = 10) -> AssistantMessage:
    """A response with all that a provider may tell."""
    return AssistantMessage(
        parts,
        Usage(input_tokens=tokens * len(messages), output_tokens=tokens, cache_read_tokens=1),
        'test-model-1',
        f'response-{len(messages)}',
        'tool_calls',
        provider_name='test',
        provider_details={'logprobs': None, 'region': 'north'},
    )


def clerk(journal: Journal | None) -> Agent[None, Report]:
    """Reads in vain and again, asks an agent inside a tool, and hands in a report."""

    def answer(messages: Any, info: Any) -> AssistantMessage:
        step = sum(message.kind == 'assistant' for message in messages)
        if step == 0:
            thought = ThinkingPart('Which page?', signature='s1', provider_details={'id': 'r1'})
            return _said(messages, thought, TextPart('I read.'), ToolCallPart('read', {'page': 0}, 'c1'))
        if step == 1:
            calls = [ToolCallPart('read', {'page': 1}, 'c2'), ToolCallPart('consult', {'about': 'page 1'}, 'c3')]
            return _said(messages, *calls)
        if step == 2:
            return _said(messages, ToolCallPart('final_result', {'title': 'Page 1', 'pages': 'one'}, 'c4'))
        return _said(messages, ToolCallPart('final_result', {'title': 'Page 1', 'pages': 1}, 'c5'))

    async def read(page: int) -> ToolReturn:
        """Read a page."""
        if page == 0:
            raise ModelRetry('Pages are counted from 1.')
        return ToolReturn(
            {'text': 'The mill is old.'},
            content=['see', FilePart('image/png', data=b'\x89PNG')],
            metadata={'page': page},
        )

    expert = Agent(FunctionModel(lambda m, i: _said(m, TextPart('All is well.'), tokens=3)), name='expert')

    async def consult(about: str) -> str:
        """Ask the expert."""
        return (await expert.run(f'What about {about}?')).output

    return Agent(
        FunctionModel(answer),
        name='clerk',
        instructions='Be exact.',
        tools=[read, consult],
        output_type=Report,
        retries=2,
        journal=journal,
    )


def archivist(journal: Journal | None) -> Agent[None, str]:
    """Is handed a large text by its tool."""

    def answer(messages: Any, info: Any) -> Any:
        return 'It is long.' if len(messages) > 1 else _said(messages, ToolCallPart('fetch', {}, 'a1'))

    async def fetch() -> str:
        """Fetch the archive."""
        return LARGE

    return Agent(FunctionModel(answer), name='archivist', tools=[fetch], journal=journal)


def gatekeeper(journal: Journal | None) -> Agent[None, str]:
    """Waits in every way there is, one of them inside an agent in a tool."""

    def answer(messages: Any, info: Any) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return '; '.join(str(part.content) for part in messages[-1].parts)
        names = ('open_gate', 'sign', 'book', 'delegate')
        return _said(messages, *(ToolCallPart(n, {}, f'g{i}') for i, n in enumerate(names)))

    async def open_gate() -> str:
        """Open the gate."""
        return 'open'

    async def sign() -> str:
        """Have it signed."""
        raise NotImplementedError

    async def book(ctx: RunContext[None]) -> str:
        """Book a room."""
        room = await ctx.step('reserve', lambda: {'room': 17})
        nights = await ctx.ask('How many nights?', schema=int)
        return f'room {room["room"]}, {nights} nights, {await ctx.ask("In whose name?")}'

    def inside(messages: Any, info: Any) -> Any:
        return 'the guard is done' if len(messages) > 1 else _said(messages, ToolCallPart('open_gate', {}, 'g0'))

    guard = Agent(FunctionModel(inside), name='guard', tools=[Tool(open_gate, requires_approval=True)])

    async def delegate() -> str:
        """Have the guard do it."""
        return (await guard.run('Open it.')).output

    tools = [Tool(open_gate, requires_approval=True), Tool(sign, external=True), book, delegate]
    return Agent(FunctionModel(answer), name='gatekeeper', tools=tools, journal=journal)


def miller(journal: Journal | None, *, dies: bool = False) -> Agent[None, str]:
    """Has four calls in flight when the process dies, if it `dies`."""
    at_work = 0

    def answer(messages: Any, info: Any) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return ', '.join(str(part.content) for part in messages[-1].parts)
        return _said(messages, *(ToolCallPart(n, {}, f'm{i}') for i, n in enumerate(('weigh', 'pay', 'grind', 'ship'))))

    async def work() -> None:
        nonlocal at_work
        at_work += 1
        if dies and at_work == 3:
            os._exit(0)
        if dies:
            import asyncio

            await asyncio.sleep(60)

    async def weigh() -> str:
        """Weigh the grain."""
        return 'weighed'

    async def pay() -> str:
        """Pay for the grain."""
        await work()
        return 'paid'

    async def grind(ctx: RunContext[None]) -> str:
        """Grind the grain."""
        bags = await ctx.step('fill', lambda: 3)
        await work()
        return f'{bags} bags ground'

    async def ship() -> str:
        """Ship the flour."""
        await work()
        return 'shipped'

    tools = [weigh, pay, Tool(grind, on_crash='retry'), Tool(ship, on_crash='never')]
    return Agent(FunctionModel(answer), name='miller', tools=tools, journal=journal)


@dataclass
class Notes:
    """The state of the newsroom."""

    remarks: list[str] = field(default_factory=list[str])


@dataclass
class Write(BaseNode[Notes, None, str]):
    """A text is written."""

    topic: str

    async def run(self, ctx: GraphContext[Notes, None]) -> Decide:  # pyright: ignore[reportIncompatibleMethodOverride]
        writer = Agent(FunctionModel(lambda m, i: _said(m, TextPart(f'A text about {self.topic}.'))), name='writer')
        return Decide((await writer.run(self.topic)).output)


@dataclass
class Decide(BaseNode[Notes, None, str]):
    """A person decides."""

    text: str

    async def run(self, ctx: GraphContext[Notes, None]) -> Write | End[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.state.remarks.append(f'seen: {self.text}')
        if await ctx.ask('Publish?', schema=bool):
            return End(f'{self.text} (no. {await ctx.step("print", lambda: 4)})')
        return Write('something else')


def newsroom() -> Graph[Notes, None, Write, str]:
    """A graph that waits for a decision."""
    builder = GraphBuilder(name='newsroom', state_type=Notes, input_type=Write, output_type=str)
    builder.add(builder.edge_from(builder.start_node).to(Write), builder.node(Write), builder.node(Decide))
    return builder.build()
