"""The command line: `agent-graph run`, `graph`, `step` and the group `runs`, one file a command. Typer and rich load only here.

Exit codes of all commands: 0 done, a run completed; 1 a run failed (`runs diff`: they differ); 2 wrong arguments or
set-up, nothing was done; 3 a run waits for people, or was left before its end; 130 cancelled with Ctrl-C; 143 cancelled by SIGTERM.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from agent_graph.cli.doctor import doctor
from agent_graph.cli.exits import CommandError, Exit
from agent_graph.cli.graph import graph
from agent_graph.cli.misuse import is_misuse, show_error, show_misuse
from agent_graph.cli.models import models
from agent_graph.cli.requirements import installed_version
from agent_graph.cli.run import run
from agent_graph.cli.runs import runs
from agent_graph.cli.step import step

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
app.command()(models)
app.command()(doctor)
app.add_typer(runs, name='runs')


def _show_version(wanted: bool) -> None:
    if wanted:
        print(
            f'agent-graph {installed_version("agent-graph") or "(not installed)"}, Python {platform.python_version()}'
        )
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[  # pyright: ignore[reportUnusedParameter]
        bool, typer.Option('--version', callback=_show_version, is_eager=True, help='Show the version and exit.')
    ] = False,
) -> None:
    """Run agents, watch them, and see the graph they walk.

    Exit codes: 0 done, a run completed; 1 a run failed; 2 wrong arguments or set-up, nothing was run; 3 a run waits for
    people; 130 cancelled with Ctrl-C; 143 cancelled by SIGTERM.
    """


def main(args: Sequence[str] | None = None) -> None:
    """The entry point of `agent-graph`: errors a user can mend are one line on standard error, an object with `--json`.

    `args` are the arguments without the program's name, those of the process by default. Always ends in `SystemExit`.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, 'reconfigure'):
            stream.reconfigure(errors='backslashreplace')  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    given = sys.argv[1:] if args is None else list(args)
    as_json = '--json' in given
    try:
        code = app(args=given, standalone_mode=False)
    except CommandError as error:
        show_error(error.message, error.code, as_json=as_json)
        code = error.code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        code = Exit.FAILED
    except typer.Abort:
        code = Exit.FAILED
    except Exception as error:
        if not is_misuse(error):
            raise
        code = show_misuse(error, as_json=as_json)
    sys.exit(int(code) if isinstance(code, int) else 0)
