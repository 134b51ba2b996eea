"""`agent-graph step`: a debugger for runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from agent_graph.cli.debugger import Debugger
from agent_graph.cli.debugger.stepping import Opening, Setting
from agent_graph.cli.dialog import open_dialog
from agent_graph.cli.exits import CommandError, Exit, one_line
from agent_graph.cli.facts import Place
from agent_graph.cli.journals import check_there, find_run, journal_for, with_journal
from agent_graph.cli.run import ConfirmOption, DepsOption, ModelOption, OwnJournalOption, model_text
from agent_graph.cli.targets import TARGET_HELP, check_owner, load_agent, load_deps
from agent_graph.cli.terminal import open_terminal
from agent_graph.cli.view import LiveView
from agent_graph.errors import AgentGraphError
from agent_graph.journal import Journal
from agent_graph.pending import Confirm

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
    if prompt == '':
        raise CommandError('the prompt is empty; say what to ask')
    agent = load_agent(target)
    chosen, where = journal_for(agent, journal)
    agent.journal = chosen
    setting = Setting(
        agent, chosen, Place(where, target, model, deps), {'model': model, 'deps': load_deps(agent, deps)}
    )
    stored = None if resume is None else _stored(setting, resume)
    raise typer.Exit(_debug(setting, prompt, stored, confirm))


def _stored(setting: Setting, given: str) -> str:
    """The id of the run whose id is or begins with `given`, in the file of a journal; as it is where there is no file."""
    place = setting.place
    if not place.journal:
        return given
    check_there(place.journal)

    async def find(journal: Journal) -> str:
        run_id = (await find_run(journal, given)).run_id
        (first,) = await journal.load(run_id, upto=1)
        check_owner(setting.agent, place.target, run_id, first.entry)
        return run_id

    return with_journal(Path(place.journal), find)


def _debug(setting: Setting, prompt: str | None, stored: str | None, confirm: Confirm) -> Exit:
    """Step through a new run, or one that is stored; how it ended, or that it was left."""
    out = open_terminal()
    dialog = open_dialog(out, pipe=True)
    if dialog is None:
        raise CommandError('there is no standard input to read commands from')
    view, debugger = LiveView(out), Debugger(setting, dialog)

    async def walk() -> Exit:
        try:
            return await debugger.walk(_opening(setting, view, prompt, stored, confirm))
        finally:
            await setting.journal.aclose()

    try:
        return asyncio.run(walk())
    except AgentGraphError as error:  # the run could not be opened; what happens inside one is shown by the debugger
        raise CommandError(one_line(error)) from error
    finally:
        view.close()


def _opening(setting: Setting, view: LiveView, prompt: str | None, stored: str | None, confirm: Confirm) -> Opening:
    agent, given = setting.agent, setting.options
    if stored is not None:
        return agent.resume_iter(stored, **given)
    view.begin(agent.name or 'agent', model_text(given['model'] or agent.model), prompt or '')
    return agent.iter(prompt, confirm=confirm, **given)
