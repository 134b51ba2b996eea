"""What a run works with: the resolved declaration of its agent (`Plan`) and its live handles (`RunDeps`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from agent_graph.engine.budget import ActiveCall, Budget
from agent_graph.engine.channel import Sink
from agent_graph.engine.effects import Effects
from agent_graph.engine.state import RunState
from agent_graph.events import CustomEvent
from agent_graph.journal.entries import Record
from agent_graph.messages import JsonValue, Message
from agent_graph.model import Model, ModelSettings, ResponseBuilder, ToolDefinition
from agent_graph.pending import Pending
from agent_graph.tools import RunContext, Tool
from agent_graph.usage import Usage, Used

if TYPE_CHECKING:
    from agent_graph.engine.lease import Keeper
    from agent_graph.journal import Journal
    from agent_graph.output_plan import OutputPlan
    from agent_graph.telemetry import RunTracing

__all__ = [
    'Attempt',
    'EndStrategy',
    'Handles',
    'Instructions',
    'Keep',
    'OnCancel',
    'OnPending',
    'Plan',
    'RunDeps',
    'active_call',
]

EndStrategy: TypeAlias = Literal['early', 'graceful', 'exhaustive']
"""What happens to the other calls of a response whose output is valid: see `agent_graph.engine.dispatch`."""

Instructions: TypeAlias = str | Callable[..., Any]
"""A text, or a function (sync or async, with or without a `RunContext`) that returns one or `None`."""

OnPending: TypeAlias = Callable[[Pending], Any]
"""Answers what a run waits for while it waits, sync or async, instead of pausing it; `None` lets it pause."""

OnCancel: TypeAlias = Literal['cancel', 'leave']
"""What a cancellation from outside does to a run: `'cancel'` records it as its end, `'leave'` records nothing, as a crash."""

Keep: TypeAlias = Callable[[str, Sequence[Record]], Awaitable[None]]
"""Takes over the records of a run that pauses and has no journal, so that it can be resumed in this process."""

active_call: ContextVar[ActiveCall | None] = ContextVar('agent_graph_active_call', default=None)
"""The tool call the current code runs in, so that a run started there knows what it is part of."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An agent's declaration, resolved once and the same for all its runs."""

    name: str | None
    tools: Mapping[str, Tool]
    definitions: tuple[ToolDefinition, ...]
    prepared: bool
    gated: bool
    output: OutputPlan[Any]
    instructions: tuple[Instructions, ...]
    validators: tuple[Callable[..., Any], ...]
    retries: int
    output_retries: int
    end_strategy: EndStrategy
    max_concurrency: int | None
    tool_timeout: float | None
    _fingerprint: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue], compare=False, repr=False)

    def fingerprint(self) -> dict[str, JsonValue]:
        """What a stored run depends on, in short: a digest for each tool and its schema, and for the output."""
        if not self._fingerprint:
            from agent_graph.engine.fingerprint import fingerprint  # only runs that are stored need one

            self._fingerprint.update(fingerprint(self))
        return self._fingerprint


@dataclass(slots=True)
class Attempt:
    """What user code has asked and done in the running attempt at a call or a node; `turn`: one question at a time.

    `used` are the recorded answers it was given, by their place.
    """

    used: set[int] = field(default_factory=set[int])
    steps: set[str] = field(default_factory=set[str])
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True, kw_only=True)
class Handles:
    """The handles of one run of any graph; never stored. It is also what a `RunContext` looks at (`RunView`).

    `left` is what runs inside used in earlier attempts at calls (or the node) that are open and do not run now, `counted`
    the runs inside with names of their own whose use has been counted. `leaving`: it was cancelled from outside and stays
    as it is; `timeout` is what stops it when its time is over.
    """

    user_deps: Any
    effects: Effects
    state: RunState
    budget: Budget
    events: Sink
    around: ActiveCall | None = None
    inside: ActiveCall | None = None
    tracing: RunTracing | None = None
    sink: Sink | None = None
    entered: bool = False
    deadline: float | None = None
    driver: asyncio.Task[Any] | None = None
    driven: bool = False
    cancel_asked: bool = False
    drain_asked: bool = False
    on_cancel: OnCancel = 'cancel'
    leaving: bool = False
    timeout: asyncio.Timeout | None = None
    keeper: Keeper | None = None
    keep: Keep | None = None
    on_pending: OnPending | None = None
    turn: asyncio.Lock | None = None
    woken: frozenset[str] = frozenset()
    inner: list[Handles] = field(default_factory=lambda: list[Handles]())
    left: dict[str, Used] = field(default_factory=lambda: dict[str, Used]())
    counted: set[str] = field(default_factory=set[str])
    waiting: list[Pending] = field(default_factory=list[Pending])
    attempts: dict[str, Attempt] = field(default_factory=lambda: dict[str, Attempt]())

    @property
    def may_hold(self) -> bool:
        """Whether an entry may wait for the one that follows: the run is driven on at once, and nobody is shown anything."""
        return self.effects.batches and self.driven and self.sink is None

    @property
    def agent_name(self) -> str | None:
        return self.state.agent

    @property
    def run_id(self) -> str:
        return self.state.run_id

    @property
    def messages(self) -> Sequence[Message]:
        return tuple(self.state.messages)

    @property
    def usage(self) -> Usage:
        return self.state.usage

    @property
    def step(self) -> int:
        return self.state.step

    @property
    def metadata(self) -> dict[str, JsonValue] | None:
        return self.state.metadata

    async def emit(self, value: Any, tool_name: str | None, tool_call_id: str | None) -> None:
        """Show a value to whoever watches."""
        if self.sink is not None:
            await self.sink(CustomEvent, value=value, tool_name=tool_name, tool_call_id=tool_call_id)

    async def ask(self, tool_call_id: str | None, tool_name: str | None, question: str, schema: Any) -> Any:
        """Ask a person from inside a tool."""
        from agent_graph.engine.questions import ask  # few runs ask anything

        return await ask(self, tool_call_id, tool_name, question, schema)

    def count_response(self) -> None:
        """Count the newest response for the runs around this one, and against all limits."""
        spend = self.state.spends[-1]
        if self.around is not None:
            self.around.count_response(spend)
        if self.budget.bounded:
            self.budget.spent(spend)

    async def let_go(self, scope: str) -> None:
        """A call (or a node) is not gone on with: end the runs that wait, or were left, inside it."""
        if self.keeper is not None:  # without a journal that lasts there is nothing to find them in
            from agent_graph.engine.control import cancel_inside

            await cancel_inside(cast('Journal', self.effects.journal), self.run_id, scope)

    async def do_step(self, scope: str, name: str, function: Callable[[], Any]) -> Any:
        """Do something once in the run's life."""
        from agent_graph.engine.questions import do_step

        return await do_step(self, scope, name, function)


@dataclass(slots=True, kw_only=True)
class RunDeps(Handles):
    """The handles of one run of an agent."""

    plan: Plan
    model: Model
    settings: ModelSettings
    builder: ResponseBuilder | None = None
    scratch: dict[Any, Any] = field(default_factory=dict[Any, Any])
    offered: tuple[ToolDefinition, ...] | None = None
    offered_names: tuple[str, ...] | None = None
    stop_values: dict[str, Any] = field(default_factory=dict[str, Any])
    walked: tuple[Any, Any] | None = None

    def context(self, *, retry: int = 0, max_retries: int = 0, partial: bool = False) -> RunContext[Any]:
        """The run as instruction functions and output checks see it."""
        return RunContext(self.user_deps, self, None, None, retry, max_retries, partial)
