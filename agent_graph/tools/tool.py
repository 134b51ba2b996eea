"""A function a model may call: `Tool`, the `@tool` decorator, and what a tool may return (`ToolReturn`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from typing_extensions import TypedDict, Unpack

from agent_graph.errors import ToolDefinitionError
from agent_graph.messages import FilePart, JsonValue, ToolCallPart
from agent_graph.model import ToolDefinition
from agent_graph.tools.context import RunContext

if TYPE_CHECKING:
    from agent_graph.tools.schema import FunctionSchema

__all__ = [
    'Approval',
    'OnCrash',
    'Prepare',
    'Retry',
    'SchemaToolOptions',
    'Tool',
    'ToolOptions',
    'ToolReturn',
    'tool',
]

Prepare: TypeAlias = Callable[
    [RunContext[Any], ToolDefinition], ToolDefinition | Awaitable[ToolDefinition | None] | None
]
"""Asked before each request: the definition to offer now, changed or not, or `None` to leave the tool out."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Returned by an `on_crash` function: the call took no effect, run it again."""


OnCrash: TypeAlias = Literal['ask', 'retry', 'never'] | Callable[[RunContext[Any], ToolCallPart], Any]
"""What to do with a call that was in flight when the process died. See `Tool`."""

Approval: TypeAlias = bool | Callable[[RunContext[Any], dict[str, Any]], Any]
"""Whether a call needs approval: always, never, or as a function of the context and the checked arguments says."""


class SchemaToolOptions(TypedDict, total=False):
    """The options of a tool that is described by a JSON schema: all of `ToolOptions` but what stands in the schema."""

    retries: int | None
    timeout: float | None
    sequential: bool
    prepare: Prepare | None
    strict: bool | None
    stop_after: bool
    show_result: bool
    on_crash: OnCrash
    requires_approval: Approval
    external: bool


class ToolOptions(SchemaToolOptions, total=False):
    """What `@tool(...)` and `@agent.tool(...)` take; all optional, described at `Tool`."""

    name: str | None
    description: str | None
    takes_context: bool | None


@dataclass(frozen=True, slots=True)
class ToolReturn:
    """A tool's result with more to it than a value.

    `value` is the result the model gets. `content` is shown to the model beside it: text and files. `metadata` is kept
    with the result for the application and never sent.
    """

    value: Any
    content: str | FilePart | Sequence[str | FilePart] | None = None
    metadata: JsonValue = None


class Tool:
    """A function a model may call, with how to call it.

    The function may be sync (it runs in a worker thread), async, or an async generator (each value it yields is shown as
    a `CustomEvent`, and the last one is the result). Its first parameter may be a `RunContext`.

    - `name`, `description`: what the model sees; by default the function's name and docstring.
    - `retries`: how often in a row the model is asked again after `ModelRetry` or bad arguments (default: the agent's).
    - `timeout`: seconds for one call. A sync function cannot be stopped: it keeps its thread, its result is dropped.
    - `sequential`: runs alone; calls before it finish first, calls after it wait.
    - `prepare`: asked before each request, see `Prepare`.
    - `strict`: ask the provider to hold the model to the schema.
    - `stop_after`: the run ends with this tool's result. `show_result`: the result is shown to the reader of a stream too.
    - `on_crash`: for a call in flight when the process died. `'ask'` pauses the run until a person says what to do;
      `'retry'` runs it again (for functions that may safely run twice; `ctx.idempotency_key` is the same each time);
      `'never'` answers it as interrupted; a function `(ctx, call)` finds out and returns a `ToolReturn`, or `Retry()`.
    - `requires_approval`: the call waits for a person's yes; `True`, or a function `(ctx, arguments) -> bool`.
    - `external`: somebody else does it: the run pauses until its result is handed in. The function is never called.
    """

    __slots__ = (
        '_namespace',
        '_schema',
        'external',
        'function',
        'given_description',
        'given_name',
        'on_crash',
        'prepare',
        'requires_approval',
        'retries',
        'sequential',
        'show_result',
        'stop_after',
        'strict',
        'takes_context',
        'timeout',
    )

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        takes_context: bool | None = None,
        retries: int | None = None,
        timeout: float | None = None,
        sequential: bool = False,
        prepare: Prepare | None = None,
        strict: bool | None = None,
        stop_after: bool = False,
        show_result: bool = False,
        on_crash: OnCrash = 'ask',
        requires_approval: Approval = False,
        external: bool = False,
    ) -> None:
        if on_crash not in ('ask', 'retry', 'never') and not callable(on_crash):
            raise ToolDefinitionError(
                f"on_crash={on_crash!r} is unknown; use 'ask', 'retry', 'never' or a function", tool_name=name or ''
            )
        if timeout is not None and (timeout.__class__ not in (int, float) or timeout <= 0):
            raise ToolDefinitionError(f'timeout={timeout!r} must be seconds above 0', tool_name=name or '')
        self.function = function
        self.given_name = name
        self.given_description = description
        self.takes_context = takes_context
        self.retries = retries
        self.timeout = timeout
        self.sequential = sequential
        self.prepare = prepare
        self.strict = strict
        self.stop_after = stop_after
        self.show_result = show_result
        self.on_crash: OnCrash = on_crash
        self.requires_approval = requires_approval
        self.external = external
        self._schema: FunctionSchema | None = None
        self._namespace = _names_around(function)

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str | None,
        json_schema: Mapping[str, Any],
        function: Callable[..., Any],
        *,
        takes_context: bool = False,
        **options: Unpack[SchemaToolOptions],
    ) -> Tool:
        """A tool whose arguments are described by a JSON schema from elsewhere; `options` as for `Tool`.

        The schema is checked here: raises `ToolDefinitionError` naming the tool and the place in the schema.
        """
        from agent_graph.tools.schema import schema_from_json

        made = cls(function, name=name, description=description, takes_context=takes_context, **options)
        made._schema = schema_from_json(name, description, json_schema, function, takes_context=takes_context)
        return made

    @property
    def schema(self) -> FunctionSchema:
        """The function's schema, made when first needed. Raises `ToolDefinitionError`."""
        schema = self._schema
        if schema is None:
            from agent_graph.tools.schema import function_schema  # loads pydantic, so at first use

            self._schema = schema = function_schema(
                self.function,
                name=self.given_name,
                description=self.given_description,
                takes_context=self.takes_context,
                namespace=self._namespace,
            )
        return schema

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return self.given_name or self.schema.name

    @property
    def definition(self) -> ToolDefinition:
        """What the model is shown."""
        schema = self.schema
        return ToolDefinition(schema.name, schema.description, schema.parameters, self.strict)

    def check(self) -> Tool:
        """Make the schema now, unless the function names a type that is only defined later in its file."""
        from agent_graph.tools.schema import unresolved_name

        if self._schema is None and unresolved_name(self.function, namespace=self._namespace) is None:
            _ = self.schema
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, for tests."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f'Tool({self.given_name or getattr(self.function, "__name__", self.function)!r})'


def _names_around(function: Callable[..., Any]) -> Mapping[str, Any] | None:
    """The local names a function was defined among, which its string annotations may mean; gone once that has returned."""
    if '<locals>' not in getattr(function, '__qualname__', ''):
        return None
    from agent_graph.tools.signature import local_names

    return local_names(function)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a function: `@tool`, or `@tool(retries=2, timeout=5)` with the options of `Tool`.

    The schema is made at once, so a bad signature is reported where it stands; only a type defined later in the file
    waits for the first run.
    """
    if function is not None:
        return Tool(function).check()

    def make(fn: Callable[..., Any]) -> Tool:
        return Tool(fn, **options).check()

    return make
