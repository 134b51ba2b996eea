"""Three ways to watch a run: its text, its output as it grows, and every event.

    python examples/streaming.py

The model is scripted, so the example needs no network; put `'openai:gpt-5-mini'` in its place for a real one.
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel, JsonValue

from agent_graph import Agent, FunctionToolCallEvent, FunctionToolResultEvent, NodeStarted, ToolCallPart
from agent_graph.testing import ScriptedModel


class Trip(BaseModel):
    city: str = ''
    days: int = 0
    stops: list[str] = []


def temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius."""
    return {'Bern': 11, 'Rome': 19}.get(city, 15)


TRIP: dict[str, JsonValue] = {'city': 'Rome', 'days': 3, 'stops': ['Forum', 'Pantheon', 'Trastevere']}


async def text() -> None:
    agent = Agent(ScriptedModel(['Rome is warm in October, and the evenings are long.'], chunk=6))
    async with agent.run_stream('Where should I go?') as stream:
        async for piece in stream.text(delta=True):
            print(piece, end='|', flush=True)
    print()


async def growing_output() -> None:
    agent = Agent(ScriptedModel([[ToolCallPart('final_result', TRIP)]], chunk=12), output_type=Trip)
    async with agent.run_stream('Plan a trip.') as stream:
        async for trip in stream.output():
            print(trip)


async def events() -> None:
    script = [
        [ToolCallPart('temperature', {'city': 'Rome'}), ToolCallPart('temperature', {'city': 'Bern'})],
        'Rome, then.',
    ]
    agent = Agent(ScriptedModel(script), tools=[temperature])
    async for event in agent.run_stream_events('Rome or Bern?'):
        match event:
            case NodeStarted(node=node):
                print(node)
            case FunctionToolCallEvent(part=part):
                print('  call  ', part.tool_name, part.args)
            case FunctionToolResultEvent(part=part):
                print('  result', part.content)
            case _:  # parts as they come in, the final result, the end of the run
                pass


async def main() -> None:
    for show in (text, growing_output, events):
        print(f'-- {show.__name__.replace("_", " ")}')
        await show()


if __name__ == '__main__':
    asyncio.run(main())
