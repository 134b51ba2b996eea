"""What a tool, an instruction function or an output check is told about the run it works in: `RunContext`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, ItemsView, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Never, Protocol, TypeAlias, overload

from typing_extensions import TypeForm, TypeVar

from agent_graph.messages import JsonValue, Message
from agent_graph.usage import Usage

__all__ = ['AnswerT', 'Deps', 'RunContext', 'RunView', 'StepData']

Deps = TypeVar('Deps', default=None, contravariant=True)
"""The type of the dependencies a user hands to a run."""

_DepsOut = TypeVar('_DepsOut', default=None, covariant=True)

AnswerT = TypeVar('AnswerT', default=str)
"""The type of a person's answer."""


class _List(Protocol):
    """A list of JSON data, whatever its items: a tuple, which a record cannot tell from a list, is none."""

    def __iter__(self) -> Iterator[_Data]: ...
    def append(self, item: Never, /) -> None: ...


class _Dict(Protocol):
    """A dict of JSON data, whatever its values."""

    def items(self) -> ItemsView[str, _Data]: ...
    def setdefault(self, key: Any, value: Never, /) -> Any: ...


_Data: TypeAlias = 'str | float | _List | _Dict | None'

StepData = TypeVar('StepData', bound=_Data)
"""The result of a step that is JSON data already, so that what is recorded is the same as what came."""


class RunView(Protocol):
    """The part of a run that a `RunContext` shows; the engine provides it."""

    @property
    def run_id(self) -> str: ...
    @property
    def agent_name(self) -> str | None: ...
    @property
    def messages(self) -> Sequence[Message]: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def step(self) -> int: ...
    @property
    def metadata(self) -> dict[str, JsonValue] | None: ...
    async def emit(self, value: Any, tool_name: str | None, tool_call_id: str | None) -> None: ...
    async def ask(self, tool_call_id: str | None, tool_name: str | None, question: str, schema: Any) -> Any: ...
    async def do_step(self, scope: str, name: str, function: Callable[[], Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class RunContext(Generic[_DepsOut]):
    """The run as user code sees it.

    `deps` is what was passed to the run. `tool_name` and `tool_call_id` are set inside a tool; `retry` counts how often
    in a row this tool (or the output) has already been sent back to the model, of at most `max_retries`. `partial` is
    true in an output validator while the output is still streaming in. `approved` is true in a tool call that a person
    has approved.
    """

    deps: _DepsOut
    run: RunView
    tool_name: str | None = None
    tool_call_id: str | None = None
    retry: int = 0
    max_retries: int = 0
    partial: bool = False
    approved: bool = False

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def agent_name(self) -> str | None:
        """The agent's name, if it has one."""
        return self.run.agent_name

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation up to here, the response being handled included."""
        return self.run.messages

    @property
    def usage(self) -> Usage:
        """What the run has used up to here, agents run inside its tools included."""
        return self.run.usage

    @property
    def step_number(self) -> int:
        """How many model requests the run has made."""
        return self.run.step

    @property
    def metadata(self) -> dict[str, JsonValue] | None:
        """The metadata passed to the run."""
        return self.run.metadata

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this tool call, also after a crash: hand it to services that deduplicate."""
        return f'{self.run_id}:{self.tool_call_id}'

    async def emit(self, value: Any) -> None:
        """Show `value` to whoever watches the run, as a `CustomEvent`; does nothing when nobody does."""
        await self.run.emit(value, self.tool_name, self.tool_call_id)

    async def ask(self, question: str, *, schema: TypeForm[AnswerT] = str) -> AnswerT:
        """Ask a person, and get an answer of the type `schema`; inside a tool only.

        The run pauses if nobody answers at once, and the tool is run again from its start when there is an answer, which
        this call then returns. What must not be done twice goes before it into `ctx.step`.
        """
        return await self.run.ask(self.tool_call_id, self.tool_name, question, schema)

    @overload
    async def step(
        self, name: str, function: Callable[[], Awaitable[StepData]] | Callable[[], StepData]
    ) -> StepData: ...
    @overload
    async def step(self, name: str, function: Callable[[], Any]) -> Any: ...
    async def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Do something once, however often this tool call is run: `await ctx.step('charge', lambda: charge(card))`.

        `function` may be sync or async; its result must have a JSON form, which later attempts get back. `name` tells the
        steps of one call apart.
        """
        return await self.run.do_step(self.tool_call_id or '', name, function)
