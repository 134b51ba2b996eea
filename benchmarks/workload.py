"""What every engine is given to do: one tool, one prompt, and a script for the model."""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = [
    'ARGS',
    'FINAL',
    'INSTRUCTIONS',
    'PROMPT',
    'SCRIPT',
    'TOOL_SCHEMA',
    'Counter',
    'Script',
    'get_weather',
    'model_step',
    'report_json',
]

INSTRUCTIONS = 'Answer briefly and kindly.'
PROMPT = 'Will it rain today?'
ARGS = '{"city":"Bern"}'
FINAL = 'It stays dry.'


@dataclass(slots=True)
class Script:
    """What the model does in one run: `turns` responses of `par` tool calls each, then a text; `delay` s before each."""

    turns: int = 0
    par: int = 1
    delay: float = 0.0
    asked: int = 0


SCRIPT: ContextVar[Script] = ContextVar('script')


async def model_step() -> tuple[int, int]:
    """One request of the running script: (which one, from 0; how many tool calls to answer with, 0 for the text)."""
    script = SCRIPT.get()
    index = script.asked
    script.asked += 1
    if script.delay:
        await asyncio.sleep(script.delay)
    return index, script.par if index < script.turns else 0


class Counter:
    """How often the tool has run, so that a row can tell work that was done from work that was skipped."""

    n = 0


async def get_weather(city: str) -> str:
    """Look up today's weather.

    Args:
        city: Where.
    """
    Counter.n += 1
    await asyncio.sleep(0)
    return f'dry in {city}'


TOOL_SCHEMA = {
    'type': 'function',
    'function': {
        'name': 'get_weather',
        'description': "Look up today's weather.",
        'parameters': {
            'type': 'object',
            'properties': {'city': {'type': 'string', 'description': 'Where.'}},
            'required': ['city'],
        },
    },
}
"""The tool as a hand-written loop sends it."""


def report_json(size: int) -> str:
    """A JSON document of at least `size` characters, for the rows that stream structured output."""
    items: list[dict[str, str | int]] = []
    length = 0
    while length < size:
        item: dict[str, str | int] = {
            'id': len(items),
            'name': f'entry {len(items)}',
            'note': 'wind from the west ' * 3,
        }
        length += len(json.dumps(item)) + 2
        items.append(item)
    return json.dumps({'title': 'weather', 'items': items})
