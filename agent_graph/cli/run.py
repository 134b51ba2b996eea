"""`agent-graph run`: run an agent once and watch it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agent_graph.cli.dialog import read_prompt
from agent_graph.cli.facts import Place
from agent_graph.cli.journals import JOURNAL_VARIABLE, journal_for
from agent_graph.cli.targets import TARGET_HELP, load_agent, load_deps
from agent_graph.cli.view import View
from agent_graph.cli.watching import Driver, Watch, agent_driver, watch
from agent_graph.engine.effects import new_run_id
from agent_graph.model import Model
from agent_graph.pending import Confirm

__all__ = [
    'ConfirmOption',
    'DepsOption',
    'ModelOption',
    'NoStreamOption',
    'OwnJournalOption',
    'TracebackOption',
    'model_text',
    'run',
]

ModelOption = Annotated[
    str | None,
    typer.Option(
        '--model', help='Another model than the agent\'s own, such as "openai:gpt-5-mini".', show_default=False
    ),
]
DepsOption = Annotated[
    str | None,
    typer.Option(
        '--deps',
        metavar='TARGET',
        help='The deps of the run: module:variable, a value or a function.',
        show_default=False,
    ),
]
OwnJournalOption = Annotated[
    Path | None,
    typer.Option(
        '--journal',
        metavar='PATH',
        envvar=JOURNAL_VARIABLE,
        help="SQLite file to record the run in. Default: the agent's own journal, else ./agent_graph.db.",
        show_default=False,
    ),
]
ConfirmOption = Annotated[
    Confirm,
    typer.Option('--confirm', help='Which tool calls wait for approval: those whose tool says so, all, or none.'),
]
NoStreamOption = Annotated[bool, typer.Option('--no-stream', help='Show nothing until the run has ended.')]
TracebackOption = Annotated[bool, typer.Option('--traceback', help='With an error, show where it was raised.')]


def run(
    target: Annotated[str, typer.Argument(metavar='TARGET', help=TARGET_HELP, show_default=False)],
    prompt: Annotated[
        str, typer.Argument(metavar='PROMPT', help='What to ask; "-" reads it from standard input.', show_default=False)
    ],
    model: ModelOption = None,
    deps: DepsOption = None,
    journal: OwnJournalOption = None,
    confirm: ConfirmOption = 'per_tool',
    as_json: Annotated[
        bool, typer.Option('--json', help='One JSON object a line: every event, then a report.')
    ] = False,
    no_stream: NoStreamOption = False,
    show_traceback: TracebackOption = False,
) -> None:
    """Run an agent once and watch it: nodes, text, tool calls and results as they come.

    Then come the output, what was used, what it cost, the run's id and the path it took as a mermaid graph. Ctrl-C
    cancels the run; it is then recorded as cancelled.

    When calls wait for people and standard input is a terminal, you are asked; what you leave for later, and everything
    where nobody can be asked (a pipe, `--json`), stays in the journal as a paused run, with the commands to go on.

    Exit codes: 0 the run completed; 1 it failed; 2 wrong arguments or set-up, nothing was run (a missing key is noticed
    in the first request); 3 it waits for people; 130 cancelled with Ctrl-C; 143 cancelled by SIGTERM.
    """
    agent = load_agent(target)
    text = read_prompt(prompt)
    chosen, where = journal_for(agent, journal)
    agent.journal = chosen
    given: dict[str, Any] = {'model': model, 'deps': load_deps(agent, deps)}
    run_id = new_run_id()

    def make(view: View) -> Driver:
        return agent_driver(
            agent,
            run_id,
            view,
            stream=not no_stream,
            resume=given,
            start=lambda: agent.run_stream_events(text, run_id=run_id, confirm=confirm, **given),
            began=lambda: view.begin(agent.name or 'agent', model_text(model or agent.model), text),
        )

    watched = Watch(
        chosen,
        Place(where, target, model, deps),
        run_id,
        stream=not no_stream,
        as_json=as_json,
        show_traceback=show_traceback,
    )
    raise typer.Exit(watch(watched, make))


def model_text(model: Model | str | None) -> str:
    """A model as people write it: `provider:name`."""
    if model is None:
        return 'no model'
    return model if isinstance(model, str) else f'{model.provider}:{model.name}'
