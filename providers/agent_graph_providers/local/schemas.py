"""JSON schemas that hold a small model to one legal answer: a tool's arguments, or a choice between tools and an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_graph.model import ToolDefinition

__all__ = ['ANSWER', 'ARGUMENTS', 'TOOL', 'arguments_of', 'choice_of', 'grammar_of']

TOOL, ARGUMENTS, ANSWER = 'tool', 'arguments', 'answer'
"""The keys of a choice: `{"tool": name, "arguments": {...}}` or `{"answer": ...}`."""

_MAPS = frozenset({'properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'})
"""Keywords whose value maps names to schemas."""

_VALUES = frozenset({'const', 'default', 'enum', 'examples', 'example', 'required', 'title', 'description'})
"""Keywords whose value is no schema."""


def arguments_of(tool: ToolDefinition) -> dict[str, Any]:
    """The schema of this tool's arguments, as llama.cpp takes it."""
    return _moved(tool.parameters or {'type': 'object', 'properties': {}}, '#')


def choice_of(tools: Sequence[ToolDefinition], answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """One of these tool calls, or an answer that follows the schema `answer` (`None`: there has to be a call)."""
    defs: dict[str, Any] = {}
    branches: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        place = f't{index}'
        defs[place] = _moved(tool.parameters or {'type': 'object', 'properties': {}}, f'#/$defs/{place}')
        branches.append(_object({TOOL: {'const': tool.name}, ARGUMENTS: {'$ref': f'#/$defs/{place}'}}))
    if answer is not None:
        defs['a'] = _moved(answer, '#/$defs/a')
        branches.append(_object({ANSWER: {'$ref': '#/$defs/a'}}))
    return {'anyOf': branches, '$defs': defs}


def grammar_of(schema: Mapping[str, Any]) -> str:
    """The grammar of a choice, for llguidance. The one llama.cpp itself makes lets through one branch's parts in another.

    Keywords nobody follows here are ignored rather than refused: the engine checks the arguments against the full schema.
    """
    options = {'lenient': True, 'coerce_one_of': True, 'whitespace_flexible': False}
    spaced = {**options, 'key_separator': ': ', 'item_separator': ', '}
    return '%llguidance {}\nstart: %json ' + json.dumps({**schema, 'x-guidance': spaced})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {'type': 'object', 'properties': properties, 'required': list(properties), 'additionalProperties': False}


def _moved(schema: Any, root: str) -> Any:
    """`schema` as part of another one: what its references call `#` is at `root` there.

    Patterns llama.cpp cannot follow are left out; it would ignore them too, but say so on every request. The engine
    checks the arguments against the full schema anyway.
    """
    if isinstance(schema, list):
        return [_moved(item, root) for item in cast(list[Any], schema)]
    if not isinstance(schema, Mapping):
        return schema
    moved: dict[str, Any] = {}
    for key, value in cast(Mapping[str, Any], schema).items():
        if key == '$ref' and isinstance(value, str) and value.startswith('#'):
            moved[key] = root + value[1:]
        elif key == 'pattern' and isinstance(value, str) and not _followed(value):
            continue
        elif key in _MAPS and isinstance(value, Mapping):
            moved[key] = {name: _moved(part, root) for name, part in cast(Mapping[str, Any], value).items()}
        else:
            moved[key] = value if key in _VALUES else _moved(value, root)
    return moved


def _followed(pattern: str) -> bool:
    """Whether llama.cpp turns this pattern into a grammar: anchored at both ends, no look-around."""
    return pattern.startswith('^') and pattern.endswith('$') and '(?' not in pattern
