"""`agent-graph run`: run an agent once and watch it."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_graph.agent import Agent
from agent_graph.cli.exits import CommandError, Exit
from agent_graph.cli.stopping import Stopper
from agent_graph.cli.targets import TARGET_HELP, load_agent, load_deps
from agent_graph.cli.terminal import open_terminal
from agent_graph.cli.view import JsonView, LiveView, Report, View
from agent_graph.engine.effects import new_run_id
from agent_graph.errors import ConfigError, JournalError, UnknownRun
from agent_graph.journal import Journal
from agent_graph.journal.checks import status_of
from agent_graph.journal.entries import Record, RunStatus
from agent_graph.journal.sqlite import SQLiteJournal
from agent_graph.model import Model

__all__ = ['DEFAULT_JOURNAL', 'run']

DEFAULT_JOURNAL = Path('agent_graph.db')
"""Where runs go when neither the command nor the agent says where."""


def run(
    target: Annotated[str, typer.Argument(metavar='TARGET', help=TARGET_HELP, show_default=False)],
    prompt: Annotated[
        str, typer.Argument(metavar='PROMPT', help='What to ask; "-" reads it from standard input.', show_default=False)
    ],
    model: Annotated[
        str | None,
        typer.Option(help='Another model than the agent\'s own, such as "openai:gpt-5-mini".', show_default=False),
    ] = None,
    deps: Annotated[
        str | None,
        typer.Option(
            metavar='TARGET', help='The deps of the run: module:variable, a value or a function.', show_default=False
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            envvar='AGENT_GRAPH_JOURNAL',
            help="SQLite file to record the run in. Default: the agent's own journal, else ./agent_graph.db.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option('--json', help='One JSON object a line: every event, then a report.')
    ] = False,
    no_stream: Annotated[bool, typer.Option('--no-stream', help='Show nothing until the run has ended.')] = False,
    show_traceback: Annotated[
        bool, typer.Option('--traceback', help='With an error, show where it was raised.')
    ] = False,
) -> None:
    """Run an agent once and watch it: nodes, text, tool calls and results as they come.

    Then come the output, what was used, what it cost, the run's id and the path it took as a mermaid graph. Ctrl-C
    cancels the run; it is then recorded as cancelled.

    Exit codes: 0 the run completed; 1 it failed; 2 wrong arguments or set-up, nothing was run; 3 it waits for people;
    130 cancelled with Ctrl-C; 143 cancelled by SIGTERM.
    """
    agent = load_agent(target)
    text = sys.stdin.read() if prompt == '-' else prompt
    view: View = JsonView() if as_json else LiveView(open_terminal())
    chosen, where = _journal(agent, journal)
    agent.journal = chosen
    given: dict[str, Any] = {'model': model, 'deps': load_deps(agent, deps), 'run_id': new_run_id()}
    watch = _Watch(agent, chosen, where, view, stream=not no_stream)
    try:
        code = asyncio.run(watch.run(text, given))
    finally:
        view.close()
    if watch.error is not None and show_traceback:
        traceback.print_exception(watch.error)
    raise typer.Exit(code)


def _journal(agent: Agent[Any, Any], path: Path | None) -> tuple[Journal, str]:
    """The journal to record in, and where that is in words."""
    if path is None and agent.journal is not None:
        own = agent.journal
        return own, os.path.relpath(own.path) if isinstance(own, SQLiteJournal) else ''
    path = path or DEFAULT_JOURNAL
    return SQLiteJournal(path), str(path)


def _model_text(model: Model | str | None) -> str:
    if model is None:
        return 'no model'
    return model if isinstance(model, str) else f'{model.provider}:{model.name}'


class _Watch:
    """One run on the command line."""

    def __init__(self, agent: Agent[Any, Any], journal: Journal, where: str, view: View, *, stream: bool) -> None:
        self._agent = agent
        self._journal = journal
        self._where = where
        self._view = view
        self._stream = stream
        self.error: BaseException | None = None

    async def run(self, prompt: str, given: dict[str, Any]) -> Exit:
        """Run to the end, or until a signal; show it; say how it ended. `given` are the options of `agent.run`."""
        output: Any = None
        with Stopper() as stopper:
            try:
                output = await self._drive(prompt, given)
            except asyncio.CancelledError:
                if not stopper.caught():
                    raise
            except Exception as error:  # shown in one line, with the run it belongs to
                self.error = error
        try:
            return await self._finish(given['run_id'], output, stopper.exit)
        finally:
            await self._journal.aclose()

    async def _drive(self, prompt: str, given: dict[str, Any]) -> Any:
        if not self._stream:
            return (await self._agent.run(prompt, **given)).output
        async with self._agent.run_stream_events(prompt, **given) as events:
            begun = False
            async for event in events:
                if not begun:
                    begun = True
                    self._view.begin(
                        self._agent.name or 'agent', _model_text(given['model'] or self._agent.model), prompt
                    )
                self._view.show(event)
            return (await events.finish()).output

    async def _finish(self, run_id: str, output: Any, stopped: Exit | None) -> Exit:
        error = self.error
        records = await self._load(run_id)
        if not records:
            if error is None:
                return stopped or Exit.FAILED
            if isinstance(error, BrokenPipeError):
                raise error
            raise CommandError(_one_line(error), Exit.USAGE if isinstance(error, ConfigError) else Exit.FAILED)
        status = _status(records)
        if isinstance(error, BrokenPipeError):  # whoever read us is gone: there is nobody to tell
            return Exit.FAILED
        text = _one_line(error) if error is not None else 'stopped by a signal' if stopped is not None else None
        self._view.finish(Report(run_id, status, records, output, text, self._where))
        return stopped or _CODES.get(status, Exit.FAILED)

    async def _load(self, run_id: str) -> list[Record]:
        try:
            return await self._journal.load(run_id)
        except UnknownRun:
            return []
        except JournalError as error:
            self.error = self.error or error
            return []


_CODES: dict[RunStatus, Exit] = {'completed': Exit.COMPLETED, 'paused': Exit.PAUSED}


def _status(records: list[Record]) -> RunStatus:
    return status_of(records[-1].entry)


def _one_line(error: BaseException) -> str:
    text = ' '.join(str(error).split())
    if isinstance(error, ConfigError):
        return text  # says what is wrong and what to do; the type adds nothing
    return f'{type(error).__name__}: {text}' if text else type(error).__name__
