"""How a function is offered to a model and called with what the model sent: `FunctionSchema`.

`function_schema` reads a Python function: every annotation pydantic knows, `Annotated[..., Field(...)]`, defaults,
docstrings, `*args` and `**kwargs`, methods, partials and callable objects. Each parameter is one property under its own
name; a parameter that is a model is an object there, never spread over the top level. A keyword argument settled by
`functools.partial` is not shown. `schema_from_json` takes a JSON schema from elsewhere instead (`agent_graph.tools.legal`
says what it understands). How arguments are read is in `agent_graph.tools.arguments`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from pydantic import ValidationError
from pydantic.errors import PydanticUndefinedAnnotation

from agent_graph.errors import ToolDefinitionError
from agent_graph.text import clean_text
from agent_graph.tools.adapter import argument_adapter, argument_schema
from agent_graph.tools.arguments import ArgumentChecker, ArgumentsError, JsonValidator, dump, holds_suspect_number
from agent_graph.tools.docstrings import read_docstring
from agent_graph.tools.fit import Fitter
from agent_graph.tools.legal import legal
from agent_graph.tools.roots import closed, object_root
from agent_graph.tools.signature import (
    Parameter,
    first_unresolved,
    local_names,
    plain_function,
    read_signature,
)

__all__ = [
    'ArgumentsError',
    'FunctionSchema',
    'function_schema',
    'local_names',
    'schema_from_json',
    'unresolved_name',
]


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """A function, what a model is told about it, and how to check and pass on what the model sends.

    `parameters` is a plain JSON Schema (2020-12) of an object and never holds the context. `is_async` is true for
    coroutine functions, also behind a partial or as `__call__`; `is_generator` for async generator functions.
    """

    function: Callable[..., Any]
    name: str
    description: str
    parameters: dict[str, Any]
    takes_context: bool
    is_async: bool
    is_generator: bool
    _check: ArgumentChecker = field(repr=False, compare=False)
    _validate_json: JsonValidator | None = field(default=None, repr=False, compare=False)
    _by_position: tuple[Parameter, ...] = field(default=(), repr=False, compare=False)

    def validate(self, args: str | Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, checked and as the function's own types. Raises `ArgumentsError`."""
        if self._validate_json is not None:
            text = args if isinstance(args, str) else dump(args)
            if text is not None and not holds_suspect_number(text):
                try:
                    return self._validate_json(text, strict=True)
                except ValidationError:
                    pass  # nearly right, or wrong: the careful way finds out
        return self._check(args)

    def bind(self, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Checked arguments as (positional, keyword) arguments of the function, the context not included."""
        if not self._by_position:
            return (), arguments
        keywords, positional = dict(arguments), list[Any]()
        for parameter in self._by_position:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional.extend(keywords.pop(parameter.name, ()))
            else:
                positional.append(keywords.pop(parameter.name, parameter.default))
        return tuple(positional), keywords


def function_schema(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    takes_context: bool | None = None,
    namespace: Mapping[str, Any] | None = None,
) -> FunctionSchema:
    """Read a function. `namespace` holds further names for string annotations, see `local_names`.

    Raises `ToolDefinitionError`: an annotation that cannot be resolved or has no JSON schema, a generator function, a
    class, a method without its object.
    """
    tool_name = _name(function, name)
    signature = read_signature(function, tool_name, takes_context, namespace or {})
    documentation = read_docstring(_docstring(function))
    adapter = argument_adapter(signature, tool_name)
    parameters = argument_schema(adapter, signature, documentation.parameters, tool_name)
    validate_json = cast('JsonValidator', adapter.validator.validate_json)
    is_async, is_generator = _async_kind(function, tool_name)
    return FunctionSchema(
        function,
        tool_name,
        clean_text(documentation.description if description is None else description),
        parameters,
        signature.takes_context,
        is_async,
        is_generator,
        ArgumentChecker(Fitter(parameters), validate_json),
        validate_json,
        _by_position(signature.parameters),
    )


def schema_from_json(
    name: str,
    description: str | None,
    json_schema: Mapping[str, Any],
    function: Callable[..., Any],
    *,
    takes_context: bool = False,
) -> FunctionSchema:
    """A function whose arguments a JSON schema from elsewhere describes; it is called with them as keywords.

    Raises `ToolDefinitionError` naming the tool and the JSON pointer of what is wrong.
    """
    tool_name = _name(function, name)
    parameters = object_root(legal(json_schema, tool_name=tool_name), tool_name)
    is_async, is_generator = _async_kind(function, tool_name)
    return FunctionSchema(
        function,
        tool_name,
        clean_text(description or ''),
        parameters,
        takes_context,
        is_async,
        is_generator,
        ArgumentChecker(Fitter(closed(parameters))),
    )


def unresolved_name(function: Callable[..., Any], *, namespace: Mapping[str, Any] | None = None) -> str | None:
    """The name an annotation uses that does not exist yet (a model defined later in the file), or None."""
    names = namespace or {}
    if (missing := first_unresolved(function, names)) is not None:
        return missing
    try:
        argument_adapter(read_signature(function, '', None, names), '')
    except PydanticUndefinedAnnotation as error:  # inside one of the types
        return error.name
    except ToolDefinitionError as error:  # a fault of another kind is reported when the schema is made
        return error.__cause__.name if isinstance(error.__cause__, PydanticUndefinedAnnotation) else None
    return None


def _name(function: Callable[..., Any], name: str | None) -> str:
    if name is None:
        named = function
        while isinstance(named, partial):
            named = cast('partial[Any]', named).func
        name = cast('str | None', getattr(named, '__name__', None)) or type(named).__name__
        if name == '<lambda>':
            raise ToolDefinitionError('a lambda has no name a model could call; pass name=', tool_name=name)
    if not name.strip():
        raise ToolDefinitionError(f'a tool cannot be called {name!r}; give it a name', tool_name=name)
    return clean_text(name)


def _docstring(function: Any) -> str | None:
    if isinstance(function, partial):
        return _docstring(cast('partial[Any]', function).func)
    if inspect.isroutine(function):
        return inspect.getdoc(function)
    return plain_function(function).__doc__ or type(function).__doc__


def _async_kind(function: Callable[..., Any], tool_name: str) -> tuple[bool, bool]:
    """(is a coroutine function, is an async generator function)."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = cast('partial[Any]', inner).func
    if not inspect.isroutine(inner):
        inner = getattr(inner, '__call__', inner)  # noqa: B004 (the bound method itself is wanted)
    if inspect.isgeneratorfunction(inner):
        raise ToolDefinitionError(
            f'tool {tool_name!r} is a generator function; make it `async def` to show values as they come',
            tool_name=tool_name,
        )
    return inspect.iscoroutinefunction(inner), inspect.isasyncgenfunction(inner)


def _by_position(parameters: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """The parameters that cannot be passed by keyword: positional-only ones, and all before `*args`."""
    kinds = inspect.Parameter
    if any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters):
        wanted = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.VAR_POSITIONAL)
    else:
        wanted = (kinds.POSITIONAL_ONLY,)
    return tuple(parameter for parameter in parameters if parameter.kind in wanted)
