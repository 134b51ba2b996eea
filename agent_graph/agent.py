"""`Agent`: the declaration of an agent, and the ways to run it. A declaration only: constructing one builds nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, Literal, TypeAlias, cast, overload

from typing_extensions import TypeVar, Unpack

from agent_graph.declaration import Declaration
from agent_graph.engine.channel import EventQueue
from agent_graph.engine.options import (
    Answers,
    OnChange,
    OutputType,
    Prompt,
    ResumeOptions,
    ResumeSettings,
    RunOptions,
    RunSettings,
)
from agent_graph.engine.start import Order, captured, open_run
from agent_graph.engine.state import RunState, fold
from agent_graph.engine.stream import EventReader
from agent_graph.errors import ConfigError, JournalError
from agent_graph.journal import Record
from agent_graph.messages import Message
from agent_graph.runner import AgentRun, RunResult
from agent_graph.streaming import RunStream, events_of

__all__ = ['Agent', 'Edit', 'OutputType', 'Prompt', 'ResumeOptions', 'RunOptions', 'capture_run_messages']

Deps = TypeVar('Deps', default=None)
Output = TypeVar('Output', default=str)
Other = TypeVar('Other')

Edit: TypeAlias = Callable[[RunState], RunState | None] | Callable[[RunState], Awaitable[RunState | None]]
"""Changes the state a fork begins with, or returns another; sync or async."""


class Agent(Declaration[Deps, Output]):
    """An agent: a model, its instructions and tools, and what a run must end with.

    - `model`: a `Model`, or `'provider:name'`, which is looked up at the first run; may be left to the run.
    - `name`: shown in events, spans and the journal. `description` says what it is good for, for other agents.
    - `instructions`: a text, a function of the `RunContext` (or of nothing) that returns one, or several of these.
    - `deps_type`: the type of the `deps` each run is given; for type checkers, and `resume` asks for deps of such an agent.
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

    # Running

    @overload
    async def run(
        self, prompt: Prompt = None, *, output_type: None = None, **options: Unpack[RunSettings[Deps]]
    ) -> RunResult[Output]: ...
    @overload
    async def run(
        self, prompt: Prompt = None, *, output_type: OutputType[Other], **options: Unpack[RunSettings[Deps]]
    ) -> RunResult[Other]: ...
    @overload
    async def run(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> RunResult[Any]: ...
    async def run(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> RunResult[Any]:
        """Run to the end and return the result. Raises a `RunError` that carries the messages if it cannot."""
        order = self._order(prompt, **options)
        run = await self._begin(order)
        if run.ctx.deps.sink is not None:
            await run.announce()
        await run.to_end()
        return run.finished()

    @overload
    def run_sync(
        self, prompt: Prompt = None, *, output_type: None = None, **options: Unpack[RunSettings[Deps]]
    ) -> RunResult[Output]: ...
    @overload
    def run_sync(
        self, prompt: Prompt = None, *, output_type: OutputType[Other], **options: Unpack[RunSettings[Deps]]
    ) -> RunResult[Other]: ...
    @overload
    def run_sync(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> RunResult[Any]: ...
    def run_sync(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> RunResult[Any]:
        """`run`, from code that is not async; raises `ConfigError` where an event loop is running."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError('run_sync was called inside a running event loop; use "await agent.run(...)" there')
        return asyncio.run(self.run(prompt, **options))

    @overload
    def iter(
        self, prompt: Prompt = None, *, output_type: None = None, **options: Unpack[RunSettings[Deps]]
    ) -> _Opening[Output]: ...
    @overload
    def iter(
        self, prompt: Prompt = None, *, output_type: OutputType[Other], **options: Unpack[RunSettings[Deps]]
    ) -> _Opening[Other]: ...
    @overload
    def iter(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> _Opening[Any]: ...
    def iter(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> _Opening[Any]:
        """Walk node by node: `async with agent.iter(...) as run: async for node in run: ...`."""
        return _Opening(lambda: self._begin(self._order(prompt, **options)))

    @overload
    def run_stream(
        self, prompt: Prompt = None, *, output_type: None = None, **options: Unpack[RunSettings[Deps]]
    ) -> RunStream[Output]: ...
    @overload
    def run_stream(
        self, prompt: Prompt = None, *, output_type: OutputType[Other], **options: Unpack[RunSettings[Deps]]
    ) -> RunStream[Other]: ...
    @overload
    def run_stream(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> RunStream[Any]: ...
    def run_stream(self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]) -> RunStream[Any]:
        """Run and read as it goes: `async with agent.run_stream(...) as s: async for text in s.text(): ...`.

        The same run as with `run`: same tools, same output, same history. Leaving early cancels it, or, with `on_cancel='leave'`,
        leaves it to be resumed.
        """
        order = self._order(prompt, **options)
        return RunStream(lambda queue: self._begin(order, queue))

    @overload
    def run_stream_events(
        self, prompt: Prompt = None, *, output_type: None = None, **options: Unpack[RunSettings[Deps]]
    ) -> EventReader[RunResult[Output]]: ...
    @overload
    def run_stream_events(
        self, prompt: Prompt = None, *, output_type: OutputType[Other], **options: Unpack[RunSettings[Deps]]
    ) -> EventReader[RunResult[Other]]: ...
    @overload
    def run_stream_events(
        self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]
    ) -> EventReader[RunResult[Any]]: ...
    def run_stream_events(
        self, prompt: Prompt = None, **options: Unpack[RunOptions[Deps]]
    ) -> EventReader[RunResult[Any]]:
        """Every event of the whole run in one iteration: `async for event in agent.run_stream_events(...)`.

        Works with and without `async with`. Leaving early cancels the run: at once at the end of an `async with` block,
        else as soon as the iterator is dropped.
        """
        order = self._order(prompt, **options)
        return events_of(lambda queue: self._begin(order, queue))

    @overload
    async def resume(
        self, run_id: str, *, output_type: None = None, **options: Unpack[ResumeSettings[Deps]]
    ) -> RunResult[Output]: ...
    @overload
    async def resume(
        self, run_id: str, *, output_type: OutputType[Other], **options: Unpack[ResumeSettings[Deps]]
    ) -> RunResult[Other]: ...
    @overload
    async def resume(self, run_id: str, **options: Unpack[ResumeOptions[Deps]]) -> RunResult[Any]: ...
    async def resume(self, run_id: str, **options: Unpack[ResumeOptions[Deps]]) -> RunResult[Any]:
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

    @overload
    def resume_iter(
        self, run_id: str, *, output_type: None = None, **options: Unpack[ResumeSettings[Deps]]
    ) -> _Opening[Output]: ...
    @overload
    def resume_iter(
        self, run_id: str, *, output_type: OutputType[Other], **options: Unpack[ResumeSettings[Deps]]
    ) -> _Opening[Other]: ...
    @overload
    def resume_iter(self, run_id: str, **options: Unpack[ResumeOptions[Deps]]) -> _Opening[Any]: ...
    def resume_iter(self, run_id: str, **options: Unpack[ResumeOptions[Deps]]) -> _Opening[Any]:
        """`resume`, node by node: `async with agent.resume_iter(run_id) as run`. Takes the options of `resume`."""
        return _Opening(lambda: self._reopen(run_id, **options))

    @overload
    def resume_stream(
        self, run_id: str, *, output_type: None = None, **options: Unpack[ResumeSettings[Deps]]
    ) -> RunStream[Output]: ...
    @overload
    def resume_stream(
        self, run_id: str, *, output_type: OutputType[Other], **options: Unpack[ResumeSettings[Deps]]
    ) -> RunStream[Other]: ...
    @overload
    def resume_stream(self, run_id: str, **options: Unpack[ResumeOptions[Deps]]) -> RunStream[Any]: ...
    def resume_stream(self, run_id: str, **options: Unpack[ResumeOptions[Deps]]) -> RunStream[Any]:
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
        edit: Edit | None = None,
        replace: Message | None = None,
        new_run_id: str | None = None,
    ) -> str:
        """Make a new run with the past of `run_id` up to `at`, by reference; returns its id, for `resume`.

        `at` is the number of a journal entry, or the name of a node (its last entry); by default the newest entry before
        the end; of a run that failed because a tool raised, the place before that call began, so that `resume` makes it again
        (as it was approved; calls beside it that had finished stay finished). `replace` enters the node at `at` with another message; `edit` is given the `RunState` there and may
        change its `messages`, `metadata` and `limits`. The original is untouched. Raises `UnknownRun`, `ConfigError`.
        """
        from agent_graph.engine.forks import fork_run

        journal = self._durable_journal()
        return await fork_run(journal, run_id, at=at, edit=edit, replacement=replace, new_id=new_run_id)

    @overload
    async def replay(
        self,
        run: str | Sequence[Record],
        *,
        deps: Deps | None = None,
        output_type: None = None,
        on_change: Literal['refuse', 'continue'] = 'refuse',
    ) -> RunResult[Output]: ...
    @overload
    async def replay(
        self,
        run: str | Sequence[Record],
        *,
        deps: Deps | None = None,
        output_type: OutputType[Other],
        on_change: Literal['refuse', 'continue'] = 'refuse',
    ) -> RunResult[Other]: ...
    async def replay(
        self,
        run: str | Sequence[Record],
        *,
        deps: Deps | None = None,
        output_type: OutputType[Any] | None = None,
        on_change: Literal['refuse', 'continue'] = 'refuse',
    ) -> RunResult[Any]:
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
        walk: AgentRun[Any] = AgentRun(*opened)
        await follow_recording(walk.to_end(), cast('ReplayEffects', walk.ctx.deps.effects))
        return walk.finished()

    # What the above have in common

    async def _begin(self, order: Order, queue: EventQueue | None = None) -> AgentRun[Output]:
        if queue is not None:
            order.queue = queue
        start, ctx = await open_run(order)
        return self._as_run(start, ctx) if ctx.state.ended is not None else AgentRun(start, ctx)

    async def _reopen(
        self,
        run_id: str,
        queue: EventQueue | None = None,
        *,
        answers: Answers | None = None,
        on_change: OnChange = 'refuse',
        **options: Any,
    ) -> AgentRun[Output]:
        from agent_graph.engine.control import answer_and_hold, check_change
        from agent_graph.engine.reopening import Change, look_inside, reopen_run

        journal = self._durable_journal()
        order = self._order(**options)
        order.queue = queue
        state = fold(run_id, await journal.load(run_id))
        self._check_owner(state, renamed=on_change != 'refuse')
        if state.ended is None and order.deps is None:
            self._check_deps(run_id)
        await look_inside(state, journal)
        entry = await check_change(state, order.plan, on_change) if state.ended is None else None
        held = None
        if answers is not None:
            held = await answer_and_hold(state, order.plan, journal, answers, entry)
        change = Change(entry, state.messages) if entry is not None else None
        start, ctx = await reopen_run(order, run_id, journal, change=change, held=held)
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
