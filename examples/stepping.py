"""Walk an agent's graph node by node, look into each node, and change one before it runs.

    python examples/stepping.py

The model is a function, so the example needs no network; put `'openai:gpt-5-mini'` in its place for a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agent_graph import (
    Agent,
    AssistantMessage,
    End,
    HandleResponse,
    Message,
    ModelRequest,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserPrompt,
)
from agent_graph.model import RequestInfo
from agent_graph.testing import FunctionModel


async def clerk(messages: Sequence[Message], info: RequestInfo) -> AssistantMessage:
    """Stands in for a model: orders far too much, then reports what the tool said."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return AssistantMessage([TextPart(f'Done: {last.parts[0].content}')])
    return AssistantMessage([TextPart('I order.'), ToolCallPart('order', {'item': 'pencil', 'amount': 1000})])


agent = Agent(FunctionModel(clerk), name='clerk')


@agent.tool
def order(item: str, amount: int) -> str:
    """Order something."""
    return f'{amount} x {item} ordered'


async def main() -> None:
    async with agent.iter('We need pencils.') as run:
        node = run.next_node
        while not isinstance(node, End):
            match node:
                case UserPrompt(prompt=prompt):
                    print('UserPrompt     ', prompt)
                case ModelRequest(message=message):
                    print('ModelRequest   ', type(message).__name__)
                case HandleResponse(response=response):
                    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
                    print('HandleResponse ', [(call.tool_name, call.args) for call in calls])
                    if calls:
                        node = HandleResponse(with_amount(response, 10))
                        print('   changed to   ', node.response.parts[-1])
                case _:
                    pass
            node = await run.next(node)
        assert run.result is not None
        print('End            ', run.result.output)


def with_amount(response: AssistantMessage, amount: int) -> AssistantMessage:
    """The response with another amount in its tool call."""
    parts = [
        replace(p, args={'item': 'pencil', 'amount': amount}) if isinstance(p, ToolCallPart) else p
        for p in response.parts
    ]
    return replace(response, parts=parts)


if __name__ == '__main__':
    asyncio.run(main())
