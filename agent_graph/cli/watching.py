"""Driving a run from the command line: show it as it goes, ask people what it waits for, say how it ended."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from agent_graph.agent import Agent
from agent_graph.cli.dialog import open_dialog
from agent_graph.cli.exits import CommandError, Exit, exit_of, one_line
from agent_graph.cli.facts import Place
from agent_graph.cli.people import Answers, prompt_for
from agent_graph.cli.stopping import Stopper
from agent_graph.cli.terminal import open_terminal, printable
from agent_graph.cli.view import JsonView, LiveView, Report, View
from agent_graph.engine.stream import EventReader
from agent_graph.errors import AnswerError, ConfigError, JournalError, RunLocked, UnknownRun
from agent_graph.journal import Journal
from agent_graph.journal.checks import is_over, status_of
from agent_graph.journal.entries import Ended, Record, RunStatus
from agent_graph.pending import Pending

__all__ = ['Driver', 'Finished', 'Outcome', 'Watch', 'agent_driver', 'watch']


class Outcome(Protocol):
    """What a walk of a graph came to: a `RunResult` or a `GraphResult`."""

    @property
    def output(self) -> Any: ...
    @property
    def status(self) -> RunStatus | Literal['stopped']: ...
    @property
    def pending(self) -> tuple[Pending, ...]: ...


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run that had ended before came to; nothing was done."""

    output: Any
    status: RunStatus
    pending: tuple[Pending, ...] = ()

    @classmethod
    def of(cls, run_id: str, entry: Ended) -> Finished:
        """By its last entry. Raises `ConfigError` if its output is not there."""
        if entry.status == 'completed' and not entry.output_stored:
            raise ConfigError(f'run {run_id} is complete, but its output has no JSON form and was not stored')
        return cls(entry.output, entry.status)


Driver: TypeAlias = Callable[[Answers], Awaitable[Outcome]]
"""Drives a run until it ends or waits: called first, and again with answers when it has waited."""


@dataclass(frozen=True, slots=True)
class Watch:
    """How a run is to be watched. `stream`: show it as it goes; `as_json`: for programs; `ask`: prompt people."""

    journal: Journal
    place: Place
    run_id: str
    stream: bool = True
    as_json: bool = False
    ask: bool = True
    show_traceback: bool = False


def watch(watched: Watch, make: Callable[[View], Driver], answers: Answers | None = None) -> Exit:
    """Drive a run to its end, to a pause nobody at this terminal ends, or until a signal, and show it."""
    terminal = open_terminal()
    view: View = JsonView() if watched.as_json else LiveView(terminal)
    dialog = None if watched.as_json or not watched.ask else open_dialog(terminal)

    async def decide(waiting: Sequence[Pending]) -> Answers:
        return {} if dialog is None else await prompt_for(dialog, waiting)

    session = _Session(watched, view, make(view), decide)
    try:
        code = asyncio.run(session.run(answers or {}))
    finally:
        view.close()
    if session.error is not None and watched.show_traceback:
        traceback.print_exception(session.error)
    return code


def agent_driver(
    agent: Agent[Any, Any],
    run_id: str,
    view: View,
    *,
    stream: bool,
    resume: dict[str, Any],
    start: Callable[[], EventReader[Any]] | None = None,
    began: Callable[[], None] | None = None,
) -> Driver:
    """Drives a run of an agent: `start` begins a new one; without it, and after a pause, the stored one goes on.

    `began` is called once there is something to show. `resume` are the options of `agent.resume`.
    """
    begin = start

    async def drive(answers: Answers) -> Outcome:
        nonlocal begin, began
        opened, begin = begin, None
        events = agent.resume_stream(run_id, answers=answers, **resume) if opened is None else opened()
        if not stream:
            return await events.finish()
        async with events:
            async for event in events:
                announce, began = began, None
                if announce is not None:
                    announce()
                view.show(event)
            return await events.finish()

    return drive


class _Session:
    """One run on the command line."""

    def __init__(
        self, watched: Watch, view: View, drive: Driver, decide: Callable[[Sequence[Pending]], Awaitable[Answers]]
    ) -> None:
        self._watched = watched
        self._view = view
        self._drive = drive
        self._decide = decide
        self._outcome: Outcome | None = None
        self._before = 0
        self.error: BaseException | None = None

    async def run(self, answers: Answers) -> Exit:
        """Run to the end, or until a signal; show it; say how it ended."""
        with Stopper() as stopper:
            try:
                self._before = await self._entries()
                await self._go(answers)
            except asyncio.CancelledError:
                if not stopper.caught():
                    raise
            except Exception as error:  # shown in one line, with the run it belongs to
                self.error = error
        try:
            return await self._finish(stopper.exit)
        finally:
            await self._watched.journal.aclose()

    async def _go(self, answers: Answers) -> None:
        """Drive the run; whenever it waits, ask about what has not been asked yet, and go on with the answers."""
        self._outcome = outcome = await self._drive(answers)
        asked: set[Pending] = set()
        while outcome.status == 'paused':
            waiting = [pending for pending in outcome.pending if pending not in asked]
            given = await self._decide(waiting) if waiting else {}
            if not given:
                return
            try:
                self._outcome = outcome = await self._drive(given)
            except AnswerError as error:  # nothing has been recorded: ask again
                if await self._is_paused():
                    print(f'agent-graph: {printable(one_line(error))}', file=sys.stderr)
                    continue
                print('agent-graph: somebody else has answered meanwhile; the run goes on with that', file=sys.stderr)
                self._outcome = outcome = await self._drive({})
            asked |= set(waiting)

    async def _is_paused(self) -> bool:
        """Whether the run is still as it was when it paused."""
        records = await self._load()
        return bool(records) and status_of(records[-1].entry) == 'paused'

    async def _finish(self, stopped: Exit | None) -> Exit:
        records = await self._load()
        error = self.error
        if isinstance(error, CommandError):
            raise error
        status = status_of(records[-1].entry) if records else None
        if status is None or self._was_refused(records):
            if error is None:
                return stopped or Exit.FAILED
            nothing_ran = isinstance(error, ConfigError | AnswerError | JournalError)
            raise CommandError(one_line(error), Exit.USAGE if nothing_ran else Exit.FAILED)
        self._view.finish(self._report(status, records, stopped))
        return stopped or exit_of(status, error, records)

    def _report(self, status: RunStatus, records: Sequence[Record], stopped: Exit | None) -> Report:
        outcome, last = self._outcome, records[-1].entry
        output, pending = (None, ()) if outcome is None else (outcome.output, outcome.pending)
        text = last.error if isinstance(last, Ended) else None
        if self.error is not None:
            text = one_line(self.error)
        elif stopped is not None:
            text = 'stopped by a signal'
        ended_before = isinstance(outcome, Finished)
        watched = self._watched
        return Report(watched.run_id, status, records, output, text, watched.place, pending, ended_before)

    async def _load(self) -> list[Record]:
        try:
            return await self._watched.journal.load(self._watched.run_id)
        except UnknownRun:
            return []
        except JournalError as error:
            self.error = self.error or error
            return []

    async def _entries(self) -> int:
        """How many entries the run has before anything is done."""
        try:
            return (await self._watched.journal.info(self._watched.run_id)).last_seq
        except JournalError:  # there is no such run yet, or what is about to happen says it better
            return 0

    def _was_refused(self, records: Sequence[Record]) -> bool:
        """Whether a stored run was not gone on with at all; a run that an error ended is shown with it."""
        error = self.error
        if isinstance(error, JournalError) and not isinstance(error, RunLocked):
            return records[-1].seq == self._before
        open_still = not is_over(status_of(records[-1].entry))
        return open_still and isinstance(error, ConfigError | AnswerError | RunLocked)
