"""`Agent`: the declaration of an agent, and the ways to run it. A declaration only: constructing one builds nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, overload

from typing_extensions import TypeVar, Unpack

from agent_graph.engine.channel import EventQueue
from agent_graph.engine.options import OnChange, OutputType, Prompt, ResumeOptions, RunOptions
from agent_graph.engine.plan import EndStrategy, Instructions, OnPending, Plan
from agent_graph.engine.start import Order, captured, open_run
from agent_graph.engine.state import fold
from agent_graph.engine.stream import EventReader
from agent_graph.errors import ConfigError, JournalError
from agent_graph.journal import Journal, Record
from agent_graph.messages import JsonValue, Message
from agent_graph.model import Model, ModelSettings
from agent_graph.pending import Confirm
from agent_graph.runner import AgentRun, RunResult
from agent_graph.streaming import RunStream, events_of
from agent_graph.tools import Tool
from agent_graph.usage import UsageLimits

if TYPE_CHECKING:
    from agent_graph.capabilities import Capabilities
    from agent_graph.engine.waiting import Waiting
    from agent_graph.render import Picture

__all__ = ['Agent', 'OutputType', 'Prompt', 'ResumeOptions', 'RunOptions', 'capture_run_messages']

Deps = TypeVar('Deps', default=None)
Output = TypeVar('Output', default=str)
OtherOutput = TypeVar('OtherOutput')
F = TypeVar('F', bound=Callable[..., Any])


class _Unset:
    """Marks an argument that was not given, where `None` means something."""


_UNSET = _Unset()

_overrides: ContextVar[dict[int, dict[str, Any]] | None] = ContextVar('agent_graph_overrides', default=None)


class Agent(Generic[Deps, Output]):
    """An agent: a model, its instructions and tools, and what a run must end with.

    - `model`: a `Model`, or `'provider:name'`, which is looked up at the first run; may be left to the run.
    - `name`: shown in events, spans and the journal. `description` says what it is good for, for other agents.
    - `instructions`: a text, a function of the `RunContext` (or of nothing) that returns one, or several of these.
    - `deps_type`: the type of the `deps` each run is given; for type checkers only.
    - `output_type`: see `agent_graph.output`.
    - `tools`: functions or `Tool`s.
    - `retries`: how often in a row a tool may send the model back; `output_retries` the same for the output (default:
      `retries`).
    - `end_strategy`: what happens to other calls beside a valid output, see `agent_graph.engine.dispatch`.
    - `max_concurrency`: tool calls of one response that run at a time. `tool_timeout`: seconds, for tools without their own.
    - `journal`: where runs are kept; without one a run is kept in memory for as long as it lasts, or while it waits.
    - `metadata`: kept with each run, together with the run's own.

    The first run freezes the declaration: registering a tool after that raises `ConfigError`. One agent may be used by
    many runs, threads and event loops at once.
    """

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

    # Declaring

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **options: Any) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
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

    # Running

    async def run(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> RunResult[Output]:
        """Run to the end and return the result. Raises a `RunError` that carries the messages if it cannot."""
        order = self._order(prompt, **options)
        run = await self._begin(order)
        if run.ctx.deps.sink is not None:
            await run.announce()
        await run.to_end()
        return run.finished()

    def run_sync(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> RunResult[Output]:
        """`run`, from code that is not async; raises `ConfigError` where an event loop is running."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError('run_sync was called inside a running event loop; use "await agent.run(...)" there')
        return asyncio.run(self.run(prompt, **options))

    def iter(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> _Opening[Output]:
        """Walk node by node: `async with agent.iter(...) as run: async for node in run: ...`."""
        return _Opening(lambda: self._begin(self._order(prompt, **options)))

    def run_stream(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> RunStream[Output]:
        """Run and read as it goes: `async with agent.run_stream(...) as s: async for text in s.text(): ...`.

        The same run as with `run`: same tools, same output, same history. Leaving early cancels it.
        """
        order = self._order(prompt, **options)
        return RunStream(lambda queue: self._begin(order, queue))

    def run_stream_events(
        self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]
    ) -> EventReader[RunResult[Output]]:
        """Every event of the whole run in one iteration: `async for event in agent.run_stream_events(...)`.

        Works with and without `async with`. Leaving early cancels the run: at once at the end of an `async with` block,
        else as soon as the iterator is dropped.
        """
        order = self._order(prompt, **options)
        return cast('EventReader[RunResult[Output]]', events_of(lambda queue: self._begin(order, queue)))

    async def resume(self, run_id: str, **options: Unpack[ResumeOptions[Deps]]) -> RunResult[Output]:
        """Go on with a run that stopped, from its journal: nothing that was recorded is done again.

        `answers` maps what a paused run waits for (a call id, the path of ids that ends with it, or the `Pending` itself)
        to `ToolApproved`, `ToolDenied`, `Answer` or `ToolReturn`; what is not answered goes on waiting. A run that has
        ended gives its result, and one that still waits its `pending`, without any effect. Limits, usage and id are those
        of the same run. When the agent's tools or output have changed since, `on_change` decides: `'refuse'` names what
        changed, `'continue'` goes on, and a function `(changes, state)` migrates: it is given what changed and a copy of
        the `RunState`, whose `messages`, `metadata` and `limits` it may change, and returns that state, or `True`; for
        anything else the run is refused. The change is recorded, and the run is the new agent's from then on.

        Raises `UnknownRun`, `RunLocked` while another process drives it, `AnswerError` for an answer in doubt, and
        `ConfigError` for a changed agent or one without a journal.
        """
        run = await self._reopen(run_id, **options)
        async with run:
            await run.announce(resumed=True)
            await run.to_end()
        if self._waiting is not None:
            await self._waiting.forget_ended()
        return run.finished()

    def resume_iter(self, run_id: str, **options: Unpack[ResumeOptions[Deps]]) -> _Opening[Output]:
        """`resume`, node by node: `async with agent.resume_iter(run_id) as run`. Takes the options of `resume`."""
        return _Opening(lambda: self._reopen(run_id, **options))

    def resume_stream(self, run_id: str, **options: Unpack[ResumeOptions[Deps]]) -> RunStream[Output]:
        """`resume`, read as it goes: `async with agent.resume_stream(run_id) as s`. Takes the options of `resume`."""
        return RunStream(lambda queue: self._reopen(run_id, queue, **options), resumed=True)

    async def cancel(self, run_id: str) -> None:
        """Cancel a stored run, from any process: whoever drives it is stopped at its next write, or within seconds.

        Does nothing to a run that has ended. Raises `UnknownRun`.
        """
        from agent_graph.engine.control import cancel_run

        await cancel_run(self._durable_journal(), run_id)

    async def fork(
        self,
        run_id: str,
        *,
        at: int | str | None = None,
        edit: Callable[[Any], Any] | None = None,
        replace: Message | None = None,
        new_run_id: str | None = None,
    ) -> str:
        """Make a new run with the past of `run_id` up to `at`, by reference; returns its id, for `resume`.

        `at` is the number of a journal entry, or the name of a node (its last entry); by default the newest entry before
        the end. `replace` enters the node at `at` with another message; `edit` is given the `RunState` there and may
        change its `messages`, `metadata` and `limits`. The original is untouched. Raises `UnknownRun`, `ConfigError`.
        """
        from agent_graph.engine.forks import fork_run

        journal = self._durable_journal()
        return await fork_run(journal, run_id, at=at, edit=edit, replacement=replace, new_id=new_run_id)

    async def replay(
        self,
        run: str | Sequence[Record],
        *,
        deps: Deps | None = None,
        output_type: OutputType[Any] | None = None,
        on_change: Literal['refuse', 'continue'] = 'refuse',
    ) -> RunResult[Output]:
        """Walk a recorded run again with the code as it is now, without any effect: no model, no tool, no journal.

        `run` is a run id, or the records of one (`agent_graph.journal.jsonl.import_run`). Raises `ReplayMismatch` naming
        the first entry that differs, with what was recorded and what came; with `on_change='continue'`, other tools than
        the recorded run's are no difference in themselves. A run that failed, was cancelled or waits gives a result with
        that `status`, if the code still comes to that place.
        """
        from agent_graph.engine.reopening import replay_run
        from agent_graph.engine.replaying import NoModel, ReplayEffects, follow_recording

        records = await self._durable_journal().load(run) if isinstance(run, str) else run
        order = self._order(deps=deps, model=NoModel(), output_type=output_type)
        opened = replay_run(order, records, run if isinstance(run, str) else None, on_change)
        walk: AgentRun[Output] = AgentRun(*opened)
        await follow_recording(walk.to_end(), cast('ReplayEffects', walk.ctx.deps.effects))
        return walk.finished()

    # What the above have in common

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
        **unknown: Any,
    ) -> Order:
        if unknown:
            known = ', '.join(RunOptions.__annotations__)
            raise TypeError(f'a run has no option {next(iter(unknown))!r}; its options are: {known}')
        if confirm not in ('per_tool', 'always', 'never'):  # in doubt nothing runs
            raise ConfigError(f"confirm={confirm!r} is unknown; use 'per_tool', 'always' or 'never'")
        if run_id is not None and (run_id.__class__ is not str or not run_id):
            raise ConfigError(f'run_id={run_id!r} must be a text of at least one character; leave it out to get one')
        if usage_limits is not None and usage_limits.__class__ is not UsageLimits:
            raise ConfigError(f'usage_limits={usage_limits!r} is no UsageLimits(...)')
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
        )

    async def _begin(self, order: Order, queue: EventQueue | None = None) -> AgentRun[Output]:
        if queue is not None:
            order.queue = queue
        start, ctx = await open_run(order)
        return self._as_run(start, ctx) if ctx.state.ended is not None else AgentRun(start, ctx)

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

        self._frozen = True
        _check_journal(self.journal)
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

    async def _reopen(
        self,
        run_id: str,
        queue: EventQueue | None = None,
        *,
        answers: Mapping[Any, Any] | None = None,
        on_change: OnChange = 'refuse',
        **options: Any,
    ) -> AgentRun[Output]:
        from agent_graph.engine.control import check_change, record_answers
        from agent_graph.engine.reopening import Change, look_inside, reopen_run

        journal = self._durable_journal()
        order = self._order(**options)
        order.queue = queue
        state = fold(run_id, await journal.load(run_id))
        await look_inside(state, journal)
        entry = await check_change(state, order.plan, on_change) if state.ended is None else None
        if answers is not None:
            await record_answers(state, order.plan, journal, answers, entry)
        change = Change(entry, state.messages) if entry is not None else None
        start, ctx = await reopen_run(order, run_id, journal, change=change)
        return self._as_run(start, ctx)

    def _as_run(self, start: Any, ctx: Any) -> AgentRun[Output]:
        run: AgentRun[Output] = AgentRun(start, ctx)
        ended = run.ctx.state.ended
        if ended is not None and ended.status == 'completed':
            if not ended.output_stored:
                raise JournalError('the run is complete, but its output has no JSON form and was not stored')
            output = ctx.deps.plan.output.load(ended.output, ended.tool_name)
            run.restore(RunResult(cast(Output, output), run.ctx.state))
        return run


class _Opening(Generic[Output]):
    """`async with agent.iter(...) as run`: the run begins when the block is entered."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._run: AgentRun[Output] | None = None

    async def __aenter__(self) -> AgentRun[Output]:
        self._run = run = await self._begin()
        await run.announce()
        return run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run is not None:
            await self._run.__aexit__(kind, error, trace)


@contextmanager
def capture_run_messages() -> Generator[list[Message]]:
    """See the messages of the first run started inside, also when it fails: `with capture_run_messages() as messages:`."""
    messages: list[Message] = []
    token = captured.set(messages)
    try:
        yield messages
    finally:
        captured.reset(token)


def _listed(instructions: Instructions | Sequence[Instructions] | None) -> list[Instructions]:
    if instructions is None:
        return []
    if isinstance(instructions, str) or callable(instructions):
        return [instructions]
    if not isinstance(instructions, list | tuple):
        raise ConfigError(f'instructions={instructions!r} are neither a text nor a function, nor a list of these')
    return list(instructions)


def _check_journal(journal: Any) -> None:
    if journal is not None and not hasattr(journal, 'append'):
        raise ConfigError(f'journal={journal!r} is no journal; pass one such as SQLiteJournal({journal!r})')
