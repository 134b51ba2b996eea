"""`Declaration`: what an agent is, before any run of it: model, instructions, tools, output, and the plan made of these."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, cast, get_args, overload

from typing_extensions import TypeVar, Unpack

from agent_graph.engine.options import OutputType, Prompt, RunOptions
from agent_graph.engine.plan import EndStrategy, Instructions, OnCancel, OnPending, Plan
from agent_graph.engine.start import Order
from agent_graph.errors import ConfigError
from agent_graph.journal import Journal
from agent_graph.messages import JsonValue, Message
from agent_graph.model import Model, ModelSettings
from agent_graph.pending import Confirm
from agent_graph.tools import Tool, ToolOptions
from agent_graph.usage import UsageLimits

if TYPE_CHECKING:
    from agent_graph.capabilities import Capabilities
    from agent_graph.engine.state import RunState
    from agent_graph.engine.waiting import Waiting
    from agent_graph.journal import Record
    from agent_graph.render import Picture

__all__ = ['Declaration', 'deps_wanted']

Deps = TypeVar('Deps', default=None)
Output = TypeVar('Output', default=str)
F = TypeVar('F', bound=Callable[..., Any])


class _Unset:
    """Marks an argument that was not given, where `None` means something."""


_UNSET = _Unset()

_overrides: ContextVar[dict[int, dict[str, Any]] | None] = ContextVar('agent_graph_overrides', default=None)


class Declaration(Generic[Deps, Output]):
    """The part of an `Agent` that says what it is; `Agent` adds the ways to run it. Its parameters are described there."""

    def __init__(
        self,
        model: Model | str | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        instructions: Instructions | Sequence[Instructions] | None = None,
        deps_type: type[Deps] | None = None,
        output_type: OutputType[Output] = str,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        retries: int = 1,
        output_retries: int | None = None,
        end_strategy: EndStrategy = 'graceful',
        model_settings: ModelSettings | None = None,
        usage_limits: UsageLimits | None = None,
        max_concurrency: int | None = None,
        tool_timeout: float | None = None,
        journal: Journal | None = None,
        metadata: dict[str, JsonValue] | None = None,
    ) -> None:
        self.model = model
        self.name = name
        self.description = description
        self.deps_type = deps_type
        self.output_type: Any = output_type
        self.retries = retries
        self.output_retries = output_retries
        self.end_strategy: EndStrategy = end_strategy
        self.model_settings = model_settings
        self.usage_limits = usage_limits
        self.max_concurrency = max_concurrency
        self.tool_timeout = tool_timeout
        self.journal = journal
        self.metadata = metadata
        self._instructions: list[Instructions] = _listed(instructions)
        self._tools: list[Tool | Callable[..., Any]] = list(tools)
        self._validators: list[Callable[..., Any]] = []
        self._plan: Plan | None = None
        self._plans: dict[Any, Plan] = {}
        self._inferred: tuple[str, Model] | None = None
        self._fit: tuple[Plan, Capabilities, Plan] | None = None
        self._waiting: Waiting | None = None
        self._frozen = False

    def __repr__(self) -> str:
        return (
            f'Agent({self.model if isinstance(self.model, str) else type(self.model).__name__!r}, name={self.name!r})'
        )

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Register a tool: `@agent.tool`, or `@agent.tool(retries=2)` with the options of `Tool`. Returns the function.

        The function's first parameter may be a `RunContext`. Raises `ToolDefinitionError` at once for a bad signature.
        """
        self._open_to_change('a tool')

        def register(fn: F) -> F:
            self._open_to_change('a tool')
            self._tools.append(Tool(fn, **options).check())
            return fn

        return register if function is None else register(function)

    def instructions(self, function: F, /) -> F:
        """Register a function, of the `RunContext` or of nothing, that returns instructions (or `None`) for each run."""
        self._open_to_change('instructions')
        self._instructions.append(function)
        return function

    def output_validator(self, function: F, /) -> F:
        """Register a check of the output: `(ctx, value)` or `(value)`, returns the value, changed or not.

        Raise `ModelRetry` in it to have the model try again. While an output streams in, `ctx.partial` is true.
        """
        self._open_to_change('an output validator')
        self._validators.append(function)
        return function

    @contextmanager
    def override(
        self,
        *,
        model: Model | str | _Unset = _UNSET,
        tools: Sequence[Tool | Callable[..., Any]] | _Unset = _UNSET,
        deps: Any = _UNSET,
        journal: Journal | _Unset | None = _UNSET,
    ) -> Generator[None]:
        """For tests: runs started inside use this model, these tools, deps or journal, whatever their caller passes."""
        given = {'model': model, 'tools': tools, 'deps': deps, 'journal': journal}
        mine = {k: v for k, v in given.items() if v is not _UNSET}
        _check_journal(mine.get('journal'))
        current = _overrides.get() or {}
        token = _overrides.set({**current, id(self): {**current.get(id(self), {}), **mine}})
        try:
            yield
        finally:
            _overrides.reset(token)

    @property
    def graph(self) -> Picture:
        """The graph this agent walks: `agent.graph.render()` gives mermaid; a notebook shows it as a picture."""
        from agent_graph.engine.graph import AGENT_GRAPH
        from agent_graph.render import Picture

        return Picture(AGENT_GRAPH, title=self.name)

    # What a run is made of

    def _order(
        self,
        prompt: Prompt = None,
        *,
        deps: Any = None,
        message_history: Sequence[Message] | None = None,
        model: Model | str | None = None,
        model_settings: ModelSettings | None = None,
        usage_limits: UsageLimits | None = None,
        output_type: Any = None,
        run_id: str | None = None,
        metadata: dict[str, JsonValue] | None = None,
        confirm: Confirm = 'per_tool',
        on_pending: OnPending | None = None,
        on_cancel: OnCancel = 'cancel',
        **unknown: Any,
    ) -> Order:
        _check_options(confirm, on_cancel, run_id, usage_limits, unknown)
        overrides = _overrides.get()
        mine = overrides.get(id(self), {}) if overrides else {}
        own = self.model_settings
        merged: Any = {**own, **model_settings} if own and model_settings else model_settings or own or {}
        if merged:
            from agent_graph.settings import check_settings

            check_settings(merged)
        if self.metadata and metadata:
            metadata = {**self.metadata, **metadata}
        plan, asked = self._plan_for(output_type, mine.get('tools')), self._model_for(mine.get('model', model))
        if plan.output.tools and (able := getattr(asked, 'capabilities', None)) is not None and not able.tools:
            plan = self._fitted(plan, able)
        return Order(
            plan,
            asked,
            merged,
            mine.get('deps', deps),
            mine['journal'] if 'journal' in mine else self.journal,  # noqa: SIM401 (a call less in every run)
            usage_limits or self.usage_limits,
            prompt,
            message_history,
            metadata or self.metadata,
            run_id,
            confirm=confirm,
            on_pending=on_pending,
            keep=self._keep,
            on_cancel=on_cancel,
        )

    def _model_for(self, model: Model | str | None) -> Model:
        chosen = self.model if model is None else model
        if chosen is None:
            raise ConfigError('no model: pass one to Agent(model=...) or to the run, such as "openai:gpt-5-mini"')
        if not isinstance(chosen, str):
            try:
                _ = chosen.respond
            except AttributeError:
                wrong = f'model={chosen!r} is no model; pass "provider:name" or an object with respond()'
                raise ConfigError(wrong) from None
            return chosen
        from agent_graph.registry import infer_model  # needed for names only

        if self._inferred is None or self._inferred[0] != chosen:
            self._inferred = (chosen, infer_model(chosen))
        return self._inferred[1]

    def _plan_for(self, output_type: Any, tools: Sequence[Tool | Callable[..., Any]] | None) -> Plan:
        if output_type is None and tools is None:
            if self._plan is None:
                self._plan = self._make_plan(self.output_type, self._tools)
            return self._plan
        if tools is not None:
            return self._make_plan(self.output_type if output_type is None else output_type, tools)
        try:
            plan = self._plans.get(output_type)
        except TypeError:  # a list, say: nothing to look it up by
            return self._make_plan(output_type, self._tools)
        if plan is None:
            plan = self._plans[output_type] = self._make_plan(output_type, self._tools)
        return plan

    def _fitted(self, plan: Plan, able: Capabilities) -> Plan:
        """The plan for a model that cannot be offered tools; the last one is kept."""
        from agent_graph.engine.planning import fit_plan

        if self._fit is None or self._fit[0] is not plan or self._fit[1] != able:
            self._fit = (plan, able, fit_plan(plan, able))
        return self._fit[2]

    def _make_plan(self, output_type: Any, tools: Sequence[Tool | Callable[..., Any]]) -> Plan:
        from agent_graph.engine.planning import make_plan  # loads pydantic, so at the first run

        if self.name is not None and not isinstance(cast('object', self.name), str):
            raise ConfigError(f'name={self.name!r} is no text; an agent is found by its name in events and journals')
        _check_journal(self.journal)
        self._frozen = True
        if tools is self._tools:  # one `Tool` and schema a function, however many plans
            self._tools[:] = [t if isinstance(t, Tool) else Tool(t) for t in tools]
        return make_plan(
            name=self.name,
            output_type=output_type,
            tools=tools,
            instructions=tuple(self._instructions),
            validators=tuple(self._validators),
            retries=self.retries,
            output_retries=self.retries if self.output_retries is None else self.output_retries,
            end_strategy=self.end_strategy,
            max_concurrency=self.max_concurrency,
            tool_timeout=self.tool_timeout,
        )

    def _check_owner(self, state: RunState, *, renamed: bool) -> None:
        """Raises `ConfigError` if a stored run is none of this agent's."""
        whose = f'run {state.run_id!r} is one of the'
        if 'tools' not in (state.fingerprint or {'tools': ''}):  # an agent's run and a graph's are different walks
            raise ConfigError(f'{whose} graph {state.agent!r}; go on with it by resume_graph')
        if self.name and state.agent and self.name != state.agent and not renamed:
            raise ConfigError(
                f'{whose} agent {state.agent!r}, and this is {self.name!r}; nothing was done: resume it with that agent, or, if it '
                "was renamed, pass on_change='continue'"
            )

    def _check_deps(self, run_id: str) -> None:
        """Raises `ConfigError` if a stored run cannot go on without deps: its tools would fail, and the run with them."""
        if (name := deps_wanted(self.deps_type)) is not None:
            raise ConfigError(
                f'run {run_id!r} cannot go on without deps of type {name}, which is the deps_type of its agent; nothing was '
                'done or recorded: pass deps=... to resume'
            )

    def _open_to_change(self, what: str) -> None:
        if self._frozen:
            raise ConfigError(
                f'{what} cannot be added: the agent has run already; register everything before the first run'
            )

    async def _keep(self, run_id: str, records: Sequence[Record]) -> None:
        """A run without a journal pauses: it waits in memory, in this agent, for `resume`."""
        if self._waiting is None:
            from agent_graph.engine.waiting import Waiting

            self._waiting = Waiting()
        await self._waiting.keep(run_id, records)

    def _durable_journal(self) -> Journal:
        overrides = _overrides.get()
        journal: Journal | None = (
            overrides.get(id(self), {}).get('journal', self.journal) if overrides else self.journal
        )
        if journal is None and self._waiting is not None:
            return self._waiting.journal
        if journal is None:
            raise ConfigError('the agent has no journal to resume from; pass journal=SQLiteJournal(path) to Agent')
        return journal


def deps_wanted(deps_type: Any) -> str | None:
    """The name of the type without which runs cannot do; `None` if deps may be left out."""
    if deps_type in (None, type(None), object, Any) or type(None) in get_args(deps_type):
        return None
    return deps_type.__name__ if isinstance(deps_type, type) else str(deps_type)


def _listed(instructions: Instructions | Sequence[Instructions] | None) -> list[Instructions]:
    if instructions is None:
        return []
    if isinstance(instructions, str) or callable(instructions):
        return [instructions]
    if not isinstance(instructions, list | tuple):
        raise ConfigError(f'instructions={instructions!r} are neither a text nor a function, nor a list of these')
    return list(instructions)


def _check_options(confirm: Any, on_cancel: Any, run_id: Any, usage_limits: Any, unknown: dict[str, Any]) -> None:
    if unknown:
        known = ', '.join(RunOptions.__annotations__)
        raise TypeError(f'a run has no option {next(iter(unknown))!r}; its options are: {known}')
    if confirm not in ('per_tool', 'always', 'never'):  # in doubt nothing runs
        raise ConfigError(f"confirm={confirm!r} is unknown; use 'per_tool', 'always' or 'never'")
    if on_cancel not in ('cancel', 'leave'):
        raise ConfigError(f"on_cancel={on_cancel!r} is unknown; use 'cancel' or 'leave'")
    if run_id is not None and (run_id.__class__ is not str or not run_id):
        raise ConfigError(f'run_id={run_id!r} must be a text of at least one character; leave it out to get one')
    if usage_limits is not None and usage_limits.__class__ is not UsageLimits:
        raise ConfigError(f'usage_limits={usage_limits!r} is no UsageLimits(...)')


def _check_journal(journal: Any) -> None:
    if journal is not None and not hasattr(journal, 'append'):
        raise ConfigError(f'journal={journal!r} is no journal; pass one such as SQLiteJournal({journal!r})')
