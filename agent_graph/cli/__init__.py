"""The command line: `agent-graph run` and `agent-graph graph`, one file a command. Typer and rich load only here.

Exit codes of all commands: 0 done, a run completed; 1 a run failed; 2 wrong arguments or set-up, nothing was run;
3 a run waits for people; 130 cancelled with Ctrl-C; 143 cancelled by SIGTERM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from agent_graph.cli.exits import CommandError, Exit
from agent_graph.cli.graph import graph
from agent_graph.cli.run import run

__all__ = ['app', 'main']

app = typer.Typer(
    name='agent-graph',
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode='markdown',  # flows paragraphs; docstrings are written in it anyway
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(graph)


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
        print(f'agent-graph: {error.message}', file=sys.stderr)
        sys.exit(int(error.code))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        sys.exit(int(Exit.FAILED))
