"""An output type, prepared: `plan_output` makes of it what to ask the model for and how to read what comes back."""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Union, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json
from typing_extensions import TypedDict, TypeVar

from agent_graph.errors import ConfigError
from agent_graph.messages import JsonValue
from agent_graph.model import OutputSchema, ToolDefinition
from agent_graph.output import NativeOutput, PromptedOutput, TextOutput, ToolOutput
from agent_graph.text import json_form
from agent_graph.tools.arguments import check_value
from agent_graph.tools.schema import FunctionSchema, function_schema

__all__ = ['OutputPlan', 'OutputTool', 'Reader', 'plan_output']

Output = TypeVar('Output', default=str)

DEFAULT_NAME = 'final_result'
DEFAULT_DESCRIPTION = 'The final answer; calling this ends the conversation.'


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads JSON as one type, by the rules that tool arguments are read by.

    Arguments are JSON objects: a type that is none is under the key `response` (`wrapped`).
    """

    adapter: TypeAdapter[Any]
    wrapped: bool
    schema: dict[str, Any]

    def __call__(self, args: str | Mapping[str, Any]) -> Any:
        """The value; raises `ArgumentsError`."""
        value = check_value(self.adapter, args)
        return value['response'] if self.wrapped else value

    def partial(self, text: str) -> tuple[bool, Any]:
        """(True, value) if JSON text is a valid value as far as it goes, else (False, None)."""
        try:
            raw = from_json(text, allow_partial='trailing-strings')
            value = self.adapter.validate_python(raw, experimental_allow_partial='trailing-strings')
        except ValueError:
            return False, None
        if self.wrapped:
            return 'response' in value, value.get('response')
        return True, value

    def load(self, stored: JsonValue) -> Any:
        """A stored value as it was; the JSON data where the type no longer takes it."""
        try:
            value = self.adapter.validate_json(json.dumps({'response': stored} if self.wrapped else stored))
        except ValidationError:
            return stored
        return value['response'] if self.wrapped else value


@dataclass(frozen=True, slots=True)
class OutputTool:
    """One output tool: what the model is shown and how its arguments become a value."""

    definition: ToolDefinition
    reader: Reader | None
    schema: FunctionSchema | None = None
    max_retries: int | None = None

    def check(self, args: str | Mapping[str, Any]) -> Any:
        """The value (or, for an output function, its keyword arguments); raises `ArgumentsError`."""
        if self.schema is not None:
            return self.schema.validate(args)
        assert self.reader is not None
        return self.reader(args)


@dataclass(frozen=True, slots=True)
class OutputPlan(Generic[Output]):
    """An output type, prepared: what to ask the model for and how to check what comes.

    `text` says what a text answer is: the output itself (`'str'`), JSON (`'json'`), an argument (`'function'`) or no
    output at all (`'none'`). `source` is the output type this was made of.
    """

    tools: dict[str, OutputTool]
    text: str
    reader: Reader | None = None
    text_function: Callable[..., Any] | None = None
    native: OutputSchema | None = None
    prompt: str | None = None
    allow_none: bool = False
    definitions: tuple[ToolDefinition, ...] = field(default=())
    source: Any = None

    def check_text(self, text: str) -> Any:
        """The value of a text answer (for `'function'` the text); raises `ArgumentsError` if it is not one."""
        if self.text != 'json':
            return text
        assert self.reader is not None
        return self.reader(_without_fence(text))

    def partial(self, text: str, tool_name: str | None) -> tuple[bool, Any]:
        """(True, value) if what has arrived so far is a valid output as far as it goes, else (False, None)."""
        if tool_name is None and self.text != 'json':
            return self.text == 'str', text
        if tool_name is None:
            return self.reader.partial(_without_fence(text)) if self.reader is not None else (False, None)
        reader = self.tools[tool_name].reader
        return reader.partial(text) if reader is not None else (False, None)

    def dump(self, value: Any) -> tuple[bool, JsonValue]:
        """(True, JSON form) of an output, or (False, None) if it has none."""
        if value.__class__ is str and value.isascii():
            return True, value
        try:
            return True, json_form(value)
        except ValueError:
            return False, None

    def load(self, stored: JsonValue, tool_name: str | None) -> Any:
        """The output a journal holds, as the value it was; JSON data where the type is no longer known."""
        reader, function = self.reader, self.text_function
        if tool_name is not None:
            output_tool = self.tools.get(tool_name)
            if output_tool is None:  # a function tool that ended the run with its result
                return stored
            reader = output_tool.reader
            function = output_tool.schema.function if output_tool.schema is not None else None
        if function is not None:
            reader = _return_reader(function)
        return stored if reader is None or stored is None else reader.load(stored)


def plan_output(output_type: Any, *, without_tools: Literal['native', 'prompted'] | None = None) -> OutputPlan[Any]:
    """Prepare an output type; raises `ConfigError` naming what cannot be used and why.

    `without_tools`: the model cannot be offered tools, so plain types are asked for as text, in this way.
    """
    return replace(_planned(_members(output_type), output_type, without_tools), source=output_type)


def _planned(members: list[Any], output_type: Any, without_tools: str | None) -> OutputPlan[Any]:
    allow_none = any(m is None or m is type(None) for m in members)
    members = [m for m in members if m is not None and m is not type(None)]
    texts: list[Any] = [m for m in members if m is str or isinstance(m, (NativeOutput, PromptedOutput, TextOutput))]
    if len(texts) > 1:
        raise ConfigError(f'output_type has more than one way to read a text answer: {texts!r}; keep one of them')
    rest = [m for m in members if not any(m is t for t in texts)]
    if rest and without_tools:
        texts, rest = [*texts, _as_text(rest, without_tools, texts)], []
    tools = _output_tools(rest)
    text: Any = texts[-1] if texts else None
    definitions = tuple(t.definition for t in tools.values())
    if text is str:
        return OutputPlan(tools, 'str', allow_none=allow_none, definitions=definitions)
    if isinstance(text, TextOutput):
        return OutputPlan(
            tools, 'function', text_function=text.function, allow_none=allow_none, definitions=definitions
        )
    if isinstance(text, NativeOutput | PromptedOutput):
        return _json_plan(cast('NativeOutput[Any] | PromptedOutput[Any]', text), tools, allow_none, definitions)
    if not tools and not allow_none:
        raise ConfigError(f'output_type={output_type!r} names no type; pass str, a type, a function or a marker')
    return OutputPlan(tools, 'none', allow_none=allow_none, definitions=definitions)


def _as_text(rest: list[Any], way: str, texts: list[Any]) -> NativeOutput[Any] | PromptedOutput[Any]:
    """Plain types as one marker for a text answer."""
    unfit: list[Any] = [m for m in rest if isinstance(m, ToolOutput) or _is_function(m)] or texts
    if unfit:
        raise ConfigError(
            f'the model cannot be offered tools, so it cannot give {rest!r}'
            + (f' beside {texts!r}' if texts else '')
            + '; use plain types alone, PromptedOutput(...), or another model (or give it other capabilities)'
        )
    whole: Any = Union[tuple(rest)]  # noqa: UP007  (built from a list)
    return NativeOutput(whole) if way == 'native' else PromptedOutput(whole)


def _json_plan(
    marker: NativeOutput[Any] | PromptedOutput[Any],
    tools: dict[str, OutputTool],
    allow_none: bool,
    definitions: tuple[ToolDefinition, ...],
) -> OutputPlan[Any]:
    reader = _reader(marker.type)
    native = prompt = None
    if isinstance(marker, NativeOutput):
        native = OutputSchema(marker.name or _type_name(marker.type), reader.schema, marker.description, marker.strict)
    else:
        head = marker.instructions or 'Answer with one JSON value that follows this JSON schema, and with nothing else:'
        prompt = f'{head}\n{json.dumps(reader.schema, ensure_ascii=False)}'
    return OutputPlan(tools, 'json', reader, None, native, prompt, allow_none, definitions)


def _members(output_type: Any) -> list[Any]:
    if isinstance(output_type, Sequence) and not isinstance(output_type, str):
        return [m for item in cast(Sequence[Any], output_type) for m in _members(item)]
    if get_origin(output_type) in (Union, types.UnionType):
        return [m for item in get_args(output_type) for m in _members(item)]
    return [output_type]


def _output_tools(members: Sequence[Any]) -> dict[str, OutputTool]:
    tools: dict[str, OutputTool] = {}
    for member in members:
        marker = cast('ToolOutput[Any]', member if isinstance(member, ToolOutput) else ToolOutput(member))
        name = marker.name
        if name is None:
            name = DEFAULT_NAME if len(members) == 1 else f'{DEFAULT_NAME}_{_type_name(marker.type)}'
        if name in tools:
            if marker.name is not None:
                raise ConfigError(f'two output tools are named {name!r}; give one of them another name')
            name = next(f'{name}_{i}' for i in range(2, len(members) + 2) if f'{name}_{i}' not in tools)
        tools[name] = _output_tool(name, marker)
    return tools


def _output_tool(name: str, marker: ToolOutput[Any]) -> OutputTool:
    target: Any = marker.type
    if _is_function(target):
        schema = function_schema(target, name=name, description=marker.description)
        definition = ToolDefinition(
            name, schema.description or DEFAULT_DESCRIPTION, schema.parameters, marker.strict, 'output'
        )
        return OutputTool(definition, None, schema, marker.max_retries)
    reader = _reader(target)
    description = marker.description or _own_doc(target) or DEFAULT_DESCRIPTION
    definition = ToolDefinition(name, description, reader.schema, marker.strict, 'output')
    return OutputTool(definition, reader, None, marker.max_retries)


def _reader(target: Any) -> Reader:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(target)
        schema = adapter.json_schema()
        resolved = schema
        if '$ref' in schema:
            resolved = schema['$defs'][schema['$ref'].rsplit('/', 1)[-1]]
        if resolved.get('type') == 'object':
            return Reader(adapter, False, schema)
        wrapper = TypedDict('Response', {'response': target})  # pyright: ignore  # noqa: UP013 (the type is a value)
        adapter = TypeAdapter(wrapper)
        return Reader(adapter, True, adapter.json_schema())
    except Exception as error:  # pydantic raises many types here, and all mean the same to the caller
        raise ConfigError(
            f'output type {target!r} cannot be described to a model: {error}; use a type pydantic can check'
        ) from error


def _is_function(target: Any) -> bool:
    if inspect.isclass(target) or get_origin(target) is not None:
        return False
    return inspect.isroutine(target) or (
        callable(target) and not hasattr(target, '__value__') and not _is_special(target)
    )


def _is_special(target: Any) -> bool:
    return type(target).__module__ in ('typing', 'typing_extensions', 'types')


def _type_name(target: Any) -> str:
    name = getattr(target, '__name__', None)
    return name if isinstance(name, str) and get_origin(target) is None else str(target).replace('typing.', '')


def _own_doc(target: Any) -> str | None:
    """The docstring somebody wrote for this type, not the one a dataclass or a builtin brings along."""
    if not inspect.isclass(target) or target.__module__ == 'builtins':
        return None
    doc = target.__dict__.get('__doc__')
    if not doc or doc.startswith(f'{target.__name__}('):
        return None
    return inspect.cleandoc(doc)


def _return_reader(function: Callable[..., Any]) -> Reader | None:
    from typing import get_type_hints

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(get_type_hints(function)['return'])
        return Reader(adapter, False, {})
    except Exception:  # no annotation, or one pydantic cannot use: the JSON form is all there is
        return None


_FENCE = re.compile(r'\s*```(?:json)?[ \t]*\n(.*?)\n?\s*(?:```\s*)?\Z', re.DOTALL)


def _without_fence(text: str) -> str:
    """JSON in a Markdown fence is what many models answer when asked for JSON."""
    match = _FENCE.match(text)
    return match[1] if match else text
