"""Every recorded conversation runs through an Agent against the replay server to its recorded end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from agent_graph.model import ModelSettings
from agent_graph_providers.google import messages_from_google
from tests.providers.conversations import Dialect, Result, each_conversation, play
from tests.providers.google.recorded import API, model_of

_SCHEMAS = ('parametersJsonSchema', 'parameters_json_schema', 'parameters')


def either(fields: dict[str, Any], camel: str, snake: str) -> Any:
    return fields.get(camel, fields.get(snake))


def offered(body: dict[str, Any]) -> dict[str, tuple[str | None, dict[str, Any]]]:
    functions = [
        f for t in body.get('tools') or () for f in either(t, 'functionDeclarations', 'function_declarations') or ()
    ]
    return {f['name']: (f.get('description'), schema_of(f)) for f in functions}


def schema_of(function: dict[str, Any]) -> dict[str, Any]:
    return lowered(next((function[k] for k in _SCHEMAS if function.get(k)), None) or {'type': 'object'})


def lowered(schema: Any) -> Any:
    """The schema with its types as JSON Schema writes them."""
    if isinstance(schema, list):
        return [lowered(item) for item in schema]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(schema, dict):
        return schema
    fields: dict[str, Any] = schema  # pyright: ignore[reportUnknownVariableType]
    return {k: v.lower() if k == 'type' and isinstance(v, str) else lowered(v) for k, v in fields.items()}


def results(body: dict[str, Any]) -> Iterator[Result]:
    for content in body['contents']:
        for part in content['parts']:
            if (response := either(part, 'functionResponse', 'function_response')) is not None:
                yield '', response['name'], response['response']


def settings(body: dict[str, Any]) -> ModelSettings:
    """Google's own tools, which are not ours to run."""
    own = [t for t in body.get('tools') or () if not either(t, 'functionDeclarations', 'function_declarations')]
    return {'builtin_tools': own} if own else {}


GOOGLE = Dialect(API, model_of, messages_from_google, offered, results, settings)


@each_conversation(API)
def test_conversation(conversation: dict[str, Any]) -> None:
    asyncio.run(play(GOOGLE, conversation))
