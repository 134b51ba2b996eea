"""`agent-graph runs resume`: going on with a run that stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic_graph import Graph

from agent_graph.agent import Agent
from agent_graph.cli.exits import CommandError, Exit
from agent_graph.cli.facts import Place
from agent_graph.cli.journals import (
    DEFAULT_JOURNAL,
    JOURNAL_VARIABLE,
    RunArgument,
    check_there,
    find_run,
    journal_for,
    with_journal,
)
from agent_graph.cli.people import Answers
from agent_graph.cli.run import DepsOption, ModelOption, NoStreamOption, TracebackOption
from agent_graph.cli.targets import TARGET_HELP, check_owner, load_deps, load_graph
from agent_graph.cli.view import View
from agent_graph.cli.watching import Driver, Finished, Outcome, Watch, agent_driver, watch
from agent_graph.journal import Journal
from agent_graph.journal.checks import is_over
from agent_graph.journal.entries import Ended
from agent_graph.journal.sqlite import SQLiteJournal
from agent_graph.workflow import resume_graph

__all__ = ['OwnJournalOption', 'Target', 'TargetOption', 'go_on', 'open_target', 'resume']

TargetOption = Annotated[
    str | None,
    typer.Option('--target', metavar='TARGET', help=f'The agent of the run. {TARGET_HELP}', show_default=False),
]
OwnJournalOption = Annotated[
    Path | None,
    typer.Option(
        '--journal',
        metavar='PATH',
        envvar=JOURNAL_VARIABLE,
        help="The SQLite file with the runs. Default: the target's own journal, else ./agent_graph.db.",
        show_default=False,
    ),
]


def resume(
    run: RunArgument,
    target: TargetOption = None,
    model: ModelOption = None,
    deps: DepsOption = None,
    on_change: Annotated[
        Literal['refuse', 'continue'],
        typer.Option(
            help='What to do when the tools or the output of the agent, or the nodes of the graph, have changed since.'
        ),
    ] = 'refuse',
    journal: OwnJournalOption = None,
    as_json: Annotated[
        bool, typer.Option('--json', help='One JSON object a line: every event, then a report.')
    ] = False,
    no_stream: NoStreamOption = False,
    show_traceback: TracebackOption = False,
) -> None:
    """Go on with a run that was killed, left, forked, or answered; nothing that was recorded is done again.

    The code of a run is not in the journal: --target names its agent, or its pydantic-graph Graph. A run that still waits
    for people asks you, if standard input is a terminal. One that has ended shows how, and nothing is done. An agent or
    graph of another name is refused, unless --on-change says that it may have been renamed.

    Exit codes: 0 the run completed; 1 it failed or was cancelled; 2 nothing was done: wrong arguments, no such run,
    another agent, another process drives it; 3 it waits for people; 130 and 143 cancelled by a signal.
    """
    opened = open_target(target, journal, model=model, deps=deps)
    run_id, ended = opened.find(run)
    given = {'on_change': on_change} if ended else {'on_change': on_change, **opened.options()}
    code = go_on(
        opened, run_id, {}, given, as_json=as_json, stream=not no_stream, show_traceback=show_traceback, ask=True
    )
    raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class Target:
    """What drives a stored run, with the journal the run is in. `model` is another than the agent's own."""

    target: Agent[Any, Any] | Graph[Any, Any, Any, Any]
    journal: Journal
    place: Place
    model: str | None = None

    def find(self, given: str) -> tuple[str, bool]:
        """The id of the run whose id is or begins with `given`, and whether it is known to have ended."""
        if not self.place.journal:
            return given, False
        info = with_journal(Path(self.place.journal), lambda opened: find_run(opened, given))
        return info.run_id, is_over(info.status)

    def options(self) -> dict[str, Any]:
        """What `agent.resume` or `resume_graph` is to be called with. Calls what `--deps` names."""
        deps = self.place.deps
        if isinstance(self.target, Agent):
            return {'model': self.model, 'deps': load_deps(self.target, deps)}
        return {'deps': load_deps(None, deps)}


def open_target(name: str | None, journal: Path | None, *, model: str | None, deps: str | None) -> Target:
    """Load the agent or graph of a stored run, with its journal. Raises `CommandError`."""
    if name is None:
        raise CommandError(
            'the code of a run is not in the journal: pass --target module:variable or path/to/file.py:variable, the agent '
            'the run belongs to'
        )
    target = load_graph(name)
    if not isinstance(target, Agent):
        if model is not None:
            raise CommandError(f'{name!r} is a graph, not an agent: --model has no use there')
        file = journal or DEFAULT_JOURNAL
        check_there(file)
        return Target(target, SQLiteJournal(file), Place(str(file), name, deps=deps))
    chosen, where = journal_for(target, journal)
    if where:
        check_there(where)
    target.journal = chosen
    return Target(target, chosen, Place(where, name, model, deps), model)


def go_on(
    opened: Target,
    run_id: str,
    answers: Answers,
    given: dict[str, Any],
    *,
    as_json: bool,
    stream: bool = True,
    show_traceback: bool = False,
    ask: bool = False,
) -> Exit:
    """Go on with a stored run and watch it; one that has ended is shown. `given` are the options of `agent.resume`."""

    def make(view: View) -> Driver:
        drive = _driver(opened.target, run_id, opened.journal, view, given, stream=stream)

        async def checked(answers: Answers) -> Outcome:
            records = await opened.journal.load(run_id)
            renamed = given.get('on_change') == 'continue'
            check_owner(opened.target, opened.place.target, run_id, records[0].entry, renamed=renamed)
            last = records[-1].entry
            return await drive(answers) if not isinstance(last, Ended) else Finished.of(run_id, last)

        return checked

    watched = Watch(opened.journal, opened.place, run_id, stream, as_json, ask, show_traceback)
    return watch(watched, make, answers)


def _driver(
    target: Agent[Any, Any] | Graph[Any, Any, Any, Any],
    run_id: str,
    journal: Journal,
    view: View,
    given: dict[str, Any],
    *,
    stream: bool,
) -> Driver:
    if isinstance(target, Agent):
        return agent_driver(target, run_id, view, stream=stream, resume=given)
    return lambda answers: resume_graph(target, run_id, journal=journal, answers=answers, **given)
