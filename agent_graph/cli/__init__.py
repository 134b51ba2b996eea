"""The command line: `agent-graph run`, `graph`, `step` and the group `runs`, one file a command. Typer and rich load only here.

Exit codes of all commands: 0 done, a run completed; 1 a run failed (`runs diff`: they differ); 2 wrong arguments or
set-up, nothing was done; 3 a run waits for people, or was left before its end; 130 cancelled with Ctrl-C; 143 cancelled by SIGTERM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from agent_graph.cli.exits import CommandError, Exit
from agent_graph.cli.graph import graph
from agent_graph.cli.run import run
from agent_graph.cli.runs import runs
from agent_graph.cli.step import step
from agent_graph.cli.terminal import printable

__all__ = ['app', 'main']

app = typer.Typer(
    name='agent-graph',
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode='markdown',  # flows paragraphs; docstrings are written in it anyway
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(step)
app.command()(graph)
app.add_typer(runs, name='runs')


@app.callback()
def _commands() -> None:
    """Run agents, watch them, and see the graph they walk.

    Exit codes: 0 done, a run completed; 1 a run failed; 2 wrong arguments or set-up, nothing was run; 3 a run waits for
    people; 130 cancelled with Ctrl-C; 143 cancelled by SIGTERM.
    """


def main(args: Sequence[str] | None = None) -> None:
    """The entry point of `agent-graph`: errors a user can mend are one line on standard error.

    `args` are the arguments without the program's name, those of the process by default. Always ends in `SystemExit`.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, 'reconfigure'):
            stream.reconfigure(errors='backslashreplace')  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    try:
        app(args=None if args is None else list(args))
    except CommandError as error:
        print(f'agent-graph: {printable(error.message)}', file=sys.stderr)
        sys.exit(int(error.code))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        sys.exit(int(Exit.FAILED))
