"""`agent-graph step`: a debugger for runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_graph.cli.debugger import Debugger
from agent_graph.cli.debugger.stepping import Opening, Setting
from agent_graph.cli.dialog import open_dialog
from agent_graph.cli.exits import CommandError, Exit, one_line
from agent_graph.cli.facts import Place
from agent_graph.cli.journals import check_there, find_run, journal_for, with_journal
from agent_graph.cli.run import ConfirmOption, DepsOption, ModelOption, OwnJournalOption, model_text
from agent_graph.cli.targets import TARGET_HELP, load_agent, load_deps
from agent_graph.cli.terminal import open_terminal
from agent_graph.cli.view import LiveView
from agent_graph.errors import AgentGraphError

__all__ = ['step']


def step(
    target: Annotated[str, typer.Argument(metavar='TARGET', help=TARGET_HELP, show_default=False)],
    prompt: Annotated[str | None, typer.Argument(metavar='[PROMPT]', help='What to ask.', show_default=False)] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar='ID', help='Step on through a stored run, instead of a new one.', show_default=False),
    ] = None,
    model: ModelOption = None,
    deps: DepsOption = None,
    journal: OwnJournalOption = None,
    confirm: ConfirmOption = 'per_tool',
) -> None:
    """Walk a run of an agent node by node: stop before each, look at what it holds, change it, go on.

    Commands, one a line, typed or from a pipe (the end of the input is `quit`):

    `next`, `continue`, `break NODE`, `break tool NAME`, `clear`, `edit args CALL JSON`, `show` (`state`, `messages`,
    `usage`, `node`), `fork here`, `approve` / `deny` / `answer CALL` where the run waits for people, `quit`, `help`.

    Leaving loses nothing: the run is in its journal, and the command to come back is printed. Ctrl-C at a prompt leaves;
    while a node runs it stops before the next one, and a second time it cancels the run.

    Exit codes: 0 the run completed; 1 it failed; 2 wrong arguments or set-up, nothing was run; 3 left before its end, it
    can be resumed; 130 left or cancelled with Ctrl-C; 143 left or cancelled by SIGTERM.
    """
    if (prompt is None) == (resume is None):
        raise CommandError('pass either a PROMPT for a new run, or --resume ID to step on through a stored one')
    agent = load_agent(target)
    chosen, where = journal_for(agent, journal)
    agent.journal = chosen
    given: dict[str, Any] = {'model': model, 'deps': load_deps(agent, deps)}
    if resume is not None and where:
        check_there(where)
        given_id = resume
        resume = with_journal(Path(where), lambda opened: find_run(opened, given_id)).run_id
    out = open_terminal()
    dialog = open_dialog(out, pipe=True)
    if dialog is None:
        raise CommandError('there is no standard input to read commands from')
    view = LiveView(out)
    debugger = Debugger(Setting(agent, chosen, Place(where, target), given), dialog)

    async def walk() -> Exit:
        if resume is None:
            view.begin(agent.name or 'agent', model_text(model or agent.model), prompt or '')
            opening: Opening = agent.iter(prompt, confirm=confirm, **given)
        else:
            opening = agent.resume_iter(resume, **given)
        try:
            return await debugger.walk(opening)
        finally:
            await chosen.aclose()

    try:
        code = asyncio.run(walk())
    except AgentGraphError as error:  # the run could not be opened; what happens inside one is shown by the debugger
        raise CommandError(one_line(error)) from error
    finally:
        view.close()
    raise typer.Exit(code)
