"""Driving a run from the command line: show it as it goes, ask people what it waits for, say how it ended."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

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
from agent_graph.journal.checks import status_of
from agent_graph.journal.entries import Record, RunStatus
from agent_graph.pending import Pending

__all__ = ['Driver', 'Outcome', 'Watch', 'agent_driver', 'watch']


class Outcome(Protocol):
    """What a walk of a graph came to: a `RunResult` or a `GraphResult`."""

    @property
    def output(self) -> Any: ...
    @property
    def status(self) -> RunStatus: ...
    @property
    def pending(self) -> tuple[Pending, ...]: ...


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
        self.error: BaseException | None = None

    async def run(self, answers: Answers) -> Exit:
        """Run to the end, or until a signal; show it; say how it ended."""
        with Stopper() as stopper:
            try:
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
                print(f'agent-graph: {printable(one_line(error))}', file=sys.stderr)
                continue
            asked |= set(waiting)

    async def _finish(self, stopped: Exit | None) -> Exit:
        records = await self._load()
        error = self.error
        if isinstance(error, BrokenPipeError):  # whoever read us is gone: there is nobody to tell
            if not records:
                raise error
            return Exit.FAILED
        status = status_of(records[-1].entry) if records else None
        if status is None or _was_refused(error, status):
            if error is None:
                return stopped or Exit.FAILED
            nothing_ran = isinstance(error, ConfigError | AnswerError | JournalError)
            raise CommandError(one_line(error), Exit.USAGE if nothing_ran else Exit.FAILED)
        text = one_line(error) if error is not None else 'stopped by a signal' if stopped is not None else None
        outcome = self._outcome
        output, pending = (None, ()) if outcome is None else (outcome.output, outcome.pending)
        report = Report(self._watched.run_id, status, records, output, text, self._watched.place, pending)
        self._view.finish(report)
        return stopped or exit_of(status, error, records)

    async def _load(self) -> list[Record]:
        try:
            return await self._watched.journal.load(self._watched.run_id)
        except UnknownRun:
            return []
        except JournalError as error:
            self.error = self.error or error
            return []


def _was_refused(error: BaseException | None, status: RunStatus) -> bool:
    """Whether a stored run was not gone on with at all; a run that `error` ended is shown with it."""
    return status in ('running', 'paused') and isinstance(error, ConfigError | AnswerError | RunLocked)
