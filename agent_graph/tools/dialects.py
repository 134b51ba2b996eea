"""Schemas as each wire wants them: pure functions from schema to schema, which never change the one they are given.

Any JSON Schema may be passed in, also one from elsewhere (`agent_graph.tools.legal`). A dialect only ever allows more
than the original, since what comes back is checked against the original; `strict` refuses instead, because there the
provider is asked to hold the model to the schema. All raise `ToolDefinitionError` naming the tool and the place.

| published             | `openai`           | `strict`                 | `plain`       | `google`                       |
|-----------------------|--------------------|--------------------------|---------------|--------------------------------|
| for                   | most providers     | OpenAI structured output | small servers | Gemini                         |
| `$ref`                | kept               | kept                     | written out   | written out                    |
| recursion             | kept               | kept                     | twice, then   | twice, then cut to the bare    |
|                       |                    |                          | the bare type | type                           |
| `allOf`               | kept               | merged                   | merged        | merged                         |
| `oneOf`               | kept               | `anyOf`                  | kept          | `anyOf`                        |
| a choice at the top   | one object with    | refused                  | one object    | one object                     |
|                       | all properties     |                          |               |                                |
| optional property     | kept               | required, `null` allowed | kept          | kept                           |
| `null`                | kept               | kept                     | kept          | `nullable`                     |
| free-form object      | kept               | refused                  | kept          | a string holding its JSON      |
| any value             | kept               | refused                  | kept          | string, number or boolean      |
| array without `items` | `items: {}`        | refused                  | `items: {}`   | items of any value             |
| `prefixItems`         | kept               | `items`, counted         | kept          | `items`, counted               |
| `const`               | kept               | kept                     | kept          | `enum`                         |
| `enum` not of strings | kept               | kept                     | kept          | said in the description        |
| other keywords it     | kept               | said in the description  | kept          | said in the description        |
| does not know         |                    | or left out              |               | or left out                    |

What is said in the description follows the published text, which itself stays byte for byte. A string holding JSON is
unwrapped again when the arguments are checked, like any other (`agent_graph.tools.arguments`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from agent_graph.tools.google import to_google
from agent_graph.tools.keywords import LISTS, MAPS, SINGLES
from agent_graph.tools.rewrite import Rewriter
from agent_graph.tools.roots import drop_unused
from agent_graph.tools.strict import to_strict

__all__ = ['DIALECTS', 'Dialect', 'google', 'openai', 'plain', 'strict']


class Dialect(Protocol):
    """A dialect; `tool_name` is for the error."""

    def __call__(self, schema: Mapping[str, Any], *, tool_name: str = '') -> dict[str, Any]: ...


def openai(schema: Mapping[str, Any], *, tool_name: str = '') -> dict[str, Any]:
    """For Chat Completions, Responses, Anthropic and those who copy them: an object at the top, `items` on arrays."""
    rewriter = Rewriter(schema, tool_name)
    root = rewriter.one_object(rewriter.root)
    out = _with_items({**root, '$defs': rewriter.definitions})
    return drop_unused({'type': 'object', 'properties': {}, **out})


def strict(schema: Mapping[str, Any], *, tool_name: str = '') -> dict[str, Any]:
    """For OpenAI's strict mode: closed objects, every property required, only the keywords it knows."""
    return to_strict(Rewriter(schema, tool_name))


def plain(schema: Mapping[str, Any], *, tool_name: str = '') -> dict[str, Any]:
    """For servers that do not follow references."""
    rewriter = Rewriter(schema, tool_name)
    root = rewriter.inlined()
    return {'type': 'object', 'properties': {}, **_with_items(rewriter.one_object(root))}


def google(schema: Mapping[str, Any], *, tool_name: str = '') -> dict[str, Any]:
    """For Gemini's `parameters`: a subset of OpenAPI 3.0 without references."""
    return to_google(Rewriter(schema, tool_name))


DIALECTS: dict[str, Dialect] = {'openai': openai, 'strict': strict, 'plain': plain, 'google': google}
"""Every dialect by name."""


def _with_items(schema: Any) -> Any:
    """Arrays say what they hold, be it anything: OpenAI refuses them otherwise."""
    if not isinstance(schema, dict):
        return schema
    node = cast('dict[str, Any]', schema)
    out = _mapped(node, _with_items)
    if out.get('type') == 'array' and 'items' not in out:
        out['items'] = {}
    return out


def _mapped(node: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The node with every schema in it changed."""
    out: dict[str, Any] = {}
    for keyword, held in node.items():
        if keyword in SINGLES:
            out[keyword] = change(held)
        elif keyword in LISTS:
            out[keyword] = [change(item) for item in held]
        elif keyword in MAPS:
            out[keyword] = {name: change(item) for name, item in held.items()}
        else:
            out[keyword] = held
    return out
