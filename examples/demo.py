"""An agent with two tools, a structured answer and a journal, on a model that runs inside this machine.

    agent-graph run examples/demo.py:agent "How high above the sea is Quito, in feet?"

The default model, SmolLM2 with 135 million parameters, comes in a wheel: no key, no network. So small a model cannot
choose well between tools, so the application drives the order (`next_step`) and the model fills in the arguments. With
`--model openai:gpt-5-mini` (and `OPENAI_API_KEY`) the same agent runs on a large one; there you may drop `tool_choice`
and let the model choose.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from agent_graph import Agent, ModelRetry, RunContext, SQLiteJournal, ToolMessage

City = Literal[
    'Addis Ababa', 'Bogota', 'Denver', 'Johannesburg', 'Kathmandu', 'La Paz', 'Madrid', 'Nairobi', 'Quito'
]  # fmt: skip

CITIES: dict[str, tuple[str, int]] = {
    'Addis Ababa': ('Ethiopia', 2355),
    'Bogota': ('Colombia', 2640),
    'Denver': ('United States', 1609),
    'Johannesburg': ('South Africa', 1753),
    'Kathmandu': ('Nepal', 1400),
    'La Paz': ('Bolivia', 3640),
    'Madrid': ('Spain', 667),
    'Nairobi': ('Kenya', 1795),
    'Quito': ('Ecuador', 2850),
}
FEET_IN_A_METRE = 3.28084


class Height(BaseModel):
    """The answer."""

    city: City
    country: str
    metres: int
    feet: int


def next_step(ctx: RunContext[None]) -> list[str]:
    """The one tool the model may call now: look up, then convert, then answer."""
    answers = [part for message in ctx.messages if isinstance(message, ToolMessage) for part in message.parts]
    done = {part.tool_name for part in answers if part.outcome == 'success'}
    return [next(step for step in ('look_up_city', 'metres_to_feet', 'final_result') if step not in done)]


agent = Agent(
    'local:',
    name='heights',
    output_type=Height,
    model_settings={'tool_choice': next_step},
    journal=SQLiteJournal('demo.db'),
)


@agent.tool
def look_up_city(city: City) -> dict[str, str | int]:
    """Look up the country of a city and its height in metres."""
    country, metres = CITIES[city]
    return {'city': city, 'country': country, 'metres': metres}


@agent.tool
def metres_to_feet(metres: float) -> dict[str, int]:
    """Convert metres to feet."""
    return {'feet': round(metres * FEET_IN_A_METRE)}


@agent.output_validator
def agrees_with_the_tools(height: Height) -> Height:
    """What the tools said may not be changed on the way; the model is told what is wrong and asked again."""
    if (height.country, height.metres) != CITIES[height.city]:
        raise ModelRetry(f'{height.city} was looked up: use the country and the metres of that result')
    if height.feet != round(height.metres * FEET_IN_A_METRE):
        raise ModelRetry('use the feet that metres_to_feet gave')
    return height
